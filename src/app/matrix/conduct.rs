//! Hands the runs of a matrix over, one after the other or several at a time, and waits for each.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::dir::BenchDir;
use crate::app::error::{Error, Kind, failure};
use crate::app::interrupt;
use crate::app::job::load::{Against, Job, JobRequest};
use crate::app::job::source;
use crate::app::job::submit;
use crate::app::progress::Display;
use crate::app::session::Session;
use crate::app::times::seconds_between;
use crate::app::track::{Tracked, Tracker};
use crate::app::wait::Watched;
use crate::foundation::clock::now_ms;
use crate::foundation::diagnostic::Problem;
use crate::foundation::units::{counted, display_seconds};
use crate::job::{JobState, RunId};
use crate::learn::bench::{Entry, Matrix, Measured, Slot, TRIES, order};
use crate::record::NodeState;

/// Pauses between two questions to a scheduler, from the last hand-over on.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);
/// Asking the local runner costs two files.
const LOCAL_PAUSE: Duration = Duration::from_millis(100);
/// How long a run that has ended well is waited for to write its last record, which may come over NFS.
const RECORD_PATIENCE: Duration = Duration::from_secs(10);
/// Where the first runs all fail, the others would too.
const HOPELESS: usize = 5;

/// The matrix as a file.
pub(crate) struct Source {
    /// As the user named it.
    pub(crate) file: PathBuf,
    pub(crate) text: String,
    pub(crate) no_check: bool,
}

impl Source {
    /// Problems of the matrix.
    pub(crate) fn error(&self, problems: Vec<Problem>) -> Error {
        Error::in_file(
            Kind::JobFile,
            &self.file.to_string_lossy(),
            &self.text,
            problems,
        )
    }
}

/// A cell as a job, checked as `dlrun check` does.
pub(crate) fn load_cell(
    session: &Session,
    matrix: &Matrix,
    source: &Source,
    number: usize,
) -> Result<Job, Error> {
    let cell = matrix
        .cell(number)
        .map_err(|problems| source.error(problems))?;
    let read = source::Source::of_cell(&source.file, &source.text, cell);
    let request = JobRequest {
        file: source.file.clone(),
        no_check: source.no_check,
        ..JobRequest::default()
    };
    Job::of_source(session, &read, &request, Against::Site)
}

/// A run of the matrix that was handed over.
struct Flight {
    slot: Slot,
    begun_at_ms: u64,
    watched: Watched,
    /// Since when it has ended well without its last record.
    ended_since: Option<Instant>,
}

/// What runs a matrix.
pub(crate) struct Conductor<'a> {
    session: &'a Session,
    matrix: &'a Matrix,
    source: &'a Source,
    bench: &'a mut BenchDir,
    tracker: Tracker<'a>,
    display: Display,
    max_jobs: usize,
    queue: VecDeque<Slot>,
    flights: Vec<Flight>,
    total: usize,
}

impl<'a> Conductor<'a> {
    /// Takes up what was begun; what is not done yet is queued.
    pub(crate) fn new(
        session: &'a Session,
        matrix: &'a Matrix,
        source: &'a Source,
        bench: &'a mut BenchDir,
    ) -> Result<Self, Error> {
        let slots = order(matrix.len(), bench.header.repeats, matrix.seed);
        let tracker = Tracker::open(session)?;
        let mut conductor = Self {
            session,
            matrix,
            source,
            bench,
            tracker,
            display: Display::new(session.output),
            max_jobs: matrix.max_jobs as usize,
            queue: VecDeque::new(),
            flights: Vec::new(),
            total: slots.len(),
        };
        conductor.take_up()?;
        let in_flight: Vec<Slot> = conductor.flights.iter().map(|flight| flight.slot).collect();
        for slot in slots {
            if !in_flight.contains(&slot) && !conductor.bench.journal.is_done(slot) {
                conductor.queue.push_back(slot);
            }
        }
        Ok(conductor)
    }

    /// The jobs of a command before that was killed or interrupted. One without a record never got to its scheduler: the
    /// record is written before the hand-over.
    fn take_up(&mut self) -> Result<(), Error> {
        let going_on: Vec<(Slot, RunId, u64)> = self
            .bench
            .journal
            .going_on()
            .map(|(slot, one)| (slot, one.run_id.clone(), one.begun_at_ms))
            .collect();
        for (slot, run_id, begun_at_ms) in going_on {
            match Watched::of_run(&self.tracker, &run_id) {
                Ok(watched) => {
                    self.flights.push(Flight {
                        slot,
                        begun_at_ms,
                        watched,
                        ended_since: None,
                    });
                }
                Err(_) => {
                    let _ = self.tracker.state.remove_run(&run_id);
                    self.bench.note(Entry::Withdrawn { run_id })?;
                }
            }
        }
        let jobs = self.flights.len();
        if jobs > 0 {
            let jobs = counted(jobs as u64, "job");
            self.display.line(&format!("{jobs} resumed"));
        }
        Ok(())
    }

    /// Runs what is left; false: the first runs all failed, so the others were not begun.
    pub(crate) fn run(mut self) -> Result<bool, Error> {
        interrupt::take();
        let (mut pause, mut ask_at) = (self.first_pause(), Instant::now());
        let mut hopeless = false;
        loop {
            while !hopeless && self.flights.len() < self.max_jobs && !interrupt::has_come() {
                let Some(slot) = self.queue.pop_front() else {
                    break;
                };
                self.begin(slot)?;
                pause = self.first_pause();
                ask_at = Instant::now() + pause;
            }
            if interrupt::came() {
                return Err(self.interrupted());
            }
            if self.flights.is_empty() {
                return Ok(!hopeless);
            }
            self.show_progress();
            if Instant::now() < ask_at {
                std::thread::sleep(LOCAL_PAUSE);
                continue;
            }
            if self.poll()? {
                hopeless = hopeless || self.is_hopeless();
                pause = self.first_pause();
            } else if !self.is_local() {
                pause = pause.mul_f64(1.3).min(LONGEST_PAUSE);
            }
            ask_at = Instant::now() + pause;
        }
    }

    /// Runs that are over.
    fn done(&self) -> usize {
        let left = self.queue.len() + self.flights.len();
        self.total.saturating_sub(left)
    }

    fn is_local(&self) -> bool {
        self.flights.iter().all(|flight| flight.watched.local)
    }

    fn first_pause(&self) -> Duration {
        if self.is_local() {
            LOCAL_PAUSE
        } else {
            FIRST_PAUSE
        }
    }

    /// Notes a run and hands it over. Whoever is killed in between finds the note, and no run under its id.
    fn begin(&mut self, slot: Slot) -> Result<(), Error> {
        let mut job = load_cell(self.session, self.matrix, self.source, slot.cell)?;
        submit::prepare(self.session, &job)?;
        job.build_image(self.session)?;
        let (run_id, begun_at_ms) = (submit::new_run_id()?, now_ms());
        self.bench.note(Entry::Begun {
            at_ms: begun_at_ms,
            slot,
            run_id: run_id.clone(),
        })?;
        match submit::submit(self.session, &job, run_id.clone()) {
            Ok((record, _)) => {
                let watched = Watched::new(&record, &job.plan);
                self.flights.push(Flight {
                    slot,
                    begun_at_ms,
                    watched,
                    ended_since: None,
                });
                Ok(())
            }
            Err(error) => {
                // Where its directory is still there it may be queued all the same.
                if self.tracker.state.run(&run_id).is_err() {
                    self.bench.note(Entry::Withdrawn { run_id })?;
                }
                Err(error.hinted("the same command continues the matrix"))
            }
        }
    }

    /// Looks at the jobs; says whether one is over.
    fn poll(&mut self) -> Result<bool, Error> {
        let due: Vec<RunId> = self
            .flights
            .iter()
            .map(|flight| flight.watched.run_id.clone())
            .collect();
        for tracked in self.tracker.refresh(&due, false)? {
            let is_meant = |flight: &&mut Flight| flight.watched.run_id == tracked.record.run_id;
            if let Some(flight) = self.flights.iter_mut().find(is_meant) {
                flight.watched.look(tracked);
            }
        }
        let mut over = Vec::new();
        let mut going_on = Vec::new();
        for mut flight in std::mem::take(&mut self.flights) {
            match &flight.watched.over {
                Some(tracked) if !is_late(tracked, &mut flight.ended_since) => over.push(flight),
                _ => going_on.push(flight),
            }
        }
        self.flights = going_on;
        let is_any = !over.is_empty();
        over.iter().try_for_each(|flight| self.note_end(flight))?;
        Ok(is_any)
    }

    fn note_end(&mut self, flight: &Flight) -> Result<(), Error> {
        let Some(tracked) = &flight.watched.over else {
            return Ok(());
        };
        let nodes = &tracked.reading.outcome.nodes;
        let measured = match tracked.status.state {
            JobState::Unknown => Measured::lost("nobody can say what became of it"),
            _ => Measured::new(&tracked.record, &tracked.status, nodes, self.matrix.warm_up),
        };
        let (slot, at_ms) = (flight.slot, now_ms());
        let turnaround = seconds_between(flight.begun_at_ms, at_ms);
        let run_id = tracked.record.run_id.clone();
        let entry = Entry::Over {
            at_ms,
            run_id: run_id.clone(),
            measured: Box::new(measured.clone()),
        };
        self.bench.note(entry)?;
        if !self.bench.journal.is_done(slot) {
            self.queue.push_back(slot);
        }
        self.display
            .line(&self.end_line(slot, &run_id, &measured, turnaround));
        Ok(())
    }

    /// A line that stays: which run of how many, of which cell, what it measured.
    fn end_line(&self, slot: Slot, run_id: &RunId, measured: &Measured, turnaround: f64) -> String {
        let label = self.matrix.label(slot.cell);
        let what = match (&measured.failure, measured.epoch_seconds) {
            (None, Some(seconds)) => format!(
                "{} an epoch, of {}",
                display_seconds(seconds),
                measured.epochs
            ),
            (failure, _) => {
                let why = failure.as_deref().unwrap_or("nothing measured");
                let again = if self.bench.journal.tries(slot).len() < TRIES {
                    "; it is tried again"
                } else {
                    ""
                };
                format!("{why}{again}")
            }
        };
        let done = self.done();
        let took = display_seconds(turnaround);
        let repeat = slot.repeat + 1;
        let short = &run_id.as_str()[..6];
        format!(
            "[{done}/{}] {label}, repeat {repeat}: {what} (run {short}, {took})",
            self.total
        )
    }

    /// The state of the matrix, on a terminal.
    fn show_progress(&mut self) {
        if !self.display.is_lively() {
            return;
        }
        let done = self.done();
        let first = self
            .flights
            .first()
            .map(|flight| self.matrix.label(flight.slot.cell))
            .unwrap_or_default();
        let jobs = match self.flights.len() {
            0 | 1 => first,
            more => format!("{more} jobs, the first: {first}"),
        };
        let text = format!("{done}/{} over; {jobs}", self.total);
        self.display.now(&text, false);
    }

    /// Says whether nothing has ever succeeded and enough has failed.
    fn is_hopeless(&self) -> bool {
        let starts = self.bench.journal.starts();
        let measured: Vec<&Measured> = starts
            .filter_map(|(_, one)| one.measured.as_ref())
            .collect();
        let is_failure = |measured: &&Measured| measured.failure.is_some();
        !self.queue.is_empty() && measured.len() >= HOPELESS && measured.iter().all(is_failure)
    }

    fn interrupted(&self) -> Error {
        let ids: Vec<&str> = self
            .flights
            .iter()
            .map(|flight| &flight.watched.run_id.as_str()[..6])
            .collect();
        let error = failure!(TryAgain, "interrupted; still running: {}", ids.join(", "));
        let done = self.done();
        error
            .hinted(format!(
                "{done} of {} runs are over; the same command continues",
                self.total
            ))
            .hinted(format!(
                "`dlrun cancel {}` ends what is queued",
                ids.join(" ")
            ))
            .hinted(format!(
                "`dlrun bench show {}` shows what is measured",
                self.matrix.name
            ))
    }
}

/// Says whether a run that has ended well still has to write its last record.
fn is_late(tracked: &Tracked, since: &mut Option<Instant>) -> bool {
    let nodes = &tracked.reading.outcome.nodes;
    let is_written = !nodes.is_empty() && nodes.iter().all(|node| node.state != NodeState::Running);
    let since = *since.get_or_insert_with(Instant::now);
    tracked.status.state == JobState::Completed && !is_written && since.elapsed() < RECORD_PATIENCE
}
