//! Other programs: the one place that starts processes.
//!
//! Four ways, one for each use: [`Tool`] runs a program and reads what it says (`sbatch`, `squeue`, `pip`),
//! [`spawn_training`] starts the user's command inside a job, [`spawn_companion`] the watcher beside it, and
//! [`spawn_detached`] a background process of ours; [`try_unshare`] starts a process that runs nothing, and [`replace_by`]
//! none: the program takes our place. It knows no program by name and never logs the values of environment variables.

mod failure;
mod find;
mod pump;
mod spawn;
mod tool;
mod unshare;

pub use failure::{CommandError, Words};
pub use find::{find, find_all, find_in, is_python};
pub use pump::Stream;
pub use spawn::{TrainingCommand, replace_by, spawn_companion, spawn_detached, spawn_training};
pub use tool::{Output, Tool};
pub use unshare::try_unshare;
