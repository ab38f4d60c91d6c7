//! What `resources.depends` names: runs of dlrun's and jobs of the scheduler's.
//!
//! Slurm 22.05 takes an id that it does not know for a job that ended well, so every target is looked at.

use std::collections::BTreeMap;

use crate::app::error::{Error, Kind, failure};
use crate::app::job::source::Source;
use crate::app::session::Session;
use crate::app::track::{Tracker, found};
use crate::foundation::diagnostic::Problem;
use crate::job::{Dependency, JobId, JobSpec, JobState, Located, RunId, SchedulerKind};
use crate::plan::TargetFacts;
use crate::record::store::Found;
use crate::scheduler::JobRef;

/// What became of each target, by its text.
pub(crate) type Targets = BTreeMap<String, TargetFacts>;

/// Looks for the targets of a job that goes to `scheduler`. Without `check` nobody is asked, and job ids are taken as they
/// are.
pub(crate) fn targets(
    session: &Session,
    source: &Source,
    spec: &JobSpec,
    scheduler: SchedulerKind,
    check: bool,
) -> Result<Targets, Error> {
    let mut look = Look {
        session,
        scheduler,
        check,
        tracker: tracker(session)?,
    };
    let (mut targets, mut problems, mut kind) = (Targets::new(), Vec::new(), Kind::JobFile);
    for Located {
        value: Dependency { target, .. },
        span,
    } in &spec.resources.depends
    {
        if targets.contains_key(target) {
            continue;
        }
        match look.at(target) {
            Ok(facts) => {
                targets.insert(target.clone(), facts);
            }
            // No job can wait for it: that is wrong in the job file.
            Err(error) if matches!(error.kind, Kind::Missing | Kind::JobFile) => {
                if error.kind == Kind::Missing {
                    kind = Kind::Missing;
                }
                let message = format!("`resources.depends`: {}", error.message());
                let problem = Problem::at(span.clone(), message);
                problems.push(match error.hints().first() {
                    Some(hint) => problem.hinted(hint),
                    None => problem,
                });
            }
            Err(error) => return Err(error),
        }
    }
    match problems.is_empty() {
        true => Ok(targets),
        false => Err(source.error(kind, problems)),
    }
}

struct Look<'a> {
    session: &'a Session,
    scheduler: SchedulerKind,
    check: bool,
    /// `None` where there are no runs yet.
    tracker: Option<Tracker<'a>>,
}

fn tracker(session: &Session) -> Result<Option<Tracker<'_>>, Error> {
    match Tracker::open(session) {
        Err(error) if error.kind == Kind::Missing => Ok(None),
        other => other.map(Some),
    }
}

impl Look<'_> {
    fn at(&mut self, target: &str) -> Result<TargetFacts, Error> {
        let known = match &mut self.tracker {
            Some(tracker) => tracker.look_up(target)?,
            None => Found::None,
        };
        let is_job = target.starts_with(|c: char| c.is_ascii_digit());
        match known {
            Found::None if is_job && self.check => self.job(target),
            Found::None if is_job => Ok(TargetFacts::Jobs(vec![JobId(target.to_owned())])),
            known => self.run(target, &found(known, target)?),
        }
    }

    /// A run of dlrun's: its jobs, or how it ended.
    fn run(&mut self, target: &str, run_id: &RunId) -> Result<TargetFacts, Error> {
        let Some(tracker) = &mut self.tracker else {
            return Ok(TargetFacts::Unknown);
        };
        let (record, state) = if self.check {
            let seen = tracker.look_at(run_id, false)?;
            (seen.record, seen.status.state)
        } else {
            let row = tracker.store.run(run_id)?;
            let row = row.ok_or_else(|| failure!(Internal, "the run vanished"))?;
            (row.record, row.status.state)
        };
        if state.is_final() {
            return Ok(TargetFacts::Over(state));
        }
        if record.scheduler != self.scheduler {
            let (there, here) = (record.scheduler.as_str(), self.scheduler.as_str());
            return Err(failure!(
                JobFile,
                "`{target}` is a run on {there}, and this job goes to {here}"
            )
            .hinted("a scheduler waits for its own jobs only"));
        }
        let Some(first) = record.job_id else {
            return Err(failure!(Missing, "run `{target}` has no job id yet"));
        };
        if state == JobState::Unknown && self.check {
            return Err(failure!(
                Missing,
                "what became of run `{target}` is not known"
            ));
        }
        if is_element(target) {
            return Ok(TargetFacts::Jobs(vec![JobId(target.to_owned())]));
        }
        let mut jobs = vec![first];
        jobs.extend(record.parts.into_iter().map(|part| part.job_id));
        jobs.dedup();
        Ok(TargetFacts::Jobs(jobs))
    }

    /// A job that is none of ours: the scheduler is asked whether it knows it.
    fn job(&self, target: &str) -> Result<TargetFacts, Error> {
        let job = JobRef {
            run_id: RunId::from_random([0; 10]),
            job_id: JobId(target.to_owned()),
            parts: Vec::new(),
            submitted_at_ms: None,
            run_dir: std::path::PathBuf::new(),
        };
        let scheduler = self.session.scheduler(self.scheduler)?;
        let mut entries = scheduler.queue(std::slice::from_ref(&job))?;
        let entries = entries.remove(&job.run_id).unwrap_or_default();
        let all_over = entries.iter().all(|entry| entry.state.is_final());
        match entries.iter().map(|entry| entry.state).max() {
            Some(worst) if all_over => Ok(TargetFacts::Over(worst)),
            Some(_) => Ok(TargetFacts::Jobs(vec![job.job_id])),
            None => {
                let scheduler = self.scheduler.as_str();
                Err(failure!(Missing, "{scheduler} knows no job `{target}`")
                    .hinted("a job that ended long ago is forgotten; `--no-check` takes it unseen"))
            }
        }
    }
}

/// `95_3`: one element of an array, as Slurm writes it.
fn is_element(target: &str) -> bool {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    target
        .split_once('_')
        .is_some_and(|(job, index)| digits(job) && digits(index))
}
