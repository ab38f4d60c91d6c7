//! What ended a run, by its state and what its files say.

use super::first_rank::{FELL, cause_in};
use super::{
    Cause, CauseKind, EventKind, ExitStatus, Next, NodeRecord, Notice, Outcome, Sentinel, Status,
    ending,
};
use crate::job::JobState;

/// The clocks of login node, controller and node may differ by this much.
pub(super) const CLOCK_SKEW_MS: u64 = 2_000;

/// The cause of a run's end; `notice`: what the scheduler wrote of it.
pub(super) fn cause_of_end(
    outcome: &Outcome,
    end: Option<&Sentinel>,
    status: &Status,
    notice: Option<&Notice>,
) -> Option<Cause> {
    let stated = notice
        .map(|notice| &*notice.line)
        .or_else(|| exception(outcome, status));
    container_failure(outcome, status)
        .or_else(|| setup_failure(end, status))
        .or_else(|| lost_dependency(outcome, status))
        .or_else(|| idle_end(outcome).filter(|_| status.state == JobState::Cancelled))
        .or_else(|| first_rank_to_fall(outcome, status))
        .or_else(|| cause_in(exception(outcome, status)?))
        .or_else(|| Cause::of(status.state, status.exit, stated))
}

/// A failure of the batch script before it started the command.
fn setup_failure(end: Option<&Sentinel>, status: &Status) -> Option<Cause> {
    let words = end.and_then(|end| end.refused.as_deref());
    words
        .filter(|_| status.state == JobState::Failed)
        .map(Cause::setup)
}

/// What schedulers say of a job that they ended since what it waited for can no longer happen: Slurm, OpenPBS (dlrun's
/// words for it), Torque.
const LOST_DEPENDENCY: [&str; 3] = [
    "DependencyNeverSatisfied",
    "dependency cannot come true",
    "as result of dependency",
];

/// A run that never started, and that nobody cancelled.
fn lost_dependency(outcome: &Outcome, status: &Status) -> Option<Cause> {
    let is_ended = status.state == JobState::Cancelled && outcome.start.is_none();
    let reason = status
        .reason
        .as_deref()
        .filter(|_| is_ended && !was_cancelled(outcome, status.exit))?;
    let is_known = LOST_DEPENDENCY.iter().any(|words| reason.contains(words));
    let text = format!("what it depends on did not end as it had to: {reason}");
    is_known.then_some(Cause {
        kind: CauseKind::Dependency,
        text,
    })
}

/// The run did nothing, and its watcher ended it.
pub(super) fn idle_end(outcome: &Outcome) -> Option<Cause> {
    let mut events = outcome.nodes.iter().flat_map(|node| &node.events);
    let end = events.find(|event| event.kind == EventKind::IdleEnded)?;
    Some(Cause {
        kind: CauseKind::Idle,
        text: end.detail.clone(),
    })
}

/// The nodes that saw the exit code of a run that failed.
fn failed_nodes<'a>(outcome: &'a Outcome, status: &Status) -> impl Iterator<Item = &'a NodeRecord> {
    let failed = status.exit.filter(|_| status.state == JobState::Failed);
    let code = failed.map(ExitStatus::shell_code);
    let is_same =
        move |node: &&NodeRecord| code.is_some() && node.exit.map(ExitStatus::shell_code) == code;
    outcome.nodes.iter().filter(is_same)
}

/// What the program itself printed of its failure.
fn exception<'a>(outcome: &'a Outcome, status: &Status) -> Option<&'a str> {
    let line = failed_nodes(outcome, status).find_map(|node| node.last_words.last());
    line.map(String::as_str)
}

/// A failure that was the container's, by what its node noted of the exit code that the run has.
fn container_failure(outcome: &Outcome, status: &Status) -> Option<Cause> {
    let words = |node: &NodeRecord| node.container.as_ref()?.failure.clone();
    let words = failed_nodes(outcome, status).find_map(words);
    words.map(|words| Cause::container(&words))
}

/// The rank of a distributed training that failed before all others, which its launcher ended.
fn first_rank_to_fall(outcome: &Outcome, status: &Status) -> Option<Cause> {
    let of_node = |node: &NodeRecord| {
        let rank = node.ranks.iter().find(|rank| rank.fell_first)?;
        // The first rank of a node has the node's output; helpers write into it too, so its last line may be another's.
        let is_its = rank.output.is_none() && rank.rank < rank.world_size;
        let of_node = node.last_words.last().filter(|_| is_its);
        let said = rank.last_words.as_ref().or(of_node);
        // An agent says which of its ranks it was.
        let is_agent = rank.role.as_deref() == Some("agent");
        let of_rank = said
            .filter(|_| is_agent)
            .and_then(|words| words.split_once(FELL));
        if let Some((who, how)) = of_rank {
            return Some(format!("{who} on {}{FELL}{how}", node.key.node));
        }
        let said = said.map(|words| format!(": {words}"));
        let who = rank.role.as_ref().map_or_else(
            || format!("rank {}", rank.rank),
            |role| format!("the {role}"),
        );
        let (name, end) = (&node.key.node, ending(rank.exit?));
        let said = said.unwrap_or_default();
        Some(format!("{who} on {name} failed first: it {end}{said}"))
    };
    let text = outcome.nodes.iter().find_map(of_node);
    let failed = status.state == JobState::Failed;
    text.filter(|_| failed).map(|text| Cause {
        kind: CauseKind::Program,
        text,
    })
}

/// Somebody asked for the end through dlrun, and no other end is known: a job that got through all the same completed.
pub(super) fn was_cancelled(outcome: &Outcome, exit: Option<ExitStatus>) -> bool {
    let asked = outcome.cancel_asked_at_ms;
    // A run that continues has not ended yet.
    let next = outcome
        .attempt
        .as_ref()
        .and_then(|attempt| attempt.end.as_ref());
    let continues = next.is_some_and(|end| end.next != Next::Nothing);
    let end = outcome.end.as_ref().filter(|_| !continues);
    let ended = end.map(|end| end.at_ms);
    asked.is_some_and(|asked| ended.is_none_or(|ended| ended + CLOCK_SKEW_MS >= asked))
        && !exit.is_some_and(ExitStatus::is_success)
}
