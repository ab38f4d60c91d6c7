//! What makes two runs alike: the same program with the same arguments on the same data, or the names that the job file declares.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::Followed;
use crate::foundation::units::hex;
use crate::job::{Argument, JobState, RunId, SchedulerKind, Workload, arguments};

/// What a run is a run of, as it was known when it was submitted. Values of secrets are no part of it.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Identity {
    /// Names the workload: a readable stem and a hash of what was declared, or of program, script, and words.
    pub key: String,
    /// What `[workload]` declares, in words; `None`: it names no network, and the command tells what is run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub declared: Option<String>,
    /// Base name of the program; every `python3.11` is `python`.
    pub program: String,
    /// The entry script, absolute, or `-m MODULE`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub script: Option<String>,
    /// SHA-256 of that script, in hexadecimal digits; `None`: it is no file, or too long.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub script_digest: Option<String>,
    /// The other arguments: `#` stands for a number, `@` for a path; seeds, ports, ids of runs and outputs are left out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub words: Vec<String>,
    /// The numbers among the arguments, by name or place.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub numbers: BTreeMap<String, f64>,
    /// The paths among the arguments that may be read.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub inputs: Vec<Input>,
    /// Image, Python environment or host, with software and variables that the site adds.
    #[serde(default)]
    pub environment: String,
    /// The command and its arguments as the job file has them; `***` in the place of secrets, long ones cut.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
    /// The commit that was checked out around the script, else around the working directory, when the run was submitted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub git: Option<Revision>,
    /// What was asked of the scheduler.
    #[serde(default)]
    pub asked: Asked,
    /// The advice on the run before that it follows; `None`: it follows none, or differs from that run in more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub followed: Option<Followed>,
}

/// A commit of git, and whether the files were as it has them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Revision {
    /// The commit, in hexadecimal digits.
    pub commit: String,
    /// The branch; `None`: none was checked out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    /// Whether files that git knows were changed since.
    pub dirty: bool,
}

/// A path that a program is given.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Input {
    /// Absolute where it was there.
    pub path: String,
    /// SHA-256 of a small file, in hexadecimal digits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// Length of a file, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
}

/// The shape of a job and its limits.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Asked {
    /// The queue that it went to, by its own word or the site's default; `None`: not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    /// Nodes.
    pub nodes: u32,
    /// Tasks on each node.
    pub tasks_per_node: u32,
    /// CPUs of each task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpus_per_task: Option<u32>,
    /// GPUs on each node: `2`, `v100:2`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpus_per_node: Option<String>,
    /// What else decides the place and the share of it: constraint, whole nodes, launcher, array, options handed through.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub else_asked: Vec<String>,
    /// Memory limit of a node, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
    /// Time limit, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub walltime_seconds: Option<u64>,
    /// GPUs of all nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpus: Option<u64>,
    /// Account.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub account: Option<String>,
    /// Quality of service.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub qos: Option<String>,
}

impl Asked {
    /// Whether two jobs had the same shape and queue. Limits are none of it: they are what is looked for.
    #[must_use]
    pub fn is_same_size(&self, other: &Self) -> bool {
        let shape = |asked: &Self| Self {
            memory_bytes: None,
            walltime_seconds: None,
            gpus: None,
            account: None,
            qos: None,
            ..asked.clone()
        };
        shape(self) == shape(other)
    }
}

/// A start of a run that is over, with what the next one needs.
#[derive(Debug, Clone, PartialEq)]
pub struct Past {
    /// The run.
    pub run_id: RunId,
    /// When it was submitted, in Unix milliseconds UTC.
    pub at_ms: u64,
    /// What it was a run of.
    pub identity: Identity,
    /// Who had it.
    pub scheduler: SchedulerKind,
    /// The host that it was submitted from; a local job ran there.
    pub host: String,
    /// How it ended; a start after which the job was started again is `preempted`.
    pub state: JobState,
    /// From its start to its end, in seconds.
    pub wall_seconds: Option<f64>,
    /// The largest memory of a node, in bytes.
    pub memory_bytes: Option<u64>,
}

impl Revision {
    /// `4b825dc`, `4b825dc with changes`.
    #[must_use]
    pub fn short(&self) -> String {
        let commit = self.commit.get(..7).unwrap_or(&self.commit);
        if self.dirty {
            format!("{commit} with changes")
        } else {
            commit.to_owned()
        }
    }
}

/// Arguments that say how many epochs there are.
const EPOCHS: &str = "epochs epoch num_epochs n_epochs nb_epochs max_epochs num_train_epochs train_epochs \
    total_epochs";
/// Arguments that say how many steps there are.
const STEPS: &str = "steps num_steps n_steps max_steps train_steps max_train_steps num_train_steps \
    training_steps total_steps steps_per_epoch iters num_iters max_iters total_iters \
    iterations num_iterations max_iter timesteps total_timesteps";
/// Arguments that say how many samples there are.
const SAMPLES: &str = "samples num_samples n_samples max_samples train_samples max_train_samples num_examples \
    dataset_size";
/// Arguments that say how many samples a step has, over all workers.
const BATCH: &str = "batch_size batch global_batch_size train_batch_size";

/// What a number counts, where a longer run has more of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Amount {
    /// Epochs, or steps.
    Epochs,
    /// Samples.
    Samples,
}

impl Amount {
    /// Of an argument, by its name.
    #[must_use]
    pub fn of(name: &str) -> Option<Self> {
        let name = last_part(name);
        let is_in = |names: &str| names.split(' ').any(|known| known == name);
        if is_in(EPOCHS) || is_in(STEPS) {
            Some(Self::Epochs)
        } else {
            is_in(SAMPLES).then_some(Self::Samples)
        }
    }
}

/// `trainer.max_epochs` is `max_epochs`, `$EPOCHS` is `epochs`.
fn last_part(name: &str) -> String {
    let part = name.rsplit(['.', '/', '$']).next().unwrap_or(name);
    part.to_ascii_lowercase()
}

impl Identity {
    /// The command's arguments by name, without dashes; those without a name are `#1`, `#2` and so on, and the program is none of
    /// them. Of a name that comes more than once all values.
    #[must_use]
    pub fn arguments(&self) -> BTreeMap<String, String> {
        let words: Vec<&str> = self.command.iter().skip(1).map(String::as_str).collect();
        let mut named: BTreeMap<String, String> = BTreeMap::new();
        let mut unnamed = 0;
        for Argument { name, value } in arguments(&words) {
            let name = name.map_or_else(
                || {
                    unnamed += 1;
                    format!("#{unnamed}")
                },
                str::to_owned,
            );
            let value = value.unwrap_or("given");
            named
                .entry(name)
                .and_modify(|known| *known = format!("{known} {value}"))
                .or_insert(value.to_owned());
        }
        named
    }

    /// A workload with what the arguments tell and the job file does not: where it names no network the key stands for it, so
    /// that different programs are never one workload.
    #[must_use]
    pub fn completed(&self, workload: &Workload) -> Workload {
        let mut workload = workload.clone();
        if workload.model.is_none() && self.declared.is_none() {
            workload.model = Some(self.key.clone());
            workload.dataset = workload.dataset.or_else(|| self.data());
        }
        workload.epochs = workload.epochs.or_else(|| self.only_one(EPOCHS));
        workload.samples = workload.samples.or_else(|| self.only_one(SAMPLES));
        workload.batch_size = workload.batch_size.or_else(|| self.only_one(BATCH));
        workload
    }

    /// The numbers among its arguments that are above 0 and that [`Self::completed`] does not use, by name or place.
    #[must_use]
    pub fn other_numbers(&self) -> BTreeMap<String, f64> {
        let is_other = |name: &str| {
            let part = last_part(name);
            let mut used = [EPOCHS, SAMPLES, BATCH].into_iter();
            !name.starts_with('$') && !used.any(|names| names.split(' ').any(|its| its == part))
        };
        let numbers = self.numbers.iter();
        let numbers = numbers.filter(|(name, number)| **number > 0.0 && is_other(name));
        numbers
            .map(|(name, number)| (name.clone(), *number))
            .collect()
    }

    /// Samples of a step over all workers, where an argument says so by its name. Of `--batch-size` most programs have one for each rank.
    #[must_use]
    pub fn global_batch(&self) -> Option<u64> {
        self.only_one("global_batch_size")
    }

    /// A name of what it reads: the last part of the first path, and a hash of all.
    fn data(&self) -> Option<String> {
        let first = &self.inputs.first()?.path;
        let name = first.rsplit('/').next().unwrap_or(first);
        let mut hash = Sha256::new();
        for Input {
            path,
            digest,
            bytes,
        } in &self.inputs
        {
            // A file is its content, wherever it lies.
            hash.update(digest.as_ref().unwrap_or(path).as_bytes());
            hash.update(bytes.unwrap_or(0).to_le_bytes());
        }
        Some(format!("{name} {}", hex(&hash.finalize()[..4])))
    }

    /// The whole number that goes by one of these names, where there is one only.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "checked"
    )]
    fn only_one(&self, names: &str) -> Option<u64> {
        const EXACT: f64 = 9_007_199_254_740_992.0;
        let mut found = self
            .numbers
            .iter()
            .filter(|(name, _)| names.split(' ').any(|known| known == last_part(name)));
        let (_, number) = found.next()?;
        let is_whole = number.fract() == 0.0 && (1.0..EXACT).contains(number);
        (found.next().is_none() && is_whole).then_some(*number as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(numbers: &[(&str, f64)]) -> Identity {
        let numbers = numbers
            .iter()
            .map(|(name, number)| ((*name).to_owned(), *number))
            .collect();
        Identity {
            key: "train.py-01".into(),
            program: "python".into(),
            numbers,
            ..Identity::default()
        }
    }

    #[test]
    fn numbers_of_the_arguments_fill_what_the_job_file_leaves_out() {
        let identity = with(&[
            ("trainer.max_epochs", 5.0),
            ("batch_size", 32.0),
            ("$NUM_SAMPLES", 100.0),
        ]);
        let filled = identity.completed(&Workload::default());
        assert_eq!(
            (filled.epochs, filled.batch_size, filled.samples),
            (Some(5), Some(32), Some(100))
        );
        assert_eq!(filled.model.as_deref(), Some("train.py-01"));
        let said = Workload {
            epochs: Some(9),
            model: Some("net".into()),
            ..Workload::default()
        };
        let kept = identity.completed(&said);
        assert_eq!((kept.epochs, kept.model.as_deref()), (Some(9), Some("net")));
        let unclear = with(&[
            ("epochs", 5.0),
            ("pretrain.epochs", 7.0),
            ("batch", 0.5),
            ("samples", -1.0),
        ]);
        let filled = unclear.completed(&Workload::default());
        assert_eq!(
            (filled.epochs, filled.batch_size, filled.samples),
            (None, None, None)
        );
    }

    #[test]
    fn amounts_are_known_by_the_end_of_their_name() {
        assert_eq!(Amount::of("train.num_epochs"), Some(Amount::Epochs));
        assert_eq!(Amount::of("$MAX_STEPS"), Some(Amount::Epochs));
        assert_eq!(Amount::of("max_train_samples"), Some(Amount::Samples));
        assert_eq!((Amount::of("lr"), Amount::of("#2")), (None, None));
    }

    #[test]
    fn limits_are_no_part_of_the_size() {
        let asked = Asked {
            nodes: 2,
            walltime_seconds: Some(60),
            ..Asked::default()
        };
        assert!(asked.is_same_size(&Asked {
            walltime_seconds: None,
            memory_bytes: Some(1),
            ..asked.clone()
        }));
        assert!(!asked.is_same_size(&Asked {
            cpus_per_task: Some(2),
            ..asked.clone()
        }));
        assert!(!asked.is_same_size(&Asked {
            queue: Some("gpu".into()),
            ..asked.clone()
        }));
    }
}
