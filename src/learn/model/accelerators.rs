//! What data sheets say of GPUs, for those that no run was measured on: `etc/accelerators.toml`.

use std::sync::OnceLock;

use serde::Deserialize;

const TEXT: &str = include_str!("../../../etc/accelerators.toml");

/// The figures of a GPU.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Accelerator {
    name: String,
    fp32: f64,
    tf32: Option<f64>,
    fp16: Option<f64>,
    /// Of its memory, in GB/s.
    pub(super) bandwidth: f64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    #[expect(dead_code, reason = "for readers of other versions")]
    format: u32,
    gpu: Vec<Accelerator>,
}

impl Accelerator {
    /// The GPU with such a name, as drivers and makers write it; `None`: no data sheet is known.
    pub(super) fn of(name: &str) -> Option<&'static Self> {
        static TABLE: OnceLock<Vec<Accelerator>> = OnceLock::new();
        let read = || toml::from_str::<Table>(TEXT).map_or_else(|_| Vec::new(), |table| table.gpu);
        let table = TABLE.get_or_init(read);
        let named: Vec<&str> = words(name).collect();
        let has = |word: &str| named.iter().any(|its| its.eq_ignore_ascii_case(word));
        let fitting = table.iter().filter(|gpu| words(&gpu.name).all(has));
        fitting.max_by_key(|gpu| words(&gpu.name).count())
    }

    /// Its largest rate at 32 bits, in TFLOP/s: of its matrix units if it has any, as frameworks use them.
    pub(super) fn peak(&self) -> f64 {
        self.tf32.unwrap_or(self.fp32)
    }

    /// By how many times that is larger at a precision; `None`: it is not one of 16 bits.
    pub(super) fn gain(&self, precision: &str) -> Option<f64> {
        let precision = precision.to_ascii_lowercase();
        let is_half = ["16", "amp", "mixed", "half"]
            .iter()
            .any(|part| precision.contains(part));
        is_half.then(|| self.fp16.map_or(1.0, |half| half / self.peak()))
    }
}

fn words(name: &str) -> impl Iterator<Item = &str> {
    name.split(|c: char| !c.is_ascii_alphanumeric())
        .filter(|word| !word.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_drivers_and_makers_are_known() {
        let bandwidth = |name: &str| Accelerator::of(name).map(|gpu| gpu.bandwidth);
        for (name, expected) in [
            ("NVIDIA A100-SXM4-80GB", Some(2039.0)),
            ("NVIDIA A100-SXM4-40GB", Some(1555.0)),
            ("NVIDIA A100 80GB PCIe", Some(1935.0)),
            ("Tesla V100-PCIE-16GB", Some(900.0)),
            ("NVIDIA H100 80GB HBM3", Some(3352.0)),
            ("NVIDIA H100 PCIe", Some(2039.0)),
            ("NVIDIA GeForce RTX 3090", Some(936.0)),
            ("NVIDIA RTX 6000 Ada Generation", Some(960.0)),
            ("Quadro RTX 6000", Some(672.0)),
            ("NVIDIA L40S", Some(864.0)),
            ("NVIDIA RTX 6000", None),
            ("Voodoo 2", None),
            ("", None),
        ] {
            assert_eq!(bandwidth(name), expected, "{name}");
        }
    }

    #[test]
    fn peaks_go_by_precision() {
        let gain = |name: &str, precision| Accelerator::of(name).expect("known").gain(precision);
        assert_eq!(gain("A100-SXM4-40GB", "fp16"), Some(2.0));
        assert_eq!(gain("A100-SXM4-40GB", "mixed_bfloat16"), Some(2.0));
        assert_eq!(gain("A100-SXM4-40GB", "fp32"), None);
        assert_eq!(gain("V100-SXM2-16GB", "AMP"), Some(125.0 / 15.7));
        assert_eq!(gain("K80", "fp16"), Some(1.0));
    }
}
