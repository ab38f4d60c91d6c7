//! A directory that looks like a job's cgroup v2, for tests.

use std::fs;
use std::path::Path;

use crate::observe::monitor::cgroup::{CgroupDirectories, CgroupScheduler, JobCgroup};

/// The directory; removed with the value.
pub(crate) struct FakeCgroup(tempfile::TempDir);

impl FakeCgroup {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().expect("a directory"))
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    /// Writes one of its files; directories before the name are made.
    pub(crate) fn put(&self, name: &str, text: &str) {
        let path = self.path().join(name);
        fs::create_dir_all(path.parent().expect("a parent")).expect("made");
        fs::write(path, text).expect("written");
    }

    pub(crate) fn put_cpu(&self, user_us: u64, system_us: u64) {
        let all = user_us + system_us;
        self.put(
            "cpu.stat",
            &format!("usage_usec {all}\nuser_usec {user_us}\nsystem_usec {system_us}\n"),
        );
    }

    pub(crate) fn put_processes(&self, pids: &[u32]) {
        let lines: Vec<_> = pids.iter().map(|pid| format!("{pid}\n")).collect();
        self.put("cgroup.procs", &lines.concat());
    }

    /// What is found where it is mounted as v2.
    pub(crate) fn job(&self) -> JobCgroup {
        let unified = Some(self.path().to_path_buf());
        job_with(CgroupDirectories {
            processes: unified.clone(),
            unified,
            ..CgroupDirectories::default()
        })
    }
}

/// A job with some directories.
pub(crate) fn job_with(directories: CgroupDirectories) -> JobCgroup {
    JobCgroup {
        scheduler: Some(CgroupScheduler::Slurm),
        job_id: Some("1".into()),
        sluid: None,
        uid: None,
        container_id: None,
        path: "/slurm/uid_7/job_1".into(),
        directories,
    }
}
