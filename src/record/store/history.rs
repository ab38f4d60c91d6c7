//! Earlier runs of a program, for jobs that leave their limits open.

use rusqlite::{Row, params};

use super::open::{Store, StoreError};
use super::runs::{from_json, run_id, unsigned};
use crate::job::{JobState, SchedulerKind};
use crate::record::{ExitStatus, Identity, Past};

/// More starts are not looked at; the newest count.
const MOST: u32 = 10_000;

/// A row for each start of the program's runs; for runs without starts one with nulls. Imported runs ran who knows where.
const STARTS: &str = "
    SELECT run.run_id, run.identity, run.scheduler, run.submit_host, run.array IS NOT NULL,
        run.state, run.started_at_ms, run.ended_at_ms, element.state, element.started_at_ms, element.ended_at_ms,
        attempt.attempt, attempt.started_at_ms, attempt.ended_at_ms, shell_code,
        min(node.started_at_ms), max(coalesce(node.ended_at_ms, node.updated_at_ms)), max(mem_peak_bytes),
        attempt.attempt = (SELECT max(other.attempt) FROM attempt AS other
            WHERE other.run = run.id AND other.element = attempt.element),
        attempt.element,
        count(DISTINCT node.node) < run.nodes OR EXISTS (SELECT 1 FROM missing JOIN node AS blind ON missing.node = blind.id
            WHERE blind.attempt = attempt.id AND missing.what LIKE 'ranks%')
    FROM run LEFT JOIN attempt ON attempt.run = run.id
        LEFT JOIN element ON element.run = run.id AND element.element = attempt.element
        LEFT JOIN node ON node.attempt = attempt.id
        LEFT JOIN usage ON usage.node = node.id
    WHERE run.origin IS NULL AND run.id IN (
        SELECT id FROM run WHERE identity IS NOT NULL AND identity ->> 'program' = ?1
        UNION SELECT id FROM run WHERE identity IS NOT NULL AND identity ->> 'key' = ?2)
    GROUP BY run.id, attempt.id
    ORDER BY run.submitted_at_ms DESC, run.run_id, attempt.element, attempt.attempt LIMIT ?3";

impl Store {
    /// Own runs of a program, or of a workload by its key, and each element of their arrays, in the order in which they were submitted.
    /// The starts of one that was started again are one: it may have gone on from a checkpoint. Those that run now are among them, with
    /// their time so far.
    ///
    /// # Errors
    /// As [`Store::list`].
    pub fn history(&self, program: &str, key: &str) -> Result<Vec<Past>, StoreError> {
        let starts = self.rows(STARTS, params![program, key, MOST], start)?;
        let mut all: Vec<(u32, Past)> = Vec::new();
        for (element, start) in starts.into_iter().flatten() {
            match all
                .last_mut()
                .filter(|(of, past)| *of == element && past.run_id == start.run_id)
            {
                Some((_, past)) => {
                    let wall = [past.wall_seconds, start.wall_seconds];
                    past.wall_seconds = wall.into_iter().flatten().reduce(|one, other| one + other);
                    past.memory_bytes = past.memory_bytes.max(start.memory_bytes);
                    past.state = start.state;
                }
                None => all.push((element, start)),
            }
        }
        all.reverse();
        Ok(all.into_iter().map(|(_, past)| past).collect())
    }
}

/// A start and its element; `None` where it has not begun.
fn start(row: &Row<'_>) -> rusqlite::Result<Option<(u32, Past)>> {
    let word = |column| {
        Ok::<_, rusqlite::Error>(
            row.get_ref(column)?
                .as_str_or_null()?
                .map(JobState::from_word),
        )
    };
    // What a newer dlrun may have written is passed over.
    let Some(identity) = from_json::<Identity>(row, 1)? else {
        return Ok(None);
    };
    let is_array: bool = row.get(4)?;
    let first = if is_array { 8 } else { 5 };
    let is_last = row.get::<_, Option<bool>>(18)?.unwrap_or(true);
    let state = match (is_last, word(first)?) {
        // It was started again.
        (false, _) => JobState::Preempted,
        (true, Some(state)) if state != JobState::Unknown => state,
        (true, _) => match row
            .get::<_, Option<i32>>(14)?
            .map(ExitStatus::from_shell_code)
        {
            Some(exit) if exit.is_success() => JobState::Completed,
            Some(_) => JobState::Failed,
            None => JobState::Unknown,
        },
    };
    if state == JobState::Pending {
        return Ok(None);
    }
    // The scheduler's times hold for the last start; they begin before the script's marks, and limits count from there.
    let lasted = |from: usize, to: usize| -> rusqlite::Result<Option<f64>> {
        let (from, to) = (unsigned(row, from)?, unsigned(row, to)?);
        let passed_ms = from
            .zip(to)
            .and_then(|(from, to)| to.checked_sub(from))
            .filter(|ms| *ms > 0);
        #[expect(clippy::cast_precision_loss, reason = "milliseconds of a run")]
        Ok(passed_ms.map(|ms| ms as f64 / 1e3))
    };
    let told = if is_last {
        lasted(first + 1, first + 2)?
    } else {
        None
    };
    let marked = lasted(12, 13)?;
    let seen = lasted(15, 16)?;
    let is_blind: bool = row.get::<_, Option<bool>>(20)?.unwrap_or(false);
    let past = Past {
        run_id: run_id(row)?,
        identity,
        scheduler: row
            .get_ref(2)?
            .as_str_or_null()?
            .and_then(SchedulerKind::from_word)
            .unwrap_or_default(),
        host: row.get(3)?,
        state,
        wall_seconds: [told, marked, seen].into_iter().flatten().reduce(f64::max),
        // What was not watched may have had more.
        memory_bytes: unsigned(row, 17)?.filter(|bytes| *bytes > 0 && !is_blind),
    };
    Ok(Some((row.get::<_, Option<u32>>(19)?.unwrap_or(0), past)))
}
