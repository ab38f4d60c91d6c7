//! What hangs on the row of a node: usage, epochs, holes, events, GPUs.

use rusqlite::params;

use super::ingest::Writer;
use super::open::StoreError;
use super::{integer, optional};
use crate::record::{Epoch, Event, Gap, GpuUsage, NodeRecord};

impl Writer<'_> {
    pub(super) fn replace_usage(&self, node: i64, record: &NodeRecord) -> Result<(), StoreError> {
        let usage = &record.usage;
        self.execute(
            "INSERT OR REPLACE INTO usage (node, wall_seconds, cpu_user_seconds, cpu_system_seconds, mem_peak_bytes,
                 io_read_bytes, io_write_bytes, processes_peak, cpu_throttled_seconds, mem_oom_kills)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
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

    pub(super) fn replace_epochs(&self, node: i64, epochs: &[Epoch]) -> Result<(), StoreError> {
        self.execute("DELETE FROM timing WHERE node = ?1", [node])?;
        for (place, epoch) in epochs.iter().enumerate() {
            let metrics = serde_json::to_string(&epoch.metrics).expect("numbers under names");
            self.execute(
                "INSERT INTO timing (node, place, epoch, printed_seconds, clock_seconds, ended_at_ms, metrics)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
                params![
                    node,
                    integer(place as u64),
                    integer(epoch.epoch),
                    epoch.printed_seconds,
                    epoch.clock_seconds,
                    optional(epoch.ended_at_ms),
                    metrics,
                ],
            )?;
        }
        Ok(())
    }

    pub(super) fn replace_holes(&self, node: i64, record: &NodeRecord) -> Result<(), StoreError> {
        self.execute("DELETE FROM gap WHERE node = ?1", [node])?;
        record.gaps.iter().try_for_each(|gap| self.add_gap(node, gap))?;
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

    pub(super) fn replace_events(&self, node: i64, events: &[Event]) -> Result<(), StoreError> {
        self.execute("DELETE FROM event WHERE node = ?1", [node])?;
        events.iter().try_for_each(|event| self.add_event(node, event))
    }

    /// Adds an event after the others.
    pub(super) fn add_event(&self, node: i64, event: &Event) -> Result<(), StoreError> {
        self.execute(
            "INSERT INTO event (node, place, at_ms, kind, detail)
             SELECT ?1, coalesce(max(place) + 1, 0), ?2, ?3, ?4 FROM event WHERE node = ?1",
            params![node, integer(event.at_ms), event.kind.as_str(), event.detail],
        )?;
        Ok(())
    }

    pub(super) fn replace_gpus(&self, node: i64, gpus: &[GpuUsage]) -> Result<(), StoreError> {
        self.execute("DELETE FROM gpu WHERE node = ?1", [node])?;
        for GpuUsage { gpu, .. } in gpus {
            self.execute(
                "INSERT OR REPLACE INTO gpu (node, uuid, name, minor, pci_bus_id, mem_total_bytes, power_limit_watts,
                     sm_clock_max_mhz, mig, parent, driver, readings, throttled_seconds, idle_seconds, xid_errors)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, 0, 0, 0, 0)",
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
                ],
            )?;
        }
        gpus.iter().try_for_each(|usage| self.set_gpu_usage(node, usage))
    }

    fn set_gpu_usage(&self, node: i64, usage: &GpuUsage) -> Result<(), StoreError> {
        self.execute(
            "UPDATE gpu SET readings = ?3, utilisation_mean_percent = ?4, mem_peak_bytes = ?5, energy_joules = ?6,
                 power_mean_watts = ?7, temperature_peak_celsius = ?8, sm_clock_mean_mhz = ?9, throttled_seconds = ?10,
                 idle_seconds = ?11, xid_errors = ?12
             WHERE node = ?1 AND uuid = ?2",
            params![
                node,
                usage.gpu.uuid,
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
