//! Totals of a job in cgroup v1 (the kernel's `Documentation/admin-guide/cgroup-v1/`).
//!
//! Seen on Linux 6.18: `oom_kill` of `memory.oom_control` counts the directory alone, not those below it; and
//! `blkio.throttle.*` stays empty until somebody sets a limit, also for direct I/O.

use std::fs;
use std::path::PathBuf;

use super::devices::Devices;
use super::files::{KeptFile, number, value_of};
use super::{CgroupDirectories, CpuTotals, Group, MemoryTotals, tree_of};
use crate::observe::monitor::process::Io;

/// Directories whose `oom_kill` is read: tasks of steps.
const OOM_DIRECTORIES_MAX: usize = 64;

/// The files of one job.
#[derive(Debug)]
pub(super) struct Reader {
    usage: Option<KeptFile>,
    stat: Option<KeptFile>,
    split: Split,
    cpu_stat: Option<KeptFile>,
    memory_stat: Option<KeptFile>,
    max_usage: Option<KeptFile>,
    memory: Option<PathBuf>,
    /// Of the job's directory, then of those below it.
    oom_controls: Vec<KeptFile>,
    blkio: Option<KeptFile>,
}

impl Reader {
    pub(super) fn new(directories: &CgroupDirectories) -> Self {
        let file = |directory: &Option<PathBuf>, name: &str| {
            directory
                .as_ref()
                .map(|directory| KeptFile::new(directory.join(name)))
        };
        let mut reader = Self {
            usage: file(&directories.cpuacct, "cpuacct.usage"),
            stat: file(&directories.cpuacct, "cpuacct.stat"),
            split: Split::default(),
            cpu_stat: file(&directories.cpu, "cpu.stat"),
            memory_stat: file(&directories.memory, "memory.stat"),
            max_usage: file(&directories.memory, "memory.max_usage_in_bytes"),
            memory: directories.memory.clone(),
            oom_controls: Vec::new(),
            blkio: file(
                &directories.blkio,
                "blkio.throttle.io_service_bytes_recursive",
            ),
        };
        reader.look_again();
        reader
    }

    /// Looks for steps and tasks that came or went.
    pub(super) fn look_again(&mut self) {
        let Some(memory) = &self.memory else { return };
        let paths: Vec<_> = tree_of(memory, OOM_DIRECTORIES_MAX)
            .into_iter()
            .map(|directory| directory.join("memory.oom_control"))
            .filter(|path| fs::exists(path).unwrap_or(false))
            .collect();
        self.oom_controls
            .retain(|file| paths.iter().any(|path| path == file.path()));
        for path in paths {
            if !self.oom_controls.iter().any(|file| file.path() == path) {
                self.oom_controls.push(KeptFile::new(path));
            }
        }
    }

    /// The total of `cpuacct.usage`, split as `cpuacct.stat` is, which counts in clock ticks.
    pub(super) fn cpu(&mut self, buffer: &mut [u8]) -> Option<CpuTotals> {
        let total_us = self.usage.as_mut()?.read(buffer, number)? / 1000;
        let of_stat = self.stat.as_mut()?.read(buffer, |text| {
            Some(CpuTotals {
                user_us: value_of(text, "user")?,
                system_us: value_of(text, "system")?,
            })
        })?;
        Some(self.split.of(total_us, of_stat.user_us, of_stat.system_us))
    }

    /// Of the directory's own quota: v1 adds nothing up.
    pub(super) fn throttled_us(&mut self, buffer: &mut [u8]) -> Option<u64> {
        self.cpu_stat.as_mut()?.read(buffer, |text| {
            Some(value_of(text, "throttled_time")? / 1000)
        })
    }

    pub(super) fn memory(&mut self, buffer: &mut [u8]) -> Option<MemoryTotals> {
        self.memory_stat.as_mut()?.read(buffer, |text| {
            let anon = Some(value_of(text, "total_rss")?);
            Some(MemoryTotals {
                anon,
                file: value_of(text, "total_cache"),
                shmem: value_of(text, "total_shmem"),
            })
        })
    }

    pub(super) fn peak(&mut self, buffer: &mut [u8]) -> Option<u64> {
        self.max_usage.as_mut()?.read(buffer, number)
    }

    /// Kills in all directories of the job. `None`: no file tells (before Linux 4.13).
    pub(super) fn oom_kills(&mut self, buffer: &mut [u8]) -> Option<u64> {
        let kills = self
            .oom_controls
            .iter_mut()
            .filter_map(|file| file.read(buffer, |text| value_of(text, "oom_kill")));
        kills.fold(None, |sum, kills| {
            Some(kills.saturating_add(sum.unwrap_or(0)))
        })
    }

    pub(super) fn io(&mut self, buffer: &mut [u8], devices: &mut Devices) -> Option<Io> {
        self.blkio
            .as_mut()?
            .read(buffer, |text| Some(read_io(text, devices)))
    }

    /// The file behind a group of columns; `None`: v1 has none, or the controller does not hold the job.
    pub(super) fn file(&self, group: Group) -> Option<&KeptFile> {
        match group {
            Group::Cpu => self.usage.as_ref(),
            Group::Throttled => self.cpu_stat.as_ref(),
            Group::Memory => self.memory_stat.as_ref(),
            Group::Peak => self.max_usage.as_ref(),
            Group::OomKills => self.oom_controls.first(),
            Group::CpuPressure | Group::MemoryPressure | Group::IoPressure => None,
        }
    }
}

/// `8:0 Read 4096`, `8:0 Write 0` and further lines for each device; at the end `Total 4096`.
fn read_io(text: &str, devices: &mut Devices) -> Io {
    let mut io = Io::default();
    for line in text.lines() {
        let mut fields = line.split(' ');
        let (device, kind) = (
            fields.next().unwrap_or_default(),
            fields.next().unwrap_or_default(),
        );
        let bytes = fields.next().and_then(number).unwrap_or(0);
        match kind {
            "Read" if !devices.is_stacked(device) => io.add(Io {
                read_bytes: bytes,
                write_bytes: 0,
            }),
            "Write" if !devices.is_stacked(device) => io.add(Io {
                read_bytes: 0,
                write_bytes: bytes,
            }),
            _ => {}
        }
    }
    io
}

/// Splits an exact total by inexact shares so that neither part falls and both add up to the total, as the kernel does
/// for a process (`cputime_adjust`).
#[derive(Debug, Clone, Copy, Default)]
struct Split {
    last: CpuTotals,
}

impl Split {
    fn of(&mut self, total_us: u64, user: u64, system: u64) -> CpuTotals {
        if total_us < self.last.user_us.saturating_add(self.last.system_us) {
            // The cgroup was made anew.
            self.last = CpuTotals::default();
        }
        let all = u128::from(user) + u128::from(system);
        // Before the first tick of the clock all of it counts as user time.
        let of_system = (u128::from(total_us) * u128::from(system))
            .checked_div(all)
            .unwrap_or(0);
        let of_system = u64::try_from(of_system)
            .unwrap_or(total_us)
            .max(self.last.system_us);
        let user_us = total_us.saturating_sub(of_system).max(self.last.user_us);
        self.last = CpuTotals {
            user_us,
            system_us: total_us.saturating_sub(user_us),
        };
        self.last
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn split_adds_up_and_does_not_fall() {
        let mut split = Split::default();
        let of = |user_us, system_us| CpuTotals { user_us, system_us };
        assert_eq!(split.of(900, 0, 0), of(900, 0));
        assert_eq!(split.of(1000, 1, 1), of(900, 100));
        assert_eq!(split.of(2000, 3, 1), of(1500, 500));
        assert_eq!(split.of(2100, 4, 1), of(1600, 500));
        assert_eq!(split.of(10, 1, 0), of(10, 0));
        assert_eq!(
            split.of(u64::MAX, u64::MAX, u64::MAX),
            of(u64::MAX / 2 + 1, u64::MAX / 2)
        );
    }

    #[test]
    fn io_is_summed_over_devices() {
        let mut devices = Devices::new(Path::new("/nonexistent"));
        let text =
            "8:16 Read 100\n8:16 Write 7\n8:16 Sync 107\n8:16 Total 107\n8:0 Read 90\nTotal 197\n";
        assert_eq!(
            read_io(text, &mut devices),
            Io {
                read_bytes: 190,
                write_bytes: 7
            }
        );
        assert_eq!(read_io("Total 0\n", &mut devices), Io::default());
    }
}
