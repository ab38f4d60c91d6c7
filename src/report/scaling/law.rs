//! A series as the performance model sees it: what it says of each size that was measured, and of no other.

use super::sample::Sample;
use crate::job::{Framework, RunId, SchedulerKind, Workload};
use crate::learn::model::{Doubts, Hardware, Length, Model, Observation, Priors, Situation};
use crate::record::Interval;

/// Sizes without which there is no law.
pub(super) const LEAST_SIZES: usize = 3;

/// What the model says of the same work on the ranks and nodes of each of these samples, fitted on all of them alone: seconds, with
/// their 90 % interval. `seconds` is the time of that work. `None` where a size has no place in the model: ranks that are spread
/// unevenly over nodes.
pub(super) fn fitted(
    samples: &[&Sample],
    seconds: impl Fn(&Sample) -> Option<f64>,
) -> Option<Vec<Interval>> {
    let observations: Vec<Observation> = (0..)
        .zip(samples)
        .map(|(number, sample)| observation(sample, seconds(sample)?, number))
        .collect::<Option<_>>()?;
    let situations: Vec<Situation> = observations
        .iter()
        .map(|observation| observation.situation.clone())
        .collect();
    let model = Model::fit(observations, &Priors::none()).ok()?;
    let forecasts = model.forecasts(&situations).into_iter();
    forecasts.map(|forecast| forecast.epoch_seconds).collect()
}

fn observation(sample: &Sample, seconds: f64, number: u64) -> Option<Observation> {
    let per_node = u32::try_from(sample.workers() / sample.nodes).ok()?;
    if u64::from(per_node) * sample.nodes != sample.workers() || per_node == 0 {
        return None;
    }
    let mut bits = [0; 10];
    bits[2..].copy_from_slice(&number.to_be_bytes());
    let is_gpu = sample.gpus > 0;
    Some(Observation {
        run_id: RunId::from_random(bits),
        element: 0,
        attempt: 0,
        at_ms: number,
        scheduler: SchedulerKind::default(),
        queue: None,
        situation: Situation {
            workload: Workload {
                model: Some(sample.group.program.clone()),
                batch_size: sample.batch,
                ..Workload::default()
            },
            framework: Framework::default(),
            hardware: Hardware {
                gpus: if is_gpu { per_node } else { 0 },
                threads: (!is_gpu).then_some(1.0),
                ..Hardware::default()
            },
            nodes: u32::try_from(sample.nodes).ok()?,
            tasks_per_node: if is_gpu { 1 } else { per_node },
            ..Situation::default()
        },
        epoch_seconds: Some(Length::Known(seconds)),
        epochs: 3,
        between_seconds: None,
        outside_seconds: None,
        wall_seconds: None,
        memory_bytes: None,
        doubts: Doubts::default(),
    })
}
