//! Descriptions of images, and the choice among them. Pure.
//!
//! A description says what a person claims of an image; a check says what dlrun found when it ran the image. Both stand in
//! `images.d/*.toml`, whose form docs/catalogue.md tells.

mod entry;
mod name;
mod read;
mod shelf;
mod write;

pub use entry::{Accelerator, Check, Entry, FileState, Place};
pub use name::name_problem;
pub use read::{FORMAT, Shelf, read};
pub use shelf::{Catalogue, Fault};
pub use write::{write_check, write_entry};
