//! Events, one after the other, become the progress of a training.
//!
//! An epoch is over when a line says so, when its last step is done, or when a line of a later epoch or of its
//! validation follows. Several ranks may say the same thing; it counts once.

use std::borrow::Cow;
use std::collections::BTreeMap;

use crate::record::{Epoch, EpochNumbering, Progress, StepMark, Throughput};

use super::curve::{Curves, Moment};
use super::event::{Event, Facts, Metric, Says, is_time};
use super::names::{self, Trained};
use super::open_epoch::{Ended, Open, clock_seconds};
use super::pace::Pace;
use super::printed_times;

/// Metrics kept at most, by name. Ours: a training prints a few, and a record must stay small.
const MAX_METRICS: usize = 64;

/// Where a line's epoch stands when the line comes.
#[derive(Debug, PartialEq, Eq)]
enum Standing {
    Open,
    Ended,
    /// Of an epoch long over: a rank that lags behind.
    Stale,
}

/// Makes a [`Progress`] of events.
#[derive(Debug, Default)]
pub(super) struct Fold {
    progress: Progress,
    open: Option<Open>,
    ended: Option<Ended>,
    /// True once epochs were seen to have one line each, their summary.
    summaries: bool,
    /// True once an epoch's number, or 0 as one, was seen.
    numbered: bool,
    zero: bool,
    pace: Pace,
    curves: Curves,
    trained: Trained,
    /// True once an epoch went on behind an evaluation or had none: then an evaluation is no end of an epoch.
    midway: bool,
    /// Whether an evaluation came since the last epoch ended.
    evaluated: bool,
    /// Whether only an evaluation said that the last epoch is over.
    unsure: bool,
    /// Whether epochs' times are printed with digits behind a point.
    has_decimals: bool,
    /// Steps from one line to the next.
    steps_apart: Option<u64>,
    /// Lines of the epoch that ended last, if it had no steps.
    last_lines: u64,
    /// Times that were said to be of the whole training, the epochs at the last of them, and the first.
    run_ends: (u32, u64, Option<f64>),
    /// Whether the figures of the line at hand count.
    counts: bool,
    /// When the training began, while it has no epoch yet.
    run_began_ms: Option<u64>,
    /// When an epoch ended last. Lines that were read at one go have one time.
    ended_ms: Option<u64>,
    /// When the last line that said something was seen.
    seen_ms: Option<u64>,
}

impl Fold {
    /// What was said so far, but for who said it.
    pub(super) fn progress(&self, counts_from_zero: Option<bool>) -> Progress {
        let mut progress = self.progress.clone();
        let announced_last = progress
            .epochs_announced
            .is_some_and(|announced| progress.epochs.iter().any(|epoch| epoch.epoch == announced));
        progress.epoch_numbering = match (self.numbered, counts_from_zero) {
            (false, _) => Some(EpochNumbering::Unnumbered),
            (true, _) if self.zero => Some(EpochNumbering::ZeroBased),
            (true, Some(true)) if !announced_last => Some(EpochNumbering::ZeroBased),
            (true, _) => Some(EpochNumbering::OneBased),
        };
        printed_times::judge(&mut progress.epochs, self.has_decimals);
        progress.step_times = self.pace.times();
        progress.points = self.curves.points();
        progress
    }

    /// Epochs that are over.
    pub(super) fn epochs_completed(&self) -> u64 {
        self.progress.epochs_completed
    }

    /// Takes what a line says; `at_ms` is when the line was seen.
    pub(super) fn apply(&mut self, event: Event<'_>, at_ms: Option<u64>) {
        self.counts = false;
        self.seen_ms = at_ms.or(self.seen_ms);
        self.has_decimals |= event.has_decimals;
        if event.says != Says::Validation {
            self.trained.note(&event.facts.metrics);
        }
        self.take(&event, at_ms);
        // What is said of an epoch is the epoch's.
        if !matches!(event.says, Says::EpochEnd | Says::EpochOver | Says::Mention) {
            self.add_to_curves(&event, at_ms);
        }
    }

    /// Losses and metrics of a step or an evaluation; those of an epoch are the epoch's.
    fn add_to_curves(&mut self, event: &Event<'_>, at_ms: Option<u64>) {
        let facts = &event.facts;
        if !self.counts || facts.metrics.is_empty() {
            return;
        }
        let last = self.progress.last_step;
        let open = self.open.as_ref().map(|open| open.epoch);
        let running = open.or(self.ended.map(|ended| ended.epoch));
        let moment = Moment {
            epoch: running.filter(|_| self.numbered),
            step: last.and_then(|last| last.step),
            at_ms,
        };
        let is_evaluation = event.says == Says::Validation;
        let named = |(name, value): &Metric<'_>| (names::canonical(name).into_owned(), *value);
        let names: Vec<_> = facts.metrics.iter().map(named).collect();
        self.curves.add(
            moment,
            is_evaluation,
            names.iter().map(|(name, value)| (name.as_str(), *value)),
        );
    }

    fn take(&mut self, event: &Event<'_>, at_ms: Option<u64>) {
        self.progress.epochs_announced = event.epochs.or(self.progress.epochs_announced);
        let facts = &event.facts;
        match (event.says, event.epoch) {
            (Says::Announce, _) => {
                self.progress.steps_per_epoch = event.of.or(self.progress.steps_per_epoch);
            }
            (Says::RunBegin, _) => {
                self.run_began_ms = at_ms.filter(|_| event.step.is_some());
                // What ends next may have the number of the last that ended, and is another.
                self.ended = None;
            }
            (Says::EpochStart, Some(epoch)) => self.start(epoch, at_ms),
            (Says::Step, Some(epoch)) => self.step(epoch, event, at_ms),
            (Says::Iteration, _) => self.iteration(event, at_ms),
            (Says::RunStep, _) => self.run_step(event, at_ms),
            (Says::Within, Some(epoch)) => {
                self.reach_and_note(epoch, true, facts, at_ms);
                if let Some(open) = self.open.as_mut().filter(|open| open.lines == 1) {
                    open.began_late = true;
                }
            }
            (Says::Mention, Some(epoch)) => self.mention(epoch, facts, at_ms),
            (Says::EpochEnd, Some(epoch)) => {
                if event.step.is_some() {
                    self.mark_step(Some(epoch), event.step, event.of);
                }
                let seconds = event
                    .seconds
                    .filter(|_| !(event.evaluates && self.has_line(epoch)));
                self.end(epoch, seconds, facts, at_ms);
            }
            (Says::EpochOver, _) => self.over(event, at_ms),
            (Says::Validation, _) => {
                // The line that ends an epoch may be all of the evaluation, or come behind it.
                self.evaluated |= self.open.is_none();
                if !self.midway && self.open.is_some() {
                    self.close(None, at_ms);
                    self.unsure = true;
                }
                self.pace.evaluated();
                self.figures(&self.evaluated(facts));
            }
            (Says::RunEnd, _) => {
                let seconds = event.seconds.filter(|seconds| is_time(*seconds));
                // Several ranks may say the same.
                let (ends, at, first) = self.run_ends;
                let epochs = self.progress.epochs_completed;
                let is_next = seconds.is_some() && (ends == 0 || at < epochs);
                let ends = ends + u32::from(is_next);
                self.run_ends = (ends, epochs, first.or(seconds));
                // A third one of the same training that is no longer than the first: each is of a part, as of an epoch.
                let has_grown = seconds > first.map(|first| 1.2 * first);
                let is_of_part = ends > 2 && self.progress.restarts == 0 && !has_grown;
                let last = seconds.or(self.progress.run_seconds);
                self.progress.run_seconds = last.filter(|_| !is_of_part);
                self.figures(facts);
            }
            (Says::Figures, _) | (_, None) => self.figures(facts),
        }
    }

    /// Takes a line that names an epoch: its figures become those of the open one, or of the one that ended last. False
    /// where it is of an epoch long over.
    fn reach_and_note(
        &mut self,
        epoch: u64,
        may_restart: bool,
        facts: &Facts<'_>,
        at_ms: Option<u64>,
    ) -> bool {
        match self.reach(epoch, may_restart, at_ms) {
            Standing::Stale => return false,
            Standing::Ended => self.amend(facts),
            Standing::Open => self.note(facts, true, at_ms),
        }
        true
    }

    /// The figures of an evaluation, but for those whose names are those of the training.
    fn evaluated<'a>(&self, facts: &Facts<'a>) -> Facts<'a> {
        let mut facts = facts.clone();
        facts
            .metrics
            .retain(|(name, _)| names::subject(name).is_some() || !self.trained.has(name));
        facts
    }

    fn start(&mut self, epoch: u64, at_ms: Option<u64>) {
        self.number(epoch);
        match &self.open {
            Some(open) if open.epoch < epoch => {
                self.midway = true;
                self.close(None, at_ms);
            }
            // Every rank says that it begins.
            Some(open) if open.epoch == epoch => return,
            _ => {}
        }
        let began_ms = self.run_began_ms.take().or(at_ms);
        self.open_epoch(epoch, began_ms, false);
    }

    fn step(&mut self, epoch: u64, event: &Event<'_>, at_ms: Option<u64>) {
        let Some(step) = event.step else { return };
        // A training that was started again is at the beginning of an epoch, a rank that lags behind at the end.
        let last = self.last_step();
        let may_restart = match event.of {
            Some(of) => step <= of / 2,
            None => last.is_none_or(|last| step <= last),
        };
        let further = last.is_some_and(|last| step > last);
        if self.unsure && further && self.ended.is_some_and(|ended| ended.epoch == epoch) {
            self.reopen();
        }
        if self.reach_and_note(epoch, may_restart, &event.facts, at_ms) {
            if let Some(open) = self.open.as_mut().filter(|open| open.lines == 1) {
                open.first_line_is_step(step, event.facts.step_seconds, at_ms);
            }
            self.add_pace(Some(epoch), step, &event.facts, at_ms);
            self.mark_step(Some(epoch), Some(step), event.of);
        }
    }

    fn iteration(&mut self, event: &Event<'_>, at_ms: Option<u64>) {
        let epoch = self.numbered_open();
        self.note(&event.facts, true, at_ms);
        if let Some(step) = event.step {
            self.add_pace(epoch, step, &event.facts, at_ms);
        }
        let (step, of) = (event.step, event.of);
        self.progress.last_step = Some(StepMark { epoch, step, of });
        if epoch.is_some() {
            self.progress.steps_per_epoch = of.or(self.progress.steps_per_epoch);
        }
    }

    fn run_step(&mut self, event: &Event<'_>, at_ms: Option<u64>) {
        let Some(step) = event.step else { return };
        let may_restart = self.last_step().is_none_or(|last| step <= last);
        let epoch = event.epoch;
        let counts = match epoch {
            Some(epoch) => self.reach_and_note(epoch, may_restart, &event.facts, at_ms),
            None => {
                self.note(&event.facts, true, at_ms);
                true
            }
        };
        if counts {
            self.add_pace(None, step, &event.facts, at_ms);
            let (step, of) = (event.step, event.of);
            self.progress.last_step = Some(StepMark { epoch, step, of });
        }
    }

    fn add_pace(&mut self, epoch: Option<u64>, step: u64, facts: &Facts<'_>, at_ms: Option<u64>) {
        let after_first = self.progress.epochs_completed > 0;
        self.pace.add((epoch, step), after_first, facts, at_ms);
    }

    /// The number of the last step.
    fn last_step(&self) -> Option<u64> {
        self.progress.last_step.and_then(|last| last.step)
    }

    /// The open epoch, where epochs have numbers.
    fn numbered_open(&self) -> Option<u64> {
        let open = self.open.as_ref().map(|open| open.epoch);
        open.filter(|_| self.numbered)
    }

    fn mention(&mut self, epoch: u64, facts: &Facts<'_>, at_ms: Option<u64>) {
        // One line of an epoch, then one of a later: such lines are summaries, written when an epoch is over.
        let alone = |open: &Open| open.lines == 1 && !open.stepped && open.epoch < epoch;
        if self.open.as_ref().is_some_and(alone) {
            self.summaries = true;
            let line_ms = self.open.as_ref().and_then(|open| open.last_line_ms);
            self.close(None, line_ms);
        }
        match self.reach(epoch, true, at_ms) {
            Standing::Stale => {}
            Standing::Ended => self.amend(facts),
            Standing::Open => {
                self.note(facts, false, at_ms);
                if self.summaries && self.open.as_ref().is_some_and(|open| !open.stepped) {
                    self.close(None, at_ms);
                }
            }
        }
    }

    fn has_line(&self, epoch: u64) -> bool {
        match &self.open {
            Some(open) => open.epoch == epoch && open.lines > 0 && !open.stepped,
            None => self.ended.is_some_and(|ended| ended.epoch == epoch),
        }
    }

    fn end(&mut self, epoch: u64, seconds: Option<f64>, facts: &Facts<'_>, at_ms: Option<u64>) {
        if self.reach(epoch, true, at_ms) == Standing::Open {
            self.note(facts, false, at_ms);
            self.close(seconds, at_ms);
            return;
        }
        self.amend(facts);
        if let Some(ended) = &mut self.ended
            && let Some(last) = self.progress.epochs.last_mut()
        {
            last.ended_at_ms = at_ms;
            last.printed_seconds = seconds
                .filter(|seconds| is_time(*seconds))
                .or(last.printed_seconds);
            // Of an epoch that ended in the same reading as others no more is known now.
            if ended.at_ms.is_some() {
                (ended.at_ms, self.ended_ms) = (at_ms, at_ms);
                last.clock_seconds = clock_seconds(ended.began_ms, at_ms, last.printed_seconds);
            }
        }
    }

    /// The end of an epoch without number.
    fn over(&mut self, event: &Event<'_>, at_ms: Option<u64>) {
        if self.open.is_none() {
            let epoch = self.ended.map_or(1, |ended| ended.epoch.saturating_add(1));
            let began_ms = self.ended.and_then(|ended| ended.at_ms);
            self.open_epoch(epoch, began_ms, began_ms.is_none());
        }
        if event.step.is_some() {
            self.mark_step(self.numbered_open(), event.step, event.of);
        }
        self.note(&event.facts, false, at_ms);
        self.close(event.seconds, at_ms);
    }

    /// Makes the epoch of a line the open one, unless it is over. `may_restart`: whether a smaller number than before can be
    /// another training in the same output, rather than a rank that lags behind.
    fn reach(&mut self, epoch: u64, may_restart: bool, at_ms: Option<u64>) -> Standing {
        self.number(epoch);
        match &self.open {
            Some(open) if open.epoch == epoch => return Standing::Open,
            Some(open) if open.epoch > epoch && (!may_restart || self.just_ended(epoch)) => {
                return Standing::Stale;
            }
            Some(open) if open.epoch < epoch => self.close(None, at_ms),
            // Another training begins: how far this one came nobody knows.
            Some(_) => self.open = None,
            None => {}
        }
        match self.ended {
            Some(ended) if ended.epoch == epoch => Standing::Ended,
            Some(ended) if ended.epoch > epoch && !may_restart => Standing::Stale,
            Some(ended) if ended.epoch.checked_add(1) == Some(epoch) => {
                self.open_epoch(epoch, ended.at_ms, false);
                Standing::Open
            }
            _ => {
                self.open_epoch(epoch, at_ms, true);
                Standing::Open
            }
        }
    }

    /// True of the epoch before the open one while that has hardly begun: a rank that is a little behind speaks.
    fn just_ended(&self, epoch: u64) -> bool {
        let last = self.progress.epochs.last();
        let is_next = |open: &Open| open.epoch.checked_sub(1) == Some(epoch);
        let has_begun = |open: &Open| open.stepped || open.lines > 0;
        let open = self.open.as_ref().filter(|open| !has_begun(open));
        open.is_some_and(is_next) && last.is_some_and(|last| last.epoch == epoch)
    }

    /// Notes that epochs have numbers.
    fn number(&mut self, epoch: u64) {
        self.numbered = true;
        self.zero |= epoch == 0;
    }

    fn open_epoch(&mut self, epoch: u64, began_ms: Option<u64>, began_with_line: bool) {
        let run_began_ms = self.run_began_ms.take();
        let (began_ms, began_with_line) = match run_began_ms.filter(|_| began_with_line) {
            Some(ms) => (Some(ms), false),
            None => (began_ms, began_with_line),
        };
        let before = self
            .ended
            .take()
            .filter(|ended| ended.epoch.checked_add(1) == Some(epoch));
        self.open = Some(Open {
            epoch,
            began_ms,
            began_with_line,
            after_evaluation: std::mem::take(&mut self.evaluated),
            after_ms: before.and_then(|ended| ended.at_ms),
            ..Open::default()
        });
    }

    /// Takes the figures of a line of the open epoch.
    fn note(&mut self, facts: &Facts<'_>, stepped: bool, at_ms: Option<u64>) {
        self.note_rates(facts);
        if let Some(open) = &mut self.open {
            open.count_line(stepped, at_ms);
            merge(&mut open.metrics, &facts.metrics);
            merge(&mut open.metrics, &facts.means);
        }
    }

    /// Adds figures to the epoch that ended last.
    fn amend(&mut self, facts: &Facts<'_>) {
        self.note_rates(facts);
        if self.ended.is_some()
            && let Some(last) = self.progress.epochs.last_mut()
        {
            merge(&mut last.metrics, &facts.metrics);
            merge(&mut last.metrics, &facts.means);
        }
    }

    /// Adds figures to the open epoch, else to the one that ended last.
    fn figures(&mut self, facts: &Facts<'_>) {
        match &mut self.open {
            Some(open) => {
                merge(&mut open.metrics, &facts.metrics);
                self.note_rates(facts);
            }
            None => self.amend(facts),
        }
    }

    fn note_rates(&mut self, facts: &Facts<'_>) {
        if facts.one_pace && (facts.step_seconds.is_some() || facts.throughput.is_some()) {
            self.progress.step_seconds = None;
            self.progress.throughput = None;
        }
        let step_seconds = facts.step_seconds.filter(|seconds| is_time(*seconds));
        self.progress.step_seconds = step_seconds.or(self.progress.step_seconds);
        if let Some(rate) = facts.throughput {
            self.progress.throughput = Some(Throughput {
                value: rate.value,
                unit: rate.unit.to_owned(),
                scope: rate.scope,
            });
        }
        self.progress.counts_samples |= facts.counts_samples;
        merge(&mut self.progress.last_metrics, &facts.metrics);
        self.counts = true;
    }

    fn mark_step(&mut self, epoch: Option<u64>, step: Option<u64>, of: Option<u64>) {
        let last = self.progress.last_step.filter(|last| last.epoch == epoch);
        let apart = last.and_then(|last| step?.checked_sub(last.step?));
        self.steps_apart = apart.filter(|apart| *apart > 0).or(self.steps_apart);
        self.progress.last_step = Some(StepMark { epoch, step, of });
        self.progress.steps_per_epoch = of.or(self.progress.steps_per_epoch);
    }

    /// Takes back that an epoch is over: it continues behind an evaluation.
    fn reopen(&mut self) {
        let Some((ended, last)) = self.ended.zip(self.progress.epochs.pop()) else {
            return;
        };
        self.midway = true;
        self.progress.epochs_completed -= 1;
        self.progress.restarts -= u32::from(last.warmup && self.progress.epochs_completed > 0);
        self.open_epoch(ended.epoch, ended.began_ms, false);
        if let Some(open) = &mut self.open {
            (open.stepped, open.metrics) = (true, last.metrics);
        }
    }

    /// The last epoch that was announced, if its figures or all lines of its steps came and nothing says that it is over.
    fn open_last(&self) -> Option<&Open> {
        self.open.as_ref().filter(|open| {
            let number = open.epoch + u64::from(self.zero);
            let has_figures = !open.stepped && !open.metrics.is_empty();
            let is_over = has_figures || open.stepped && self.is_at_last_line();
            is_over && self.progress.epochs_announced == Some(number)
        })
    }

    /// Its number, and the seconds from its beginning to the last line that said something.
    pub(super) fn unfinished(&self) -> Option<(u64, Option<f64>)> {
        let open = self.open_last()?;
        Some((open.epoch, clock_seconds(open.began_ms, self.seen_ms, None)))
    }

    /// The program ended well: the last epoch is over if it was announced and its figures came, or the last line that it has of its steps; or
    /// if as many lines as of the one before. Nobody knows when it ended.
    pub(super) fn ended_well(&mut self) {
        let is_like_last = |open: &Open| {
            let is_next = self
                .progress
                .epochs
                .last()
                .is_some_and(|last| last.epoch < open.epoch);
            is_next && !open.stepped && self.last_lines > 0 && open.lines == self.last_lines
        };
        if self.open_last().is_some() || self.open.as_ref().is_some_and(is_like_last) {
            self.close(None, None);
        }
    }

    /// Whether no other line of the epoch's steps is due: `[3/4][40/60]` behind `[3/4][20/60]`.
    fn is_at_last_line(&self) -> bool {
        let last = self.progress.last_step;
        let place = last.and_then(|last| last.step?.checked_add(self.steps_apart?).zip(last.of));
        place.is_some_and(|(next, of)| next >= of)
    }

    /// Ends the open epoch.
    fn close(&mut self, seconds: Option<f64>, at_ms: Option<u64>) {
        let Some(open) = self.open.take() else { return };
        self.unsure = false;
        self.last_lines = if open.stepped { 0 } else { open.lines };
        let seconds = seconds.filter(|seconds| is_time(*seconds));
        let began_ms = open.began_before(at_ms);
        // Of epochs that ended in one reading, nobody knows when each did, nor when the next began.
        let at_once = at_ms.is_some() && self.ended_ms == at_ms;
        if at_once && let Some(last) = self.progress.epochs.last_mut() {
            last.clock_seconds = None;
        }
        self.ended_ms = at_ms;
        self.ended = Some(Ended {
            epoch: open.epoch,
            began_ms,
            at_ms: at_ms.filter(|_| !at_once),
        });
        let before = self.progress.epochs.last();
        let restarted = before.is_some_and(|last| last.epoch >= open.epoch);
        self.progress.restarts += u32::from(restarted);
        self.progress.push_epoch(Epoch {
            epoch: open.epoch,
            printed_seconds: seconds,
            clock_seconds: clock_seconds(began_ms, at_ms, seconds).filter(|_| !at_once),
            ended_at_ms: at_ms,
            metrics: open.metrics,
            warmup: restarted || self.progress.epochs_completed == 0,
            ..Epoch::default()
        });
    }
}

fn merge(into: &mut BTreeMap<String, f64>, metrics: &[(Cow<'_, str>, f64)]) {
    for (name, value) in metrics {
        let name = names::canonical(name);
        if let Some(known) = into.get_mut(name.as_ref()) {
            *known = *value;
        } else if into.len() < MAX_METRICS {
            into.insert(name.into_owned(), *value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::TimeSource;

    fn step(epoch: u64, step: u64) -> Event<'static> {
        Event::step((epoch, None), (step, Some(100)), Facts::default())
    }

    fn end(epoch: u64, seconds: Option<f64>) -> Event<'static> {
        Event::epoch_end((epoch, None), Facts::default()).took(seconds)
    }

    fn mention(epoch: u64) -> Event<'static> {
        Event::mention((epoch, None), Facts::default())
    }

    #[test]
    fn clock_set_back_gives_no_time_and_later_epochs_count_again() {
        let mut fold = Fold::default();
        let day = 86_400_000;
        for (event, at_ms) in [
            (end(1, None), day),
            (step(2, 1), day + 1000),
            (step(2, 2), day + 2000),
            // An hour back.
            (step(2, 3), day - 3_600_000),
            (step(2, 4), day - 3_599_000),
            (step(2, 5), day - 3_598_000),
            (end(2, None), day - 3_597_000),
            (end(3, None), day - 3_590_000),
        ] {
            fold.apply(event, Some(at_ms));
        }
        let progress = fold.progress(None);
        let clocked: Vec<_> = progress
            .epochs
            .iter()
            .map(|epoch| epoch.clock_seconds)
            .collect();
        assert_eq!(clocked, [None, None, Some(7.0)]);
        let times = progress.step_times.expect("steps");
        assert_eq!(times.steps, 3);
        assert!((times.p95_seconds - 1.0).abs() < 0.03, "{times:?}");
    }

    #[test]
    fn the_first_line_of_an_epoch_tells_its_beginning_only_if_it_is_of_the_first_step() {
        let clock = |events: &[(Event<'static>, u64)]| {
            let mut fold = Fold::default();
            for (event, at_ms) in events {
                fold.apply(event.clone(), Some(*at_ms));
            }
            let epochs = fold.progress(None).epochs;
            epochs.first().and_then(|epoch| epoch.clock_seconds)
        };
        let ends = |first: Event<'static>| clock(&[(first, 3000), (end(1, None), 4200)]);
        assert_eq!(ends(mention(1)), None);
        assert_eq!(ends(step(1, 10)), None);
        assert_eq!(ends(step(1, 0)), Some(1.2));
        assert_eq!(ends(Event::epoch_start(1, None)), Some(1.2));
    }

    #[test]
    fn an_evaluation_of_an_epoch_that_has_a_line_gives_it_no_time() {
        let read = |lines: &[(&'static str, u64)]| {
            let mut fold = Fold::default();
            for (line, at_ms) in lines {
                let event =
                    crate::observe::timing::epoch_line::read(line).expect("a line of an epoch");
                fold.apply(event, Some(*at_ms));
            }
            let epochs = fold.progress(None).epochs;
            epochs
                .iter()
                .map(|epoch| epoch.printed_seconds)
                .collect::<Vec<_>>()
        };
        let both = [
            ("Epoch 1 train: loss 1.000 time 3.01s", 3000),
            ("Epoch 1 val: loss 1.000 time 0.70s", 3700),
            ("Epoch 2: train loss 0.5", 6700),
            ("Epoch 2: test loss 0.500 (1.20s)", 7900),
            (
                "Epoch 3 | train loss 0.333 | val loss 0.333 | 1.00s val",
                11_000,
            ),
        ];
        assert_eq!(read(&both), [Some(3.01), None, None]);
        let only = [("Epoch 1 | val_loss 0.3 | 12.5s", 12_500)];
        assert_eq!(read(&only), [Some(12.5)]);
        let last = [
            ("| epoch  73 |  200/ 663 batches | loss 4.1", 3000),
            (
                "| end of epoch  73 | time: 131.34s | valid loss  4.87",
                131_000,
            ),
        ];
        assert_eq!(read(&last), [Some(131.34)]);
    }

    #[test]
    fn the_last_epoch_of_a_program_that_ended_well_is_over_if_it_has_as_many_lines_as_the_others() {
        let over = |last: usize| {
            let mut fold = Fold::default();
            let lines = [(1, 2), (2, 2), (3, last)];
            let lines = lines
                .into_iter()
                .flat_map(|(epoch, count)| vec![epoch; count]);
            lines.for_each(|epoch| fold.apply(mention(epoch), None));
            fold.ended_well();
            fold.progress(None).epochs_completed
        };
        assert_eq!([over(1), over(2)], [2, 3]);
    }

    #[test]
    fn epochs_that_are_read_at_one_go_have_no_time_by_the_clock() {
        let clocked = |events: &[(Event<'static>, u64)]| {
            let mut fold = Fold::default();
            events
                .iter()
                .for_each(|(event, at_ms)| fold.apply(event.clone(), Some(*at_ms)));
            fold.progress(None)
                .epochs
                .iter()
                .map(|epoch| epoch.clock_seconds)
                .collect::<Vec<_>>()
        };
        let start = |epoch| Event::epoch_start(epoch, None);
        // Head and end of an epoch in one `write`: the time since the end of the one before.
        let kept = [
            (start(1), 9),
            (end(1, Some(0.0)), 9),
            (start(2), 2009),
            (end(2, Some(2.0)), 2009),
        ];
        assert_eq!(clocked(&kept), [None, Some(2.0)]);
        // Three epochs in one portion of a buffer, then another portion.
        let portions = [1, 2, 3].map(|epoch| (end(epoch, None), 1000)).into_iter();
        let portions: Vec<_> = portions
            .chain([4, 5].map(|epoch| (end(epoch, None), 4000)))
            .collect();
        assert_eq!(clocked(&portions), [None; 5]);
        // A beginning that was held back.
        assert_eq!(
            clocked(&[(start(1), 1000), (end(1, Some(5.0)), 1300)]),
            [None]
        );
    }

    #[test]
    fn times_that_grow_like_a_sum_are_none_of_single_epochs() {
        let printed = |times: [f64; 3]| {
            let mut fold = Fold::default();
            for (epoch, seconds) in (1..).zip(times) {
                fold.apply(end(epoch, Some(seconds)), None);
            }
            fold.progress(None)
                .epochs
                .iter()
                .filter_map(|epoch| epoch.printed_seconds)
                .count()
        };
        assert_eq!(
            (printed([60.0, 121.0, 179.0]), printed([60.0, 65.0, 58.0])),
            (0, 3)
        );
    }

    #[test]
    fn whole_seconds_beside_decimals_are_as_exact_as_those() {
        use crate::record::TimeSource::{Clock, Stated};
        let sources = |times: [f64; 3]| {
            let mut fold = Fold::default();
            for (epoch, seconds) in (1..).zip(times) {
                fold.apply(step(epoch, 1), Some(epoch * 2000));
                fold.apply(end(epoch, Some(seconds)), Some(epoch * 2000 + 1020));
            }
            let progress = fold.progress(None);
            let times = progress.epochs.iter().map(Epoch::time);
            times.map(|time| time.expect("known").1).collect::<Vec<_>>()
        };
        assert_eq!(sources([1.0, 1.01, 1.0]), [Stated; 3]);
        assert_eq!(sources([1.0, 1.0, 2.0]), [Clock; 3]);
        // `812 ms` and `1 s`
        assert_eq!(sources([1.0, 0.812, 1.0]), [Clock, Stated, Clock]);
        // Decimals of another size.
        assert_eq!(sources([1.0, 12.5, 1.0]), [Clock, Stated, Clock]);
    }

    #[test]
    fn last_total_is_that_of_the_run() {
        let run = |times: &[f64]| {
            let mut fold = Fold::default();
            for (epoch, seconds) in (1..).zip(times) {
                fold.apply(Event::epoch_end((epoch, None), Facts::default()), None);
                for _ in 0..4 {
                    fold.apply(Event::run_end(Some(*seconds), Facts::default()), None);
                }
            }
            fold.progress(None).run_seconds
        };
        assert_eq!(run(&[1.0, 2.0, 3.0]), Some(3.0));
        assert_eq!(run(&[9.0, 4.0]), Some(4.0));
        assert_eq!(run(&[3.0, 6.0, 9.0, 12.0, 15.0, 18.0]), Some(18.0));
        assert_eq!(run(&[3.0, 3.1, 3.0, 100.0]), Some(100.0));
        assert_eq!(run(&[3.0, 3.1, 3.0, 3.2]), None, "of an epoch each");
    }

    #[test]
    fn no_epoch_takes_years() {
        let facts = Facts::with_step_time(Some(1e12));
        let mut fold = Fold::default();
        fold.apply(Event::epoch_end((1, None), facts).took(Some(1.8e16)), None);
        fold.apply(end(2, Some(1e7)), None);
        fold.apply(Event::run_end(Some(1e300), Facts::default()), None);
        let progress = fold.progress(None);
        let stated: Vec<_> = progress
            .epochs
            .iter()
            .map(|epoch| epoch.printed_seconds)
            .collect();
        assert_eq!(stated, [None, Some(1e7)]);
        assert_eq!((progress.step_seconds, progress.run_seconds), (None, None));
    }

    fn folded(events: impl IntoIterator<Item = (Event<'static>, u64)>) -> Vec<(u64, Option<f64>)> {
        let mut fold = Fold::default();
        for (event, second) in events {
            fold.apply(event, Some(second * 1000));
        }
        let progress = fold.progress(None);
        assert_eq!(progress.epochs_completed, progress.epochs.len() as u64);
        progress
            .epochs
            .iter()
            .map(|epoch| (epoch.epoch, epoch.clock_seconds))
            .collect()
    }

    #[test]
    fn an_epoch_ends_where_a_later_one_begins() {
        let seen = folded([
            (step(0, 0), 10),
            (step(0, 90), 18),
            (step(1, 0), 20),
            (step(2, 0), 29),
        ]);
        assert_eq!(seen, [(0, Some(10.0)), (1, Some(9.0))]);
    }

    #[test]
    fn a_start_line_sets_the_clock() {
        let start = |epoch| Event::epoch_start(epoch, Some(2));
        let seen = folded([
            (start(1), 5),
            (end(1, None), 9),
            (start(2), 12),
            (end(2, None), 15),
        ]);
        assert_eq!(seen, [(1, Some(4.0)), (2, Some(3.0))]);
    }

    #[test]
    fn the_same_end_from_several_ranks_counts_once() {
        let seen = folded([
            (end(1, None), 10),
            (end(1, None), 11),
            (end(2, None), 20),
            (end(2, None), 20),
        ]);
        assert_eq!(seen, [(1, None), (2, Some(9.0))]);
    }

    #[test]
    fn a_lagging_rank_does_not_reopen_an_epoch_but_a_new_training_does() {
        let skewed = [
            (step(0, 99), 1),
            (step(1, 0), 2),
            (step(0, 99), 3),
            (step(1, 5), 4),
            (step(2, 0), 5),
        ];
        assert_eq!(
            folded(skewed)
                .iter()
                .map(|(epoch, _)| *epoch)
                .collect::<Vec<_>>(),
            [0, 1]
        );
        let uncounted = |epoch, step| Event::step((epoch, None), (step, None), Facts::default());
        let skewed = [
            (uncounted(1, 90), 1),
            (uncounted(2, 0), 2),
            (uncounted(1, 90), 3),
            (uncounted(2, 5), 4),
        ];
        assert_eq!(folded(skewed), [(1, None)]);
        let again = [
            (end(1, None), 10),
            (end(2, None), 20),
            (end(1, None), 40),
            (end(2, None), 50),
        ];
        assert_eq!(
            folded(again),
            [(1, None), (2, Some(10.0)), (1, None), (2, Some(10.0))]
        );
    }

    #[test]
    fn an_end_that_a_rank_says_after_another_has_begun_the_next_counts_once() {
        let start = |epoch| Event::epoch_start(epoch, None);
        let seen = [
            start(1),
            start(1),
            end(1, None),
            start(2),
            end(1, None),
            start(2),
            end(2, None),
            end(2, None),
        ];
        assert_eq!(
            folded(seen.into_iter().zip(1..))
                .iter()
                .map(|(epoch, _)| *epoch)
                .collect::<Vec<_>>(),
            [1, 2]
        );
    }

    #[test]
    fn single_lines_of_consecutive_epochs_are_summaries() {
        let seen = folded([(mention(1), 10), (mention(2), 20), (mention(3), 31)]);
        assert_eq!(seen, [(1, None), (2, Some(10.0)), (3, Some(11.0))]);
        let inside = [
            (mention(1), 1),
            (mention(1), 2),
            (mention(2), 3),
            (mention(2), 4),
        ];
        assert_eq!(folded(inside), [(1, None)], "when it began nobody saw");
    }

    #[test]
    fn validation_ends_the_open_epoch_once_and_adds_to_it() {
        let mut fold = Fold::default();
        let validation = || Event::validation(Facts::with_metrics(vec![("test_loss".into(), 0.5)]));
        fold.apply(validation(), None);
        assert_eq!(fold.progress(None).epochs_completed, 0);
        fold.apply(step(1, 50), None);
        fold.apply(validation(), None);
        fold.apply(validation(), None);
        assert_eq!(fold.progress(None).epochs_completed, 1);
        assert_eq!(fold.progress(None).epochs[0].metrics["test_loss"], 0.5);
    }

    #[test]
    fn metrics_without_number_stay_few() {
        let mut fold = Fold::default();
        for name in 0..1000 {
            let metrics = vec![(format!("m{name}").into(), 1.0)];
            fold.apply(
                Event::mention((1, None), Facts::with_metrics(metrics)),
                None,
            );
        }
        assert_eq!(fold.progress(None).last_metrics.len(), MAX_METRICS);
    }

    #[test]
    fn first_epoch_begins_before_its_first_step() {
        let timed = |number, seconds| {
            let facts = Facts::with_step_time(Some(seconds));
            Event::step((0, None), (number, Some(10)), facts)
        };
        let over = || end(0, None);
        let steps = [(timed(1, 3.0), 4), (timed(5, 1.0), 8), (over(), 13)];
        assert_eq!(folded(steps), [(0, Some(12.0))]);
        let at_one_go = [(timed(1, 3.0), 4), (timed(5, 1.0), 4), (over(), 4)];
        assert_eq!(folded(at_one_go), [(0, None)], "a buffer held it back");
    }

    #[test]
    fn evaluation_is_no_part_of_the_epoch_after_it() {
        let timed = |epoch, number, at| {
            let facts = Facts::with_step_time(Some(1.0));
            (Event::step((epoch, None), (number, Some(10)), facts), at)
        };
        let evaluation = |at| (Event::validation(Facts::default()), at);
        let epoch = |epoch, from: u64| {
            let steps = [1, 5, 9].map(|number| timed(epoch, number, from + number));
            steps
                .into_iter()
                .chain([evaluation(from + 10), evaluation(from + 14)])
        };
        assert_eq!(
            folded(epoch(0, 0).chain(epoch(1, 15)).chain(epoch(2, 30))),
            [(0, Some(10.0)), (1, Some(10.0)), (2, Some(10.0))]
        );
    }

    #[test]
    fn header_is_the_beginning_though_an_evaluation_came() {
        let step = |epoch, number, at| {
            let event = Event::step((epoch, None), (number, Some(10)), Facts::default());
            (event, at)
        };
        let evaluation = |at| (Event::validation(Facts::default()), at);
        let headed = |epoch, from: u64| {
            let begin = (Event::epoch_start(epoch, None), from);
            let steps =
                [(0, 8), (5, 10), (9, 12)].map(|(number, at)| step(epoch, number, from + at));
            let evaluated = [evaluation(from + 13), evaluation(from + 14)];
            std::iter::once(begin).chain(steps).chain(evaluated)
        };
        assert_eq!(
            folded(headed(0, 1).chain(headed(1, 20))),
            [(0, Some(13.0)), (1, Some(13.0))]
        );
        // One line that comes when the evaluation is over says nothing of when that began.
        let at_end = |epoch, from: u64| {
            let steps = [0, 5, 9].map(|number| step(epoch, number, from + number));
            steps.into_iter().chain([evaluation(from + 15)])
        };
        assert_eq!(
            folded(at_end(0, 0).chain(at_end(1, 20))),
            [(0, Some(15.0)), (1, Some(20.0))]
        );
    }

    #[test]
    fn training_that_continues_at_a_checkpoint_is_no_rank_that_is_behind() {
        let at = |step: u64, second: u64| (step, Some(1_763_650_000_000 + second * 1000));
        let before = (1..21).map(|step| at(step * 10, step));
        let after = (11..27).map(|step| at(step * 10, step + 30));
        let seen: Vec<_> = before.chain(after).collect();
        let (steps, median) = clocked(&seen).expect("both are timed");
        // Three lines were taken for those of another rank, and the next one begins.
        assert_eq!(steps, 190 + 160 - 30);
        assert!((median / 0.1 - 1.0).abs() < 0.02, "{median}");
    }

    #[test]
    fn training_that_begins_before_its_first_figures_is_timed_from_there() {
        let within = || Event::within((1, None), Facts::default());
        let said = [(within(), 3), (within(), 4), (end(1, None), 5)];
        assert_eq!(folded(said.clone()), [(1, None)]);
        let begun = std::iter::once((Event::run_begin(true), 1)).chain(said);
        assert_eq!(folded(begun), [(1, Some(4.0))]);
    }

    /// The steps that were timed by the clock, and their median.
    fn clocked(seen: &[(u64, Option<u64>)]) -> Option<(u64, f64)> {
        let mut fold = Fold::default();
        fold.apply(end(1, None), None);
        for (at, at_ms) in seen {
            fold.apply(step(2, *at), *at_ms);
        }
        fold.progress(None)
            .step_times
            .map(|times| (times.steps, times.median_seconds))
    }

    #[test]
    fn steps_between_a_line_without_a_time_and_one_with_a_time_are_not_timed() {
        let now = 1_763_650_000_000;
        assert_eq!(clocked(&[(1, None), (2000, Some(now))]), None);
        let (steps, median) =
            clocked(&[(1, None), (20, Some(now)), (30, Some(now + 5000))]).expect("ten steps");
        assert!(
            steps == 10 && (median / 0.5 - 1.0).abs() < 0.02,
            "{steps} {median}"
        );
    }

    #[test]
    fn a_bar_that_is_drawn_again_at_its_step_takes_no_time_from_the_next_ones() {
        let now = 1_763_650_000_000;
        // Three steps of 35 ms each; `set_postfix` draws the bar after each of them.
        let seen = [
            (3, 0),
            (3, 35),
            (3, 70),
            (6, 105),
            (6, 140),
            (6, 175),
            (9, 210),
        ];
        let seen = seen.map(|(step, after)| (step, Some(now + after)));
        let (steps, median) = clocked(&seen).expect("six steps");
        assert!(
            steps == 6 && (median / 0.035 - 1.0).abs() < 0.02,
            "{steps} {median}"
        );
    }

    #[test]
    fn times_of_the_slow_steps_alone_are_not_those_of_all() {
        let paced = |slow: &[u64]| {
            let mut fold = Fold::default();
            fold.apply(end(1, None), Some(1000));
            for at in 1..21 {
                let seconds = slow.contains(&at).then_some(0.1);
                let event = Event::step((2, None), (at, Some(100)), Facts::with_step_time(seconds));
                fold.apply(event, Some(1000 + at * 100));
            }
            fold.progress(None).step_times.map(|times| times.source)
        };
        assert_eq!(paced(&[7, 8]), Some(TimeSource::Clock));
        let all: Vec<u64> = (1..21).collect();
        assert_eq!(paced(&all), Some(TimeSource::Stated));
    }

    #[test]
    fn bars_of_two_ranks_in_one_output_are_timed_as_one() {
        let now = 1_763_650_000_000;
        // Four steps of 25 ms between two drawings of each; one draws its old step again behind the other's new one.
        let of_pair = |at: u64| [(at, at * 25), (at - 4, at * 25 + 1), (at, at * 25 + 2)];
        let seen: Vec<_> = (3..10).flat_map(|pair| of_pair(4 * pair)).collect();
        let seen: Vec<_> = seen
            .iter()
            .map(|(step, after)| (*step, Some(now + after)))
            .collect();
        let (steps, median) = clocked(&seen).expect("24 steps");
        assert!(
            steps == 24 && (median / 0.025 - 1.0).abs() < 0.02,
            "{steps} {median}"
        );
    }

    #[test]
    fn a_clock_that_was_set_back_times_the_steps_after_it() {
        let now = 1_763_650_000_000;
        let back = now - 3_600_000;
        let seen = [
            (1, Some(now)),
            (11, Some(now + 5000)),
            (21, Some(back)),
            (31, Some(back + 5000)),
        ];
        let (steps, median) = clocked(&seen).expect("twenty steps");
        assert!(
            steps == 20 && (median / 0.5 - 1.0).abs() < 0.02,
            "{steps} {median}"
        );
    }
}
