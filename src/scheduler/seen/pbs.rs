//! PBS in text: `qstat`, `qstat -f`, `pbsnodes -a`, of Torque and of OpenPBS.

use std::collections::BTreeMap;

use super::field::{leading_number, moment, said};
use super::{JobSeen, NodeSeen, Seen, state_word};
use crate::job::JobState;
use crate::scheduler::pbs::values::{hosts, walltime};
use crate::scheduler::torque;

/// What is said of one job or node, by key: `job_state`, `Resource_List.walltime`.
pub(super) type Attributes = BTreeMap<String, String>;

/// A job out of its attributes, whatever form they came in.
pub(super) fn job(id: &str, of: &Attributes) -> Option<JobSeen> {
    let get = |keys: &[&str]| keys.iter().find_map(|key| of.get(*key)).and_then(|value| said(value));
    let raw_state = get(&["job_state"])?;
    let exit_code = get(&["exit_status", "Exit_status"]).and_then(|code| code.parse::<i64>().ok());
    let state = job_state(raw_state, exit_code, get(&["substate"]), of.len());
    let hosts = get(&["exec_vnode", "exec_host"]);
    let requested = get(&["Resource_List.nodes", "Resource_List.neednodes", "Resource_List.select"]);
    let nodes = get(&["Resource_List.nodect"]).and_then(leading_number).or_else(|| hosts.map(host_count));
    let (array, index) = id.split_once('[').unwrap_or((id, ""));
    let is_element = index.starts_with(|c: char| c.is_ascii_digit());
    Some(JobSeen {
        job_id: id.to_owned(),
        name: get(&["Job_Name"]).map(str::to_owned),
        state: state_word(state, raw_state == "H"),
        raw_state: raw_state.to_owned(),
        reason: get(&["comment"]).filter(|_| !state.is_final()).map(str::to_owned),
        exit_code,
        signal: exit_code.and_then(signal),
        start: get(&["start_time", "stime"]).and_then(moment),
        end: get(&["comp_time", "obittime"]).and_then(moment),
        elapsed_s: get(&["resources_used.walltime"]).and_then(duration),
        nodes,
        node_list: hosts.map(str::to_owned),
        gpus: gpus(of, requested),
        time_limit_s: get(&["Resource_List.walltime"]).and_then(duration),
        array_id: is_element
            .then(|| format!("{array}[]{}", index.split_once(']').map_or("", |(_, server)| server))),
        het_id: None,
        restarts: None,
    })
}

/// How a job ended, by its exit status. Which PBS said it is not known: -11 is Torque's time limit, -29 that of OpenPBS; 256
/// and more is a signal, and SIGTERM a deletion.
pub(super) fn ended(exit_status: i64) -> JobState {
    match exit_status {
        0 => JobState::Completed,
        -11 | -29 => JobState::Timeout,
        271 => JobState::Cancelled,
        _ => JobState::Failed,
    }
}

/// How many hosts a list of places names.
pub(super) fn host_count(text: &str) -> u64 {
    u64::try_from(hosts(text).len()).unwrap_or(u64::MAX)
}

/// A duration, in seconds.
pub(super) fn duration(text: &str) -> Option<u64> {
    walltime(text).map(|time| time.0)
}

/// The signal that ended a job.
pub(super) fn signal(exit_status: i64) -> Option<i64> {
    (exit_status > 256).then(|| exit_status - 256)
}

/// PBS's letters (`qstat(1B)`); the exit status says how it ended, where it is told. Substate 91 is a deletion.
fn job_state(letter: &str, exit: Option<i64>, substate: Option<&str>, told: usize) -> JobState {
    match letter {
        "R" | "E" | "B" => JobState::Running,
        "Q" | "W" | "T" | "H" | "M" => JobState::Pending,
        "S" | "U" => JobState::Suspended,
        "C" | "F" | "X" => match (exit, substate) {
            (_, Some("91")) => JobState::Cancelled,
            (Some(code), _) => ended(code),
            // A whole record without an exit status: it was deleted before it ran.
            (None, _) if letter != "X" && told > 8 => JobState::Cancelled,
            (None, _) => JobState::Completed,
        },
        _ => JobState::Unknown,
    }
}

/// GPUs over all nodes: `Resource_List.ngpus`, or `:gpus=`/`:ngpus=` in what is asked for, times the nodes of that part.
fn gpus(of: &Attributes, requested: Option<&str>) -> Option<u64> {
    if let Some(count) = of.get("Resource_List.ngpus").and_then(|count| count.parse().ok()) {
        return Some(count);
    }
    let part = |part: &str| {
        let mut words = part.split(':');
        let nodes = words.next().and_then(|first| first.parse::<u64>().ok()).unwrap_or(1);
        let count =
            words.filter_map(|word| word.strip_prefix("gpus=").or_else(|| word.strip_prefix("ngpus=")));
        count.filter_map(leading_number).fold(0, u64::saturating_add).saturating_mul(nodes)
    };
    requested.map(|requested| requested.split('+').map(part).fold(0, u64::saturating_add))
}

/// `qstat -f`, of Torque, of OpenPBS, and of Slurm's wrapper.
pub(super) fn qstat_full(text: &str) -> Option<Seen> {
    let things = torque::read_text(text);
    let of_jobs = || things.iter().filter(|thing| thing.kind == "Job");
    let is_torque = of_jobs()
        .any(|thing| ["fault_tolerant", "euser"].iter().any(|key| thing.attributes.contains_key(*key)));
    let scheduler = if is_torque { "torque" } else { "pbs" };
    let jobs: Vec<_> = of_jobs().filter_map(|thing| job(&thing.id, &thing.attributes)).collect();
    (!jobs.is_empty()).then_some(Seen { form: "qstat -f", scheduler, jobs, ..Seen::default() })
}

/// `Job ID  Name  User  Time Use S Queue`. Names hold no blanks, and the time is that of the CPU.
pub(super) fn qstat_table(text: &str) -> Option<Seen> {
    let head = text.lines().position(|line| line.trim_start().to_ascii_lowercase().starts_with("job id"))?;
    let mut jobs = Vec::new();
    for line in text.lines().skip(head + 1).filter(|line| line.starts_with(|c: char| c.is_ascii_digit())) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let is_letter = |word: &&&str| word.len() == 1 && word.chars().all(|c| c.is_ascii_uppercase());
        // `qstat -a` has the letter before the last column too, further to the right.
        let Some(letter) = words.iter().skip(3).rev().find(is_letter) else { continue };
        let of = Attributes::from([("job_state".to_owned(), (*letter).to_owned())]);
        let seen = job(words[0], &of);
        jobs.extend(seen.map(|job| JobSeen { name: words.get(1).map(|name| (*name).to_owned()), ..job }));
    }
    Some(Seen { form: "qstat", scheduler: "pbs", jobs, ..Seen::default() })
}

/// `pbsnodes -a`: a name at the beginning of a line, indented `key = value` below it.
pub(super) fn pbsnodes(text: &str) -> Option<Seen> {
    let mut nodes = Vec::new();
    let mut block: Option<(String, Attributes)> = None;
    for line in text.lines().chain(std::iter::once("")) {
        let is_name = !line.starts_with(char::is_whitespace) && !line.is_empty() && !line.contains(' ');
        if is_name || line.is_empty() {
            nodes.extend(block.take().and_then(|(name, of)| node(&name, &of)));
        }
        if is_name {
            block = Some((line.trim().to_owned(), Attributes::new()));
        } else if let (Some((_, of)), Some((key, value))) = (&mut block, line.split_once(" = ")) {
            of.entry(key.trim().to_owned()).or_insert_with(|| value.trim().to_owned());
        }
    }
    (!nodes.is_empty()).then_some(Seen { form: "pbsnodes", scheduler: "pbs", nodes, ..Seen::default() })
}

/// A node out of its attributes.
pub(super) fn node(name: &str, of: &Attributes) -> Option<NodeSeen> {
    let get = |keys: &[&str]| keys.iter().find_map(|key| of.get(*key)).and_then(|value| said(value));
    let number = |keys: &[&str]| get(keys).and_then(leading_number);
    let raw_state = get(&["state"])?;
    let used = of.get("gpu_status").map(|status| {
        let states = status.matches("gpu_state=").count();
        let free = status.matches("gpu_state=Unallocated").count();
        u64::try_from(states - free).unwrap_or(0)
    });
    Some(NodeSeen {
        name: name.to_owned(),
        state: node_state(raw_state),
        raw_state: raw_state.to_owned(),
        cpus: number(&["np", "resources_available.ncpus", "pcpus"]),
        gpus_total: number(&["gpus", "resources_available.ngpus"]),
        gpus_used: used.or_else(|| number(&["resources_assigned.ngpus"])),
        reason: get(&["note", "comment"]).map(str::to_owned),
    })
}

/// What keeps a node from work counts first (`pbsnodes(8B)`).
fn node_state(raw: &str) -> String {
    let words: Vec<&str> = raw.split(',').map(str::trim).collect();
    let has = |word: &str| words.contains(&word);
    let first = words.first().copied().unwrap_or_default();
    let word = match () {
        () if has("offline") => "offline",
        () if words.iter().any(|word| word.starts_with("down") || word.starts_with("state-unknown")) => {
            "down"
        }
        () if has("job-exclusive") || has("job-busy") || has("busy") || has("resv-exclusive") => "busy",
        () => first,
    };
    word.to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_is_in_the_exit_status() {
        for (letter, exit, substate, state) in [
            ("C", Some(0), None, JobState::Completed),
            ("C", Some(7), None, JobState::Failed),
            ("C", Some(-11), None, JobState::Timeout),
            ("F", Some(-29), None, JobState::Timeout),
            ("C", Some(271), None, JobState::Cancelled),
            ("F", None, Some("91"), JobState::Cancelled),
            ("C", None, None, JobState::Cancelled),
            ("E", None, None, JobState::Running),
        ] {
            assert_eq!(job_state(letter, exit, substate, 20), state, "{letter} {exit:?}");
        }
    }

    #[test]
    fn gpus_are_those_of_all_nodes() {
        let of = |text: &str| gpus(&Attributes::new(), Some(text));
        assert_eq!(of("2:ppn=4:gpus=2"), Some(4));
        assert_eq!(of("1:ncpus=2:ngpus=1+3:ncpus=1"), Some(1));
        assert_eq!(of("n01:ppn=2:gpus=1+n02:ppn=2:gpus=1"), Some(2));
        assert_eq!(of("15:ncpus=16"), Some(0));
    }
}
