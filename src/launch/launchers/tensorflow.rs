//! `TF_CONFIG` of TensorFlow's `MultiWorkerMirroredStrategy` (`tf.distribute.cluster_resolver.TFConfigClusterResolver`). Worker 0 is
//! the chief.

use serde_json::json;

use super::{Launch, Variables};
use crate::launch::ranks::{Meeting, Rank};

pub(super) struct Tensorflow;

impl Launch for Tensorflow {
    fn variables(&self, rank: &Rank, meeting: &Meeting) -> Variables {
        let workers: Vec<String> = meeting.places().iter().map(ToString::to_string).collect();
        let config = json!({
            "cluster": { "worker": workers },
            "task": { "type": "worker", "index": rank.rank },
        });
        let mut variables = vec![("TF_CONFIG", config.to_string())];
        // Each worker takes all GPUs that it sees.
        if rank.local_world > 1 && !rank.gpus.is_empty() {
            variables.push(("CUDA_VISIBLE_DEVICES", rank.gpus.join(",")));
        }
        variables
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::launch::ranks::tests::meeting;

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
