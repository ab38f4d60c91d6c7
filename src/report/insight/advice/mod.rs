//! What to ask for next time. Each rule says on which figures it rests, and says nothing where they are too few.

mod cpus;
mod gpus;
mod memory;
mod phases;
mod program;
mod walltime;

use serde::Serialize;

use super::limit::{Limit, LimitKind};
use super::threshold::{LEAST_COVERED, LEAST_SAMPLES, LEAST_SECONDS};
use super::used::{NodeUsed, Used};
use super::{Evidence, Request, RunView, Timing, real};
use crate::foundation::named_enum;
use crate::foundation::units::display_seconds;
use crate::job::JobState;

named_enum! {
    /// What a piece of advice is about, in the order in which they are reported.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
    #[serde(rename_all = "snake_case")]
    pub enum AdviceKind {
        /// `resources.walltime`.
        Walltime = "walltime",
        /// `resources.memory` or `resources.memory_per_cpu`.
        Memory = "memory",
        /// `resources.cpus_per_task`.
        Cpus = "cpus",
        /// `resources.gpus_per_node`.
        Gpus = "gpus",
        /// CPUs that are far from the GPUs.
        GpuCpus = "gpu_cpus",
        /// `storage.prefer`.
        Storage = "storage",
        /// Processes or threads that prepare the data.
        Workers = "workers",
        /// A program that did nothing.
        Idle = "idle",
        /// The time before the training.
        Startup = "startup",
        /// The time of checkpoints.
        Checkpoints = "checkpoints",
    }
}

/// A piece of advice.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Advice {
    /// What it is about.
    pub kind: AdviceKind,
    /// In a sentence.
    pub text: String,
    /// The table of the job file that [`Advice::paste`] belongs into: `resources`, `storage`.
    pub table: Option<&'static str>,
    /// Lines for that table, in the place of those of the same keys; `None` where no key helps.
    pub paste: Option<String>,
    /// The share of the run's time that the lines save at most, 0 to 1; 0: it takes no more time. `None`: nothing is said of its time.
    pub saves_at_most: Option<f64>,
    /// The figures that say so.
    pub rests_on: Vec<Evidence>,
}

impl Advice {
    /// Advice that no key of the job file helps to follow, with the figures that it rests on.
    fn new(kind: AdviceKind, text: String, rests_on: &[(&'static str, f64)]) -> Self {
        let evidence = |(what, value): &(&'static str, f64)| Evidence {
            what,
            value: *value,
        };
        Self {
            kind,
            text,
            table: None,
            paste: None,
            saves_at_most: None,
            rests_on: rests_on.iter().map(evidence).collect(),
        }
    }

    /// The same with lines for a table of the job file.
    fn pasting(self, table: &'static str, lines: String) -> Self {
        Self {
            table: Some(table),
            paste: Some(lines),
            ..self
        }
    }

    /// The same with the share of the time that following it saves at most.
    fn saving(mut self, saves: Option<f64>) -> Self {
        self.saves_at_most = saves.map(|saves| saves.clamp(0.0, 1.0));
        if let Some(saves) = self.saves_at_most.filter(|saves| *saves > 0.0) {
            let more = format!("; up to {:.0} % less time", saves * 100.0);
            self.text.push_str(&more);
        }
        self
    }
}

/// What the rules look at.
pub(super) struct Case<'a> {
    pub(super) view: &'a RunView<'a>,
    pub(super) used: &'a Used,
    pub(super) limits: &'a [Limit],
    pub(super) timing: Option<&'a Timing>,
    /// From start to end of the job, in seconds.
    pub(super) ran_seconds: Option<f64>,
}

impl Case<'_> {
    fn state(&self) -> JobState {
        self.view.status.state
    }

    fn request(&self) -> Option<&Request> {
        self.view.request
    }

    fn nodes(&self) -> &[NodeUsed] {
        &self.used.nodes
    }

    fn limit(&self, kinds: &[LimitKind]) -> Option<&Limit> {
        self.limits.iter().find(|limit| kinds.contains(&limit.kind))
    }

    /// The largest of the nodes; `None` where one of them does not tell.
    fn most(&self, of: impl Fn(&NodeUsed) -> Option<f64>) -> Option<f64> {
        let values: Option<Vec<f64>> = self.nodes().iter().map(of).collect();
        values?.into_iter().reduce(f64::max)
    }

    /// `None` where the samples are too few to advise anything.
    fn enough(&self) -> Option<()> {
        let lacks_nodes = self.view.run.nodes as usize > self.nodes().len()
            && self.request().is_none_or(Request::is_everywhere);
        let mut names: Vec<&str> = self.nodes().iter().map(|node| &*node.node).collect();
        names.sort_unstable();
        // Of several commands on one node it is not known what they used together.
        let is_twice = names.windows(2).any(|pair| pair[0] == pair[1]);
        let has_enough = self.state().is_final() && !lacks_nodes && !is_twice;
        enough_to_limit(self.used).ok().filter(|()| has_enough)
    }

    /// `None` for an array's elements: they share what is asked for.
    fn own_request(&self) -> Option<&Request> {
        let request = self.view.request?;
        (!request.is_array && self.view.run.array.is_none()).then_some(request)
    }
}

impl Request {
    /// True where a command runs on every node.
    fn is_everywhere(&self) -> bool {
        self.launcher != crate::job::Launcher::None
    }
}

/// Why the samples are too few to say what limited the run.
pub(super) fn enough_to_limit(used: &Used) -> Result<(), String> {
    if used.nodes.is_empty() {
        return Err("there is no record of any node".to_owned());
    }
    for node in &used.nodes {
        let wall = node.wall_seconds.unwrap_or(0.0);
        if wall < LEAST_SECONDS {
            let text = display_seconds(wall);
            return Err(format!(
                "it ran for {text} on {}, less than {LEAST_SECONDS:.0} s",
                node.node
            ));
        }
        let Some(sampled) = &node.sampled else {
            return Err(format!(
                "the samples of {} are missing, or were not read",
                node.node
            ));
        };
        if real(sampled.samples) < LEAST_SAMPLES {
            return Err(format!(
                "there are {} samples of {}, less than {LEAST_SAMPLES:.0}",
                sampled.samples, node.node
            ));
        }
        let covered = sampled.covered_seconds / wall * 100.0;
        if covered < LEAST_COVERED {
            return Err(format!(
                "samples cover {covered:.0}% of the time on {}, less than {LEAST_COVERED:.0}%",
                node.node
            ));
        }
    }
    Ok(())
}

/// All advice for the run.
pub(super) fn advise(case: &Case<'_>) -> Vec<Advice> {
    let rules: [fn(&Case<'_>) -> Option<Advice>; 7] = [
        walltime::rule,
        memory::rule,
        cpus::rule,
        gpus::rule,
        gpus::far,
        program::storage,
        program::workers,
    ];
    let found = rules.iter().filter_map(|rule| rule(case));
    found.chain(phases::rules(case)).collect()
}
