//! Under what conditions a run was timed, and why two runs may not be compared in silence.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{RunView, Timing, mean};
use crate::record::{GpuUsage, Identity, NodeRecord, Revision, TimeSource};

/// Clocks of GPUs that differ by more than this share make unlike runs: boost clocks of one model move by a few percent
/// with heat (our choice).
const CLOCK_SHARE: f64 = 0.05;
/// As many CPUs, as a share of those that the run may use, may others keep busy more on one node than on the other (our
/// choice).
const OTHERS_SHARE: f64 = 0.1;

/// What must be the same before two timings are compared; `None` or empty: not known.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Default)]
#[serde(default)]
pub struct Setting {
    /// The arguments of the command, by name; `None`: an older dlrun did not write them down.
    pub arguments: Option<BTreeMap<String, String>>,
    /// The program, and its script.
    pub program: Option<String>,
    /// The commit of its code.
    pub git: Option<String>,
    /// What was asked for, in words; `None`: an older dlrun did not write it down.
    pub asked: Option<String>,
    /// Python and the frameworks that were in use, each with its version.
    pub software: Vec<String>,
    /// Nodes.
    pub nodes: usize,
    /// Models of the CPUs, each once.
    pub cpu_models: Vec<String>,
    /// CPUs that the command could keep busy, on each node, ascending.
    pub cpus_effective: Vec<f64>,
    /// CPUs by the affinity that the command had, as the kernel lists them, of each node.
    pub affinity: Vec<String>,
    /// CPUs that others kept busy, on average over the nodes.
    pub others_cpus_busy: Option<f64>,
    /// `OMP_NUM_THREADS`, each value once.
    pub omp_num_threads: Vec<String>,
    /// Models of the GPUs, one entry a GPU, in order of name.
    pub gpu_models: Vec<String>,
    /// Mean clock of the GPUs, in MHz.
    pub gpu_clock_mhz: Option<f64>,
    /// Seconds in which power or heat held a GPU down, over all.
    pub gpu_throttled_seconds: f64,
    /// Versions of the GPU driver.
    pub gpu_drivers: Vec<String>,
    /// The image: what its content is by the catalogue, else its build's UUID, else where it comes from. `None`: no
    /// container.
    pub image: Option<String>,
    /// The framework and its version, as the job file has them.
    pub framework: Option<String>,
    /// The graph compiler.
    pub compiler: Option<String>,
    /// What the directories of the run lie on: `workdir nfs4`.
    pub storage: Vec<String>,
    /// Name of the network.
    pub model: Option<String>,
    /// Name of the data set.
    pub dataset: Option<String>,
    /// Samples of a step.
    pub batch_size: Option<u64>,
    /// Samples of an epoch.
    pub samples: Option<u64>,
    /// `fp32`, `bf16`, ...
    pub precision: Option<String>,
    /// Where the epochs' times come from.
    pub time_source: Option<TimeSource>,
    /// True where only the first epoch is timed.
    pub is_warmup: bool,
}

/// Something in which two runs differ.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// The key of [`Setting`] that differs; of an argument `arguments.NAME`.
    pub what: String,
    /// The first run's.
    pub first: String,
    /// The second's.
    pub second: String,
}

/// The conditions of the run.
#[must_use]
pub fn setting(view: &RunView<'_>, timing: Option<&Timing>) -> Setting {
    let nodes: Vec<&NodeRecord> = view.nodes.iter().map(|node| node.record).collect();
    let gpus: Vec<&GpuUsage> = nodes.iter().flat_map(|node| &node.gpus).collect();
    let of_nodes = |of: fn(&NodeRecord) -> Option<String>| -> Vec<String> {
        nodes.iter().filter_map(|node| of(node)).collect()
    };
    let numbers = |of: fn(&NodeRecord) -> Option<f64>| -> Vec<f64> {
        nodes.iter().filter_map(|node| of(node)).collect()
    };
    let mut cpus_effective = numbers(effective_cpus);
    cpus_effective.sort_by(f64::total_cmp);
    let clocks = gpus.iter().filter_map(|gpu| gpu.sm_clock_mean_mhz);
    let mut gpu_models: Vec<String> = gpus.iter().map(|gpu| gpu.gpu.name.clone()).collect();
    gpu_models.sort_unstable();
    let software = nodes.iter().flat_map(|node| &node.conditions.software);
    let storage = nodes.iter().flat_map(|node| &node.conditions.storage);
    let (workload, framework) = (&view.run.workload, &view.run.framework);
    let versioned = |name: &String| match &framework.version {
        Some(version) => format!("{name} {version}"),
        None => name.clone(),
    };
    let epochs = timing.and_then(|timing| timing.epochs.as_ref());
    let steps = timing.and_then(|timing| timing.steps);
    let written = view.run.identity.as_ref();
    let identity = written.filter(|identity| !identity.command.is_empty());
    let git = identity.and_then(|identity| identity.git.as_ref());
    Setting {
        arguments: identity.map(Identity::arguments),
        program: identity.map(|identity| match &identity.script {
            Some(script) => format!("{} {script}", identity.program),
            None => identity.program.clone(),
        }),
        git: git.map(Revision::short),
        asked: written.map(|identity| identity.asked.text()),
        software: once(software.map(|its| format!("{} {}", its.name, its.version))),
        nodes: nodes.len(),
        cpu_models: once(of_nodes(|node| node.host.cpu_model.clone())),
        cpus_effective,
        affinity: of_nodes(|node| node.conditions.affinity.clone()),
        others_cpus_busy: mean(&numbers(|node| node.conditions.others_cpus_busy)),
        omp_num_threads: once(of_nodes(|node| node.host.omp_num_threads.clone())),
        gpu_models,
        gpu_clock_mhz: mean(&clocks.collect::<Vec<f64>>()),
        // A sum of nothing is -0.
        gpu_throttled_seconds: gpus
            .iter()
            .fold(0.0, |sum, gpu| sum + gpu.throttled_seconds),
        gpu_drivers: once(gpus.iter().filter_map(|gpu| gpu.gpu.driver.clone())),
        image: image(view, &nodes),
        framework: framework.name.as_ref().map(versioned),
        compiler: framework.compiler.clone(),
        storage: once(storage.map(|its| format!("{} {}", its.of, its.class))),
        model: workload.model.clone(),
        dataset: workload.dataset.clone(),
        batch_size: workload.batch_size,
        samples: workload.samples,
        precision: workload.precision.clone(),
        time_source: epochs
            .map(|epochs| epochs.source)
            .or(steps.map(|steps| steps.source)),
        is_warmup: epochs.is_some_and(|epochs| epochs.is_warmup),
    }
}

/// CPUs that the command can keep busy on a node: by its affinity and quota, else by the affinity that dlrun had there.
#[expect(clippy::cast_precision_loss, reason = "a number of CPUs")]
pub(in crate::report) fn effective_cpus(node: &NodeRecord) -> Option<f64> {
    let allowed = || {
        node.host
            .cpus_allowed
            .or(node.host.cpus)
            .map(|cpus| cpus as f64)
    };
    node.conditions
        .cpus_effective
        .or_else(allowed)
        .filter(|cpus| cpus.is_finite() && *cpus > 0.0)
}

fn image(view: &RunView<'_>, nodes: &[&NodeRecord]) -> Option<String> {
    let container = nodes.iter().find_map(|node| node.container.as_ref());
    let image = container
        .map(|container| &container.image)
        .or(view.run.image.as_ref())?;
    let uuid = container.and_then(|container| container.identity.as_ref()?.uuid.clone());
    Some(
        image
            .digest
            .clone()
            .or(uuid)
            .unwrap_or_else(|| image.source.clone()),
    )
}

/// Each once, in order.
fn once(values: impl IntoIterator<Item = String>) -> Vec<String> {
    let each: BTreeSet<String> = values.into_iter().collect();
    each.into_iter().collect()
}

/// Keys of [`Setting`] that are compared in their own way, or not at all.
const NOT_COMPARED: [&str; 6] = [
    "arguments",
    "asked",
    "affinity",
    "gpu_clock_mhz",
    "gpu_throttled_seconds",
    "others_cpus_busy",
];

/// Why the timings of two runs may not be compared without saying so; empty where nothing is known that speaks against it.
/// What is known of one of them only differs too: `unknown` is another value.
#[must_use]
pub fn unlike(first: &Setting, second: &Setting) -> Vec<Difference> {
    let mut found = arguments_unlike(first, second);
    let mut compare = |what: &str, first: Option<String>, second: Option<String>| {
        if first != second {
            let text = |value: Option<String>| value.unwrap_or_else(|| "unknown".to_owned());
            found.push(Difference {
                what: what.to_owned(),
                first: text(first),
                second: text(second),
            });
        }
    };
    let [one, other] = [first, second].map(|setting| json!(setting));
    for (what, one) in one.as_object().into_iter().flatten() {
        if !NOT_COMPARED.contains(&what.as_str()) {
            compare(what, text(what, one), text(what, &other[what]));
        }
    }
    if first.asked.is_some() && second.asked.is_some() {
        compare("asked", first.asked.clone(), second.asked.clone());
    }
    let mut compare_numbers = |what, numbers: Option<(f64, f64)>, most_apart: f64, digits| {
        if let Some((one, other)) = numbers.filter(|(a, b)| (a - b).abs() > most_apart) {
            let [one, other] = [one, other].map(|number| Some(format!("{number:.digits$}")));
            compare(what, one, other);
        }
    };
    let clocks = first.gpu_clock_mhz.zip(second.gpu_clock_mhz);
    let fastest = clocks.map_or(0.0, |(one, other)| one.max(other));
    compare_numbers("gpu_clock_mhz", clocks, CLOCK_SHARE * fastest, 0);
    let cpus = first.cpus_effective.iter().chain(&second.cpus_effective);
    let cpus = cpus.copied().fold(1.0, f64::max);
    let others = first.others_cpus_busy.zip(second.others_cpus_busy);
    compare_numbers("others_cpus_busy", others, OTHERS_SHARE * cpus, 1);
    found
}

/// A condition as text; `None`: it is unknown.
fn text(what: &str, value: &Value) -> Option<String> {
    match value {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.as_f64()?.to_string()),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().filter_map(|item| text(what, item)).collect();
            let items: Vec<String> = match what {
                // `4 NVIDIA H200`; they are in order.
                "gpu_models" => items
                    .chunk_by(|a, b| a == b)
                    .map(|same| format!("{} {}", same.len(), same[0]))
                    .collect(),
                _ => items,
            };
            (!items.is_empty()).then(|| items.join(", "))
        }
        other => Some(other.to_string()),
    }
}

/// Arguments in which two commands differ, where both are known.
fn arguments_unlike(first: &Setting, second: &Setting) -> Vec<Difference> {
    let (Some(one), Some(other)) = (&first.arguments, &second.arguments) else {
        return Vec::new();
    };
    let names: BTreeSet<&String> = one.keys().chain(other.keys()).collect();
    let text = |value: Option<&String>| value.map_or_else(|| "not given".to_owned(), Clone::clone);
    let differs = |name: &&&String| one.get(**name) != other.get(**name);
    let difference = |name: &String| Difference {
        what: format!("arguments.{name}"),
        first: text(one.get(name)),
        second: text(other.get(name)),
    };
    names
        .iter()
        .filter(differs)
        .map(|name| difference(name))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known() -> Setting {
        Setting {
            arguments: Some(BTreeMap::from([("lr".into(), "0.2".into())])),
            asked: Some("1 node".into()),
            nodes: 1,
            cpu_models: vec!["EPYC".into()],
            cpus_effective: vec![8.0],
            gpu_models: vec!["H200".into(), "H200".into()],
            gpu_clock_mhz: Some(1900.0),
            image: Some("sha256:1".into()),
            others_cpus_busy: Some(1.0),
            time_source: Some(TimeSource::Stated),
            ..Setting::default()
        }
    }

    #[test]
    fn alike_runs_may_be_compared() {
        let warmer = Setting {
            gpu_clock_mhz: Some(1850.0),
            others_cpus_busy: Some(1.7),
            gpu_throttled_seconds: 3.0,
            affinity: vec!["8-15".into()],
            ..known()
        };
        assert_eq!(unlike(&known(), &warmer), []);
        assert_eq!(unlike(&Setting::default(), &Setting::default()), []);
    }

    type Change = fn(&mut Setting);

    #[test]
    fn every_difference_is_named() {
        let changed: [(&str, Change); 24] = [
            ("arguments.lr", |setting| {
                setting.arguments = Some(BTreeMap::from([("lr".into(), "0.5".into())]))
            }),
            ("program", |setting| {
                setting.program = Some("python other.py".into())
            }),
            ("git", |setting| setting.git = Some("4b825dc".into())),
            ("software", |setting| {
                setting.software = vec!["torch 2.5.1".into()]
            }),
            ("nodes", |setting| setting.nodes = 2),
            ("cpu_models", |setting| {
                setting.cpu_models = vec!["Xeon".into()]
            }),
            ("cpus_effective", |setting| {
                setting.cpus_effective = vec![7.5]
            }),
            ("omp_num_threads", |setting| {
                setting.omp_num_threads = vec!["4".into()]
            }),
            ("gpu_models", |setting| setting.gpu_models.truncate(1)),
            ("gpu_drivers", |setting| {
                setting.gpu_drivers = vec!["580".into()]
            }),
            ("image", |setting| setting.image = None),
            ("framework", |setting| {
                setting.framework = Some("jax".into())
            }),
            ("compiler", |setting| setting.compiler = Some("xla".into())),
            ("storage", |setting| {
                setting.storage = vec!["data nfs4".into()]
            }),
            ("model", |setting| setting.model = Some("resnet50".into())),
            ("dataset", |setting| setting.dataset = Some("mnist".into())),
            ("batch_size", |setting| setting.batch_size = Some(64)),
            ("samples", |setting| setting.samples = Some(60_000)),
            ("precision", |setting| {
                setting.precision = Some("bf16".into())
            }),
            ("time_source", |setting| {
                setting.time_source = Some(TimeSource::Clock)
            }),
            ("is_warmup", |setting| setting.is_warmup = true),
            ("gpu_clock_mhz", |setting| {
                setting.gpu_clock_mhz = Some(1500.0)
            }),
            ("others_cpus_busy", |setting| {
                setting.others_cpus_busy = Some(1.9)
            }),
            ("asked", |setting| {
                setting.asked = Some("1 node, memory 4GiB".into())
            }),
        ];
        for (what, change) in changed {
            let mut other = known();
            change(&mut other);
            for found in [unlike(&known(), &other), unlike(&other, &known())] {
                assert_eq!(
                    found
                        .iter()
                        .map(|found| found.what.as_str())
                        .collect::<Vec<_>>(),
                    [what]
                );
            }
        }
        let fewer = Setting {
            gpu_models: vec!["H200".into()],
            image: None,
            ..known()
        };
        let found = unlike(&known(), &fewer);
        assert_eq!(
            (found[0].first.as_str(), found[0].second.as_str()),
            ("2 H200", "1 H200")
        );
        assert_eq!(
            (found[1].first.as_str(), found[1].second.as_str()),
            ("sha256:1", "unknown")
        );
    }
}
