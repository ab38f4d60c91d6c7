//! What supports the figures of a series: repeats, load of others, machines, versions, and what is not recorded.

use std::collections::BTreeSet;

use serde::Serialize;

use super::sample::Sample;
use crate::foundation::statistics::median;
use crate::report::insight::{Setting, unlike};

/// What supports the figures of a series. Of published ones nothing is known.
#[derive(Debug, Clone, PartialEq, Serialize, Default)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Validity {
    /// Measurements in all.
    pub runs: usize,
    /// The fewest of a size.
    pub least_repeats: usize,
    /// Runs that asked for whole nodes; none: not recorded.
    pub exclusive_runs: Option<usize>,
    /// Median of the CPUs that others kept busy on the nodes.
    pub others_cpus_busy_median: Option<f64>,
    /// The most of it.
    pub others_cpus_busy_most: Option<f64>,
    /// Runs that a quota, heat or a limit of power held down; none: not recorded.
    pub throttled_runs: Option<usize>,
    /// The nodes.
    pub nodes: Vec<String>,
    /// Machines among them, by the boot id; none: not recorded.
    pub machines: Option<usize>,
    /// Python, frameworks and GPU drivers that were in use.
    pub software: Vec<String>,
    /// What differs between the runs besides their size.
    pub unlike: Vec<String>,
    /// What is not recorded of any run.
    pub not_recorded: Vec<&'static str>,
}

impl Validity {
    pub(super) fn of(samples: &[&Sample], least_repeats: usize) -> Self {
        let own = || samples.iter().filter(|sample| sample.run.is_some());
        let count = |is: &dyn Fn(&Sample) -> Option<bool>| {
            let known: Vec<bool> = own().filter_map(|sample| is(sample)).collect();
            (!known.is_empty()).then(|| known.into_iter().filter(|is| *is).count())
        };
        let settings = || own().map(|sample| &sample.conditions.setting);
        let others: Vec<f64> = settings()
            .filter_map(|setting| setting.others_cpus_busy)
            .collect();
        let of_each = |of: &dyn Fn(&Sample) -> Vec<String>| -> Vec<String> {
            let all: BTreeSet<String> = own().flat_map(|sample| of(sample)).collect();
            all.into_iter().collect()
        };
        let machines = of_each(&|sample| sample.conditions.boot_ids.clone()).len();
        let software = of_each(&|sample| {
            let setting = &sample.conditions.setting;
            let drivers = setting
                .gpu_drivers
                .iter()
                .map(|version| format!("GPU driver {version}"));
            setting.software.iter().cloned().chain(drivers).collect()
        });
        let mut not_recorded = Vec::new();
        let has = |of: fn(&Sample) -> bool| samples.iter().any(|sample| of(sample));
        let exclusive_runs = count(&|sample| sample.conditions.exclusive);
        let throttled_runs = count(&|sample| Some(sample.conditions.throttled_seconds? > 0.0));
        for (name, is_known) in [
            ("steps", has(|sample| sample.step_seconds.is_some())),
            ("data wait", has(|sample| sample.data_wait_ratio.is_some())),
            (
                "straggler spread of the ranks",
                has(|sample| sample.straggler.is_some()),
            ),
            ("energy", has(|sample| sample.energy_joules.is_some())),
            ("accuracy", has(|sample| sample.metric.is_some())),
            ("whole nodes", exclusive_runs.is_some()),
            ("load of others", !others.is_empty()),
            ("throttling", throttled_runs.is_some()),
            ("software versions", !software.is_empty()),
            ("machines", machines > 0),
        ] {
            not_recorded.extend((!is_known).then_some(name));
        }
        Self {
            runs: samples.len(),
            least_repeats,
            exclusive_runs,
            others_cpus_busy_most: others.iter().copied().reduce(f64::max),
            others_cpus_busy_median: median(others),
            throttled_runs,
            nodes: of_each(&|sample| sample.conditions.node_names.clone()),
            machines: (machines > 0).then_some(machines),
            software,
            unlike: between(settings().collect()),
            not_recorded,
        }
    }
}

/// What differs between runs besides their size.
fn between(settings: Vec<&Setting>) -> Vec<String> {
    let of_size = [
        "nodes",
        "asked",
        "gpu_models",
        "cpus_effective",
        "omp_num_threads",
        "batch_size",
        "arguments.batch-size",
        "arguments.batch_size",
    ];
    let Some((first, others)) = settings.split_first() else {
        return Vec::new();
    };
    let found = others.iter().flat_map(|other| unlike(first, other));
    let found: BTreeSet<String> = found.map(|difference| difference.what).collect();
    found
        .into_iter()
        .filter(|what| !of_size.contains(&what.as_str()))
        .collect()
}
