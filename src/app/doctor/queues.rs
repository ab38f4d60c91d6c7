//! Queues and nodes, as the scheduler reports them.

use super::Finding;
use crate::app::error::Error;
use crate::config::site::SiteModel;
use crate::foundation::units::counted;
use crate::job::SchedulerKind;
use crate::scheduler::adapter_for;

const QUEUES: &str = "queues";
const NODES: &str = "nodes";
const ACCOUNTING: &str = "accounting";

pub(super) fn failure(kind: SchedulerKind, error: &Error) -> Finding {
    let advice = adapter_for(kind).how_to_see_the_server();
    // Nothing can be submitted while it is down.
    Finding::problem(QUEUES, format!("not known: {}", error.message()), advice)
}

pub(super) fn findings(model: &SiteModel) -> Vec<Finding> {
    let mut findings = vec![queues(model)];
    for queue in model.queues.iter().filter(|queue| !queue.is_up) {
        let what = if queue.is_closed { "takes" } else { "starts" };
        let text = format!("`{}` {what} no jobs at present", queue.name);
        let advice = "choose another one, or ask the site when it comes back";
        findings.push(Finding::warning(QUEUES, text, advice));
    }
    findings.extend(nodes(model));
    findings.extend(model.accounting.map(|kept| {
        Finding::ok(
            ACCOUNTING,
            if kept {
                "available (use --history)"
            } else {
                "none is kept; how a job ended is known from its own marks and while it is in the queue"
            },
        )
    }));
    findings
}

fn queues(model: &SiteModel) -> Finding {
    let count = model.queues.len();
    if count == 0 {
        return Finding::warning(
            QUEUES,
            "the scheduler names none",
            "jobs are not compared with the site's limits",
        );
    }
    let queues = counted(count as u64, "queue");
    match model.queues.iter().find(|queue| queue.is_default) {
        Some(queue) => Finding::ok(QUEUES, format!("{queues}, default `{}`", queue.name)),
        None => Finding::warning(
            QUEUES,
            format!("{queues}; none is the default"),
            "name one in the job file, or with the setting `defaults.queue`",
        ),
    }
}

fn nodes(model: &SiteModel) -> Option<Finding> {
    let sum = |of: fn(&crate::config::site::NodeType) -> u32| -> u64 {
        model.nodes.iter().map(|node| u64::from(of(node))).sum()
    };
    let (count, up) = (sum(|node| node.count), sum(|node| node.up));
    let text = format!("{}, {up} up", counted(count, "node"));
    match count {
        0 => None,
        _ if up == 0 => Some(Finding::warning(
            NODES,
            text,
            "jobs wait until one comes back",
        )),
        _ => Some(Finding::ok(NODES, text)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::app::doctor::Level;
    use crate::config::site::{NodeType, Queue};
    use crate::foundation::units::{Bytes, Walltime};

    fn model() -> SiteModel {
        SiteModel {
            format: SiteModel::FORMAT,
            scheduler: SchedulerKind::Slurm,
            version: None,
            asked_at_ms: 0,
            accounting: Some(false),
            accounts_memory: None,
            max_array_index: None,
            max_array_elements: None,
            queues: vec![
                Queue {
                    name: "gpu".into(),
                    is_default: true,
                    is_up: true,
                    max_walltime: Some(Walltime(86_400)),
                    max_nodes: Some(4),
                    ..Queue::default()
                },
                Queue {
                    name: "old".into(),
                    min_nodes: Some(2),
                    accounts: vec!["a".into()],
                    ..Queue::default()
                },
            ],
            nodes: vec![NodeType {
                queues: vec!["gpu".into(), "old".into()],
                count: 4,
                up: 3,
                cpus: Some(16),
                memory: Some(Bytes(64 << 30)),
                gpus: vec![("h100".into(), 8)],
                features: vec!["ib".into()],
                sockets: None,
            }],
            licenses: Vec::new(),
            mpi: None,
        }
    }

    #[test]
    fn a_site_is_summed_up_and_shown_as_tables() {
        let found = findings(&model());
        let texts: Vec<&str> = found.iter().map(|finding| finding.text.as_str()).collect();
        assert_eq!(texts[0], "2 queues, default `gpu`");
        assert!(texts[1].contains("`old` starts no jobs") && found[1].level == Level::Warning);
        assert_eq!(texts[2], "4 nodes, 3 up");
        assert!(texts[3].starts_with("none is kept"), "{texts:?}");
    }

    #[test]
    fn what_a_user_must_know_is_a_warning() {
        let mut none = model();
        none.queues
            .iter_mut()
            .for_each(|queue| (queue.is_default, queue.is_up) = (false, true));
        none.nodes[0].up = 0;
        let found = findings(&none);
        assert!(found[0].text.ends_with("none is the default"), "{found:?}");
        assert_eq!(
            (found[1].text.as_str(), found[1].level),
            ("4 nodes, 0 up", Level::Warning)
        );
        let empty = SiteModel {
            queues: Vec::new(),
            nodes: Vec::new(),
            accounting: None,
            ..model()
        };
        let found = findings(&empty);
        assert_eq!((found.len(), found[0].level), (1, Level::Warning));
    }
}
