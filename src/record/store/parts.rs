//! What hangs on the row of a node: usage, epochs, holes, events, GPUs.

use rusqlite::params;
use serde_json::{Value, json};

use super::error::StoreError;
use super::sql::{event, integer};
use super::writer::{Replace, Writer};
use crate::record::table::stored_values;
use crate::record::{
    Epoch, Event, Gap, GpuUsage, MetricPoint, MetricValue, NodeRecord, PointKind, Progress,
    RankRecord, Table,
};

impl Writer<'_> {
    pub(super) fn replace_usage(&self, node: i64, record: &NodeRecord) -> Result<(), StoreError> {
        let whole = json!({ "record": { "usage": record.usage } });
        let values = stored_values(Table::Usage, "usage", "/record/usage", &whole);
        self.put_part(node, Table::Usage, values).map(drop)
    }

    /// Puts a row of a measurement in; `false`: it is as it was, and was not written, which would count as a change.
    pub(super) fn put_part(
        &self,
        node: i64,
        table: Table,
        mut values: Vec<(&'static str, Value)>,
    ) -> Result<bool, StoreError> {
        let (key, replace): (&[&str], _) = match table {
            Table::Timings => (&["node", "place"], Replace::Numbered),
            Table::Metrics => (&["node", "kind", "place", "name"], Replace::Numbered),
            Table::Gpus => (&["node", "uuid"], Replace::Keeping(&[])),
            Table::Ranks => (&["node", "rank"], Replace::Keeping(&[])),
            _ => (&["node"], Replace::Keeping(&[])),
        };
        values.push(("node", node.into()));
        self.put(table.kind(), key, &values, replace)
    }

    fn put_record(&self, node: i64, table: Table, record: &Value) -> Result<(), StoreError> {
        let values = stored_values(table, table.kind(), "", record);
        self.put_part(node, table, values).map(drop)
    }

    /// Epochs that are as they were stay, and keep their numbers. Those that the record dropped go.
    pub(super) fn replace_epochs(&self, node: i64, progress: &Progress) -> Result<(), StoreError> {
        let kept = progress.epochs.len() as u64;
        let dropped = progress.epochs_completed.saturating_sub(kept);
        // The first is kept, then the newest.
        let place = |index: u64| if index == 0 { 0 } else { index + dropped };
        let end = integer(if kept == 0 { 0 } else { kept + dropped });
        for of_epochs in ["timing WHERE", "metric WHERE kind = 'epoch' AND"] {
            let gone = "node = ?1 AND (place >= ?2 OR place BETWEEN 1 AND ?3)";
            let sql = format!("DELETE FROM {of_epochs} {gone}");
            self.execute(&sql, params![node, end, integer(dropped)])?;
        }
        (0..)
            .zip(&progress.epochs)
            .try_for_each(|(index, epoch)| self.put_epoch(node, place(index), epoch))
    }

    /// Points that are as they were stay, and keep their numbers. Those that were thinned out go.
    pub(super) fn replace_points(
        &self,
        node: i64,
        points: &[MetricPoint],
    ) -> Result<(), StoreError> {
        for kind in [PointKind::Step, PointKind::Evaluation] {
            let last_known = "SELECT max(place) FROM metric WHERE node = ?1 AND kind = ?2 HAVING max(place) IS NOT NULL";
            let last_known = self
                .select(last_known, params![node, kind.as_str()])?
                .unwrap_or(0);
            let places: Vec<u64> = points
                .iter()
                .filter(|point| point.kind == kind)
                .map(|point| point.place)
                .collect();
            // They are thinned evenly.
            let stride = places
                .get(1)
                .map_or(1, |second| (second - places[0].min(*second)).max(1));
            self.execute(
                "DELETE FROM metric WHERE node = ?1 AND kind = ?2 AND (place > ?3 OR place % ?4 <> 0)",
                params![
                    node,
                    kind.as_str(),
                    places.last().map_or(-1, |last| integer(*last)),
                    integer(stride)
                ],
            )?;
            // Of a point that is there only the last can have grown: a running job's record comes again and again.
            let new = points
                .iter()
                .filter(|point| point.kind == kind && integer(point.place) >= last_known);
            new.into_iter()
                .try_for_each(|point| self.put_point(node, point))?;
        }
        Ok(())
    }

    fn put_point(&self, node: i64, point: &MetricPoint) -> Result<(), StoreError> {
        point.metrics.iter().try_for_each(|(name, value)| {
            let value = MetricValue {
                kind: point.kind,
                place: point.place,
                name: name.clone(),
                epoch: point.epoch,
                step: point.step,
                at_ms: point.at_ms,
                value: value.is_finite().then_some(*value),
            };
            self.put_record(node, Table::Metrics, &json!(value))
        })
    }

    pub(super) fn put_epoch(&self, node: i64, place: u64, epoch: &Epoch) -> Result<(), StoreError> {
        let mut whole = json!(epoch);
        whole["place"] = place.into();
        self.put_record(node, Table::Timings, &whole)?;
        self.put_point(
            node,
            &MetricPoint {
                kind: PointKind::Epoch,
                place,
                epoch: Some(epoch.epoch),
                step: None,
                at_ms: epoch.ended_at_ms,
                metrics: epoch.metrics.clone(),
            },
        )
    }

    pub(super) fn replace_holes(&self, node: i64, record: &NodeRecord) -> Result<(), StoreError> {
        self.execute("DELETE FROM gap WHERE node = ?1", [node])?;
        record
            .gaps
            .iter()
            .try_for_each(|gap| self.add_gap(node, gap))?;
        self.execute("DELETE FROM missing WHERE node = ?1", [node])?;
        for (place, missing) in record.missing.iter().enumerate() {
            self.execute(
                "INSERT INTO missing (node, place, what, why) VALUES (?1, ?2, ?3, ?4)",
                params![node, integer(place as u64), missing.what, missing.why],
            )?;
        }
        Ok(())
    }

    /// Adds a hole after the others.
    pub(super) fn add_gap(&self, node: i64, gap: &Gap) -> Result<(), StoreError> {
        self.execute(
            "INSERT INTO gap (node, place, from_ms, to_ms, why)
             SELECT ?1, coalesce(max(place) + 1, 0), ?2, ?3, ?4 FROM gap WHERE node = ?1",
            params![node, integer(gap.from_ms), integer(gap.to_ms), gap.why],
        )?;
        Ok(())
    }

    /// A record holds the newest events: what is there and in it stays, what it dropped goes, what it adds comes after.
    pub(super) fn replace_events(&self, node: i64, events: &[Event]) -> Result<(), StoreError> {
        let known = self.known_events(node)?;
        let begins = |at: &usize| {
            let still = &known[*at..];
            still.len() <= events.len()
                && still
                    .iter()
                    .zip(events)
                    .all(|((_, known), new)| known == new)
        };
        let dropped = (0..=known.len()).find(begins).unwrap_or(known.len());
        // Before the others go: places grow on, also where all that was there goes.
        events[known.len() - dropped..]
            .iter()
            .try_for_each(|event| self.add_event(node, event))?;
        if let Some((place, _)) = known[..dropped].last() {
            self.execute(
                "DELETE FROM event WHERE node = ?1 AND place <= ?2",
                params![node, place],
            )?;
        }
        Ok(())
    }

    fn known_events(&self, node: i64) -> Result<Vec<(i64, Event)>, StoreError> {
        let sql = "SELECT place, at_ms, kind, detail FROM event WHERE node = ?1 ORDER BY place";
        self.query(sql, [node], |row| Ok((row.get("place")?, event(row)?)))
    }

    /// Adds an event after the others.
    pub(super) fn add_event(&self, node: i64, event: &Event) -> Result<(), StoreError> {
        self.execute(
            "INSERT INTO event (node, place, at_ms, kind, detail)
             SELECT ?1, coalesce(max(place) + 1, 0), ?2, ?3, ?4 FROM event WHERE node = ?1",
            params![
                node,
                integer(event.at_ms),
                event.kind.as_str(),
                event.detail
            ],
        )?;
        Ok(())
    }

    pub(super) fn replace_gpus(&self, node: i64, gpus: &[GpuUsage]) -> Result<(), StoreError> {
        let uuids: Vec<&str> = gpus.iter().map(|usage| usage.gpu.uuid.as_str()).collect();
        let uuids = serde_json::to_string(&uuids).expect("text");
        self.execute(
            "DELETE FROM gpu WHERE node = ?1 AND uuid NOT IN (SELECT value FROM json_each(?2))",
            params![node, uuids],
        )?;
        gpus.iter()
            .try_for_each(|usage| self.put_record(node, Table::Gpus, &json!(usage)))
    }

    pub(super) fn replace_ranks(&self, node: i64, ranks: &[RankRecord]) -> Result<(), StoreError> {
        ranks
            .iter()
            .try_for_each(|rank| self.put_record(node, Table::Ranks, &json!(rank)))
    }
}
