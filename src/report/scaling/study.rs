//! Series of measurements on more and more ranks: what each size gains over one rank and over one node.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::law::{LEAST_SIZES, fitted};
use super::pair::{Kind, efficiency_and_serial};
use super::sample::{Group, Sample, mean_of};
use super::validity::Validity;
use crate::foundation::statistics::{Ratio, Spread, median};
use crate::job::RunId;
use crate::report::insight::{Difference, unlike};
use crate::report::number::{counted, or_unknown, real, short};

/// What a report on scaling holds.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Study {
    /// When it was written, in Unix milliseconds UTC.
    pub written_at_ms: u64,
    /// The metric and value that trainings were to reach.
    pub target: Option<String>,
    /// What the reader must know of it as a whole.
    pub remarks: Vec<String>,
    /// The series.
    pub series: Vec<Series>,
}

/// One training on different numbers of ranks.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Series {
    /// What its measurements share.
    #[serde(flatten)]
    pub(in crate::report) group: Group,
    /// Strong: `batch` is that of all workers; weak: of each.
    pub kind: Kind,
    /// Samples of a step.
    pub batch: Option<u64>,
    /// What the points' `workers` are: `ranks` or `GPUs`.
    pub counted: &'static str,
    /// What speed is compared by: `samples_per_second`, `epoch_seconds` or `nothing`.
    pub by: &'static str,
    /// Why some of its points are no scaling measurements; empty: all are.
    pub not_a_scaling_measurement: Vec<String>,
    /// The law fitted to its points.
    pub law: Option<Law>,
    /// Why there is none.
    pub no_law: Option<String>,
    /// By workers, then nodes.
    pub points: Vec<Point>,
    /// What supports the figures.
    pub validity: Validity,
}

/// What the performance model was fitted on. What it says is in the points.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Law {
    /// `performance_model`.
    pub form: &'static str,
    /// Measurements behind it.
    pub observations: usize,
    /// Different sizes among them.
    pub sizes: usize,
    /// Share of single runs that its intervals are to hold.
    pub interval_ratio: f64,
}

/// All measurements of one size.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Point {
    /// GPUs, else ranks.
    pub workers: u64,
    /// Nodes.
    pub nodes: u64,
    /// Ranks.
    pub ranks: u64,
    /// GPUs.
    pub gpus: u64,
    /// Runs, or published figures.
    pub n: usize,
    /// The runs.
    pub runs: Vec<RunId>,
    /// Why it is no scaling measurement; empty: it is one.
    pub not_a_scaling_measurement: Vec<String>,
    /// What it is not compared with, and why.
    pub not_compared: Vec<String>,
    /// What is compared: samples or epochs a second.
    #[serde(skip)]
    pub(in crate::report) speed: Option<Spread>,
    /// Median over the runs of their mean steady epoch.
    pub epoch_seconds: Option<f64>,
    /// Mean samples a second of all workers, warm-up left out.
    pub samples_per_second: Option<f64>,
    /// Its lower bound, 95 %, Student's t over the runs; none of a single one.
    pub samples_per_second_low: Option<f64>,
    /// Its upper bound.
    pub samples_per_second_high: Option<f64>,
    /// Samples a second of each worker.
    pub samples_per_second_each: Option<f64>,
    /// The time in which a batch of all workers goes through.
    pub batch_seconds: Option<f64>,
    /// Median over the runs of their median step.
    pub step_median_seconds: Option<f64>,
    /// The same of the 95th percentile.
    pub step_p95_seconds: Option<f64>,
    /// Median over the runs of the share of step time, 0 to 1, in which the program says that it waited for data.
    pub data_wait_ratio: Option<f64>,
    /// By how much the first epoch was longer.
    pub first_extra_seconds: Option<f64>,
    /// Time of the slowest rank over the median of the ranks, the median over the runs; by the steps of all, or by the epochs of all.
    pub straggler_ratio: Option<f64>,
    /// Against one worker, where that was measured.
    pub from_one: Option<Gain>,
    /// Against one node with as many workers as each node of the larger sizes, where that was measured.
    pub from_node: Option<Gain>,
    /// The serial fraction of Karp and Flatt, against one worker, else against one node.
    pub serial_fraction: Option<f64>,
    /// Samples a second by the law, or epochs a second where `by` is `epoch_seconds`.
    pub law: Option<f64>,
    /// Lower end of the law's interval for a single run.
    pub law_low: Option<f64>,
    /// Its upper end.
    pub law_high: Option<f64>,
    /// Energy of the GPUs over the whole run.
    pub gpu_energy_joules: Option<f64>,
    /// The metric that says most.
    pub metric: Option<String>,
    /// Its last value, the median over the runs.
    pub metric_last: Option<f64>,
    /// From the start to the end of the first epoch that reached the target, the median over the runs that did.
    pub seconds_to_target: Option<f64>,
}

/// How much quicker than a baseline.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Gain {
    /// Workers of the baseline.
    pub baseline_workers: u64,
    /// Speed over that of the baseline.
    pub speed_up: f64,
    /// Its lower bound, 95 %; none where one side is a single run.
    pub speed_up_low: Option<f64>,
    /// Its upper bound.
    pub speed_up_high: Option<f64>,
    /// Speed-up over the growth of the workers.
    pub efficiency_ratio: f64,
}

impl Study {
    /// The series among measurements; `written_at_ms` is now, in Unix milliseconds UTC.
    #[must_use]
    pub fn new(samples: &[Sample], target: Option<String>, written_at_ms: u64) -> Self {
        let mut groups: BTreeMap<&Group, Vec<&Sample>> = BTreeMap::new();
        for sample in samples {
            groups.entry(&sample.group).or_default().push(sample);
        }
        let single = |group: &Group| Group {
            launcher: None,
            ..group.clone()
        };
        // One rank needs no launcher: it is the baseline of those that have none of their own.
        let lacks_one = |group: &Group, samples: &[&Sample]| {
            group.launcher.is_some() && samples.iter().all(|sample| sample.workers() > 1)
        };
        let lacking = groups
            .iter()
            .filter(|(group, samples)| lacks_one(group, samples));
        let lent: BTreeSet<Group> = lacking.map(|(group, _)| single(group)).collect();
        let mut series = Vec::new();
        for (group, of_group) in &groups {
            let mut all = of_group.clone();
            if lacks_one(group, of_group) {
                let alone = groups.get(&single(group)).into_iter().flatten();
                all.extend(alone.filter(|sample| sample.workers() == 1));
            } else if lent.contains(*group) {
                all.retain(|sample| sample.workers() > 1);
            }
            series.extend(series_of(group, &all));
        }
        Self {
            written_at_ms,
            target,
            remarks: Vec::new(),
            series,
        }
    }
}

/// The series of a group: one for each batch of all workers that different numbers of workers had, one for each batch of a worker, and
/// one of what is left.
fn series_of(group: &Group, samples: &[&Sample]) -> Vec<Series> {
    let of_worker = |sample: &Sample| {
        let batch = sample.batch?;
        (batch % sample.workers() == 0).then(|| batch / sample.workers())
    };
    let mut used: BTreeSet<usize> = BTreeSet::new();
    let mut found = Vec::new();
    for kind in [Kind::Strong, Kind::Weak] {
        let batch = |sample: &Sample| match kind {
            Kind::Strong => sample.batch.or(sample.has_fixed_work.then_some(0)),
            _ => of_worker(sample),
        };
        let batches: BTreeSet<u64> = samples.iter().filter_map(|sample| batch(sample)).collect();
        for size in batches {
            let places = (0..samples.len()).filter(|at| batch(samples[*at]) == Some(size));
            let places: Vec<usize> = places.collect();
            let sizes: BTreeSet<u64> = places.iter().map(|at| samples[*at].workers()).collect();
            if sizes.len() > 1 {
                used.extend(&places);
                let samples: Vec<&Sample> = places.iter().map(|at| samples[*at]).collect();
                let batch = Some(size).filter(|size| *size > 0);
                found.push(series(group, kind, batch, &samples));
            }
        }
    }
    let left = (0..samples.len()).filter(|at| !used.contains(at));
    let left: Vec<&Sample> = left.map(|at| samples[at]).collect();
    if !left.is_empty() {
        found.push(series(group, Kind::Unknown, None, &left));
    }
    found
}

fn series(group: &Group, kind: Kind, batch: Option<u64>, samples: &[&Sample]) -> Series {
    let by = match () {
        () if samples.iter().all(|sample| sample.rate.is_some()) => "samples_per_second",
        // Times of different work say nothing.
        () if kind == Kind::Strong => "epoch_seconds",
        () => "nothing",
    };
    let speed = |sample: &Sample| match by {
        "samples_per_second" => sample.rate,
        "epoch_seconds" => sample.seconds.map(|seconds| 1.0 / seconds),
        _ => None,
    };
    let mut sizes: BTreeMap<(u64, u64), Vec<&Sample>> = BTreeMap::new();
    for sample in samples {
        let size = (sample.workers(), sample.nodes);
        sizes.entry(size).or_default().push(sample);
    }
    let sizes: Vec<Vec<&Sample>> = sizes.into_values().collect();
    let mut points: Vec<Point> = sizes.iter().map(|samples| point(samples, speed)).collect();
    gains(&mut points, &sizes, kind);
    let doubts = points
        .iter()
        .flat_map(|point| &point.not_a_scaling_measurement);
    let doubts: BTreeSet<String> = doubts.cloned().collect();
    let (law, no_law) = match law(&mut points, &sizes, kind, speed) {
        Ok(law) => (Some(law), None),
        Err(why) => (None, Some(why)),
    };
    Series {
        group: group.clone(),
        kind,
        batch,
        counted: if samples.iter().all(|sample| sample.gpus > 0) {
            "GPUs"
        } else {
            "ranks"
        },
        by,
        not_a_scaling_measurement: doubts.into_iter().collect(),
        law,
        no_law,
        validity: Validity::of(samples, sizes.iter().map(Vec::len).min().unwrap_or(0)),
        points,
    }
}

fn point(samples: &[&Sample], speed: impl Fn(&Sample) -> Option<f64>) -> Point {
    let first = samples[0];
    let middle = |of: &dyn Fn(&Sample) -> Option<f64>| {
        median(samples.iter().filter_map(|sample| of(sample)).collect())
    };
    let rates: Option<Vec<f64>> = samples.iter().map(|sample| sample.rate).collect();
    let rates = rates.and_then(|rates| Spread::of(&rates));
    let (low, high) = rates.and_then(|rates| rates.bounds()).unzip();
    let rate = rates.map(|rates| rates.mean);
    let mut doubts: BTreeSet<String> = samples
        .iter()
        .flat_map(|sample| sample.doubts.iter().cloned())
        .collect();
    doubts.extend(mixed(samples));
    let speeds: Option<Vec<f64>> = samples.iter().map(|sample| speed(sample)).collect();
    let slowest = || samples.iter().filter_map(|sample| sample.straggler);
    let of_one_kind = slowest().all(|(_, of)| Some(of) == slowest().next().map(|first| first.1));
    let metric = first.metric.as_ref().map(|(name, _)| name.clone());
    let of_metric = |sample: &Sample| {
        let (name, value) = sample.metric.as_ref()?;
        (Some(name) == metric.as_ref()).then_some(*value)
    };
    Point {
        workers: first.workers(),
        nodes: first.nodes,
        ranks: first.ranks,
        gpus: first.gpus,
        n: samples.len(),
        runs: samples
            .iter()
            .filter_map(|sample| sample.run.clone())
            .collect(),
        not_a_scaling_measurement: doubts.into_iter().collect(),
        not_compared: Vec::new(),
        speed: speeds.and_then(|speeds| Spread::of(&speeds)),
        epoch_seconds: middle(&|sample| sample.seconds),
        samples_per_second: rate,
        samples_per_second_low: low,
        samples_per_second_high: high,
        samples_per_second_each: rate.map(|rate| rate / real(first.workers())),
        batch_seconds: rate
            .zip(first.batch)
            .map(|(rate, batch)| real(batch) / rate),
        step_median_seconds: middle(&|sample| sample.step_seconds.map(|step| step.0)),
        step_p95_seconds: middle(&|sample| sample.step_seconds.map(|step| step.1)),
        data_wait_ratio: middle(&|sample| sample.data_wait_ratio),
        first_extra_seconds: middle(&|sample| sample.first_extra_seconds),
        straggler_ratio: median(slowest().map(|(ratio, _)| ratio).collect())
            .filter(|_| of_one_kind),
        from_one: None,
        from_node: None,
        serial_fraction: None,
        law: None,
        law_low: None,
        law_high: None,
        gpu_energy_joules: mean_of(samples, |sample| sample.energy_joules),
        metric_last: middle(&of_metric),
        metric,
        seconds_to_target: middle(&|sample| sample.seconds_to_target),
    }
}

/// In what runs of one size differ that decides their times: they are no repeats of each other.
fn mixed(samples: &[&Sample]) -> Option<String> {
    let (first, others) = samples.split_first()?;
    let found = others.iter().flat_map(|other| differing(first, other));
    let found: BTreeSet<String> = found.collect();
    let names: Vec<String> = found.into_iter().collect();
    (!names.is_empty()).then(|| format!("its runs differ in {}", names.join(", ")))
}

/// In what two measurements differ that decides their times; of different sizes besides what belongs to the size.
fn differing(first: &Sample, other: &Sample) -> BTreeSet<String> {
    let is_one_size = (first.workers(), first.nodes) == (other.workers(), other.nodes);
    let is_count = |sample: &Sample, text: &str| {
        let counts = [sample.nodes, sample.ranks, sample.gpus];
        text.parse().is_ok_and(|number| counts.contains(&number))
    };
    let decides = |difference: &Difference| {
        let what = difference.what.as_str();
        let is_size = || {
            what.contains("batch")
                || is_count(first, &difference.first) && is_count(other, &difference.second)
        };
        match what.strip_prefix("arguments.") {
            Some(name) => !name.contains("seed") && (is_one_size || !is_size()),
            None if ["asked", "omp_num_threads", "batch_size"].contains(&what) => is_one_size,
            None => ["program", "samples", "time_source"].contains(&what),
        }
    };
    let found = unlike(&first.conditions.setting, &other.conditions.setting).into_iter();
    let found = found.filter(decides).map(|difference| difference.what);
    let mut found: BTreeSet<String> = found.collect();
    let sources = first.rate_from.zip(other.rate_from);
    if let Some((one, two)) = sources.filter(|(one, two)| one != two) {
        found.insert(format!("what their rates are from ({one}, {two})"));
    }
    // Where ranks compute on GPUs, CPUs decide little.
    let of_rank = |sample: &Sample| sample.cpus_of_rank().filter(|_| sample.gpus == 0);
    let [one, two] = [first, other].map(|sample| or_unknown(of_rank(sample), short));
    if one != two {
        found.insert(format!("the CPUs of a rank ({one}, {two})"));
    }
    if is_one_size && first.batch != other.batch {
        found.insert("batch_size".to_owned());
    }
    found
}

/// Why measurements of different sizes are not compared; `None`: they may be.
fn not_comparable(kind: Kind, first: &Sample, other: &Sample) -> Option<String> {
    let mut found = differing(first, other);
    if kind == Kind::Unknown && first.batch.or(other.batch).is_some() {
        found.insert("the batch, of all and of each".to_owned());
    }
    let names: Vec<String> = found.into_iter().collect();
    (!names.is_empty()).then(|| names.join(", "))
}

/// Speed-up, efficiency and serial fraction of each point that is a scaling measurement, from those baselines that are.
fn gains(points: &mut [Point], sizes: &[Vec<&Sample>], kind: Kind) {
    let is_sound = |point: &Point| point.not_a_scaling_measurement.is_empty();
    let find = |workers: u64| {
        points
            .iter()
            .position(|point| point.workers == workers && point.nodes == 1 && is_sound(point))
    };
    let one = find(1);
    let larger = points
        .iter()
        .filter(|point| point.nodes > 1 && point.workers % point.nodes == 0 && is_sound(point));
    let most = larger.map(|point| point.workers / point.nodes).max();
    let node = most.and_then(find);
    let gain = |at: usize, baseline: Option<usize>| {
        let (own, base) = (&points[at], &points[baseline?]);
        if !is_sound(own) || own.workers < base.workers {
            return None;
        }
        let is_own = Some(at) == baseline;
        let ratio = Ratio::of(own.speed.as_ref()?, base.speed.as_ref()?)?;
        if let Some(why) = not_comparable(kind, sizes[baseline?][0], sizes[at][0])
            && !is_own
        {
            let worker = if base.gpus > 0 { "GPU" } else { "rank" };
            let base = counted(base.workers, worker);
            return Some(Err(format!("{base}, which differs in {why}")));
        }
        let growth = real(own.workers) / real(base.workers);
        let bounds = ratio.bounds.filter(|_| !is_own);
        let (efficiency_ratio, serial) = efficiency_and_serial(ratio.ratio, growth);
        let gain = Gain {
            baseline_workers: base.workers,
            speed_up: ratio.ratio,
            speed_up_low: bounds.map(|bounds| bounds.0),
            speed_up_high: bounds.map(|bounds| bounds.1),
            efficiency_ratio,
        };
        let has_serial = kind == Kind::Strong && own.workers > base.workers;
        Some(Ok((gain, Some(serial).filter(|_| has_serial))))
    };
    let found: Vec<_> = (0..points.len())
        .map(|at| [one, node].map(|baseline| gain(at, baseline)))
        .collect();
    for (point, found) in points.iter_mut().zip(found) {
        let mut refused = BTreeSet::new();
        let [from_one, from_node] = found.map(|found| {
            let refuse = |why| {
                let _ = refused.insert(why);
            };
            found?.map_err(refuse).ok()
        });
        let first = from_one.as_ref().or(from_node.as_ref());
        point.serial_fraction = first.and_then(|(_, serial)| *serial);
        point.from_one = from_one.map(|(gain, _)| gain);
        point.from_node = from_node.map(|(gain, _)| gain);
        point.not_compared = refused.into_iter().collect();
    }
}

/// Fits the model to the points that are scaling measurements, and notes in each what it says.
fn law(
    points: &mut [Point],
    sizes: &[Vec<&Sample>],
    kind: Kind,
    speed: impl Fn(&Sample) -> Option<f64>,
) -> Result<Law, String> {
    // Seconds of so much work: where the model is at home.
    const WORK: f64 = 1e6;
    let sound: Vec<usize> = (0..points.len())
        .filter(|at| points[*at].not_a_scaling_measurement.is_empty())
        .collect();
    let samples: Vec<&Sample> = sound.iter().flat_map(|at| &sizes[*at]).copied().collect();
    let different: BTreeSet<u64> = sound.iter().map(|at| points[*at].workers).collect();
    if different.len() < LEAST_SIZES {
        return Err(format!("it needs {LEAST_SIZES} sizes that count"));
    }
    let of_size = |at: &usize| not_comparable(kind, samples[0], sizes[*at][0]);
    if let Some(why) = sound.iter().skip(1).find_map(of_size) {
        return Err(format!("its sizes differ in {why}"));
    }
    if samples.iter().any(|sample| speed(sample).is_none()) {
        return Err("its speed is not known".to_owned());
    }
    let fitted = fitted(&samples, |sample| Some(WORK / speed(sample)?))
        .ok_or("its ranks are spread unevenly over nodes, or the model could not be fitted")?;
    let mut at_sample = 0;
    for at in sound {
        let (point, interval) = (&mut points[at], &fitted[at_sample]);
        point.law = Some(WORK / interval.median);
        point.law_low = Some(WORK / interval.high);
        point.law_high = Some(WORK / interval.low);
        at_sample += point.n;
    }
    Ok(Law {
        form: "performance_model",
        observations: samples.len(),
        sizes: different.len(),
        interval_ratio: 0.9,
    })
}
