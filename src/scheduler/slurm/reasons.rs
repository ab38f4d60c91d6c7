//! Why a job waits or ended, in words for people, and whether it waits for what cannot come by itself.
//!
//! The words are those of `squeue --format=%r`, 20.11 to 26.05 (`squeue(1)`, "JOB REASON CODES", and the sentences that the
//! controller writes itself).

use crate::job::JobState;
use crate::record::ExitStatus;

/// Reason, what helps, meaning. `passes`: it passes by itself, or the job is over; `stuck`: a person's release, or a change of
/// the site; `never`: only another job. Sentences of the controller are known by their beginning.
const REASONS: &str = "
Priority | passes | jobs of higher priority come first
Resources | passes | the nodes that it needs are in use
Dependency | passes | what it depends on has not happened yet
DependencyNeverSatisfied | never | what it depends on can no longer happen; cancel it
BeginTime | passes | it may not start yet: its begin time, or the pause after a requeue
Licenses | passes | its licences are in use
JobArrayTaskLimit | passes | as many elements of its array run as may run at a time
JobHeldUser | stuck | it is held; `scontrol release` lets it start
JobHeldAdmin | stuck | held by an administrator
JobHoldMaxRequeue | stuck | it was requeued so often that Slurm holds it; `scontrol release` lets it start
PartitionTimeLimit | never | its time limit is over that of its queue, or its queue has too few nodes up
PartitionNodeLimit | never | it asks for more or fewer nodes than its queue gives
PartitionDown | stuck | its queue starts no jobs until an administrator opens it
PartitionInactive | stuck | its queue takes no jobs until an administrator opens it
PartitionConfig | never | its queue does not allow what it asks for
BadConstraints | never | no nodes can ever be what it asks for; change the job
ReqNodeNotAvail | passes | a node that it asks for is down, drained or reserved
Nodes required for job are DOWN | passes | nodes that it needs are down, drained or reserved
NodeDown | passes | a node that it needs is down
FrontEndDown | passes | the front end that would run it is down
Reservation | passes | its reservation has not begun
ReservationDeleted | never | its reservation is gone; change the job
InvalidAccount | never | its account is not valid; change the job
InvalidQOS | never | its quality of service is not valid; change the job
AccountNotAllowed | never | its account may not use its queue
QOSNotAllowed | never | its quality of service may not use its queue
AccountingPolicy | passes | a limit of its account or quality of service is reached
QOSUsageThreshold | passes | its quality of service has been used too much for now
QOSJobLimit | passes | as many jobs of its quality of service run as may run at a time
QOSResourceLimit | passes | its quality of service has as much as it may have at a time
QOSTimeLimit | never | its time limit is over that of its quality of service
AssociationJobLimit | passes | as many jobs of its account run as may run at a time
AssociationResourceLimit | passes | its account has as much as it may have at a time
AssociationTimeLimit | never | its time limit is over that of its account
MaxMemPerLimit | never | it asks for more memory than one job may have
DeadLine | never | it cannot end before its deadline
BurstBufferOperation | stuck | a burst buffer failed; change the job
BurstBufferResources | passes | there is no room in the burst buffer
BurstBufferStageIn | passes | its data is on the way to the burst buffer
PowerNotAvail | passes | there is not enough power
PowerReserved | passes | the power that it needs is reserved
SchedDefer | passes | the scheduler has not looked at it yet
Cleaning | passes | its former start is being cleaned up
Prolog | passes | the site's prologue is running
FedJobLock | passes | clusters of the federation are agreeing on it
launch failed requeued held | stuck | the site's prologue failed on a node; `scontrol release` tries again
job requeued in held state | stuck | it was requeued and held; `scontrol release` lets it start
user env retrieval failed requeued held | stuck | the login environment could not be read; `scontrol release` tries again
NonZeroExitCode | passes | it ended with an exit code other than 0
RaisedSignal | passes | a signal ended it
OutOfMemory | passes | it wanted more memory than it was given
TimeLimit | passes | it reached its time limit
InactiveLimit | passes | it was idle for too long
JobLaunchFailure | passes | it could not be started, its output could not be opened, or a signal ended it
SystemFailure | passes | Slurm, a file system or the network failed
";

/// What a reason means, in words for people; `None` for one that says nothing or is not known.
#[must_use]
pub fn meaning(reason: &str) -> Option<&'static str> {
    known(reason).map(|(_, meaning)| meaning)
}

/// Says whether a job that waits for this reason waits for ever unless somebody does something.
pub(super) fn is_stuck(reason: &str) -> bool {
    known(reason).is_some_and(|(helps, _)| helps != "passes")
}

/// Says whether a job that waits for this reason can never start as it is.
pub(in crate::scheduler) fn is_hopeless(reason: &str) -> bool {
    known(reason).is_some_and(|(helps, _)| helps == "never")
}

/// What a reason says of the end: `RaisedSignal:9(Killed)`, from 24.11 on. `NonZeroExitCode` has no number.
pub(super) fn exit(reason: &str) -> Option<ExitStatus> {
    let rest = reason.strip_prefix("RaisedSignal:")?;
    let digits = rest.split(|c: char| !c.is_ascii_digit()).next()?;
    digits
        .parse()
        .ok()
        .filter(|signal| (1..=64).contains(signal))
        .map(ExitStatus::Signal)
}

/// A job that was cancelled keeps the reason why it had waited, which is none of its end, but where it could never start.
pub(super) fn for_state(reason: Option<String>, state: JobState) -> Option<String> {
    reason.filter(|reason| state != JobState::Cancelled || is_stuck(reason))
}

/// What helps, and the meaning.
fn known(text: &str) -> Option<(&'static str, &'static str)> {
    let reason = text.trim().trim_start_matches('(');
    let rows = REASONS.lines().filter_map(|row| {
        let (word, rest) = row.split_once(" | ")?;
        let after = reason.strip_prefix(word)?;
        // `ReqNodeNotAvail, UnavailableNodes:n4`, `RaisedSignal:9(Killed)`, and sentences that go on.
        let is_whole = !after.starts_with(|c: char| c.is_ascii_alphanumeric());
        is_whole.then_some((word.len(), rest.split_once(" | ")?))
    });
    let longest = rows.max_by_key(|(length, _)| *length);
    longest.map(|(_, row)| row).or_else(|| limit(text))
}

/// A limit on what one job may ask for: it never fits.
const PER_JOB: (&str, &str) = (
    "never",
    "it is over a limit on single jobs of its account or quality of service; change the job",
);
/// A limit on time that is used up; it comes back with the site's next period, if at all.
const USED_UP: (&str, &str) = (
    "passes",
    "its account or quality of service has used up its time, or would with this job",
);
/// A limit on what several jobs have together: it passes when they end.
const SHARED: (&str, &str) = (
    "passes",
    "its account, user or quality of service has as much as it may have at a time",
);

/// The families `AssocMax..`, `AssocGrp..`, `QOSMax..`, `QOSMin..`, `QOSGrp..`: more than a hundred words by resource.
fn limit(reason: &str) -> Option<(&'static str, &'static str)> {
    // Some programs print refusals in small letters.
    let small = reason.to_ascii_lowercase();
    let rest = small
        .strip_prefix("assoc")
        .or_else(|| small.strip_prefix("qos"))?;
    let word = rest.split(|c: char| !c.is_ascii_alphanumeric()).next()?;
    // `GrpCPURunMinutesLimit` is about what runs at the moment.
    let is_used_up =
        word == "grpwalllimit" || (word.contains("minutes") && !word.contains("runminutes"));
    let single = ["perjob", "pernode", "wallduration"];
    match word.get(..3)? {
        "grp" if is_used_up => Some(USED_UP),
        "grp" => Some(SHARED),
        "min" => Some(PER_JOB),
        "max" if single.iter().any(|part| word.contains(part)) => Some(PER_JOB),
        "max" => Some(SHARED),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_cancelled_job_does_not_end_by_what_it_waited_for() {
        let of = |reason: &str, state| for_state(Some(reason.to_owned()), state);
        assert_eq!(of("Priority", JobState::Cancelled), None);
        assert!(of("Priority", JobState::Pending).is_some());
        assert!(of("DependencyNeverSatisfied", JobState::Cancelled).is_some());
    }

    #[test]
    fn what_cannot_come_by_itself_is_told_from_what_passes() {
        for reason in [
            "PartitionTimeLimit",
            "PartitionNodeLimit",
            "DependencyNeverSatisfied",
            "JobHeldUser",
            "JobHeldAdmin",
            "BadConstraints",
            "InvalidAccount",
            "InvalidQOS",
            "PartitionDown",
            "launch failed requeued held",
            "AssocMaxWallDurationPerJobLimit",
            "AssocMaxCpuPerJobLimit",
            "AssocMaxGRESPerNode",
            "QOSMaxNodePerJobLimit",
            "QOSMaxWallDurationPerJobLimit",
            "QOSMinGRES",
        ] {
            assert!(is_stuck(reason), "{reason}");
            assert!(meaning(reason).is_some(), "{reason}");
        }
        for reason in [
            "Priority",
            "Resources",
            "Dependency",
            "BeginTime",
            "ReqNodeNotAvail, UnavailableNodes:n4",
            "Reservation",
            "AssocGrpCpuLimit",
            "AssocGrpCPUMinutesLimit",
            "AssocMaxJobsLimit",
            "QOSMaxJobsPerUserLimit",
            "QOSMaxCpuPerUserLimit",
            "RaisedSignal:9(Killed)",
        ] {
            assert!(!is_stuck(reason), "{reason}");
            assert!(meaning(reason).is_some(), "{reason}");
        }
        for reason in ["", "None", "BrandNew", "PriorityX"] {
            assert_eq!(
                (is_stuck(reason), meaning(reason)),
                (false, None),
                "{reason}"
            );
        }
    }

    #[test]
    fn every_row_says_what_helps() {
        for row in REASONS.trim().lines() {
            let cells: Vec<&str> = row.split(" | ").collect();
            assert!(
                cells.len() == 3 && ["passes", "stuck", "never"].contains(&cells[1]),
                "{row}"
            );
        }
    }

    #[test]
    fn the_longer_word_wins() {
        assert!(meaning("ReservationDeleted").is_some_and(|text| text.contains("gone")));
        assert!(meaning("Reservation").is_some_and(|text| text.contains("not begun")));
    }

    #[test]
    fn signals_are_read() {
        assert_eq!(exit("RaisedSignal:9(Killed)"), Some(ExitStatus::Signal(9)));
        assert_eq!(
            exit("RaisedSignal:53(Real-time_signal_19)"),
            Some(ExitStatus::Signal(53))
        );
        for reason in [
            "NonZeroExitCode",
            "RaisedSignal:",
            "RaisedSignal:999",
            "RaisedSignal:x",
        ] {
            assert_eq!(exit(reason), None, "{reason}");
        }
    }

    proptest! {
        #[test]
        fn any_reason_is_read_without_panic(reason in "\\PC{0,40}") {
            let _ = (is_stuck(&reason), meaning(&reason), exit(&reason));
        }
    }
}
