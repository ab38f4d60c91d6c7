//! Questions about runs: which there are, which one somebody means, which are not over.

use std::collections::{HashMap, HashSet};

use rusqlite::types::Type;
use rusqlite::{Params, Row, params};

use super::integer;
use super::measures::{KEY, key};
use super::open::{Store, StoreError};
use crate::job::{
    ArraySpec, Framework, JobId, JobState, Provenance, RunId, SchedulerKind, StorageClass, Workload,
};
use crate::record::{Cause, CauseKind, ExitStatus, MeasureKey, RunImage, RunRecord, Status};

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
     reason, exit_code, exit_signal, started_at_ms, ended_at_ms, array, parts, framework, framework_version, \
     framework_compiler, storage, storage_class, stuck, cause, cause_text, elements, image, image_name, \
     image_digest, framework_provenance, queue, forecast, tasks_per_node, identity";

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
        let states: String = filter
            .states
            .iter()
            .map(|state| format!(" {state} "))
            .collect();
        self.rows(
            &sql,
            params![integer(limit as u64), filter.name, states],
            run_row,
        )
    }

    /// One run.
    ///
    /// # Errors
    /// As [`Store::list`].
    pub fn run(&self, run_id: &RunId) -> Result<Option<RunRow>, StoreError> {
        let sql = format!("SELECT {COLUMNS} FROM run WHERE run_id = ?1");
        Ok(self.rows(&sql, [run_id.as_str()], run_row)?.pop())
    }

    /// The runs that are not known to be over, newest first. Of those that were imported nobody here can tell more.
    ///
    /// # Errors
    /// As [`Store::list`].
    pub fn unfinished(&self) -> Result<Vec<RunRow>, StoreError> {
        // The words of the index `run_unfinished`, or SQLite does not see that it fits.
        let sql = format!(
            "SELECT {COLUMNS} FROM run WHERE state IN ('pending', 'running', 'suspended', 'unknown') AND origin IS NULL
             ORDER BY submitted_at_ms DESC"
        );
        self.rows(&sql, [], run_row)
    }

    /// Records of runs that are over which were not final when they were read, each with when it was written, in Unix milliseconds UTC:
    /// a training may outlive its job. Of runs that were submitted at `oldest_ms` or later.
    ///
    /// # Errors
    /// As [`Store::list`].
    pub fn unfinished_records(&self, oldest_ms: u64) -> Result<Vec<(MeasureKey, u64)>, StoreError> {
        let sql = format!(
            "SELECT {KEY}, run.run_id, node.updated_at_ms FROM run JOIN attempt ON attempt.run = run.id
                 JOIN node ON node.attempt = attempt.id
             WHERE coalesce(run.ended_at_ms, run.submitted_at_ms) >= ?1 AND run.origin IS NULL AND node.state = 'running'
                 AND run.state NOT IN ('pending', 'running', 'suspended', 'unknown')"
        );
        self.rows(&sql, [integer(oldest_ms)], |row| {
            Ok((
                key(&run_id_at(row, 4)?, row)?,
                unsigned(row, 5)?.unwrap_or(0),
            ))
        })
    }

    /// Every run of the index that has a directory, to tell new directories from known ones.
    ///
    /// # Errors
    /// As [`Store::list`].
    pub fn known_runs(&self) -> Result<HashSet<RunId>, StoreError> {
        Ok(self
            .rows("SELECT run_id FROM run WHERE origin IS NULL", [], run_id)?
            .into_iter()
            .collect())
    }

    /// When each kind of node that was measured was so, by its fingerprint, in Unix milliseconds UTC.
    ///
    /// # Errors
    /// As [`Store::list`].
    pub fn known_figures(&self) -> Result<HashMap<String, u64>, StoreError> {
        let sql = "SELECT fingerprint, benched_at_ms FROM target WHERE benched_at_ms IS NOT NULL";
        let read = |row: &Row<'_>| Ok((row.get(0)?, unsigned(row, 1)?.unwrap_or(0)));
        Ok(self.rows(sql, [], read)?.into_iter().collect())
    }

    /// Finds the run that `text` means: `@1` is the latest, `@2` the one before; else a whole run id; else the newest
    /// run of that name and the newest with that job id; else the beginning of a run id; else the newest with a job of
    /// that number, be it an element's (`95_3`, `12[3]`).
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
        if let (true, Some(number)) = (exact.is_empty(), job_number(text)) {
            exact = self.find_by_job_number(number)?;
        }
        Ok(match exact.len() {
            0 => Found::None,
            1 => Found::One(exact.remove(0)),
            _ => Found::Ambiguous(exact),
        })
    }

    /// The newest run whose job, or a job of whose array, has this number: the PBS family writes `14.server` and
    /// `14[].server`, people `14`.
    fn find_by_job_number(&self, number: &str) -> Result<Vec<RunId>, StoreError> {
        let sql = "SELECT run_id FROM run
             WHERE job_id = ?1 OR substr(job_id, 1, length(?1) + 1) IN (?1 || '.', ?1 || '[')
                 OR EXISTS (SELECT 1 FROM json_each(parts) AS part WHERE part.value ->> 'job_id' = ?1
                     OR substr(part.value ->> 'job_id', 1, length(?1) + 1) IN (?1 || '.', ?1 || '['))
             ORDER BY submitted_at_ms DESC, run_id DESC LIMIT 1";
        self.rows(sql, [number], run_id)
    }

    fn find_by_age(&self, number: &str) -> Result<Found, StoreError> {
        let digits = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
        let Some(before) = number
            .parse::<u64>()
            .ok()
            .filter(|_| digits)
            .and_then(|n| n.checked_sub(1))
        else {
            return Ok(Found::None);
        };
        let sql =
            "SELECT run_id FROM run ORDER BY submitted_at_ms DESC, run_id DESC LIMIT 1 OFFSET ?1";
        Ok(self
            .rows(sql, [integer(before)], run_id)?
            .pop()
            .map_or(Found::None, Found::One))
    }

    /// The shortest text that [`Store::find`] takes for each of `run_ids`, of at least [`RunId::MIN_PREFIX`] letters.
    ///
    /// # Errors
    /// As [`Store::list`].
    pub fn shortest_prefixes(&self, run_ids: &[RunId]) -> Result<Vec<String>, StoreError> {
        run_ids
            .iter()
            .map(|run_id| self.shortest_prefix(run_id))
            .collect()
    }

    fn shortest_prefix(&self, run_id: &RunId) -> Result<String, StoreError> {
        let text = run_id.as_str();
        let neighbours = self.rows(
            "SELECT max(run_id) FROM run WHERE run_id < ?1 UNION ALL SELECT min(run_id) FROM run WHERE run_id > ?1",
            [text],
            |row| row.get::<_, Option<String>>(0),
        )?;
        let shared = neighbours
            .iter()
            .flatten()
            .map(|other| shared_letters(text, other))
            .max();
        for length in RunId::MIN_PREFIX.max(shared.unwrap_or(0) + 1)..text.len() {
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

    /// Which of a user's own runs have one of these jobs, and when they were submitted (Unix milliseconds UTC): a controller that lost
    /// its state hands ids out again.
    ///
    /// # Errors
    /// As [`Store::list`].
    pub fn of_jobs(
        &self,
        scheduler: SchedulerKind,
        jobs: &[&str],
    ) -> Result<Vec<(RunId, JobId, u64)>, StoreError> {
        self.rows(
            "SELECT run_id, job_id, submitted_at_ms FROM run
             WHERE job_id IN (SELECT value FROM json_each(?1)) AND scheduler = ?2 AND origin IS NULL AND job_file IS NOT NULL",
            [serde_json::json!(jobs).to_string(), scheduler.as_str().to_owned()],
            |row| Ok((run_id(row)?, JobId(row.get(1)?), unsigned(row, 2)?.unwrap_or(0))),
        )
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

/// The number of a job in a scheduler's notation: `95`, `95_3`, `12[]`, `12[3]`.
fn job_number(text: &str) -> Option<&str> {
    let (number, rest) = text.split_at(
        text.find(|c: char| !c.is_ascii_digit())
            .unwrap_or(text.len()),
    );
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let after_line = rest.strip_prefix('_').filter(|index| !index.is_empty());
    let element = after_line.or_else(|| rest.strip_prefix('[')?.strip_suffix(']'));
    (!number.is_empty() && (rest.is_empty() || element.is_some_and(digits))).then_some(number)
}

fn shared_letters(a: &str, b: &str) -> usize {
    a.bytes().zip(b.bytes()).take_while(|(a, b)| a == b).count()
}

/// A run id in the first column.
pub(super) fn run_id(row: &Row<'_>) -> rusqlite::Result<RunId> {
    run_id_at(row, 0)
}

fn run_id_at(row: &Row<'_>, at: usize) -> rusqlite::Result<RunId> {
    let text: String = row.get(at)?;
    text.parse()
        .map_err(|error| rusqlite::Error::FromSqlConversionFailure(at, Type::Text, Box::new(error)))
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
        array: text(row, 26)?.and_then(|text| ArraySpec::parse(&text).ok()),
        parts: from_json(row, 27)?.unwrap_or_default(),
        framework: Framework {
            name: text(row, 28)?,
            version: text(row, 29)?,
            compiler: text(row, 30)?,
            provenance: text(row, 40)?.and_then(|word| provenance(&word)),
        },
        storage: text(row, 31)?.zip(text(row, 32)?.and_then(|word| storage_class(&word))),
        image: image(row)?,
        workload: Workload {
            model: row.get(11)?,
            parameters: unsigned(row, 12)?,
            dataset: row.get(13)?,
            samples: unsigned(row, 14)?,
            batch_size: unsigned(row, 15)?,
            epochs: unsigned(row, 16)?,
            precision: row.get(17)?,
        },
        tasks_per_node: row.get(43)?,
        queue: text(row, 41)?,
        identity: from_json(row, 44)?,
        forecast: from_json(row, 42)?,
        dlrun_version: row.get(18)?,
    };
    let status = Status {
        expected_start_ms: None,
        state: JobState::from_word(&row.get::<_, String>(19)?),
        raw_state: row.get(20)?,
        reason: row.get(21)?,
        exit: exit_of(row.get(22)?, row.get(23)?),
        started_at_ms: unsigned(row, 24)?,
        ended_at_ms: unsigned(row, 25)?,
        stuck: row.get(33)?,
        cause: cause(text(row, 34)?, text(row, 35)?),
        elements: from_json(row, 36)?,
    };
    Ok(RunRow { record, status })
}

pub(super) fn storage_class(word: &str) -> Option<StorageClass> {
    StorageClass::WORDS
        .iter()
        .find(|(known, _)| *known == word)
        .map(|(_, class)| *class)
}

pub(super) fn provenance(word: &str) -> Option<Provenance> {
    Provenance::WORDS
        .iter()
        .find(|(known, _)| *known == word)
        .map(|(_, provenance)| *provenance)
}

fn image(row: &Row<'_>) -> rusqlite::Result<Option<RunImage>> {
    let (name, digest) = (text(row, 38)?, text(row, 39)?);
    Ok(text(row, 37)?.map(|source| RunImage {
        source,
        name,
        digest,
    }))
}

fn text(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<String>> {
    row.get(column)
}

/// What a newer dlrun may write there is passed over.
pub(super) fn from_json<T: serde::de::DeserializeOwned>(
    row: &Row<'_>,
    column: usize,
) -> rusqlite::Result<Option<T>> {
    Ok(text(row, column)?.and_then(|text| serde_json::from_str(&text).ok()))
}

fn cause(kind: Option<String>, text: Option<String>) -> Option<Cause> {
    Some(Cause {
        kind: CauseKind::from_word(&kind?)?,
        text: text?,
    })
}

pub(super) fn exit_of(code: Option<i32>, signal: Option<i32>) -> Option<ExitStatus> {
    code.map(ExitStatus::Code)
        .or(signal.map(ExitStatus::Signal))
}
