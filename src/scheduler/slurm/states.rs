//! Slurm's states in dlrun's words (`squeue(1)`, `sacct(1)` 20.11 to 26.05, "JOB STATE CODES").

use crate::job::JobState;

/// A state's long name, its short code where it has one, and what it is to dlrun.
///
/// A job that completes still has its nodes. One whose deadline passed was ended by the clock, one that could not be
/// launched or whose node could not be booted by its nodes. Of several words the later row counts: what a job is doing
/// (`COMPLETING`, `REQUEUED`) says more than its state, and some words only add to a state.
const STATES: &[(&str, &str, JobState)] = &[
    ("LAUNCH_FAILED", "", JobState::NodeFail),
    ("RECONFIG_FAIL", "", JobState::NodeFail),
    ("POWER_UP_NODE", "", JobState::Running),
    ("EXPEDITING", "EX", JobState::Pending),
    ("PENDING", "PD", JobState::Pending),
    ("RUNNING", "R", JobState::Running),
    ("SUSPENDED", "S", JobState::Suspended),
    ("COMPLETED", "CD", JobState::Completed),
    ("CANCELLED", "CA", JobState::Cancelled),
    ("FAILED", "F", JobState::Failed),
    ("TIMEOUT", "TO", JobState::Timeout),
    ("NODE_FAIL", "NF", JobState::NodeFail),
    ("PREEMPTED", "PR", JobState::Preempted),
    ("BOOT_FAIL", "BF", JobState::NodeFail),
    ("DEADLINE", "DL", JobState::Timeout),
    ("OUT_OF_MEMORY", "OOM", JobState::OutOfMemory),
    ("COMPLETING", "CG", JobState::Running),
    ("CONFIGURING", "CF", JobState::Running),
    ("RESIZING", "RS", JobState::Running),
    ("SIGNALING", "SI", JobState::Running),
    ("STAGE_OUT", "SO", JobState::Running),
    ("STOPPED", "ST", JobState::Suspended),
    ("REQUEUED", "RQ", JobState::Pending),
    ("REQUEUE_FED", "RF", JobState::Pending),
    ("REQUEUE_HOLD", "RH", JobState::Pending),
    ("SPECIAL_EXIT", "SE", JobState::Pending),
    ("RESV_DEL_HOLD", "RD", JobState::Pending),
    ("REVOKED", "RV", JobState::Cancelled),
];

/// States in which a job waits for a person (`scontrol release`).
const HELD: [&str; 3] = ["REQUEUE_HOLD", "SPECIAL_EXIT", "RESV_DEL_HOLD"];

/// Translates a state: `sacct` writes `CANCELLED by 1001`, its default columns cut the word off and put a `+` behind it.
/// Words that are there beside a state (`RUNNING+COMPLETING`) are looked at one by one.
pub(in crate::scheduler) fn state(raw: &str) -> JobState {
    let word = raw.split_whitespace().next().unwrap_or_default();
    let begun = word.strip_suffix('+');
    if let Some(begun) = begun {
        let mut fit = STATES.iter().filter(|(long, ..)| long.starts_with(begun));
        if let (Some((.., state)), None) = (fit.next(), fit.next()) {
            return *state;
        }
    }
    let words = begun.map_or_else(|| word.split('+').collect(), |begun| vec![begun]);
    let words = words.iter().filter(|word| !word.is_empty());
    let row = |word: &&str| {
        let mut rows = STATES.iter();
        rows.position(|(long, short, _)| word == long || word == short)
    };
    let last = words.filter_map(row).max();
    last.map_or(JobState::Unknown, |at| STATES[at].2)
}

/// Says whether a state is one that only a person can end.
pub(super) fn is_held(raw: &str) -> bool {
    raw.split('+').any(|word| HELD.contains(&word))
}

/// Epoch seconds as pinned by `SLURM_TIME_FORMAT=%s`; `N/A`, `Unknown`, `None` and 0 are no time.
pub(super) fn time_ms(text: &str) -> Option<u64> {
    text.trim()
        .parse::<u64>()
        .ok()
        .filter(|seconds| *seconds > 0)?
        .checked_mul(1000)
}

/// A reason worth showing.
pub(super) fn reason(text: &str) -> Option<String> {
    let text = text.trim().trim_start_matches('(').trim_end_matches(')');
    (!text.is_empty() && !matches!(text, "None" | "null" | "(null)" | "N/A"))
        .then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_of_both_commands_are_known() {
        for (raw, expected) in [
            ("RUNNING", JobState::Running),
            ("COMPLETING", JobState::Running),
            ("CANCELLED by 1001", JobState::Cancelled),
            ("CANCELLED+", JobState::Cancelled),
            ("OUT_OF_MEMORY", JobState::OutOfMemory),
            ("OUT_OF_ME+", JobState::OutOfMemory),
            ("RE+", JobState::Unknown),
            ("BOOT_FAIL", JobState::NodeFail),
            ("PD", JobState::Pending),
            ("CG", JobState::Running),
            ("RUNNING+COMPLETING", JobState::Running),
            ("FAILED+REQUEUE_HOLD", JobState::Pending),
            ("TIMEOUT+COMPLETING", JobState::Running),
            ("PENDING+LAUNCH_FAILED", JobState::Pending),
            ("BRAND_NEW", JobState::Unknown),
            ("", JobState::Unknown),
        ] {
            assert_eq!(state(raw), expected, "{raw}");
        }
        assert!(is_held("REQUEUE_HOLD") && is_held("PENDING+SPECIAL_EXIT") && !is_held("PENDING"));
    }

    #[test]
    fn times_and_reasons_that_say_nothing_are_absent() {
        assert_eq!(time_ms("1795184522"), Some(1_795_184_522_000));
        for text in ["N/A", "Unknown", "", "0", "99999999999999999999", "-1"] {
            assert_eq!(time_ms(text), None);
        }
        assert_eq!(reason("None"), None);
        assert_eq!(reason("(Resources)"), Some("Resources".into()));
    }
}
