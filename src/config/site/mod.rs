//! What a site has: queues, kinds of nodes, limits, as its scheduler reports them.
//!
//! The scheduler modules make a [`SiteModel`] from the answers; it is cached, laid over by the configuration, and a
//! job is compared with it before it is submitted. What is unknown is `None`, and then nothing is checked by it.

mod check;
mod constraint;
mod misfit;
mod node;
mod overlay;
mod wanted;

pub use check::{check, pause};
pub use constraint::{fulfils, words as words_of_constraint};
pub use misfit::Misfit;
pub(crate) use node::shown_list;
pub use node::{described, serves};
pub use overlay::overlaid;
pub use wanted::Wanted;

use serde::{Deserialize, Serialize};

use crate::foundation::clock::now_ms;
use crate::foundation::units::{Bytes, Walltime};
use crate::job::SchedulerKind;

/// A site as its scheduler sees it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct SiteModel {
    /// Version of this form, 1.
    pub format: u32,
    /// The scheduler.
    pub scheduler: SchedulerKind,
    /// Its version, as it says itself: `22.05.8`.
    pub version: Option<String>,
    /// When it was asked, in Unix milliseconds UTC.
    pub asked_at_ms: u64,
    /// Whether it keeps accounting.
    pub accounting: Option<bool>,
    /// Whether jobs are given memory by what they ask for; `None`: not known.
    #[serde(default)]
    pub accounts_memory: Option<bool>,
    /// The largest index that a job array may have.
    pub max_array_index: Option<u32>,
    /// The most elements that a job array may have, whatever their indexes.
    #[serde(default)]
    pub max_array_elements: Option<u32>,
    /// Its queues, in its order.
    pub queues: Vec<Queue>,
    /// Its nodes, equal ones together.
    pub nodes: Vec<NodeType>,
    /// Licences by name, with how many there are in all.
    pub licenses: Vec<(String, u32)>,
    /// By what ranks of MPI programs find each other; `None`: not known, or not the scheduler's business.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mpi: Option<MpiTypes>,
}

/// What ranks of MPI programs may find each other by.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct MpiTypes {
    /// What they get that ask for nothing; `none`: nothing.
    pub default: String,
    /// What may be asked for.
    pub offered: Vec<String>,
}

impl SiteModel {
    /// The version that this dlrun writes.
    pub const FORMAT: u32 = 1;

    /// A site of which nothing is known yet.
    #[must_use]
    pub fn asked_now(scheduler: SchedulerKind) -> Self {
        Self {
            format: Self::FORMAT,
            scheduler,
            asked_at_ms: now_ms(),
            ..Self::default()
        }
    }
}

/// A queue: Slurm's partition, PBS's queue.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Queue {
    /// Its name.
    pub name: String,
    /// True for the one that jobs go to which name none.
    pub is_default: bool,
    /// True where it takes jobs and starts them.
    pub is_up: bool,
    /// True where it takes no jobs at present. One that is only not up keeps those that it gets until it is.
    #[serde(default)]
    pub is_closed: bool,
    /// The longest time limit; `None`: none, or unknown.
    pub max_walltime: Option<Walltime>,
    /// The time limit of jobs that name none.
    pub default_walltime: Option<Walltime>,
    /// The fewest nodes of a job.
    pub min_nodes: Option<u32>,
    /// The most nodes of a job.
    pub max_nodes: Option<u32>,
    /// Accounts that may use it; empty: all.
    pub accounts: Vec<String>,
}

/// Equal nodes.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct NodeType {
    /// Queues that they belong to; empty: all.
    pub queues: Vec<String>,
    /// How many there are.
    pub count: u32,
    /// How many of them are neither down nor drained.
    pub up: u32,
    /// CPUs of each, as the scheduler counts them.
    pub cpus: Option<u32>,
    /// Sockets of each.
    pub sockets: Option<u32>,
    /// Main memory of each that jobs may have.
    pub memory: Option<Bytes>,
    /// GPUs of each by type, with how many; the type is empty where the scheduler knows none.
    pub gpus: Vec<(String, u32)>,
    /// Features (Slurm), properties (Torque), resources (OpenPBS: `name=value`).
    pub features: Vec<String>,
}
