//! How a job becomes a [`Plan`]: what will run, where and how, with a reason for every choice.
//!
//! [`resolve`] is a pure function of job file, settings and site facts.

mod arguments;
mod auto_limits;
mod build;
mod candidates;
mod compiler;
mod cpus;
mod decisions;
mod dialect;
mod environment;
mod facts;
pub mod forecast_text;
mod gpus;
mod hardware;
mod identity;
mod image;
mod model_choice;
mod model_question;
mod mpi;
mod plan_text;
mod resolve;
mod resources;
mod resume;
mod run_context;
mod secrets;
mod similar_runs;
mod site_check;
mod site_rules;
mod storage;
mod trial;

pub use crate::launch::{
    Candidate, Decision, GPU_VARIABLES, ImageCandidate, NoImage, Plan, PlannedBuild,
    PlannedDependency, PlannedResources, PlannedStorage, Rejected, Source, Step,
};
pub(crate) use candidates::UNLIKE;
pub use facts::{
    History, ImageFacts, ModelFacts, Named, SchedulerFacts, ScriptFacts, SiteFacts, TargetFacts,
};
pub use identity::{identity_of, texts_of};
pub use plan_text::{HIDDEN, describe, is_secret};
pub use resolve::{asked_scheduler, resolve, scheduler_of};
pub use secrets::{hidden_values, masked_line};
