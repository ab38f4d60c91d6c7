//! Slurm's states in every length: whole, as two letters, or cut to the width of a column.

use crate::job::JobState;
use crate::scheduler::slurm;

/// Short codes (`squeue(1)`, "JOB STATE CODES").
const CODES: [(&str, &str); 24] = [
    ("BF", "BOOT_FAIL"),
    ("CA", "CANCELLED"),
    ("CD", "COMPLETED"),
    ("CF", "CONFIGURING"),
    ("CG", "COMPLETING"),
    ("DL", "DEADLINE"),
    ("F", "FAILED"),
    ("NF", "NODE_FAIL"),
    ("OOM", "OUT_OF_MEMORY"),
    ("PD", "PENDING"),
    ("PR", "PREEMPTED"),
    ("R", "RUNNING"),
    ("RD", "RESV_DEL_HOLD"),
    ("RF", "REQUEUE_FED"),
    ("RH", "REQUEUE_HOLD"),
    ("RQ", "REQUEUED"),
    ("RS", "RESIZING"),
    ("RV", "REVOKED"),
    ("S", "SUSPENDED"),
    ("SE", "SPECIAL_EXIT"),
    ("SI", "SIGNALING"),
    ("SO", "STAGE_OUT"),
    ("ST", "STOPPED"),
    ("TO", "TIMEOUT"),
];

/// The whole word of a state.
fn whole(raw: &str) -> &str {
    let raw = raw.trim();
    if let Some((_, word)) = CODES.iter().find(|(code, _)| *code == raw) {
        return word;
    }
    // `OUT_OF_ME+`; `CANCELLED+` stands for `CANCELLED by 1001`.
    let Some(cut) = raw.strip_suffix('+').filter(|cut| cut.len() > 2) else { return raw };
    CODES.iter().find(|(_, word)| word.starts_with(cut)).map_or(raw, |(_, word)| word)
}

pub(super) fn job_state(raw: &str) -> JobState {
    slurm::job_state(whole(raw))
}

/// Says whether a word is a state of a job.
pub(super) fn is_state(word: &str) -> bool {
    job_state(word.split(' ').next().unwrap_or_default()) != JobState::Unknown
}

/// Says whether a person must let the job go (`JobHeldUser`, `JobHeldAdmin`, `launch failed requeued held`).
pub(super) fn is_hold(reason: &str) -> bool {
    reason.starts_with("JobHeld") || reason.ends_with("held")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_length_of_a_state_is_known() {
        for (raw, expected) in [
            ("OUT_OF_ME+", JobState::OutOfMemory),
            ("CANCELLED+", JobState::Cancelled),
            ("CANCELLED by 102216", JobState::Cancelled),
            ("COMPLETED", JobState::Completed),
            ("PD", JobState::Pending),
            ("NODE_FAIL", JobState::NodeFail),
            ("R", JobState::Running),
            ("+", JobState::Unknown),
        ] {
            assert_eq!(job_state(raw), expected, "{raw}");
        }
    }

    #[test]
    fn every_code_is_of_a_state() {
        assert!(CODES.iter().all(|(code, _)| is_state(code)));
    }
}
