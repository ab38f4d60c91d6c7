//! `dlrun bench node --submit`: a job on each kind of node of the site, alone on its node, which measures and keeps what it found
//! in the same state directory.

use std::path::Path;

use serde_json::{Value, json};

use crate::app::error::{Error, Kind};
use crate::app::images::build_job::{quoted, text_of};
use crate::app::job::load::{Against, Job, JobRequest};
use crate::app::job::schedulers;
use crate::app::job::submit;
use crate::app::session::Session;
use crate::app::site::ask;
use crate::cli::args::BenchNode;
use crate::config::site::{NodeType, SiteModel, described, overlaid};
use crate::foundation::private::PrivateDir;
use crate::job::SchedulerKind;
use crate::record::RunRecord;

/// Where the job files lie, below the state directory, and the jobs' outputs.
const ORDERS: &str = "bench-nodes";
/// Measuring takes half a minute, the start of a job some more.
const WALLTIME: &str = "15min";

/// What one job asks for to get onto a kind of node.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Order {
    /// The kind, for people; empty on this machine.
    node: String,
    queue: Option<String>,
    cpus: Option<u32>,
    /// `v100:4`
    gpus: Option<String>,
    constraint: Option<String>,
}

/// What became of an order.
struct Sent {
    order: Order,
    run: Result<RunRecord, Error>,
}

/// Runs the verb.
pub(super) fn run(session: &Session, args: &BenchNode) -> Result<u8, Error> {
    let kind = scheduler(session);
    let (orders, left) = if kind.is_local() {
        (vec![Order::default()], Vec::new())
    } else {
        let site = overlaid(&ask(session, kind)?, &session.settings.tables().queues);
        expect_queue(&site, args.queue.as_deref())?;
        orders(&site, args.queue.as_deref())
    };
    if orders.is_empty() {
        let error = Error::new(Kind::TryAgain, "no kind of node can be measured now");
        return Err(left.into_iter().fold(error, Error::hinted));
    }
    if let Some(dir) = args.dir.as_deref().filter(|dir| !dir.is_dir()) {
        let text = format!(
            "`--dir`: {} is no directory here; the nodes must have it",
            dir.display()
        );
        session.warning(&text);
    }
    let mut sent = Vec::new();
    for (number, order) in orders.into_iter().enumerate() {
        let run = send(session, args, &order, number + 1);
        sent.push(Sent { order, run });
    }
    tell(session, args, &sent, &left)
}

/// Who takes the jobs.
fn scheduler(session: &Session) -> SchedulerKind {
    match session.settings.scheduler() {
        SchedulerKind::Auto => schedulers::look(session, None)
            .found
            .first()
            .map_or(SchedulerKind::Local, |found| found.kind),
        named => named,
    }
}

fn expect_queue(site: &SiteModel, queue: Option<&str>) -> Result<(), Error> {
    let Some(name) = queue.filter(|name| !site.queues.iter().any(|queue| queue.name == **name))
    else {
        return Ok(());
    };
    let names: Vec<&str> = site
        .queues
        .iter()
        .map(|queue| queue.name.as_str())
        .collect();
    let error = Error::new(Kind::Missing, format!("there is no queue `{name}`"));
    Err(error.hinted(format!("there are {}", names.join(", "))))
}

/// An order for each kind of node, and what is left out and why. Kinds that differ in their queues alone are one.
fn orders(site: &SiteModel, queue: Option<&str>) -> (Vec<Order>, Vec<String>) {
    let mut kinds: Vec<&NodeType> = Vec::new();
    let (mut orders, mut left) = (Vec::new(), Vec::new());
    for node in &site.nodes {
        let in_queue =
            |name: &str| node.queues.is_empty() || node.queues.iter().any(|queue| queue == name);
        if queue.is_some_and(|queue| !in_queue(queue))
            || kinds.iter().any(|kind| are_alike(kind, node))
        {
            continue;
        }
        if node.up == 0 {
            left.push(format!("of the nodes with {} none is up", described(node)));
            continue;
        }
        let open = site
            .queues
            .iter()
            .filter(|queue| queue.is_up && !queue.is_closed && in_queue(&queue.name));
        let found = match queue {
            Some(queue) => Some(queue.to_owned()),
            // The default queue comes first: the order of equals stays.
            None => open
                .min_by_key(|queue| !queue.is_default)
                .map(|queue| queue.name.clone()),
        };
        if found.is_none() && !site.queues.is_empty() {
            left.push(format!(
                "the nodes with {} are in no queue that takes jobs",
                described(node)
            ));
            continue;
        }
        kinds.push(node);
        let features = if node.features.is_empty() {
            String::new()
        } else {
            format!(", {}", node.features.join(" "))
        };
        orders.push(Order {
            node: format!("{}{features}", described(node)),
            queue: found,
            cpus: node.cpus,
            gpus: node.gpus.first().map(|(kind, count)| match kind.as_str() {
                "" => count.to_string(),
                kind => format!("{kind}:{count}"),
            }),
            constraint: constraint(site.scheduler, &node.features),
        });
    }
    (orders, left)
}

fn are_alike(one: &NodeType, other: &NodeType) -> bool {
    let hardware = |node: &NodeType| (node.cpus, node.sockets, node.memory);
    hardware(one) == hardware(other) && one.gpus == other.gpus && one.features == other.features
}

/// What tells a kind's nodes from others, as far as a job can ask for it. OpenPBS's resources of nodes are not all for asking.
fn constraint(scheduler: SchedulerKind, features: &[String]) -> Option<String> {
    let joint = schedulers::joint_of_features(scheduler)?;
    (!features.is_empty()).then(|| features.join(joint))
}

/// Hands one job over.
fn send(
    session: &Session,
    args: &BenchNode,
    order: &Order,
    number: usize,
) -> Result<RunRecord, Error> {
    let dir = orders_dir(session.state()?.path())?;
    let text = job_file(session, args, order, &text_of(dir.path())?)?;
    let name = format!("{number}.job.toml");
    dir.replace(&name, text.as_bytes())?;
    let file = dir.path().join(name);
    let job = Job::load(session, &JobRequest::of_file(file), Against::Site)?;
    Ok(submit::submit(session, &job)?.0)
}

fn orders_dir(state: &Path) -> Result<PrivateDir, Error> {
    Ok(PrivateDir::open(state)?.ensure_dir(ORDERS)?)
}

fn job_file(
    session: &Session,
    args: &BenchNode,
    order: &Order,
    workdir: &str,
) -> Result<String, Error> {
    let dlrun = session.settings.node_dlrun().map(Path::to_owned);
    let dlrun = dlrun.map_or_else(std::env::current_exe, Ok)?;
    let mut command = vec![
        text_of(&dlrun)?,
        "--state-dir".to_owned(),
        text_of(session.settings.state_dir())?,
    ];
    command.extend(["bench", "node"].map(str::to_owned));
    if args.no_disk {
        command.push("--no-disk".to_owned());
    } else {
        command.extend(["--file".to_owned(), args.file.to_string()]);
    }
    if let Some(dir) = &args.dir {
        command.extend(["--dir".to_owned(), text_of(&std::path::absolute(dir)?)?]);
    }
    if let Some(arrays) = args.arrays {
        command.extend(["--arrays".to_owned(), arrays.to_string()]);
    }
    command.extend(args.force.then(|| "--force".to_owned()));
    let words: Vec<String> = command.iter().map(|word| quoted(word)).collect();
    let mut text = format!(
        "# dlrun measures a kind of node{}.\nname = \"bench-node\"\n\n[run]\ncommand = [{}]\nworkdir = {}\n\n\
         [image]\nnone = true\n\n[resources]\nwalltime = \"{WALLTIME}\"\nexclusive = true\n",
        if order.node.is_empty() {
            String::new()
        } else {
            format!(": {}", plain(&order.node)?)
        },
        words.join(", "),
        quoted(workdir),
    );
    if let Some(cpus) = order.cpus {
        text.push_str(&format!("cpus_per_task = {cpus}\n"));
    }
    let texts = [
        ("gpus_per_node", &order.gpus),
        ("constraint", &order.constraint),
        ("queue", &order.queue),
        ("account", &args.account),
    ];
    for (key, value) in texts {
        if let Some(value) = value {
            text.push_str(&format!("{key} = {}\n", quoted(plain(value)?)));
        }
    }
    Ok(text)
}

/// What a scheduler or a user said, where a job file can hold it.
fn plain(text: &str) -> Result<&str, Error> {
    if text.chars().any(char::is_control) {
        return Err(Error::new(
            Kind::Usage,
            format!("{text:?} is no text that a job file can hold"),
        ));
    }
    Ok(text)
}

/// Says what was sent; the exit code is the worst.
fn tell(session: &Session, args: &BenchNode, sent: &[Sent], left: &[String]) -> Result<u8, Error> {
    let (mut text, mut worst, mut any) = (String::new(), 0, false);
    let mut jobs: Vec<Value> = Vec::new();
    for Sent { order, run } in sent {
        let of = if order.node.is_empty() {
            "this machine"
        } else {
            &order.node
        };
        let queue = order
            .queue
            .as_ref()
            .map(|queue| format!(" in queue {queue}"))
            .unwrap_or_default();
        match run {
            Ok(record) => {
                any = true;
                let id = &record.run_id.as_str()[..6];
                let job = record
                    .job_id
                    .as_ref()
                    .map(|job| format!(" job {job}"))
                    .unwrap_or_default();
                text.push_str(&format!(
                    "{of}{queue}: run {id} ({}{job})\n",
                    record.scheduler.as_str()
                ));
                jobs.push(json!({
                    "node": order.node, "queue": order.queue, "run_id": record.run_id, "job_id": record.job_id,
                    "scheduler": record.scheduler, "output": record.output, "ok": true,
                }));
            }
            Err(error) => {
                worst = worst.max(error.kind.code());
                session.warning(&format!("{of}{queue}: {}", error.message()));
                jobs.push(json!({
                    "node": order.node, "queue": order.queue, "ok": false, "error": error.to_json(),
                }));
            }
        }
    }
    for why in left {
        session.note(why);
    }
    if any {
        text.push_str(if args.force {
            "what they find is kept here as it comes; `dlrun logs RUN` shows it\n"
        } else {
            "what they find is kept here as it comes, but that of a busy node (exit code 75); `dlrun logs RUN` shows it\n"
        });
    }
    session.answer(
        &json!({ "jobs": jobs, "left_out": left }),
        &crate::foundation::diagnostic::printable(&text),
    )?;
    Ok(worst)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::site::Queue;
    use crate::foundation::units::Bytes;

    fn site(nodes: Vec<NodeType>) -> SiteModel {
        let queue = |name: &str, is_default: bool, is_up: bool| Queue {
            name: name.into(),
            is_default,
            is_up,
            ..Queue::default()
        };
        SiteModel {
            format: SiteModel::FORMAT,
            scheduler: SchedulerKind::Slurm,
            version: None,
            asked_at_ms: 0,
            accounting: None,
            accounts_memory: None,
            max_array_index: None,
            max_array_elements: None,
            queues: vec![
                queue("old", false, false),
                queue("long", false, true),
                queue("batch", true, true),
            ],
            nodes,
            licenses: Vec::new(),
        }
    }

    fn node(queues: &[&str], cpus: u32, up: u32) -> NodeType {
        NodeType {
            queues: queues.iter().map(|name| (*name).to_owned()).collect(),
            count: 4,
            up,
            cpus: Some(cpus),
            memory: Some(Bytes(64 << 30)),
            ..NodeType::default()
        }
    }

    #[test]
    fn each_kind_of_node_gets_one_job_in_a_queue_that_takes_it() {
        let gpus = NodeType {
            gpus: vec![("v100".into(), 4)],
            features: vec!["ib".into(), "rack2".into()],
            ..node(&["long"], 32, 1)
        };
        let nodes = vec![
            node(&["long", "batch"], 16, 4),
            node(&["long"], 16, 4),
            gpus,
            node(&["batch"], 64, 0),
            node(&["old"], 8, 2),
        ];
        let (found, left) = orders(&site(nodes.clone()), None);
        let shown: Vec<_> = found
            .iter()
            .map(|order| (order.cpus, order.queue.as_deref()))
            .collect();
        assert_eq!(shown, [(Some(16), Some("batch")), (Some(32), Some("long"))]);
        assert!(found[1].node.ends_with(", ib rack2"), "{}", found[1].node);
        assert_eq!(
            (found[1].gpus.as_deref(), found[1].constraint.as_deref()),
            (Some("v100:4"), Some("ib&rack2"))
        );
        assert_eq!(left.len(), 2, "{left:?}");
        assert!(
            left[0].contains("64 CPUs") && left[0].contains("none is up"),
            "{left:?}"
        );
        assert!(
            left[1].contains("8 CPUs") && left[1].contains("no queue"),
            "{left:?}"
        );
        let (found, _) = orders(&site(nodes), Some("long"));
        assert!(
            found
                .iter()
                .all(|order| order.queue.as_deref() == Some("long"))
                && found.len() == 2
        );
        assert!(expect_queue(&site(Vec::new()), Some("none")).is_err());
        assert!(expect_queue(&site(Vec::new()), Some("long")).is_ok());
    }

    #[test]
    fn features_are_joined_as_each_scheduler_has_them() {
        let features = ["a".to_owned(), "b".to_owned()];
        assert_eq!(
            constraint(SchedulerKind::Slurm, &features).as_deref(),
            Some("a&b")
        );
        assert_eq!(
            constraint(SchedulerKind::Torque, &features).as_deref(),
            Some("a:b")
        );
        assert_eq!(constraint(SchedulerKind::OpenPbs, &features), None);
        assert_eq!(constraint(SchedulerKind::Slurm, &[]), None);
    }

    #[test]
    fn what_no_job_file_can_hold_is_refused() {
        assert!(plain("a\nb").is_err() && plain("a\u{1b}[2J").is_err() && plain("$(id)").is_ok());
    }
}
