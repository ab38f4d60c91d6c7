//! Losses and metrics of several runs: what they ended in, and their curves over the training.

use super::Run;
use super::number::{range, real};
use crate::record::{PointKind, Progress};

/// Metrics that are compared; losses and accuracies before others.
const MOST: usize = 8;

/// A metric of one run.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Of {
    /// Place of the run in the report.
    pub(super) run: usize,
    /// The values over epochs, else over steps, else in order; finite ones.
    pub(super) curve: Vec<(f64, f64)>,
    /// The last value.
    pub(super) last: f64,
}

/// A metric that at least one of the runs has.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Metric {
    /// Its name in the output.
    pub(super) name: String,
    /// What the curves go along: `epochs`, `steps`, `evaluations`.
    pub(super) along: &'static str,
    /// The runs that have it.
    pub(super) runs: Vec<Of>,
}

impl Of {
    /// The least and the most of its values.
    pub(super) fn bounds(&self) -> (f64, f64) {
        let values = self.curve.iter().map(|(_, value)| *value);
        range(values.chain([self.last]))
    }
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
    let of_run: Vec<Option<&Progress>> = runs.iter().map(Run::progress).collect();
    let names = of_run
        .iter()
        .flatten()
        .flat_map(|progress| progress.last_metrics.keys())
        .map(String::as_str);
    let names = ranked(names.collect());
    names
        .into_iter()
        .take(MOST)
        .filter_map(|name| metric(name, &of_run))
        .collect()
}

/// The values of a metric along something.
type Way = fn(&Progress, &str) -> Vec<(f64, f64)>;

/// One metric; the curves of all runs go along the same.
fn metric(name: &str, runs: &[Option<&Progress>]) -> Option<Metric> {
    let having = || {
        runs.iter().enumerate().filter_map(|(run, progress)| {
            let progress = (*progress)?;
            let last = progress
                .last_metrics
                .get(name)
                .filter(|value| value.is_finite())?;
            Some((run, progress, *last))
        })
    };
    let ways: [(&'static str, Way); 3] = [
        ("epochs", over_epochs),
        ("steps", over_steps),
        ("evaluations", in_order),
    ];
    let (along, way) = *ways
        .iter()
        .find(|(_, way)| having().all(|(_, progress, _)| way(progress, name).len() > 1))
        .unwrap_or(&ways[2]);
    let runs: Vec<Of> = having()
        .map(|(run, progress, last)| Of {
            run,
            curve: way(progress, name),
            last,
        })
        .collect();
    (!runs.is_empty()).then(|| Metric {
        name: name.to_owned(),
        along,
        runs,
    })
}

fn over_epochs(progress: &Progress, name: &str) -> Vec<(f64, f64)> {
    let epochs = progress.epochs.iter();
    finite(epochs.map(|epoch| (Some(epoch.epoch), epoch.metrics.get(name))))
}

fn over_steps(progress: &Progress, name: &str) -> Vec<(f64, f64)> {
    // Steps that count again in each epoch are no axis.
    if progress.points.iter().any(|point| point.epoch.is_some()) {
        return Vec::new();
    }
    let points = progress.points.iter();
    finite(points.map(|point| (point.step, point.metrics.get(name))))
}

fn in_order(progress: &Progress, name: &str) -> Vec<(f64, f64)> {
    let points = progress.points.iter();
    let points = points.filter(|point| point.kind == PointKind::Evaluation);
    finite(points.map(|point| (Some(point.place), point.metrics.get(name))))
}

/// The values that are known and finite, with where each is.
fn finite<'a>(values: impl Iterator<Item = (Option<u64>, Option<&'a f64>)>) -> Vec<(f64, f64)> {
    let known = values.filter_map(|(at, value)| Some((real(at?), *value?)));
    known.filter(|(_, value)| value.is_finite()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::{derived, timed};

    #[test]
    fn curves_of_all_runs_go_along_the_same() {
        let with = |losses: &[f64]| {
            let mut run = timed(&vec![2.0; losses.len()]);
            let progress = &mut run.nodes[0].record.progress;
            for (epoch, loss) in progress.epochs.iter_mut().zip(losses) {
                epoch.metrics.insert("val_loss".to_owned(), *loss);
            }
            progress
                .last_metrics
                .insert("val_loss".to_owned(), *losses.last().expect("some"));
            derived(run)
        };
        let runs = [with(&[0.9, 0.4, 0.5]), with(&[0.8, f64::NAN, 0.7])];
        let found = compare(&runs);
        let val_loss = found
            .iter()
            .find(|metric| metric.name == "val_loss")
            .expect("it is there");
        assert_eq!((val_loss.along, val_loss.runs.len()), ("epochs", 2));
        assert_eq!(
            (val_loss.runs[0].last, val_loss.runs[0].bounds()),
            (0.5, (0.4, 0.9))
        );
        assert_eq!(val_loss.runs[1].curve.len(), 2);
    }
}
