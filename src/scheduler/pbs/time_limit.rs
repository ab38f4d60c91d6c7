//! The time limit of a running job, and the longest that its queue allows: `qstat -f`, `qstat -Q -f`.

use super::answer::{Thing, read_text};
use super::values::walltime;
use crate::scheduler::commands::Commands;
use crate::scheduler::{SchedulerError, TimeLimit};

/// The limit of a job; `None`: it has none.
pub(super) fn time_limit(pbs: &Commands, job: &str) -> Result<Option<TimeLimit>, SchedulerError> {
    Ok(limit_of(&shown(pbs, &["-f", job])?))
}

fn limit_of(job: &Thing) -> Option<TimeLimit> {
    Some(TimeLimit {
        limit: time(job, "Resource_List.walltime")?,
        ran: time(job, "resources_used.walltime").unwrap_or(0),
    })
}

/// The longest limit that a job may have, in seconds; `None`: any.
pub(super) fn longest(pbs: &Commands, job: &str) -> Result<Option<u64>, SchedulerError> {
    let job = shown(pbs, &["-f", job])?;
    let Some(queue) = job.get("queue") else {
        return Ok(None);
    };
    Ok(time(
        &shown(pbs, &["-Q", "-f", queue])?,
        "resources_max.walltime",
    ))
}

fn shown(pbs: &Commands, question: &[&str]) -> Result<Thing, SchedulerError> {
    let what = format!("show {}", question.last().unwrap_or(&""));
    let printed = pbs.printed("qstat", question, &[], &what)?;
    Ok(read_text(&printed).pop().unwrap_or_default())
}

fn time(thing: &Thing, name: &str) -> Option<u64> {
    walltime(thing.get(name)?).map(|time| time.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limit_is_read_and_may_be_missing() {
        let of = |lines: &str| {
            let text = format!("Job Id: 14.vm\n    queue = workq\n{lines}");
            limit_of(&read_text(&text).pop().expect("a job"))
        };
        let limit = "    Resource_List.walltime = 01:00:00\n";
        let used = "    resources_used.walltime = 00:10:05\n";
        let expected = |ran| Some(TimeLimit { limit: 3600, ran });
        assert_eq!(of(&format!("{limit}{used}")), expected(605));
        assert_eq!(of(limit), expected(0));
        assert_eq!(of(used), None);
    }
}
