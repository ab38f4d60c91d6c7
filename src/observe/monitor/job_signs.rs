//! The processes of a job that hang under none of the run's: ranks that `srun` had started by Slurm's daemon, or that came
//! over a remote shell. Their environment says whose they are.

use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::job::SchedulerVariables;

/// More than a process is likely to have: one that has more is not recognised.
const ENVIRON_BYTES_MAX: u64 = 1 << 20;
/// Set by dlrun for what it starts. A process with another id is of another run, in the same job.
const RUN: &str = "DLRUN_RUN_ID";

/// What the environment of a process of the job says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobSigns {
    uid: u32,
    /// `SLURM_JOB_ID=8`, `SLURMD_NODENAME=n1`; all must be there, the job's id is the first.
    all_of: Vec<String>,
    run_id: Option<String>,
}

impl JobSigns {
    /// The signs of the job that a process belongs to by its own environment. `None`: of none, or it may not be read.
    #[must_use]
    pub fn of_process(pid: u32) -> Option<Self> {
        Self::of_process_in(Path::new("/proc"), pid)
    }

    pub(super) fn of_process_in(proc: &Path, pid: u32) -> Option<Self> {
        let uid = owner(proc, pid)?;
        let environ = environ(proc, pid)?;
        let set = |name: &str| {
            let value = value(&environ, name).filter(|value| !value.is_empty())?;
            Some(format!("{name}={}", std::str::from_utf8(value).ok()?))
        };
        let (job, node) = SchedulerVariables::ALL
            .iter()
            .find_map(|variables| Some((set(variables.job_id)?, variables.node)))?;
        let all_of = [Some(job), node.and_then(set)]
            .into_iter()
            .flatten()
            .collect();
        Some(Self {
            uid,
            all_of,
            run_id: set(RUN),
        })
    }

    /// The sign of the job, as it is in the environment: `SLURM_JOB_ID=8`.
    pub(super) fn job(&self) -> &str {
        self.all_of.first().map_or("", String::as_str)
    }

    /// True for a process of the same user and job on the same node, and of no other run.
    pub(super) fn are_of(&self, proc: &Path, pid: u32) -> bool {
        if owner(proc, pid) != Some(self.uid) {
            return false;
        }
        let Some(environ) = environ(proc, pid) else {
            return false;
        };
        let has = |sign: &String| entries(&environ).any(|entry| entry == sign.as_bytes());
        let is_of_another_run =
            value(&environ, RUN).is_some() && !self.run_id.as_ref().is_some_and(&has);
        self.all_of.iter().all(has) && !is_of_another_run
    }
}

/// The user of a process; root for one that may not be looked into.
fn owner(proc: &Path, pid: u32) -> Option<u32> {
    Some(fs::metadata(proc.join(pid.to_string())).ok()?.uid())
}

fn environ(proc: &Path, pid: u32) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let file = File::open(proc.join(pid.to_string()).join("environ")).ok()?;
    file.take(ENVIRON_BYTES_MAX).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

fn entries(environ: &[u8]) -> impl Iterator<Item = &[u8]> {
    environ.split(|byte| *byte == 0)
}

fn value<'a>(environ: &'a [u8], name: &str) -> Option<&'a [u8]> {
    entries(environ).find_map(|entry| entry.strip_prefix(name.as_bytes())?.strip_prefix(b"="))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::monitor::tests::fake_proc::FakeProc;

    const OURS: &str = "A=1\0SLURM_JOB_ID=8\0SLURMD_NODENAME=n1\0DLRUN_RUN_ID=r1\0";

    #[test]
    fn process_of_the_same_job_node_and_run_is_recognised() {
        let proc = FakeProc::new();
        proc.write(10, "environ", OURS);
        let signs = JobSigns::of_process_in(proc.path(), 10).expect("a job");
        assert_eq!(signs.job(), "SLURM_JOB_ID=8");
        for (environ, expected) in [
            (OURS, true),
            ("SLURM_JOB_ID=8\0SLURMD_NODENAME=n1\0", true),
            ("SLURM_JOB_ID=80\0SLURMD_NODENAME=n1\0", false),
            ("XSLURM_JOB_ID=8\0SLURMD_NODENAME=n1\0", false),
            ("SLURM_JOB_ID=8\0SLURMD_NODENAME=n2\0", false),
            ("SLURM_JOB_ID=8\0", false),
            (
                "SLURM_JOB_ID=8\0SLURMD_NODENAME=n1\0DLRUN_RUN_ID=r2\0",
                false,
            ),
            ("", false),
        ] {
            proc.write(11, "environ", environ);
            assert_eq!(signs.are_of(proc.path(), 11), expected, "{environ:?}");
        }
        assert!(!signs.are_of(proc.path(), 12), "no such process");
        let another_user = JobSigns {
            uid: signs.uid + 1,
            ..signs
        };
        assert!(!another_user.are_of(proc.path(), 10));
    }

    #[test]
    fn pbs_job_is_known_by_its_id_and_no_job_has_no_signs() {
        let proc = FakeProc::new();
        proc.write(10, "environ", "PBS_JOBID=7[3].srv\0");
        let signs = JobSigns::of_process_in(proc.path(), 10).expect("a job");
        assert!(signs.are_of(proc.path(), 10));
        proc.write(11, "environ", "PBS_JOBID=7[4].srv\0");
        assert!(!signs.are_of(proc.path(), 11));
        for none in ["", "HOME=/\0", "SLURM_JOB_ID=\0"] {
            proc.write(12, "environ", none);
            assert_eq!(JobSigns::of_process_in(proc.path(), 12), None);
        }
    }
}
