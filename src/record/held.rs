//! What a run holds on a node without using it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::GpuUsage;
use crate::foundation::units::{counted, display_seconds};

/// GPUs, or the CPUs of a node without GPUs, that do no work for `idle.advice_minutes` or longer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Default)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Held {
    /// Time without work of each GPU, added up over GPUs, in seconds: so far, shorter pauses left out.
    pub gpu_seconds: f64,
    /// Time in which neither GPUs nor CPUs did work, in seconds, likewise.
    pub node_seconds: f64,
    /// Since when neither GPUs nor CPUs work, in Unix milliseconds UTC; `None`: something works.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since_ms: Option<u64>,
    /// UUIDs of the GPUs that are held now, each with when its idle time began, likewise.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub gpus: BTreeMap<String, u64>,
    /// Whether that is so for `idle.warning_minutes`.
    #[serde(default, skip_serializing_if = "super::is_default")]
    pub warns: bool,
}

impl Held {
    /// The sums alone.
    #[must_use]
    pub fn sums(&self) -> Self {
        Self {
            gpu_seconds: self.gpu_seconds,
            node_seconds: self.node_seconds,
            ..Self::default()
        }
    }

    /// When the longest idle time of what is held now began, in Unix milliseconds UTC.
    #[must_use]
    pub fn longest_since_ms(&self) -> Option<u64> {
        self.gpus.values().copied().chain(self.since_ms).min()
    }

    /// `2 GPUs held without work for up to 23 min 10 s`, as of `at_ms`; `all`: the GPUs of the node.
    #[must_use]
    pub fn text(&self, all: &[GpuUsage], at_ms: u64) -> Option<String> {
        let begins = self.gpus.values();
        let up_to = if begins.clone().min() == begins.max() {
            ""
        } else {
            "up to "
        };
        let name = |uuid: &String| {
            let gpu = all.iter().find(|gpu| gpu.gpu.uuid == *uuid);
            let minor = gpu.and_then(|gpu| gpu.gpu.minor);
            minor.map_or_else(|| uuid.clone(), |minor| minor.to_string())
        };
        let what = match self.gpus.len() {
            0 => "CPUs".to_owned(),
            1 if all.len() == 1 => "GPU".to_owned(),
            held if held >= all.len() => counted(held as u64, "GPU"),
            held => {
                let names: Vec<String> = self.gpus.keys().map(name).collect();
                format!("{held} of {} GPUs ({})", all.len(), names.join(", "))
            }
        };
        #[expect(clippy::cast_precision_loss, reason = "milliseconds of a run")]
        let seconds = at_ms.saturating_sub(self.longest_since_ms()?) as f64 / 1e3;
        let time = display_seconds(seconds);
        Some(format!("{what} held without work for {up_to}{time}"))
    }
}
