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
    /// What it is, where it is no rank that trains: `agent`, `scheduler`, `server`, and TensorFlow's types of tasks.
    pub role: Option<&'static str>,
    /// Its variables.
    pub variables: Variables,
}

/// One launcher.
pub trait Launch: Sync {
    /// The variables of one rank.
    fn variables(&self, rank: &Rank, meeting: &Meeting) -> Variables;

    /// What a rank is, where it does something else than training.
    fn role(&self, _rank: &Rank, _meeting: &Meeting) -> Option<&'static str> {
        None
    }

    /// The processes of one node.
    fn workers(&self, node: usize, meeting: &Meeting) -> Vec<Worker> {
        let worker = |rank: Rank| Worker {
            variables: self.variables(&rank, meeting),
            role: self.role(&rank, meeting),
            rank: Some(rank),
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

    /// Whether the framework's ranks find each other where nodes have addresses of IPv6 alone.
    fn speaks_ipv6(&self) -> bool {
        true
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

/// The frameworks that a launcher is for; empty: any.
#[must_use]
pub(in crate::launch) fn frameworks_of(launcher: Launcher) -> &'static [&'static str] {
    match launcher {
        Launcher::Ddp | Launcher::Torchrun | Launcher::Deepspeed | Launcher::Accelerate => {
            &["pytorch", "torch", "keras"]
        }
        Launcher::Tensorflow => &["tensorflow", "keras"],
        Launcher::Jax => &["jax", "keras"],
        Launcher::Keras => &["keras", "tensorflow", "jax", "pytorch", "torch"],
        Launcher::Horovod => &["tensorflow", "keras", "pytorch", "torch", "mxnet"],
        Launcher::Mxnet => &["mxnet"],
        Launcher::Auto | Launcher::None | Launcher::Each | Launcher::Mpi => &[],
    }
}

/// What `auto` starts several ranks of a framework with; `None`: none follows from it.
#[must_use]
pub(in crate::launch) fn launcher_of_framework(framework: &str) -> Option<Launcher> {
    Some(match framework {
        // The package's name, which people write too.
        "pytorch" | "torch" => Launcher::Ddp,
        "tensorflow" => Launcher::Tensorflow,
        "keras" => Launcher::Keras,
        "jax" => Launcher::Jax,
        "mxnet" => Launcher::Mxnet,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::launch::ranks::tests::meeting;

    #[test]
    fn address_of_ipv6_has_brackets_before_a_port_alone() {
        let mut meeting = meeting(&[1, 1]);
        for (node, at) in meeting.nodes.iter_mut().zip(["fd00::1", "fd00::2"]) {
            node.address = at.parse().expect("an address");
        }
        for (launcher, name, expected) in [
            (Launcher::Ddp, "MASTER_ADDR", "fd00::1"),
            // torch takes what stands before the last colon, without brackets.
            (Launcher::Torchrun, "PET_RDZV_ENDPOINT", "fd00::1:30000"),
            (Launcher::Jax, "JAX_COORDINATOR_ADDRESS", "[fd00::1]:30000"),
            (
                Launcher::Tensorflow,
                "TF_CONFIG",
                r#"{"cluster":{"worker":["[fd00::1]:30001","[fd00::2]:30001"]},"task":{"index":1,"type":"worker"}}"#,
            ),
            (Launcher::Mxnet, "DMLC_PS_ROOT_URI", "fd00::1"),
            (Launcher::Horovod, "HOROVOD_GLOO_RENDEZVOUS_ADDR", "fd00::1"),
        ] {
            let launch = launcher_for(launcher, |_| None).expect("it starts ranks");
            let workers = launch.workers(1, &meeting);
            let variables = &workers.last().expect("a rank").variables;
            let value = variables.iter().find(|(known, _)| *known == name);
            assert_eq!(value.map(|(_, value)| &**value), Some(expected), "{name}");
            let knows = !matches!(launcher, Launcher::Mxnet | Launcher::Horovod);
            assert_eq!(launch.speaks_ipv6(), knows);
        }
    }
}
