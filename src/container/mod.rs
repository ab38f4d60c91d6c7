//! The container runtime: where it is, what this node lets it do, what an image file is.

mod failure;
mod find;
mod shelf;

pub use failure::ContainerError;
pub use find::find_runtime;
pub use shelf::{
    CatalogueDirs, CatalogueError, MAX_SHELF_BYTES, MAX_SHELF_FILES, file_state, look, read_catalogue,
};
