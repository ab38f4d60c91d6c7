//! How a start of a run ended, and whether the run continues: pure.

use crate::foundation::units::counted;
use crate::job::{JobState, Resume, ResumeOn};
use crate::record::{AttemptEnd, Status, TimeStop, Verdict};

/// After so many lost nodes in turn, without a new checkpoint between them, the nodes are not the cause.
const NODES_IN_TURN: usize = 5;
/// By this exit code a program says that it is not to be started again (NVIDIA's `ft_launcher`).
const NOT_AGAIN: i32 = 93;

/// What is known of the start that has ended.
pub(super) struct Known<'a> {
    pub(super) resume: &'a Resume,
    /// Starts of the run up to here, this one included.
    pub(super) starts: u32,
    /// The command's exit code as a shell has it.
    pub(super) code: i32,
    /// What marks, records and the scheduler say of the end.
    pub(super) status: &'a Status,
    /// What was done on a node when the time was nearly up; `None`: nothing, or no record says so.
    pub(super) time_stop: Option<TimeStop>,
    /// Whether the time to save had come when the command ended.
    pub(super) time_was_up: bool,
    /// Whether the nodes' records are there.
    pub(super) is_recorded: bool,
    /// That a node of the start was lost, as its scheduler or another node says.
    pub(super) lost: Option<String>,
    /// What speaks against nodes of the start, which ended before its command because of it.
    pub(super) unfit: Option<String>,
    /// Why dlrun ended the program, which seemed to hang.
    pub(super) hung: Option<String>,
    /// Nodes that `dlrun scale` asked for since this start began.
    pub(super) scale: Option<u32>,
    /// Whether a node's supervisor was killed, so that nobody saw the program's end.
    pub(super) is_interrupted: bool,
    /// Whether as many epochs ended as the program announced.
    pub(super) all_epochs: bool,
    /// Whether the job got a signal to end.
    pub(super) was_terminated: bool,
    /// Whether its scheduler says that it makes room for another job.
    pub(super) is_preempted: bool,
    /// Whether its scheduler has put it back into the queue already.
    pub(super) is_requeued: bool,
    /// Whether there is a new complete checkpoint.
    pub(super) advanced: bool,
    /// Hours of nodes that the run has taken.
    pub(super) node_hours: f64,
}

/// How the start ended, with what shows it.
pub(super) fn verdict(known: &Known<'_>) -> (Verdict, String) {
    let cause = |otherwise: &str| {
        let cause = known.status.cause.as_ref();
        cause.map_or_else(|| otherwise.to_owned(), |cause| cause.text.clone())
    };
    match known.status.state {
        JobState::Cancelled => return (Verdict::Cancelled, cause("it was cancelled")),
        JobState::OutOfMemory => {
            return (
                Verdict::Memory,
                cause("the kernel ended it for want of memory"),
            );
        }
        JobState::Preempted => return (Verdict::Preemption, cause("its scheduler says so")),
        JobState::NodeFail => return (Verdict::Node, cause("its scheduler says so")),
        JobState::Timeout => return (Verdict::Timeout, cause("its scheduler says so")),
        _ => {}
    }
    if let Some(text) = &known.unfit {
        return (Verdict::Node, text.clone());
    }
    if let Some(text) = &known.hung {
        return (Verdict::Hang, text.clone());
    }
    let asked = known
        .time_stop
        .filter(|stop| stop.signalled > 0 || stop.stopped);
    let in_time = asked.is_none() && (known.is_recorded || !known.time_was_up);
    let is_done =
        known.code == 0 && (in_time || known.all_epochs && !asked.is_some_and(|stop| stop.stopped));
    if is_done {
        return (
            Verdict::Finished,
            "the command ended with exit code 0".to_owned(),
        );
    }
    if let Some(nodes) = known.scale.filter(|_| asked.is_some()) {
        return (
            Verdict::Scaled,
            format!("`dlrun scale` asked for {}", counted(nodes.into(), "node")),
        );
    }
    if let Some(stop) = asked {
        return (Verdict::Timeout, stopped(stop, known.code));
    }
    if known.time_was_up && (known.code == 0 || known.was_terminated) {
        let text = format!(
            "the command ended with exit code {} when its time was nearly up",
            known.code
        );
        return (Verdict::Timeout, text);
    }
    if known.is_interrupted {
        return (
            Verdict::Node,
            "dlrun's process beside the program was killed".to_owned(),
        );
    }
    if known.is_preempted {
        return (
            Verdict::Preemption,
            "its scheduler says that it makes room for another job".to_owned(),
        );
    }
    if known.is_requeued {
        return (
            Verdict::Unknown,
            "its scheduler put it back into the queue".to_owned(),
        );
    }
    if known.was_terminated {
        return (
            Verdict::Unknown,
            "the job got a signal to end, and nobody says why".to_owned(),
        );
    }
    // Not before: a job that is ended loses its nodes one by one.
    if let Some(text) = &known.lost {
        return (Verdict::Node, text.clone());
    }
    (
        Verdict::Failed,
        cause(&format!("the command ended with exit code {}", known.code)),
    )
}

fn stopped(stop: TimeStop, code: i32) -> String {
    let saved = match (stop.signalled, stop.saved_seconds) {
        (0, _) => "its time was nearly up, and no process handles the signal to save".to_owned(),
        (_, Some(seconds)) => {
            format!("its time was nearly up; it saved its work within {seconds:.1} s of the signal")
        }
        (_, None) if stop.stopped => {
            "its time was nearly up; no new checkpoint was complete after the signal".to_owned()
        }
        (_, None) => "its time was nearly up; it ended after the signal to save".to_owned(),
    };
    let end = if stop.stopped {
        "dlrun ended it".to_owned()
    } else {
        format!("exit code {code}")
    };
    format!("{saved} ({end})")
}

/// Why the run continues, or why not. `before`: the ends of earlier starts, the oldest first.
pub(super) fn next(
    known: &Known<'_>,
    verdict: Verdict,
    before: &[AttemptEnd],
) -> Result<String, String> {
    let resume = known.resume;
    let on = match verdict {
        // It was ended since the job file wants it to continue.
        Verdict::Hang => {
            return within_limits(known, verdict, before, "`resume.hang` is \"requeue\"");
        }
        Verdict::Scaled => return within_limits(known, verdict, before, "it was asked for"),
        Verdict::Timeout => ResumeOn::Timeout,
        Verdict::Preemption => ResumeOn::Preemption,
        Verdict::Node => ResumeOn::Node,
        Verdict::Unknown if known.is_requeued => ResumeOn::Node,
        Verdict::Failed if known.code == NOT_AGAIN => {
            return Err(format!("exit code {NOT_AGAIN} asks for no further start"));
        }
        Verdict::Failed if resume.on.contains(&ResumeOn::Failure) && !known.advanced => {
            return Err("the program failed and left no new checkpoint".to_owned());
        }
        Verdict::Failed => ResumeOn::Failure,
        Verdict::Finished => return Err("the training is done".to_owned()),
        Verdict::Cancelled => return Err("it was cancelled".to_owned()),
        Verdict::Memory => {
            return Err(
                "it would want the same memory again: ask for more with `resources.memory`"
                    .to_owned(),
            );
        }
        Verdict::Unknown => return Err("nobody knows how this start ended".to_owned()),
    };
    if !resume.on.contains(&on) {
        return Err(format!("`resume.on` does not name \"{on}\""));
    }
    within_limits(
        known,
        verdict,
        before,
        &format!("`resume.on` names \"{on}\""),
    )
}

/// Whether the limits of the job file and the site allow another start.
fn within_limits(
    known: &Known<'_>,
    verdict: Verdict,
    before: &[AttemptEnd],
    why: &str,
) -> Result<String, String> {
    let resume = known.resume;
    let this = std::iter::once((known.advanced, verdict));
    let before = before.iter().rev().map(|end| (end.advanced, end.verdict));
    over_limits(resume, known.starts, this.chain(before), known.node_hours).map_or(Ok(()), Err)?;
    Ok(format!(
        "{why}; start {} of {}",
        known.starts + 1,
        resume.attempts
    ))
}

/// The limit that allows no further start. `ends`: whether each start left a new checkpoint and how it ended, the newest first; that a
/// node was lost or another size asked for says nothing of the program.
pub(super) fn over_limits(
    resume: &Resume,
    starts: u32,
    ends: impl Iterator<Item = (bool, Verdict)>,
    node_hours: f64,
) -> Option<String> {
    if starts >= resume.attempts {
        let attempts = resume.attempts;
        return Some(format!(
            "this was start {starts} of {attempts} (`resume.attempts`)"
        ));
    }
    let ends: Vec<(bool, Verdict)> = ends.collect();
    let is_lost = |(advanced, verdict): &&(bool, Verdict)| *verdict == Verdict::Node && !advanced;
    if ends.iter().take_while(is_lost).count() >= NODES_IN_TURN {
        return Some(format!(
            "{NODES_IN_TURN} starts in turn lost a node and left no new checkpoint"
        ));
    }
    // A new checkpoint is progress, however its start ended.
    let counted = ends.into_iter().filter(|(advanced, verdict)| {
        *advanced || !matches!(verdict, Verdict::Node | Verdict::Scaled)
    });
    let idle = counted.take_while(|(advanced, _)| !advanced).count();
    if idle >= usize::try_from(resume.without_progress).unwrap_or(usize::MAX) {
        let starts = if idle == 1 {
            "this start".to_owned()
        } else {
            format!("{idle} starts in turn")
        };
        return Some(format!(
            "{starts} left no new checkpoint (`resume.without_progress`)"
        ));
    }
    let cap = resume.node_hours.filter(|cap| node_hours >= *cap)?;
    Some(format!(
        "{node_hours:.3} node hours are used of {cap} (`resume.node_hours`)"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Next;

    fn resume(more: &str) -> Resume {
        let text = format!("[run]\ncommand = [\"a\"]\n[resume]\ncheckpoints = [\"c/*\"]\n{more}");
        let spec = crate::job::parse(&text).expect("a job file");
        spec.resume.expect("there is one").value
    }

    /// How a start ended, and whether another follows.
    fn decided(
        resume: &Resume,
        change: impl Fn(&mut Known<'_>),
        before: &[AttemptEnd],
    ) -> (Verdict, Result<String, String>) {
        let status = Status::default();
        let mut known = Known {
            resume,
            starts: u32::try_from(before.len()).expect("few") + 1,
            code: 0,
            status: &status,
            time_stop: None,
            time_was_up: false,
            is_recorded: true,
            lost: None,
            unfit: None,
            hung: None,
            scale: None,
            is_interrupted: false,
            all_epochs: false,
            was_terminated: false,
            is_preempted: false,
            is_requeued: false,
            advanced: true,
            node_hours: 1.0,
        };
        change(&mut known);
        let (verdict, _) = verdict(&known);
        (verdict, next(&known, verdict, before))
    }

    fn asked(saved_seconds: Option<f64>) -> Option<TimeStop> {
        Some(TimeStop {
            at_ms: 7,
            signalled: 1,
            saved_seconds,
            stopped: false,
        })
    }

    fn idle(verdict: Verdict) -> AttemptEnd {
        AttemptEnd {
            verdict,
            evidence: String::new(),
            lost_nodes: Vec::new(),
            kept_nodes: Vec::new(),
            next: Next::Requeue,
            why: String::new(),
            at_ms: 0,
            job_id: None,
            checkpoint: None,
            advanced: false,
            save_seconds: None,
            node_hours: 0.0,
        }
    }

    #[test]
    fn a_program_that_exits_well_is_done_unless_it_was_asked_to_save() {
        let plain = resume("");
        assert_eq!(decided(&plain, |_| {}, &[]).0, Verdict::Finished);
        let (verdict, next) = decided(&plain, |known| known.time_stop = asked(Some(1.0)), &[]);
        assert_eq!((verdict, next.is_ok()), (Verdict::Timeout, true));
        let all = |known: &mut Known<'_>| {
            known.time_stop = asked(Some(1.0));
            known.all_epochs = true;
        };
        assert_eq!(decided(&plain, all, &[]).0, Verdict::Finished);
        // Without records the time alone shows that it was asked.
        let unrecorded = |known: &mut Known<'_>| {
            known.is_recorded = false;
            known.time_was_up = true;
        };
        assert_eq!(decided(&plain, unrecorded, &[]).0, Verdict::Timeout);
    }

    #[test]
    fn a_failure_is_not_repeated_unless_it_is_asked_for_and_something_was_saved() {
        let fails = |known: &mut Known<'_>| known.code = 3;
        let (verdict, next) = decided(&resume(""), fails, &[]);
        assert_eq!(verdict, Verdict::Failed);
        assert!(next.expect_err("no").contains("failure"));
        let wanted = resume("on = [\"failure\"]");
        assert!(decided(&wanted, fails, &[]).1.is_ok());
        let saved_nothing = |known: &mut Known<'_>| (known.code, known.advanced) = (3, false);
        assert!(decided(&wanted, saved_nothing, &[]).1.is_err());
        assert!(
            decided(&wanted, |known| known.code = 93, &[])
                .1
                .expect_err("no")
                .contains("93")
        );
    }

    #[test]
    fn a_signal_that_nobody_explains_ends_the_run() {
        let terminated = |known: &mut Known<'_>| (known.code, known.was_terminated) = (143, true);
        let (verdict, next) = decided(&resume(""), terminated, &[]);
        assert_eq!((verdict, next.is_err()), (Verdict::Unknown, true));
        let preempted = |known: &mut Known<'_>| {
            terminated(known);
            known.is_preempted = true;
        };
        assert_eq!(decided(&resume(""), preempted, &[]).0, Verdict::Preemption);
    }

    #[test]
    fn what_dlrun_ended_is_not_done_whatever_its_exit_code() {
        let ended = TimeStop {
            at_ms: 7,
            signalled: 1,
            saved_seconds: None,
            stopped: true,
        };
        let all = |known: &mut Known<'_>| (known.time_stop, known.all_epochs) = (Some(ended), true);
        assert_eq!(
            decided(&resume(""), all, &[]).0,
            Verdict::Timeout,
            "the evaluation after the last epoch"
        );
        let hung = |known: &mut Known<'_>| known.hung = Some("no output".to_owned());
        let (verdict, next) = decided(&resume("on = [\"node\"]"), hung, &[]);
        assert_eq!(
            (verdict, next.is_ok(), verdict.state()),
            (Verdict::Hang, true, Some(JobState::Failed))
        );
        let scaled =
            |known: &mut Known<'_>| (known.time_stop, known.scale) = (Some(ended), Some(4));
        assert_eq!(decided(&resume(""), scaled, &[]).0, Verdict::Scaled);
        let killed = |known: &mut Known<'_>| (known.code, known.is_interrupted) = (137, true);
        assert_eq!(decided(&resume(""), killed, &[]).0, Verdict::Node);
        let lost = |known: &mut Known<'_>| {
            (known.code, known.lost) = (137, Some("n4 is DOWN".to_owned()));
        };
        assert_eq!(decided(&resume(""), lost, &[]).0, Verdict::Node);
        let ended = |known: &mut Known<'_>| {
            lost(known);
            known.was_terminated = true;
        };
        assert_eq!(decided(&resume(""), ended, &[]).0, Verdict::Unknown);
        let done = |known: &mut Known<'_>| known.lost = Some("n4 is DOWN".to_owned());
        assert_eq!(decided(&resume(""), done, &[]).0, Verdict::Finished);
        let requeued = |known: &mut Known<'_>| (known.code, known.is_requeued) = (143, true);
        let (verdict, next) = decided(&resume(""), requeued, &[]);
        assert_eq!((verdict, next.is_ok()), (Verdict::Unknown, true));
    }

    #[test]
    fn another_size_and_a_lost_node_are_no_lack_of_progress() {
        let over = |ends: &[(bool, Verdict)]| {
            over_limits(&resume(""), 3, ends.iter().copied(), 0.0).is_some()
        };
        assert!(over(&[(false, Verdict::Timeout), (false, Verdict::Hang)]));
        assert!(!over(&[
            (false, Verdict::Scaled),
            (false, Verdict::Node),
            (false, Verdict::Timeout)
        ]));
        assert!(!over(&[
            (false, Verdict::Timeout),
            (true, Verdict::Timeout),
            (false, Verdict::Timeout)
        ]));
        for verdict in [Verdict::Scaled, Verdict::Node] {
            let ends = [
                (false, Verdict::Timeout),
                (true, verdict),
                (false, Verdict::Timeout),
            ];
            assert!(!over(&ends), "{verdict:?}");
        }
    }

    #[test]
    fn five_lost_nodes_in_turn_end_the_run() {
        let unfit = |known: &mut Known<'_>| {
            (known.code, known.advanced) = (69, false);
            known.unfit = Some("n4 did not pass its check".to_owned());
        };
        let before: Vec<AttemptEnd> = (0..4).map(|_| idle(Verdict::Node)).collect();
        let (verdict, next) = decided(&resume(""), unfit, &before[1..]);
        assert_eq!((verdict, next.is_ok()), (Verdict::Node, true));
        let (_, next) = decided(&resume(""), unfit, &before);
        assert!(next.expect_err("no").contains("5 starts in turn"));
    }

    #[test]
    fn limits_end_the_run() {
        let up = |known: &mut Known<'_>| known.time_stop = asked(None);
        let idly = |known: &mut Known<'_>| (known.time_stop, known.advanced) = (asked(None), false);
        let ends = [idle(Verdict::Timeout)];
        let why = |more, change: &dyn Fn(&mut Known<'_>), before: &[AttemptEnd]| {
            decided(&resume(more), change, before)
                .1
                .expect_err("no")
                .to_owned()
        };
        assert!(why("attempts = 2", &up, &ends).contains("start 2 of 2"));
        assert!(why("", &idly, &ends).contains("2 starts in turn left no new checkpoint"));
        assert!(why("node_hours = 1.0", &up, &[]).contains("node hours"));
        assert!(why("on = [\"node\"]", &up, &[]).contains("\"timeout\""));
        assert!(
            decided(&resume(""), idly, &[]).1.is_ok(),
            "once it may happen"
        );
        assert!(
            decided(&resume(""), idly, &[idle(Verdict::Node)]).1.is_ok(),
            "a lost node does not count"
        );
    }
}
