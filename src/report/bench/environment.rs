//! Under what conditions the runs of a matrix were measured.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::learn::bench::Measured;
use crate::report::number::counted;

/// CPUs that others may keep busy before a run is called disturbed.
const QUIET: f64 = 0.1;
const DISTURBED: &str = "others kept more than 0.1 CPUs busy";
const THROTTLED: &str = "a CPU quota, heat or a power limit slowed the program down";
/// Kinds of one thing that are listed.
const MOST_KINDS: usize = 12;

/// Something that runs have, and how many have it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Kind {
    /// What they have.
    pub what: String,
    /// How many runs have it.
    pub runs: usize,
}

/// The conditions of all runs that count.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Environment {
    /// Kinds of machines: CPU, how many, kernel, GPUs.
    pub machines: Vec<Kind>,
    /// Nodes.
    pub nodes: Vec<Kind>,
    /// Frameworks with their versions.
    pub frameworks: Vec<Kind>,
    /// Images, by digest where it is known.
    pub images: Vec<Kind>,
    /// Versions of dlrun.
    pub dlrun: Vec<Kind>,
    /// Where the times come from: `stated`, `clock`, `event`.
    pub sources: Vec<Kind>,
    /// Median of the CPUs that others kept busy; `None` where no run knows.
    pub others_cpus_busy_median: Option<f64>,
    /// The most of it.
    pub others_cpus_busy_most: Option<f64>,
    /// Runs in which others kept more than a tenth of a CPU busy.
    pub disturbed_runs: usize,
    /// Runs that a quota, heat or a limit of power held down.
    pub throttled_runs: usize,
}

pub(super) fn environment<'a>(runs: impl Iterator<Item = &'a Measured>) -> Environment {
    let runs: Vec<&Measured> = runs.collect();
    let mut others: Vec<f64> = runs.iter().filter_map(|run| run.others_cpus_busy).collect();
    others.sort_by(f64::total_cmp);
    Environment {
        machines: kinds(runs.iter().filter_map(|run| machine(run))),
        nodes: kinds(runs.iter().flat_map(|run| run.nodes.iter().cloned())),
        frameworks: kinds(runs.iter().filter_map(|run| run.framework.clone())),
        images: kinds(runs.iter().filter_map(|run| run.image.clone())),
        dlrun: kinds(runs.iter().map(|run| run.dlrun_version.clone())),
        sources: kinds(
            runs.iter()
                .filter_map(|run| Some(run.source?.as_str().to_owned())),
        ),
        others_cpus_busy_median: others.get(others.len() / 2).copied(),
        others_cpus_busy_most: others.last().copied(),
        disturbed_runs: others.iter().filter(|busy| **busy > QUIET).count(),
        throttled_runs: runs
            .iter()
            .filter(|run| run.throttled_seconds.is_some_and(|seconds| seconds > 0.0))
            .count(),
    }
}

fn kinds(all: impl Iterator<Item = String>) -> Vec<Kind> {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    all.for_each(|what| *counts.entry(what).or_default() += 1);
    let mut kinds: Vec<Kind> = counts
        .into_iter()
        .map(|(what, runs)| Kind { what, runs })
        .collect();
    kinds.sort_by(|a, b| b.runs.cmp(&a.runs).then_with(|| a.what.cmp(&b.what)));
    kinds
}

/// `Intel Xeon, 8 CPUs, Linux 6.8.0, 2 × NVIDIA H200`.
fn machine(run: &Measured) -> Option<String> {
    let machine = run.machine.as_ref()?;
    let cpus = machine.cpus.map(|cpus| format!("{cpus} CPUs"));
    let kernel = machine.kernel.as_ref();
    let kernel = kernel.map(|kernel| format!("Linux {kernel}"));
    let gpus = kinds(machine.gpus.iter().cloned()).into_iter();
    let gpus = gpus.map(|kind| format!("{} × {}", kind.runs, kind.what));
    let parts = [machine.cpu_model.clone(), cpus, kernel];
    let parts: Vec<String> = parts.into_iter().flatten().chain(gpus).collect();
    (!parts.is_empty()).then(|| parts.join(", "))
}

/// Kinds as text, with how many runs each has; of a single one only what it is.
fn listed(kinds: &[Kind]) -> String {
    let shown = |kind: &Kind| match kinds {
        [_] => kind.what.clone(),
        _ => format!("{} ({})", kind.what, kind.runs),
    };
    let mut texts: Vec<String> = kinds.iter().take(MOST_KINDS).map(shown).collect();
    if kinds.len() > MOST_KINDS {
        texts.push(format!("and {} more", kinds.len() - MOST_KINDS));
    }
    texts.join("; ")
}

impl Environment {
    /// What speaks against comparing all runs with each other.
    pub(super) fn remarks(&self) -> Vec<String> {
        let mut remarks = Vec::new();
        if self.machines.len() > 1 {
            remarks.push(format!(
                "The runs were on {} kinds of machines: a difference between cells may come from there.",
                self.machines.len()
            ));
        }
        if self.sources.len() > 1 {
            let sources: Vec<&str> = self.sources.iter().map(|kind| kind.what.as_str()).collect();
            let sources = sources.join(", ");
            remarks.push(format!("Times come from several sources ({sources})."));
        }
        for (count, what) in [
            (self.disturbed_runs, DISTURBED),
            (self.throttled_runs, THROTTLED),
        ] {
            if count > 0 {
                remarks.push(format!("In {} {what}.", counted(count as u64, "run")));
            }
        }
        remarks
    }

    /// Pairs of a name and what it is, for people.
    pub(super) fn facts(&self) -> Vec<(&'static str, String)> {
        let named = [
            ("Machines", &self.machines),
            ("Nodes", &self.nodes),
            ("Frameworks", &self.frameworks),
            ("Images", &self.images),
            ("Times by", &self.sources),
            ("dlrun", &self.dlrun),
        ];
        let named = named.into_iter().filter(|(_, kinds)| !kinds.is_empty());
        let others = self.others_cpus_busy_median.zip(self.others_cpus_busy_most);
        let others = others.map(|(median, most)| {
            let busy = format!("{median:.2} (median), {most:.2} at most");
            ("CPUs kept busy by others", busy)
        });
        let facts = named.map(|(name, kinds)| (name, listed(kinds)));
        facts.chain(others).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::learn::bench::Machine;

    #[test]
    fn conditions_are_counted_and_what_differs_is_said() {
        let run = |cpu: &str, busy: f64| Measured {
            machine: Some(Machine {
                cpu_model: Some(cpu.into()),
                cpus: Some(2),
                gpus: vec!["H200".into(); 2],
                ..Machine::default()
            }),
            others_cpus_busy: Some(busy),
            nodes: vec!["n1".into()],
            ..Measured::lost("")
        };
        let runs = [run("Xeon", 0.01), run("Xeon", 0.02), run("Epyc", 0.5)];
        let environment = environment(runs.iter());
        let first = Kind {
            what: "Xeon, 2 CPUs, 2 × H200".into(),
            runs: 2,
        };
        assert_eq!(
            (environment.machines.len(), &environment.machines[0]),
            (2, &first)
        );
        assert_eq!(
            (
                environment.others_cpus_busy_median,
                environment.disturbed_runs
            ),
            (Some(0.02), 1)
        );
        let remarks = environment.remarks().join(" ");
        assert!(
            remarks.contains("2 kinds of machines") && remarks.contains("In 1 run others"),
            "{remarks}"
        );
        assert!(
            environment
                .facts()
                .iter()
                .any(|(name, what)| *name == "Nodes" && what == "n1")
        );
        let none = super::environment(std::iter::empty());
        assert_eq!(
            (
                none.others_cpus_busy_median,
                none.remarks().len(),
                none.facts().len()
            ),
            (None, 0, 0)
        );
    }
}
