//! Runs an image once, with a small program in it that reports what is there, and compares that with its description.

mod answer;
mod judge;
#[cfg(test)]
mod tests_of_probe;

use std::time::Duration;

use serde::Serialize;

use self::answer::Answer;
use crate::foundation::command::{CommandError, Output, Stream, Tool, Words};
use crate::image::catalogue::{Accelerator, Check, Entry};
use crate::image::flags::{
    Container, GpuFacts, Invocation, NodeFacts, Refusal, Surroundings, choose,
};
use crate::image::runtime::{ContainerError, prefixes_of};
use crate::job::SchedulerVariables;

/// The image's shell runs this; it looks for Python.
const SHELL: &str = include_str!("probe.sh");
/// Python runs this.
const PROBE: &str = include_str!("probe.py");
/// An image that prints more than this is stopped, in bytes. Frameworks print some 10 kB.
const MAX_OUTPUT_BYTES: usize = 16 << 20;
/// How long the runtime may take to clear up after it was told to end.
const GRACE: Duration = Duration::from_secs(5);
/// Variables by which GPUs are given to a job.
const GPUS: [&str; 4] = [
    "CUDA_VISIBLE_DEVICES",
    "NVIDIA_VISIBLE_DEVICES",
    "ROCR_VISIBLE_DEVICES",
    "HIP_VISIBLE_DEVICES",
];
/// Variables of the user, without their beginning, that would change what the container sees.
const FOREIGN: [&str; 15] = [
    "BIND", "MOUNT", "CONTAIN", "CLEANENV", "NV", "ROCM", "FAKEROOT", "WRITABLE", "OVERLAY",
    "HOME", "WORKDIR", "NETWORK", "NO_EVAL", "PWD", "CWD",
];

/// What was found.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Findings {
    /// The framework that was tried.
    pub framework: Option<String>,
    /// The Python that has it.
    #[serde(rename = "python")]
    pub python_path: Option<String>,
    /// What the catalogue keeps of it.
    pub check: Check,
    /// What else is worth saying.
    pub notes: Vec<String>,
    /// What the framework was built for; `None`: it does not say.
    #[serde(skip)]
    pub accelerators: Option<Vec<Accelerator>>,
    /// As `uname -m` has it in the image.
    #[serde(skip)]
    pub arch: Option<String>,
}

impl Findings {
    /// Adds what is wrong with the image.
    pub fn problem(&mut self, problem: impl Into<String>) {
        self.check.problems.push(problem.into());
    }

    fn note(&mut self, note: impl Into<String>) {
        self.notes.push(note.into());
    }

    /// Fills in what a description leaves open.
    pub fn complete(&self, entry: &mut Entry) {
        let version = |name: &str| self.check.versions.get(name).cloned();
        let fill = |text: &mut String, found: Option<String>| {
            if text.is_empty() {
                text.extend(found);
            }
        };
        fill(&mut entry.framework, self.framework.clone());
        fill(&mut entry.version, version(&entry.framework));
        fill(&mut entry.arch, self.arch.clone());
        if entry.accelerator == Accelerator::None {
            let built = self.accelerators.iter().flatten().next();
            entry.accelerator = built.copied().unwrap_or_default();
        }
        match entry.accelerator {
            Accelerator::None => {}
            Accelerator::Nvidia => entry.cuda = entry.cuda.take().or_else(|| version("cuda")),
            Accelerator::Amd => entry.rocm = entry.rocm.take().or_else(|| version("rocm")),
        }
        if entry.compilers.is_empty() {
            entry.compilers.clone_from(&self.check.compilers);
        }
        entry.python = entry.python.take().or_else(|| version("python"));
    }
}

/// Runs the image that `entry` describes as far as that is known. It sees nothing of the user: neither home directory nor
/// environment, and no network.
///
/// `goes_on` is asked ten times a second; its `false` stops the check.
///
/// # Errors
/// [`ContainerError::NotTried`] where the reason is not the image's: the runtime cannot start it here, or it was stopped.
pub fn check(
    entry: &Entry,
    is_sandbox: bool,
    patience: Duration,
    node: &NodeFacts,
    mut goes_on: impl FnMut() -> bool,
) -> Result<Findings, ContainerError> {
    let source = entry.place.to_string();
    let not_tried = |why: String| ContainerError::NotTried(source.clone(), why);
    let invocation =
        invocation(entry, is_sandbox, node).map_err(|refusal| not_tried(refusal.to_string()))?;
    let gpus = gpus(&node.gpus);
    // What no image prints by chance.
    let marker = format!("dlrun-probe-{}-{}", std::process::id(), source.len());
    let what = ["none", "gpus"][usize::from(!gpus.is_empty())];
    let tool = tool(&invocation)
        .args([marker.as_str(), &entry.framework, what, PROBE])
        .timeout(patience);
    let mut answer = Answer::default();
    let (mut printed, mut asked) = (0_usize, true);
    let ended = tool.run_lines(|news| {
        if let Some((stream, line)) = news {
            printed = printed.saturating_add(line.len() + 1);
            if stream == Stream::Stdout {
                answer.take(&marker, line);
            }
        }
        asked = goes_on();
        asked && printed <= MAX_OUTPUT_BYTES
    });
    let fault = match ended {
        Ok(output) => fault_of_start(&answer, &output).map_err(not_tried)?,
        Err(CommandError::TimedOut { seconds, .. }) => Some(format!(
            "it gave no answer within {seconds} s, {}",
            answer
                .best()
                .map_or("before its shell ran".to_owned(), judge::doing)
        )),
        Err(CommandError::Stopped { .. }) if asked => Some(format!(
            "it printed more than {} MiB and was stopped",
            MAX_OUTPUT_BYTES >> 20
        )),
        Err(CommandError::Stopped { .. }) => return Err(not_tried("it was stopped".to_owned())),
        Err(source) => {
            return Err(ContainerError::Runtime((&node.command).into(), source));
        }
    };
    let mut found = match &fault {
        Some(_) if answer.best().is_none() => Findings::default(),
        _ => judge::judge(entry, &answer, &gpus),
    };
    found.check.problems.splice(0..0, fault);
    Ok(found)
}

/// Whose GPUs are here.
fn gpus(facts: &GpuFacts) -> Vec<Accelerator> {
    let nvidia = facts.nvidia_device || facts.nvidia_driver.is_some();
    let there = [
        (nvidia, Accelerator::Nvidia),
        (facts.amd_device, Accelerator::Amd),
    ];
    there
        .into_iter()
        .filter(|(is_there, _)| *is_there)
        .map(|(_, kind)| kind)
        .collect()
}

/// The words of the runtime: as a job's, but alone with itself.
fn invocation(entry: &Entry, is_sandbox: bool, node: &NodeFacts) -> Result<Invocation, Refusal> {
    let container = Container {
        source: entry.place.to_string(),
        fakeroot: entry.needs_fakeroot,
        cleanenv: true,
        options: ["--containall", "--net", "--network=none"]
            .map(str::to_owned)
            .to_vec(),
        ..Container::default()
    };
    let job_ids = SchedulerVariables::ALL.map(|variables| variables.job_id);
    let names = GPUS.iter().chain(&job_ids).map(|name| (*name).to_owned());
    let names: Vec<String> = names.collect();
    let is_of_job = |name: &str| names.iter().any(|known| known == name);
    let variables = |name: &str| std::env::var(name).ok().filter(|_| is_of_job(name));
    let around = Surroundings {
        variables: &variables,
        names: &names,
        exists: &|_| true,
        is_sandbox,
    };
    choose(&container, node, &around)
}

fn tool(invocation: &Invocation) -> Tool {
    let (program, words) = invocation
        .argv
        .split_first()
        .map_or(("", &[][..]), |(first, rest)| (first, rest));
    let mut prefixes = Vec::new();
    for product in prefixes_of(None) {
        prefixes.extend(FOREIGN.map(|name| format!("{product}_{name}")));
        prefixes.push(format!("{product}ENV_"));
    }
    let prefixes: Vec<&str> = prefixes.iter().map(String::as_str).collect();
    let mut tool = Tool::new(program)
        .args(words)
        .args(["sh", "-c", SHELL, "sh"])
        .env_remove_prefixes(&prefixes)
        .current_dir("/")
        .grace(GRACE)
        .ends_with_us();
    for name in &invocation.removals {
        tool = tool.env_remove(name);
    }
    for (name, value) in &invocation.sets {
        tool = tool.env(name, value);
    }
    tool
}

/// Why an image's shell did not run: `Ok` with what is wrong with the image, `Err` with what is wrong here.
fn fault_of_start(answer: &Answer, output: &Output) -> Result<Option<String>, String> {
    if answer.shell {
        return Ok(None);
    }
    let said = output
        .stderr
        .lines()
        .rev()
        .find(|line| line.starts_with("FATAL") || line.starts_with("ERROR"));
    let said = said.map_or_else(
        || {
            Words::end_of(&output.stderr)
                .map_or_else(|| "it said nothing".to_owned(), |words| words.0)
        },
        |line| {
            line.split_once(':')
                .map_or(line, |(_, words)| words)
                .trim()
                .to_owned()
        },
    );
    let of_image = [
        "executable file not found",
        "stat /bin/sh",
        "/sh: no such file or directory",
        "exec format error",
        "architecture",
        "bad superblock",
        "corrupt",
        "image format not recognized",
        "no partition",
    ];
    if of_image.iter().any(|words| said.contains(words)) {
        return Ok(Some(format!("its shell does not start: {said}")));
    }
    Err(said)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_keep_everything_of_the_user_out() {
        let node = NodeFacts {
            command: "/usr/bin/apptainer".to_owned(),
            runtime: crate::image::runtime::Runtime::parse("apptainer version 1.4.5"),
            uid: 1000,
            gpus: GpuFacts {
                nvidia_device: true,
                cuda_library: Some(true),
                ..GpuFacts::default()
            },
            namespaces: crate::image::flags::Namespaces::default(),
            sub_ids: crate::image::flags::SubIds::default(),
            squashfuse: true,
            fuse_device: true,
        };
        let entry = Entry {
            place: crate::image::catalogue::Place::Path("/i/x.sif".into()),
            ..Entry::default()
        };
        let argv = invocation(&entry, false, &node).expect("it may start").argv;
        for word in [
            "exec",
            "--nv",
            "--cleanenv",
            "--containall",
            "--net",
            "--network=none",
        ] {
            assert!(argv.iter().any(|given| given == word), "{word}: {argv:?}");
        }
        assert_eq!(argv.last().map(String::as_str), Some("/i/x.sif"));
    }
}
