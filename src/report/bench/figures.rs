//! The figures of a matrix. Names hold the units: they are those of `--json`.

use std::collections::HashMap;

use serde::Serialize;

use super::environment::{Environment, environment};
use crate::foundation::statistics::{Ratio, Spread, adjusted, mean};
use crate::job::{JobState, RunId, SchedulerKind};
use crate::learn::bench::{Axis, Compare, Header, Journal, Matrix, Measured, Slot, USUAL_REPEATS};
use crate::record::median;
use crate::report::compare::SIGNIFICANT;
use crate::report::number::range;

/// What was asked for.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Asked {
    /// The matrix file.
    pub file: String,
    /// The scheduler that has its jobs.
    pub scheduler: SchedulerKind,
    /// How often each cell runs.
    pub repeats: u32,
    /// Epochs at the begin of each start that are left out.
    pub warm_up_epochs: u32,
    /// Decides the order.
    pub seed: u64,
    /// Whether jobs had their nodes for themselves.
    pub exclusive: bool,
    /// Jobs at a time.
    pub max_jobs: u32,
}

/// An axis.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct AxisFigures {
    /// Its name.
    pub name: String,
    /// What it is called in tables.
    pub short: String,
    /// Its values.
    pub values: Vec<String>,
}

/// One run of a cell that counts.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Result {
    /// Which repeat, from 1.
    pub repeat: u32,
    /// The run.
    pub run_id: RunId,
    /// Median of its steady epochs.
    pub epoch_seconds: f64,
    /// Steady epochs behind it.
    pub epochs: usize,
    /// By how much its first epoch was longer.
    pub first_extra_seconds: Option<f64>,
    /// The job from start to end.
    pub wall_seconds: Option<f64>,
    /// CPUs that others kept busy meanwhile.
    pub others_cpus_busy: Option<f64>,
}

/// A run that counts for nothing.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Failure {
    /// Which repeat, from 1.
    pub repeat: u32,
    /// The run.
    pub run_id: RunId,
    /// How it ended.
    pub state: JobState,
    /// Why it counts for nothing.
    pub why: String,
    /// Whether another try took its place.
    pub mended: bool,
}

/// A cell.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct CellFigures {
    /// Its number, from 1.
    pub cell: usize,
    /// Its value on each axis.
    pub values: Vec<String>,
    /// Runs behind the figures.
    pub runs: usize,
    /// Median of the runs' steady epochs.
    pub epoch_seconds_median: Option<f64>,
    /// Their mean.
    pub epoch_seconds_mean: Option<f64>,
    /// Lower bound of the mean, 95 %, Student's t over the runs.
    pub epoch_seconds_low: Option<f64>,
    /// Upper bound.
    pub epoch_seconds_high: Option<f64>,
    /// Median of by how much the first epoch was longer.
    pub first_extra_seconds_median: Option<f64>,
    /// Training samples of an epoch, where known and the same in all runs.
    pub samples: Option<u64>,
    /// Samples over the median epoch.
    pub samples_per_second: Option<f64>,
    /// Runs that were to be and are not over.
    pub open: usize,
    /// The runs that count.
    pub results: Vec<Result>,
    /// The runs that do not.
    pub failures: Vec<Failure>,
}

/// How a cell compares with that which differs from it by the value of one axis.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Comparison {
    /// The axis.
    pub axis: String,
    /// The value of the cell.
    pub value: String,
    /// The value of the baseline.
    pub baseline: String,
    /// What both have on the other axes.
    pub others: String,
    /// The cell.
    pub cell: usize,
    /// Its baseline.
    pub baseline_cell: usize,
    /// The effect.
    #[serde(flatten)]
    pub effect: Effect,
}

/// A time over another, with how sure it is.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Effect {
    /// Pairs of cells behind it.
    pub pairs: usize,
    /// Geometric mean of the epochs' times over that of the baseline.
    pub time_ratio: f64,
    /// Its lower bound, 95 %; `None` where a cell has a single run.
    pub time_ratio_low: Option<f64>,
    /// Its upper bound.
    pub time_ratio_high: Option<f64>,
    /// Samples a second over those of the baseline; `None` where samples are known of one side only.
    pub rate_ratio: Option<f64>,
    /// Its lower bound.
    pub rate_ratio_low: Option<f64>,
    /// Its upper bound.
    pub rate_ratio_high: Option<f64>,
    /// The least time ratio of a pair.
    pub least_time_ratio: f64,
    /// The largest.
    pub most_time_ratio: f64,
    /// The probability of such an effect where there is none.
    pub p: Option<f64>,
    /// The same, raised for the number of comparisons (Holm).
    pub p_adjusted: Option<f64>,
    /// Whether it counts.
    pub significant: bool,
}

/// All figures of a matrix.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Figures {
    /// The name of the matrix.
    pub name: String,
    /// What was asked for.
    pub asked: Asked,
    /// When it was begun, in Unix milliseconds UTC.
    pub began_at_ms: u64,
    /// When the report was written.
    pub written_at_ms: u64,
    /// Its axes.
    pub axes: Vec<AxisFigures>,
    /// Runs that were asked for.
    pub runs_asked: usize,
    /// Runs that count.
    pub runs_measured: usize,
    /// Runs that failed as often as they are tried.
    pub runs_failed: usize,
    /// The cells.
    pub cells: Vec<CellFigures>,
    /// The effect of each value over all pairs of cells that have it and its baseline.
    pub effects: Vec<Comparison>,
    /// The same of each pair.
    pub comparisons: Vec<Comparison>,
    /// Under what conditions it was measured.
    pub environment: Environment,
    /// What the reader must know.
    pub remarks: Vec<String>,
}

impl Figures {
    /// The figures of a matrix as far as it was run; `written_at_ms` is now, in Unix milliseconds UTC.
    #[must_use]
    pub fn new(matrix: &Matrix, header: &Header, journal: &Journal, written_at_ms: u64) -> Self {
        // What was measured counts, though the last command asked for fewer repeats.
        let repeats = |cell: usize| header.repeats.max(journal.repeats(cell));
        let cells: Vec<CellFigures> = (0..matrix.len())
            .map(|cell| cell_figures(matrix, journal, cell, repeats(cell)))
            .collect();
        let (effects, comparisons) = comparisons(matrix, &cells);
        let measured = (0..matrix.len()).flat_map(|cell| counting(journal, cell, repeats(cell)));
        let axes = matrix.axes.iter().map(|axis| AxisFigures {
            name: axis.name.clone(),
            short: axis.short.clone(),
            values: axis
                .values
                .iter()
                .map(|value| value.label.clone())
                .collect(),
        });
        let open: usize = cells.iter().map(|cell| cell.open).sum();
        let runs_asked = (0..matrix.len()).map(|cell| repeats(cell) as usize).sum();
        let runs_measured = cells.iter().map(|cell| cell.runs).sum();
        let mut figures = Self {
            name: matrix.name.clone(),
            asked: Asked {
                file: header.file.clone(),
                scheduler: header.scheduler,
                repeats: header.repeats,
                warm_up_epochs: matrix.warm_up,
                seed: matrix.seed,
                exclusive: matrix.exclusive,
                max_jobs: matrix.max_jobs,
            },
            began_at_ms: header.began_at_ms,
            written_at_ms,
            axes: axes.collect(),
            runs_asked,
            runs_measured,
            runs_failed: runs_asked - runs_measured - open,
            cells,
            effects,
            comparisons,
            environment: environment(measured),
            remarks: Vec::new(),
        };
        figures.remarks = remarks(&figures, open);
        figures
    }

    /// The cells of which anything was measured; where there is none, all of them.
    pub(super) fn begun(&self) -> Vec<&CellFigures> {
        let is_begun = |cell: &&CellFigures| cell.runs > 0 || !cell.failures.is_empty();
        let begun: Vec<&CellFigures> = self.cells.iter().filter(is_begun).collect();
        if begun.is_empty() {
            return self.cells.iter().collect();
        }
        begun
    }
}

/// The results of a cell that count, one a repeat.
fn counting(journal: &Journal, cell: usize, repeats: u32) -> impl Iterator<Item = &Measured> {
    let slots = (0..repeats).map(move |repeat| Slot { cell, repeat });
    let results = slots.filter_map(|slot| Some(journal.result(slot)?.1));
    results.filter(|measured| measured.epoch_seconds.is_some())
}

fn cell_figures(matrix: &Matrix, journal: &Journal, cell: usize, repeats: u32) -> CellFigures {
    let (mut results, mut failures, mut open) = (Vec::new(), Vec::new(), 0);
    for slot in (0..repeats).map(|repeat| Slot { cell, repeat }) {
        let repeat = slot.repeat + 1;
        let counts = journal.result(slot);
        for one in journal.tries(slot) {
            let Some(measured) = &one.measured else {
                continue;
            };
            let (run_id, why) = (one.run_id.clone(), measured.failure.clone());
            if counts.is_some_and(|(counting, _)| counting.run_id == one.run_id)
                && let Some(epoch_seconds) = measured.epoch_seconds
            {
                results.push(Result {
                    repeat,
                    run_id,
                    epoch_seconds,
                    epochs: measured.epochs,
                    first_extra_seconds: measured.first_extra_seconds,
                    wall_seconds: measured.wall_seconds,
                    others_cpus_busy: measured.others_cpus_busy,
                });
            } else if let Some(why) = why {
                let mended = counts.is_some_and(|(_, measured)| measured.failure.is_none());
                failures.push(Failure {
                    repeat,
                    run_id,
                    state: measured.state,
                    why,
                    mended,
                });
            }
        }
        open += usize::from(!journal.is_done(slot));
    }
    let seconds: Vec<f64> = results.iter().map(|result| result.epoch_seconds).collect();
    let spread = Spread::of(&seconds);
    let bounds = spread.and_then(|spread| spread.bounds());
    let extras: Vec<f64> = results
        .iter()
        .filter_map(|result| result.first_extra_seconds)
        .collect();
    let mut samples = counting(journal, cell, repeats).map(|measured| measured.samples);
    let first = samples.next().flatten();
    let samples = first.filter(|_| samples.all(|samples| samples == first));
    let middle = median(seconds.clone());
    let values = matrix.values(cell);
    CellFigures {
        cell: cell + 1,
        values: values.map(|(_, value)| value.to_owned()).collect(),
        runs: seconds.len(),
        epoch_seconds_median: middle,
        epoch_seconds_mean: spread.map(|spread| spread.mean),
        epoch_seconds_low: bounds.map(|(low, _)| low),
        epoch_seconds_high: bounds.map(|(_, high)| high),
        first_extra_seconds_median: median(extras),
        samples,
        samples_per_second: samples
            .zip(middle)
            .map(|(samples, seconds)| samples as f64 / seconds),
        open,
        results,
        failures,
    }
}

/// A cell as it is compared: the logarithms of its times, and the samples of its epochs.
type Timed = (Spread, Option<u64>);

/// The effects of values, over all pairs and of each.
fn comparisons(matrix: &Matrix, cells: &[CellFigures]) -> (Vec<Comparison>, Vec<Comparison>) {
    let timed = |cell: &CellFigures| {
        let times = cell.results.iter().map(|result| result.epoch_seconds.ln());
        Some((Spread::of(&times.collect::<Vec<_>>())?, cell.samples))
    };
    let timed: Vec<Option<Timed>> = cells.iter().map(timed).collect();
    let places: HashMap<&[usize], usize> = (0..matrix.len())
        .map(|cell| (matrix.at(cell), cell))
        .collect();
    let (mut effects, mut comparisons) = (Vec::new(), Vec::new());
    for Compare { axis, baseline } in &matrix.compares {
        for value in (0..matrix.axes[*axis].values.len()).filter(|value| value != baseline) {
            let mut pairs = Vec::new();
            for cell in (0..matrix.len()).filter(|cell| matrix.at(*cell)[*axis] == value) {
                let mut other = matrix.at(cell).to_vec();
                other[*axis] = *baseline;
                let against = places.get(other.as_slice()).copied();
                let pair = against.and_then(|against| timed[cell].zip(timed[against]));
                if let (Some(pair), Some(against)) = (pair, against)
                    && let Some(effect) = effect(&[pair])
                {
                    pairs.push(pair);
                    comparisons.push(Comparison {
                        others: others(matrix, *axis, cell),
                        cell: cell + 1,
                        baseline_cell: against + 1,
                        ..comparison(&matrix.axes[*axis], value, *baseline, effect)
                    });
                }
            }
            if let Some(effect) = effect(&pairs) {
                effects.push(comparison(&matrix.axes[*axis], value, *baseline, effect));
            }
        }
    }
    judge(&mut effects);
    judge(&mut comparisons);
    (effects, comparisons)
}

/// A comparison over all pairs, which has no own cells.
fn comparison(axis: &Axis, value: usize, baseline: usize, effect: Effect) -> Comparison {
    Comparison {
        axis: axis.name.clone(),
        value: axis.values[value].label.clone(),
        baseline: axis.values[baseline].label.clone(),
        others: String::new(),
        cell: 0,
        baseline_cell: 0,
        effect,
    }
}

/// What a cell has on the other axes.
fn others(matrix: &Matrix, axis: usize, cell: usize) -> String {
    let others = matrix.values(cell).enumerate();
    let others = others.filter(|(other, _)| *other != axis);
    let others: Vec<String> = others
        .map(|(_, (axis, value))| format!("{}={value}", axis.short))
        .collect();
    others.join(" ")
}

/// By how much the samples of an epoch differ, as a logarithm. Where both are unknown they are taken to be the same.
fn grown(((_, own), (_, baseline)): &(Timed, Timed)) -> Option<f64> {
    match (own, baseline) {
        (Some(own), Some(baseline)) => {
            Some((*own as f64 / *baseline as f64).ln()).filter(|grown| grown.is_finite())
        }
        (None, None) => Some(0.0),
        _ => None,
    }
}

fn effect(pairs: &[(Timed, Timed)]) -> Option<Effect> {
    let spreads: Vec<(Spread, Spread)> =
        pairs.iter().map(|(own, other)| (own.0, other.0)).collect();
    let time = Ratio::of_logarithms(&spreads)?;
    let grown: Option<Vec<f64>> = pairs.iter().map(grown).collect();
    let grown = grown.and_then(|grown| mean(&grown)).map(f64::exp);
    let rate = grown.map(|grown| time.inverse().times(grown));
    let bounds = |ratio: Option<Ratio>| ratio.and_then(|ratio| ratio.bounds).unzip();
    let (time_ratio_low, time_ratio_high) = bounds(Some(time));
    let (rate_ratio_low, rate_ratio_high) = bounds(rate);
    let each = spreads
        .iter()
        .map(|(own, other)| (own.mean - other.mean).exp());
    let (least_time_ratio, most_time_ratio) = range(each);
    Some(Effect {
        pairs: pairs.len(),
        time_ratio: time.ratio,
        time_ratio_low,
        time_ratio_high,
        rate_ratio: rate.map(|rate| rate.ratio),
        rate_ratio_low,
        rate_ratio_high,
        least_time_ratio,
        most_time_ratio,
        p: time.p,
        p_adjusted: None,
        significant: false,
    })
}

/// Says which of them count, all of them together.
fn judge(comparisons: &mut [Comparison]) {
    let all: Vec<Option<f64>> = comparisons.iter().map(|one| one.effect.p).collect();
    for (comparison, p) in comparisons.iter_mut().zip(adjusted(&all)) {
        comparison.effect.p_adjusted = p;
        comparison.effect.significant = p.is_some_and(|p| p < SIGNIFICANT);
    }
}

fn remarks(figures: &Figures, open: usize) -> Vec<String> {
    let mut remarks = Vec::new();
    if open > 0 {
        let left = figures.cells.len() - figures.begun().len();
        let left = match left {
            0 => String::new(),
            1 => " One cell has none yet and is left out of the tables.".to_owned(),
            left => format!(" {left} cells have none yet and are left out of the tables."),
        };
        remarks.push(format!(
            "{open} of {} runs are not over: the figures are those so far.{left}",
            figures.runs_asked
        ));
    }
    if figures.runs_failed > 0 {
        remarks.push(format!(
            "{} of {} runs failed, also when they were tried again; no figure counts them.",
            figures.runs_failed, figures.runs_asked
        ));
    }
    if figures.asked.repeats < USUAL_REPEATS {
        let repeats = figures.asked.repeats;
        let what = if repeats == 1 {
            "a single run of each cell: how much it varies is unknown"
        } else {
            "few repeats: intervals are wide"
        };
        remarks.push(format!(
            "{repeats} of the {USUAL_REPEATS} repeats that are usual: {what}."
        ));
    }
    remarks.extend(figures.environment.remarks());
    remarks
}
