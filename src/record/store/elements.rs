//! Elements of arrays: how each stood when last somebody looked, so that a thousand ended ones are not read again.

use rusqlite::{Row, params};

use super::error::StoreError;
use super::open::Store;
use super::sql::{optional, unsigned};
use super::writer::Writer;
use crate::job::{JobState, RunId};
use crate::record::{Cause, Element, ExitStatus, Status};

impl Writer<'_> {
    /// Notes how elements of a run stand; others stay as they are.
    ///
    /// # Errors
    /// `StoreFault::Query` and what the disk adds to it.
    pub fn set_elements(&self, run_id: &RunId, elements: &[Element]) -> Result<(), StoreError> {
        for Element {
            element,
            attempt,
            status,
        } in elements
        {
            let (code, signal) = match status.exit {
                Some(ExitStatus::Code(code)) => (Some(code), None),
                Some(ExitStatus::Signal(signal)) => (None, Some(signal)),
                None => (None, None),
            };
            self.execute(
                "INSERT INTO element (run, element, attempt, state, exit_code, exit_signal, started_at_ms, ended_at_ms)
                 SELECT id, ?2, ?3, ?4, ?5, ?6, ?7, ?8 FROM run WHERE run_id = ?1
                 ON CONFLICT (run, element) DO UPDATE SET attempt = ?3, state = ?4, exit_code = ?5, exit_signal = ?6,
                     started_at_ms = ?7, ended_at_ms = ?8",
                params![
                    run_id.as_str(),
                    element,
                    attempt,
                    status.state.as_str(),
                    code,
                    signal,
                    optional(status.started_at_ms),
                    optional(status.ended_at_ms),
                ],
            )?;
        }
        Ok(())
    }
}

impl Store {
    /// The elements of a run that are noted, by index. What the scheduler reported of them is not.
    ///
    /// # Errors
    /// As [`Store::list`].
    pub fn elements(&self, run_id: &RunId) -> Result<Vec<Element>, StoreError> {
        let sql = "SELECT element.* FROM element JOIN run ON element.run = run.id
             WHERE run.run_id = ?1 ORDER BY element";
        self.rows(sql, [run_id.as_str()], |row| {
            element(row, |word, _| JobState::from_word(word).unwrap_or_default())
        })
    }
}

/// An element of the columns of that name; `state` is what the word in `state` means with that end.
pub(super) fn element(
    row: &Row<'_>,
    state: impl FnOnce(&str, Option<ExitStatus>) -> JobState,
) -> rusqlite::Result<Element> {
    let (code, signal): (Option<i32>, Option<i32>) =
        (row.get("exit_code")?, row.get("exit_signal")?);
    let signal = signal.map(ExitStatus::Signal);
    let exit = code.map(ExitStatus::Code).or(signal);
    let state = state(&row.get::<_, String>("state")?, exit);
    let status = Status {
        exit,
        started_at_ms: unsigned(row, "started_at_ms")?,
        ended_at_ms: unsigned(row, "ended_at_ms")?,
        cause: Cause::of(state, exit, None),
        ..Status::of(state)
    };
    Ok(Element {
        element: row.get("element")?,
        attempt: row.get("attempt")?,
        status,
    })
}
