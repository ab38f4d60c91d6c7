//! Things that happened at one moment of a run.

use serde::{Deserialize, Serialize};

/// What kind of thing happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EventKind {
    /// The node daemon took the watching over.
    Adopted,
    /// The node daemon was lost; the watcher reads by itself.
    DaemonLost,
    /// The kernel killed a process of the run for want of memory.
    OomKill,
    /// A GPU reported an XID error.
    Xid,
    /// A GPU gave no answer in time.
    GpuStale,
    /// A GPU fell off the bus.
    GpuLost,
    /// A GPU answers again.
    GpuBack,
    /// The wall clock jumped.
    ClockJump,
    /// The cgroup of the run is also that of another run.
    SharedCgroup,
    /// No GPU works in the container although the job was given some.
    GpuMissing,
    /// Something else; the detail says what.
    #[serde(other)]
    Note,
}

impl EventKind {
    /// As it is written in records.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Adopted => "adopted",
            Self::DaemonLost => "daemon_lost",
            Self::OomKill => "oom_kill",
            Self::Xid => "xid",
            Self::GpuStale => "gpu_stale",
            Self::GpuLost => "gpu_lost",
            Self::GpuBack => "gpu_back",
            Self::ClockJump => "clock_jump",
            Self::SharedCgroup => "shared_cgroup",
            Self::GpuMissing => "gpu_missing",
            Self::Note => "note",
        }
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
