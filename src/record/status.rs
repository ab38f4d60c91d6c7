//! What is known of a run's state, and of whom.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{
    AttemptMarks, AttemptRecord, Cause, ExitStatus, NodeRecord, Notice, RunRecord, Sentinel,
};
use crate::job::{ArraySpec, JobId, JobState};

/// What a scheduler says of a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueEntry {
    /// The job.
    pub job_id: JobId,
    /// Its state in dlrun's words.
    pub state: JobState,
    /// Its state in the scheduler's words.
    pub raw_state: String,
    /// Why it waits or ended, in the scheduler's words.
    pub reason: Option<String>,
    /// When it was submitted, in Unix milliseconds UTC, where the scheduler says so.
    pub submitted_at_ms: Option<u64>,
    /// When it started.
    pub started_at_ms: Option<u64>,
    /// When it ended.
    pub ended_at_ms: Option<u64>,
    /// How it ended, where the scheduler says so.
    pub exit: Option<ExitStatus>,
    /// Nodes it has or had, as the scheduler writes them.
    pub nodes: Option<String>,
    /// Elements of the array that this is about, as the run counts them; `None`: the whole job.
    #[serde(default)]
    pub elements: Option<ArraySpec>,
    /// True where it waits for what cannot come without a change: a limit it is over, a dependency that failed, a hold.
    #[serde(default)]
    pub stuck: bool,
    /// When the scheduler expects a job that waits to start, in Unix milliseconds UTC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected_start_ms: Option<u64>,
}

/// What the files of the newest attempt say.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Outcome {
    /// The script's start mark.
    pub start: Option<Sentinel>,
    /// The script's end mark.
    pub end: Option<Sentinel>,
    /// What the job noted of this start, where the run may continue.
    pub attempt: Option<AttemptRecord>,
    /// The records of the nodes.
    pub nodes: Vec<NodeRecord>,
    /// The scheduler's last word on how the run ended, kept because schedulers forget (Slurm after five minutes).
    pub verdict: Option<QueueEntry>,
    /// When `dlrun cancel` asked for the run's end, in Unix milliseconds UTC.
    pub cancel_asked_at_ms: Option<u64>,
    /// How many nodes `dlrun scale` asked for since this start began.
    pub nodes_asked: Option<u32>,
    /// What the scheduler wrote into the job's output when it ended it.
    pub notice: Option<Notice>,
}

impl From<&Outcome> for AttemptMarks {
    fn from(outcome: &Outcome) -> Self {
        let (start, end) = (outcome.start.as_ref(), outcome.end.as_ref());
        let first = start.or(end);
        Self {
            job_id: first.and_then(|mark| mark.job_id.clone()),
            first_node: first.map(|mark| mark.node.clone()),
            started_at_ms: start.map(|mark| mark.at_ms),
            ended_at_ms: end.map(|mark| mark.ended_at_ms(start)),
            exit_code: end.and_then(|mark| mark.exit_code),
            record: outcome.attempt.clone(),
        }
    }
}

impl QueueEntry {
    /// Says whether it is an end that marks cannot know: cancelled, timeout, memory, node, preempted.
    #[must_use]
    pub fn explains_the_end(&self) -> bool {
        self.state.is_final() && !matches!(self.state, JobState::Completed | JobState::Failed)
    }

    /// Says whether the scheduler still has the job: nothing else can end it then.
    #[must_use]
    pub fn goes_on(&self) -> bool {
        matches!(
            self.state,
            JobState::Pending | JobState::Running | JobState::Suspended
        )
    }
}

/// The state of a run, with its witnesses' words.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    /// The state.
    pub state: JobState,
    /// The scheduler's own word, where it still knows the job.
    pub raw_state: Option<String>,
    /// Why, where somebody said so.
    pub reason: Option<String>,
    /// How the command ended.
    pub exit: Option<ExitStatus>,
    /// When the job started, in Unix milliseconds UTC.
    pub started_at_ms: Option<u64>,
    /// When it ended.
    pub ended_at_ms: Option<u64>,
    /// True where it waits for what cannot come without a change.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub stuck: bool,
    /// When the scheduler expects a run that waits to start, in Unix milliseconds UTC; as of the last question.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected_start_ms: Option<u64>,
    /// Why it ended otherwise than well.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<Cause>,
    /// How the elements of its array stand.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub elements: Option<ElementCounts>,
}

/// How many elements of an array are in which state.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ElementCounts {
    /// All of them.
    pub total: u64,
    /// By state; states in which none is are left out.
    pub states: BTreeMap<JobState, u64>,
}

impl ElementCounts {
    /// Elements that will not run any further.
    #[must_use]
    pub fn over(&self) -> u64 {
        let over = self.states.iter().filter(|(state, _)| state.is_final());
        // An import may say anything.
        over.map(|(_, count)| *count).fold(0, u64::saturating_add)
    }

    /// Elements in a state.
    #[must_use]
    pub fn of(&self, state: JobState) -> u64 {
        self.states.get(&state).copied().unwrap_or(0)
    }
}

impl Status {
    /// A state of which nothing more is known.
    #[must_use]
    pub fn of(state: JobState) -> Self {
        Self {
            state,
            ..Self::default()
        }
    }
}

/// A run as an index knows it.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct RunRow {
    /// Who submitted what.
    pub record: RunRecord,
    /// Where it stood when last somebody looked; [`JobState::Unknown`] where nobody has yet.
    pub status: Status,
    /// Its owner, where a node's database told it: what that knows of the run's end is one node's view.
    pub uid: Option<u32>,
}
