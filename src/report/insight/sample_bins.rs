//! Many samples of one node to few numbers: means over short bins, in bounded memory however long the run was.

use super::sampled::{GpuWindow, Sampled, Spread, Window};
use super::{nearest_rank, real};
use crate::record::{Columns, NodeRecord};
use crate::report::series::{Cell, Figure, Track, Tracks, binned_of_gpu, binned_of_run, is_source};

/// Bins are this long, in milliseconds; longer where a run would have more of them than [`MAX_BINS`].
const BIN_MS: u64 = 15_000;
const MAX_BINS: usize = 8192;

/// Takes the samples of one node in, one after the other. A reading counts whole in the bin of its end.
#[derive(Debug)]
pub struct SampleBins {
    /// From the end of the first epoch to that of the last.
    training: Option<(u64, u64)>,
    width_ms: u64,
    /// The beginning of each bin over the length of one.
    bins: Vec<u64>,
    last_at_ms: Option<u64>,
    covered_ms: u64,
    tracks: Tracks,
}

impl SampleBins {
    /// Nothing taken in yet of the measurement that `record` is of.
    #[must_use]
    pub fn new(record: &NodeRecord) -> Self {
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
            width_ms,
            bins: Vec::new(),
            last_at_ms: None,
            covered_ms: 0,
            tracks: Tracks::new(binned_of_run(), binned_of_gpu(), &record.gaps),
        }
    }

    /// True for columns of a segment that are needed of every sample.
    #[must_use]
    pub fn wants(name: &str) -> bool {
        is_source(name, binned_of_run(), binned_of_gpu())
    }

    /// Takes samples in: rows of these blocks, as block and row, ascending in time and none older than those before.
    pub fn take(&mut self, blocks: &[Columns], rows: impl IntoIterator<Item = (usize, usize)>) {
        self.tracks.take(blocks, rows, None, |now| {
            let before = self.last_at_ms.replace(now.at_ms);
            self.covered_ms += before.and_then(|before| now.since(before)).unwrap_or(0);
            // Times far beyond the run, of a clock that was wrong, share the last bin.
            let is_full = self.bins.len() >= 2 * MAX_BINS;
            let bin = now.at_ms / self.width_ms;
            if self.bins.last().is_none_or(|last| *last != bin && !is_full) {
                self.bins.push(bin);
            }
            self.bins.len() - 1
        });
    }

    /// What came of it.
    #[must_use]
    pub fn finish(self) -> Sampled {
        let all: Vec<usize> = (0..self.bins.len()).collect();
        let training = self.training.map(|(from, to)| {
            let is_in = |bin: &usize| {
                let middle = (self.bins[*bin] * self.width_ms).saturating_add(self.width_ms / 2);
                (from..=to).contains(&middle)
            };
            self.window(&all.iter().copied().filter(is_in).collect::<Vec<_>>())
        });
        let memory = track(&self.tracks.run, "mem_used_bytes");
        let most = |bins: &[usize]| {
            let values = cells(memory, bins).map(|cell| cell.value);
            values.reduce(f64::max).map(whole)
        };
        let (early, late) = all.split_at(all.len() - all.len() / 4);
        Sampled {
            samples: self.tracks.samples,
            covered_seconds: real(self.covered_ms) / 1000.0,
            bin_seconds: real(self.width_ms) / 1000.0,
            whole: self.window(&all),
            training: training.filter(|window| window.seconds > 0.0),
            mem_readings: memory.map_or(0, |memory| memory.readings),
            mem_most_bytes: most(&all),
            mem_most_early_bytes: most(early),
            mem_most_late_bytes: most(late),
        }
    }

    fn window(&self, bins: &[usize]) -> Window {
        let run = |name: &str| cells(track(&self.tracks.run, name), bins);
        let rate = |name: &str| Spread::of(run(name));
        let share = |name: &str| rate(name).map(|spread| spread.mean.clamp(0.0, 1.0));
        let gpus = self.tracks.gpus.iter();
        let gpu = |(uuid, figures): &(String, Vec<(&Figure, Track)>)| GpuWindow {
            uuid: uuid.clone(),
            busy_percent: Spread::of(cells(track(figures, "utilisation_percent"), bins)),
            // Watts times milliseconds.
            energy_joules: cells(track(figures, "energy"), bins)
                .map(|cell| cell.value / 1e3)
                .reduce(|sum, joules| sum + joules),
        };
        let gpu_ms = |bin: &usize| {
            let busy = gpus
                .clone()
                .map(|(_, figures)| track(figures, "utilisation_percent"));
            busy.flat_map(|busy| cells(busy, std::slice::from_ref(bin)).map(|cell| cell.known))
                .fold(0.0, f64::max)
        };
        let known_ms: f64 = run("cpu_busy").map(|cell| cell.known).sum();
        Window {
            seconds: known_ms.max(bins.iter().map(gpu_ms).sum()) / 1000.0,
            cpus_busy: rate("cpu_busy"),
            cpu_throttled_ratio: share("cpu_throttled"),
            io_read_bytes_per_second: rate("io_read_bytes_per_second"),
            io_write_bytes_per_second: rate("io_write_bytes_per_second"),
            io_wait_ratio: share("psi_io_some"),
            mem_wait_ratio: share("psi_mem_full"),
            node_io_wait_ratio: share("node_psi_io_some"),
            gpus: gpus.clone().map(gpu).collect(),
        }
    }
}

fn track<'a>(figures: &'a [(&Figure, Track)], name: &str) -> Option<&'a Track> {
    let found = figures.iter().find(|(figure, _)| figure.name == name);
    found.map(|(_, track)| track)
}

/// What is known of a figure in these bins.
fn cells<'a>(track: Option<&'a Track>, bins: &'a [usize]) -> impl Iterator<Item = Cell> {
    let cell = move |bin: &usize| track?.cells.get(*bin).copied();
    bins.iter().filter_map(cell).filter(|cell| cell.known > 0.0)
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "bytes, not negative"
)]
fn whole(bytes: f64) -> u64 {
    bytes as u64
}

impl Spread {
    /// Of means over bins.
    fn of(bins: impl Iterator<Item = Cell>) -> Option<Self> {
        let cells: Vec<Cell> = bins.collect();
        let total = |part: fn(&Cell) -> f64| cells.iter().map(part).sum::<f64>();
        let mut sorted: Vec<f64> = cells.iter().map(|cell| cell.value / cell.known).collect();
        sorted.sort_by(f64::total_cmp);
        Some(Self {
            mean: total(|cell| cell.value) / total(|cell| cell.known),
            p95: nearest_rank(&sorted, 0.95)?,
            peak: *sorted.last()?,
        })
    }
}
