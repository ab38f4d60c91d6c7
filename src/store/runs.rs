//! Questions about runs: which there are, which one somebody means, which are not over.

use std::collections::HashSet;

use rusqlite::types::Type;
use rusqlite::{Params, Row, params};

use super::integer;
use super::open::{Store, StoreError};
use crate::job::{JobId, JobState, RunId, SchedulerKind, Workload};
use crate::record::{ExitStatus, RunRecord, Status};

/// A run as the index knows it.
#[derive(Debug, Clone, PartialEq)]
pub struct RunRow {
    /// Who submitted what.
    pub record: RunRecord,
    /// Where it stood when last somebody looked; [`JobState::Unknown`] where nobody has yet.
    pub status: Status,
}

/// Which runs to list; the default is all.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Filter {
    /// Only those of this name.
    pub name: Option<String>,
    /// Only those in one of these states; empty for any.
    pub states: Vec<JobState>,
}

/// What somebody meant by a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Found {
    /// This run.
    One(RunId),
    /// No run.
    None,
    /// Any of these, newest first.
    Ambiguous(Vec<RunId>),
}

const COLUMNS: &str = "run_id, name, submitted_at_ms, user, submit_host, scheduler, job_id, output, workdir, job_file, \
     nodes, model, parameters, dataset, samples, batch_size, epochs, precision, dlrun_version, state, raw_state, \
     reason, exit_code, exit_signal, started_at_ms, ended_at_ms";

impl Store {
    /// Lists at most `limit` runs, newest first.
    ///
    /// # Errors
    /// [`StoreError::Busy`], [`StoreError::Damaged`], [`StoreError::Query`]; so for all that reads.
    pub fn list(&self, limit: usize, filter: &Filter) -> Result<Vec<RunRow>, StoreError> {
        // A `+` keeps a column from being looked up: the order by time is worth more.
        let sql = format!(
            "SELECT {COLUMNS} FROM run
             WHERE (?2 IS NULL OR +name = ?2) AND (?3 = '' OR instr(?3, ' ' || state || ' '))
             ORDER BY submitted_at_ms DESC, run_id DESC LIMIT ?1"
        );
        let states: String = filter.states.iter().map(|state| format!(" {state} ")).collect();
        self.rows(&sql, params![integer(limit as u64), filter.name, states], run_row)
    }

    /// One run.
    ///
    /// # Errors
    /// As [`Store::list`].
    pub fn run(&self, run_id: &RunId) -> Result<Option<RunRow>, StoreError> {
        let sql = format!("SELECT {COLUMNS} FROM run WHERE run_id = ?1");
        Ok(self.rows(&sql, [run_id.as_str()], run_row)?.pop())
    }

    /// The runs that are not known to be over, newest first.
    ///
    /// # Errors
    /// As [`Store::list`].
    pub fn unfinished(&self) -> Result<Vec<RunRow>, StoreError> {
        // The words of the index `run_unfinished`, or SQLite does not see that it fits.
        let sql = format!(
            "SELECT {COLUMNS} FROM run WHERE state IN ('pending', 'running', 'suspended', 'unknown')
             ORDER BY submitted_at_ms DESC"
        );
        self.rows(&sql, [], run_row)
    }

    /// Every run of the index, to tell new directories from known ones.
    ///
    /// # Errors
    /// As [`Store::list`].
    pub fn known_runs(&self) -> Result<HashSet<RunId>, StoreError> {
        Ok(self.rows("SELECT run_id FROM run", [], run_id)?.into_iter().collect())
    }

    /// Finds the run that `text` means: `@1` is the latest, `@2` the one before; else a whole run id; else the newest
    /// run of that name and the newest with that job id; else the beginning of a run id.
    ///
    /// # Errors
    /// As [`Store::list`].
    pub fn find(&self, text: &str) -> Result<Found, StoreError> {
        if let Some(number) = text.strip_prefix('@') {
            return self.find_by_age(number);
        }
        let newest = |column: &str| {
            let sql = format!(
                "SELECT run_id FROM run WHERE {column} = ?1 ORDER BY submitted_at_ms DESC, run_id DESC LIMIT 1"
            );
            self.rows(&sql, [text], run_id)
        };
        let mut exact = newest("run_id")?;
        if exact.is_empty() {
            exact = newest("name")?;
            exact.extend(newest("job_id")?);
            exact.dedup();
        }
        if exact.is_empty() && RunId::is_prefix(text) {
            // `~` comes after every letter of an id.
            exact = self.rows(
                "SELECT run_id FROM run WHERE run_id BETWEEN ?1 AND ?1 || '~'
                 ORDER BY submitted_at_ms DESC, run_id DESC",
                [text],
                run_id,
            )?;
        }
        Ok(match exact.len() {
            0 => Found::None,
            1 => Found::One(exact.remove(0)),
            _ => Found::Ambiguous(exact),
        })
    }

    fn find_by_age(&self, number: &str) -> Result<Found, StoreError> {
        let digits = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
        let Some(before) = number.parse::<u64>().ok().filter(|_| digits).and_then(|n| n.checked_sub(1))
        else {
            return Ok(Found::None);
        };
        let sql = "SELECT run_id FROM run ORDER BY submitted_at_ms DESC, run_id DESC LIMIT 1 OFFSET ?1";
        Ok(self.rows(sql, [integer(before)], run_id)?.pop().map_or(Found::None, Found::One))
    }

    /// The shortest text that [`Store::find`] takes for each of `run_ids`, of at least [`RunId::MIN_PREFIX`] letters.
    ///
    /// # Errors
    /// As [`Store::list`].
    pub fn shortest_prefixes(&self, run_ids: &[RunId]) -> Result<Vec<String>, StoreError> {
        run_ids.iter().map(|run_id| self.shortest_prefix(run_id)).collect()
    }

    fn shortest_prefix(&self, run_id: &RunId) -> Result<String, StoreError> {
        let text = run_id.as_str();
        let neighbours = self.rows(
            "SELECT max(run_id) FROM run WHERE run_id < ?1 UNION ALL SELECT min(run_id) FROM run WHERE run_id > ?1",
            [text],
            |row| row.get::<_, Option<String>>(0),
        )?;
        let shared = neighbours.iter().flatten().map(|other| shared_letters(text, other)).max();
        for length in RunId::MIN_PREFIX.max(shared.unwrap_or(0) + 1)..RunId::LEN {
            let prefix = &text[..length];
            // A name or a job id of these very letters would be found first.
            let taken = self.rows(
                "SELECT 1 FROM run WHERE name = ?1 UNION ALL SELECT 1 FROM run WHERE job_id = ?1 LIMIT 1",
                [prefix],
                |_| Ok(()),
            )?;
            if taken.is_empty() {
                return Ok(prefix.to_owned());
            }
        }
        Ok(text.to_owned())
    }

    pub(super) fn rows<T>(
        &self,
        sql: &str,
        values: impl Params,
        read: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Vec<T>, StoreError> {
        let statement = self.connection.prepare_cached(sql);
        let rows = statement.and_then(|mut statement| statement.query_map(values, read)?.collect());
        rows.map_err(|source| StoreError::of(&self.path, "read", source))
    }
}

fn shared_letters(a: &str, b: &str) -> usize {
    a.bytes().zip(b.bytes()).take_while(|(a, b)| a == b).count()
}

/// A run id in the first column.
pub(super) fn run_id(row: &Row<'_>) -> rusqlite::Result<RunId> {
    let text: String = row.get(0)?;
    text.parse().map_err(|error| rusqlite::Error::FromSqlConversionFailure(0, Type::Text, Box::new(error)))
}

/// A number that was stored by [`integer`].
pub(super) fn unsigned(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<u64>> {
    let value: Option<i64> = row.get(column)?;
    Ok(value.map(|value| u64::try_from(value).unwrap_or(0)))
}

/// Reads [`COLUMNS`].
fn run_row(row: &Row<'_>) -> rusqlite::Result<RunRow> {
    let record = RunRecord {
        format: RunRecord::FORMAT,
        run_id: run_id(row)?,
        name: row.get(1)?,
        submitted_at_ms: unsigned(row, 2)?.unwrap_or(0),
        user: row.get(3)?,
        submit_host: row.get(4)?,
        scheduler: SchedulerKind::from_word(&row.get::<_, String>(5)?).unwrap_or_default(),
        job_id: row.get::<_, Option<String>>(6)?.map(JobId),
        output: row.get(7)?,
        workdir: row.get(8)?,
        job_file: row.get(9)?,
        nodes: row.get(10)?,
        array: None,
        parts: Vec::new(),
        framework: crate::job::Framework::default(),
        storage: None,
        workload: Workload {
            model: row.get(11)?,
            parameters: unsigned(row, 12)?,
            dataset: row.get(13)?,
            samples: unsigned(row, 14)?,
            batch_size: unsigned(row, 15)?,
            epochs: unsigned(row, 16)?,
            precision: row.get(17)?,
        },
        dlrun_version: row.get(18)?,
    };
    let exit = match (row.get(22)?, row.get::<_, Option<i32>>(23)?) {
        (Some(code), _) => Some(ExitStatus::Code(code)),
        (None, signal) => signal.map(ExitStatus::Signal),
    };
    let status = Status {
        state: JobState::from_word(&row.get::<_, String>(19)?),
        raw_state: row.get(20)?,
        reason: row.get(21)?,
        exit,
        started_at_ms: unsigned(row, 24)?,
        ended_at_ms: unsigned(row, 25)?,
    };
    Ok(RunRow { record, status })
}
