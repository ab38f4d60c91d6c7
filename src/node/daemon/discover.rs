//! Jobs of the node that no dlrun registered, found by their cgroups: for sites that want to record all (`all_jobs`).

use std::collections::{HashMap, HashSet};

use sha2::{Digest, Sha256};

use crate::foundation::clock::now_ms;
use crate::job::{JobId, RunId, SchedulerKind, Workload};
use crate::observe::monitor::cgroup::CgroupScheduler;
use crate::observe::monitor::{JobCgroup, cgroup, host_facts, identity};
use crate::observe::protocol::Process;
use crate::record::{HostFacts, MeasureKey, NodeRecord, RunRecord};

/// A process is looked at so often before it is known to be in no job: Slurm moves it there after its start.
const LOOKS: u8 = 3;

/// A job that was found.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) cgroup: JobCgroup,
    pub(super) first: Process,
    pub(super) uid: u32,
    pub(super) run: RunRecord,
    pub(super) record: NodeRecord,
}

/// Looks for jobs.
#[derive(Debug)]
pub(super) struct Discovery {
    boot_id: String,
    host: HostFacts,
    /// How often each process was looked at.
    looked: HashMap<u32, u8>,
}

impl Discovery {
    pub(super) fn new(boot_id: String) -> Self {
        Self {
            boot_id,
            host: host_facts(None),
            looked: HashMap::new(),
        }
    }

    /// Jobs of schedulers whose cgroup is not among `watched`.
    pub(super) fn look(&mut self, watched: &HashSet<String>) -> Vec<Found> {
        let Ok(pids) = identity::all_pids() else {
            return Vec::new();
        };
        let listed: HashSet<u32> = pids.iter().copied().collect();
        self.looked.retain(|pid, _| listed.contains(pid));
        let mut seen = watched.clone();
        let mut found = Vec::new();
        for pid in pids {
            let looks = self.looked.entry(pid).or_default();
            if *looks >= LOOKS {
                continue;
            }
            *looks += 1;
            let Ok(Some(cgroup)) = cgroup::locate(pid) else {
                continue;
            };
            *looks = LOOKS;
            if cgroup.scheduler.is_some() && seen.insert(cgroup.path.clone()) {
                found.extend(self.describe(cgroup));
            }
        }
        found
    }

    fn describe(&self, cgroup: JobCgroup) -> Option<Found> {
        let members = cgroup.process_ids()?;
        let started = |pid: u32| {
            Some(Process {
                pid,
                start_time_ticks: identity::start_time_ticks(pid).ok()?,
            })
        };
        let first = members
            .iter()
            .filter_map(|pid| started(*pid))
            .min_by_key(|process| process.start_time_ticks)?;
        let uid_of = |pid: &u32| identity::uid_of(*pid).ok();
        let uid = cgroup
            .uid
            .or_else(|| members.iter().filter_map(uid_of).find(|uid| *uid != 0))
            .unwrap_or(0);
        let (run, record) = self.records(&cgroup, first, uid);
        Some(Found {
            cgroup,
            first,
            uid,
            run,
            record,
        })
    }

    /// What there is to say of a job about which nothing but its cgroup is known.
    fn records(&self, cgroup: &JobCgroup, first: Process, uid: u32) -> (RunRecord, NodeRecord) {
        let now = now_ms();
        let word = match cgroup.scheduler {
            Some(CgroupScheduler::Slurm) => "slurm",
            Some(CgroupScheduler::Torque) => "torque",
            Some(CgroupScheduler::OpenPbs) => "openpbs",
            None => "container",
        };
        let scheduler = SchedulerKind::from_word(word).unwrap_or_default();
        let id = cgroup
            .job_id
            .clone()
            .or_else(|| cgroup.sluid.clone())
            .unwrap_or_else(|| cgroup.path.clone());
        let run_id = self.run_id(cgroup, first, uid);
        let job_id = Some(JobId(id.clone()));
        let run = RunRecord {
            format: RunRecord::FORMAT,
            run_id: run_id.clone(),
            name: format!("{word} job {id}"),
            submitted_at_ms: now,
            // A name service may hang; the number is in the database anyway.
            user: format!("uid {uid}"),
            submit_host: self.host.hostname.clone(),
            scheduler,
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
            workload: Workload::default(),
            tasks_per_node: None,
            queue: None,
            identity: None,
            forecast: None,
            dlrun_version: env!("CARGO_PKG_VERSION").to_owned(),
        };
        let node = self.host.hostname.clone();
        let key = MeasureKey {
            run_id,
            element: 0,
            attempt: 0,
            node,
            step: 0,
        };
        let record = NodeRecord::begun(key, job_id, now, self.host.clone());
        (run, record)
    }

    /// The same job has the same id, also after a restart of the daemon; another boot or another job has not.
    fn run_id(&self, cgroup: &JobCgroup, first: Process, uid: u32) -> RunId {
        let name = format!(
            "{}\n{}\n{}",
            self.boot_id, cgroup.path, first.start_time_ticks
        );
        let digest = Sha256::digest(name.as_bytes());
        let mut bits = [0; 10];
        bits.copy_from_slice(&digest[..10]);
        RunId::of_owner(bits, uid)
    }
}
