//! `sacct --noheader --parsable2 --allocations --format=.. --jobs=1,2,3`: accounting, where the site keeps it.
//!
//! Ten times slower than `squeue`, so asked only when history is wanted. `sacct` prints exit codes above 127 less 128
//! (22.05 and 24.11), so of a job that failed by one of two codes both are shown and none is taken for true. Times are epoch
//! seconds (`SLURM_TIME_FORMAT=%s`); names, which may hold a `|`, are not asked for.

use super::NAME;
use super::own::Line;
use super::squeue::gathered;
use crate::job::JobState;
use crate::record::ExitStatus;
use crate::scheduler::commands::Commands;
use crate::scheduler::{Entries, JobRef, SchedulerError};

const FORMAT: &str = "--format=JobID,State,ExitCode,Submit,Start,End,NodeList,Reason";

pub(super) fn history(slurm: &Commands, jobs: &[JobRef]) -> Result<Entries, SchedulerError> {
    gathered(jobs, line, |ids| ask(slurm, ids))
}

fn ask(slurm: &Commands, ids: &str) -> Result<String, SchedulerError> {
    let tool = slurm
        .tool("sacct")
        .args(["--noheader", "--parsable2", "--allocations", FORMAT])
        .arg(format!("--jobs={ids}"));
    let output = slurm.ask(&tool, "list past jobs")?;
    let is_off = output.stderr.contains("accounting storage is disabled");
    let output = output.require_success("sacct");
    match output {
        Ok(output) => Ok(output.stdout),
        Err(source) if is_off => Err(SchedulerError::NoHistory {
            scheduler: NAME,
            source: Some(source),
        }),
        Err(source) => Err(slurm.failed("list past jobs", source)),
    }
}

/// A line that was cut off lacks fields, and says nothing.
fn line(text: &str) -> Option<Line> {
    let fields: Vec<&str> = text.splitn(8, '|').map(str::trim).collect();
    let [id, raw, code, submitted, started, ended, nodes, reason] = fields[..] else {
        return None;
    };
    let nodes = nodes.trim_start_matches("None assigned");
    let fields = [id, raw, submitted, started, ended, nodes, reason];
    Line::read(fields, |state| exit(code, state))
}

/// `CODE:SIGNAL` as far as it can be believed, and else what it may mean. Slurm's own signals above 64 (`0:125` for want
/// of memory, `0:53` for an output that cannot be opened) are none.
fn exit(text: &str, state: JobState) -> (Option<ExitStatus>, Option<String>) {
    let Some((code, signal)) = text.split_once(':') else {
        return (None, None);
    };
    match (code.parse::<u8>(), signal.parse::<i32>(), state) {
        (Ok(0), Ok(0), JobState::Completed) => (Some(ExitStatus::Code(0)), None),
        (Ok(_), Ok(signal @ (1..=52 | 54..=64)), _) => (Some(ExitStatus::Signal(signal)), None),
        (Ok(0), Ok(53), JobState::Failed) => (
            None,
            Some("the output could not be opened (0:53)".to_owned()),
        ),
        (Ok(code @ 1..=127), Ok(0), JobState::Failed) => (
            None,
            Some(format!("exit code {code} or {}", u16::from(code) + 128)),
        ),
        _ => (None, None),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::record::QueueEntry;

    fn entry(text: &str) -> Option<QueueEntry> {
        line(text).map(|line| line.entry)
    }

    #[test]
    fn lines_are_read() {
        let text = "110|CANCELLED by 1001|0:15|1795184521|1795184522|1795184530|n1|None";
        let cancelled = entry(text).expect("a line");
        assert_eq!(
            (cancelled.state, cancelled.ended_at_ms),
            (JobState::Cancelled, Some(1_795_184_530_000))
        );
        assert_eq!(cancelled.exit, Some(ExitStatus::Signal(15)));
        let pending =
            entry("131_[2-3%1]|PENDING|0:0|1795184521|Unknown|Unknown|None assigned|None")
                .expect("a line");
        assert_eq!(
            (pending.started_at_ms, pending.nodes, pending.exit),
            (None, None, None)
        );
        for text in [
            "Slurm accounting storage is disabled",
            "110.batch|FAILED|0:9|1|2|3|n1|",
            "",
        ] {
            assert_eq!(entry(text), None, "{text}");
        }
    }

    #[test]
    fn a_code_that_may_be_another_is_not_taken_for_true() {
        let read = |code, state| exit(code, state);
        assert_eq!(
            read("0:0", JobState::Completed),
            (Some(ExitStatus::Code(0)), None)
        );
        // 128, or no code at all.
        assert_eq!(read("0:0", JobState::Failed), (None, None));
        assert_eq!(
            read("2:0", JobState::Failed),
            (None, Some("exit code 2 or 130".to_owned()))
        );
        assert_eq!(
            read("0:9", JobState::Failed),
            (Some(ExitStatus::Signal(9)), None)
        );
        assert_eq!(read("0:125", JobState::OutOfMemory), (None, None));
        assert_eq!(read("0:0", JobState::Timeout), (None, None));
        assert_eq!(read("", JobState::Failed), (None, None));
    }

    proptest! {
        #[test]
        fn any_line_is_read_without_panic(text in "[0-9_+\\[\\]|A-Z ,.%:-]{0,60}|\\PC{0,40}") {
            let _ = line(&text);
        }
    }
}
