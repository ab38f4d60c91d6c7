//! MXNet's parameter server (ps-lite): a scheduler on the first node, a server on each, and the ranks as workers. All run the same
//! program, which becomes scheduler or server by its role when it imports MXNet (`DMLC_ROLE`).

use super::{Launch, Variables, Worker};
use crate::launch::ranks::{Meeting, Rank};

pub(super) struct Mxnet;

fn of_role(role: &'static str, node: usize, meeting: &Meeting) -> Variables {
    let workers: u32 = meeting.nodes.iter().map(|node| node.ranks).sum();
    let mut variables = vec![
        ("DMLC_ROLE", role.to_owned()),
        ("DMLC_NUM_WORKER", workers.to_string()),
        ("DMLC_NUM_SERVER", meeting.nodes.len().to_string()),
    ];
    if let Some(first) = meeting.first() {
        variables.push(("DMLC_PS_ROOT_URI", first.ip().to_string()));
        variables.push(("DMLC_PS_ROOT_PORT", first.port().to_string()));
    }
    let node = meeting.nodes.get(node);
    variables.extend(node.map(|node| ("DMLC_NODE_HOST", node.address.to_string())));
    variables
}

impl Launch for Mxnet {
    fn variables(&self, rank: &Rank, meeting: &Meeting) -> Variables {
        let mut variables = of_role("worker", rank.node as usize, meeting);
        variables.push(("DMLC_WORKER_ID", rank.rank.to_string()));
        variables
    }

    fn workers(&self, node: usize, meeting: &Meeting) -> Vec<Worker> {
        let helper = |role| Worker {
            rank: None,
            role: Some(role),
            variables: of_role(role, node, meeting),
        };
        let scheduler = (node == 0).then(|| helper("scheduler"));
        let workers = meeting.ranks_of(node).map(|rank| Worker {
            variables: self.variables(&rank, meeting),
            rank: Some(rank),
            role: None,
        });
        scheduler
            .into_iter()
            .chain([helper("server")])
            .chain(workers)
            .collect()
    }

    /// ps-lite leaves ZeroMQ's default, IPv4 (`zmq_van.h`).
    fn speaks_ipv6(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::launch::ranks::tests::meeting;

    #[test]
    fn first_node_has_the_scheduler() {
        let roles = |node| {
            Mxnet
                .workers(node, &meeting(&[1, 2]))
                .iter()
                .map(|worker| worker.variables[0].1.clone())
                .collect::<Vec<_>>()
        };
        assert_eq!(roles(0), ["scheduler", "server", "worker"]);
        assert_eq!(roles(1), ["server", "worker", "worker"]);
    }
}
