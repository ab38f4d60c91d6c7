//! Ranges of dotted versions, compared number by number: `2.1` and `2.10` have nothing in common.

use std::fmt;

/// From the first version that belongs to it up to the first one that no longer does.
///
/// `2.1` means all of 2.1, that is for 2.1.0 as well as for 2.1.7; so do `=2.1` and `<=2.1`, and `>2.1` begins at 2.2.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VersionRange {
    /// As it was written.
    text: String,
    from: Vec<u64>,
    /// `None`: there is no end.
    to: Option<Vec<u64>>,
    /// Parts that are left out, each from its first version up to the first one that no longer belongs to it.
    without: Vec<(Vec<u64>, Vec<u64>)>,
    /// `rc1` of `2.1.2rc1`.
    suffix: Option<String>,
    /// `cu118` of `2.1.0+cu118`.
    local: Option<String>,
}

impl VersionRange {
    /// Reads `2.1`, `v2.1`, `=2.1.0`, `>=2.1, <3` with commas or blanks, `~=2.1` and `^2.1` (at least 2.1, and below 3), `2.1.*`, `2.1.x`,
    /// `!=2.0`, `2.1.2rc1` (that preview alone), or `*` for any version. [`Self::local`] is what follows a `+`.
    ///
    /// # Errors
    /// For anything else, and for ranges in which there is no version.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut range = Self {
            text: text.trim().to_owned(),
            from: Vec::new(),
            to: None,
            without: Vec::new(),
            suffix: None,
            local: None,
        };
        for part in parts(text) {
            range.narrow(&part).ok_or_else(|| {
                format!("{text:?} is not a range of versions such as `2.1` or `>=2.1, <3`")
            })?;
        }
        match &range.to {
            Some(to) if range.from >= *to => Err(format!("no version lies in the range {text:?}")),
            _ => Ok(range),
        }
    }

    /// Says whether every version of `other` belongs to this range. What follows a `+` does not count.
    #[must_use]
    pub fn holds(&self, other: &Self) -> bool {
        let begins = self.from <= other.from;
        let ends_before = |end: &Vec<u64>| other.to.as_ref().is_some_and(|to| to <= end);
        let ends = self.to.as_ref().is_none_or(ends_before);
        let is_left_out =
            |(from, to): &(Vec<u64>, Vec<u64>)| other.from < *to && !ends_before(from);
        let same_suffix = self.suffix.is_none() || self.suffix == other.suffix;
        begins && ends && same_suffix && !self.without.iter().any(is_left_out)
    }

    /// What follows the `+` of a version and distinguishes its builds: `cu118`.
    #[must_use]
    pub fn local(&self) -> Option<&str> {
        self.local.as_deref()
    }

    /// Takes one part of a range into account; `None`: it is none.
    fn narrow(&mut self, part: &str) -> Option<()> {
        if part == "*" {
            return Some(());
        }
        let (operator, version) = part.split_at(part.find(|c: char| !OPERATORS.contains(c))?);
        let (numbers, suffix, local) = version_of(version)?;
        if suffix.is_some() && !["", "=", "=="].contains(&operator) {
            return None;
        }
        self.suffix = self.suffix.take().or(suffix);
        self.local = self.local.take().or(local);
        let (from, to) = match operator {
            "" | "=" | "==" | "~" => (numbers.clone(), Some(next(&numbers)?)),
            ">=" => (numbers, None),
            ">" => (next(&numbers)?, None),
            "<" => (Vec::new(), Some(trimmed(numbers))),
            "<=" => (Vec::new(), Some(next(&numbers)?)),
            "~=" if numbers.len() > 1 => {
                (numbers.clone(), Some(next(&numbers[..numbers.len() - 1])?))
            }
            "^" => {
                let fixed = numbers
                    .iter()
                    .position(|number| *number > 0)
                    .unwrap_or(numbers.len() - 1);
                let to = next(&numbers[..=fixed])?;
                (numbers, Some(to))
            }
            "!=" => {
                let to = next(&numbers)?;
                self.without.push((trimmed(numbers), to));
                return Some(());
            }
            _ => return None,
        };
        let from = std::mem::take(&mut self.from).max(trimmed(from));
        self.from = from;
        self.to = [self.to.take(), to].into_iter().flatten().min();
        Some(())
    }
}

impl fmt::Display for VersionRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// What operators are written with.
const OPERATORS: &str = "<>=~!^";

/// The parts between commas and blanks; a blank behind an operator divides nothing.
fn parts(text: &str) -> Vec<String> {
    let mut parts = Vec::new();
    for piece in text.split(',') {
        let mut part = String::new();
        for word in piece.split_whitespace() {
            if part.ends_with(|c: char| !OPERATORS.contains(c)) {
                parts.push(std::mem::take(&mut part));
            }
            part.push_str(word);
        }
        parts.push(part);
    }
    parts
}

/// The first version that no longer begins with these numbers.
fn next(numbers: &[u64]) -> Option<Vec<u64>> {
    let (last, before) = numbers.split_last()?;
    Some(trimmed([before, &[last.checked_add(1)?]].concat()))
}

/// 2.1 and 2.1.0 are the same; without zeros at the end lists of numbers compare as versions do.
fn trimmed(mut numbers: Vec<u64>) -> Vec<u64> {
    while numbers.last() == Some(&0) {
        numbers.pop();
    }
    numbers
}

/// Numbers, suffix and what follows the `+`: of `2.1.0rc1+cu118`, `2.1.*` or `v2.x`; one to eight numbers.
fn version_of(text: &str) -> Option<(Vec<u64>, Option<String>, Option<String>)> {
    let (public, local) = match text.split_once('+') {
        Some((public, local)) => (
            public,
            Some(local)
                .filter(|local| !local.is_empty())?
                .to_lowercase()
                .into(),
        ),
        None => (text, None),
    };
    let public = public.strip_prefix(['v', 'V']).unwrap_or(public);
    let plain = [".*", ".x", ".X"]
        .into_iter()
        .find_map(|any| public.strip_suffix(any));
    let (numbers, rest) = leading_numbers(plain.unwrap_or(public));
    let suffix = match rest {
        "" => None,
        _ if plain.is_some() => return None,
        rest => Some(suffix(rest)?),
    };
    let numbers: Option<Vec<u64>> = numbers.split('.').map(|part| part.parse().ok()).collect();
    numbers
        .filter(|numbers| numbers.len() <= 8)
        .map(|numbers| (numbers, suffix, local))
}

/// `2.4.0` and `a0` of `2.4.0a0`: numbers with dots between them, and what follows.
fn leading_numbers(text: &str) -> (&str, &str) {
    let mut end = 0;
    for part in text.split('.') {
        let start = if end == 0 { 0 } else { end + 1 };
        let digits = part.bytes().take_while(u8::is_ascii_digit).count();
        if digits == 0 {
            break;
        }
        end = start + digits;
        if digits < part.len() {
            break;
        }
    }
    text.split_at(end)
}

/// What follows the numbers of a version, in the one spelling of PEP 440: `rc1` of `rc1`, `-RC.1` and `c1`. `None`: another
/// text.
fn suffix(text: &str) -> Option<String> {
    let separators = ['.', '-', '_'];
    let text = text.trim_start_matches(separators).to_lowercase();
    let letters = text
        .find(|c: char| !c.is_ascii_alphabetic())
        .unwrap_or(text.len());
    let kind = match &text[..letters] {
        "a" | "alpha" => "a",
        "b" | "beta" => "b",
        "rc" | "c" | "pre" | "preview" => "rc",
        "dev" => "dev",
        "post" | "rev" | "r" => "post",
        _ => return None,
    };
    let number = text[letters..].trim_start_matches(separators);
    let number = if number.is_empty() {
        0
    } else {
        number.parse::<u64>().ok()?
    };
    Some(format!("{kind}{number}"))
}

/// The numbers that a version begins with, and the suffix behind them in one spelling, where it has one: of
/// `2.15.0-rc.1+cu118` they are `2.15.0` and `rc1`. What else follows is passed over.
#[must_use]
pub fn release(version: &str) -> (&str, Option<String>) {
    let (numbers, rest) = leading_numbers(version.split('+').next().unwrap_or_default());
    (numbers, suffix(rest))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn range(text: &str) -> VersionRange {
        VersionRange::parse(text).expect(text)
    }

    #[test]
    fn a_version_is_compared_by_its_numbers_and_not_by_its_text() {
        for (wanted, version) in [
            ("2.1", "2.1"),
            ("2.1", "2.1.7"),
            ("2.1.*", "2.1.0"),
            (">=2.1, <3", "2.10"),
            (">=2.1,<3", "2.1"),
            ("<=2.1", "2.1.9"),
            (">2.1", "2.2"),
            ("~=2.1", "2.9.1"),
            ("= 2", "2.14.0+cu118"),
            ("2", "2.1"),
            ("*", "0"),
            (">=2", ">=2.1, <3"),
            ("v2.1", "2.1.3"),
            (">=v2.1", "2.2"),
            ("2.1.x", "2.1.9"),
            ("2.x", "2.10"),
            (">=2.1 <3", "2.5"),
            (">= 2.1 < 3", "2.5"),
            ("!=2.0", "2.1"),
            (">=2, !=2.3.*", "2.4.0"),
            ("2.1.2rc1", "2.1.2-rc.1"),
            ("==2.1.0b2", "2.1.0beta2"),
            ("2.1", "2.1.2rc1"),
            ("^2.1", "2.9"),
            ("^0.4.1", "0.4.30"),
        ] {
            assert!(
                range(wanted).holds(&range(version)),
                "{version} is in {wanted}"
            );
        }
        for (wanted, version) in [
            ("2.1", "2.10"),
            ("2.10", "2.1"),
            ("2.1", "12.1"),
            (">=2.1, <3", "3.0"),
            (">=2.1, <3", "2.0.9"),
            (">2.1", "2.1.9"),
            ("<2.1", "2.1.0"),
            ("~=2.1", "3"),
            ("~=2.1.3", "2.2"),
            // Some of 2.1 is older.
            (">=2.1.3", "2.1"),
            ("<3", ">=2.1"),
            (">=2.1 <3", "3.0"),
            ("^2.1", "3.0"),
            ("^0.4.1", "0.5"),
            ("!=2.0", "2.0.1"),
            ("!=2.0", ">=1.9, <2.1"),
            (">=2, !=2.3", "2.3.1"),
            ("2.1.2rc1", "2.1.2"),
            ("2.1.2rc1", "2.1.2rc2"),
        ] {
            assert!(
                !range(wanted).holds(&range(version)),
                "{version} is not in {wanted}"
            );
        }
    }

    #[test]
    fn what_is_no_range_is_refused() {
        for text in [
            "",
            "two",
            "latest",
            "2.1+",
            ">=2.1rc1",
            "2.1.*rc1",
            "2.1foo",
            "v",
            "x",
            ">=2.1 and <3",
            "2..1",
            ".1",
            "-1",
            ">=",
            "~=2",
            "2.1,",
            "*.1",
            "99999999999999999999",
        ] {
            assert!(VersionRange::parse(text).is_err(), "{text}");
        }
        for text in [">=3, <2", ">2.1, <2.2", "2.1, 2.2"] {
            assert!(
                VersionRange::parse(text).is_err_and(|why| why.starts_with("no version")),
                "{text}"
            );
        }
    }

    #[test]
    fn what_stands_behind_the_plus_is_kept() {
        assert_eq!(range("==2.1.0+CU118").local(), Some("cu118"));
        assert_eq!(range("2.1.0").local(), None);
        assert!(range("2.1.0+cu118").holds(&range("2.1.0")));
    }

    fn version() -> impl Strategy<Value = Vec<u64>> {
        proptest::collection::vec(0..12_u64, 1..4)
    }

    fn shown(version: &[u64]) -> String {
        version
            .iter()
            .map(u64::to_string)
            .collect::<Vec<_>>()
            .join(".")
    }

    proptest! {
        #[test]
        fn a_range_holds_what_lies_between_its_ends(low in version(), high in version(), other in version()) {
            // Full length, so that a version stands for itself alone.
            let full = |version: &[u64]| [version, &vec![0; 4 - version.len()]].concat();
            let (low, high, other) = (full(&low), full(&high), full(&other));
            let text = format!(">={}, <{}", shown(&low), shown(&high));
            match VersionRange::parse(&text) {
                Ok(range) => prop_assert_eq!(
                    range.holds(&VersionRange::parse(&shown(&other)).expect("a version")),
                    low <= other && other < high
                ),
                Err(_) => prop_assert!(low >= high),
            }
        }

        #[test]
        fn no_text_panics(text in ".{0,40}") {
            let _ = VersionRange::parse(&text);
        }
    }
}
