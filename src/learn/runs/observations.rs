//! The runs of an index as the model sees them.
//!
//! All epochs are gone through once in the order in which they lie, which is several times quicker than node by node; then come
//! the runs with their starts and nodes, some hundred at a time.

use std::collections::HashMap;

use super::observe::Ending;
use super::{EpochTally, Observation};
use crate::record::EpochFigures;
use crate::record::store::{Snapshot, Store, StoreError};

/// What was gone through.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize)]
pub struct Counted {
    /// Runs.
    pub runs: u64,
    /// Starts of them: elements of arrays and requeues count each.
    pub starts: u64,
    /// Starts that became observations.
    pub observations: u64,
    /// Starts that go on, or of which nobody knows that they ended.
    pub going_on: u64,
    /// Starts of which no node was measured.
    pub unmeasured: u64,
    /// Epochs.
    pub epochs: u64,
    /// Epochs without a time, or with one that is not positive.
    pub epochs_passed_over: u64,
}

/// The observations of an index, one after the other. What goes wrong ends them: [`Observations::finish`] reports it.
#[derive(Debug)]
pub struct Observations<'a> {
    store: Snapshot<'a>,
    epochs: HashMap<i64, EpochFigures>,
    ready: std::vec::IntoIter<Observation>,
    /// The last run that was read.
    after: i64,
    counted: Counted,
    failed: Option<StoreError>,
}

impl<'a> Observations<'a> {
    /// One observation for each start that is over and was measured, by the order in which the runs came to the index.
    ///
    /// # Errors
    /// As [`Store::list`].
    pub fn read(store: &'a Store) -> Result<Self, StoreError> {
        let store = store.snapshot()?;
        let mut counted = Counted::default();
        let epochs = epoch_figures(&store, &mut counted)?;
        Ok(Self {
            store,
            epochs,
            ready: Vec::new().into_iter(),
            after: i64::MIN,
            counted,
            failed: None,
        })
    }

    /// What was gone through.
    ///
    /// # Errors
    /// What ended them before their end; as [`Store::list`].
    pub fn finish(mut self) -> Result<Counted, StoreError> {
        match self.failed.take() {
            Some(error) => Err(error),
            None => Ok(self.counted),
        }
    }

    /// Reads the next runs; false where there is none left.
    fn read_more(&mut self) -> Result<bool, StoreError> {
        if self.failed.is_some() {
            return Ok(false);
        }
        let Some(read) = self.store.starts(self.after, &self.epochs)? else {
            return Ok(false);
        };
        self.after = read.last;
        self.counted.runs += read.count;
        let mut observations = Vec::new();
        for (run, starts) in read.runs {
            for start in starts {
                let is_measured = !start.nodes.is_empty();
                let goes_on = start.ending() == Ending::GoesOn;
                self.counted.starts += 1;
                self.counted.unmeasured += u64::from(!is_measured);
                self.counted.going_on += u64::from(is_measured && goes_on);
                observations.extend(start.observe(&run));
            }
        }
        self.ready = observations.into_iter();
        Ok(true)
    }
}

impl Iterator for Observations<'_> {
    type Item = Observation;

    fn next(&mut self) -> Option<Observation> {
        loop {
            if let Some(observation) = self.ready.next() {
                self.counted.observations += 1;
                return Some(observation);
            }
            match self.read_more() {
                Ok(true) => {}
                Ok(false) => return None,
                Err(error) => {
                    self.failed = Some(error);
                    return None;
                }
            }
        }
    }
}

fn epoch_figures(
    store: &Snapshot<'_>,
    counted: &mut Counted,
) -> Result<HashMap<i64, EpochFigures>, StoreError> {
    let mut tallies: HashMap<i64, EpochTally> = HashMap::new();
    store.each_epoch(|node, place, epoch| tallies.entry(node).or_default().add(place, &epoch))?;
    let figures = tallies.into_iter().map(|(node, tally)| {
        let of_node = tally.figures();
        counted.epochs += u64::from(of_node.ended);
        counted.epochs_passed_over += u64::from(of_node.passed_over);
        (node, of_node)
    });
    Ok(figures.collect())
}
