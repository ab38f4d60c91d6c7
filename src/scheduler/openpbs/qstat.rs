//! `qstat -x -t -f -F json ID ID ..`: one question for any number of jobs.
//!
//! `-x` brings those that are over too, for as long as the server keeps history; a server that keeps none is asked
//! without. `-t` brings the elements of arrays. Unknown ids are named on standard error beside the answer for the others.
//! Times come in the time zone of `qstat`'s own environment.
//!
//! Where several jobs are asked for as JSON, a `qstat` that makes it by a library (23.06; `display_statjob` in `qstat.c`)
//! prints the first alone, without a word and with status 0. What is missing so is asked for as text, in one question too.

use std::collections::BTreeSet;

use super::answer::{Answer, Seen};
use crate::foundation::command::Output;
use crate::job::{DependencyKind, JobState};
use crate::record::ExitStatus;
use crate::scheduler::pbs::answer::read_text;
use crate::scheduler::pbs::commands::Commands;
use crate::scheduler::pbs::own::own_entries;
use crate::scheduler::pbs::values::whole_jobs;
use crate::scheduler::{Entries, JobRef, SchedulerError};

/// Exit codes of a `qstat` that has an answer: all found, some unknown (`PBSE_UNKJOBID`, 15001), some over where `-x` was
/// not given (`PBSE_HISTJOBID`, 15139), each modulo 256.
const ANSWERED: [i32; 3] = [0, 153, 35];

/// Jobs in full with the elements of arrays, as JSON.
const JSON: [&str; 4] = ["-t", "-f", "-F", "json"];

/// The same as text, without broken lines.
const TEXT: [&str; 3] = ["-t", "-f", "-w"];

/// Ids in one question: a command line takes 128 KiB and more.
const IDS_AT_A_TIME: usize = 1000;

/// What a server says that keeps no history (`PBSE_JOBHISTNOTSET`), even of jobs that it has.
const NO_HISTORY: &str = "not configured to maintain job history";

pub(super) fn queue(openpbs: &Commands, jobs: &[JobRef]) -> Result<Entries, SchedulerError> {
    let mut answer = ask(
        openpbs,
        &jobs.iter().map(|job| job.job_id.0.as_str()).collect(),
    )?;
    let targets: BTreeSet<&str> = answer.dependencies().collect();
    if !targets.is_empty() {
        // Of a dependency on a job that was deleted OpenPBS never says that it is hopeless.
        let targets = ask(openpbs, &targets)?;
        answer.mark_hopeless(|kind, target| is_hopeless(kind, targets.get(target)));
    }
    Ok(own_entries(jobs, &answer.into_entries()))
}

fn ask(openpbs: &Commands, ids: &BTreeSet<&str>) -> Result<Answer, SchedulerError> {
    let ids: Vec<&str> = ids.iter().copied().collect();
    let mut answer = Answer::default();
    for some in ids.chunks(IDS_AT_A_TIME) {
        let mut history: &[&str] = &["-x"];
        let mut output = qstat(openpbs, &[history, &JSON].concat(), some)?;
        if output.stderr.contains(NO_HISTORY) {
            history = &[];
            output = qstat(openpbs, &JSON, some)?;
        }
        let output = openpbs.answer("qstat", output, &ANSWERED, "list jobs")?;
        let found = Answer::read(&output.stdout);
        let is_silent = |id: &&str| {
            found.get(id).is_none() && !output.stderr.split_whitespace().any(|word| word == *id)
        };
        let silent: Vec<&str> = some.iter().copied().filter(is_silent).collect();
        answer.join(found);
        if some.len() > 1 && !silent.is_empty() {
            let output = qstat(openpbs, &[history, &TEXT].concat(), &silent)?;
            let output = openpbs.answer("qstat", output, &ANSWERED, "list jobs")?;
            answer.join(Answer::of(&read_text(whole_jobs(&output.stdout))));
        }
    }
    Ok(answer)
}

fn qstat(openpbs: &Commands, options: &[&str], ids: &[&str]) -> Result<Output, SchedulerError> {
    openpbs.ask(&openpbs.tool("qstat").args(options).args(ids), "list jobs")
}

/// Says whether a condition on a job cannot come true any more. One on a job that nobody knows, and one that the end of
/// that job has not released, wait for ever.
fn is_hopeless(kind: &str, target: Option<&Seen>) -> bool {
    let Some(entry) = target.map(|target| &target.entry) else {
        return true;
    };
    let well = entry.exit.is_some_and(ExitStatus::is_success);
    let released = match DependencyKind::from_word(kind) {
        Some(DependencyKind::AfterOk) => well,
        Some(DependencyKind::AfterNotOk) => !well && entry.state != JobState::Cancelled,
        _ => true,
    };
    entry.state.is_final() && !released
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::{JobId, RunId};
    use crate::record::QueueEntry;

    fn job(number: u8, id: &str, submitted_at_ms: u64) -> JobRef {
        JobRef {
            run_id: RunId::from_random([number; 10]),
            job_id: JobId(id.to_owned()),
            parts: Vec::new(),
            name: "train".to_owned(),
            submitted_at_ms: Some(submitted_at_ms),
            submit_host: "login".to_owned(),
            run_dir: "/run".into(),
        }
    }

    /// What an answer says of one job: elements, state, whether it is stuck.
    fn found(job: &JobRef, text: &str) -> Vec<(Option<String>, JobState, bool)> {
        let mut own = own_entries(
            std::slice::from_ref(job),
            &Answer::read(text).into_entries(),
        );
        let entries = own.remove(&job.run_id).unwrap_or_default();
        let shown = |entry: QueueEntry| {
            (
                entry.elements.map(|elements| elements.to_string()),
                entry.state,
                entry.stuck,
            )
        };
        entries.into_iter().map(shown).collect()
    }

    const SUBMITTED: u64 = 1_795_207_086_000;
    const CTIME: &str = "\"ctime\":\"Fri Nov 20 20:38:06 2026\"";

    #[test]
    fn an_old_job_of_the_same_id_lends_nothing() {
        let text = format!("{{\"Jobs\":{{\"7.s\":{{\"job_state\":\"R\",{CTIME}}}}}}}");
        assert_eq!(
            found(&job(1, "7.s", SUBMITTED), &text),
            [(None, JobState::Running, false)]
        );
        assert_eq!(
            found(&job(1, "7", SUBMITTED - 60_000), &text),
            [(None, JobState::Running, false)]
        );
        assert_eq!(found(&job(1, "7.s", SUBMITTED + 3_600_000), &text), []);
        assert_eq!(found(&job(1, "77.s", SUBMITTED), &text), []);
    }

    #[test]
    fn elements_stand_for_their_array_and_those_that_wait_stand_together() {
        let element = |at: u32, letter: &str, more: &str| {
            format!("\"10[{at}].s\":{{\"job_state\":\"{letter}\",{CTIME}{more}}}")
        };
        let array = |letter: &str, more: &str| {
            format!("\"10[].s\":{{\"job_state\":\"{letter}\",{CTIME}{more}}}")
        };
        let answer = |jobs: &[String]| format!("{{\"Jobs\":{{{}}}}}", jobs.join(","));
        let run = ",\"exec_host\":\"n1/0\"";
        let text = answer(&[
            array("B", ""),
            element(
                1,
                "X",
                ",\"exec_host\":\"n1/0\",\"Exit_status\":0,\"substate\":92",
            ),
            element(2, "R", run),
            element(3, "Q", ""),
            element(4, "Q", ""),
            element(5, "X", ",\"substate\":20"),
        ]);
        let own = job(1, "10[].s", SUBMITTED);
        let expected = [
            (Some("1".into()), JobState::Completed, false),
            (Some("2".into()), JobState::Running, false),
            (Some("3-4".into()), JobState::Pending, false),
            (Some("5".into()), JobState::Cancelled, false),
        ];
        assert_eq!(found(&own, &text), expected);
        let held = answer(&[
            array("H", ",\"Hold_Types\":\"u\""),
            element(1, "Q", ""),
            element(2, "Q", ""),
        ]);
        assert_eq!(
            found(&own, &held),
            [(Some("1-2".into()), JobState::Pending, true)]
        );
        assert_eq!(
            found(&own, &answer(&[array("F", ",\"substate\":91")])),
            [(None, JobState::Cancelled, false)]
        );
    }

    #[test]
    fn hopeless_conditions_are_known_by_their_targets() {
        let target = |state: &str| {
            let text = format!(
                "{{\"Jobs\":{{\"1.s\":{{\"job_state\":\"F\",\"exec_host\":\"n\",{state}}}}}}}"
            );
            Answer::read(&text)
        };
        for (kind, state, expected) in [
            ("afterok", "\"Exit_status\":0", false),
            ("afterok", "\"Exit_status\":3", true),
            ("afterok", "\"Exit_status\":271,\"substate\":91", true),
            ("afternotok", "\"Exit_status\":0", true),
            ("afternotok", "\"Exit_status\":3", false),
            ("afterany", "\"Exit_status\":3", false),
        ] {
            assert_eq!(
                is_hopeless(kind, target(state).get("1.s")),
                expected,
                "{kind} {state}"
            );
        }
        assert!(is_hopeless("afterok", None));
        let running = Answer::read("{\"Jobs\":{\"1.s\":{\"job_state\":\"R\"}}}");
        assert!(!is_hopeless("afterok", running.get("1.s")));
    }
}
