//! Which of many runs are evaluated: drawn as they pass by, so that they are read once and few are kept.

use std::collections::BTreeMap;

use super::folds::{EVALUATED, seconds};
use super::keys;
use crate::learn::model::Observation;

/// Runs with the smallest numbers of their names: the same for the same runs, however they came, and no matter how long they took.
#[derive(Debug)]
pub struct Drawn {
    size: usize,
    kept: BTreeMap<(u64, String, u32, u32), Observation>,
    /// Runs with a steady epoch that was seen to its end, drawn or not.
    timed: u64,
}

impl Default for Drawn {
    fn default() -> Self {
        Self::of_size(EVALUATED)
    }
}

impl Drawn {
    fn of_size(size: usize) -> Self {
        Self {
            size,
            kept: BTreeMap::new(),
            timed: 0,
        }
    }

    /// Looks at a run, and keeps it or not.
    pub fn add(&mut self, observation: &Observation) {
        self.timed += u64::from(seconds(observation).is_some());
        let start = keys::start(observation);
        let last = self.kept.last_key_value().map(|(key, _)| key.0);
        if self.kept.len() == self.size && last.is_some_and(|last| last < start) {
            return;
        }
        let name = observation.run_id.as_str().to_owned();
        self.kept.insert(
            (start, name, observation.element, observation.attempt),
            observation.clone(),
        );
        if self.kept.len() > self.size {
            self.kept.pop_last();
        }
    }

    /// The runs, in an order of their own, and how many of all had a time.
    pub(super) fn end(self) -> (Vec<Observation>, u64) {
        (self.kept.into_values().collect(), self.timed)
    }
}

/// Runs that came before and after a moment; of the later ones more are wanted.
#[derive(Debug)]
pub struct BeforeAndAfter {
    until_ms: u64,
    before: Drawn,
    after: Drawn,
}

impl BeforeAndAfter {
    /// The moment is `until_ms`, in Unix milliseconds UTC.
    #[must_use]
    pub fn new(until_ms: u64) -> Self {
        Self {
            until_ms,
            before: Drawn::default(),
            after: Drawn::of_size(EVALUATED / 2),
        }
    }

    /// Looks at a run, and keeps it or not.
    pub fn add(&mut self, observation: &Observation) {
        let half = if observation.at_ms > self.until_ms {
            &mut self.after
        } else {
            &mut self.before
        };
        half.add(observation);
    }

    /// The runs, the later ones first, and the moment.
    pub(super) fn end(self) -> (Vec<Observation>, u64) {
        let (mut runs, _) = self.after.end();
        let left = EVALUATED - runs.len();
        runs.extend(self.before.end().0.into_iter().take(left));
        (runs, self.until_ms)
    }
}
