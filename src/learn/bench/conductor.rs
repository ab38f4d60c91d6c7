//! The job file of the job that conducts a matrix or a sweep.

use std::path::Path;

use toml::{Table, Value};

use crate::foundation::units::Bytes;
use crate::job::SchedulerKind;

/// A trial may take longer than the job that waits for it.
const WITHOUT_PROGRESS: i64 = 50;

/// How long before its time limit a job ends the trials that run within it, in seconds.
pub const PACKED_LEAD: u64 = 60;

/// What all trials together need that run side by side within the job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PackedResources {
    /// CPUs.
    pub cpus: u32,
    /// Main memory, where the job file asks for some.
    pub memory: Option<Bytes>,
    /// GPUs, as `resources.gpus_per_node` has them.
    pub gpus: Option<String>,
}

/// What such a job is made of.
#[derive(Debug)]
pub struct ConductorJob<'a> {
    /// Its name.
    pub name: &'a str,
    /// What it runs, and where.
    pub words: Vec<String>,
    /// Its working directory.
    pub here: &'a str,
    /// Each line of this file is progress, so that the job continues after its time limit.
    pub journal: &'a Path,
    /// Whether that has lines.
    pub continues: bool,
    /// Its time limit.
    pub walltime: &'a str,
    /// Who takes it.
    pub scheduler: SchedulerKind,
    /// The file of the matrix or sweep.
    pub text: &'a str,
    /// `None`: each run is a separate job.
    pub packed: Option<&'a PackedResources>,
}

impl ConductorJob<'_> {
    /// The job file. The account is that of the matrix or sweep; a job in which trials run has the other resources of their file too.
    #[must_use]
    pub fn file(self) -> String {
        let file: Table = toml::from_str(self.text).unwrap_or_default();
        let of_file = |name: &str| file.get(name).and_then(Value::as_table).cloned();
        let mut resources = of_file("resources").unwrap_or_default();
        match self.packed {
            Some(packed) => packed.put_into(&mut resources),
            None => {
                resources.retain(|key, _| key == "account");
                put(&mut resources, "cpus_per_task", Value::from(1));
                put(&mut resources, "memory", Value::from("500MiB"));
            }
        }
        put(&mut resources, "walltime", Value::from(self.walltime));
        let of_packed = self.packed.and_then(|_| of_file("scheduler"));
        let mut scheduler = of_packed.unwrap_or_default();
        let kind = self.scheduler.as_str();
        put(&mut scheduler, "kind", Value::from(kind));
        let run = [
            ("command", Value::from(self.words)),
            ("workdir", Value::from(self.here)),
        ];
        let journal = self.journal.to_string_lossy().into_owned();
        let resume = [
            ("checkpoints", Value::from(vec![journal.clone()])),
            ("without_progress", Value::from(WITHOUT_PROGRESS)),
        ];
        let mut resume = table(resume);
        if self.continues {
            put(&mut resume, "from", Value::from(journal));
        }
        if self.packed.is_some() {
            put(&mut resume, "lead", Value::from(format!("{PACKED_LEAD}s")));
        }
        let file = [
            ("name", Value::from(self.name)),
            ("run", Value::from(table(run))),
            ("resources", Value::from(resources)),
            ("resume", Value::from(resume)),
            ("scheduler", Value::from(scheduler)),
        ];
        table(file).to_string()
    }
}

impl PackedResources {
    fn put_into(&self, resources: &mut Table) {
        for key in ["gpus_per_task", "gpus_per_node", "memory", "walltime_up_to"] {
            resources.remove(key);
        }
        put(resources, "cpus_per_task", Value::from(self.cpus));
        if let Some(memory) = self.memory {
            let memory = format!("{}MiB", memory.mebibytes_up());
            put(resources, "memory", Value::from(memory));
        }
        if let Some(gpus) = &self.gpus {
            put(resources, "gpus_per_node", Value::from(gpus.as_str()));
        }
    }
}

fn put(table: &mut Table, key: &str, value: Value) {
    table.insert(key.to_owned(), value);
}

fn table<const N: usize>(keys: [(&str, Value); N]) -> Table {
    let keys = keys.into_iter().map(|(key, value)| (key.to_owned(), value));
    keys.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SWEEP: &str = "[resources]\naccount = \"proj\"\nqueue = \"gpu\"\nmemory = \"1GiB\"\ngpus_per_task = \"a100:1\"\n\
                         [scheduler]\narguments = [\"--nice\"]\n";

    fn job<'a>(words: &[String], packed: Option<&'a PackedResources>) -> ConductorJob<'a> {
        ConductorJob {
            name: "s-conductor",
            words: words.to_vec(),
            here: "/here",
            journal: Path::new("/j.jsonl"),
            continues: false,
            walltime: "8h",
            scheduler: SchedulerKind::Slurm,
            text: SWEEP,
            packed,
        }
    }

    #[test]
    fn it_is_valid_whatever_its_words_are() {
        let words = ["a \"b\" $(c).toml".to_owned()];
        let text = job(&words, None).file();
        assert!(
            text.contains("account = \"proj\"") && text.contains("kind = \"slurm\""),
            "{text}"
        );
        assert!(!text.contains("gpu") && !text.contains("nice"), "{text}");
        let job = crate::job::parse(&text).expect("a job file");
        let crate::job::Command::Argv(found) = &job.run.command.value else {
            panic!("words")
        };
        assert_eq!(found, &words);
        assert_eq!(
            job.resume.expect("it has the table").value.without_progress,
            50
        );
    }

    #[test]
    fn job_in_which_trials_run_has_what_they_need() {
        let packed = PackedResources {
            cpus: 8,
            memory: Some(Bytes(4 << 30)),
            gpus: Some("a100:4".to_owned()),
        };
        let text = job(&["true".to_owned()], Some(&packed)).file();
        let read = crate::job::parse(&text).expect("a job file");
        let resources = &read.resources;
        assert_eq!(resources.gpus_on_node().as_deref(), Some("a100:4"));
        for expected in ["memory = \"4096MiB\"", "queue = \"gpu\"", "\"--nice\""] {
            assert!(text.contains(expected), "{text}");
        }
        assert!(!text.contains("gpus_per_task"), "{text}");
    }
}
