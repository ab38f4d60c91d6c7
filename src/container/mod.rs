//! The container runtime: where it is, what this node lets it do, what an image file is.

mod failure;
mod find;

pub use failure::ContainerError;
pub use find::find_runtime;
