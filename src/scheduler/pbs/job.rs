//! A job of Torque or OpenPBS in dlrun's words (`qstat(1B)`; `pbs_job.h` of Torque 6.1.3, `job.h` of OpenPBS 23.06; what was
//! seen is named).

use super::answer::Thing;
use super::ends;
use super::values::{hosts, time_ms};
use crate::job::{JobId, JobState, SchedulerKind};
use crate::record::{ExitStatus, QueueEntry};

/// Substates of a job of OpenPBS that has ended: deleted, ended for its dependency (it never ran), moved to another server.
const DELETED: i64 = 91;
const DEPENDENCY_FAILED: i64 = 92;
const MOVED: i64 = 94;

/// What a job's attributes say of it; `None` where they say no state.
pub(in crate::scheduler) fn entry(kind: SchedulerKind, job: &Thing) -> Option<QueueEntry> {
    let raw = job.get("job_state")?;
    let time = |key: &str| job.get(key).and_then(time_ms);
    let places = job.get("exec_vnode").or(job.get("exec_host"));
    // Elements that wait carry the start of their array: only one that has nodes has started.
    let has_run = places.is_some();
    let end = matches!(raw, "C" | "F" | "X").then(|| End::read(kind, job, has_run));
    let state = match (&end, raw) {
        (Some(end), _) => end.state,
        (None, "Q" | "H" | "W" | "T") => JobState::Pending,
        // `E`: its processes have ended, its output is on its way. `B`: something of an array has begun.
        (None, "R" | "E" | "B") => JobState::Running,
        (None, "S" | "U") => JobState::Suspended,
        (None, _) => JobState::Unknown,
    };
    let is_pending = state == JobState::Pending;
    let (waits_for, is_stuck) = match is_pending {
        true => wait(kind, job),
        false => (None, false),
    };
    let started = time("start_time").or(time("stime"));
    let moved_at = || job.number::<u64>("history_timestamp")?.checked_mul(1000);
    let ended = || time("comp_time").or(time("obittime")).or_else(moved_at);
    // A job that was moved to another server, or of whose end nothing is known, may still run.
    let known_end = end.as_ref().filter(|_| state.is_final());
    // Only where the site's server estimates; an array's is that of whichever element comes next.
    let expected = time("estimated.start_time").filter(|_| is_pending && !job.id.contains('['));
    Some(QueueEntry {
        expected_start_ms: expected,
        job_id: JobId(job.id.clone()),
        state,
        raw_state: raw.to_owned(),
        reason: match (&end, state) {
            (Some(end), _) => end.why.clone(),
            (None, JobState::Pending) => waits_for,
            (None, JobState::Running) => None,
            (None, _) => comment(job),
        },
        submitted_at_ms: time("ctime"),
        started_at_ms: started.filter(|_| !is_pending && (has_run || raw == "B")),
        ended_at_ms: known_end.and_then(|_| ended()),
        exit: known_end.and_then(|end| end.exit),
        nodes: places
            .map(|text| hosts(text).join(","))
            .filter(|nodes| !nodes.is_empty()),
        elements: None,
        stuck: is_stuck,
    })
}

/// How a job ended.
struct End {
    state: JobState,
    exit: Option<ExitStatus>,
    why: Option<String>,
}

impl End {
    /// Reads the exit status. Torque, seen: 7 for `exit 7`, 137 for a script that killed itself, 271 (256 + SIGTERM) for a job
    /// that was deleted while it ran, -11 at the time limit, and none for one that was deleted, or whose dependency could not
    /// come true, before it ran. Codes below 0 are the scheduler's own, from 256 on signals.
    fn read(kind: SchedulerKind, job: &Thing, has_run: bool) -> Self {
        let is_torque = kind == SchedulerKind::Torque;
        let status = job.get("exit_status").or(job.get("Exit_status"));
        let code = status.map(|text| text.trim().parse::<i32>());
        let substate = job.number("substate");
        let (state, why) = match (substate, &code) {
            (Some(MOVED), _) | (_, Some(Err(_))) => (JobState::Unknown, None),
            (Some(DELETED), _) => (JobState::Cancelled, None),
            (_, Some(Ok(0))) => (JobState::Completed, None),
            (_, Some(Ok(271))) if is_torque => (JobState::Cancelled, Some("deleted while it ran")),
            (_, Some(Ok(code))) => ends::meaning_of_code(Some(kind), i64::from(*code))
                .map_or((JobState::Failed, None), |(state, why)| (state, Some(why))),
            (_, None) if is_torque => {
                let why = "deleted before it ran, by hand or because a dependency failed";
                (JobState::Cancelled, Some(why))
            }
            // One whose dependency failed, or an element that was deleted, has neither code nor start.
            (_, None) if !has_run => (JobState::Cancelled, None),
            (_, None) => (JobState::Unknown, None),
        };
        let exit = match code {
            Some(Ok(code @ 0..=255)) if is_torque => Some(ExitStatus::from_shell_code(code)),
            Some(Ok(code @ 0..=255)) => Some(ExitStatus::Code(code)),
            Some(Ok(code @ 257..=320)) => Some(ExitStatus::Signal(code - 256)),
            _ => None,
        };
        let depends = depends(job);
        let why = why.map(str::to_owned);
        let end = |why| Self { state, exit, why };
        match (comment(job), state) {
            // Torque gives 271 to a job that it deletes for its dependency, which never ran.
            (Some(text), _) if is_torque && text.contains("result of dependency") => Self {
                exit: None,
                ..end(Some(text))
            },
            (text, JobState::Cancelled)
                if substate == Some(DEPENDENCY_FAILED) && !depends.is_empty() =>
            {
                let failed = || format!("its dependency cannot come true: {depends}");
                end(Some(text.unwrap_or_else(failed)))
            }
            (
                text,
                JobState::Failed | JobState::Timeout | JobState::OutOfMemory | JobState::NodeFail,
            ) if !is_torque => end(text.and_then(end_words).or(why)),
            (text, JobState::Unknown) if !is_torque => end(text),
            _ => end(why),
        }
    }
}

fn comment(job: &Thing) -> Option<String> {
    let words = job.get("comment")?.split_whitespace();
    Some(words.collect::<Vec<_>>().join(" "))
}

/// What a comment of OpenPBS says of the end: `Job run at .. on (n1:ncpus=1) and exceeded resource walltime`. That it failed is
/// shown by its exit code.
fn end_words(comment: String) -> Option<String> {
    let end = comment.rsplit_once(" and ").map(|(_, end)| end.to_owned());
    let end = end.unwrap_or(comment);
    (!["failed", "finished", "Subjob finished"].contains(&end.as_str())).then_some(end)
}

/// `afterok:14.srv@srv:15.srv@srv,afterany:16.srv` as `afterok:14.srv,afterok:15.srv,afterany:16.srv`; what others wait for
/// (`beforeok:..`) is left out.
fn depends(job: &Thing) -> String {
    let conditions = job.get("depend").unwrap_or_default().split(',');
    let conditions = conditions.filter_map(|condition| condition.split_once(':'));
    let after = conditions.filter(|(kind, _)| kind.starts_with("after"));
    let each = after.flat_map(|(kind, targets)| {
        let targets = targets.split(':').filter(|target| !target.is_empty());
        let bare = |target: &str| target.split('@').next().unwrap_or_default().to_owned();
        targets.map(move |target| format!("{kind}:{}", bare(target)))
    });
    each.collect::<Vec<_>>().join(",")
}

/// What a job waits for, and whether that cannot come without a change. A hold of the system's is also how dependencies wait.
fn wait(kind: SchedulerKind, job: &Thing) -> (Option<String>, bool) {
    let (holds, depends) = (job.get("Hold_Types").unwrap_or("n"), depends(job));
    let is_held = holds.contains(['u', 'o', 'p']) || (holds.contains('s') && depends.is_empty());
    // Elements that wait carry the comment of their array, which has begun.
    let comment = comment(job).filter(|text| !text.starts_with("Job Array Began"));
    let never = |text: &String| text.to_lowercase().contains("can never run");
    let is_stuck = is_held || comment.as_ref().is_some_and(never);
    let begin = job.get("Execution_Time").and_then(time_ms);
    let begin = begin.filter(|_| job.get("job_state") == Some("W"));
    let who = [
        ('u', "its user (`qrls` lets it go)"),
        ('o', "an operator"),
        ('s', "the system"),
        ('p', "a wrong password"),
    ];
    let who = who
        .into_iter()
        .filter(|(letter, _)| holds.contains(*letter));
    let who: Vec<&str> = who.map(|(_, who)| who).collect();
    let reason = match begin.and_then(shown_time) {
        Some(begin) => Some(format!("begins not before {begin} UTC")),
        None if is_held => Some(format!("held by {}", who.join(" and "))),
        None if !depends.is_empty() => Some(format!("waits for {depends}")),
        None if holds.contains('l') => Some("waits for other elements of its array".to_owned()),
        None => None,
    };
    // Torque leaves the comment of before the hold in place.
    let comment = comment.filter(|_| kind != SchedulerKind::Torque || !is_held);
    (comment.or(reason), is_stuck)
}

fn shown_time(ms: u64) -> Option<String> {
    let at = jiff::Timestamp::from_millisecond(i64::try_from(ms).ok()?).ok()?;
    Some(at.strftime("%a %b %e %H:%M:%S %Y").to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scheduler::pbs::answer::{read_text, read_xml};

    fn torque(attributes: &str) -> QueueEntry {
        let xml = format!("<Data><Job><Job_Id>7.vm</Job_Id>{attributes}</Job></Data>");
        entry(SchedulerKind::Torque, &read_xml(&xml)[0]).expect("it has a state")
    }

    fn openpbs(attributes: &[(&str, &str)]) -> QueueEntry {
        let pairs = attributes.iter();
        let thing = Thing {
            id: "7.s".to_owned(),
            attributes: pairs
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                .collect(),
            ..Thing::default()
        };
        entry(SchedulerKind::OpenPbs, &thing).expect("it has a state")
    }

    #[test]
    fn torques_ends_are_read_by_the_exit_status() {
        for (status, expected) in [
            (Some("0"), (JobState::Completed, Some(ExitStatus::Code(0)))),
            (Some("7"), (JobState::Failed, Some(ExitStatus::Code(7)))),
            (Some("137"), (JobState::Failed, Some(ExitStatus::Signal(9)))),
            (Some("254"), (JobState::Failed, Some(ExitStatus::Code(254)))),
            (
                Some("266"),
                (JobState::Failed, Some(ExitStatus::Signal(10))),
            ),
            (
                Some("271"),
                (JobState::Cancelled, Some(ExitStatus::Signal(15))),
            ),
            (Some("-11"), (JobState::Timeout, None)),
            (Some("-10"), (JobState::OutOfMemory, None)),
            (Some("-4"), (JobState::NodeFail, None)),
            (Some("-1"), (JobState::Failed, None)),
            (None, (JobState::Cancelled, None)),
            (Some("x"), (JobState::Unknown, None)),
        ] {
            let shown = status.map(|status| format!("<exit_status>{status}</exit_status>"));
            let end = torque(&("<job_state>C</job_state>".to_owned() + &shown.unwrap_or_default()));
            assert_eq!((end.state, end.exit), expected, "{status:?}");
        }
    }

    #[test]
    fn a_job_of_torque_that_waits_says_why() {
        let queued = torque(
            "<job_state>Q</job_state><comment>Not Running: busy</comment><start_time>5</start_time>",
        );
        assert_eq!(
            (queued.state, queued.reason.as_deref()),
            (JobState::Pending, Some("Not Running: busy"))
        );
        assert_eq!((queued.started_at_ms, queued.stuck), (None, false));
        let text = "Job deleted as result of dependency on job 6.vm";
        let deleted = torque(&format!(
            "<job_state>C</job_state><exit_status>271</exit_status><comment>{text}</comment>"
        ));
        assert_eq!((deleted.state, deleted.exit), (JobState::Cancelled, None));
        assert_eq!(deleted.reason.as_deref(), Some(text));
        let begins = torque("<job_state>W</job_state><Execution_Time>1798761600</Execution_Time>");
        assert_eq!(
            begins.reason.as_deref(),
            Some("begins not before Fri Jan  1 00:00:00 2027 UTC")
        );
        for (holds, depend, stuck) in [
            ("u", "", true),
            ("o", "", true),
            ("s", "", true),
            ("s", "<depend>afterok:6.vm</depend>", false),
            ("l", "", false),
            ("us", "<depend>afterok:6.vm</depend>", true),
        ] {
            let held = torque(&format!(
                "<job_state>H</job_state><Hold_Types>{holds}</Hold_Types>{depend}"
            ));
            assert_eq!(
                (held.state, held.stuck),
                (JobState::Pending, stuck),
                "{holds} {depend}"
            );
            assert!(held.reason.is_some());
        }
        let held = torque(
            "<job_state>H</job_state><Hold_Types>u</Hold_Types><comment>Not Running: busy</comment>",
        );
        let expected = "held by its user (`qrls` lets it go)";
        assert_eq!(held.reason.as_deref(), Some(expected));
    }

    #[test]
    fn a_job_of_torque_that_runs_has_nodes_and_no_end() {
        let running = torque(
            "<job_state>R</job_state><exec_host>n2/0-1+n1/0-1</exec_host><comment>Job started</comment>\
            <start_time>1795206973</start_time><comp_time>9</comp_time><ctime>1795206970</ctime>",
        );
        assert_eq!(
            (running.state, running.nodes.as_deref()),
            (JobState::Running, Some("n2,n1"))
        );
        assert_eq!(
            (running.reason, running.ended_at_ms, running.exit),
            (None, None, None)
        );
        assert_eq!(running.started_at_ms, Some(1_795_206_973_000));
        assert_eq!(running.submitted_at_ms, Some(1_795_206_970_000));
        let text = "Job Id: 28.vm\n    job_state = C\n    ctime = Fri Nov 20 20:36:13 2026\n    exit_status = 7\n";
        let entry = entry(SchedulerKind::Torque, &read_text(text)[0]).expect("it has a state");
        assert_eq!(
            (entry.state, entry.submitted_at_ms),
            (JobState::Failed, Some(1_795_206_973_000))
        );
    }

    #[test]
    fn letters_of_openpbs_are_known() {
        for (letters, expected) in [
            ("QHWT", JobState::Pending),
            ("REB", JobState::Running),
            ("SU", JobState::Suspended),
            ("M?", JobState::Unknown),
        ] {
            for letter in letters.split("").filter(|letter| !letter.is_empty()) {
                assert_eq!(
                    openpbs(&[("job_state", letter)]).state,
                    expected,
                    "{letter}"
                );
            }
        }
    }

    #[test]
    fn job_that_was_moved_or_whose_end_is_unknown_has_no_end() {
        let ended_at = "1795206973";
        for (substate, code) in [("94", "0"), ("93", "x")] {
            let job = openpbs(&[
                ("job_state", "F"),
                ("substate", substate),
                ("Exit_status", code),
                ("obittime", ended_at),
                ("history_timestamp", ended_at),
            ]);
            assert_eq!(job.state, JobState::Unknown, "{substate}");
            assert_eq!((job.ended_at_ms, job.exit), (None, None), "{substate}");
        }
    }

    #[test]
    fn ends_of_openpbs_are_told_apart() {
        for (substate, code, expected) in [
            ("92", "0", JobState::Completed),
            ("93", "7", JobState::Failed),
            ("93", "265", JobState::Failed),
            ("93", "254", JobState::Failed),
            ("91", "271", JobState::Cancelled),
            ("91", "", JobState::Cancelled),
            ("93", "-29", JobState::Timeout),
            ("93", "-27", JobState::OutOfMemory),
            ("93", "-20", JobState::NodeFail),
            ("94", "", JobState::Unknown),
            ("92", "", JobState::Unknown),
        ] {
            let end = openpbs(&[
                ("job_state", "F"),
                ("exec_host", "n1/0"),
                ("substate", substate),
                ("Exit_status", code),
            ]);
            assert_eq!(end.state, expected, "{substate} {code}");
        }
        let never = openpbs(&[("job_state", "F"), ("substate", "92")]);
        assert_eq!(never.state, JobState::Cancelled, "its dependency failed");
        let exit = |code| openpbs(&[("job_state", "F"), ("Exit_status", code)]).exit;
        assert_eq!(exit("7"), Some(ExitStatus::Code(7)));
        assert_eq!(exit("137"), Some(ExitStatus::Code(137)));
        assert_eq!(exit("271"), Some(ExitStatus::Signal(15)));
        assert_eq!(
            (exit("-29"), exit(""), exit("256"), exit("9999")),
            (None, None, None, None)
        );
    }
}
