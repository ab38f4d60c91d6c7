//! What the batch script passes to `dlrun exec` through its environment.

use std::path::PathBuf;

use nix::sys::signal::Signal;
use serde::{Deserialize, Serialize};

use crate::job::{JobId, RunId, SchedulerVariables};
use crate::launch::TrialWay;
use crate::plan::Plan;
use crate::record::{MeasureKey, TrialRecord};

/// Variables of the batch script that are none of the training's business.
pub(super) const INTERNAL: [&str; 9] = [
    "DLRUN_PLAN",
    "DLRUN_STATE_DIR",
    "DLRUN_EXE",
    "DLRUN_ELEMENT",
    "DLRUN_ATTEMPT",
    "DLRUN_JOB_ID",
    "DLRUN_NODE",
    "DLRUN_END",
    "DLRUN_LEAD",
];

/// Who this run is and where its records go. Everything may be missing: then less is recorded, and the command runs.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Context {
    /// The run.
    pub run_id: Option<RunId>,
    /// Array index.
    pub element: u32,
    /// Number of the start.
    pub attempt: u32,
    /// The scheduler's job.
    pub job_id: Option<JobId>,
    /// The scheduler's name of this node.
    pub node: String,
    /// Where records go.
    pub state_dir: Option<PathBuf>,
    /// The plan.
    pub plan: Option<Plan>,
    /// When the job's time is up, in Unix seconds, and how long before the program is to save its work.
    #[serde(default)]
    pub time_limit: Option<(u64, u64)>,
    /// `OMP_NUM_THREADS` of the command.
    pub omp_num_threads: Option<String>,
    /// What the trial before the command measured.
    #[serde(default)]
    pub trial: Option<TrialRecord>,
    /// Which way of the plan's trial the command gets.
    #[serde(skip)]
    pub(super) way: Option<usize>,
    /// A signal that came during the trial, for the command.
    #[serde(skip)]
    pub(super) asked: Option<Signal>,
}

impl Context {
    /// Reads the context from the environment; `hostname` names the node where no scheduler does.
    #[must_use]
    pub fn from_environment(variable: impl Fn(&str) -> Option<String>, hostname: String) -> Self {
        let set = |name: &str| variable(name).filter(|value| !value.is_empty());
        let number = |name: &str| set(name).and_then(|text| text.parse().ok()).unwrap_or(0);
        let plan: Option<Plan> =
            set("DLRUN_PLAN").and_then(|text| serde_json::from_str(&text).ok());
        let state_dir = set("DLRUN_STATE_DIR").map(PathBuf::from);
        let all = SchedulerVariables::ALL;
        Self {
            run_id: set("DLRUN_RUN_ID").and_then(|text| text.parse().ok()),
            element: number("DLRUN_ELEMENT"),
            attempt: number("DLRUN_ATTEMPT"),
            job_id: set("DLRUN_JOB_ID")
                .or_else(|| all.iter().find_map(|variables| set(variables.job_id)))
                .map(JobId),
            // Under srun each node has its own SLURMD_NODENAME; DLRUN_NODE is that of the batch shell.
            node: all
                .iter()
                .find_map(|variables| set(variables.node?))
                .or_else(|| set("DLRUN_NODE"))
                .unwrap_or(hostname),
            state_dir: state_dir
                .or_else(|| plan.as_ref().map(|plan| PathBuf::from(&plan.state_dir))),
            time_limit: set("DLRUN_END").and_then(|end| {
                let lead = set("DLRUN_LEAD")?.parse().ok()?;
                Some((end.parse().ok()?, lead))
            }),
            plan,
            omp_num_threads: set("OMP_NUM_THREADS"),
            trial: None,
            way: None,
            asked: None,
        }
    }

    /// The way in which the command runs, where the plan has several.
    pub(super) fn way(&self) -> Option<&TrialWay> {
        self.plan.as_ref()?.trial.as_ref()?.ways.get(self.way?)
    }

    /// Whether this is the node of the batch script.
    pub(super) fn is_batch_node(&self) -> bool {
        std::env::var("DLRUN_NODE").map_or(true, |node| node == self.node)
    }

    /// The place of a measurement of this run; step 0 means one that is not known yet.
    pub(super) fn key_of(&self, run_id: RunId) -> MeasureKey {
        MeasureKey {
            run_id,
            element: self.element,
            attempt: self.attempt,
            node: self.node.clone(),
            step: 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bare_environment_is_enough() {
        let context = Context::from_environment(|_| None, "host".into());
        assert_eq!(
            (context.run_id, context.node.as_str(), context.attempt),
            (None, "host", 0)
        );
    }

    #[test]
    fn nonsense_is_left_out() {
        let context =
            Context::from_environment(|name| Some(format!("{name}=nonsense")), "host".into());
        assert_eq!((context.run_id, context.attempt), (None, 0));
        assert!(context.plan.is_none());
    }
}
