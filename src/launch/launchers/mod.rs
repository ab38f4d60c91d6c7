//! How each launcher starts its processes: from the table of ranks to their variables. One file a launcher; it has its line in
//! [`launcher_for`].

mod ddp;
mod horovod;
mod jax;
mod keras;
mod mxnet;
mod tensorflow;
mod torchrun;

use super::ranks::{Meeting, Rank};
use crate::job::Launcher;

/// Name and value of variables of the environment.
pub type Variables = Vec<(&'static str, String)>;

/// A process that a launcher starts on a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Worker {
    /// Its rank; of an agent the first of its ranks, of a helper `None`.
    pub rank: Option<Rank>,
    /// What it is, where it is no rank: `agent`, `scheduler`, `server`.
    pub role: Option<&'static str>,
    /// Its variables.
    pub variables: Variables,
}

/// One launcher.
pub trait Launch: Sync {
    /// The variables of one rank.
    fn variables(&self, rank: &Rank, meeting: &Meeting) -> Variables;

    /// The processes of one node.
    fn workers(&self, node: usize, meeting: &Meeting) -> Vec<Worker> {
        let worker = |rank: Rank| Worker {
            variables: self.variables(&rank, meeting),
            rank: Some(rank),
            role: None,
        };
        meeting.ranks_of(node).map(worker).collect()
    }

    /// The command as this launcher needs it.
    fn command(&self, command: &[String]) -> Vec<String> {
        command.to_vec()
    }

    /// Whether dlrun serves the group a store of keys over HTTP, at the group's port ([`Meeting::first`]).
    fn needs_store(&self) -> bool {
        false
    }
}

/// The launcher of a word; `None`: dlrun starts no ranks for it.
#[must_use]
pub fn launcher_for(
    launcher: Launcher,
    variable: impl Fn(&str) -> Option<String>,
) -> Option<&'static dyn Launch> {
    Some(match launcher {
        Launcher::Auto | Launcher::None | Launcher::Each | Launcher::Mpi => return None,
        Launcher::Ddp | Launcher::Deepspeed | Launcher::Accelerate => &ddp::Ddp,
        Launcher::Torchrun => &torchrun::Torchrun,
        Launcher::Tensorflow => &tensorflow::Tensorflow,
        Launcher::Horovod => &horovod::Horovod,
        Launcher::Jax => &jax::Jax,
        Launcher::Mxnet => &mxnet::Mxnet,
        Launcher::Keras => keras::for_backend(variable),
    })
}

/// What `auto` starts several ranks of a framework with; `None`: none follows from it.
#[must_use]
pub(in crate::launch) fn launcher_of_framework(framework: &str) -> Option<Launcher> {
    Some(match framework {
        "pytorch" => Launcher::Ddp,
        "tensorflow" => Launcher::Tensorflow,
        "keras" => Launcher::Keras,
        "jax" => Launcher::Jax,
        "mxnet" => Launcher::Mxnet,
        _ => return None,
    })
}
