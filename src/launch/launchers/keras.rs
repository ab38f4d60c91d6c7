//! Keras 3 as its back end wants it: `keras.distribution` on JAX, `TF_CONFIG` on TensorFlow, `env://` on PyTorch.

use super::ddp::Ddp;
use super::jax::Jax;
use super::tensorflow::Tensorflow;
use super::{Launch, Variables};
use crate::launch::ranks::{Meeting, Rank};

struct OnJax;

impl Launch for OnJax {
    fn variables(&self, rank: &Rank, meeting: &Meeting) -> Variables {
        let mut variables = Jax.variables(rank, meeting);
        variables.extend([
            ("KERAS_DISTRIBUTION_NUM_PROCESSES", rank.world.to_string()),
            ("KERAS_DISTRIBUTION_PROCESS_ID", rank.rank.to_string()),
        ]);
        let first = meeting.first().map(|first| first.to_string());
        variables.extend(first.map(|first| ("KERAS_DISTRIBUTION_JOB_ADDRESSES", first)));
        variables
    }
}

/// By `KERAS_BACKEND`, else by the back end that Keras takes itself.
pub(super) fn for_backend(variable: impl Fn(&str) -> Option<String>) -> &'static dyn Launch {
    match variable("KERAS_BACKEND").as_deref() {
        Some("jax") => &OnJax,
        Some("torch") => &Ddp,
        _ => &Tensorflow,
    }
}
