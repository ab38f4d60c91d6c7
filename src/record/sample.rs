//! One reading of a run's resources on one node.

use serde::{Deserialize, Serialize};

/// How the values of a column relate to time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ColumnKind {
    /// Only grows; a rate is the difference of two readings over their distance in time.
    Counter,
    /// Stands for itself.
    Gauge,
}

/// Name and meaning of one value of a [`Sample`]. The unit is the name's suffix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Column {
    /// Name with its unit, as in the index and the exports.
    pub name: &'static str,
    /// Counter or gauge.
    pub kind: ColumnKind,
}

/// The columns of a sample, in the order of [`Sample::values`]. A new one is appended, never inserted.
pub const COLUMNS: [Column; 8] = [
    Column { name: "cpu_user_us", kind: ColumnKind::Counter },
    Column { name: "cpu_system_us", kind: ColumnKind::Counter },
    Column { name: "mem_rss_bytes", kind: ColumnKind::Gauge },
    Column { name: "mem_shmem_bytes", kind: ColumnKind::Gauge },
    Column { name: "io_read_bytes", kind: ColumnKind::Counter },
    Column { name: "io_write_bytes", kind: ColumnKind::Counter },
    Column { name: "processes", kind: ColumnKind::Gauge },
    Column { name: "threads", kind: ColumnKind::Gauge },
];

/// One reading, cumulative and as read. `None`: could not be read (the node record says why), or was not due: what is
/// costly to read is read less often.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Sample {
    /// When it was read, in Unix milliseconds UTC.
    pub at_ms: u64,
    /// CPU time in user mode of all processes of the run, ended ones included, in microseconds.
    pub cpu_user_us: Option<u64>,
    /// CPU time in the kernel, likewise.
    pub cpu_system_us: Option<u64>,
    /// Resident memory, summed over the processes: pages shared between them count more than once.
    pub mem_rss_bytes: Option<u64>,
    /// The part of the resident memory that is shared memory (`/dev/shm`, shared mappings).
    pub mem_shmem_bytes: Option<u64>,
    /// Bytes read from storage (`read_bytes` of `/proc/PID/io`), ended processes included.
    pub io_read_bytes: Option<u64>,
    /// Bytes written to storage (`write_bytes` of `/proc/PID/io`), likewise.
    pub io_write_bytes: Option<u64>,
    /// Live processes.
    pub processes: Option<u64>,
    /// Live threads.
    pub threads: Option<u64>,
}

impl Sample {
    /// The values in the order of [`COLUMNS`].
    #[must_use]
    pub fn values(&self) -> [Option<u64>; COLUMNS.len()] {
        [
            self.cpu_user_us,
            self.cpu_system_us,
            self.mem_rss_bytes,
            self.mem_shmem_bytes,
            self.io_read_bytes,
            self.io_write_bytes,
            self.processes,
            self.threads,
        ]
    }

    /// Builds a sample from a time and values in the order of [`COLUMNS`].
    #[must_use]
    pub fn from_values(at_ms: u64, values: [Option<u64>; COLUMNS.len()]) -> Self {
        let [
            cpu_user_us,
            cpu_system_us,
            mem_rss_bytes,
            mem_shmem_bytes,
            io_read_bytes,
            io_write_bytes,
            processes,
            threads,
        ] = values;
        Self {
            at_ms,
            cpu_user_us,
            cpu_system_us,
            mem_rss_bytes,
            mem_shmem_bytes,
            io_read_bytes,
            io_write_bytes,
            processes,
            threads,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_and_columns_agree() {
        let values = std::array::from_fn(|i| Some(i as u64 + 1));
        let sample = Sample::from_values(7, values);
        assert_eq!(sample.values(), values);
        assert_eq!(sample.threads, Some(8));
    }
}
