//! The index: a SQLite database over what lies in files, so that a question about many runs is answered without
//! opening thousands of them.
//!
//! Nothing is kept here alone: the database can be deleted at any time and filled again. So taking the same record in
//! twice changes nothing, an older record never replaces a newer one, and no disk is waited for. Units are in the names
//! of the columns, times are Unix milliseconds UTC. The caller brings the records; no file but the database is touched.
//!
//! The node daemon keeps a database of the same schema, [`NodeStore`]. There the samples are nowhere else, so it is written
//! with more care.

mod attempts;
mod elements;
mod error;
mod export;
mod history;
mod import;
mod ingest;
mod measures;
mod node;
mod open;
mod parts;
mod query;
mod reader;
mod runs;
mod schema;
mod sql;
mod starts;
mod views;
mod writer;

pub use error::{StoreError, StoreFault};
pub use export::{Identity, Order, Pages, Selection};
pub use import::Taken;
pub use ingest::Segment;
pub use node::{
    Backlog, Collected, Dropped, Live, LiveRun, NodeId, NodeStore, Retained, Shortened,
};
pub use open::Store;
pub use runs::{Filter, Found};
pub use starts::{Snapshot, Starts};
pub use writer::Writer;
