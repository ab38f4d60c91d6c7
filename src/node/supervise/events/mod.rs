//! `DLRUN_EVENTS`: where a program says by itself how far it is. The file is made before the command starts, read behind
//! it, and removed after it.

mod place;
mod read;

pub(super) use place::{VARIABLE, ask_to_stop, limit, make, note_limit, remove, sweep};
pub(super) use read::EventFile;
