//! Many samples of one node to few numbers: means over short bins, in bounded memory however long the run was.

use super::sampled::{GpuWindow, Sampled, Spread, Window};
use super::{nearest_rank, real};
use crate::record::{Columns, GpuReading, NodeRecord, Sample};

/// Bins are this long, in milliseconds; longer where a run would have more of them than [`MAX_BINS`].
const BIN_MS: u64 = 15_000;
const MAX_BINS: usize = 8192;
/// A reading says nothing of more time than this before it, in milliseconds: the least frequent come every minute.
const REACH_MS: u64 = 150_000;
/// A damaged record may name any number of them.
const MAX_GPUS: usize = 72;

/// Counters of the run and of its node.
pub(super) const COUNTERS: [&str; 8] = [
    "cpu_user_us",
    "cpu_system_us",
    "cpu_throttled_us",
    "io_read_bytes",
    "io_write_bytes",
    "psi_io_some_us",
    "psi_mem_full_us",
    "node_psi_io_some_us",
];
const CPU_USER: usize = 0;
const CPU_SYSTEM: usize = 1;
const THROTTLED: usize = 2;
const READ: usize = 3;
const WRITE: usize = 4;
const IO_SOME: usize = 5;
const MEM_FULL: usize = 6;
const NODE_IO_SOME: usize = 7;

const MEMORY: [&str; 3] = ["mem_rss_bytes", "mem_anon_bytes", "mem_shmem_bytes"];
const GPU: [&str; 3] = [
    "utilisation_percent",
    "gpm_sm_basis_points",
    "energy_millijoules",
];

/// A sum of something over a known time.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Sum {
    value: f64,
    ms: f64,
}

impl Sum {
    fn add(&mut self, value: f64, ms: u64) {
        self.value += value;
        self.ms += real(ms);
    }

    fn join(&mut self, other: Self) {
        self.value += other.value;
        self.ms += other.ms;
    }

    /// What a second of it comes to, in units of `of`.
    fn a_second(self, of: f64) -> Option<f64> {
        (self.ms > 0.0).then(|| self.value / of * 1000.0 / self.ms)
    }

    /// The mean of a gauge that was added as value times milliseconds.
    fn mean(self) -> Option<f64> {
        (self.ms > 0.0).then(|| self.value / self.ms)
    }
}

/// One GPU in one bin.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct GpuBin {
    busy: Sum,
    energy: Sum,
}

/// What is known of a short time.
#[derive(Debug, Clone, Default, PartialEq)]
struct Bin {
    /// Its beginning over the length of a bin.
    place: u64,
    run: [Sum; COUNTERS.len()],
    mem_most: Option<u64>,
    gpus: Vec<GpuBin>,
}

impl Bin {
    fn gpu(&mut self, number: usize) -> &mut GpuBin {
        self.gpus
            .resize(self.gpus.len().max(number + 1), GpuBin::default());
        &mut self.gpus[number]
    }
}

/// A counter's last reading: when, and its value.
type Last = Option<(u64, u64)>;

#[derive(Debug)]
struct Gpu {
    uuid: String,
    last_busy_ms: Option<u64>,
    last_energy: Last,
}

/// Takes the samples of one node in, one after the other.
#[derive(Debug)]
pub struct SampleBins {
    /// From the end of the first epoch to that of the last.
    training: Option<(u64, u64)>,
    /// The middles of the gaps, ascending: nothing is derived across one.
    cuts: Vec<u64>,
    passed: usize,
    width_ms: u64,
    bins: Vec<Bin>,
    samples: u64,
    last_at_ms: Option<u64>,
    covered_ms: u64,
    mem_readings: u64,
    last: [Last; COUNTERS.len()],
    gpus: Vec<Gpu>,
}

/// A column of a block.
type Column<'a> = Option<&'a [Option<u64>]>;

/// The columns of one block, found once.
#[derive(Default)]
struct Found<'a> {
    run: [Column<'a>; COUNTERS.len()],
    memory: [Column<'a>; MEMORY.len()],
    /// By the GPU's number.
    gpus: Vec<(usize, [Column<'a>; GPU.len()])>,
}

fn at(column: Column<'_>, row: usize) -> Option<u64> {
    *column?.get(row)?
}

impl SampleBins {
    /// Nothing taken in yet of the measurement that `record` is of.
    #[must_use]
    pub fn new(record: &NodeRecord) -> Self {
        let middle = |from: u64, to: u64| from + to.saturating_sub(from) / 2;
        let mut cuts: Vec<u64> = record
            .gaps
            .iter()
            .map(|gap| middle(gap.from_ms, gap.to_ms))
            .collect();
        cuts.sort_unstable();
        let ends = record.progress.epochs.iter();
        let mut ends = ends.filter_map(|epoch| epoch.ended_at_ms);
        let first = ends.next();
        let training = first.zip(ends.next_back().or(first));
        let end_ms = record.ended_at_ms.unwrap_or(record.updated_at_ms);
        let length_ms = end_ms.saturating_sub(record.started_at_ms);
        let width_ms = BIN_MS.max(length_ms / MAX_BINS as u64 + 1);
        Self {
            // A window of less than two bins says less than the whole.
            training: training.filter(|(first, last)| last.saturating_sub(*first) >= 2 * width_ms),
            cuts,
            passed: 0,
            width_ms,
            bins: Vec::new(),
            samples: 0,
            last_at_ms: None,
            covered_ms: 0,
            mem_readings: 0,
            last: [None; COUNTERS.len()],
            gpus: Vec::new(),
        }
    }

    /// True for columns of a segment that are needed of every sample.
    #[must_use]
    pub fn wants(name: &str) -> bool {
        match name.strip_prefix("gpu/") {
            Some(rest) => rest
                .rsplit_once('/')
                .is_some_and(|(_, column)| GPU.contains(&column)),
            None => COUNTERS.contains(&name) || MEMORY.contains(&name),
        }
    }

    /// Takes samples in: rows of these blocks, as block and row, ascending in time and none older than those before.
    pub fn take(&mut self, blocks: &[Columns], rows: impl IntoIterator<Item = (usize, usize)>) {
        let found: Vec<Found<'_>> = blocks.iter().map(|block| self.find(block)).collect();
        for (block, row) in rows {
            let Some(at_ms) = blocks.get(block).and_then(|block| block.at_ms.get(row)) else {
                continue;
            };
            self.take_row(*at_ms, &found[block], row);
        }
    }

    fn find<'a>(&mut self, block: &'a Columns) -> Found<'a> {
        let mut found = Found::default();
        for (name, values) in &block.columns {
            if let Some(place) = COUNTERS.iter().position(|known| known == name) {
                found.run[place] = Some(values);
            } else if let Some(place) = MEMORY.iter().position(|known| known == name) {
                found.memory[place] = Some(values);
            } else if let Some((uuid, column)) = name
                .strip_prefix("gpu/")
                .and_then(|rest| rest.rsplit_once('/'))
                && let Some(place) = GPU.iter().position(|known| *known == column)
                && let Some(number) = self.gpu_number(uuid)
            {
                let known = found.gpus.iter().position(|(known, _)| *known == number);
                let at = known.unwrap_or_else(|| {
                    found.gpus.push((number, [None; GPU.len()]));
                    found.gpus.len() - 1
                });
                found.gpus[at].1[place] = Some(values);
            }
        }
        found
    }

    fn gpu_number(&mut self, uuid: &str) -> Option<usize> {
        let known = self.gpus.iter().position(|gpu| gpu.uuid == uuid);
        if known.is_none() && self.gpus.len() < MAX_GPUS {
            self.gpus.push(Gpu {
                uuid: uuid.to_owned(),
                last_busy_ms: None,
                last_energy: None,
            });
            return Some(self.gpus.len() - 1);
        }
        known
    }

    fn take_row(&mut self, at_ms: u64, found: &Found<'_>, row: usize) {
        while self.cuts.get(self.passed).is_some_and(|cut| *cut <= at_ms) {
            self.passed += 1;
        }
        let cut_ms = self.passed.checked_sub(1).map_or(0, |last| self.cuts[last]);
        // How long the time since an earlier reading is, where that is known.
        let since = |before: u64| {
            at_ms
                .checked_sub(before)
                .filter(|ms| (1..=REACH_MS).contains(ms) && before >= cut_ms)
        };
        self.samples += 1;
        self.covered_ms += self.last_at_ms.replace(at_ms).and_then(since).unwrap_or(0);
        let place = self.bin(at_ms);
        for (counter, column) in found.run.iter().enumerate() {
            if let Some((grown, ms)) =
                growth(&mut self.last[counter], at_ms, at(*column, row), since)
            {
                self.bins[place].run[counter].add(grown, ms);
            }
        }
        let [rss, anon, shmem] = found.memory.map(|column| at(column, row));
        if let Some(used) = Sample::mem_used_of(rss, anon, shmem) {
            self.mem_readings += 1;
            self.bins[place].mem_most = self.bins[place].mem_most.max(Some(used));
        }
        for (number, columns) in &found.gpus {
            let [busy, gpm, energy] = columns.map(|column| at(column, row));
            let (gpu, bin) = (&mut self.gpus[*number], self.bins[place].gpu(*number));
            if let Some(busy) = GpuReading::busy_of(busy, gpm) {
                // The first counts a millisecond: nobody knows how long it was so.
                let ms = gpu.last_busy_ms.replace(at_ms).and_then(since).unwrap_or(1);
                bin.busy.add(busy * real(ms), ms);
            }
            if let Some((drawn, ms)) = growth(&mut gpu.last_energy, at_ms, energy, since) {
                bin.energy.add(drawn, ms);
            }
        }
    }

    /// The bin of a time that is none before the last. Times far beyond the run, of a clock that was wrong, share the last one.
    fn bin(&mut self, at_ms: u64) -> usize {
        let place = at_ms / self.width_ms;
        let is_full = self.bins.len() >= 2 * MAX_BINS;
        if self
            .bins
            .last()
            .is_none_or(|bin| bin.place != place && !is_full)
        {
            self.bins.push(Bin {
                place,
                ..Bin::default()
            });
        }
        self.bins.len() - 1
    }

    /// What came of it.
    #[must_use]
    pub fn finish(self) -> Sampled {
        let all: Vec<&Bin> = self.bins.iter().collect();
        let training = self.training.map(|(from, to)| {
            let is_in = |bin: &&&Bin| {
                let middle = (bin.place * self.width_ms).saturating_add(self.width_ms / 2);
                (from..=to).contains(&middle)
            };
            let bins: Vec<&Bin> = all.iter().filter(is_in).copied().collect();
            self.window(&bins)
        });
        let quarter = all.len() / 4;
        let most = |bins: &[&Bin]| bins.iter().filter_map(|bin| bin.mem_most).max();
        let (early, late) = all.split_at(all.len() - quarter);
        Sampled {
            samples: self.samples,
            covered_seconds: real(self.covered_ms) / 1000.0,
            bin_seconds: real(self.width_ms) / 1000.0,
            whole: self.window(&all),
            training: training.filter(|window| window.seconds > 0.0),
            mem_readings: self.mem_readings,
            mem_most_bytes: most(&all),
            mem_most_early_bytes: most(early),
            mem_most_late_bytes: most(late),
        }
    }

    fn window(&self, bins: &[&Bin]) -> Window {
        let spread = |of: &dyn Fn(&Bin) -> Option<(f64, f64)>| {
            Spread::of(bins.iter().filter_map(|bin| of(bin)))
        };
        let rate = |counter: usize, of: f64| {
            spread(&|bin| Some((bin.run[counter].a_second(of)?, bin.run[counter].ms)))
        };
        let cpu = spread(&|bin: &Bin| {
            let [user, system] = [CPU_USER, CPU_SYSTEM].map(|counter| bin.run[counter]);
            Some((user.a_second(1e6)? + system.a_second(1e6)?, user.ms))
        });
        let share = |counter: usize| rate(counter, 1e6).map(|spread| spread.mean.clamp(0.0, 1.0));
        let gpu = |(number, gpu): (usize, &Gpu)| {
            let of_gpu = |bin: &Bin| bin.gpus.get(number).copied().unwrap_or_default();
            let mut energy = Sum::default();
            bins.iter().for_each(|bin| energy.join(of_gpu(bin).energy));
            GpuWindow {
                uuid: gpu.uuid.clone(),
                busy_percent: spread(&|bin| Some((of_gpu(bin).busy.mean()?, of_gpu(bin).busy.ms))),
                energy_joules: (energy.ms > 0.0).then_some(energy.value / 1e3),
            }
        };
        let known_ms: f64 = bins.iter().map(|bin| bin.run[CPU_USER].ms).sum();
        let gpu_ms = |bin: &&Bin| bin.gpus.iter().map(|gpu| gpu.busy.ms).fold(0.0, f64::max);
        Window {
            seconds: known_ms.max(bins.iter().map(gpu_ms).sum()) / 1000.0,
            cpus_busy: cpu,
            cpu_throttled_ratio: share(THROTTLED),
            io_read_bytes_per_second: rate(READ, 1.0),
            io_write_bytes_per_second: rate(WRITE, 1.0),
            io_wait_ratio: share(IO_SOME),
            mem_wait_ratio: share(MEM_FULL),
            node_io_wait_ratio: share(NODE_IO_SOME),
            gpus: self.gpus.iter().enumerate().map(gpu).collect(),
        }
    }
}

impl Spread {
    /// Of values that each held for some time.
    fn of(values: impl Iterator<Item = (f64, f64)>) -> Option<Self> {
        let values: Vec<(f64, f64)> = values.collect();
        let ms: f64 = values.iter().map(|(_, ms)| ms).sum();
        let mut sorted: Vec<f64> = values.iter().map(|(value, _)| *value).collect();
        sorted.sort_by(f64::total_cmp);
        Some(Self {
            mean: values.iter().map(|(value, ms)| value * ms).sum::<f64>() / ms,
            p95: nearest_rank(&sorted, 0.95)?,
            peak: *sorted.last()?,
        })
    }
}

/// How far a counter grew since its last reading, and in how many milliseconds. Where it fell it began again, and how far it
/// got before is not known.
fn growth(
    last: &mut Last,
    at_ms: u64,
    value: Option<u64>,
    since: impl Fn(u64) -> Option<u64>,
) -> Option<(f64, u64)> {
    let value = value?;
    let (before_ms, before) = last.replace((at_ms, value))?;
    let ms = since(before_ms)?;
    Some((real(value.checked_sub(before)?), ms))
}
