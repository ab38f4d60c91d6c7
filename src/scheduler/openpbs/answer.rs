//! The answer of `qstat -f -F json`, job by job.

use std::collections::BTreeMap;

use super::json;
use super::states::{self, Signs};
use crate::job::{JobId, JobState};
use crate::record::QueueEntry;
use crate::scheduler::pbs::answer::Thing;
use crate::scheduler::pbs::ids;
use crate::scheduler::pbs::values::{hosts, time_ms};

/// Substate of a job that waits for others (`JOB_SUBSTATE_DEPNHOLD`).
const DEPENDENCY_HOLD: i64 = 22;

/// Substate of a job that the server ended for its dependency (`JOB_SUBSTATE_FINISHED`; it never ran).
const DEPENDENCY_FAILED: i64 = 92;

/// A job, or an element of an array.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Seen {
    /// The array that it is an element of.
    array: Option<String>,
    /// What is said of it, under its own id.
    pub(super) entry: QueueEntry,
    /// What it is held for: kinds of conditions with a job each.
    held_for: Vec<(String, String)>,
}

/// What `qstat` said, by id.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Answer(BTreeMap<String, Seen>);

impl Answer {
    pub(super) fn read(text: &str) -> Self {
        Self::of(&json::read(text).1)
    }

    /// The answer out of what was read, be it JSON or text.
    pub(super) fn of(jobs: &[Thing]) -> Self {
        let mut answer = Self(jobs.iter().map(|job| (job.id.clone(), seen(job))).collect());
        answer.tell_elements();
        answer
    }

    /// Takes in another part of the answer.
    pub(super) fn join(&mut self, more: Self) {
        self.0.extend(more.0);
    }

    /// Elements that wait say nothing of why: it is said of their array.
    fn tell_elements(&mut self) {
        let waits = |seen: &&Seen| seen.entry.state == JobState::Pending;
        let arrays = self
            .0
            .iter()
            .filter(|(_, seen)| seen.array.is_none() && waits(seen));
        let arrays: BTreeMap<String, Seen> = arrays
            .map(|(id, seen)| (id.clone(), seen.clone()))
            .collect();
        for seen in self.0.values_mut().filter(|seen| waits(&&**seen)) {
            if let Some(array) = seen.array.as_ref().and_then(|array| arrays.get(array)) {
                seen.entry.reason.clone_from(&array.entry.reason);
                seen.entry.stuck = array.entry.stuck;
                seen.held_for.clone_from(&array.held_for);
            }
        }
    }

    /// The jobs and elements, each under its own id.
    pub(super) fn into_entries(self) -> Vec<QueueEntry> {
        self.0.into_values().map(|seen| seen.entry).collect()
    }

    /// A job by its id, with or without the server.
    pub(super) fn get(&self, id: &str) -> Option<&Seen> {
        self.0.get(id).or_else(|| {
            self.0
                .iter()
                .find(|(known, _)| ids::same(known, id))
                .map(|(_, seen)| seen)
        })
    }

    /// The jobs that others wait for.
    pub(super) fn dependencies(&self) -> impl Iterator<Item = &str> {
        self.0
            .values()
            .flat_map(|seen| &seen.held_for)
            .map(|(_, target)| target.as_str())
    }

    /// Marks as stuck what waits for a condition that is hopeless.
    pub(super) fn mark_hopeless(&mut self, hopeless: impl Fn(&str, &str) -> bool) {
        for seen in self.0.values_mut() {
            seen.entry.stuck |= seen
                .held_for
                .iter()
                .any(|(kind, target)| hopeless(kind, target));
        }
    }
}

/// What a job's attributes say of it.
pub(in crate::scheduler) fn entry(job: &Thing) -> QueueEntry {
    seen(job).entry
}

fn seen(job: &Thing) -> Seen {
    let id = job.id.as_str();
    let raw_state = job.get("job_state").unwrap_or_default();
    let exit_status = job.number("Exit_status");
    // Elements that wait carry the start of their array: only one that has nodes has started.
    let has_run = job.get("exec_host").is_some() || job.get("exec_vnode").is_some();
    let substate = job.number("substate");
    let signs = Signs {
        letter: raw_state,
        substate,
        exit_status,
        started: has_run,
    };
    let state = states::state(signs);
    let time = |key: &str| job.get(key).and_then(time_ms);
    let depends = depends(job.get("depend").unwrap_or_default());
    // Only where the site's server estimates; an array's is that of whichever element comes next.
    let expects = state == JobState::Pending && !id.contains('[');
    let entry = QueueEntry {
        expected_start_ms: time("estimated.start_time").filter(|_| expects),
        job_id: JobId(id.to_owned()),
        state,
        raw_state: raw_state.to_owned(),
        reason: reason(job, state, &depends),
        submitted_at_ms: time("ctime"),
        started_at_ms: time("stime").filter(|_| has_run || raw_state == "B"),
        ended_at_ms: time("obittime")
            .or_else(|| history_ms(job))
            .filter(|_| state.is_final()),
        exit: states::exit(exit_status).filter(|_| state.is_final()),
        nodes: job
            .get("exec_vnode")
            .or_else(|| job.get("exec_host"))
            .map(|text| hosts(text).join(","))
            .filter(|nodes| !nodes.is_empty()),
        elements: None,
        stuck: state == JobState::Pending && is_stuck(job, &depends),
    };
    let is_held = substate == Some(DEPENDENCY_HOLD);
    let held_for = if is_held { depends } else { Vec::new() };
    Seen {
        array: ids::element(id).map(|(array, _)| array),
        entry,
        held_for,
    }
}

/// When a job went into the history: the end of one that never ran.
fn history_ms(job: &Thing) -> Option<u64> {
    job.number::<u64>("history_timestamp")?.checked_mul(1000)
}

/// `afterok:14.srv@srv:15.srv@srv,afterany:16.srv`; what others wait for (`beforeok:..`) is left out.
fn depends(text: &str) -> Vec<(String, String)> {
    let conditions = text
        .split(',')
        .filter_map(|condition| condition.split_once(':'));
    let after = conditions.filter(|(kind, _)| kind.starts_with("after"));
    let each =
        after.flat_map(|(kind, targets)| targets.split(':').map(move |target| (kind, target)));
    let bare = |target: &str| target.split('@').next().unwrap_or_default().to_owned();
    each.map(|(kind, target)| (kind.to_owned(), bare(target)))
        .filter(|(_, target)| !target.is_empty())
        .collect()
}

/// Why it waits or ended, in OpenPBS's words where it has any.
fn reason(job: &Thing, state: JobState, depends: &[(String, String)]) -> Option<String> {
    let comment = || {
        job.get("comment")
            .map(|text| text.split_whitespace().collect::<Vec<_>>().join(" "))
    };
    match state {
        JobState::Running | JobState::Completed => None,
        // Elements that wait carry the comment of their array, which has begun.
        JobState::Pending => comment()
            .filter(|text| !text.starts_with("Job Array Began"))
            .or_else(|| waits_for(job, depends)),
        // One that was deleted by hand has substate 91.
        JobState::Cancelled
            if !depends.is_empty() && job.number("substate") == Some(DEPENDENCY_FAILED) =>
        {
            comment().or_else(|| Some(condition_failed(depends)))
        }
        JobState::Suspended | JobState::Unknown => comment(),
        _ => end_words(comment(), job.number("Exit_status")),
    }
}

/// What a comment says of the end: `Job run at .. on (n1:ncpus=1) and exceeded resource walltime`. That it failed is
/// shown by its exit code.
fn end_words(comment: Option<String>, exit_status: Option<i64>) -> Option<String> {
    let said = comment.map(|text| {
        text.rsplit_once(" and ")
            .map_or(text.clone(), |(_, end)| end.to_owned())
    });
    let said =
        said.filter(|end| !["failed", "finished", "Subjob finished"].contains(&end.as_str()));
    said.or_else(|| states::code_words(exit_status).map(str::to_owned))
}

fn shown(depends: &[(String, String)]) -> String {
    depends
        .iter()
        .map(|(kind, target)| format!("{kind}:{target}"))
        .collect::<Vec<_>>()
        .join(",")
}

fn condition_failed(depends: &[(String, String)]) -> String {
    format!("its dependency cannot come true: {}", shown(depends))
}

/// What a job waits for that has no comment.
fn waits_for(job: &Thing, depends: &[(String, String)]) -> Option<String> {
    if let Some(begin) = job
        .get("Execution_Time")
        .filter(|_| job.get("job_state") == Some("W"))
    {
        return Some(format!("begins not before {begin} UTC"));
    }
    if !depends.is_empty() {
        return Some(format!("waits for {}", shown(depends)));
    }
    let holds = job.get("Hold_Types").filter(|holds| *holds != "n")?;
    let who = [
        ('u', "its user"),
        ('o', "an operator"),
        ('s', "the system"),
        ('p', "a wrong password"),
    ];
    let who: Vec<&str> = who
        .into_iter()
        .filter(|(c, _)| holds.contains(*c))
        .map(|(_, who)| who)
        .collect();
    (!who.is_empty()).then(|| format!("held by {}", who.join(" and ")))
}

/// Says whether it waits for what cannot come without a change. A hold of the system's is also how dependencies wait.
fn is_stuck(job: &Thing, depends: &[(String, String)]) -> bool {
    let holds = job.get("Hold_Types").unwrap_or("n");
    let held = holds.contains(['u', 'o', 'p']) || (holds.contains('s') && depends.is_empty());
    let never = job
        .get("comment")
        .is_some_and(|comment| comment.to_lowercase().contains("can never run"));
    held || never
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::ExitStatus;
    use crate::scheduler::pbs::answer::read_text;

    fn one(job: &str) -> QueueEntry {
        let answer = Answer::read(&format!("{{\"Jobs\":{{\"7.s\":{{{job}}}}}}}"));
        answer.get("7.s").expect("it is there").entry.clone()
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
                Some("held by its user"),
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
        let found = Answer::of(&read_text(text));
        assert_eq!(
            found
                .get("7.s")
                .and_then(|seen| seen.entry.expected_start_ms),
            Some(1_676_340_601_000)
        );
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

    fn entry(text: &str, id: &str) -> QueueEntry {
        Answer::read(text)
            .get(id)
            .unwrap_or_else(|| panic!("{id}"))
            .entry
            .clone()
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
        let cut = Answer::read(&ARRAY[..first_end + 60]);
        assert_eq!(
            cut.get("10[2].pbssrv").map(|seen| seen.entry.state),
            Some(JobState::Running)
        );
        assert_eq!(cut.get("10[3].pbssrv"), None);
    }

    proptest::proptest! {
        #![proptest_config(proptest::prelude::ProptestConfig::with_cases(64))]

        #[test]
        fn no_damage_makes_it_panic(at in 0..ARRAY.len(), length in 0..40_usize, text in "[\\x00-\\x7fé]{0,12}") {
            let mut damaged = ARRAY.as_bytes().to_vec();
            damaged.splice(at..(at + length).min(ARRAY.len()), text.bytes());
            Answer::read(&String::from_utf8_lossy(&damaged));
        }
    }
}
