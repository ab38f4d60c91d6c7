//! A sweep as work: the sampler proposes trials, the rule stops some, the journal holds all of it.

use std::path::Path;
use std::time::Duration;

use super::conduct::{Source, Work};
use super::dir::{Order, StudyDir};
use super::optuna::Optuna;
use crate::app::error::Error;
use crate::app::job::load::Job;
use crate::app::session::Session;
use crate::app::track::Tracked;
use crate::foundation::diagnostic::Problem;
use crate::job::{JobState, SchedulerKind};
use crate::learn::bench::{Entry, Journal, Settled, Slot};
use crate::learn::sweep::{
    Note, Outcome, Promotion, Sampler, Stopping, Study, Sweep, Values, first_start, measured_value,
    parse_kept, trial_of, value_at,
};
use crate::record::{Checkpoint, NodeRecord, Progress};

/// A trial of a tuning whose epochs take so many times as long as the best one's is ended before it has all of its epochs.
const FAR_BEHIND: f64 = 2.0;

/// A trial as a job.
pub(crate) fn load_trial(
    session: &Session,
    sweep: &Sweep,
    source: &Source,
    (number, promotion): (usize, Option<&Promotion>),
    values: &Values,
) -> Result<Job, Error> {
    source.load(session, sweep.trial(number, values, promotion))
}

/// Begins a sweep or continues it. Only its budget may differ from what was run before.
pub(crate) fn begin_sweep(
    session: &Session,
    sweep: &Sweep,
    source: &Source,
    (scheduler, restart): (SchedulerKind, bool),
) -> Result<StudyDir<Study>, Error> {
    let file = std::path::absolute(&source.file)?;
    let order = Order {
        name: &sweep.name,
        id: sweep.name.clone(),
        text: &source.text,
        file: &file,
        scheduler,
        repeats: sweep.trials,
    };
    StudyDir::begin(session, order, restart, |head, before| {
        let (noun, table) = (sweep.noun(), sweep.table());
        let other = |what: String| {
            let message = format!("the {noun} `{}` was started {what}", sweep.name);
            let more = if sweep.tune.is_some() {
                ""
            } else {
                ", `stop_wait`"
            };
            Problem::of_file(message).hinted(format!(
                "give this one another `{table}.name`, or begin again with --restart; only `trials`, `node_hours`{more} and `max_jobs` may change"
            ))
        };
        let refused = |problem| Err(source.error(vec![problem]));
        if Path::new(&head.file).parent() != file.parent() {
            return refused(other(format!("from `{}`", head.file)));
        }
        if head.scheduler != scheduler {
            return refused(match head.scheduler.is_local() {
                true => other("with --pack, or with the scheduler local".to_owned())
                    .hinted("--pack N, or --scheduler local, continues it"),
                false => other(format!("with the scheduler {}", head.scheduler.as_str())),
            });
        }
        let Ok(before) = parse_kept(before, &sweep.name) else {
            return refused(other("with a file that cannot be read".to_owned()));
        };
        let Err((key, span)) = sweep.same_search(&before) else {
            return Ok(());
        };
        let problem = Problem {
            span,
            ..other(format!("with another `{key}`"))
        };
        refused(problem)
    })
}

/// A sweep under way.
pub(crate) struct SweepWork<'a> {
    sweep: &'a Sweep,
    source: &'a Source,
    dir: &'a mut StudyDir<Study>,
    sampler: Sampler<'a>,
    /// Where Optuna proposes in place of the sampler.
    optuna: Option<Optuna<'a>>,
    stopping: Stopping,
    /// How many trials share one job.
    packed: Option<u32>,
    /// Starts of trials that have no job yet.
    open: Vec<Slot>,
    /// Whether no trial may continue, by what was over when that was last looked at.
    none_is_due: bool,
}

impl<'a> SweepWork<'a> {
    /// Takes in what the journal holds.
    pub(crate) fn new(
        sweep: &'a Sweep,
        source: &'a Source,
        dir: &'a mut StudyDir<Study>,
        optuna: Option<Optuna<'a>>,
        packed: Option<u32>,
    ) -> Self {
        let (mut sampler, mut stopping) = (Sampler::new(sweep), Stopping::new(sweep));
        let study = &dir.journal;
        let unfinished: Vec<Slot> = study.journal.unfinished().map(|(slot, _)| slot).collect();
        let mut open = Vec::new();
        for trial in study.trials() {
            let first = study.outcome(first_start(trial.number));
            if let Some(outcome) = first.filter(|outcome| outcome.counts()) {
                sampler.tell(trial.values, outcome.learned());
            }
            let slot = study.last_start(trial.number);
            if study.outcome(slot).is_none() && !unfinished.contains(&slot) {
                open.push(slot);
            }
        }
        for (rung, value) in &study.reached {
            stopping.reach(*rung, *value);
        }
        open.reverse();
        Self {
            sweep,
            source,
            dir,
            sampler,
            optuna,
            stopping,
            packed,
            open,
            none_is_due: false,
        }
    }

    /// The trial whose settings a start has.
    fn trial_of(&self, slot: Slot) -> usize {
        self.sweep
            .tune
            .as_ref()
            .map_or(slot.cell, |_| trial_of(slot))
    }

    /// Whether a start is of a trial, and not of the pairs of a tuning, which follow from the journal.
    fn is_of_trial(&self, slot: Slot) -> bool {
        self.sweep.tune.is_none() || slot == first_start(slot.cell)
    }

    /// How a start continues its trial; `None`: it is the first.
    fn promotion(&self, slot: Slot) -> Option<&Promotion> {
        let later = usize::try_from(slot.repeat.checked_sub(1)?).ok()?;
        self.dir.journal.promotions(slot.cell).get(later)
    }

    fn values(&self, slot: Slot) -> Values {
        self.dir
            .journal
            .values(self.trial_of(slot))
            .cloned()
            .unwrap_or_default()
    }

    /// Whether hours of nodes are left for another trial, beside those that the pairs of a tuning will take.
    fn has_node_hours(&self, is_trial: bool) -> bool {
        let study = &self.dir.journal;
        let used = study.node_hours();
        let runs = study.journal.starts().count().max(1) as f64;
        let pairs = self.sweep.tune.as_ref().filter(|_| is_trial);
        let kept = pairs.map_or(0.0, |tune| used / runs * f64::from(2 * tune.pairs));
        self.sweep.node_hours.is_none_or(|most| used + kept < most)
    }

    /// Whether more than half of the epochs that a trial of a tuning is judged by take so much longer than those of the best one that their
    /// median cannot become the best.
    fn is_far_behind(&self, slot: Slot, progress: &Progress) -> bool {
        let tune = self.sweep.tune.as_ref().filter(|tune| !tune.by_steps);
        let is_trial = slot.cell > 0 && slot == first_start(slot.cell);
        let best = self.dir.journal.best(&self.sweep.metric);
        let best = best.and_then(|trial| trial.outcome?.value);
        let Some((tune, best)) = tune.filter(|_| is_trial).zip(best) else {
            return false;
        };
        let times = progress.epochs.iter().skip(1);
        let times = times.filter_map(|epoch| Some(epoch.training_time()?.0));
        let slow = times.filter(|time| *time >= FAR_BEHIND * best).count();
        2 * slow > (tune.length as usize).saturating_sub(1)
    }

    fn next_trial(&mut self, is_idle: bool) -> Result<Option<Slot>, Error> {
        let trials = self.sweep.trials as usize;
        // A trial that continues was begun when there were more.
        self.open
            .retain(|slot| slot.repeat > 0 || slot.cell < trials);
        if !self.has_node_hours(true) || self.sweep.has_lost_baseline(&self.dir.journal) {
            return Ok(None);
        }
        if let Some(slot) = self.open.pop() {
            return Ok(Some(slot));
        }
        let number = self.dir.journal.next_number();
        let is_end = is_idle && number >= trials;
        if !self.none_is_due || is_end {
            if let Some((promoted, how)) = self.sweep.next_promotion(&self.dir.journal, is_end) {
                self.dir.note(Note::Promoted { promoted, how })?;
                return Ok(Some(self.dir.journal.last_start(promoted)));
            }
            self.none_is_due = true;
        }
        if number >= trials {
            return Ok(None);
        }
        let (values, asked) = match &self.optuna {
            None => (self.sampler.propose(number), None),
            Some(optuna) => {
                let proposed = optuna.propose(self.sweep, &self.dir.journal, number)?;
                proposed.unzip()
            }
        };
        let Some(values) = values else {
            return Ok(None);
        };
        self.dir.note(Note::Proposed {
            proposed: number,
            values,
            asked,
        })?;
        Ok(Some(first_start(number)))
    }
}

impl Work for SweepWork<'_> {
    type Outcome = Outcome;
    const NOUN: &'static str = "sweep";

    fn name(&self) -> &str {
        &self.sweep.name
    }

    fn journal(&self) -> &Journal<Outcome> {
        &self.dir.journal.journal
    }

    fn note(&mut self, entry: Entry<Outcome>) -> Result<(), Error> {
        let ended = match &entry {
            Entry::Over {
                run_id, measured, ..
            } => Some((run_id.clone(), measured.clone())),
            Entry::Withdrawn { run_id } => {
                let starts = self.dir.journal.journal.starts();
                let slot = starts
                    .filter(|(_, one)| one.run_id == *run_id)
                    .map(|(slot, _)| slot)
                    .next();
                self.open
                    .extend(slot.filter(|slot| self.is_of_trial(*slot)));
                None
            }
            Entry::Begun { .. } => None,
        };
        self.none_is_due &= ended.is_none();
        self.dir.note(Note::Job(entry))?;
        let Some((run_id, outcome)) = ended else {
            return Ok(());
        };
        let journal = &self.dir.journal.journal;
        let slot = journal
            .starts()
            .find(|(_, one)| one.run_id == run_id)
            .map(|(slot, _)| slot);
        let is_trial = |slot: &Slot| *slot == first_start(slot.cell) && journal.is_done(*slot);
        if let Some(slot) = slot.filter(|slot| is_trial(slot) && outcome.counts()) {
            let values = self.values(slot);
            self.sampler.tell(&values, outcome.learned());
        }
        Ok(())
    }

    fn next(&mut self, in_flight: &[Slot]) -> Result<Option<Slot>, Error> {
        let trial = self.next_trial(in_flight.is_empty())?;
        // The runs of pairs are alone, so that they do not slow each other down.
        if trial.is_none() && in_flight.is_empty() && self.has_node_hours(false) {
            return Ok(self.sweep.next_of_pairs(&self.dir.journal));
        }
        Ok(trial)
    }

    fn job(&self, session: &Session, slot: Slot) -> Result<Job, Error> {
        let values = self.values(slot);
        let promotion = self.promotion(slot).filter(|_| self.is_of_trial(slot));
        let trial = (self.trial_of(slot), promotion);
        let mut job = load_trial(session, self.sweep, self.source, trial, &values)?;
        job.plan.may_be_asked_to_stop = self.sweep.stop_wait.is_some();
        Ok(job)
    }

    fn again(&mut self, slot: Slot) {
        self.open.extend(self.is_of_trial(slot).then_some(slot));
    }

    fn is_given_up(&mut self, slot: Slot, progress: &Progress) -> Result<bool, Error> {
        if let Some(tune) = &self.sweep.tune {
            return Ok(tune.is_long_enough(progress) || self.is_far_behind(slot, progress));
        }
        let (last, stopped) = self.dir.journal.rung(slot.cell);
        if stopped {
            return Ok(true);
        }
        // After its last epoch there is nothing to save, and it may be writing its result; others are still compared with it.
        let all = progress
            .epochs_announced
            .or(self.sweep.epochs.map(u64::from));
        let is_over = all.is_some_and(|all| progress.epochs_done() >= all);
        let due: Vec<(u64, f64)> = self
            .stopping
            .rungs(last)
            // At its end nothing is saved any more.
            .take_while(|rung| all.is_none_or(|all| *rung < all))
            .map_while(|rung| Some((rung, value_at(progress, &self.sweep.metric, rung)?)))
            .collect();
        for (epoch, value) in due {
            let stops = self.stopping.reach(epoch, value) && !is_over;
            self.dir.note(Note::Reached {
                reached: slot.cell,
                epoch,
                value: value.is_finite().then_some(value),
                stops,
            })?;
            if stops {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn stop_wait(&self) -> Option<Duration> {
        let wait = self.sweep.stop_wait?;
        Some(Duration::from_secs(wait.0))
    }

    fn outcome(&self, slot: Slot, tracked: &Tracked, earlier: &[NodeRecord]) -> Outcome {
        let mut nodes = tracked.reading.outcome.nodes.clone();
        // All trials of a tuning are judged by as many epochs, however late their end came.
        if let Some(tune) = self.sweep.tune.as_ref().filter(|tune| !tune.by_steps) {
            let first = |node: &mut NodeRecord| node.progress.epochs.truncate(tune.length as usize);
            nodes.iter_mut().for_each(first);
        }
        let nodes = &nodes;
        let stopped_at = match &self.sweep.tune {
            Some(tune) if tracked.status.state == JobState::Cancelled => {
                let mut shown = nodes.iter().map(|node| &node.progress);
                let enough = shown.find(|progress| {
                    tune.is_long_enough(progress) || self.is_far_behind(slot, progress)
                });
                enough.map(|progress| progress.epochs_completed)
            }
            Some(_) => None,
            None => {
                let (epoch, stops) = self.dir.journal.rung(slot.cell);
                stops.then_some(epoch)
            }
        };
        let stopped = (stopped_at, self.sweep.stop_wait.is_some());
        let metric = &self.sweep.metric;
        let mut outcome = Outcome::new(
            (&tracked.status, tracked.all_starts),
            nodes,
            metric,
            stopped,
        );
        // One of several in a job takes its part of it.
        let share = f64::from(self.packed.unwrap_or(1));
        outcome.node_hours = outcome.node_hours.map(|hours| hours / share);
        let tries = self.dir.journal.journal.tries(slot);
        let lost = tries
            .iter()
            .rev()
            .find_map(|one| one.measured.as_ref()?.value);
        // The first start of a trial that is tried again begins from nothing.
        let lost = lost.filter(|_| self.promotion(slot).is_some());
        let before = measured_value(earlier, metric, None).or(lost);
        outcome =
            outcome.with_value_before(nodes, metric, before.filter(|value| value.is_finite()));
        let rung = self.sweep.rungs().get(slot.repeat as usize).copied();
        if let Some(epochs) = rung.filter(|epochs| Some(*epochs) < self.sweep.epochs) {
            let attempt = tracked.reading.outcome.attempt.as_ref();
            let end = attempt.and_then(|attempt| attempt.end.as_ref());
            // One that lay there before is of another training. A second attempt or try may have had nothing left to write.
            let since_ms = tries
                .first()
                .map_or(tracked.record.submitted_at_ms, |first| first.begun_at_ms);
            let is_new = |its: &&Checkpoint| {
                end.is_some_and(|end| end.advanced) || its.modified_ms > since_ms
            };
            if outcome.failure.is_none() && end.is_none() {
                let ran = outcome.wall_seconds.zip(Some(tracked.record.nodes));
                let why = "its end is not recorded, and so not its checkpoint";
                return self.lost(why, JobState::Unknown, ran);
            }
            let checkpoint = end.and_then(|end| end.checkpoint.as_ref()).filter(is_new);
            outcome = outcome.paused(epochs, checkpoint.map(|its| its.path.clone()));
        }
        match &self.sweep.second {
            Some(second) => outcome.with_second(nodes, second),
            None => outcome,
        }
    }

    fn lost(&self, why: &str, state: JobState, ran: Option<(f64, u32)>) -> Outcome {
        let share = f64::from(self.packed.unwrap_or(1));
        Outcome {
            state,
            failure: Some(why.to_owned()),
            wall_seconds: ran.map(|(seconds, _)| seconds),
            node_hours: ran.map(|(seconds, nodes)| seconds * f64::from(nodes) / 3600.0 / share),
            ..Outcome::default()
        }
    }

    fn label(&self, slot: Slot) -> String {
        let trial = self.trial_of(slot);
        let again = match self.promotion(slot) {
            Some(its) => format!(" to epoch {}", its.epochs),
            None if slot == first_start(slot.cell) => String::new(),
            None => " again".to_owned(),
        };
        let label = match self.sweep.tune {
            Some(_) if trial == 0 => "your settings".to_owned(),
            _ => self.sweep.label(&self.values(slot)),
        };
        format!("trial {}{again}, {label}", trial + 1)
    }

    fn result_text(&self, outcome: &Outcome) -> String {
        let text = |value: Option<f64>| match value {
            None => "not a number".to_owned(),
            Some(value) if value != 0.0 && value.abs() < 1e-3 => format!("{value:.4e}"),
            Some(value) => format!("{value:.6}"),
        };
        let value = text(outcome.value);
        let name = &self.sweep.metric.name;
        if let Some(second) = &self.sweep.second {
            let other = text(outcome.second_value);
            return format!("{name} {value}, {} {other}", second.name);
        }
        match outcome.stopped_text() {
            Some(stopped) => format!("{stopped} with {name} {value}"),
            None => format!("{name} {value}"),
        }
    }

    fn done(&self, _in_flight: usize) -> (usize, usize) {
        self.sweep.runs(&self.dir.journal)
    }

    fn verb(&self) -> &'static str {
        // What is known of a tuning is shown as of a sweep.
        "sweep"
    }
}
