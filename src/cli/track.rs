//! Brings the index up to date with files and schedulers, and finds runs by what people type.

use std::collections::{BTreeMap, BTreeSet};

use super::error::{Error, Kind};
use super::session::Session;
use crate::clock::now_ms;
use crate::diagnostic::chain;
use crate::job::{JobState, RunId, SchedulerKind};
use crate::record::{NodeRecord, QueueEntry, RunRecord, Status, decode_columns, resolve};
use crate::rundir::{Reading, RunDir, RunDirError, StateDir};
use crate::scheduler::{Entries, JobRef};
use crate::store::{Filter, Found, RunRow, Segment, Store, StoreError, Writer};

/// A run as just seen.
#[derive(Debug, Clone)]
pub(crate) struct Tracked {
    pub(crate) record: RunRecord,
    pub(crate) status: Status,
    pub(crate) reading: Reading,
}

/// A run of which nothing was heard for so long is not asked about any more unless it is named, in milliseconds.
const FORGET_AFTER_MS: u64 = 14 * 86_400_000;

/// State directory and index together.
pub(crate) struct Tracker<'a> {
    session: &'a Session,
    pub(crate) state: StateDir,
    pub(crate) store: Store,
    warned: BTreeSet<&'static str>,
}

impl<'a> Tracker<'a> {
    /// Opens the index; one that is damaged or cannot be written is made anew, in memory if need be: it holds nothing
    /// that the files do not.
    pub(crate) fn open(session: &'a Session) -> Result<Self, Error> {
        let state = session.existing_state()?;
        let store = open_index(session, &state)?;
        Ok(Self { session, state, store, warned: BTreeSet::new() })
    }

    /// Takes in runs that came to be without this index: on another machine, or through `dlrun render`.
    pub(crate) fn discover(&mut self) -> Result<(), Error> {
        let known = self.store.known_runs()?;
        let new: Vec<RunId> = self.state.runs()?.filter(|run_id| !known.contains(run_id)).collect();
        self.take_in(&new)
    }

    /// Makes the index anew from the files; returns the number of runs.
    pub(crate) fn reindex(&mut self) -> Result<usize, Error> {
        self.store.write(|writer| writer.clear())?;
        let all: Vec<RunId> = self.state.runs()?.collect();
        self.take_in(&all)?;
        Ok(all.len())
    }

    fn take_in(&mut self, run_ids: &[RunId]) -> Result<(), Error> {
        let state = &self.state;
        // A few hundred runs a transaction: quick, and an interruption loses little.
        for some in run_ids.chunks(500) {
            self.store.write(|writer| {
                for run_id in some {
                    let Ok(run) = state.run(run_id) else { continue };
                    let Ok(record) = run.read_run() else { continue };
                    writer.upsert_run(&record)?;
                    ingest(writer, &run, true)?;
                    let outcome = run.newest_outcome(0).unwrap_or_default().outcome;
                    writer.set_status(run_id, &resolve(&outcome, None))?;
                }
                Ok::<(), StoreError>(())
            })?;
        }
        Ok(())
    }

    /// The run that `text` means.
    pub(crate) fn find(&mut self, text: &str) -> Result<RunId, Error> {
        self.discover()?;
        match self.store.find(text)? {
            Found::One(run_id) => Ok(run_id),
            Found::None => {
                let error = Error::new(Kind::Missing, format!("there is no run `{text}`"));
                Err(error.hinted(
                    "`dlrun list` shows the runs; one is named by four or more letters of its id, its name or its job id",
                ))
            }
            Found::Ambiguous(run_ids) => {
                let some: Vec<String> = run_ids.iter().take(5).map(ToString::to_string).collect();
                let error = Error::new(Kind::Missing, format!("`{text}` may mean {} runs", run_ids.len()));
                Err(error.hinted(format!("write more of the id: {}", some.join(", "))))
            }
        }
    }

    /// The run that `text` means, for verbs that act on runs that are not over: of several runs of one name that which goes
    /// on, and none of them where that is not clear.
    pub(crate) fn find_going_on(&mut self, text: &str) -> Result<RunId, Error> {
        self.discover()?;
        let states = vec![JobState::Pending, JobState::Running, JobState::Suspended];
        let filter = Filter { name: Some(text.to_owned()), states };
        let mut rows = self.store.list(100, &filter)?;
        // The index may be old: where it leaves a choice, the schedulers are asked, with one question.
        let is_newest = |row: &RunRow| {
            self.store.find(text).is_ok_and(|found| found == Found::One(row.record.run_id.clone()))
        };
        let is_clear = rows.is_empty() || rows.len() == 1 && is_newest(&rows[0]);
        if !is_clear {
            let run_ids: Vec<RunId> = rows.into_iter().map(|row| row.record.run_id).collect();
            self.refresh(&run_ids, false)?;
            rows = self.store.list(6, &filter)?;
        }
        match &rows[..] {
            [] => self.find(text),
            [one] => Ok(one.record.run_id.clone()),
            several => {
                let ids: Vec<String> = several.iter().map(|row| row.record.run_id.to_string()).collect();
                let error = Error::new(Kind::Usage, format!("several runs named `{text}` go on"));
                Err(error.hinted(format!("name one by its id: {}", ids.join(", "))))
            }
        }
    }

    /// Brings every run that may still change up to date in the index, as far as its state goes: what a run that goes on
    /// has measured is taken in when it is over, or when it is asked for by name.
    pub(crate) fn refresh_unfinished(&mut self, history: bool) -> Result<(), Error> {
        self.discover()?;
        let oldest = now_ms().saturating_sub(FORGET_AFTER_MS);
        let mut rows = self.store.unfinished()?;
        rows.retain(|row| row.status.state != JobState::Unknown || row.record.submitted_at_ms >= oldest);
        let mut due = Vec::new();
        let mut before = Vec::new();
        for row in rows {
            // A record that has its job id never changes again.
            let record = |run: &RunDir| {
                if row.record.job_id.is_some() { Ok(row.record.clone()) } else { record_of(run) }
            };
            match self.state.run(&row.record.run_id).and_then(|run| Ok((record(&run)?, run))) {
                Ok((record, run)) => {
                    due.push((run, record));
                    before.push(row);
                }
                // One bad run hides no other.
                Err(error) => self.pass_over(&row.record.run_id, &error),
            }
        }
        let entries = self.ask(&due, history);
        let mut changed = Vec::new();
        for ((run, record), before) in due.into_iter().zip(&before) {
            let entry = entries.get(run.run_id());
            let status = glance(&run, entry)?;
            if status != before.status || record != before.record {
                keep_verdict(&run, entry);
                changed.push((run, record, status));
            }
        }
        self.take_in_status(changed.iter().map(|(run, record, status)| (run, record, status)), false);
        Ok(())
    }

    /// Looks at `run_ids`: their files, and their schedulers with one question each.
    pub(crate) fn refresh(&mut self, run_ids: &[RunId], history: bool) -> Result<Vec<Tracked>, Error> {
        let mut due = Vec::new();
        for run_id in run_ids {
            let opened = self.state.run(run_id).and_then(|run| Ok((record_of(&run)?, run)));
            let (record, run) = opened.inspect_err(|error| self.pass_over(run_id, error))?;
            due.push((run, record));
        }
        // The schedulers before the marks: a job that ends in between has left its mark by then, with its exit code.
        let entries = self.ask(&due, history);
        let mut tracked = Vec::new();
        for (run, record) in due {
            let reading = run.newest_outcome(0)?;
            let entry = entries.get(run.run_id());
            if entry != reading.outcome.verdict.as_ref() {
                keep_verdict(&run, entry);
            }
            let status = resolve(&reading.outcome, entry);
            tracked.push((run, Tracked { record, status, reading }));
        }
        self.take_in_status(tracked.iter().map(|(run, seen)| (run, &seen.record, &seen.status)), true);
        Ok(tracked.into_iter().map(|(_, tracked)| tracked).collect())
    }

    /// Takes runs into the index with what they measured: all of it where they are over, without the series where they go
    /// on and the measurements are `wanted`.
    fn take_in_status<'r>(
        &mut self,
        seen: impl ExactSizeIterator<Item = (&'r RunDir, &'r RunRecord, &'r Status)>,
        wanted: bool,
    ) {
        if seen.len() == 0 {
            return;
        }
        let seen: Vec<_> = seen
            .map(|(run, record, status)| {
                let known = self.store.run(run.run_id()).ok().flatten();
                let is_news = known.is_none_or(|known| known.status != *status || !status.state.is_final());
                (run, record, status, is_news)
            })
            .collect();
        let written = self.store.write(|writer| {
            for (run, record, status, is_news) in seen {
                writer.upsert_run(record)?;
                let over = status.state.is_final();
                // A run that is over and was taken in is not read again.
                if is_news && (wanted || over) {
                    // The series of a run that goes on grows yet.
                    ingest(writer, run, over)?;
                }
                writer.set_status(run.run_id(), status)?;
            }
            Ok::<(), StoreError>(())
        });
        if let Err(error) = written {
            self.warn("index", &format!("the index was not brought up to date: {error}"));
        }
    }

    /// Tells of a run whose files cannot be used; one whose files are gone is forgotten.
    fn pass_over(&mut self, run_id: &RunId, error: &RunDirError) {
        let why = chain(error).join(": ");
        self.session.output.warning(&format!("run {run_id} is passed over: {why}"));
        if error.is_missing() {
            let _ = self.store.write(|writer| writer.forget_run(run_id));
        }
    }

    /// What the schedulers say now. Of one that gives no answer nothing new is known: its runs stay what they were.
    fn ask(&mut self, due: &[(RunDir, RunRecord)], history: bool) -> BTreeMap<RunId, QueueEntry> {
        let mut entries = BTreeMap::new();
        for kind in SchedulerKind::ALL {
            let jobs: Vec<JobRef> = due
                .iter()
                .filter(|(_, record)| record.scheduler == kind)
                .filter_map(|(run, record)| job_ref(run, record))
                .collect();
            if jobs.is_empty() {
                continue;
            }
            let Ok(scheduler) = self.session.scheduler(kind) else { continue };
            match scheduler.queue(&jobs) {
                Ok(found) => entries.extend(firsts(found)),
                Err(error) => {
                    let why = chain(&error).join(": ");
                    self.warn(kind.as_str(), &format!("states are those last heard of: {why}"));
                    entries.extend(jobs.iter().map(|job| (job.run_id.clone(), self.last_heard(job))));
                }
            }
            if history {
                let forgotten: Vec<JobRef> =
                    jobs.into_iter().filter(|job| !entries.contains_key(&job.run_id)).collect();
                match scheduler.history(&forgotten) {
                    Ok(found) => entries.extend(firsts(found)),
                    Err(error) => self.warn("history", &chain(&error).join(": ")),
                }
            }
        }
        entries
    }

    /// A run as it stood when its scheduler last answered; at first it waits.
    fn last_heard(&self, job: &JobRef) -> QueueEntry {
        let status = self.store.run(&job.run_id).ok().flatten().map(|row| row.status);
        let state = status.as_ref().map_or(JobState::Pending, |status| match status.state {
            JobState::Unknown => JobState::Running,
            state => state,
        });
        let known = status.as_ref().filter(|status| status.state.is_final());
        QueueEntry {
            job_id: job.job_id.clone(),
            state,
            raw_state: status.as_ref().and_then(|status| status.raw_state.clone()).unwrap_or_default(),
            // What is over has its own reason and times.
            reason: known.map_or_else(
                || Some("its scheduler gives no answer".to_owned()),
                |known| known.reason.clone(),
            ),
            submitted_at_ms: None,
            started_at_ms: known.and_then(|known| known.started_at_ms),
            ended_at_ms: known.and_then(|known| known.ended_at_ms),
            exit: known.and_then(|known| known.exit),
            nodes: None,
            elements: None,
            stuck: false,
        }
    }

    fn warn(&mut self, topic: &'static str, text: &str) {
        if self.warned.insert(topic) {
            self.session.output.warning(text);
        }
    }
}

fn firsts(entries: Entries) -> impl Iterator<Item = (RunId, QueueEntry)> {
    entries.into_iter().filter_map(|(run_id, entries)| Some((run_id, entries.into_iter().next()?)))
}

fn open_index(session: &Session, state: &StateDir) -> Result<Store, Error> {
    let path = state.index_path()?;
    match Store::open(&path) {
        Ok(store) => Ok(store),
        Err(StoreError::Damaged { .. }) => {
            let aside = Store::set_aside(&path)?;
            session.output.warning(&format!(
                "the index was damaged; it is kept as `{}` and made anew",
                aside.display()
            ));
            Ok(Store::open(&path)?)
        }
        Err(error @ (StoreError::Newer { .. } | StoreError::Foreign { .. } | StoreError::NotOurs { .. })) => {
            Err(error.into())
        }
        Err(error) => {
            session.output.warning(&format!("the index cannot be used, so it is made in memory: {error}"));
            Ok(Store::in_memory()?)
        }
    }
}

/// What a scheduler must know of a run; `None` where it never got a job id.
pub(crate) fn job_ref(run: &RunDir, record: &RunRecord) -> Option<JobRef> {
    Some(JobRef {
        run_id: record.run_id.clone(),
        job_id: record.job_id.clone()?,
        parts: record.parts.clone(),
        name: record.name.clone(),
        submitted_at_ms: record.submitted_at_ms,
        submit_host: record.submit_host.clone(),
        run_dir: run.path().to_owned(),
    })
}

/// Keeps an end that the marks cannot know. That it cannot be kept costs the explanation, once the scheduler forgets.
fn keep_verdict(run: &RunDir, entry: Option<&QueueEntry>) {
    if let Some(verdict) = entry.filter(|entry| entry.explains_the_end() && entry.ended_at_ms.is_some()) {
        let _ = run.write_verdict(verdict);
    }
}

/// Where a run stands, from as few of its files as decide that: while its scheduler speaks, the marks are enough.
fn glance(run: &RunDir, entry: Option<&QueueEntry>) -> Result<Status, RunDirError> {
    let reading = if entry.is_some() { run.newest_marks(0)? } else { run.newest_outcome(0)? };
    Ok(resolve(&reading.outcome, entry))
}

/// The record of a run. A client that was killed between handing over and writing down left no job id; the job itself
/// knows it.
fn record_of(run: &RunDir) -> Result<RunRecord, RunDirError> {
    let mut record = run.read_run()?;
    if record.job_id.is_some() {
        return Ok(record);
    }
    let outcome = run.newest_outcome(0)?.outcome;
    let marks = outcome.start.iter().chain(&outcome.end).find_map(|mark| mark.job_id.clone());
    let nodes = || outcome.nodes.iter().find_map(|node| node.job_id.clone());
    if let Some(job_id) = marks.filter(|job_id| !job_id.0.is_empty()).or_else(nodes) {
        let file = format!("{}-{job_id}.out", record.name);
        record.output.get_or_insert_with(|| format!("{}/{file}", record.workdir));
        record.job_id = Some(job_id);
        // Found again next time where it cannot be written down.
        let _ = run.write_run(&record);
    }
    Ok(record)
}

/// Takes what a run's files hold into the index, with or without the series.
fn ingest(writer: &Writer<'_>, run: &RunDir, series: bool) -> Result<(), StoreError> {
    for attempt in run.attempts().unwrap_or_default() {
        let reading = run.outcome(attempt);
        writer.ingest_attempt(run.run_id(), attempt.element, attempt.attempt, &reading.outcome)?;
        for node in reading.outcome.nodes.iter().filter(|_| series) {
            ingest_segments(writer, run, node)?;
        }
    }
    Ok(())
}

/// Segments never change. A damaged one is passed over; the file stays. Only its times matter here, and only they are decoded.
fn ingest_segments(writer: &Writer<'_>, run: &RunDir, node: &NodeRecord) -> Result<(), StoreError> {
    let Ok(dir) = run.node_dir(&node.key) else { return Ok(()) };
    for seq in dir.segments().unwrap_or_default() {
        let Ok(bytes) = dir.read_segment(seq) else { continue };
        let Ok(columns) = decode_columns(&bytes, |_| false) else { continue };
        let (Some(first), Some(last)) = (columns.at_ms.first(), columns.at_ms.last()) else { continue };
        let samples = u32::try_from(columns.at_ms.len()).unwrap_or(u32::MAX);
        let segment = Segment { seq, t0_ms: *first, t1_ms: *last, samples, bytes: &bytes };
        writer.ingest_segment(&node.key, segment)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::job::JobId;

    fn run_with(files: &[(&str, &str)]) -> (tempfile::TempDir, RunDir) {
        let tmp = tempfile::tempdir().expect("a directory");
        let state = StateDir::create(&tmp.path().join("state")).expect("created");
        let run = state.ensure_run(&RunId::from_random([7; 10])).expect("created");
        fs::create_dir(run.path().join("0.0")).expect("created");
        for (name, exit_code) in files {
            let mark =
                format!(r#"{{"format":1,"at_ms":5000,"node":"n1","job_id":"7","exit_code":{exit_code}}}"#);
            fs::write(run.path().join("0.0").join(name), mark).expect("written");
        }
        (tmp, run)
    }

    fn entry(state: JobState) -> QueueEntry {
        QueueEntry {
            job_id: JobId("7".into()),
            state,
            raw_state: "RAW".into(),
            reason: None,
            submitted_at_ms: None,
            started_at_ms: None,
            ended_at_ms: None,
            exit: None,
            nodes: None,
            elements: None,
            stuck: false,
        }
    }

    /// What a glance says is what all files say.
    fn glanced(run: &RunDir, entry: Option<&QueueEntry>) -> Status {
        let whole = resolve(&run.newest_outcome(0).expect("listed").outcome, entry);
        let status = glance(run, entry).expect("listed");
        assert_eq!(status, whole);
        status
    }

    #[test]
    fn a_glance_is_enough() {
        let (_tmp, ended) = run_with(&[("start.json", "null"), ("end.json", "3")]);
        assert_eq!(glanced(&ended, None).state, JobState::Failed);
        assert_eq!(glanced(&ended, Some(&entry(JobState::Running))).state, JobState::Running);
        assert_eq!(glanced(&ended, Some(&entry(JobState::Timeout))).state, JobState::Timeout);
        // Requeued: the end mark is of the earlier start.
        assert_eq!(glanced(&ended, Some(&entry(JobState::Pending))).state, JobState::Pending);
        let (_tmp, started) = run_with(&[("start.json", "null")]);
        assert_eq!(glanced(&started, Some(&entry(JobState::Running))).started_at_ms, Some(5000));
        assert_eq!(glanced(&started, None).state, JobState::Unknown);
    }
}
