//! Slurm's states in dlrun's words (`squeue(1)` 22.05 to 25.05, "JOB STATE CODES").

use crate::job::JobState;

/// Translates a long state; `sacct` writes `CANCELLED by 1001`, both may add `+`.
pub(super) fn state(raw: &str) -> JobState {
    match raw.split([' ', '+']).next().unwrap_or_default() {
        "PENDING" | "REQUEUED" | "REQUEUE_FED" | "REQUEUE_HOLD" | "SPECIAL_EXIT" | "RESV_DEL_HOLD" => {
            JobState::Pending
        }
        "RUNNING" | "CONFIGURING" | "COMPLETING" | "RESIZING" | "SIGNALING" | "STAGE_OUT" | "STOPPED" => {
            JobState::Running
        }
        "SUSPENDED" => JobState::Suspended,
        "COMPLETED" => JobState::Completed,
        "FAILED" => JobState::Failed,
        "CANCELLED" | "REVOKED" => JobState::Cancelled,
        "TIMEOUT" | "DEADLINE" => JobState::Timeout,
        "OUT_OF_MEMORY" => JobState::OutOfMemory,
        "NODE_FAIL" | "BOOT_FAIL" => JobState::NodeFail,
        "PREEMPTED" => JobState::Preempted,
        _ => JobState::Unknown,
    }
}

/// Epoch seconds as pinned by `SLURM_TIME_FORMAT=%s`; `N/A`, `Unknown`, `None` and 0 are no time.
pub(super) fn time_ms(text: &str) -> Option<u64> {
    text.trim().parse::<u64>().ok().filter(|seconds| *seconds > 0)?.checked_mul(1000)
}

/// A reason worth showing.
pub(super) fn reason(text: &str) -> Option<String> {
    let text = text.trim().trim_start_matches('(').trim_end_matches(')');
    (!text.is_empty() && !matches!(text, "None" | "null" | "(null)" | "N/A")).then(|| text.to_owned())
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
            ("BOOT_FAIL", JobState::NodeFail),
            ("BRAND_NEW", JobState::Unknown),
        ] {
            assert_eq!(state(raw), expected, "{raw}");
        }
    }

    #[test]
    fn times_and_reasons_that_say_nothing_are_absent() {
        assert_eq!(time_ms("1795184522"), Some(1_795_184_522_000));
        for text in ["N/A", "Unknown", "", "0"] {
            assert_eq!(time_ms(text), None);
        }
        assert_eq!(reason("None"), None);
        assert_eq!(reason("(Resources)"), Some("Resources".into()));
    }
}
