//! Runs an image once, with a small program in it that tells what is there, and holds that against what is said of it.

mod answer;
mod judge;
#[cfg(test)]
mod tests_of_probe;

use std::collections::BTreeMap;
use std::time::Duration;

pub use judge::Claims;

use self::answer::Answer;
use crate::foundation::command::{CommandError, News, Output, Stream, Tool, Words};
use crate::image::catalogue::Accelerator;
use crate::image::flags::{
    Container, GpuFacts, Invocation, NodeFacts, Refusal, Surroundings, choose,
};
use crate::image::runtime::{ContainerError, prefixes_of};

/// The image's shell runs this; it looks for Python.
const SHELL: &str = include_str!("probe.sh");
/// Python runs this.
const PROBE: &str = include_str!("probe.py");
/// An image that prints more than this is stopped, in bytes. Frameworks print some 10 kB.
const MAX_OUTPUT_BYTES: usize = 16 << 20;
/// How long the runtime may take to clear up after it was told to end.
const GRACE: Duration = Duration::from_secs(5);
/// Variables by which GPUs are given to a job, and those that tell that this is one.
const OF_JOB: [&str; 6] = [
    "CUDA_VISIBLE_DEVICES",
    "NVIDIA_VISIBLE_DEVICES",
    "ROCR_VISIBLE_DEVICES",
    "HIP_VISIBLE_DEVICES",
    "SLURM_JOB_ID",
    "PBS_JOBID",
];
/// Variables of the user, without their beginning, that would change what the container sees.
const FOREIGN: [&str; 15] = [
    "BIND", "MOUNT", "CONTAIN", "CLEANENV", "NV", "ROCM", "FAKEROOT", "WRITABLE", "OVERLAY",
    "HOME", "WORKDIR", "NETWORK", "NO_EVAL", "PWD", "CWD",
];

/// An image to be checked.
#[derive(Debug)]
pub struct Call<'a> {
    /// A path, or a URI that the runtime knows.
    pub source: &'a str,
    /// It is a directory.
    pub is_sandbox: bool,
    /// It runs with `--fakeroot` only.
    pub needs_fakeroot: bool,
    /// What is said of it.
    pub claims: &'a Claims,
    /// How long it may take.
    pub patience: Duration,
}

/// What was found.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Findings {
    /// What is wrong; empty: it is as it is described.
    pub problems: Vec<String>,
    /// What else is worth saying.
    pub notes: Vec<String>,
    /// The framework that was tried.
    pub framework: Option<String>,
    /// The Python that has it.
    pub python_path: Option<String>,
    /// Versions, by name: `python`, `pytorch`, `cuda`, `openmpi`, ...
    pub versions: BTreeMap<String, String>,
    /// Graph compilers that compiled something.
    pub compilers: Vec<String>,
    /// What the framework was built for; `None`: it does not say.
    pub accelerators: Option<Vec<Accelerator>>,
    /// As `uname -m` has it in the image.
    pub arch: Option<String>,
    /// GPUs that the framework saw; `None`: it was not asked, since this machine has none.
    pub gpus: Option<u32>,
    /// The name of the MPI library: `libmpi.so.40`, `libmpi.so.12`.
    pub mpi_abi: Option<String>,
}

impl Findings {
    fn problem(&mut self, problem: impl Into<String>) {
        self.problems.push(problem.into());
    }

    fn note(&mut self, note: impl Into<String>) {
        self.notes.push(note.into());
    }

    /// The claims, filled up with what was found. A GPU build makes an image for GPUs, unless it is said to be none.
    #[must_use]
    pub fn fill(&self, claims: Claims) -> Claims {
        let version = |name: &str| self.versions.get(name).cloned();
        let framework = claims.framework.or_else(|| self.framework.clone());
        let built = self
            .accelerators
            .as_ref()
            .map(|kinds| kinds.first().copied().unwrap_or_default());
        let accelerator = claims.accelerator.or(built);
        let of = |kind, name: &str| {
            if accelerator == Some(kind) {
                version(name)
            } else {
                None
            }
        };
        let mpi = ["openmpi", "mpich", "intelmpi", "mvapich"]
            .into_iter()
            .find_map(|name| Some(format!("{name} {}", version(name)?)));
        Claims {
            version: claims.version.or_else(|| version(framework.as_deref()?)),
            arch: claims.arch.or_else(|| self.arch.clone()),
            cuda: claims.cuda.or_else(|| of(Accelerator::Nvidia, "cuda")),
            rocm: claims.rocm.or_else(|| of(Accelerator::Amd, "rocm")),
            compilers: if claims.compilers.is_empty() {
                self.compilers.clone()
            } else {
                claims.compilers
            },
            python: claims.python.or_else(|| version("python")),
            mpi: claims.mpi.or(mpi),
            accelerator,
            framework,
        }
    }
}

/// Runs the image. It sees nothing of the user: neither home directory nor environment, and no network.
///
/// `goes_on` is asked ten times a second; its `false` stops the check.
///
/// # Errors
/// [`ContainerError::NotTried`] where the reason is not the image's: the runtime cannot start it here, or it was stopped.
pub fn check(
    call: &Call<'_>,
    node: &NodeFacts,
    mut goes_on: impl FnMut() -> bool,
) -> Result<Findings, ContainerError> {
    let not_tried = |why: String| ContainerError::NotTried(call.source.to_owned(), why);
    let invocation = invocation(call, node).map_err(|refusal| not_tried(refusal.to_string()))?;
    let gpus = gpus(&node.gpus);
    let marker = marker(call.source);
    let tool = tool(&invocation, call, &marker, !gpus.is_empty());
    let mut answer = Answer::default();
    let (mut printed, mut asked) = (0_usize, true);
    let ended = tool.run_lines_while(|news| {
        if let News::Line(stream, line) = news {
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
        _ => judge::judge(call.claims, &answer, &gpus),
    };
    found.problems.splice(0..0, fault);
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
fn invocation(call: &Call<'_>, node: &NodeFacts) -> Result<Invocation, Refusal> {
    let container = Container {
        source: call.source.to_owned(),
        fakeroot: call.needs_fakeroot,
        cleanenv: true,
        options: ["--containall", "--net", "--network=none"]
            .map(str::to_owned)
            .to_vec(),
        ..Container::default()
    };
    let variables = |name: &str| {
        OF_JOB
            .contains(&name)
            .then(|| std::env::var(name).ok())
            .flatten()
    };
    let around = Surroundings {
        variables: &variables,
        names: &OF_JOB.map(str::to_owned),
        exists: &|_| true,
        is_sandbox: call.is_sandbox,
    };
    choose(&container, node, &around)
}

fn tool(invocation: &Invocation, call: &Call<'_>, marker: &str, gpus: bool) -> Tool {
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
        .args(["sh", "-c", SHELL, "sh", marker])
        .arg(call.claims.framework.as_deref().unwrap_or_default())
        .args([if gpus { "gpus" } else { "none" }, PROBE])
        .env_remove_prefixes(&prefixes)
        .current_dir("/")
        .timeout(call.patience)
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

/// What no image prints by chance.
fn marker(source: &str) -> String {
    format!("dlrun-probe-{}-{}", std::process::id(), source.len())
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
    let has = |words: &[&str]| words.iter().any(|word| said.contains(word));
    if has(&["executable file not found", "stat /bin/sh"])
        || said.ends_with("/sh: no such file or directory")
    {
        return Ok(Some(
            "it has no shell: there is no `sh` on its PATH that runs".to_owned(),
        ));
    }
    if has(&["exec format error", "architecture"]) {
        return Ok(Some(format!(
            "its programs are not for this machine: {said}"
        )));
    }
    if has(&[
        "bad superblock",
        "corrupt",
        "image format not recognized",
        "no partition",
    ]) {
        return Ok(Some(format!("it is not a whole image: {said}")));
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
        let claims = Claims::default();
        let call = Call {
            source: "/i/x.sif",
            is_sandbox: false,
            needs_fakeroot: false,
            claims: &claims,
            patience: Duration::from_secs(1),
        };
        let argv = invocation(&call, &node).expect("it may start").argv;
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
