//! `scontrol -o show node LIST`: which nodes of a job are out of order; and `scontrol update JobId=ID ExcNodeList=LIST`, which keeps a
//! waiting job off them.

use super::standing::{scontrol, shown};
use super::{Commands, scontrol_pairs};
use crate::scheduler::{BrokenNode, SchedulerError};

/// States and flags of a node that Slurm gives no job, or that does not answer (`scontrol(1)`, `sinfo(1)`).
const OUT_OF_ORDER: [&str; 9] = [
    "DOWN",
    "NOT_RESPONDING",
    "DRAIN",
    "DRAINED",
    "DRAINING",
    "FAIL",
    "FAILING",
    "ERROR",
    "INVALID_REG",
];

/// Nodes of a list (`n[1-3]`) that are out of order; `None`: Slurm gives no answer.
pub(super) fn out_of_order(slurm: &Commands, nodes: &str) -> Option<Vec<BrokenNode>> {
    let text = shown(slurm, ["node", nodes])?;
    Some(text.lines().filter_map(read).collect())
}

fn read(record: &str) -> Option<BrokenNode> {
    let pairs = scontrol_pairs(record);
    let value = |key| pairs.iter().find(|(known, _)| *known == key);
    let ((_, name), (_, state)) = (value("NodeName")?, value("State")?);
    // `*` behind a state: it does not answer.
    let mut words = state.split('+');
    let is_it = words.any(|word| word.ends_with('*') || OUT_OF_ORDER.contains(&word));
    let is_silent = |word: &str| word.ends_with('*') || ["DOWN", "NOT_RESPONDING"].contains(&word);
    is_it.then(|| BrokenNode {
        name: (*name).to_owned(),
        state: (*state).to_owned(),
        // One that is drained still runs its jobs.
        is_dead: state.split('+').any(is_silent),
    })
}

/// Keeps a waiting job off these nodes, beside those that it keeps off already.
pub(super) fn exclude(slurm: &Commands, job: &str, nodes: &[String]) -> Result<(), SchedulerError> {
    // Without what it keeps off already that would be lost.
    let Some(known) = shown(slurm, ["job", job]) else {
        return scontrol(slurm, &["show", "job", job], &format!("show job {job}"));
    };
    let mut all = excluded(&known);
    all.extend(nodes.iter().cloned());
    let words = [
        "update".to_owned(),
        format!("JobId={job}"),
        format!("ExcNodeList={}", all.join(",")),
    ];
    let words = words.each_ref().map(String::as_str);
    scontrol(
        slurm,
        &words,
        &format!("keep job {job} off {}", nodes.join(", ")),
    )
}

/// What a job keeps off already, as Slurm writes it.
fn excluded(record: &str) -> Vec<String> {
    let pairs = scontrol_pairs(record);
    let list = pairs.iter().find(|(key, _)| *key == "ExcNodeList");
    let list = list.filter(|(_, list)| !list.is_empty() && *list != "(null)");
    list.map(|(_, list)| (*list).to_owned())
        .into_iter()
        .collect()
}

/// Gives the nodes of a running job back but for these (`scontrol(1)`, NodeList).
pub(super) fn keep(slurm: &Commands, job: &str, nodes: &[String]) -> Result<(), SchedulerError> {
    let list = nodes.join(",");
    let (id, kept) = (format!("JobId={job}"), format!("NodeList={list}"));
    let done = scontrol(
        slurm,
        &["update", &id, &kept],
        &format!("give the nodes of job {job} back but for {list}"),
    );
    // It leaves variables for shells in the working directory.
    for end in ["sh", "csh"] {
        let _ = std::fs::remove_file(format!("slurm_job_{job}_resize.{end}"));
    }
    done
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_that_are_down_or_silent_or_drained_are_out_of_order() {
        // Of Slurm 22.05.8, shortened.
        let line = |state: &str| {
            format!(
                "NodeName=n4 Arch=x86_64 OS=Linux 6.18 #1 SMP State={state} ThreadsPerCore=1 Reason=Not responding [slurm@now]"
            )
        };
        for state in [
            "DOWN+NOT_RESPONDING",
            "MIXED+NOT_RESPONDING",
            "IDLE+DRAIN",
            "DOWN*",
            "ALLOCATED+FAIL",
        ] {
            let found = read(&line(state)).expect("out of order");
            let is_dead = !["IDLE+DRAIN", "ALLOCATED+FAIL"].contains(&state);
            assert_eq!((&*found.name, &*found.state), ("n4", state));
            assert_eq!(found.is_dead, is_dead, "{state}");
        }
        for state in [
            "IDLE",
            "MIXED",
            "ALLOCATED",
            "IDLE+POWERED_DOWN",
            "MIXED+COMPLETING",
            "IDLE+MAINTENANCE",
        ] {
            assert!(read(&line(state)).is_none(), "{state}");
        }
        assert!(read("Node n9 not found").is_none());
    }

    #[test]
    fn what_a_job_keeps_off_already_is_kept() {
        assert_eq!(
            excluded("JobId=7 ReqNodeList=(null) ExcNodeList=n[1-2],n9 NodeList="),
            ["n[1-2],n9"]
        );
        assert!(excluded("JobId=7 ExcNodeList=(null) NodeList=n3").is_empty());
    }
}
