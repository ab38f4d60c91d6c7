//! AllenNLP's trainers.
//!
//! ```text
//! 2017-10-14 16:48:27,962 - INFO - allennlp.training.trainer - Epoch 0/139
//! 2017-10-14 16:49:08,969 - INFO - allennlp.training.trainer - Batch 567/17168: accuracy: 0.42, loss: 1.32 ||
//! 2017-10-14 16:59:08,969 - INFO - allennlp.training.trainer - Epoch duration: 0:01:23.456
//! ```
//!
//! The forms are those of `allennlp/training/trainer.py` and `gradient_descent_trainer.py` (0.4 to 2.10). What stands behind
//! the epoch is the number of the last.

use super::event::{Event, Facts, Line, Recogniser};
use super::scan;

/// The recogniser of such lines.
#[derive(Debug, Default)]
pub(super) struct AllenNlp;

impl Recogniser for AllenNlp {
    fn name(&self) -> &'static str {
        "allennlp"
    }

    fn triggers(&self) -> &'static [&'static str] {
        &["allennlp.training"]
    }

    fn read<'a>(&mut self, line: &Line<'a>, say: &mut dyn FnMut(Event<'a>)) {
        if let Some(event) = line_of(line.text) {
            say(event);
        }
    }
}

fn line_of(text: &str) -> Option<Event<'_>> {
    let (_, rest) = text
        .split_once("allennlp.training.trainer - ")
        .or_else(|| text.split_once("allennlp.training.gradient_descent_trainer - "))?;
    if let Some(time) = rest.strip_prefix("Epoch duration: ") {
        let seconds = Some(scan::clock(time)?.0);
        return Some(Event::EpochOver { seconds, step: None, facts: Facts::default() });
    }
    if let Some(epochs) = rest.strip_prefix("Epoch ") {
        let (epoch, last, _) = scan::counted(epochs)?;
        return Some(Event::EpochStart { epoch, epochs: last?.checked_add(1) });
    }
    let (step, of, rest) = scan::counted(rest.strip_prefix("Batch ")?)?;
    let mut facts = Facts::default();
    for field in rest.strip_prefix(':')?.split(", ") {
        let Some((name, value)) = field.split_once(": ") else { continue };
        if let Some((value, _)) = scan::number(value) {
            facts.metrics.push((name.trim().into(), value));
        }
    }
    Some(Event::Iteration { step: Some(step), of, facts })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read<'a>(recogniser: &mut AllenNlp, text: &'a str) -> Vec<Event<'a>> {
        let mut said = Vec::new();
        recogniser.read(&Line { text, redrawn: false }, &mut |event| said.push(event));
        said
    }

    #[test]
    fn allennlp_counts_from_zero_up_to_the_last() {
        let mut training = AllenNlp;
        let said =
            read(&mut training, "2017-10-14 16:48:27,962 - INFO - allennlp.training.trainer - Epoch 0/139");
        assert!(matches!(said[..], [Event::EpochStart { epoch: 0, epochs: Some(140) }]), "{said:?}");
        let said = read(
            &mut training,
            "x - INFO - allennlp.training.trainer - Batch 567/17168: accuracy: 0.42, loss: 1.32 ||",
        );
        let [Event::Iteration { step: Some(567), of: Some(17_168), facts }] = said.as_slice() else {
            panic!("{said:?}")
        };
        assert_eq!(facts.metrics, [("accuracy".into(), 0.42), ("loss".into(), 1.32)]);
        let said = read(&mut training, "x - INFO - allennlp.training.trainer - Epoch duration: 0:01:23.5");
        assert!(matches!(said[..], [Event::EpochOver { seconds: Some(83.5), .. }]), "{said:?}");
    }
}
