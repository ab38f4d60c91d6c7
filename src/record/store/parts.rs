//! What hangs on the row of a node: usage, epochs, holes, events, GPUs.

use rusqlite::params;

use super::ingest::Writer;
use super::measures::event;
use super::open::StoreError;
use super::{integer, optional};
use crate::record::{Epoch, Event, Gap, GpuUsage, MetricPoint, NodeRecord, PointKind, Progress};

impl Writer<'_> {
    /// What is as it was is not written: it would count as a change.
    pub(super) fn replace_usage(&self, node: i64, record: &NodeRecord) -> Result<(), StoreError> {
        let usage = &record.usage;
        self.execute(
            "INSERT INTO usage (node, wall_seconds, cpu_user_seconds, cpu_system_seconds, mem_peak_bytes,
                 io_read_bytes, io_write_bytes, processes_peak, cpu_throttled_seconds, mem_oom_kills)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)
             ON CONFLICT (node) DO UPDATE SET wall_seconds = ?2, cpu_user_seconds = ?3, cpu_system_seconds = ?4,
                 mem_peak_bytes = ?5, io_read_bytes = ?6, io_write_bytes = ?7, processes_peak = ?8,
                 cpu_throttled_seconds = ?9, mem_oom_kills = ?10
             WHERE (wall_seconds, cpu_user_seconds, cpu_system_seconds, mem_peak_bytes, io_read_bytes, io_write_bytes,
                 processes_peak, cpu_throttled_seconds, mem_oom_kills)
                 IS NOT (excluded.wall_seconds, excluded.cpu_user_seconds, excluded.cpu_system_seconds,
                 excluded.mem_peak_bytes, excluded.io_read_bytes, excluded.io_write_bytes, excluded.processes_peak,
                 excluded.cpu_throttled_seconds, excluded.mem_oom_kills)",
            params![
                node,
                usage.wall_seconds,
                usage.cpu_user_seconds,
                usage.cpu_system_seconds,
                optional(usage.mem_peak_bytes),
                optional(usage.io_read_bytes),
                optional(usage.io_write_bytes),
                optional(usage.processes_peak),
                usage.cpu_throttled_seconds,
                optional(usage.mem_oom_kills),
            ],
        )?;
        Ok(())
    }

    /// Epochs that are as they were stay, and keep their numbers. Those that the record dropped go.
    pub(super) fn replace_epochs(&self, node: i64, progress: &Progress) -> Result<(), StoreError> {
        let kept = progress.epochs.len() as u64;
        let dropped = progress.epochs_completed.saturating_sub(kept);
        // The first is kept, then the newest.
        let place = |index: u64| if index == 0 { 0 } else { index + dropped };
        self.execute(
            "DELETE FROM timing WHERE node = ?1 AND (place >= ?2 OR place BETWEEN 1 AND ?3)",
            params![
                node,
                integer(if kept == 0 { 0 } else { kept + dropped }),
                integer(dropped)
            ],
        )?;
        self.execute(
            "DELETE FROM metric WHERE node = ?1 AND kind = 'epoch' AND (place >= ?2 OR place BETWEEN 1 AND ?3)",
            params![node, integer(if kept == 0 { 0 } else { kept + dropped }), integer(dropped)],
        )?;
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

    pub(super) fn put_point(&self, node: i64, point: &MetricPoint) -> Result<(), StoreError> {
        let MetricPoint {
            kind,
            place,
            epoch,
            step,
            at_ms,
            metrics,
        } = point;
        for (name, value) in metrics {
            self.execute(
                "INSERT INTO metric (change_seq, node, kind, place, name, epoch, step, at_ms, value)
                 SELECT last + 1, ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8 FROM change WHERE true
                 ON CONFLICT (node, kind, place, name) DO UPDATE SET change_seq = excluded.change_seq, epoch = ?5,
                     step = ?6, at_ms = ?7, value = ?8
                 WHERE (epoch, step, at_ms, value)
                     IS NOT (excluded.epoch, excluded.step, excluded.at_ms, excluded.value)",
                params![
                    node,
                    kind.as_str(),
                    integer(*place),
                    name,
                    optional(*epoch),
                    optional(*step),
                    optional(*at_ms),
                    value.is_finite().then_some(*value),
                ],
            )?;
        }
        Ok(())
    }

    pub(super) fn put_epoch(&self, node: i64, place: u64, epoch: &Epoch) -> Result<(), StoreError> {
        let metrics = serde_json::to_string(&epoch.metrics).expect("numbers under names");
        self.execute(
            "INSERT INTO timing (change_seq, node, place, epoch, printed_seconds, clock_seconds, ended_at_ms, event,
                 warmup, samples, evaluation_seconds, checkpoint_seconds, metrics, clock_set)
             SELECT last + 1, ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13 FROM change WHERE true
             ON CONFLICT (node, place) DO UPDATE SET change_seq = excluded.change_seq, epoch = ?3, printed_seconds = ?4,
                 clock_seconds = ?5, ended_at_ms = ?6, event = ?7, warmup = ?8, samples = ?9, evaluation_seconds = ?10,
                 checkpoint_seconds = ?11, metrics = ?12, clock_set = ?13
             WHERE (epoch, printed_seconds, clock_seconds, ended_at_ms, event, warmup, samples, evaluation_seconds,
                 checkpoint_seconds, metrics, clock_set)
                 IS NOT (excluded.epoch, excluded.printed_seconds, excluded.clock_seconds, excluded.ended_at_ms,
                 excluded.event, excluded.warmup, excluded.samples, excluded.evaluation_seconds,
                 excluded.checkpoint_seconds, excluded.metrics, excluded.clock_set)",
            params![
                node,
                integer(place),
                integer(epoch.epoch),
                epoch.printed_seconds,
                epoch.clock_seconds,
                optional(epoch.ended_at_ms),
                epoch.event,
                epoch.warmup,
                optional(epoch.samples),
                epoch.evaluation_seconds,
                epoch.checkpoint_seconds,
                metrics,
                epoch.clock_set,
            ],
        )?;
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
        if let Some((place, _)) = known[..dropped].last() {
            self.execute(
                "DELETE FROM event WHERE node = ?1 AND place <= ?2",
                params![node, place],
            )?;
        }
        // Places grow on, also where all that was there went.
        let next = known.last().map_or(0, |(place, _)| place + 1);
        let new = &events[known.len() - dropped..];
        (next..)
            .zip(new)
            .try_for_each(|(place, event)| self.insert_event(node, place, event))
    }

    fn known_events(&self, node: i64) -> Result<Vec<(i64, Event)>, StoreError> {
        let sql = "SELECT place, at_ms, kind, detail FROM event WHERE node = ?1 ORDER BY place";
        let read = || {
            let mut statement = self.transaction.prepare_cached(sql)?;
            let rows = statement.query_map([node], |row| Ok((row.get(0)?, event(row, 1)?)))?;
            rows.collect::<rusqlite::Result<Vec<_>>>()
        };
        read().map_err(|source| StoreError::of(self.path, "read", source))
    }

    fn insert_event(&self, node: i64, place: i64, event: &Event) -> Result<(), StoreError> {
        self.execute(
            "INSERT INTO event (node, place, at_ms, kind, detail) VALUES (?1, ?2, ?3, ?4, ?5)",
            params![
                node,
                place,
                integer(event.at_ms),
                event.kind.as_str(),
                event.detail
            ],
        )?;
        Ok(())
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
        gpus.iter().try_for_each(|usage| self.put_gpu(node, usage))
    }

    /// What is as it was is not written: it would count as a change.
    pub(super) fn put_gpu(&self, node: i64, usage: &GpuUsage) -> Result<(), StoreError> {
        let gpu = &usage.gpu;
        self.execute(
            PUT_GPU,
            params![
                node,
                gpu.uuid,
                gpu.name,
                gpu.minor,
                gpu.pci_bus_id,
                optional(gpu.mem_total_bytes),
                gpu.power_limit_watts,
                gpu.sm_clock_max_mhz,
                gpu.mig,
                gpu.parent,
                gpu.driver,
                integer(usage.readings),
                usage.utilisation_mean_percent,
                optional(usage.mem_peak_bytes),
                usage.energy_joules,
                usage.power_mean_watts,
                optional(usage.temperature_peak_celsius),
                usage.sm_clock_mean_mhz,
                usage.throttled_seconds,
                usage.idle_seconds,
                integer(usage.xid_errors),
            ],
        )?;
        Ok(())
    }
}

const PUT_GPU: &str = "
    INSERT INTO gpu (node, uuid, name, minor, pci_bus_id, mem_total_bytes, power_limit_watts, sm_clock_max_mhz, mig,
        parent, driver, readings, utilisation_mean_percent, mem_peak_bytes, energy_joules, power_mean_watts,
        temperature_peak_celsius, sm_clock_mean_mhz, throttled_seconds, idle_seconds, xid_errors)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21)
    ON CONFLICT (node, uuid) DO UPDATE SET name = ?3, minor = ?4, pci_bus_id = ?5, mem_total_bytes = ?6,
        power_limit_watts = ?7, sm_clock_max_mhz = ?8, mig = ?9, parent = ?10, driver = ?11, readings = ?12,
        utilisation_mean_percent = ?13, mem_peak_bytes = ?14, energy_joules = ?15, power_mean_watts = ?16,
        temperature_peak_celsius = ?17, sm_clock_mean_mhz = ?18, throttled_seconds = ?19, idle_seconds = ?20,
        xid_errors = ?21
    WHERE (name, minor, pci_bus_id, mem_total_bytes, power_limit_watts, sm_clock_max_mhz, mig, parent, driver, readings,
        utilisation_mean_percent, mem_peak_bytes, energy_joules, power_mean_watts, temperature_peak_celsius,
        sm_clock_mean_mhz, throttled_seconds, idle_seconds, xid_errors)
        IS NOT (?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21)";
