//! What a training runs in: the catalogue of images, recipes that build them, the container runtime and its flags,
//! and Python environments.

pub mod catalogue;
pub mod container;
pub mod flags;
pub mod pyenv;
pub mod recipe;
