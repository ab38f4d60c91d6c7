//! Whether nodes are free for another job, as long as nobody waits for them: `squeue --states=PENDING` and `sbatch --test-only`.

use super::{Slurm, sbatch};
use crate::foundation::clock::now_ms;
use crate::launch::{Plan, hosts};

/// For what a job waits that would get the nodes (`job_state_reason_string`, Slurm 22.05).
const WAITS_FOR_NODES: [&str; 2] = ["Resources", "Priority"];
/// A job that would start so soon would start now, in seconds.
const SOON: u64 = 30;

/// See [`Scheduler::free_nodes`](crate::scheduler::Scheduler::free_nodes).
pub(super) fn free_nodes(slurm: &Slurm, plan: &Plan, script: &str, most: u32) -> Option<u32> {
    let asked = |program, words: &[&str]| {
        let answer = slurm
            .commands
            .printed(program, words, &[], "look for free nodes");
        answer.ok()
    };
    // Where a user does not see the jobs of others nobody knows who waits.
    if hides_jobs(&asked("scontrol", &["show", "config"])?) {
        return None;
    }
    let partition = std::env::var("SLURM_JOB_PARTITION").ok()?;
    let partition = format!("--partition={partition}");
    let words = ["--noheader", "--states=PENDING", "--format=%r", &partition];
    let reasons = asked("squeue", &words)?;
    if reasons
        .lines()
        .any(|reason| WAITS_FOR_NODES.contains(&reason.trim()))
    {
        return Some(0);
    }
    let mut plan = plan.clone();
    let range = plan.elastic.as_mut()?;
    range.nodes = (1, most);
    plan.scaled_to = None;
    let answer = sbatch::test(slurm, &plan, script);
    // Too many for a limit of the user or of the queue: there are none for this job.
    Some(answer.map_or(0, |answer| starting_now(&answer, now_ms() / 1000)))
}

/// The nodes in `it would start at 1795823031 using 3 processors on nodes n[1-3] in partition batch`.
fn starting_now(answer: &str, now: u64) -> u32 {
    let nodes = || {
        let (at, rest) = answer.split_once("start at ")?.1.split_once(' ')?;
        let list = rest.split_once(" on nodes ")?.1.split_whitespace().next()?;
        let is_soon = at.parse::<u64>().ok()? <= now + SOON;
        u32::try_from(hosts(list).filter(|_| is_soon)?.len()).ok()
    };
    nodes().unwrap_or(0)
}

/// `PrivateData = jobs,usage` in `scontrol show config`.
fn hides_jobs(config: &str) -> bool {
    let line = config
        .lines()
        .find_map(|line| line.strip_prefix("PrivateData"));
    line.is_none_or(|line| line.contains("jobs") || line.contains("all"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_nodes_of_a_job_that_would_start_now_are_free() {
        // Of Slurm 22.05.8.
        let answer =
            "it would start at 1795823031 using 3 processors on nodes n[1-3] in partition batch";
        assert_eq!(starting_now(answer, 1_795_823_030), 3);
        assert_eq!(starting_now(answer, 1_795_822_900), 0);
        for other in [
            "",
            "it would start at 2026-11-27T23:00:00 using 3 processors on nodes n1",
        ] {
            assert_eq!(starting_now(other, 1_795_823_030), 0);
        }
    }

    #[test]
    fn where_jobs_are_private_nobody_knows_who_waits() {
        assert!(!hides_jobs(
            "PluginDir = /x\nPrivateData             = none\n"
        ));
        assert!(hides_jobs("PrivateData             = jobs,usage\n"));
        assert!(hides_jobs("slurm_load_ctl_conf error"));
    }
}
