//! What a start of a trial came to, by what its run left behind.

use serde::{Deserialize, Serialize};

use super::document::{EPOCH_SECONDS, Metric, STEP_SECONDS, WALL_SECONDS};
use crate::foundation::units::counted;
use crate::job::JobState;
use crate::learn::bench::Settled;
use crate::record::{AllStarts, NodeRecord, Progress, Status};

/// What a trial came to.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Outcome {
    /// How its run ended.
    pub state: JobState,
    /// The metric at its end; null: none, or no number.
    pub value: Option<f64>,
    /// The second metric of two at its end; null: none, or no number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub second_value: Option<f64>,
    /// Epochs that ended in all attempts of its run, each once.
    pub epochs: u64,
    /// All attempts of its run from start to end, in seconds.
    pub wall_seconds: Option<f64>,
    /// Its nodes times its time, in hours.
    pub node_hours: Option<f64>,
    /// Why it counts for nothing, in a few words.
    pub failure: Option<String>,
    /// After which epoch it was stopped.
    pub stopped_at: Option<u64>,
    /// The checkpoint that a promotion continues from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoint: Option<String>,
}

impl Settled for Outcome {
    fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }

    /// A node that was lost says nothing of the trial, nor does a cancel before its start; a program that fails with some values
    /// would fail again.
    fn may_be_tried_again(&self) -> bool {
        match self.state {
            JobState::NodeFail | JobState::Preempted | JobState::Unknown => true,
            JobState::Cancelled => self.stopped_at.is_none() && self.wall_seconds.is_none(),
            _ => false,
        }
    }

    fn is_try(&self) -> bool {
        self.state != JobState::Preempted
    }

    fn counts(&self) -> bool {
        let is_of_program = matches!(
            self.state,
            JobState::Failed | JobState::OutOfMemory | JobState::Timeout | JobState::Completed
        );
        self.failure.is_none() || is_of_program
    }
}

impl Outcome {
    /// Out of what a run left behind. `stopped_at`: it was given up after this epoch, and asked to end by itself or cancelled.
    #[must_use]
    pub fn new(
        (status, all_starts): (&Status, Option<AllStarts>),
        nodes: &[NodeRecord],
        metric: &Metric,
        (stopped_at, is_asked): (Option<u64>, bool),
    ) -> Self {
        let span = status.started_at_ms.zip(status.ended_at_ms);
        let span = span.map(|(from, to)| to.saturating_sub(from) as f64 / 1e3);
        let seconds = all_starts.map(|all| all.ran_seconds).or(span);
        let showing = nodes
            .iter()
            .find(|node| value_of(&node.progress, metric).is_some());
        let measured =
            showing.or_else(|| nodes.iter().find(|node| node.progress.recogniser.is_some()));
        let progress = measured.map(|node| &node.progress);
        // One that was at its end before it was cancelled is as good as any; one that was asked is completed before its last epoch.
        let at_end = progress.and_then(|it| Some(it.epochs_completed >= it.epochs_announced?));
        let is_whole = match status.state {
            JobState::Completed => !is_asked || at_end == Some(true),
            _ => false,
        };
        let ended_well = matches!(status.state, JobState::Completed | JobState::Cancelled);
        let stopped_at = stopped_at.filter(|_| ended_well && !is_whole);
        let value = measured_value(nodes, metric, seconds);
        let failure = match status.state {
            _ if stopped_at.is_some() => None,
            JobState::Completed if value.is_some() => None,
            JobState::Completed => Some(missing(metric, progress)),
            state => {
                let cause = status.cause.as_ref().map(|cause| cause.text.clone());
                Some(cause.unwrap_or_else(|| state.as_str().to_owned()))
            }
        };
        Self {
            state: status.state,
            value: value.filter(|value| value.is_finite()),
            second_value: None,
            epochs: all_starts
                .and_then(|all| all.epochs)
                .unwrap_or_else(|| progress.map_or(0, |progress| progress.epochs_completed)),
            wall_seconds: seconds,
            node_hours: seconds.map(|seconds| seconds * nodes.len().max(1) as f64 / 3600.0),
            failure,
            stopped_at,
            checkpoint: None,
        }
    }

    /// With the value that was known before, where nothing was left to train, since its end came after the checkpoint of its last epoch,
    /// or too little to be timed.
    #[must_use]
    pub fn with_value_before(
        mut self,
        nodes: &[NodeRecord],
        metric: &Metric,
        before: Option<f64>,
    ) -> Self {
        let has_trained = nodes.iter().any(|node| node.progress.epochs_completed > 0);
        let is_left = !has_trained || metric.name == EPOCH_SECONDS;
        // Without a value and without a failure it has diverged.
        let lacks = self.value.is_none() && self.failure.is_some();
        if self.state == JobState::Completed && lacks && is_left {
            self.failure = self.failure.filter(|_| before.is_none());
            self.value = before;
        }
        self
    }

    /// As that of a start that ends after `epochs`, before the training does, with its newest checkpoint.
    #[must_use]
    pub fn paused(mut self, epochs: u32, checkpoint: Option<String>) -> Self {
        if self.failure.is_none() {
            let missing = "it wrote no new complete checkpoint that `resume.checkpoints` matches";
            self.failure = checkpoint.is_none().then(|| missing.to_owned());
            self.stopped_at = checkpoint.is_some().then_some(epochs.into());
            self.checkpoint = checkpoint;
        }
        self
    }

    /// `stopped after 3 epochs`; a tuning by steps may have none. One that ended by itself may have trained on for a while.
    #[must_use]
    pub fn stopped_text(&self) -> Option<String> {
        // Where the line of an epoch lacks the metric, it is compared later.
        let stopped_at = match self.checkpoint {
            Some(_) => self.stopped_at?,
            None => self.stopped_at?.max(self.epochs),
        };
        let epochs = counted(stopped_at, "epoch");
        Some(match self.state {
            _ if self.stopped_at == Some(0) => "stopped early".to_owned(),
            _ if self.checkpoint.is_some() => format!("given {epochs}"),
            JobState::Completed => format!("asked to end after {epochs}"),
            _ => format!("stopped after {epochs}"),
        })
    }

    /// The value that a sampler learns from; `None`: the worst.
    #[must_use]
    pub fn learned(&self) -> Option<f64> {
        self.value.filter(|_| self.failure.is_none())
    }

    /// With the second metric of two.
    #[must_use]
    pub fn with_second(self, nodes: &[NodeRecord], metric: &Metric) -> Self {
        let value = measured_value(nodes, metric, self.wall_seconds);
        let is_missing = self.state == JobState::Completed && value.is_none();
        let progress = nodes.iter().map(|node| &node.progress);
        let known = progress.max_by_key(|progress| progress.last_metrics.len());
        Self {
            second_value: value.filter(|value| value.is_finite()),
            failure: self
                .failure
                .or_else(|| is_missing.then(|| missing(metric, known))),
            ..self
        }
    }
}

/// A metric at the end of a run; NaN: it was no finite number.
pub fn measured_value(nodes: &[NodeRecord], metric: &Metric, seconds: Option<f64>) -> Option<f64> {
    if metric.name == WALL_SECONDS {
        return seconds;
    }
    // Records hold no value that is not finite, and say that they had one.
    let infinite = format!("metric {}", metric.name);
    let mut missing_figures = nodes.iter().flat_map(|node| &node.missing);
    let has_diverged = missing_figures.any(|missing| missing.what == infinite);
    let value = nodes
        .iter()
        .find_map(|node| value_of(&node.progress, metric));
    value.or(has_diverged.then_some(f64::NAN))
}

fn missing(metric: &Metric, progress: Option<&Progress>) -> String {
    let names: Vec<&str> = progress
        .into_iter()
        .flat_map(|progress| progress.last_metrics.keys().map(String::as_str))
        .collect();
    match names.is_empty() {
        _ if metric.name == EPOCH_SECONDS && progress.is_some_and(|it| it.epochs_completed > 0) => {
            "it has one epoch, and the first one does not count".to_owned()
        }
        true if [EPOCH_SECONDS, STEP_SECONDS].contains(&metric.name.as_str()) => {
            "its output shows no times of epochs or steps; `dlrun timings OUTPUT` helps to find why"
                .to_owned()
        }
        true => format!("its output shows no metric `{}`, and no other", metric.name),
        false => format!(
            "its output shows no metric `{}`; it shows {}",
            metric.name,
            names.join(", ")
        ),
    }
}

/// The metric as it is now.
fn value_of(progress: &Progress, metric: &Metric) -> Option<f64> {
    if metric.name == EPOCH_SECONDS {
        let mut seconds: Vec<f64> = progress
            .epochs
            .iter()
            .skip(1)
            .filter_map(|epoch| Some(epoch.training_time()?.0))
            .collect();
        seconds.sort_by(f64::total_cmp);
        return seconds.get(seconds.len() / 2).copied();
    }
    if metric.name == STEP_SECONDS {
        return Some(progress.step_times?.median_seconds);
    }
    progress.last_metrics.get(&metric.name).copied()
}

/// The metric after `epochs` epochs, or at the first one after that whose line shows it; `None`: it has not come so far.
#[must_use]
pub fn value_at(progress: &Progress, metric: &Metric, epochs: u64) -> Option<f64> {
    let place = usize::try_from(epochs.checked_sub(1)?).ok()?;
    // Of a long training the epochs in the middle are not kept.
    let is_whole = progress.epochs.len() as u64 == progress.epochs_completed;
    let later = progress.epochs.iter().skip(place).filter(|_| is_whole);
    later
        .filter_map(|epoch| epoch.metrics.get(&metric.name))
        .next()
        .copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::RunId;
    use crate::learn::bench::{Entry, Journal, Lines, Slot};

    #[test]
    fn a_trial_whose_job_is_taken_away_is_tried_until_it_has_started_twenty_times() {
        let slot = Slot { cell: 0, repeat: 0 };
        let starts_of = |state| {
            let mut journal: Journal<Outcome> = Journal::read("").0;
            let mut starts = 0_u8;
            while !journal.is_done(slot) && starts < 30 {
                let run_id = RunId::from_random([starts; 10]);
                journal.add(Entry::Begun {
                    at_ms: 1,
                    slot,
                    run_id: run_id.clone(),
                });
                let measured = Box::new(Outcome {
                    state,
                    failure: Some("it ended".to_owned()),
                    ..Outcome::default()
                });
                journal.add(Entry::Over {
                    at_ms: 2,
                    run_id,
                    measured,
                });
                starts += 1;
            }
            starts
        };
        let counts = [JobState::Preempted, JobState::NodeFail, JobState::Failed].map(starts_of);
        assert_eq!(counts, [20, 2, 1]);
    }
}
