//! Descriptions of images, and the choice among them. Pure.
//!
//! A description says what a person claims of an image; a check says what dlrun found when it ran the image. Both stand in
//! `images.d/*.toml`, whose form docs/catalogue.md tells.

mod choose;
mod compilers;
mod cuda;
mod entry;
mod framework;
mod judge;
mod name;
mod processor;
mod rank;
mod read;
mod shelf;
mod uri;
mod wanted;
mod write;

pub use choose::{Candidate, Choice, choose};
pub use compilers::{compiler_by_rule, compilers_of};
pub use cuda::{capability_of, cuda_for, least_driver, serves};
pub use entry::{Accelerator, Check, Entry, FileState, Place};
pub use framework::{meant, mistyped, same};
pub use name::name_problem;
pub use processor::{Processor, Runs, family, generation, runs};
pub use read::{FORMAT, Shelf, read};
pub use shelf::{Catalogue, Fault};
pub use uri::{Fetched, UnknownScheme, fetched};
pub use wanted::{Device, Wanted, release};
pub use write::{write_check, write_entry};
