//! The starts of a run as they are shown: each, and all as one.

use std::fmt;

use serde::Serialize;

use super::{AttemptMarks, AttemptRecord, ExitStatus};
use crate::foundation::units::{counted, display_seconds};
use crate::job::JobId;

/// A start of a run, or of an element of its array.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct AttemptSeen {
    /// The element.
    pub element: Option<u32>,
    /// Its number, from 0.
    pub attempt: Option<u32>,
    /// When its batch script began, in Unix milliseconds UTC.
    pub started_at_ms: Option<u64>,
    /// When that ended.
    pub ended_at_ms: Option<u64>,
    /// How.
    pub exit: Option<ExitStatus>,
    /// The node of its batch shell.
    pub node: Option<String>,
    /// Its job.
    pub job_id: Option<JobId>,
    /// What the job noted of it, where the run may continue.
    #[serde(flatten)]
    pub record: Option<AttemptRecord>,
}

impl AttemptSeen {
    /// A start by its marks.
    #[must_use]
    pub fn new(element: Option<u32>, attempt: Option<u32>, marks: AttemptMarks) -> Self {
        Self {
            element,
            attempt,
            started_at_ms: marks.started_at_ms,
            ended_at_ms: marks.ended_at_ms,
            exit: marks.exit_code.map(ExitStatus::from_shell_code),
            node: marks.first_node,
            job_id: marks.job_id,
            record: marks.record,
        }
    }

    /// Why dlrun ended it, where the program did not end by itself.
    #[must_use]
    pub fn asked_to_end(&self) -> Option<&str> {
        let end = self.record.as_ref()?.end.as_ref()?;
        end.is_by_dlrun().then_some(&*end.evidence)
    }

    /// How it ended, what followed, the name of the checkpoint that it continued from, and how long it took to save, as text.
    #[must_use]
    pub fn noted(&self) -> [Option<String>; 4] {
        let end = self.record.as_ref().and_then(|record| record.end.as_ref());
        let from = self
            .record
            .as_ref()
            .and_then(|record| record.from.as_deref());
        [
            end.map(|end| match &*end.lost_nodes {
                [] => end.verdict.to_string(),
                lost => format!("{} ({})", end.verdict, lost.join(", ")),
            }),
            end.map(|end| end.next.to_string()),
            from.map(|from| from.rsplit('/').next().unwrap_or_default().to_owned()),
            end.and_then(|end| end.save_seconds).map(display_seconds),
        ]
    }
}

/// The starts of a run that continued, as one.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct AllStarts {
    /// How many there were, two at least.
    pub starts: u64,
    /// When the first began, in Unix milliseconds UTC.
    pub started_at_ms: Option<u64>,
    /// From start to end of each, together.
    pub ran_seconds: f64,
    /// Epochs that were trained, each counted once; unknown where they have no numbers, or the numbers begin again within a start.
    pub epochs: Option<u64>,
}

impl fmt::Display for AllStarts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ran = display_seconds(self.ran_seconds);
        match self.starts {
            1 => write!(f, "1 start, which ran {ran}")?,
            starts => write!(f, "{starts} starts, which ran {ran} together")?,
        }
        match self.epochs {
            Some(epochs) => write!(f, " and trained {}", counted(epochs, "epoch")),
            None => Ok(()),
        }
    }
}
