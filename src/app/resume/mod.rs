//! A run that may continue, seen from inside its job: what a start begins with, and what follows when it has ended.

mod begin;
mod decide;
mod end;
mod lost;
mod scale;

pub(crate) use scale::{Scaled, scale};

use std::time::Duration;

use nix::sys::signal::{SigSet, Signal};

use crate::app::error::{Error, failure};
use crate::app::exec::{context, job_name};
use crate::app::session::{PATIENCE, Session, within};
use crate::app::track::status_by_files;
use crate::job::Resume;
use crate::launch::{Plan, hosts};
use crate::node::supervise::Context;
use crate::observe::checkpoint::Checkpoints;
use crate::record::rundir::{Attempt, Reading, RunDir, StateDir};
use crate::record::{AttemptEnd, Checkpoint, ExitStatus, Next, Outcome, Status};
use crate::scheduler::Standing;

/// A file that was written so shortly before its program was killed may be half there, in milliseconds.
const HALF_WRITTEN_MS: u64 = 1000;

/// One start of the run, and those before it.
struct Start<'a> {
    session: &'a Session,
    context: Context,
    plan: Plan,
    resume: Resume,
    run: RunDir,
    attempt: Attempt,
    before: Vec<Reading>,
    /// The nodes that its job kept when it gave others back: the variables of the job still name all.
    kept: Vec<String>,
}

/// Before the command: prints what the batch script hands on, one `NAME=VALUE` a line, or `stop=WHY` with a `code`.
pub(crate) fn begin(session: &Session) -> Result<u8, Error> {
    let start = Start::open(session)?;
    let lines = start.begin()?;
    session.output.raw(lines.as_bytes())?;
    Ok(0)
}

/// By this exit code the batch script learns that it is to begin again inside of its allocation.
const AGAIN_HERE: u8 = 10;

/// Whether the batch script knows that code: one that an older dlrun rendered does not.
fn may_restart() -> bool {
    std::env::var_os("DLRUN_MAY_RESTART").is_some()
}

/// After the end mark: decides whether the run continues, and sees to it.
pub(crate) fn again(session: &Session, code: i32, signals: &str) -> Result<u8, Error> {
    // A scheduler that puts the job back into the queue gives what is left of it a moment. Before any thread is there.
    let mut term = SigSet::empty();
    term.add(Signal::SIGTERM);
    let _ = term.thread_block();
    let next = Start::open(session)?.end(code, signals)?;
    let is_here =
        next == Next::Restart && !context().plan.is_some_and(|plan| plan.scheduler.is_local());
    Ok(if is_here { AGAIN_HERE } else { 0 })
}

impl<'a> Start<'a> {
    fn open(session: &'a Session) -> Result<Self, Error> {
        let context = context();
        let missing = |what: &str| failure!(Internal, "the batch script gives no {what}");
        let plan = context.plan.clone().ok_or_else(|| missing("plan"))?;
        let resume = plan.resume.clone().ok_or_else(|| missing("[resume]"))?;
        let run_id = context.run_id.clone().ok_or_else(|| missing("run id"))?;
        let dir = context
            .state_dir
            .clone()
            .ok_or_else(|| missing("state directory"))?;
        let attempt = Attempt {
            element: context.element,
            attempt: context.attempt,
        };
        let (run, before) = within(PATIENCE, &dir.clone(), move || {
            let run = StateDir::open(&dir)?.run(&run_id)?;
            let earlier = (0..attempt.attempt).map(|number| Attempt {
                attempt: number,
                ..attempt
            });
            // Of those before the last the marks are enough: fifty starts of many nodes have thousands of records.
            let before = earlier.map(|earlier| match earlier.attempt + 1 == attempt.attempt {
                true => run.outcome(earlier),
                false => run.marks(earlier),
            });
            let before: Vec<Reading> = before.collect();
            Ok((run, before))
        })?;
        let last = before
            .last()
            .and_then(|reading| reading.outcome.attempt.as_ref());
        let end = last.and_then(|last| last.end.as_ref());
        // A job that was put back into the queue meanwhile has other nodes.
        let is_here = std::env::var_os("DLRUN_AGAIN_HERE").is_some();
        let kept = end
            .filter(|end| end.next == Next::Restart && is_here)
            .map(|end| end.kept_nodes.clone());
        Ok(Self {
            kept: kept.unwrap_or_default(),
            session,
            context,
            plan,
            resume,
            run,
            attempt,
            before,
        })
    }

    /// How a start ended by its files and the job's output.
    fn status(&self, reading: &mut Reading) -> Result<Status, Error> {
        let record = self.run.read_run()?;
        let array = self.plan.resources.array.as_ref();
        let element = array.map(|_| self.attempt.element);
        Ok(status_by_files(&self.run, &record, element, reading))
    }

    /// Whether `dlrun cancel` was asked.
    fn cancel_asked(&self) -> bool {
        let mut outcome = Outcome::default();
        let verdicts = self.run.verdicts();
        match &self.plan.resources.array {
            Some(_) => verdicts.add_to_element(self.attempt.element, None, &mut outcome),
            None => verdicts.add_to(&mut outcome),
        }
        outcome.cancel_asked_at_ms.is_some()
    }

    fn standing(&self) -> Option<Standing> {
        let scheduler = self.session.scheduler(self.plan.scheduler).ok()?;
        scheduler.standing(&job_name(self.plan.scheduler)?)
    }

    /// What is left of the job's time, in seconds; `None`: nobody knows.
    fn left_seconds(&self, standing: Option<Standing>) -> Option<u64> {
        let planned = self.plan.resources.walltime.map(|walltime| walltime.0);
        standing.and_then(|it| it.left_seconds).or(planned)
    }

    fn ends(&self) -> Vec<AttemptEnd> {
        let attempts = self
            .before
            .iter()
            .filter_map(|reading| reading.outcome.attempt.as_ref());
        attempts.filter_map(|attempt| attempt.end.clone()).collect()
    }

    fn newest(&self) -> Option<Checkpoint> {
        let none = Reading::default();
        self.newest_after(self.before.last().unwrap_or(&none))
    }

    /// The newest checkpoint of this run after a start has ended. What its program was writing when it was ended is not taken, where
    /// the file itself does not show that it is complete.
    fn newest_after(&self, last: &Reading) -> Option<Checkpoint> {
        let checkpoints = Checkpoints::new(&self.resume, &self.plan.workdir, self.attempt.element);
        let outcome = &last.outcome;
        let seen = outcome.nodes.iter().map(|node| node.updated_at_ms).max();
        let limit = match &outcome.end {
            // It was seen to be complete, and not to change any more.
            Some(_)
                if outcome.nodes.iter().any(|node| {
                    node.time_stop
                        .is_some_and(|stop| stop.saved_seconds.is_some())
                }) =>
            {
                None
            }
            Some(end) => end
                .exit()
                .filter(|exit| matches!(exit, ExitStatus::Signal(_)))
                .map(|_| end.at_ms),
            None => seen,
        };
        let limit = limit.map(|limit| limit.saturating_sub(HALF_WRITTEN_MS));
        let is_sure = |checkpoint: &Checkpoint, is_shown: bool| {
            is_shown || limit.is_none_or(|limit| checkpoint.modified_ms < limit)
        };
        let is_own = |checkpoint: &Checkpoint| self.is_own(checkpoint);
        let sure = checkpoints
            .newest(|checkpoint, is_shown| is_own(checkpoint) && is_sure(checkpoint, is_shown));
        sure.or_else(|| checkpoints.newest(|checkpoint, _| is_own(checkpoint)))
    }

    /// Whether a checkpoint is of this run: newer than all that was there before its first start.
    fn is_own(&self, checkpoint: &Checkpoint) -> bool {
        let Some(first) = self.before.first().map(|reading| &reading.outcome) else {
            return true;
        };
        let before_ms = match (&first.attempt, &first.start) {
            (Some(attempt), _) => attempt.found.as_ref().map(|found| found.modified_ms),
            (None, start) => start.as_ref().map(|start| start.at_ms),
        };
        before_ms.is_none_or(|before| checkpoint.modified_ms > before)
    }

    /// Nodes of this start.
    fn nodes(&self) -> u32 {
        let own = self.hosts().and_then(|list| hosts(&list));
        own.and_then(|own| u32::try_from(own.len()).ok())
            .unwrap_or(self.plan.resources.nodes)
    }

    /// What the run has taken up to the end of this start, or up to now, in hours of nodes.
    fn node_hours(&self, end_ms: u64) -> f64 {
        let before = self.ends().last().map_or(0.0, |end| end.node_hours);
        let own = self.run.marks(self.attempt).outcome;
        before
            + hours_of(
                own.start.as_ref().map(|start| start.at_ms),
                end_ms,
                self.nodes(),
            )
    }
}

/// Hours of so many nodes.
fn hours_of(start_ms: Option<u64>, end_ms: u64, nodes: u32) -> f64 {
    let spent = start_ms.map_or(0, |start| end_ms.saturating_sub(start));
    Duration::from_millis(spent).as_secs_f64() / 3600.0 * f64::from(nodes.max(1))
}

/// Whether there is a checkpoint, and it is newer than the other one.
fn is_newer(checkpoint: Option<&Checkpoint>, than: Option<&Checkpoint>) -> bool {
    let modified = |checkpoint: &Checkpoint| checkpoint.modified_ms;
    checkpoint.map(modified) > than.map(modified)
}
