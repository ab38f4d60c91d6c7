//! `squeue --noheader --states=all --format=%i|%T|%V|%S|%e|%N|%r --jobs=1,2,3`
//!
//! One question for any number of jobs. Finished jobs stay known for `MinJobAge` (300 s by default). Of several ids
//! unknown ones are left out of the answer; a single unknown one is an error, which here means the same.

use std::collections::BTreeSet;

use super::own::{Line, own_entries};
use super::reasons;
use crate::job::JobId;
use crate::record::RunRecord;
use crate::scheduler::commands::Commands;
use crate::scheduler::script::naming;
use crate::scheduler::{CLOCK_SKEW_MS, Entries, JobRef, RunJobs, SchedulerError};

/// Id, state, submitted, start, end, nodes, reason. No field before the last can hold a `|`.
const FORMAT: &str = "--format=%i|%T|%V|%S|%e|%N|%r";

/// Bytes of ids in one question. One argument may have 128 KiB (`MAX_ARG_STRLEN`); this is 10,000 jobs and more.
const IDS_BYTES: usize = 100_000;

pub(super) fn queue(slurm: &Commands, jobs: &[JobRef]) -> Result<Entries, SchedulerError> {
    gathered(jobs, line, |ids| ask(slurm, ids))
}

/// The jobs' own entries in the answers, by as few questions as command lines allow.
pub(super) fn gathered(
    jobs: &[JobRef],
    line: fn(&str) -> Option<Line>,
    ask: impl Fn(&str) -> Result<String, SchedulerError>,
) -> Result<Entries, SchedulerError> {
    let mut lines = Vec::new();
    for ids in questions(jobs) {
        lines.extend(ask(&ids)?.lines().filter_map(line));
    }
    Ok(own_entries(jobs, lines))
}

/// The ids of all jobs, each once, with commas between.
fn questions(jobs: &[JobRef]) -> Vec<String> {
    let mut ids: Vec<&str> = jobs
        .iter()
        .flat_map(JobRef::offsets)
        .map(|(id, _)| id.0.as_str())
        .collect();
    ids.sort_unstable();
    ids.dedup();
    let mut lists: Vec<String> = Vec::new();
    for id in ids {
        match lists.last_mut() {
            Some(list) if list.len() + 1 + id.len() <= IDS_BYTES => {
                list.push(',');
                list.push_str(id);
            }
            _ => lists.push(id.to_owned()),
        }
    }
    lists
}

fn ask(slurm: &Commands, ids: &str) -> Result<String, SchedulerError> {
    let tool = slurm
        .tool("squeue")
        .args(["--noheader", "--states=all", FORMAT])
        .arg(format!("--jobs={ids}"));
    let output = slurm.ask(&tool, "list jobs")?;
    if !output.status.success() && output.stderr.contains("Invalid job id specified") {
        return Ok(String::new());
    }
    let answer = slurm.answer("squeue", output, &[], "list jobs");
    answer.map(|output| output.stdout)
}

/// So many scripts are read at most: each is a question to the controller.
const SCRIPTS: usize = 20;

/// Looks for runs in the scripts of waiting jobs: nothing else of a job names its run, for others would read it.
pub(super) fn unheard(
    slurm: &Commands,
    runs: &[&RunRecord],
    known: &BTreeSet<String>,
) -> Result<RunJobs, SchedulerError> {
    // One that has begun left its mark, and its id in it.
    let arguments = ["--noheader", "--me", "--states=PENDING", "--format=%F|%V"];
    let printed = slurm.printed("squeue", &arguments, &[], "list jobs")?;
    let jobs = candidates(&printed, runs).into_iter();
    let jobs = jobs.filter(|id| !known.contains(*id)).take(SCRIPTS);
    let found = jobs.filter_map(|id| {
        let words = ["write", "batch_script", id, "-"];
        let script = slurm
            .printed("scontrol", &words, &[], "read a script")
            .ok()?;
        let is_own = |run: &&&RunRecord| script.contains(&naming(&run.run_id));
        let run = runs.iter().find(is_own)?;
        Some((run.run_id.clone(), JobId(id.to_owned())))
    });
    Ok(found.collect())
}

/// Jobs, or whole arrays, that were submitted when one of the runs was.
fn candidates<'a>(printed: &'a str, runs: &[&RunRecord]) -> BTreeSet<&'a str> {
    let job = |line: &'a str| {
        let (id, at) = line.split_once('|')?;
        let at = at.trim().parse::<u64>().ok()?.checked_mul(1000)?;
        let near = |run: &&RunRecord| run.submitted_at_ms.abs_diff(at) <= CLOCK_SKEW_MS;
        runs.iter().any(near).then_some(id.trim())
    };
    printed.lines().filter_map(job).collect()
}

/// A line that was cut off lacks fields, and says nothing.
fn line(text: &str) -> Option<Line> {
    let fields: Vec<&str> = text.splitn(7, '|').map(str::trim).collect();
    let fields: [&str; 7] = fields.try_into().ok()?;
    let exit = reasons::exit(fields[6]);
    Line::read(fields, |state| (exit.filter(|_| state.is_final()), None))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::job::{JobState, RunId};
    use crate::launch::Plan;
    use crate::record::{ExitStatus, QueueEntry};
    use crate::scheduler::slurm::own::tests::job;

    fn entry(text: &str) -> Option<QueueEntry> {
        line(text).map(|line| line.entry)
    }

    #[test]
    fn lines_are_read() {
        let running =
            entry("103|RUNNING|1795184521|1795184522|1795184822|n[1-2]|None").expect("a line");
        assert_eq!(
            (running.state, running.nodes.as_deref()),
            (JobState::Running, Some("n[1-2]"))
        );
        assert_eq!((running.ended_at_ms, running.reason), (None, None));
        let text = "104|PENDING|1795184521|N/A|N/A||ReqNodeNotAvail, UnavailableNodes:n4";
        let pending = entry(text).expect("a line");
        assert_eq!(
            pending.reason.as_deref(),
            Some("ReqNodeNotAvail, UnavailableNodes:n4")
        );
        assert!(!pending.stuck);
        assert!(
            entry("104|PENDING|1795184521|N/A|N/A||PartitionTimeLimit")
                .is_some_and(|entry| entry.stuck)
        );
        let killed = entry("105|FAILED|1795184521|1795184522|1795184523|n1|RaisedSignal:9(Killed)");
        assert_eq!(
            killed.and_then(|entry| entry.exit),
            Some(ExitStatus::Signal(9))
        );
    }

    #[test]
    fn jobs_of_other_times_are_not_looked_into() {
        let run_id = RunId::from_random([7; 10]);
        let run = Plan::default().new_run(run_id, 1_795_184_521_500, String::new(), String::new());
        let printed =
            "103|1795184521\n104|1795184400\n104|1795184401\n105|1795184641\n106|N/A\n107\n";
        let found = candidates(printed, &[&run]);
        assert_eq!(found, BTreeSet::from(["103", "105"]));
    }

    #[test]
    fn a_line_that_was_cut_off_says_nothing() {
        let whole = "103_7|RUNNING|1795184521|1795184522|1795184822|n1|None";
        assert!(line(whole).is_some());
        let last_bar = whole.rfind('|').expect("it has bars");
        for end in 0..=last_bar {
            assert!(line(&whole[..end]).is_none(), "{}", &whole[..end]);
        }
    }

    #[test]
    fn all_jobs_are_asked_for_in_one_question_while_the_command_line_holds_them() {
        let some = [
            job(1, "95", &[("96", 1000), ("97", 2000)]),
            job(2, "12", &[]),
            job(3, "12", &[]),
        ];
        assert_eq!(questions(&some), ["12,95,96,97"]);
        let many: Vec<JobRef> = (0..30_000)
            .map(|n| job(1, &format!("{}", 1_000_000 + n), &[]))
            .collect();
        let lists = questions(&many);
        assert_eq!(lists.len(), 3);
        assert!(lists.iter().all(|list| list.len() <= IDS_BYTES));
        assert_eq!(
            lists
                .iter()
                .map(|list| list.split(',').count())
                .sum::<usize>(),
            30_000
        );
        assert!(questions(&[]).is_empty());
    }

    proptest! {
        #[test]
        fn any_line_is_read_without_panic(text in "[0-9_+\\[\\]|A-Z ,.%:-]{0,60}|\\PC{0,40}") {
            let _ = line(&text);
        }
    }
}
