//! What a run's samples say over time, in bounded memory: means over bins of the whole run, and the newest readings as they were.

use std::collections::VecDeque;

use super::rhythm::Reading;
use crate::record::{Columns, GpuReading, Sample};

/// Bins of a run at most; then each two become one.
const MAX_BINS: usize = 4096;
/// The width of a bin at first, in milliseconds.
const FIRST_BIN_MS: u64 = 1000;
/// Readings of a signal that are kept as they were.
const RECENT: usize = 4096;
/// A node has no more GPUs; of further ones nothing is kept.
const MAX_GPUS: usize = 72;
/// A pause that is longer than this and than three of the usual ones is a hole, in milliseconds.
const HOLE_MS: u64 = 15_000;
/// After a longer one everything starts again: no run rests for so long, in milliseconds.
const LONGEST_HOLE_MS: u64 = 31 * 86_400_000;

/// What is followed of the run as a whole; the place is that of its cell in a bin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Of {
    /// CPUs kept busy.
    Cpu,
    /// Bytes a second.
    Read,
    Write,
    Sent,
    /// Share of the time in which something of it waited for storage.
    IoWait,
    /// Share of the time in which something waited for a CPU.
    CpuWait,
    /// Mean use of the GPUs, in percent.
    Gpu,
    /// The busiest GPU less the least busy one, in percent.
    GpuRange,
}

const CELLS: usize = 8;
/// Counters of a sample, and what of a unit a second is 1 of the cell.
const COUNTERS: [(Of, f64); 6] = [
    (Of::Cpu, 1e6),
    (Of::Read, 1.0),
    (Of::Write, 1.0),
    (Of::Sent, 1.0),
    (Of::IoWait, 1e6),
    (Of::CpuWait, 1e6),
];

/// Columns of a run that are read, in the order of [`Places::run`].
const RUN_COLUMNS: [&str; 8] = [
    "cpu_user_us",
    "cpu_system_us",
    "io_read_bytes",
    "io_write_bytes",
    "node_net_tx_bytes",
    "psi_io_some_us",
    "psi_cpu_some_us",
    "node_psi_cpu_some_us",
];

/// A value times milliseconds, and those milliseconds.
type Cell = (f32, f32);

/// One reading of a run.
#[derive(Debug, Clone, Default)]
pub(super) struct Moment {
    at_ms: u64,
    counters: [Option<u64>; COUNTERS.len()],
}

/// A signal's newest readings.
#[derive(Debug, Clone, Default)]
struct Recent {
    readings: VecDeque<(u64, f32)>,
    /// The last value of a counter, and when.
    last: Option<(u64, u64)>,
    pause_ms: u64,
}

/// The signals of one run on one node.
#[derive(Debug, Clone, Default)]
pub struct Signals {
    begin_ms: u64,
    last_ms: u64,
    width_ms: u64,
    bins: Vec<[Cell; CELLS]>,
    run: [Recent; COUNTERS.len()],
    gpus: Vec<(String, Recent)>,
}

impl Signals {
    /// Takes a sample in. Samples come ascending in time; one that is older than the last is left out.
    pub fn take(&mut self, sample: &Sample) {
        let cpu = sample.cpu_user_us.zip(sample.cpu_system_us);
        let counters = [
            cpu.map(|(user, system)| user.saturating_add(system)),
            sample.io_read_bytes,
            sample.io_write_bytes,
            sample.node_net_tx_bytes,
            sample.psi_io_some_us,
            sample.psi_cpu_some_us.or(sample.node_psi_cpu_some_us),
        ];
        let moment = Moment {
            at_ms: sample.at_ms,
            counters,
        };
        let gpus = sample.gpus.iter();
        self.add(
            &moment,
            gpus.filter_map(|gpu| Some((&*gpu.uuid, gpu.busy_percent()?))),
        );
    }

    /// True for columns of a segment that [`Signals::take_rows`] reads.
    #[must_use]
    pub fn wants(name: &str) -> bool {
        RUN_COLUMNS.contains(&name) || gpu_column(name).is_some()
    }

    /// Takes rows of segments in, as block and row, ascending in time.
    pub fn take_rows(
        &mut self,
        blocks: &[Columns],
        rows: impl IntoIterator<Item = (usize, usize)>,
    ) {
        let places: Vec<Places<'_>> = blocks.iter().map(Places::of).collect();
        for (block, row) in rows {
            let (Some(places), Some(at_ms)) = (
                places.get(block),
                blocks.get(block).and_then(|block| block.at_ms.get(row)),
            ) else {
                continue;
            };
            let value = |values: &Option<&[Option<u64>]>| *values.as_ref()?.get(row)?;
            let [user, system, read, write, sent, io, cpu, node_cpu] =
                places.run.each_ref().map(value);
            let counters = [
                user.zip(system)
                    .map(|(user, system)| user.saturating_add(system)),
                read,
                write,
                sent,
                io,
                cpu.or(node_cpu),
            ];
            let moment = Moment {
                at_ms: *at_ms,
                counters,
            };
            let gpus = places.gpus.iter().filter_map(|(uuid, busy, gpm)| {
                Some((*uuid, GpuReading::busy_of(value(busy), value(gpm))?))
            });
            self.add(&moment, gpus);
        }
    }

    fn add<'a>(&mut self, moment: &Moment, gpus: impl Iterator<Item = (&'a str, f64)>) {
        let at_ms = moment.at_ms;
        if self.width_ms == 0 {
            (self.begin_ms, self.last_ms, self.width_ms) = (at_ms, at_ms, FIRST_BIN_MS);
        }
        if at_ms < self.last_ms {
            return;
        }
        if at_ms - self.last_ms > LONGEST_HOLE_MS {
            // The clock was wrong before: what it dated says nothing.
            *self = Self {
                begin_ms: at_ms,
                last_ms: at_ms,
                width_ms: FIRST_BIN_MS,
                ..Self::default()
            };
        }
        self.last_ms = at_ms;
        for (place, (of, unit)) in COUNTERS.iter().enumerate() {
            if let Some(count) = moment.counters[place]
                && let Some((from_ms, rate)) = self.run[place].count(at_ms, count)
            {
                let value = rate / unit;
                self.spread(*of, from_ms, at_ms, value);
                self.run[place].push(at_ms, value);
            }
        }
        self.add_gpus(at_ms, gpus);
    }

    fn add_gpus<'a>(&mut self, at_ms: u64, gpus: impl Iterator<Item = (&'a str, f64)>) {
        let (mut sum, mut count, mut least, mut most) = (0.0, 0.0, f64::MAX, f64::MIN);
        let mut from_ms = None;
        for (number, (uuid, busy)) in gpus.enumerate() {
            // Nearly always they come in one order.
            let is_it = |place: &usize| {
                self.gpus
                    .get(*place)
                    .is_some_and(|(known, _)| known == uuid)
            };
            let search = || (0..self.gpus.len()).find(is_it);
            let known = Some(number).filter(is_it).or_else(search);
            let place = match known {
                Some(place) => place,
                None if self.gpus.len() < MAX_GPUS => {
                    self.gpus.push((uuid.to_owned(), Recent::default()));
                    self.gpus.len() - 1
                }
                None => continue,
            };
            let recent = &mut self.gpus[place].1;
            from_ms = recent.gauge(at_ms).or(from_ms);
            recent.push(at_ms, busy);
            (sum, count) = (sum + busy, count + 1.0);
            (least, most) = (f64::min(least, busy), f64::max(most, busy));
        }
        if let Some(from_ms) = from_ms.filter(|_| count > 0.0) {
            self.spread(Of::Gpu, from_ms, at_ms, sum / count);
            self.spread(Of::GpuRange, from_ms, at_ms, most - least);
        }
    }

    /// Adds a value that held from one time to another to the bins of that time.
    #[expect(clippy::cast_possible_truncation, reason = "a mean needs few digits")]
    fn spread(&mut self, of: Of, from_ms: u64, to_ms: u64, value: f64) {
        while (to_ms - self.begin_ms) / self.width_ms >= MAX_BINS as u64 {
            self.width_ms *= 2;
            self.bins = self.bins.chunks(2).map(joined).collect();
        }
        let (begin_ms, width_ms) = (self.begin_ms, self.width_ms);
        let place = |ms: u64| usize::try_from((ms - begin_ms) / width_ms).unwrap_or(0);
        let last = place(to_ms);
        if self.bins.len() <= last {
            self.bins.resize(last + 1, [Cell::default(); CELLS]);
        }
        for bin in place(from_ms.max(begin_ms))..=last {
            let low_ms = begin_ms.saturating_add((bin as u64).saturating_mul(width_ms));
            let part = low_ms
                .saturating_add(width_ms)
                .min(to_ms)
                .saturating_sub(low_ms.max(from_ms));
            let cell = &mut self.bins[bin][of as usize];
            cell.0 += (value * part as f64) as f32;
            cell.1 += part as f32;
        }
    }

    /// The bins: how many, from when, how long each is, in milliseconds.
    pub(super) fn axis(&self) -> (usize, u64, u64) {
        (self.bins.len(), self.begin_ms, self.width_ms.max(1))
    }

    /// From the first sample to the last.
    pub(super) fn seconds(&self) -> f64 {
        (self.last_ms - self.begin_ms) as f64 / 1e3
    }

    /// When the last sample was taken, in Unix milliseconds UTC.
    #[must_use]
    pub fn last_ms(&self) -> u64 {
        self.last_ms
    }

    /// The usual pause between two samples, in seconds.
    pub(super) fn pause_seconds(&self) -> f64 {
        self.run[0].pause_ms as f64 / 1e3
    }

    /// The mean of a signal in each bin; `None` where nothing is known.
    pub(super) fn means(&self, of: Of) -> Vec<Option<f64>> {
        let mean = |bin: &[Cell; CELLS]| {
            let (sum, known) = bin[of as usize];
            (known > 0.0).then(|| f64::from(sum / known))
        };
        self.bins.iter().map(mean).collect()
    }

    /// The newest readings of a signal, times `scale`, no larger than 100.
    pub(super) fn recent(&self, of: Of, scale: f64) -> Vec<Reading> {
        self.run
            .get(of as usize)
            .map_or_else(Vec::new, |recent| recent.scaled(scale))
    }

    /// Those of each GPU.
    pub(super) fn recent_of_gpus(&self) -> impl Iterator<Item = (&str, Vec<Reading>)> {
        let gpus = self.gpus.iter();
        gpus.map(|(uuid, recent)| (uuid.as_str(), recent.scaled(1.0)))
    }
}

impl Recent {
    /// The growth of a counter in a second since the reading before, and when that was.
    fn count(&mut self, at_ms: u64, count: u64) -> Option<(u64, f64)> {
        let (from_ms, before) = self.last.replace((at_ms, count))?;
        let growth = count.checked_sub(before);
        let from_ms = self.is_next(from_ms, at_ms).then_some(from_ms)?;
        Some((from_ms, growth? as f64 * 1e3 / (at_ms - from_ms) as f64))
    }

    fn gauge(&mut self, at_ms: u64) -> Option<u64> {
        let (from_ms, _) = self.last.replace((at_ms, 0))?;
        self.is_next(from_ms, at_ms).then_some(from_ms)
    }

    /// Whether nothing was missed between two readings.
    fn is_next(&mut self, from_ms: u64, at_ms: u64) -> bool {
        let pause_ms = at_ms - from_ms;
        let is_hole = pause_ms > HOLE_MS && self.pause_ms > 0 && pause_ms > 3 * self.pause_ms;
        if !is_hole {
            self.pause_ms = pause_ms;
        }
        pause_ms > 0 && !is_hole
    }

    #[expect(clippy::cast_possible_truncation, reason = "a mean needs few digits")]
    fn push(&mut self, at_ms: u64, value: f64) {
        if self.readings.len() == RECENT {
            self.readings.pop_front();
        }
        self.readings.push_back((at_ms, value as f32));
    }

    fn scaled(&self, scale: f64) -> Vec<Reading> {
        let begin_ms = self.readings.front().map_or(0, |(at_ms, _)| *at_ms);
        let reading = |(at_ms, value): &(u64, f32)| {
            let value = (f64::from(*value) * scale).min(100.0);
            ((at_ms - begin_ms) as f64 / 1e3, value)
        };
        self.readings.iter().map(reading).collect()
    }
}

fn joined(pair: &[[Cell; CELLS]]) -> [Cell; CELLS] {
    let mut sum = pair[0];
    if let Some(other) = pair.get(1) {
        for (cell, more) in sum.iter_mut().zip(other) {
            *cell = (cell.0 + more.0, cell.1 + more.1);
        }
    }
    sum
}

/// The values of a column.
type Values<'a> = &'a [Option<u64>];

/// The columns of a block that are read.
struct Places<'a> {
    run: [Option<Values<'a>>; 8],
    /// How busy each is, by NVML and by GPM.
    gpus: Vec<(&'a str, Option<Values<'a>>, Option<Values<'a>>)>,
}

impl<'a> Places<'a> {
    fn of(block: &'a Columns) -> Self {
        let mut places = Self {
            run: [None; 8],
            gpus: Vec::new(),
        };
        for (name, values) in &block.columns {
            let values = Some(values.as_slice());
            if let Some((uuid, is_gpm)) = gpu_column(name) {
                let known = places.gpus.iter().position(|(known, ..)| *known == uuid);
                let place = known.unwrap_or_else(|| {
                    places.gpus.push((uuid, None, None));
                    places.gpus.len() - 1
                });
                let gpu = &mut places.gpus[place];
                *(if is_gpm { &mut gpu.2 } else { &mut gpu.1 }) = values;
            } else if let Some(place) = RUN_COLUMNS.iter().position(|known| known == name) {
                places.run[place] = values;
            }
        }
        places
    }
}

/// The GPU of a column of how busy it is, and whether it is GPM's.
fn gpu_column(name: &str) -> Option<(&str, bool)> {
    let (uuid, column) = name.strip_prefix("gpu/")?.rsplit_once('/')?;
    match column {
        "utilisation_percent" => Some((uuid, false)),
        "gpm_sm_basis_points" => Some((uuid, true)),
        _ => None,
    }
}
