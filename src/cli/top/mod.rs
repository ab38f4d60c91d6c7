//! What `dlrun top` shows of a node's runs. Pure but for [`feed`], which asks the node daemon, and [`screen`], which owns
//! the terminal.

mod board;
mod curve;
mod details;
mod draw;
mod feed;
mod json;
mod keys;
mod meter;
mod plain;
mod screen;
mod style;
mod table;
mod text;
mod tty;
mod watched;

#[cfg(test)]
mod sample_board;

pub(crate) use board::Board;
pub(crate) use feed::Feed;
pub(crate) use json::to_json;
pub(crate) use plain::to_text;
pub(crate) use screen::{Screen, Wake, is_screen};
pub(crate) use style::Palette;
