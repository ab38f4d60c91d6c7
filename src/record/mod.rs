//! What a run leaves behind, as data: who submitted what ([`RunRecord`]), what one node measured ([`NodeRecord`],
//! [`Sample`], [`Progress`]) and what follows from it ([`Usage`], [`Status`]).
//!
//! Counters are kept cumulative, as read; everything else is derived on reading. What could not be read is `None`, never 0.

mod activity;
mod attempt_end;
mod attempt_seen;
mod cause;
mod cause_of_end;
mod conditions;
mod container;
mod described;
mod elements;
mod event;
mod expected_end;
pub mod export;
mod figures;
mod first_rank;
mod followed;
mod forecast;
mod gpu;
mod held;
mod identity;
mod incoming;
mod last_words;
mod memory_forecast;
mod node;
mod notice;
mod pace;
mod packed_column;
mod point;
mod rank;
mod resolve;
mod root_cause;
mod row;
mod run;
mod run_progress;
pub mod rundir;
mod sample;
mod series;
mod start;
mod status;
pub mod store;
mod table;
mod target;
mod timing;
mod trial;
mod usage;

pub use crate::foundation::statistics::median;
pub use activity::{
    Activity, Iteration, IterationSource, Pattern, PatternKind, Phase, PhaseSpan, PhaseTime,
};
pub use attempt_end::{AttemptEnd, AttemptRecord, Checkpoint, Next, TimeStop, Verdict};
pub use attempt_seen::{AllStarts, AttemptSeen};
pub use cause::{Cause, CauseKind, ending, signal_name};
pub use conditions::{Conditions, NetworkFacts, Software, StorageClass};
pub use container::{ContainerRecord, ContainerRuntime, FlagReason, ImageIdentity, RunImage};
pub use elements::{Element, cover, merge_elements};
pub use event::{Event, EventKind};
pub use expected_end::ExpectedEnd;
pub use figures::NodeFigures;
pub use first_rank::{NOT_FIT, NOT_MET, add_first_rank, unreported_end};
pub use followed::{Followed, FollowedScore, Took};
pub use forecast::{Basis, Forecast, Interval, Shift};
pub use gpu::{GpuFacts, GpuPlace, GpuSums, GpuUsage, add_gpu_readings};
pub use held::Held;
pub use identity::{Amount, Asked, Identity, Input, Past, Revision};
pub use incoming::{Incoming, MAX_LINE_BYTES, RowVersion};
pub use last_words::{LAST_WORDS_BYTES, last_words};
pub use memory_forecast::MemoryForecast;
pub use node::{
    AttemptMarks, Gap, HostFacts, MeasureKey, Measurement, Missing, NodeRecord, NodeState,
    WatcherCost, add_new,
};
pub use notice::{NOTICE_TAIL_BYTES, Notice, find_notice, notices};
pub use pace::Training;
pub use packed_column::SeriesError;
pub use point::{MAX_POINTS, MetricPoint, MetricValue, PointKind};
pub use rank::{RankRecord, Straggler};
pub use resolve::{NOT_AGAIN, resolve};
pub use root_cause::add_root_cause;
pub use row::{decode_row, encode_row};
pub use run::{ArrayPart, RunRecord, Sentinel};
pub use run_progress::{EndSource, RunProgress, hangs};
pub use sample::{
    COLUMNS, Column, ColumnKind, GPU_COLUMNS, GpuReading, ONE_MOMENT_MS, PROCESS_COLUMNS,
    ProcessReading, Sample,
};
pub use series::{
    Columns, MAX_SEGMENT_BYTES, MAX_SEGMENT_SAMPLES, decode_columns, decode_segment,
    decode_segment_within, encode_segments, segment_cells,
};
pub use start::{EpochFigures, Hardware, NodeMeasure, Situation, Start, Submitted};
pub use status::{ElementCounts, Outcome, QueueEntry, RunRow, Status};
pub use table::{Cell, Field, FieldType, MAX_NAME_BYTES, Role, Table};
pub use target::{NodeBench, Spread, TargetRecord};
pub use timing::{
    Epoch, EpochNumbering, MAX_EPOCHS_KEPT, Progress, Scope, StepMark, StepTimes, Throughput,
    TimeSource, of_commonest_source,
};
pub use trial::{TrialPass, TrialRecord, TriedWay};
pub use usage::{EpochSummary, Usage, summarise_epochs};

use serde::{Deserialize, Serialize};

/// Says whether a value need not be written, as reading restores it.
pub(crate) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ExitStatus {
    /// It returned this code.
    Code(i32),
    /// This signal ended it.
    Signal(i32),
}

impl From<std::process::ExitStatus> for ExitStatus {
    fn from(status: std::process::ExitStatus) -> Self {
        use std::os::unix::process::ExitStatusExt;
        let signal = status.signal().map(Self::Signal);
        signal.unwrap_or(Self::Code(status.code().unwrap_or(125)))
    }
}

impl ExitStatus {
    /// The shell's form: the code, or 128 + the signal's number.
    #[must_use]
    pub fn shell_code(self) -> i32 {
        match self {
            Self::Code(code) => code,
            Self::Signal(signal) => 128 + signal,
        }
    }

    /// Reads the shell's form back. `128 + n` is taken for signal `n`; a program may also have returned that number.
    #[must_use]
    pub fn from_shell_code(code: i32) -> Self {
        if (129..=192).contains(&code) {
            Self::Signal(code - 128)
        } else {
            Self::Code(code)
        }
    }

    /// True for exit code 0.
    #[must_use]
    pub fn is_success(self) -> bool {
        self == Self::Code(0)
    }
}
