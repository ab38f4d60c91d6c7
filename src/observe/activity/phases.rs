//! What a run did when: pieces of its course between changes, each named by the run's own log first and by its samples second.
//!
//! A piece that neither explains is `unknown`. Thresholds are those of docs/phases.md.

use std::collections::BTreeSet;

use super::change::{changes, noise};
use super::facts::{Facts, Span};
use super::period::mean;
use super::signals::{Of, Signals};
use crate::foundation::statistics::middle;
use crate::record::{Phase, PhaseSpan};

/// The least noise of a signal whose largest value is 1.
const NOISE_FLOOR: f64 = 0.02;
/// Reads and writes of so many bytes a second count as 1.
const FULL_RATE: f64 = 300e6;
/// What switches with each step is averaged over this time, in seconds.
const SMOOTH_SECONDS: f64 = 15.0;
const LONGEST_SMOOTH_SECONDS: f64 = 120.0;
/// A GPU below is idle, and one above is busy, in percent.
const GPU_IDLE: f64 = 5.0;
const GPU_BEGUN: f64 = 10.0;
const GPU_BUSY: f64 = 85.0;
/// GPUs of one node so far apart work in turn, in percent.
const GPUS_APART: f64 = 30.0;
/// Shares of the CPUs.
const CPU_IDLE: f64 = 0.05;
const CPU_BUSY: f64 = 0.8;
/// Bytes a second.
const DISK_IDLE: f64 = 5e6;
const STAGING: f64 = 20e6;
const CHECKPOINT: f64 = 50e6;
const READING: f64 = 150e6;
const SENDING: f64 = 50e6;
/// Shares of time in which something waited.
const WAITING: f64 = 0.5;
const STARVED: f64 = 0.3;
/// A program that does nothing for less may be between two steps, in seconds.
const LEAST_IDLE_SECONDS: f64 = 10.0;
const LONGEST_WARMUP_SECONDS: f64 = 45.0;
/// GPUs without work from the start on: that is no start-up any more, in seconds.
const LONGEST_STARTUP_SECONDS: f64 = 600.0;
/// CPUs: a program that keeps fewer busy does not train on them, and one that keeps fewer than this busy does nothing.
const CORES_AT_WORK: f64 = 0.1;
const CORES_AT_REST: f64 = 0.005;
/// Pieces shorter than this between two of one phase belong to it, in bins.
const LEAST_BINS: usize = 3;

/// The signals of each bin.
struct Course<'a> {
    facts: &'a Facts,
    begin_ms: u64,
    width_ms: u64,
    count: usize,
    has_gpus: bool,
    gpu: Vec<Option<f64>>,
    apart: Vec<Option<f64>>,
    cpu: Vec<Option<f64>>,
    cpu_wait: Vec<Option<f64>>,
    io_wait: Vec<Option<f64>>,
    read: Vec<Option<f64>>,
    write: Vec<Option<f64>>,
    sent: Vec<Option<f64>>,
    /// Much is written; true where it is known when.
    bursts: Vec<Option<bool>>,
    /// What the log says of it.
    logged: Vec<Option<Phase>>,
    /// The first bin with steps of the log, and the one after the last.
    trained: Option<(usize, usize)>,
    /// The first bin in which a GPU works.
    begun: Option<usize>,
}

/// The phases of the whole run, in order and without gaps. `period`: that of its steps, in seconds; `is_rhythmic`: GPUs have one.
pub(super) fn phases(
    signals: &Signals,
    facts: &Facts,
    period: Option<f64>,
    is_rhythmic: bool,
) -> Vec<PhaseSpan> {
    let course = Course::new(signals, facts);
    if course.count == 0 {
        return Vec::new();
    }
    let edges = course.edges(period);
    let pieces: Vec<(usize, usize)> = edges
        .iter()
        .copied()
        .zip(edges.iter().copied().skip(1))
        .collect();
    let mut phases: Vec<Phase> = vec![Phase::Unknown; course.count];
    for (from, to) in pieces {
        phases[from..to].fill(course.phase(from, to, is_rhythmic));
    }
    course.find_warmup(&mut phases);
    absorb(&mut phases, &course.logged);
    course.spans(&phases, signals.last_ms())
}

impl<'a> Course<'a> {
    fn new(signals: &Signals, facts: &'a Facts) -> Self {
        let (count, begin_ms, width_ms) = signals.axis();
        let gpu = signals.means(Of::Gpu);
        let cpus = facts.cpus.filter(|cpus| *cpus > 0.0);
        let share = |busy: Option<f64>| busy.zip(cpus).map(|(busy, cpus)| busy / cpus);
        let mut course = Self {
            facts,
            begin_ms,
            width_ms,
            count,
            has_gpus: gpu.iter().any(Option::is_some),
            begun: gpu
                .iter()
                .position(|busy| busy.is_some_and(|busy| busy > GPU_BEGUN)),
            gpu,
            apart: signals.means(Of::GpuRange),
            cpu: signals.means(Of::Cpu).into_iter().map(share).collect(),
            cpu_wait: signals.means(Of::CpuWait),
            io_wait: signals.means(Of::IoWait),
            read: signals.means(Of::Read),
            write: signals.means(Of::Write),
            sent: signals.means(Of::Sent),
            bursts: vec![None; count],
            logged: vec![None; count],
            trained: None,
        };
        course.find_bursts();
        course.trained = facts
            .trained()
            .map(|span| course.bins(&span))
            .filter(|(from, to)| to > from);
        let lists = [
            (&facts.training, Phase::Training),
            (&facts.evaluation, Phase::Evaluation),
            (&facts.checkpoint, Phase::Checkpoint),
            (&facts.rest, Phase::Unknown),
            (&facts.hang, Phase::Stalled),
        ];
        for (spans, phase) in lists {
            for span in spans {
                let (from, to) = course.bins(span);
                course.logged[from..to].fill(Some(phase));
            }
        }
        course
    }

    /// Much is written, and nothing else happens that is known to. Writes are read every few seconds: of GPUs the use says when they were,
    /// else a burst begins and ends in its outer readings, by how much less these are than the inner ones. Of one that has no inner
    /// ones nobody knows how long it took.
    fn find_bursts(&mut self) {
        let rests = |place: usize| {
            let near = place.saturating_sub(1)..(place + 2).min(self.count);
            !self.has_gpus
                || self
                    .mean(&self.gpu, near)
                    .is_some_and(|busy| busy < GPU_IDLE)
        };
        let rate = |place: usize| {
            self.write[place]
                .filter(|rate| *rate > CHECKPOINT && rests(place))
                .unwrap_or(0.0)
        };
        let rates: Vec<f64> = (0..self.count).map(rate).collect();
        let mut place = 0;
        for burst in rates.chunk_by(|one, other| (*one > 0.0) == (*other > 0.0)) {
            let (from, to) = (place, place + burst.len());
            place = to;
            if burst[0] <= 0.0 {
                continue;
            }
            let readings: Vec<&[f64]> = burst
                .chunk_by(|one, other| (one / other - 1.0).abs() < 0.01)
                .collect();
            if self.has_gpus {
                self.bursts[from..to].fill(Some(true));
            } else if let [first, .., last] = &readings[..] {
                let peak = burst.iter().copied().fold(0.0, f64::max);
                let outside = |reading: &[f64]| {
                    ((1.0 - reading[0] / peak) * reading.len() as f64).round() as usize
                };
                let (from, to) = (from + outside(first), to - outside(last));
                self.bursts[from..to].fill(Some(readings.len() > 2));
            }
        }
    }

    /// The bins of a time, to the nearest edges.
    fn bins(&self, span: &Span) -> (usize, usize) {
        let place = |ms: u64| {
            let bin = (ms.saturating_sub(self.begin_ms) + self.width_ms / 2) / self.width_ms;
            usize::try_from(bin).unwrap_or(usize::MAX).min(self.count)
        };
        let (from, to) = (place(span.0), place(span.1));
        (from, to.max(from))
    }

    /// Where the next piece begins, from 0 to the end.
    fn edges(&self, period: Option<f64>) -> Vec<usize> {
        let mut edges: BTreeSet<usize> = [0, self.count].into();
        let mut differs = |is: &dyn Fn(usize) -> u8| {
            edges.extend((1..self.count).filter(|place| is(*place) != is(place - 1)));
        };
        differs(&|place| u8::from(self.is_known(place)));
        differs(&|place| self.bursts[place].map_or(0, |is_sure| 1 + u8::from(is_sure)));
        differs(&|place| self.logged[place].map_or(0, |phase| phase as u8 + 1));
        edges.extend(self.begun);
        edges.extend(self.trained.into_iter().flat_map(|(from, to)| [from, to]));
        let mut from = 0;
        while from < self.count {
            let to = (from..self.count)
                .find(|place| !self.is_known(*place))
                .unwrap_or(self.count);
            let found = changes(&self.features(from, to, period));
            edges.extend(self.sharpened(from, to, &found));
            from = to.max(from + 1);
        }
        edges.into_iter().collect()
    }

    /// Changes were looked for in means, in which a sharp one is a slope, perhaps of several pieces: each goes to where the values
    /// themselves go from those before to those after.
    fn sharpened(&self, from: usize, to: usize, found: &[usize]) -> Vec<usize> {
        let (values, floor) = match self.has_gpus {
            true => (&self.gpu, 100.0 * NOISE_FLOOR),
            false => (&self.cpu, NOISE_FLOOR),
        };
        let values: Vec<f64> = values[from..to]
            .iter()
            .map(|value| value.unwrap_or(0.0))
            .collect();
        let reach = (SMOOTH_SECONDS * 1e3 / self.width_ms as f64) as usize;
        let level = |from: usize, to: usize| mean(&values[from..to.max(from + 1)]);
        let edge = |place: usize| match place.checked_sub(1) {
            None => 0,
            Some(place) => found.get(place).copied().unwrap_or(values.len()),
        };
        let (mut sharp, mut place) = (Vec::new(), 1);
        while place <= found.len() {
            let first = place;
            let left = level(edge(first - 1), edge(first));
            let is_slope = |next: usize| {
                let (middle, right) = (
                    level(edge(next - 1), edge(next)),
                    level(edge(next), edge(next + 1)),
                );
                edge(next) - edge(first) <= reach
                    && (left.min(right) - floor..=left.max(right) + floor).contains(&middle)
            };
            while place < found.len() && is_slope(place + 1) {
                place += 1;
            }
            let right = level(edge(place), edge(place + 1));
            let range = (
                edge(first).saturating_sub(reach).max(edge(first - 1) + 1),
                (edge(place) + reach).min(edge(place + 1) - 1),
            );
            if (left - right).abs() > floor {
                sharp.push(from + split(&values, range, left, right));
            } else {
                sharp.extend((first..=place).map(|place| from + edge(place)));
            }
            place += 1;
        }
        sharp
    }

    fn is_known(&self, place: usize) -> bool {
        let of_cpu = self.cpu[place].is_some();
        if self.has_gpus {
            self.gpu[place].is_some()
        } else {
            of_cpu
        }
    }

    fn is_burst(&self, place: usize) -> bool {
        self.bursts[place] == Some(true)
    }

    /// The signals in which changes are looked for, each by its own noise.
    fn features(&self, from: usize, to: usize, period: Option<f64>) -> Vec<Vec<f64>> {
        let seconds = period
            .unwrap_or(0.0)
            .clamp(SMOOTH_SECONDS, LONGEST_SMOOTH_SECONDS);
        let width = (seconds * 1e3 / self.width_ms as f64) as usize;
        let whole = |values: &[Option<f64>], full: f64| -> Vec<f64> {
            values[from..to]
                .iter()
                .map(|value| (value.unwrap_or(0.0) / full).min(1.0))
                .collect()
        };
        let mut rows = vec![whole(&self.read, FULL_RATE), whole(&self.write, FULL_RATE)];
        if self.has_gpus {
            rows.push(smooth(&whole(&self.gpu, 100.0), width));
            rows.push(whole(&self.cpu, 1.0));
        } else {
            rows.push(smooth(&whole(&self.cpu, 1.0), width));
        }
        for row in &mut rows {
            let noise = noise(row, NOISE_FLOOR);
            row.iter_mut().for_each(|value| *value /= noise);
        }
        rows
    }

    fn mean(&self, values: &[Option<f64>], bins: std::ops::Range<usize>) -> Option<f64> {
        let known: Vec<f64> = values[bins].iter().flatten().copied().collect();
        (!known.is_empty()).then(|| mean(&known))
    }

    fn phase(&self, from: usize, to: usize, is_rhythmic: bool) -> Phase {
        let logged = self.logged[from];
        if logged == Some(Phase::Stalled) {
            return Phase::Stalled;
        }
        if !self.is_known(from) {
            return logged.unwrap_or(Phase::Unknown);
        }
        let of = |values: &[Option<f64>]| self.mean(values, from..to);
        let writes = self.is_burst(from);
        let gpu = of(&self.gpu);
        let is_before = |edge: Option<usize>| edge.is_some_and(|edge| to <= edge);
        let is_in_training = self
            .trained
            .is_some_and(|(begin, end)| from >= begin && to <= end);
        let has_begun = !is_before(self.trained.map(|(begin, _)| begin)) && !is_before(self.begun);
        let saves = || {
            gpu.map_or(is_in_training && self.began_in_training(from), |busy| {
                busy < GPU_IDLE
            })
        };
        if writes && has_begun && saves() {
            return Phase::Checkpoint;
        }
        if is_before(self.trained.map(|(begin, _)| begin))
            || self.trained.is_none() && is_before(self.begun.or_else(|| self.no_work_yet()))
        {
            return self.startup(from, to);
        }
        if self.is_idle(from, to) {
            return Phase::Idle;
        }
        let by_samples = match gpu {
            Some(busy) => self.of_gpus(from, to, busy, is_rhythmic, logged),
            None => logged.unwrap_or(Phase::Unknown),
        };
        let waits = self.facts.data_wait.is_some_and(|share| share >= WAITING)
            || !self.has_gpus
                && of(&self.io_wait).is_some_and(|share| share >= WAITING)
                && of(&self.cpu).is_some_and(|share| share < WAITING);
        match by_samples {
            Phase::Training if self.bursts[from] == Some(false) => Phase::Unknown,
            Phase::Training if waits => Phase::DataBound,
            // Steps that nobody here works on.
            Phase::Training
                if !self.has_gpus
                    && self.cores(from, to) < CORES_AT_WORK
                    && !self.is_starved(from, to) =>
            {
                Phase::Unknown
            }
            phase => phase,
        }
    }

    /// Until when a run whose GPUs never worked may be about to begin.
    fn no_work_yet(&self) -> Option<usize> {
        let bins = (LONGEST_STARTUP_SECONDS * 1e3 / self.width_ms as f64) as usize;
        self.has_gpus.then(|| bins.min(self.count))
    }

    /// Whether what is written there was not begun before the training.
    fn began_in_training(&self, from: usize) -> bool {
        let before = (0..from).rev().take_while(|place| self.is_burst(*place));
        let begin = before.last().unwrap_or(from);
        self.trained.is_some_and(|(trained, _)| begin >= trained)
    }

    /// CPUs kept busy; many where that is unknown.
    fn cores(&self, from: usize, to: usize) -> f64 {
        let share = self.mean(&self.cpu, from..to);
        share
            .zip(self.facts.cpus)
            .map_or(f64::INFINITY, |(share, cpus)| share * cpus)
    }

    fn is_starved(&self, from: usize, to: usize) -> bool {
        let waits = self.mean(&self.cpu_wait, from..to);
        waits.is_some_and(|share| share >= STARVED)
    }

    fn startup(&self, from: usize, to: usize) -> Phase {
        let moves = |values: &[Option<f64>]| {
            self.mean(values, from..to)
                .is_some_and(|rate| rate > STAGING)
        };
        if moves(&self.read) && moves(&self.write) {
            Phase::Staging
        } else {
            Phase::Startup
        }
    }

    /// Busy with what the log says, else with what the samples say.
    fn of_gpus(
        &self,
        from: usize,
        to: usize,
        busy: f64,
        is_rhythmic: bool,
        logged: Option<Phase>,
    ) -> Phase {
        let of = |values: &[Option<f64>]| self.mean(values, from..to).unwrap_or(0.0);
        let is_named = matches!(logged, Some(Phase::Evaluation | Phase::Checkpoint));
        match logged {
            Some(phase) if is_named => phase,
            _ if busy < GPU_IDLE => Phase::Stalled,
            _ if busy >= GPU_BUSY => logged.unwrap_or(Phase::Computing),
            _ if of(&self.cpu) >= CPU_BUSY || of(&self.read) > READING => Phase::DataBound,
            _ if of(&self.apart) > GPUS_APART && of(&self.sent) > SENDING => {
                Phase::CommunicationBound
            }
            Some(phase) => phase,
            None if is_rhythmic => Phase::Computing,
            None => Phase::Unknown,
        }
    }

    /// Nothing works, for longer than between two steps, and not for want of a CPU.
    fn is_idle(&self, from: usize, to: usize) -> bool {
        let below = |values: &[Option<f64>], limit: f64| {
            self.mean(values, from..to)
                .is_some_and(|value| value < limit)
        };
        let rests = below(&self.cpu, CPU_IDLE)
            && !self
                .mean(&self.read, from..to)
                .is_some_and(|rate| rate >= DISK_IDLE)
            && !self
                .mean(&self.write, from..to)
                .is_some_and(|rate| rate >= DISK_IDLE)
            && (!self.has_gpus || below(&self.gpu, GPU_IDLE));
        // A program that waits for a CPU gets a little of one.
        let busy: Vec<f64> = self.cpu[from..to].iter().flatten().copied().collect();
        let rest = middle(busy) * self.facts.cpus.unwrap_or(1.0);
        let may_wait = self.is_starved(from, to) && rest > CORES_AT_REST;
        if !rests || may_wait && !self.has_gpus {
            return false;
        }
        let at = |place: usize| {
            self.begin_ms
                .saturating_add((place as u64).saturating_mul(self.width_ms))
        };
        let seconds = (at(to) - at(from)) as f64 / 1e3;
        if self.has_gpus && self.logged[from].is_none() {
            return true;
        }
        // A step that ends in it was worked on, perhaps elsewhere.
        let (begin_ms, end_ms) = (
            at(from).saturating_add(self.width_ms),
            at(to).saturating_sub(self.width_ms),
        );
        let has_mark = self
            .facts
            .marks
            .iter()
            .any(|mark| (begin_ms..end_ms).contains(mark));
        let pauses = if self.logged[from].is_some() {
            3.0
        } else {
            1.5
        };
        let least = LEAST_IDLE_SECONDS.max(pauses * self.facts.rhythm_ms as f64 / 1e3);
        seconds >= least && !has_mark
    }

    /// What GPUs do between their first work and their pace.
    fn find_warmup(&self, phases: &mut [Phase]) {
        let Some(begun) = self.begun else { return };
        let is_pace = |phase: &Phase| matches!(phase, Phase::Training | Phase::Computing);
        let limit = (LONGEST_WARMUP_SECONDS * 1e3 / self.width_ms as f64) as usize;
        let is_middling = |phase: &Phase| *phase == Phase::Unknown;
        let count = phases[begun..]
            .iter()
            .take_while(|phase| is_middling(phase))
            .count();
        let follows = phases.get(begun + count).is_some_and(is_pace);
        if follows && (1..=limit).contains(&count) {
            phases[begun..begun + count].fill(Phase::Warmup);
        }
    }

    fn spans(&self, phases: &[Phase], last_ms: u64) -> Vec<PhaseSpan> {
        let at = |place: usize| {
            (self
                .begin_ms
                .saturating_add((place as u64).saturating_mul(self.width_ms)))
            .min(last_ms)
        };
        let mut place = 0;
        let pieces = phases.chunk_by(|one, other| one == other);
        pieces
            .map(|piece| {
                let from_ms = at(place);
                place += piece.len();
                PhaseSpan {
                    phase: piece[0],
                    from_ms,
                    to_ms: at(place),
                }
            })
            .filter(|span| span.to_ms > span.from_ms)
            .collect()
    }
}

/// Where values are best divided into those at one level and those at another.
fn split(values: &[f64], range: (usize, usize), left: f64, right: f64) -> usize {
    // What a value costs more on the left than on the right, summed up from the first.
    let mut cost = 0.0;
    let (mut least, mut best) = (f64::INFINITY, range.0);
    for (place, value) in values.iter().enumerate().take(range.1 + 1).skip(range.0) {
        if cost < least {
            (least, best) = (cost, place);
        }
        cost += (value - left).powi(2) - (value - right).powi(2);
    }
    best
}

/// Centred means over so many values.
fn smooth(values: &[f64], width: usize) -> Vec<f64> {
    let half = width / 2;
    let mut sums = vec![0.0];
    values
        .iter()
        .for_each(|value| sums.push(sums[sums.len() - 1] + value));
    (0..values.len())
        .map(|place| {
            let (from, to) = (
                place.saturating_sub(half),
                (place + half + 1).min(values.len()),
            );
            (sums[to] - sums[from]) / (to - from) as f64
        })
        .collect()
}

/// A short piece between two of one phase belongs to it, unless the log says otherwise.
fn absorb(phases: &mut [Phase], logged: &[Option<Phase>]) {
    let lengths: Vec<usize> = phases
        .chunk_by(|one, other| one == other)
        .map(<[Phase]>::len)
        .collect();
    let mut place = 0;
    for length in lengths {
        let after = place + length;
        let is_logged = phases[place] != Phase::Unknown
            && logged[place..after]
                .iter()
                .all(|phase| *phase == Some(phases[place]));
        if place > 0
            && after < phases.len()
            && length < LEAST_BINS
            && !is_logged
            && phases[place - 1] == phases[after]
        {
            let around = phases[after];
            phases[place..after].fill(around);
        }
        place = after;
    }
}
