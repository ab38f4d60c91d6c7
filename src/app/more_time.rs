//! More time for the job that this runs in: its scheduler is asked where what is left will not suffice.

use crate::app::error::{Error, failure};
use crate::app::exec::{context, job_name};
use crate::app::session::Session;
use crate::foundation::diagnostic::chain;
use crate::foundation::units::Walltime;
use crate::node::supervise::Answer;
use crate::scheduler::{Scheduler, SchedulerError, TimeLimit};

/// Slurm counts limits in minutes.
const STEP: u64 = 60;

/// Prints an [`Answer`]. `need`: seconds that the run needs from now on at least, most likely and at most. An error means that the
/// scheduler gave no answer.
pub(crate) fn more_time(session: &Session, need: &[u64]) -> Result<u8, Error> {
    let missing = |what: &str| failure!(Internal, "the job has no {what}");
    let plan = context().plan.ok_or_else(|| missing("plan"))?;
    let job = job_name(plan.scheduler).ok_or_else(|| missing("id"))?;
    let need: [u64; 3] = need.try_into().map_err(|_| missing("need"))?;
    let scheduler = session.scheduler(plan.scheduler)?;
    let mut answer = Answer::default();
    if let Some(limit) = scheduler.time_limit(&job)? {
        answer.left_seconds = Some(left(limit));
        let own = plan.extend_up_to.filter(|_| need[0] > left(limit));
        let raised = own.map(|own| raise(&*scheduler, &job, (limit, need, own), &mut answer));
        match raised.transpose() {
            Err(error @ SchedulerError::Unreachable { .. }) => return Err(error.into()),
            Err(error) => answer.kept = Some(chain(&error).join(": ")),
            Ok(_) => {}
        }
    }
    let line = serde_json::to_string(&answer).unwrap_or_default();
    session.output.raw(line.as_bytes())?;
    Ok(0)
}

fn left(limit: TimeLimit) -> u64 {
    limit.limit.saturating_sub(limit.ran)
}

/// Asks for a limit up to `own`, and notes what came of it.
fn raise(
    scheduler: &dyn Scheduler,
    job: &str,
    (limit, need, own): (TimeLimit, [u64; 3], u64),
    answer: &mut Answer,
) -> Result<(), SchedulerError> {
    let most = scheduler.longest_limit(job)?.unwrap_or(own).min(own);
    let before = Walltime(limit.limit);
    let seconds = match wanted(limit, need, most) {
        Ok(seconds) => seconds,
        Err(least) => {
            let (least, most) = (Walltime(least), Walltime(most));
            let text = format!(
                "the run is likely to need a time limit of {least} in place of {before}, and the longest that dlrun may ask for is {most}"
            );
            answer.kept = Some(text);
            return Ok(());
        }
    };
    let asked = format!(
        "dlrun asked for a time limit of {} in place of {before}",
        Walltime(seconds)
    );
    let words = match scheduler.set_time_limit(job, seconds) {
        Err(error @ SchedulerError::Unreachable { .. }) => return Err(error),
        Err(error) => Some(chain(&error).join(": ")),
        Ok(()) => None,
    };
    let now = scheduler.time_limit(job)?.unwrap_or(limit);
    answer.left_seconds = Some(left(now));
    match words {
        None if now.limit > limit.limit => {
            answer.raised = Some(format!("{asked}; it is {} now", Walltime(now.limit)));
        }
        words => {
            let words = words.unwrap_or_else(|| "the scheduler did not raise it".to_owned());
            answer.kept = Some(format!("{asked}: {words}"));
        }
    }
    Ok(())
}

/// The limit to ask for, in seconds; an error where the longest one would most likely not suffice: the one that would.
fn wanted(limit: TimeLimit, need: [u64; 3], most: u64) -> Result<u64, u64> {
    let [_, likely, latest] = need.map(|seconds| (limit.ran + seconds).div_ceil(STEP) * STEP);
    let most = most / STEP * STEP;
    if likely > most {
        return Err(likely);
    }
    Ok(latest.min(most))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn asked_is_for_what_the_run_needs_within_what_it_may_have() {
        let limit = TimeLimit {
            limit: 3600,
            ran: 1000,
        };
        let of = |need, most| wanted(limit, need, most);
        assert_eq!(of([3000, 3500, 4010], 36_000), Ok(5040));
        assert_eq!(of([3000, 3500, 4010], 4859), Ok(4800));
        assert_eq!(of([3000, 3500, 4010], 4500), Ok(4500));
        assert_eq!(of([3000, 3510, 4010], 4500), Err(4560));
        assert_eq!(of([3000, 3500, 4010], 3600), Err(4500));
    }
}
