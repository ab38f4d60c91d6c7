//! How a training gains by more nodes or GPUs: speed-up, efficiency and the serial fraction of Karp and Flatt (1990).

use serde::Serialize;

use super::sample::doubts;
use crate::foundation::statistics::Ratio;
use crate::report::Run;
use crate::report::compare::{Row, samples_of_mean_epoch};
use crate::report::number::real;

/// What stayed the same meanwhile.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// The batch of all workers together.
    Strong,
    /// The batch of each worker.
    Weak,
    /// Neither, or the batches are not known.
    Unknown,
}

impl Kind {
    /// Its name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Strong => "strong",
            Self::Weak => "weak",
            Self::Unknown => "unknown",
        }
    }
}

/// One run of a scaling study.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::report) struct Point {
    /// Which run, by its place in the report.
    pub(in crate::report) run: usize,
    pub(in crate::report) workers: u64,
    /// Mean of its steady epochs, in seconds.
    pub(in crate::report) seconds: f64,
    /// How many times as fast as the baseline: by samples a second where those are known, else by the time of an epoch.
    pub(in crate::report) speed_up: Ratio,
    /// Speed-up over the growth of the workers; `None` where this or the baseline is no scaling measurement.
    pub(in crate::report) efficiency: Option<f64>,
    /// The serial fraction; `None` also of the baseline, and with weak scaling, of which it says nothing.
    pub(in crate::report) serial_fraction: Option<f64>,
    /// Why it is no scaling measurement; empty: it is one.
    pub(in crate::report) doubts: Vec<String>,
}

/// Runs with different numbers of workers.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::report) struct Scaling {
    /// What grew from run to run: `nodes` or `GPUs`.
    pub(in crate::report) workers: &'static str,
    pub(in crate::report) kind: Kind,
    /// The run with the fewest workers, by its place in the report.
    pub(in crate::report) baseline: usize,
    /// True where speed is that of the epochs alone, since the samples of an epoch are not known of all.
    pub(in crate::report) is_by_epochs: bool,
    /// Fewest workers first.
    pub(in crate::report) points: Vec<Point>,
}

/// The scaling among runs; `None` where all that are timed have the same number of workers.
pub(in crate::report) fn scaling(runs: &[Run], rows: &[Row]) -> Option<Scaling> {
    let timed = |place: &usize| rows[*place].spread.is_some_and(|spread| spread.mean > 0.0);
    let mut places: Vec<usize> = (0..runs.len()).filter(timed).collect();
    let differs = |count: fn(&Run) -> u64| {
        places.iter().all(|place| count(&runs[*place]) > 0)
            && places
                .iter()
                .any(|place| count(&runs[*place]) != count(&runs[places[0]]))
    };
    // Nodes with more GPUs are not one worker each.
    let (workers, count): (_, fn(&Run) -> u64) = match () {
        () if differs(Run::gpus_used) => ("GPUs", Run::gpus_used),
        () if differs(Run::nodes_used) => ("nodes", Run::nodes_used),
        () => return None,
    };
    places.sort_by_key(|place| count(&runs[*place]));
    let baseline = *places.first()?;
    let is_by_epochs = places
        .iter()
        .any(|place| samples_of_mean_epoch(&runs[*place]).is_none());
    let kind = kind(&places, runs, count);
    let point = |place: &usize| point(*place, baseline, (runs, rows), count, (kind, is_by_epochs));
    let points = places.iter().filter_map(point).collect();
    Some(Scaling {
        workers,
        kind,
        baseline,
        is_by_epochs,
        points,
    })
}

fn point(
    place: usize,
    baseline: usize,
    (runs, rows): (&[Run], &[Row]),
    count: fn(&Run) -> u64,
    (kind, is_by_epochs): (Kind, bool),
) -> Option<Point> {
    let (own, base) = (rows[place].spread?, rows[baseline].spread?);
    let mut speed_up = Ratio::of(&own, &base)?.inverse();
    if !is_by_epochs {
        let samples = |run: usize| samples_of_mean_epoch(&runs[run]);
        speed_up = speed_up.times(samples(place)? / samples(baseline)?);
    }
    if place == baseline {
        speed_up.bounds = None;
    }
    let growth = real(count(&runs[place])) / real(count(&runs[baseline]));
    let (efficiency, serial) = efficiency_and_serial(speed_up.ratio, growth);
    let is_sound = doubts(&runs[place]).is_empty() && doubts(&runs[baseline]).is_empty();
    Some(Point {
        run: place,
        workers: count(&runs[place]),
        seconds: own.mean,
        efficiency: is_sound.then_some(efficiency),
        serial_fraction: Some(serial)
            .filter(|serial| is_sound && serial.is_finite() && kind != Kind::Weak),
        speed_up,
        doubts: doubts(&runs[place]),
    })
}

/// Efficiency, and the serial fraction of Karp and Flatt, of a speed-up by so many times the workers.
pub(super) fn efficiency_and_serial(speed_up: f64, growth: f64) -> (f64, f64) {
    let serial = (1.0 / speed_up - 1.0 / growth) / (1.0 - 1.0 / growth);
    (speed_up / growth, serial)
}

fn kind(places: &[usize], runs: &[Run], count: fn(&Run) -> u64) -> Kind {
    let batches: Option<Vec<(u64, u64)>> = places
        .iter()
        .map(|place| {
            Some((
                runs[*place].record.workload.batch_size?,
                count(&runs[*place]),
            ))
        })
        .collect();
    match batches {
        Some(batches) if batches.iter().all(|(batch, _)| *batch == batches[0].0) => Kind::Strong,
        Some(batches)
            if batches
                .iter()
                .all(|(batch, of)| batch * batches[0].1 == batches[0].0 * of) =>
        {
            Kind::Weak
        }
        _ => Kind::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::compare::compare;
    use crate::report::tests::{derived, timed};

    /// Runs with so many nodes, a global batch and a time of an epoch.
    fn of(runs: &[(u32, u64, f64)]) -> Option<Scaling> {
        let runs: Vec<Run> = runs
            .iter()
            .map(|(nodes, batch, seconds)| {
                let mut run = timed(&[2.0 * seconds, *seconds, *seconds]);
                run.record.nodes = *nodes;
                run.nodes = (0..*nodes)
                    .map(|number| {
                        let mut node = run.nodes[0].clone();
                        node.record.key.node = format!("n{number}");
                        node.record.host.cpus = Some(8);
                        node.record.conditions.boot_id = Some(format!("boot-{number}"));
                        node
                    })
                    .collect();
                run.record.workload.batch_size = Some(*batch);
                derived(run)
            })
            .collect();
        scaling(&runs, &compare(&runs))
    }

    /// ULHPC tutorial of 2023: TensorFlow, ResNet50, 147 s an epoch on one GPU and 92 s on two.
    #[test]
    fn strong_scaling_as_published() {
        let scaling = of(&[(2, 128, 92.5), (1, 128, 147.5)]).expect("different nodes");
        assert_eq!(
            (scaling.kind, scaling.baseline, scaling.is_by_epochs),
            (Kind::Strong, 1, true)
        );
        let [one, two] = &scaling.points[..] else {
            panic!("two runs: {scaling:?}")
        };
        assert_eq!(
            (one.speed_up.ratio, one.efficiency, one.serial_fraction),
            (1.0, Some(1.0), None)
        );
        let close = |a: f64, b: f64| assert!((a - b).abs() < 5e-3, "{a} is not {b}");
        close(two.speed_up.ratio, 1.595);
        close(two.efficiency.expect("machines of their own"), 0.797);
        close(two.serial_fraction.expect("two nodes"), 0.254);
    }

    #[test]
    fn weak_scaling_has_no_serial_fraction_and_alike_runs_no_scaling() {
        let scaling = of(&[(1, 64, 100.5), (4, 256, 30.5)]).expect("different nodes");
        assert_eq!(
            (scaling.kind, scaling.points[1].serial_fraction),
            (Kind::Weak, None)
        );
        assert_eq!(
            of(&[(1, 64, 100.5), (4, 100, 30.5)])
                .expect("different nodes")
                .kind,
            Kind::Unknown
        );
        assert_eq!(of(&[(2, 64, 100.5), (2, 64, 30.5)]), None);
        assert_eq!(of(&[]), None);
    }
}
