//! Simpler ways to guess an epoch's time, which the model has to beat on the same runs.
//!
//! All of them tell the time of a sample where the number of samples is known, as the model does: the harder opponents. Each has
//! one scatter for all its answers, that of its own errors on the runs that it learned from.

mod least_squares;
mod neighbour;

use std::collections::BTreeMap;

use super::evaluate::{Predict, Predictor, image, log_normal, seconds, word, workload};
use super::{Observation, Situation};

/// Learns from runs.
pub(super) type Make = fn(&[&Observation]) -> Predict<'static>;

/// All of them.
pub(super) const ALL: [(Predictor, Make); 4] = [
    (Predictor::GlobalMean, global_mean),
    (Predictor::NearestNeighbour, neighbour::nearest),
    (Predictor::ImageMean, image_mean),
    (Predictor::LeastSquares, least_squares::regression),
];

/// No machine repeats itself more closely than this (standard deviation of the logarithm).
const LEAST_SD: f64 = 0.02;
/// Where one run is all there is.
const LONE_SD: f64 = 1.0;

/// The logarithm of the samples of an epoch, which all times are divided by; 0 where they are not known.
fn ln_samples(situation: &Situation) -> f64 {
    situation
        .workload
        .samples
        .map_or(0.0, |samples| (samples.max(1) as f64).ln())
}

/// The runs whose epochs were seen to their end, with the logarithm of the seconds of a sample.
fn timed<'a>(train: &[&'a Observation]) -> Vec<(&'a Situation, f64)> {
    let one = |observation: &&'a Observation| {
        let ln = seconds(observation)?.ln() - ln_samples(&observation.situation);
        Some((&observation.situation, ln))
    };
    train.iter().filter_map(one).collect()
}

/// Mean and standard deviation.
fn moments(values: &[f64]) -> (f64, f64) {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count.max(1.0);
    if values.len() < 2 {
        return (mean, LONE_SD);
    }
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (mean, (squares / (count - 1.0)).sqrt().max(LEAST_SD))
}

fn global_mean(train: &[&Observation]) -> Predict<'static> {
    let all: Vec<f64> = timed(train).into_iter().map(|(_, ln)| ln).collect();
    let (mean, sd) = moments(&all);
    Box::new(move |situations| {
        situations
            .iter()
            .map(|situation| log_normal(mean + ln_samples(situation), sd))
            .collect()
    })
}

fn image_mean(train: &[&Observation]) -> Predict<'static> {
    let timed = timed(train);
    let (overall, wide) = moments(&timed.iter().map(|(_, ln)| *ln).collect::<Vec<f64>>());
    let mut images: BTreeMap<u64, Vec<f64>> = BTreeMap::new();
    for (situation, ln) in timed {
        images.entry(image(situation)).or_default().push(ln);
    }
    let within: Vec<f64> = images
        .values()
        .filter(|lns| lns.len() > 1)
        .flat_map(|lns| {
            let (mean, _) = moments(lns);
            lns.iter().map(move |ln| ln - mean)
        })
        .collect();
    let sd = if within.len() < 2 {
        wide
    } else {
        moments(&within).1
    };
    let means: BTreeMap<u64, f64> = images
        .into_iter()
        .map(|(image, lns)| (image, moments(&lns).0))
        .collect();
    Box::new(move |situations| {
        let one = |situation: &Situation| match means.get(&image(situation)) {
            Some(mean) => log_normal(mean + ln_samples(situation), sd),
            None => log_normal(overall + ln_samples(situation), wide),
        };
        situations.iter().map(one).collect()
    })
}

/// What is known of a situation, as categories and as numbers.
struct Traits {
    /// Workload, framework, version, compiler, provenance, device, machine, precision, storage.
    words: [u64; 9],
    /// Logarithms of batch, threads, workers and nodes; `None` where they are not known.
    sizes: [Option<f64>; 4],
}

impl Traits {
    fn of(situation: &Situation) -> Self {
        let framework = &situation.framework;
        let hardware = &situation.hardware;
        let gpu = hardware.gpus > 0;
        let name = framework.name.as_deref();
        let versioned = format!(
            "{} {}",
            name.unwrap_or_default(),
            framework.version.as_deref().unwrap_or_default()
        );
        let provenance = framework.provenance.map(crate::job::Provenance::as_str);
        let machine = if gpu {
            hardware.gpu_model.as_deref()
        } else {
            hardware.cpu_model.as_deref()
        };
        let workers = if gpu {
            situation.gpus()
        } else {
            situation
                .nodes
                .max(1)
                .saturating_mul(situation.tasks_per_node.max(1))
        };
        let batch = situation
            .workload
            .batch_size
            .map(|batch| (batch.max(1) as f64).ln());
        let threads = hardware
            .threads
            .filter(|threads| !gpu && *threads > 0.0)
            .map(f64::ln);
        Self {
            words: [
                workload(situation),
                word("framework", name),
                word("version", Some(&versioned)),
                word("compiler", framework.compiler.as_deref()),
                word("provenance", provenance),
                word("device", Some(if gpu { "gpu" } else { "cpu" })),
                word("machine", machine),
                word("precision", situation.workload.precision.as_deref()),
                word(
                    "storage",
                    situation.storage.map(crate::job::StorageClass::as_str),
                ),
            ],
            sizes: [
                batch,
                threads,
                Some(f64::from(workers.max(1)).ln()),
                Some(f64::from(situation.nodes.max(1)).ln()),
            ],
        }
    }
}
