//! How a job ended, by the exit codes that PBS makes itself (`pbs_job.h` of Torque 6.1.3, `job.h` of OpenPBS 23.06).

use crate::job::{JobState, SchedulerKind};

/// First and last code, whose it is where the two differ, the state, and what it means.
const ENDS: &str = "
-3 -1 pbs failed could not be started
-6 -4 pbs node_fail its node's pbs_mom restarted
-8 -7 pbs failed could not be started again
-9 -9 torque failed its output files could not be made on the node
-10 -10 torque out_of_memory over its memory limit
-10 -10 openpbs failed its user or group is not known on the node
-11 -11 torque timeout over its time limit
-12 -12 torque timeout over its limit of CPU time
-14 -13 torque failed could not be started
-16 -11 openpbs failed could not be started
-17 -17 openpbs cancelled deleted by a hook
-18 -18 openpbs failed requeued by a hook
-19 -19 openpbs cancelled deleted by a hook
-20 -20 openpbs node_fail the connection to its first node was lost
-23 -21 openpbs failed could not be started
-25 -24 openpbs failed exceeded ncpus
-26 -26 openpbs out_of_memory exceeded vmem
-27 -27 openpbs out_of_memory exceeded mem
-28 -28 openpbs timeout exceeded cput
-29 -29 openpbs timeout exceeded walltime
-30 -30 openpbs failed its nodes could not join
";

/// State and meaning of an exit code below 0. Where it is not known which PBS said it, a code that means different things
/// to them is `None`, as are codes from 0 on and unknown ones.
pub(in crate::scheduler) fn meaning_of_code(
    which: Option<SchedulerKind>,
    code: i64,
) -> Option<(JobState, &'static str)> {
    let mut found = ENDS.lines().filter_map(|row| {
        let [first, last, whose, state, meaning] = row.splitn(5, ' ').collect::<Vec<_>>()[..]
        else {
            return None;
        };
        let range = first.parse::<i64>().ok()?..=last.parse().ok()?;
        let fits = whose == "pbs" || which.is_none_or(|which| which.as_str() == whose);
        (fits && range.contains(&code))
            .then(|| (JobState::from_word(state).unwrap_or_default(), meaning))
    });
    let first = found.next()?;
    found.all(|other| other.0 == first.0).then_some(first)
}

#[cfg(test)]
mod tests {
    use super::*;
    use JobState::{Failed, NodeFail, OutOfMemory, Timeout};
    use SchedulerKind::{OpenPbs, Torque};

    #[test]
    fn code_with_two_meanings_is_known_only_with_its_pbs() {
        let state = |which, code| meaning_of_code(which, code).map(|(state, _)| state);
        assert_eq!(state(Some(Torque), -11), Some(Timeout));
        assert_eq!(state(Some(OpenPbs), -11), Some(Failed));
        assert_eq!(state(None, -11), None);
        assert_eq!(state(None, -27), Some(OutOfMemory));
        assert_eq!(state(None, -5), Some(NodeFail));
        assert_eq!(state(Some(Torque), -29), None);
        assert_eq!(state(None, 7), None);
    }
}
