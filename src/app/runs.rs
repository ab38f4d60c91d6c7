//! Runs as `list` and `show` look at them: those of the index, one of them with its files, its attempts and elements.

use std::collections::BTreeSet;
use std::path::Path;

use crate::app::error::{Error, Kind};
use crate::app::imported::{imported_run, open_store};
use crate::app::session::Session;
use crate::app::track::{Tracked, Tracker, found, plan_of};
use crate::foundation::clock::now_ms;
use crate::job::{JobState, RunId};
use crate::record::rundir::{Attempt, Reading};
use crate::record::store::Store;
use crate::record::{AllStarts, AttemptMarks, AttemptSeen, Element, Outcome, RunProgress};

pub(crate) use crate::record::RunRow;
pub(crate) use crate::record::rundir::RunDir;
pub(crate) use crate::record::store::Filter;

/// A run of a list.
pub(crate) struct Listed {
    pub(crate) row: RunRow,
    /// The shortest beginning of its id that means no other.
    pub(crate) prefix: String,
    /// All its starts as one, where it continued.
    pub(crate) all_starts: Option<AllStarts>,
    /// How far it is, while it runs.
    pub(crate) progress: Option<RunProgress>,
    /// Time of GPUs and of nodes that it held without work, in seconds, where the list is about that.
    pub(crate) held: Option<(f64, f64)>,
}

/// The newest runs of one's own records; `None` where nothing is recorded yet.
pub(crate) fn list_runs(
    session: &Session,
    filter: &Filter,
    limit: usize,
    reindex: bool,
    history: bool,
) -> Result<Option<Vec<Listed>>, Error> {
    let opened = match reindex {
        true => Tracker::open_to_rebuild(session),
        false => Tracker::open(session),
    };
    let mut tracker = match opened {
        Err(error) if error.kind == Kind::Missing => return Ok(None),
        other => other?,
    };
    if reindex {
        let runs = tracker.reindex()?;
        session.note(&format!("indexed {runs} runs again"));
    }
    tracker.refresh_unfinished(history)?;
    if filter.held {
        // The sums are of the index: it takes in what is new of those that run.
        let unfinished = tracker.all_going_on()?;
        tracker.refresh(&unfinished, false)?;
    }
    // Looking at all runs does not read the records of those that run.
    let outcome = |run_id: &RunId| match tracker.state.run(run_id) {
        Ok(run) => Ok(run.newest_outcome(0)?.outcome),
        Err(_) => indexed(&tracker.store, run_id),
    };
    listed(&tracker.store, filter, limit, outcome).map(Some)
}

/// The newest runs of another database.
pub(crate) fn list_store(
    path: &Path,
    filter: &Filter,
    limit: usize,
) -> Result<Option<Vec<Listed>>, Error> {
    let store = open_store(path)?;
    listed(&store, filter, limit, |run_id| indexed(&store, run_id)).map(Some)
}

/// What the index has of a run that runs.
fn indexed(store: &Store, run_id: &RunId) -> Result<Outcome, Error> {
    Ok(Outcome {
        nodes: store.node_records(run_id)?,
        ..Outcome::default()
    })
}

fn listed(
    store: &Store,
    filter: &Filter,
    limit: usize,
    outcome: impl Fn(&RunId) -> Result<Outcome, Error>,
) -> Result<Vec<Listed>, Error> {
    let rows = store.list(limit, filter)?;
    let run_ids: Vec<RunId> = rows.iter().map(|row| row.record.run_id.clone()).collect();
    let prefixes = store.shortest_prefixes(&run_ids)?;
    let continued = store.continued(&run_ids, now_ms())?;
    let listed = rows.into_iter().zip(prefixes);
    let listed = listed.map(|(row, prefix)| {
        let key = (row.record.run_id.clone(), None);
        let is_one = row.status.state == JobState::Running && row.record.array.is_none();
        let outcome = match is_one {
            true => outcome(&key.0)?,
            false => Outcome::default(),
        };
        Ok(Listed {
            progress: RunProgress::of(&row.record, &row.status, &outcome, now_ms()),
            held: filter.held.then(|| store.held(&key.0)).transpose()?,
            row,
            prefix,
            all_starts: continued.get(&key).copied(),
        })
    });
    listed.collect()
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

/// An attempt by what it left.
fn seen(reading: &Reading) -> AttemptSeen {
    let place = reading.attempt;
    AttemptSeen::new(
        place.map(|attempt| attempt.element),
        place.map(|attempt| attempt.attempt),
        AttemptMarks::from(&reading.outcome),
    )
}

/// A run as `show` has it.
pub(crate) struct Shown {
    pub(crate) tracked: Tracked,
    /// Its files; `None` of one that was imported.
    pub(crate) dir: Option<RunDir>,
    /// As [`attempts`] has them.
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
        let mut continued = tracker
            .store
            .continued(std::slice::from_ref(&run_id), now_ms())?;
        tracked.all_starts = continued.remove(&(run_id, Some(element)));
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
        let tracked = imported_run(store, run_id, element)?;
        let known = store.attempts(run_id)?;
        let all = known.iter().map(|(key, _)| Attempt::from_key(key));
        let shown = wanted(all.collect(), &tracked, element);
        let known = known.into_iter().filter_map(|(key, marks)| {
            let shown = shown.contains(&Attempt::from_key(&key));
            shown.then(|| AttemptSeen::new(Some(key.element), Some(key.attempt), marks))
        });
        Ok(Self {
            attempts: known.collect(),
            tracked,
            dir: None,
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
            seen(&reading).node
        };
        let bad = self.tracked.elements.iter().filter(is_bad).enumerate();
        bad.map(|(place, element)| (element, (place < most).then(|| node(element)).flatten()))
            .collect()
    }
}

/// The attempts of a single run or of one element; of an array those of the elements that were requeued.
pub(crate) fn attempts(run: &RunDir, tracked: &Tracked, element: Option<u32>) -> Vec<AttemptSeen> {
    let all = run.attempts().unwrap_or_default();
    let shown = wanted(all, tracked, element).into_iter();
    shown.map(|attempt| seen(&run.marks(attempt))).collect()
}

fn wanted(mut all: Vec<Attempt>, tracked: &Tracked, element: Option<u32>) -> Vec<Attempt> {
    let again = all.iter().filter(|attempt| attempt.attempt > 0);
    let requeued: BTreeSet<u32> = again.map(|attempt| attempt.element).collect();
    let is_array = tracked.record.array.is_some();
    all.retain(|attempt| match element {
        Some(element) => attempt.element == element,
        None => !is_array || requeued.contains(&attempt.element),
    });
    all
}

/// One element of an array in the place of the whole, with what its newest attempt left.
pub(crate) fn element_of(run: &RunDir, tracked: Tracked, element: u32) -> Result<Tracked, Error> {
    Ok(Tracked {
        reading: run.newest_outcome(element)?,
        ..tracked.element(element)?
    })
}
