//! One run as the model sees it.

use serde::{Deserialize, Serialize};

use crate::job::{RunId, SchedulerKind};
use crate::record::Situation;

/// A length of time, in seconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Length {
    /// It was seen to its end.
    Known(f64),
    /// It was cut off: it is longer than this (right-censored).
    AtLeast(f64),
}

impl Length {
    /// The seconds, seen to the end or not.
    #[must_use]
    pub fn seconds(self) -> f64 {
        match self {
            Self::Known(seconds) | Self::AtLeast(seconds) => seconds,
        }
    }

    /// The seconds, where they were seen to the end.
    #[must_use]
    pub fn known(self) -> Option<f64> {
        match self {
            Self::Known(seconds) => Some(seconds),
            Self::AtLeast(_) => None,
        }
    }
}

/// What makes a measurement less trustworthy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Default)]
pub struct Doubts {
    /// Others kept CPUs of the node busy.
    pub others_busy: bool,
    /// A CPU quota, heat or a power limit held it down.
    pub throttled: bool,
    /// It was resumed or requeued: its epochs began to count again.
    pub resumed: bool,
    /// Its series has holes, or its watcher was cut off.
    pub incomplete: bool,
    /// Its only epoch was the first, with what a start takes.
    pub warm_up: bool,
}

impl Doubts {
    /// Whether the node's other work is all that speaks against it.
    pub(in crate::learn) fn is_disturbed_only(self) -> bool {
        let own = self.resumed || self.incomplete || self.warm_up;
        self.any() && !own
    }

    /// Whether there is any.
    #[must_use]
    pub fn any(self) -> bool {
        self.bits() != 0
    }

    /// One bit for each doubt, lowest first, so that those of several runs can be put together.
    pub(in crate::learn) fn bits(self) -> u32 {
        let Self {
            others_busy,
            throttled,
            resumed,
            incomplete,
            warm_up,
        } = self;
        let flags = [others_busy, throttled, resumed, incomplete, warm_up];
        flags
            .into_iter()
            .rev()
            .fold(0, |bits, flag| 2 * bits + u32::from(flag))
    }

    /// The doubts of such bits as text; unknown ones are skipped.
    pub(in crate::learn) fn texts(bits: u32) -> Vec<String> {
        let words = [
            "others kept the node busy",
            "a quota, heat or a power limit held it down",
            "it was resumed",
            "its record has holes",
            "it showed no epoch but the first",
        ];
        let named = words
            .iter()
            .enumerate()
            .filter(|(at, _)| bits & (1 << at) != 0);
        named.map(|(_, word)| (*word).to_owned()).collect()
    }
}

/// One start of one run, or of one element of an array.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Observation {
    /// The run.
    pub run_id: RunId,
    /// Index in the job array; 0 without one.
    pub element: u32,
    /// 0 for the first start.
    pub attempt: u32,
    /// When it was handed over, in Unix milliseconds UTC.
    pub at_ms: u64,
    /// Who had it.
    pub scheduler: SchedulerKind,
    /// The queue that it waited in.
    pub queue: Option<String>,
    /// What it was.
    pub situation: Situation,
    /// A steady epoch: the median of those after the first of a start, without evaluation and checkpoints. Of a run that was
    /// cut off before its second epoch ended, what it had run into it at least; of one that got through with one epoch, that one.
    pub epoch_seconds: Option<Length>,
    /// Steady epochs behind it.
    pub epochs: u32,
    /// What each epoch took beside its training, in seconds: evaluation, checkpoints, pauses; `None` where no clock shows it.
    pub between_seconds: Option<f64>,
    /// What does not go by epochs: start-up, by how much the first epoch was longer, the end; where the above is not known that
    /// too. Of a run that was cut off what had passed of it.
    pub outside_seconds: Option<Length>,
    /// The whole run; cut off where it was cancelled, timed out, or lost its node.
    pub wall_seconds: Option<Length>,
    /// Largest main memory of a node, in bytes.
    pub memory_bytes: Option<u64>,
    /// What speaks against it.
    pub doubts: Doubts,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_doubt_has_a_bit_and_words_of_its_own() {
        let none = Doubts::default();
        let each = [
            (
                Doubts {
                    others_busy: true,
                    ..none
                },
                "busy",
            ),
            (
                Doubts {
                    throttled: true,
                    ..none
                },
                "quota",
            ),
            (
                Doubts {
                    resumed: true,
                    ..none
                },
                "resumed",
            ),
            (
                Doubts {
                    incomplete: true,
                    ..none
                },
                "holes",
            ),
            (
                Doubts {
                    warm_up: true,
                    ..none
                },
                "first",
            ),
        ];
        for (at, (doubts, word)) in each.into_iter().enumerate() {
            assert_eq!((doubts.any(), doubts.bits()), (true, 1 << at));
            let words = Doubts::texts(doubts.bits());
            assert!(words.len() == 1 && words[0].contains(word), "{words:?}");
        }
        let all = each
            .iter()
            .fold(0, |bits, (doubts, _)| bits | doubts.bits());
        assert_eq!(
            (
                Doubts::texts(all).len(),
                none.any(),
                Doubts::texts(1 << 20).len()
            ),
            (5, false, 0)
        );
    }
}
