//! Questions about runs: which there are, which one somebody means, which are not over.

use std::collections::{HashMap, HashSet};

use rusqlite::params;

use super::error::StoreError;
use super::open::Store;
use super::sql::{OF_RUN, integer, number, run_id};
use crate::job::{JobId, JobState, RunId, SchedulerKind};
use crate::record::{MeasureKey, RunRow, Table};

/// Which runs to list; the default is all.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Filter {
    /// Only those of this name.
    pub name: Option<String>,
    /// Only those in one of these states; empty for any.
    pub states: Vec<JobState>,
    /// Only those that held GPUs or CPUs without work, the longest first: by hours of GPUs, then of nodes.
    pub held: bool,
}

/// Sums over the measurements of a run: time of GPUs, and of nodes, without work.
const HELD: [&str; 2] = ["gpu_seconds", "node_seconds"];

fn held_sum(figure: &str) -> String {
    format!(
        "(SELECT coalesce(sum(node.held ->> '$.{figure}'), 0.0) FROM attempt JOIN node ON node.attempt = attempt.id
          WHERE attempt.run = run.id)"
    )
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

impl Store {
    /// Lists at most `limit` runs, newest first.
    ///
    /// # Errors
    /// `StoreFault::Busy`, `StoreFault::Damaged`, `StoreFault::Query`; so for all that reads.
    pub fn list(&self, limit: usize, filter: &Filter) -> Result<Vec<RunRow>, StoreError> {
        // A `+` keeps a column from being looked up: the order by time is worth more.
        let [gpus, nodes] = HELD.map(held_sum);
        let (only, first) = match filter.held {
            false => (String::new(), String::new()),
            true => (
                format!("AND {gpus} + {nodes} > 0"),
                format!("{gpus} DESC, {nodes} DESC,"),
            ),
        };
        let rest = format!(
            "FROM run
             WHERE (?2 IS NULL OR +name = ?2) AND (?3 = '' OR instr(?3, ' ' || state || ' ')) {only}
             ORDER BY {first} submitted_at_ms DESC, run_id DESC LIMIT ?1"
        );
        let states: String = filter
            .states
            .iter()
            .map(|state| format!(" {state} "))
            .collect();
        let values = params![integer(limit as u64), filter.name, states];
        self.records(Table::Runs, &rest, values)
    }

    /// Time of GPUs and time of nodes that a run held without work, in seconds, over all its starts and nodes.
    ///
    /// # Errors
    /// As [`Store::list`].
    pub fn held(&self, run_id: &RunId) -> Result<(f64, f64), StoreError> {
        let [gpus, nodes] = HELD.map(held_sum);
        let sql = format!("SELECT {gpus}, {nodes} FROM run WHERE run_id = ?1");
        let row = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?));
        let found = self.rows(&sql, [run_id.as_str()], row)?;
        Ok(found.into_iter().next().unwrap_or_default())
    }

    /// One run.
    ///
    /// # Errors
    /// As [`Store::list`].
    pub fn run(&self, run_id: &RunId) -> Result<Option<RunRow>, StoreError> {
        let rest = "FROM run WHERE run_id = ?1";
        Ok(self.records(Table::Runs, rest, [run_id.as_str()])?.pop())
    }

    /// The runs that are not known to be over, newest first. Of those that were imported nothing more is known here.
    ///
    /// # Errors
    /// As [`Store::list`].
    pub fn unfinished(&self) -> Result<Vec<RunRow>, StoreError> {
        // The words of the index `run_unfinished`, or SQLite does not see that it fits.
        let rest = "FROM run WHERE state IN ('pending', 'running', 'suspended', 'unknown') AND origin IS NULL
             ORDER BY submitted_at_ms DESC";
        self.records(Table::Runs, rest, [])
    }

    /// Records of runs that are over which were not final when they were read, each with when it was written, in Unix milliseconds UTC:
    /// a training may outlive its job. Of runs that were submitted at `oldest_ms` or later.
    ///
    /// # Errors
    /// As [`Store::list`].
    pub fn unfinished_records(&self, oldest_ms: u64) -> Result<Vec<(MeasureKey, u64)>, StoreError> {
        let sql = format!(
            "SELECT run_id, element, attempt.attempt AS attempt, node.node AS node, step, updated_at_ms FROM node {OF_RUN}
             WHERE coalesce(run.ended_at_ms, run.submitted_at_ms) >= ?1 AND run.origin IS NULL AND node.state = 'running'
                 AND run.state NOT IN ('pending', 'running', 'suspended', 'unknown')"
        );
        self.rows(&sql, [integer(oldest_ms)], |row| {
            let key = MeasureKey {
                run_id: run_id(row)?,
                element: row.get("element")?,
                attempt: row.get("attempt")?,
                node: row.get("node")?,
                step: row.get("step")?,
            };
            Ok((key, number(row, "updated_at_ms")?))
        })
    }

    /// Every run of the index that has a directory, to distinguish new directories from known ones.
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
        let rows = self.rows(sql, [], |row| Ok((row.get(0)?, number(row, 1)?)))?;
        Ok(rows.into_iter().collect())
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
            let taken = "SELECT 1 FROM run WHERE name = ?1 UNION ALL SELECT 1 FROM run WHERE job_id = ?1 LIMIT 1";
            if !self.finds(taken, [prefix])? {
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
    pub fn runs_with_jobs(
        &self,
        scheduler: SchedulerKind,
        jobs: &[&str],
    ) -> Result<Vec<(RunId, JobId, u64)>, StoreError> {
        self.rows(
            "SELECT run_id, job_id, submitted_at_ms FROM run
             WHERE job_id IN (SELECT value FROM json_each(?1)) AND scheduler = ?2 AND origin IS NULL AND job_file IS NOT NULL",
            [serde_json::json!(jobs).to_string(), scheduler.as_str().to_owned()],
            |row| Ok((run_id(row)?, JobId(row.get("job_id")?), number(row, "submitted_at_ms")?)),
        )
    }
}

/// The number of a job in a scheduler's notation: `95`, `95_3`, `12[]`, `12[3]`, `12[3].server`.
fn job_number(text: &str) -> Option<&str> {
    let (number, rest) = text.split_at(
        text.find(|c: char| !c.is_ascii_digit())
            .unwrap_or(text.len()),
    );
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let after_line = rest.strip_prefix('_').filter(|index| !index.is_empty());
    let in_brackets = || {
        let (index, rest) = rest.strip_prefix('[')?.split_once(']')?;
        (rest.is_empty() || rest.starts_with('.')).then_some(index)
    };
    let element = after_line.or_else(in_brackets);
    (!number.is_empty() && (rest.is_empty() || element.is_some_and(digits))).then_some(number)
}

fn shared_letters(a: &str, b: &str) -> usize {
    a.bytes().zip(b.bytes()).take_while(|(a, b)| a == b).count()
}
