//! PBS in text: `qstat`, `qstat -f`, `pbsnodes -a`, of Torque and of OpenPBS.

use std::collections::BTreeMap;

use super::field::{leading_number, moment, said};
use super::{JobSeen, NodeSeen, Seen, state_word};
use crate::job::JobState;
use crate::scheduler::openpbs::json;
use crate::scheduler::pbs::answer::{self, Thing};
use crate::scheduler::pbs::ends::{self, Pbs};
use crate::scheduler::pbs::values::{hosts, walltime};

/// What is said of one job or node, by key: `job_state`, `Resource_List.walltime`.
pub(super) type Attributes = BTreeMap<String, String>;

/// A job out of its attributes, whatever form they came in.
pub(super) fn job(id: &str, of: &Attributes) -> Option<JobSeen> {
    let get = |keys: &[&str]| {
        keys.iter()
            .find_map(|key| of.get(*key))
            .and_then(|value| said(value))
    };
    let raw_state = get(&["job_state"])?;
    let exit_code = get(&["exit_status", "Exit_status"]).and_then(|code| code.parse::<i64>().ok());
    let (state, guess) = job_state(raw_state, exit_code, get(&["substate"]), of.len());
    let hosts = get(&["exec_vnode", "exec_host"]);
    let requested = get(&[
        "Resource_List.nodes",
        "Resource_List.neednodes",
        "Resource_List.select",
    ]);
    let nodes = get(&["Resource_List.nodect"])
        .and_then(leading_number)
        .or_else(|| hosts.map(host_count));
    let (array, index) = id.split_once('[').unwrap_or((id, ""));
    let is_element = index.starts_with(|c: char| c.is_ascii_digit());
    Some(JobSeen {
        job_id: Some(id.to_owned()),
        guess: guess.map(|state| state.as_str().to_owned()),
        name: get(&["Job_Name"]).map(str::to_owned),
        state: state_word(state, raw_state == "H"),
        raw_state: raw_state.to_owned(),
        // Of a job that runs it says where it runs.
        reason: get(&["comment"])
            .or(get(&["depend"]).filter(|_| raw_state == "H"))
            .filter(|_| !state.is_final() && state != JobState::Running)
            .map(str::to_owned),
        exit_code,
        signal: exit_code.and_then(signal),
        start: get(&["start_time", "stime"]).and_then(moment),
        end: get(&["comp_time", "obittime"]).and_then(moment),
        elapsed_s: get(&["resources_used.walltime"]).and_then(duration),
        nodes,
        node_list: hosts.map(str::to_owned),
        gpus: gpus(of, requested),
        expected_start: get(&["estimated.start_time"])
            .and_then(moment)
            .filter(|_| state == JobState::Pending),
        time_limit_s: get(&["Resource_List.walltime"]).and_then(duration),
        array_id: is_element.then(|| {
            format!(
                "{array}[]{}",
                index.split_once(']').map_or("", |(_, server)| server)
            )
        }),
        het_id: None,
        // `run_count` of OpenPBS, `start_count` of Torque: how often it was started.
        restarts: get(&["run_count", "start_count"])
            .and_then(leading_number)
            .map(|starts| starts.saturating_sub(1)),
        usage: Vec::new(),
    })
}

/// How a job ended, by its exit status, and where that is not certain the nearest guess: 256 and more is a signal, and
/// SIGTERM a deletion. Codes below 0 are those of one table for both PBS.
pub(super) fn ended(which: Option<Pbs>, exit_status: i64) -> (JobState, Option<JobState>) {
    match exit_status {
        0 => (JobState::Completed, None),
        271 => (JobState::Cancelled, None),
        1.. => (JobState::Failed, None),
        code => match ends::of_code(which, code) {
            Some((state, _)) => (state, None),
            None => (
                JobState::Unknown,
                Some(ends::of_code(Some(Pbs::Torque), code).map_or(JobState::Failed, |end| end.0)),
            ),
        },
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

/// PBS's letters (`qstat(1B)`); the exit status says how it ended, where it is told. `C` is Torque's, `F` and `X` are those
/// of OpenPBS, where substate 91 is a deletion.
fn job_state(
    letter: &str,
    exit: Option<i64>,
    substate: Option<&str>,
    told: usize,
) -> (JobState, Option<JobState>) {
    let which = if letter == "C" {
        Pbs::Torque
    } else {
        Pbs::OpenPbs
    };
    let state = match letter {
        "R" | "E" | "B" => JobState::Running,
        "Q" | "W" | "T" | "H" => JobState::Pending,
        "S" | "U" => JobState::Suspended,
        "C" | "F" | "X" => match (exit, substate) {
            (_, Some("91")) => JobState::Cancelled,
            (Some(code), _) => return ended(Some(which), code),
            // A whole record without an exit status: it was deleted before it ran.
            (None, _) if letter != "X" && told > 8 => JobState::Cancelled,
            // A table has the letter alone, for which most mean it. Part of a record could have said it, and does not.
            (None, _) if told > 1 => return (JobState::Unknown, Some(JobState::Completed)),
            (None, _) => JobState::Completed,
        },
        _ => JobState::Unknown,
    };
    (state, None)
}

/// GPUs over all nodes: `Resource_List.ngpus`, or `:gpus=`/`:ngpus=` in what is asked for, times the nodes of that part.
fn gpus(of: &Attributes, requested: Option<&str>) -> Option<u64> {
    if let Some(count) = of
        .get("Resource_List.ngpus")
        .and_then(|count| count.parse().ok())
    {
        return Some(count);
    }
    let part = |part: &str| {
        let mut words = part.split(':');
        let nodes = words
            .next()
            .and_then(|first| first.parse::<u64>().ok())
            .unwrap_or(1);
        let count = words.filter_map(|word| {
            word.strip_prefix("gpus=")
                .or_else(|| word.strip_prefix("ngpus="))
        });
        count
            .filter_map(leading_number)
            .fold(0, u64::saturating_add)
            .saturating_mul(nodes)
    };
    requested.map(|requested| requested.split('+').map(part).fold(0, u64::saturating_add))
}

/// `qstat -f`, `qstat -f -F json`, `qstat -x`, `pbsnodes -F json` and `pbsnodes -x`: jobs, or else nodes.
fn of_things(
    form: [&'static str; 2],
    scheduler: &'static str,
    jobs: &[Thing],
    nodes: &[Thing],
) -> Option<Seen> {
    let jobs: Vec<_> = jobs
        .iter()
        .filter_map(|thing| job(&thing.id, &thing.attributes))
        .collect();
    let nodes: Vec<_> = nodes
        .iter()
        .filter_map(|thing| node(&thing.id, &thing.attributes))
        .collect();
    let form = form[usize::from(jobs.is_empty())];
    (!jobs.is_empty() || !nodes.is_empty()).then_some(Seen {
        form,
        scheduler,
        jobs,
        nodes,
        ..Seen::default()
    })
}

pub(super) fn qstat_full(text: &str) -> Option<Seen> {
    // A document may indent it as a whole.
    let head = text
        .lines()
        .find(|line| line.trim_start().starts_with("Job Id:"))?;
    let indent = &head[..head.len() - head.trim_start().len()];
    let bare = |line: &str| {
        line.strip_prefix(indent)
            .unwrap_or(line.trim_start())
            .to_owned()
            + "\n"
    };
    let mut jobs = answer::read_text(&text.lines().map(bare).collect::<String>());
    jobs.retain(|thing| thing.kind == "Job");
    let is_torque = jobs.iter().any(|thing| {
        ["fault_tolerant", "euser"]
            .iter()
            .any(|key| thing.get(key).is_some())
    });
    of_things(
        ["qstat -f"; 2],
        if is_torque { "torque" } else { "pbs" },
        &jobs,
        &[],
    )
}

pub(super) fn xml(text: &str) -> Option<Seen> {
    let (jobs, others): (Vec<_>, Vec<_>) = answer::read_xml(text)
        .into_iter()
        .partition(|thing| thing.kind == "Job");
    let nodes: Vec<_> = others
        .into_iter()
        .filter(|thing| thing.kind == "Node")
        .collect();
    of_things(["qstat -x", "pbsnodes -x"], "torque", &jobs, &nodes)
}

pub(super) fn json(text: &str) -> Option<Seen> {
    let value = json::read(text);
    let [jobs, nodes] = ["Jobs", "nodes"].map(|table| json::things(&value, table));
    let forms = ["qstat -f -F json", "pbsnodes -F json"];
    // A server without jobs.
    let empty = || {
        let seen = Seen {
            form: forms[0],
            scheduler: "openpbs",
            ..Seen::default()
        };
        value
            .text("pbs_server")
            .filter(|_| value.get("nodes").is_none())
            .map(|_| seen)
    };
    of_things(forms, "openpbs", &jobs, &nodes).or_else(empty)
}

/// Words of `pbsnodes(8B)` for a node.
const NODE_WORDS: &str = "free offline down job-exclusive job-sharing job-busy busy reserve resv-exclusive stale \
    state-unknown time-shared provisioning wait-provisioning maintenance sleep initializing unknown unresolvable";

pub(super) fn is_node_word(word: &str) -> bool {
    NODE_WORDS.split(' ').any(|known| known == word)
}

/// `pbsnodes -l`: a name, its state, and perhaps a comment on each line.
pub(super) fn node_list(text: &str) -> Option<Seen> {
    let mut nodes = Vec::new();
    for line in text.lines() {
        let (name, rest) = line.trim().split_once(char::is_whitespace)?;
        let rest = rest.trim_start();
        let (state, reason) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
        if !state.split(',').all(is_node_word) {
            return None;
        }
        let reason = said(reason.trim()).map(str::to_owned);
        let (name, raw_state) = (name.to_owned(), state.to_owned());
        nodes.push(NodeSeen {
            name,
            state: node_state(state),
            raw_state,
            reason,
            ..NodeSeen::default()
        });
    }
    Some(Seen {
        form: "pbsnodes -l",
        scheduler: "pbs",
        nodes,
        ..Seen::default()
    })
}

/// `pbsnodes -a`: a name at the beginning of a line, indented `key = value` below it.
pub(super) fn pbsnodes(text: &str) -> Option<Seen> {
    let mut nodes = Vec::new();
    let mut block: Option<(String, Attributes)> = None;
    for line in text.lines().chain(std::iter::once("")) {
        // A long value may go on at the beginning of a line, with a comma.
        let is_name = line.starts_with(|c: char| c.is_ascii_alphanumeric()) && !line.contains(' ');
        if is_name || line.is_empty() {
            nodes.extend(block.take().and_then(|(name, of)| node(&name, &of)));
        }
        if is_name {
            block = Some((line.trim().to_owned(), Attributes::new()));
        } else if let (Some((_, of)), Some((key, value))) = (&mut block, line.split_once(" = ")) {
            of.entry(key.trim().to_owned())
                .or_insert_with(|| value.trim().to_owned());
        }
    }
    (!nodes.is_empty()).then_some(Seen {
        form: "pbsnodes",
        scheduler: "pbs",
        nodes,
        ..Seen::default()
    })
}

/// A node out of its attributes.
pub(super) fn node(name: &str, of: &Attributes) -> Option<NodeSeen> {
    let get = |keys: &[&str]| {
        keys.iter()
            .find_map(|key| of.get(*key))
            .and_then(|value| said(value))
    };
    let number = |keys: &[&str]| get(keys).and_then(leading_number);
    let raw_state = get(&["state", "State"])?;
    // `pbsnodes -vSj -F json` has free and total: `1/20`.
    let total = |key: &str| of.get(key)?.rsplit_once('/')?.1.parse::<u64>().ok();
    let used = of.get("gpu_status").map(|status| {
        let states = status.matches("gpu_state=").count();
        let free = status.matches("gpu_state=Unallocated").count();
        u64::try_from(states - free).unwrap_or(0)
    });
    Some(NodeSeen {
        name: name.to_owned(),
        state: node_state(raw_state),
        raw_state: raw_state.to_owned(),
        cpus: number(&["np", "resources_available.ncpus", "pcpus"]).or_else(|| total("ncpus f/t")),
        gpus_total: number(&["gpus", "resources_available.ngpus"]).or_else(|| total("ngpus f/t")),
        gpus_used: used.or_else(|| number(&["resources_assigned.ngpus"])),
        reason: get(&["note", "comment"]).map(str::to_owned),
    })
}

/// What keeps a node from work counts first (`pbsnodes(8B)`).
pub(super) fn node_state(raw: &str) -> String {
    let words: Vec<&str> = raw.split(',').map(str::trim).collect();
    let has = |word: &str| words.contains(&word);
    let first = words.first().copied().unwrap_or_default();
    let word = match () {
        () if has("offline") => "offline",
        () if words
            .iter()
            .any(|word| word.starts_with("down") || word.starts_with("state-unknown")) =>
        {
            "down"
        }
        () if has("job-exclusive") || has("job-busy") || has("busy") || has("resv-exclusive") => {
            "busy"
        }
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
            ("F", Some(-27), None, JobState::OutOfMemory),
            ("C", Some(271), None, JobState::Cancelled),
            ("F", None, Some("91"), JobState::Cancelled),
            ("C", None, None, JobState::Cancelled),
            ("E", None, None, JobState::Running),
        ] {
            assert_eq!(
                job_state(letter, exit, substate, 20),
                (state, None),
                "{letter} {exit:?}"
            );
        }
        assert_eq!(
            job_state("F", None, None, 2),
            (JobState::Unknown, Some(JobState::Completed))
        );
        assert_eq!(job_state("C", None, None, 1), (JobState::Completed, None));
    }

    #[test]
    fn an_answer_that_breaks_off_gives_its_whole_jobs() {
        let text = r#"{"Jobs":{"7.s":{"job_state":"R","Job_Name":"a","Resource_List":{"ngpus":2,"walltime":"01:00:00"}},"8.s":{"job_state""#;
        let seen = json(text).expect("jobs");
        let jobs: Vec<_> = seen
            .jobs
            .iter()
            .map(|job| (job.job_id.as_deref(), job.gpus, job.time_limit_s))
            .collect();
        assert_eq!(jobs, [(Some("7.s"), Some(2), Some(3600))]);
        assert_eq!(
            (
                json(r#"{"jobs":[{"job_id":7}]}"#),
                json(r#"{"nodes":[{"name":"n1"}]}"#)
            ),
            (None, None)
        );
        assert_eq!(
            json(r#"{"pbs_server":"s"}"#).map(|seen| seen.jobs.len()),
            Some(0)
        );
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
