//! What became of the ranks of a node, in a file beside that of the events, from where the watcher takes it into the record.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::foundation::clock::now_ms;
use crate::foundation::private::PrivateDir;
use crate::node::supervise::events;
use crate::record::{Event, EventKind, NetworkFacts, RankRecord};

const FILE: &str = "ranks.json";
/// Far more than the ranks of any node, in bytes.
const LIMIT: usize = 4 << 20;

/// What stands in it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(in crate::node::supervise) struct Reported {
    /// The ranks of this node.
    pub(in crate::node::supervise) ranks: Vec<RankRecord>,
    /// How the first node is reached from here.
    pub(in crate::node::supervise) network: Option<NetworkFacts>,
    /// That a node was lost, so that all ranks were ended.
    #[serde(default)]
    pub(in crate::node::supervise) lost: Option<Event>,
}

/// The file, where there is one.
pub(super) struct Report {
    dir: Option<PrivateDir>,
    written: Reported,
    network: Option<NetworkFacts>,
    lost: Option<Event>,
}

impl Report {
    pub(super) fn beside_events() -> Self {
        let events = std::env::var_os(events::VARIABLE).map(PathBuf::from);
        let dir = events
            .as_deref()
            .and_then(Path::parent)
            .and_then(|dir| PrivateDir::open(dir).ok());
        Self {
            dir,
            written: Reported::default(),
            network: None,
            lost: None,
        }
    }

    pub(super) fn lost(&mut self, node: &str) {
        self.lost = Some(Event {
            at_ms: now_ms(),
            kind: EventKind::NodeLost,
            detail: format!("{node} was lost: its dlrun is gone"),
        });
    }

    pub(super) fn network(&mut self, network: Option<NetworkFacts>) {
        self.network = network;
    }

    pub(super) fn write(&mut self, ranks: Vec<RankRecord>) {
        let (network, lost) = (self.network, self.lost.clone());
        let now = Reported {
            ranks,
            network,
            lost,
        };
        if let Some(dir) = self.dir.as_ref().filter(|_| now != self.written)
            && dir.write_json(FILE, &now).is_ok()
        {
            self.written = now;
        }
    }
}

/// What a command whose file of events this is reported; nothing, where it has no ranks.
pub(in crate::node::supervise) fn reported(events: Option<&Path>) -> Reported {
    let dir = events
        .and_then(Path::parent)
        .and_then(|dir| PrivateDir::open(dir).ok());
    dir.and_then(|dir| dir.read_json(FILE, LIMIT).ok())
        .unwrap_or_default()
}
