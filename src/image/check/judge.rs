//! What was found in an image, compared with what is said of it.

use nix::sys::signal::Signal;

use crate::config::{VersionRange, release};
use crate::image::catalogue::{Accelerator, Entry};

use crate::image::check::Findings;
use crate::image::check::answer::{Answer, Try};

/// Graph compilers that the probe can try.
const TRIED: [&str; 2] = ["xla", "inductor"];

/// Compares what is said of an image with what was found in it; empty texts are not said. `gpus`: whose GPUs this machine has.
pub(crate) fn judge(claims: &Entry, answer: &Answer, gpus: &[Accelerator]) -> Findings {
    let mut found = Findings::default();
    let Some(best) = answer.best() else {
        found.problem("it has neither `python3` nor `python` on its PATH");
        return found;
    };
    found.check.versions = best.versions.clone();
    found.check.compilers = best.compiled.clone();
    found.check.gpus = best.gpus;
    found.check.mpi_abi = best.mpi_abi.clone();
    found.accelerators = best.built.clone();
    found.arch = best.python.as_ref().map(|python| python.arch.clone());
    found.notes = best.notes.clone();
    judge_python(claims, best, &mut found);
    judge_end(best, &mut found);
    judge_framework(claims, best, &mut found);
    judge_accelerator(claims, best, gpus, &mut found);
    judge_compilers(claims, best, &mut found);
    found
}

fn judge_python(claims: &Entry, best: &Try, found: &mut Findings) {
    let Some(python) = &best.python else {
        if best.code.is_some_and(|code| code < 128) {
            found.problem(format!("its `{}` does not run the probe", best.interpreter));
        }
        return;
    };
    let versions = &mut found.check.versions;
    versions.insert("python".to_owned(), python.version.clone());
    found.python_path = Some(python.path.clone());
    differs("Python", claims.python.as_deref(), &python.version, found);
    if !claims.arch.is_empty() && claims.arch != python.arch {
        found.problem(format!(
            "it is said to be for {}, and runs as {}",
            claims.arch, python.arch
        ));
    }
}

/// A Python that did not come to its end: which step killed it.
fn judge_end(best: &Try, found: &mut Findings) {
    let Some(code) = best.code.filter(|_| !best.complete) else {
        return;
    };
    let step = doing(best);
    let how = match code {
        132 => "was killed by SIGILL: its code is for a processor that has instructions which this one lacks"
            .to_owned(),
        137 => "was killed by SIGKILL, which is often for want of memory".to_owned(),
        code => match Signal::try_from(code - 128) {
            Ok(signal) => format!("was killed by {signal}"),
            Err(_) => format!("ended with exit code {code}"),
        },
    };
    found.problem(format!("`{}` {how}, {step}", best.interpreter));
}

/// The step in which it is, in words.
pub(crate) fn doing(best: &Try) -> String {
    match best.begun.as_deref() {
        None => "before it said anything".to_owned(),
        Some("import") => format!(
            "while it imported {}",
            best.installed.first().map_or("it", |name| name)
        ),
        Some("gpus") => "while it looked for GPUs".to_owned(),
        Some("mpi") => "while it loaded the MPI library".to_owned(),
        Some(step) => match step.strip_prefix("compile ") {
            Some(compiler) => format!("while {compiler} compiled"),
            None => "while it asked the framework what it is".to_owned(),
        },
    }
}

fn judge_framework(claims: &Entry, best: &Try, found: &mut Findings) {
    let Some(name) = best.installed.first() else {
        match claims.framework.as_str() {
            _ if !best.complete => {}
            "" => found.note("it has no framework that dlrun knows"),
            wanted => found.problem(format!("its Python has no {wanted}")),
        }
        return;
    };
    found.framework = Some(name.clone());
    if best.installed.len() > 1 {
        found.note(format!(
            "it has {}; {name} was tried",
            best.installed.join(", ")
        ));
    }
    if let Some(why) = best.fault("import").or(best.fault("backend")) {
        found.problem(format!("{name} cannot be imported: {why}"));
    }
    if let Some(version) = best.versions.get(name) {
        let claimed = Some(&claims.version[..]).filter(|claimed| !claimed.is_empty());
        differs(name, claimed, version, found);
    }
}

/// Notes a version that is not the one that is said.
fn differs(what: &str, claimed: Option<&str>, version: &str, found: &mut Findings) {
    if let Some(claimed) = claimed.filter(|claimed| !fits(claimed, version)) {
        found.problem(format!("{what} is said to be {claimed}, and is {version}"));
    }
}

fn judge_accelerator(claims: &Entry, best: &Try, gpus: &[Accelerator], found: &mut Findings) {
    for (name, claimed) in [("cuda", &claims.cuda), ("rocm", &claims.rocm)] {
        let (Some(claimed), Some(version)) = (claimed, best.versions.get(name)) else {
            continue;
        };
        // Some frameworks name the major version alone.
        if !fits(claimed, version) && !fits(version, claimed) {
            found.problem(format!("{name} is said to be {claimed}, and is {version}"));
        }
    }
    let wanted = claims.accelerator;
    if wanted == Accelerator::None {
        return;
    }
    if best
        .built
        .as_ref()
        .is_some_and(|kinds| !kinds.contains(&wanted))
    {
        found.problem(format!(
            "its framework is not built for GPUs of {}",
            maker(wanted)
        ));
        return;
    }
    if !gpus.contains(&wanted) {
        return;
    }
    if let Some(why) = best.fault("gpus") {
        found.problem(format!(
            "its framework cannot use this machine's GPUs: {why}"
        ));
    } else if best.gpus == Some(0) {
        found.problem(format!(
            "this machine has GPUs of {}, and its framework sees none",
            maker(wanted)
        ));
    }
}

fn maker(accelerator: Accelerator) -> &'static str {
    match accelerator {
        Accelerator::None => "nobody",
        Accelerator::Nvidia => "NVIDIA",
        Accelerator::Amd => "AMD",
    }
}

/// Whether a version is the claimed one: the same numbers as far as the claim goes, so that 2.1 is 2.1.3 and never 2.10, and the same
/// suffix of a preview. What follows a `+` says who built it and is left out (PEP 440, local versions).
fn fits(claimed: &str, found: &str) -> bool {
    let parts = |version: &str| {
        let version = version.trim_start_matches('v').split('+').next();
        let version = version.unwrap_or_default();
        let numbers = release(version).0;
        let mut rest = version[numbers.len()..].split(['.', '-', '_']);
        let word = rest.find(|word| !word.is_empty()).unwrap_or_default();
        let preview = release(&format!("0{word}")).1;
        (
            numbers.to_owned(),
            preview.filter(|suffix| !suffix.starts_with("post")),
        )
    };
    let ((claimed, preview), (found, found_preview)) = (parts(claimed), parts(found));
    let range = VersionRange::parse(&claimed);
    // 2.1 is 2.1.0.
    let exact = VersionRange::parse(&format!("{found}.0.0"));
    let is_in_range = range.is_ok_and(|range| exact.is_ok_and(|exact| range.holds(&exact)));
    preview == found_preview && (is_in_range || claimed == found)
}

fn judge_compilers(claims: &Entry, best: &Try, found: &mut Findings) {
    for (step, why) in &best.faults {
        let Some(name) = step.strip_prefix("compile ") else {
            continue;
        };
        let text = format!("{name} does not compile: {why}");
        let is_claimed = claims.compilers.iter().any(|claimed| claimed == name);
        if is_claimed {
            &mut found.check.problems
        } else {
            &mut found.notes
        }
        .push(text);
    }
    if !best.complete || best.fault("import").is_some() || best.installed.is_empty() {
        return;
    }
    for name in &claims.compilers {
        let is_known =
            best.compiled.contains(name) || best.fault(&format!("compile {name}")).is_some();
        if is_known {
            continue;
        }
        if TRIED.contains(&name.as_str()) {
            found.problem(format!("its framework has no compiler {name}"));
        } else {
            found.note(format!("dlrun does not know how to try {name}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_the_claimed_one_by_its_numbers() {
        for (claimed, found) in [
            ("2.1", "2.1.3"),
            ("2.1.0", "2.1"),
            ("2.4.1", "2.4.1+cu121"),
            ("2.4.1+cpu", "2.4.1"),
            ("v2.10", "2.10.0"),
            ("6.2", "6.2.41133-dd7f95766"),
            ("2.4.0rc1", "2.4.0-rc1"),
            ("3.11", "3.11.2"),
        ] {
            assert!(fits(claimed, found), "{claimed} {found}");
        }
        for (claimed, found) in [
            ("2.1", "2.10"),
            ("2.10", "2.1"),
            ("2.1.3", "2.1"),
            ("2.4.0", "2.4.0rc1"),
            ("2.4", "2.4.0.dev20240101"),
            ("2.4.0rc1", "2.4.0"),
            ("2.4.0", "2.4.0rc1.dev3"),
            ("2.4.0", "2.4.0-rc1-12-gabc"),
            ("2", "3.0"),
            ("1.14", "1.1.4"),
        ] {
            assert!(!fits(claimed, found), "{claimed} {found}");
        }
    }

    fn pytorch() -> Try {
        let text = |pairs: &[(&str, &str)]| {
            pairs
                .iter()
                .map(|(name, version)| ((*name).to_owned(), (*version).to_owned()))
                .collect()
        };
        Try {
            interpreter: "python3".to_owned(),
            python: Some(crate::image::check::answer::Python {
                version: "3.11.2".to_owned(),
                arch: "x86_64".to_owned(),
                path: "/usr/bin/python3".to_owned(),
            }),
            installed: vec!["pytorch".to_owned()],
            versions: text(&[("pytorch", "2.4.1+cu121"), ("cuda", "12.1")]),
            built: Some(vec![Accelerator::Nvidia]),
            compiled: vec!["inductor".to_owned()],
            gpus: Some(2),
            mpi_abi: Some("libmpi.so.40".to_owned()),
            complete: true,
            code: Some(0),
            ..Try::default()
        }
    }

    fn claims() -> Entry {
        Entry {
            framework: "pytorch".to_owned(),
            version: "2.4.1".to_owned(),
            arch: "x86_64".to_owned(),
            accelerator: Accelerator::Nvidia,
            cuda: Some("12.1".to_owned()),
            compilers: vec!["inductor".to_owned()],
            python: Some("3.11".to_owned()),
            ..Entry::default()
        }
    }

    fn problems(claims: &Entry, one: Try) -> Vec<String> {
        let answer = Answer {
            shell: true,
            tries: vec![one],
            ..Answer::default()
        };
        judge(claims, &answer, &[Accelerator::Nvidia])
            .check
            .problems
    }

    #[test]
    fn an_image_that_is_as_described_has_no_problem() {
        assert_eq!(problems(&claims(), pytorch()), [""; 0]);
        let answer = Answer {
            shell: true,
            tries: vec![pytorch()],
            ..Answer::default()
        };
        let found = judge(&Entry::default(), &answer, &[]);
        assert_eq!(
            (found.framework.as_deref(), found.check.mpi_abi.as_deref()),
            (Some("pytorch"), Some("libmpi.so.40"))
        );
    }

    #[test]
    fn each_difference_is_a_problem() {
        type Change = fn(&mut Entry, &mut Try);
        let cases: [(Change, &str); 17] = [
            (
                |c, _| c.version = "2.4.10".into(),
                "pytorch is said to be 2.4.10, and is 2.4.1+cu121",
            ),
            (
                |c, _| c.python = Some("3.1".into()),
                "Python is said to be 3.1, and is 3.11.2",
            ),
            (
                |c, _| c.arch = "aarch64".into(),
                "for aarch64, and runs as x86_64",
            ),
            (
                |c, _| c.cuda = Some("12.4".into()),
                "cuda is said to be 12.4, and is 12.1",
            ),
            (
                |c, _| c.compilers = vec!["xla".into()],
                "has no compiler xla",
            ),
            (
                |_, t| {
                    t.compiled.clear();
                    t.faults.push(("compile inductor".into(), "no g++".into()));
                },
                "inductor does not compile: no g++",
            ),
            (|_, t| t.gpus = Some(0), "sees none"),
            (
                |_, t| t.faults.push(("gpus".into(), "too old a driver".into())),
                "GPUs: too old a driver",
            ),
            (
                |_, t| t.built = Some(vec![]),
                "not built for GPUs of NVIDIA",
            ),
            (
                |_, t| t.faults.push(("import".into(), "OSError: x".into())),
                "cannot be imported: OSError: x",
            ),
            (|_, t| t.installed.clear(), "its Python has no pytorch"),
            (|_, t| t.python = None, "does not run the probe"),
            (
                |_, t| end(t, "import", 132),
                "SIGILL: its code is for a processor that has instructions",
            ),
            (
                |_, t| end(t, "compile inductor", 139),
                "SIGSEGV, while inductor compiled",
            ),
            (
                |_, t| end(t, "gpus", 1),
                "ended with exit code 1, while it looked for GPUs",
            ),
            (
                |_, t| end(t, "mpi", 137),
                "want of memory, while it loaded the MPI library",
            ),
            (
                |_, t| end(t, "build", 143),
                "SIGTERM, while it asked the framework",
            ),
        ];
        for (change, part) in cases {
            let (mut claims, mut one) = (claims(), pytorch());
            change(&mut claims, &mut one);
            let problems = problems(&claims, one);
            assert!(
                matches!(&problems[..], [one] if one.contains(part)),
                "{part}: {problems:?}"
            );
        }
    }

    fn end(one: &mut Try, step: &str, code: i32) {
        one.begun = Some(step.to_owned());
        (one.complete, one.code) = (false, Some(code));
    }

    #[test]
    fn what_is_not_claimed_is_a_note() {
        let mut one = pytorch();
        one.faults.push(("compile xla".to_owned(), "x".to_owned()));
        one.gpus = None;
        one.installed.push("jax".to_owned());
        let claims = Entry {
            compilers: vec!["glow".to_owned()],
            ..Entry::default()
        };
        let answer = Answer {
            shell: true,
            tries: vec![one],
            ..Answer::default()
        };
        let found = judge(&claims, &answer, &[]);
        assert_eq!(found.check.problems, [""; 0]);
        assert_eq!(found.notes.len(), 3, "{:?}", found.notes);
    }

    #[test]
    fn an_image_without_python_says_so() {
        let answer = Answer {
            shell: true,
            ..Answer::default()
        };
        let found = judge(&claims(), &answer, &[]);
        assert_eq!(
            found.check.problems,
            ["it has neither `python3` nor `python` on its PATH"]
        );
    }
}
