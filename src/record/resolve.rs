//! One state out of several witnesses: the script's own marks, the live queue, accounting.
//!
//! The marks were written by the job itself and survive everything but a dead file system; the queue knows of waiting,
//! cancelling, limits and nodes; accounting remembers. An empty answer proves nothing.

use super::cause_of_end::{CLOCK_SKEW_MS, cause_of_end, idle_end, was_cancelled};
use super::{CauseKind, ExitStatus, Next, NodeState, Outcome, QueueEntry, Sentinel, Status};
use crate::job::JobState;

/// Before the reason for which a run that may continue does not.
pub const NOT_AGAIN: &str = "it is not started again: ";

/// Merges the witnesses.
///
/// * What the queue says now counts before what it said once; a verdict on an earlier start counts no more.
/// * A scheduler's final word other than "completed" or "failed" (cancelled, timeout, memory, node, preempted) explains
///   what the marks cannot know, so it wins.
/// * A job that waits again, or runs since after the end mark, was requeued: the mark is of an earlier start.
/// * A job that the scheduler has not let go of is not over, whatever its mark says: why it ended is known only then. A
///   training that saves its work at the time limit and exits with 0 has not completed.
/// * Else the end mark decides: it carries the true exit code, also above 127, which `sacct` gets wrong.
/// * Where the scheduler does not explain the end, the files do: its notice in the job's output, a `dlrun cancel`, a
///   process that the kernel killed for want of memory.
/// * A job that left the queue without an end mark is not known to have ended well, whatever its scheduler calls it:
///   [`JobState::Unknown`]. Its script notes every end, in its output where the disk is full; a Slurm controller that
///   was killed may start a job twice, kill both and call it completed.
#[must_use]
pub fn resolve(outcome: &Outcome, queue: Option<&QueueEntry>) -> Status {
    let verdict = outcome
        .verdict
        .as_ref()
        .filter(|verdict| !is_past(verdict, outcome.start.as_ref()));
    let explaining = queue.or(verdict.filter(|verdict| verdict.explains_the_end()));
    let queue = queue.or(verdict);
    let interrupted = outcome
        .nodes
        .iter()
        .any(|node| node.state == NodeState::Interrupted);
    let is_past =
        |end: &&Sentinel| queue.is_some_and(|entry| runs_anew(entry, outcome.start.as_ref(), end));
    let next = outcome
        .attempt
        .as_ref()
        .and_then(|attempt| attempt.end.as_ref());
    let continues = next.is_some_and(|end| end.next != Next::Nothing);
    let end = outcome
        .end
        .as_ref()
        .filter(|end| !is_past(end) && !continues);
    let started = outcome.start.as_ref().map(|mark| mark.at_ms);
    let exit = end
        .and_then(Sentinel::exit)
        .map(|exit| as_a_node_saw(outcome, exit));
    let mut status = Status {
        state: JobState::Unknown,
        raw_state: queue.map(|entry| entry.raw_state.clone()),
        reason: queue.and_then(|entry| entry.reason.clone()),
        exit: exit.or_else(|| queue.and_then(|entry| entry.exit)),
        started_at_ms: started.or_else(|| queue.and_then(|entry| entry.started_at_ms)),
        ended_at_ms: end
            .map(|mark| mark.ended_at_ms(outcome.start.as_ref()))
            .or_else(|| queue?.ended_at_ms),
        ..Status::of(JobState::Unknown)
    };
    let explained = explained(outcome, explaining, exit);
    (status.state, status.reason) = match (exit, queue.map(|entry| entry.state)) {
        (_, Some(state)) if queue.is_some_and(QueueEntry::explains_the_end) => {
            (state, status.reason.take())
        }
        (_, _) if explained.is_some() => {
            (explained.map_or(JobState::Unknown, CauseKind::state), None)
        }
        (Some(_), Some(state @ (JobState::Running | JobState::Suspended))) => {
            (state, status.reason.take())
        }
        (Some(exit), _) => (
            state_of_exit(exit),
            status.reason.take().filter(|_| !exit.is_success()),
        ),
        (None, Some(JobState::Completed)) => {
            status.exit = None;
            let raw_state = status.raw_state.as_deref().unwrap_or("completed");
            let reason = format!("its scheduler calls it {raw_state}, but it left no end mark");
            (JobState::Unknown, Some(reason))
        }
        (None, Some(state)) => (state, status.reason.take()),
        (None, None) if continues => (
            JobState::Unknown,
            Some("it was to start again, and its scheduler does not know the job".to_owned()),
        ),
        (None, None) => (
            JobState::Unknown,
            Some(unknown_reason(outcome, interrupted)),
        ),
    };
    if let Some(end) =
        next.filter(|_| matches!(status.state, JobState::Failed | JobState::Completed))
    {
        status.state = end.verdict.state().unwrap_or(status.state);
    }
    if status.state == JobState::Cancelled && outcome.start.is_none() {
        // It never ran: the start that a scheduler reports is that of its end.
        status.started_at_ms = None;
    }
    status.stuck = status.state == JobState::Pending && queue.is_some_and(|entry| entry.stuck);
    let waits = queue.filter(|_| status.state == JobState::Pending);
    status.expected_start_ms = waits.and_then(|entry| entry.expected_start_ms);
    let notice = outcome
        .notice
        .as_ref()
        .filter(|notice| Some(notice.kind) == explained);
    status.cause = cause_of_end(outcome, end, &status, notice);
    if let Some((cause, end)) = status.cause.as_mut().zip(next)
        && end.is_by_dlrun()
        && cause.text != end.evidence
    {
        cause.text = format!("{}: {}", cause.text, end.evidence);
    }
    if let (Some(cause), Some(end)) = (&mut status.cause, next.filter(|_| !continues))
        && cause.text != end.why
    {
        cause.text = format!("{}; {NOT_AGAIN}{}", cause.text, end.why);
    }
    status
}

/// A shell reports code 130 and signal 2 in the same way; who waited for the command knows which it was.
fn as_a_node_saw(outcome: &Outcome, exit: ExitStatus) -> ExitStatus {
    let seen = outcome.nodes.iter().filter_map(|node| node.exit);
    seen.into_iter()
        .find(|seen| seen.shell_code() == exit.shell_code())
        .unwrap_or(exit)
}

/// What the files say of the end where the scheduler does not: it forgot the job, or calls it failed.
fn explained(
    outcome: &Outcome,
    queue: Option<&QueueEntry>,
    exit: Option<ExitStatus>,
) -> Option<CauseKind> {
    if queue.is_some_and(QueueEntry::goes_on) {
        return None;
    }
    // A program that is ended for doing nothing may exit with 0: it has not completed.
    let limit = queue.is_some_and(|entry| entry.state == JobState::Timeout);
    if exit.is_some() && !limit && idle_end(outcome).is_some() {
        return Some(CauseKind::Idle);
    }
    if queue.is_some_and(|entry| entry.state == JobState::Completed) {
        return None;
    }
    let got_through = exit.is_some_and(ExitStatus::is_success);
    let notice = outcome.notice.as_ref().filter(|notice| {
        // A training that saves its work at the time limit and exits with 0 has not completed.
        let limit = matches!(notice.kind, CauseKind::TimeLimit | CauseKind::Preemption);
        !got_through || (limit && notice.job.is_some())
    });
    if let Some(notice) = notice.filter(|notice| notice.kind != CauseKind::Memory) {
        return Some(notice.kind);
    }
    if queue.is_none() && was_cancelled(outcome, exit) {
        return Some(CauseKind::Cancel);
    }
    let killed = outcome
        .nodes
        .iter()
        .any(|node| node.usage.mem_oom_kills.is_some_and(|kills| kills > 0));
    let memory = (killed && exit.is_some()) || notice.is_some();
    (memory && !got_through).then_some(CauseKind::Memory)
}

/// Says whether the live queue speaks of a later start than the marks. The scheduler's times are whole seconds, and the
/// clocks of controller and node may differ a little. While a requeued job still completes its former start, Slurm calls
/// it completing, as one that ends for good, but gives the present as its start.
fn runs_anew(entry: &QueueEntry, start: Option<&Sentinel>, end: &Sentinel) -> bool {
    let marked_ms = start.unwrap_or(end).at_ms;
    match entry.state {
        JobState::Pending | JobState::Suspended => true,
        JobState::Running => entry
            .started_at_ms
            .is_some_and(|started| started > marked_ms + CLOCK_SKEW_MS),
        _ => false,
    }
}

/// Says whether a verdict is on an earlier start than the newest. A scheduler's times are whole seconds.
fn is_past(verdict: &QueueEntry, start: Option<&Sentinel>) -> bool {
    start
        .zip(verdict.ended_at_ms)
        .is_some_and(|(start, ended)| start.at_ms / 1000 > ended / 1000)
}

fn state_of_exit(exit: ExitStatus) -> JobState {
    if exit.is_success() {
        JobState::Completed
    } else {
        JobState::Failed
    }
}

fn unknown_reason(outcome: &Outcome, interrupted: bool) -> String {
    let text = if interrupted {
        "the job's shell was killed on the node"
    } else if outcome.start.is_some() {
        "the job started, left no end mark, and its scheduler no longer knows it"
    } else {
        "its scheduler does not know it and it left no start mark"
    };
    text.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::JobId;
    use crate::record::Notice;

    fn mark(exit_code: Option<i32>) -> Option<Sentinel> {
        Some(Sentinel {
            format: 1,
            at_ms: 1000,
            uptime_ms: None,
            node: "n1".into(),
            job_id: None,
            exit_code,
            refused: None,
        })
    }

    fn entry(state: JobState) -> QueueEntry {
        QueueEntry {
            expected_start_ms: None,
            job_id: JobId("7".into()),
            state,
            raw_state: "RAW".into(),
            reason: Some("Why".into()),
            submitted_at_ms: None,
            started_at_ms: None,
            ended_at_ms: None,
            exit: None,
            nodes: None,
            elements: None,
            stuck: false,
        }
    }

    fn state(exit: Option<i32>, queue: Option<JobState>) -> JobState {
        let end = exit.and_then(|code| mark(Some(code)));
        let outcome = Outcome {
            start: mark(None),
            end,
            ..Outcome::default()
        };
        resolve(&outcome, queue.map(entry).as_ref()).state
    }

    #[test]
    fn the_end_mark_decides_between_completed_and_failed() {
        assert_eq!(state(Some(0), None), JobState::Completed);
        assert_eq!(state(Some(3), None), JobState::Failed);
        assert_eq!(state(Some(3), Some(JobState::Completed)), JobState::Failed);
        assert_eq!(state(Some(0), Some(JobState::Unknown)), JobState::Completed);
    }

    #[test]
    fn a_start_that_dlrun_ended_says_why_beside_its_exit_code() {
        let attempt = |verdict: &str| {
            let end = serde_json::json!({
                "verdict": verdict, "evidence": "`dlrun scale` asked for 3 nodes", "next": "nothing",
                "why": "this was start 2 of 2", "at_ms": 1, "checkpoint": null, "advanced": false, "node_hours": 1.0,
            });
            let record = serde_json::json!({ "format": 1, "found": null, "end": end });
            Some(serde_json::from_value(record).expect("a record"))
        };
        let cause = |verdict| {
            let outcome = Outcome {
                start: mark(None),
                end: mark(Some(143)),
                attempt: attempt(verdict),
                ..Outcome::default()
            };
            resolve(&outcome, None).cause.expect("a cause").text
        };
        let scaled = cause("scaled");
        assert!(
            scaled.contains("was ended by SIGTERM: `dlrun scale` asked for 3 nodes; "),
            "{scaled}"
        );
        assert!(!cause("failed").contains("dlrun scale"));
    }

    #[test]
    fn completed_without_an_end_mark_is_unknown() {
        let outcome = Outcome {
            start: mark(None),
            ..Outcome::default()
        };
        let status = resolve(&outcome, Some(&entry(JobState::Completed)));
        let reason = "its scheduler calls it RAW, but it left no end mark";
        assert_eq!(
            (status.state, status.exit, status.reason.as_deref()),
            (JobState::Unknown, None, Some(reason))
        );
    }

    #[test]
    fn a_job_that_its_scheduler_still_has_is_not_over() {
        for code in [0, 3] {
            assert_eq!(
                state(Some(code), Some(JobState::Running)),
                JobState::Running
            );
            assert_eq!(
                state(Some(code), Some(JobState::Cancelled)),
                JobState::Cancelled
            );
        }
    }

    #[test]
    fn the_scheduler_explains_what_marks_cannot_know() {
        assert_eq!(state(Some(143), Some(JobState::Timeout)), JobState::Timeout);
        assert_eq!(
            state(Some(143), Some(JobState::Cancelled)),
            JobState::Cancelled
        );
        assert_eq!(
            state(Some(137), Some(JobState::OutOfMemory)),
            JobState::OutOfMemory
        );
        assert_eq!(state(None, Some(JobState::Pending)), JobState::Pending);
    }

    #[test]
    fn run_that_never_began_says_what_kept_it() {
        let kind = |outcome: &Outcome, entry: Option<&QueueEntry>| {
            resolve(outcome, entry)
                .cause
                .map(|cause| (cause.kind, cause.text))
        };
        let end = Sentinel {
            refused: Some("no module".to_owned()),
            ..mark(Some(66)).expect("a mark")
        };
        let refused = Outcome {
            start: mark(None),
            end: Some(end),
            ..Outcome::default()
        };
        let setup = (
            CauseKind::Setup,
            "dlrun could not start it: no module".to_owned(),
        );
        assert_eq!(kind(&refused, None), Some(setup));
        let lost = QueueEntry {
            reason: Some("DependencyNeverSatisfied".into()),
            ..entry(JobState::Cancelled)
        };
        let of = |outcome: &Outcome, entry: &QueueEntry| {
            kind(outcome, Some(entry)).map(|(kind, _)| kind)
        };
        assert_eq!(of(&Outcome::default(), &lost), Some(CauseKind::Dependency));
        let asked = Outcome {
            cancel_asked_at_ms: Some(1),
            ..Outcome::default()
        };
        assert_eq!(of(&asked, &lost), Some(CauseKind::Cancel));
        assert_eq!(
            of(&Outcome::default(), &entry(JobState::Cancelled)),
            Some(CauseKind::Cancel)
        );
    }

    #[test]
    fn the_mark_of_an_earlier_start_does_not_end_a_requeued_job() {
        assert_eq!(state(Some(143), Some(JobState::Pending)), JobState::Pending);
        let outcome = Outcome {
            start: mark(None),
            end: mark(Some(143)),
            ..Outcome::default()
        };
        let running = QueueEntry {
            started_at_ms: Some(60_000),
            ..entry(JobState::Running)
        };
        let status = resolve(&outcome, Some(&running));
        assert_eq!(
            (status.state, status.exit, status.ended_at_ms),
            (JobState::Running, None, None)
        );
    }

    #[test]
    fn a_job_that_completes_for_a_requeue_has_not_failed() {
        let end = Sentinel {
            at_ms: 9_900,
            ..mark(Some(143)).expect("a mark")
        };
        let outcome = Outcome {
            start: mark(None),
            end: Some(end),
            ..Outcome::default()
        };
        let exit_where_started_at = |started| {
            let completing = QueueEntry {
                started_at_ms: Some(started),
                ..entry(JobState::Running)
            };
            resolve(&outcome, Some(&completing)).exit
        };
        assert_eq!(exit_where_started_at(10_000), None);
        assert_eq!(exit_where_started_at(1_000), Some(ExitStatus::Signal(15)));
    }

    #[test]
    fn run_lasts_as_long_as_passed_whatever_the_clock_was_set_to() {
        let marked = |at_ms, uptime_ms| Sentinel {
            at_ms,
            uptime_ms,
            ..mark(None).expect("a mark")
        };
        let ended = |start, end| {
            let end = Sentinel {
                exit_code: Some(0),
                ..end
            };
            resolve(
                &Outcome {
                    start: Some(start),
                    end: Some(end),
                    ..Outcome::default()
                },
                None,
            )
            .ended_at_ms
        };
        assert_eq!(
            ended(marked(1_000, Some(70)), marked(3_600_000, Some(6_070))),
            Some(7_000)
        );
        assert_eq!(
            ended(marked(9_000, Some(70)), marked(1_000, Some(6_070))),
            Some(15_000)
        );
        assert_eq!(
            ended(marked(1_000, None), marked(7_000, Some(6_070))),
            Some(7_000)
        );
        assert_eq!(
            ended(marked(1_000, Some(70)), marked(7_000, Some(60))),
            Some(7_000),
            "another boot"
        );
    }

    #[test]
    fn an_empty_answer_proves_nothing() {
        let status = resolve(
            &Outcome {
                start: mark(None),
                ..Outcome::default()
            },
            None,
        );
        assert_eq!(status.state, JobState::Unknown);
        assert!(status.reason.expect("a reason").contains("no end mark"));
    }

    #[test]
    fn a_verdict_outlives_the_schedulers_memory() {
        let verdict = |ended| {
            Some(QueueEntry {
                ended_at_ms: Some(ended),
                ..entry(JobState::Timeout)
            })
        };
        let of = |verdict, queue: Option<QueueEntry>| {
            let outcome = Outcome {
                start: mark(None),
                end: mark(Some(143)),
                verdict,
                ..Outcome::default()
            };
            resolve(&outcome, queue.as_ref()).state
        };
        assert_eq!(of(verdict(2_000), None), JobState::Timeout);
        assert_eq!(
            of(verdict(900), None),
            JobState::Failed,
            "on an earlier start"
        );
        assert_eq!(
            of(verdict(2_000), Some(entry(JobState::Pending))),
            JobState::Pending,
            "requeued by hand"
        );
    }

    #[test]
    fn every_last_word_of_a_scheduler_outlives_its_memory() {
        let of = |state, exit, asked| {
            let outcome = Outcome {
                start: mark(None),
                end: mark(exit).filter(|mark| mark.exit_code.is_some()),
                verdict: Some(QueueEntry {
                    ended_at_ms: Some(2_000),
                    ..entry(state)
                }),
                cancel_asked_at_ms: asked,
                ..Outcome::default()
            };
            resolve(&outcome, None).state
        };
        assert_eq!(of(JobState::Failed, None, None), JobState::Failed);
        let begun = Sentinel {
            at_ms: 2_700,
            ..mark(None).expect("a mark")
        };
        let ended = QueueEntry {
            ended_at_ms: Some(2_000),
            ..entry(JobState::Failed)
        };
        let quick = Outcome {
            start: Some(begun),
            verdict: Some(ended),
            ..Outcome::default()
        };
        assert_eq!(
            resolve(&quick, None).state,
            JobState::Failed,
            "within one second"
        );
        assert_eq!(of(JobState::Completed, None, None), JobState::Unknown);
        assert_eq!(
            of(JobState::Failed, Some(0), None),
            JobState::Completed,
            "the mark has the exit code"
        );
        assert_eq!(of(JobState::Completed, Some(3), None), JobState::Failed);
        assert_eq!(
            of(JobState::Failed, Some(143), Some(900)),
            JobState::Cancelled,
            "dlrun cancelled it"
        );
    }

    #[test]
    fn a_cancel_is_remembered_where_the_scheduler_forgot_it() {
        let of = |exit, asked| {
            let outcome = Outcome {
                start: mark(None),
                end: mark(exit).filter(|mark| mark.exit_code.is_some()),
                cancel_asked_at_ms: Some(asked),
                ..Outcome::default()
            };
            resolve(&outcome, None).state
        };
        assert_eq!(of(Some(143), 900), JobState::Cancelled);
        assert_eq!(of(None, 900), JobState::Cancelled);
        assert_eq!(of(Some(0), 900), JobState::Completed, "it got through");
        assert_eq!(of(Some(3), 5_000), JobState::Failed, "it was over before");
    }

    #[test]
    fn a_run_that_its_watcher_ended_for_doing_nothing_is_cancelled_and_says_why() {
        let of = |exit, queue: Option<JobState>| {
            let key = crate::record::MeasureKey {
                run_id: crate::job::RunId::from_random([0; 10]),
                element: 0,
                attempt: 0,
                node: "n".into(),
                step: 0,
            };
            let mut node = crate::record::NodeRecord::begun(key, None, 0, Default::default());
            node.events = vec![crate::record::Event {
                at_ms: 900,
                kind: crate::record::EventKind::IdleEnded,
                detail: "its 2 GPUs did no work".into(),
            }];
            let outcome = Outcome {
                start: mark(None),
                end: mark(exit).filter(|mark| mark.exit_code.is_some()),
                nodes: vec![node],
                ..Outcome::default()
            };
            let status = resolve(&outcome, queue.map(entry).as_ref());
            (
                status.state,
                status.cause.map(|cause| (cause.kind, cause.text)),
            )
        };
        let idle = Some((CauseKind::Idle, "its 2 GPUs did no work".to_owned()));
        for exit in [0, 143] {
            assert_eq!(of(Some(exit), None), (JobState::Cancelled, idle.clone()));
        }
        let failed = of(Some(143), Some(JobState::Failed));
        assert_eq!(failed, (JobState::Cancelled, idle.clone()));
        let handled = of(Some(0), Some(JobState::Completed));
        assert_eq!(handled, (JobState::Cancelled, idle));
        assert_eq!(of(None, Some(JobState::Running)).0, JobState::Running);
        assert_eq!(of(Some(143), Some(JobState::Timeout)).0, JobState::Timeout);
    }

    #[test]
    fn notices_cancels_and_kills_for_want_of_memory_explain_in_this_order() {
        let notice = |kind, job: Option<&str>| {
            Some(Notice {
                kind,
                line: "a line".into(),
                job: job.map(str::to_owned),
            })
        };
        let of = |exit, notice, asked, queue: Option<JobState>| {
            let outcome = Outcome {
                start: mark(None),
                end: mark(exit).filter(|mark| mark.exit_code.is_some()),
                notice,
                cancel_asked_at_ms: asked,
                ..Outcome::default()
            };
            resolve(&outcome, queue.map(entry).as_ref())
        };
        let limit = || notice(CauseKind::TimeLimit, Some("7"));
        assert_eq!(
            of(Some(143), limit(), Some(900), None).state,
            JobState::Timeout
        );
        assert_eq!(
            of(Some(143), limit(), None, Some(JobState::Failed)).state,
            JobState::Timeout
        );
        assert_eq!(of(Some(0), limit(), None, None).state, JobState::Timeout);
        assert_eq!(
            of(Some(0), limit(), None, Some(JobState::Completed)).state,
            JobState::Completed
        );
        assert_eq!(
            of(Some(143), limit(), None, Some(JobState::Pending)).state,
            JobState::Pending
        );
        let unnamed = notice(CauseKind::TimeLimit, None);
        assert_eq!(of(Some(0), unnamed, None, None).state, JobState::Completed);
        let memory = || notice(CauseKind::Memory, Some("7"));
        assert_eq!(
            of(Some(137), memory(), None, None).state,
            JobState::OutOfMemory
        );
        assert_eq!(
            of(Some(143), memory(), Some(900), None).state,
            JobState::Cancelled
        );
        assert_eq!(of(Some(0), memory(), None, None).state, JobState::Completed);
        let told = of(None, limit(), None, None);
        assert_eq!(
            told.cause.map(|cause| cause.text).as_deref(),
            Some("it reached its time limit: a line")
        );
    }

    #[test]
    fn signals_are_told_from_codes() {
        assert_eq!(
            mark(Some(143)).and_then(|m| m.exit()),
            Some(ExitStatus::Signal(15))
        );
        assert_eq!(
            mark(Some(3)).and_then(|m| m.exit()),
            Some(ExitStatus::Code(3))
        );
    }
}
