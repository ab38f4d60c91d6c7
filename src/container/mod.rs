//! The container runtime: where it is, what this node lets it do, what an image file is.

mod cache;
mod failure;
mod find;
mod gpus;
mod installation;
mod namespaces;
mod node;
mod shelf;
mod subids;
mod surroundings;

pub use failure::ContainerError;
pub use find::find_runtime;
pub use installation::Installation;
pub use node::{Node, examine, examine_in, node_facts};
pub use shelf::{
    CatalogueDirs, CatalogueError, MAX_SHELF_BYTES, MAX_SHELF_FILES, file_state, look, read_catalogue,
};
pub use surroundings::Surroundings;
