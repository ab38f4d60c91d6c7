//! Totals of a job in cgroup v2 (the kernel's `Documentation/admin-guide/cgroup-v2.rst`).
//!
//! `cpu.stat` and the pressure files are there without any controller, also beside v1; `memory.*` and `io.stat` only
//! where the controller was handed down. `memory.peak` came with Linux 5.19.

use std::path::Path;

use super::devices::Devices;
use super::files::{KeptFile, Pressure, number, read_pressure, value_of};
use super::{CpuTotals, Group, MemoryTotals};
use crate::observe::monitor::process::Io;

/// The files of one job.
#[derive(Debug)]
pub(super) struct Reader {
    cpu_stat: KeptFile,
    memory_stat: KeptFile,
    memory_peak: KeptFile,
    memory_events: KeptFile,
    io_stat: KeptFile,
    cpu_pressure: KeptFile,
    memory_pressure: KeptFile,
    io_pressure: KeptFile,
}

impl Reader {
    pub(super) fn new(directory: &Path) -> Self {
        let file = |name: &str| KeptFile::new(directory.join(name));
        Self {
            cpu_stat: file("cpu.stat"),
            memory_stat: file("memory.stat"),
            memory_peak: file("memory.peak"),
            memory_events: file("memory.events"),
            io_stat: file("io.stat"),
            cpu_pressure: file("cpu.pressure"),
            memory_pressure: file("memory.pressure"),
            io_pressure: file("io.pressure"),
        }
    }

    /// CPU times, and the time throttled, which only the controller knows.
    pub(super) fn cpu(&mut self, buffer: &mut [u8]) -> Option<(CpuTotals, Option<u64>)> {
        self.cpu_stat.read(buffer, |text| {
            let totals = CpuTotals {
                user_us: value_of(text, "user_usec")?,
                system_us: value_of(text, "system_usec")?,
            };
            Some((totals, value_of(text, "throttled_usec")))
        })
    }

    pub(super) fn memory(&mut self, buffer: &mut [u8]) -> Option<MemoryTotals> {
        self.memory_stat.read(buffer, |text| {
            let anon = Some(value_of(text, "anon")?);
            Some(MemoryTotals {
                anon,
                file: value_of(text, "file"),
                shmem: value_of(text, "shmem"),
            })
        })
    }

    pub(super) fn peak(&mut self, buffer: &mut [u8]) -> Option<u64> {
        self.memory_peak.read(buffer, number)
    }

    pub(super) fn oom_kills(&mut self, buffer: &mut [u8]) -> Option<u64> {
        self.memory_events
            .read(buffer, |text| value_of(text, "oom_kill"))
    }

    pub(super) fn io(&mut self, buffer: &mut [u8], devices: &mut Devices) -> Option<Io> {
        self.io_stat
            .read(buffer, |text| Some(read_io(text, devices)))
    }

    pub(super) fn pressure(&mut self, buffer: &mut [u8]) -> [Option<Pressure>; 3] {
        [
            &mut self.cpu_pressure,
            &mut self.memory_pressure,
            &mut self.io_pressure,
        ]
        .map(|file| file.read(buffer, read_pressure))
    }

    /// The file behind a group of columns.
    pub(super) fn file(&self, group: Group) -> &KeptFile {
        match group {
            Group::Cpu | Group::Throttled => &self.cpu_stat,
            Group::Memory => &self.memory_stat,
            Group::Peak => &self.memory_peak,
            Group::OomKills => &self.memory_events,
            Group::CpuPressure => &self.cpu_pressure,
            Group::MemoryPressure => &self.memory_pressure,
            Group::IoPressure => &self.io_pressure,
        }
    }
}

/// `259:0 rbytes=4096 wbytes=0 rios=1 wios=0 dbytes=0 dios=0`, one line a device. No line: no I/O so far.
fn read_io(text: &str, devices: &mut Devices) -> Io {
    let mut io = Io::default();
    for line in text.lines() {
        let mut fields = line.split(' ');
        if fields
            .next()
            .is_none_or(|device| devices.is_stacked(device))
        {
            continue;
        }
        for field in fields {
            let value = |key: &str| field.strip_prefix(key).and_then(number).unwrap_or(0);
            io.add(Io {
                read_bytes: value("rbytes="),
                write_bytes: value("wbytes="),
            });
        }
    }
    io
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn io_is_summed_over_devices() {
        let mut devices = Devices::new(Path::new("/nonexistent"));
        let text = "8:16 rbytes=100 wbytes=7 rios=1 wios=1 dbytes=50331648 dios=3021\n\
                    8:0 rbytes=90 wbytes=3 rios=1 wios=1\n9:9\n";
        assert_eq!(
            read_io(text, &mut devices),
            Io {
                read_bytes: 190,
                write_bytes: 10
            }
        );
        assert_eq!(read_io("", &mut devices), Io::default());
    }
}
