//! Things that happened at one moment of a run.

use serde::{Deserialize, Serialize};

use crate::foundation::vocabulary::vocabulary;

vocabulary! {
    /// What kind of thing happened.
    pub enum EventKind {
        /// The node daemon took the watching over.
        Adopted = "adopted",
        /// The node daemon was lost; the watcher reads by itself.
        DaemonLost = "daemon_lost",
        /// The kernel killed a process of the run for want of memory.
        OomKill = "oom_kill",
        /// A GPU reported an XID error.
        Xid = "xid",
        /// A GPU gave no answer in time.
        GpuStale = "gpu_stale",
        /// A GPU fell off the bus.
        GpuLost = "gpu_lost",
        /// A GPU answers again.
        GpuBack = "gpu_back",
        /// The wall clock jumped.
        ClockJump = "clock_jump",
        /// The cgroup of the run is also that of another run.
        SharedCgroup = "shared_cgroup",
        /// No GPU works in the container although the job was given some.
        GpuMissing = "gpu_missing",
        /// The program seems to hang.
        Hang = "hang",
        /// The program that seemed to hang writes or works again.
        HangOver = "hang_over",
        /// dlrun ended the program, which seemed to hang.
        HangEnded = "hang_ended",
        /// dlrun ended the program, which did nothing, as the site says.
        IdleEnded = "idle_ended",
        /// The scheduler raised the time limit, as dlrun asked.
        LimitRaised = "limit_raised",
        /// The time limit will not suffice and stays as it is: the scheduler refused more, or dlrun may not ask for enough.
        LimitKept = "limit_kept",
        /// Another node of a distributed training was lost.
        NodeLost = "node_lost",
        /// The node did not pass its check, and the run started all the same.
        NodeUnfit = "node_unfit",
        /// The node did not pass its check, and the start ended before its command.
        NodeRefused = "node_refused",
        /// Something else; the detail says what.
        #[serde(other)]
        Note = "note",
    }
}

impl EventKind {
    /// Whether it says that the node did not pass its check.
    #[must_use]
    pub fn is_of_node(self) -> bool {
        matches!(self, Self::NodeUnfit | Self::NodeRefused)
    }
}

/// One event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// When, in Unix milliseconds UTC.
    pub at_ms: u64,
    /// What kind.
    pub kind: EventKind,
    /// More of it, for people.
    pub detail: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_written_form_is_the_name_and_later_kinds_are_notes() {
        for kind in [
            EventKind::Adopted,
            EventKind::OomKill,
            EventKind::GpuLost,
            EventKind::GpuMissing,
            EventKind::Note,
        ] {
            assert_eq!(serde_json::to_value(kind).expect("text"), kind.as_str());
        }
        assert_eq!(
            serde_json::from_str::<EventKind>("\"of_later\"").expect("text"),
            EventKind::Note
        );
    }
}
