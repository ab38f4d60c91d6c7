//! `TF_CONFIG` of TensorFlow (`tf.distribute.cluster_resolver.TFConfigClusterResolver`). Of `MultiWorkerMirroredStrategy` worker 0 is the
//! chief; of `ParameterServerStrategy` the chief alone trains, and workers and parameter servers serve it until they are ended.

use std::collections::BTreeMap;

use serde_json::json;

use super::{Launch, Variables};
use crate::launch::ranks::{Meeting, Rank};

pub(super) struct Tensorflow;

/// The type of each rank's task.
fn types(meeting: &Meeting) -> Vec<&'static str> {
    let world: u32 = meeting.nodes.iter().map(|node| node.ranks).sum();
    let (servers, evaluators) = (
        meeting.roles.parameter_servers,
        u32::from(meeting.roles.evaluator),
    );
    let (trains, chiefs) = (
        world.saturating_sub(servers + evaluators).max(1),
        u32::from(servers > 0),
    );
    let counts = [chiefs, trains - chiefs, servers, evaluators];
    let names = ["chief", "worker", "ps", "evaluator"];
    let of_type = |(name, count)| std::iter::repeat_n(name, count as usize);
    names.into_iter().zip(counts).flat_map(of_type).collect()
}

impl Launch for Tensorflow {
    fn variables(&self, rank: &Rank, meeting: &Meeting) -> Variables {
        let (types, at) = (types(meeting), rank.rank as usize);
        let mut cluster: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        for (name, place) in types.iter().zip(meeting.places()) {
            cluster.entry(name).or_default().push(place.to_string());
        }
        // It is no part of the cluster that trains.
        cluster.remove("evaluator");
        let before = types.iter().take(at);
        let index = before.filter(|name| **name == types[at]).count();
        let config = json!({
            "cluster": cluster,
            "task": { "type": types[at], "index": index },
        });
        let mut variables = vec![("TF_CONFIG", config.to_string())];
        // Each worker takes all GPUs that it sees.
        if rank.local_world > 1 && !rank.gpus.is_empty() {
            variables.push(("CUDA_VISIBLE_DEVICES", rank.gpus.join(",")));
        }
        variables
    }

    fn role(&self, rank: &Rank, meeting: &Meeting) -> Option<&'static str> {
        let serves = meeting.roles.parameter_servers > 0;
        match types(meeting)[rank.rank as usize] {
            name @ ("ps" | "evaluator") => Some(name),
            name @ "worker" if serves => Some(name),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::launch::ranks::tests::meeting;

    #[test]
    fn last_ranks_are_parameter_servers_and_evaluator() {
        let mut meeting = meeting(&[2, 2]);
        let of = |meeting: &Meeting, node: usize, at: usize| {
            let worker = Tensorflow.workers(node, meeting).remove(at);
            let config = worker.variables[0].1.clone();
            let config: serde_json::Value = serde_json::from_str(&config).expect("JSON");
            (worker.role, config)
        };
        meeting.roles.evaluator = true;
        let (role, config) = of(&meeting, 1, 1);
        assert_eq!(role, Some("evaluator"));
        assert_eq!(config["task"], json!({ "type": "evaluator", "index": 0 }));
        assert_eq!(
            config["cluster"]["worker"].as_array().map(Vec::len),
            Some(3)
        );
        assert_eq!(
            config["cluster"].as_object().map(serde_json::Map::len),
            Some(1)
        );
        assert_eq!(of(&meeting, 1, 0).0, None);

        meeting.roles.parameter_servers = 1;
        let (role, config) = of(&meeting, 1, 0);
        assert_eq!(role, Some("ps"));
        assert_eq!(config["task"], json!({ "type": "ps", "index": 0 }));
        let expected = json!({
            "chief": ["10.0.0.1:30001"], "worker": ["10.0.0.1:30002"], "ps": ["10.0.0.2:30001"],
        });
        assert_eq!(config["cluster"], expected);
        assert_eq!(
            (of(&meeting, 0, 0).0, of(&meeting, 0, 1).0),
            (None, Some("worker"))
        );
    }

    #[test]
    fn worker_knows_all_places_and_its_own() {
        let workers = Tensorflow.workers(1, &meeting(&[1, 1]));
        let (name, value) = &workers[0].variables[0];
        let expected = r#"{"cluster":{"worker":["10.0.0.1:30001","10.0.0.2:30001"]},"task":{"index":1,"type":"worker"}}"#;
        assert_eq!((*name, &**value), ("TF_CONFIG", expected));
        let two = Tensorflow.workers(0, &meeting(&[2]));
        assert!(
            two[1]
                .variables
                .contains(&("CUDA_VISIBLE_DEVICES", "1".to_owned()))
        );
    }
}
