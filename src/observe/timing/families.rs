//! The list of recognisers.

use super::event::Recogniser;
use super::forms;
use super::hf_trainer::HfTrainer;
use super::keras::Keras;
use super::lightning::Lightning;
use super::plain_lines::PlainLines;
use super::score::Score;
use super::table::Table;
use super::tqdm::Tqdm;
use super::yolo::Yolo;

/// All recognisers. [`Recogniser::weight`] and who speaks first decide; of those that speak first of the same line, the one
/// that stands first.
pub(super) fn all() -> Vec<Box<dyn Recogniser>> {
    let mut all: Vec<Box<dyn Recogniser>> = vec![
        Box::new(Keras::default()),
        Box::new(Lightning::default()),
        Box::new(HfTrainer::default()),
        Box::new(Yolo::default()),
    ];
    for program in forms::programs() {
        all.push(Box::new(program));
    }
    let others: [Box<dyn Recogniser>; 5] = [
        Box::new(Table::default()),
        Box::new(PlainLines::default()),
        Box::new(Table::by_commas()),
        Box::new(Tqdm::default()),
        Box::new(Score::default()),
    ];
    all.extend(others);
    all
}
