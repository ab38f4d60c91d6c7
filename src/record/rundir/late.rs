//! Last records that the state directory did not take, on the node's own disk until it takes them.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::attempt::Attempt;
use super::record_size::MAX_RECORD;
use super::run::RunDir;
use super::state::StateDir;
use crate::foundation::private::{FileError, PrivateDir};
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
    /// Whether the record has its own directory: else its step is not known.
    placed: bool,
    record: NodeRecord,
}

/// Keeps a record on this node that is to be written into `state_dir`, into its own directory there where that was made (`placed`).
/// Returns whether that worked.
#[must_use]
pub fn keep_late(state_dir: &str, placed: bool, record: &NodeRecord) -> bool {
    let late = Late {
        state_dir: state_dir.to_owned(),
        placed,
        record: record.clone(),
    };
    SHARED
        .iter()
        .any(|shared| keep_in(Path::new(shared), &late))
}

/// Writes the records that are kept for `state` on this machine, and removes them where they are written, or their run is gone.
pub fn deliver_late(state: &StateDir) {
    for shared in SHARED {
        deliver_from(Path::new(shared), state);
    }
}

fn keep_in(shared: &Path, late: &Late) -> bool {
    let key = &late.record.key;
    let name = key.to_string().replace('/', ".") + &format!(".{}", late.record.started_at_ms);
    let Ok(bytes) = serde_json::to_vec(late) else {
        return false;
    };
    let dir = PrivateDir::of_user(shared).and_then(|user| user.ensure_dir(UNDER));
    dir.is_ok_and(|dir| {
        dir.names().is_ok_and(|names| names.len() < KEPT) && dir.replace(&name, &bytes).is_ok()
    })
}

fn deliver_from(shared: &Path, state: &StateDir) {
    let user = PrivateDir::find_of_user(shared);
    let Some(dir) = user.and_then(|user| user.open_dir(UNDER).ok()) else {
        return;
    };
    for name in dir.names().unwrap_or_default().iter().take(KEPT) {
        let Ok(bytes) = dir.read(name, 2 * MAX_RECORD) else {
            continue;
        };
        let late = serde_json::from_slice::<Late>(&bytes).ok();
        let Some(late) = late.filter(|late| Path::new(&late.state_dir) == state.path()) else {
            continue;
        };
        let done = match state.run(&late.record.key.run_id) {
            Ok(run) => deliver(&run, late).is_ok(),
            Err(error) => error.is_missing(),
        };
        if done {
            let _ = dir.remove(name);
        }
    }
}

/// Writes a record into its directory, or into a new one where it has none; what was written after all is not replaced.
fn deliver(run: &RunDir, late: Late) -> Result<(), FileError> {
    let Late {
        placed, mut record, ..
    } = late;
    let own = match placed.then(|| run.node_dir(&record.key)) {
        Some(Err(error)) if !error.is_missing() => return Err(error),
        own => own.and_then(Result::ok),
    };
    let is_new = own.is_none();
    let attempt = Attempt::from_key(&record.key);
    let node = match own {
        Some(node)
            if node
                .read_record()
                .is_ok_and(|known| known.state != NodeState::Running) =>
        {
            return Ok(());
        }
        Some(node) => node,
        None => run.open_node_step(attempt, &record.key.node)?,
    };
    record.key = node.key().clone();
    record.segments = node.segments()?.last().map_or(0, |last| last + 1);
    node.write_record(&record).inspect_err(|_| {
        if is_new {
            // The next attempt makes one again.
            let _ = std::fs::remove_dir(node.path());
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::RunId;
    use crate::record::{HostFacts, MeasureKey};

    #[test]
    fn record_without_a_directory_gets_one_and_its_file_goes() {
        let tmp = tempfile::tempdir().expect("a directory");
        let state = StateDir::create(&tmp.path().join("state")).expect("created");
        let run_id = RunId::from_random([7; 10]);
        let _ = state.ensure_run(&run_id).expect("created");
        let shared = tempfile::tempdir().expect("a directory");
        let key = MeasureKey {
            run_id: run_id.clone(),
            element: 0,
            attempt: 0,
            node: "n1".to_owned(),
            step: 0,
        };
        let begun = NodeRecord::begun(key, None, 5, HostFacts::default());
        let record = NodeRecord {
            state: NodeState::Ended,
            ..begun
        };
        let late = |placed, record| Late {
            state_dir: state.path().display().to_string(),
            placed,
            record,
        };
        let gone = RunId::from_random([9; 10]);
        let mut of_gone = record.clone();
        of_gone.key.run_id = gone;
        for late in [late(true, record.clone()), late(true, of_gone)] {
            assert!(keep_in(shared.path(), &late));
        }
        deliver_from(shared.path(), &state);
        let run = state.run(&run_id).expect("there");
        let read = |step| {
            run.node_dir(&MeasureKey {
                step,
                ..record.key.clone()
            })
            .and_then(|dir| dir.read_record())
        };
        assert_eq!(read(0).expect("written").state, NodeState::Ended);
        // Another command of the node, whose directory could not be made either.
        assert!(keep_in(
            shared.path(),
            &late(
                false,
                NodeRecord {
                    started_at_ms: 7,
                    ..record.clone()
                }
            )
        ));
        deliver_from(shared.path(), &state);
        assert_eq!(read(1).expect("written").started_at_ms, 7);
        let left =
            PrivateDir::find_of_user(shared.path()).and_then(|user| user.open_dir(UNDER).ok());
        assert_eq!(left.expect("there").names().expect("read"), [""; 0]);
    }
}
