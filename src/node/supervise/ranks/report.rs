//! What became of the ranks of a node, in a file beside that of the events, from where the watcher takes it into the record.

use std::path::{Path, PathBuf};

use crate::foundation::private::PrivateDir;
use crate::node::supervise::events;
use crate::record::RankRecord;

const FILE: &str = "ranks.json";
/// Far more than the ranks of any node, in bytes.
const LIMIT: usize = 4 << 20;

/// The file, where there is one.
pub(super) struct Report {
    dir: Option<PrivateDir>,
    written: Vec<RankRecord>,
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
            written: Vec::new(),
        }
    }

    pub(super) fn write(&mut self, ranks: Vec<RankRecord>) {
        if let Some(dir) = self.dir.as_ref().filter(|_| ranks != self.written)
            && dir.write_json(FILE, &ranks).is_ok()
        {
            self.written = ranks;
        }
    }
}

/// The ranks of a command whose file of events this is; empty: it has none.
pub(in crate::node::supervise) fn ranks_of(events: Option<&Path>) -> Vec<RankRecord> {
    let dir = events
        .and_then(Path::parent)
        .and_then(|dir| PrivateDir::open(dir).ok());
    dir.and_then(|dir| dir.read_json(FILE, LIMIT).ok())
        .unwrap_or_default()
}
