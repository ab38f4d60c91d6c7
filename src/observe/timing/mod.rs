//! What a training says of its own progress: its output in, epochs, steps, rates and metrics out.
//!
//! What the program says itself through `DLRUN_EVENTS` goes into an [`EventLog`] and wins (`events`).
//!
//! Pure: bytes and, where known, the time at which they were seen go into a [`Follower`]; a
//! [`crate::record::Progress`] comes out. No file, no clock.
//!
//! On the way the output becomes lines (`lines`), a recogniser (`event::Recogniser`) makes an `event::Event` of a line that it
//! knows, and a `fold` for each recogniser makes the progress of its events. A program whose lines are known by their form alone
//! is an entry of `forms.txt`; one that needs more has a file and a line in `families`. Shared grammar is in `scan` (numbers,
//! durations, rates), `plain_figures` (figures of a line), `bar` (tqdm) and `dict` (dictionaries as Python and JSON print
//! them). With the user's own expression (`pattern`) only that reads.

mod bar;
mod bar_label;
mod curve;
mod decimal_comma;
mod dict;
mod dull;
mod epoch_line;
mod epoch_number;
mod event;
mod events;
mod families;
mod fold;
mod follower;
mod forms;
mod hf_trainer;
mod keras;
mod lightning;
mod lines;
mod names;
mod open_epoch;
mod pace;
mod pattern;
mod plain_figures;
mod plain_lines;
mod prefix;
mod printed_times;
mod scan;
mod score;
mod screen;
mod stamp;
mod stated;
mod step_line;
mod step_times;
mod table;
mod tqdm;
mod word_list;
mod yolo;

pub use events::EventLog;
pub use follower::{Evidence, Follower};
pub use pattern::{PatternError, check_pattern};
pub use stated::{Stated, StatedEpoch};
