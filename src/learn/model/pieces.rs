//! What lies behind a model's front, piece by piece: each is read when a forecast needs it.

use std::borrow::Cow;
use std::fmt::Debug;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// Gives pieces of what lies behind a model's front.
pub trait Pieces: Debug + Send + Sync {
    /// `length` bytes from `from` on, counted from the end of the front; `None`: they cannot be read.
    fn piece(&self, from: u64, length: usize) -> Option<Vec<u8>>;
}

/// Where a piece lies behind the front, with its CRC-32.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Place {
    pub(super) from: u64,
    pub(super) length: usize,
    pub(super) crc32: u32,
}

/// What lies behind the front.
#[derive(Debug, Clone)]
pub(super) enum Back {
    /// In memory, one run of pieces after the other.
    Here(Vec<Arc<Vec<u8>>>),
    Elsewhere(Arc<dyn Pieces>, u64),
}

impl Back {
    pub(super) fn bytes(&self) -> u64 {
        match self {
            Self::Here(runs) => runs.iter().map(|run| run.len() as u64).sum(),
            Self::Elsewhere(_, bytes) => *bytes,
        }
    }

    /// A piece; `None`: it cannot be read, or is damaged.
    pub(super) fn piece(&self, place: Place) -> Option<Cow<'_, [u8]>> {
        let end = place
            .from
            .checked_add(place.length as u64)
            .filter(|end| *end <= self.bytes())?;
        let bytes = match self {
            Self::Here(runs) => {
                let mut begin = 0_u64;
                let run = runs.iter().find(|run| {
                    let is_it = end <= begin + run.len() as u64;
                    begin += if is_it { 0 } else { run.len() as u64 };
                    is_it
                })?;
                let from = usize::try_from(place.from.checked_sub(begin)?).ok()?;
                Cow::Borrowed(run.get(from..from + place.length)?)
            }
            Self::Elsewhere(pieces, _) => Cow::Owned(
                pieces
                    .piece(place.from, place.length)
                    .filter(|bytes| bytes.len() == place.length)?,
            ),
        };
        (crc32fast::hash(&bytes) == place.crc32).then_some(bytes)
    }
}
