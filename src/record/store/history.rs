//! Earlier runs of a program, for jobs that leave their limits open.

use rusqlite::{Row, params};

use super::error::StoreError;
use super::open::Store;
use super::sql::{from_json, run_id, unsigned, word};
use crate::job::{JobState, RunId, SchedulerKind};
use crate::record::{ExitStatus, Identity, Past};

/// More starts are not looked at; the newest count.
const MOST: u32 = 10_000;

/// A row for each start of the program's runs; for runs without starts one with nulls. Imported runs ran who knows where.
const STARTS: &str = "
    SELECT run.run_id AS run_id, run.submitted_at_ms AS at_ms, run.identity AS identity, run.scheduler AS scheduler, run.submit_host AS host,
        iif(run.array IS NULL, run.state, element.state) AS state,
        iif(run.array IS NULL, run.started_at_ms, element.started_at_ms) AS told_start_ms,
        iif(run.array IS NULL, run.ended_at_ms, element.ended_at_ms) AS told_end_ms,
        attempt.started_at_ms AS marked_start_ms, attempt.ended_at_ms AS marked_end_ms, shell_code,
        min(node.started_at_ms) AS seen_start_ms, max(coalesce(node.ended_at_ms, node.updated_at_ms)) AS seen_end_ms,
        max(mem_peak_bytes) AS memory_bytes,
        coalesce(attempt.attempt = (SELECT max(other.attempt) FROM attempt AS other
            WHERE other.run = run.id AND other.element = attempt.element), true) AS is_last,
        coalesce(attempt.element, 0) AS element,
        coalesce(count(DISTINCT node.node) < run.nodes OR EXISTS (
            SELECT 1 FROM missing JOIN node AS blind ON missing.node = blind.id
            WHERE blind.attempt = attempt.id AND missing.what LIKE 'ranks%'), false) AS is_blind
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
    /// The last own run of a workload.
    ///
    /// # Errors
    /// As [`Store::list`].
    pub fn last_of(&self, key: &str) -> Result<Option<RunId>, StoreError> {
        let sql = "SELECT run_id FROM run WHERE origin IS NULL AND identity IS NOT NULL AND identity ->> 'key' = ?1
             ORDER BY submitted_at_ms DESC LIMIT 1";
        Ok(self.rows(sql, [key], run_id)?.pop())
    }

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
    // What a newer dlrun may have written is passed over.
    let Some(identity) = from_json::<Identity>(row, "identity")? else {
        return Ok(None);
    };
    let is_last: bool = row.get("is_last")?;
    let reported = row.get::<_, Option<String>>("state")?;
    let reported = reported.map(|state| JobState::from_word(&state).unwrap_or_default());
    let ended: Option<i32> = row.get("shell_code")?;
    let state = match (is_last, reported, ended.map(ExitStatus::from_shell_code)) {
        // It was started again.
        (false, ..) => JobState::Preempted,
        (true, Some(state), _) if state != JobState::Unknown => state,
        (true, _, Some(exit)) if exit.is_success() => JobState::Completed,
        (true, _, Some(_)) => JobState::Failed,
        (true, _, None) => JobState::Unknown,
    };
    if state == JobState::Pending {
        return Ok(None);
    }
    // The scheduler's times hold for the last start; they begin before the script's marks, and limits count from there.
    let reported = if is_last {
        seconds_between(row, "told_start_ms", "told_end_ms")?
    } else {
        None
    };
    let marked = seconds_between(row, "marked_start_ms", "marked_end_ms")?;
    let seen = seconds_between(row, "seen_start_ms", "seen_end_ms")?;
    let is_blind: bool = row.get("is_blind")?;
    let past = Past {
        run_id: run_id(row)?,
        at_ms: unsigned(row, "at_ms")?.unwrap_or_default(),
        identity,
        scheduler: word::<SchedulerKind>(row, "scheduler")?.unwrap_or_default(),
        host: row.get("host")?,
        state,
        wall_seconds: [reported, marked, seen]
            .into_iter()
            .flatten()
            .reduce(f64::max),
        // What was not watched may have had more.
        memory_bytes: unsigned(row, "memory_bytes")?.filter(|bytes| *bytes > 0 && !is_blind),
    };
    Ok(Some((row.get("element")?, past)))
}

fn seconds_between(row: &Row<'_>, from: &str, to: &str) -> rusqlite::Result<Option<f64>> {
    let (from, to) = (unsigned(row, from)?, unsigned(row, to)?);
    let passed_ms = from.zip(to).and_then(|(from, to)| to.checked_sub(from));
    #[expect(clippy::cast_precision_loss, reason = "milliseconds of a run")]
    Ok(passed_ms.filter(|ms| *ms > 0).map(|ms| ms as f64 / 1e3))
}
