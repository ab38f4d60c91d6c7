//! Forecasts that were made before the runs, against what came.

use serde::{Deserialize, Serialize};

use super::{Errors, Pairs, memory_pair, steady_seconds, total_pair};
use crate::learn::model::Observation;
use crate::record::Forecast;

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
}

/// Judges forecasts by what came. `runs` are all that were measured, with the forecast that each had.
#[must_use]
pub fn live(runs: impl IntoIterator<Item = (Option<Forecast>, Observation)>) -> Live {
    let (mut epochs, mut totals, mut memories) = (Pairs::new(), Pairs::new(), Pairs::new());
    let (mut forecast_runs, mut explored) = (0, 0);
    for (forecast, observation) in runs {
        let Some(forecast) = forecast else { continue };
        forecast_runs += 1;
        explored += u64::from(forecast.explored);
        totals.extend(total_pair(&forecast, &observation));
        memories.extend(memory_pair(&forecast, &observation));
        epochs.extend(forecast.epoch_seconds.zip(steady_seconds(&observation)));
    }
    Live {
        forecast: forecast_runs,
        explored,
        epoch: Errors::of(&epochs),
        total: Errors::of(&totals),
        memory: Errors::of(&memories),
    }
}
