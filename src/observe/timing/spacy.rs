//! The table of `spacy train`.
//!
//! ```text
//! E    #       LOSS TOK2VEC  LOSS NER  ENTS_F  ENTS_P  ENTS_R  SCORE
//! ---  ------  ------------  --------  ------  ------  ------  ------
//!   0       0          0.00     40.00    9.57    6.09   22.33    0.10
//!   0     200         35.70   2163.45   83.16   83.79   82.53    0.83
//! ```
//!
//! The form is that of `spacy/training/loggers.py` (3.0 to 3.8): epochs from 0, then steps, then figures.

use super::event::{Event, Facts, Line, Recogniser};
use super::scan;

/// What was read of the training so far.
#[derive(Debug, Default)]
pub(super) struct SpaCy {
    /// The names of the columns behind the first two; empty while no table is open.
    columns: Vec<String>,
}

impl Recogniser for SpaCy {
    fn name(&self) -> &'static str {
        "spacy"
    }

    fn triggers(&self) -> &'static str {
        "E    #       "
    }

    fn wants_every_line(&self) -> bool {
        !self.columns.is_empty()
    }

    fn counts_from_zero(&self) -> Option<bool> {
        Some(true)
    }

    fn read<'a>(&mut self, line: &Line<'a>, say: &mut dyn FnMut(Event<'a>)) {
        let text = line.text.trim();
        if let Some(names) = text.strip_prefix("E    #   ") {
            let names = names
                .split("  ")
                .map(str::trim)
                .filter(|name| !name.is_empty());
            self.columns = names.map(str::to_owned).collect();
            return;
        }
        match self.row(text) {
            Some(event) => say(event),
            None if text.starts_with(['-', '\u{26a0}']) || text.is_empty() => {}
            None => self.columns.clear(),
        }
    }
}

impl SpaCy {
    fn row(&self, text: &str) -> Option<Event<'static>> {
        if self.columns.is_empty() {
            return None;
        }
        let mut cells = text.split_whitespace();
        let epoch = cells.next()?.parse().ok()?;
        let step = cells.next()?.parse().ok()?;
        let mut facts = Facts::default();
        for (name, cell) in self.columns.iter().zip(cells) {
            let (value, rest) = scan::number(cell)?;
            if !rest.is_empty() {
                return None;
            }
            facts.metrics.push((name.clone().into(), value));
        }
        (facts.metrics.len() == self.columns.len()).then_some(Event::step(
            (epoch, None),
            (step, None),
            facts,
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::timing::event::Says;

    #[test]
    fn rows_are_read_until_the_table_ends() {
        let mut training = SpaCy::default();
        let mut said = Vec::new();
        for text in [
            "  0       0          0.00     40.00    0.10",
            "E    #       LOSS TOK2VEC  LOSS NER  SCORE ",
            "---  ------  ------------  --------  ------",
            "  0       0          0.00     40.00    0.10",
            "  1     200         35.70   2163.45    0.83",
            "Saved pipeline to output directory",
            "  2     400         35.70   2163.45    0.83",
        ] {
            training.read(
                &Line {
                    text,
                    redrawn: false,
                },
                &mut |event| said.push(event),
            );
        }
        assert_eq!(said.len(), 2);
        let Event {
            says: Says::Step,
            epoch: Some(1),
            step: Some(200),
            facts,
            ..
        } = &said[1]
        else {
            panic!("{said:?}")
        };
        assert_eq!(facts.metrics[1], ("LOSS NER".into(), 2163.45));
    }
}
