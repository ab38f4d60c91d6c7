//! From a job file to a job in a queue: read, planned, prepared, submitted.

pub(crate) mod commit;
pub(crate) mod dependencies;
pub(crate) mod followed;
mod history;
pub(crate) mod load;
pub(crate) mod refusal;
pub(crate) mod schedulers;
pub(crate) mod source;
pub(crate) mod submit;
