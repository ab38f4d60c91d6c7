//! Finds runs by what people type.

use super::Tracker;
use crate::app::error::{Error, failure};
use crate::job::{JobState, RunId};
use crate::record::RunRow;
use crate::record::store::{Filter, Found};

/// The one run that `text` means.
pub(crate) fn found(found: Found, text: &str) -> Result<RunId, Error> {
    match found {
        Found::One(run_id) => Ok(run_id),
        Found::None => {
            Err(failure!(Missing, "there is no run `{text}`").hinted(
                "`dlrun list` shows the runs; one is named by four or more letters of its id, its name or its job id",
            ))
        }
        Found::Ambiguous(run_ids) => {
            let some: Vec<String> = run_ids.iter().take(5).map(ToString::to_string).collect();
            Err(failure!(Missing, "`{text}` may mean {} runs", run_ids.len()).hinted(format!("write more of the id: {}", some.join(", "))))
        }
    }
}

impl Tracker<'_> {
    /// The runs that `text` may mean.
    pub(crate) fn look_up(&mut self, text: &str) -> Result<Found, Error> {
        self.discover()?;
        Ok(self.store.find(text)?)
    }

    /// The run that `text` means.
    pub(crate) fn find(&mut self, text: &str) -> Result<RunId, Error> {
        found(self.look_up(text)?, text)
    }

    /// The run that `text` means, for verbs that act on runs that are not over: of several runs of one name that which goes
    /// on, and none of them where that is not clear.
    pub(crate) fn find_going_on(&mut self, text: &str) -> Result<RunId, Error> {
        self.discover()?;
        let states = vec![JobState::Pending, JobState::Running, JobState::Suspended];
        let filter = Filter {
            name: Some(text.to_owned()),
            states,
        };
        let mut rows = self.store.list(100, &filter)?;
        // The index may be old: where it leaves a choice, the schedulers are asked, with one question.
        let is_newest = |row: &RunRow| {
            self.store
                .find(text)
                .is_ok_and(|found| found == Found::One(row.record.run_id.clone()))
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
                let ids: Vec<String> = several
                    .iter()
                    .map(|row| row.record.run_id.to_string())
                    .collect();
                Err(failure!(Usage, "several runs named `{text}` go on")
                    .hinted(format!("name one by its id: {}", ids.join(", "))))
            }
        }
    }

    /// The runs that `text` means, for `wait`: all of a name that go on.
    pub(crate) fn find_all_going_on(&mut self, text: &str) -> Result<Vec<RunId>, Error> {
        self.discover()?;
        let filter = Filter {
            name: Some(text.to_owned()),
            states: GOING_ON.to_vec(),
        };
        let run_ids = self.listed(&filter)?;
        if run_ids.len() < 2 {
            return Ok(vec![self.find_going_on(text)?]);
        }
        // The index may be old.
        self.refresh(&run_ids, false)?;
        let run_ids = self.listed(&filter)?;
        if run_ids.is_empty() {
            Ok(vec![self.find(text)?])
        } else {
            Ok(run_ids)
        }
    }

    /// All runs that go on.
    pub(crate) fn all_going_on(&mut self) -> Result<Vec<RunId>, Error> {
        self.refresh_unfinished(false)?;
        self.listed(&Filter {
            name: None,
            states: GOING_ON.to_vec(),
        })
    }

    fn listed(&self, filter: &Filter) -> Result<Vec<RunId>, Error> {
        let rows = self.store.list(usize::MAX, filter)?;
        Ok(rows.into_iter().map(|row| row.record.run_id).collect())
    }
}

const GOING_ON: [JobState; 3] = [JobState::Pending, JobState::Running, JobState::Suspended];
