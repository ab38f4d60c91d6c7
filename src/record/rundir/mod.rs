//! The state directory: what dlrun knows of its runs, as files. They are the truth; the index over them is not.
//!
//! ```text
//! STATE/runs/<run-id>/run.json                                  who submitted what (RunRecord)
//!                     job.sh  plan.json                         as handed over
//!                     verdict.json  cancel.json                 the scheduler's last word; when its end was asked for
//!                     verdicts.json  cancels.json               the same of elements of an array
//!                     <element>.<attempt>/start.json  end.json  marks of the batch shell (Sentinel)
//!                     <element>.<attempt>/<node>.<step>/record.json      what one node measured (NodeRecord)
//!                                                       series-0000.seg  samples, never changed once written
//! STATE/site/<scheduler>.json                                   what the scheduler said of the site, for a while
//! STATE/imports/<sha256>.jsonl.zst                              what was imported from elsewhere
//! STATE/targets/<fingerprint>.json                              what a kind of node was measured to do (TargetRecord)
//! ```
//!
//! The directory may lie on a network file system: nothing here relies on locks. A file is written beside its place and
//! renamed, a directory is won by `mkdir`. All is readable by its owner alone, and no symbolic link below the state
//! directory is followed. Nothing is known here of the index, of schedulers or of clocks.

mod attempt;
mod imports;
mod index_place;
mod late;
mod node;
mod reading;
mod record_size;
mod run;
mod site;
mod state;
mod targets;
mod verdicts;

pub use attempt::Attempt;
pub use imports::ImportCopy;
pub use late::{deliver_late, keep_late};
pub use node::{MAX_NODE_NAME, MAX_SEGMENT, NodeDir, node_name_problem};
pub use reading::{Reading, attempt_record};
pub use record_size::{MAX_RECORD, fitted};
pub use run::{MAX_RUN_FILE, RunDir};
pub use site::{read_site, write_site};
pub use state::StateDir;
pub use verdicts::{Scale, Verdicts};
