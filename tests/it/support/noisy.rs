//! Samples of 500 series, deliberately noisy: a busier node than most. The bench uses them too.

use std::sync::Arc;

use dlrun::record::{COLUMNS, ColumnKind, GpuReading, ProcessReading, Sample};

/// 64 processes with 4 series each, 8 GPUs with 12, 20 gauges of memory and 128 counters that grow by 20 random bits. The
/// latter two are the run's 25 columns and some of 55 further processes.
pub(crate) struct Noisy {
    chance: u64,
    sample: Sample,
}

/// Values of a sample.
pub(crate) const SERIES: u64 = 500;

const GPUS: usize = 8;
const PROCESSES: usize = 64;
const FURTHER: usize = 55;
const FURTHER_GAUGES: usize = 13;

impl Noisy {
    pub(crate) fn new(at_ms: u64) -> Self {
        let mut sample = Sample {
            at_ms,
            ..Sample::default()
        };
        for gpu in 0..GPUS {
            let uuid = format!("GPU-5c7a3f0e-91b2-4d68-a3c4-0f1e2d3c4b{gpu:02x}");
            sample.gpus.push(GpuReading::of(uuid.into()));
        }
        let name: Arc<str> = "python3".into();
        for (pid, start) in (41_000..).zip(7_300_000..).take(PROCESSES + FURTHER) {
            let name = name.clone();
            sample.commands.push(ProcessReading {
                pid,
                start_time_ticks: start,
                name,
                ..Default::default()
            });
        }
        Self { chance: 1, sample }
    }

    /// The upper bits of a linear congruential generator.
    fn below(&mut self, limit: u64) -> u64 {
        self.chance = self
            .chance
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.chance >> 33) % limit
    }

    /// The sample a second later.
    pub(crate) fn next(&mut self) -> Sample {
        let mut sample = std::mem::take(&mut self.sample);
        sample.at_ms += 998 + self.below(5);
        let mut values = sample.values();
        for (value, column) in values.iter_mut().zip(COLUMNS) {
            *value = Some(match column.kind {
                ColumnKind::Counter => value.unwrap_or(0) + self.below(1 << 20),
                _ => 6_000_000_000 + 4096 * self.below(6000),
            });
        }
        sample.set_values(values);
        sample.gpus.iter_mut().for_each(|gpu| self.turn_gpu(gpu));
        for (place, process) in sample.commands.iter_mut().enumerate() {
            if place < PROCESSES {
                self.turn_process(process);
            } else {
                grow(&mut process.io_read_bytes, self.below(1 << 20));
                grow(&mut process.io_write_bytes, self.below(1 << 20));
                if place < PROCESSES + FURTHER_GAUGES {
                    process.mem_rss_bytes = Some(900_000_000 + 4096 * self.below(6000));
                }
            }
        }
        self.sample = sample.clone();
        sample
    }

    fn turn_gpu(&mut self, gpu: &mut GpuReading) {
        let power = 600_000 + self.below(60_000) - 30_000;
        gpu.utilisation_percent = Some(90 + self.below(11));
        gpu.mem_utilisation_percent = Some(40 + self.below(20));
        gpu.mem_used_bytes = Some(70_000_000_000 + (self.below(8) << 21));
        gpu.power_milliwatts = Some(power);
        grow(&mut gpu.energy_millijoules, power);
        gpu.temperature_celsius = Some(60 + self.below(4));
        gpu.sm_clock_mhz = Some(1_980 - 15 * self.below(3));
        gpu.mem_clock_mhz = Some(2_619);
        gpu.throttle_reasons = Some(if self.below(20) == 0 { 4 } else { 0 });
        grow(
            &mut gpu.pcie_tx_bytes,
            900_000_000 + self.below(200_000_000),
        );
        grow(
            &mut gpu.pcie_rx_bytes,
            400_000_000 + self.below(100_000_000),
        );
        gpu.gpm_sm_basis_points = Some(7_000 + self.below(2_000));
    }

    fn turn_process(&mut self, process: &mut ProcessReading) {
        grow(&mut process.cpu_us, 10_000 * self.below(101));
        process.mem_rss_bytes = Some(2_000_000_000 + 4096 * self.below(2000));
        grow(&mut process.io_read_bytes, 4096 * self.below(300));
        let written = if self.below(10) == 0 {
            4096 * self.below(64)
        } else {
            0
        };
        grow(&mut process.io_write_bytes, written);
    }
}

fn grow(counter: &mut Option<u64>, by: u64) {
    *counter = Some(counter.unwrap_or(0) + by);
}
