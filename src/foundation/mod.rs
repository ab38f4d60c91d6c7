//! What every room uses and what knows nothing of training: units, time, files, processes, errors.

pub mod clock;
pub mod command;
pub mod cpu_list;
pub mod diagnostic;
pub mod failure;
pub mod filesystem;
pub(crate) mod hash;
pub mod lenient_json;
pub mod lock;
pub mod logging;
mod named;
pub mod private;
pub mod statistics;
pub(crate) mod threads;
pub(crate) mod toml_keys;
pub mod toml_reader;
pub mod units;
pub(crate) mod vocabulary;
pub mod wait;

pub(crate) use named::named_enum;
