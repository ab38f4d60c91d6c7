//! One file per verb.

pub(crate) mod bench;
pub(crate) mod cancel;
pub(crate) mod check;
pub(crate) mod completions;
pub(crate) mod config;
pub(crate) mod convert;
pub(crate) mod doctor;
pub(crate) mod explain;
pub(crate) mod image;
pub(crate) mod list;
pub(crate) mod logs;
pub(crate) mod man;
pub(crate) mod model;
pub(crate) mod plan;
pub(crate) mod prune;
pub(crate) mod render;
pub(crate) mod report;
pub(crate) mod rows;
pub(crate) mod scale;
pub(crate) mod shell_words;
pub(crate) mod show;
pub(crate) mod submit;
pub(crate) mod sweep;
pub(crate) mod timings;
pub(crate) mod top;
pub(crate) mod wait;
