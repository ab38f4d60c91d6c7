//! Brings the index up to date with files and schedulers, and finds runs by what people type.

mod ask;
mod evidence;
mod find;
mod ingest;
mod run_state;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::app::error::{Error, Kind, failure};
use crate::app::session::Session;
use crate::foundation::clock::now_ms;
use crate::foundation::diagnostic::chain;
use crate::foundation::private::FileError;
use crate::job::{ArraySpec, JobId, JobState, RunId};
use crate::plan::Plan;
use crate::record::rundir::{Reading, RunDir, StateDir, deliver_late};
use crate::record::store::{Store, StoreFault};
use crate::record::{
    AllStarts, Element, MeasureKey, QueueEntry, RunProgress, RunRecord, RunRow, Status,
};
use crate::scheduler::{adapter_for, output_file};

pub(crate) use ask::job_ref;
pub(crate) use evidence::{output_path, status_by_files};
pub(crate) use find::found;

/// A run as just seen.
#[derive(Debug, Clone)]
pub(crate) struct Tracked {
    pub(crate) record: RunRecord,
    pub(crate) status: Status,
    /// What the newest attempt left; of an array nothing.
    pub(crate) reading: Reading,
    /// The elements of its array.
    pub(crate) elements: Vec<Element>,
    /// All its starts as one, where it continued.
    pub(crate) all_starts: Option<AllStarts>,
}

impl Tracked {
    /// What its scheduler means by the reason for which it waits.
    pub(crate) fn reason_meaning(&self) -> Option<&'static str> {
        let reason = self.status.reason.as_deref()?;
        (self.status.state == JobState::Pending)
            .then(|| adapter_for(self.record.scheduler).meaning_of_reason(reason))?
    }

    /// How far it is while it runs.
    pub(crate) fn progress(&self) -> Option<RunProgress> {
        let outcome = &self.reading.outcome;
        RunProgress::of(&self.record, &self.status, outcome, now_ms())
    }

    /// Refuses elements that its array does not have.
    pub(crate) fn expect_elements(&self, asked: &ArraySpec) -> Result<(), Error> {
        let run_id = &self.record.run_id;
        let Some(array) = &self.record.array else {
            return Err(failure!(Usage, "run {run_id} is not an array"));
        };
        match asked.indexes().find(|index| !array.contains(*index)) {
            None => Ok(()),
            Some(index) => Err(failure!(Missing, "run {run_id} has no element {index}")
                .hinted(format!("its elements are {array}"))),
        }
    }

    /// One element of its array in its place; what its attempts left is kept.
    pub(crate) fn element(mut self, index: u32) -> Result<Self, Error> {
        let expected = self.expect_elements(&ArraySpec::of(&[index], None));
        expected.map_err(|mut error| {
            error.kind = Kind::Missing;
            error
        })?;
        let mut elements = std::mem::take(&mut self.elements).into_iter();
        let seen = elements.find(|seen| seen.element == index);
        let seen = seen.ok_or_else(|| failure!(Missing, "element {index} is not known here"))?;
        let output = output_path(&self.record, Some(index));
        self.record.output = output.map(|path| path.to_string_lossy().into_owned());
        self.status = seen.status;
        Ok(self)
    }

    /// Says whether its scheduler gave no answer, so that its state is an old one.
    pub(crate) fn has_no_answer(&self) -> bool {
        self.status.reason.as_deref() == Some(ask::NO_ANSWER)
    }
}

/// A run with its files, as just seen.
struct Seen {
    run: RunDir,
    tracked: Tracked,
    /// Elements that are to be noted in the index.
    changed: Vec<Element>,
    /// The entries of its scheduler.
    entries: Vec<QueueEntry>,
    /// Its files hold more than the index, although it is over.
    grown: bool,
}

/// For so long after a run's end its records are looked at again, in milliseconds.
const GROWS_MS: u64 = 86_400_000;
/// A run whose state has been unknown for so long is no longer asked about unless it is named, in milliseconds.
pub(crate) const FORGET_AFTER_MS: u64 = 14 * 86_400_000;

/// State directory and index together.
pub(crate) struct Tracker<'a> {
    session: &'a Session,
    pub(crate) state: StateDir,
    pub(crate) store: Store,
    warned: BTreeSet<&'static str>,
}

impl<'a> Tracker<'a> {
    /// Opens the index; one that is damaged or cannot be written is rebuilt, in memory if need be: it holds nothing
    /// that the files do not.
    pub(crate) fn open(session: &'a Session) -> Result<Self, Error> {
        Self::opened(session, false)
    }

    /// As [`Tracker::open`], to rebuild the index: one that this dlrun cannot use is set aside.
    pub(crate) fn open_to_rebuild(session: &'a Session) -> Result<Self, Error> {
        Self::opened(session, true)
    }

    fn opened(session: &'a Session, rebuild: bool) -> Result<Self, Error> {
        let state = session.existing_state()?;
        let store = open_index(session, &state, rebuild)?;
        Ok(Self {
            session,
            state,
            store,
            warned: BTreeSet::new(),
        })
    }

    /// Brings every run that may still change up to date in the index, as far as its state goes: what a run that is still running
    /// has measured is taken in when it is over, or when it is asked for by name.
    pub(crate) fn refresh_unfinished(&mut self, history: bool) -> Result<(), Error> {
        deliver_late(&self.state);
        self.discover()?;
        let oldest = now_ms().saturating_sub(FORGET_AFTER_MS);
        let mut rows = self.store.unfinished()?;
        rows.retain(|row| {
            row.status.state != JobState::Unknown || row.record.submitted_at_ms >= oldest
        });
        let grown = self.grown(None);
        for run_id in &grown {
            rows.extend(self.store.run(run_id)?);
        }
        let mut due = Vec::new();
        let mut before = Vec::new();
        for row in rows {
            // Another job may continue it by now.
            match self
                .state
                .run(&row.record.run_id)
                .and_then(|run| Ok((record_of(&run)?, run)))
            {
                Ok((record, run)) => {
                    due.push((run, record));
                    before.push(row);
                }
                // One bad run hides no other.
                Err(error) => self.pass_over(&row.record.run_id, &error),
            }
        }
        let seen = self.see(due, history, false, &grown)?;
        let is_changed = |(seen, before): &(Seen, RunRow)| {
            seen.grown
                || seen.tracked.status != before.status
                || seen.tracked.record != before.record
                || !seen.changed.is_empty()
        };
        let changed = seen.into_iter().zip(before).filter(is_changed);
        let changed: Vec<Seen> = changed.map(|(seen, _)| seen).collect();
        if self.take_in_seen(&changed, false) || self.store.path() == Path::new(Store::IN_MEMORY) {
            return Ok(());
        }
        // What the index holds is older than what was just seen.
        self.store = Store::in_memory()?;
        self.refresh_unfinished(history)
    }

    /// Runs that are over with records that were written since they were read: a training may outlive its job, and what a full disk
    /// kept from the record is written when there is room. Of `wanted` only, or of all that ended within a day.
    fn grown(&self, wanted: Option<&[RunId]>) -> BTreeSet<RunId> {
        let since_ms = wanted.map_or_else(|| now_ms().saturating_sub(GROWS_MS), |_| 0);
        let records = self
            .store
            .unfinished_records(since_ms)
            .unwrap_or_default()
            .into_iter();
        let records =
            records.filter(|(key, _)| wanted.is_none_or(|wanted| wanted.contains(&key.run_id)));
        let grew = |key: &MeasureKey, read_ms: u64| {
            let run = self.state.run(&key.run_id);
            let record = run
                .and_then(|run| run.node_dir(key))
                .and_then(|dir| dir.read_record());
            record.is_ok_and(|record| record.updated_at_ms != read_ms)
        };
        records
            .filter(|(key, read_ms)| grew(key, *read_ms))
            .map(|(key, _)| key.run_id)
            .collect()
    }

    /// Looks at `run_ids`: their files, and their schedulers with one question each.
    pub(crate) fn refresh(
        &mut self,
        run_ids: &[RunId],
        history: bool,
    ) -> Result<Vec<Tracked>, Error> {
        deliver_late(&self.state);
        let mut due = Vec::new();
        for run_id in run_ids {
            let opened = self
                .state
                .run(run_id)
                .and_then(|run| Ok((record_of(&run)?, run)));
            if opened.as_ref().is_err_and(FileError::is_missing) {
                self.expect_directory(run_id)?;
            }
            let (record, run) = opened.inspect_err(|error| self.pass_over(run_id, error))?;
            due.push((run, record));
        }
        let grown = self.grown(Some(run_ids));
        let seen = self.see(due, history, true, &grown)?;
        self.take_in_seen(&seen, true);
        let continued = self.store.continued(run_ids, now_ms()).unwrap_or_default();
        let with_starts = |mut tracked: Tracked| {
            let key = (tracked.record.run_id.clone(), None);
            tracked.all_starts = continued.get(&key).copied();
            tracked
        };
        Ok(seen
            .into_iter()
            .map(|seen| with_starts(seen.tracked))
            .collect())
    }

    /// Asks the schedulers about runs, then reads their files.
    fn see(
        &mut self,
        mut due: Vec<(RunDir, RunRecord)>,
        history: bool,
        wanted: bool,
        grown: &BTreeSet<RunId>,
    ) -> Result<Vec<Seen>, Error> {
        self.find_unheard(&mut due);
        // The schedulers before the marks: a job that ends in between has left its mark by then, with its exit code.
        let mut answers = self.ask(&due, history);
        let mut all = Vec::new();
        for (run, record) in due {
            let answer = answers.remove(run.run_id()).unwrap_or_default();
            // An index that cannot be read costs the reading of all elements.
            let known = record
                .array
                .as_ref()
                .and_then(|_| self.store.elements(run.run_id()).ok());
            let (tracked, changed) =
                run_state::run_state(&run, record, &answer, known.unwrap_or_default(), wanted)?;
            all.push(Seen {
                grown: grown.contains(run.run_id()),
                run,
                tracked,
                changed,
                entries: answer.entries,
            });
        }
        Ok(all)
    }

    /// Where the files of a run are.
    pub(crate) fn records_of(&self, run_id: &RunId) -> PathBuf {
        self.state.path().join("runs").join(run_id.as_str())
    }

    /// Looks at one run.
    pub(crate) fn look_at(&mut self, run_id: &RunId, history: bool) -> Result<Tracked, Error> {
        let tracked = self.refresh(std::slice::from_ref(run_id), history)?;
        let vanished = || failure!(Internal, "the run vanished");
        tracked.into_iter().next().ok_or_else(vanished)
    }

    /// Refuses a run that was imported, for verbs that look at its files or act on its job.
    pub(crate) fn expect_directory(&self, run_id: &RunId) -> Result<(), Error> {
        if !self.store.is_imported(run_id)? {
            return Ok(());
        }
        Err(failure!(
            Missing,
            "run {run_id} was imported: it has no directory here"
        )
        .hinted("`dlrun show` shows what is known of it"))
    }

    /// Tells of a run whose files cannot be used; one whose files are gone is forgotten.
    fn pass_over(&mut self, run_id: &RunId, error: &FileError) {
        let why = chain(error).join(": ");
        self.session
            .warning(&format!("run {run_id} is passed over: {why}"));
        if error.is_missing() {
            let _ = self.store.write(|writer| writer.forget_run(run_id));
        }
    }

    fn warn(&mut self, topic: &'static str, text: &str) {
        if self.warned.insert(topic) {
            self.session.warning(text);
        }
    }
}

/// Why an index is of no use whose tables have other columns.
const OTHER_VERSION: &str = "does not match this version of dlrun";

/// A new index in place of one that is of no use, which is kept beside it.
fn replaced(session: &Session, path: &Path, why: &str) -> Result<Store, Error> {
    let aside = Store::set_aside(path)?;
    session.warning(&format!(
        "the index {why}; it is kept as `{}` and rebuilt",
        aside.display()
    ));
    Ok(Store::open(path)?)
}

fn open_index(session: &Session, state: &StateDir, rebuild: bool) -> Result<Store, Error> {
    let path = state.index_path()?;
    let error = match Store::open(&path) {
        Ok(store) => return Ok(store),
        Err(error) => error,
    };
    match error.kind {
        StoreFault::Damaged => replaced(session, &path, "was damaged"),
        StoreFault::Newer if rebuild => replaced(session, &path, "is that of a newer dlrun"),
        StoreFault::Foreign if rebuild => {
            replaced(session, &path, "is a database of another program")
        }
        StoreFault::OtherTables if rebuild => replaced(session, &path, OTHER_VERSION),
        StoreFault::Newer | StoreFault::Foreign | StoreFault::NotOurs => Err(error.into()),
        _ => {
            let hint = match error.kind {
                StoreFault::OtherTables => "; `dlrun list --reindex` rebuilds it",
                _ => "",
            };
            session.warning(&format!(
                "the index cannot be used, so it is made in memory: {}{hint}",
                chain(&error).join(": ")
            ));
            Ok(Store::in_memory()?)
        }
    }
}

/// The plan that is kept with a run.
pub(crate) fn plan_of(run: &RunDir) -> Option<Plan> {
    serde_json::from_str(&run.read_plan().ok()?).ok()
}

/// The record of a run. A client that was killed between handing over and writing down left no job id; the job itself
/// knows it.
fn record_of(run: &RunDir) -> Result<RunRecord, FileError> {
    let mut record = run.read_run()?;
    if record.job_id.is_some() {
        return Ok(record);
    }
    // Of an array any element that has started knows it.
    let element = run.attempts()?.first().map_or(0, |attempt| attempt.element);
    let outcome = run.newest_outcome(element)?.outcome;
    let marks = outcome
        .start
        .iter()
        .chain(&outcome.end)
        .find_map(|mark| mark.job_id.clone());
    let nodes = || outcome.nodes.iter().find_map(|node| node.job_id.clone());
    if let Some(job_id) = marks.filter(|job_id| !job_id.0.is_empty()).or_else(nodes) {
        set_job(run, &mut record, job_id);
    }
    Ok(record)
}

/// Notes the job that a run turned out to be.
fn set_job(run: &RunDir, record: &mut RunRecord, job_id: JobId) {
    let output = || plan_of(run).map(|plan| output_file(&plan, &job_id));
    if record.output.is_none() {
        record.output = output().map(|path| path.to_string_lossy().into_owned());
    }
    record.job_id = Some(job_id);
    // Found again next time where it cannot be written down.
    let _ = run.write_run(record);
}
