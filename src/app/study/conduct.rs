//! Hands the runs of a matrix or the trials of a sweep over, one after the other or several at a time, and waits for each.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::seats::Seats;
use crate::app::cancel::cancel;
use crate::app::error::{Error, Kind, failure};
use crate::app::interrupt;
use crate::app::job::load::{Against, Job, JobRequest};
use crate::app::job::{source, submit};
use crate::app::progress::Display;
use crate::app::session::Session;
use crate::app::times::seconds_between;
use crate::app::track::{Tracked, Tracker, job_ref, plan_of};
use crate::app::wait::Watched;
use crate::foundation::clock::now_ms;
use crate::foundation::diagnostic::Problem;
use crate::foundation::private::if_there;
use crate::foundation::units::{counted, display_seconds};
use crate::job::{JobState, RunId, SchedulerKind};
use crate::launch::Seat;
use crate::learn::bench::{Cell, Entry, Journal, Settled, Slot};
use crate::record::rundir::RunDir;
use crate::record::{NodeRecord, NodeState, Progress};
use crate::scheduler::JobRef;
use crate::scheduler::local::note_lost;

/// Pauses between two questions to a scheduler, from the last hand-over on.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);
/// Asking the local runner costs two files.
const LOCAL_PAUSE: Duration = Duration::from_millis(100);
/// How long a run that has ended well is waited for to write its last record, which may come over NFS.
const RECORD_PATIENCE: Duration = Duration::from_secs(10);
/// How long runs that end with their job are waited for to write that down; a job has a few seconds more.
const END_PATIENCE: Duration = Duration::from_secs(8);
/// Codes of a run that was ended by SIGHUP, SIGKILL, SIGUSR1 or SIGTERM, as a scheduler ends a job.
const ENDS_JOBS: [i32; 4] = [129, 137, 138, 143];
const JOB_ENDED: &str = "the job that it was a part of ended";
/// Where the first runs all fail, the others would too.
const HOPELESS: usize = 5;

/// A matrix or a sweep as a file.
pub(crate) struct Source {
    /// As the user named it.
    pub(crate) file: PathBuf,
    pub(crate) text: String,
    pub(crate) no_check: bool,
}

impl Source {
    /// Problems of the file.
    pub(crate) fn error(&self, problems: Vec<Problem>) -> Error {
        Error::in_file(
            Kind::JobFile,
            &self.file.to_string_lossy(),
            &self.text,
            problems,
        )
    }

    /// A cell or trial as a job, checked as `dlrun check` does.
    pub(crate) fn load(
        &self,
        session: &Session,
        cell: Result<Cell, Vec<Problem>>,
    ) -> Result<Job, Error> {
        let cell = cell.map_err(|problems| self.error(problems))?;
        let read = source::Source::of_cell(&self.file, &self.text, cell);
        let request = JobRequest {
            file: self.file.clone(),
            no_check: self.no_check,
            ..JobRequest::default()
        };
        Job::of_source(session, &read, &request, Against::Site)
    }
}

/// What is conducted: which run comes next, what one came to, and which is not worth going on with.
pub(crate) trait Work {
    /// What a run came to.
    type Outcome: Settled + Clone;
    /// `matrix`.
    const NOUN: &'static str;

    fn name(&self) -> &str;
    fn journal(&self) -> &Journal<Self::Outcome>;
    /// Adds a line to the journal.
    fn note(&mut self, entry: Entry<Self::Outcome>) -> Result<(), Error>;
    /// The next run to hand over, while those of `in_flight` are under way.
    fn next(&mut self, in_flight: &[Slot]) -> Result<Option<Slot>, Error>;
    fn job(&self, session: &Session, slot: Slot) -> Result<Job, Error>;
    /// A run is over that must run again.
    fn again(&mut self, slot: Slot);
    /// How long one that is to end may take to do so by itself before it is cancelled; `None`: it is cancelled at once.
    fn stop_wait(&self) -> Option<Duration> {
        None
    }
    /// Looks at a run under way; true: it is to end.
    fn is_given_up(&mut self, _slot: Slot, _progress: &Progress) -> Result<bool, Error> {
        Ok(false)
    }
    /// What one came to. `earlier`: what the attempts before its newest left, the newest of them first.
    fn outcome(&self, slot: Slot, tracked: &Tracked, earlier: &[NodeRecord]) -> Self::Outcome;
    /// One that is not to be judged by how it ended; how many seconds it ran on how many nodes.
    fn lost(&self, why: &str, state: JobState, ran: Option<(f64, u32)>) -> Self::Outcome;
    /// What a run is called, and what it came to.
    fn label(&self, slot: Slot) -> String;
    fn result_text(&self, outcome: &Self::Outcome) -> String;
    /// Runs that are over of how many, while so many are under way.
    fn done(&self, in_flight: usize) -> (usize, usize);
    /// How the command is called that shows what is known.
    fn verb(&self) -> &'static str;
}

/// A run that was handed over.
struct Flight {
    slot: Slot,
    watched: Watched,
    /// Its part of the job.
    seat: Option<u32>,
    /// Whether a command before handed it over.
    is_taken_up: bool,
    /// Whether it was ended since the job around it ends.
    ends_with_job: bool,
    /// Since when it has ended well without its last record.
    ended_since: Option<Instant>,
    /// Since when it has been asked to end by itself.
    asked_since: Option<Instant>,
    is_given_up: bool,
}

impl Flight {
    /// Whether it was a part of a job before this one, on another node, which [`Conductor::take_up`] has found ended.
    fn is_of_job_before(&self, host: &str, tracked: &Tracked) -> bool {
        let is_elsewhere = tracked.record.submit_host != host;
        self.seat.is_some() && is_elsewhere && !tracked.status.state.is_final()
    }

    fn ended_well(&self) -> bool {
        let over = self.watched.over.as_ref();
        over.is_some_and(|its| its.status.state == JobState::Completed)
    }

    fn new(slot: Slot, watched: Watched, seat: Option<u32>) -> Self {
        Self {
            slot,
            watched,
            seat,
            is_taken_up: false,
            ends_with_job: false,
            ended_since: None,
            asked_since: None,
            is_given_up: false,
        }
    }
}

/// What runs a matrix or a sweep.
pub(crate) struct Conductor<'a, W: Work> {
    session: &'a Session,
    work: W,
    tracker: Tracker<'a>,
    display: Display,
    max_jobs: usize,
    /// The parts of the job around it, where the runs have these.
    seats: Option<Seats>,
    flights: Vec<Flight>,
}

impl<'a, W: Work> Conductor<'a, W> {
    /// Continues what a command before began.
    pub(crate) fn new(
        session: &'a Session,
        work: W,
        max_jobs: u32,
        seats: Option<Seats>,
    ) -> Result<Self, Error> {
        let mut conductor = Self {
            session,
            work,
            tracker: Tracker::open(session)?,
            display: Display::new(session.output),
            max_jobs: max_jobs as usize,
            seats,
            flights: Vec::new(),
        };
        conductor.take_up()?;
        Ok(conductor)
    }

    /// The jobs of a command before that was killed or interrupted. One without a record never got to its scheduler: the
    /// record is written before the hand-over. A record that cannot be read may be that of a job that runs.
    fn take_up(&mut self) -> Result<(), Error> {
        let journal = self.work.journal();
        let open: Vec<(Slot, RunId)> = journal
            .unfinished()
            .map(|(slot, one)| (slot, one.run_id.clone()))
            .collect();
        for (slot, run_id) in open {
            let run = if_there(self.tracker.state.run(&run_id))?;
            let record = match &run {
                Some(run) => if_there(run.read_run())?,
                None => None,
            };
            if record.is_some() {
                let watched = Watched::of_run(&self.tracker, &run_id)?;
                let seat = run.as_ref().and_then(plan_of).and_then(|plan| plan.seat);
                if let Some((seat, run)) = seat.as_ref().zip(run.as_ref()) {
                    self.check_job_before(seat, run)?;
                }
                let seat = seat.map(|seat| seat.number);
                self.flights.push(Flight {
                    is_taken_up: true,
                    ..Flight::new(slot, watched, seat)
                });
                continue;
            }
            if run.is_some() {
                let _ = self.tracker.state.remove_run(&run_id);
            }
            self.work.note(Entry::Withdrawn { run_id })?;
        }
        let jobs = self.flights.len();
        if jobs > 0 {
            let jobs = counted(jobs as u64, "job");
            self.display.line(&format!("{jobs} resumed"));
        }
        Ok(())
    }

    /// Refuses to continue a run that is a part of a job that may live.
    fn check_job_before(&self, seat: &Seat, run: &RunDir) -> Result<(), Error> {
        let Some(seats) = &self.seats else {
            let what = "runs of it are parts of a job";
            return Err(failure!(Usage, "{what}").hinted("continue it with --pack"));
        };
        if seats.job_id == seat.job_id {
            return Ok(());
        }
        let id = &seat.job_id.0;
        let job = JobRef {
            run_id: run.run_id().clone(),
            job_id: seat.job_id.clone(),
            parts: Vec::new(),
            submitted_at_ms: None,
            run_dir: run.path().to_owned(),
        };
        let queue = self.session.scheduler(seat.scheduler)?.queue(&[job]);
        let entries = queue.map_err(|error| {
            let error = Error::from(error);
            error.hinted(format!(
                "nobody says whether job {id} has ended, in which runs of it are parts"
            ))
        })?;
        match entries
            .values()
            .flatten()
            .any(|entry| !entry.state.is_final())
        {
            true => Err(failure!(
                TryAgain,
                "runs of it are parts of job {id}, which has not ended"
            )
            .hinted("wait for that job, or cancel it")),
            false => Ok(()),
        }
    }

    /// Runs what is left; false: the first runs all failed, so the others were not begun.
    pub(crate) fn run(mut self) -> Result<bool, Error> {
        match self.seats {
            Some(_) => interrupt::take_end_of_job(),
            None => interrupt::take(),
        }
        let (mut pause, mut ask_at) = (self.first_pause(), Instant::now());
        let mut hopeless = false;
        loop {
            while !hopeless
                && self.flights.len() < self.max_jobs
                && !interrupt::has_come()
                && !interrupt::job_ends()
            {
                let slots: Vec<Slot> = self.flights.iter().map(|flight| flight.slot).collect();
                let slot = self.work.next(&slots);
                let Some(slot) = slot.map_err(|error| self.with_running(error))? else {
                    break;
                };
                self.begin(slot).map_err(|error| self.with_running(error))?;
                pause = self.first_pause();
                ask_at = Instant::now() + pause;
            }
            if interrupt::job_ends() {
                return Err(self.end_with_job()?);
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
                hopeless = self.is_hopeless();
                pause = self.first_pause();
            } else if !self.is_local() {
                pause = pause.mul_f64(1.3).min(LONGEST_PAUSE);
            }
            ask_at = Instant::now() + pause;
        }
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
        let mut job = self.work.job(self.session, slot)?;
        let is_taken = |number| self.flights.iter().any(|its| its.seat == Some(number));
        let seat = self.seats.as_ref().and_then(|seats| seats.free(is_taken));
        if let Some((seats, number)) = self.seats.as_ref().zip(seat) {
            seats.give(number, &mut job.plan);
        }
        submit::prepare(self.session, &job)?;
        job.build_image(self.session)?;
        let run_id = submit::new_run_id()?;
        self.work.note(Entry::Begun {
            at_ms: now_ms(),
            slot,
            run_id: run_id.clone(),
        })?;
        match submit::submit(self.session, &job, run_id.clone(), false) {
            Ok((record, _)) => {
                let watched = Watched::new(&record, &job.plan);
                self.flights.push(Flight::new(slot, watched, seat));
                Ok(())
            }
            Err(error) => {
                // Where its directory is still there it may be queued all the same.
                if self.tracker.state.run(&run_id).is_err() {
                    self.work.note(Entry::Withdrawn { run_id })?;
                }
                Err(error.hinted(format!("the same command continues the {}", W::NOUN)))
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
            let host = &self.session.host;
            let Some(flight) = self.flights.iter_mut().find(is_meant) else {
                continue;
            };
            let has_gone = flight.is_of_job_before(host, &tracked);
            let progress = flight.watched.progress(&tracked);
            if !flight.is_given_up && self.work.is_given_up(flight.slot, &progress)? {
                let wait = self.work.stop_wait();
                match give_up(self.session, &self.tracker, (flight, &tracked), wait) {
                    Ok(is_given_up) => flight.is_given_up = is_given_up,
                    // It is tried again at the next look.
                    Err(error) => self
                        .session
                        .warning(&format!("a run was not cancelled: {}", error.message())),
                }
            }
            if has_gone {
                flight.watched.over = Some(tracked);
            } else {
                flight.watched.look(tracked);
            }
        }
        let mut over = Vec::new();
        let mut left = Vec::new();
        for mut flight in std::mem::take(&mut self.flights) {
            match &flight.watched.over {
                Some(tracked) if !is_late(tracked, &mut flight.ended_since) => over.push(flight),
                _ => left.push(flight),
            }
        }
        self.flights = left;
        if interrupt::job_ends() {
            // The others may have ended by the same signal.
            self.flights
                .extend(over.extract_if(.., |flight| !flight.ended_well()));
        }
        let is_any = !over.is_empty();
        over.iter().try_for_each(|flight| self.note_end(flight))?;
        Ok(is_any)
    }

    /// Whether a run ended since the job ended that it was a part of: while no command was there to see it, and by a signal that ends jobs.
    fn went_with_its_job(&self, flight: &Flight, tracked: &Tracked) -> bool {
        let status = &tracked.status;
        let by_signal = status
            .exit
            .is_some_and(|exit| ENDS_JOBS.contains(&exit.shell_code()));
        let is_asked = tracked.reading.outcome.cancel_asked_at_ms.is_some();
        let was_ended = match status.state {
            JobState::Cancelled => !is_asked,
            JobState::Failed => by_signal,
            _ => false,
        };
        let is_taken_up = flight.seat.is_some() && flight.is_taken_up;
        let is_well = match status.state {
            JobState::Completed => true,
            // Somebody cancelled it, just before the job ended.
            JobState::Cancelled if is_asked => true,
            _ => flight.is_given_up,
        };
        flight.is_of_job_before(&self.session.host, tracked)
            || (is_taken_up && was_ended)
            || (flight.ends_with_job && !is_well)
    }

    /// Ends the runs, which could not end otherwise than with the job around them, so that they are tried again.
    fn end_with_job(&mut self) -> Result<Error, Error> {
        let flights = std::mem::take(&mut self.flights);
        let ids: Vec<RunId> = flights
            .iter()
            .map(|flight| flight.watched.run_id.clone())
            .collect();
        for run_id in &ids {
            let run = self.tracker.state.run(run_id)?;
            // One that has ended cannot be cancelled. That nobody asked for it is not noted either: if no time is left to note its end here,
            // the next job sees that its job ended it.
            if let Some(job) = job_ref(&run, &run.read_run()?) {
                let _ = self
                    .session
                    .scheduler(SchedulerKind::Local)?
                    .cancel(&job, None);
            }
        }
        let until = Instant::now() + END_PATIENCE;
        let seen = loop {
            let seen = self.tracker.refresh(&ids, false)?;
            let is_over = |its: &Tracked| its.status.state.is_final();
            if seen.iter().all(is_over) || Instant::now() > until {
                break seen;
            }
            std::thread::sleep(LOCAL_PAUSE);
        };
        for mut flight in flights {
            let is_its = |its: &&Tracked| its.record.run_id == flight.watched.run_id;
            let over = seen.iter().find(is_its).cloned();
            flight.watched.over = over;
            flight.ends_with_job = true;
            self.note_end(&flight)?;
        }
        let (done, total) = self.work.done(0);
        let ended = counted(ids.len() as u64, "run");
        let error = failure!(TryAgain, "asked to end, and {ended} with it");
        Ok(error.hinted(format!(
            "{done} of {total} runs are finished; the same command continues"
        )))
    }

    fn note_end(&mut self, flight: &Flight) -> Result<(), Error> {
        let Some(tracked) = &flight.watched.over else {
            return Ok(());
        };
        if flight.is_of_job_before(&self.session.host, tracked) {
            let run = self.tracker.state.run(&tracked.record.run_id)?;
            // It is shown as running where that fails.
            let _ = note_lost(run.path(), JOB_ENDED);
        }
        // From start to end of each attempt, as tables have it.
        let status = &tracked.status;
        let span = status.started_at_ms.zip(status.ended_at_ms);
        let span = span.map(|(from, to)| seconds_between(from, to));
        let took = tracked.all_starts.map(|all| all.ran_seconds).or(span);
        let ran = took.map(|took| (took, tracked.record.nodes));
        let state = status.state;
        let outcome = match state {
            JobState::Unknown => self.work.lost("its final state is unknown", state, ran),
            _ if self.went_with_its_job(flight, tracked) => {
                self.work.lost(JOB_ENDED, JobState::Preempted, ran)
            }
            _ => {
                let earlier = self.earlier(tracked);
                self.work.outcome(flight.slot, tracked, &earlier)
            }
        };
        let (slot, at_ms) = (flight.slot, now_ms());
        let run_id = tracked.record.run_id.clone();
        self.work.note(Entry::Over {
            at_ms,
            run_id: run_id.clone(),
            measured: Box::new(outcome.clone()),
        })?;
        if !self.work.journal().is_done(slot) {
            self.work.again(slot);
        }
        self.display
            .line(&self.end_line(slot, &run_id, &outcome, took));
        Ok(())
    }

    /// What the attempts of a run before its newest left, the newest of them first.
    fn earlier(&self, tracked: &Tracked) -> Vec<NodeRecord> {
        let is_continued = tracked.all_starts.is_some();
        let run = self.tracker.state.run(&tracked.record.run_id).ok();
        let Some(run) = run.filter(|_| is_continued) else {
            return Vec::new();
        };
        let newest = tracked.reading.attempt;
        let attempts = run.attempts().unwrap_or_default().into_iter().rev();
        let before = attempts.filter(|attempt| Some(*attempt) != newest);
        before
            .flat_map(|attempt| run.outcome(attempt).outcome.nodes)
            .collect()
    }

    /// A line that stays: which run of how many, what it is, what it came to.
    fn end_line(
        &self,
        slot: Slot,
        run_id: &RunId,
        outcome: &W::Outcome,
        took: Option<f64>,
    ) -> String {
        let what = match outcome.failure() {
            None => self.work.result_text(outcome),
            Some(why) if !self.work.journal().is_done(slot) => {
                format!("{why}; it is tried again")
            }
            Some(why) => why.to_owned(),
        };
        let (done, total) = self.work.done(self.flights.len());
        let took = took.map_or_else(String::new, |took| format!(", {}", display_seconds(took)));
        let (label, short) = (self.work.label(slot), &run_id.as_str()[..6]);
        format!("[{done}/{total}] {label}: {what} (run {short}{took})")
    }

    /// How far it is, on a terminal.
    fn show_progress(&mut self) {
        if !self.display.is_lively() {
            return;
        }
        let (done, total) = self.work.done(self.flights.len());
        let first = self
            .flights
            .first()
            .map(|flight| self.work.label(flight.slot))
            .unwrap_or_default();
        let jobs = match self.flights.len() {
            0 | 1 => first,
            more => format!("{more} jobs, the first: {first}"),
        };
        let text = format!("{done}/{total} finished; {jobs}");
        self.display.now(&text, false);
    }

    /// Says whether nothing has ever succeeded and enough has failed.
    fn is_hopeless(&self) -> bool {
        let starts = self.work.journal().starts();
        let measured: Vec<&W::Outcome> = starts
            .filter_map(|(_, one)| one.measured.as_ref())
            .filter(|outcome| outcome.counts())
            .collect();
        let (done, total) = self.work.done(self.flights.len());
        let is_failure = |outcome: &&W::Outcome| outcome.failure().is_some();
        done + self.flights.len() < total
            && measured.len() >= HOPELESS
            && measured.iter().all(is_failure)
    }

    /// Names what runs on when the command ends with an error.
    fn with_running(&self, error: Error) -> Error {
        let ids = self.running();
        match ids.is_empty() {
            true => error,
            false => error.hinted(format!("still running: {}", ids.join(", "))),
        }
    }

    fn running(&self) -> Vec<&str> {
        let flights = self.flights.iter();
        flights
            .map(|flight| &flight.watched.run_id.as_str()[..6])
            .collect()
    }

    fn interrupted(&self) -> Error {
        let ids = self.running();
        let (done, total) = self.work.done(self.flights.len());
        let continues = format!("{done} of {total} runs are finished; the same command continues");
        let error = match ids.is_empty() {
            true => failure!(TryAgain, "interrupted; nothing is running").hinted(continues),
            false => failure!(TryAgain, "interrupted; still running: {}", ids.join(", "))
                .hinted(continues)
                .hinted(format!(
                    "`dlrun cancel {}` ends what is queued",
                    ids.join(" ")
                )),
        };
        error.hinted(format!(
            "`dlrun {} show {}` shows what is measured",
            self.work.verb(),
            self.work.name()
        ))
    }
}

/// Asks a run to end by itself where it has time for that, and then cancels it; says whether nothing is left to do.
fn give_up(
    session: &Session,
    tracker: &Tracker<'_>,
    (flight, tracked): (&mut Flight, &Tracked),
    wait: Option<Duration>,
) -> Result<bool, Error> {
    if tracked.status.state.is_final() {
        return Ok(true);
    }
    if let Some(wait) = wait {
        if flight.asked_since.is_none() {
            let run = tracker.state.run(&tracked.record.run_id)?;
            run.write_stop(now_ms())?;
        }
        if flight
            .asked_since
            .get_or_insert_with(Instant::now)
            .elapsed()
            < wait
        {
            return Ok(false);
        }
    }
    cancel(session, tracker, &tracked.record, None).map(|_| true)
}

/// Says whether a run that has ended well still has to write its last record.
fn is_late(tracked: &Tracked, since: &mut Option<Instant>) -> bool {
    let outcome = &tracked.reading.outcome;
    let (nodes, attempt) = (&outcome.nodes, &outcome.attempt);
    let is_written = !nodes.is_empty()
        && nodes.iter().all(|node| node.state != NodeState::Running)
        // With `[resume]` the end of a start, which has its checkpoint, is written last.
        && attempt.as_ref().is_none_or(|attempt| attempt.end.is_some());
    let since = *since.get_or_insert_with(Instant::now);
    tracked.status.state == JobState::Completed && !is_written && since.elapsed() < RECORD_PATIENCE
}
