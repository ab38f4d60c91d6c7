//! Writes a node's records, on a separate thread: the state directory may be slow, full or gone.

use std::collections::BTreeSet;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::time::Duration;

use super::context::Context;
use crate::foundation::diagnostic::chain_text;
use crate::foundation::private::FileError;
use crate::record::rundir::{Attempt, NodeDir, StateDir};
use crate::record::{MeasureKey, Missing, NodeRecord, NodeState, RunRecord, decode_segment};

/// What the watcher wants on disk. A record without a place yet has step 0; the writer puts the true step in.
pub(super) enum Job {
    /// A whole record.
    Record(Box<NodeRecord>),
    /// Blocks of samples, encoded; of what the daemon sent with its last segment. That one at a time: the next after
    /// [`Report::Safe`].
    Segments(Vec<Vec<u8>>, Option<u32>),
    /// Answer when all before this is done: why the last record is not written, where it is not.
    Flush(SyncSender<Option<String>>),
}

/// Reports of the writer to the watcher.
pub(super) enum Report {
    /// The place of the records is known.
    Place(Box<Placed>),
    /// What the daemon sent up to this segment is written.
    Safe(u32),
}

/// Where the records are.
pub(super) struct Placed {
    /// The key, with the true step.
    pub(super) key: MeasureKey,
    /// The run as it was submitted; `None` where its file does not exist.
    pub(super) run: Option<RunRecord>,
}

/// What the writer found where a watcher takes over from a killed one.
pub(super) struct Resumed {
    pub(super) record: NodeRecord,
    /// Times of the samples that reached the disk last, in Unix milliseconds UTC.
    pub(super) times: BTreeSet<u64>,
}

/// The watcher's end of the writer.
pub(super) struct Writer {
    jobs: SyncSender<Job>,
    reports: Receiver<Report>,
    /// Jobs that were dropped because the disk was too slow.
    pub(super) refused: u64,
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
        // Two reports wait at most: the place, and one segment of the daemon's.
        let (report, reports) = channel();
        std::thread::spawn(move || {
            let place = Place::open(&context, resumes, &report);
            let resumed = place.as_ref().ok().and_then(Place::resumed);
            let _ = found.send(resumed);
            work(&queue, place, &context, resumes, &report);
        });
        let resumed = resumes.and_then(|_| finding.recv_timeout(patience).ok()?);
        let writer = Self {
            jobs,
            reports,
            refused: 0,
        };
        (writer, resumed)
    }

    /// Queues a job; dropped where the disk is too slow. Returns whether it was taken.
    pub(super) fn send(&mut self, job: Job) -> bool {
        let is_taken = self.jobs.try_send(job).is_ok();
        self.refused += u64::from(!is_taken);
        is_taken
    }

    /// What the writer has to tell, waiting `patience` at most for it.
    pub(super) fn report(&self, patience: Duration) -> Option<Report> {
        self.reports.recv_timeout(patience).ok()
    }

    /// Waits until everything is on disk, `patience` at most.
    ///
    /// # Errors
    /// Why the last record is not.
    pub(super) fn flush(&mut self, patience: Duration) -> Result<(), String> {
        let (done, waiting) = sync_channel(1);
        self.send(Job::Flush(done));
        let answer = waiting.recv_timeout(patience);
        answer
            .unwrap_or_else(|_| Some("the state directory gave no answer".to_owned()))
            .map_or(Ok(()), Err)
    }
}

/// An open place for records.
struct Place {
    dir: NodeDir,
    resumed: Option<NodeRecord>,
    next_segment: u32,
}

/// Segments whose samples' times are looked at where a watcher takes over: what the daemon sends again of what is here
/// already is in the last ones.
const KNOWN_SEGMENTS: u32 = 4;

impl Place {
    /// Opens the place, and reports it.
    fn open(
        context: &Context,
        resumes: Option<u64>,
        report: &Sender<Report>,
    ) -> Result<Self, String> {
        let run_id = context
            .run_id
            .as_ref()
            .ok_or("this command has no run id")?;
        let state_dir = context
            .state_dir
            .as_ref()
            .ok_or("no state directory is known")?;
        let shown = |error: FileError| chain_text(&error);
        let run = StateDir::create(state_dir)
            .and_then(|state| state.ensure_run(run_id))
            .map_err(shown)?;
        let attempt = Attempt {
            element: context.element,
            attempt: context.attempt,
        };
        let former = resumes.and_then(|started_at_ms| {
            let nodes = run.outcome(attempt).outcome.nodes;
            let same = |record: &NodeRecord| {
                record.key.node == context.node && record.started_at_ms == started_at_ms
            };
            nodes.into_iter().find(same)
        });
        let dir = match &former {
            Some(former) => run.node_dir(&former.key),
            None => run.open_node_step(attempt, &context.node),
        };
        let dir = dir.map_err(shown)?;
        let last = dir.segments().map_err(shown)?.last().copied();
        let _ = report.send(Report::Place(Box::new(Placed {
            key: dir.key().clone(),
            run: run.read_run().ok(),
        })));
        Ok(Self {
            next_segment: last.map_or(0, |last| last + 1),
            dir,
            resumed: former,
        })
    }

    fn resumed(&self) -> Option<Resumed> {
        let record = self.resumed.clone()?;
        let last = self.next_segment.saturating_sub(KNOWN_SEGMENTS)..self.next_segment;
        let read = last.filter_map(|seq| decode_segment(&self.dir.read_segment(seq).ok()?).ok());
        let times = read.flatten().map(|sample| sample.at_ms).collect();
        Some(Resumed { record, times })
    }
}

/// A block on its way, and the daemon's segment that is safe with it.
type Waiting = (Option<Vec<u8>>, Option<u32>);

fn work(
    queue: &Receiver<Job>,
    mut place: Result<Place, String>,
    context: &Context,
    resumes: Option<u64>,
    report: &Sender<Report>,
) {
    let mut waiting: Vec<Waiting> = Vec::new();
    let mut last_error: Option<String> = None;
    let mut unwritten: Option<String> = None;
    for job in queue {
        if place.is_err() && !matches!(job, Job::Flush(_)) {
            // The directory may have come back.
            place = Place::open(context, resumes, report);
        }
        let mut record = None;
        match job {
            Job::Flush(done) => {
                let _ = done.send(unwritten.clone());
                continue;
            }
            Job::Segments(blocks, through) => {
                waiting.extend(blocks.into_iter().map(|block| (Some(block), None)));
                waiting.extend(through.map(|through| (None, Some(through))));
            }
            Job::Record(whole) => record = Some(whole),
        }
        match &mut place {
            // What could not be written before may fit now.
            Ok(place) if !waiting.is_empty() => {
                last_error = write_waiting(place, &mut waiting, report).err();
            }
            Ok(_) => {}
            Err(why) => last_error = Some(why.clone()),
        }
        if let Some(record) = record {
            let written = place.as_ref().map_err(Clone::clone);
            unwritten = written
                .and_then(|place| write_record(place, *record, last_error.as_ref()))
                .err();
        }
        thin(&mut waiting);
    }
}

/// Blocks that may wait for a disk that is full: an hour of samples is about 30 KB.
const MAX_WAITING: usize = 256;

/// A disk that stays full costs the oldest blocks. Of what the daemon sent none is called safe any more: it keeps it.
fn thin(waiting: &mut Vec<Waiting>) {
    if waiting.len() > MAX_WAITING {
        waiting.drain(..waiting.len() - MAX_WAITING);
        waiting.retain(|(_, through)| through.is_none());
    }
}

fn write_waiting(
    place: &mut Place,
    waiting: &mut Vec<Waiting>,
    report: &Sender<Report>,
) -> Result<(), String> {
    while let Some((block, through)) = waiting.first() {
        if let Some(bytes) = block {
            place
                .dir
                .write_segment(place.next_segment, bytes)
                .map_err(|error| chain_text(&error))?;
            place.next_segment += 1;
        }
        if let Some(through) = through {
            let _ = report.send(Report::Safe(*through));
        }
        waiting.remove(0);
    }
    Ok(())
}

fn write_record(
    place: &Place,
    mut record: NodeRecord,
    error: Option<&String>,
) -> Result<(), String> {
    record.key = place.dir.key().clone();
    record.segments = place.next_segment;
    if let Some(why) = error {
        record.missing.push(Missing::new("segments", why.clone()));
    }
    let mut result = place.dir.write_record(&record);
    if result.is_err() && record.state != NodeState::Running {
        // The last record counts most: without its epochs it may fit a disk that is nearly full.
        record.progress.epochs.clear();
        record
            .missing
            .push(Missing::new("timing", "the disk is full"));
        result = place.dir.write_record(&record);
    }
    result.map_err(|error| {
        tracing::warn!(%error, "the node record was not written");
        chain_text(&error)
    })
}
