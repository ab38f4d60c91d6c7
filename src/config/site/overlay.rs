//! What the configuration says of queues, laid over what the scheduler says.

use super::{Queue, SiteModel};
use crate::config::QueueTable;

/// The site with `tables` laid over its queues. A table of a queue that the scheduler does not have changes nothing: one
/// configuration may serve several clusters.
#[must_use]
pub fn overlaid(model: &SiteModel, tables: &[QueueTable]) -> SiteModel {
    let mut model = model.clone();
    for table in tables {
        let Some(at) = model
            .queues
            .iter()
            .position(|queue| queue.name == table.name)
        else {
            continue;
        };
        if table.default == Some(true) {
            model
                .queues
                .iter_mut()
                .for_each(|queue| queue.is_default = false);
        }
        lay_over(&mut model.queues[at], table);
    }
    model
}

fn lay_over(queue: &mut Queue, table: &QueueTable) {
    queue.is_default = table.default.unwrap_or(queue.is_default);
    queue.max_walltime = table.max_walltime.or(queue.max_walltime);
    queue.default_walltime = table.default_walltime.or(queue.default_walltime);
    queue.min_nodes = table.min_nodes.or(queue.min_nodes);
    queue.max_nodes = table.max_nodes.or(queue.max_nodes);
    if let Some(accounts) = &table.accounts {
        queue.accounts.clone_from(accounts);
    }
}

/// Whose word a limit of a queue is: ` (FILE:LINE)` where the configuration sets it, else nothing.
pub(super) fn by_whom(
    tables: &[QueueTable],
    queue: &Queue,
    is_set: impl Fn(&QueueTable) -> bool,
) -> String {
    let table = tables
        .iter()
        .find(|table| table.name == queue.name && is_set(table));
    table
        .map(|table| format!(" (by the configuration, {})", table.origin))
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Origin;
    use crate::foundation::units::Walltime;
    use crate::job::SchedulerKind;

    #[test]
    fn a_table_changes_what_it_names_and_no_more() {
        let queue = |name: &str| Queue {
            name: name.into(),
            is_up: true,
            ..Queue::default()
        };
        let model = SiteModel {
            format: SiteModel::FORMAT,
            scheduler: SchedulerKind::Torque,
            version: None,
            asked_at_ms: 0,
            accounting: None,
            accounts_memory: None,
            max_array_index: None,
            max_array_elements: None,
            queues: vec![
                Queue {
                    is_default: true,
                    min_nodes: Some(2),
                    ..queue("batch")
                },
                Queue {
                    max_walltime: Some(Walltime(60)),
                    accounts: vec!["a".into()],
                    ..queue("gpu")
                },
            ],
            nodes: Vec::new(),
            licenses: Vec::new(),
            mpi: None,
        };
        let table = |name: &str| QueueTable {
            name: name.into(),
            origin: Origin::File {
                path: "/etc/dlrun/dlrun.toml".into(),
                line: 3,
            },
            default: None,
            max_walltime: None,
            default_walltime: None,
            min_nodes: None,
            max_nodes: None,
            accounts: None,
            arch: None,
            microarch: None,
        };
        let gpu = QueueTable {
            default: Some(true),
            max_nodes: Some(4),
            accounts: Some(vec![]),
            ..table("gpu")
        };
        let laid = overlaid(&model, &[gpu.clone(), table("nowhere")]);
        assert_eq!(
            laid.queues[0],
            Queue {
                is_default: false,
                ..model.queues[0].clone()
            }
        );
        let expected = Queue {
            is_default: true,
            max_nodes: Some(4),
            accounts: vec![],
            ..model.queues[1].clone()
        };
        assert_eq!((&laid.queues[1], laid.queues.len()), (&expected, 2));
        let tables = [gpu];
        let said = by_whom(&tables, &laid.queues[1], |table| table.max_nodes.is_some());
        assert_eq!(said, " (by the configuration, /etc/dlrun/dlrun.toml:3)");
        assert_eq!(
            by_whom(&tables, &laid.queues[1], |table| table
                .max_walltime
                .is_some()),
            ""
        );
        assert_eq!(by_whom(&tables, &laid.queues[0], |_| true), "");
    }
}
