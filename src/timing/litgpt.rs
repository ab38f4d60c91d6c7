//! litgpt's scripts that fine-tune and pre-train.
//!
//! ```text
//! Epoch 4 | iter 961 step 961 | loss train: 1.062, val: 1.057 | iter time: 529.46 ms (step)
//! Training time: 583.36s
//! ```
//!
//! The forms are those of `litgpt/finetune/lora.py` and `litgpt/pretrain.py` of Lightning-AI/litgpt (0.1 to 0.5).

use super::event::{Event, Facts, Line, Recogniser};
use super::scan;

/// What was read of the training so far.
#[derive(Debug, Default)]
pub(super) struct LitGpt {
    /// True once a step was read: the closing line alone may be anybody's.
    stepped: bool,
}

impl Recogniser for LitGpt {
    fn name(&self) -> &'static str {
        "litgpt"
    }

    fn triggers(&self) -> &'static [&'static str] {
        &["loss train: ", "Training time: "]
    }

    fn counts_from_zero(&self) -> Option<bool> {
        Some(false)
    }

    fn read<'a>(&mut self, line: &Line<'a>, say: &mut dyn FnMut(Event<'a>)) {
        if let Some(event) = self.line_of(line.text.trim()) {
            say(event);
        }
    }
}

impl LitGpt {
    fn line_of<'a>(&mut self, text: &'a str) -> Option<Event<'a>> {
        if let Some(time) = text.strip_prefix("Training time: ").filter(|_| self.stepped) {
            let seconds = Some(scan::duration(time)?.0);
            return Some(Event::RunEnd { seconds, facts: Facts::default() });
        }
        let (epoch, rest) = scan::unsigned(text.strip_prefix("Epoch ")?)?;
        let (step, rest) = scan::unsigned(rest.strip_prefix(" | iter ")?)?;
        let (_, losses) = rest.split_once("| loss train: ")?;
        self.stepped = true;
        let mut facts = Facts::default();
        let (loss, rest) = scan::number(losses)?;
        facts.metrics.push(("loss train".into(), loss));
        if let Some((val, _)) = rest.strip_prefix(", val: ").and_then(scan::number) {
            facts.metrics.push(("val".into(), val));
        }
        facts.step_seconds =
            rest.split_once("iter time: ").and_then(|(_, time)| scan::duration(time)).map(|(time, _)| time);
        Some(Event::Step { epoch, epochs: None, step, of: None, facts })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read<'a>(recogniser: &mut LitGpt, text: &'a str) -> Vec<Event<'a>> {
        let mut said = Vec::new();
        recogniser.read(&Line { text, redrawn: false }, &mut |event| said.push(event));
        said
    }

    #[test]
    fn litgpt_tells_the_time_of_a_step_and_of_the_run() {
        let mut training = LitGpt::default();
        assert_eq!(read(&mut training, "Training time: 583.36s"), []);
        let said = read(
            &mut training,
            "Epoch 4 | iter 961 step 961 | loss train: 1.062, val: 1.057 | iter time: 500.00 ms (step)",
        );
        let [Event::Step { epoch: 4, step: 961, facts, .. }] = said.as_slice() else { panic!("{said:?}") };
        assert_eq!(facts.step_seconds, Some(0.5));
        assert_eq!(facts.metrics, [("loss train".into(), 1.062), ("val".into(), 1.057)]);
        let said = read(&mut training, "Training time: 583.36s");
        assert!(matches!(said[..], [Event::RunEnd { seconds: Some(583.36), .. }]), "{said:?}");
    }
}
