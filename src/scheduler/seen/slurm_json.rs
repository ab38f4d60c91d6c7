//! `squeue --json`, `sacct --json`, `scontrol show node --json` and `sinfo --json`, 21.08 to 26.05: numbers plain or as `{set, infinite, number}`, states as text or as
//! a list, exit codes as a wait status or as an object.

use serde_json::Value;

use super::field::{gpus_of_gres, gpus_of_tres, said};
use super::slurm_node::node_state;
use super::{JobSeen, NodeSeen, Printed, Seen, state_word};
use crate::job::JobState;
use crate::scheduler::slurm;

pub(super) fn read(text: &str) -> Option<Seen> {
    let value: Value = serde_json::from_str(text).ok()?;
    if let Some(nodes) = value.get("nodes").and_then(Value::as_array) {
        let nodes = nodes.iter().filter_map(node).collect();
        return Some(Seen {
            form: "scontrol show node --json",
            scheduler: "slurm",
            nodes,
            ..Seen::default()
        });
    }
    if let Some(groups) = value.get("sinfo").and_then(Value::as_array) {
        let mut nodes: Vec<NodeSeen> = Vec::new();
        for node in groups.iter().flat_map(group) {
            if nodes.iter().all(|known| known.name != node.name) {
                nodes.push(node);
            }
        }
        return Some(Seen {
            form: "sinfo --json",
            scheduler: "slurm",
            nodes,
            ..Seen::default()
        });
    }
    let jobs = value.get("jobs")?.as_array()?;
    let is_accounting = jobs
        .iter()
        .any(|job| job.get("time").is_some_and(Value::is_object));
    let form = if is_accounting {
        "sacct --json"
    } else {
        "squeue --json"
    };
    let jobs = jobs.iter().filter_map(job).collect();
    Some(Seen {
        form,
        scheduler: "slurm",
        jobs,
        ..Seen::default()
    })
}

fn job(job: &Value) -> Option<JobSeen> {
    let number_of = |key: &str| number(&job[key]);
    let id = number_of("job_id")?.to_string();
    let past = job.get("time").filter(|time| time.is_object());
    let state = job
        .get("job_state")
        .or_else(|| job["state"].get("current"))
        .unwrap_or(&job["state"]);
    let raw_state = state_words(state);
    let known = slurm::job_state(&raw_state);
    let reason = job
        .get("state_reason")
        .unwrap_or(&job["state"]["reason"])
        .as_str()
        .and_then(said);
    let (exit_code, signal) = exit(&job["exit_code"]);
    let time = |live: &str, recorded: &str| {
        let value = past.map_or(&job[live], |past| &past[recorded]);
        // Of a job that waits it is an expectation.
        number(value).filter(|seconds| *seconds > 0 && known != JobState::Pending)
    };
    let (array_id, task) = array(job);
    let limit = past.map_or(&job["time_limit"], |past| &past["limit"]);
    let nodes = job
        .get("node_count")
        .and_then(number)
        .or_else(|| number_of("allocation_nodes"));
    Some(JobSeen {
        job_id: Some(
            array_id
                .as_ref()
                .zip(task)
                .map_or(id, |(array, task)| format!("{array}_{task}")),
        ),
        guess: None,
        name: text(job, "name"),
        state: state_word(known, reason.is_some_and(slurm::is_hold)),
        raw_state,
        reason: reason.map(str::to_owned),
        exit_code,
        signal,
        start: time("start_time", "start").map(Printed::Seconds),
        end: time("end_time", "end").map(Printed::Seconds),
        elapsed_s: past.and_then(|past| number(&past["elapsed"])),
        nodes,
        node_list: text(job, "nodes"),
        gpus: gpus(job),
        time_limit_s: number(limit)
            .filter(|minutes| *minutes > 0)
            .and_then(|minutes| minutes.checked_mul(60)),
        array_id,
        het_id: het(job),
        expected_start: (known == JobState::Pending)
            .then(|| {
                number_of("start_time")
                    .filter(|seconds| *seconds > 0)
                    .map(Printed::Seconds)
            })
            .flatten(),
        usage: Vec::new(),
        restarts: number_of("restart_cnt"),
    })
}

/// A node of `scontrol show node --json`, and of `sinfo --json` up to 22.05: its state as text with flags beside it, or as
/// one list.
fn node(node: &Value) -> Option<NodeSeen> {
    let words = |value: &Value| -> Vec<String> {
        let list = value
            .as_array()
            .map_or(std::slice::from_ref(value), Vec::as_slice);
        list.iter()
            .filter_map(Value::as_str)
            .map(str::to_owned)
            .collect()
    };
    let raw_state = [words(&node["state"]), words(&node["state_flags"])]
        .concat()
        .join("+");
    // Of several types the sum; "N/A" where nothing is known.
    let gres = |key: &str| {
        node[key]
            .as_str()
            .filter(|text| *text != "N/A")
            .map(gpus_of_gres)
    };
    let tres = |key: &str| {
        node[key]
            .as_str()
            .map(|text| gpus_of_tres(text).unwrap_or(0))
    };
    Some(NodeSeen {
        name: node["name"].as_str()?.to_owned(),
        state: node_state(&raw_state),
        raw_state,
        cpus: number(&node["cpus"]),
        gpus_total: gres("gres").or_else(|| tres("tres")),
        gpus_used: gres("gres_used").or_else(|| tres("tres_used")),
        reason: text(node, "reason"),
    })
}

/// The nodes of one line of `sinfo`, 23.02 and later: what is told holds of each, where least and most are the same.
fn group(group: &Value) -> Vec<NodeSeen> {
    let states = group["node"]["state"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default();
    let raw_state = states
        .iter()
        .filter_map(Value::as_str)
        .collect::<Vec<_>>()
        .join("+");
    let names = group["nodes"]["nodes"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default();
    let same = |key: &str| {
        let (least, most) = (
            number(&group[key]["minimum"]),
            number(&group[key]["maximum"]),
        );
        most.filter(|_| least == most)
    };
    let gres = |key: &str| {
        group["gres"][key]
            .as_str()
            .map(gpus_of_gres)
            .filter(|gpus| *gpus == 0 || names.len() == 1)
    };
    let total = group["gres"]["total"].as_str().map(gpus_of_gres);
    let each = |name: &Value| {
        Some(NodeSeen {
            name: name.as_str()?.to_owned(),
            state: node_state(&raw_state),
            raw_state: raw_state.clone(),
            cpus: same("cpus"),
            gpus_total: total,
            gpus_used: gres("used"),
            reason: group["reason"]["description"]
                .as_str()
                .and_then(said)
                .map(str::to_owned),
        })
    };
    names.iter().filter_map(each).collect()
}

fn text(job: &Value, key: &str) -> Option<String> {
    job[key].as_str().and_then(said).map(str::to_owned)
}

/// A number in any of its forms; `None` where it is not set or has no end.
fn number(value: &Value) -> Option<u64> {
    match value {
        Value::Number(number) => number.as_u64(),
        Value::String(text) => text.parse().ok(),
        Value::Object(parts) => {
            let is = |key: &str| parts.get(key).and_then(Value::as_bool);
            let counts = is("set") != Some(false) && is("infinite") != Some(true);
            parts.get("number").filter(|_| counts)?.as_u64()
        }
        _ => None,
    }
}

/// A state, or its words (`RUNNING+COMPLETING`).
fn state_words(value: &Value) -> String {
    let list = value
        .as_array()
        .map_or(std::slice::from_ref(value), Vec::as_slice);
    list.iter()
        .filter_map(Value::as_str)
        .collect::<Vec<_>>()
        .join("+")
}

/// Code and signal. A plain number is the raw wait status (22.05: `exit 1` is 256).
fn exit(value: &Value) -> (Option<i64>, Option<i64>) {
    let signed = |number: u64| i64::try_from(number).ok();
    if let Some(status) = value.as_u64() {
        let signal = Some(status & 0x7f).filter(|signal| *signal > 0);
        return (signed(status >> 8 & 0xff), signal.and_then(signed));
    }
    let signal = &value["signal"];
    let signal = number(&signal["id"])
        .or_else(|| number(&signal["signal_id"]))
        .filter(|signal| *signal > 0);
    (
        number(&value["return_code"]).and_then(signed),
        signal.and_then(signed),
    )
}

/// The array that it belongs to, and which of its elements it is: an index, or those that still wait.
fn array(job: &Value) -> (Option<String>, Option<String>) {
    let nested = &job["array"];
    let id = number(&job["array_job_id"])
        .or_else(|| number(&nested["job_id"]))
        .filter(|id| *id > 0);
    let index = job.get("array_task_id").unwrap_or(&nested["task_id"]);
    let waiting = job["array_task_string"]
        .as_str()
        .or_else(|| nested["task"].as_str());
    let waiting = waiting
        .filter(|text| !text.is_empty())
        .map(|text| format!("[{text}]"));
    let task = waiting.or_else(|| number(index).map(|index| index.to_string()));
    (id.map(|id| id.to_string()), task)
}

fn het(job: &Value) -> Option<String> {
    let nested = &job["het"];
    let id = number(&job["het_job_id"])
        .or_else(|| number(&nested["job_id"]))
        .filter(|id| *id > 0)?;
    let offset = number(&job["het_job_offset"])
        .or_else(|| number(&nested["job_offset"]))
        .unwrap_or(0);
    Some(format!("{id}+{offset}"))
}

/// What each node has, where that is told, else what is allocated, else what is asked for.
fn gpus(job: &Value) -> Option<u64> {
    let detail = job["gres_detail"].as_array().map(|nodes| {
        nodes
            .iter()
            .filter_map(Value::as_str)
            .map(gpus_of_gres)
            .fold(0, u64::saturating_add)
    });
    if let Some(gpus) = detail.filter(|gpus| *gpus > 0) {
        return Some(gpus);
    }
    let texts = ["tres_alloc_str", "tres_req_str"];
    let of_text = texts
        .iter()
        .find_map(|key| gpus_of_tres(job[*key].as_str()?));
    of_text.or_else(|| {
        listed_gpus(&job["tres"]["allocated"]).or_else(|| listed_gpus(&job["tres"]["requested"]))
    })
}

/// Accounting's list of resources; as in [`gpus_of_tres`] the entry without a type is the sum.
fn listed_gpus(list: &Value) -> Option<u64> {
    let list = list.as_array().filter(|list| !list.is_empty())?;
    let is_gpu = |item: &&Value| {
        item["type"] == "gres"
            && item["name"]
                .as_str()
                .is_some_and(|name| name.split(':').next() == Some("gpu"))
    };
    let count = |item: &Value| item["count"].as_u64().unwrap_or(0);
    let all = list
        .iter()
        .filter(is_gpu)
        .find(|item| item["name"] == "gpu")
        .map(count);
    Some(all.unwrap_or_else(|| {
        list.iter()
            .filter(is_gpu)
            .map(count)
            .fold(0, u64::saturating_add)
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_three_forms() {
        for (json, expected) in [
            ("7", Some(7)),
            (r#""7""#, Some(7)),
            (r#"{"set":true,"infinite":false,"number":7}"#, Some(7)),
            (r#"{"set":false,"infinite":false,"number":0}"#, None),
            (r#"{"set":true,"infinite":true,"number":0}"#, None),
            ("null", None),
        ] {
            assert_eq!(
                number(&serde_json::from_str(json).expect("JSON")),
                expected,
                "{json}"
            );
        }
    }

    #[test]
    fn a_wait_status_is_taken_apart() {
        assert_eq!(exit(&Value::from(256)), (Some(1), None));
        assert_eq!(exit(&Value::from(9)), (Some(0), Some(9)));
    }

    #[test]
    fn elements_are_named_by_their_array() {
        let json = r#"{"jobs":[{"job_id":96,"array_job_id":95,"array_task_id":1,"job_state":"RUNNING"},
            {"job_id":95,"array_job_id":{"set":true,"infinite":false,"number":95},"array_task_string":"2-5%2","job_state":["PENDING"],"state_reason":"JobHeldUser"}]}"#;
        let seen = read(json).expect("jobs");
        let ids: Vec<&str> = seen
            .jobs
            .iter()
            .map(|job| job.job_id.as_deref().unwrap_or_default())
            .collect();
        assert_eq!(ids, ["95_1", "95_[2-5%2]"]);
        assert_eq!(seen.jobs[1].state, "held");
    }
}
