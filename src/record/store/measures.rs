//! Questions about what was measured in a run.

use std::collections::{BTreeMap, HashMap};

use serde::de::DeserializeOwned;

use super::error::StoreError;
use super::open::Store;
use crate::job::RunId;
use crate::record::{
    Epoch, Event, GpuUsage, MeasureKey, Measurement, MetricPoint, MetricValue, NodeRecord,
    PointKind, RankRecord, Table,
};

impl Store {
    /// The records of all measurements of a run, by element, attempt, node and step. The sums behind the means of GPUs are
    /// not in them.
    ///
    /// # Errors
    /// As [`Store::list`].
    pub fn node_records(&self, run_id: &RunId) -> Result<Vec<NodeRecord>, StoreError> {
        let from = "node LEFT JOIN usage ON usage.node = node.id LEFT JOIN target ON target.id = node.target";
        let rows = self.measured::<Measurement>(Table::Usage, from, "node.id", run_id)?;
        let mut records: Vec<NodeRecord> = Vec::with_capacity(rows.len());
        let mut places: HashMap<MeasureKey, usize> = HashMap::new();
        for (key, measurement) in rows {
            places.insert(key.clone(), records.len());
            let record = measurement.record;
            records.push(NodeRecord { key, ..record });
        }
        let place = |key: &MeasureKey| places.get(key).copied();
        for (key, epoch) in self.parts::<Epoch>(Table::Timings, "timing", "place", run_id)? {
            if let Some(place) = place(&key) {
                records[place].progress.epochs.push(epoch);
            }
        }
        for (key, usage) in self.parts::<GpuUsage>(Table::Gpus, "gpu", "uuid", run_id)? {
            if let Some(place) = place(&key) {
                records[place].gpus.push(usage);
            }
        }
        for (key, rank) in self.parts::<RankRecord>(Table::Ranks, "rank", "rank", run_id)? {
            if let Some(place) = place(&key) {
                records[place].ranks.push(rank);
            }
        }
        // Of several databases' events each has its own order.
        for (key, event) in self.parts::<Event>(Table::Events, "event", "at_ms, place", run_id)? {
            if let Some(place) = place(&key) {
                records[place].events.push(event);
            }
        }
        let order = "kind DESC, place, metric.name";
        for (key, value) in self.parts::<MetricValue>(Table::Metrics, "metric", order, run_id)? {
            if let Some(place) = place(&key).filter(|_| value.kind != PointKind::Epoch) {
                add_value(&mut records[place].progress.points, value);
            }
        }
        Ok(records)
    }

    /// Rows of a table that hang on measurements.
    fn parts<T: DeserializeOwned>(
        &self,
        table: Table,
        name: &str,
        order: &str,
        run_id: &RunId,
    ) -> Result<Vec<(MeasureKey, T)>, StoreError> {
        let from = format!("{name} JOIN node ON {name}.node = node.id");
        self.measured(table, &from, order, run_id)
    }
}

/// Puts a value to the others of its point, or begins one.
fn add_value(points: &mut Vec<MetricPoint>, value: MetricValue) {
    let (name, number) = (value.name, value.value.unwrap_or(f64::NAN));
    match points.last_mut() {
        Some(last) if (last.kind, last.place) == (value.kind, value.place) => {
            last.metrics.insert(name, number);
        }
        _ => points.push(MetricPoint {
            kind: value.kind,
            place: value.place,
            epoch: value.epoch,
            step: value.step,
            at_ms: value.at_ms,
            metrics: BTreeMap::from([(name, number)]),
        }),
    }
}
