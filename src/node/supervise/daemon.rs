//! The watcher's part in which the node daemon reads in its place: registering, updating, losing it, ending.

use std::time::{Duration, Instant};

use super::handover::Ended;
use super::link::PATIENCE;
use super::mint::user_name;
use super::watch::{Watch, last_state};
use super::writer::{Placed, Report};
use crate::foundation::clock::now_ms;
use crate::foundation::diagnostic::chain_text;
use crate::observe::client::ClientError;
use crate::observe::protocol::{
    Ending, GapHint, Measured, RefusalKind, Registered, Registration, Request,
};
use crate::record::{EventKind, NodeState, RunRecord, Sample};

/// How long the end of a run is the daemon's: what is left of the last patience is the disk's.
const LAST_TALK: Duration = Duration::from_secs(3);
/// Until the driver has listed the GPUs, it is asked so often: the daemon is to know which are the run's.
const GPU_PAUSE: Duration = Duration::from_millis(200);
/// Reasons that are noted in the record, each once.
const MAX_REASONS: usize = 8;

impl Watch {
    /// Listens to the writer, and continues with the daemon where that is due.
    pub(super) fn tend_daemon(&mut self, now: Instant) {
        while self.take_report(Duration::ZERO) {}
        self.end_attempt(Duration::ZERO);
        if self.link.is_time_to_try(now) {
            if !self.sampling.gpus.are_known() {
                self.link.retry_at = Some(Instant::now() + GPU_PAUSE);
            } else if let Some(registration) = self.registration() {
                self.link.try_now(registration);
            }
        }
        if self.link.is_time_to_update(now) {
            self.update();
        }
        if self.link.can_collect_more() {
            self.collect();
        }
    }

    /// Returns whether the writer had a report.
    fn take_report(&mut self, patience: Duration) -> bool {
        let Some(report) = self.writer.report(patience) else {
            return false;
        };
        match report {
            Report::Place(placed) => self.link.place(placed),
            Report::Safe(through) => self.link.is_safe(through),
        }
        true
    }

    /// Looks how an attempt went.
    fn end_attempt(&mut self, patience: Duration) {
        match self.link.outcome(patience) {
            Some(Ok(registered)) => self.is_registered(&registered),
            Some(Err(error)) => {
                self.link.try_later(error.refusal());
                self.note_once(&error);
            }
            None => {}
        }
    }

    /// That no daemon runs is no news; why one that runs does not take the run is.
    fn note_once(&mut self, error: &ClientError) {
        let why = chain_text(error);
        if !error.is_absent() && self.reasons.len() < MAX_REASONS && !self.reasons.contains(&why) {
            let what = if self.link.is_up() {
                "dlrund is in trouble"
            } else {
                "not watched by dlrund"
            };
            self.account.note(EventKind::Note, format!("{what}: {why}"));
            self.reasons.push(why);
        }
    }

    fn registration(&self) -> Option<Registration> {
        let placed = self.link.placed.as_ref()?;
        let record = self.record(NodeState::Running, None);
        let lost_at_ms = self.link.lost_at_ms;
        Some(Registration {
            run: self.run_record(placed)?,
            record: self.link.fitted_record(&record),
            command: self.handover.command,
            gpus: self.sampling.gpus.allocated.clone(),
            booted_at_ms: Some(self.handover.booted_at_ms),
            gap: lost_at_ms.map(|lost_at_ms| GapHint { lost_at_ms }),
        })
    }

    /// The run as it was submitted, or as far as the plan has it.
    fn run_record(&self, placed: &Placed) -> Option<RunRecord> {
        let context = &self.handover.context;
        let of_plan = || {
            let plan = context.plan.as_ref()?;
            let (run_id, host) = (placed.key.run_id.clone(), self.host.hostname.clone());
            let names = (user_name(), host);
            let begun_at_ms = self.handover.started_at_ms;
            Some(plan.begun_run(run_id, begun_at_ms, names, context.job_id.clone()))
        };
        placed.run.clone().or_else(of_plan)
    }

    /// The daemon reads from now on.
    fn is_registered(&mut self, registered: &Registered) {
        let first = !std::mem::replace(&mut self.link.was_registered, true);
        if first && registered.resumed && self.account.is_taken_over() {
            self.account.nothing_was_missed();
            self.link.forget_own();
            self.pending.clear();
        } else {
            if !registered.resumed {
                self.account.forget_daemon();
            }
            self.account.note(
                EventKind::Adopted,
                format!("by dlrund {}", self.link.version()),
            );
            self.link.seal_own();
            self.write_own_segment();
        }
        self.sampling.stop();
    }

    /// Goes on without the daemon: at once, so that the series has no hole.
    pub(super) fn lose_daemon(&mut self, error: &ClientError) {
        self.note_loss(error);
        if !self.sampling.is_on() {
            let sample = self.sampling.start();
            self.add(sample);
        }
    }

    fn note_loss(&mut self, error: &ClientError) {
        self.account.note(EventKind::DaemonLost, chain_text(error));
        let last_ms = self.link.lose(now_ms());
        self.account.is_owed(last_ms);
    }

    pub(super) fn update(&mut self) {
        if !self.link.is_up() {
            return;
        }
        match self.link.update(&self.record(NodeState::Running, None)) {
            Ok(measured) => self.take(measured),
            Err(error) => self.judge(&error),
        }
    }

    /// Takes the daemon's figures. Where it was away the watcher read: the hole in the run's series ends with that.
    fn take(&mut self, mut measured: Measured) {
        let slack_ms = self.slack_ms();
        let gaps = measured.gaps.into_iter();
        measured.gaps = gaps
            .map(|gap| self.link.gap_until_watcher_read(gap, slack_ms))
            .collect();
        self.account.take(measured);
    }

    /// Fetches samples where the daemon has them.
    pub(super) fn collect(&mut self) {
        if !self.link.is_up() {
            return;
        }
        let (link, activity) = (&mut self.link, &mut self.activity);
        let each = |sample: &Sample| activity.take(sample);
        match link.collect(&mut self.writer, PATIENCE, each) {
            Ok(times) => self.is_collected(times),
            Err(error) => self.judge(&error),
        }
    }

    fn is_collected(&mut self, times: Option<Vec<u64>>) {
        self.account
            .has_samples(times.into_iter().flatten(), self.slack_ms());
        if self.link.has_all() {
            self.account.is_settled();
        }
    }

    /// A daemon that is busy, or whose disk is full, still watches; after any other error nobody knows.
    fn judge(&mut self, error: &ClientError) {
        match error.refusal() {
            Some(RefusalKind::Busy) => self.link.collect_later(),
            Some(RefusalKind::Internal) => {
                self.link.collect_later();
                self.note_once(error);
            }
            _ => self.lose_daemon(error),
        }
    }

    /// Ends the run with the daemon. Returns whether the daemon's figures are those of the end.
    pub(super) fn end_with_daemon(&mut self, ended: Option<&Ended>) -> bool {
        let until = Instant::now() + LAST_TALK;
        while self.take_report(Duration::ZERO) {}
        self.end_attempt(PATIENCE);
        if !self.link.is_up() && self.link.was_registered {
            // It has samples that are missing here.
            if let Some(registration) = self.registration() {
                self.link.try_now(registration);
                self.end_attempt(left(until));
            }
        }
        if !self.link.is_up() {
            if self.link.was_registered {
                let why = "dlrund was lost: what it read last is on the node, not here";
                self.account.lacks("segments", why);
            }
            return false;
        }
        let ending = self.send_end(ended, until);
        let collected = match &ending {
            Err(error) if error.refusal().is_none() => {
                self.note_loss(error);
                Err(chain_text(error))
            }
            Err(error) => {
                let why = chain_text(error);
                self.account.note(
                    EventKind::Note,
                    format!("dlrund did not take the end: {why}"),
                );
                self.collect_rest(until)
            }
            Ok(()) => self.collect_rest(until),
        };
        if let Err(why) = collected {
            self.account.is_owed(self.link.lose(now_ms()));
            self.account.lacks(
                "segments",
                format!("dlrund did not hand over its last samples: {why}"),
            );
        }
        ending.is_ok()
    }

    /// Gives the daemon the end, and takes its figures.
    fn send_end(&mut self, ended: Option<&Ended>, until: Instant) -> Result<(), ClientError> {
        let record = self.record_of_now(last_state(ended), ended);
        let ending = Ending {
            record: self.link.fitted_record(&record),
            cpu_user_us: ended.map_or(0, |ended| ended.cpu_user_us),
            cpu_system_us: ended.map_or(0, |ended| ended.cpu_system_us),
        };
        // Many jobs may end at once, and the disk takes one after the other.
        let ending = Request::End(Box::new(ending));
        let measured = self.link.measured(&ending, left(until))?;
        self.take(measured);
        Ok(())
    }

    /// Collects until nothing is left or the time is over.
    fn collect_rest(&mut self, until: Instant) -> Result<(), String> {
        loop {
            while self.link.waits_for_disk() {
                if !self.take_report(left(until)) {
                    return Err("the state directory did not take them in time".to_owned());
                }
            }
            let (link, activity) = (&mut self.link, &mut self.activity);
            let each = |sample: &Sample| activity.take(sample);
            let collected = link.collect(&mut self.writer, left(until).min(PATIENCE), each);
            let times = collected.map_err(|error| chain_text(&error))?;
            let is_all = times.is_none();
            self.is_collected(times);
            if is_all {
                return Ok(());
            }
        }
    }
}

fn left(until: Instant) -> Duration {
    until.saturating_duration_since(Instant::now())
}
