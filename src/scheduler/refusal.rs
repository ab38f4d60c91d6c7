//! A scheduler's refusal in words that help: what it did not like, and what the site has instead.
//!
//! Pure; who was refused asks for the site. The words are those of Slurm 22.05 to 26.05 (`slurm_errno.h`, seen with 22.05)
//! and of Torque's and OpenPBS's `qsub`.

use super::adapter_for;
use super::slurm;
use crate::config::site::{NodeType, Queue, SiteModel};
use crate::job::SchedulerKind;
use crate::launch::PlannedResources;

/// What a scheduler did not like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    Busy,
    Gone,
    Queue,
    Account,
    Qos,
    Constraint,
    Walltime,
    Memory,
    Nodes,
    NodeCount,
    NodesBusy,
    Gpus,
    Array,
    Begin,
    Dependency,
    Reservation,
    License,
    Resource,
    NodeName,
    NoDestination,
    Permission,
    Policy,
    Script,
    Usage,
    Other,
}

impl Fault {
    /// Its name in `dlrun explain --json`.
    pub(super) fn class(self, scheduler: &str) -> &'static str {
        match self {
            Self::Busy => "controller_unavailable",
            Self::Gone => "unknown_job",
            Self::Queue if scheduler == "slurm" => "invalid_partition",
            Self::Queue => "unknown_queue",
            Self::Account => "invalid_account",
            Self::Qos => "invalid_qos",
            Self::Constraint => "invalid_feature",
            Self::Walltime => "time_limit",
            Self::Memory | Self::Nodes | Self::NodeCount | Self::NodesBusy | Self::NodeName => {
                "nodes_unavailable"
            }
            Self::Gpus => "gres_invalid",
            Self::Array => "array",
            Self::Begin | Self::Usage => "usage",
            Self::Dependency => "dependency",
            Self::Reservation => "reservation",
            Self::License => "invalid_license",
            Self::Resource => "unknown_resource",
            Self::NoDestination => "no_destination",
            Self::Permission => "permission",
            Self::Policy => "limit",
            Self::Script => "script",
            Self::Other => "refused",
        }
    }

    /// What it means, for somebody of whose job nothing is known.
    pub(super) fn meaning(self) -> &'static str {
        match self {
            Self::Busy => "the scheduler gave no answer; the same may succeed a little later",
            Self::Gone => {
                "the scheduler does not know the job (any more): ask its accounting, or `dlrun show`"
            }
            Self::Queue => "no such queue, or it takes no jobs: `dlrun doctor` lists the queues",
            Self::Account => "the account does not exist, or this user may not charge it",
            Self::Qos => "the quality of service does not exist, or the account may not use it",
            Self::Constraint => "no node has the feature that `constraint` names",
            Self::Walltime => "the time limit is beyond that of the queue, or missing",
            Self::Memory | Self::Nodes => {
                "no node of the queue has what is asked for: fewer CPUs, GPUs or less memory per node"
            }
            Self::NodeCount => {
                "the number of nodes is not valid here: a limit of the queue, or more nodes than tasks"
            }
            Self::NodesBusy => {
                "the nodes are in use, down or reserved, and the job was not to wait"
            }
            Self::Gpus => "no node has GPUs of this type, or the site gives them another way",
            Self::Array => "an index is beyond the site's limit, or the array is invalid",
            Self::Begin => "the begin time is invalid",
            Self::Dependency => "the job that is waited for is not known",
            Self::Reservation => "the reservation does not exist, is over, or is not for this user",
            Self::License => "the licence does not exist, or there are fewer of them",
            Self::Resource => "the site has no resource of that name",
            Self::NodeName => "there is no node of that name",
            Self::NoDestination => "no queue takes such a job: other resources, or another queue",
            Self::Permission => {
                "this user, group or host may not do that: another queue or account, or ask the administrators"
            }
            Self::Policy => {
                "a limit of the queue, the account or its quality of service: fewer jobs, nodes, GPUs or less time"
            }
            Self::Script => "the job script cannot be read, or does not begin with `#!`",
            Self::Usage => {
                "the scheduler does not know the option, its value is invalid, or options contradict each other"
            }
            Self::Other => "it was refused, for a reason that dlrun does not know",
        }
    }
}

/// Faults and the words that mean them, in small letters, with `|` between. The first that is found counts: special ones come first. Of
/// Slurm from `slurm_errno.c` 20.11 to 26.05 and `sbatch`, of Torque from `pbs_error_db.h` 6.1.3, of OpenPBS from
/// `pbs_messages.c` 23.06. Only those of three words and more are known without the name of a command before them.
const WORDS: &[(Fault, &str)] = &[
    (
        Fault::Busy,
        "socket timed out|connection timed out|zero bytes were transmitted| \
         unable to contact slurm controller|backup controller in standby mode| \
         slurm controller not responding|unable to connect to database| \
         sending persistconnection init message|establish configuration source| \
         establish a configuration source|temporarily unable to accept job|resource temporarily unavailable| \
         slurm job queue full|unable to create job record|too many open connections| \
         too busy to service this request|possible transient failure|cannot connect to server| \
         could not connect to trqauthd|error communicating with|end of file|premature end of message| \
         connection refused|connection failure",
    ),
    (
        Fault::Gone,
        "invalid job id|unknown job id|nonexistent job id|job has finished|already completing or completed| \
         job/step already completing",
    ),
    (Fault::Usage, "illegally formed job identifier"),
    (Fault::Gone, "request invalid for state of job"),
    (
        Fault::Policy,
        "qosmax|qosgrp|qosmin|assocmax|assocgrp|violates accounting|submitjob|maximum number of jobs| \
         would exceed|job submission limit|violates queue and/or server resource limits| \
         exceeds limit on resource",
    ),
    (
        Fault::Account,
        "invalid account|account name|invalid project|unknown project",
    ),
    (
        Fault::Queue,
        "no partition specified|invalid partition|required partition not available|unknown queue| \
         no default queue|queue is not enabled|unknown/illegal queue",
    ),
    (Fault::Account, "user not in the project"),
    (Fault::Qos, "invalid qos|quality of service"),
    (Fault::Constraint, "invalid feature"),
    (Fault::Nodes, "feasible nodes"),
    (Fault::Walltime, "time limit|--time specification|walltime"),
    (Fault::Memory, "memory"),
    (Fault::Gpus, "generic resource|gres specification"),
    (
        Fault::NodeName,
        "invalid node name|cannot locate specified node",
    ),
    (Fault::Array, "array"),
    (
        Fault::Begin,
        "begin specification|invalid time specification",
    ),
    (Fault::Dependency, "dependency|dependencies"),
    (Fault::Reservation, "reservation"),
    (Fault::License, "license"),
    (Fault::Resource, "unknown resource"),
    (
        Fault::NodesBusy,
        "requested nodes are busy|immediate execution impossible",
    ),
    (
        Fault::Nodes,
        "node configuration|partition configuration|cpu count",
    ),
    (Fault::NodeCount, "node count|number of nodes"),
    (Fault::Nodes, "more processors"),
    (
        Fault::Policy,
        "job exceeds queue resource limits|exceeds queue|resource limits",
    ),
    (Fault::NoDestination, "all possible destinations"),
    (
        Fault::Permission,
        "not permitted|access/permission denied|permission denied|access from host not allowed| \
         bad uid for job execution|bad gid for job execution|acl rejected|unauthorized|not authorized| \
         invalid user id|invalid credential|no permission",
    ),
    (
        Fault::Script,
        "unable to open file|does not look like a batch script|batch script contains dos line breaks| \
         script file|script is empty|other parameter too long|must start with #!",
    ),
    (
        Fault::Usage,
        "unrecognized option|invalid option|conflicting options|illegal option|ambiguous option|usage:| \
         attribute or resource value|undefined attribute|illegal -|directive error|submit error|invalid --| \
         specification",
    ),
    (
        Fault::Other,
        "batch job submission failed|unable to allocate resources",
    ),
];

/// The words that are known of a complaint of the scheduler's commands, and what they mean.
pub(super) fn fault(said: &str) -> Option<(&'static str, Fault)> {
    fault_by(said, |_| true)
}

/// As [`fault`], of text that need not be a scheduler's: a whole phrase must be in it. Codes in a daemon's log answer another
/// daemon.
pub(super) fn fault_of_sentence(said: &str) -> Option<(&'static str, Fault)> {
    let lines: Vec<&str> = said
        .lines()
        .filter(|line| !line.contains("reply code="))
        .collect();
    fault_by(&lines.join("\n"), |words| words.matches(' ').count() >= 2)
}

fn fault_by(said: &str, may_count: fn(&str) -> bool) -> Option<(&'static str, Fault)> {
    let small = said.to_lowercase();
    let rows = WORDS.iter();
    let words =
        rows.flat_map(|(fault, words)| words.split('|').map(|words| (words.trim(), *fault)));
    { words }.find(|(words, _)| may_count(words) && small.contains(words))
}

/// Whose words a complaint without the name of a command is.
pub(super) fn speaker_of(fault: Fault, line: &str) -> &'static str {
    let small = line.to_lowercase();
    let of_pbs = "queue|destination|job id|job identifier|server|trqauthd|uid|msg=";
    let names_pbs = of_pbs.split('|').any(|word| small.contains(word));
    if (names_pbs || fault == Fault::NoDestination) && !small.contains("slurm") {
        "pbs"
    } else {
        "slurm"
    }
}

/// What to do after a refusal in these words; `None` where they are not known.
#[must_use]
pub fn hint(
    kind: SchedulerKind,
    words: &str,
    asked: &PlannedResources,
    site: Option<&SiteModel>,
) -> Option<String> {
    let (_, fault) = fault(words)?;
    Some(match fault {
        Fault::Queue => queue(asked, site),
        Fault::Walltime => walltime(asked, site),
        Fault::Memory | Fault::Nodes | Fault::NodeCount | Fault::NodesBusy | Fault::NoDestination | Fault::Gpus => nodes(fault, asked, site),
        Fault::Constraint => constraint(asked, site),
        Fault::License => licenses(site),
        Fault::Resource => "`resources.licenses`, `resources.constraint` or an option of your own names a resource that \
                            the site does not have"
            .to_owned(),
        Fault::Array => array(site),
        Fault::Account => account(kind, asked, site),
        Fault::Qos => match &asked.qos {
            Some(qos) => format!("`resources.qos = \"{qos}\"`: ask the site which you may use"),
            None => "the site wants a quality of service: set `resources.qos`".to_owned(),
        },
        Fault::Begin => "`resources.begin` must be a moment to come, in the scheduler's local time".to_owned(),
        Fault::Dependency => {
            "`resources.depends` names a job that the scheduler does not know (any more); `dlrun list` shows the runs"
                .to_owned()
        }
        Fault::Reservation => reservation(kind, asked),
        Fault::NodeName => "`resources.nodelist` or `resources.exclude` names a node that is not there".to_owned(),
        Fault::Permission => "you may not do that here: the queue's users or groups, or the host that may submit, are \
                              limited; ask the site"
            .to_owned(),
        Fault::Policy if words.to_lowercase().contains("resource limits") => nodes(fault, asked, site),
        Fault::Policy => policy(words),
        Fault::Busy | Fault::Gone | Fault::Script | Fault::Usage | Fault::Other => return None,
    })
}

fn queue(asked: &PlannedResources, site: Option<&SiteModel>) -> String {
    let named = match &asked.queue {
        Some(queue) => format!("`resources.queue = \"{queue}\"`"),
        None => "`resources.queue` is not set".to_owned(),
    };
    match site.map(|site| &site.queues[..]) {
        None | Some([]) => format!("{named}; ask the site for its queues"),
        Some(queues) => format!(
            "{named}; the site has {}",
            list(queues.iter().map(shown_queue))
        ),
    }
}

fn shown_queue(queue: &Queue) -> String {
    let mut notes = Vec::new();
    if queue.is_default {
        notes.push("the default".to_owned());
    }
    if !queue.is_up {
        notes.push(if queue.is_closed { "closed" } else { "down" }.to_owned());
    }
    notes.extend(queue.max_walltime.map(|limit| format!("up to {limit}")));
    notes.extend(queue.max_nodes.map(|nodes| format!("up to {nodes} nodes")));
    if notes.is_empty() {
        queue.name.clone()
    } else {
        format!("{} ({})", queue.name, notes.join(", "))
    }
}

/// The queue that the job would go to.
fn target<'s>(asked: &PlannedResources, site: Option<&'s SiteModel>) -> Option<&'s Queue> {
    let queues = &site?.queues;
    match &asked.queue {
        Some(name) => queues.iter().find(|queue| queue.name == *name),
        None => queues.iter().find(|queue| queue.is_default),
    }
}

fn walltime(asked: &PlannedResources, site: Option<&SiteModel>) -> String {
    let named = asked
        .walltime
        .map_or("`resources.walltime` is not set".to_owned(), |walltime| {
            format!("`resources.walltime` is {walltime}")
        });
    let longer = |queue: &&Queue| {
        queue.is_up && asked.walltime.is_some() && queue.max_walltime >= asked.walltime
    };
    match target(asked, site) {
        Some(queue) if queue.max_walltime.is_some() => {
            let limit = queue
                .max_walltime
                .map(|limit| limit.to_string())
                .unwrap_or_default();
            let others = site
                .map(|site| site.queues.iter().filter(longer).map(shown_queue))
                .into_iter()
                .flatten();
            let others: Vec<String> = others.collect();
            let instead = if others.is_empty() {
                String::new()
            } else {
                format!("; longer: {}", list(others))
            };
            format!(
                "{named}, and the limit of queue `{}` is {limit}{instead}",
                queue.name
            )
        }
        _ => format!("{named}; ask the site for its limits"),
    }
}

fn nodes(fault: Fault, asked: &PlannedResources, site: Option<&SiteModel>) -> String {
    let mut wanted = vec![match asked.nodes {
        1 => "1 node".to_owned(),
        nodes => format!("{nodes} nodes"),
    }];
    wanted.extend(asked.cpus_per_task.map(|cpus| {
        format!(
            "{} CPUs each",
            u64::from(cpus) * u64::from(asked.tasks_per_node)
        )
    }));
    wanted.extend(asked.memory.map(|memory| format!("{memory} each")));
    wanted.extend(
        asked
            .memory_per_cpu
            .map(|memory| format!("{memory} for each CPU")),
    );
    wanted.extend(asked.gpus_on_node().map(|gpus| format!("{gpus} GPUs each")));
    wanted.extend(
        asked
            .constraint
            .as_ref()
            .map(|constraint| format!("`{constraint}`")),
    );
    let wanted = wanted.join(", ");
    let queue = target(asked, site);
    let of_queue = |kind: &&NodeType| {
        kind.queues.is_empty() || queue.is_none_or(|queue| kind.queues.contains(&queue.name))
    };
    let kinds: Vec<&NodeType> = site
        .map(|site| site.nodes.iter().filter(of_queue).collect())
        .unwrap_or_default();
    let kinds = alike(&kinds);
    let place = queue
        .map(|queue| format!("queue `{}`", queue.name))
        .unwrap_or_else(|| "the site".to_owned());
    if kinds.is_empty() {
        return format!("the job asks for {wanted}; ask the site what its nodes have");
    }
    let none = kinds.iter().all(|kind| kind.gpus.is_empty()) && fault == Fault::Gpus;
    let note = if none { ", no GPUs" } else { "" };
    format!(
        "the job asks for {wanted}; {place} has {}{note}",
        list(kinds.iter().map(shown_nodes))
    )
}

/// Kinds that differ by nothing that is shown, as one.
fn alike(kinds: &[&NodeType]) -> Vec<NodeType> {
    let mut merged: Vec<NodeType> = Vec::new();
    for kind in kinds {
        let same = |known: &&mut NodeType| {
            (known.cpus, known.memory, &known.gpus) == (kind.cpus, kind.memory, &kind.gpus)
        };
        match merged.iter_mut().find(same) {
            Some(known) => (known.count, known.up) = (known.count + kind.count, known.up + kind.up),
            None => merged.push((*kind).clone()),
        }
    }
    merged
}

fn shown_nodes(kind: &NodeType) -> String {
    let mut parts = Vec::new();
    parts.extend(kind.cpus.map(|cpus| format!("{cpus} CPUs")));
    parts.extend(kind.memory.map(|memory| memory.to_string()));
    parts.extend(kind.gpus.iter().map(|(name, count)| match name.as_str() {
        "" => format!("{count} GPUs"),
        name => format!("{name}:{count}"),
    }));
    let plural = if kind.count == 1 { "" } else { "s" };
    let down = kind.count.saturating_sub(kind.up);
    let down = if down == 0 {
        String::new()
    } else {
        format!(", {down} of them down")
    };
    format!("{} node{plural} of {}{down}", kind.count, parts.join(", "))
}

fn constraint(asked: &PlannedResources, site: Option<&SiteModel>) -> String {
    let named = asked.constraint.as_deref().unwrap_or("a constraint");
    let mut features: Vec<String> = site
        .map(|site| {
            site.nodes
                .iter()
                .flat_map(|kind| kind.features.clone())
                .collect()
        })
        .unwrap_or_default();
    features.sort_unstable();
    features.dedup();
    match features.is_empty() {
        true => format!("`resources.constraint`: no node is `{named}`"),
        false => format!(
            "`resources.constraint`: no node is `{named}`; the nodes' features are {}",
            list(features)
        ),
    }
}

fn licenses(site: Option<&SiteModel>) -> String {
    match site.map(|site| &site.licenses[..]) {
        None => "`resources.licenses`: ask the site which it has".to_owned(),
        Some([]) => "`resources.licenses`: the site has none".to_owned(),
        Some(known) => {
            let shown = known
                .iter()
                .map(|(name, count)| format!("{name} ({count})"));
            format!("`resources.licenses`: the site has {}", list(shown))
        }
    }
}

fn array(site: Option<&SiteModel>) -> String {
    let largest = site.and_then(|site| site.max_array_index);
    match (largest, site.and_then(|site| site.max_array_elements)) {
        (Some(largest), _) => {
            format!("`resources.array`: the largest index of the site is {largest}")
        }
        (None, Some(most)) => {
            format!("`resources.array`: the site takes {most} elements of one array at most")
        }
        (None, None) => {
            "`resources.array`: the site takes no such indexes, or no arrays".to_owned()
        }
    }
}

fn account(kind: SchedulerKind, asked: &PlannedResources, site: Option<&SiteModel>) -> String {
    let named = match &asked.account {
        Some(account) => format!("`resources.account = \"{account}\"` is not one that you may use"),
        None => "the site wants an account: set `resources.account`".to_owned(),
    };
    let of_queue = target(asked, site).filter(|queue| !queue.accounts.is_empty());
    match of_queue {
        Some(queue) => {
            format!(
                "{named}; queue `{}` is for {}",
                queue.name,
                list(queue.accounts.iter().cloned())
            )
        }
        None => match adapter_for(kind).how_to_see_accounts() {
            Some(how) => format!("{named}; {how}"),
            None => named,
        },
    }
}

fn reservation(kind: SchedulerKind, asked: &PlannedResources) -> String {
    let named = asked.reservation.as_deref().unwrap_or("none");
    let how = adapter_for(kind).how_to_see_reservations();
    format!(
        "`resources.reservation` is `{named}`, which is not there or not for you; {how} shows those that there are"
    )
}

/// Slurm names the limit on a line of its own: `sbatch: error: QOSMaxSubmitJobPerUserLimit`.
/// The limit that a complaint of Slurm names, and what it means.
pub(super) fn named_limit(words: &str) -> Option<(&str, &'static str)> {
    let names = words.split(|c: char| !c.is_ascii_alphanumeric());
    let is_limit = |word: &&str| {
        ["assoc", "qos"].iter().any(|family| {
            word.get(..family.len())
                .is_some_and(|start| start.eq_ignore_ascii_case(family))
        })
    };
    names
        .filter(is_limit)
        .find_map(|word| slurm::meaning(word).map(|meaning| (word, meaning)))
}

fn policy(words: &str) -> String {
    match named_limit(words) {
        Some((limit, meaning)) => format!("`{limit}`: {meaning}"),
        None => {
            "a limit on your jobs is reached, or this one is over it; ask the site for its limits"
                .to_owned()
        }
    }
}

/// As many as a line holds.
fn list(items: impl IntoIterator<Item = String>) -> String {
    const SHOWN: usize = 8;
    let items: Vec<String> = items.into_iter().collect();
    let more = items.len().saturating_sub(SHOWN);
    let shown = items.into_iter().take(SHOWN).collect::<Vec<_>>().join(", ");
    if more == 0 {
        shown
    } else {
        format!("{shown} and {more} more")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::foundation::units::{Bytes, Walltime};

    fn asked() -> PlannedResources {
        PlannedResources {
            nodes: 2,
            nodes_asked: true,
            tasks: None,
            tasks_per_node_asked: true,
            tasks_per_node: 4,
            cpus_per_task: Some(8),
            gpus_per_node: Some("a100:4".to_owned()),
            gpus_per_task: None,
            memory: Some(Bytes(900 << 30)),
            walltime: Some(Walltime(36 * 3600)),
            queue: Some("debug".to_owned()),
            account: None,
            qos: None,
            reservation: None,
            constraint: Some("rack9".to_owned()),
            nodelist: None,
            exclude: None,
            exclusive: false,
            memory_per_cpu: None,
            array: None,
            depends: Vec::new(),
            begin: None,
            mail: None,
            licenses: Vec::new(),
        }
    }

    fn site() -> SiteModel {
        let queue = |name: &str, hours: u64, accounts: &[&str]| Queue {
            name: name.to_owned(),
            is_default: name == "batch",
            is_up: true,
            max_walltime: Some(Walltime(hours * 3600)),
            accounts: accounts.iter().map(|&name| name.to_owned()).collect(),
            ..Queue::default()
        };
        SiteModel {
            format: SiteModel::FORMAT,
            scheduler: SchedulerKind::Slurm,
            version: None,
            asked_at_ms: 0,
            accounting: None,
            accounts_memory: None,
            max_array_index: Some(1000),
            max_array_elements: None,
            queues: vec![queue("batch", 168, &[]), queue("debug", 1, &["proj"])],
            nodes: vec![NodeType {
                queues: vec!["batch".to_owned(), "debug".to_owned()],
                count: 4,
                up: 3,
                cpus: Some(16),
                sockets: None,
                memory: Some(Bytes(64 << 30)),
                gpus: vec![("v100".to_owned(), 4)],
                features: vec!["ib".to_owned(), "rack1".to_owned()],
            }],
            licenses: vec![("matlab".to_owned(), 4)],
        }
    }

    #[track_caller]
    fn tells(words: &str, parts: &[&str]) {
        let told = hint(SchedulerKind::Slurm, words, &asked(), Some(&site())).expect("a hint");
        for part in parts {
            assert!(told.contains(part), "{words}: {told}");
        }
    }

    #[test]
    fn what_the_site_has_instead_is_told() {
        tells(
            "sbatch: error: invalid partition specified: x",
            &["batch (the default, up to 168h)", "debug"],
        );
        tells(
            "Requested time limit is invalid (missing or exceeds some limit)",
            &["36h", "`debug` is 1h", "batch"],
        );
        tells(
            "Memory specification can not be satisfied",
            &["900GiB", "64GiB", "1 of them down"],
        );
        tells(
            "Requested node configuration is not available",
            &["2 nodes", "32 CPUs", "4 nodes of 16 CPUs"],
        );
        let node = |features: &str| NodeType {
            count: 2,
            up: 2,
            cpus: Some(4),
            features: vec![features.to_owned()],
            ..NodeType::default()
        };
        let merged = alike(&[&node("a"), &node("b")]);
        assert_eq!(
            merged.iter().map(shown_nodes).collect::<Vec<_>>(),
            ["4 nodes of 4 CPUs"]
        );
        tells(
            "Invalid generic resource (gres) specification",
            &["a100:4", "v100:4"],
        );
        tells("Invalid feature specification", &["rack9", "ib, rack1"]);
        tells("Invalid license specification", &["matlab (4)"]);
        tells("Invalid job array specification", &["1000"]);
        let limited = SiteModel {
            max_array_index: None,
            max_array_elements: Some(300),
            ..site()
        };
        assert!(array(Some(&limited)).contains("300 elements"));
        tells(
            "Invalid account or account/partition combination specified",
            &["is for proj"],
        );
        tells("Job dependency problem", &["resources.depends"]);
        let policy =
            "Job violates accounting/QOS policy (job submit limit, user's size and/or time limits)";
        tells(policy, &["limit on your jobs"]);
        tells(
            &format!("sbatch: error: AssocMaxWallDurationPerJobLimit\n{policy}"),
            &["`AssocMaxWall", "single jobs"],
        );
        tells(
            "sbatch: error: QOSMaxSubmitJobPerUserLimit",
            &["`QOSMaxSubmit", "at a time"],
        );
    }

    #[test]
    fn a_hint_needs_no_site_and_unknown_words_have_none() {
        let silent = [
            Fault::Busy,
            Fault::Gone,
            Fault::Script,
            Fault::Usage,
            Fault::Other,
        ];
        let told = WORDS.iter().filter(|(fault, _)| !silent.contains(fault));
        for words in told.flat_map(|(_, words)| words.split('|')).map(str::trim) {
            let told = hint(SchedulerKind::Torque, words, &asked(), None);
            assert!(told.is_some_and(|told| told.len() > 20), "{words}");
        }
        assert_eq!(
            hint(
                SchedulerKind::Slurm,
                "it is Tuesday",
                &asked(),
                Some(&site())
            ),
            None
        );
    }
}
