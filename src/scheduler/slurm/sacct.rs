//! `sacct --noheader --parsable2 --allocations --format=.. --jobs=1,2,3`: accounting, where the site keeps it.
//!
//! Ten times slower than `squeue`, so asked only when history is wanted. The exit code is not taken from here: `sacct`
//! prints codes above 127 less 128 (22.05 and 24.11).

use super::{Slurm, failed, own_entries, states};
use crate::job::JobId;
use crate::record::QueueEntry;
use crate::scheduler::{Entries, JobRef, SchedulerError};

const FORMAT: &str = "--format=JobID,State,Submit,Start,End,NodeList,Reason";

pub(super) fn history(slurm: &Slurm, jobs: &[JobRef]) -> Result<Entries, SchedulerError> {
    if jobs.is_empty() {
        return Ok(Entries::new());
    }
    let ids: Vec<&str> = jobs.iter().map(|job| job.job_id.0.as_str()).collect();
    let tool = slurm
        .tool("sacct")
        .args(["--noheader", "--parsable2", "--allocations", FORMAT])
        .arg(format!("--jobs={}", ids.join(",")));
    let output = tool.run().and_then(|output| output.require_success("sacct"));
    let output = output.map_err(failed("list past jobs".to_owned()))?;
    Ok(own_entries(jobs, output.stdout.lines().filter_map(entry).collect()))
}

fn entry(line: &str) -> Option<QueueEntry> {
    let fields: Vec<&str> = line.splitn(7, '|').map(str::trim).collect();
    let [id, raw, submitted, started, ended, nodes, reason] = fields[..] else { return None };
    Some(QueueEntry {
        job_id: JobId(id.to_owned()),
        state: states::state(raw),
        raw_state: raw.to_owned(),
        reason: states::reason(reason),
        submitted_at_ms: states::time_ms(submitted),
        started_at_ms: states::time_ms(started),
        ended_at_ms: states::time_ms(ended),
        exit: None,
        nodes: Some(nodes).filter(|nodes| !nodes.is_empty() && *nodes != "None assigned").map(str::to_owned),
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
        let cancelled =
            entry("110|CANCELLED by 1001|1795184521|1795184522|1795184530|n1|None").expect("a line");
        assert_eq!((cancelled.state, cancelled.ended_at_ms), (JobState::Cancelled, Some(1_795_184_530_000)));
        assert_eq!(entry("Slurm accounting storage is disabled"), None);
    }
}
