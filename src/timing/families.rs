//! The list of recognisers.

use super::epoch_line::EpochLine;
use super::event::Recogniser;
use super::keras::Keras;
use super::pytorch::PyTorch;

/// All recognisers, in no order that matters: [`Recogniser::weight`] and who speaks first decide.
pub(super) fn all() -> Vec<Box<dyn Recogniser>> {
    vec![Box::new(Keras::default()), Box::new(PyTorch::default()), Box::new(EpochLine)]
}
