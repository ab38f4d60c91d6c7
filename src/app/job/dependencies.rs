//! What `resources.depends` names: runs of dlrun's and jobs of the scheduler's.
//!
//! Slurm 22.05 takes an id that it does not know for a job that ended well, so every target is looked at.

use std::collections::BTreeMap;

use crate::app::error::{Error, Kind, failure};
use crate::app::session::Session;
use crate::app::track::Tracker;
use crate::foundation::diagnostic::Problem;
use crate::job::{Dependency, JobId, JobSpec, JobState, Located, RunId, SchedulerKind};
use crate::plan::TargetFacts;
use crate::record::store::Found;
use crate::scheduler::JobRef;

/// What became of each target, by its text.
pub(crate) type Targets = BTreeMap<String, TargetFacts>;

/// Targets that no job can wait for, with the kind of the worst.
pub(crate) struct Untraceable {
    pub(crate) kind: Kind,
    pub(crate) problems: Vec<Problem>,
}

/// Looks for the targets of a job that goes to `scheduler`. Without `check` nobody is asked, and job ids are taken as they
/// are.
pub(crate) fn targets(
    session: &Session,
    spec: &JobSpec,
    scheduler: SchedulerKind,
    check: bool,
) -> Result<Result<Targets, Untraceable>, Error> {
    let mut targets = Targets::new();
    let mut untraceable = Untraceable {
        kind: Kind::JobFile,
        problems: Vec::new(),
    };
    let mut look = Look {
        session,
        scheduler,
        check,
        tracker: tracker(session)?,
    };
    for Located {
        value: Dependency { target, .. },
        span,
    } in &spec.resources.depends
    {
        if targets.contains_key(target) {
            continue;
        }
        match look.at(target)? {
            Ok(facts) => {
                targets.insert(target.clone(), facts);
            }
            Err(Fault { kind, text, hint }) => {
                if kind == Kind::Missing {
                    untraceable.kind = kind;
                }
                let problem = Problem::at(span.clone(), format!("`resources.depends`: {text}"));
                untraceable.problems.push(problem.hinted(hint));
            }
        }
    }
    Ok(if untraceable.problems.is_empty() {
        Ok(targets)
    } else {
        Err(untraceable)
    })
}

/// Why a target cannot be waited for.
struct Fault {
    kind: Kind,
    text: String,
    hint: String,
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
    fn at(&mut self, target: &str) -> Result<Result<TargetFacts, Fault>, Error> {
        let found = match &mut self.tracker {
            Some(tracker) => tracker.look_up(target)?,
            None => Found::None,
        };
        let is_job = target.starts_with(|c: char| c.is_ascii_digit());
        match found {
            Found::One(run_id) => self.run(target, &run_id),
            Found::None if is_job && self.check => self.job(target),
            Found::None if is_job => Ok(Ok(TargetFacts::Jobs(vec![JobId(target.to_owned())]))),
            Found::None => Ok(Err(missing(format!("there is no run or job `{target}`")))),
            Found::Ambiguous(run_ids) => {
                let some: Vec<String> = run_ids.iter().take(5).map(ToString::to_string).collect();
                let text = format!("`{target}` may mean {} runs", run_ids.len());
                let hint = format!("write more of the id: {}", some.join(", "));
                Ok(Err(Fault {
                    hint,
                    ..missing(text)
                }))
            }
        }
    }

    /// A run of dlrun's: its jobs, or how it ended.
    fn run(&mut self, target: &str, run_id: &RunId) -> Result<Result<TargetFacts, Fault>, Error> {
        let Some(tracker) = &mut self.tracker else {
            return Ok(Ok(TargetFacts::Unknown));
        };
        let (record, state) = if self.check {
            let seen = tracker.refresh(std::slice::from_ref(run_id), false)?;
            let seen = seen.into_iter().next();
            seen.map(|seen| (seen.record, seen.status.state))
        } else {
            tracker
                .store
                .run(run_id)?
                .map(|row| (row.record, row.status.state))
        }
        .ok_or_else(|| failure!(Internal, "the run vanished"))?;
        if state.is_final() {
            return Ok(Ok(TargetFacts::Over(state)));
        }
        if record.scheduler != self.scheduler {
            let (there, here) = (record.scheduler.as_str(), self.scheduler.as_str());
            let text = format!("`{target}` is a run on {there}, and this job goes to {here}");
            let hint = "a scheduler waits for its own jobs only".to_owned();
            return Ok(Err(Fault {
                kind: Kind::JobFile,
                text,
                hint,
            }));
        }
        let Some(first) = record.job_id else {
            return Ok(Err(missing(format!("run `{target}` has no job id yet"))));
        };
        if state == JobState::Unknown && self.check {
            return Ok(Err(missing(format!(
                "what became of run `{target}` is not known"
            ))));
        }
        if is_element(target) {
            return Ok(Ok(TargetFacts::Jobs(vec![JobId(target.to_owned())])));
        }
        let mut jobs = vec![first];
        let parts = record.parts.into_iter().map(|part| part.job_id);
        jobs.extend(
            parts
                .filter(|job_id| *job_id != jobs[0])
                .collect::<Vec<_>>(),
        );
        Ok(Ok(TargetFacts::Jobs(jobs)))
    }

    /// A job that is none of ours: the scheduler is asked whether it knows it.
    fn job(&self, target: &str) -> Result<Result<TargetFacts, Fault>, Error> {
        let job = JobRef {
            run_id: RunId::from_random([0; 10]),
            job_id: JobId(target.to_owned()),
            parts: Vec::new(),
            submitted_at_ms: None,
            run_dir: std::path::PathBuf::new(),
        };
        let scheduler = self.session.scheduler(self.scheduler)?;
        let entries = scheduler
            .queue(std::slice::from_ref(&job))?
            .remove(&job.run_id)
            .unwrap_or_default();
        let all_over = entries.iter().all(|entry| entry.state.is_final());
        Ok(match entries.iter().map(|entry| entry.state).max() {
            Some(worst) if all_over => Ok(TargetFacts::Over(worst)),
            Some(_) => Ok(TargetFacts::Jobs(vec![job.job_id])),
            None => {
                let text = format!("{} knows no job `{target}`", self.scheduler.as_str());
                let hint = "a job that ended long ago is forgotten; `--no-check` takes it unseen"
                    .to_owned();
                Err(Fault {
                    kind: Kind::Missing,
                    text,
                    hint,
                })
            }
        })
    }
}

/// `95_3`: one element of an array, as Slurm writes it.
fn is_element(target: &str) -> bool {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    target
        .split_once('_')
        .is_some_and(|(job, index)| digits(job) && digits(index))
}

fn missing(text: String) -> Fault {
    Fault {
        kind: Kind::Missing,
        text,
        hint: "`dlrun list` shows the runs".to_owned(),
    }
}
