//! When the memory of a run that grows steadily will exceed its limit.

use serde::{Deserialize, Serialize};

use super::ExpectedEnd;
use crate::foundation::units::{Bytes, display_seconds};

/// A forecast from the samples of a run on a node, and what came of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct MemoryForecast {
    /// UUID of the GPU whose memory it is about; `None`: the main memory of the node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu: Option<String>,
    /// The limit: what the job asked for, else that of its cgroup; the node's memory where that is less; all memory of a GPU.
    pub limit_bytes: u64,
    /// When it was first forecast, in Unix milliseconds UTC.
    pub made_at_ms: u64,
    /// What was forecast then: when the limit is exceeded.
    pub first: ExpectedEnd,
    /// What is forecast now; `None`: nothing any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exceeds: Option<ExpectedEnd>,
    /// When it was seen to have come, in Unix milliseconds UTC: the memory was over the limit, or the kernel had killed a process for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exceeded_at_ms: Option<u64>,
}

impl MemoryForecast {
    /// `memory may exceed the limit of 64GiB in about 40 min (35 min to 47 min) if it keeps growing`; `None` where nothing is forecast, or
    /// its time is over.
    #[must_use]
    pub fn text(&self, now_ms: u64) -> Option<String> {
        let end = self.exceeds.filter(|_| self.exceeded_at_ms.is_none())?;
        if end.latest_ms <= now_ms {
            return None;
        }
        #[expect(clippy::cast_precision_loss, reason = "milliseconds of a run")]
        let left = |at_ms: u64| display_seconds(at_ms.saturating_sub(now_ms) as f64 / 1e3);
        Some(format!(
            "{} may exceed the limit of {} in about {} ({} to {}) if it keeps growing",
            self.what(),
            Bytes(self.limit_bytes),
            left(end.at_ms),
            left(end.earliest_ms),
            left(end.latest_ms)
        ))
    }

    /// What was forecast first, and whether it came; `time` writes a time of day. `None`: it is still forecast, also in the record of a run
    /// that was lost, and nobody knows.
    #[must_use]
    pub fn scored_text(&self, time: impl Fn(u64) -> String) -> Option<String> {
        let came = match (self.exceeded_at_ms, self.exceeds) {
            (Some(came_ms), _) => format!("it did at {}", time(came_ms)),
            (None, None) => "it did not".to_owned(),
            (None, Some(_)) => return None,
        };
        Some(format!(
            "at {} {} was expected to exceed {} at {}; {came}",
            time(self.made_at_ms),
            self.what(),
            Bytes(self.limit_bytes),
            time(self.first.at_ms)
        ))
    }

    /// The same as [`Self::text`] for a page that is read later.
    #[must_use]
    pub fn lasting_text(&self, time: impl Fn(u64) -> String) -> Option<String> {
        let end = self.exceeds.filter(|_| self.exceeded_at_ms.is_none())?;
        Some(format!(
            "{} may exceed the limit of {} at about {} ({} to {}) if it keeps growing",
            self.what(),
            Bytes(self.limit_bytes),
            time(end.at_ms),
            time(end.earliest_ms),
            time(end.latest_ms)
        ))
    }

    /// Whose memory it is.
    #[must_use]
    pub fn what(&self) -> String {
        self.gpu
            .as_ref()
            .map_or_else(|| "memory".to_owned(), |gpu| format!("memory of GPU {gpu}"))
    }
}
