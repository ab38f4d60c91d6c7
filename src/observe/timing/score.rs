//! Figures of a final evaluation, which scripts print when the training is over, whatever trained.
//!
//! ```text
//! Test loss: 0.0251                         Keras' examples
//! Test accuracy: 0.9917
//! Test set score: 0.953   score 0.89        scikit-learn's examples
//! ┃        Test metric        ┃       DataLoader 0        ┃    Lightning
//! │         test_loss         │    0.2931687533855438     │
//! ```
//!
//! They are added to the last values of the metrics and are an evaluation of their own; they end nothing.

use std::borrow::Cow;

use super::event::{Event, Facts, Line, Recogniser, Weight};
use super::names::is_measure;
use super::scan;

/// Words that may begin such a line, before the name of the figure.
const FINALS: &str = "final |best |overall |mean |average |the ";

/// First words of the name: what was evaluated.
const EVALUATED: &str = "test|eval|evaluation|validation|train|training";

/// Names that stand alone.
const ALONE: &str = "score|accuracy|acc|auc|roc auc|f1|f1 score|rmse|r2 score";

/// The recogniser.
#[derive(Debug, Default)]
pub(super) struct Score {
    /// Lines that are left of Lightning's table.
    table: u32,
}

impl Recogniser for Score {
    fn name(&self) -> &'static str {
        "score"
    }

    fn weight(&self) -> Weight {
        Weight::Plain
    }

    fn triggers(&self) -> &'static str {
        "Test ¦test ¦Test_¦test_¦score¦Score¦ccuracy¦auc¦AUC¦F1¦f1¦Eval¦eval"
    }

    fn wants_every_line(&self) -> bool {
        self.table > 0
    }

    fn read<'a>(&mut self, line: &Line<'a>, say: &mut dyn FnMut(Event<'a>)) {
        let text = line.text.trim();
        if text.contains("Test metric") || text.contains("Validate metric") {
            self.table = 100;
            return;
        }
        self.table = self.table.saturating_sub(1);
        let mut metrics = Vec::new();
        if self.table > 0 {
            metrics = self.row(text);
        }
        if metrics.is_empty() {
            metrics.extend(figure(text));
        }
        if !metrics.is_empty() {
            say(Event::validation(Facts::with_metrics(metrics)));
        }
    }
}

impl Score {
    /// A row of Lightning's table: a name and the figure of each loader, the last of which counts.
    fn row<'a>(&mut self, text: &'a str) -> Vec<(Cow<'a, str>, f64)> {
        let bare = text.trim_matches(['│', '|', ' ']);
        if bare.is_empty() || bare.starts_with(['━', '─', '└', '┡', '-', '╇']) {
            return Vec::new();
        }
        let mut cells = bare.split(['│', '|', ' ']).filter(|cell| !cell.is_empty());
        let (Some(name), Some(value)) = (cells.next(), cells.next()) else {
            self.table = 0;
            return Vec::new();
        };
        match (scan::figure_name(name), scan::number(value)) {
            (Some(name), Some((value, ""))) => vec![(name, value)],
            _ => Vec::new(),
        }
    }
}

/// `Test accuracy: 0.9917`, `test loss  4.90`, `Test set score: 0.953`, `Accuracy: 97.1%`.
fn figure(text: &str) -> Option<(Cow<'_, str>, f64)> {
    // The tutorial of PyTorch on CIFAR-10.
    if let Some((_, percent)) = text
        .strip_prefix("Accuracy of the network on the ")
        .and_then(|rest| rest.split_once(" test images: "))
    {
        let (value, _) = scan::number(percent)?;
        return Some(("test_accuracy".into(), value));
    }
    let begin = text.find(|c: char| c.is_ascii_digit() || matches!(c, '-' | '+'))?;
    let (name, number) = text.split_at(begin);
    let (value, rest) = scan::number(number)?;
    let name = name.trim_end_matches([' ', ':', '=', '\t']).trim();
    if !matches!(rest.trim(), "" | "%" | ".")
        || name.len() > 40
        || !name.starts_with(char::is_alphabetic)
    {
        return None;
    }
    let mut bare = name;
    while let Some(word) = FINALS
        .split('|')
        .find(|word| scan::starts_with_any(bare, word))
    {
        bare = &bare[word.len()..];
    }
    let first = bare.split([' ', '_']).next().unwrap_or_default();
    let about = scan::is_any(first, EVALUATED);
    // `train loss 0.5` may be of any epoch; a score or accuracy of the training data comes at the end alone.
    let trained = first.to_ascii_lowercase().starts_with("train");
    let is_final = about && is_measure(bare) && !(trained && scan::holds(bare, "loss"))
        || scan::is_any(bare, ALONE);
    if !is_final || bare.contains(['[', '(', '/', ',']) {
        return None;
    }
    let short: Vec<&str> = bare
        .split(' ')
        .filter(|word| !word.eq_ignore_ascii_case("set"))
        .collect();
    Some((short.join("_").to_ascii_lowercase().into(), value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn final_figures_are_read() {
        for (text, name, value) in [
            ("Test loss: 0.0251", "test_loss", 0.0251),
            ("Test accuracy: 0.9917", "test_accuracy", 0.9917),
            ("Final test accuracy = 97.1%", "test_accuracy", 97.1),
            ("Test set score: 0.953", "test_score", 0.953),
            ("Training set score: 0.986", "training_score", 0.986),
            ("score 0.89", "score", 0.89),
            ("test_acc: 0.5", "test_acc", 0.5),
            ("Accuracy: 0.97", "accuracy", 0.97),
            (
                "Accuracy of the network on the 10000 test images: 54 %",
                "test_accuracy",
                54.0,
            ),
        ] {
            assert_eq!(figure(text), Some((name.into(), value)), "{text}");
        }
    }

    #[test]
    fn rows_of_lightnings_table_are_read() {
        let (mut score, mut seen) = (Score::default(), Vec::new());
        for text in [
            "┃        Test metric        ┃       DataLoader 0        ┃",
            "┡━━━━━━━━━━━━━━━━━━━━━━━━━━━╇━━━━━━━━━━━━━━━━━━━━━━━━━━━┩",
            "│         test_loss         │    0.2931687533855438     │",
            "└───────────────────────────┴───────────────────────────┘",
        ] {
            score.read(
                &Line {
                    text,
                    redrawn: false,
                },
                &mut |event| seen.push(event),
            );
        }
        let metrics = vec![("test_loss".into(), 0.293_168_753_385_543_8)];
        assert_eq!(seen, [Event::validation(Facts::with_metrics(metrics))]);
    }

    #[test]
    fn other_lines_are_left_alone() {
        for text in [
            "test 3",
            "Test: [ 0/79] Loss 2.0",
            "Test set: Average loss: 0.0458, Accuracy: 9840/10000 (98%)",
            "loss 0.5",
            "train loss: 0.5",
            "accuracy: 3 of 4",
            "score 3: 0.5",
            "Test loss: 0.5 Test acc: 0.4",
        ] {
            assert_eq!(figure(text), None, "{text}");
        }
    }
}
