//! Descriptions of images.
//!
//! A description says what a person claims of an image; a check says what dlrun found when it ran the image. Both are in
//! `images.d/*.toml`, whose form docs/catalogue.md explains.

mod assemble;
mod directory;
mod entry;
mod name;
mod read;
mod uri;
mod write;

pub use assemble::Catalogue;
pub use directory::{CatalogueDirs, CatalogueError, file_state, look_at_files, read_catalogue};
pub use entry::{Accelerator, Check, Entry, FileState, Place, read_digest};
pub use name::name_problem;
pub use read::{CatalogueFile, FORMAT, read};
pub use uri::{Fetched, fetched};
pub use write::{keep_description, write_check, write_entry};
