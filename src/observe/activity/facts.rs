//! What a run's own log says of its times: the facts that come before anything that samples suggest.

use crate::record::{
    Epoch, EventKind, MetricPoint, NodeRecord, NodeState, PointKind, Progress, median,
};

/// From here to there, in Unix milliseconds UTC.
pub(super) type Span = (u64, u64);
/// What an epoch took beyond the time that its program states for its training is something else from here on.
const LEAST_REST_SECONDS: f64 = 1.0;
const LEAST_REST: f64 = 0.05;
/// Two lines of steps without an evaluation that lie so much further apart than usual, as a multiple of that, have something else between
/// them.
const SLOW: f64 = 2.0;
/// Stretches without an evaluation that tell the usual time of a step.
const LEAST_PAUSES: usize = 3;
/// Steps from which on their median is compared with a period.
const LEAST_STEPS: u64 = 5;

/// The facts of one run on one node.
#[derive(Debug, Clone, Default)]
pub struct Facts {
    /// CPUs that it can keep busy; `None`: unknown.
    pub(super) cpus: Option<f64>,
    pub(super) has_gpus: bool,
    /// Times of steps and epochs.
    pub(super) training: Vec<Span>,
    pub(super) evaluation: Vec<Span>,
    pub(super) checkpoint: Vec<Span>,
    /// Something of an epoch that the log does not name.
    pub(super) rest: Vec<Span>,
    /// It seemed to hang.
    pub(super) hang: Vec<Span>,
    /// When the log showed progress, and the usual time between.
    pub(super) marks: Vec<u64>,
    pub(super) rhythm_ms: u64,
    pub(super) step_seconds: Option<f64>,
    pub(super) epoch_seconds: Option<f64>,
    /// Share of the steps' time in which they waited for data.
    pub(super) data_wait: Option<f64>,
}

impl Facts {
    /// Those of a record.
    #[must_use]
    pub fn of(record: &NodeRecord) -> Self {
        let progress = &record.progress;
        let host = &record.host;
        let affinity = host.cpus_allowed.or(host.cpus).map(|cpus| cpus as f64);
        let end_ms = match record.state {
            NodeState::Running => record.updated_at_ms,
            NodeState::Ended | NodeState::Interrupted => {
                record.ended_at_ms.unwrap_or(record.updated_at_ms)
            }
        };
        let times = progress
            .step_times
            .filter(|times| times.steps >= LEAST_STEPS);
        let epochs = progress.trainings_unlike().1.iter().skip(1);
        let epochs = epochs.filter_map(clock_ms);
        let mut facts = Self {
            cpus: record.conditions.cpus_effective.or(affinity),
            has_gpus: !record.gpus.is_empty(),
            step_seconds: times.map(|times| times.median_seconds),
            data_wait: times.and_then(|times| times.data_wait_ratio),
            epoch_seconds: median(epochs.map(|ms| ms as f64 / 1e3).collect()),
            hang: hangs(record, end_ms),
            ..Self::default()
        };
        facts.add_epochs(progress, record.started_at_ms);
        facts.add_evaluations(&progress.epochs, &progress.points);
        facts.add_pauses(progress);
        if progress.epochs_completed > progress.epochs.len() as u64 {
            facts.add_dropped(&progress.epochs);
        }
        facts.add_points(&progress.points, (record.started_at_ms, end_ms));
        facts.training.sort_unstable();
        facts.marks.sort_unstable();
        facts.marks.dedup();
        let pauses = facts
            .marks
            .windows(2)
            .map(|pair| pair[1].saturating_sub(pair[0]) as f64);
        facts.rhythm_ms = median(pauses.collect()).unwrap_or(0.0) as u64;
        facts
    }

    /// Each epoch from its beginning to its end: training as long as the program states, then what it evaluates.
    fn add_epochs(&mut self, progress: &Progress, started_ms: u64) {
        let epochs = &progress.epochs;
        let rests = epochs
            .iter()
            .filter_map(|epoch| Some(clock_ms(epoch)?.saturating_sub(stated_ms(epoch)?)));
        let usual_rest = median(rests.map(|ms| ms as f64).collect()).unwrap_or(0.0) as u64;
        let usual = self.epoch_seconds.map(|seconds| (seconds * 1e3) as u64);
        let first_step_ms = first_step_ms(&progress.points);
        let mut free_from = started_ms;
        for (place, epoch) in epochs.iter().enumerate() {
            let Some(end_ms) = epoch.ended_at_ms.filter(|_| !epoch.clock_set) else {
                continue;
            };
            self.marks.push(end_ms);
            // Of epochs whose lines came at one go nobody knows when they were.
            let ended_with = |other: Option<usize>| {
                let other = other.and_then(|place| epochs.get(place));
                other.is_some_and(|other| other.ended_at_ms == Some(end_ms))
            };
            if ended_with(place.checked_sub(1)) || ended_with(Some(place + 1)) {
                free_from = end_ms;
                continue;
            }
            // An epoch whose first line nobody saw took as long as it states, and evaluates as long as the others.
            let unseen = || stated_ms(epoch).map(|ms| ms + usual_rest).or(usual);
            if let Some(length_ms) = clock_ms(epoch).or_else(unseen) {
                // Epochs of an earlier start, or of a clock that was set, ended before.
                let mut begin_ms = end_ms.saturating_sub(length_ms).max(free_from).min(end_ms);
                // The first began with its first step; what the others took beside their steps came behind them.
                if let Some(step_ms) =
                    first_step_ms.filter(|_| place == 0 && clock_ms(epoch).is_none())
                {
                    begin_ms = begin_ms.max(step_ms.min(end_ms));
                }
                self.add_epoch(epoch, begin_ms, end_ms);
            }
            free_from = end_ms;
        }
    }

    /// Between two epochs: from the end of the one to the last figures of an evaluation before the other begins.
    fn add_evaluations(&mut self, epochs: &[Epoch], points: &[MetricPoint]) {
        let evaluations = points
            .iter()
            .filter(|point| point.kind == PointKind::Evaluation);
        let mut times: Vec<u64> = evaluations.filter_map(|point| point.at_ms).collect();
        times.sort_unstable();
        for pair in epochs.windows(2) {
            let begins = || pair[1].ended_at_ms?.checked_sub(clock_ms(&pair[1])?);
            let Some((from, to)) = pair[0].ended_at_ms.zip(begins()) else {
                continue;
            };
            let before = times.partition_point(|ms| *ms <= to);
            let last = before.checked_sub(1).map(|place| times[place]);
            if let Some(last) = last.filter(|last| *last > from) {
                self.evaluation.push((from, last));
            }
        }
    }

    /// Between two lines of steps with the figures of an evaluation: what these lie apart beyond the usual time of their steps.
    fn add_pauses(&mut self, progress: &Progress) {
        let mut ends: Vec<u64> = progress
            .points
            .iter()
            .filter(|point| point.kind == PointKind::Evaluation)
            .filter_map(|point| point.at_ms)
            .chain(progress.epochs.iter().filter_map(|epoch| {
                let evaluates = epoch.metrics.keys().any(|name| is_of_evaluation(name));
                epoch.ended_at_ms.filter(|_| evaluates)
            }))
            .collect();
        ends.sort_unstable();
        let pauses = pauses(&progress.points, progress.steps_per_epoch);
        let inside = |pause: &Pause| {
            ends[..ends.partition_point(|ms| *ms <= pause.to_ms)]
                .split_at(ends.partition_point(|ms| *ms <= pause.from_ms))
                .1
        };
        let plain = pauses.iter().filter(|pause| inside(pause).is_empty());
        let paces: Vec<f64> = plain.map(Pause::pace_ms).collect();
        let Some(pace_ms) = median(paces.clone()).filter(|_| paces.len() >= LEAST_PAUSES) else {
            return;
        };
        for pause in &pauses {
            let ends = inside(pause);
            let (from_ms, steps_ms) = (pause.from_ms, pace_ms * pause.steps as f64);
            let length_ms = (pause.to_ms - from_ms) as f64;
            let rest_ms = length_ms - steps_ms;
            let known = |(from, to): &Span| *from < pause.to_ms && *to > from_ms;
            if rest_ms < (1e3 * LEAST_REST_SECONDS).max(LEAST_REST * length_ms)
                || self.evaluation.iter().any(known)
            {
                continue;
            }
            let (rest, count) = (rest_ms as u64, ends.len() as u64);
            let before = |end: u64, length_ms: u64| end.saturating_sub(length_ms).max(from_ms);
            match ends {
                // Nobody says what it was; a step may be a little slower.
                [] if rest_ms > SLOW * steps_ms => self.rest.push((from_ms, from_ms + rest)),
                [] => {}
                // Lines with no step between them are of one evaluation. What is left came behind it.
                [.., last] if pause.is_whole => {
                    let begin = before(*last, rest);
                    self.evaluation.push((begin, *last));
                    self.rest.push((*last, *last + rest - (last - begin)));
                }
                _ => {
                    let spans = ends.iter().map(|end| (before(*end, rest / count), *end));
                    self.evaluation.extend(spans);
                }
            }
        }
    }

    /// Of very many epochs the record has the first and the newest: between them were others.
    fn add_dropped(&mut self, epochs: &[Epoch]) {
        if let [first, second, ..] = epochs
            && let (Some(from), Some(to)) = (first.ended_at_ms, second.ended_at_ms)
            && from < to
        {
            self.training.push((from, to));
        }
    }

    fn add_epoch(&mut self, epoch: &Epoch, begin_ms: u64, end_ms: u64) {
        let ms = |seconds: Option<f64>| (seconds.unwrap_or(0.0).max(0.0) * 1e3) as u64;
        let (evaluation, checkpoint) = (ms(epoch.evaluation_seconds), ms(epoch.checkpoint_seconds));
        let saved_from = end_ms.saturating_sub(checkpoint).max(begin_ms);
        let evaluated_from = saved_from.saturating_sub(evaluation).max(begin_ms);
        let mut trained_to = evaluated_from;
        if evaluation + checkpoint == 0
            && let Some(stated_ms) = stated_ms(epoch)
        {
            let length_ms = end_ms - begin_ms;
            let rest = length_ms.saturating_sub(stated_ms) as f64;
            if rest > 1e3 * LEAST_REST_SECONDS && rest > LEAST_REST * length_ms as f64 {
                trained_to = begin_ms + stated_ms;
                let is_evaluated = epoch.metrics.keys().any(|name| is_of_evaluation(name));
                let list = if is_evaluated {
                    &mut self.evaluation
                } else {
                    &mut self.rest
                };
                list.push((trained_to, end_ms));
            }
        }
        self.training.push((begin_ms, trained_to));
        if evaluation > 0 {
            self.evaluation.push((evaluated_from, saved_from));
        }
        if checkpoint > 0 {
            self.checkpoint.push((saved_from, end_ms));
        }
    }

    /// Steps: from before the first that was seen to the last, where no epochs say it.
    fn add_points(&mut self, points: &[MetricPoint], (started_ms, end_ms): Span) {
        let steps = points.iter().filter(|point| point.kind == PointKind::Step);
        let times: Vec<u64> = steps.filter_map(|point| point.at_ms).collect();
        let (Some(first), Some(last)) = (times.first(), times.last()) else {
            return;
        };
        // All lines came at one go.
        if times.len() > 1 && first == last {
            return;
        }
        let until_first_ms = first_steps_ms(points).unwrap_or_else(|| {
            self.step_seconds
                .map_or(0, |seconds| (seconds * 1e3) as u64)
        });
        let begin_ms = first
            .saturating_sub(until_first_ms)
            .max(started_ms.min(*first));
        match self.training.first() {
            // The steps before the end of the first epoch.
            Some((from_ms, _)) if begin_ms < *from_ms => {
                self.training.insert(0, (begin_ms, *from_ms))
            }
            Some(_) => {}
            None => {
                // Points are thinned out: up to as many steps as lie between two may follow the last.
                let pauses = times
                    .windows(2)
                    .map(|pair| pair[1].saturating_sub(pair[0]) as f64);
                let pause_ms = median(pauses.collect()).unwrap_or(0.0) as u64;
                self.training.push((
                    begin_ms,
                    last.saturating_add(pause_ms).min(end_ms.max(*last)),
                ));
            }
        }
        self.marks.extend(times);
    }

    /// From the first to the last time of training.
    pub(super) fn trained(&self) -> Option<Span> {
        let from = self.training.iter().map(|(from, _)| *from).min()?;
        let to = self
            .training
            .iter()
            .chain(&self.evaluation)
            .map(|(_, to)| *to)
            .max()?;
        Some((from, to))
    }
}

/// From one line of steps to the next.
struct Pause {
    from_ms: u64,
    to_ms: u64,
    steps: u64,
    /// Whether no other line of steps was between them.
    is_whole: bool,
}

impl Pause {
    fn pace_ms(&self) -> f64 {
        (self.to_ms - self.from_ms) as f64 / self.steps as f64
    }
}

/// Those of which it is known how many steps they had.
fn pauses(points: &[MetricPoint], steps_per_epoch: Option<u64>) -> Vec<Pause> {
    let steps: Vec<_> = points
        .iter()
        .filter(|point| point.kind == PointKind::Step)
        .collect();
    let pause = |pair: &[&MetricPoint]| {
        let [one, other] = pair else { return None };
        let (before, after) = one.step.zip(other.step)?;
        let steps = match after.checked_sub(before) {
            Some(steps)
                if one.epoch == other.epoch || steps_per_epoch.is_none_or(|of| after > of) =>
            {
                steps
            }
            // Steps are counted in each epoch.
            _ if one.epoch.and_then(|epoch| epoch.checked_add(1)) == other.epoch => {
                steps_per_epoch?.checked_sub(before)?.checked_add(after)?
            }
            _ => return None,
        };
        let (from_ms, to_ms) = one.at_ms.zip(other.at_ms).filter(|(from, to)| from < to)?;
        let is_whole = other.place == one.place + 1;
        (steps > 0).then_some(Pause {
            from_ms,
            to_ms,
            steps,
            is_whole,
        })
    };
    steps.windows(2).filter_map(pause).collect()
}

/// How long the steps to the first took that was seen, if they took as long as those from it to the second. Each 50th may be printed; a training that
/// continues begins with a large number.
fn first_steps_ms(points: &[MetricPoint]) -> Option<u64> {
    let mut steps = points.iter().filter(|point| point.kind == PointKind::Step);
    let (first, second) = (steps.next()?, steps.next()?);
    let count = second
        .step?
        .checked_sub(first.step?)
        .filter(|count| *count > 0)?;
    let between_ms = second.at_ms?.checked_sub(first.at_ms?)?;
    // Points are thinned out, lines between two that are left too.
    let lines = second.place.saturating_sub(first.place).max(1);
    let steps_of_line = (count / lines).max(1);
    Some(between_ms.checked_mul(first.step?.clamp(1, steps_of_line))? / count)
}

/// When the first step began, if that can be known.
fn first_step_ms(points: &[MetricPoint]) -> Option<u64> {
    let first = points.iter().find(|point| point.kind == PointKind::Step)?;
    first.at_ms?.checked_sub(first_steps_ms(points)?)
}

/// How long an epoch took by the watcher's clock.
fn clock_ms(epoch: &Epoch) -> Option<u64> {
    let seconds = epoch.clock_seconds.filter(|_| !epoch.clock_set)?;
    (seconds.is_finite() && seconds > 0.0).then_some((seconds * 1e3) as u64)
}

/// How long its training took, by its program.
fn stated_ms(epoch: &Epoch) -> Option<u64> {
    let seconds = epoch.printed_seconds?;
    (seconds.is_finite() && seconds > 0.0).then_some((seconds * 1e3) as u64)
}

fn is_of_evaluation(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    ["val", "eval", "test", "dev"]
        .iter()
        .any(|part| name.starts_with(part))
}

/// From a hang to its end.
fn hangs(record: &NodeRecord, end_ms: u64) -> Vec<Span> {
    let mut since = None;
    let mut found = Vec::new();
    for event in &record.events {
        match event.kind {
            EventKind::Hang | EventKind::HangEnded => since = since.or(Some(event.at_ms)),
            EventKind::HangOver => found.extend(since.take().map(|from| (from, event.at_ms))),
            _ => {}
        }
    }
    found.extend(since.map(|from| (from, end_ms)));
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_evaluation_between_steps_takes_what_they_lie_apart_beyond_their_time() {
        let point = |kind, place, step, at_ms| MetricPoint {
            kind,
            place,
            epoch: None,
            step: Some(step),
            at_ms: Some(at_ms),
            metrics: [("loss".to_owned(), 1.0)].into(),
        };
        let steps = [
            (10, 10_000),
            (20, 11_000),
            (30, 12_000),
            (40, 13_000),
            (50, 19_000),
            (60, 20_000),
        ];
        let evaluated = |evaluations: &[(u64, u64)], left_out: u64| {
            let mut progress = Progress::default();
            let places = (0..).step_by(1 + usize::try_from(left_out).expect("small"));
            let steps = places.zip(steps);
            progress.points = steps
                .map(|(place, (step, ms))| point(PointKind::Step, place, step, ms))
                .collect();
            let evaluations = evaluations.iter();
            progress
                .points
                .extend(evaluations.map(|(step, ms)| point(PointKind::Evaluation, 0, *step, *ms)));
            let mut facts = Facts::default();
            facts.add_pauses(&progress);
            facts.evaluation
        };
        assert_eq!(evaluated(&[(40, 18_500)], 0), [(13_500, 18_500)]);
        assert_eq!(
            evaluated(&[(40, 17_500), (41, 18_500)], 0),
            [(13_500, 18_500)]
        );
        let two = [(15_500, 18_000), (16_500, 19_000)];
        assert_eq!(
            evaluated(&[(45, 18_000), (50, 19_000)], 1),
            two,
            "lines between were left out"
        );
        // Without figures nobody knows what it was, and where there is no more time there was none.
        assert_eq!(evaluated(&[], 0), []);
        assert_eq!(evaluated(&[(30, 12_500)], 0), []);
    }

    #[test]
    fn training_begins_before_the_first_step_that_is_printed() {
        let before_first = |seen: [(u64, u64); 2]| {
            let points = seen.map(|(step, at_ms)| MetricPoint {
                kind: PointKind::Step,
                // After 10,000 steps each second line was left out.
                place: if step > 10_050 { 2 } else { 0 },
                epoch: None,
                step: Some(step),
                at_ms: Some(at_ms),
                metrics: std::collections::BTreeMap::new(),
            });
            first_steps_ms(&points)
        };
        assert_eq!(before_first([(50, 9_000), (100, 14_000)]), Some(5_000));
        assert_eq!(before_first([(1, 4_100), (50, 9_000)]), Some(100));
        assert_eq!(before_first([(0, 4_100), (10, 5_100)]), Some(100));
        let continued = before_first([(10_050, 9_000), (10_150, 19_000)]);
        assert_eq!(continued, Some(5_000), "not since step 1");
    }
}
