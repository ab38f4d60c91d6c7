//! Questions about the starts of runs.

use std::collections::HashMap;

use rusqlite::params;

use super::error::StoreError;
use super::open::Store;
use super::sql::{integer, number, run_id, unsigned};
use crate::job::RunId;
use crate::record::{AllStarts, AttemptMarks, MeasureKey, Table};

/// Runs, or elements of arrays, that continued. A start that left no end mark lasted as long as it was watched, the newest one while the
/// run runs until now, ?2. Numbers of epochs tell how many there were where each program counts them once.
const CONTINUED: &str = "
    WITH start AS (
        SELECT run.run_id AS run_id, iif(run.array IS NULL, NULL, attempt.element) AS element, attempt.started_at_ms AS started_at_ms,
            coalesce(attempt.ended_at_ms,
                iif(coalesce(element.state, run.state) = 'running' AND attempt.attempt = max(attempt.attempt) OVER of_one, ?2, NULL),
                max(coalesce(node.ended_at_ms, node.updated_at_ms))) AS ended_at_ms,
            min(timing.epoch) AS first, max(timing.epoch) AS last,
            max(node.restarts > 0 OR node.epoch_numbering = 'none') AS is_uncounted,
            coalesce(json_extract(attempt.record, '$.end.next'), 'nothing') <> 'nothing' AS continues
        FROM run JOIN attempt ON attempt.run = run.id
            LEFT JOIN element ON element.run = run.id AND element.element = attempt.element
            LEFT JOIN node ON node.attempt = attempt.id
            LEFT JOIN timing ON timing.node = node.id
        WHERE run.run_id IN (SELECT value FROM json_each(?1)) AND attempt.record IS NOT NULL
        GROUP BY attempt.id
        WINDOW of_one AS (PARTITION BY attempt.run, attempt.element))
    SELECT run_id, element, count(*) AS starts, min(started_at_ms) AS started_at_ms,
        coalesce(sum(max(ended_at_ms - started_at_ms, 0)), 0) AS ran_ms,
        iif(max(is_uncounted), NULL, max(last) - min(first) + 1) AS epochs
    FROM start GROUP BY run_id, element HAVING count(*) > 1 OR max(continues)";

impl Store {
    /// The starts of a run that are known, by element and attempt; of their keys nothing else is meant.
    ///
    /// # Errors
    /// As [`Store::list`].
    pub fn attempts(&self, run_id: &RunId) -> Result<Vec<(MeasureKey, AttemptMarks)>, StoreError> {
        self.measured(Table::Attempts, "attempt", "attempt.id", run_id)
    }

    /// Which of these runs continued, and elements of those that are arrays.
    ///
    /// # Errors
    /// As [`Store::list`].
    pub fn continued(
        &self,
        run_ids: &[RunId],
        now_ms: u64,
    ) -> Result<HashMap<(RunId, Option<u32>), AllStarts>, StoreError> {
        let run_ids = serde_json::to_string(run_ids).expect("ids are text");
        let rows = self.rows(CONTINUED, params![run_ids, integer(now_ms)], |row| {
            #[expect(clippy::cast_precision_loss, reason = "milliseconds of a run")]
            let all = AllStarts {
                starts: number(row, "starts")?,
                started_at_ms: unsigned(row, "started_at_ms")?,
                ran_seconds: number(row, "ran_ms")? as f64 / 1e3,
                epochs: unsigned(row, "epochs")?,
            };
            Ok(((run_id(row)?, row.get("element")?), all))
        })?;
        Ok(rows.into_iter().collect())
    }
}
