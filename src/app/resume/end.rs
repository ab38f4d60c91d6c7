//! What follows a start that has ended.

use std::collections::BTreeSet;
use std::time::Duration;

use super::lost::{beside, with_states};
use super::{Start, decide, is_newer, may_restart};
use crate::app::error::{Error, failure};
use crate::app::exec::job_name;
use crate::foundation::clock::now_ms;
use crate::foundation::diagnostic::chain;
use crate::foundation::private::FileError;
use crate::job::{DependencyKind, JobId, JobState};
use crate::launch::{PlannedDependency, hosts};
use crate::record::rundir::Reading;
use crate::record::{
    AttemptEnd, AttemptRecord, Checkpoint, Event, EventKind, Next, NodeRecord, NodeState, Status,
    Verdict,
};
use crate::scheduler::{BrokenNode, Scheduler, SchedulerError, Standing, Submission, script};

/// How often a requeue is asked for where no answer comes, and the pause between.
const TRIES: u32 = 4;
const PAUSE: Duration = Duration::from_secs(10);

impl Start<'_> {
    /// Decides what follows, notes it, and sees to it.
    pub(super) fn end(&self, code: i32, signals: &str) -> Result<Next, Error> {
        let standing = self.standing();
        let mut reading = self.run.outcome(self.attempt);
        let status = self.status(&mut reading)?;
        let begun = reading.outcome.attempt.clone();
        let found = begun.as_ref().and_then(|attempt| attempt.found.clone());
        let checkpoint = self.newest_after(&reading);
        let lost = self.lost_nodes(begun.as_ref());
        let known = decide::Known {
            code,
            lost: node_lost(&lost, &reading.outcome.nodes),
            was_terminated: ["TERM", "INT"].iter().any(|name| signals.contains(name)),
            advanced: is_newer(checkpoint.as_ref(), found.as_ref()),
            ..self.known(&reading, &status, standing)
        };
        let (verdict, evidence) = decide::verdict(&known);
        let next = decide::next(&known, verdict, &self.ends());
        let is_lost = verdict == Verdict::Node || verdict == Verdict::Unknown && known.is_requeued;
        let lost = if is_lost { lost } else { Vec::new() };
        let unfit = refusals(&reading.outcome.nodes).map(|(node, _)| node.to_owned());
        let lost_names = lost.iter().map(|node| node.name.clone());
        let lost_nodes: BTreeSet<String> = lost_names.chain(unfit).collect();
        let stays = is_lost && !known.is_requeued && !known.was_terminated;
        let follows = match next.is_ok() && stays && may_restart() && self.has_spares(&lost_nodes) {
            true => Next::Restart,
            false => self.next(next.is_ok()),
        };
        let stops = reading
            .outcome
            .nodes
            .iter()
            .filter_map(|node| node.time_stop);
        let mut end = AttemptEnd {
            verdict,
            evidence: with_states(evidence, &lost),
            lost_nodes: lost_nodes.into_iter().collect(),
            kept_nodes: Vec::new(),
            next: follows,
            why: next.unwrap_or_else(|why| why)
                + &self.if_nothing_matches(verdict, checkpoint.as_ref()),
            at_ms: now_ms(),
            job_id: None,
            advanced: known.advanced,
            checkpoint,
            save_seconds: stops.filter_map(|stop| stop.saved_seconds).reduce(f64::max),
            node_hours: known.node_hours,
        };
        let begun = begun.unwrap_or_else(AttemptRecord::unknown);
        let note = |end: &AttemptEnd| {
            let end = Some(end.clone());
            let record = AttemptRecord {
                end,
                ..begun.clone()
            };
            self.run.write_attempt(self.attempt, &record)
        };
        // First: a job that is put back into the queue is ended at once. Where it cannot be written the run continues all the same.
        let noted = note(&end);
        self.say(&end);
        if end.next != Next::Requeue {
            return self.follows(&end, noted);
        }
        if known.is_requeued {
            let scheduler = self.session.scheduler(self.plan.scheduler)?;
            let exclusion = self.exclusion(&*scheduler, &end);
            self.exclude(&*scheduler, exclusion, &mut end);
        } else if self.was_cancelled_meanwhile()? {
            (end.verdict, end.next, end.why) = (
                Verdict::Cancelled,
                Next::Nothing,
                "it was cancelled".to_owned(),
            );
            self.say(&end);
        } else if let Err(error) = self.hand_back(&mut end, &note) {
            end.next = Next::Nothing;
            end.why = format!(
                "it should continue ({}), and cannot: {}",
                end.why,
                error.message()
            );
            self.say(&end);
        }
        self.follows(&end, note(&end))
    }

    /// What follows. A start inside of the job does so whether or not that could be noted.
    fn follows(&self, end: &AttemptEnd, noted: Result<(), FileError>) -> Result<Next, Error> {
        match noted {
            Err(error) if end.next == Next::Restart => {
                let why = chain(&error).join(": ");
                self.session
                    .warning(&format!("how this start ended is not recorded: {why}"));
            }
            noted => noted?,
        }
        Ok(end.next)
    }

    /// Names the patterns that no file matches: nothing could be continued.
    fn if_nothing_matches(&self, verdict: Verdict, checkpoint: Option<&Checkpoint>) -> String {
        let is_over = matches!(
            verdict,
            Verdict::Finished | Verdict::Failed | Verdict::Cancelled
        );
        match checkpoint {
            None if !is_over => format!(
                "; no complete file matches {}",
                self.resume.checkpoints.join(", ")
            ),
            _ => String::new(),
        }
    }

    /// Looks once more right before the job is handed back: a cancelled job that is put back into the queue would run again.
    fn was_cancelled_meanwhile(&self) -> Result<bool, Error> {
        let mut reading = self.run.marks(self.attempt);
        let was_ended = self.status(&mut reading)?.state == JobState::Cancelled;
        Ok(was_ended || self.cancel_asked())
    }

    /// What follows where another start does; whether the job can be requeued shows when it is tried.
    fn next(&self, continues: bool) -> Next {
        match continues {
            false => Next::Nothing,
            true if self.plan.scheduler.is_local() => Next::Restart,
            true => Next::Requeue,
        }
    }

    /// What records, marks and the scheduler say of the start.
    fn known<'k>(
        &'k self,
        reading: &Reading,
        status: &'k Status,
        standing: Option<Standing>,
    ) -> decide::Known<'k> {
        let nodes = &reading.outcome.nodes;
        let ended_ms = reading
            .outcome
            .end
            .as_ref()
            .map_or_else(now_ms, |end| end.at_ms);
        // The scheduler may have raised it since.
        let raised = nodes.iter().filter_map(|node| node.progress.time_limit_ms);
        let raised = raised.max().unwrap_or(0);
        let save_at_ms = self
            .context
            .time_limit
            .map(|(end, lead)| (end * 1000).max(raised).saturating_sub(lead * 1000));
        let mut events = nodes.iter().flat_map(|node| &node.events);
        let hung = events.find(|event| event.kind == EventKind::HangEnded);
        let stops = nodes.iter().filter_map(|node| node.time_stop);
        decide::Known {
            resume: &self.resume,
            starts: self.attempt.attempt + 1,
            code: 0,
            status,
            time_stop: stops.max_by_key(|stop| (stop.signalled, stop.stopped)),
            time_was_up: save_at_ms.is_some_and(|at| ended_ms >= at),
            is_recorded: !nodes.is_empty(),
            scale: self.run.scale_since(reading.outcome.attempt.as_ref()),
            unfit: unfit(nodes),
            lost: None,
            hung: hung.map(|event| event.detail.clone()),
            is_interrupted: nodes
                .iter()
                .any(|node| node.state == NodeState::Interrupted),
            all_epochs: nodes.iter().any(trained_all),
            was_terminated: false,
            is_preempted: standing.is_some_and(|it| it.is_preempted),
            is_requeued: standing.is_some_and(|it| it.requeues > requeues()),
            advanced: false,
            node_hours: self.node_hours(ended_ms),
        }
    }

    pub(super) fn job(&self) -> Result<String, Error> {
        job_name(self.plan.scheduler)
            .ok_or_else(|| failure!(Internal, "the job does not know its id"))
    }

    /// Puts the job back into the queue, or submits one that continues it.
    fn hand_back(
        &self,
        end: &mut AttemptEnd,
        note: &dyn Fn(&AttemptEnd) -> Result<(), FileError>,
    ) -> Result<(), Error> {
        let scheduler = self.session.scheduler(self.plan.scheduler)?;
        let job = self.job()?;
        let exclusion = self.exclusion(&*scheduler, end);
        let begun = self.run.marks(self.attempt).outcome.attempt;
        let scaled = self.run.scale_since(begun.as_ref());
        let scaled = scaled.filter(|_| end.verdict == Verdict::Scaled);
        if let Some(scaled) = scaled
            && self.give_back(&*scheduler, &job, scaled, end, note)
        {
            return Ok(());
        }
        if scaled.is_none() && self.requeue(&*scheduler, &job)? {
            self.exclude(&*scheduler, exclusion, end);
            return Ok(());
        }
        if self.plan.resources.array.is_some() {
            return Err(failure!(
                Config,
                "an element of an array continues only where its job can be requeued"
            ));
        }
        let mut record = self.run.read_run()?;
        let mut plan = self.plan.clone();
        if scaled.is_some() {
            plan.scaled_to = scaled;
            plan.resources.nodes = scaled.unwrap_or_default();
        }
        plan.first_attempt = self.attempt.attempt + 1;
        plan.first_output_is_own = plan.has_own_output();
        plan.output = record.output.clone().or(plan.output);
        if let Some(Ok(nodes)) = &exclusion {
            plan.resources.exclude = Some(beside(plan.resources.exclude.as_deref(), nodes));
        }
        plan.resources.begin = None;
        plan.resources.depends = vec![PlannedDependency {
            kind: DependencyKind::AfterAny,
            job_ids: vec![JobId(job)],
        }];
        let text = script::render_for_run(&plan, &record.run_id);
        let name = format!("job.{}.sh", plan.first_attempt);
        self.run.write_script(&name, &text)?;
        let submission = Submission {
            run_id: &record.run_id,
            plan: &plan,
            script: &self.run.path().join(name),
            run_dir: self.run.path(),
        };
        end.next = Next::Resubmit;
        self.note_exclusion(exclusion, end);
        let submitted = match scheduler.submit(&submission) {
            // If the job is queued it notes its own id when it starts.
            Err(error) if error.may_be_queued() => {
                end.why = format!("{}; {}", end.why, chain(&error).join(": "));
                return Ok(());
            }
            submitted => submitted?,
        };
        end.job_id = Some(submitted.job_id.clone());
        record.job_id = Some(submitted.job_id);
        if let Err(error) = self.run.write_run(&record) {
            self.session.warning(&format!(
                "the job's new id is not recorded: {}",
                chain(&error).join(": ")
            ));
        }
        Ok(())
    }

    /// Keeps so many of the job's nodes, the batch script's own among them, and gives the others back; `false`: it has no more than
    /// that, or cannot. The variables of the job will still name all, so what it keeps is noted before.
    fn give_back(
        &self,
        scheduler: &dyn Scheduler,
        job: &str,
        nodes: u32,
        end: &mut AttemptEnd,
        note: &dyn Fn(&AttemptEnd) -> Result<(), FileError>,
    ) -> bool {
        let all = self.hosts().and_then(|list| hosts(&list));
        let all = all.filter(|_| may_restart()).unwrap_or_default();
        let fewer = usize::try_from(nodes).unwrap_or(usize::MAX);
        if fewer >= all.len() {
            return false;
        }
        let (own, others): (Vec<String>, Vec<String>) =
            all.into_iter().partition(|node| *node == self.context.node);
        let kept: Vec<String> = own.into_iter().chain(others).take(fewer).collect();
        let planned = AttemptEnd {
            next: Next::Restart,
            kept_nodes: kept.clone(),
            ..end.clone()
        };
        let done = note(&planned).map_err(|error| chain(&error));
        let done = done.and_then(|()| match scheduler.keep_nodes(job, &kept) {
            Some(answer) => answer.map(|()| true).map_err(|error| chain(&error)),
            None => Ok(false),
        });
        match done {
            Ok(true) => *end = planned,
            Ok(false) => return false,
            Err(why) => {
                let why = why.join(": ");
                self.session
                    .warning(&format!("another job continues: {why}"));
                return false;
            }
        }
        true
    }

    /// Puts the job back into the queue; `false`: another job is to be submitted. Only a clear refusal allows that: a controller that
    /// does not answer may have done it.
    fn requeue(&self, scheduler: &dyn Scheduler, job: &str) -> Result<bool, Error> {
        let before = requeues();
        for _ in 0..TRIES {
            match scheduler.requeue(job) {
                None => return Ok(false),
                Some(Ok(())) => return Ok(true),
                Some(Err(error @ SchedulerError::Failed { .. })) => {
                    let why = chain(&error).join(": ");
                    self.session
                        .warning(&format!("another job continues: {why}"));
                    return Ok(false);
                }
                Some(Err(_)) => {
                    std::thread::sleep(PAUSE);
                    if self.standing().is_some_and(|it| it.requeues > before) {
                        return Ok(true);
                    }
                }
            }
        }
        Err(failure!(
            TryAgain,
            "the scheduler gave no answer to {TRIES} requests for a requeue"
        ))
    }

    fn say(&self, end: &AttemptEnd) {
        if end.verdict == Verdict::Finished {
            return;
        }
        let what = match end.next {
            Next::Nothing => "the run ends here",
            _ => "the run continues",
        };
        let number = self.attempt.attempt + 1;
        self.session.output.job_note(&format!(
            "start {number} of this run ended: {}; {what}: {}",
            end.evidence, end.why
        ));
    }
}

/// How often this job was requeued before this start.
fn requeues() -> u32 {
    let count = std::env::var("SLURM_RESTART_COUNT").ok();
    count.and_then(|count| count.parse().ok()).unwrap_or(0)
}

/// That a node was lost: its scheduler has it as dead, or another node found its dlrun gone. A node that is drained still runs its jobs.
fn node_lost(out_of_order: &[BrokenNode], nodes: &[NodeRecord]) -> Option<String> {
    let events = nodes.iter().flat_map(|node| &node.events);
    let event = events
        .into_iter()
        .find(|event| event.kind == EventKind::NodeLost);
    let event = event.map(|event| event.detail.clone());
    let is_dead = out_of_order.iter().any(|node| node.is_dead);
    event.or_else(|| is_dead.then(|| "a node was lost".to_owned()))
}

/// The nodes that did not pass their check, so that the start ended, and what speaks against them.
fn refusals(nodes: &[NodeRecord]) -> impl Iterator<Item = (&str, &str)> {
    nodes.iter().flat_map(|node| {
        let refused = |event: &&Event| event.kind == EventKind::NodeRefused;
        let events = node.events.iter().filter(refused);
        events.map(|event| (&*node.key.node, &*event.detail))
    })
}

/// The same as text.
fn unfit(nodes: &[NodeRecord]) -> Option<String> {
    let all = refusals(nodes).map(|(node, why)| format!("{node} did not pass its check: {why}"));
    let all: Vec<String> = all.collect();
    (!all.is_empty()).then(|| all.join("; "))
}

/// Whether a node saw the last of the epochs end that its program announced.
fn trained_all(node: &NodeRecord) -> bool {
    let progress = &node.progress;
    let is_all = |all| !progress.epochs.is_empty() && progress.epochs_done() >= all;
    progress.epochs_announced.is_some_and(is_all)
}
