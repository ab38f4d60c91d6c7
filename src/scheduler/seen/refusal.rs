//! Refusals and failures: which kind they are, and what they mean.

use super::RefusalSeen;

/// Words of the scheduler, its name, the kind, whether the same may succeed later, and what it means.
struct Known {
    words: &'static str,
    scheduler: &'static str,
    class: &'static str,
    transient: bool,
    meaning: &'static str,
}

const fn slurm(words: &'static str, class: &'static str, meaning: &'static str) -> Known {
    Known { words, scheduler: "slurm", class, transient: false, meaning }
}

const fn busy(words: &'static str, scheduler: &'static str) -> Known {
    let meaning = "the scheduler gave no answer; the same may succeed a little later";
    Known { words, scheduler, class: "controller_unavailable", transient: true, meaning }
}

const fn pbs(words: &'static str, class: &'static str, meaning: &'static str) -> Known {
    Known { words, scheduler: "pbs", class, transient: false, meaning }
}

const GONE: &str = "the job has left the scheduler's memory: ask its accounting, or `dlrun show`";
const NO_SUCH_QUEUE: &str = "there is no such queue: `dlrun doctor` lists those that exist";
const NODES: &str = "no node of the queue has what is asked for: fewer CPUs, GPUs or less memory per node";
const NOT_ALLOWED: &str =
    "this user or group may not do that: another queue or account, or ask the administrators";

/// Special ones first: several may stand in one text.
const KNOWN: [Known; 46] = [
    slurm("Invalid job id specified", "unknown_job", GONE),
    busy("Socket timed out", "slurm"),
    busy("Unable to contact slurm controller", "slurm"),
    busy("Slurm temporarily unable to accept job", "slurm"),
    busy("Zero Bytes were transmitted", "slurm"),
    busy("Slurm backup controller in standby mode", "slurm"),
    busy("Slurm controller not responding", "slurm"),
    slurm("nvalid partition", "invalid_partition", NO_SUCH_QUEUE),
    slurm("nvalid account", "invalid_account", "the account does not exist, or this user may not charge it"),
    slurm(
        "nvalid qos",
        "invalid_qos",
        "the quality of service does not exist, or the account may not use it",
    ),
    slurm(
        "Invalid generic resource",
        "gres_invalid",
        "no node has GPUs of this type, or the site gives them another way",
    ),
    slurm(
        "nvalid feature specification",
        "invalid_feature",
        "no node has the feature that `constraint` names",
    ),
    slurm("requested license", "invalid_license", "the licence does not exist, or there are fewer of them"),
    slurm("nvalid license", "invalid_license", "the licence does not exist, or there are fewer of them"),
    slurm("Requested time limit is invalid", "time_limit", "the time limit is beyond that of the queue"),
    slurm("Requested node configuration is not available", "nodes_unavailable", NODES),
    slurm("Memory specification can not be satisfied", "nodes_unavailable", NODES),
    slurm("CPU count per node can not be satisfied", "nodes_unavailable", NODES),
    slurm("More processors requested than permitted", "nodes_unavailable", NODES),
    slurm("Requested nodes are busy", "nodes_unavailable", "the nodes that were named are in use"),
    slurm(
        "Node count specification invalid",
        "nodes_unavailable",
        "there are not so many nodes, or the queue allows fewer",
    ),
    slurm("Invalid node name specified", "nodes_unavailable", "there is no node of that name"),
    slurm(
        "Invalid job array specification",
        "array",
        "an index is beyond the site's limit, or the array is written wrongly",
    ),
    slurm("Job dependency problem", "dependency", "the job that is waited for is not known"),
    slurm(
        "Requested reservation is invalid",
        "reservation",
        "the reservation does not exist, is over, or is not for this user",
    ),
    slurm("Access/permission denied", "permission", NOT_ALLOWED),
    slurm("User's group not permitted", "permission", NOT_ALLOWED),
    slurm("Invalid user id", "permission", NOT_ALLOWED),
    slurm(
        "Job violates accounting/QOS policy",
        "limit",
        "a limit of the account or its quality of service is reached: fewer jobs, nodes, GPUs or less time",
    ),
    slurm("Job submission limit", "limit", "as many jobs as allowed are queued already"),
    slurm("nrecognized option", "usage", "this version of Slurm does not know the option"),
    slurm("invalid option", "usage", "this version of Slurm does not know the option"),
    slurm("Batch job submission failed", "refused", "Slurm refused the job"),
    pbs("nknown Job Id", "unknown_job", GONE),
    pbs("nonexistent job id", "unknown_job", GONE),
    pbs("Job has finished", "unknown_job", "the job is over: `qstat -x` shows its end"),
    pbs("nknown queue", "unknown_queue", NO_SUCH_QUEUE),
    pbs("Unauthorized Request", "permission", NOT_ALLOWED),
    pbs(
        "rejected by all possible destinations",
        "no_destination",
        "no queue takes such a job: other resources, or another queue",
    ),
    pbs("exceeds queue", "limit", "it asks for more than the queue allows, or than any node has"),
    pbs("violates queue and/or server resource limits", "limit", "it asks for more than the queue allows"),
    pbs("nknown resource", "unknown_resource", "the site has no resource of that name"),
    pbs("llegal attribute or resource value", "usage", "a value is written wrongly"),
    pbs("cannot locate feasible nodes", "nodes_unavailable", NODES),
    busy("cannot connect to server", "pbs"),
    busy("Connection refused", "pbs"),
];

/// The kind of a refusal, from whatever its program printed.
pub(super) fn classify(text: &str) -> Option<(&'static str, RefusalSeen)> {
    let known = KNOWN.iter().find(|known| text.contains(known.words))?;
    let line = text.lines().find(|line| line.contains(known.words)).unwrap_or(text);
    let words = line.trim().chars().take(500).collect();
    let Known { class, transient, meaning, .. } = *known;
    Some((known.scheduler, RefusalSeen { error_class: class, transient, meaning, words }))
}
