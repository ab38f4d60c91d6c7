//! What one run of a cell measured, and under what conditions.

use serde::{Deserialize, Serialize};

use crate::job::JobState;
use crate::record::{
    NodeRecord, Progress, RunRecord, Status, TimeSource, median, of_commonest_source,
};

/// The node whose output shows the epochs, as far as it decides times.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Default)]
pub struct Machine {
    /// Its name.
    pub node: String,
    /// Model name of the CPU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_model: Option<String>,
    /// Logical CPUs of the machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpus: Option<u64>,
    /// CPUs that the command could keep busy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpus_effective: Option<f64>,
    /// Models of the GPUs that the run had there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gpus: Vec<String>,
    /// Kernel release.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel: Option<String>,
}

/// What one run of a cell measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Default)]
pub struct Measured {
    /// How the run ended.
    pub state: JobState,
    /// Why it counts for nothing, in a few words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
    /// Median of the steady epochs, in seconds, without evaluation and checkpoints where those are known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epoch_seconds: Option<f64>,
    /// Steady epochs behind it.
    #[serde(default)]
    pub epochs: usize,
    /// By how much the first epoch was longer, in seconds; negative where it was shorter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_extra_seconds: Option<f64>,
    /// Where the times come from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<TimeSource>,
    /// Training samples of an epoch, as the job file or the program says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub samples: Option<u64>,
    /// The job from start to end, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wall_seconds: Option<f64>,
    /// Nodes that it ran on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<String>,
    /// The node whose output shows the epochs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine: Option<Machine>,
    /// CPUs that everything else kept busy meanwhile, on the node where it was most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub others_cpus_busy: Option<f64>,
    /// Time that a CPU quota, heat or a limit of power held it down, on the node where it was most, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub throttled_seconds: Option<f64>,
    /// Framework and version, as the job file has them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub framework: Option<String>,
    /// The image: its digest, else where it comes from. `None`: no container.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// The dlrun that submitted it.
    pub dlrun_version: String,
}

impl Measured {
    /// Out of what a run left behind. `warm_up` epochs at the begin of each start of the program are left out.
    #[must_use]
    pub fn new(record: &RunRecord, status: &Status, nodes: &[NodeRecord], warm_up: u32) -> Self {
        let timed = nodes.iter().find(|node| node.progress.epochs_completed > 0);
        let steady = timed.and_then(|node| steady(&node.progress, warm_up));
        let failure = failure(status, timed, steady.is_some(), warm_up);
        let seconds =
            |from: u64, to: u64| (to > from).then(|| to.saturating_sub(from) as f64 / 1e3);
        let span = status.started_at_ms.zip(status.ended_at_ms);
        let of_nodes = || {
            let begin = nodes.iter().map(|node| node.started_at_ms).min()?;
            Some((
                begin,
                nodes.iter().filter_map(|node| node.ended_at_ms).max()?,
            ))
        };
        let most =
            |of: fn(&NodeRecord) -> Option<f64>| nodes.iter().filter_map(of).reduce(f64::max);
        let stated =
            timed.and_then(|node| node.progress.epochs.iter().find_map(|epoch| epoch.samples));
        let framework = &record.framework;
        let versioned = |name: &String| match &framework.version {
            Some(version) => format!("{name} {version}"),
            None => name.clone(),
        };
        let image = record.image.as_ref();
        Self {
            state: status.state,
            epoch_seconds: steady
                .as_ref()
                .map(|steady| steady.median)
                .filter(|_| failure.is_none()),
            failure,
            epochs: steady.as_ref().map_or(0, |steady| steady.count),
            first_extra_seconds: steady.as_ref().and_then(|steady| steady.first_extra),
            source: steady.as_ref().map(|steady| steady.source),
            samples: stated.or(record.workload.samples),
            wall_seconds: span
                .or_else(of_nodes)
                .and_then(|(from, to)| seconds(from, to)),
            nodes: nodes.iter().map(|node| node.key.node.clone()).collect(),
            machine: timed.or_else(|| nodes.first()).map(machine),
            others_cpus_busy: most(|node| node.conditions.others_cpus_busy),
            throttled_seconds: most(throttled),
            framework: framework.name.as_ref().map(versioned),
            image: image.map(|image| image.digest.clone().unwrap_or_else(|| image.source.clone())),
            dlrun_version: record.dlrun_version.clone(),
        }
    }

    /// Of a run that was submitted and then lost.
    #[must_use]
    pub fn lost(why: &str) -> Self {
        Self {
            failure: Some(why.to_owned()),
            dlrun_version: env!("CARGO_PKG_VERSION").to_owned(),
            ..Self::default()
        }
    }
}

fn failure(
    status: &Status,
    timed: Option<&NodeRecord>,
    is_steady: bool,
    warm_up: u32,
) -> Option<String> {
    match (status.state, timed) {
        (JobState::Completed, _) if is_steady => None,
        (JobState::Completed, None) => Some("its output shows no epochs".to_owned()),
        (JobState::Completed, Some(node)) => {
            let epochs = node.progress.epochs_completed;
            Some(format!(
                "no epoch of known duration beyond the {warm_up} of the warm-up, of {epochs}"
            ))
        }
        (state, _) => match status
            .cause
            .as_ref()
            .map(|cause| &cause.text)
            .or(status.reason.as_ref())
        {
            Some(why) => Some(format!("{state}: {why}")),
            None => Some(state.to_string()),
        },
    }
}

fn throttled(node: &NodeRecord) -> Option<f64> {
    let gpus = node.gpus.iter().map(|gpu| gpu.throttled_seconds);
    let cpu = node.usage.cpu_throttled_seconds;
    cpu.into_iter().chain(gpus).reduce(f64::max)
}

fn machine(node: &NodeRecord) -> Machine {
    Machine {
        node: node.key.node.clone(),
        cpu_model: node.host.cpu_model.clone(),
        cpus: node.host.cpus,
        cpus_effective: node.conditions.cpus_effective,
        gpus: node.gpus.iter().map(|gpu| gpu.gpu.name.clone()).collect(),
        kernel: node.host.kernel.clone(),
    }
}

/// Figures of the steady epochs.
struct Steady {
    source: TimeSource,
    count: usize,
    median: f64,
    first_extra: Option<f64>,
}

/// The epochs beyond the warm-up; of several sources of their times that with most epochs.
fn steady(progress: &Progress, warm_up: u32) -> Option<Steady> {
    let is_noted = progress.epochs.iter().any(|epoch| epoch.warmup);
    let mut place = 0_u32;
    let mut known: Vec<(f64, TimeSource)> = Vec::new();
    let mut first = None;
    for (number, epoch) in progress.epochs.iter().enumerate() {
        // Each start of the program counts its warm-up again.
        place = if is_noted && epoch.warmup {
            0
        } else {
            place.saturating_add(u32::from(number > 0))
        };
        let Some((seconds, source)) = epoch.training_time() else {
            continue;
        };
        if number == 0 {
            first = Some(seconds);
        }
        if place >= warm_up {
            known.push((seconds, source));
        }
    }
    let (source, times) = of_commonest_source(known)?;
    let count = times.len();
    let median = median(times)?;
    let first_extra = first.filter(|_| warm_up > 0).map(|first| first - median);
    Some(Steady {
        source,
        count,
        median,
        first_extra,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{Cause, Epoch, ExitStatus};

    fn progress(epochs: &[(f64, bool)]) -> Progress {
        let mut progress = Progress::default();
        for (seconds, warmup) in epochs {
            progress.push_epoch(Epoch {
                printed_seconds: Some(*seconds),
                warmup: *warmup,
                ..Epoch::default()
            });
        }
        progress
    }

    #[test]
    fn warm_up_is_left_out_of_each_start() {
        let told = progress(&[
            (9.5, true),
            (2.5, false),
            (1.5, false),
            (8.5, true),
            (2.25, false),
            (1.25, false),
        ]);
        let one = steady(&told, 1).expect("four");
        assert_eq!(
            (one.count, one.median, one.first_extra),
            (4, 1.875, Some(7.625))
        );
        let two = steady(&told, 2).expect("two");
        assert_eq!((two.count, two.median), (2, 1.375));
        let none = steady(&told, 0).expect("six");
        assert_eq!((none.count, none.first_extra), (6, None));
        assert!(steady(&told, 3).is_none());
    }

    #[test]
    fn evaluation_and_checkpoints_are_no_training() {
        let mut told = progress(&[(9.5, true), (4.5, false), (4.5, false)]);
        told.epochs[1].evaluation_seconds = Some(1.0);
        told.epochs[2].checkpoint_seconds = Some(2.0);
        told.epochs[2].evaluation_seconds = Some(1.0);
        assert_eq!(steady(&told, 1).expect("two").median, 2.5);
        told.epochs[2].evaluation_seconds = Some(5.0);
        assert_eq!(
            steady(&told, 1).expect("one").count,
            1,
            "a time below 0 is none"
        );
    }

    #[test]
    fn a_run_that_ended_well_may_still_have_told_nothing() {
        let state = |state| Status::of(state);
        assert_eq!(
            failure(&state(JobState::Completed), None, false, 1).as_deref(),
            Some("its output shows no epochs")
        );
        assert_eq!(
            failure(&state(JobState::Failed), None, true, 1).as_deref(),
            Some("failed")
        );
        let killed = Status {
            reason: Some("memory".into()),
            ..state(JobState::OutOfMemory)
        };
        assert_eq!(
            failure(&killed, None, false, 1).as_deref(),
            Some("out_of_memory: memory")
        );
        let cause = Cause::of(JobState::Failed, Some(ExitStatus::Code(3)), None);
        let failed = Status {
            cause,
            ..state(JobState::Failed)
        };
        let why = failure(&failed, None, false, 1).expect("it failed");
        assert!(
            why.starts_with("failed: the program") && why.contains('3'),
            "{why}"
        );
        assert_eq!(failure(&state(JobState::Completed), None, true, 1), None);
    }
}
