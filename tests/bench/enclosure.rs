//! A cgroup for a family, where this user may make one.

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How long its processes may take to be gone.
const PATIENCE: Duration = Duration::from_secs(5);

/// Directories of one name in several hierarchies; removed when this is dropped, which its processes must not outlive.
pub(crate) struct Enclosure {
    directories: Vec<PathBuf>,
    /// The first directory of the name in each.
    outermost: Vec<PathBuf>,
}

/// Hierarchies of v1 that count what is read; the first is asked for the processes.
const CONTROLLERS: [&str; 3] = ["cpuacct", "memory", "blkio"];
/// What the floor reads of each run: six files, of whichever version there is.
const FILES: [&str; 12] = [
    "cpuacct.usage",
    "cpuacct.stat",
    "memory.usage_in_bytes",
    "memory.max_usage_in_bytes",
    "memory.stat",
    "memory.oom_control",
    "cpu.stat",
    "memory.current",
    "memory.peak",
    "memory.stat",
    "memory.events",
    "io.stat",
];

impl Enclosure {
    /// Makes `name` in the hierarchies of v1, else in that of v2.
    pub(crate) fn make(name: &str) -> Result<Self, Box<dyn Error>> {
        let root = Path::new("/sys/fs/cgroup");
        let v1: Vec<PathBuf> = CONTROLLERS.map(|controller| root.join(controller)).into();
        let roots = if v1.iter().all(|root| root.is_dir()) {
            v1
        } else {
            vec![root.to_owned()]
        };
        let outermost = name.split('/').next().unwrap_or(name);
        let made = Self {
            directories: roots.iter().map(|root| root.join(name)).collect(),
            outermost: roots.iter().map(|root| root.join(outermost)).collect(),
        };
        for directory in &made.directories {
            fs::create_dir_all(directory)
                .map_err(|error| format!("{}: {error}", directory.display()))?;
        }
        if made.files().is_empty() {
            return Err("cgroups that are made here count nothing".into());
        }
        Ok(made)
    }

    /// Puts a process into it, with all that it starts later.
    pub(crate) fn enter(&self, pid: u32) -> Result<(), Box<dyn Error>> {
        for directory in &self.directories {
            fs::write(directory.join("cgroup.procs"), pid.to_string())?;
        }
        Ok(())
    }

    /// The list of its processes.
    pub(crate) fn list(&self) -> PathBuf {
        self.directories
            .first()
            .map(|directory| directory.join("cgroup.procs"))
            .unwrap_or_default()
    }

    /// Files with its totals.
    pub(crate) fn files(&self) -> Vec<PathBuf> {
        let all = self
            .directories
            .iter()
            .flat_map(|directory| FILES.map(|name| directory.join(name)));
        let mut files: Vec<PathBuf> = all.filter(|path| path.exists()).collect();
        files.sort();
        files.dedup();
        files.truncate(FILES.len() / 2);
        files
    }
}

impl Drop for Enclosure {
    fn drop(&mut self) {
        for (directory, outermost) in self.directories.iter().zip(&self.outermost) {
            // The kernel is not done at once with processes that were killed.
            let begun = Instant::now();
            while fs::remove_dir(directory).is_err() && begun.elapsed() < PATIENCE {
                std::thread::sleep(Duration::from_millis(10));
            }
            for empty in directory
                .ancestors()
                .skip(1)
                .take_while(|path| path.starts_with(outermost))
            {
                let _ = fs::remove_dir(empty);
            }
        }
    }
}
