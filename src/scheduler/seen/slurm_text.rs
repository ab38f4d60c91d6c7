//! `scontrol show job` and `scontrol show node`.

use super::field::{exit, gpus_of_gres, gpus_of_tres, leading_number, moment, said};
use super::slurm_node::node_state;
use super::{JobSeen, NodeSeen, Seen, state_word};
use crate::job::JobState;
use crate::scheduler::slurm;

/// `KEY=value` pairs of one record. Values hold blanks and `=`, so a pair begins only where a known kind of key does: a
/// capital letter after a blank, letters up to the `=`.
fn pairs(record: &str) -> Vec<(&str, &str)> {
    let starts: Vec<(usize, usize)> = record
        .match_indices('=')
        .filter_map(|(equals, _)| {
            let before = record[..equals].rsplit(char::is_whitespace).next();
            let key = equals - before.map_or(0, str::len);
            let name = &record[key..equals];
            let is_key = name.starts_with(|c: char| c.is_ascii_uppercase())
                && name
                    .chars()
                    .all(|c| c.is_ascii_alphanumeric() || "/:_-".contains(c));
            is_key.then_some((key, equals))
        })
        .collect();
    let mut pairs = Vec::new();
    for (at, (key, equals)) in starts.iter().enumerate() {
        let end = starts.get(at + 1).map_or(record.len(), |(next, _)| *next);
        if *equals < end {
            pairs.push((&record[*key..*equals], record[*equals + 1..end].trim()));
        }
    }
    pairs
}

/// Records begin with `first=` at the beginning of a line.
fn records<'a>(text: &'a str, first: &str) -> Vec<&'a str> {
    let begins = |line: &str| line.trim_start().starts_with(first);
    let mut starts = Vec::new();
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        if begins(line) {
            starts.push(at);
        }
        at += line.len();
    }
    let end = |place: usize| starts.get(place + 1).copied().unwrap_or(text.len());
    starts
        .iter()
        .enumerate()
        .map(|(place, start)| &text[*start..end(place)])
        .collect()
}

/// The first value of a key that says something.
fn value<'a>(pairs: &[(&'a str, &'a str)], key: &str) -> Option<&'a str> {
    pairs
        .iter()
        .find(|(name, _)| *name == key)
        .and_then(|(_, value)| said(value))
}

pub(super) fn scontrol_job(text: &str) -> Option<Seen> {
    let records = records(text, "JobId=");
    if records.is_empty() {
        return None;
    }
    let jobs = records.iter().filter_map(|record| job(record)).collect();
    Some(Seen {
        form: "scontrol show job",
        scheduler: "slurm",
        jobs,
        ..Seen::default()
    })
}

fn job(record: &str) -> Option<JobSeen> {
    let pairs = pairs(record);
    let of = |key: &str| value(&pairs, key);
    let raw_state = of("JobState")?;
    let state = slurm::job_state(raw_state);
    let reason = of("Reason");
    let exit = of("ExitCode").and_then(exit);
    let array_id = of("ArrayJobId").map(str::to_owned);
    let index = of("ArrayTaskId").map(|task| {
        if task.bytes().all(|b| b.is_ascii_digit()) {
            task.to_owned()
        } else {
            format!("[{task}]")
        }
    });
    let id = of("JobId")?.split_whitespace().next()?.to_owned();
    let nodes = of("NumNodes").and_then(leading_number);
    let gres = ["Gres", "TresPerNode"]
        .iter()
        .find_map(|key| of(key))
        .map(gpus_of_gres);
    let tres = ["AllocTRES", "TRES", "ReqTRES"]
        .iter()
        .find_map(|key| gpus_of_tres(of(key)?));
    let tres = tres.filter(|gpus| *gpus > 0 || gres.is_none());
    Some(JobSeen {
        job_id: Some(
            array_id
                .as_ref()
                .zip(index)
                .map_or(id, |(array, index)| format!("{array}_{index}")),
        ),
        guess: None,
        // `Name` until 14.03.
        name: of("JobName").or_else(|| of("Name")).map(str::to_owned),
        state: state_word(state, reason.is_some_and(slurm::is_hold)),
        raw_state: raw_state.to_owned(),
        reason: reason.map(str::to_owned),
        exit_code: exit.map(|(code, _)| code),
        signal: exit.map(|(_, signal)| signal),
        // Of a job that waits they are expectations.
        start: of("StartTime")
            .and_then(moment)
            .filter(|_| state != JobState::Pending),
        end: of("EndTime")
            .and_then(moment)
            .filter(|_| state != JobState::Pending),
        expected_start: of("StartTime")
            .and_then(moment)
            .filter(|_| state == JobState::Pending),
        usage: Vec::new(),
        elapsed_s: of("RunTime").and_then(slurm::seconds),
        nodes,
        node_list: of("NodeList").map(str::to_owned),
        gpus: tres.or_else(|| gres.map(|gpus| gpus.saturating_mul(nodes.unwrap_or(1)))),
        time_limit_s: of("TimeLimit").and_then(slurm::seconds),
        array_id,
        het_id: of("HetJobId").map(|het| format!("{het}+{}", of("HetJobOffset").unwrap_or("0"))),
        restarts: of("Restarts").and_then(leading_number),
    })
}

pub(super) fn scontrol_node(text: &str) -> Option<Seen> {
    let records = records(text, "NodeName=");
    if records.is_empty() {
        return None;
    }
    let nodes = records.iter().filter_map(|record| node(record)).collect();
    Some(Seen {
        form: "scontrol show node",
        scheduler: "slurm",
        nodes,
        ..Seen::default()
    })
}

fn node(record: &str) -> Option<NodeSeen> {
    let pairs = pairs(record);
    let of = |key: &str| value(&pairs, key);
    let raw_state = of("State").unwrap_or_default();
    let configured = of("CfgTRES").and_then(gpus_of_tres);
    let by_gres = of("Gres").map_or(0, gpus_of_gres);
    // An empty list says that no job has anything.
    let is_listed = pairs.iter().any(|(key, _)| *key == "AllocTRES");
    // Where GPUs are not tracked, no list names those in use.
    let is_tracked = by_gres == 0 || configured != Some(0);
    let used = match of("AllocTRES") {
        Some(list) => gpus_of_tres(list).filter(|_| is_tracked),
        None => is_listed.then_some(0),
    };
    Some(NodeSeen {
        name: of("NodeName")?.to_owned(),
        state: node_state(raw_state),
        raw_state: raw_state.to_owned(),
        cpus: of("CPUTot").and_then(leading_number),
        gpus_total: Some(configured.filter(|gpus| *gpus > 0).unwrap_or(by_gres)),
        gpus_used: used.or_else(|| of("GresUsed").map(gpus_of_gres)),
        reason: of("Reason")
            .map(|reason| reason.lines().next().unwrap_or_default().trim().to_owned()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_hold_blanks_and_equal_signs() {
        let text = "JobId=130 JobName=we ird|name UserId=tester(1001) JobState=RUNNING Reason=None Comment=x=1 y  StdErr=/dev/null";
        let seen = scontrol_job(text).expect("a job");
        assert_eq!(seen.jobs[0].name.as_deref(), Some("we ird|name"));
        assert_eq!(value(&pairs(text), "Comment"), Some("x=1 y"));
        // A blank of three bytes before a key.
        assert_eq!(value(&pairs("JobId=1\u{2000}User=x"), "User"), Some("x"));
    }
}
