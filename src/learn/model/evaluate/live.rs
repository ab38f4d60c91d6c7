//! Forecasts that were made before the runs, against what came.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Errors, Pairs, memory_pair, steady_seconds, total_pair};
use crate::learn::model::Observation;
use crate::record::{Basis, Forecast};

/// How good forecasts were that travelled with their runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Live {
    /// Runs that had a forecast.
    pub forecast: u64,
    /// Those of them that were to try something (`framework.explore`). Their forecasts count too.
    pub explored: u64,
    /// Steady epochs that were seen to their end.
    pub epoch: Option<Errors>,
    /// Whole runs that were seen to their end.
    pub total: Option<Errors>,
    /// Main memory.
    pub memory: Option<Errors>,
    /// Epochs by month of submission, in order.
    pub months: Vec<Month>,
    /// Epochs by what the forecast rested on, best first.
    pub bases: Vec<OfBasis>,
}

/// One month.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Month {
    /// Such as `2026-11`, in UTC.
    pub month: String,
    /// How far forecasts of epochs were off.
    pub epoch: Errors,
}

/// What forecasts rested on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OfBasis {
    /// On what.
    pub basis: Basis,
    /// How far forecasts of epochs were off.
    pub epoch: Errors,
}

/// Judges forecasts by what came. `runs` are all that were measured, with the forecast that each had.
#[must_use]
pub fn live(runs: impl IntoIterator<Item = (Option<Forecast>, Observation)>) -> Live {
    let (mut epochs, mut totals, mut memories) = (Pairs::new(), Pairs::new(), Pairs::new());
    let mut months: BTreeMap<String, Pairs> = BTreeMap::new();
    let mut bases: BTreeMap<Basis, Pairs> = BTreeMap::new();
    let (mut forecast_runs, mut explored) = (0, 0);
    for (forecast, observation) in runs {
        let Some(forecast) = forecast else { continue };
        forecast_runs += 1;
        explored += u64::from(forecast.explored);
        totals.extend(total_pair(&forecast, &observation));
        memories.extend(memory_pair(&forecast, &observation));
        let Some(pair) = forecast.epoch_seconds.zip(steady_seconds(&observation)) else {
            continue;
        };
        epochs.push(pair);
        months
            .entry(month(observation.at_ms))
            .or_default()
            .push(pair);
        bases.entry(forecast.basis).or_default().push(pair);
    }
    let month = |(month, pairs): (String, Pairs)| {
        Some(Month {
            month,
            epoch: Errors::of(&pairs)?,
        })
    };
    let of_basis = |(basis, pairs): (Basis, Pairs)| {
        Some(OfBasis {
            basis,
            epoch: Errors::of(&pairs)?,
        })
    };
    Live {
        forecast: forecast_runs,
        explored,
        epoch: Errors::of(&epochs),
        total: Errors::of(&totals),
        memory: Errors::of(&memories),
        months: months.into_iter().filter_map(month).collect(),
        bases: bases.into_iter().filter_map(of_basis).collect(),
    }
}

/// Year and month of a moment in Unix milliseconds, in UTC.
fn month(at_ms: u64) -> String {
    let moment = i64::try_from(at_ms)
        .ok()
        .and_then(|ms| jiff::Timestamp::from_millisecond(ms).ok());
    let date = moment.unwrap_or_default().to_zoned(jiff::tz::TimeZone::UTC);
    format!("{:04}-{:02}", date.year(), date.month())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn months_are_those_of_utc() {
        assert_eq!(month(0), "1970-01");
        assert_eq!(month(1_793_491_199_999), "2026-10");
        assert_eq!(month(1_793_491_200_000), "2026-11");
        assert_eq!(month(u64::MAX), "1970-01");
    }
}
