//! The database of the node daemon: the samples of many runs at once, written at every tick.
//!
//! A sample goes into the spool, as a row; every 60 ticks the spool is folded into a compressed block. So a tick costs little, and a value ends up in two bytes. Commits of ticks wait for no disk: a killed process
//! loses nothing, a power failure what the kernel had not written yet. Schema, registration, folds and ends are on disk when
//! their call returns. One process has the database at a time; others may read.

mod backlog;
mod collect;
mod fold;
mod live;
mod open;
mod retain;
mod spool;

pub use backlog::{Backlog, Dropped};
pub use collect::Collected;
pub use live::{Live, LiveRun};
pub use retain::{Retained, Shortened};

use std::collections::HashMap;

use super::error::{StoreError, StoreFault};
use super::open::Store;
use super::writer::Writer;
use crate::foundation::filesystem::FileSystem;
use crate::foundation::lock::Lock;
use spool::Tail;

/// One measurement: the row of its node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub(crate) i64);

/// The open database of a node.
#[derive(Debug)]
pub struct NodeStore {
    store: Store,
    /// What is known of the spool of each node; emptied where a transaction fails, and read again.
    tails: HashMap<NodeId, Tail>,
    safety: Safety,
    file_system: FileSystem,
    /// After the store, so that it is closed first.
    _lock: Lock,
}

/// What a commit survives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Safety {
    /// The end of the process.
    Kill,
    /// A power failure.
    PowerLoss,
}

/// What a transaction has at hand.
struct Work<'a> {
    writer: &'a Writer<'a>,
    tails: &'a mut HashMap<NodeId, Tail>,
}

impl NodeStore {
    /// All that is asked of an index can be asked of this database too.
    #[must_use]
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Where the database lies. One of kind [`crate::foundation::filesystem::Kind::Doubtful`] is worth a warning.
    #[must_use]
    pub fn file_system(&self) -> FileSystem {
        self.file_system
    }

    /// Bytes of the database that are in use, the journal left out.
    ///
    /// # Errors
    /// As [`Store::list`].
    pub fn used_bytes(&self) -> Result<u64, StoreError> {
        let pages = |name: &str| -> Result<i64, StoreError> {
            let found = self
                .store
                .connection
                .pragma_query_value(None, name, |row| row.get(0));
            found.map_err(|source| StoreError::from_sqlite(&self.store.path, "read", source))
        };
        let used = (pages("page_count")? - pages("freelist_count")?) * pages("page_size")?;
        Ok(u64::try_from(used).unwrap_or(0))
    }

    fn transact<T>(
        &mut self,
        safety: Safety,
        work: impl FnOnce(&mut Work<'_>) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        self.set_safety(safety)?;
        let Self { store, tails, .. } = self;
        let done = store.write(|writer| work(&mut Work { writer, tails }));
        if done.is_err() {
            self.tails.clear();
        }
        if done
            .as_ref()
            .is_err_and(|error| error.kind == StoreFault::Full)
        {
            // The journal may have the room that is missing. What cannot be moved now is still in it, so that this fails is
            // no news.
            let _ = self.checkpoint();
        }
        done
    }

    /// A commit that is safe from power loss makes all before it safe too: it waits for the journal, which has them all.
    fn set_safety(&mut self, safety: Safety) -> Result<(), StoreError> {
        if self.safety != safety {
            let synchronous = if safety == Safety::Kill {
                "NORMAL"
            } else {
                "FULL"
            };
            self.pragma(&format!("PRAGMA synchronous = {synchronous}"))?;
            self.safety = safety;
        }
        Ok(())
    }

    /// Moves the journal into the database, as far as no reader is in the way.
    fn checkpoint(&self) -> Result<(), StoreError> {
        self.pragma("PRAGMA wal_checkpoint(PASSIVE)")
    }

    fn pragma(&self, text: &str) -> Result<(), StoreError> {
        let done = self.store.connection.execute_batch(text);
        done.map_err(|source| StoreError::from_sqlite(&self.store.path, "write", source))
    }
}
