//! Lines of `DLRUN_EVENTS`, one after the other, become the progress of a training.
//!
//! Numbers tell epochs apart, and times a resumed training from several ranks that say the same: an epoch with a number
//! that is over already is another training's where it began after the last one ended, else another rank's.

use crate::record::{Epoch, EpochNumbering, Progress, StepMark, Throughput, TimeSource};

use super::line::{Line, Phase};
use crate::observe::timing::curve::{Curves, Moment};
use crate::observe::timing::pace::seconds_between;
use crate::observe::timing::step_times::Histogram;

/// How far two times of one moment may lie apart, in milliseconds: the watcher looks at the file every 20 ms.
const TOLERANCE_MS: u64 = 50;
/// How far the time in a line may lie from when the line was seen, in milliseconds; beyond it a clock is wrong.
const CLOCK_MS: u64 = 60_000;
/// Phases outside of epochs that are kept until the epoch around them ends.
const MAX_SPANS: usize = 256;
/// Metrics kept at most, by name. Ours: a record must stay small.
const MAX_METRICS: usize = 64;
/// A line without rank is as one of the first.
const FIRST_RANK: u64 = 0;

/// The epoch that runs.
#[derive(Debug, Clone, Default)]
struct Open {
    began_ms: Option<u64>,
    /// The line that is made of it: what was said before its end.
    stated: Epoch,
}

/// A phase that is over and lay in no open epoch.
#[derive(Debug, Clone, Copy)]
struct Span {
    phase: Phase,
    seconds: f64,
    ended_ms: Option<u64>,
}

impl Span {
    /// Adds it to the epoch around it, else to what lay outside of epochs.
    fn add_to(self, epoch: Option<&mut Epoch>, outside: [&mut Option<f64>; 2]) {
        let sums = match epoch {
            Some(epoch) => [&mut epoch.evaluation_seconds, &mut epoch.checkpoint_seconds],
            None => outside,
        };
        let [evaluation, checkpoint] = sums;
        let sum = match self.phase {
            Phase::Evaluation => evaluation,
            Phase::Checkpoint => checkpoint,
        };
        *sum = Some(sum.unwrap_or(0.0) + self.seconds);
    }

    /// Whether it lay within an epoch that is over, by their times.
    fn lies_in(self, epoch: &Epoch) -> bool {
        let within = || {
            let (from, to) = (
                began(epoch.ended_at_ms, epoch.seconds())?,
                epoch.ended_at_ms?,
            );
            let phase_from = began(self.ended_ms, Some(self.seconds))?;
            Some(phase_from + TOLERANCE_MS >= from && self.ended_ms? <= to + TOLERANCE_MS)
        };
        within().unwrap_or(false)
    }
}

/// Makes a [`Progress`] of lines.
#[derive(Debug, Default)]
pub(super) struct Account {
    progress: Progress,
    /// The rank whose lines count, once one was read, and that which said the last epoch.
    rank: Option<u64>,
    last_rank: u64,
    open: Option<Open>,
    spans: Vec<Span>,
    /// When evaluation and checkpoint began, where they run.
    running: [Option<u64>; 2],
    step_times: Histogram,
    curves: Curves,
    has_spoken: bool,
}

impl Account {
    /// Takes a line that was seen at `seen_ms`.
    pub(super) fn take(&mut self, line: Line, seen_ms: Option<u64>) {
        let rank = line.rank.unwrap_or(FIRST_RANK);
        // The lowest rank of the node counts.
        if self.rank.is_some_and(|followed| rank > followed) {
            return;
        }
        self.rank = Some(rank);
        self.has_spoken = true;
        let at_ms = match (line.time_ms, seen_ms) {
            (Some(stated), Some(seen)) if stated.abs_diff(seen) > CLOCK_MS => Some(seen),
            (stated, seen) => stated.or(seen),
        };
        self.take_figures(&line);
        if let Some(phase) = line.phase {
            self.phase(&line, phase, at_ms);
        } else if line.begin {
            self.begin(&line, at_ms);
        } else if line.step.is_some() {
            self.step(&line, at_ms);
        } else if line.ends_epoch() {
            self.end(&line, rank, at_ms);
            return;
        }
        let epoch = line.epoch.or(self.running());
        let step = line
            .step
            .or(self.progress.last_step.and_then(|last| last.step));
        let metrics = line
            .metrics
            .iter()
            .map(|(name, value)| (name.as_str(), *value));
        self.curves.add(
            Moment { epoch, step, at_ms },
            line.phase == Some(Phase::Evaluation),
            metrics,
        );
    }

    /// What any line may carry.
    fn take_figures(&mut self, line: &Line) {
        let progress = &mut self.progress;
        progress.epochs_announced = line.epochs.or(progress.epochs_announced);
        progress.steps_per_epoch = line.of.or(line.steps).or(progress.steps_per_epoch);
        progress.step_seconds = line.step_seconds.or(progress.step_seconds);
        progress.run_seconds = line.run_seconds.or(progress.run_seconds);
        if let Some(value) = line.throughput {
            let unit = line.unit.clone().unwrap_or_else(|| "samples/s".to_owned());
            progress.throughput = Some(Throughput {
                value,
                unit,
                scope: line.scope,
            });
        }
        for (name, value) in &line.metrics {
            if progress.last_metrics.len() < MAX_METRICS || progress.last_metrics.contains_key(name)
            {
                progress.last_metrics.insert(name.clone(), *value);
            }
        }
    }

    /// The number of the open epoch.
    fn running(&self) -> Option<u64> {
        self.open.as_ref().map(|open| open.stated.epoch)
    }

    /// The epoch that ended last.
    fn last_epoch(&self) -> Option<&Epoch> {
        self.progress.epochs.last()
    }

    fn begin(&mut self, line: &Line, at_ms: Option<u64>) {
        let Some(epoch) = line.epoch else { return };
        match self.running() {
            // Another rank begins it too.
            Some(open) if open == epoch => return,
            Some(open) if open < epoch => self.close_by_clock(at_ms),
            _ => self.open = None,
        }
        if self.last_epoch().is_some_and(|last| last.epoch >= epoch) {
            self.progress.restarts += 1;
        }
        self.open(epoch, at_ms);
    }

    fn step(&mut self, line: &Line, at_ms: Option<u64>) {
        if let Some(epoch) = line.epoch {
            let over = self.last_epoch().map(|last| last.epoch);
            match self.running() {
                Some(open) if open < epoch => {
                    self.close_by_clock(at_ms);
                    self.open(epoch, at_ms);
                }
                // The epoch before ended here, as far as anybody knows; of the first nothing is known.
                None if over.is_none_or(|over| over < epoch) => {
                    let began_ms = self.last_epoch().and_then(|last| last.ended_at_ms);
                    self.open(epoch, began_ms);
                }
                _ => {}
            }
        }
        let epoch = line.epoch.or(self.running());
        let before = self
            .progress
            .last_step
            .filter(|last| last.epoch == epoch)
            .and_then(|last| last.step);
        // The first epoch is left out, without epochs the first step; a mean of several steps counts for each of them.
        let is_warm = if epoch.is_some() {
            self.progress.epochs_completed > 0
        } else {
            before.is_some()
        };
        if let Some(seconds) = line.step_seconds.filter(|_| is_warm) {
            // In an epoch the first line speaks of all steps so far.
            let since = before.or(epoch.map(|_| 0));
            let steps = line
                .step
                .zip(since)
                .map(|(now, since)| now.saturating_sub(since));
            let steps = steps.unwrap_or(1).max(1);
            self.step_times.add(seconds, steps);
            if let Some(waited) = line.data_seconds {
                self.step_times.add_wait(seconds, waited, steps);
            }
        }
        self.progress.last_step = Some(StepMark {
            epoch,
            step: line.step,
            of: line.of,
        });
        if let Some(open) = &mut self.open {
            put_metrics(&mut open.stated, line, true);
        }
    }

    fn open(&mut self, epoch: u64, began_ms: Option<u64>) {
        self.note_numbering(epoch);
        self.open = Some(Open {
            began_ms,
            stated: Epoch {
                epoch,
                event: true,
                ..Epoch::default()
            },
        });
    }

    fn note_numbering(&mut self, epoch: u64) {
        let known = &mut self.progress.epoch_numbering;
        match epoch {
            0 => *known = Some(EpochNumbering::ZeroBased),
            1 if known.is_none() => *known = Some(EpochNumbering::OneBased),
            _ => {}
        }
    }

    /// Ends the open epoch, which never said that it is over.
    fn close_by_clock(&mut self, at_ms: Option<u64>) {
        if let Some(open) = self.open.take() {
            self.push(open, at_ms);
        }
    }

    fn end(&mut self, line: &Line, rank: u64, at_ms: Option<u64>) {
        let Some(epoch) = line.epoch else { return };
        if self.running() != Some(epoch) {
            match self.standing(line, epoch, at_ms) {
                Standing::Said => return self.amend(line, epoch, rank),
                Standing::Restarted => self.progress.restarts += 1,
                Standing::New => {}
            }
            // One of a lower number never ended, and never will.
            self.open = None;
            let is_next = |last: &&Epoch| last.epoch.checked_add(1) == Some(epoch);
            let before = self.last_epoch().filter(is_next);
            let began_ms = before.and_then(|before| before.ended_at_ms);
            self.open(epoch, began_ms);
        }
        if let Some(mut open) = self.open.take() {
            put(&mut open.stated, line, true);
            self.last_rank = rank;
            self.push(open, at_ms);
        }
    }

    /// How an epoch's end stands to those before it.
    fn standing(&self, line: &Line, epoch: u64, at_ms: Option<u64>) -> Standing {
        let Some(last) = self.last_epoch() else {
            return Standing::New;
        };
        if epoch > last.epoch {
            return Standing::New;
        }
        match (began(at_ms, line.seconds), last.ended_at_ms) {
            (Some(began), Some(ended)) if began + TOLERANCE_MS >= ended => Standing::Restarted,
            (Some(_), Some(_)) => Standing::Said,
            _ if epoch.saturating_add(1) >= last.epoch => Standing::Said,
            _ => Standing::Restarted,
        }
    }

    /// More of an epoch that is over: what was said first stands, unless a lower rank says it.
    fn amend(&mut self, line: &Line, epoch: u64, rank: u64) {
        let wins = rank < self.last_rank;
        if let Some(known) = self
            .progress
            .epochs
            .iter_mut()
            .rev()
            .find(|known| known.epoch == epoch)
        {
            put(known, line, wins);
        }
    }

    fn push(&mut self, open: Open, at_ms: Option<u64>) {
        let mut stated = open.stated;
        let from_to = open.began_ms.zip(at_ms);
        stated.clock_seconds = from_to.and_then(|(from, to)| seconds_between(from, to));
        stated.ended_at_ms = at_ms;
        // Tracing, compilation and cold caches lie in the first of each start.
        stated.warmup = self
            .last_epoch()
            .is_none_or(|last| last.epoch >= stated.epoch);
        for span in std::mem::take(&mut self.spans) {
            let epoch = Some(&mut stated).filter(|epoch| span.lies_in(epoch));
            span.add_to(epoch, outside(&mut self.progress));
        }
        self.progress.push_epoch(stated);
    }

    fn phase(&mut self, line: &Line, phase: Phase, at_ms: Option<u64>) {
        let running = &mut self.running[usize::from(phase == Phase::Checkpoint)];
        if line.begin {
            *running = at_ms;
            return;
        }
        let by_clock = running
            .take()
            .zip(at_ms)
            .and_then(|(from, to)| seconds_between(from, to));
        let Some(seconds) = line.seconds.or(by_clock) else {
            return;
        };
        let span = Span {
            phase,
            seconds,
            ended_ms: at_ms,
        };
        let around = match &mut self.open {
            Some(open) => Some(&mut open.stated),
            None => (self.progress.epochs.last_mut()).filter(|last| span.lies_in(last)),
        };
        if around.is_some() {
            return span.add_to(around, [&mut None, &mut None]);
        }
        self.spans.push(span);
        if self.spans.len() > MAX_SPANS {
            let oldest = self.spans.remove(0);
            oldest.add_to(None, outside(&mut self.progress));
        }
    }

    /// What was said here over what the output said.
    pub(super) fn over(&self, output: Progress) -> Progress {
        if !self.has_spoken {
            return output;
        }
        let mut own = self.progress.clone();
        own.step_times = self.step_times.summary(TimeSource::Event);
        own.points = self.curves.points();
        fill_up(&mut own, &output);
        let are_outputs = own.epochs_completed == 0 && output.epochs_completed > 0;
        let mut progress = if are_outputs {
            // The program reports no epochs and its output does: those stay, beside what the program reports.
            let mut last_metrics = output.last_metrics;
            last_metrics.extend(own.last_metrics);
            Progress {
                recogniser: output.recogniser,
                epoch_numbering: output.epoch_numbering,
                epochs_completed: output.epochs_completed,
                epochs: output.epochs,
                restarts: output.restarts,
                last_metrics,
                ..own
            }
        } else {
            if own.last_metrics.is_empty() {
                own.last_metrics = output.last_metrics;
            }
            own.recogniser = Some("events".to_owned());
            own
        };
        for span in &self.spans {
            let mut epochs = std::mem::take(&mut progress.epochs);
            // The program's own epochs took theirs when they ended; a later line about one of them counts to the run.
            let mut all = epochs.iter_mut().filter(|_| are_outputs);
            let around = all.find(|epoch| span.lies_in(epoch));
            span.add_to(around, outside(&mut progress));
            progress.epochs = epochs;
        }
        progress
    }
}

/// Fills what `progress` leaves open from `output`, what the output says.
fn fill_up(progress: &mut Progress, output: &Progress) {
    progress.epochs_announced = progress.epochs_announced.or(output.epochs_announced);
    progress.steps_per_epoch = progress.steps_per_epoch.or(output.steps_per_epoch);
    progress.last_step = progress.last_step.or(output.last_step);
    progress.step_seconds = progress.step_seconds.or(output.step_seconds);
    progress.step_times = progress.step_times.or(output.step_times);
    progress.throughput = progress
        .throughput
        .take()
        .or_else(|| output.throughput.clone());
    progress.run_seconds = progress.run_seconds.or(output.run_seconds);
    if progress.points.is_empty() {
        progress.points.clone_from(&output.points);
    }
}

/// How an epoch's end stands to those that ended before.
enum Standing {
    New,
    /// A training that was started again.
    Restarted,
    /// It was said already.
    Said,
}

/// Puts what a line says of an epoch into it. `wins`: over what is there.
fn put(epoch: &mut Epoch, line: &Line, wins: bool) {
    fn choose<T>(known: &mut Option<T>, said: Option<T>, wins: bool) {
        if known.is_none() || wins && said.is_some() {
            *known = said;
        }
    }
    choose(&mut epoch.printed_seconds, line.seconds, wins);
    choose(&mut epoch.evaluation_seconds, line.evaluation_seconds, wins);
    choose(&mut epoch.checkpoint_seconds, line.checkpoint_seconds, wins);
    choose(&mut epoch.samples, line.samples, wins);
    put_metrics(epoch, line, wins);
}

fn put_metrics(epoch: &mut Epoch, line: &Line, wins: bool) {
    for (name, value) in &line.metrics {
        let is_known = epoch.metrics.contains_key(name);
        if (wins && is_known) || (!is_known && epoch.metrics.len() < MAX_METRICS) {
            epoch.metrics.insert(name.clone(), *value);
        }
    }
}

/// When something began that ended then and took so long.
fn began(ended_ms: Option<u64>, seconds: Option<f64>) -> Option<u64> {
    let took = std::time::Duration::try_from_secs_f64(seconds?).ok()?;
    Some(ended_ms?.saturating_sub(u64::try_from(took.as_millis()).ok()?))
}

/// Seconds of evaluations and checkpoints outside of all epochs.
fn outside(progress: &mut Progress) -> [&mut Option<f64>; 2] {
    [
        &mut progress.evaluation_seconds,
        &mut progress.checkpoint_seconds,
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::TimeSource;

    /// Lines, each with the second at which it was seen.
    fn progress_of(lines: &[(f64, &str)]) -> Progress {
        account(lines).over(Progress::default())
    }

    fn account(lines: &[(f64, &str)]) -> Account {
        let mut account = Account::default();
        for (second, line) in lines {
            let seen = std::time::Duration::from_secs_f64(*second).as_millis();
            account.take(
                Line::read(line.as_bytes()).expect(line),
                u64::try_from(seen).ok(),
            );
        }
        account
    }

    fn numbers(progress: &Progress) -> Vec<u64> {
        progress.epochs.iter().map(|epoch| epoch.epoch).collect()
    }

    #[test]
    fn an_epoch_is_what_the_program_says() {
        let progress = progress_of(&[
            (1.0, r#"{"epochs":2,"steps":100}"#),
            (
                10.0,
                r#"{"epoch":1,"seconds":9.0,"samples":60000,"loss":0.3}"#,
            ),
            (
                19.1,
                r#"{"epoch":2,"seconds":8.5,"samples":60000,"loss":0.2,"evaluation_seconds":1.5}"#,
            ),
            (19.2, r#"{"epoch":2,"val_loss":0.4}"#),
            (20.0, r#"{"run_seconds":19.0}"#),
        ]);
        assert_eq!(progress.recogniser.as_deref(), Some("events"));
        assert_eq!(
            (progress.epochs_announced, progress.steps_per_epoch),
            (Some(2), Some(100))
        );
        assert_eq!(
            (progress.epochs_completed, progress.run_seconds),
            (2, Some(19.0))
        );
        assert_eq!(progress.epoch_numbering, Some(EpochNumbering::OneBased));
        let [first, second] = &progress.epochs[..] else {
            panic!("two epochs")
        };
        assert_eq!(first.time(), Some((9.0, TimeSource::Event)));
        assert_eq!(
            (first.samples, first.ended_at_ms),
            (Some(60_000), Some(10_000))
        );
        assert_eq!(
            (first.warmup, second.warmup, first.event),
            (true, false, true)
        );
        assert_eq!(
            (second.time(), second.clock_seconds),
            (Some((8.5, TimeSource::Event)), Some(9.1))
        );
        assert_eq!(
            (second.evaluation_seconds, second.metrics["val_loss"]),
            (Some(1.5), 0.4)
        );
    }

    #[test]
    fn begin_and_end_are_timed_by_the_clock() {
        let progress = progress_of(&[
            (1.0, r#"{"epoch":0,"begin":true}"#),
            (2.0, r#"{"phase":"evaluation","begin":true}"#),
            (2.5, r#"{"phase":"evaluation","end":true}"#),
            (4.0, r#"{"epoch":0,"end":true}"#),
            (5.0, r#"{"epoch":1,"begin":true}"#),
            (9.0, r#"{"epoch":2,"begin":true}"#),
        ]);
        let times: Vec<_> = progress.epochs.iter().map(Epoch::time).collect();
        assert_eq!(
            times,
            [
                Some((3.0, TimeSource::Clock)),
                Some((4.0, TimeSource::Clock))
            ]
        );
        assert_eq!(progress.epochs[0].evaluation_seconds, Some(0.5));
        assert_eq!(progress.epoch_numbering, Some(EpochNumbering::ZeroBased));
    }

    #[test]
    fn the_line_s_own_time_counts_unless_a_clock_is_wrong() {
        let progress = progress_of(&[
            (1000.0, r#"{"epoch":1,"begin":true,"time":999.5}"#),
            (1002.0, r#"{"epoch":1,"time":1001.25}"#),
            (1004.0, r#"{"epoch":2,"time":5}"#),
        ]);
        assert_eq!(progress.epochs[0].clock_seconds, Some(1.75));
        assert_eq!(progress.epochs[1].ended_at_ms, Some(1_004_000));
    }

    #[test]
    fn phases_count_to_the_epoch_in_which_they_lay() {
        let progress = progress_of(&[
            // Within, reported before the epoch's end.
            (8.0, r#"{"phase":"evaluation","seconds":2.0}"#),
            (10.0, r#"{"epoch":1,"seconds":9.0}"#),
            // Within, reported after it.
            (10.0, r#"{"phase":"checkpoint","seconds":1.0}"#),
            // Between two epochs.
            (12.0, r#"{"phase":"evaluation","seconds":2.0}"#),
            (12.5, r#"{"phase":"checkpoint","seconds":0.5}"#),
            (20.0, r#"{"epoch":2,"seconds":7.0}"#),
        ]);
        let [first, second] = &progress.epochs[..] else {
            panic!("two epochs")
        };
        assert_eq!(
            (first.evaluation_seconds, first.checkpoint_seconds),
            (Some(2.0), Some(1.0))
        );
        assert_eq!(
            (second.evaluation_seconds, second.checkpoint_seconds),
            (None, None)
        );
        assert_eq!(
            (progress.evaluation_seconds, progress.checkpoint_seconds),
            (Some(2.0), Some(0.5))
        );
    }

    #[test]
    fn what_was_taken_for_outside_and_was_not_leaves_nothing() {
        let lines: Vec<_> = [0.1, 0.2, 0.3]
            .map(|seconds| {
                (
                    5.0,
                    format!("{{\"phase\":\"evaluation\",\"seconds\":{seconds}}}"),
                )
            })
            .into_iter()
            .chain([(10.0, r#"{"epoch":1,"seconds":9.0}"#.to_owned())])
            .collect();
        let progress = progress_of(
            &lines
                .iter()
                .map(|(at, line)| (*at, line.as_str()))
                .collect::<Vec<_>>(),
        );
        assert_eq!(progress.evaluation_seconds, None);
        assert!(
            progress.epochs[0]
                .evaluation_seconds
                .is_some_and(|seconds| (seconds - 0.6).abs() < 1e-9)
        );
    }

    #[test]
    fn a_line_about_an_earlier_epoch_counts_to_the_run_now_and_later() {
        let lines = [
            (1000.0, r#"{"epoch":1,"begin":true}"#),
            (1010.0, r#"{"epoch":1,"end":true}"#),
            (1010.0, r#"{"epoch":2,"begin":true}"#),
            (1020.0, r#"{"epoch":2,"end":true}"#),
            (
                1021.0,
                r#"{"phase":"checkpoint","seconds":2.0,"time":1006.0}"#,
            ),
            (1030.0, r#"{"epoch":3,"seconds":9.0}"#),
        ];
        for shown in [5, 6] {
            let progress = progress_of(&lines[..shown]);
            assert_eq!(progress.checkpoint_seconds, Some(2.0), "{shown} lines");
            let mut epochs = progress.epochs.iter();
            assert!(epochs.all(|epoch| epoch.checkpoint_seconds.is_none()));
        }
    }

    #[test]
    fn the_lowest_rank_of_the_node_counts() {
        let progress = progress_of(&[
            (10.0, r#"{"epoch":1,"seconds":9.3,"rank":5}"#),
            (10.1, r#"{"epoch":1,"seconds":9.1,"rank":4,"loss":0.5}"#),
            (10.2, r#"{"epoch":1,"seconds":9.9,"rank":7,"loss":0.7}"#),
            (19.0, r#"{"epoch":2,"seconds":8.0,"rank":5}"#),
            (19.1, r#"{"epoch":2,"seconds":8.1,"rank":4}"#),
            (19.2, r#"{"phase":"evaluation","seconds":1,"rank":6}"#),
        ]);
        assert_eq!(numbers(&progress), [1, 2]);
        let times: Vec<_> = progress.epochs.iter().filter_map(Epoch::seconds).collect();
        assert_eq!((times, progress.restarts), (vec![9.1, 8.1], 0));
        assert_eq!(
            (
                progress.epochs[0].metrics["loss"],
                progress.evaluation_seconds
            ),
            (0.5, None)
        );
    }

    #[test]
    fn ranks_that_do_not_say_who_they_are_count_once() {
        let progress = progress_of(&[
            (10.0, r#"{"epoch":1,"seconds":9.0}"#),
            (10.3, r#"{"epoch":1,"seconds":9.2}"#),
            (19.0, r#"{"epoch":2,"seconds":8.8}"#),
            (19.2, r#"{"epoch":1,"seconds":17.0}"#),
            (19.3, r#"{"epoch":2,"seconds":9.0}"#),
        ]);
        assert_eq!((numbers(&progress), progress.restarts), (vec![1, 2], 0));
        assert_eq!(progress.epochs[1].seconds(), Some(8.8));
    }

    #[test]
    fn a_restarted_training_counts_again() {
        let progress = progress_of(&[
            (10.0, r#"{"epoch":1,"seconds":9.0}"#),
            (19.0, r#"{"epoch":2,"seconds":8.8}"#),
            (40.0, r#"{"epoch":2,"seconds":9.9}"#),
            (49.0, r#"{"epoch":3,"seconds":8.5}"#),
        ]);
        assert_eq!(
            (numbers(&progress), progress.restarts),
            (vec![1, 2, 2, 3], 1)
        );
        let warm: Vec<_> = progress.epochs.iter().map(|epoch| epoch.warmup).collect();
        assert_eq!(warm, [true, false, true, false]);
        let begun = progress_of(&[
            (1.0, r#"{"epoch":1,"begin":true}"#),
            (2.0, r#"{"epoch":1,"end":true}"#),
            (3.0, r#"{"epoch":1,"begin":true}"#),
            (5.0, r#"{"epoch":1,"end":true}"#),
        ]);
        assert_eq!(
            (
                begun.epochs_completed,
                begun.restarts,
                begun.epochs[1].warmup
            ),
            (2, 1, true)
        );
        let untimed = progress_of(&[
            (1.0, r#"{"epoch":5}"#),
            (2.0, r#"{"epoch":1}"#),
            (3.0, r#"{"epoch":1}"#),
        ]);
        assert_eq!((numbers(&untimed), untimed.restarts), (vec![5, 1], 1));
    }

    #[test]
    fn steps_are_marked_and_open_their_epoch() {
        let progress = progress_of(&[
            (
                1.0,
                r#"{"epoch":1,"step":50,"of":100,"step_seconds":0.02,"loss":0.9}"#,
            ),
            (
                2.0,
                r#"{"epoch":1,"step":100,"of":100,"step_seconds":0.03,"loss":0.8}"#,
            ),
            (
                3.0,
                r#"{"epoch":2,"step":50,"of":100,"throughput":500,"step_seconds":0.03,"data_seconds":0.006}"#,
            ),
            (3.5, r#"{"epoch":2,"step":90,"of":100,"step_seconds":0.05}"#),
        ]);
        assert_eq!(numbers(&progress), [1]);
        assert_eq!(
            (
                progress.epochs[0].seconds(),
                progress.epochs[0].metrics["loss"]
            ),
            (None, 0.8)
        );
        assert_eq!(
            progress.last_step,
            Some(StepMark {
                epoch: Some(2),
                step: Some(90),
                of: Some(100)
            })
        );
        assert_eq!(
            (progress.step_seconds, progress.steps_per_epoch),
            (Some(0.05), Some(100))
        );
        let times = progress.step_times.expect("steps of the second epoch");
        assert_eq!((times.source, times.steps), (TimeSource::Event, 90));
        let is_near = |seconds: f64, expected: f64| (seconds / expected - 1.0).abs() < 0.02;
        assert!(
            is_near(times.median_seconds, 0.03) && is_near(times.p95_seconds, 0.05),
            "{times:?}"
        );
        assert!(is_near(times.data_wait_ratio.expect("of 50 steps"), 0.2));
        assert_eq!(
            progress.throughput.map(|rate| (rate.value, rate.unit)),
            Some((500.0, "samples/s".into()))
        );
    }

    #[test]
    fn the_program_wins_over_its_output() {
        let output = Progress {
            recogniser: Some("keras".into()),
            epochs_announced: Some(3),
            epochs_completed: 1,
            epochs: vec![Epoch {
                epoch: 1,
                printed_seconds: Some(9.0),
                ended_at_ms: Some(10_000),
                ..Epoch::default()
            }],
            step_seconds: Some(0.5),
            ..Progress::default()
        };
        let own = account(&[(10.0, r#"{"epoch":1,"seconds":9.2}"#)]).over(output.clone());
        assert_eq!(own.recogniser.as_deref(), Some("events"));
        assert_eq!(
            (
                own.epochs[0].seconds(),
                own.epochs_announced,
                own.step_seconds
            ),
            (Some(9.2), Some(3), Some(0.5))
        );
        // Without epochs of its own the output's stay, with the phases in them.
        let lines = [
            (9.5, r#"{"phase":"evaluation","seconds":1.5}"#),
            (30.0, r#"{"phase":"evaluation","seconds":2}"#),
        ];
        let beside = account(&lines).over(output);
        assert_eq!(beside.recogniser.as_deref(), Some("keras"));
        assert_eq!(
            (
                beside.epochs[0].evaluation_seconds,
                beside.evaluation_seconds
            ),
            (Some(1.5), Some(2.0))
        );
    }
}
