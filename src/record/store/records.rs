//! Node records put together again from their rows: of a run that was imported nothing else is there.

use std::collections::HashMap;

use rusqlite::Row;

use super::measures::{KEY, OF_RUN, key};
use super::open::{Store, StoreError};
use super::runs::{exit_of, unsigned};
use crate::job::{JobId, RunId};
use crate::record::{
    Conditions, Gap, HostFacts, MeasureKey, Missing, NodeRecord, NodeState, Progress, Usage,
    WatcherCost,
};

impl Store {
    /// The records of all measurements of a run, by element, attempt, node and step. The sums behind the means of GPUs are
    /// not in them.
    ///
    /// # Errors
    /// As [`Store::list`].
    pub fn node_records(&self, run_id: &RunId) -> Result<Vec<NodeRecord>, StoreError> {
        let sql = format!(
            "SELECT {KEY}, node.job_id, node.state, node.started_at_ms, node.ended_at_ms, updated_at_ms, node.exit_code,
                 node.exit_signal, node.output, hostname, cpu_model, cpus, cpus_allowed, mem_total_bytes, kernel,
                 omp_num_threads, segments, watcher_cpu_us, watcher_samples, watcher_late_ticks, cgroup, container
             FROM node LEFT JOIN target ON node.target = target.id {OF_RUN} ORDER BY {KEY}"
        );
        let mut records = self.rows(&sql, [run_id.as_str()], |row| node_record(run_id, row))?;
        let place: HashMap<MeasureKey, usize> = records
            .iter()
            .enumerate()
            .map(|(place, record)| (record.key.clone(), place))
            .collect();
        for told in self.progress(run_id)? {
            if let Some(place) = place.get(&told.key) {
                records[*place].progress = told.progress;
                records[*place].conditions = told.conditions;
            }
        }
        for told in self.timings(run_id)? {
            if let Some(place) = place.get(&told.key) {
                records[*place].progress.epochs = told.epochs;
            }
        }
        for (key, point) in self.points(run_id)? {
            if let Some(place) = place.get(&key) {
                records[*place].progress.points.push(point);
            }
        }
        for told in self.usage(run_id)? {
            if let Some(place) = place.get(&told.key) {
                records[*place].usage = told.usage;
            }
        }
        for (key, gpu) in self.gpus(run_id)? {
            if let Some(place) = place.get(&key) {
                records[*place].gpus.push(gpu);
            }
        }
        for (key, event) in self.events(run_id)? {
            if let Some(place) = place.get(&key) {
                records[*place].events.push(event);
            }
        }
        // Of several databases' events each has its own order.
        records
            .iter_mut()
            .for_each(|record| record.events.sort_by_key(|event| event.at_ms));
        self.add_holes(run_id, &mut records, &place)?;
        Ok(records)
    }

    fn add_holes(
        &self,
        run_id: &RunId,
        records: &mut [NodeRecord],
        place: &HashMap<MeasureKey, usize>,
    ) -> Result<(), StoreError> {
        let sql = format!(
            "SELECT {KEY}, from_ms, to_ms, why FROM gap JOIN node ON gap.node = node.id {OF_RUN} ORDER BY {KEY}, place"
        );
        let gaps = self.rows(&sql, [run_id.as_str()], |row| {
            let time = |column| Ok::<_, rusqlite::Error>(unsigned(row, column)?.unwrap_or(0));
            Ok((
                key(run_id, row)?,
                Gap {
                    from_ms: time(4)?,
                    to_ms: time(5)?,
                    why: row.get(6)?,
                },
            ))
        })?;
        for (key, gap) in gaps {
            if let Some(place) = place.get(&key) {
                records[*place].gaps.push(gap);
            }
        }
        let sql = format!(
            "SELECT {KEY}, what, why FROM missing JOIN node ON missing.node = node.id {OF_RUN} ORDER BY {KEY}, place"
        );
        let missing = self.rows(&sql, [run_id.as_str()], |row| {
            Ok((
                key(run_id, row)?,
                Missing {
                    what: row.get(4)?,
                    why: row.get(5)?,
                },
            ))
        })?;
        for (key, missing) in missing {
            if let Some(place) = place.get(&key) {
                records[*place].missing.push(missing);
            }
        }
        Ok(())
    }
}

fn node_record(run_id: &RunId, row: &Row<'_>) -> rusqlite::Result<NodeRecord> {
    let number = |column| Ok::<_, rusqlite::Error>(unsigned(row, column)?.unwrap_or(0));
    Ok(NodeRecord {
        format: NodeRecord::FORMAT,
        last_words: Vec::new(),
        key: key(run_id, row)?,
        job_id: row.get::<_, Option<String>>(4)?.map(JobId),
        state: match row.get::<_, String>(5)?.as_str() {
            "running" => NodeState::Running,
            "ended" => NodeState::Ended,
            _ => NodeState::Interrupted,
        },
        started_at_ms: number(6)?,
        ended_at_ms: unsigned(row, 7)?,
        updated_at_ms: number(8)?,
        exit: exit_of(row.get(9)?, row.get(10)?),
        output: row.get(11)?,
        host: HostFacts {
            hostname: row.get(12)?,
            cpu_model: row.get(13)?,
            cpus: unsigned(row, 14)?,
            cpus_allowed: unsigned(row, 15)?,
            mem_total_bytes: unsigned(row, 16)?,
            kernel: row.get(17)?,
            omp_num_threads: row.get(18)?,
        },
        conditions: Conditions::default(),
        usage: Usage::default(),
        progress: Progress::default(),
        segments: row.get(19)?,
        gaps: Vec::new(),
        missing: Vec::new(),
        watcher: WatcherCost {
            cpu_us: number(20)?,
            samples: number(21)?,
            late_ticks: number(22)?,
        },
        cgroup: row.get(23)?,
        gpus: Vec::new(),
        container: row
            .get::<_, Option<String>>(24)?
            .and_then(|text| serde_json::from_str(&text).ok()),
        events: Vec::new(),
    })
}
