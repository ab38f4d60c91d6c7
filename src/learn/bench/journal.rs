//! What has been run of a matrix: a head, and a journal of one JSON object a line to which is only added. A line is written
//! before its job is submitted, so that a command that is killed at any point knows afterwards which jobs may exist.

use std::collections::BTreeMap;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::measured::Measured;
use super::order::Slot;
use crate::job::{RunId, SchedulerKind};

/// How often a run that fails is tried.
const TRIES: usize = 2;
/// Starts of a run of the matrix, whatever ended them.
const MOST_STARTS: usize = 20;

/// What a matrix was when it was begun.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Header {
    /// Version of this form, 1.
    pub format: u32,
    /// The name of the matrix.
    pub name: String,
    /// The matrix file, absolute.
    pub file: String,
    /// When it was begun, in Unix milliseconds UTC.
    pub began_at_ms: u64,
    /// The scheduler that has its jobs.
    pub scheduler: SchedulerKind,
    /// How often each cell is to run, by the last command.
    pub repeats: u32,
}

impl Header {
    /// The version that this dlrun writes.
    pub const FORMAT: u32 = 1;
}

/// What a run of a matrix or a trial of a sweep came to.
pub trait Settled {
    /// Why it counts for nothing, if it does.
    fn failure(&self) -> Option<&str>;

    /// Whether a failure may have had nothing to do with what ran.
    fn may_be_tried_again(&self) -> bool {
        true
    }

    /// Whether it counts as a try: one whose job was ended for another's sake does not.
    fn is_try(&self) -> bool {
        true
    }

    /// Whether it says something of what ran, be it that it fails.
    fn counts(&self) -> bool {
        true
    }
}

impl Settled for Measured {
    fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }
}

/// A line of the journal. `M`: what a run came to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "what", rename_all = "snake_case")]
pub enum Entry<M = Measured> {
    /// A job is about to be handed over.
    Begun {
        /// When, in Unix milliseconds UTC.
        at_ms: u64,
        /// Which run of the matrix.
        #[serde(flatten)]
        slot: Slot,
        /// The run that it becomes.
        run_id: RunId,
    },
    /// It was not handed over after all.
    Withdrawn {
        /// The run.
        run_id: RunId,
    },
    /// It is over.
    Over {
        /// When that was seen, in Unix milliseconds UTC.
        at_ms: u64,
        /// The run.
        run_id: RunId,
        /// What it measured.
        measured: Box<M>,
    },
}

/// One start of a run of the matrix.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Try<M = Measured> {
    /// The run.
    pub run_id: RunId,
    /// When it was begun, in Unix milliseconds UTC.
    pub begun_at_ms: u64,
    /// When its end was seen, likewise; `None` while it is still running.
    pub over_at_ms: Option<u64>,
    /// What it measured; `None` while it is still running.
    pub measured: Option<M>,
}

/// All that a journal holds.
#[derive(Debug, Clone, PartialEq)]
pub struct Journal<M = Measured> {
    tries: BTreeMap<Slot, Vec<Try<M>>>,
    slots: BTreeMap<RunId, Slot>,
}

impl<M> Default for Journal<M> {
    fn default() -> Self {
        Self {
            tries: BTreeMap::new(),
            slots: BTreeMap::new(),
        }
    }
}

/// What follows from the lines of a journal.
pub trait Lines: Default {
    /// A line.
    type Line: Serialize + DeserializeOwned;

    /// Runs that were begun and are not over.
    fn open_runs(&self) -> Vec<RunId>;

    /// Takes a line in.
    fn add(&mut self, line: Self::Line);

    /// Reads a journal; also how many lines could not be read: the last one may have been cut off.
    #[must_use]
    fn read(text: &str) -> (Self, usize) {
        let (mut lines, mut unread) = (Self::default(), 0);
        for line in text.lines().filter(|line| !line.trim().is_empty()) {
            match serde_json::from_str(line) {
                Ok(line) => lines.add(line),
                Err(_) => unread += 1,
            }
        }
        (lines, unread)
    }
}

impl<M: Settled + Serialize + DeserializeOwned> Lines for Journal<M> {
    type Line = Entry<M>;

    fn open_runs(&self) -> Vec<RunId> {
        self.unfinished()
            .map(|(_, one)| one.run_id.clone())
            .collect()
    }

    fn add(&mut self, line: Entry<M>) {
        self.add(line);
    }
}

impl<M: Settled> Journal<M> {
    /// Takes a line in.
    pub fn add(&mut self, entry: Entry<M>) {
        match entry {
            Entry::Begun {
                at_ms,
                slot,
                run_id,
            } => {
                self.slots.insert(run_id.clone(), slot);
                self.tries.entry(slot).or_default().push(Try {
                    run_id,
                    begun_at_ms: at_ms,
                    over_at_ms: None,
                    measured: None,
                });
            }
            Entry::Withdrawn { run_id } => {
                let slot = self.slots.remove(&run_id);
                if let Some(tries) = slot.and_then(|slot| self.tries.get_mut(&slot)) {
                    tries.retain(|known| known.run_id != run_id);
                }
            }
            Entry::Over {
                at_ms,
                run_id,
                measured,
            } => {
                let slot = self.slots.get(&run_id);
                let tries = slot.and_then(|slot| self.tries.get_mut(slot));
                let mut tries = tries.into_iter().flatten();
                if let Some(known) = tries.find(|known| known.run_id == run_id) {
                    (known.over_at_ms, known.measured) = (Some(at_ms), Some(*measured));
                }
            }
        }
    }

    /// The starts of a run of the matrix, oldest first.
    #[must_use]
    pub fn tries(&self, slot: Slot) -> &[Try<M>] {
        self.tries.get(&slot).map_or(&[], Vec::as_slice)
    }

    /// The starts of all runs.
    pub fn starts(&self) -> impl Iterator<Item = (Slot, &Try<M>)> {
        let all = self.tries.iter();
        all.flat_map(|(slot, tries)| tries.iter().map(|one| (*slot, one)))
    }

    /// Those that are still running.
    pub fn unfinished(&self) -> impl Iterator<Item = (Slot, &Try<M>)> {
        self.starts().filter(|(_, one)| one.measured.is_none())
    }

    /// Says whether nothing is left to be done of a run of the matrix: it has a figure, or has failed often enough.
    #[must_use]
    pub fn is_done(&self, slot: Slot) -> bool {
        let tries = self.tries(slot);
        let measured = || tries.iter().filter_map(|one| one.measured.as_ref());
        measured().any(|one| one.failure().is_none() || !one.may_be_tried_again())
            || measured().filter(|one| one.is_try()).count() >= TRIES
            || measured().count() >= MOST_STARTS
    }

    /// What counts of a run of the matrix: the first success, else the last failure.
    #[must_use]
    pub fn result(&self, slot: Slot) -> Option<(&Try<M>, &M)> {
        let measured = || {
            self.tries(slot)
                .iter()
                .filter_map(|one| Some((one, one.measured.as_ref()?)))
        };
        measured()
            .find(|(_, measured)| measured.failure().is_none())
            .or_else(|| measured().next_back())
    }

    /// Repeats of a cell up to the last one of which nothing is left to be done, however many a later command asked for.
    #[must_use]
    pub fn repeats(&self, cell: usize) -> u32 {
        let of_cell = Slot { cell, repeat: 0 }..=Slot {
            cell,
            repeat: u32::MAX,
        };
        let done = self
            .tries
            .range(of_cell)
            .filter(|(slot, _)| self.is_done(**slot));
        done.map(|(slot, _)| slot.repeat.saturating_add(1))
            .max()
            .unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(number: u8) -> RunId {
        RunId::from_random([number; 10])
    }

    fn begun(slot: Slot, number: u8) -> Entry {
        Entry::Begun {
            at_ms: 1,
            slot,
            run_id: id(number),
        }
    }

    fn over(number: u8, failure: Option<&str>) -> Entry {
        let measured = Measured {
            failure: failure.map(str::to_owned),
            ..Measured::lost("")
        };
        Entry::Over {
            at_ms: 2,
            run_id: id(number),
            measured: Box::new(measured),
        }
    }

    const SLOT: Slot = Slot { cell: 3, repeat: 1 };

    fn journal(entries: &[Entry]) -> Journal {
        let lines: Vec<String> = entries
            .iter()
            .map(|entry| serde_json::to_string(entry).expect("plain data"))
            .collect();
        Journal::read(&lines.join("\n")).0
    }

    #[test]
    fn what_is_done_is_done_once_and_what_failed_is_tried_twice() {
        let journal_of = |entries: &[Entry]| journal(entries);
        assert!(!journal_of(&[]).is_done(SLOT));
        assert!(!journal_of(&[begun(SLOT, 1)]).is_done(SLOT));
        assert!(journal_of(&[begun(SLOT, 1), over(1, None)]).is_done(SLOT));
        assert!(!journal_of(&[begun(SLOT, 1), over(1, Some("a"))]).is_done(SLOT));
        let twice = journal_of(&[
            begun(SLOT, 1),
            over(1, Some("a")),
            begun(SLOT, 2),
            over(2, Some("b")),
        ]);
        assert!(twice.is_done(SLOT));
        assert_eq!(
            twice
                .result(SLOT)
                .and_then(|(_, measured)| measured.failure.as_deref()),
            Some("b")
        );
        let mended = journal_of(&[
            begun(SLOT, 1),
            over(1, Some("a")),
            begun(SLOT, 2),
            over(2, None),
        ]);
        assert!(mended.is_done(SLOT));
        assert_eq!(
            mended.result(SLOT).map(|(one, _)| &one.run_id),
            Some(&id(2))
        );
        assert_eq!([2, 3, 4].map(|cell| mended.repeats(cell)), [0, 2, 0]);
    }

    #[test]
    fn what_goes_on_is_known_and_what_was_withdrawn_is_not() {
        let other = Slot { cell: 0, repeat: 0 };
        let journal = journal(&[
            begun(SLOT, 1),
            begun(other, 2),
            Entry::Withdrawn { run_id: id(2) },
        ]);
        let unfinished: Vec<Slot> = journal.unfinished().map(|(slot, _)| slot).collect();
        assert_eq!((unfinished, journal.tries(other).len()), (vec![SLOT], 0));
    }

    #[test]
    fn a_line_that_was_cut_off_costs_itself_only() {
        let whole = serde_json::to_string(&begun(SLOT, 1)).expect("plain data");
        for cut in 1..whole.len() {
            let (journal, unread) =
                Journal::<Measured>::read(&format!("{whole}\n{}\n", &whole[..cut]));
            assert_eq!((unread, journal.tries(SLOT).len()), (1, 1), "{cut}");
        }
        assert_eq!(Journal::<Measured>::read("\n\n{}\nnull\n").1, 2);
        // An end without a begin, twice, is nobody's.
        assert_eq!(journal(&[over(9, None), over(9, None)]), Journal::default());
    }
}
