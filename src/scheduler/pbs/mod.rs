//! What Torque and OpenPBS share: the form of options, `qsub`, `qdel`, values, the names of output files.

pub(super) mod adapter;
pub(super) mod answer;
pub(super) mod dialect;
pub(super) mod ends;
pub(super) mod handed_through;
pub(super) mod ids;
pub(super) mod job;
pub(super) mod job_file;
pub(super) mod options;
pub(super) mod own;
pub(super) mod script;
pub(super) mod site;
pub(super) mod values;
