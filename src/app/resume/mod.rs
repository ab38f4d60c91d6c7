//! A run that may continue, seen from inside its job: what a start begins with, and what follows when it has ended.

mod begin;
mod decide;
mod end;
mod scale;

pub(crate) use scale::{Scaled, scale};

use std::time::Duration;

use crate::app::error::{Error, failure};
use crate::app::exec::context;
use crate::app::session::{PATIENCE, Session, within};
use crate::app::track::status_by_files;
use crate::foundation::clock::now_ms;
use crate::job::{Resume, SchedulerVariables};
use crate::launch::Plan;
use crate::node::supervise::Context;
use crate::observe::checkpoint::Checkpoints;
use crate::record::rundir::{Attempt, Reading, RunDir, StateDir};
use crate::record::{AttemptEnd, Checkpoint, ExitStatus, Status};
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
}

/// Before the command: prints what the batch script hands on, one `NAME=VALUE` a line, or `stop=WHY` with a `code`.
pub(crate) fn begin(session: &Session) -> Result<u8, Error> {
    let start = Start::open(session)?;
    let lines = start.begin()?;
    session.output.raw(lines.as_bytes())?;
    Ok(0)
}

/// After the end mark: decides whether the run continues, and sees to it.
pub(crate) fn again(session: &Session, code: i32, signals: &str) -> Result<u8, Error> {
    Start::open(session)?.end(code, signals)?;
    Ok(0)
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
            let before = earlier.map(|attempt| run.outcome(attempt)).collect();
            Ok((run, before))
        })?;
        Ok(Self {
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

    /// When `dlrun cancel` was asked.
    fn verdicts_of(&self, reading: &Reading) -> Option<u64> {
        let mut outcome = reading.outcome.clone();
        let verdicts = self.run.verdicts();
        match &self.plan.resources.array {
            Some(_) => verdicts.add_to_element(self.attempt.element, None, &mut outcome),
            None => verdicts.add_to(&mut outcome),
        }
        outcome.cancel_asked_at_ms
    }

    /// The job's id as its scheduler's commands know it.
    fn job_name(&self) -> Option<String> {
        let mut all = SchedulerVariables::ALL
            .iter()
            .filter(|it| it.kinds.contains(&self.plan.scheduler));
        all.find_map(|variables| std::env::var(variables.job_id).ok())
    }

    fn standing(&self) -> Option<Standing> {
        let scheduler = self.session.scheduler(self.plan.scheduler).ok()?;
        scheduler.standing(&self.job_name()?)
    }

    fn ends_at_ms(&self, standing: Option<Standing>) -> Option<u64> {
        let planned = self
            .plan
            .resources
            .walltime
            .map(|walltime| Duration::from_secs(walltime.0));
        let planned = planned
            .map(|walltime| now_ms() + u64::try_from(walltime.as_millis()).unwrap_or(u64::MAX));
        standing.and_then(|it| it.ends_at_ms).or(planned)
    }

    fn ends(&self) -> Vec<AttemptEnd> {
        let attempts = self
            .before
            .iter()
            .filter_map(|reading| reading.outcome.attempt.as_ref());
        attempts.filter_map(|attempt| attempt.end.clone()).collect()
    }

    fn newest(&self) -> Option<Checkpoint> {
        self.newest_after(self.before.last().unwrap_or(&Reading::default()))
    }

    /// The newest checkpoint after a start has ended. What a program was writing when it was killed is not taken.
    fn newest_after(&self, last: &Reading) -> Option<Checkpoint> {
        let killed = last
            .outcome
            .end
            .as_ref()
            .filter(|end| end.exit() == Some(ExitStatus::Signal(9)));
        let limit = killed.map(|end| end.at_ms.saturating_sub(HALF_WRITTEN_MS));
        let checkpoints = Checkpoints::new(&self.resume, &self.plan.workdir, self.attempt.element);
        checkpoints.newest(|checkpoint| limit.is_none_or(|limit| checkpoint.modified_ms < limit))
    }

    /// What the run has taken up to now, in hours of nodes. A start without an end mark counts up to the next one.
    fn node_hours(&self) -> f64 {
        let own = self.run.marks(self.attempt);
        let marks: Vec<&Reading> = self.before.iter().chain([&own]).collect();
        let begun: Vec<Option<u64>> = marks
            .iter()
            .map(|reading| Some(reading.outcome.start.as_ref()?.at_ms))
            .collect();
        let spent = marks.iter().enumerate().filter_map(|(index, reading)| {
            let start = begun[index]?;
            let next = begun.get(index + 1).copied().flatten();
            let end = reading
                .outcome
                .end
                .as_ref()
                .map(|end| end.ended_at_ms(reading.outcome.start.as_ref()));
            Some(end.or(next).unwrap_or_else(now_ms).saturating_sub(start))
        });
        let hours = Duration::from_millis(spent.sum()).as_secs_f64() / 3600.0;
        hours * f64::from(self.plan.resources.nodes.max(1))
    }
}
