//! The container runtime: where it is, what this node lets it do, what an image file is.

mod advice;
mod build;
mod cache;
pub mod check;
mod digest;
mod failure;
mod find;
mod gpus;
mod here;
mod image_file;
mod installation;
mod keep;
mod labels;
mod making;
mod name;
mod namespaces;
mod node;
mod progress;
mod pull;
mod recipes;
mod room;
mod shelf;
mod sif;
mod subids;
mod surroundings;
mod trust;

pub use advice::advice;
pub use build::{Build, build};
pub use digest::digest;
pub use failure::ContainerError;
pub use find::find_runtime;
pub use here::{Here, here};
pub use image_file::{ImageFile, ImageKind, inspect, runs_on};
pub use installation::Installation;
pub use keep::keep_description;
pub use labels::labels;
pub use making::{Begun, MakeError, Making, Workplace, begin, discard, log_of};
pub use name::{pulled_name, pulled_path};
pub use node::{Node, examine, examine_in, node_facts};
pub use progress::{Phase, Progress};
pub use pull::{PullSource, pull};
pub use recipes::{RecipeError, recipes_in};
pub use room::free_bytes;
pub use shelf::{
    CatalogueDirs, CatalogueError, MAX_SHELF_BYTES, MAX_SHELF_FILES, file_state, look,
    read_catalogue,
};
pub use sif::Sif;
pub use surroundings::Surroundings;
pub use trust::is_vouched_for;
