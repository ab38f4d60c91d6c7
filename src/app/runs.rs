//! Runs as `list` and `show` look at them: those of the index, one of them with its files, its attempts and elements.

use std::path::Path;

use serde::Serialize;

use crate::app::error::{Error, Kind};
use crate::app::imported::{imported_run, open_store};
use crate::app::session::Session;
use crate::app::track::{Tracked, Tracker, found, plan_of};
use crate::job::{JobId, JobState, RunId};
use crate::record::rundir::{Attempt, Reading};
use crate::record::store::Store;
use crate::record::{Element, ExitStatus, Sentinel};

pub(crate) use crate::record::RunRow;
pub(crate) use crate::record::rundir::RunDir;
pub(crate) use crate::record::store::Filter;

/// A run, and the shortest beginning of its id that means no other.
type Listed = (RunRow, String);

/// The newest runs of one's own records; `None` where nothing is recorded yet.
pub(crate) fn list_runs(
    session: &Session,
    filter: &Filter,
    limit: usize,
    reindex: bool,
    history: bool,
) -> Result<Option<Vec<Listed>>, Error> {
    let mut tracker = match Tracker::open(session) {
        Err(error) if error.kind == Kind::Missing => return Ok(None),
        other => other?,
    };
    if reindex {
        let runs = tracker.reindex()?;
        session.note(&format!("indexed {runs} runs again"));
    }
    tracker.refresh_unfinished(history)?;
    listed(&tracker.store, filter, limit).map(Some)
}

/// The newest runs of another database.
pub(crate) fn list_store(
    path: &Path,
    filter: &Filter,
    limit: usize,
) -> Result<Option<Vec<Listed>>, Error> {
    listed(&open_store(path)?, filter, limit).map(Some)
}

fn listed(store: &Store, filter: &Filter, limit: usize) -> Result<Vec<Listed>, Error> {
    let rows = store.list(limit, filter)?;
    let run_ids: Vec<RunId> = rows.iter().map(|row| row.record.run_id.clone()).collect();
    let prefixes = store.shortest_prefixes(&run_ids)?;
    Ok(rows.into_iter().zip(prefixes).collect())
}

/// What a shell may complete where a run is asked for, by the index as it is: the shortest ids that are clear, then names.
pub(crate) fn run_completions(session: &Session, limit: usize) -> Option<Vec<String>> {
    let path = session.existing_state().ok()?.index_path().ok()?;
    let store = Store::open(&path).ok()?;
    let rows = store.list(limit, &Filter::default()).ok()?;
    let ids: Vec<_> = rows.iter().map(|row| row.record.run_id.clone()).collect();
    let mut words = store.shortest_prefixes(&ids).ok()?;
    let mut names: Vec<String> = rows.into_iter().map(|row| row.record.name).collect();
    names.sort();
    names.dedup();
    words.append(&mut names);
    Some(words)
}

/// An attempt of a run or of an element.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct AttemptSeen {
    pub(crate) element: Option<u32>,
    pub(crate) attempt: Option<u32>,
    pub(crate) started_at_ms: Option<u64>,
    pub(crate) ended_at_ms: Option<u64>,
    pub(crate) exit: Option<ExitStatus>,
    pub(crate) node: Option<String>,
    pub(crate) job_id: Option<JobId>,
}

impl From<&Reading> for AttemptSeen {
    fn from(reading: &Reading) -> Self {
        let (start, end) = (reading.outcome.start.as_ref(), reading.outcome.end.as_ref());
        let first = start.or(end);
        Self {
            element: reading.attempt.map(|attempt| attempt.element),
            attempt: reading.attempt.map(|attempt| attempt.attempt),
            started_at_ms: start.map(|mark| mark.at_ms),
            ended_at_ms: end.map(|mark| mark.ended_at_ms(start)),
            exit: end.and_then(Sentinel::exit),
            node: first.map(|mark| mark.node.clone()),
            job_id: first.and_then(|mark| mark.job_id.clone()),
        }
    }
}

/// A run as `show` has it.
pub(crate) struct Shown {
    pub(crate) tracked: Tracked,
    /// Its files; `None` of one that was imported.
    pub(crate) dir: Option<RunDir>,
    /// All of a single run or of one element; of an array those of the elements that were requeued.
    pub(crate) attempts: Vec<AttemptSeen>,
    /// What the command line said in place of the job file.
    pub(crate) overrides: Vec<String>,
}

/// Looks at a run of another database, else of one's own records; `history`: the scheduler's accounting is asked too.
pub(crate) fn look_at_run(
    session: &Session,
    run: &str,
    element: Option<u32>,
    store: Option<&Path>,
    history: bool,
) -> Result<Shown, Error> {
    if let Some(path) = store {
        let store = open_store(path)?;
        let run_id = found(store.find(run)?, run)?;
        return Shown::imported(&store, &run_id, element);
    }
    let mut tracker = Tracker::open(session)?;
    let run_id = tracker.find(run)?;
    if tracker.store.is_imported(&run_id)? {
        return Shown::imported(&tracker.store, &run_id, element);
    }
    let mut tracked = tracker.look_at(&run_id, history)?;
    let dir = tracker.state.run(&run_id)?;
    if let Some(element) = element {
        tracked = element_of(&dir, tracked, element)?;
    }
    Ok(Shown {
        attempts: attempts(&dir, &tracked, element),
        overrides: plan_of(&dir).map(|plan| plan.overrides).unwrap_or_default(),
        tracked,
        dir: Some(dir),
    })
}

impl Shown {
    fn imported(store: &Store, run_id: &RunId, element: Option<u32>) -> Result<Self, Error> {
        Ok(Self {
            tracked: imported_run(store, run_id, element)?,
            dir: None,
            attempts: Vec::new(),
            overrides: Vec::new(),
        })
    }

    /// The elements that ended badly, each with the node of its newest attempt, by the marks of the first `most`.
    pub(crate) fn failed_elements(&self, most: usize) -> Vec<(&Element, Option<String>)> {
        let is_bad = |element: &&Element| {
            let state = element.status.state;
            state.is_final() && state != JobState::Completed
        };
        let node = |element: &Element| {
            let attempt = element.attempt?;
            let element = element.element;
            let reading = self.dir.as_ref()?.marks(Attempt { element, attempt });
            AttemptSeen::from(&reading).node
        };
        let bad = self.tracked.elements.iter().filter(is_bad).enumerate();
        bad.map(|(place, element)| (element, (place < most).then(|| node(element)).flatten()))
            .collect()
    }
}

fn attempts(run: &RunDir, tracked: &Tracked, element: Option<u32>) -> Vec<AttemptSeen> {
    let all = run.attempts().unwrap_or_default();
    let requeued: Vec<u32> = all
        .iter()
        .filter(|attempt| attempt.attempt > 0)
        .map(|attempt| attempt.element)
        .collect();
    let is_array = tracked.record.array.is_some();
    let wanted = |attempt: &&Attempt| match element {
        Some(element) => attempt.element == element,
        None => !is_array || requeued.contains(&attempt.element),
    };
    all.iter()
        .filter(wanted)
        .map(|attempt| AttemptSeen::from(&run.marks(*attempt)))
        .collect()
}

/// One element of an array in the place of the whole, with what its newest attempt left.
pub(crate) fn element_of(run: &RunDir, tracked: Tracked, element: u32) -> Result<Tracked, Error> {
    Ok(Tracked {
        reading: run.newest_outcome(element)?,
        ..tracked.element(element)?
    })
}
