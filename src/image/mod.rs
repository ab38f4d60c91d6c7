//! What a training runs in: the catalogue of images and the choice among them, recipes and builds, the container runtime
//! and its flags, checks of images, and Python environments.

pub mod build;
pub mod catalogue;
pub mod check;
pub mod choice;
mod fingerprint;
pub mod flags;
mod in_progress;
pub mod python;
pub mod recipe;
pub mod runtime;

pub use fingerprint::fingerprint;
pub use in_progress::Progress;
