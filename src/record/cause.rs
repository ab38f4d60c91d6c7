//! Why a run ended otherwise than well, in one word and in words.

use nix::sys::signal::Signal;
use serde::{Deserialize, Serialize};

use super::ExitStatus;
use crate::foundation::vocabulary::vocabulary;
use crate::job::JobState;

vocabulary! {
    /// What ended a run.
    pub enum CauseKind {
        /// The user's program returned another exit code than 0, or died of a signal.
        Program = "program",
        /// The time limit.
        TimeLimit = "time_limit",
        /// It wanted more memory than it was given.
        Memory = "memory",
        /// A node or the job's shell died.
        Node = "node",
        /// It made room for another job.
        Preemption = "preemption",
        /// Somebody cancelled it.
        Cancel = "cancel",
        /// The container did not start; the user's program never ran.
        Container = "container",
        /// The node lacks what the job needs, such as a module or a directory; the user's program never ran.
        Setup = "setup",
        /// A job that it waited for did not end as it had to; it never ran.
        Dependency = "dependency",
        /// It did nothing, and dlrun ended it, as the site says.
        Idle = "idle",
    }
}

impl CauseKind {
    /// The state of a run that this ended.
    #[must_use]
    pub fn state(self) -> JobState {
        match self {
            Self::Program | Self::Container | Self::Setup => JobState::Failed,
            Self::TimeLimit => JobState::Timeout,
            Self::Memory => JobState::OutOfMemory,
            Self::Node => JobState::NodeFail,
            Self::Preemption => JobState::Preempted,
            Self::Cancel | Self::Dependency | Self::Idle => JobState::Cancelled,
        }
    }
}

/// Why a run ended otherwise than well.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cause {
    /// In one word.
    pub kind: CauseKind,
    /// In words, with the evidence where it is not the scheduler's word.
    pub text: String,
}

impl Cause {
    /// The cause that a state means; `None` where the run continues, succeeded, or nothing is known. `evidence` is a line
    /// that shows it.
    #[must_use]
    pub fn of(state: JobState, exit: Option<ExitStatus>, evidence: Option<&str>) -> Option<Self> {
        let (kind, text) = match state {
            // A scheduler that gives no code may mean its own failure.
            JobState::Failed => (CauseKind::Program, format!("the program {}", ending(exit?))),
            JobState::Timeout => (CauseKind::TimeLimit, "it reached its time limit".to_owned()),
            JobState::OutOfMemory => (
                CauseKind::Memory,
                "it wanted more memory than it was given".to_owned(),
            ),
            JobState::NodeFail => (CauseKind::Node, "a node or the job's shell died".to_owned()),
            JobState::Preempted => (
                CauseKind::Preemption,
                "it made room for another job".to_owned(),
            ),
            JobState::Cancelled => (CauseKind::Cancel, "it was cancelled".to_owned()),
            JobState::Pending
            | JobState::Running
            | JobState::Suspended
            | JobState::Completed
            | JobState::Unknown => return None,
        };
        let text = evidence.map_or(text.clone(), |line| format!("{text}: {line}"));
        Some(Self { kind, text })
    }

    /// The container did not start; `words` are those of its runtime, or dlrun's own.
    #[must_use]
    pub fn container(words: &str) -> Self {
        Self {
            kind: CauseKind::Container,
            text: format!("the container did not start: {words}"),
        }
    }

    /// The batch script could not start the command; `words` are its own.
    #[must_use]
    pub fn setup(words: &str) -> Self {
        Self {
            kind: CauseKind::Setup,
            text: format!("dlrun could not start it: {words}"),
        }
    }
}

/// How something ended, as the end of a sentence.
#[must_use]
pub fn ending(exit: ExitStatus) -> String {
    match exit {
        ExitStatus::Code(code @ 127) => {
            format!("ended with exit code {code}, a shell's for a command that is not found")
        }
        ExitStatus::Code(code) => format!("ended with exit code {code}"),
        ExitStatus::Signal(signal) => format!("was ended by {}", signal_name(signal)),
    }
}

/// `SIGSEGV`; a number that has no name stays one.
#[must_use]
pub fn signal_name(signal: i32) -> String {
    Signal::try_from(signal).map_or_else(
        |_| format!("signal {signal}"),
        |known| known.as_str().to_owned(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_states_are_read_back() {
        for kind in [
            CauseKind::Program,
            CauseKind::TimeLimit,
            CauseKind::Memory,
            CauseKind::Node,
            CauseKind::Preemption,
            CauseKind::Cancel,
        ] {
            assert_eq!(serde_json::to_value(kind).expect("a word"), kind.as_str());
            let cause = Cause::of(kind.state(), Some(ExitStatus::Code(3)), None).expect("a cause");
            assert_eq!(cause.kind, kind);
        }
    }

    #[test]
    fn a_container_that_did_not_start_is_a_failure() {
        let cause = Cause::container("no such image");
        assert_eq!(
            (cause.kind.state(), cause.kind.as_str()),
            (JobState::Failed, "container")
        );
        assert_eq!(cause.text, "the container did not start: no such image");
    }

    #[test]
    fn programs_are_told_by_code_or_signal() {
        let text = |exit| Cause::of(JobState::Failed, exit, None).map(|cause| cause.text);
        assert_eq!(
            text(Some(ExitStatus::Code(3))).as_deref(),
            Some("the program ended with exit code 3")
        );
        assert_eq!(
            text(Some(ExitStatus::Signal(11))).as_deref(),
            Some("the program was ended by SIGSEGV")
        );
        assert_eq!(
            text(Some(ExitStatus::Signal(63))).as_deref(),
            Some("the program was ended by signal 63")
        );
        assert_eq!(text(None), None);
    }
}
