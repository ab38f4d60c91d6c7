//! Torque's jobs in dlrun's words (`qstat(1B)` and `pbs_job.h` of 6.1.3; what was seen is named).

use crate::job::{JobId, JobState, SchedulerKind};
use crate::record::{ExitStatus, QueueEntry};
use crate::scheduler::pbs::answer::Thing;
use crate::scheduler::pbs::ends;
use crate::scheduler::pbs::values::{hosts, time_ms};

/// What a job's attributes say of it.
pub(in crate::scheduler) fn entry(job: &Thing) -> Option<QueueEntry> {
    let raw = job.get("job_state")?;
    let waits = waiting(raw);
    let end = (raw == "C").then(|| End::of(job.get("exit_status")));
    let state = match (&end, waits) {
        (Some(end), _) => end.state,
        (None, true) => JobState::Pending,
        (None, false) => running(raw),
    };
    let held = job
        .get("Hold_Types")
        .filter(|_| raw == "H")
        .map(|holds| Hold::of(holds, job.get("depend")));
    let dependency = job
        .get("comment")
        .filter(|text| text.contains("result of dependency"));
    let reason = match (&end, held.as_ref()) {
        (Some(_), _) if dependency.is_some() => dependency.map(str::to_owned),
        (Some(end), _) => end.why.map(str::to_owned),
        (None, Some(hold)) => Some(hold.why.clone()),
        (None, None) if raw == "W" => job.get("Execution_Time").and_then(begins),
        (None, None) => job.get("comment").filter(|_| waits).map(str::to_owned),
    };
    Some(QueueEntry {
        expected_start_ms: None,
        job_id: JobId(job.id.clone()),
        state,
        raw_state: raw.to_owned(),
        reason,
        submitted_at_ms: job.get("ctime").and_then(time_ms),
        started_at_ms: job.get("start_time").filter(|_| !waits).and_then(time_ms),
        ended_at_ms: job
            .get("comp_time")
            .filter(|_| end.is_some())
            .and_then(time_ms),
        // Torque gives 271 (256 + SIGTERM) to a job that it deletes for its dependency, which never ran.
        exit: end
            .and_then(|end| end.exit)
            .filter(|_| dependency.is_none()),
        nodes: job.get("exec_host").map(|text| hosts(text).join(",")),
        elements: None,
        stuck: held.is_some_and(|hold| hold.for_ever),
    })
}

/// What a job waits for that has a begin time.
fn begins(at: &str) -> Option<String> {
    let at = jiff::Timestamp::from_millisecond(i64::try_from(time_ms(at)?).ok()?).ok()?;
    Some(format!(
        "begins not before {} UTC",
        at.strftime("%a %b %e %H:%M:%S %Y")
    ))
}

/// Queued, held, waiting for its time, on its way to another server.
fn waiting(raw: &str) -> bool {
    matches!(raw, "Q" | "H" | "W" | "T")
}

fn running(raw: &str) -> JobState {
    match raw {
        // `E`: its processes have ended, its output is on its way.
        "R" | "E" => JobState::Running,
        "S" => JobState::Suspended,
        _ => JobState::Unknown,
    }
}

/// How a job ended.
struct End {
    state: JobState,
    exit: Option<ExitStatus>,
    why: Option<&'static str>,
}

impl End {
    /// Reads `exit_status`. Seen: 7 for `exit 7`, 137 for a script that killed itself, 271 (256 + SIGTERM) for a job that
    /// was deleted while it ran, -11 at the time limit, and none for one that was deleted, or whose dependency could not
    /// come true, before it ran.
    fn of(exit_status: Option<&str>) -> Self {
        let Some(text) = exit_status else {
            return Self {
                state: JobState::Cancelled,
                exit: None,
                why: Some("deleted before it ran, by hand or because a dependency failed"),
            };
        };
        let ended = |state, exit, why| Self { state, exit, why };
        match text.trim().parse::<i32>() {
            Ok(0) => ended(JobState::Completed, Some(ExitStatus::Code(0)), None),
            Ok(code) if code < 0 => {
                let known = ends::of_code(Some(SchedulerKind::Torque), i64::from(code));
                let (state, why) = known.unwrap_or((JobState::Failed, "Torque could not start it"));
                ended(state, None, Some(why))
            }
            // Torque's shell died of a signal: TERM is `qdel`'s.
            Ok(271) => ended(
                JobState::Cancelled,
                Some(ExitStatus::Signal(15)),
                Some("deleted while it ran"),
            ),
            Ok(code @ 257..=320) => {
                ended(JobState::Failed, Some(ExitStatus::Signal(code - 256)), None)
            }
            Ok(code) => ended(
                JobState::Failed,
                Some(ExitStatus::from_shell_code(code)),
                None,
            ),
            Err(_) => ended(JobState::Unknown, None, None),
        }
    }
}

/// Why a job is held.
struct Hold {
    why: String,
    for_ever: bool,
}

impl Hold {
    /// Reads `Hold_Types`: `u` its user, `o` an operator, `s` the server, which holds for dependencies too, `l` the limit
    /// of its array. A job whose dependency cannot come true is deleted by the server.
    fn of(holds: &str, depend: Option<&str>) -> Self {
        let held = |why: &str, for_ever| Self {
            why: why.to_owned(),
            for_ever,
        };
        if holds.contains('u') {
            held("held by its user (`qrls` lets it go)", true)
        } else if holds.contains('o') {
            held("held by an operator", true)
        } else if let Some(depend) = depend {
            held(&format!("waits for {depend}"), false)
        } else if holds.contains('s') {
            held("held by the server", true)
        } else {
            held("waits for other elements of its array", false)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scheduler::pbs::answer::{read_text, read_xml};

    fn ended(exit_status: Option<&str>) -> (JobState, Option<ExitStatus>) {
        let end = End::of(exit_status);
        (end.state, end.exit)
    }

    #[test]
    fn ends_are_told_by_the_exit_status() {
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
            assert_eq!(ended(status), expected, "{status:?}");
        }
    }

    fn of(attributes: &str) -> QueueEntry {
        let xml = format!("<Data><Job><Job_Id>7.vm</Job_Id>{attributes}</Job></Data>");
        entry(&read_xml(&xml)[0]).expect("it has a state")
    }

    #[test]
    fn a_job_that_waits_says_why() {
        let queued = of(
            "<job_state>Q</job_state><comment>Not Running: busy</comment><start_time>5</start_time>",
        );
        assert_eq!(
            (queued.state, queued.reason.as_deref()),
            (JobState::Pending, Some("Not Running: busy"))
        );
        assert_eq!((queued.started_at_ms, queued.stuck), (None, false));
        let deleted = of(
            "<job_state>C</job_state><exit_status>271</exit_status><comment>Job deleted as result of dependency on job 6.vm</comment>",
        );
        assert_eq!((deleted.state, deleted.exit), (JobState::Cancelled, None));
        assert_eq!(
            deleted.reason.as_deref(),
            Some("Job deleted as result of dependency on job 6.vm")
        );
        let begins = of("<job_state>W</job_state><Execution_Time>1798761600</Execution_Time>");
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
            let held = of(&format!(
                "<job_state>H</job_state><Hold_Types>{holds}</Hold_Types>{depend}"
            ));
            assert_eq!(
                (held.state, held.stuck),
                (JobState::Pending, stuck),
                "{holds} {depend}"
            );
            assert!(held.reason.is_some());
        }
    }

    #[test]
    fn a_job_that_runs_has_nodes_and_no_end() {
        let running = of(
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
    }

    #[test]
    fn text_says_the_same_as_xml() {
        let text = "Job Id: 28.vm\n    job_state = C\n    ctime = Fri Nov 20 20:36:13 2026\n    exit_status = 7\n";
        let entry = entry(&read_text(text)[0]).expect("it has a state");
        assert_eq!(
            (entry.state, entry.submitted_at_ms),
            (JobState::Failed, Some(1_795_206_973_000))
        );
    }
}
