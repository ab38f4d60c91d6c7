//! Jobs of the node that no dlrun registered, found by their cgroups: for sites that want to record all (`all_jobs`).

use std::collections::HashSet;

use sha2::{Digest, Sha256};

use super::Node;
use crate::foundation::clock::now_ms;
use crate::job::{JobId, RunId, SchedulerKind};
use crate::node::daemon::watched::{Memory, Stage, Watched};
use crate::observe::monitor::{JobCgroup, cgroup, host_facts, identity};
use crate::observe::protocol::Process;
use crate::record::{MeasureKey, NodeRecord, RunRecord};

/// A process is looked at so often before it is known to be in no job: Slurm moves it there after its start.
const LOOKS: u8 = 3;

impl Node {
    /// Takes up jobs that no dlrun registered, and lets go of those that one did register meanwhile.
    pub(crate) fn discover(&mut self) {
        let (mut registered, mut watched) = (HashSet::new(), HashSet::new());
        for run in self.runs.values().filter(|run| run.stage != Stage::Ended) {
            let cgroup = run.cgroup().map(str::to_owned);
            if !run.memory.foreign {
                registered.extend(cgroup.clone());
            }
            watched.extend(cgroup);
        }
        let is_doubled = |run: &Watched| {
            let cgroup = run.cgroup().filter(|_| run.memory.foreign);
            cgroup.is_some_and(|cgroup| registered.contains(cgroup))
        };
        let doubled = self.runs.iter().filter(|(_, run)| is_doubled(run));
        for handle in doubled.map(|(handle, _)| *handle).collect::<Vec<_>>() {
            self.abandon(handle, "a dlrun in the job registered its run");
        }
        for cgroup in self.new_jobs(watched) {
            self.watch_foreign(cgroup);
        }
    }

    /// The cgroups of schedulers' jobs that are not among the `known`.
    fn new_jobs(&mut self, mut known: HashSet<String>) -> Vec<JobCgroup> {
        let Ok(pids) = identity::all_pids() else {
            return Vec::new();
        };
        self.looks.retain(|pid, _| pids.binary_search(pid).is_ok());
        let mut found = Vec::new();
        for pid in pids {
            let looks = self.looks.entry(pid).or_default();
            if *looks >= LOOKS {
                continue;
            }
            *looks += 1;
            let Ok(Some(cgroup)) = cgroup::locate(pid) else {
                continue;
            };
            *looks = LOOKS;
            if cgroup.scheduler.is_some() && known.insert(cgroup.path.clone()) {
                found.push(cgroup);
            }
        }
        found
    }

    /// Watches a job of which nothing is known but its cgroup; `None` where it has ended.
    fn watch_foreign(&mut self, cgroup: JobCgroup) -> Option<()> {
        let members = cgroup.process_ids()?;
        let started = members
            .iter()
            .filter_map(|pid| Process::with_pid(*pid).ok());
        let first = started.min_by_key(|process| process.start_time_ticks)?;
        let mut uids = members.iter().filter_map(|pid| identity::uid_of(*pid));
        let uid = cgroup.uid.or_else(|| uids.find(|uid| *uid != 0));
        let uid = uid.unwrap_or(0);
        let scheduler = cgroup.scheduler?.as_str();
        let (now, host) = (now_ms(), host_facts(None));
        let id = cgroup.job_id.as_ref().or(cgroup.sluid.as_ref());
        let job_id = Some(JobId(id.unwrap_or(&cgroup.path).clone()));
        let run = RunRecord {
            format: RunRecord::FORMAT,
            run_id: self.foreign_run_id(&cgroup, first, uid),
            name: format!("{scheduler} job {}", id.unwrap_or(&cgroup.path)),
            submitted_at_ms: now,
            // A name service may hang; the number is in the database anyway.
            user: format!("uid {uid}"),
            submit_host: host.hostname.clone(),
            scheduler: SchedulerKind::from_word(scheduler).unwrap_or_default(),
            job_id: job_id.clone(),
            output: None,
            workdir: String::new(),
            job_file: None,
            nodes: 1,
            array: None,
            parts: Vec::new(),
            framework: crate::job::Framework::default(),
            storage: None,
            image: None,
            workload: crate::job::Workload::default(),
            tasks_per_node: None,
            queue: None,
            identity: None,
            forecast: None,
            dlrun_version: env!("CARGO_PKG_VERSION").to_owned(),
        };
        let key = MeasureKey {
            run_id: run.run_id.clone(),
            element: 0,
            attempt: 0,
            node: host.hostname.clone(),
            step: 0,
        };
        let record = NodeRecord::begun(key, job_id, now, host);
        let memory = Memory {
            name: run.name.clone(),
            foreign: true,
            cgroup: Some(cgroup),
            ..Memory::default()
        };
        let interval = self.settings.process_interval();
        let watched = Watched::new(uid, first, record, memory, interval);
        tracing::info!(
            job = run.name,
            uid,
            "a job that no dlrun registered is recorded"
        );
        let handle = self.new_handle();
        if self.enrol(handle, &watched, run, false, None) {
            self.runs.insert(handle, watched);
        }
        Some(())
    }

    /// The same job has the same id, also after a restart of the daemon; another boot or another job has not.
    fn foreign_run_id(&self, cgroup: &JobCgroup, first: Process, uid: u32) -> RunId {
        let (boot, start) = (&self.boot_id, first.start_time_ticks);
        let digest = Sha256::digest(format!("{boot}\n{}\n{start}", cgroup.path));
        let mut bits = [0; 10];
        bits.copy_from_slice(&digest[..10]);
        RunId::of_owner(bits, uid)
    }
}
