//! The index: a SQLite database over what lies in files, so that a question about many runs is answered without
//! opening thousands of them.
//!
//! Nothing is kept here alone: the database can be deleted at any time and filled again. So taking the same record in
//! twice changes nothing, an older record never replaces a newer one, and no disk is waited for. Units are in the names
//! of the columns, times are Unix milliseconds UTC. The caller brings the records; no file but the database is touched.
//!
//! The node daemon keeps a database of the same schema, [`NodeStore`]. There the samples are nowhere else, so it is written
//! with more care.

mod elements;
mod export;
mod history;
mod import;
mod ingest;
mod measures;
mod node;
mod observations;
mod open;
mod parts;
mod reader;
mod records;
mod runs;
mod schema;

pub use export::{Identity, Order, Pages, Selection};
pub use import::{Importer, Taken};
pub use ingest::{Segment, Writer};
pub use measures::{Block, NodeProgress, NodeTimings, NodeUsage, Rollup};
pub use node::{
    Backlog, Collected, Dropped, Live, LiveRun, NodeId, NodeStore, Retained, Shortened,
};
pub use observations::{Counted, Observations};
pub use open::{Store, StoreError};
pub use runs::{Filter, Found, RunRow};

/// A number as SQLite holds it; what is beyond its 63 bits becomes the largest.
fn integer(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

fn optional(value: Option<u64>) -> Option<i64> {
    value.map(integer)
}
