//! Series in few figures, for each minute and each hour.

use std::collections::BTreeMap;

use rusqlite::params;

use super::{NodeId, Work};
use crate::record::store::error::StoreError;
use crate::record::store::sql::integer;
use crate::record::{COLUMNS, GPU_COLUMNS, GpuReading, Sample};

/// The spans, in seconds.
const SPANS: [u64; 2] = [60, 3600];

/// What is known of one series over one span.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Bucket {
    t0_ms: u64,
    samples: u64,
    minimum: u64,
    maximum: u64,
    sum: f64,
    last: u64,
}

/// The buckets of a series, oldest first.
fn buckets(
    values: impl Iterator<Item = (u64, Option<u64>)>,
    span_seconds: u64,
) -> impl Iterator<Item = Bucket> {
    let mut found: BTreeMap<u64, Bucket> = BTreeMap::new();
    for (at_ms, value) in values {
        let Some(value) = value else { continue };
        let t0_ms = at_ms - at_ms % (span_seconds * 1000);
        let new = Bucket {
            t0_ms,
            samples: 0,
            minimum: value,
            maximum: value,
            sum: 0.0,
            last: value,
        };
        let bucket = found.entry(t0_ms).or_insert(new);
        bucket.samples += 1;
        bucket.minimum = bucket.minimum.min(value);
        bucket.maximum = bucket.maximum.max(value);
        bucket.sum += real(value);
        bucket.last = value;
    }
    found.into_values()
}

#[expect(
    clippy::cast_precision_loss,
    reason = "a sum over many values; 53 bits of it are enough"
)]
fn real(value: u64) -> f64 {
    value as f64
}

impl Work<'_> {
    /// Adds samples to the roll-ups of the run and of its GPUs. Processes have none: they come and go, and no summary asks.
    pub(super) fn roll_up(&mut self, node: NodeId, samples: &[Sample]) -> Result<(), StoreError> {
        let rows: Vec<_> = samples
            .iter()
            .map(|sample| (sample.at_ms, sample.values()))
            .collect();
        for (index, column) in COLUMNS.iter().enumerate() {
            self.roll_up_series(
                node,
                column.name,
                rows.iter().map(|(at_ms, row)| (*at_ms, row[index])),
            )?;
        }
        let mut uuids: Vec<&str> = samples
            .iter()
            .flat_map(|sample| &sample.gpus)
            .map(|gpu| &*gpu.uuid)
            .collect();
        uuids.sort_unstable();
        uuids.dedup();
        for uuid in uuids {
            let of_gpu = |sample: &Sample| {
                sample
                    .gpus
                    .iter()
                    .find(|gpu| *gpu.uuid == *uuid)
                    .map(GpuReading::values)
            };
            let rows: Vec<_> = samples
                .iter()
                .filter_map(|sample| Some((sample.at_ms, of_gpu(sample)?)))
                .collect();
            for (index, column) in GPU_COLUMNS.iter().enumerate() {
                let values = rows.iter().map(|(at_ms, row)| (*at_ms, row[index]));
                self.roll_up_series(node, &format!("gpu/{uuid}/{}", column.name), values)?;
            }
        }
        Ok(())
    }

    fn roll_up_series(
        &mut self,
        node: NodeId,
        name: &str,
        values: impl Iterator<Item = (u64, Option<u64>)> + Clone,
    ) -> Result<(), StoreError> {
        for span in SPANS {
            for bucket in buckets(values.clone(), span) {
                let series = self.series_id(name)?;
                self.add_bucket(node, span, series, bucket)?;
            }
        }
        Ok(())
    }

    fn add_bucket(
        &self,
        node: NodeId,
        span: u64,
        series: i64,
        bucket: Bucket,
    ) -> Result<(), StoreError> {
        self.writer.execute(
            "INSERT INTO rollup (node, span_seconds, t0_ms, series, samples, minimum, maximum, sum, last)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)
             ON CONFLICT (node, span_seconds, t0_ms, series) DO UPDATE SET samples = samples + ?5,
                 minimum = min(minimum, ?6), maximum = max(maximum, ?7), sum = sum + ?8, last = ?9",
            params![
                node.0,
                integer(span),
                integer(bucket.t0_ms),
                series,
                integer(bucket.samples),
                integer(bucket.minimum),
                integer(bucket.maximum),
                bucket.sum,
                integer(bucket.last),
            ],
        )?;
        Ok(())
    }

    fn series_id(&mut self, name: &str) -> Result<i64, StoreError> {
        if let Some(id) = self.series.get(name) {
            return Ok(*id);
        }
        self.writer
            .execute("INSERT OR IGNORE INTO series (name) VALUES (?1)", [name])?;
        let id = self
            .writer
            .select("SELECT id FROM series WHERE name = ?1", [name])?
            .unwrap_or_default();
        self.series.insert(name.to_owned(), id);
        Ok(id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_summed_up_by_span_whatever_the_clock_does() {
        let values = [
            (59_999, Some(5)),
            (60_000, Some(7)),
            (61_000, None),
            (62_000, Some(3)),
            (1_000, Some(9)),
        ];
        let bucket = |t0_ms, samples, minimum, maximum, sum, last| Bucket {
            t0_ms,
            samples,
            minimum,
            maximum,
            sum,
            last,
        };
        let minutes = [
            bucket(0, 2, 5, 9, 14.0, 9),
            bucket(60_000, 2, 3, 7, 10.0, 3),
        ];
        assert_eq!(buckets(values.into_iter(), 60).collect::<Vec<_>>(), minutes);
        assert_eq!(
            buckets(values.into_iter(), 3600).collect::<Vec<_>>(),
            [bucket(0, 4, 3, 9, 24.0, 9)]
        );
        assert_eq!(buckets([(5, None)].into_iter(), 60).count(), 0);
    }
}
