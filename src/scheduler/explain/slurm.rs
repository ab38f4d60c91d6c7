//! What Slurm's programs print of jobs and nodes: `scontrol show` and `seff`. Each becomes a [`Record`], as rows of tables do, and
//! one function reads the job or the node out of it.

use super::record::{Names, Record, paragraphs, plain, said};
use super::{JobSeen, NodeSeen, Printed, Seen, state_word};
use crate::job::JobState;
use crate::scheduler::slurm;

pub(super) const ID: Names = "jobid id arrayjobid jobidraw";
pub(super) const STATE: Names = "jobstate state stateraw st statecompact statelong status s";
pub(super) const NAME: Names = "jobname name";
pub(super) const REASON: Names = "reason annotation nodelistreason reasonlist";
pub(super) const START: Names = "start starttime dispatchtime";
pub(super) const END: Names = "end endtime";
pub(super) const ELAPSED: Names =
    "elapsed time timeused elapsedraw elaptime runtime jobwallclocktime wallclocktime";
pub(super) const NODES: Names = "nnodes nodes numbernodes numnodes allocnodes reqnodes nds numnode";
pub(super) const NODE_LIST: Names =
    "nodelist allocatedmachines nodelistreason reasonlist exechost batchhost";
/// What is allocated, else what is asked for.
pub(super) const TRES: Names = "alloctres tresalloc tres reqtres";
pub(super) const GRES: Names = "trespernode gres allocgres reqgres";
pub(super) const LIMIT: Names = "timelimit timelimi limit timelimitraw reqdtime";
pub(super) const NODE: Names = "nodelist nodename nodehost hostnames node host vnode";
pub(super) const CPUS: Names = "cpusstate cpusaiot cpus cpustot cputot ncpusft ncpus";

/// A moment, unless nothing is said; digits alone are Unix seconds.
pub(super) fn moment(text: &str) -> Option<Printed> {
    let text = said(text)?;
    match text.parse::<u64>() {
        Ok(0) => None,
        Ok(seconds) => Some(Printed::Seconds(seconds)),
        Err(_) => Some(Printed::Text(text.to_owned())),
    }
}

/// GPUs in a list of trackable resources (`cpu=2,gres/gpu:h100=3,gres/gpu=3`). The entry without a type is the sum of those
/// with one. `None` where the list is empty.
fn gpus_of_tres(text: &str) -> Option<u64> {
    let (mut all, mut typed) = (None, 0_u64);
    for (name, count) in said(text)?.split(',').filter_map(|one| one.split_once('=')) {
        let Ok(count) = count.trim().parse::<u64>() else {
            continue;
        };
        match name.trim().strip_prefix("gres/gpu") {
            Some("") => all = Some(count),
            Some(kind) if kind.starts_with(':') => typed = typed.saturating_add(count),
            _ => {}
        }
    }
    Some(all.unwrap_or(typed))
}

/// GPUs in a list of generic resources, of all types.
fn gpus_of_gres(text: &str) -> u64 {
    let counts = slurm::gpus(text).into_iter();
    counts.map(|(_, count)| u64::from(count)).sum()
}

/// A job's id, the array that it is an element of, and the heterogeneous job that it is a part of.
fn ids(row: &Record) -> (Option<String>, Option<String>, Option<String>) {
    let Some(id) = row.text(ID).and_then(|id| id.split_whitespace().next()) else {
        return (None, None, None);
    };
    // `1853+2` is the third part of a job; its own id is stated in `JobIDRaw`, else it is the first one's plus the offset.
    if let Some((first, offset)) = id.split_once('+').filter(|(_, offset)| !offset.is_empty()) {
        let sum = first.parse::<u64>().ok().zip(offset.parse::<u64>().ok());
        let own = sum.and_then(|(first, offset)| first.checked_add(offset));
        let stated = row.text("jobidraw").filter(|raw| is_digits(raw));
        let own = stated.map(str::to_owned).or(own.map(|own| own.to_string()));
        return (own.or(Some(id.to_owned())), None, Some(id.to_owned()));
    }
    let offset = row.text("hetjoboffset").unwrap_or("0");
    let het = row.text("hetjobid").filter(|id| *id != "0");
    let het = het.map(|het| format!("{het}+{offset}"));
    if let Some((array, _)) = id.split_once('_') {
        return (Some(id.to_owned()), Some(array.to_owned()), het);
    }
    let array = row.text("arrayjobid").filter(|id| *id != "0");
    let Some((array, task)) = array.zip(row.text("arraytaskid")) else {
        return (Some(id.to_owned()), None, het);
    };
    let task = if is_digits(task) {
        task.to_owned()
    } else {
        format!("[{task}]")
    };
    (Some(format!("{array}_{task}")), Some(array.to_owned()), het)
}

fn is_digits(text: &str) -> bool {
    text.bytes().all(|b| b.is_ascii_digit())
}

/// A job out of what is said of it; `None` where the output has a column of states and says nothing in it.
pub(super) fn job(row: &Record) -> Option<JobSeen> {
    let raw_state = row
        .text(STATE)
        .filter(|state| !state.eq_ignore_ascii_case("state"));
    if row.has(STATE) && raw_state.is_none() {
        return None;
    }
    let state = raw_state.map_or(JobState::Unknown, slurm::job_state);
    let is_pending = state == JobState::Pending;
    let reason = row.text(REASON);
    let reason = reason.and_then(|text| said(text.trim_matches(['(', ')'])));
    // As printed: accounting says `None assigned` of a job that waits. Some print the reason of one without its parentheses.
    let place = row.raw(NODE_LIST).filter(|place| {
        let is_reason = is_pending && row.has("nodelistreason");
        !place.starts_with('(') && !place.is_empty() && !is_reason
    });
    let both = row.raw("nodelistreason");
    let is_waiting = both.is_some_and(|place| place.starts_with('('));
    let guess = match raw_state {
        _ if state != JobState::Unknown => None,
        // A place that is in parentheses is a reason to wait.
        _ if is_waiting => Some(JobState::Pending),
        None => place.map(|_| JobState::Running),
        Some(_) => None,
    };
    let (job_id, array_id, het_id) = ids(row);
    // Code and signal: `1:0`.
    let exit = row.text("exitcode").and_then(|text| text.split_once(':'));
    let nodes = row.number(NODES);
    let each = row.text(GRES).map(gpus_of_gres);
    let all = row.text(TRES).and_then(gpus_of_tres);
    let gpus = all.filter(|gpus| *gpus > 0 || each.is_none());
    let elapsed = row.text(ELAPSED).filter(|_| !is_pending);
    let limit = row.text(LIMIT);
    let minutes = || limit?.parse::<u64>().ok()?.checked_mul(60);
    // Of a job that waits the times are expectations.
    let start = row.text(START).and_then(moment);
    Some(JobSeen {
        job_id,
        array_id,
        het_id,
        name: row.text(NAME).map(str::to_owned),
        state: state_word(state, reason.is_some_and(slurm::is_hold)),
        guess: guess.map(|state| state_word(state, false)),
        raw_state: raw_state.unwrap_or_default().to_owned(),
        reason: reason
            .filter(|reason| Some(*reason) != place)
            .map(str::to_owned),
        exit_code: exit.and_then(|(code, _)| code.parse().ok()),
        signal: exit.and_then(|(_, signal)| signal.parse().ok()),
        expected_start: start.clone().filter(|_| is_pending),
        start: start.filter(|_| !is_pending),
        end: row.text(END).and_then(moment).filter(|_| !is_pending),
        elapsed_s: elapsed.and_then(|text| slurm::seconds(text).or_else(|| text.parse().ok())),
        nodes,
        node_list: place.filter(|place| *place != "(null)").map(str::to_owned),
        gpus: gpus.or_else(|| each.map(|gpus| gpus.saturating_mul(nodes.unwrap_or(1)))),
        time_limit_s: limit
            .and_then(slurm::seconds)
            .or_else(minutes)
            .filter(|limit| *limit > 0),
        restarts: row.number("restarts restartcnt"),
        usage: Vec::new(),
    })
}

/// A node out of what is said of it.
pub(super) fn node(row: &Record) -> Option<NodeSeen> {
    let raw_state = row.text(STATE).unwrap_or_default();
    let gres = |names| row.raw(names).map(gpus_of_gres);
    let total = gres("gres");
    let configured = row.text("cfgtres").and_then(gpus_of_tres);
    // An empty list says that no job has anything. Where GPUs are not tracked, no list names those in use.
    let is_tracked = total.unwrap_or(0) == 0 || configured != Some(0);
    let in_use = row.raw("alloctres").and_then(|list| match said(list) {
        None => Some(0),
        Some(list) => gpus_of_tres(list).filter(|_| is_tracked),
    });
    // `CPUS(A/I/O/T)`: the last is all.
    let all = |cpus: &str| cpus.rsplit('/').next()?.trim_end_matches('+').parse().ok();
    let reason = row.text(REASON).and_then(|reason| reason.lines().next());
    Some(NodeSeen {
        name: row.text(NODE)?.to_owned(),
        state: node_state(raw_state),
        raw_state: raw_state.to_owned(),
        cpus: row.text(CPUS).and_then(all),
        gpus_total: configured.filter(|gpus| *gpus > 0).or(total).or(configured),
        gpus_used: in_use.or_else(|| gres("gresused")),
        reason: reason.map(|reason| reason.trim().to_owned()),
    })
}

/// `scontrol show job` and `scontrol show node`.
pub(super) fn scontrol(text: &str) -> Option<Seen> {
    let records = |first| -> Vec<Record> {
        let record = |lines: &Vec<&str>| {
            let mut record = Record::default();
            for (name, value) in slurm::scontrol_pairs(&lines.join("\n")) {
                record.add(name, value);
            }
            record
        };
        paragraphs(text, first).iter().map(record).collect()
    };
    let found = |form, jobs: Vec<JobSeen>, nodes: Vec<NodeSeen>| {
        let is_any = !jobs.is_empty() || !nodes.is_empty();
        is_any.then(|| Seen::of(form, "slurm", jobs, nodes))
    };
    let jobs = records("JobId=").iter().filter_map(job).collect();
    found("scontrol show job", jobs, Vec::new()).or_else(|| {
        let nodes = records("NodeName=").iter().filter_map(node).collect();
        found("scontrol show node", Vec::new(), nodes)
    })
}

/// `seff ID`, also in a site's own dress.
pub(super) fn seff(text: &str) -> Option<Seen> {
    let seen = |lines: &Vec<&str>| {
        let mut record = Record::default();
        let lines = || lines.iter().map(|line| line.trim());
        for (key, value) in lines().filter_map(|line| line.split_once(':')) {
            match (plain(key).as_str(), value.split_once(" (exit code ")) {
                // It is the id that people know an element by.
                ("arrayjobid", _) => record
                    .0
                    .insert(0, ("jobid".to_owned(), value.trim().to_owned())),
                ("state", Some((state, code))) => {
                    record.add("state", state);
                    record.add("exitcode", &format!("{}:0", code.trim_end_matches(')')));
                }
                _ => record.add(key, value),
            }
        }
        let is_usage = |line: &&str| {
            ["CPU ", "Memory ", "GPU "]
                .iter()
                .any(|key| line.starts_with(key))
        };
        let usage = lines().filter(is_usage).map(str::to_owned).collect();
        record.text("state")?;
        Some(JobSeen {
            usage,
            ..job(&record)?
        })
    };
    let jobs: Vec<JobSeen> = paragraphs(text, "Job ID:")
        .iter()
        .filter_map(seen)
        .collect();
    (!jobs.is_empty()).then(|| Seen::of("seff", "slurm", jobs, Vec::new()))
}

/// States of a node in dlrun's words, and what `sinfo` calls each (`sinfo(1)`, "NODE STATE CODES", 20.11 to 26.05).
const NODE_STATES: &[(&str, &str)] = &[
    ("allocated", "alloc allocated"),
    ("booting", "boot"),
    ("blocked", "block blocked"),
    ("cloud", "cloud"),
    ("completing", "comp completing"),
    ("down", "down err error fail failg failing"),
    ("drained", "drain drained"),
    ("draining", "draining drng"),
    ("future", "future futr"),
    ("idle", "idle"),
    ("invalid", "inval invalid_reg"),
    ("maintenance", "maint maintenance"),
    ("mixed", "mix mixed"),
    ("not_responding", "no_respond not_responding"),
    ("perfctrs", "npc perfctrs"),
    ("planned", "planned plnd"),
    ("powering_down", "pow_dn power_down powering_down"),
    ("powering_up", "pow_up power_up powering_up"),
    ("powered_down", "powered_down"),
    ("rebooting", "reboot reboot_issued"),
    ("reboot_requested", "reboot_requested"),
    ("reserved", "reserved resv"),
    ("resume", "resume"),
    ("unknown", "unk unknown"),
];
/// What is behind a state: no answer, powered down, reserved and their like.
const MARKS: [char; 9] = ['*', '~', '#', '!', '%', '$', '@', '^', '-'];

/// The state that one of Slurm's words for a node means.
pub(super) fn node_word(word: &str) -> Option<&'static str> {
    let word = word.trim_end_matches(MARKS);
    let is_it = |(_, words): &&(&str, &str)| words.split(' ').any(|known| known == word);
    NODE_STATES.iter().find(is_it).map(|(state, _)| *state)
}

/// A node's state in one word: what hinders it counts before what it does. Flags are joined by `+`.
fn node_state(raw: &str) -> String {
    let small = raw.to_ascii_lowercase();
    let first = small.split(['+', ',']).next().unwrap_or_default();
    let first = first.trim_end_matches(MARKS);
    // What a mark says is also a flag: no answer, a reservation for maintenance, planned for a job.
    let marks = [
        ('*', "not_responding"),
        ('$', "maintenance"),
        ('-', "planned"),
    ];
    let marks = marks.iter().filter(|(mark, _)| small.contains(*mark));
    let words = small.split(['+', ',']).filter_map(node_word);
    let words: Vec<&str> = words.chain(marks.map(|(_, word)| *word)).collect();
    let has = |names: &[&str]| words.iter().any(|word| names.contains(word));
    let works = has(&["allocated", "mixed", "completing"]);
    let found = match node_word(first) {
        None if first.is_empty() => "unknown",
        None => first,
        Some(_) if has(&["draining"]) || (has(&["drained"]) && works) => "draining",
        Some(_) if has(&["drained"]) => "drained",
        Some(_) if has(&["down", "not_responding"]) && !works => "down",
        Some("idle") => {
            let kept = ["maintenance", "reserved", "planned"];
            let found = kept.into_iter().find(|kept| words.contains(kept));
            found.unwrap_or("idle")
        }
        Some(first) => first,
    };
    found.to_owned()
}
