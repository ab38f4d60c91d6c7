//! Writes a node's records, on a thread of its own: the state directory may be slow, full or gone.

use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::time::Duration;

use super::context::Context;
use crate::record::{Missing, NodeRecord, NodeState, decode_segment};
use crate::rundir::{Attempt, NodeDir, RunDirError, StateDir};

/// What the watcher wants on disk. A record without a place yet has step 0; the writer puts the true step in.
pub(super) enum Job {
    /// A whole record.
    Record(Box<NodeRecord>),
    /// Blocks of samples, encoded.
    Segments(Vec<Vec<u8>>),
    /// Answer when all before this is done.
    Flush(SyncSender<()>),
}

/// What the writer found where a watcher takes over from a killed one.
pub(super) struct Resumed {
    pub(super) record: NodeRecord,
    /// The last sample that reached the disk, in Unix milliseconds UTC.
    pub(super) last_sample_ms: Option<u64>,
}

/// The watcher's end of the writer.
pub(super) struct Writer {
    jobs: SyncSender<Job>,
    refused: u64,
}

/// Jobs that may wait for a slow disk.
const QUEUE: usize = 64;

impl Writer {
    /// Starts the writer; `resumes` names the start of the command whose record is to be continued. Returns it with what
    /// was found, if it was found within `patience`.
    pub(super) fn start(
        context: Context,
        resumes: Option<u64>,
        patience: Duration,
    ) -> (Self, Option<Resumed>) {
        let (jobs, queue) = sync_channel(QUEUE);
        let (found, finding) = sync_channel(1);
        std::thread::spawn(move || {
            let place = Place::open(&context, resumes);
            let resumed = place.as_ref().ok().and_then(Place::resumed);
            let _ = found.send(resumed);
            work(&queue, place, &context, resumes);
        });
        let resumed = if resumes.is_some() { finding.recv_timeout(patience).ok().flatten() } else { None };
        (Self { jobs, refused: 0 }, resumed)
    }

    /// Queues a job; dropped where the disk is too slow. Returns whether it was taken.
    pub(super) fn send(&mut self, job: Job) -> bool {
        match self.jobs.try_send(job) {
            Ok(()) => true,
            Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => {
                self.refused += 1;
                false
            }
        }
    }

    /// Jobs that were dropped because the disk was too slow.
    pub(super) fn refused(&self) -> u64 {
        self.refused
    }

    /// Waits until everything is on disk, `patience` at most; false where it is not.
    pub(super) fn flush(&mut self, patience: Duration) -> bool {
        let (done, waiting) = sync_channel(1);
        self.send(Job::Flush(done)) && waiting.recv_timeout(patience).is_ok()
    }
}

/// An open place for records.
struct Place {
    dir: NodeDir,
    resumed: Option<NodeRecord>,
    next_segment: u32,
}

impl Place {
    fn open(context: &Context, resumes: Option<u64>) -> Result<Self, String> {
        let run_id = context.run_id.as_ref().ok_or("this command has no run id")?;
        let state_dir = context.state_dir.as_ref().ok_or("no state directory is known")?;
        let shown = |error: RunDirError| crate::diagnostic::chain(&error).join(": ");
        let run = StateDir::create(state_dir).and_then(|state| state.ensure_run(run_id)).map_err(shown)?;
        let attempt = Attempt { element: context.element, attempt: context.attempt };
        let former = resumes.and_then(|started_at_ms| {
            let nodes = run.outcome(attempt).outcome.nodes;
            let same = |record: &NodeRecord| {
                record.key.node == context.node && record.started_at_ms == started_at_ms
            };
            nodes.into_iter().find(same)
        });
        match former {
            Some(record) => {
                let dir = run.node_dir(&record.key).map_err(shown)?;
                let last = dir.segments().map_err(shown)?.last().copied();
                Ok(Self { dir, resumed: Some(record), next_segment: last.map_or(0, |last| last + 1) })
            }
            None => {
                let dir = run.open_node_step(attempt, &context.node).map_err(shown)?;
                Ok(Self { dir, resumed: None, next_segment: 0 })
            }
        }
    }
}

impl Place {
    fn resumed(&self) -> Option<Resumed> {
        let record = self.resumed.clone()?;
        let last = self.next_segment.checked_sub(1).and_then(|last| self.dir.read_segment(last).ok());
        let samples = last.and_then(|bytes| decode_segment(&bytes).ok());
        let last_sample_ms = samples.and_then(|samples| Some(samples.last()?.at_ms));
        Some(Resumed { record, last_sample_ms })
    }
}

fn work(queue: &Receiver<Job>, mut place: Result<Place, String>, context: &Context, resumes: Option<u64>) {
    let mut waiting: Vec<Vec<u8>> = Vec::new();
    let mut last_error: Option<String> = None;
    for job in queue {
        if place.is_err() && !matches!(job, Job::Flush(_)) {
            // The directory may have come back.
            place = Place::open(context, resumes);
        }
        match (job, &mut place) {
            (Job::Flush(done), _) => drop(done.send(())),
            (Job::Segments(blocks), Ok(place)) => {
                waiting.extend(blocks);
                last_error = write_waiting(place, &mut waiting).err();
            }
            (Job::Segments(blocks), Err(why)) => {
                waiting.extend(blocks);
                last_error = Some(why.clone());
            }
            (Job::Record(record), Ok(place)) => {
                // What could not be written before may fit now.
                if !waiting.is_empty() {
                    last_error = write_waiting(place, &mut waiting).err();
                }
                write_record(place, *record, last_error.as_ref());
            }
            (Job::Record(_), Err(_)) => {}
        }
        // An hour of samples is about 30 KB; a disk that stays full costs the oldest blocks.
        if waiting.len() > MAX_WAITING {
            waiting.drain(..waiting.len() - MAX_WAITING);
        }
    }
}

const MAX_WAITING: usize = 256;

fn write_waiting(place: &mut Place, waiting: &mut Vec<Vec<u8>>) -> Result<(), String> {
    while let Some(bytes) = waiting.first() {
        place
            .dir
            .write_segment(place.next_segment, bytes)
            .map_err(|error| crate::diagnostic::chain(&error).join(": "))?;
        place.next_segment += 1;
        waiting.remove(0);
    }
    Ok(())
}

fn write_record(place: &Place, mut record: NodeRecord, error: Option<&String>) {
    record.key = place.dir.key().clone();
    record.segments = place.next_segment;
    if let Some(why) = error {
        record.missing.push(Missing { what: "segments".to_owned(), why: why.clone() });
    }
    let mut result = place.dir.write_record(&record);
    if result.is_err() && record.state != NodeState::Running {
        // The last record counts most: without its epochs it may fit a disk that is nearly full.
        record.progress.epochs.clear();
        record.missing.push(Missing { what: "timing".to_owned(), why: "the disk is full".to_owned() });
        result = place.dir.write_record(&record);
    }
    if let Err(error) = result {
        tracing::warn!(%error, "the node record was not written");
    }
}
