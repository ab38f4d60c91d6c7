//! `dlrun sweep run --dry-run`: the trials that would run, and how long they are expected to take.

use serde::Serialize;

use super::show::SecondMetric;
use crate::app::error::Error;
use crate::app::session::Session;
use crate::app::study::{Source, load_trial};
use crate::cli::table::{fitted, table};
use crate::foundation::units::{counted, display_seconds};
use crate::launch::Plan;
use crate::learn::sweep::{Sampler, Sweep, Values};
use crate::record::{Basis, Interval};

/// Trials that are listed.
const SHOWN: u32 = 20;

/// What would run, for programs.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct PlannedSweep<'a> {
    name: &'a str,
    metric: &'a str,
    mode: &'static str,
    /// The second metric of two; null: there is one.
    second: Option<SecondMetric<'a>>,
    trials: u32,
    max_jobs: u32,
    sampler: &'static str,
    stop: &'static str,
    /// Hours of nodes that all trials are expected to take, by those of `first` with a forecast, early stopping left out; of a tuning with its
    /// pairs. Null: none has one.
    expected_node_hours: Option<f64>,
    /// The first trials; with `tpe` those after the tenth depend on what comes before, with Optuna all may.
    first: Vec<PlannedTrial>,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct PlannedTrial {
    trial: usize,
    values: Values,
    job_file: String,
    /// How long it is expected to take, in seconds, by runs of this workload; null: that is not known.
    expected_seconds: Option<f64>,
}

/// How long a trial is expected to take, in seconds, by the performance model, where it knows the workload.
fn expected(sweep: &Sweep, plan: &Plan) -> Option<f64> {
    let known = |basis| matches!(basis, Basis::Alike | Basis::Workload);
    let forecast = plan.forecast.as_ref().filter(|its| known(its.basis))?;
    let Some(tune) = sweep.tune.as_ref().filter(|tune| !tune.by_steps) else {
        let whole = forecast.total_seconds.filter(|_| sweep.tune.is_none())?;
        return Some(whole.median);
    };
    let median = |its: &Option<Interval>| its.map_or(0.0, |its| its.median);
    let each = forecast.epoch_seconds?.median + median(&forecast.between_seconds);
    Some(median(&forecast.outside_seconds) + f64::from(tune.length) * each)
}

/// What would run. `size`: how much that is, in words. `packed`: how many trials share a node.
pub(super) fn planned(
    session: &Session,
    sweep: &Sweep,
    source: &Source,
    (size, packed): (&str, u32),
) -> Result<u8, Error> {
    let mut sampler = Sampler::new(sweep);
    let mut shown = table();
    let names = sweep
        .space
        .iter()
        .map(|parameter| parameter.short.to_uppercase());
    let header = ["TRIAL", "EXPECTED"].map(str::to_owned);
    shown.set_header(header.into_iter().chain(names));
    let (mut first, mut node_seconds) = (Vec::new(), Vec::new());
    for number in 0..(sweep.trials.min(SHOWN) as usize).min(sampler.fixed()) {
        let Some(values) = sampler.propose(number) else {
            break;
        };
        let cell = sweep
            .trial(number, &values, None)
            .map_err(|problems| source.error(problems))?;
        let plan = load_trial(session, sweep, source, (number, None), &values)?.plan;
        let seconds = expected(sweep, &plan);
        node_seconds.extend(seconds.map(|seconds| seconds * f64::from(plan.resources.nodes)));
        let row = sweep
            .space
            .iter()
            .map(|parameter| values.text(&parameter.name).unwrap_or_default());
        let time = seconds.map_or_else(|| "-".to_owned(), display_seconds);
        shown.add_row([(number + 1).to_string(), time].into_iter().chain(row));
        first.push(PlannedTrial {
            trial: number + 1,
            values,
            job_file: cell.job_file,
            expected_seconds: seconds,
        });
    }
    let pairs = sweep.tune.as_ref().map_or(0, |tune| 2 * tune.pairs);
    let mean = node_seconds.iter().sum::<f64>() / node_seconds.len() as f64;
    let all = mean * f64::from(sweep.trials + pairs) / f64::from(packed);
    let all = Some(all).filter(|_| !node_seconds.is_empty());
    let answer = PlannedSweep {
        name: &sweep.name,
        metric: &sweep.metric.name,
        mode: sweep.metric.mode(),
        second: SecondMetric::of(sweep),
        trials: sweep.trials,
        max_jobs: sweep.max_jobs,
        sampler: sweep.sampler.as_str(),
        stop: sweep.stop.as_str(),
        expected_node_hours: all.map(|seconds| seconds / 3600.0),
        first,
    };
    let trials = match sweep.sampler.packages() {
        Some(_) => "Optuna proposes the trials, each when it starts\n".to_owned(),
        None => fitted(shown),
    };
    let price = all.map_or_else(String::new, |seconds| {
        let known = counted(node_seconds.len() as u64, "trial");
        format!(
            "\nexpected: about {} of node time, by forecasts of {known}\n",
            display_seconds(seconds)
        )
    });
    session.answer(&answer, &format!("{size}\n\n{trials}{price}"))
}
