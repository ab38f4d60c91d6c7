//! OpenPBS's states and exit codes in dlrun's words (`job.h` and `qstat(1B)` of OpenPBS 23.06).

use crate::job::JobState;
use crate::record::ExitStatus;

/// Substates of a job that has ended: deleted, moved to another server.
const DELETED: i64 = 91;
const MOVED: i64 = 94;

/// What tells how a job is.
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
        (_, Some(-28 | -29)) => JobState::Timeout,
        (_, Some(-26 | -27)) => JobState::OutOfMemory,
        // The node's daemon began anew, or the first node was lost.
        (_, Some(-6..=-4 | -20)) => JobState::NodeFail,
        // Deleted by a hook.
        (_, Some(-17 | -19)) => JobState::Cancelled,
        (_, Some(_)) => JobState::Failed,
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
    Some(match exit_status? {
        -29 => "exceeded walltime",
        -28 => "exceeded cput",
        -27 => "exceeded mem",
        -26 => "exceeded vmem",
        -25 | -24 => "exceeded ncpus",
        -30 => "its nodes could not join",
        -20 => "the connection to its first node was lost",
        -17 | -19 => "deleted by a hook",
        -10 => "its user or group is not known on the node",
        -6..=-4 => "the node's pbs_mom began anew",
        -2 | -1 => "could not be started",
        _ => return None,
    })
}

/// Milliseconds since 1970 of `Fri Nov 20 20:38:06 2026`, which `qstat` writes in the time zone of its own environment;
/// it is run with UTC.
pub(super) fn time_ms(text: &str) -> Option<u64> {
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let words: Vec<&str> = text.split_whitespace().collect();
    let [_, month, day, clock, year] = words[..] else { return None };
    let month = 1 + u64::try_from(MONTHS.iter().position(|name| *name == month)?).ok()?;
    let (day, year): (u64, u64) = (day.parse().ok()?, year.parse().ok()?);
    let parts: Vec<u64> = clock.split(':').map(|part| part.parse().ok()).collect::<Option<_>>()?;
    let [hour, minute, second] = parts[..] else { return None };
    let in_range =
        (1970..=9999).contains(&year) && (1..=31).contains(&day) && hour < 24 && minute < 60 && second < 61;
    if !in_range {
        return None;
    }
    Some((days_since_1970(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second) * 1000)
}

/// Days from 1970-01-01 on, by counting years from March, so that the leap day comes last.
fn days_since_1970(year: u64, month: u64, day: u64) -> u64 {
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let leap_days = year / 4 - year / 100 + year / 400;
    // 719468 lie between 0000-03-01 and 1970-01-01.
    year * 365 + leap_days + (153 * month + 2) / 5 + day - 1 - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended_with(substate: i64, exit_status: Option<i64>) -> JobState {
        state(Signs { letter: "F", substate: Some(substate), exit_status, started: true })
    }

    #[test]
    fn letters_are_known() {
        let of = |letter| state(Signs { letter, ..Signs::default() });
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
        let never = Signs { letter: "F", substate: Some(92), exit_status: None, started: false };
        assert_eq!(state(never), JobState::Cancelled, "its dependency failed");
    }

    #[test]
    fn only_the_scripts_own_codes_are_exits() {
        assert_eq!(exit(Some(7)), Some(ExitStatus::Code(7)));
        assert_eq!(exit(Some(137)), Some(ExitStatus::Code(137)));
        assert_eq!(exit(Some(271)), Some(ExitStatus::Signal(15)));
        assert_eq!(
            (exit(Some(-29)), exit(None), exit(Some(256)), exit(Some(9999))),
            (None, None, None, None)
        );
    }

    #[test]
    fn dates_are_read() {
        for (text, seconds) in [
            ("Fri Nov 20 20:38:06 2026", 1_795_207_086),
            ("Thu Jan  1 00:00:00 1970", 0),
            ("Tue Feb 29 12:00:00 2028", 1_835_438_400),
            ("Mon Jan  1 00:00:00 2001", 978_307_200),
        ] {
            assert_eq!(time_ms(text), Some(seconds * 1000), "{text}");
        }
        for text in
            ["", "UNKNOWN", "Fri Nov 20 20:38 2026", "Fri Xxx 20 20:38:06 2026", "Fri Nov 20 25:38:06 2026"]
        {
            assert_eq!(time_ms(text), None, "{text}");
        }
    }
}
