//! One start of a run, and the name of its directory.

use crate::job::RunId;
use crate::record::MeasureKey;

/// One start of a run: the first, or one after a requeue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Attempt {
    /// The array index, 0 where there is no array.
    pub element: u32,
    /// 0 for the first start, 1 after the first requeue.
    pub attempt: u32,
}

impl Attempt {
    /// The attempt that a measurement is of.
    #[must_use]
    pub fn from_key(key: &MeasureKey) -> Self {
        let (element, attempt) = (key.element, key.attempt);
        Self { element, attempt }
    }

    /// The key of a measurement of this attempt.
    pub(super) fn key(self, run_id: &RunId, node: &str, step: u32) -> MeasureKey {
        MeasureKey {
            run_id: run_id.clone(),
            element: self.element,
            attempt: self.attempt,
            node: node.to_owned(),
            step,
        }
    }

    /// The name of its directory, such as `0.1`; the batch script builds the same.
    #[must_use]
    pub fn dir_name(self) -> String {
        format!("{}.{}", self.element, self.attempt)
    }

    /// Reads [`Attempt::dir_name`] back.
    #[must_use]
    pub fn from_dir_name(name: &str) -> Option<Self> {
        let (element, attempt) = name.split_once('.')?;
        Some(Self {
            element: plain_number(element)?,
            attempt: plain_number(attempt)?,
        })
    }
}

/// A number as we write it: digits only and no leading zero, so that no two names mean the same.
pub(super) fn plain_number(text: &str) -> Option<u32> {
    let number: u32 = text.parse().ok()?;
    (number.to_string() == text).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directory_names_are_read_back_and_only_they() {
        let attempt = Attempt {
            element: 17,
            attempt: 2,
        };
        assert_eq!(Attempt::from_dir_name(&attempt.dir_name()), Some(attempt));
        for name in [
            "",
            "0",
            "0.",
            ".0",
            "0.0.0",
            "00.0",
            "0.01",
            "+1.0",
            "-1.0",
            "0.x",
            "4294967296.0",
        ] {
            assert_eq!(Attempt::from_dir_name(name), None, "{name}");
        }
    }
}
