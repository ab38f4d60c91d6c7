//! Losses and metrics of several runs: what they ended in, and the least and the most on the way.

use super::Run;
use super::number::range;

/// Metrics that are compared; losses and accuracies before others.
const MOST: usize = 8;

/// A metric of one run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Of {
    /// Place of the run in the report.
    pub(super) run: usize,
    /// The last value.
    pub(super) last: f64,
    /// The least and the most that is known of it.
    pub(super) least: f64,
    pub(super) most: f64,
}

/// A metric that at least one of the runs has.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Metric {
    /// Its name in the output.
    pub(super) name: String,
    /// The runs that have it.
    pub(super) runs: Vec<Of>,
}

/// Names of metrics, losses before others.
pub(super) fn ranked(mut names: Vec<&str>) -> Vec<&str> {
    names.sort_unstable();
    names.dedup();
    let rank = |name: &str| match name.to_ascii_lowercase() {
        name if name == "loss" => 0,
        name if name.contains("loss") => 1,
        name if name.contains("acc") => 2,
        _ => 3,
    };
    names.sort_by_key(|name| rank(name));
    names
}

/// The metrics of all runs.
pub(super) fn compare(runs: &[Run]) -> Vec<Metric> {
    let progress = runs.iter().filter_map(Run::progress);
    let names = progress.flat_map(|progress| progress.last_metrics.keys());
    let names = ranked(names.map(String::as_str).collect());
    let metric = |name: &str| {
        let of = runs
            .iter()
            .enumerate()
            .filter_map(|(run, of)| metric(run, of, name));
        Metric {
            name: name.to_owned(),
            runs: of.collect(),
        }
    };
    let metrics = names.into_iter().take(MOST).map(metric);
    metrics.filter(|metric| !metric.runs.is_empty()).collect()
}

fn metric(run: usize, of: &Run, name: &str) -> Option<Of> {
    let progress = of.progress()?;
    let last = *progress.last_metrics.get(name)?;
    let epochs = progress.epochs.iter().map(|epoch| &epoch.metrics);
    let points = progress.points.iter().map(|point| &point.metrics);
    let values = epochs
        .chain(points)
        .filter_map(|metrics| metrics.get(name).copied());
    let (least, most) = range(values.chain([last]).filter(|value| value.is_finite()));
    last.is_finite().then_some(Of {
        run,
        last,
        least,
        most,
    })
}
