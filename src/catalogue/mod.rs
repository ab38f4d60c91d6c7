//! Descriptions of images, and the choice among them. Pure.
//!
//! A description says what a person claims of an image; a check says what dlrun found when it ran the image. Both stand in
//! `images.d/*.toml`.

mod entry;

pub use entry::{Accelerator, Check, Entry, Place};
