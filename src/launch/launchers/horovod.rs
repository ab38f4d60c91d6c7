//! Horovod over Gloo, without ssh and without MPI: dlrun serves the store of keys itself, in which the workers find each other
//! (`horovod/common/gloo/gloo_context.cc`, `horovod/runner/gloo_run.py`, version 0.28.1).

use super::{Launch, Variables};
use crate::launch::ranks::{Meeting, Rank};

pub(super) struct Horovod;

impl Launch for Horovod {
    fn variables(&self, rank: &Rank, meeting: &Meeting) -> Variables {
        let mut variables = vec![
            ("HOROVOD_RANK", rank.rank.to_string()),
            ("HOROVOD_SIZE", rank.world.to_string()),
            ("HOROVOD_LOCAL_RANK", rank.local.to_string()),
            ("HOROVOD_LOCAL_SIZE", rank.local_world.to_string()),
            ("HOROVOD_CROSS_RANK", rank.cross.to_string()),
            ("HOROVOD_CROSS_SIZE", rank.cross_world.to_string()),
            ("HOROVOD_CONTROLLER", "gloo".to_owned()),
            ("HOROVOD_CPU_OPERATIONS", "gloo".to_owned()),
        ];
        if let Some(node) = meeting.nodes.get(rank.node as usize) {
            variables.push(("HOROVOD_HOSTNAME", node.host.clone()));
            variables.extend(
                node.interface
                    .clone()
                    .map(|name| ("HOROVOD_GLOO_IFACE", name)),
            );
        }
        if let Some(first) = meeting.first() {
            variables.push(("HOROVOD_GLOO_RENDEZVOUS_ADDR", first.ip().to_string()));
            variables.push(("HOROVOD_GLOO_RENDEZVOUS_PORT", first.port().to_string()));
        }
        variables
    }

    fn needs_store(&self) -> bool {
        true
    }

    /// Its client of the store asks for addresses of IPv4 (`HTTPRequest.hpp`).
    fn speaks_ipv6(&self) -> bool {
        false
    }
}
