//! One reading of a run's resources on one node: of the run as a whole, of its GPUs and of its processes.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// Samples of two readers that are no further apart are of one moment, in milliseconds: a sample has the time at which its reading
/// began, and what is read first may end last. It is half of the least interval.
pub const ONE_MOMENT_MS: u64 = 50;

/// How the values of a column relate to time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ColumnKind {
    /// Only grows; a rate is the difference of two readings over their distance in time. Where it falls, its source began
    /// anew (a driver that was loaded again).
    Counter,
    /// Stands for itself.
    Gauge,
    /// A set of bits.
    Mask,
}

/// Name and meaning of one value of a reading. The unit is the name's suffix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Column {
    /// Name with its unit, as in the index and the exports.
    pub name: &'static str,
    /// Counter, gauge or mask.
    pub kind: ColumnKind,
    /// What it is, in words.
    pub about: &'static str,
}

/// Makes a structure of optional numbers, the list of its columns and the way from one to the other.
macro_rules! reading {
    (
        $(#[$about:meta])*
        $name:ident, $columns:ident: $columns_about:literal,
        before { $($(#[$before_doc:meta])* $before:ident: $before_type:ty,)* }
        columns { $($(#[doc = $doc:literal])+ $field:ident: $kind:ident,)* }
        after { $($(#[$after_doc:meta])* $after:ident: $after_type:ty,)* }
    ) => {
        #[doc = $columns_about]
        pub const $columns: [Column; [$(stringify!($field)),*].len()] =
            [$(Column { name: stringify!($field), kind: ColumnKind::$kind, about: concat!($($doc),+).trim_ascii_start() }),*];

        $(#[$about])*
        pub struct $name {
            $($(#[$before_doc])* pub $before: $before_type,)*
            $($(#[doc = $doc])+ #[serde(default, skip_serializing_if = "Option::is_none")] pub $field: Option<u64>,)*
            $($(#[$after_doc])* pub $after: $after_type,)*
        }

        impl $name {
            /// The values in the order of the columns.
            #[must_use]
            pub fn values(&self) -> [Option<u64>; $columns.len()] {
                [$(self.$field),*]
            }

            /// Puts values in, in the order of the columns.
            pub fn set_values(&mut self, values: [Option<u64>; $columns.len()]) {
                [$(self.$field),*] = values;
            }
        }
    };
}

reading! {
    /// One reading, cumulative and as read. `None`: could not be read (the node record says why), or was not due: what is
    /// costly to read is read less often.
    ///
    /// Of the run are: CPU time, memory, I/O, processes, `psi_`. Of the whole node, other jobs included, are: `node_`.
    #[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
    Sample,
    COLUMNS: "The columns of a sample, in the order of [`Sample::values`]. A new one is appended, never inserted.",
    before {
        /// When it was read, in Unix milliseconds UTC.
        at_ms: u64,
    }
    columns {
        /// CPU time in user mode of all processes of the run, ended ones included, in microseconds.
        cpu_user_us: Counter,
        /// CPU time in the kernel of the same processes, in microseconds.
        cpu_system_us: Counter,
        /// Resident memory, summed over the processes: pages shared between them count more than once.
        mem_rss_bytes: Gauge,
        /// Shared memory: `/dev/shm`, shared mappings. Of the cgroup if there is one, else the resident part of
        /// the processes'.
        mem_shmem_bytes: Gauge,
        /// Bytes read from storage, ended processes included.
        io_read_bytes: Counter,
        /// Bytes written to storage, ended processes included.
        io_write_bytes: Counter,
        /// Live processes.
        processes: Gauge,
        /// Live threads.
        threads: Gauge,
        /// Time in which the CPU quota throttled the run, in microseconds.
        cpu_throttled_us: Counter,
        /// Anonymous memory of the cgroup: heaps, stacks.
        mem_anon_bytes: Gauge,
        /// File pages of the cgroup: page cache, mapped files, shared memory. Most of it can be dropped.
        mem_file_bytes: Gauge,
        /// Peak memory of the cgroup according to the kernel, including page cache.
        mem_peak_bytes: Gauge,
        /// Processes that the kernel killed because of memory.
        mem_oom_kills: Counter,
        /// Time in which some task of the run waited for a CPU, in microseconds (pressure stall information).
        psi_cpu_some_us: Counter,
        /// Time in which some task waited for memory.
        psi_mem_some_us: Counter,
        /// Time in which all tasks waited for memory.
        psi_mem_full_us: Counter,
        /// Time in which some task waited for I/O.
        psi_io_some_us: Counter,
        /// Time in which all tasks waited for I/O.
        psi_io_full_us: Counter,
        /// Like `psi_cpu_some_us`, for the node.
        node_psi_cpu_some_us: Counter,
        /// Like `psi_mem_some_us`, for the node.
        node_psi_mem_some_us: Counter,
        /// Like `psi_mem_full_us`, for the node.
        node_psi_mem_full_us: Counter,
        /// Like `psi_io_some_us`, for the node.
        node_psi_io_some_us: Counter,
        /// Like `psi_io_full_us`, for the node.
        node_psi_io_full_us: Counter,
        /// Bytes received by the node's network interfaces, without loopback.
        node_net_rx_bytes: Counter,
        /// Bytes sent by these interfaces.
        node_net_tx_bytes: Counter,
    }
    after {
        /// The GPUs of the run, each once.
        #[serde(default)]
        gpus: Vec<GpuReading>,
        /// Processes of the run that were looked at one by one; less often than the rest, and not all of many.
        #[serde(default)]
        commands: Vec<ProcessReading>,
    }
}

reading! {
    /// One GPU as NVML shows it. `None`: the GPU, its mode or its driver does not say; that is not 0.
    #[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
    GpuReading,
    GPU_COLUMNS: "The columns of a GPU, in the order of [`GpuReading::values`]. A new one is appended, never inserted.",
    before {
        /// Its UUID, `GPU-…` or `MIG-…`: indices differ between a job and the node.
        uuid: Arc<str>,
    }
    columns {
        /// Share of the time in which any kernel ran, in percent. Not the use of its processors.
        utilisation_percent: Gauge,
        /// Share of the time in which its memory was read or written, in percent.
        mem_utilisation_percent: Gauge,
        /// Memory in use by all processes.
        mem_used_bytes: Gauge,
        /// Power drawn, in milliwatts; an average over a second on most.
        power_milliwatts: Gauge,
        /// Energy since the driver was loaded, in millijoules.
        energy_millijoules: Counter,
        /// Temperature of the chip, in degrees Celsius.
        temperature_celsius: Gauge,
        /// Clock of the streaming multiprocessors, in MHz.
        sm_clock_mhz: Gauge,
        /// Clock of the memory, in MHz.
        mem_clock_mhz: Gauge,
        /// Why the clocks are not higher: `nvmlClocksEventReason…` bits.
        throttle_reasons: Mask,
        /// Bytes sent over PCIe.
        pcie_tx_bytes: Counter,
        /// Bytes received over PCIe.
        pcie_rx_bytes: Counter,
        /// Bytes sent over all NVLinks.
        nvlink_tx_bytes: Counter,
        /// Bytes received over all NVLinks.
        nvlink_rx_bytes: Counter,
        /// Memory errors that were corrected, since the driver was loaded.
        ecc_corrected: Counter,
        /// Memory errors that were not corrected, since the driver was loaded.
        ecc_uncorrected: Counter,
        /// XID errors seen since watching began.
        xid_errors: Counter,
        /// Processes of the run that compute on it.
        run_processes: Gauge,
        /// Memory of the run's processes.
        run_mem_bytes: Gauge,
        /// Use of the streaming multiprocessors by the run's processes, in percent.
        run_sm_percent: Gauge,
        /// Cycles in which a streaming multiprocessor was busy, in hundredths of a percent (GPM; Hopper and later).
        gpm_sm_basis_points: Gauge,
        /// Resident warps relative to the maximum, in hundredths of a percent.
        gpm_occupancy_basis_points: Gauge,
        /// Cycles in which a tensor unit was busy, in hundredths of a percent.
        gpm_tensor_basis_points: Gauge,
        /// Memory bandwidth relative to the maximum, in hundredths of a percent.
        gpm_dram_basis_points: Gauge,
    }
    after {}
}

reading! {
    /// One process. Its name is the kernel's short one; arguments and environment are never read.
    #[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
    ProcessReading,
    PROCESS_COLUMNS: "The columns of a process, in the order of [`ProcessReading::values`]. New ones are appended.",
    before {
        /// Its pid.
        pid: u32,
        /// When it was started, in clock ticks since boot: with the pid this names it.
        start_time_ticks: u64,
        /// Its command name (`comm`), 15 bytes at most.
        name: Arc<str>,
    }
    columns {
        /// CPU time of the process and of the children it waited for, in microseconds.
        cpu_us: Counter,
        /// Resident memory.
        mem_rss_bytes: Gauge,
        /// Bytes read from storage.
        io_read_bytes: Counter,
        /// Bytes written to storage.
        io_write_bytes: Counter,
    }
    after {}
}

impl Sample {
    /// Builds a sample from a time and values in the order of [`COLUMNS`].
    #[must_use]
    pub fn from_values(at_ms: u64, values: [Option<u64>; COLUMNS.len()]) -> Self {
        let mut sample = Self {
            at_ms,
            ..Self::default()
        };
        sample.set_values(values);
        sample
    }

    /// Memory that the run needs, as far as one sample shows it: what its cgroup holds and cannot drop, else what its processes hold.
    /// These count files that they map, and a page as often as processes share it.
    #[must_use]
    pub fn mem_used_bytes(&self) -> Option<u64> {
        Self::mem_used_of(
            self.mem_rss_bytes,
            self.mem_anon_bytes,
            self.mem_shmem_bytes,
        )
    }

    /// [`Sample::mem_used_bytes`] of the columns that it is made of.
    #[must_use]
    pub fn mem_used_of(rss: Option<u64>, anon: Option<u64>, shmem: Option<u64>) -> Option<u64> {
        anon.map(|anon| anon.saturating_add(shmem.unwrap_or(0)))
            .or(rss)
    }
}

/// What a reading is of.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Source {
    /// The run as a whole.
    Run,
    /// The GPU with this UUID.
    Gpu(Arc<str>),
    /// A process: its pid, its start in clock ticks since boot, its name.
    Process(u32, u64, Arc<str>),
}

impl Source {
    pub(super) fn columns(&self) -> &'static [Column] {
        match self {
            Self::Run => &COLUMNS,
            Self::Gpu(_) => &GPU_COLUMNS,
            Self::Process(..) => &PROCESS_COLUMNS,
        }
    }
}

impl Sample {
    /// The run, then its GPUs, then its processes.
    pub(super) fn sources(&self) -> impl Iterator<Item = Source> {
        let gpus = self.gpus.iter().map(|gpu| Source::Gpu(gpu.uuid.clone()));
        let processes = self.commands.iter().map(|process| {
            Source::Process(process.pid, process.start_time_ticks, process.name.clone())
        });
        [Source::Run].into_iter().chain(gpus).chain(processes)
    }

    /// The sources and the values of their columns.
    pub(super) fn readings(&self) -> impl Iterator<Item = (Source, Vec<Option<u64>>)> {
        let gpus = self.gpus.iter().map(|gpu| gpu.values().to_vec());
        let processes = self
            .commands
            .iter()
            .map(|process| process.values().to_vec());
        let values = [self.values().to_vec()].into_iter();
        self.sources().zip(values.chain(gpus).chain(processes))
    }

    /// Puts the values of a source in, by the places of their columns.
    pub(super) fn add_reading(&mut self, source: &Source, value: impl Fn(usize) -> Option<u64>) {
        match source {
            Source::Run => self.set_values(std::array::from_fn(value)),
            Source::Gpu(uuid) => {
                let mut gpu = GpuReading::of(uuid.clone());
                gpu.set_values(std::array::from_fn(value));
                self.gpus.push(gpu);
            }
            Source::Process(pid, start_time_ticks, name) => {
                let mut process = ProcessReading {
                    pid: *pid,
                    start_time_ticks: *start_time_ticks,
                    name: name.clone(),
                    ..ProcessReading::default()
                };
                process.set_values(std::array::from_fn(value));
                self.commands.push(process);
            }
        }
    }
}

impl GpuReading {
    /// A reading of the GPU `uuid` that says nothing yet.
    #[must_use]
    pub fn of(uuid: Arc<str>) -> Self {
        Self {
            uuid,
            ..Self::default()
        }
    }

    /// How busy it is, in percent; by GPM where NVML gives no utilisation (MIG).
    #[must_use]
    pub fn busy_percent(&self) -> Option<f64> {
        Self::busy_of(self.utilisation_percent, self.gpm_sm_basis_points)
    }

    /// [`GpuReading::busy_percent`] of the columns that it is made of.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "percent")]
    pub fn busy_of(
        utilisation_percent: Option<u64>,
        gpm_sm_basis_points: Option<u64>,
    ) -> Option<f64> {
        let by_gpm = || gpm_sm_basis_points.map(|points| points as f64 / 100.0);
        utilisation_percent
            .map(|percent| percent as f64)
            .or_else(by_gpm)
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
        assert_eq!((sample.threads, COLUMNS[7].name), (Some(8), "threads"));
        let mut gpu = GpuReading::of("GPU-1".into());
        gpu.set_values(std::array::from_fn(|i| Some(i as u64)));
        assert_eq!(
            (gpu.energy_millijoules, GPU_COLUMNS[4].name),
            (Some(4), "energy_millijoules")
        );
    }

    #[test]
    fn a_slice_of_a_gpu_is_as_busy_as_gpm_says() {
        let slice = GpuReading {
            gpm_sm_basis_points: Some(1250),
            ..GpuReading::default()
        };
        assert_eq!(slice.busy_percent(), Some(12.5));
        assert_eq!(
            GpuReading {
                utilisation_percent: Some(7),
                ..slice
            }
            .busy_percent(),
            Some(7.0)
        );
        assert_eq!(GpuReading::default().busy_percent(), None);
    }

    #[test]
    fn memory_in_use_is_the_larger_view() {
        let seen = Sample {
            mem_rss_bytes: Some(7),
            ..Sample::default()
        };
        assert_eq!(seen.mem_used_bytes(), Some(7));
        let both = Sample {
            mem_anon_bytes: Some(6),
            mem_shmem_bytes: Some(5),
            ..seen
        };
        assert_eq!(both.mem_used_bytes(), Some(11));
        assert_eq!(Sample::default().mem_used_bytes(), None);
    }
}
