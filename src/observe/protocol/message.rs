//! The messages. Fields are only ever added, with a default; anything else makes [`PROTOCOL`] the next number.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::job::JobId;
use crate::observe::monitor::identity::Process;
use crate::record::{
    Event, Gap, GpuFacts, GpuUsage, MeasureKey, Missing, NodeRecord, Progress, RunRecord, Sample,
    Usage,
};

/// The version of this protocol.
pub const PROTOCOL: u32 = 1;

/// The first message of both sides. Its form never changes, so that any two versions can tell each other what they are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// The protocol that the sender speaks.
    pub protocol: u32,
    /// The sender's version of dlrun.
    pub version: String,
}

impl Hello {
    /// What this dlrun says.
    #[must_use]
    pub fn ours() -> Self {
        Self {
            protocol: PROTOCOL,
            version: env!("CARGO_PKG_VERSION").to_owned(),
        }
    }

    /// Why two sides cannot talk, and what helps; `None` where they can.
    #[must_use]
    pub fn mismatch(daemon: &Self, client: &Self) -> Option<String> {
        let help = match daemon.protocol.cmp(&client.protocol) {
            std::cmp::Ordering::Equal => return None,
            std::cmp::Ordering::Less => "upgrade and restart dlrund",
            std::cmp::Ordering::Greater => "use a newer dlrun",
        };
        let (theirs, ours) = (daemon.protocol, client.protocol);
        Some(format!(
            "dlrund {} speaks protocol {theirs}, dlrun {} speaks protocol {ours}: {help}",
            daemon.version, client.version
        ))
    }
}

/// What a client asks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Request {
    /// Must come first.
    Hello(Hello),
    /// Watch my run from now on. Answered by [`Response::Registered`].
    Register(Box<Registration>),
    /// What the run's output said so far. Answered by [`Response::Measured`].
    Update {
        /// The client's part of the record as the client has it: epochs and steps, output, host.
        record: Box<NodeRecord>,
    },
    /// Samples that the client took while there was no daemon. Answered by [`Response::Measured`].
    Backfill {
        /// A segment ([`crate::record::decode_segment`]).
        #[serde(with = "base64_text")]
        bytes: Vec<u8>,
    },
    /// Give me samples. Answered by [`Response::Segment`].
    Collect {
        /// The last segment that lies safely with the client; up to here nothing is sent again.
        acknowledged: Option<u32>,
    },
    /// The run has ended. Answered by [`Response::Measured`]; what is left can still be collected.
    End(Box<Ending>),
    /// Which runs are there now? Answered by [`Response::Runs`].
    Runs(RunsQuery),
    /// How is the daemon? Answered by [`Response::Status`].
    Status,
}

/// What the daemon answers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Response {
    /// To [`Request::Hello`].
    Hello(Hello),
    /// To [`Request::Register`].
    Registered(Registered),
    /// To [`Request::Update`], [`Request::Backfill`] and [`Request::End`].
    Measured(Box<Measured>),
    /// To [`Request::Collect`].
    Segment(Segment),
    /// To [`Request::Runs`].
    Runs(Runs),
    /// To [`Request::Status`].
    Status(Box<DaemonStatus>),
    /// To anything: it was not done.
    Refused(Refusal),
}

/// A run to watch. The daemon takes user, cgroup and processes from the kernel; what stands here names and describes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Registration {
    /// The run.
    pub run: RunRecord,
    /// The record as it stands; its key names the measurement.
    pub record: NodeRecord,
    /// The training's first process, a child of the client's parent.
    pub command: Process,
    /// UUIDs of the GPUs that the job was given, as the client sees them.
    #[serde(default)]
    pub gpus: Vec<String>,
    /// Why the daemon was not there before, where the run was watched without it.
    #[serde(default)]
    pub gap: Option<GapHint>,
    /// The date from which the client counts the times of the run: the boot of the node, in Unix milliseconds UTC. The client notices
    /// steps of the wall clock itself. `None`: an older dlrun.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub booted_at_ms: Option<u64>,
}

/// What the client knows of a time without the daemon.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GapHint {
    /// When the daemon was lost, in Unix milliseconds UTC.
    pub lost_at_ms: u64,
}

/// The run is watched.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Registered {
    /// Time between two samples.
    pub interval_ms: u64,
    /// True where the daemon had the run already: its client, or the daemon itself, was restarted.
    pub resumed: bool,
    /// The last segment that the client said it has.
    pub acknowledged: Option<u32>,
    /// The cgroup that is read; `None`: the run's processes.
    pub cgroup: Option<String>,
}

/// Samples.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Segment {
    /// What to acknowledge once it is safe; `None`: there is nothing new.
    pub through: Option<u32>,
    /// A segment of at most 512 KiB.
    #[serde(with = "base64_text")]
    pub bytes: Vec<u8>,
    /// More is waiting.
    pub more: bool,
}

/// The end of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Ending {
    /// The record as the client has it, with the end.
    pub record: NodeRecord,
    /// CPU time in user mode of all children that the supervisor waited for, in microseconds.
    pub cpu_user_us: u64,
    /// CPU time in the kernel, likewise.
    pub cpu_system_us: u64,
}

/// What the daemon measured of the run so far.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Default)]
pub struct Measured {
    /// What was used.
    pub usage: Usage,
    /// Holes in the series.
    pub gaps: Vec<Gap>,
    /// What could not be measured.
    pub missing: Vec<Missing>,
    /// What happened.
    pub events: Vec<Event>,
    /// The run's GPUs.
    pub gpus: Vec<GpuUsage>,
    /// The cgroup that is read.
    pub cgroup: Option<String>,
    /// Samples taken.
    pub samples: u64,
    /// Ticks that came more than half an interval late.
    pub late_ticks: u64,
    /// CPU time that the daemon spent on this run, in microseconds.
    pub cpu_us: u64,
}

/// Which runs are asked for: those that the asking user may see.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
pub struct RunsQuery {
    /// Leave out so many; for the next part of a long answer.
    #[serde(default)]
    pub skip: usize,
    /// Processes too, not only totals.
    #[serde(default)]
    pub processes: bool,
}

/// The runs of the node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Runs {
    /// The node's host name.
    pub host: String,
    /// When this was said, in Unix milliseconds UTC.
    pub at_ms: u64,
    /// The runs, oldest first.
    pub runs: Vec<RunView>,
    /// There are more: ask again and skip these.
    pub more: bool,
}

/// One run as it is now.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunView {
    /// Whose measurement.
    pub key: MeasureKey,
    /// The job's name.
    pub name: String,
    /// The scheduler's job.
    pub job_id: Option<JobId>,
    /// The user, from the kernel.
    pub uid: u32,
    /// When the command was started, in Unix milliseconds UTC.
    pub started_at_ms: u64,
    /// The last sample.
    pub sample: Option<Sample>,
    /// What was used so far.
    pub usage: Usage,
    /// The GPUs.
    pub gpus: Vec<GpuUsage>,
    /// Epochs and steps: without the epochs themselves but for the last.
    pub progress: Progress,
    /// The last events, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<Event>,
    /// When the processes in `sample` were read, in Unix milliseconds UTC: they are read less often than the rest, and are
    /// sent again until then. `None`: there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub processes_at_ms: Option<u64>,
}

/// How the daemon is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DaemonStatus {
    /// Its version of dlrun.
    pub version: String,
    /// Its pid.
    pub pid: u32,
    /// When it was started, in Unix milliseconds UTC.
    pub started_at_ms: u64,
    /// Time between two samples.
    pub interval_ms: u64,
    /// Runs that it watches, of all users.
    pub runs: usize,
    /// The node's GPUs.
    pub gpus: Vec<GpuFacts>,
    /// What it costs.
    pub cost: DaemonCost,
    /// Its database.
    pub store: StoreStatus,
    /// What does not work, and why.
    pub problems: Vec<String>,
}

/// What the daemon costs, measured by itself since its start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Default)]
pub struct DaemonCost {
    /// CPU time, in microseconds.
    pub cpu_us: u64,
    /// Resident memory.
    pub mem_rss_bytes: u64,
    /// Ticks.
    pub ticks: u64,
    /// Ticks that took longer than the time between two.
    pub overruns: u64,
    /// The last tick, in microseconds of wall time.
    pub last_tick_us: u64,
    /// The longest tick.
    pub longest_tick_us: u64,
}

/// The state of the daemon's database.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
pub struct StoreStatus {
    /// Where it lies.
    pub path: String,
    /// Its size.
    pub bytes: u64,
    /// Samples that were dropped because the disk did not take them.
    pub dropped_samples: u64,
    /// Why the last write failed; `None` where it did not.
    pub error: Option<String>,
}

/// Why something was not done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// What kind of reason.
    pub kind: RefusalKind,
    /// The reason, for people.
    pub message: String,
}

/// Kinds of refusal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RefusalKind {
    /// The two sides speak different protocols.
    Version,
    /// The request makes no sense, or not now.
    BadRequest,
    /// The asking user may not.
    NotPermitted,
    /// Too much is going on; try again later.
    Busy,
    /// The daemon failed.
    #[serde(other)]
    Internal,
}

impl Refusal {
    /// A refusal with its reason.
    pub fn new(kind: RefusalKind, message: impl Into<String>) -> Self {
        let message = message.into();
        Self { kind, message }
    }
}

impl Response {
    /// A refusal.
    #[must_use]
    pub fn refused(kind: RefusalKind, message: impl Into<String>) -> Self {
        Self::Refused(Refusal::new(kind, message))
    }
}

/// Bytes as base64 (RFC 4648), since JSON holds text.
mod base64_text {
    use super::{Deserialize, Deserializer, Engine, STANDARD, Serializer};

    pub(super) fn serialize<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&STANDARD.encode(bytes))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Vec<u8>, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        STANDARD
            .decode(text.as_bytes())
            .map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_come_back_with_all_their_digits() {
        for bits in (0..1_000).map(|n| 0x3f8a_bcde_f012_3456_u64 + n * 0x0001_2345_6789_abcd) {
            let figure = f64::from_bits(bits);
            let text = serde_json::to_string(&figure).expect("a number");
            let read: f64 = serde_json::from_str(&text).expect("a number");
            assert_eq!(read.to_bits(), bits, "{text}");
        }
    }

    #[test]
    fn a_mismatch_names_both_sides_and_the_way_out() {
        let hello = |protocol, version: &str| Hello {
            protocol,
            version: version.to_owned(),
        };
        assert_eq!(
            Hello::mismatch(&hello(1, "0.1.0"), &hello(1, "0.9.0")),
            None
        );
        let old = Hello::mismatch(&hello(1, "0.1.0"), &hello(2, "0.9.0")).expect("they differ");
        assert!(
            old.contains("0.1.0")
                && old.contains("0.9.0")
                && old.ends_with("upgrade and restart dlrund")
        );
        let new = Hello::mismatch(&hello(2, "0.9.0"), &hello(1, "0.1.0")).expect("they differ");
        assert!(new.ends_with("use a newer dlrun"));
    }

    #[test]
    fn bytes_travel_as_base64() {
        let segment = Segment {
            through: Some(3),
            bytes: vec![0, 255, 7],
            more: false,
        };
        let text = serde_json::to_string(&Response::Segment(segment.clone())).expect("plain data");
        assert_eq!(
            text,
            r#"{"type":"segment","through":3,"bytes":"AP8H","more":false}"#
        );
        assert_eq!(
            serde_json::from_str::<Response>(&text).expect("text"),
            Response::Segment(segment)
        );
        assert!(serde_json::from_str::<Request>(r#"{"type":"backfill","bytes":"*"}"#).is_err());
    }
}
