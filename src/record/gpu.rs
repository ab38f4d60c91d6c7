//! What a GPU is, and how a run used it.

use serde::{Deserialize, Serialize};

use super::{GpuReading, Sample};

/// What does not change about a GPU while a run uses it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
pub struct GpuFacts {
    /// Its UUID: `GPU-…` or, of a MIG slice, `MIG-…`.
    pub uuid: String,
    /// Its name, such as `NVIDIA H200`.
    pub name: String,
    /// Minor number of its device file, `/dev/nvidiaN`.
    pub minor: Option<u32>,
    /// Its place on the PCI bus.
    pub pci_bus_id: Option<String>,
    /// Its memory, in bytes.
    pub mem_total_bytes: Option<u64>,
    /// The power limit in force, in watts.
    pub power_limit_watts: Option<u32>,
    /// Highest clock of its streaming multiprocessors, in MHz.
    pub sm_clock_max_mhz: Option<u32>,
    /// Whether it is divided (MIG); `None` where it cannot be.
    pub mig: Option<bool>,
    /// The UUID of the GPU that a MIG slice is part of.
    pub parent: Option<String>,
    /// Version of the driver.
    pub driver: Option<String>,
    /// Where it lies.
    #[serde(flatten)]
    pub place: GpuPlace,
}

/// Where a GPU lies in its machine. What is not known is `None`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
pub struct GpuPlace {
    /// Its NUMA node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub numa_node: Option<u32>,
    /// The CPUs of the machine that are near it, as the kernel lists them: `0-31,64-95`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub near_cpus: Option<String>,
    /// Its NVLinks that are active.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nvlinks: Option<u32>,
}

/// Readings that are this far apart at most belong together; across a longer hole nothing is extrapolated.
const HOLE_MS: u64 = 120_000;

/// How a run used one GPU, derived from its readings.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Default)]
pub struct GpuUsage {
    /// Which GPU.
    #[serde(flatten)]
    pub gpu: GpuFacts,
    /// Readings taken.
    pub readings: u64,
    /// Mean utilisation, in percent; by GPM where NVML gives none (MIG).
    pub utilisation_mean_percent: Option<f64>,
    /// Most memory in use at once, in bytes.
    pub mem_peak_bytes: Option<u64>,
    /// Energy drawn by the whole GPU while the run had it, in joules.
    pub energy_joules: Option<f64>,
    /// Mean power, in watts.
    pub power_mean_watts: Option<f64>,
    /// Highest temperature, in degrees Celsius.
    pub temperature_peak_celsius: Option<u64>,
    /// Mean clock of the streaming multiprocessors, in MHz.
    pub sm_clock_mean_mhz: Option<f64>,
    /// Time in which power or heat held the clocks down, in seconds.
    pub throttled_seconds: f64,
    /// Time in which no process of the run was on it, in seconds: allocated and idle.
    pub idle_seconds: f64,
    /// XID errors.
    pub xid_errors: u64,
    /// Sums that the means are made of, so that a later watcher can go on.
    #[serde(default)]
    pub sums: GpuSums,
}

/// Sums over the readings of one GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Default)]
pub struct GpuSums {
    /// When the last reading was taken, in Unix milliseconds UTC.
    pub last_at_ms: Option<u64>,
    /// The energy counter of the last reading, in millijoules.
    pub last_energy_millijoules: Option<u64>,
    /// Energy so far, in millijoules.
    pub energy_millijoules: u64,
    /// Utilisation, in hundredths of a percent, and the number of its readings.
    pub utilisation: (u64, u64),
    /// Power, in milliwatts.
    pub power: (u64, u64),
    /// Clock, in MHz.
    pub sm_clock: (u64, u64),
}

/// `nvmlClocksEventReason…`: software power cap, hardware slowdown, software and hardware thermal slowdown, power brake.
const HELD_DOWN: u64 = 0x04 | 0x08 | 0x20 | 0x40 | 0x80;

impl GpuUsage {
    /// Nothing used yet.
    #[must_use]
    pub fn of(gpu: GpuFacts) -> Self {
        Self {
            gpu,
            ..Self::default()
        }
    }

    /// Takes a further reading in, of the time `at_ms`.
    pub fn add(&mut self, reading: &GpuReading, at_ms: u64) {
        let sums = &mut self.sums;
        let apart = sums
            .last_at_ms
            .replace(at_ms)
            .and_then(|last| at_ms.checked_sub(last));
        let apart_seconds = apart
            .filter(|ms| *ms <= HOLE_MS)
            .map_or(0.0, |ms| real(ms) / 1e3);
        self.readings = self.readings.saturating_add(1);
        let utilisation = reading
            .utilisation_percent
            .map(|percent| percent.saturating_mul(100));
        count(
            &mut sums.utilisation,
            utilisation.or(reading.gpm_sm_basis_points),
        );
        count(&mut sums.power, reading.power_milliwatts);
        count(&mut sums.sm_clock, reading.sm_clock_mhz);
        if let Some(now) = reading.energy_millijoules {
            // A counter that fell restarted with its driver.
            let before = sums.last_energy_millijoules.replace(now).unwrap_or(now);
            let drawn = now.checked_sub(before).unwrap_or(now);
            sums.energy_millijoules = sums.energy_millijoules.saturating_add(drawn);
            self.energy_joules = Some(real(sums.energy_millijoules) / 1e3);
        }
        self.utilisation_mean_percent =
            mean(sums.utilisation).map(|basis_points| basis_points / 100.0);
        self.power_mean_watts = mean(sums.power).map(|milliwatts| milliwatts / 1e3);
        self.sm_clock_mean_mhz = mean(sums.sm_clock);
        self.mem_peak_bytes = self
            .mem_peak_bytes
            .max(reading.mem_used_bytes)
            .max(reading.run_mem_bytes);
        self.temperature_peak_celsius = self
            .temperature_peak_celsius
            .max(reading.temperature_celsius);
        self.xid_errors = self.xid_errors.max(reading.xid_errors.unwrap_or(0));
        if reading
            .throttle_reasons
            .is_some_and(|reasons| reasons & HELD_DOWN != 0)
        {
            self.throttled_seconds += apart_seconds;
        }
        if reading.run_processes == Some(0) {
            self.idle_seconds += apart_seconds;
        }
    }
}

/// Takes the GPU readings of a sample in. One that is new begins with what `facts` knows of it.
pub fn add_gpu_readings(
    usages: &mut Vec<GpuUsage>,
    sample: &Sample,
    facts: impl Fn(&str) -> Option<GpuFacts>,
) {
    for reading in &sample.gpus {
        let known = usages
            .iter()
            .position(|usage| *usage.gpu.uuid == *reading.uuid);
        let place = known.unwrap_or_else(|| {
            let unknown = || GpuFacts {
                uuid: reading.uuid.to_string(),
                ..GpuFacts::default()
            };
            usages.push(GpuUsage::of(facts(&reading.uuid).unwrap_or_else(unknown)));
            usages.len() - 1
        });
        usages[place].add(reading, sample.at_ms);
    }
}

fn count(sum: &mut (u64, u64), value: Option<u64>) {
    if let Some(value) = value {
        *sum = (sum.0.saturating_add(value), sum.1.saturating_add(1));
    }
}

fn mean((sum, count): (u64, u64)) -> Option<f64> {
    (count > 0).then(|| real(sum) / real(count))
}

#[expect(clippy::cast_precision_loss, reason = "far below 2^53")]
fn real(value: u64) -> f64 {
    value as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn means_energy_and_idle_time() {
        let mut usage = GpuUsage::default();
        let reading = |energy, utilisation, processes| GpuReading {
            energy_millijoules: Some(energy),
            utilisation_percent: Some(utilisation),
            run_processes: Some(processes),
            throttle_reasons: Some(0x04),
            ..GpuReading::of("GPU-1".into())
        };
        usage.add(&reading(5_000, 0, 0), 1000);
        usage.add(&reading(6_000, 50, 1), 2000);
        usage.add(&reading(400, 100, 0), 3000);
        usage.add(&reading(900, 50, 1), 500_000);
        assert_eq!(
            (usage.energy_joules, usage.utilisation_mean_percent),
            (Some(1.9), Some(50.0))
        );
        assert_eq!((usage.idle_seconds, usage.throttled_seconds), (1.0, 2.0));
        assert_eq!((usage.power_mean_watts, usage.readings), (None, 4));
    }

    #[test]
    fn what_mig_does_not_say_comes_from_gpm() {
        let mut usage = GpuUsage::default();
        usage.add(
            &GpuReading {
                gpm_sm_basis_points: Some(250),
                ..GpuReading::of("MIG-1".into())
            },
            0,
        );
        assert_eq!(usage.utilisation_mean_percent, Some(2.5));
    }
}
