//! Use cases, between the adapters and the command line: each says what is to be done, and asks and writes whatever that takes.

pub(crate) mod accounts;
pub(crate) mod error;
pub(crate) mod exit_code;
pub(crate) mod follow;
pub(crate) mod gpus;
pub(crate) mod images;
pub(crate) mod incoming;
pub(crate) mod interrupt;
pub(crate) mod job;
pub(crate) mod live;
pub(crate) mod matrix;
pub(crate) mod models;
pub(crate) mod output;
pub(crate) mod output_files;
pub(crate) mod progress;
pub(crate) mod series;
pub(crate) mod session;
pub(crate) mod site;
pub(crate) mod tail;
pub(crate) mod times;
pub(crate) mod track;
pub(crate) mod wait;
