//! OpenPBS's states and exit codes in dlrun's words (`job.h` and `qstat(1B)` of OpenPBS 23.06).

use crate::job::{JobState, SchedulerKind};
use crate::record::ExitStatus;
use crate::scheduler::pbs::ends;

/// Substates of a job that has ended: deleted, moved to another server.
const DELETED: i64 = 91;
const MOVED: i64 = 94;

/// What shows how a job is.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Signs<'a> {
    /// `job_state`.
    pub(super) letter: &'a str,
    /// `substate`.
    pub(super) substate: Option<i64>,
    /// `Exit_status`.
    pub(super) exit_status: Option<i64>,
    /// Whether it ever started.
    pub(super) started: bool,
}

/// Translates a state. `B` is an array of which something has begun, `X` an element that is over, `F` a job that is over.
pub(super) fn state(signs: Signs<'_>) -> JobState {
    match signs.letter {
        "Q" | "H" | "W" | "T" => JobState::Pending,
        "R" | "E" | "B" => JobState::Running,
        "S" | "U" => JobState::Suspended,
        "F" | "X" => ended(signs),
        _ => JobState::Unknown,
    }
}

/// How a job ended. Codes below 0 are OpenPBS's own, from 256 on signals, the rest the script's.
fn ended(signs: Signs<'_>) -> JobState {
    match (signs.substate, signs.exit_status) {
        (Some(MOVED), _) => JobState::Unknown,
        (Some(DELETED), _) => JobState::Cancelled,
        (_, Some(0)) => JobState::Completed,
        (_, Some(code)) => ends::of_code(Some(SchedulerKind::OpenPbs), code)
            .map_or(JobState::Failed, |(state, _)| state),
        // One whose dependency failed, or an element that was deleted, has neither code nor start.
        (_, None) if !signs.started => JobState::Cancelled,
        (_, None) => JobState::Unknown,
    }
}

/// How the script ended, where the code is its own.
pub(super) fn exit(exit_status: Option<i64>) -> Option<ExitStatus> {
    match exit_status? {
        code @ 0..=255 => i32::try_from(code).ok().map(ExitStatus::Code),
        signal @ 257..=320 => i32::try_from(signal - 256).ok().map(ExitStatus::Signal),
        _ => None,
    }
}

/// What a code of OpenPBS's own means, where it leaves no comment.
pub(super) fn code_words(exit_status: Option<i64>) -> Option<&'static str> {
    ends::of_code(Some(SchedulerKind::OpenPbs), exit_status?).map(|(_, meaning)| meaning)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended_with(substate: i64, exit_status: Option<i64>) -> JobState {
        state(Signs {
            letter: "F",
            substate: Some(substate),
            exit_status,
            started: true,
        })
    }

    #[test]
    fn letters_are_known() {
        let of = |letter| {
            state(Signs {
                letter,
                ..Signs::default()
            })
        };
        for (letters, expected) in [
            ("QHWT", JobState::Pending),
            ("REB", JobState::Running),
            ("SU", JobState::Suspended),
            ("M?", JobState::Unknown),
        ] {
            for letter in letters.split("").filter(|letter| !letter.is_empty()) {
                assert_eq!(of(letter), expected, "{letter}");
            }
        }
    }

    #[test]
    fn ends_are_told_apart() {
        for (substate, code, expected) in [
            (92, Some(0), JobState::Completed),
            (93, Some(7), JobState::Failed),
            (93, Some(265), JobState::Failed),
            (93, Some(254), JobState::Failed),
            (91, Some(271), JobState::Cancelled),
            (91, None, JobState::Cancelled),
            (93, Some(-29), JobState::Timeout),
            (93, Some(-27), JobState::OutOfMemory),
            (93, Some(-20), JobState::NodeFail),
            (94, None, JobState::Unknown),
            (92, None, JobState::Unknown),
        ] {
            assert_eq!(ended_with(substate, code), expected, "{substate} {code:?}");
        }
        let never = Signs {
            letter: "F",
            substate: Some(92),
            exit_status: None,
            started: false,
        };
        assert_eq!(state(never), JobState::Cancelled, "its dependency failed");
    }

    #[test]
    fn only_the_scripts_own_codes_are_exits() {
        assert_eq!(exit(Some(7)), Some(ExitStatus::Code(7)));
        assert_eq!(exit(Some(137)), Some(ExitStatus::Code(137)));
        assert_eq!(exit(Some(271)), Some(ExitStatus::Signal(15)));
        assert_eq!(
            (
                exit(Some(-29)),
                exit(None),
                exit(Some(256)),
                exit(Some(9999))
            ),
            (None, None, None, None)
        );
    }
}
