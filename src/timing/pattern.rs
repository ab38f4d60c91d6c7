//! The user's own expression, for programs that no recogniser knows.
//!
//! `[timing] epoch = '^pass (?<epoch>\d+)/(?<epochs>\d+) done in (?<seconds>[0-9.]+)'`: every matching line ends the
//! epoch that it names.

use regex_lite::{Regex, RegexBuilder};

use crate::diagnostic::nearest;

use super::event::{Event, Facts, Line, Recogniser, Weight};
use super::scan;

/// The groups that an expression may name.
const GROUPS: [&str; 3] = ["epoch", "epochs", "seconds"];

/// Largest compiled expression in bytes: the time per line grows with it.
const MAX_COMPILED: usize = 256 * 1024;

/// What is wrong with a user's expression.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PatternError {
    /// It is not a regular expression, or one that is too large.
    #[error("not a regular expression: {reason}")]
    Syntax {
        /// What the regular expression compiler says.
        reason: String,
    },
    /// It does not say which part of the line is the epoch's number.
    #[error("no group `epoch`; write `(?<epoch>[0-9]+)` where the number of the epoch stands")]
    NoEpoch,
    /// It names a group that means nothing here.
    #[error("unknown group `{name}`; {}", suggestion(.name))]
    UnknownGroup {
        /// The group's name.
        name: String,
    },
}

fn suggestion(name: &str) -> String {
    match nearest(name, GROUPS) {
        Some(group) => format!("did you mean `{group}`?"),
        None => "known groups are `epoch`, `epochs` and `seconds`".to_owned(),
    }
}

/// Checks a user's expression.
///
/// # Errors
///
/// [`PatternError`] says what is wrong with it.
pub fn check_pattern(text: &str) -> Result<(), PatternError> {
    Pattern::compile(text).map(|_| ())
}

/// A user's expression, ready to read lines.
#[derive(Debug)]
pub(super) struct Pattern {
    regex: Regex,
}

impl Recogniser for Pattern {
    fn name(&self) -> &'static str {
        "pattern"
    }

    fn weight(&self) -> Weight {
        Weight::Asked
    }

    fn triggers(&self) -> &'static [&'static str] {
        &[]
    }

    fn read<'a>(&mut self, line: &Line<'a>, say: &mut dyn FnMut(Event<'a>)) {
        if let Some(event) = self.read_line(line) {
            say(event);
        }
    }
}

impl Pattern {
    pub(super) fn compile(text: &str) -> Result<Self, PatternError> {
        let regex = RegexBuilder::new(text)
            .size_limit(MAX_COMPILED)
            .build()
            .map_err(|error| PatternError::Syntax { reason: error.to_string() })?;
        if let Some(name) = regex.capture_names().flatten().find(|name| !GROUPS.contains(name)) {
            return Err(PatternError::UnknownGroup { name: name.to_owned() });
        }
        if !regex.capture_names().flatten().any(|name| name == "epoch") {
            return Err(PatternError::NoEpoch);
        }
        Ok(Self { regex })
    }

    fn read_line<'a>(&self, line: &Line<'a>) -> Option<Event<'a>> {
        let groups = self.regex.captures(line.text)?;
        let group = |name| groups.name(name).map(|found| found.as_str().trim());
        let (epoch, rest) = scan::unsigned(group("epoch")?)?;
        // 3.0 is the third epoch; 3.5 is a place inside one.
        if !rest.trim_start_matches('.').trim_start_matches('0').is_empty() {
            return None;
        }
        let epochs = group("epochs").and_then(scan::unsigned).map(|(epochs, _)| epochs);
        let seconds = group("seconds").and_then(|text| {
            let (seconds, _) = scan::clock(text).or_else(|| scan::number(text))?;
            (seconds.is_finite() && seconds >= 0.0).then_some(seconds)
        });
        Some(Event::EpochEnd { epoch, epochs, seconds, step: None, facts: Facts::default() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(pattern: &str, text: &str) -> Option<(u64, Option<u64>, Option<f64>)> {
        let line = Line { text, redrawn: false };
        match Pattern::compile(pattern).unwrap().read_line(&line)? {
            Event::EpochEnd { epoch, epochs, seconds, .. } => Some((epoch, epochs, seconds)),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn named_groups_are_read() {
        let pattern = r"^pass (?<epoch>[\d.]+)(/(?P<epochs>\d+))? done( in (?<seconds>[\d:.]+))?";
        assert_eq!(read(pattern, "pass 3/10 done in 2.5 s"), Some((3, Some(10), Some(2.5))));
        assert_eq!(read(pattern, "pass 3.0 done"), Some((3, None, None)));
        assert_eq!(read(pattern, "pass 3 done in 0:01:05"), Some((3, None, Some(65.0))));
        for text in ["pass 3.5 done", "pass x done", "pass 99999999999999999999999 done", ""] {
            assert_eq!(read(pattern, text), None, "{text}");
        }
    }

    #[test]
    fn faults_are_named() {
        assert!(matches!(check_pattern("(?<epoch>"), Err(PatternError::Syntax { .. })));
        assert!(matches!(check_pattern(r"(?<epoch>\w{1000}{1000})"), Err(PatternError::Syntax { .. })));
        assert_eq!(check_pattern(r"epoch (\d+)"), Err(PatternError::NoEpoch));
        let unknown = check_pattern(r"(?<epoch>\d+) (?<second>\d+)").unwrap_err();
        assert_eq!(unknown.to_string(), "unknown group `second`; did you mean `seconds`?");
        assert_eq!(check_pattern(r"(?<epoch>\d+)"), Ok(()));
    }
}
