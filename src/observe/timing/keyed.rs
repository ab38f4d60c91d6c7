//! Lines of `key: value` pairs, as the loggers of detection frameworks write them: a key is one word.

use super::scan;

/// The pairs of a text, one after the other.
pub(super) struct Pairs<'a> {
    rest: &'a str,
}

/// A key, its value up to the next blank, and what follows.
pub(super) type Pair<'a> = (&'a str, &'a str, &'a str);

/// The pairs of a text.
pub(super) fn pairs(text: &str) -> Pairs<'_> {
    Pairs { rest: text }
}

impl<'a> Pairs<'a> {
    fn word(&mut self) -> Option<&'a str> {
        let text = self.rest.trim_start();
        let (word, rest) = text.split_at(text.find([' ', '\t']).unwrap_or(text.len()));
        self.rest = rest;
        (!word.is_empty()).then_some(word)
    }
}

impl<'a> Iterator for Pairs<'a> {
    type Item = Pair<'a>;

    fn next(&mut self) -> Option<Pair<'a>> {
        loop {
            let word = self.word()?;
            if let Some(key) = word.strip_suffix(':') {
                let before = self.rest;
                match self.word() {
                    Some(value) if !value.ends_with(':') => {
                        return Some((key, value.trim_end_matches(','), self.rest));
                    }
                    _ => self.rest = before,
                }
            } else if let Some((key, value)) = word.split_once(':')
                && value.starts_with(|c: char| c.is_ascii_digit() || c == '-')
                && key.contains(char::is_alphabetic)
            {
                return Some((key, value.trim_end_matches(','), self.rest));
            }
        }
    }
}

/// The number that a value is, with nothing behind it.
pub(super) fn number(value: &str) -> Option<f64> {
    scan::number(value)
        .filter(|(_, rest)| rest.is_empty())
        .map(|(value, _)| value)
}
