//! Measures what a run uses, from the kernel's files under `/proc` and of its cgroup.
//!
//! A [`Sampler`] makes one [`Sample`](crate::record::Sample) per tick; [`host_facts`] says once what the machine is.
//! [`cgroup::locate`] finds the cgroup of the job in which a process runs, [`identity`] says who a process is. The module
//! knows nothing of schedulers but how their cgroups are named, nothing of files that keep the samples, and nothing of
//! time: the caller says when a tick is and what the clock shows.

mod baseline;
pub mod cgroup;
mod columns;
mod commands;
mod conditions;
mod contained;
mod cpu_place;
mod gpu;
mod host;
pub mod identity;
mod job_signs;
mod kept;
mod ledger;
mod node;
mod process;
mod sampler;
mod software;
#[cfg(test)]
mod tests;
mod tree;

pub use baseline::Baseline;
pub use cgroup::JobCgroup;
pub(crate) use cgroup::memory_limit;
pub use conditions::{affinity, cpus_effective, memory_available, node_cpu_us, storage_class};
pub use contained::runs_in_container;
pub use cpu_place::by_place;
pub use gpu::{
    GpuCondition, GpuError, GpuProcess, GpuRead, GpuReader, GpuReport, GpuState, GpuWatch, GpuXid,
    Nvml, WatchPace, allocated_gpus, gpu_driver_present,
};
pub use host::{allowed_cpus, host_facts};
pub use identity::{
    boot_id, cpu_seconds_with_children, memory_peak, memory_peak_below, start_time_ticks,
};
pub use job_signs::JobSigns;
pub use sampler::{PROCESS_INTERVAL, Sampler};
pub use software::{packages_of, software_of};
pub use tree::TreeRoot;

use nix::sys::resource::{UsageWho, getrusage};

/// CPU time that this process has used, in user mode and the kernel, in microseconds (`getrusage(2)`): what watching
/// costs. 0 where the kernel does not say.
#[must_use]
pub fn own_cpu_us() -> u64 {
    let Ok(usage) = getrusage(UsageWho::RUSAGE_SELF) else {
        return 0;
    };
    let times = [usage.user_time(), usage.system_time()];
    times
        .iter()
        .map(|time| u64::try_from(time.tv_sec() * 1_000_000 + time.tv_usec()).unwrap_or(0))
        .sum()
}

/// Resident memory of this process, in bytes. 0 where the kernel does not say.
#[must_use]
pub fn own_rss_bytes() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages: u64 = statm
        .split(' ')
        .nth(1)
        .and_then(|pages| pages.parse().ok())
        .unwrap_or(0);
    let page = nix::unistd::sysconf(nix::unistd::SysconfVar::PAGE_SIZE)
        .ok()
        .flatten();
    pages.saturating_mul(
        page.and_then(|bytes| u64::try_from(bytes).ok())
            .unwrap_or(4096),
    )
}
