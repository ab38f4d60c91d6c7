//! How a job ended, by the exit codes that PBS makes itself (`pbs_job.h` of Torque 6.1.3, `job.h` of OpenPBS 23.06).

use crate::job::JobState;

/// Which PBS said it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::scheduler) enum Pbs {
    Torque,
    OpenPbs,
}

use JobState::{Cancelled, Failed, NodeFail, OutOfMemory, Timeout};
use Pbs::{OpenPbs, Torque};

/// First and last code, whose it is where the two differ, the state, and what it means.
const ENDS: &[(i64, i64, Option<Pbs>, JobState, &str)] = &[
    (-3, -1, None, Failed, "could not be started"),
    (-6, -4, None, NodeFail, "its node's pbs_mom restarted"),
    (-8, -7, None, Failed, "could not be started again"),
    (
        -9,
        -9,
        Some(Torque),
        Failed,
        "its output files could not be made on the node",
    ),
    (-10, -10, Some(Torque), OutOfMemory, "over its memory limit"),
    (
        -10,
        -10,
        Some(OpenPbs),
        Failed,
        "its user or group is not known on the node",
    ),
    (-11, -11, Some(Torque), Timeout, "over its time limit"),
    (
        -12,
        -12,
        Some(Torque),
        Timeout,
        "over its limit of CPU time",
    ),
    (-14, -13, Some(Torque), Failed, "could not be started"),
    (-16, -11, Some(OpenPbs), Failed, "could not be started"),
    (-17, -17, Some(OpenPbs), Cancelled, "deleted by a hook"),
    (-18, -18, Some(OpenPbs), Failed, "requeued by a hook"),
    (-19, -19, Some(OpenPbs), Cancelled, "deleted by a hook"),
    (
        -20,
        -20,
        Some(OpenPbs),
        NodeFail,
        "the connection to its first node was lost",
    ),
    (-23, -21, Some(OpenPbs), Failed, "could not be started"),
    (-25, -24, Some(OpenPbs), Failed, "exceeded ncpus"),
    (-26, -26, Some(OpenPbs), OutOfMemory, "exceeded vmem"),
    (-27, -27, Some(OpenPbs), OutOfMemory, "exceeded mem"),
    (-28, -28, Some(OpenPbs), Timeout, "exceeded cput"),
    (-29, -29, Some(OpenPbs), Timeout, "exceeded walltime"),
    (-30, -30, Some(OpenPbs), Failed, "its nodes could not join"),
];

/// State and meaning of an exit code below 0. Where it is not known which PBS said it, a code that means different things
/// to them is `None`, as are codes from 0 on and unknown ones.
pub(in crate::scheduler) fn of_code(
    which: Option<Pbs>,
    code: i64,
) -> Option<(JobState, &'static str)> {
    let fits = |(first, last, whose, ..): &&(i64, i64, Option<Pbs>, JobState, &str)| {
        (*first..=*last).contains(&code)
            && whose.zip(which).is_none_or(|(whose, which)| whose == which)
    };
    let mut found = ENDS
        .iter()
        .filter(fits)
        .map(|(.., state, meaning)| (*state, *meaning));
    let first = found.next()?;
    found.all(|other| other.0 == first.0).then_some(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_with_two_meanings_is_known_only_with_its_pbs() {
        let state = |which, code| of_code(which, code).map(|(state, _)| state);
        assert_eq!(state(Some(Torque), -11), Some(Timeout));
        assert_eq!(state(Some(OpenPbs), -11), Some(Failed));
        assert_eq!(state(None, -11), None);
        assert_eq!(state(None, -27), Some(OutOfMemory));
        assert_eq!(state(None, -5), Some(NodeFail));
        assert_eq!(state(Some(Torque), -29), None);
        assert_eq!(state(None, 7), None);
    }
}
