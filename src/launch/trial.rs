//! `framework.trial`: the ways in which a command is tried before it runs. None of them changes what it computes.

use serde::{Deserialize, Serialize};

use crate::foundation::units::counted;
use crate::job::EnvVar;

/// The trial of a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trial {
    /// How long all of it may take, in seconds.
    pub seconds: u64,
    /// The ways; the first is the planned one.
    pub ways: Vec<TrialWay>,
}

/// A way in which the command can run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrialWay {
    /// The graph compiler; `None`: the job file leaves it to the program.
    pub compiler: Option<String>,
    /// `OMP_NUM_THREADS`; `None`: as without a trial.
    pub threads: Option<u32>,
    /// Variables that the command gets.
    pub env: Vec<EnvVar>,
    /// Variables of the planned way that it does not get.
    pub unset: Vec<String>,
}

impl TrialWay {
    /// `inductor, 8 threads`.
    #[must_use]
    pub fn name(&self) -> String {
        let compiler = self.compiler.as_deref().map(|name| match name {
            "none" => "no compiler".to_owned(),
            name => name.to_owned(),
        });
        let threads = self
            .threads
            .map(|threads| counted(u64::from(threads), "thread"));
        let parts: Vec<String> = compiler.into_iter().chain(threads).collect();
        match parts.is_empty() {
            true => "as planned".to_owned(),
            false => parts.join(", "),
        }
    }
}
