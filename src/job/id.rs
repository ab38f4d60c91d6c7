//! Names of runs and jobs.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Letters and digits without look-alikes (no `i`, `l`, `o`, `u`, as in Crockford's base 32).
const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";

/// dlrun's own name of one submission: 80 random bits as 16 letters and digits.
///
/// Shown and typed as the shortest unique prefix, of at least [`RunId::MIN_PREFIX`] characters. It carries no order;
/// order comes from the time of submission.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct RunId(String);

/// Text that is no [`RunId`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a run id (16 letters and digits)")]
pub struct RunIdError(String);

impl RunId {
    /// Characters in a whole id.
    pub const LEN: usize = 16;
    /// The shortest prefix that is taken for an id.
    pub const MIN_PREFIX: usize = 4;

    /// Makes an id of 80 random bits, which the caller draws: this module knows no randomness.
    #[must_use]
    pub fn from_random(bits: [u8; 10]) -> Self {
        let mut wide = [0_u8; 16];
        wide[6..].copy_from_slice(&bits);
        let number = u128::from_be_bytes(wide);
        let letter = |place: usize| {
            let five_bits = (number >> (5 * (Self::LEN - 1 - place))) & 31;
            char::from(ALPHABET[usize::try_from(five_bits).expect("five bits fit")])
        };
        Self((0..Self::LEN).map(letter).collect())
    }

    /// The id as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Says whether `text` could be the beginning of a run id.
    #[must_use]
    pub fn is_prefix(text: &str) -> bool {
        (Self::MIN_PREFIX..=Self::LEN).contains(&text.len()) && text.bytes().all(|b| ALPHABET.contains(&b))
    }
}

impl FromStr for RunId {
    type Err = RunIdError;

    fn from_str(text: &str) -> Result<Self, RunIdError> {
        if text.len() == Self::LEN && Self::is_prefix(text) {
            Ok(Self(text.to_owned()))
        } else {
            Err(RunIdError(text.chars().take(40).collect()))
        }
    }
}

impl TryFrom<String> for RunId {
    type Error = RunIdError;

    fn try_from(text: String) -> Result<Self, RunIdError> {
        text.parse()
    }
}

impl From<RunId> for String {
    fn from(id: RunId) -> Self {
        id.0
    }
}

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The scheduler's own name of a job (`4711`, `134.server`, `L3`): opaque text.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct JobId(
    /// The text as the scheduler printed it.
    pub String,
);

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The longest job name, in bytes: it is part of file names, which end at 255.
const MAX_NAME: usize = 100;

/// Says why `name` cannot name a job, or `None` where it can.
///
/// A name stands in a scheduler's directive line and in file names: letters, digits and `. _ + -`, and it begins with a
/// letter or digit. `:` is PBS's separator, `%` Slurm's pattern character, blanks end a directive.
#[must_use]
pub fn name_problem(name: &str) -> Option<String> {
    if name.is_empty() {
        return Some("must not be empty".to_owned());
    }
    if name.len() > MAX_NAME {
        return Some(format!("is {} bytes long; {MAX_NAME} is the limit", name.len()));
    }
    if let Some(bad) = name.chars().find(|c| !(c.is_alphanumeric() || "._+-".contains(*c))) {
        return Some(format!("must not contain {bad:?}; letters, digits and `._+-` are allowed"));
    }
    (!name.starts_with(char::is_alphanumeric)).then(|| "must begin with a letter or a digit".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn run_id_uses_all_eighty_bits() {
        assert_eq!(RunId::from_random([0; 10]).as_str(), "0000000000000000");
        assert_eq!(RunId::from_random([255; 10]).as_str(), "zzzzzzzzzzzzzzzz");
        assert_eq!(RunId::from_random([0, 0, 0, 0, 0, 0, 0, 0, 0, 1]).as_str(), "0000000000000001");
        assert_eq!(RunId::from_random([128, 0, 0, 0, 0, 0, 0, 0, 0, 0]).as_str(), "g000000000000000");
    }

    #[test]
    fn run_id_refuses_other_text() {
        for text in
            ["", "abcd", "../../etc/passwd", "ilouilouilouilou", "0000000000000000x", "ABCDEFGHJKMNPQRS"]
        {
            assert!(text.parse::<RunId>().is_err(), "{text}");
        }
        assert!(RunId::is_prefix("abcd") && !RunId::is_prefix("abc") && !RunId::is_prefix("mnist-"));
    }

    #[test]
    fn names_that_could_break_a_directive_or_a_path_are_refused() {
        for name in ["", "a\nb", "../x", "a/b", "a b", "-x", ".x", "a%j", "a:b", "a\u{7}", &"x".repeat(101)] {
            assert!(name_problem(name).is_some(), "{name:?}");
        }
        for name in ["mnist-cnn", "résumé_v2", "3d.unet+aug"] {
            assert_eq!(name_problem(name), None, "{name}");
        }
    }
}
