//! What the machine is: read once at the start of a run, not per tick.
//!
//! `sysinfo` knows the CPU models of all architectures. It is asked for nothing but the CPU list and the memory: its
//! default also lists every process. What it does then is read `/proc/cpuinfo`, `/proc/stat` and `/proc/meminfo` whole,
//! 0.2 ms of CPU time with 2 CPUs; the first two grow with the number of CPUs (by about 15 us each), where one would do.

use nix::sched::{CpuSet, sched_getaffinity};
use nix::sys::utsname::uname;
use nix::unistd::Pid;
use sysinfo::{CpuRefreshKind, MemoryRefreshKind, RefreshKind, System};

use crate::record::HostFacts;

/// Reads the facts of this machine. `omp_num_threads` is what the run's environment has under `OMP_NUM_THREADS`.
#[must_use]
pub fn host_facts(omp_num_threads: Option<String>) -> HostFacts {
    let uname = uname().ok();
    let text = |value: &std::ffi::OsStr| value.to_string_lossy().into_owned();
    let refresh = RefreshKind::nothing()
        .with_cpu(CpuRefreshKind::nothing())
        .with_memory(MemoryRefreshKind::nothing().with_ram());
    let system = System::new_with_specifics(refresh).ok();
    let system = system.as_ref();
    HostFacts {
        hostname: uname
            .as_ref()
            .map(|uname| text(uname.nodename()))
            .unwrap_or_default(),
        cpu_model: system.and_then(cpu_model),
        cpus: system
            .map(|system| system.cpus().len() as u64)
            .filter(|cpus| *cpus > 0),
        cpus_allowed: allowed_cpus().map(|cpus| cpus.len() as u64),
        mem_total_bytes: system.map(System::total_memory).filter(|bytes| *bytes > 0),
        kernel: uname.as_ref().map(|uname| text(uname.release())),
        omp_num_threads,
    }
}

fn cpu_model(system: &System) -> Option<String> {
    let model = system.cpus().first()?.brand().trim();
    (!model.is_empty()).then(|| model.to_owned())
}

/// The CPUs in the affinity mask of this process (`sched_getaffinity(2)`). `None` on a machine with more CPUs than a fixed
/// mask holds.
#[must_use]
pub fn allowed_cpus() -> Option<Vec<usize>> {
    let set = sched_getaffinity(Pid::from_raw(0)).ok()?;
    let is_allowed = |cpu: &usize| set.is_set(*cpu).unwrap_or(false);
    Some((0..CpuSet::count()).filter(is_allowed).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_has_cpus_and_memory() {
        let facts = host_facts(Some("4".into()));
        assert!(!facts.hostname.is_empty());
        assert!(
            facts.cpus_allowed <= facts.cpus && facts.cpus_allowed >= Some(1),
            "{facts:?}"
        );
        assert!(facts.mem_total_bytes > Some(64 << 20), "{facts:?}");
        assert!(facts.kernel.is_some_and(|kernel| kernel.contains('.')));
        assert_eq!(facts.omp_num_threads.as_deref(), Some("4"));
    }
}
