//! What a training says of its own progress: its output in, epochs, steps, rates and metrics out.
//!
//! Pure: bytes and, where known, the time at which they were seen go into a [`Follower`]; a
//! [`crate::record::Progress`] comes out. No file, no clock.
//!
//! On the way the output becomes lines (`lines`), a recogniser makes an `event::Event` of a line that it knows, and
//! `fold` makes the progress of the events. One file holds one recogniser; a further one is a file, a variant of
//! `follower::Recogniser` and a place in its list. It reads `Epoch 3/5` and `60000/60000 [====] - 2s - loss: 0.26`
//! (`keras`), `Train Epoch: 1 [640/60000 (1%)]  Loss: 1.4` (`pytorch`), `epoch 3/10 took 2.31 s` (`epoch_line`), or
//! whatever the user's expression says (`pattern`), which then is the only one.

mod epoch_line;
mod event;
mod fold;
mod follower;
mod keras;
mod lines;
mod pattern;
mod pytorch;
mod scan;

pub use follower::Follower;
pub use pattern::{PatternError, check_pattern};
