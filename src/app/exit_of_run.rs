//! Exit codes that tell how a run ended.

use crate::job::JobState;
use crate::record::Status;

/// The exit code of `wait` and `submit --wait` for a state.
pub(crate) fn code_of_state(state: JobState) -> u8 {
    match state {
        JobState::Completed => 0,
        JobState::Failed => 10,
        JobState::Timeout => 11,
        JobState::OutOfMemory => 12,
        JobState::Preempted => 13,
        JobState::NodeFail => 14,
        JobState::Cancelled => 15,
        JobState::Pending | JobState::Running | JobState::Suspended | JobState::Unknown => 16,
    }
}

/// The job's own code: 128 + n on signal n, 125 where nobody can tell.
pub(crate) fn own_code(status: &Status) -> u8 {
    status
        .exit
        .and_then(|exit| u8::try_from(exit.shell_code()).ok())
        .unwrap_or(125)
}
