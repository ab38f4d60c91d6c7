//! `qstat -x -t -f -w ID ID ..`: one question for any number of jobs.
//!
//! `-x` brings those that are over too, for as long as the server keeps history; a server that keeps none is asked
//! without. `-t` brings the elements of arrays. Unknown ids are named on standard error beside the answer for the others.
//! Times come in the time zone of `qstat`'s own environment.
//!
//! The answer is text: of several jobs that are asked for as JSON, a `qstat` that makes it by a library (23.06;
//! `display_statjob` in `qstat.c`) prints the first alone, without a word and with status 0.

use std::collections::BTreeMap;

use crate::foundation::command::Output;
use crate::job::{JobState, SchedulerKind};
use crate::record::QueueEntry;
use crate::scheduler::SchedulerError;
use crate::scheduler::commands::Commands;
use crate::scheduler::pbs::answer::{Thing, read_text};
use crate::scheduler::pbs::values::whole_jobs;
use crate::scheduler::pbs::{ids, job};

/// Exit codes of a `qstat` that has an answer: all found, some unknown (`PBSE_UNKJOBID`, 15001), some over where `-x` was
/// not given (`PBSE_HISTJOBID`, 15139), each modulo 256.
const ANSWERED: [i32; 3] = [0, 153, 35];

/// What a server says that keeps no history (`PBSE_JOBHISTNOTSET`), even of jobs that it has.
const NO_HISTORY: &str = "not configured to maintain job history";

pub(super) fn ask(openpbs: &Commands, ids: &[&str]) -> Result<Vec<QueueEntry>, SchedulerError> {
    let mut output = qstat(openpbs, &["-x"], ids)?;
    if output.stderr.contains(NO_HISTORY) {
        output = qstat(openpbs, &[], ids)?;
    }
    let output = openpbs.answer("qstat", output, &ANSWERED, "list jobs")?;
    Ok(entries(&read_text(whole_jobs(&output.stdout))))
}

/// All jobs that are not over.
pub(super) fn all(openpbs: &Commands) -> Result<Vec<Thing>, SchedulerError> {
    let output = openpbs.answer("qstat", qstat(openpbs, &[], &[])?, &ANSWERED, "list jobs")?;
    Ok(read_text(whole_jobs(&output.stdout)))
}

/// Jobs in full with the elements of arrays, without broken lines.
fn qstat(openpbs: &Commands, history: &[&str], ids: &[&str]) -> Result<Output, SchedulerError> {
    let tool = openpbs.tool("qstat").args(history);
    openpbs.ask(&tool.args(["-t", "-f", "-w"]).args(ids), "list jobs")
}

/// Jobs and elements of arrays. Elements that wait say nothing of why: it is said of their array.
fn entries(jobs: &[Thing]) -> Vec<QueueEntry> {
    let entries = jobs
        .iter()
        .filter_map(|job| job::entry(SchedulerKind::OpenPbs, job));
    let mut entries: Vec<QueueEntry> = entries.collect();
    let waits = |entry: &&QueueEntry| entry.state == JobState::Pending;
    let waiting = entries.iter().filter(waits).cloned();
    let arrays: BTreeMap<String, QueueEntry> = waiting
        .map(|entry| (entry.job_id.0.clone(), entry))
        .collect();
    for entry in entries.iter_mut().filter(|entry| waits(&&**entry)) {
        let array = ids::element(&entry.job_id.0).and_then(|(array, _)| arrays.get(&array));
        if let Some(array) = array {
            entry.reason.clone_from(&array.reason);
            entry.stuck = array.stuck;
        }
    }
    entries
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::{JobId, RunId};
    use crate::record::ExitStatus;
    use crate::scheduler::JobRef;
    use crate::scheduler::openpbs::json;
    use crate::scheduler::pbs::own::own_entries;

    fn job(number: u8, id: &str, submitted_at_ms: u64) -> JobRef {
        JobRef {
            run_id: RunId::from_random([number; 10]),
            job_id: JobId(id.to_owned()),
            parts: Vec::new(),
            submitted_at_ms: Some(submitted_at_ms),
            run_dir: "/run".into(),
        }
    }

    /// What an answer says of one job: elements, state, whether it is stuck.
    fn found(job: &JobRef, text: &str) -> Vec<(Option<String>, JobState, bool)> {
        let mut own = own_entries(std::slice::from_ref(job), &entries(&json::read(text).1));
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
    fn elements_say_more_than_their_array() {
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
            (Some("3".into()), JobState::Pending, false),
            (Some("4".into()), JobState::Pending, false),
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
            [
                (Some("1".into()), JobState::Pending, true),
                (Some("2".into()), JobState::Pending, true),
            ]
        );
        assert_eq!(
            found(&own, &answer(&[array("F", ",\"substate\":91")])),
            [(None, JobState::Cancelled, false)]
        );
    }

    fn one(job: &str) -> QueueEntry {
        entry(&format!("{{\"Jobs\":{{\"7.s\":{{{job}}}}}}}"), "7.s")
    }

    #[test]
    fn what_a_job_waits_for_is_told() {
        for (job, reason, stuck) in [
            (
                r#""job_state":"Q","comment":"Not Running: Insufficient amount of resource: ngpus (R: 1 A: 0 T: 4)""#,
                Some("Not Running: Insufficient amount of resource: ngpus (R: 1 A: 0 T: 4)"),
                false,
            ),
            (
                r#""job_state":"Q","comment":"Can Never Run: Not enough total nodes available""#,
                Some("Can Never Run: Not enough total nodes available"),
                true,
            ),
            (
                r#""job_state":"H","Hold_Types":"u","substate":20"#,
                Some("held by its user (`qrls` lets it go)"),
                true,
            ),
            (
                r#""job_state":"H","Hold_Types":"so","substate":20"#,
                Some("held by an operator and the system"),
                true,
            ),
            (
                r#""job_state":"H","Hold_Types":"s","substate":22,"depend":"afterok:1.s@s:2.s@s,afterany:3.s@s""#,
                Some("waits for afterok:1.s,afterok:2.s,afterany:3.s"),
                false,
            ),
            (
                r#""job_state":"W","Execution_Time":"Tue Jan  1 08:00:00 2030""#,
                Some("begins not before Tue Jan  1 08:00:00 2030 UTC"),
                false,
            ),
            (r#""job_state":"Q","Hold_Types":"n""#, None, false),
            (
                r#""job_state":"Q","comment":"Job Array Began at Fri Nov 20 at 22:08""#,
                None,
                false,
            ),
        ] {
            let entry = one(job);
            assert_eq!(
                (entry.state, entry.reason.as_deref(), entry.stuck),
                (JobState::Pending, reason, stuck),
                "{job}"
            );
        }
    }

    #[test]
    fn estimated_start_of_a_job_that_waits_is_expected() {
        let at = "\"start_time\":\"Tue Feb 14 02:10:01 2023\"";
        let waits = one(&format!(
            r#""job_state":"Q","estimated":{{"exec_vnode":"(n1:ncpus=4)",{at}}}"#
        ));
        assert_eq!(waits.expected_start_ms, Some(1_676_340_601_000));
        let runs = one(&format!(
            r#""job_state":"R","exec_host":"n1/0","estimated":{{{at}}}"#
        ));
        assert_eq!(
            (
                runs.expected_start_ms,
                one(r#""job_state":"Q""#).expected_start_ms
            ),
            (None, None)
        );
        let text =
            "Job Id: 7.s\n    job_state = Q\n    estimated.start_time = Tue Feb 14 02:10:01 2023\n";
        let found = entries(&read_text(text));
        assert_eq!(found[0].expected_start_ms, Some(1_676_340_601_000));
    }

    #[test]
    fn only_what_has_run_has_a_start() {
        let waits = one(r#""job_state":"Q","stime":"Fri Nov 20 20:38:06 2026""#);
        assert_eq!((waits.started_at_ms, waits.exit), (None, None));
        let runs = one(
            r#""job_state":"R","stime":"Fri Nov 20 20:38:06 2026","exec_vnode":"(n1:ncpus=8)","comment":"Job run at ..""#,
        );
        assert_eq!(
            (runs.started_at_ms, runs.reason, runs.nodes.as_deref()),
            (Some(1_795_207_086_000), None, Some("n1"))
        );
    }

    #[test]
    fn an_end_is_told_with_code_and_reason() {
        let limit = one(
            r#""job_state":"F","substate":93,"Exit_status":-29,"exec_host":"n1/0","stime":"Fri Nov 20 20:38:45 2026","obittime":"Fri Nov 20 20:39:07 2026","comment":"Job run at Fri Nov 20 at 20:38 on (pbsn1:ncpus=1) and exceeded resource walltime""#,
        );
        assert_eq!((limit.state, limit.exit), (JobState::Timeout, None));
        assert_eq!(limit.reason.as_deref(), Some("exceeded resource walltime"));
        let failed = one(
            r#""job_state":"F","substate":93,"Exit_status":3,"comment":"Job run at Fri on (n1) and failed""#,
        );
        assert_eq!((failed.state, failed.reason), (JobState::Failed, None));
        let ran = limit
            .ended_at_ms
            .zip(limit.started_at_ms)
            .map(|(end, start)| end - start);
        assert_eq!(ran, Some(22_000));
        let deleted =
            one(r#""job_state":"F","substate":91,"Exit_status":271,"exec_vnode":"(n1:ncpus=1)""#);
        assert_eq!(
            (deleted.state, deleted.exit),
            (JobState::Cancelled, Some(ExitStatus::Signal(15)))
        );
        let dependent = one(
            r#""job_state":"F","substate":92,"depend":"afterok:16.s@s","history_timestamp":1795207107"#,
        );
        assert_eq!(
            (dependent.state, dependent.ended_at_ms),
            (JobState::Cancelled, Some(1_795_207_107_000))
        );
        assert_eq!(
            dependent.reason.as_deref(),
            Some("its dependency cannot come true: afterok:16.s")
        );
        let by_hand = one(r#""job_state":"F","substate":91,"depend":"afterok:16.s@s""#);
        assert_eq!((by_hand.state, by_hand.reason), (JobState::Cancelled, None));
    }

    const ARRAY: &str = include_str!("../../../tests/fixtures/scheduler/openpbs/array-23.06.json");
    const V20: &str = include_str!("../../../tests/fixtures/scheduler/openpbs-qstat-json-a.json");
    const V2022: &str =
        include_str!("../../../tests/fixtures/scheduler/openpbs-qstat-json-psij.json");
    const WALLTIME: &str =
        include_str!("../../../tests/fixtures/scheduler/openpbs/walltime-23.06.json");

    fn shown(text: &str, id: &str) -> Option<QueueEntry> {
        let mut all = entries(&json::read(text).1).into_iter();
        all.find(|entry| entry.job_id.0 == id)
    }

    fn entry(text: &str, id: &str) -> QueueEntry {
        shown(text, id).unwrap_or_else(|| panic!("{id}"))
    }

    #[test]
    fn recorded_answers_are_read() {
        let running = entry(V20, "5512.hn1");
        assert_eq!(
            (running.state, &*running.raw_state, running.reason),
            (JobState::Running, "R", None)
        );
        assert_eq!(
            (running.nodes.as_deref(), running.exit),
            (Some("khas024"), None)
        );
        let over = entry(V2022, "2154.edtb-01");
        assert_eq!(
            (over.state, &*over.raw_state, over.exit),
            (JobState::Completed, "F", Some(ExitStatus::Code(0)))
        );
        assert_eq!(
            (over.reason, over.submitted_at_ms, over.nodes),
            (None, None, None)
        );
        assert_eq!(entry(WALLTIME, "30.pbssrv").state, JobState::Timeout);
        let array = entry(ARRAY, "10[].pbssrv");
        assert_eq!(
            (array.state, array.started_at_ms),
            (JobState::Running, Some(1_795_207_086_000))
        );
        let second = entry(ARRAY, "10[2].pbssrv");
        assert_eq!(
            (second.state, second.nodes.as_deref()),
            (JobState::Running, Some("pbsn1"))
        );
        let fourth = entry(ARRAY, "10[4].pbssrv");
        assert_eq!(
            (fourth.state, fourth.started_at_ms),
            (JobState::Pending, None)
        );
    }

    #[test]
    fn an_answer_that_is_damaged_loses_no_other_job() {
        let damaged = V20.replace(
            "\"Job_Name\": \"STDIN\"",
            "\"Job_Name\": \"a\u{1}\nb\\x\", \"Job_Name\": 007, \"n\": nan",
        );
        assert_eq!(entry(&damaged, "5512.hn1"), entry(V20, "5512.hn1"));
        let first_end = ARRAY.find("\"10[3].pbssrv\"").expect("it is there");
        let cut = &ARRAY[..first_end + 60];
        assert_eq!(entry(cut, "10[2].pbssrv").state, JobState::Running);
        assert_eq!(shown(cut, "10[3].pbssrv"), None);
    }

    proptest::proptest! {
        #![proptest_config(proptest::prelude::ProptestConfig::with_cases(64))]

        #[test]
        fn no_damage_makes_it_panic(at in 0..ARRAY.len(), length in 0..40_usize, text in "[\\x00-\\x7fé]{0,12}") {
            let mut damaged = ARRAY.as_bytes().to_vec();
            damaged.splice(at..(at + length).min(ARRAY.len()), text.bytes());
            entries(&json::read(&String::from_utf8_lossy(&damaged)).1);
        }
    }
}
