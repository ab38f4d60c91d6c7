//! What the ranks of a planned job will find, before anybody knows the nodes.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};

use serde::Serialize;

use super::launchers::launcher_for;
use super::ranks::{Meeting, NodeShare};
use super::{Plan, Worker};

/// The first port that is shown in place of those that are found when the job starts.
const PORT: u16 = 20_000;

/// A process that dlrun will start.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct PlannedProcess {
    /// Number of its node, from 0.
    pub node: usize,
    /// Its rank; `None`: a helper.
    pub rank: Option<u32>,
    /// Its number on its node.
    pub local_rank: Option<u32>,
    /// What it is beside the ranks that train ([`Worker::role`]); `None`: one of those.
    pub role: Option<&'static str>,
    /// Its variables; addresses (192.0.2.1, ..) and ports stand for those that are found when the job starts.
    pub variables: BTreeMap<&'static str, String>,
}

/// The processes of a distributed training, in the order of their nodes; empty: dlrun starts none.
#[must_use]
pub fn planned_processes(plan: &Plan) -> Vec<PlannedProcess> {
    let variable = |name: &str| {
        let mut own = plan.env.iter();
        own.find(|variable| variable.name == name)
            .map(|variable| variable.value.clone())
    };
    let Some(launch) = launcher_for(plan.launcher, variable) else {
        return Vec::new();
    };
    let meeting = example(plan);
    let shown = |node: usize, worker: Worker| PlannedProcess {
        node,
        rank: worker.rank.as_ref().map(|rank| rank.rank),
        local_rank: worker.rank.as_ref().map(|rank| rank.local),
        role: worker.role,
        // The user's own stay.
        variables: worker
            .variables
            .into_iter()
            .filter(|(name, _)| variable(name).is_none())
            .collect(),
    };
    let nodes = 0..meeting.nodes.len();
    nodes
        .flat_map(|node| {
            launch
                .workers(node, &meeting)
                .into_iter()
                .map(move |worker| shown(node, worker))
        })
        .collect()
}

/// Variables of the launcher that the job file sets itself.
#[must_use]
pub fn variables_kept(plan: &Plan) -> Vec<&str> {
    let mut bare = Plan {
        env: Vec::new(),
        ..plan.clone()
    };
    // Their names are the same on every node.
    bare.resources.nodes = bare.resources.nodes.min(2);
    let processes = planned_processes(&bare);
    let set = |name: &str| {
        processes
            .iter()
            .any(|process| process.variables.contains_key(name))
    };
    let own = plan.env.iter().map(|variable| variable.name.as_str());
    own.filter(|name| set(name)).collect()
}

/// A meeting of as many nodes, at addresses that are nobody's (RFC 5737).
fn example(plan: &Plan) -> Meeting {
    let resources = &plan.resources;
    let tasks = resources.tasks_of_nodes(resources.nodes.max(1));
    let node = |(at, ranks): (u32, u32)| {
        let last = u8::try_from(at % 254 + 1).unwrap_or(1);
        NodeShare {
            host: format!("node{at}"),
            address: IpAddr::V4(Ipv4Addr::new(192, 0, 2, last)),
            interface: None,
            ports: (PORT..).take(ranks as usize + 1).collect(),
            ranks,
            gpus: Vec::new(),
            cpus: Vec::new(),
        }
    };
    Meeting {
        name: "RUN.0.0".to_owned(),
        nodes: (0..).zip(tasks).map(node).collect(),
        roles: plan.roles,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::{EnvVar, Launcher};
    use crate::launch::PlannedResources;

    #[test]
    fn preview_has_all_ranks_and_keeps_the_users_variables() {
        let resources = PlannedResources {
            nodes: 2,
            tasks: Some(3),
            tasks_per_node: 2,
            ..PlannedResources::default()
        };
        let own = EnvVar {
            name: "MASTER_PORT".into(),
            value: "1234".into(),
        };
        let plan = Plan {
            launcher: Launcher::Ddp,
            resources,
            env: vec![own],
            ..Plan::default()
        };
        let processes = planned_processes(&plan);
        let places: Vec<_> = processes
            .iter()
            .map(|process| (process.node, process.rank))
            .collect();
        assert_eq!(places, [(0, Some(0)), (0, Some(1)), (1, Some(2))]);
        assert_eq!(processes[2].variables["WORLD_SIZE"], "3");
        assert!(!processes[0].variables.contains_key("MASTER_PORT"));
        assert_eq!(variables_kept(&plan), ["MASTER_PORT"]);
    }
}
