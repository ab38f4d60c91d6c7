//! `qstat -x -t -f -F json ID ID ..`: one question for any number of jobs.
//!
//! `-x` brings those that are over too, for as long as the server keeps history; a server that keeps none is asked
//! without. `-t` brings the elements of arrays. Unknown ids are named on standard error beside the answer for the others.
//! Times come in the time zone of `qstat`'s own environment.

use std::collections::{BTreeMap, BTreeSet};

use super::answer::{Answer, Seen};
use super::{NAME, OpenPbs, failed, ids, unreachable};
use crate::command::Output;
use crate::job::{ArraySpec, DependencyKind, JobState};
use crate::record::{ExitStatus, QueueEntry};
use crate::scheduler::{Entries, JobRef, SchedulerError};

/// Exit codes of a `qstat` that has an answer: all found, some unknown (`PBSE_UNKJOBID`, 15001), some over where `-x` was
/// not given (`PBSE_HISTJOBID`, 15139), each modulo 256.
const ANSWERED: [i32; 3] = [0, 153, 35];

/// What a server says that keeps no history (`PBSE_JOBHISTNOTSET`), even of jobs that it has.
const NO_HISTORY: &str = "not configured to maintain job history";

/// Clocks of the login node and the server may differ by this much, in milliseconds.
const CLOCK_SKEW_MS: u64 = 120_000;

pub(super) fn queue(openpbs: &OpenPbs, jobs: &[JobRef]) -> Result<Entries, SchedulerError> {
    let mut answer = ask(openpbs, &jobs.iter().map(|job| job.job_id.0.as_str()).collect())?;
    let targets: BTreeSet<&str> = answer.dependencies().collect();
    if !targets.is_empty() {
        // Of a dependency on a job that was deleted OpenPBS never says that it is hopeless.
        let targets = ask(openpbs, &targets)?;
        answer.mark_hopeless(|kind, target| is_hopeless(kind, targets.get(target)));
    }
    Ok(own_entries(jobs, &answer))
}

fn ask(openpbs: &OpenPbs, ids: &BTreeSet<&str>) -> Result<Answer, SchedulerError> {
    if ids.is_empty() {
        return Ok(Answer::default());
    }
    let qstat = |options: &[&str]| {
        let tool = openpbs.tool("qstat").args(options).args(["-t", "-f", "-F", "json"]).args(ids);
        tool.run().map_err(failed("list jobs".to_owned()))
    };
    let with_history = qstat(&["-x"])?;
    if with_history.stderr.contains(NO_HISTORY) {
        return read(qstat(&[])?);
    }
    read(with_history)
}

fn read(output: Output) -> Result<Answer, SchedulerError> {
    let no_contact = unreachable(&output);
    if !no_contact && output.status.code().is_some_and(|code| ANSWERED.contains(&code)) {
        return Ok(Answer::read(&output.stdout));
    }
    Err(match output.require_success("qstat") {
        Err(source) if no_contact => SchedulerError::Unreachable { scheduler: NAME, source },
        Err(source) => failed("list jobs".to_owned())(source),
        Ok(_) => unreachable!("a success is an answer"),
    })
}

/// Says whether a condition on a job cannot come true any more. One on a job that nobody knows, and one that the end of
/// that job has not released, wait for ever.
fn is_hopeless(kind: &str, target: Option<&Seen>) -> bool {
    let Some(entry) = target.map(|target| &target.entry) else { return true };
    let well = entry.exit.is_some_and(ExitStatus::is_success);
    let released = match DependencyKind::ALL.into_iter().find(|known| known.as_str() == kind) {
        Some(DependencyKind::AfterOk) => well,
        Some(DependencyKind::AfterNotOk) => !well && entry.state != JobState::Cancelled,
        _ => true,
    };
    entry.state.is_final() && !released
}

/// Picks for each run the entries that are really its own: same id, and not submitted before it. A server that was made
/// anew gives the same ids again.
fn own_entries(jobs: &[JobRef], answer: &Answer) -> Entries {
    let mut by_number: BTreeMap<&str, Vec<&Seen>> = BTreeMap::new();
    for seen in answer.jobs() {
        by_number.entry(number(&seen.job)).or_default().push(seen);
    }
    let mut own = Entries::new();
    for job in jobs {
        let id = job.job_id.0.as_str();
        let is_own = |seen: &&&Seen| {
            let close =
                |at: u64| at.abs_diff(job.submitted_at_ms) <= CLOCK_SKEW_MS || at > job.submitted_at_ms;
            let named = ids::same(&seen.job, id) || ids::same(&seen.entry.job_id.0, id);
            named && seen.entry.submitted_at_ms.is_none_or(close)
        };
        let found = by_number.get(number(id)).into_iter().flatten();
        let entries: Vec<&QueueEntry> = found.filter(is_own).map(|seen| &seen.entry).collect();
        // Elements say more than their array; of one that waits or went as a whole there may be none.
        let has_elements = entries.iter().any(|entry| entry.elements.is_some());
        let entries: Vec<&QueueEntry> =
            entries.into_iter().filter(|entry| entry.elements.is_some() == has_elements).collect();
        if !entries.is_empty() {
            own.insert(job.run_id.clone(), together(&entries));
        }
    }
    own
}

/// What all ids of a job and of its elements have in common.
fn number(id: &str) -> &str {
    id.split(['.', '[']).next().unwrap_or_default()
}

/// What elements that wait have in common: state, reason, whether they are stuck.
type Wait<'a> = (&'a str, Option<&'a str>, bool);

/// Elements that wait for the same in one entry: an array may have thousands of them.
fn together(entries: &[&QueueEntry]) -> Vec<QueueEntry> {
    let mut merged: Vec<QueueEntry> = Vec::new();
    let mut waiting: BTreeMap<Wait<'_>, (usize, Vec<u32>)> = BTreeMap::new();
    for entry in entries {
        let Some(elements) = entry.elements.as_ref().filter(|_| entry.state == JobState::Pending) else {
            merged.push((*entry).clone());
            continue;
        };
        let key = (entry.raw_state.as_str(), entry.reason.as_deref(), entry.stuck);
        let (_, indexes) = waiting.entry(key).or_insert_with(|| {
            merged.push((*entry).clone());
            (merged.len() - 1, Vec::new())
        });
        indexes.extend(elements.indexes());
    }
    for (at, mut indexes) in waiting.into_values() {
        indexes.sort_unstable();
        merged[at].elements = Some(ArraySpec::of(&indexes, None));
    }
    merged
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::{JobId, RunId};

    fn job(number: u8, id: &str, submitted_at_ms: u64) -> JobRef {
        JobRef {
            run_id: RunId::from_random([number; 10]),
            job_id: JobId(id.to_owned()),
            parts: Vec::new(),
            name: "train".to_owned(),
            submitted_at_ms,
            submit_host: "login".to_owned(),
            run_dir: "/run".into(),
        }
    }

    /// What an answer says of one job: elements, state, whether it is stuck.
    fn told(job: &JobRef, text: &str) -> Vec<(Option<String>, JobState, bool)> {
        let mut own = own_entries(std::slice::from_ref(job), &Answer::read(text));
        let entries = own.remove(&job.run_id).unwrap_or_default();
        let shown = |entry: QueueEntry| {
            (entry.elements.map(|elements| elements.to_string()), entry.state, entry.stuck)
        };
        entries.into_iter().map(shown).collect()
    }

    const SUBMITTED: u64 = 1_795_207_086_000;
    const CTIME: &str = "\"ctime\":\"Fri Nov 20 20:38:06 2026\"";

    #[test]
    fn an_old_job_of_the_same_id_lends_nothing() {
        let text = format!("{{\"Jobs\":{{\"7.s\":{{\"job_state\":\"R\",{CTIME}}}}}}}");
        assert_eq!(told(&job(1, "7.s", SUBMITTED), &text), [(None, JobState::Running, false)]);
        assert_eq!(told(&job(1, "7", SUBMITTED - 60_000), &text), [(None, JobState::Running, false)]);
        assert_eq!(told(&job(1, "7.s", SUBMITTED + 3_600_000), &text), []);
        assert_eq!(told(&job(1, "77.s", SUBMITTED), &text), []);
    }

    #[test]
    fn elements_stand_for_their_array_and_those_that_wait_stand_together() {
        let element = |at: u32, letter: &str, more: &str| {
            format!("\"10[{at}].s\":{{\"job_state\":\"{letter}\",{CTIME}{more}}}")
        };
        let array =
            |letter: &str, more: &str| format!("\"10[].s\":{{\"job_state\":\"{letter}\",{CTIME}{more}}}");
        let answer = |jobs: &[String]| format!("{{\"Jobs\":{{{}}}}}", jobs.join(","));
        let run = ",\"exec_host\":\"n1/0\"";
        let text = answer(&[
            array("B", ""),
            element(1, "X", ",\"exec_host\":\"n1/0\",\"Exit_status\":0,\"substate\":92"),
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
        assert_eq!(told(&own, &text), expected);
        let held = answer(&[array("H", ",\"Hold_Types\":\"u\""), element(1, "Q", ""), element(2, "Q", "")]);
        assert_eq!(told(&own, &held), [(Some("1-2".into()), JobState::Pending, true)]);
        assert_eq!(
            told(&own, &answer(&[array("F", ",\"substate\":91")])),
            [(None, JobState::Cancelled, false)]
        );
    }

    #[test]
    fn hopeless_conditions_are_known_by_their_targets() {
        let target = |state: &str| {
            let text =
                format!("{{\"Jobs\":{{\"1.s\":{{\"job_state\":\"F\",\"exec_host\":\"n\",{state}}}}}}}");
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
            assert_eq!(is_hopeless(kind, target(state).get("1.s")), expected, "{kind} {state}");
        }
        assert!(is_hopeless("afterok", None));
        let running = Answer::read("{\"Jobs\":{\"1.s\":{\"job_state\":\"R\"}}}");
        assert!(!is_hopeless("afterok", running.get("1.s")));
    }
}
