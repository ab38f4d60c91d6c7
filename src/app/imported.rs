//! Runs that have no directory here: what was imported of them is in the database alone.

use std::path::Path;

use crate::app::error::{Error, Kind, failure};
use crate::app::track::Tracked;
use crate::foundation::clock::now_ms;
use crate::job::RunId;
use crate::record::rundir::{Attempt, Reading};
use crate::record::store::{Store, StoreError, StoreFault};
use crate::record::{NodeRecord, Outcome};

/// Opens a database that is only read.
pub(crate) fn open_store(path: &Path) -> Result<Store, Error> {
    Store::open_reader(path).map_err(of_reading)
}

/// Errors of a database that is only read have other hints than those of one's own index.
pub(crate) fn of_reading(error: StoreError) -> Error {
    let (kind, hint) = match &error.kind {
        StoreFault::Missing => (
            Kind::Missing,
            "`--store` names the file of a database; `dlrun import --store DB FILE` makes one",
        ),
        StoreFault::Denied => (
            Kind::NotPermitted,
            "its owner, or the members of its group, may read it",
        ),
        StoreFault::NotOurs => (Kind::NotPermitted, "name a database of your own"),
        StoreFault::Unreadable => (Kind::TryAgain, "the disk of the database gives no answer"),
        StoreFault::Older => (
            Kind::Config,
            "its own dlrun or dlrund brings it up to date: start one of this version there",
        ),
        StoreFault::Newer => (
            Kind::Config,
            "read it with the dlrun that wrote it, or a later one",
        ),
        StoreFault::Foreign => (Kind::Config, "name a file that is a database of dlrun's"),
        StoreFault::Damaged => (
            Kind::Data,
            "restore a copy of it; `dlrun list --reindex` rebuilds your own index",
        ),
        StoreFault::CannotOpen => (
            Kind::TryAgain,
            "start its node daemon, or read it as the user who may write it",
        ),
        StoreFault::Busy => (Kind::TryAgain, "try again later"),
        _ => return error.into(),
    };
    Error::new(kind, error).hinted(hint)
}

/// What is known of a run, or of an element of its array, by the database alone.
pub(crate) fn imported_run(
    store: &Store,
    run_id: &RunId,
    element: Option<u32>,
) -> Result<Tracked, Error> {
    let Some(row) = store.run(run_id)? else {
        return Err(failure!(Internal, "the run vanished"));
    };
    let records = store.node_records(run_id)?;
    let is_array = row.record.array.is_some();
    let tracked = Tracked {
        reading: match element {
            None if is_array => Reading::default(),
            _ => newest(records, element.unwrap_or(0)),
        },
        elements: store.elements(run_id)?,
        all_starts: store
            .continued(std::slice::from_ref(run_id), now_ms())?
            .remove(&(run_id.clone(), element)),
        record: row.record,
        status: row.status,
    };
    match element {
        Some(element) => tracked.element(element),
        None => Ok(tracked),
    }
}

/// The records of the newest attempt of an element.
fn newest(records: Vec<NodeRecord>, element: u32) -> Reading {
    let of_element = |record: &&NodeRecord| record.key.element == element;
    let attempt = records
        .iter()
        .filter(of_element)
        .map(|record| record.key.attempt)
        .max();
    let nodes = records
        .into_iter()
        .filter(|record| record.key.element == element && Some(record.key.attempt) == attempt);
    Reading {
        attempt: attempt.map(|attempt| Attempt { element, attempt }),
        outcome: Outcome {
            nodes: nodes.collect(),
            ..Outcome::default()
        },
        notes: Vec::new(),
    }
}
