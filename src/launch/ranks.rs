//! One table of ranks, from which every launcher takes its variables.

use std::net::{IpAddr, SocketAddr};

use serde::{Deserialize, Serialize};

/// What a node of the job brings, as it said itself where the nodes met.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeShare {
    /// The scheduler's name of the node.
    pub host: String,
    /// Its address as the other nodes see it.
    pub address: IpAddr,
    /// The network interface with that address, where it is known.
    pub interface: Option<String>,
    /// Ports that were free there: one for the group, then one for each rank.
    pub ports: Vec<u16>,
    /// Ranks on it, at least 1.
    pub ranks: u32,
    /// Its GPUs for the job, as `CUDA_VISIBLE_DEVICES` names them; empty: not known.
    pub gpus: Vec<String>,
    /// CPUs that the job may use there.
    pub cpus: Vec<u32>,
}

/// One rank of a distributed training, or one agent that starts several.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rank {
    /// Its number among all, from 0.
    pub rank: u32,
    /// How many there are.
    pub world: u32,
    /// Its number on its node.
    pub local: u32,
    /// How many its node has.
    pub local_world: u32,
    /// The number of its node.
    pub node: u32,
    /// How many nodes there are.
    pub nodes: u32,
    /// The number of its node among those that have a rank of this local number (Horovod's cross rank).
    pub cross: u32,
    /// How many nodes have a rank of this local number.
    pub cross_world: u32,
    /// Its GPUs, where each rank has its own.
    pub gpus: Vec<String>,
    /// Its share of the node's CPUs.
    pub cpus: Vec<u32>,
}

/// Ranks that do something else than training, the last ones of the table.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Roles {
    /// Parameter servers.
    pub parameter_servers: u32,
    /// Whether the very last rank evaluates.
    pub evaluator: bool,
}

impl std::fmt::Display for Roles {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (servers, evaluators) = (self.parameter_servers, u32::from(self.evaluator));
        write!(f, "{servers} ps, {evaluators} evaluator")
    }
}

/// What all nodes agreed on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Meeting {
    /// A name that no other group of processes on these nodes has: the run and its start.
    pub name: String,
    /// The nodes, in the order of the scheduler.
    pub nodes: Vec<NodeShare>,
    /// What the last ranks are.
    pub roles: Roles,
}

impl Meeting {
    /// The table: the ranks of the first node come first.
    #[must_use]
    pub fn ranks(&self) -> Vec<Rank> {
        let world = self.nodes.iter().map(|node| node.ranks).sum();
        let count = |of: &[NodeShare], local: u32| {
            u32::try_from(of.iter().filter(|node| node.ranks > local).count()).unwrap_or(u32::MAX)
        };
        let mut ranks: Vec<Rank> = Vec::new();
        for (at, node) in self.nodes.iter().enumerate() {
            for local in 0..node.ranks {
                ranks.push(Rank {
                    rank: u32::try_from(ranks.len()).unwrap_or(u32::MAX),
                    world,
                    local,
                    local_world: node.ranks,
                    node: u32::try_from(at).unwrap_or(u32::MAX),
                    nodes: u32::try_from(self.nodes.len()).unwrap_or(u32::MAX),
                    cross: count(&self.nodes[..at], local),
                    cross_world: count(&self.nodes, local),
                    gpus: share(&node.gpus, local, node.ranks),
                    cpus: share(&node.cpus, local, node.ranks),
                });
            }
        }
        ranks
    }

    /// The ranks of one node.
    pub fn ranks_of(&self, node: usize) -> impl Iterator<Item = Rank> {
        let all = self.ranks().into_iter();
        all.filter(move |rank| rank.node as usize == node)
    }

    /// Where the first node's own port is: rank 0 listens there.
    #[must_use]
    pub fn first(&self) -> Option<SocketAddr> {
        let node = self.nodes.first()?;
        Some(SocketAddr::new(node.address, *node.ports.first()?))
    }

    /// Where each rank may listen, by its number.
    #[must_use]
    pub fn places(&self) -> Vec<SocketAddr> {
        let of_node = |node: &NodeShare| {
            let address = node.address;
            let ports = node.ports.iter().skip(1).take(node.ranks as usize);
            ports
                .map(move |port| SocketAddr::new(address, *port))
                .collect::<Vec<_>>()
        };
        self.nodes.iter().flat_map(of_node).collect()
    }
}

/// One of `of` equal shares of what a node has; none where there are not as many as ranks.
fn share<T: Clone>(all: &[T], at: u32, of: u32) -> Vec<T> {
    let each = all.len() / of.max(1) as usize;
    all.iter()
        .skip(at as usize * each)
        .take(each)
        .cloned()
        .collect()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Nodes `n0`, `n1`, ... with so many ranks each.
    pub(in crate::launch) fn meeting(ranks: &[u32]) -> Meeting {
        let node = |(at, ranks): (u8, &u32)| NodeShare {
            host: format!("n{at}"),
            address: IpAddr::from([10, 0, 0, at + 1]),
            interface: Some("eth0".into()),
            ports: (0..=*ranks)
                .map(|port| 30_000 + u16::try_from(port).expect("few"))
                .collect(),
            ranks: *ranks,
            gpus: (0..*ranks).map(|gpu| gpu.to_string()).collect(),
            cpus: (0..2 * ranks).collect(),
        };
        Meeting {
            name: "run.0".into(),
            nodes: (0..).zip(ranks).map(node).collect(),
            roles: Roles::default(),
        }
    }

    #[test]
    fn ranks_of_uneven_nodes_have_all_their_numbers() {
        let table = meeting(&[2, 1, 2]).ranks();
        let numbers = |rank: &Rank| {
            (
                rank.rank,
                rank.local,
                rank.node,
                rank.cross,
                rank.cross_world,
            )
        };
        let numbers: Vec<_> = table.iter().map(numbers).collect();
        let expected = [
            (0, 0, 0, 0, 3),
            (1, 1, 0, 0, 2),
            (2, 0, 1, 1, 3),
            (3, 0, 2, 2, 3),
            (4, 1, 2, 1, 2),
        ];
        assert_eq!(numbers, expected);
        assert!(table.iter().all(|rank| rank.world == 5 && rank.nodes == 3));
        assert_eq!(
            (&*table[1].gpus, &*table[1].cpus),
            (&["1".to_owned()][..], &[2, 3][..])
        );
    }

    #[test]
    fn places_are_one_for_each_rank() {
        let meeting = meeting(&[2, 1]);
        assert_eq!(
            meeting.first().map(|first| first.to_string()).as_deref(),
            Some("10.0.0.1:30000")
        );
        let places: Vec<String> = meeting.places().iter().map(ToString::to_string).collect();
        assert_eq!(
            places,
            ["10.0.0.1:30001", "10.0.0.1:30002", "10.0.0.2:30001"]
        );
    }

    #[test]
    fn scarce_things_are_nobodys() {
        assert_eq!(share(&[1, 2, 3], 1, 2), [2]);
        assert_eq!(share(&[1], 0, 2), Vec::<i32>::new());
    }
}
