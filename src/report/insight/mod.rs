//! What a run's measurements mean: how long an epoch took, what limited it, what was asked for against what was used,
//! what to ask for next time, and what could not be measured. Pure: records and samples in, an [`Insight`] out.
//!
//! Every figure is derived on reading, from records and from samples as they were taken ([`SampleBins`]). What is not known
//! is `None` and is named among [`Insight::unmeasured`]. `docs/advice.md` has the rules in words.

mod advice;
mod limit;
mod sample_bins;
mod sampled;
mod threshold;
mod timing;
mod unlike;
mod used;
mod view;

pub use advice::{Advice, AdviceKind};
pub use limit::{Limit, LimitKind};
pub use sample_bins::SampleBins;
pub use sampled::{GpuWindow, Sampled, Spread, Window};
pub use threshold::{THRESHOLDS, Threshold};
pub use timing::{EpochTimes, Rate, Timing, timing};
pub(super) use unlike::effective_cpus;
pub use unlike::{Difference, Setting, setting, unlike};
pub use used::{GpuUsed, NodeUsed, Used};
pub use view::{NodeView, Request, RunView};

use serde::Serialize;

use crate::foundation::statistics::{mean, nearest_rank};
use crate::job::JobState;
use crate::record::{Progress, Status, Took, median};

/// A figure that something rests on; the unit is the name's suffix.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Evidence {
    /// Its name, such as `mem_peak_bytes`.
    pub what: &'static str,
    /// Its value.
    pub value: f64,
}

/// Something asked for against what was used of it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Compared {
    /// `cpus` and `memory_bytes` of a node, `gpus` of a node, `walltime_seconds`.
    pub what: &'static str,
    /// What was asked for; `None` where the job file left it to the site.
    pub asked: Option<f64>,
    /// What was used: CPUs busy on average, the most memory, GPUs that worked, the time from start to end. Of several
    /// nodes the one that used most.
    pub used: Option<f64>,
    /// Used over asked.
    pub ratio: Option<f64>,
    /// Whether it may have used less: memory of several processes without a cgroup, where pages that they share count for each.
    pub is_upper_bound: bool,
}

/// Something that is not known.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Unmeasured {
    /// What: `usage`, `timing`, `samples_per_second`, `limits`.
    pub what: String,
    /// Why.
    pub why: String,
}

/// All that follows from one run's records.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Insight {
    /// How long epochs and steps took; `None` where nothing was recognised.
    pub timing: Option<Timing>,
    /// Under what conditions: what must be the same before the timing is compared with another run's.
    pub setting: Setting,
    /// What was used.
    pub used: Used,
    /// What was asked for against what was used.
    pub compared: Vec<Compared>,
    /// What limited it; empty where nothing did, and where too little is known ([`Insight::unmeasured`] says so).
    pub limits: Vec<Limit>,
    /// What to ask for next time.
    pub advice: Vec<Advice>,
    /// What is not known.
    pub unmeasured: Vec<Unmeasured>,
}

impl Insight {
    /// What the run took: a steady epoch, and all of it where it completed.
    #[must_use]
    pub fn took(&self, status: &Status) -> Took {
        let epochs = self
            .timing
            .as_ref()
            .and_then(|timing| timing.epochs.as_ref());
        let whole = status.started_at_ms.zip(status.ended_at_ms);
        let whole = whole.filter(|_| status.state == JobState::Completed);
        Took {
            epoch_seconds: epochs
                .filter(|epochs| !epochs.is_warmup)
                .map(|epochs| epochs.median_seconds),
            run_seconds: whole
                .and_then(|(from, to)| to.checked_sub(from))
                .map(|ms| real(ms) / 1000.0),
            oom_killed: self
                .used
                .nodes
                .iter()
                .any(|node| node.mem_oom_kills > Some(0)),
        }
    }
}

/// Derives all that can be from `view`.
#[must_use]
pub fn derive(view: &RunView<'_>) -> Insight {
    let timing = timing(view);
    let used = used::used(view);
    let mut unmeasured = unmeasured(view, timing.as_ref());
    let limits = match advice::enough_to_limit(&used) {
        Ok(()) => {
            let records = view.nodes.iter().map(|node| node.record);
            limit::limits_of(used.nodes.iter().zip(records))
        }
        Err(why) => {
            unmeasured.push(Unmeasured {
                what: "limits".to_owned(),
                why,
            });
            Vec::new()
        }
    };
    let status = view.status;
    let ran_seconds = status
        .started_at_ms
        .zip(status.ended_at_ms)
        .and_then(|(started, ended)| {
            // Clocks of two hosts, or one that was set back.
            ended.checked_sub(started).map(|ms| real(ms) / 1000.0)
        });
    let case = advice::Case {
        view,
        used: &used,
        limits: &limits,
        timing: timing.as_ref(),
        ran_seconds,
    };
    let advice = advice::advise(&case);
    Insight {
        setting: setting(view, timing.as_ref()),
        compared: used::compared(view, &used, ran_seconds),
        timing,
        limits,
        advice,
        unmeasured,
        used,
    }
}

/// What is not known at all, beside what the records themselves name as missing.
fn unmeasured(view: &RunView<'_>, timing: Option<&Timing>) -> Vec<Unmeasured> {
    let mut found = Vec::new();
    let mut note = |what: &str, why: String| {
        found.push(Unmeasured {
            what: what.to_owned(),
            why,
        })
    };
    if view.nodes.is_empty() {
        note("usage", "there is no record of any node".to_owned());
        return found;
    }
    // Why the output was not read at all is in the record.
    let is_unread = view.nodes.iter().any(|node| {
        node.record
            .missing
            .iter()
            .any(|missing| missing.what == "timing")
    });
    if timing.is_none() && !is_unread {
        let why = match view.status.state.is_final() {
            true => {
                "no line of the output was recognised as the end of an epoch or a step; dlrun timings OUTPUT helps \
                 to find a pattern"
            }
            // A record is up to some minutes old.
            false => "no end of an epoch or a step was read yet",
        };
        note("timing", why.to_owned());
    } else if let Some(timing) = timing
        && timing.samples_per_second.is_none()
        && timing.throughput_stated.is_none()
    {
        let why = "neither the output nor `workload.samples` of the job file says how many samples an epoch has";
        note("samples_per_second", why.to_owned());
    }
    found
}

/// Counts and bytes stay far below 2^53, or need no 16 digits.
fn real(value: u64) -> f64 {
    value as f64
}

/// Where the training goes by epochs: those that ended, of how many.
fn has_epochs(progress: &Progress) -> bool {
    progress.epochs_completed > 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_values_that_were_there() {
        let values: Vec<f64> = (1..=20).map(f64::from).collect();
        assert_eq!(
            (nearest_rank(&values, 0.95), nearest_rank(&values, 0.0)),
            (Some(19.0), Some(1.0))
        );
        assert_eq!(
            (nearest_rank(&values[..1], 0.95), nearest_rank(&[], 0.5)),
            (Some(1.0), None)
        );
        assert_eq!(
            (
                median(values.to_vec()),
                median(values[..3].to_vec()),
                median(Vec::new())
            ),
            (Some(10.5), Some(2.0), None)
        );
        assert_eq!((mean(&values), mean(&[])), (Some(10.5), None));
    }
}
