//! What a run's measurements mean: how long an epoch took, what limited it, what was asked for against what was used,
//! what to ask for next time, and what could not be measured. Pure: records and samples in, an [`Insight`] out.
//!
//! Every figure is derived on reading, from records and from samples as they were taken ([`Digest`]). What is not known
//! is `None` and is named among [`Insight::unmeasured`]. `docs/advice.md` has the rules in words.

mod timing;
mod unlike;
mod view;

pub use timing::{EpochTimes, Rate, Timing, timing};
pub use unlike::{Difference, Setting, setting, unlike};
pub use view::{NodeView, Request, RunView};

use serde::Serialize;

use crate::record::Progress;

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
}

/// Something that is not known, or that was not said.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Unmeasured {
    /// What: `timing`, `samples`, `memory`, `advice/memory`, ...
    pub what: String,
    /// Why.
    pub why: String,
}

/// All that follows from one run's records.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Insight {
    /// How long epochs and steps took; `None` where nothing was recognised.
    pub timing: Option<Timing>,
    /// Under what conditions: what must be alike before the timing is compared with another run's.
    pub setting: Setting,
    /// What is not known.
    pub unmeasured: Vec<Unmeasured>,
}

/// Derives all that can be from `view`.
#[must_use]
pub fn derive(view: &RunView<'_>) -> Insight {
    let timing = timing(view);
    let mut unmeasured = Vec::new();
    if timing.is_none() {
        let why = if view.nodes.is_empty() {
            "there is no record of any node"
        } else {
            "no line of the output was recognised as the end of an epoch or a step"
        };
        unmeasured.push(Unmeasured { what: "timing".to_owned(), why: why.to_owned() });
    }
    Insight { setting: setting(view, timing.as_ref()), timing, unmeasured }
}

/// What is between 0 and 1 of sorted values at `share`, by nearest rank; `None` of nothing.
fn quantile(sorted: &[f64], share: f64) -> Option<f64> {
    #[expect(clippy::cast_precision_loss, reason = "counts of epochs and of bins")]
    let rank = (sorted.len() as f64 * share).ceil();
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 1 and the length")]
    let place = (rank as usize).clamp(1, sorted.len().max(1)) - 1;
    sorted.get(place).copied()
}

fn median(sorted: &[f64]) -> Option<f64> {
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        odd if odd % 2 == 1 => Some(sorted[middle]),
        _ => Some(f64::midpoint(sorted[middle - 1], sorted[middle])),
    }
}

fn mean(values: &[f64]) -> Option<f64> {
    #[expect(clippy::cast_precision_loss, reason = "counts of epochs and of nodes")]
    let count = values.len() as f64;
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / count)
}

/// Counts and bytes stay far below 2^53, or need no 16 digits.
#[expect(clippy::cast_precision_loss, reason = "a figure for people needs no 16 digits")]
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
        assert_eq!((quantile(&values, 0.95), quantile(&values, 0.0)), (Some(19.0), Some(1.0)));
        assert_eq!((quantile(&values[..1], 0.95), quantile(&[], 0.5)), (Some(1.0), None));
        assert_eq!((median(&values), median(&values[..3]), median(&[])), (Some(10.5), Some(2.0), None));
        assert_eq!((mean(&values), mean(&[])), (Some(10.5), None));
    }
}
