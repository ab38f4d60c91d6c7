//! `qdel ID`: one id a call. OpenPBS 23.06's server falls over at a list of ids of which one is unknown. Elements of an array
//! are `8[3].server`, or `8[3-7].server` for several.

use crate::job::{ArraySpec, JobId};
use crate::scheduler::pbs::commands::Commands;
use crate::scheduler::{JobRef, SchedulerError};

/// Exit codes for a job that is not known any more (`PBSE_UNKJOBID`, 15001) and one that is over (`PBSE_HISTJOBID`,
/// 15139), each modulo 256: what was asked for is so.
const GONE: [i32; 2] = [153, 35];

pub(super) fn cancel(
    openpbs: &Commands,
    job: &JobRef,
    elements: Option<&ArraySpec>,
) -> Result<(), SchedulerError> {
    let ids = job
        .jobs_of(elements)
        .into_iter()
        .flat_map(|(job_id, own)| names(&job_id, own.as_ref()));
    // All are told before the first failure is.
    let one = |id: String| openpbs.delete(&id, &openpbs.tool("qdel").arg(&id), &GONE);
    let told: Vec<_> = ids.map(one).collect();
    told.into_iter().collect()
}

fn names(job_id: &JobId, own: Option<&ArraySpec>) -> Vec<String> {
    let Some(own) = own else {
        return vec![job_id.0.clone()];
    };
    let one = |range: &ArraySpec| job_id.0.replacen("[]", &format!("[{range}]"), 1);
    own.ranges()
        .iter()
        .map(|range| one(&ArraySpec::of_range(*range)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_are_named_by_their_ranges() {
        let own = ArraySpec::parse("3,7-9").expect("valid");
        assert_eq!(
            names(&JobId("8[].pbslab".into()), Some(&own)),
            ["8[3].pbslab", "8[7-9].pbslab"]
        );
        assert_eq!(names(&JobId("8[].pbslab".into()), None), ["8[].pbslab"]);
    }
}
