//! ESPnet 2.
//!
//! ```text
//! 2/20epoch started. Estimated time to finish: 33 minutes and 42.59 seconds
//! 1epoch:train:6376-6750batch: iter_time=0.001, loss=2.386, lr_0=0.100, train_time=0.013
//! 1epoch results: [train] loss=2.853, train_time=0.013, time=1 minute and 42.6 seconds, total_count=7507, [valid] loss=2.387
//! ```
//!
//! The forms are those of `espnet2/train/trainer.py` and `reporter.py` (0.9 to 202402). `train_time` is the mean time of an
//! iteration.

use super::event::{Event, Facts, Line, Recogniser};
use super::scan;

/// The recogniser of such lines.
#[derive(Debug, Default)]
pub(super) struct EspNet;

impl Recogniser for EspNet {
    fn name(&self) -> &'static str {
        "espnet"
    }

    fn triggers(&self) -> &'static [&'static str] {
        &["epoch:train:", "epoch results: ", "epoch started."]
    }

    fn read<'a>(&mut self, line: &Line<'a>, say: &mut dyn FnMut(Event<'a>)) {
        if let Some(event) = line_of(line.text) {
            say(event);
        }
    }
}

fn line_of(text: &str) -> Option<Event<'_>> {
    if let Some((head, _)) = text.split_once("epoch started.") {
        let (epoch, epochs, rest) = scan::counted(&head[head.rfind(' ').map_or(0, |at| at + 1)..])?;
        return rest.is_empty().then_some(Event::EpochStart { epoch, epochs });
    }
    if let Some((head, rest)) = text.split_once("epoch:train:") {
        let (epoch, _) = scan::unsigned(&head[head.rfind(' ').map_or(0, |at| at + 1)..])?;
        let (_, rest) = scan::unsigned(rest)?;
        let (step, rest) = scan::unsigned(rest.strip_prefix('-')?)?;
        let facts = equations(rest.strip_prefix("batch: ")?, "");
        return Some(Event::Step { epoch, epochs: None, step, of: None, facts });
    }
    let (head, rest) = text.split_once("epoch results: ")?;
    let (epoch, _) = scan::unsigned(&head[head.rfind(' ').map_or(0, |at| at + 1)..])?;
    let (train, valid) = rest.split_once("[valid]").unwrap_or((rest, ""));
    let seconds = train.split_once(", time=").and_then(|(_, time)| words(time));
    let mut facts = equations(train, "");
    facts.metrics.extend(equations(valid.split(", [").next().unwrap_or_default(), "valid_").metrics);
    Some(Event::EpochEnd { epoch, epochs: None, seconds, step: None, facts })
}

/// `loss=2.386, lr_0=0.100, train_time=0.013`.
fn equations<'a>(text: &'a str, prefix: &str) -> Facts<'a> {
    let mut facts = Facts::default();
    for field in text.split(", ") {
        let field = field.trim().trim_start_matches("[train] ");
        let Some((name, value)) = field.split_once('=') else { continue };
        let Some((value, _)) = scan::number(value) else { continue };
        if name == "train_time" {
            facts.step_seconds = Some(value).filter(|seconds| seconds.is_finite() && *seconds >= 0.0);
        } else if !name.contains("time") && !name.contains("count") {
            facts.metrics.push((
                if prefix.is_empty() { name.into() } else { format!("{prefix}{name}").into() },
                value,
            ));
        }
    }
    facts
}

/// Seconds of `1 hour, 31 minutes and 58.52 seconds`.
fn words(text: &str) -> Option<f64> {
    let (mut total, mut rest) = scan::duration(text)?;
    while let Some(next) = rest.strip_prefix(", ").or_else(|| rest.strip_prefix(" and "))
        && let Some((more, after)) = scan::duration(next)
    {
        (total, rest) = (total + more, after);
    }
    Some(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read<'a>(recogniser: &mut EspNet, text: &'a str) -> Vec<Event<'a>> {
        let mut said = Vec::new();
        recogniser.read(&Line { text, redrawn: false }, &mut |event| said.push(event));
        said
    }

    #[test]
    fn espnet_tells_steps_and_the_time_of_an_epoch() {
        let mut training = EspNet;
        let said = read(
            &mut training,
            "[PC] 2020-11-11 16:30:18,969 (trainer:184) INFO: 2/20epoch started. Estimated time to finish: 33 minutes",
        );
        assert!(matches!(said[..], [Event::EpochStart { epoch: 2, epochs: Some(20) }]), "{said:?}");
        let said = read(
            &mut training,
            "[PC] (trainer:486) INFO: 1epoch:train:6376-6750batch: iter_time=0.001, loss=2.386, lr_0=0.100, train_time=0.013",
        );
        let [Event::Step { epoch: 1, step: 6750, facts, .. }] = said.as_slice() else { panic!("{said:?}") };
        assert_eq!((facts.step_seconds, &facts.metrics[0]), (Some(0.013), &("loss".into(), 2.386)));
        let said = read(
            &mut training,
            "[PC] (trainer:243) INFO: 1epoch results: [train] iter_time=0.001, loss=2.853, train_time=0.013, time=1 minute and 42.6 seconds, total_count=7507, [valid] loss=2.387, time=3 seconds, total_count=240, [att_plot] time=0.28 seconds",
        );
        let [Event::EpochEnd { epoch: 1, seconds: Some(seconds), facts, .. }] = said.as_slice() else {
            panic!("{said:?}")
        };
        assert!((seconds - 102.6).abs() < 1e-9);
        assert_eq!(facts.metrics, [("loss".into(), 2.853), ("valid_loss".into(), 2.387)]);
    }
}
