//! Finds runs by what people type.

use super::Tracker;
use crate::app::error::{Error, failure};
use crate::job::{JobState, RunId};
use crate::record::store::{Filter, Found};

/// The one run that `text` means.
pub(crate) fn found(found: Found, text: &str) -> Result<RunId, Error> {
    match found {
        Found::One(run_id) => Ok(run_id),
        Found::None => {
            Err(failure!(Missing, "there is no run `{text}`").hinted(
                "`dlrun list` shows the runs; one is named by four or more letters of its id, its name or its job id, and `@1` is the newest",
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

    /// The run that `text` means, for verbs that act on runs that are not over: of several runs of one name the one that is, and
    /// none of them where that is not clear.
    pub(crate) fn find_going_on(&mut self, text: &str) -> Result<RunId, Error> {
        match &self.find_all_going_on(text)?[..] {
            [one] => Ok(one.clone()),
            several => {
                let ids: Vec<String> = several.iter().take(6).map(ToString::to_string).collect();
                Err(failure!(Usage, "several runs named `{text}` are not over")
                    .hinted(format!("name one by its id: {}", ids.join(", "))))
            }
        }
    }

    /// The runs that `text` means, for `wait`: all of a name that are not over.
    pub(crate) fn find_all_going_on(&mut self, text: &str) -> Result<Vec<RunId>, Error> {
        self.discover()?;
        let filter = Filter {
            name: Some(text.to_owned()),
            states: GOING_ON.to_vec(),
            ..Filter::default()
        };
        let mut run_ids = self.listed(&filter)?;
        // The index may be old: where it leaves a choice, the schedulers are asked, with one question.
        let is_clear = match &run_ids[..] {
            [] => true,
            [one] => self.store.find(text)? == Found::One(one.clone()),
            _ => false,
        };
        if !is_clear {
            self.refresh(&run_ids, false)?;
            run_ids = self.listed(&filter)?;
        }
        if run_ids.is_empty() {
            run_ids.push(self.find(text)?);
        }
        Ok(run_ids)
    }

    /// All runs that go on.
    pub(crate) fn all_going_on(&mut self) -> Result<Vec<RunId>, Error> {
        self.refresh_unfinished(false)?;
        self.listed(&Filter {
            name: None,
            states: GOING_ON.to_vec(),
            ..Filter::default()
        })
    }

    fn listed(&self, filter: &Filter) -> Result<Vec<RunId>, Error> {
        let rows = self.store.list(usize::MAX, filter)?;
        Ok(rows.into_iter().map(|row| row.record.run_id).collect())
    }
}

const GOING_ON: [JobState; 3] = [JobState::Pending, JobState::Running, JobState::Suspended];
