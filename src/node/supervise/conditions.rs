//! The conditions of a run, as the watcher finds them out: cheap files of the kernel when the record is written, and file
//! systems on a thread that may hang.

use std::path::PathBuf;
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::time::Duration;

use super::handover::Handover;
use crate::job::{RunId, SchedulerVariables};
use crate::observe::monitor::{
    affinity, boot_id, cpus_effective, node_cpu_us, software_of, storage_class,
};
use crate::record::{Conditions, NodeRecord, Software, StorageClass};

/// So often is looked for frameworks: large ones are not loaded by the first record.
const SOFTWARE_LOOKS: u32 = 6;

/// What is found out, and what it is reckoned from.
pub(super) struct Seen {
    pid: u32,
    /// The conditions as they were last seen.
    pub(super) conditions: Conditions,
    storage: Receiver<StorageClass>,
    run_id: Option<RunId>,
    /// What a look at the software found, while one is under way, and how many are left.
    software: Option<Receiver<Vec<Software>>>,
    looks_left: u32,
    /// When and from which counts on the rest of the node is reckoned.
    begin: Option<Begin>,
}

struct Begin {
    at_ms: u64,
    node_busy_us: u64,
    /// CPU time of the run and of its watcher by then, in seconds.
    own_seconds: f64,
}

impl Seen {
    /// Looks for the first time. `former` is the record of a killed watcher.
    pub(super) fn new(handover: &Handover, now_ms: u64, former: Option<&NodeRecord>) -> Self {
        let mut conditions = former
            .map(|former| former.conditions.clone())
            .unwrap_or_default();
        conditions.storage.clear();
        conditions.boot_id = boot_id().ok();
        place_of_job(&mut conditions, handover);
        if former.is_none() {
            // The command may be over already; the watcher was started under the same conditions.
            look_at_cpus(&mut conditions, std::process::id());
        }
        let begin = node_cpu_us().map(|(node_busy_us, _)| Begin {
            at_ms: now_ms,
            node_busy_us,
            own_seconds: former.map_or(0.0, own_seconds),
        });
        Self {
            pid: handover.command.pid,
            conditions,
            storage: look_at_storage(handover),
            run_id: handover.context.run_id.clone(),
            software: None,
            looks_left: SOFTWARE_LOOKS,
            begin,
        }
    }

    /// The conditions as of now; `record` holds what the run used.
    pub(super) fn now(&mut self, record: &NodeRecord) -> Conditions {
        // What pins itself does so after its start; what has ended keeps what was last seen.
        look_at_cpus(&mut self.conditions, self.pid);
        self.conditions.storage.extend(self.storage.try_iter());
        self.look_at_software(record.ended_at_ms.is_some());
        self.conditions.network = record.conditions.network;
        self.conditions.others_cpus_busy = self.others(record).or(self.conditions.others_cpus_busy);
        self.conditions.clone()
    }

    /// Takes what the last look found and, while the command runs, looks again; on a thread, for a file system may hang.
    fn look_at_software(&mut self, is_over: bool) {
        if let Some(receiver) = &self.software {
            match receiver.try_recv() {
                Ok(found) => add(&mut self.conditions.software, found),
                Err(TryRecvError::Empty) => return,
                Err(TryRecvError::Disconnected) => {}
            }
            self.software = None;
        }
        let Some(run_id) = self
            .run_id
            .clone()
            .filter(|_| self.looks_left > 0 && !is_over)
        else {
            return;
        };
        self.looks_left -= 1;
        let (sender, receiver) = channel();
        std::thread::spawn(move || {
            let _ = sender.send(software_of(&run_id));
        });
        self.software = Some(receiver);
    }

    /// CPUs that all others of the node kept busy on average.
    fn others(&self, record: &NodeRecord) -> Option<f64> {
        let begin = self.begin.as_ref()?;
        let until_ms = record.ended_at_ms.unwrap_or(record.updated_at_ms);
        let wall = Duration::from_millis(until_ms.checked_sub(begin.at_ms)?).as_secs_f64();
        // The kernel counts in ticks of 10 ms: of a moment it says nothing.
        if wall < 1.0 {
            return None;
        }
        let node = Duration::from_micros(node_cpu_us()?.0.checked_sub(begin.node_busy_us)?);
        let own = own_seconds(record) - begin.own_seconds;
        Some((node.as_secs_f64() - own).max(0.0) / wall)
    }
}

/// Later looks see what was loaded since; what was seen stays.
fn add(known: &mut Vec<Software>, found: Vec<Software>) {
    known.retain(|known| found.iter().all(|found| found.name != known.name));
    known.extend(found);
    known.sort_by(|a, b| a.name.cmp(&b.name));
}

/// Where the scheduler put the job, by its variables; those of another scheduler around a local job are not the job's.
fn place_of_job(conditions: &mut Conditions, handover: &Handover) {
    let plan = handover.context.plan.as_ref();
    let Some(variables) = plan.and_then(|plan| SchedulerVariables::of(plan.scheduler)) else {
        return;
    };
    let value = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    conditions.queue = value(variables.queue);
    conditions.account = value(variables.account);
    conditions.qos = variables.qos.and_then(value);
}

/// Leaves what is known where the process is gone.
fn look_at_cpus(conditions: &mut Conditions, pid: u32) {
    if let Some((list, _)) = affinity(pid) {
        conditions.affinity = Some(list);
        conditions.cpus_effective = cpus_effective(pid);
    }
}

/// CPU time of the run and of watching it, in seconds.
fn own_seconds(record: &NodeRecord) -> f64 {
    let watcher = Duration::from_micros(record.watcher.cpu_us).as_secs_f64();
    record.usage.cpu_seconds().unwrap_or(0.0) + watcher
}

/// What the run's directories lie on. An answer that never comes costs a thread, and nobody waits for it.
fn look_at_storage(handover: &Handover) -> Receiver<StorageClass> {
    let (sender, receiver) = channel();
    for (of, path) in places(handover) {
        let sender = sender.clone();
        std::thread::spawn(move || {
            if let Some(class) = storage_class(&path) {
                let _ = sender.send(StorageClass {
                    of: of.to_owned(),
                    class,
                });
            }
        });
    }
    receiver
}

/// The directories and files whose storage decides how fast a run is.
fn places(handover: &Handover) -> Vec<(&'static str, PathBuf)> {
    let Some(plan) = &handover.context.plan else {
        return Vec::new();
    };
    let data = plan
        .storage
        .as_ref()
        .and_then(|storage| with_variables(&storage.path));
    let image = plan.image.as_ref().map(|image| image.source.clone());
    let named = [
        ("workdir", Some(plan.workdir.clone())),
        ("data", data),
        ("image", image),
    ];
    let absolute = |(of, path): (&'static str, Option<String>)| {
        path.map(PathBuf::from)
            .filter(|path| path.is_absolute())
            .map(|path| (of, path))
    };
    named.into_iter().filter_map(absolute).collect()
}

/// A path of the site's configuration with the job's variables in it, `$NAME`. `None` where one is not set.
fn with_variables(path: &str) -> Option<String> {
    let mut parts = path.split('$');
    let mut text = parts.next()?.to_owned();
    for part in parts {
        let end = part
            .find(|c: char| !c.is_ascii_alphanumeric() && c != '_')
            .unwrap_or(part.len());
        text.push_str(&std::env::var(&part[..end]).ok()?);
        text.push_str(&part[end..]);
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_of_the_job_are_put_in() {
        let home = std::env::var("HOME").expect("tests have a home");
        assert_eq!(with_variables("/scratch/a").as_deref(), Some("/scratch/a"));
        assert_eq!(with_variables("/s/$HOME/x"), Some(format!("/s/{home}/x")));
        assert_eq!(with_variables("/s/$NO_SUCH_VARIABLE_HERE"), None);
    }
}
