//! The runs of an index as the model sees them.
//!
//! All epochs are gone through once in the order in which they lie, which is several times quicker than node by node; then come
//! the runs with their starts and nodes, some hundred at a time.

use std::collections::HashMap;

use super::{Ending, EpochTally, Observation, Situation, Start, Submitted};
use crate::record::store::{Snapshot, Store, StoreError};
use crate::record::{EpochFigures, NodeMeasure, StartRow, SubmittedRun};

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

/// A start, before it is known whether another one followed.
struct Begun {
    /// Its place among the runs that were read with it.
    run: usize,
    row: StartRow,
    nodes: Vec<NodeMeasure>,
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
        let mut runs: Vec<SubmittedRun> = Vec::new();
        let mut starts: Vec<Begun> = Vec::new();
        let epochs = &self.epochs;
        let read = self.store.starts(self.after, |run, row| {
            if runs.last().is_none_or(|last| last.row != run.row) {
                runs.push(run);
            }
            add_row(&mut starts, runs.len() - 1, row, epochs);
        })?;
        let Some((last, count)) = read else {
            return Ok(false);
        };
        self.after = last;
        self.counted.runs += count;
        let runs: Vec<Submitted> = runs.into_iter().map(submitted).collect();
        self.ready = observed(&runs, starts, &mut self.counted).into_iter();
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
    // The epochs of a node lie together, but for those of trainings that went on at the same time.
    let mut numbers: HashMap<i64, usize> = HashMap::new();
    let mut tallies: Vec<(i64, EpochTally)> = Vec::new();
    let mut last: Option<(i64, usize)> = None;
    store.each_epoch(|node, place, epoch| {
        let at = match last {
            Some((same, at)) if same == node => at,
            _ => *numbers.entry(node).or_insert_with(|| {
                tallies.push((node, EpochTally::default()));
                tallies.len() - 1
            }),
        };
        last = Some((node, at));
        tallies[at].1.add(place, &epoch);
    })?;
    drop(numbers);
    let mut figures = HashMap::with_capacity(tallies.len());
    for (node, tally) in tallies {
        let of_node = tally.figures();
        counted.epochs += u64::from(of_node.ended);
        counted.epochs_passed_over += u64::from(of_node.passed_over);
        figures.insert(node, of_node);
    }
    Ok(figures)
}

/// Adds what a node saw to its start, which begins with its first node.
fn add_row(
    starts: &mut Vec<Begun>,
    run: usize,
    mut row: StartRow,
    epochs: &HashMap<i64, EpochFigures>,
) {
    let node = row.node.take();
    if starts.last().is_none_or(|last| last.row.row != row.row) {
        starts.push(Begun {
            run,
            row,
            nodes: Vec::new(),
        });
    }
    if let (Some((node, mut seen)), Some(begun)) = (node, starts.last_mut()) {
        seen.epochs = epochs.get(&node).copied().unwrap_or_default();
        begun.nodes.push(seen);
    }
}

fn observed(runs: &[Submitted], starts: Vec<Begun>, counted: &mut Counted) -> Vec<Observation> {
    let whose: Vec<(usize, u32)> = starts
        .iter()
        .map(|begun| (begun.run, begun.row.element))
        .collect();
    let mut observations = Vec::with_capacity(starts.len());
    for (at, Begun { run, row, nodes }) in starts.into_iter().enumerate() {
        let is_last = whose.get(at + 1) != Some(&whose[at])
            && row.noted_attempt.is_none_or(|noted| noted == row.attempt);
        let noted = row.noted.filter(|_| is_last);
        let noted_start = noted.and_then(|noted| noted.started_at_ms);
        let noted_end = noted.and_then(|noted| noted.ended_at_ms);
        let state = noted.map(|noted| noted.state);
        let start = Start {
            element: row.element,
            attempt: row.attempt,
            ending: Ending::new(state, is_last, row.shell_code, &nodes),
            started_at_ms: row.started_at_ms.or(noted_start),
            ended_at_ms: row.ended_at_ms.or(noted_end),
            nodes,
        };
        counted.starts += 1;
        counted.unmeasured += u64::from(start.nodes.is_empty());
        counted.going_on += u64::from(start.ending == Ending::GoesOn && !start.nodes.is_empty());
        observations.extend(start.observe(&runs[run]));
    }
    observations
}

fn submitted(run: SubmittedRun) -> Submitted {
    // Jobs that declare nothing are distinguished by what they run.
    let workload = match &run.identity {
        Some(identity) => identity.completed(&run.workload),
        None => run.workload,
    };
    let mut framework = run.framework;
    // A range says only what was asked for.
    framework.version = framework
        .version
        .filter(|text| !text.contains(['<', '>', '=', '~', '*', '!', '^', ',', ' ']));
    Submitted {
        run_id: run.run_id,
        at_ms: run.submitted_at_ms,
        scheduler: run.scheduler,
        queue: run.queue,
        situation: Situation {
            workload,
            framework,
            image: run.image,
            nodes: run.nodes,
            tasks_per_node: run.tasks_per_node.unwrap_or(1).max(1),
            storage: run.storage,
            ..Situation::default()
        },
    }
}
