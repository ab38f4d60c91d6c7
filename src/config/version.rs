//! Ranges of dotted versions, compared number by number: `2.1` and `2.10` have nothing in common.

use std::cmp::Ordering;
use std::fmt;

/// From the first version that belongs to it up to the first one that no longer does.
///
/// `2.1` stands for all of 2.1, that is for 2.1.0 as well as for 2.1.7; so do `=2.1` and `<=2.1`, and `>2.1` begins at 2.2.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VersionRange {
    /// As it was written.
    text: String,
    from: Vec<u64>,
    /// `None`: there is no end.
    to: Option<Vec<u64>>,
}

impl VersionRange {
    /// Reads `2.1`, `=2.1.0`, `>=2.1, <3`, `~=2.1` (at least 2.1, and below 3), `2.1.*`, or `*` for any version. What stands
    /// behind a `+` (`2.1.0+cu118`) does not count.
    ///
    /// # Errors
    /// For anything else, and for ranges in which there is no version.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut range = Self { text: text.trim().to_owned(), from: Vec::new(), to: None };
        for part in text.split(',') {
            let (from, to) = bounds(part.trim())
                .ok_or_else(|| format!("{text:?} is no range of versions such as `2.1` or `>=2.1, <3`"))?;
            if compare(&from, &range.from) == Ordering::Greater {
                range.from = from;
            }
            range.to = earlier(range.to, to);
        }
        match &range.to {
            Some(to) if compare(&range.from, to) != Ordering::Less => {
                Err(format!("no version lies in the range {text:?}"))
            }
            _ => Ok(range),
        }
    }

    /// Says whether every version of `other` belongs to this range.
    #[must_use]
    pub fn holds(&self, other: &Self) -> bool {
        let begins = compare(&self.from, &other.from) != Ordering::Greater;
        let ends = match (&self.to, &other.to) {
            (None, _) => true,
            (Some(_), None) => false,
            (Some(own), Some(other)) => compare(other, own) != Ordering::Greater,
        };
        begins && ends
    }
}

impl fmt::Display for VersionRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

type Bounds = (Vec<u64>, Option<Vec<u64>>);

/// Begin and end of one part of a range.
fn bounds(part: &str) -> Option<Bounds> {
    if part == "*" {
        return Some((Vec::new(), None));
    }
    let split = part.find(|c: char| !"<>=~".contains(c))?;
    let (operator, version) = (&part[..split], part[split..].trim());
    let numbers = numbers(version)?;
    let next = |numbers: &[u64]| {
        let (last, before) = numbers.split_last()?;
        Some([before, &[last.checked_add(1)?]].concat())
    };
    match operator {
        "" | "=" | "==" | "~" => Some((numbers.clone(), Some(next(&numbers)?))),
        ">=" => Some((numbers, None)),
        ">" => Some((next(&numbers)?, None)),
        "<" => Some((Vec::new(), Some(numbers))),
        "<=" => Some((Vec::new(), Some(next(&numbers)?))),
        "~=" if numbers.len() > 1 => Some((numbers.clone(), Some(next(&numbers[..numbers.len() - 1])?))),
        _ => None,
    }
}

/// `2.1.0` or `2.1.*`, one to eight numbers.
fn numbers(version: &str) -> Option<Vec<u64>> {
    let public = version.split('+').next().unwrap_or_default();
    let public = public.strip_suffix(".*").unwrap_or(public);
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    let numbers: Option<Vec<u64>> =
        public.split('.').map(|part| if is_number(part) { part.parse().ok() } else { None }).collect();
    numbers.filter(|numbers| numbers.len() <= 8)
}

/// 2.1 and 2.1.0 are the same.
fn compare(left: &[u64], right: &[u64]) -> Ordering {
    let at = |numbers: &[u64], place: usize| numbers.get(place).copied().unwrap_or(0);
    let mut places = 0..left.len().max(right.len());
    let order = |place| at(left, place).cmp(&at(right, place));
    places.find_map(|place| Some(order(place)).filter(|order| order.is_ne())).unwrap_or(Ordering::Equal)
}

fn earlier(left: Option<Vec<u64>>, right: Option<Vec<u64>>) -> Option<Vec<u64>> {
    match (left, right) {
        (Some(left), Some(right)) if compare(&right, &left) == Ordering::Less => Some(right),
        (Some(left), _) => Some(left),
        (None, right) => right,
    }
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
        ] {
            assert!(range(wanted).holds(&range(version)), "{version} is in {wanted}");
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
        ] {
            assert!(!range(wanted).holds(&range(version)), "{version} is not in {wanted}");
        }
    }

    #[test]
    fn what_is_no_range_is_refused() {
        for text in [
            "",
            "two",
            "2.1rc1",
            "!=2.1",
            "^2",
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
            assert!(VersionRange::parse(text).is_err_and(|why| why.starts_with("no version")), "{text}");
        }
    }

    fn version() -> impl Strategy<Value = Vec<u64>> {
        proptest::collection::vec(0..12_u64, 1..4)
    }

    fn shown(version: &[u64]) -> String {
        version.iter().map(u64::to_string).collect::<Vec<_>>().join(".")
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
