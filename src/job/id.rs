//! Names of runs and jobs.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Letters and digits without look-alikes (no `i`, `l`, `o`, `u`, as in Crockford's base 32).
const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";

/// dlrun's own name of one submission: 80 random bits as 16 letters and digits, then 7 that say whose it is. Those before 0.2 have
/// the first 16 only.
///
/// Ids are public: schedulers show them to everybody. Whose a run is can therefore be read from its id, so that nobody can register
/// or hand in another user's run under it.
///
/// Shown and typed as the shortest unique prefix, of at least [`RunId::MIN_PREFIX`] characters. It carries no order;
/// order comes from the time of submission.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct RunId(String);

/// Text that is no [`RunId`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a run id (23 letters and digits, 16 before dlrun 0.2)")]
pub struct RunIdError(String);

impl RunId {
    /// Characters in a whole id.
    pub const LEN: usize = Self::RANDOM_LEN + 7;
    /// Those that are random.
    const RANDOM_LEN: usize = 16;
    /// The shortest prefix that is taken for an id.
    pub const MIN_PREFIX: usize = 4;

    /// Makes an id without an owner, as dlrun 0.1 did.
    #[must_use]
    pub fn from_random(bits: [u8; 10]) -> Self {
        let mut wide = [0_u8; 16];
        wide[6..].copy_from_slice(&bits);
        Self(letters(u128::from_be_bytes(wide), Self::RANDOM_LEN))
    }

    /// Makes an id of 80 random bits, which the caller draws: this module knows no randomness. `owner` is the user id that the kernel
    /// gives the run's processes.
    #[must_use]
    pub fn of_owner(bits: [u8; 10], owner: u32) -> Self {
        let random = Self::from_random(bits).0;
        let hidden = u128::from(owner) ^ mask(&random);
        Self(random + &letters(hidden, Self::LEN - Self::RANDOM_LEN))
    }

    /// The user id of whose run it is; `None` of an id of dlrun 0.1.
    #[must_use]
    pub fn owner(&self) -> Option<u32> {
        let (random, owner) = self
            .0
            .split_at_checked(Self::RANDOM_LEN)
            .filter(|(_, owner)| !owner.is_empty())?;
        u32::try_from(number(owner) ^ mask(random)).ok()
    }

    /// The id as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Says whether `text` could be the beginning of a run id.
    #[must_use]
    pub fn is_prefix(text: &str) -> bool {
        (Self::MIN_PREFIX..=Self::LEN).contains(&text.len())
            && text.bytes().all(|b| ALPHABET.contains(&b))
    }
}

/// The last `count` groups of five bits as letters.
fn letters(number: u128, count: usize) -> String {
    let letter = |place: usize| {
        let five_bits = (number >> (5 * (count - 1 - place))) & 31;
        char::from(ALPHABET[usize::try_from(five_bits).expect("five bits fit")])
    };
    (0..count).map(letter).collect()
}

/// [`letters`] read back.
fn number(letters: &str) -> u128 {
    let value = |letter: u8| {
        ALPHABET
            .iter()
            .position(|known| *known == letter)
            .unwrap_or(0) as u128
    };
    letters
        .bytes()
        .fold(0, |number, letter| number << 5 | value(letter))
}

/// What an owner's 35 bits differ by: without it the ids of one user would end alike, and look alike. The three highest bits,
/// which no user id has, show typing errors.
fn mask(random: &str) -> u128 {
    number(&random[RunId::RANDOM_LEN - 7..])
}

impl FromStr for RunId {
    type Err = RunIdError;

    fn from_str(text: &str) -> Result<Self, RunIdError> {
        let id = Self(text.to_owned());
        // Letters first: the owner is read from places in the text.
        let is_whole = Self::is_prefix(text)
            && (text.len() == Self::RANDOM_LEN || text.len() == Self::LEN && id.owner().is_some());
        if is_whole {
            Ok(id)
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
/// A name is written into a scheduler's directive line and in file names: letters, digits and `. _ + -`, and it begins with a
/// letter or digit. `:` is PBS's separator, `%` Slurm's pattern character, blanks end a directive.
#[must_use]
pub fn name_problem(name: &str) -> Option<String> {
    if name.is_empty() {
        return Some("must not be empty".to_owned());
    }
    if name.len() > MAX_NAME {
        return Some(format!(
            "is {} bytes long; {MAX_NAME} is the limit",
            name.len()
        ));
    }
    if let Some(bad) = name
        .chars()
        .find(|c| !(c.is_alphanumeric() || "._+-".contains(*c)))
    {
        return Some(format!(
            "must not contain {bad:?}; letters, digits and `._+-` are allowed"
        ));
    }
    (!name.starts_with(char::is_alphanumeric))
        .then(|| "must begin with a letter or a digit".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn run_id_uses_all_eighty_bits() {
        assert_eq!(RunId::from_random([0; 10]).as_str(), "0000000000000000");
        assert_eq!(RunId::from_random([255; 10]).as_str(), "zzzzzzzzzzzzzzzz");
        assert_eq!(
            RunId::from_random([0, 0, 0, 0, 0, 0, 0, 0, 0, 1]).as_str(),
            "0000000000000001"
        );
        assert_eq!(
            RunId::from_random([128, 0, 0, 0, 0, 0, 0, 0, 0, 0]).as_str(),
            "g000000000000000"
        );
    }

    #[test]
    fn run_id_says_whose_it_is_and_no_other_id_has_its_letters() {
        for owner in [0, 1000, 65_534, 1_234_567_890, u32::MAX] {
            let id = RunId::of_owner([7, 1, 255, 3, 99, 200, 5, 17, 0, 4], owner);
            assert_eq!((id.as_str().len(), id.owner()), (RunId::LEN, Some(owner)));
            assert_eq!(id.as_str().parse::<RunId>(), Ok(id.clone()));
            let first = RunId::from_random([7, 1, 255, 3, 99, 200, 5, 17, 0, 4]);
            assert_eq!((&id.as_str()[..16], first.owner()), (first.as_str(), None));
        }
        // The highest of its bits are no user id's.
        let id = RunId::of_owner([0; 10], 1000);
        assert!(
            format!("{}z{}", &id.as_str()[..16], &id.as_str()[17..])
                .parse::<RunId>()
                .is_err()
        );
    }

    #[test]
    fn run_id_refuses_other_text() {
        for text in [
            "",
            "abcd",
            "abcdefgh\u{e9}aaaaaaaaaaaaa",
            "../../etc/passwd",
            "ilouilouilouilou",
            "0000000000000000x",
            "ABCDEFGHJKMNPQRS",
        ] {
            assert!(text.parse::<RunId>().is_err(), "{text}");
        }
        assert!(
            RunId::is_prefix("abcd") && !RunId::is_prefix("abc") && !RunId::is_prefix("mnist-")
        );
    }

    #[test]
    fn names_that_could_break_a_directive_or_a_path_are_refused() {
        for name in [
            "",
            "a\nb",
            "../x",
            "a/b",
            "a b",
            "-x",
            ".x",
            "a%j",
            "a:b",
            "a\u{7}",
            &"x".repeat(101),
        ] {
            assert!(name_problem(name).is_some(), "{name:?}");
        }
        for name in ["mnist-cnn", "résumé_v2", "3d.unet+aug"] {
            assert_eq!(name_problem(name), None, "{name}");
        }
    }
}
