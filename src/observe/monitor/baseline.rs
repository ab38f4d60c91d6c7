//! What was counted before the run, and how far its counters came.

use serde::{Deserialize, Serialize};

use super::ledger::Ledger;

/// The counters of a run as a sampler keeps them: kept with the run, they let another sampler continue after a restart.
///
/// A cgroup began before the run: the batch shell and earlier steps are in its counters. What they had counted by the
/// first sample, but for what the run's own processes had used by then, is left out of all samples. The cgroup itself goes
/// on counting while nobody looks, so nothing is lost meanwhile and nothing counted twice. The younger the baseline, the
/// less is lost of what is summed over processes; the part about the cgroup stays as it was taken.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Baseline {
    pub(super) is_taken: bool,
    /// CPU times come from the cgroup, else from the processes.
    pub(super) cpu_is_of_cgroup: bool,
    /// The processes are those that the cgroup lists, else the run's tree.
    pub(super) is_listed: bool,
    pub(super) cpu_user: Ledger,
    pub(super) cpu_system: Ledger,
    /// Of the processes.
    pub(super) io_read: Ledger,
    pub(super) io_write: Ledger,
    pub(super) cgroup_io_read: Option<Ledger>,
    pub(super) cgroup_io_write: Option<Ledger>,
    pub(super) throttled: Option<Ledger>,
    pub(super) oom_kills: Option<Ledger>,
    pub(super) psi_cpu_some: Option<Ledger>,
    pub(super) psi_mem_some: Option<Ledger>,
    pub(super) psi_mem_full: Option<Ledger>,
    pub(super) psi_io_some: Option<Ledger>,
    pub(super) psi_io_full: Option<Ledger>,
}

impl Baseline {
    /// Goes on without the cgroup: what came from it comes from the run's processes from now on.
    pub(super) fn leave_cgroup(&mut self) {
        if std::mem::take(&mut self.cpu_is_of_cgroup) || self.is_listed {
            self.cpu_user.change_source();
            self.cpu_system.change_source();
        }
        if std::mem::take(&mut self.is_listed) {
            self.io_read.change_source();
            self.io_write.change_source();
        }
    }
}

/// The run's share of a counter of its cgroup. It begins where it is first seen.
pub(super) fn count(ledger: &mut Option<Ledger>, now: Option<u64>) -> Option<u64> {
    let now = now?;
    let ledger = ledger.get_or_insert_with(|| Ledger::begun(now, 0));
    Some(ledger.settle(now, 0))
}
