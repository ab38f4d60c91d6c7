//! Last records that the state directory did not take, on the node's own disk until it takes them.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::node::MAX_RECORD;
use super::state::StateDir;
use crate::private::PrivateDir;
use crate::record::{NodeRecord, NodeState};

/// Directories of a node that everybody may write to, best first: the first outlives a full memory.
const SHARED: [&str; 2] = ["/var/tmp", "/tmp"];
/// In this user's own directory of one that everybody may write to.
const UNDER: &str = "late";
/// Records that are kept, and looked at in one go.
const KEPT: usize = 256;

#[derive(Serialize, Deserialize)]
struct Late {
    state_dir: String,
    record: NodeRecord,
}

/// Keeps a record on this node that is to be written into `state_dir`. Returns whether that worked.
#[must_use]
pub fn keep_late(state_dir: &str, record: &NodeRecord) -> bool {
    SHARED.iter().any(|shared| keep_in(Path::new(shared), state_dir, record))
}

/// Writes the records that are kept for `state` on this machine, and removes them where they are written, or their run is gone.
pub fn deliver_late(state: &StateDir) {
    for shared in SHARED {
        deliver_from(Path::new(shared), state);
    }
}

fn keep_in(shared: &Path, state_dir: &str, record: &NodeRecord) -> bool {
    let key = &record.key;
    let name = format!("{}.{}.{}.{}.{}", key.run_id, key.element, key.attempt, key.node, key.step);
    let late = Late { state_dir: state_dir.to_owned(), record: record.clone() };
    let Ok(bytes) = serde_json::to_vec(&late) else { return false };
    let dir = PrivateDir::of_user(shared).and_then(|user| user.ensure_dir(UNDER));
    dir.is_ok_and(|dir| {
        dir.names().is_ok_and(|names| names.len() < KEPT) && dir.replace(&name, &bytes).is_ok()
    })
}

fn deliver_from(shared: &Path, state: &StateDir) {
    let user = shared.join(format!("dlrun-{}", nix::unistd::geteuid()));
    let Ok(dir) = PrivateDir::open(&user).and_then(|user| user.open_dir(UNDER)) else { return };
    for name in dir.names().unwrap_or_default().iter().take(KEPT) {
        let Ok(bytes) = dir.read(name, 2 * MAX_RECORD) else { continue };
        let late = serde_json::from_slice::<Late>(&bytes).ok();
        let Some(late) = late.filter(|late| Path::new(&late.state_dir) == state.path()) else { continue };
        let there = state.run(&late.record.key.run_id).and_then(|run| run.node_dir(&late.record.key));
        let done = match &there {
            // What was written after all is not replaced.
            Ok(node) => {
                node.read_record().is_ok_and(|known| known.state != NodeState::Running)
                    || node.write_record(&late.record).is_ok()
            }
            Err(error) => error.is_missing(),
        };
        if done {
            let _ = dir.remove(name);
        }
    }
}
