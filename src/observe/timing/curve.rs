//! The curves of losses and metrics, thinned evenly so that a record stays small however long a training is.

use super::names::is_of_evaluation;
use crate::record::{MAX_POINTS, MetricPoint, PointKind};

/// Collects points.
#[derive(Debug, Default)]
pub(super) struct Curves {
    steps: Curve,
    evaluations: Curve,
}

#[derive(Debug, Default)]
struct Curve {
    points: Vec<MetricPoint>,
    /// How many there were.
    seen: u64,
    /// One of 2 to the power of this many is kept.
    halvings: u32,
    /// The last one, and whether it was kept.
    last: Option<(Option<u64>, Option<u64>, bool)>,
}

/// Where in the training a line with metrics came.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Moment {
    pub(super) epoch: Option<u64>,
    pub(super) step: Option<u64>,
    pub(super) at_ms: Option<u64>,
}

impl Curves {
    /// Adds the metrics of a moment. `is_evaluation`: all are of one; else their names decide.
    pub(super) fn add<'a>(
        &mut self,
        moment: Moment,
        is_evaluation: bool,
        metrics: impl Iterator<Item = (&'a str, f64)>,
    ) {
        let (evaluated, trained): (Vec<_>, Vec<_>) =
            metrics.partition(|(name, _)| is_evaluation || is_of_evaluation(name));
        self.steps.add(PointKind::Step, moment, &trained);
        self.evaluations
            .add(PointKind::Evaluation, moment, &evaluated);
    }

    /// All points that were kept, in the order in which they came by kind.
    pub(super) fn points(&self) -> Vec<MetricPoint> {
        [&self.steps.points[..], &self.evaluations.points].concat()
    }
}

impl Curve {
    fn add(&mut self, kind: PointKind, moment: Moment, metrics: &[(&str, f64)]) {
        if metrics.is_empty() {
            return;
        }
        let Moment { epoch, step, at_ms } = moment;
        let values = metrics
            .iter()
            .map(|(name, value)| ((*name).to_owned(), *value));
        match self.last {
            // Another rank, or another line of the same moment.
            Some((last_epoch, last_step, kept)) if (last_epoch, last_step) == (epoch, step) => {
                if let Some(point) = self.points.last_mut().filter(|_| kept) {
                    point.metrics.extend(values);
                    // The last line of an evaluation tells when it was over.
                    if kind == PointKind::Evaluation {
                        point.at_ms = at_ms.or(point.at_ms);
                    }
                }
            }
            _ => {
                let place = self.seen;
                let kept = self.is_kept(place);
                if kept {
                    self.points.push(MetricPoint {
                        kind,
                        place,
                        epoch,
                        step,
                        at_ms,
                        metrics: values.collect(),
                    });
                }
                self.seen += 1;
                self.last = Some((epoch, step, kept));
                self.thin();
            }
        }
    }

    fn is_kept(&self, place: u64) -> bool {
        place.trailing_zeros() >= self.halvings
    }

    fn thin(&mut self) {
        if self.points.len() > MAX_POINTS {
            self.halvings += 1;
            let halvings = self.halvings;
            self.points
                .retain(|point| point.place.trailing_zeros() >= halvings);
            let newest = self.points.last().map(|point| point.place + 1);
            if let Some(last) = &mut self.last {
                last.2 = newest == Some(self.seen);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn points_of(count: u64) -> Vec<MetricPoint> {
        let mut curves = Curves::default();
        for step in 0..count {
            let moment = Moment {
                step: Some(step),
                ..Moment::default()
            };
            #[expect(clippy::cast_precision_loss, reason = "small")]
            curves.add(
                moment,
                false,
                [("loss", step as f64), ("val_loss", 0.5)].into_iter(),
            );
            // Another rank says the same.
            curves.add(moment, false, [("acc", 1.0)].into_iter());
        }
        curves.points()
    }

    #[test]
    fn few_points_are_all_kept_and_ranks_count_once() {
        let points = points_of(3);
        let kinds: Vec<_> = points
            .iter()
            .map(|point| (point.kind.as_str(), point.place, point.step))
            .collect();
        let step = |kind, place| (kind, place, Some(place));
        assert_eq!(
            kinds,
            [
                step("step", 0),
                step("step", 1),
                step("step", 2),
                step("evaluation", 0),
                step("evaluation", 1),
                step("evaluation", 2)
            ]
        );
        assert_eq!(
            points[2].metrics.keys().collect::<Vec<_>>(),
            ["acc", "loss"]
        );
    }

    #[test]
    fn many_points_are_thinned_evenly() {
        let points = points_of(100_000);
        let steps: Vec<u64> = points
            .iter()
            .filter(|point| point.kind == PointKind::Step)
            .map(|point| point.place)
            .collect();
        assert!(
            (MAX_POINTS / 2..=MAX_POINTS).contains(&steps.len()),
            "{}",
            steps.len()
        );
        let stride = steps[1];
        assert!(
            steps
                .iter()
                .zip(0..)
                .all(|(place, index)| *place == index * stride),
            "{steps:?}"
        );
        assert!(points.len() <= 2 * MAX_POINTS);
    }
}
