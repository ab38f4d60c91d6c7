//! What a model says of a run before it starts.

use serde::{Deserialize, Serialize};

use crate::foundation::vocabulary::vocabulary;

/// The next run may take so many times what the longest repeat took, or the shortest divided by it: of 112 trainings one in twenty took more
/// than 1.4 times the median of its like. One repeat alone would be an interval without a width.
const REPEAT_RANGE: f64 = 1.4;

/// A figure with how sure it is.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// The mean of what may come.
    pub mean: f64,
    /// As likely below as above.
    pub median: f64,
    /// One time in twenty it is below this.
    pub low: f64,
    /// One time in twenty it is above this.
    pub high: f64,
}

vocabulary! {
    /// What a forecast rests on, best first.
    #[derive(Default)]
    pub enum Basis {
        /// Runs of this workload with this software, hardware, batch size and number of threads.
        Alike = "alike",
        /// Runs of this workload, in other configurations.
        Workload = "workload",
        /// Runs of other workloads with this software.
        Software = "software",
        /// Published effects alone, or runs that share neither workload nor software.
        #[default]
        Priors = "priors",
    }
}

/// The last runs of a configuration are on another level than those before, which do not count any more.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Shift {
    /// How many the last ones are.
    pub runs: u64,
    /// How many were on the level before.
    pub before: u64,
    /// The later level divided by the earlier one.
    pub time_ratio: f64,
    /// When the last run before it and the first after it were submitted, in Unix milliseconds UTC.
    #[serde(default)]
    pub between_ms: [u64; 2],
}

/// The answer. It travels with plan and record, and is compared with the outcome.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Forecast {
    /// Which model: the name that `dlrun model show` prints.
    pub model: String,
    /// What it rests on.
    pub basis: Basis,
    /// Runs behind that basis.
    pub runs: u64,
    /// How many of them something speaks against.
    #[serde(default, skip_serializing_if = "super::is_default")]
    pub doubtful: u64,
    /// What does, in words.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub doubts: Vec<String>,
    /// A steady epoch, in seconds; `None`: such runs tell no epochs, and the whole run is forecast at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epoch_seconds: Option<Interval>,
    /// By how much the first epoch is longer, in seconds: as dlrun 0.1 had it; since then a part of `outside_seconds`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_extra_seconds: Option<Interval>,
    /// What each epoch takes beside its training, in seconds: evaluation, checkpoints, pauses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub between_seconds: Option<Interval>,
    /// What does not go by epochs, in seconds: start-up, the first epoch's extra time, the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outside_seconds: Option<Interval>,
    /// The whole run, in seconds; `None` where the number of epochs is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total_seconds: Option<Interval>,
    /// Main memory of a node, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<Interval>,
    /// By how much the last runs like this differ from those before; `None`: they do not, or it was long ago.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shift: Option<Shift>,
    /// How far outside of what was measured it lies, in words; empty: within.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub beyond: Vec<String>,
    /// What the job does not say and is taken as runs of the same network had it, in words.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub assumed: Vec<String>,
    /// Among how many other ways it was chosen: images, compilers, sizes that the job left open. 0: there was no choice.
    #[serde(default, skip_serializing_if = "super::is_default")]
    pub alternatives: u32,
    /// Whether dlrun 0.1 made the choice to learn (`framework.explore`), not because it seemed quickest.
    #[serde(default)]
    pub explored: bool,
}

impl Forecast {
    /// The time by which ways of running are compared: a steady epoch, or the whole run if there are no epochs.
    #[must_use]
    pub fn time(&self) -> Option<&Interval> {
        self.epoch_seconds.as_ref().or(self.total_seconds.as_ref())
    }

    /// What speaks against the runs that it rests on: `in doubt: others kept the node busy`, `2 of 3 in doubt: ...`; `None` where
    /// nothing does.
    #[must_use]
    pub fn doubt_words(&self) -> Option<String> {
        let Self {
            runs,
            doubtful,
            doubts,
            ..
        } = self;
        let why = doubts.join(", ");
        match (*runs, *doubtful) {
            (_, 0) => None,
            (1, _) => Some(format!("in doubt: {why}")),
            (runs, doubtful) if runs == doubtful => Some(format!("all in doubt: {why}")),
            _ => Some(format!("{doubtful} of {runs} in doubt: {why}")),
        }
    }

    /// Widens the whole run's time so that it holds what repeats took, from `low` to `high` seconds; where half of the repeats
    /// would lie outside, its middle and its least width are theirs. Where the model knows no time of the whole run they alone are
    /// the forecast.
    pub fn cover(&mut self, low: f64, high: f64) {
        let middle = f64::midpoint(low, high);
        let of_repeats = Interval {
            mean: middle,
            median: middle,
            low: low / REPEAT_RANGE,
            high: high * REPEAT_RANGE,
        };
        let known = self.total_seconds.unwrap_or(of_repeats);
        let is_near = (low..=high).contains(&known.median);
        let total = if is_near { known } else { of_repeats };
        self.total_seconds = Some(Interval {
            low: total.low.min(known.low).min(low),
            high: total.high.max(known.high).max(high),
            ..total
        });
    }

    /// What [`Forecast::time`] is the time of.
    #[must_use]
    pub fn time_of(&self) -> &'static str {
        if self.epoch_seconds.is_some() {
            "an epoch"
        } else {
            "the whole run"
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn covered(told: Option<(f64, f64, f64)>, low: f64, high: f64) -> (f64, f64, f64) {
        let total_seconds = told.map(|(low, median, high)| Interval {
            mean: median,
            median,
            low,
            high,
        });
        let mut forecast = Forecast {
            total_seconds,
            ..Forecast::default()
        };
        forecast.cover(low, high);
        let told = forecast.total_seconds.expect("it is told now");
        (told.low, told.median, told.high)
    }

    #[test]
    fn a_forecast_holds_what_repeats_took() {
        assert_eq!(
            covered(Some((4.4, 5.0, 5.6)), 334.0, 336.0),
            (4.4, 335.0, 336.0 * 1.4),
            "it was far off"
        );
        assert_eq!(
            covered(Some((90.0, 100.0, 110.0)), 80.0, 105.0),
            (80.0, 100.0, 110.0)
        );
        assert_eq!(
            covered(Some((90.0, 100.0, 110.0)), 95.0, 105.0),
            (90.0, 100.0, 110.0)
        );
        assert_eq!(covered(None, 14.0, 20.0), (10.0, 17.0, 28.0));
        assert_eq!(covered(None, 14.0, 14.0), (10.0, 14.0, 14.0 * 1.4));
    }
}
