//! A scheduler's refusal in words that help: what it did not like, and what the site has instead.
//!
//! Pure; who was refused asks for the site. The words are those of Slurm 22.05 to 26.05 (`slurm_errno.h`, seen with 22.05)
//! and of Torque's and OpenPBS's `qsub`.

use super::slurm;
use crate::config::site::{Queue, SiteModel, shown_list};
use crate::launch::PlannedResources;

/// What schedulers do not like: its name here, its class in `dlrun explain --json`, the key under `[resources]` that it is about,
/// and what it means for somebody of whose job nothing is known.
const FAULTS: &str = "
busy | controller_unavailable | | the scheduler gave no answer; the same may succeed a little later
gone | unknown_job | | the scheduler does not know the job (any more): ask its accounting, or `dlrun show`
queue | invalid_partition | queue | no such queue, or it takes no jobs: `dlrun doctor` lists the queues
account | invalid_account | account | the account does not exist, or this user may not charge it
qos | invalid_qos | qos | the quality of service does not exist, or the account may not use it
constraint | invalid_feature | constraint | no node has the feature that `constraint` names
walltime | time_limit | walltime | the time limit is beyond that of the queue, or missing
nodes | nodes_unavailable | nodes | no node of the queue has what is asked for: fewer CPUs, GPUs or less memory per node
count | nodes_unavailable | nodes | the number of nodes is not valid here: a limit of the queue, or more nodes than tasks
in_use | nodes_unavailable | nodes | the nodes are in use, down or reserved, and the job was not to wait
gpus | gres_invalid | nodes | no node has GPUs of this type, or the site gives them another way
array | array | array | an index is beyond the site's limit, or the array is invalid
begin | usage | begin | the begin time is invalid: it must be a moment to come, in the scheduler's local time
dependency | dependency | depends | the job that is waited for is not known (any more); `dlrun list` shows the runs
reservation | reservation | reservation | the reservation does not exist, is over, or is not for this user
license | invalid_license | licenses | the licence does not exist, or there are fewer of them
resource | unknown_resource | licenses | the site has no resource of that name, which may come from `constraint` or an own option too
node | nodes_unavailable | nodelist | there is no node of that name
destination | no_destination | nodes | no queue takes such a job: other resources, or another queue
permission | permission | | this user, group or host may not do that: another queue or account, or ask the administrators
policy | limit | | a limit of the queue, the account or its quality of service: fewer jobs, nodes, GPUs or less time
script | script | | the job script cannot be read, or does not begin with `#!`
usage | usage | | the scheduler does not know the option, its value is invalid, or options contradict each other
other | refused | | it was refused, for a reason that dlrun does not know
";

/// Faults and the words that mean them, in small letters. The first row that is found counts: special ones come first. Of
/// Slurm from `slurm_errno.c` 20.11 to 26.05 and `sbatch`, of Torque from `pbs_error_db.h` 6.1.3, of OpenPBS from
/// `pbs_messages.c` 23.06. Only those of three words and more are known without the name of a command before them.
const WORDS: &str = "
busy | socket timed out | connection timed out | zero bytes were transmitted | unable to contact slurm controller
busy | backup controller in standby mode | slurm controller not responding | unable to connect to database
busy | sending persistconnection init message | establish configuration source | establish a configuration source
busy | temporarily unable to accept job | resource temporarily unavailable | slurm job queue full
busy | unable to create job record | too many open connections | too busy to service this request
busy | possible transient failure | cannot connect to server | could not connect to trqauthd
busy | error communicating with | end of file | premature end of message | connection refused | connection failure
gone | invalid job id | unknown job id | nonexistent job id | job has finished | already completing or completed
gone | job/step already completing
usage | illegally formed job identifier
gone | request invalid for state of job
policy | qosmax | qosgrp | qosmin | assocmax | assocgrp | violates accounting | submitjob | maximum number of jobs
policy | would exceed | job submission limit | violates queue and/or server resource limits
policy | exceeds limit on resource
account | invalid account | account name | invalid project | unknown project
queue | no partition specified | invalid partition | required partition not available | unknown queue
queue | no default queue | queue is not enabled | unknown/illegal queue
account | user not in the project
qos | invalid qos | quality of service
constraint | invalid feature
nodes | feasible nodes
walltime | time limit | --time specification | walltime
nodes | memory
gpus | generic resource | gres specification
node | invalid node name | cannot locate specified node
array | array
begin | begin specification | invalid time specification
dependency | dependency | dependencies
reservation | reservation
license | license
resource | unknown resource
in_use | requested nodes are busy | immediate execution impossible
nodes | node configuration | partition configuration | cpu count
count | node count | number of nodes
nodes | more processors
policy | job exceeds queue resource limits | exceeds queue | resource limits
destination | all possible destinations
permission | not permitted | access/permission denied | permission denied | access from host not allowed
permission | bad uid for job execution | bad gid for job execution | acl rejected | unauthorized | not authorized
permission | invalid user id | invalid credential | no permission
script | unable to open file | does not look like a batch script | batch script contains dos line breaks | script file
script | script is empty | other parameter too long | must start with #!
usage | unrecognized option | invalid option | conflicting options | illegal option | ambiguous option | usage:
usage | attribute or resource value | undefined attribute | illegal - | directive error | submit error | invalid --
usage | specification
other | batch job submission failed | unable to allocate resources
";

/// What a scheduler did not like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Fault {
    pub(super) name: &'static str,
    class: &'static str,
    key: &'static str,
    /// What it means, for somebody of whose job nothing is known.
    pub(super) meaning: &'static str,
}

/// A row's cells.
fn cells(row: &'static str) -> impl Iterator<Item = &'static str> {
    row.split('|').map(str::trim)
}

impl Fault {
    /// A fault by its name; [`FAULTS`] has all.
    pub(super) fn named(name: &str) -> Option<Self> {
        FAULTS.lines().find_map(|row| {
            let [known, class, key, meaning] = cells(row).collect::<Vec<_>>()[..] else {
                return None;
            };
            let fault = Self {
                name: known,
                class,
                key,
                meaning,
            };
            (known == name).then_some(fault)
        })
    }

    /// Its name in `dlrun explain --json`.
    pub(super) fn class(self, scheduler: &str) -> &'static str {
        match self.name {
            "queue" if scheduler != "slurm" => "unknown_queue",
            _ => self.class,
        }
    }
}

/// The words that are known of a complaint of the scheduler's commands, and what they mean.
pub(super) fn fault(text: &str) -> Option<(&'static str, Fault)> {
    fault_by(text, |_| true)
}

/// As [`fault`], of text that need not be a scheduler's: a whole phrase must be in it. Codes in a daemon's log answer another
/// daemon.
pub(super) fn fault_of_sentence(text: &str) -> Option<(&'static str, Fault)> {
    let lines: Vec<&str> = text
        .lines()
        .filter(|line| !line.contains("reply code="))
        .collect();
    fault_by(&lines.join("\n"), |words| words.matches(' ').count() >= 2)
}

fn fault_by(text: &str, may_count: fn(&str) -> bool) -> Option<(&'static str, Fault)> {
    let small = text.to_lowercase();
    WORDS.lines().find_map(|row| {
        let mut words = cells(row);
        let fault = Fault::named(words.next()?)?;
        let words = words.find(|words| may_count(words) && small.contains(words))?;
        Some((words, fault))
    })
}

/// Whose words a complaint without the name of a command is.
pub(super) fn speaker_of(fault: Fault, line: &str) -> &'static str {
    let small = line.to_lowercase();
    let of_pbs = "queue|destination|job id|job identifier|server|trqauthd|uid|msg=";
    let names_pbs = of_pbs.split('|').any(|word| small.contains(word));
    if (names_pbs || fault.name == "destination") && !small.contains("slurm") {
        "pbs"
    } else {
        "slurm"
    }
}

/// What to do after a refusal in these words; `None` where they are not known.
#[must_use]
pub fn hint(words: &str, asked: &PlannedResources, site: Option<&SiteModel>) -> Option<String> {
    let (_, mut fault) = fault(words)?;
    if fault.name == "policy" && words.to_lowercase().contains("resource limits") {
        fault = Fault::named("destination")?;
    }
    let text = match fault.name {
        "busy" | "gone" | "script" | "usage" | "other" => return None,
        "policy" => match named_limit(words) {
            Some((limit, meaning)) => format!("`{limit}`: {meaning}"),
            None => format!("a limit on your jobs is reached: {}", fault.meaning),
        },
        _ => {
            let parts = [
                named(fault.key, asked),
                Some(fault.meaning.to_owned()),
                site_has(fault.key, site),
            ];
            parts.into_iter().flatten().collect::<Vec<_>>().join("; ")
        }
    };
    Some(text)
}

/// What the job asks for by a key.
fn named(key: &str, asked: &PlannedResources) -> Option<String> {
    let value = match key {
        "queue" => asked.queue.clone(),
        "account" => asked.account.clone(),
        "qos" => asked.qos.clone(),
        "reservation" => asked.reservation.clone(),
        "constraint" => asked.constraint.clone(),
        "walltime" => asked.walltime.map(|walltime| walltime.to_string()),
        "" | "nodes" => return None,
        key => return Some(format!("`resources.{key}`")),
    };
    Some(match value {
        Some(value) => format!("`resources.{key}` is `{value}`"),
        None => format!("`resources.{key}` is not set"),
    })
}

/// What the site has instead; `None` where that is not known. Its nodes were compared with the job before.
fn site_has(key: &str, site: Option<&SiteModel>) -> Option<String> {
    let site = site?;
    let items: Vec<String> = match key {
        "queue" | "walltime" => site.queues.iter().map(shown_queue).collect(),
        "licenses" => {
            let licenses = site.licenses.iter();
            licenses
                .map(|(name, count)| format!("{name} ({count})"))
                .collect()
        }
        "array" => {
            let largest = |index| format!("the largest index of the site is {index}");
            let most = |most| format!("the site takes {most} elements of one array at most");
            let most = site.max_array_elements.map(most);
            return site.max_array_index.map(largest).or(most);
        }
        _ => return None,
    };
    (!items.is_empty()).then(|| format!("the site has {}", shown_list(items)))
}

fn shown_queue(queue: &Queue) -> String {
    let limit = queue.max_walltime.map(|limit| format!(" (up to {limit})"));
    format!("{}{}", queue.name, limit.unwrap_or_default())
}

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::foundation::units::{Bytes, Walltime};
    use crate::job::SchedulerKind;

    fn asked() -> PlannedResources {
        PlannedResources {
            spares: 0,
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
        let queue = |name: &str, hours: u64| Queue {
            name: name.to_owned(),
            is_default: name == "batch",
            is_up: true,
            max_walltime: Some(Walltime(hours * 3600)),
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
            queues: vec![queue("batch", 168), queue("debug", 1)],
            nodes: Vec::new(),
            licenses: vec![("matlab".to_owned(), 4)],
            mpi: None,
        }
    }

    #[track_caller]
    fn assert_hint(words: &str, parts: &[&str]) {
        let hint_text = hint(words, &asked(), Some(&site())).expect("a hint");
        for part in parts {
            assert!(hint_text.contains(part), "{words}: {hint_text}");
        }
    }

    #[test]
    fn what_the_site_has_instead_is_told() {
        assert_hint(
            "sbatch: error: invalid partition specified: x",
            &["batch (up to 168h)", "debug"],
        );
        assert_hint(
            "Requested time limit is invalid (missing or exceeds some limit)",
            &["36h", "debug (up to 1h)", "batch"],
        );
        assert_hint(
            "Requested node configuration is not available",
            &["fewer CPUs, GPUs or less memory"],
        );
        assert_hint("Invalid feature specification", &["rack9"]);
        assert_hint("Invalid license specification", &["matlab (4)"]);
        assert_hint("Invalid job array specification", &["1000"]);
        let limited = SiteModel {
            max_array_index: None,
            max_array_elements: Some(300),
            ..site()
        };
        let array = site_has("array", Some(&limited));
        assert!(array.is_some_and(|array| array.contains("300 elements")));
        assert_hint("Job dependency problem", &["resources.depends"]);
        let policy =
            "Job violates accounting/QOS policy (job submit limit, user's size and/or time limits)";
        assert_hint(policy, &["limit on your jobs"]);
        assert_hint(
            &format!("sbatch: error: AssocMaxWallDurationPerJobLimit\n{policy}"),
            &["`AssocMaxWall", "single jobs"],
        );
        assert_hint(
            "sbatch: error: QOSMaxSubmitJobPerUserLimit",
            &["`QOSMaxSubmit", "at a time"],
        );
    }

    #[test]
    fn a_hint_needs_no_site_and_unknown_words_have_none() {
        let silent = ["busy", "gone", "script", "usage", "other"];
        let rows = WORDS.lines().map(|row| cells(row).collect::<Vec<_>>());
        for row in rows.filter(|row| row.len() > 1 && !silent.contains(&row[0])) {
            assert!(Fault::named(row[0]).is_some(), "{row:?}");
            for words in &row[1..] {
                let hint_text = hint(words, &asked(), None);
                assert!(
                    hint_text.is_some_and(|hint_text| hint_text.len() > 20),
                    "{words}"
                );
            }
        }
        assert_eq!(hint("it is Tuesday", &asked(), Some(&site())), None);
    }
}
