//! MosaicML Composer and LLM Foundry: a head for a batch, then a line for each figure.
//!
//! ```text
//! [batch=366/48000]:
//!          Train time/batch: 365
//!          Train loss/train/total: 10.3750
//!          Train throughput/samples_per_sec: 38.2
//!          Train throughput/device/samples_per_sec: 4.8
//! ```
//!
//! The form is that of `composer/loggers/console_logger.py` (0.11 to 0.28). Lines of validation begin with `Eval`.

use super::event::{Event, Facts, Line, Rate, Recogniser};
use super::scan;

/// The recogniser of such lines.
#[derive(Debug, Default)]
pub(super) struct Composer;

impl Recogniser for Composer {
    fn name(&self) -> &'static str {
        "composer"
    }

    fn triggers(&self) -> &'static [&'static str] {
        &["[batch=", "Train loss/", "Train throughput/", "Train metrics/", "Eval metrics/"]
    }

    fn read<'a>(&mut self, line: &Line<'a>, say: &mut dyn FnMut(Event<'a>)) {
        let text = line.text.trim();
        if let Some((_, counts)) = text.split_once("[batch=") {
            if let Some((step, of, rest)) = scan::counted(counts)
                && rest.starts_with(']')
            {
                say(Event::Iteration { step: Some(step), of, facts: Facts::default() });
            }
            return;
        }
        if let Some(facts) = figure(text) {
            say(Event::Figures { facts });
        }
    }
}

fn figure(text: &str) -> Option<Facts<'_>> {
    let (name, value) = text.split_once(": ")?;
    let (value, _) = scan::number(value.trim())?;
    let mut facts = Facts::default();
    if name == "Train throughput/samples_per_sec" {
        facts.throughput = Rate::of_run(value, "samples/s");
    } else if name.starts_with("Train throughput/") {
        // Tokens and batches per second are the same rate in other words.
        return None;
    } else {
        facts.metrics.push((name.split_once(' ')?.1.into(), value));
    }
    Some(facts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_has_a_line_for_each_figure() {
        let mut said = Vec::new();
        for text in [
            "[batch=366/48000]:",
            "\t Train loss/train/total: 10.3750",
            "\t Train throughput/samples_per_sec: 38.2",
            "\t Train throughput/device/samples_per_sec: 4.8",
            "[batch=x]",
        ] {
            Composer.read(&Line { text, redrawn: false }, &mut |event| said.push(event));
        }
        let [
            Event::Iteration { step: Some(366), of: Some(48_000), .. },
            Event::Figures { facts },
            Event::Figures { facts: rate },
        ] = said.as_slice()
        else {
            panic!("{said:?}")
        };
        assert_eq!(facts.metrics, [("loss/train/total".into(), 10.375)]);
        assert_eq!(rate.throughput, Rate::of_run(38.2, "samples/s"));
    }
}
