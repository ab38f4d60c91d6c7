//! What schedulers write into a job's output when they end it: the only witness where nobody asked in time and there is
//! no accounting.

use super::CauseKind;

/// Only this much of the end of a file is looked at, in bytes.
pub const NOTICE_TAIL_BYTES: u64 = 8 << 10;

/// A scheduler's word on a job's end, found in its output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice {
    /// What ended the job.
    pub kind: CauseKind,
    /// The line.
    pub line: String,
    /// The job that the line names; lines of the PBS family name none.
    pub job: Option<String>,
}

/// Finds the notice that explains the end best in the end of a job's output, the last of equal ones. `jobs` are the ids that may stand in it: a line that names another
/// job is that job's, which a program may well print.
///
/// Slurm 20.11 to 24.11 and the PBS family, by recorded output.
#[must_use]
pub fn find_notice(tail: &[u8], jobs: &[&str]) -> Option<Notice> {
    notices(&String::from_utf8_lossy(tail))
        .filter(|notice| notice.job.as_deref().is_none_or(|job| jobs.contains(&job)))
        .max_by_key(Notice::weight)
}

/// All notices in a text, whosever they are.
pub fn notices(text: &str) -> impl Iterator<Item = Notice> {
    text.lines()
        .filter_map(|line| slurm(line).or_else(|| pbs(line)))
}

impl Notice {
    /// How well it explains an end, against other notices of the same job.
    #[must_use]
    pub fn weight(&self) -> u8 {
        match self.kind {
            // Slurm's words for any kill that has no reason of its own.
            CauseKind::Cancel => 0,
            // Counted when a job ends for whatever reason.
            CauseKind::Memory => 1,
            _ => 2,
        }
    }
}

/// `slurmstepd: error: *** JOB 12 ON n1 CANCELLED AT 2026-11-20T12:02:01 DUE TO TIME LIMIT ***`
fn slurm(line: &str) -> Option<Notice> {
    // A node daemon with a name prints it: `slurmstepd-n1`.
    let (who, message) = line.split_once(": ")?;
    let message = message.trim_start_matches("error: ");
    if !who.trim().starts_with("slurmstepd") {
        return None;
    }
    let notice = |kind, job: &str| {
        // `12`, `12.batch`, `12.0`
        let job = job.split('.').next().unwrap_or(job).to_owned();
        Some(Notice {
            kind,
            line: line.trim().to_owned(),
            job: Some(job),
        })
    };
    if message.starts_with("Detected ")
        && (message.contains("oom_kill event") || message.contains("oom-kill event"))
    {
        let step = message
            .split_once("StepId=")
            .or_else(|| message.split_once("step "))?
            .1;
        let step = step.split([' ', ',']).next()?;
        return notice(CauseKind::Memory, step.trim_end_matches('.'));
    }
    let mut words = message.strip_prefix("*** ")?.split_whitespace();
    let (what, job) = (words.next()?, words.next()?);
    let (_, why) = message.split_once(" CANCELLED AT ")?;
    let why = why.to_ascii_uppercase();
    let kind = match why.split_once(" DUE TO ").map(|(_, why)| why) {
        Some(why) if why.starts_with("TIME LIMIT") => CauseKind::TimeLimit,
        Some(why) if why.starts_with("PREEMPTION") => CauseKind::Preemption,
        Some(why) if why.starts_with("NODE FAILURE") => CauseKind::Node,
        Some(why) if why.contains("MEMORY") => CauseKind::Memory,
        // The job starts again: this is not an end.
        Some(why) if why.starts_with("JOB REQUEUE") => return None,
        // A script may cancel its own steps.
        _ if what == "JOB" => CauseKind::Cancel,
        _ => return None,
    };
    notice(kind, job)
}

/// `=>> PBS: job killed: walltime 7 exceeded limit 3`
fn pbs(line: &str) -> Option<Notice> {
    let message = line.trim().strip_prefix("=>> PBS: job killed: ")?;
    let kind = match message.split_whitespace().next()? {
        "walltime" | "cput" | "pcput" => CauseKind::TimeLimit,
        "mem" | "vmem" | "pmem" | "pvmem" => CauseKind::Memory,
        "node" => CauseKind::Node,
        _ => return None,
    };
    Some(Notice {
        kind,
        line: line.trim().to_owned(),
        job: None,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn kind(text: &str) -> Option<CauseKind> {
        find_notice(text.as_bytes(), &["12"]).map(|notice| notice.kind)
    }

    #[test]
    fn real_lines_are_recognised() {
        for (line, expected) in [
            (
                "slurmstepd: error: *** JOB 12 ON n1 CANCELLED AT 2026-11-20T12:02:01 DUE TO TIME LIMIT ***",
                CauseKind::TimeLimit,
            ),
            (
                "slurmstepd: error: *** STEP 12.0 ON n1 CANCELLED AT 2026-11-20T12:02:01 DUE TO TIME LIMIT ***",
                CauseKind::TimeLimit,
            ),
            (
                "slurmstepd-n1: error: *** JOB 12 ON n1 CANCELLED AT 2026-11-20T21:23:24 DUE TO TIME LIMIT ***",
                CauseKind::TimeLimit,
            ),
            (
                "slurmstepd: error: *** JOB 12 ON n1 CANCELLED AT 2026-11-20T12:02:01 DUE TO PREEMPTION ***",
                CauseKind::Preemption,
            ),
            (
                "slurmstepd: error: *** JOB 12 ON n1 CANCELLED AT 2026-11-20T12:02:01 DUE TO NODE FAILURE, SEE SLURMCTLD LOG FOR DETAILS ***",
                CauseKind::Node,
            ),
            (
                "slurmstepd: error: *** JOB 12 ON n1 CANCELLED AT 2026-11-20T12:02:01 ***",
                CauseKind::Cancel,
            ),
            (
                "slurmstepd: error: *** JOB 12 ON n1 CANCELLED AT 2026-11-20T12:02:01 DUE to SIGNAL Terminated ***",
                CauseKind::Cancel,
            ),
            (
                "slurmstepd: error: Detected 1 oom-kill event(s) in StepId=12.batch. Some of your processes may have been killed by the cgroup out-of-memory handler.",
                CauseKind::Memory,
            ),
            (
                "slurmstepd: error: Detected 1 oom_kill event in StepId=12.batch. Some of the step tasks have been OOM Killed.",
                CauseKind::Memory,
            ),
            (
                "slurmstepd: error: Detected 3 oom-kill event(s) in step 12.0 cgroup. Some of your processes may have been killed",
                CauseKind::Memory,
            ),
            (
                "slurmstepd: *** JOB 12 CANCELLED AT 2018-08-06T17:21:44 DUE TO TIME LIMIT on n447 ***",
                CauseKind::TimeLimit,
            ),
            (
                "=>> PBS: job killed: walltime 7 exceeded limit 3",
                CauseKind::TimeLimit,
            ),
            (
                "=>> PBS: job killed: mem 2097152kb exceeded limit 1048576kb",
                CauseKind::Memory,
            ),
            (
                "=>> PBS: job killed: vmem 3145728kb exceeded limit 1048576kb",
                CauseKind::Memory,
            ),
        ] {
            assert_eq!(kind(line), Some(expected), "{line}");
            assert_eq!(
                kind(&format!("epoch 1\r\n{line}\r\n")),
                Some(expected),
                "{line}"
            );
        }
    }

    #[test]
    fn what_ends_no_job_of_ours_is_passed_over() {
        for line in [
            "slurmstepd: error: *** JOB 13 ON n1 CANCELLED AT 2026-11-20T12:02:01 DUE TO TIME LIMIT ***",
            "slurmstepd: error: *** JOB 12 ON n1 CANCELLED AT 2026-11-20T12:02:01 DUE TO JOB REQUEUE ***",
            "slurmstepd: error: *** STEP 12.0 ON n1 CANCELLED AT 2026-11-20T12:02:01 ***",
            "slurmstepd: error: couldn't chdir to `/x': No such file or directory",
            "DUE TO TIME LIMIT",
            "=>> PBS: job killed: ",
            "",
        ] {
            assert_eq!(kind(line), None, "{line}");
        }
    }

    #[test]
    fn of_several_lines_the_one_that_explains_counts() {
        let limit = "slurmstepd: error: *** JOB 12 ON n1 CANCELLED AT 2026-11-20T12:02:01 DUE TO TIME LIMIT ***";
        let memory = "slurmstepd: error: Detected 1 oom_kill event in StepId=12.batch. Some of the step tasks";
        let cancel = "slurmstepd: error: *** JOB 12 ON n1 CANCELLED AT 2026-11-20T12:02:09 ***";
        assert_eq!(
            kind(&format!("{limit}\n{memory}\n")),
            Some(CauseKind::TimeLimit)
        );
        assert_eq!(
            kind(&format!("{memory}\n{limit}\n")),
            Some(CauseKind::TimeLimit)
        );
        assert_eq!(
            kind(&format!("{memory}\n{cancel}\n")),
            Some(CauseKind::Memory)
        );
        assert_eq!(kind(&format!("{cancel}\n")), Some(CauseKind::Cancel));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_panic(
            head in "(slurmstepd(-n1)?: error: |=>> PBS: job killed: )?(\\*\\*\\* |Detected )?",
            bytes in proptest::collection::vec(any::<u8>(), 0..80),
        ) {
            let _ = find_notice(&[head.as_bytes(), &bytes].concat(), &["12"]);
        }
    }
}
