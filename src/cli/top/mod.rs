//! What `dlrun top` shows of a node's runs. Pure but for [`feed`], which asks the node daemon, and [`screen`], which owns
//! the terminal.

mod board;
mod feed;
mod figures;
mod json;
mod page;
mod rates;
mod screen;
mod table;
mod watched;

#[cfg(test)]
mod tests_board;

pub(crate) use board::Board;
pub(crate) use feed::Feed;
pub(crate) use json::BoardAnswer;
pub(crate) use screen::{Screen, Wake, is_screen};
pub(crate) use table::to_text;
