//! What PBS's programs print of jobs and nodes, read by the parsers of the adapters: `qstat -f`, XML, JSON, `pbsnodes`.

use super::record::{Record, leading_number, said};
use super::slurm::{ID, NAME, moment};
use super::{JobSeen, NodeSeen, Seen, state_word};
use crate::job::JobState;
use crate::scheduler::openpbs::{self, json};
use crate::scheduler::pbs::answer::{self, Thing};
use crate::scheduler::pbs::values::{hosts, walltime};
use crate::scheduler::torque;

/// A job out of its attributes, whatever form they came in.
fn job(thing: &Thing) -> Option<JobSeen> {
    let get = |keys: &[&str]| keys.iter().find_map(|key| thing.get(key)).and_then(said);
    let raw_state = get(&["job_state"])?;
    let exit_code = get(&["exit_status", "Exit_status"]).and_then(|code| code.parse::<i64>().ok());
    let state = job_state(thing, exit_code.or(thing.number("substate")).is_some());
    let hosts = get(&["exec_vnode", "exec_host"]);
    let nodes = get(&["Resource_List.nodect"]).and_then(leading_number);
    let asked = [
        "Resource_List.nodes",
        "Resource_List.neednodes",
        "Resource_List.select",
    ];
    let (array, index) = thing.id.split_once('[').unwrap_or((&thing.id, ""));
    let is_element = index.starts_with(|c: char| c.is_ascii_digit());
    let server = index.split_once(']').map_or("", |(_, server)| server);
    let starts = get(&["run_count", "start_count"]).and_then(leading_number);
    let expected = get(&["estimated.start_time"]).filter(|_| state == JobState::Pending);
    // Of a job that runs it says where it runs.
    let waits = !state.is_final() && state != JobState::Running;
    let reason = get(&["comment"]).or(get(&["depend"]).filter(|_| raw_state == "H"));
    Some(JobSeen {
        job_id: Some(thing.id.clone()),
        name: get(&["Job_Name"]).map(str::to_owned),
        state: state_word(state, raw_state == "H"),
        raw_state: raw_state.to_owned(),
        reason: reason.filter(|_| waits).map(str::to_owned),
        exit_code,
        signal: exit_code.filter(|code| *code > 256).map(|code| code - 256),
        start: get(&["start_time", "stime"]).and_then(moment),
        end: get(&["comp_time", "obittime"]).and_then(moment),
        elapsed_s: get(&["resources_used.walltime"]).and_then(seconds),
        nodes: nodes.or_else(|| hosts.map(host_count)),
        node_list: hosts.map(str::to_owned),
        gpus: thing
            .number("Resource_List.ngpus")
            .or_else(|| get(&asked).map(gpus)),
        expected_start: expected.and_then(moment),
        time_limit_s: get(&["Resource_List.walltime"]).and_then(seconds),
        array_id: is_element.then(|| format!("{array}[]{server}")),
        restarts: starts.map(|starts| starts.saturating_sub(1)),
        ..JobSeen::default()
    })
}

/// The state of a job, as the adapters have it. A table has the letter alone, which most mean by it; part of a record could say
/// how the job ended, and does not.
fn job_state(thing: &Thing, is_told: bool) -> JobState {
    let letter = thing.get("job_state").unwrap_or_default();
    match thing.attributes.len() {
        1 if ["C", "F", "X"].contains(&letter) => JobState::Completed,
        ..9 if ["C", "F", "X"].contains(&letter) && !is_told => JobState::Unknown,
        _ if letter == "C" => torque::entry(thing).map_or(JobState::Unknown, |entry| entry.state),
        _ => openpbs::entry(thing).state,
    }
}

fn host_count(text: &str) -> u64 {
    hosts(text).len() as u64
}

fn seconds(text: &str) -> Option<u64> {
    walltime(text).map(|time| time.0)
}

/// GPUs over all nodes, by `:gpus=` or `:ngpus=` in what is asked for, times the nodes of that part.
fn gpus(asked: &str) -> u64 {
    let part = |part: &str| {
        let (nodes, words) = part.split_once(':').unwrap_or((part, ""));
        let count = |word: &str| {
            word.trim_start_matches('n')
                .strip_prefix("gpus=")
                .and_then(leading_number)
        };
        let count: u64 = words.split(':').filter_map(count).sum();
        count.saturating_mul(nodes.parse().unwrap_or(1))
    };
    asked.split('+').map(part).sum()
}

/// A row of `qstat`, where the time is that of the CPU, or of `qstat -a`, `-n`, `-s`, which has places or a reason at its end.
pub(super) fn job_of_table(row: &Record, is_long: bool) -> Option<JobSeen> {
    let is_id = |id: &&str| id.starts_with(|c: char| c.is_ascii_digit());
    let thing = Thing {
        id: row.text(ID).filter(is_id)?.to_owned(),
        attributes: [("job_state".to_owned(), row.text("s")?.to_owned())].into(),
        ..Thing::default()
    };
    let mut job = job(&thing)?;
    job.name = row.text(NAME).map(str::to_owned);
    if is_long {
        // `HH:MM`, in whole minutes: less than one is not known.
        let hours = |text: &str| seconds(&format!("{text}:00"));
        let limit = row.text("reqdtime").and_then(hours);
        job.nodes = row.number("nds");
        job.time_limit_s = limit.filter(|limit| *limit > 0);
        let last = row.text("elaptime").unwrap_or_default();
        let (elapsed, more) = last.split_once(char::is_whitespace).unwrap_or((last, ""));
        let (first, rest) = more.split_once(' ').unwrap_or((more, ""));
        let is_place = first.contains('/') || (first.starts_with('(') && first.contains(':'));
        let waits = !["running", "completed"].contains(&job.state.as_str());
        let reason = said(if is_place { rest } else { more }).filter(|_| waits);
        job.elapsed_s = hours(elapsed);
        job.node_list = is_place.then(|| first.to_owned());
        job.reason = reason.map(str::to_owned);
    }
    Some(job)
}

/// Jobs, or else nodes, by what their answer is called.
fn of_things(form: [&'static str; 2], scheduler: &'static str, things: &[Thing]) -> Option<Seen> {
    let jobs: Vec<JobSeen> = things.iter().filter_map(job).collect();
    let nodes: Vec<NodeSeen> = things.iter().filter_map(node).collect();
    let form = form[usize::from(jobs.is_empty())];
    (!jobs.is_empty() || !nodes.is_empty()).then(|| Seen::of(form, scheduler, jobs, nodes))
}

pub(super) fn qstat_full(text: &str) -> Option<Seen> {
    // A document may indent it as a whole.
    let mut lines = text.lines();
    let head = lines.find(|line| line.trim_start().starts_with("Job Id:"))?;
    let indent = &head[..head.len() - head.trim_start().len()];
    let bare = |line: &str| {
        line.strip_prefix(indent)
            .unwrap_or(line.trim_start())
            .to_owned()
            + "\n"
    };
    let jobs = answer::read_text(&text.lines().map(bare).collect::<String>());
    let of_torque = |job: &Thing| job.get("fault_tolerant").or(job.get("euser")).is_some();
    let is_torque = jobs.iter().any(of_torque);
    of_things(
        ["qstat -f"; 2],
        if is_torque { "torque" } else { "pbs" },
        &jobs,
    )
}

pub(super) fn xml(text: &str) -> Option<Seen> {
    of_things(
        ["qstat -x", "pbsnodes -x"],
        "torque",
        &answer::read_xml(text),
    )
}

pub(super) fn json(text: &str) -> Option<Seen> {
    let (top, things) = json::read(text);
    let forms = ["qstat -f -F json", "pbsnodes -F json"];
    let is_empty = top.get("pbs_server").is_some() && things.is_empty();
    // A server without jobs.
    let empty = || is_empty.then(|| Seen::of(forms[0], "openpbs", Vec::new(), Vec::new()));
    of_things(forms, "openpbs", &things).or_else(empty)
}

/// Words of `pbsnodes(8B)` for a node.
const NODE_WORDS: &str = "free offline down job-exclusive job-sharing job-busy busy reserve resv-exclusive stale state-unknown \
    time-shared provisioning wait-provisioning maintenance sleep initializing unknown unresolvable";

pub(super) fn is_node_word(word: &str) -> bool {
    NODE_WORDS.split(' ').any(|known| known == word)
}

/// `pbsnodes -l`: a name, its state, and perhaps a comment on each line.
pub(super) fn node_list(text: &str) -> Option<Seen> {
    let node = |line: &str| {
        let (name, rest) = line.trim().split_once(char::is_whitespace)?;
        let rest = rest.trim_start();
        let (state, reason) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
        let of = [("state", state), ("note", reason)]
            .map(|(key, value)| (key.to_owned(), value.trim().to_owned()));
        let thing = Thing {
            id: name.to_owned(),
            attributes: of.into(),
            ..Thing::default()
        };
        self::node(&thing).filter(|_| state.split(',').all(is_node_word))
    };
    let nodes = text.lines().map(node).collect::<Option<Vec<_>>>()?;
    Some(Seen::of("pbsnodes -l", "pbs", Vec::new(), nodes))
}

/// `pbsnodes -a`: a name at the beginning of a line, indented `key = value` below it.
pub(super) fn pbsnodes(text: &str) -> Option<Seen> {
    let mut nodes: Vec<Thing> = Vec::new();
    for line in text.lines() {
        // A long value may go on at the beginning of a line, with a comma.
        let is_name = line.starts_with(|c: char| c.is_ascii_alphanumeric()) && !line.contains(' ');
        if is_name || line.is_empty() {
            nodes.push(Thing {
                id: line.trim().to_owned(),
                ..Thing::default()
            });
        } else if let (Some(node), Some((key, value))) = (nodes.last_mut(), line.split_once(" = "))
        {
            let value = || value.trim().to_owned();
            node.attributes
                .entry(key.trim().to_owned())
                .or_insert_with(value);
        }
    }
    let nodes: Vec<NodeSeen> = nodes
        .iter()
        .filter(|node| !node.id.is_empty())
        .filter_map(node)
        .collect();
    (!nodes.is_empty()).then(|| Seen::of("pbsnodes", "pbs", Vec::new(), nodes))
}

/// A node out of its attributes.
fn node(thing: &Thing) -> Option<NodeSeen> {
    let get = |keys: &[&str]| keys.iter().find_map(|key| thing.get(key)).and_then(said);
    let number = |keys: &[&str]| get(keys).and_then(leading_number);
    let raw_state = get(&["state", "State"])?;
    // `pbsnodes -vSj -F json` has free and total: `1/20`.
    let pair = |key: &str| {
        let (free, all) = thing.get(key)?.rsplit_once('/')?;
        Some((free.parse::<u64>().ok()?, all.parse::<u64>().ok()?))
    };
    let (cpus, gpus) = (pair("ncpus f/t"), pair("ngpus f/t"));
    let in_use = thing.get("gpu_status").map(|status| {
        let count = |words: &str| status.matches(words).count() as u64;
        count("gpu_state=") - count("gpu_state=Unallocated")
    });
    let in_use = in_use.or_else(|| number(&["resources_assigned.ngpus"]));
    let cpu_keys = ["np", "resources_available.ncpus", "pcpus"];
    Some(NodeSeen {
        name: thing.id.clone(),
        state: node_state(raw_state),
        raw_state: raw_state.to_owned(),
        cpus: number(&cpu_keys).or(cpus.map(|(_, all)| all)),
        gpus_total: number(&["gpus", "resources_available.ngpus"]).or(gpus.map(|(_, all)| all)),
        gpus_used: in_use.or(gpus.map(|(free, all)| all.saturating_sub(free))),
        reason: get(&["note", "comment"]).map(str::to_owned),
    })
}

/// A row of `pbsnodes -aSj`.
pub(super) fn node_of_table(row: &Record) -> Option<NodeSeen> {
    let columns = [
        ("state", "state"),
        ("ncpus f/t", "ncpusft"),
        ("ngpus f/t", "ngpusft"),
        ("comment", "comment"),
    ];
    let text = |(key, name)| Some((String::from(key), row.text(name)?.to_owned()));
    let id = row.text("vnode node host")?.to_owned();
    let attributes = columns.into_iter().filter_map(text).collect();
    node(&Thing {
        id,
        attributes,
        ..Thing::default()
    })
}

/// What keeps a node from work counts first (`pbsnodes(8B)`).
fn node_state(raw: &str) -> String {
    let mut words = raw.split(',').map(str::trim);
    let has = |known: &[&str]| {
        { words.clone() }.any(|word| known.iter().any(|known| word.starts_with(known)))
    };
    let found = match () {
        () if has(&["offline"]) => "offline",
        () if has(&["down", "state-unknown"]) => "down",
        () if has(&["job-exclusive", "job-busy", "busy", "resv-exclusive"]) => "busy",
        () => words.next().unwrap_or_default(),
    };
    found.to_ascii_lowercase()
}
