//! The runs that a model is fitted on: one's own records, or a database.

use std::collections::HashMap;
use std::path::Path;

use crate::app::error::Error;
use crate::app::imported::{of_reading, open_store};
use crate::app::session::Session;
use crate::app::track::Tracker;
use crate::job::RunId;
use crate::learn::model::{Counted, Left, Observations};
use crate::record::Forecast;
use crate::record::store::{Store, StoreError};

/// Where the runs come from.
pub(crate) struct Source {
    pub(crate) store: Store,
    is_own: bool,
}

impl Source {
    /// Opens a database to read it, or one's own index, which is brought up to date first.
    pub(crate) fn open(session: &Session, store: Option<&Path>) -> Result<Self, Error> {
        if let Some(path) = store {
            return Ok(Self {
                store: open_store(path)?,
                is_own: false,
            });
        }
        let mut tracker = Tracker::open(session)?;
        tracker.refresh_unfinished(false)?;
        Ok(Self {
            store: tracker.store,
            is_own: true,
        })
    }

    /// All observations.
    pub(crate) fn observations(&self) -> Result<Observations<'_>, Error> {
        Observations::read(&self.store).map_err(|error| self.failed(error))
    }

    /// What was forecast of the runs when they were submitted.
    pub(crate) fn forecasts(&self) -> Result<HashMap<RunId, Forecast>, Error> {
        self.store.forecasts().map_err(|error| self.failed(error))
    }

    /// The time left that trainings showed while they ran, with what it came to.
    pub(crate) fn left(&self) -> Result<Left, Error> {
        let mut left = Left::default();
        let read = self.store.each_training(|training| left.add(&training));
        read.map_err(|error| self.failed(error))?;
        Ok(left)
    }

    /// What was gone through, once all were taken.
    pub(crate) fn finish(&self, observations: Observations<'_>) -> Result<Counted, Error> {
        observations.finish().map_err(|error| self.failed(error))
    }

    pub(crate) fn failed(&self, error: StoreError) -> Error {
        if self.is_own {
            error.into()
        } else {
            of_reading(error)
        }
    }

    /// What to do where there are too few runs.
    pub(crate) fn hint(&self) -> &'static str {
        if self.is_own {
            "`dlrun submit` and `dlrun bench run` record runs, `dlrun import` imports those of others"
        } else {
            "`dlrun import --store DB FILE` imports runs"
        }
    }
}
