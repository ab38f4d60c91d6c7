//! The solution of one response as it lies in a model file, and what it says of a run.

use super::block::{Block, Centres, Term};
use super::bytes::{Reader, Writer, float_at, record};
use super::calibrate::Stretch;
use super::design::{Layout, cell_key};
use super::facts::{EXACT, Facts};
use super::fit::{RUN_WIDTH, State};
use super::pieces::{Back, Place};
use super::response::Response;
use super::solve::{Components, Few, Own, OwnKnown, Spelled, product};
use crate::foundation::statistics::{Z95, quick_t95};
use crate::record::Interval;

/// Bytes of a workload's record: hash, offset, length, CRC-32.
const WORKLOAD: usize = 24;
/// Degrees of freedom of what the coefficients leave open: they rest on many runs.
const COEFFICIENTS: f64 = 30.0;
/// Logarithms beyond these are no times and sizes.
const LOGARITHMS: f64 = 300.0;

/// What of a part is short, and read at once.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
pub(super) struct Outline {
    pub(super) response: Response,
    pub(super) centres: Centres,
    pub(super) components: Components,
    /// What makes intervals hold for the runs that were fitted, each left out in turn.
    pub(super) stretch: Stretch,
    /// Where behind the front the workloads of this response begin.
    pub(super) from: u64,
}

/// The bytes of a part.
#[derive(Debug, Default)]
pub(super) struct Bytes {
    /// What every forecast needs.
    pub(super) shared: Vec<u8>,
    /// What each workload adds.
    pub(super) own: Vec<u8>,
}

/// A response's solution.
#[derive(Debug, Clone)]
pub(super) struct Solution {
    pub(super) outline: Outline,
    layout: Layout,
    shared: Vec<f64>,
    /// The covariance of the shared coefficients: numbers of four bytes, column by column.
    covariance: Vec<u8>,
    /// Where each workload lies: records of [`WORKLOAD`] bytes.
    workloads: Vec<u8>,
}

/// Writes what [`Solution::read`] reads.
pub(super) fn write(state: &State<'_>) -> Option<Bytes> {
    let (design, posterior) = (state.design, state.posterior.as_ref()?);
    let mut shared = Writer::default();
    shared.count(design.layout.keys.len());
    design.layout.keys.iter().for_each(|key| shared.u64(*key));
    posterior.shared.iter().for_each(|value| shared.f64(*value));
    let mut covariance = Writer::default();
    posterior
        .covariance
        .iter()
        .for_each(|value| covariance.f32(*value));
    shared.block(&covariance.0);
    let (mut index, mut workloads) = (Writer::default(), Writer::default());
    for (at, (span, own)) in design.spans.iter().zip(&posterior.own).enumerate() {
        let begin = workloads.0.len();
        write_own(
            own,
            state.noise[at],
            state.noise_freedom[at],
            &mut workloads,
        );
        write_cells(state, span.cells.clone(), &mut workloads);
        index.u64(span.workload);
        index.u64(begin as u64);
        index.count(workloads.0.len() - begin);
        index.u32(crc32fast::hash(&workloads.0[begin..]));
    }
    shared.block(&index.0);
    Some(Bytes {
        shared: shared.0,
        own: workloads.0,
    })
}

/// What was measured of each configuration, in the order of the keys.
fn write_cells(state: &State<'_>, cells: std::ops::Range<usize>, writer: &mut Writer) {
    let mut cells: Vec<usize> = cells
        .filter(|cell| state.evidence[*cell].weight > 0.0)
        .collect();
    cells.sort_unstable_by_key(|cell| state.design.cells[*cell].key);
    writer.count(cells.len());
    for cell in cells {
        writer.u64(state.design.cells[cell].key);
        writer.f32(state.evidence[cell].mean);
        writer.f32(state.evidence[cell].kept);
    }
}

fn write_own(own: &Own, noise: f64, freedom: f64, writer: &mut Writer) {
    writer.f64(noise);
    writer.f64(freedom);
    writer.count(own.places.len());
    writer.count(own.own.len());
    writer.u16s(&own.places);
    writer.u16s(&own.own);
    own.values.iter().for_each(|value| writer.f64(*value));
    match &own.known {
        OwnKnown::Coefficients(spelled) => {
            writer.count(0);
            half(own.own.len(), &mut |at| {
                writer.f32s(&spelled.inverse[at..=at])
            });
            writer.f32s(&spelled.carry);
        }
        OwnKnown::Cells(few) => {
            writer.count(few.rows.len());
            for row in &few.rows {
                writer.count(row.len());
                for (position, value) in row {
                    writer.u16s(&[*position]);
                    writer.f32s(&[*value]);
                }
            }
            half(few.rows.len(), &mut |at| writer.f32(few.weights[at]));
        }
    }
}

/// The places of a symmetric matrix that tell it all.
fn half(count: usize, then: &mut dyn FnMut(usize)) {
    (0..count).for_each(|row| (0..=row).for_each(|column| then(row * count + column)));
}

/// A workload's own part, with the variance of its repeats.
#[derive(Debug, Clone, Default)]
pub(super) struct Workload {
    pub(super) own: Own,
    known: Spelled,
    /// The covariance of the shared coefficients that its runs meet: rows of the lower triangle, each to the diagonal. All candidates
    /// of a job ask for it.
    covariance: Vec<f64>,
    noise: f64,
    freedom: f64,
    /// Of each configuration: key, mean, and how far that is to be believed before its parts.
    cells: Vec<(u64, f64, f64)>,
}

fn read_own(bytes: &[u8], layout: &Layout, components: &Components) -> Option<Workload> {
    let places = layout.keys.len();
    let mut reader = Reader(bytes);
    let (noise, freedom) = (reader.f64()?, reader.f64()?);
    let (count, own_count) = (reader.count()?, reader.count()?);
    if own_count > count || count > places {
        return None;
    }
    let ascending = |numbers: &[u16]| numbers.windows(2).all(|pair| pair[0] < pair[1]);
    let mut own = Own {
        places: (0..count).map(|_| reader.u16()).collect::<Option<_>>()?,
        own: (0..own_count)
            .map(|_| reader.u16())
            .collect::<Option<_>>()?,
        values: (0..own_count)
            .map(|_| reader.f64())
            .collect::<Option<_>>()?,
        ..Own::default()
    };
    if !ascending(&own.places)
        || !ascending(&own.own)
        || own
            .places
            .last()
            .is_some_and(|place| usize::from(*place) >= places)
        || own
            .own
            .last()
            .is_some_and(|position| usize::from(*position) >= count)
    {
        return None;
    }
    let cells = reader.count()?;
    if cells == 0 {
        let mut spelled = Spelled {
            inverse: symmetric(own_count, &mut || reader.short())?,
            carry: Vec::new(),
        };
        spelled.carry = (0..own_count * count)
            .map(|_| reader.short())
            .collect::<Option<_>>()?;
        own.known = OwnKnown::Coefficients(spelled);
    } else {
        let mut rows = Vec::new();
        for _ in 0..cells {
            let length = reader.count()?;
            let mut entry = |_| {
                Some((
                    reader.u16().filter(|at| usize::from(*at) < count)?,
                    reader.short()?,
                ))
            };
            rows.push((0..length).map(&mut entry).collect::<Option<Vec<_>>>()?);
        }
        own.known = OwnKnown::Cells(Few {
            rows,
            weights: symmetric(cells, &mut || reader.f32())?,
        });
    }
    let known = own.spelled(&own.local(layout, components)).into_owned();
    let count = reader.count()?;
    let mut cell = |_| Some((reader.u64()?, reader.f32()?, reader.f32()?.clamp(0.0, 1.0)));
    let cells = (0..count).map(&mut cell).collect::<Option<Vec<_>>>()?;
    let covariance = Vec::new();
    Some(Workload {
        own,
        known,
        covariance,
        noise: noise.max(1e-9),
        freedom: freedom.max(1.0),
        cells,
    })
}

/// A symmetric matrix out of what [`half`] left of it.
fn symmetric<T: Copy + Default>(
    count: usize,
    next: &mut dyn FnMut() -> Option<T>,
) -> Option<Vec<T>> {
    // A length that the file cannot hold is found out at the first row that is missing.
    let mut rows: Vec<Vec<T>> = Vec::new();
    for row in 0..count {
        rows.push((0..=row).map(|_| next()).collect::<Option<_>>()?);
    }
    let mut matrix = vec![T::default(); count * count];
    for (row, values) in rows.iter().enumerate() {
        for (column, value) in values.iter().enumerate() {
            matrix[row * count + column] = *value;
            matrix[column * count + row] = *value;
        }
    }
    Some(matrix)
}

/// What a part says of a logarithm.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Predicted {
    /// Its mean.
    pub(super) mean: f64,
    /// Its standard deviation, as wide as a normal distribution must be to hold 90 % of what may come.
    pub(super) sd: f64,
}

impl Predicted {
    /// As a figure, and no logarithm.
    pub(super) fn interval(self) -> Interval {
        let exp = |logarithm: f64| logarithm.clamp(-LOGARITHMS, LOGARITHMS).exp();
        // Numbers that no training has can leave nothing: then anything may come.
        let is_lost = self.mean.is_nan() || self.sd.is_nan();
        let (mean, sd) = if is_lost {
            (0.0, f64::INFINITY)
        } else {
            (self.mean, self.sd)
        };
        // Infinite less infinite: nothing is known of that end.
        let low = mean - Z95 * sd;
        Interval {
            mean: exp(mean + 0.5 * sd * sd),
            median: exp(mean),
            low: exp(if low.is_nan() { -LOGARITHMS } else { low }),
            high: exp(mean + Z95 * sd),
        }
    }
}

/// Variances with what each rests on, added up.
#[derive(Debug, Clone, Copy, Default)]
struct Total {
    variance: f64,
    /// The sum of variance² / freedom, of Satterthwaite's approximation.
    rest: f64,
}

impl Total {
    fn add(&mut self, variance: f64, freedom: f64) {
        self.variance += variance;
        self.rest += variance * variance / freedom;
    }

    /// The same with standard deviations that many times as large.
    fn stretched(self, by: f64) -> Self {
        Self {
            variance: self.variance * by.powi(2),
            rest: self.rest * by.powi(4),
        }
    }

    fn freedom(self) -> f64 {
        if self.rest > 0.0 {
            self.variance * self.variance / self.rest
        } else {
            COEFFICIENTS
        }
    }
}

/// A run's row, taken apart into what was learned and what was not.
#[derive(Debug, Clone, Default)]
struct Row {
    known: Vec<(u16, f64)>,
    /// Levels that no coefficient was learned of.
    unknown: Vec<(Block, Term)>,
    /// Coefficients to which this workload adds none, though others do.
    foreign: Vec<(Block, Term)>,
    /// Own coefficients, by their index, with factors.
    own: Vec<(usize, f64)>,
    cell: u64,
}

impl Solution {
    /// Reads what [`write`] wrote. `None`: the bytes are damaged.
    pub(super) fn read(outline: &Outline, reader: &mut Reader<'_>) -> Option<Self> {
        let count = reader.count()?;
        if count > usize::from(u16::MAX) {
            return None;
        }
        let keys: Vec<u64> = (0..count).map(|_| reader.u64()).collect::<Option<_>>()?;
        let shared: Vec<f64> = (0..count).map(|_| reader.f64()).collect::<Option<_>>()?;
        let ascending = keys.windows(2).all(|pair| pair[0] < pair[1]);
        let (covariance, workloads) = (reader.block()?.to_vec(), reader.block()?.to_vec());
        let whole =
            covariance.len() == 4 * count * count && workloads.len().is_multiple_of(WORKLOAD);
        (ascending && whole).then(|| Self {
            layout: Layout {
                keys,
                centres: outline.centres,
            },
            outline: outline.clone(),
            shared,
            covariance,
            workloads,
        })
    }

    fn covariance_at(&self, index: usize) -> f64 {
        float_at(&self.covariance, index)
    }

    /// The workload, where it was measured and can be read.
    pub(super) fn workload(&self, back: &Back, hash: u64) -> Option<Workload> {
        let place = self.place(record(&self.workloads, WORKLOAD, hash)?)?;
        let bytes = back.piece(place)?;
        let mut workload = read_own(&bytes, &self.layout, &self.outline.components)?;
        let count = self.layout.keys.len();
        for (at, one) in workload.own.places.iter().enumerate() {
            let column = usize::from(*one) * count;
            let row = workload.own.places[..=at].iter();
            workload
                .covariance
                .extend(row.map(|other| self.covariance_at(column + usize::from(*other))));
        }
        Some(workload)
    }

    /// Where a workload lies, of its record without the hash.
    fn place(&self, mut record: Reader<'_>) -> Option<Place> {
        let from = self.outline.from.checked_add(record.u64()?)?;
        Some(Place {
            from,
            length: record.count()?,
            crc32: record.u32()?,
        })
    }

    /// Where each workload lies.
    pub(super) fn places(&self) -> impl Iterator<Item = Place> + use<'_> {
        let records = self.workloads.chunks_exact(WORKLOAD);
        records.filter_map(|record| self.place(Reader(record.get(8..)?)))
    }

    /// Whether there is a workload, without reading it.
    pub(super) fn has_workload(&self, hash: u64) -> bool {
        record(&self.workloads, WORKLOAD, hash).is_some()
    }

    fn row(&self, facts: &Facts, workload: Option<&Workload>) -> Row {
        let components = &self.outline.components;
        let terms = self.outline.response.terms(facts, &self.layout.centres);
        let terms: Vec<(Block, Term)> = terms.collect();
        let mut row = Row {
            cell: cell_key(facts.workload, terms.iter()),
            ..Row::default()
        };
        for (block, term) in terms {
            let place = self
                .layout
                .place(term.key)
                .and_then(|place| u16::try_from(place).ok());
            match place {
                Some(place) => row.known.push((place, term.value)),
                None => row.unknown.push((block, term)),
            }
            if components.local[block as usize] > 0.0 {
                let own = place.zip(workload).and_then(|(place, workload)| {
                    let position = workload.own.places.binary_search(&place).ok()?;
                    workload
                        .own
                        .own
                        .binary_search(&u16::try_from(position).ok()?)
                        .ok()
                });
                match own {
                    Some(at) => row.own.push((at, term.value)),
                    None => row.foreign.push((block, term)),
                }
            }
        }
        row
    }

    /// What is believed of a coefficient that nothing was measured of, such as the slope of a size of which all runs had the same. Where
    /// no run has that size there is nothing to begin from.
    fn believed(&self, block: Block) -> f64 {
        let belief = self
            .outline
            .response
            .belief(block)
            .filter(|_| self.layout.centres.tell_of(block));
        belief.map_or(0.0, |belief| belief.mean)
    }

    /// Says what to expect of a run. `workload` is what [`Solution::workload`] gave for it, `outside` how far each size lies outside of
    /// what was measured, as a natural logarithm: below 0 it is smaller.
    pub(super) fn predict(
        &self,
        facts: &Facts,
        workload: Option<&Workload>,
        outside: &[f64; EXACT.len()],
    ) -> Predicted {
        let components = &self.outline.components;
        let row = self.row(facts, workload);
        let mut total = Total::default();
        let mut mean: f64 = row
            .known
            .iter()
            .map(|(place, value)| value * self.shared[usize::from(*place)])
            .sum();
        let mut open = 0.0;
        if let Some(workload) = workload {
            let own = &workload.own;
            mean += row
                .own
                .iter()
                .map(|(at, value)| value * own.values[*at])
                .sum::<f64>();
            let (moved, outside) = carried(workload, &row);
            open += self.spread_of(workload, &moved, &outside);
            for (one, a) in &row.own {
                for (other, b) in &row.own {
                    open += a * b * f64::from(workload.known.inverse[one * own.own.len() + other]);
                }
            }
        } else {
            open = self.spread(&row.known);
        }
        let (cell_mean, kept) = cell(workload, row.cell).unwrap_or((mean, 0.0));
        let left = 1.0 - kept;
        mean += kept * (cell_mean - mean);
        total.add(left * left * open.max(0.0), COEFFICIENTS);
        total.add(
            left * components.interaction,
            components.interaction_freedom,
        );
        // Nothing that was left out tells how well new names and workloads are forecast: what they add stays as it is.
        let stretch = self.outline.stretch;
        let mut total = total.stretched(stretch.parts);
        for (block, term) in &row.unknown {
            let at = *block as usize;
            mean += left * term.value * self.believed(*block);
            total.add(
                left * left * term.value * term.value * components.global[at],
                components.global_freedom[at],
            );
        }
        for (block, term) in &row.foreign {
            let at = *block as usize;
            total.add(
                left * left * term.value * term.value * components.local[at],
                components.local_freedom[at],
            );
        }
        let response = self.outline.response;
        mean += response
            .saturations()
            .iter()
            .zip(outside)
            .map(|(by, far)| by * far.max(0.0))
            .sum::<f64>();
        let bends = response.bends();
        let bent: f64 = bends
            .iter()
            .zip(outside)
            .map(|(bend, by)| (bend * by).powi(2))
            .sum();
        total.add(bent, COEFFICIENTS);
        let (noise, freedom) = workload.map_or((components.noise, COEFFICIENTS), |workload| {
            (workload.noise, workload.freedom)
        });
        total.add(stretch.runs.powi(2) * RUN_WIDTH * noise, freedom);
        let sd = total.variance.sqrt() * quick_t95(total.freedom()) / Z95;
        Predicted { mean, sd }
    }

    /// The variance of a sum of shared coefficients.
    fn spread(&self, factors: &[(u16, f64)]) -> f64 {
        let count = self.layout.keys.len();
        let mut sum = 0.0;
        for (at, (one, a)) in factors.iter().enumerate() {
            let column = usize::from(*one) * count;
            let inner: f64 = factors[at + 1..]
                .iter()
                .map(|(other, b)| b * self.covariance_at(column + usize::from(*other)))
                .sum();
            sum += a * (a * self.covariance_at(column + usize::from(*one)) + 2.0 * inner);
        }
        sum
    }

    /// The same with the factors of a workload's coefficients apart: those that its runs meet, and others.
    fn spread_of(&self, workload: &Workload, moved: &[f64], outside: &[(u16, f64)]) -> f64 {
        let (mut sum, mut rest) = (0.0, &workload.covariance[..]);
        for (at, factor) in moved.iter().enumerate() {
            let (row, others) = rest.split_at(at + 1);
            sum += factor * (2.0 * product(row, &moved[..=at]) - row[at] * factor);
            rest = others;
        }
        for (one, a) in outside {
            let column = usize::from(*one) * self.layout.keys.len();
            let inner = workload.own.places.iter().zip(moved);
            let inner: f64 = inner
                .map(|(other, b)| b * self.covariance_at(column + usize::from(*other)))
                .sum();
            sum += 2.0 * a * inner;
        }
        sum + self.spread(outside)
    }
}

/// What was measured of a configuration: the mean, and how far it is to be believed before its parts.
fn cell(workload: Option<&Workload>, key: u64) -> Option<(f64, f64)> {
    let cells = &workload?.cells;
    let at = cells.binary_search_by_key(&key, |cell| cell.0).ok()?;
    Some((cells[at].1, cells[at].2))
}

/// The factors of the shared coefficients once a workload's own ones have moved with them: of those that its runs meet, and of others.
fn carried(workload: &Workload, row: &Row) -> (Vec<f64>, Vec<(u16, f64)>) {
    let own = &workload.own;
    let count = own.places.len();
    let mut moved = vec![0.0; count];
    for (at, value) in &row.own {
        for (sum, carry) in moved
            .iter_mut()
            .zip(&workload.known.carry[at * count..][..count])
        {
            *sum -= value * f64::from(*carry);
        }
    }
    let mut outside = Vec::new();
    for (place, value) in &row.known {
        match own.places.binary_search(place) {
            Ok(at) => moved[at] += value,
            Err(_) => outside.push((*place, *value)),
        }
    }
    (moved, outside)
}
