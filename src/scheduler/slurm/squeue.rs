//! `squeue --noheader --states=all --format=%i|%T|%V|%S|%e|%N|%r --jobs=1,2,3`
//!
//! One question for any number of jobs. Finished jobs stay known for `MinJobAge` (300 s by default). Of several ids
//! unknown ones are left out of the answer; a single unknown one is an error, which here means the same.

use super::{NAME, Slurm, failed, own_entries, states, unanswered, unreachable};
use crate::job::JobId;
use crate::record::QueueEntry;
use crate::scheduler::{Entries, JobRef, SchedulerError};

/// Id, state, submitted, start, end, nodes, reason. No field before the last can hold a `|`.
const FORMAT: &str = "--format=%i|%T|%V|%S|%e|%N|%r";

pub(super) fn queue(slurm: &Slurm, jobs: &[JobRef]) -> Result<Entries, SchedulerError> {
    if jobs.is_empty() {
        return Ok(Entries::new());
    }
    let ids: Vec<&str> = jobs.iter().map(|job| job.job_id.0.as_str()).collect();
    let tool = slurm
        .tool("squeue")
        .args(["--noheader", "--states=all", FORMAT])
        .arg(format!("--jobs={}", ids.join(",")));
    let what = || "list jobs".to_owned();
    let output = tool.run().map_err(failed(what()))?;
    if !output.status.success() {
        if output.stderr.contains("Invalid job id specified") {
            return Ok(Entries::new());
        }
        let no_answer = unreachable(&output) || unanswered(&output);
        return Err(match output.require_success("squeue") {
            Err(source) if no_answer => SchedulerError::Unreachable { scheduler: NAME, source },
            Err(source) => failed(what())(source),
            Ok(_) => unreachable!("the status was tested"),
        });
    }
    Ok(own_entries(jobs, output.stdout.lines().filter_map(entry).collect()))
}

fn entry(line: &str) -> Option<QueueEntry> {
    let mut fields = line.splitn(7, '|').map(str::trim);
    let (id, raw) = (fields.next()?, fields.next()?);
    let state = states::state(raw);
    let mut time = || fields.next().and_then(states::time_ms);
    let (submitted_at_ms, started_at_ms, ended_at_ms) = (time(), time(), time());
    let nodes = fields.next().filter(|nodes| !nodes.is_empty()).map(str::to_owned);
    Some(QueueEntry {
        job_id: JobId(id.to_owned()),
        state,
        raw_state: raw.to_owned(),
        reason: fields.next().and_then(states::reason),
        submitted_at_ms,
        // A pending job's start and a running job's end are expectations, not facts.
        started_at_ms: started_at_ms.filter(|_| state != crate::job::JobState::Pending),
        ended_at_ms: ended_at_ms.filter(|_| state.is_final()),
        exit: None,
        nodes,
        elements: None,
        stuck: false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::JobState;

    #[test]
    fn lines_are_read() {
        let running = entry("103|RUNNING|1795184521|1795184522|1795184822|n[1-2]|None").expect("a line");
        assert_eq!((running.state, running.nodes.as_deref()), (JobState::Running, Some("n[1-2]")));
        assert_eq!((running.ended_at_ms, running.reason), (None, None));
        let pending =
            entry("104|PENDING|1795184521|N/A|N/A||ReqNodeNotAvail, UnavailableNodes:n4").expect("a line");
        assert_eq!(pending.reason.as_deref(), Some("ReqNodeNotAvail, UnavailableNodes:n4"));
        assert_eq!(entry(""), None);
    }
}
