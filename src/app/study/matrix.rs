//! A matrix as work: all of its cells, repeat after repeat.

use std::collections::VecDeque;
use std::path::Path;

use sha2::{Digest, Sha256};

use super::conduct::{Source, Work};
use super::dir::{BenchDir, Order};
use crate::app::error::Error;
use crate::app::job::load::Job;
use crate::app::session::Session;
use crate::app::track::Tracked;
use crate::foundation::units::{display_seconds, hex};
use crate::job::{JobState, SchedulerKind};
use crate::learn::bench::{Entry, Journal, Matrix, Measured, Slot, order};

/// Hexadecimal digits of the hash.
const DIGITS: usize = 12;

/// A cell as a job.
pub(crate) fn load_cell(
    session: &Session,
    matrix: &Matrix,
    source: &Source,
    number: usize,
) -> Result<Job, Error> {
    source.load(session, matrix.cell(number))
}

/// Begins a matrix or continues it.
pub(crate) fn begin_matrix(
    session: &Session,
    matrix: &Matrix,
    source: &Source,
    (scheduler, repeats, restart): (SchedulerKind, u32, bool),
) -> Result<BenchDir, Error> {
    let file = std::path::absolute(&source.file)?;
    let id = format!(
        "{}-{}",
        matrix.name,
        hash(matrix, source, &file, scheduler)?
    );
    let order = Order {
        name: &matrix.name,
        id,
        text: &source.text,
        file: &file,
        scheduler,
        repeats,
    };
    BenchDir::begin(session, order, restart, |_, _| Ok(()))
}

/// The hash of what decides the measurements: where relative paths begin, the scheduler, the epochs that are left out, and all
/// job files.
fn hash(
    matrix: &Matrix,
    source: &Source,
    file: &Path,
    scheduler: SchedulerKind,
) -> Result<String, Error> {
    let mut hasher = Sha256::new();
    let mut part = |bytes: &[u8]| {
        hasher.update((bytes.len() as u64).to_le_bytes());
        hasher.update(bytes);
    };
    let dir = file.parent().unwrap_or(Path::new("/"));
    part(dir.as_os_str().as_encoded_bytes());
    part(scheduler.as_str().as_bytes());
    part(&matrix.warm_up.to_le_bytes());
    for number in 0..matrix.len() {
        let cell = matrix
            .cell(number)
            .map_err(|problems| source.error(problems))?;
        part(cell.job_file.as_bytes());
    }
    Ok(hex(&hasher.finalize())[..DIGITS].to_owned())
}

/// A matrix under way.
pub(crate) struct MatrixWork<'a> {
    matrix: &'a Matrix,
    source: &'a Source,
    bench: &'a mut BenchDir,
    queue: VecDeque<Slot>,
    total: usize,
}

impl<'a> MatrixWork<'a> {
    /// What is not done yet is queued; what is under way is left out when its turn comes.
    pub(crate) fn new(matrix: &'a Matrix, source: &'a Source, bench: &'a mut BenchDir) -> Self {
        let slots = order(matrix.len(), bench.header.repeats, matrix.seed);
        let total = slots.len();
        let unfinished: Vec<Slot> = bench.journal.unfinished().map(|(slot, _)| slot).collect();
        let is_open = |slot: &Slot| !unfinished.contains(slot) && !bench.journal.is_done(*slot);
        let queue = slots.into_iter().filter(is_open).collect();
        Self {
            matrix,
            source,
            bench,
            queue,
            total,
        }
    }
}

impl Work for MatrixWork<'_> {
    type Outcome = Measured;
    const NOUN: &'static str = "matrix";

    fn name(&self) -> &str {
        &self.matrix.name
    }

    fn journal(&self) -> &Journal {
        &self.bench.journal
    }

    fn note(&mut self, entry: Entry) -> Result<(), Error> {
        // A run without a record never got to its scheduler.
        let withdrawn = match &entry {
            Entry::Withdrawn { run_id } => self
                .bench
                .journal
                .starts()
                .find(|(_, one)| one.run_id == *run_id),
            _ => None,
        };
        self.queue.extend(withdrawn.map(|(slot, _)| slot));
        self.bench.note(entry)
    }

    fn next(&mut self, _in_flight: &[Slot]) -> Result<Option<Slot>, Error> {
        Ok(self.queue.pop_front())
    }

    fn job(&self, session: &Session, slot: Slot) -> Result<Job, Error> {
        load_cell(session, self.matrix, self.source, slot.cell)
    }

    fn again(&mut self, slot: Slot) {
        self.queue.push_back(slot);
    }

    fn outcome(
        &self,
        _slot: Slot,
        tracked: &Tracked,
        _earlier: &[crate::record::NodeRecord],
    ) -> Measured {
        let nodes = &tracked.reading.outcome.nodes;
        Measured::new(&tracked.record, &tracked.status, nodes, self.matrix.warm_up)
    }

    fn lost(&self, why: &str, _state: JobState, _ran: Option<(f64, u32)>) -> Measured {
        Measured::lost(why)
    }

    fn label(&self, slot: Slot) -> String {
        let label = self.matrix.label(slot.cell);
        format!("{label}, repeat {}", slot.repeat + 1)
    }

    fn result_text(&self, measured: &Measured) -> String {
        match measured.epoch_seconds {
            Some(seconds) => format!(
                "{} an epoch, of {}",
                display_seconds(seconds),
                measured.epochs
            ),
            None => "nothing measured".to_owned(),
        }
    }

    fn done(&self, in_flight: usize) -> (usize, usize) {
        let left = self.queue.len() + in_flight;
        (self.total.saturating_sub(left), self.total)
    }

    fn verb(&self) -> &'static str {
        "bench"
    }
}
