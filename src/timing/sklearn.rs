//! What scikit-learn's estimators print with `verbose`.
//!
//! ```text
//! Iteration 3, loss = 0.65851937                        MLPClassifier: an iteration is an epoch
//! Validation score: 0.905000
//! -- Epoch 1                                            SGDClassifier
//! Norm: 34.91, NNZs: 20, Bias: -1.0, T: 1000, Avg. loss: 1.25
//! Total training time: 0.01 seconds.
//! Epoch 3, change: 0.12345678                           sag and saga
//! Iteration 0, inertia 4233.7.                          KMeans
//! [10/100] 1 tree, 31 leaves, max depth = 9, in 0.012s  HistGradientBoosting
//! ```

use super::event::{Event, Facts, Line, Recogniser};
use super::scan;

/// The recogniser.
#[derive(Debug, Default)]
pub(super) struct SciKit {
    /// True once a line was read that only its estimators print.
    known: bool,
}

impl Recogniser for SciKit {
    fn name(&self) -> &'static str {
        "scikit-learn"
    }

    fn triggers(&self) -> &'static [&'static str] {
        &[
            "Iteration ",
            "-- Epoch ",
            ", NNZs: ",
            "Total training time: ",
            ", change: ",
            " leaves, max depth",
            "Validation score: ",
        ]
    }

    fn read<'a>(&mut self, line: &Line<'a>, say: &mut dyn FnMut(Event<'a>)) {
        let Some(event) = self.read_line(line.text.trim()) else { return };
        self.known = true;
        say(event);
    }
}

impl SciKit {
    fn read_line<'a>(&self, text: &'a str) -> Option<Event<'a>> {
        if let Some(rest) = text.strip_prefix("Iteration ") {
            let (number, rest) = scan::unsigned(rest)?;
            if let Some(rest) = rest.strip_prefix(", loss = ") {
                // Caffe prints the same with digits as they come; here it is `%.8f`, from 1.
                let (loss, "") = scan::number(rest)? else { return None };
                let digits = rest.split_once('.').map_or(0, |(_, digits)| digits.len());
                return (digits == 8 && number > 0).then(|| ended(number, ("loss", loss)));
            }
            let (inertia, rest) = scan::number(rest.strip_prefix(", inertia ")?)?;
            let facts = figure("inertia", inertia);
            let whole = rest.is_empty() || rest == ".";
            return whole.then_some(Event::RunStep {
                epoch: None,
                epochs: None,
                step: number,
                of: None,
                facts,
            });
        }
        if let Some(rest) = text.strip_prefix("-- Epoch ") {
            let (epoch, "") = scan::unsigned(rest)? else { return None };
            return Some(Event::EpochStart { epoch, epochs: None });
        }
        if text.starts_with("Norm: ") {
            let (loss, _) = scan::number(scan::after(text, "Avg. loss: ")?)?;
            return Some(Event::EpochOver { seconds: None, step: None, facts: figure("loss", loss) });
        }
        if let Some(rest) = text.strip_prefix("Epoch ") {
            let (epoch, rest) = scan::unsigned(rest)?;
            let (change, "") = scan::number(rest.strip_prefix(", change: ")?)? else { return None };
            return Some(ended(epoch, ("change", change)));
        }
        if let Some((counts, rest)) = text.strip_prefix('[').and_then(|text| text.split_once("] ")) {
            let (step, of, "") = scan::counted(counts)? else { return None };
            let (seconds, _) =
                scan::duration(scan::after(rest, ", in ").filter(|_| rest.contains(" leaves, "))?)?;
            let facts = Facts { step_seconds: Some(seconds), ..Facts::default() };
            return Some(Event::RunStep { epoch: None, epochs: None, step, of, facts });
        }
        if let Some(rest) = text.strip_prefix("Validation score: ").filter(|_| self.known) {
            return Some(Event::Validation { facts: figure("validation_score", scan::number(rest)?.0) });
        }
        let rest = text.strip_prefix("Total training time: ").filter(|_| self.known)?;
        Some(Event::RunEnd { seconds: Some(scan::duration(rest)?.0), facts: Facts::default() })
    }
}

fn figure<'a>(name: &'a str, value: f64) -> Facts<'a> {
    Facts { metrics: vec![(name.into(), value)], ..Facts::default() }
}

fn ended<'a>(epoch: u64, (name, value): (&'a str, f64)) -> Event<'a> {
    Event::EpochEnd { epoch, epochs: None, seconds: None, step: None, facts: figure(name, value) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(lines: &[&str]) -> Vec<&'static str> {
        let (mut scikit, mut kinds) = (SciKit::default(), Vec::new());
        for text in lines {
            scikit.read(&Line { text, redrawn: false }, &mut |event| kinds.push(event.kind()));
        }
        kinds
    }

    #[test]
    fn verbose_estimators_are_read() {
        assert_eq!(
            kinds(&["Iteration 1, loss = 0.70127360", "Validation score: 0.905000"]),
            ["epoch ends", "validation"]
        );
        assert_eq!(
            kinds(&[
                "-- Epoch 1",
                "Norm: 3.1, NNZs: 20, Bias: -1.0, T: 10, Avg. loss: 1.25",
                "Total training time: 0.01 seconds."
            ]),
            ["epoch begins", "epoch ends", "training ends"]
        );
        assert_eq!(kinds(&["Epoch 3, change: 0.12345678"]), ["epoch ends"]);
        assert_eq!(kinds(&["Iteration 0, inertia 4233.7."]), ["step"]);
        assert_eq!(kinds(&["[10/100] 1 tree, 31 leaves, max depth = 9, in 0.012s"]), ["step"]);
    }

    #[test]
    fn other_lines_are_left_alone() {
        for text in [
            "Iteration 100, loss = 0.52",
            "Iteration 0, loss = 3.78589123",
            "Total training time: 3 s",
            "[1/2] done",
        ] {
            assert_eq!(kinds(&[text]), [""; 0], "{text}");
        }
    }
}
