//! `scontrol show job`, `scontrol show node` and the default table of `squeue`.

use super::field::{exit, gpus_of_gres, gpus_of_tres, leading_number, moment, said};
use super::{JobSeen, NodeSeen, Seen, state_word};
use crate::scheduler::slurm;

/// `KEY=value` pairs of one record. Values hold blanks and `=`, so a pair begins only where a known kind of key does: a
/// capital letter after a blank, letters up to the `=`.
fn pairs(record: &str) -> Vec<(&str, &str)> {
    let starts: Vec<(usize, usize)> = record
        .match_indices('=')
        .filter_map(|(equals, _)| {
            let key = record[..equals].rfind(|c: char| c.is_whitespace()).map_or(0, |blank| blank + 1);
            let name = &record[key..equals];
            let is_key = name.starts_with(|c: char| c.is_ascii_uppercase())
                && name.chars().all(|c| c.is_ascii_alphanumeric() || "/:_-".contains(c));
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
    let begins = |line: &str| line.starts_with(first);
    let mut starts = Vec::new();
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        if begins(line) {
            starts.push(at);
        }
        at += line.len();
    }
    let end = |place: usize| starts.get(place + 1).copied().unwrap_or(text.len());
    starts.iter().enumerate().map(|(place, start)| &text[*start..end(place)]).collect()
}

/// The first value of a key that says something.
fn value<'a>(pairs: &[(&'a str, &'a str)], key: &str) -> Option<&'a str> {
    pairs.iter().find(|(name, _)| *name == key).and_then(|(_, value)| said(value))
}

pub(super) fn scontrol_job(text: &str) -> Option<Seen> {
    let records = records(text, "JobId=");
    if records.is_empty() {
        return None;
    }
    let jobs = records.iter().filter_map(|record| job(record)).collect();
    Some(Seen { form: "scontrol show job", scheduler: "slurm", jobs, ..Seen::default() })
}

fn job(record: &str) -> Option<JobSeen> {
    let pairs = pairs(record);
    let of = |key: &str| value(&pairs, key);
    let raw_state = of("JobState")?;
    let reason = of("Reason");
    let exit = of("ExitCode").and_then(exit);
    let array_id = of("ArrayJobId").map(str::to_owned);
    let index = of("ArrayTaskId").map(|task| {
        if task.bytes().all(|b| b.is_ascii_digit()) { task.to_owned() } else { format!("[{task}]") }
    });
    let id = of("JobId")?.split_whitespace().next()?.to_owned();
    let nodes = of("NumNodes").and_then(leading_number);
    let gres = ["Gres", "TresPerNode"].iter().find_map(|key| of(key)).map(gpus_of_gres);
    let tres = ["AllocTRES", "TRES", "ReqTRES"].iter().find_map(|key| gpus_of_tres(of(key)?));
    let tres = tres.filter(|gpus| *gpus > 0 || gres.is_none());
    Some(JobSeen {
        job_id: array_id.as_ref().zip(index).map_or(id, |(array, index)| format!("{array}_{index}")),
        name: of("JobName").map(str::to_owned),
        state: state_word(slurm::job_state(raw_state), reason.is_some_and(slurm::is_hold)),
        raw_state: raw_state.to_owned(),
        reason: reason.map(str::to_owned),
        exit_code: exit.map(|(code, _)| code),
        signal: exit.map(|(_, signal)| signal),
        start: of("StartTime").and_then(moment),
        end: of("EndTime").and_then(moment),
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
    Some(Seen { form: "scontrol show node", scheduler: "slurm", nodes, ..Seen::default() })
}

fn node(record: &str) -> Option<NodeSeen> {
    let pairs = pairs(record);
    let of = |key: &str| value(&pairs, key);
    let raw_state = of("State")?;
    let configured = of("CfgTRES").and_then(gpus_of_tres);
    let by_gres = of("Gres").map_or(0, gpus_of_gres);
    // An empty list says that no job has anything.
    let is_listed = pairs.iter().any(|(key, _)| *key == "AllocTRES");
    let used = of("AllocTRES").and_then(gpus_of_tres).or_else(|| is_listed.then_some(0));
    Some(NodeSeen {
        name: of("NodeName")?.to_owned(),
        state: node_state(raw_state),
        raw_state: raw_state.to_owned(),
        cpus: of("CPUTot").and_then(leading_number),
        gpus_total: Some(configured.filter(|gpus| *gpus > 0).unwrap_or(by_gres)),
        gpus_used: used.or_else(|| of("GresUsed").map(gpus_of_gres)),
        reason: of("Reason").map(|reason| reason.lines().next().unwrap_or_default().trim().to_owned()),
    })
}

/// A node's state in one word: what hinders it counts before what it does. Flags are joined by `+`, `*` says that it does not
/// answer (`sinfo(1)`, "NODE STATE CODES").
pub(super) fn node_state(raw: &str) -> String {
    let word = raw.to_ascii_lowercase();
    let flags: Vec<&str> = word.split('+').map(|flag| flag.trim_end_matches(NODE_MARKS)).collect();
    let has = |names: &[&str]| flags.iter().any(|flag| names.contains(flag));
    let works = has(&["allocated", "alloc", "mixed", "mix", "completing", "comp"]);
    if has(&["draining", "drng"]) || (has(&["drain"]) && works) {
        return "draining".to_owned();
    }
    if has(&["drained", "drain"]) {
        return "drained".to_owned();
    }
    if has(&["down", "fail", "failing", "error", "not_responding"]) && !works {
        return "down".to_owned();
    }
    match flags[0] {
        "alloc" => "allocated",
        "mix" => "mixed",
        "comp" => "completing",
        "maint" => "maintenance",
        first => first,
    }
    .to_owned()
}

/// What stands behind a state: no answer, powered down, reserved and their like.
const NODE_MARKS: [char; 9] = ['*', '~', '#', '!', '%', '$', '@', '^', '-'];

/// `JOBID PARTITION NAME USER ST TIME NODES NODELIST(REASON)`. Names may hold blanks, so a line is read from both ends.
pub(super) fn squeue(text: &str) -> Option<Seen> {
    let mut lines = text.lines().skip_while(|line| line.trim().is_empty());
    let head: Vec<&str> = lines.next()?.split_whitespace().collect();
    if head.first() != Some(&"JOBID") || !head.contains(&"ST") || head.last() != Some(&"NODELIST(REASON)") {
        return None;
    }
    let jobs = lines.filter_map(squeue_line).collect();
    Some(Seen { form: "squeue", scheduler: "slurm", jobs, ..Seen::default() })
}

fn squeue_line(line: &str) -> Option<JobSeen> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let is_state = |word: &str| word.len() <= 3 && word.bytes().all(|b| b.is_ascii_uppercase());
    let is_time = |word: &str| word.contains(':') || word == "INVALID";
    // State, time, number of nodes: the last such three, since a name may look like them.
    let at = (2..words.len().saturating_sub(2)).rev().find(|at| {
        let number = words.get(at + 2).is_some_and(|word| leading_number(word).is_some());
        is_state(words[*at]) && is_time(words[at + 1]) && number
    })?;
    let raw_state = words[at];
    let state = slurm::job_state(raw_state);
    let place = words[at + 3..].join(" ");
    let reason = place.strip_prefix('(').map(|reason| reason.trim_end_matches(')')).and_then(said);
    let is_over_or_waits = state == crate::job::JobState::Pending;
    Some(JobSeen {
        job_id: words[0].to_owned(),
        name: (at > 3).then(|| words[2..at - 1].join(" ")),
        state: state_word(state, reason.is_some_and(slurm::is_hold)),
        raw_state: raw_state.to_owned(),
        reason: reason.map(str::to_owned),
        elapsed_s: slurm::seconds(words[at + 1]).filter(|_| !is_over_or_waits),
        nodes: leading_number(words[at + 2]),
        node_list: Some(place.clone()).filter(|place| !place.starts_with('(') && !place.is_empty()),
        array_id: words[0].split_once('_').map(|(array, _)| array.to_owned()),
        het_id: Some(words[0].to_owned()).filter(|id| id.contains('+')),
        ..JobSeen::default()
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
    }

    #[test]
    fn what_hinders_a_node_counts_first() {
        for (raw, expected) in [
            ("MIXED+PLANNED", "mixed"),
            ("MAINTENANCE+DRAIN", "drained"),
            ("ALLOCATED+DRAIN", "draining"),
            ("DOWN*+DRAIN", "drained"),
            ("down*", "down"),
            ("idle~", "idle"),
            ("alloc", "allocated"),
            ("IDLE+CLOUD+POWERED_DOWN", "idle"),
        ] {
            assert_eq!(node_state(raw), expected, "{raw}");
        }
    }

    #[test]
    fn a_name_may_look_like_columns() {
        let text = "  JOBID PARTITION     NAME     USER ST       TIME  NODES NODELIST(REASON)\n  95_3  gpu  R 1:00 2 x bob PD 0:00 4 (ReqNodeNotAvail, UnavailableNodes:n4)\n";
        let job = squeue(text).expect("a table").jobs.remove(0);
        assert_eq!((job.state.as_str(), job.nodes), ("pending", Some(4)));
        assert_eq!(job.name.as_deref(), Some("R 1:00 2 x"));
        assert_eq!(job.reason.as_deref(), Some("ReqNodeNotAvail, UnavailableNodes:n4"));
        assert_eq!(job.array_id.as_deref(), Some("95"));
    }
}
