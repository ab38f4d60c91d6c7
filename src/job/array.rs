//! Indexes of a job array: `0-99%8`, `1,3,5-9:2`.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Elements that one array may have; more is a typing error, and no scheduler takes them.
pub const MAX_ELEMENTS: u64 = 1_000_000;

/// Indexes from `first` to `last`, every `step`-th.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IndexRange {
    /// The first index.
    pub first: u32,
    /// The last index, not less than the first.
    pub last: u32,
    /// Distance between two, at least 1.
    pub step: u32,
}

impl IndexRange {
    /// Its indexes.
    pub fn indexes(self) -> impl Iterator<Item = u32> {
        (self.first..=self.last).step_by(usize::try_from(self.step).unwrap_or(usize::MAX))
    }

    fn count(self) -> u64 {
        u64::from((self.last - self.first) / self.step) + 1
    }
}

/// The indexes of an array, in rising order and each once, and how many elements may run at a time.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ArraySpec {
    ranges: Vec<IndexRange>,
    /// How many elements may run at a time; `None`: any number.
    pub limit: Option<u32>,
}

impl ArraySpec {
    /// Reads `0-99`, `0-99%8`, `1,3,7`, `0-15:4`, in any order.
    ///
    /// # Errors
    /// A fragment that ends a sentence such as "`array`: ...": for anything else, an index that occurs twice, and more than [`MAX_ELEMENTS`] elements.
    pub fn parse(text: &str) -> Result<Self, String> {
        let bad = |what: &str| format!("`{text}` {what}; write `0-99`, `0-99%8` or `1,3,5-9:2`");
        let (indexes, limit) = match text.split_once('%') {
            Some((indexes, limit)) => (indexes, Some(limit)),
            None => (text, None),
        };
        let limit = match limit.map(str::parse::<u32>) {
            Some(Ok(limit)) if limit > 0 => Some(limit),
            Some(_) => return Err(bad("has no usable number behind `%`")),
            None => None,
        };
        let mut ranges = Vec::new();
        for part in indexes.split(',') {
            ranges.push(range(part.trim()).ok_or_else(|| bad("is not a list of indexes"))?);
        }
        let count: u64 = ranges.iter().map(|range| range.count()).sum();
        if count > MAX_ELEMENTS {
            return Err(format!(
                "`{text}` has {count} elements; {MAX_ELEMENTS} is the limit"
            ));
        }
        ranges.sort_unstable();
        let spec = Self { ranges, limit };
        let mut indexes: Vec<u32> = spec.indexes().collect();
        if indexes.is_sorted_by(|a, b| a < b) {
            return Ok(spec);
        }
        indexes.sort_unstable();
        match indexes.windows(2).find(|pair| pair[0] == pair[1]) {
            Some(pair) => Err(format!("`{text}` has the index {} twice", pair[0])),
            None => Ok(Self::of(&indexes, limit)),
        }
    }

    /// An array of these indexes, which must be in rising order.
    #[must_use]
    pub fn of(indexes: &[u32], limit: Option<u32>) -> Self {
        let mut ranges: Vec<IndexRange> = Vec::new();
        for index in indexes {
            match ranges.last_mut() {
                Some(range) if range.step == 1 && range.last + 1 == *index => range.last = *index,
                _ => ranges.push(IndexRange {
                    first: *index,
                    last: *index,
                    step: 1,
                }),
            }
        }
        Self { ranges, limit }
    }

    /// Its ranges, in rising order.
    #[must_use]
    pub fn ranges(&self) -> &[IndexRange] {
        &self.ranges
    }

    /// The one range that has the same indexes, where there is one: `1,3,5` are `1-5:2`.
    #[must_use]
    pub fn single_range(&self) -> Option<IndexRange> {
        if let [range] = self.ranges[..] {
            return Some(range);
        }
        let indexes: Vec<u32> = self.indexes().collect();
        let (first, last) = (*indexes.first()?, *indexes.last()?);
        let step = indexes.get(1)? - first;
        indexes
            .windows(2)
            .all(|pair| pair[1] - pair[0] == step)
            .then_some(IndexRange { first, last, step })
    }

    /// Its indexes, in rising order.
    pub fn indexes(&self) -> impl Iterator<Item = u32> + '_ {
        self.ranges.iter().flat_map(|range| range.indexes())
    }

    /// How many elements it has.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.ranges.iter().map(|range| range.count()).sum()
    }

    /// Says whether an index belongs to it.
    #[must_use]
    pub fn contains(&self, index: u32) -> bool {
        let holds = |range: &IndexRange| {
            (range.first..=range.last).contains(&index)
                && (index - range.first).is_multiple_of(range.step)
        };
        self.ranges.iter().any(holds)
    }
}

fn range(text: &str) -> Option<IndexRange> {
    let (span, step) = text.split_once(':').unwrap_or((text, "1"));
    let (first, last) = span.split_once('-').unwrap_or((span, span));
    let number = |text: &str| {
        text.bytes()
            .all(|b| b.is_ascii_digit())
            .then(|| text.parse().ok())?
    };
    let range = IndexRange {
        first: number(first)?,
        last: number(last)?,
        step: number(step)?,
    };
    let is_sound = range.first <= range.last && range.last < u32::MAX && range.step > 0;
    // One index has no step.
    let step = if range.first == range.last {
        1
    } else {
        range.step
    };
    is_sound.then_some(IndexRange { step, ..range })
}

impl fmt::Display for IndexRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { first, last, step } = self;
        match step {
            _ if first == last => write!(f, "{first}"),
            1 => write!(f, "{first}-{last}"),
            step => write!(f, "{first}-{last}:{step}"),
        }
    }
}

impl fmt::Display for ArraySpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ranges: Vec<String> = self.ranges.iter().map(ToString::to_string).collect();
        f.write_str(&ranges.join(","))?;
        self.limit.map_or(Ok(()), |limit| write!(f, "%{limit}"))
    }
}

impl TryFrom<String> for ArraySpec {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        Self::parse(&text)
    }
}

impl From<ArraySpec> for String {
    fn from(spec: ArraySpec) -> Self {
        spec.to_string()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn forms_are_read_and_written() {
        for (text, shown, count) in [
            ("0-99%8", "0-99%8", 100),
            ("1,3,5-9:2", "1,3,5-9:2", 5),
            ("7", "7", 1),
            ("0:2", "0", 1),
            ("5,1", "1,5", 2),
            ("0-6:2,1-7:2", "0-7", 8),
        ] {
            let spec = ArraySpec::parse(text).expect("valid");
            assert_eq!(
                (spec.to_string().as_str(), spec.count()),
                (shown, count),
                "{text}"
            );
        }
        assert!(ArraySpec::parse("5-9:2").is_ok_and(|spec| spec.contains(7) && !spec.contains(8)));
    }

    #[test]
    fn even_lists_are_one_range() {
        for (text, range) in [
            ("0-9", Some((0, 9, 1))),
            ("7", Some((7, 7, 1))),
            ("1,3,5", Some((1, 5, 2))),
        ] {
            let single = ArraySpec::parse(text).expect("valid").single_range();
            assert_eq!(
                single.map(|range| (range.first, range.last, range.step)),
                range,
                "{text}"
            );
        }
        assert_eq!(
            ArraySpec::parse("1,3,7").expect("valid").single_range(),
            None
        );
    }

    #[test]
    fn nonsense_is_refused() {
        for text in [
            "",
            "-",
            "1-",
            "-3",
            "3-1",
            "1,,2",
            "a",
            "0-9%",
            "0-9%0",
            "0-9:0",
            "1,1",
            "0-3,2",
            "+1",
            "0-4294967295",
        ] {
            assert!(ArraySpec::parse(text).is_err(), "{text}");
        }
        assert!(
            ArraySpec::parse("0-1000000")
                .expect_err("too many")
                .to_string()
                .contains("1000001 elements")
        );
    }

    proptest! {
        #[test]
        fn any_text_is_read_without_panic(text in "[0-9,:%-]{0,12}") {
            if let Ok(spec) = ArraySpec::parse(&text) {
                prop_assert_eq!(ArraySpec::parse(&spec.to_string()), Ok(spec));
            }
        }
    }
}
