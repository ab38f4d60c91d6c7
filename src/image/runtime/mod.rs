//! The container runtime: which there are, where one is, what this node lets it do, what an image file is.

mod apptainer;
mod digest;
mod examine;
mod facts;
mod failure;
mod gpus;
mod host_view;
mod kinds;
mod machine;

pub use apptainer::advice::advice;
pub use apptainer::image_file::{ImageFile, inspect, runs_on};
pub use apptainer::installation::Installation;
pub use apptainer::labels::labels;
pub(crate) use apptainer::start_failure::StartFailure;
pub use digest::digest;
pub use examine::{Node, examine, find_runtime};
pub use facts::{Evaluation, Feature, Version};
pub use failure::ContainerError;
pub use host_view::HostView;
pub(crate) use kinds::prefixes_of;
pub use kinds::{Features, Product, Runtime, commands};
pub use machine::{ThisMachine, this_machine};

/// This machine's architecture as `uname -m` has it.
pub(crate) fn arch() -> &'static str {
    match std::env::consts::ARCH {
        "powerpc64" if cfg!(target_endian = "little") => "ppc64le",
        other => other,
    }
}
