//! Opening the node's database: one process at a time, on a local file system.

use std::collections::HashMap;
use std::io;
use std::path::Path;

use rusqlite::Connection;

use super::{NodeStore, Safety};
use crate::foundation::filesystem::{FileSystem, Kind, directory};
use crate::foundation::lock::{Lock, acquire_now};
use crate::record::store::error::{StoreError, StoreFault};
use crate::record::store::open::{Store, beside, cannot_create, connect};
use crate::record::store::schema;

/// The owner writes, the group reads.
const MODE: u32 = 0o640;

/// Page size and vacuum mode count only before the first table. The journal is checkpointed at folds, and by its length only
/// where much is written between them: at 4 MiB, or ticks that were held back by a full disk would fill it up again, and no
/// fold would find room. The cache holds what a tick touches, for daemons are to be small.
const SETTINGS: &str = "PRAGMA page_size = 4096; PRAGMA auto_vacuum = INCREMENTAL; PRAGMA journal_mode = WAL;
    PRAGMA wal_autocheckpoint = 1024; PRAGMA journal_size_limit = 16777216; PRAGMA cache_size = -256;
    PRAGMA synchronous = FULL;";

impl NodeStore {
    /// Opens the database of this node, creating it (mode 0640) or bringing its schema up to date first. Its directory must
    /// exist. The file `<path>.lock` beside it names the process that has it.
    ///
    /// # Errors
    /// [`StoreFault::Network`] where it would lie on a network file system, [`StoreFault::Held`] by another process, and
    /// those of [`Store::open`].
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        let file_system =
            FileSystem::at(directory(path)).map_err(|source| cannot_create(path, source))?;
        Self::open_on(path, file_system)
    }

    fn open_on(path: &Path, file_system: FileSystem) -> Result<Self, StoreError> {
        if let (Kind::Network, Some(name)) = (file_system.kind, file_system.name) {
            let path = path.display();
            let message = format!(
                "`{path}` would lie on `{name}`, which several machines share; set `state_dir` to a local directory"
            );
            return Err(StoreError::new(StoreFault::Network, message));
        }
        let lock = lock(path)?;
        let store = prepare(connect(path, MODE)?, path)?;
        Ok(Self {
            store,
            tails: HashMap::new(),
            safety: Safety::PowerLoss,
            file_system,
            _lock: lock,
        })
    }
}

fn prepare(mut connection: Connection, path: &Path) -> Result<Store, StoreError> {
    let failed = |source| StoreError::from_sqlite(path, "open", source);
    // What is not ours stays as it is, its journal mode included.
    if matches!(
        schema::inspect(&mut connection).map_err(failed)?,
        schema::Found::Current | schema::Found::Older(_)
    ) {
        connection.execute_batch(SETTINGS).map_err(failed)?;
    }
    let store = Store::prepare(connection, path, "FULL")?;
    let connection = &store.connection;
    // Without this a power failure could take the schema itself away.
    connection
        .execute_batch("PRAGMA wal_checkpoint(TRUNCATE)")
        .map_err(failed)?;
    Ok(store)
}

fn lock(path: &Path) -> Result<Lock, StoreError> {
    let failed = |source| cannot_create(path, source);
    match acquire_now(&beside(path, ".lock")).map_err(failed)? {
        Ok(lock) if lock.is_exclusive() => Ok(lock),
        Ok(_) => Err(failed(io::ErrorKind::Unsupported.into())),
        Err(owner) => {
            let holder = owner.map_or("unknown".to_owned(), |owner| owner.pid.to_string());
            let path = path.display();
            let message = format!("the database `{path}` is in use by process {holder}");
            Err(StoreError::new(StoreFault::Held, message))
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::record::store::node::NodeId;

    /// A database with one node, whose run is not live.
    pub(in crate::record::store::node) fn with_node() -> (tempfile::TempDir, NodeStore, NodeId) {
        let tmp = tempfile::tempdir().expect("a directory");
        let store = NodeStore::open(&tmp.path().join("dlrun.db")).expect("opened");
        let rows = "
            INSERT INTO run (id, run_id, name, submitted_at_ms, user, submit_host, scheduler, workdir, nodes, dlrun_version)
                VALUES (1, '0000000000000001', 'mnist', 1, 'ada', 'n1', 'local', '/', 1, '0');
            INSERT INTO attempt (id, run, element, attempt) VALUES (1, 1, 0, 0);
            INSERT INTO node (id, attempt, node, step, state, started_at_ms, updated_at_ms, hostname, epochs_completed,
                segments, watcher_cpu_us, watcher_samples, watcher_late_ticks)
                VALUES (1, 1, 'n1', 0, 'running', 1, 1, 'n1', 0, 0, 0, 0, 0);";
        store
            .store
            .connection
            .execute_batch(rows)
            .expect("inserted");
        (tmp, store, NodeId(1))
    }

    #[test]
    fn a_network_is_refused_and_what_is_not_known_is_told() {
        let tmp = tempfile::tempdir().expect("a directory");
        let path = tmp.path().join("dlrun.db");
        let error =
            NodeStore::open_on(&path, FileSystem::of_magic(0x0bd0_0bd0)).expect_err("Lustre");
        let text = error.to_string();
        assert!(
            text.contains("`lustre`") && text.contains("`state_dir`"),
            "{text}"
        );
        assert!(!path.exists());
        let fuse = NodeStore::open_on(&path, FileSystem::of_magic(0x6573_5546)).expect("opened");
        assert_eq!(fuse.file_system().kind, Kind::Doubtful);
    }

    #[test]
    fn the_settings_hold_after_the_schema() {
        let (_tmp, store, _) = with_node();
        let number = |name: &str| -> i64 {
            store
                .store
                .connection
                .pragma_query_value(None, name, |row| row.get(0))
                .expect("a number")
        };
        let names = [
            "page_size",
            "auto_vacuum",
            "wal_autocheckpoint",
            "synchronous",
            "foreign_keys",
        ];
        assert_eq!(names.map(number), [4096, 2, 1024, 2, 1]);
        let journal: String = store
            .store
            .connection
            .pragma_query_value(None, "journal_mode", |row| row.get(0))
            .expect("text");
        assert_eq!(journal, "wal");
    }
}
