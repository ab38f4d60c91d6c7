//! The solution of one response, and what it says of a run.

use bytes::Bytes;
use nalgebra::{DMatrix, DVector};
use serde::{Deserialize, Serialize};

use super::block::{Block, Term};
use super::calibrate::Stretch;
use super::design::{Layout, Row, cell_key, entry, product};
use super::experience::{Sorted, value_of};
use super::facts::{EXACT, Facts, Size};
use super::fit::{RUN_WIDTH, State, spread};
use super::response::Response;
use super::solve::{Components, Equations, Evidence};
use crate::foundation::statistics::{Z95, quick_t95};
use crate::record::{Interval, Shift};

/// Degrees of freedom of what the coefficients leave open: they rest on many runs.
const COEFFICIENTS: f64 = 30.0;
/// What is added to the slopes of batch and of threads beyond the largest that was measured: more of them help less and less.
const SATURATION: (f64, f64) = (0.15, 0.2);
/// Logarithms beyond these are no times and sizes.
const LOGARITHMS: f64 = 300.0;

/// A response's solution.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Solution {
    pub(super) response: Response,
    pub(super) components: Components,
    /// What makes intervals hold for the runs that were fitted, each left out in turn.
    stretch: Stretch,
    layout: Layout,
    shared: Vec<f64>,
    /// The covariance of the shared coefficients: rows of the lower triangle, each to the diagonal.
    covariance: Vec<f32>,
    /// Each [`Workload`] as its bytes in a file: a forecast needs one of them, and a model may have thousands.
    workloads: Sorted<Bytes>,
}

/// What is read when it is asked for, as its bytes in a file.
pub(super) fn written(what: &impl Serialize) -> Bytes {
    postcard::to_stdvec(what).expect("numbers and text").into()
}

/// What was measured of a workload.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct Workload {
    /// Variance of its repeats, and how many runs that rests on.
    noise: (f64, f64),
    /// Places of the coefficients that its runs meet, ascending.
    places: Vec<usize>,
    cells: Vec<MeasuredCell>,
}

/// What was measured of a configuration: its key; which of the workload's places it has with the factor 1, and which with others; mean,
/// precision and kept share of its [`Evidence`]; by what its runs have moved. Without names, since a model may have 100,000 of them.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct MeasuredCell(u64, Vec<u32>, Row, [f32; 3], Option<Shift>);

impl MeasuredCell {
    fn row(&self) -> Row {
        let ones = self.1.iter().map(|at| (*at, 1.0));
        let mut row: Row = ones.chain(self.2.iter().copied()).collect();
        row.sort_unstable_by_key(|(at, _)| *at);
        row
    }

    fn evidence(&self) -> Evidence {
        let [mean, precision, kept] = self.3.map(f64::from);
        Evidence {
            weight: 0.0,
            mean,
            precision,
            kept,
        }
    }
}

/// A workload with its own coefficients, which all candidates of a job share.
#[derive(Debug, Clone)]
pub(super) struct Settled {
    workload: Workload,
    /// Places where it has an own coefficient, ascending.
    own: Vec<usize>,
    /// Sums of shared and own coefficients, by place, and their covariance.
    sums: DVector<f64>,
    joined: DMatrix<f64>,
}

/// What a part says of a logarithm.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Predicted {
    /// Its mean.
    pub(super) mean: f64,
    /// Its standard deviation, as wide as a normal distribution must be to hold 90 % of what may come.
    pub(super) sd: f64,
    /// By what its configuration's runs have moved of late.
    pub(super) shift: Option<Shift>,
}

impl Predicted {
    /// The same of something that is larger by so much.
    pub(super) fn plus(self, logarithm: f64) -> Self {
        Self {
            mean: self.mean + logarithm,
            ..self
        }
    }

    /// The same with so much more standard deviation, of an independent cause.
    pub(super) fn widened(self, by: f64) -> Self {
        Self {
            sd: self.sd.hypot(by),
            ..self
        }
    }

    /// As a figure, and no logarithm.
    pub(super) fn interval(self) -> Interval {
        let exp = |logarithm: f64| logarithm.clamp(-LOGARITHMS, LOGARITHMS).exp();
        // Numbers that no training has can leave nothing: then anything may come.
        let (mean, sd) = match self.mean.is_finite() && !self.sd.is_nan() {
            true => (self.mean, self.sd),
            false => (0.0, f64::INFINITY),
        };
        Interval {
            mean: exp(mean + 0.5 * sd * sd),
            median: exp(mean),
            low: exp(mean - Z95 * sd),
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
struct Parts {
    known: Row,
    /// Levels that no coefficient was learned of.
    unknown: Vec<(Block, Term)>,
    /// Coefficients to which this workload adds none, though others do.
    foreign: Vec<(Block, Term)>,
    cell: u64,
}

impl Solution {
    /// What of a fit a forecast needs.
    pub(super) fn new(state: &State<'_>, stretch: Stretch) -> Option<Self> {
        let (design, posterior) = (state.design, state.posterior.as_ref()?);
        let count = design.layout.keys.len();
        let covariance = (0..count).flat_map(|row| (0..=row).map(move |column| (row, column)));
        #[expect(clippy::cast_possible_truncation, reason = "seven digits are enough")]
        let short = |value: f64| value as f32;
        let measured = |cell: usize| {
            let (its, evidence) = (&design.cells[cell], &state.evidence[cell]);
            let (ones, others): (Row, Row) = its.row.iter().partition(|(_, value)| *value == 1.0);
            let ones = ones.iter().map(|(at, _)| *at).collect();
            let evidence = [evidence.mean, evidence.precision, evidence.kept].map(short);
            MeasuredCell(its.key, ones, others, evidence, its.shift)
        };
        let workload = |(at, span): (usize, &super::design::Span)| {
            let cells = span.cells.clone();
            let workload = Workload {
                noise: state.noise[at],
                places: span.places.clone(),
                cells: cells
                    .filter(|cell| state.evidence[*cell].precision > 0.0)
                    .map(measured)
                    .collect(),
            };
            (span.workload, written(&workload))
        };
        let spans = design.spans.iter().enumerate();
        Some(Self {
            response: state.response,
            components: state.components.clone(),
            stretch,
            layout: design.layout.clone(),
            shared: posterior.shared.iter().copied().collect(),
            covariance: covariance
                .map(|at| short(posterior.covariance[at]))
                .collect(),
            workloads: spans.map(workload).collect(),
        })
    }

    /// Whether its sizes fit together: a file may be anybody's.
    pub(super) fn is_sound(&self) -> bool {
        let count = self.layout.keys.len();
        let by_block = [&self.components.global, &self.components.local];
        by_block.iter().all(|values| values.len() == Block::COUNT)
            && self.layout.keys.is_sorted_by(|one, other| one < other)
            && self.shared.len() == count
            && self.covariance.len() == count * (count + 1) / 2
    }

    /// The workload, or nothing of it where it was not measured or cannot be read.
    pub(super) fn workload(&self, hash: u64) -> Settled {
        let count = self.layout.keys.len();
        let shared = DVector::from_column_slice(&self.shared);
        let covariance = DMatrix::from_fn(count, count, |one, other| {
            let (row, column) = (one.max(other), one.min(other));
            self.covariance[row * (row + 1) / 2 + column].into()
        });
        self.measured(hash, &shared, &covariance)
            .unwrap_or(Settled {
                workload: Workload::default(),
                own: Vec::new(),
                sums: shared,
                joined: covariance,
            })
    }

    fn measured(
        &self,
        hash: u64,
        shared: &DVector<f64>,
        covariance: &DMatrix<f64>,
    ) -> Option<Settled> {
        let workload: Workload = postcard::from_bytes(value_of(&self.workloads, hash)?).ok()?;
        let (cells, places) = (&workload.cells, &workload.places);
        let rows: Vec<_> = cells
            .iter()
            .map(|cell| (cell.row(), cell.evidence()))
            .collect();
        // A file may be anybody's: a row of places out of order may have any length.
        let (ends, count) = (self.layout.keys.len(), places.len());
        let is_sound = |row: &Row| {
            row.is_sorted_by(|one, other| one.0 < other.0)
                && row.last().is_none_or(|(at, _)| (*at as usize) < count)
        };
        if !places.is_sorted_by(|one, other| one < other)
            || places.last().is_some_and(|place| *place >= ends)
            || !rows.iter().all(|(row, _)| is_sound(row))
        {
            return None;
        }
        let rows = rows.iter().map(|(row, evidence)| (row, evidence));
        let said = Equations::new(places, rows, &self.layout, &self.components).said()?;
        let mut sums = shared.clone();
        for (place, value) in places.iter().zip(&said.own_values(places, shared)) {
            sums[*place] += value;
        }
        let (joined, _) = said.joined(covariance.clone(), places);
        let own = places.iter().zip(&said.own).filter(|(_, own)| **own > 0.0);
        let own = own.map(|(place, _)| *place).collect();
        Some(Settled {
            workload,
            own,
            sums,
            joined,
        })
    }

    /// Whether there is a workload.
    pub(super) fn has_workload(&self, hash: u64) -> bool {
        value_of(&self.workloads, hash).is_some()
    }

    fn parts(&self, facts: &Facts, own: &[usize]) -> Parts {
        let mut terms: Vec<(Block, Term)> = Vec::with_capacity(Block::COUNT);
        terms.extend(self.response.terms(facts, &self.layout.centres));
        let values = terms.iter().map(|(_, term)| (term.key, term.value));
        let mut parts = Parts {
            known: Vec::with_capacity(terms.len()),
            cell: cell_key(facts.workload, values),
            ..Parts::default()
        };
        for (block, term) in terms {
            let place = self.layout.place(term.key);
            match place {
                Some(place) => parts.known.push(entry(place, term.value)),
                None => parts.unknown.push((block, term)),
            }
            let is_own = place.is_some_and(|place| own.binary_search(&place).is_ok());
            if self.components.local[block as usize].0 > 0.0 && !is_own {
                parts.foreign.push((block, term));
            }
        }
        parts
    }

    /// What is believed of a coefficient that nothing was measured of, such as the slope of a size of which all runs had the same. Where
    /// no run has that size there is nothing to begin from.
    fn believed(&self, block: Block) -> f64 {
        let belief = self.response.belief(block);
        let belief = belief.filter(|_| self.layout.centres.has_size_of(block));
        belief.map_or(0.0, |belief| belief.mean)
    }

    /// Says what to expect of a run. `settled` is what [`Solution::workload`] gave for its workload, `outside` how far each size lies
    /// outside of what was measured, as a natural logarithm: below 0 it is smaller.
    pub(super) fn predict(
        &self,
        facts: &Facts,
        settled: &Settled,
        outside: &[f64; EXACT.len()],
    ) -> Predicted {
        let (components, workload) = (&self.components, &settled.workload);
        let parts = self.parts(facts, &settled.own);
        let mut mean = product(&parts.known, &settled.sums);
        let open = spread(&parts.known, &settled.joined);
        let cells = &workload.cells;
        let cell = cells.binary_search_by_key(&parts.cell, |cell| cell.0);
        let (cell_mean, kept, shift) = cell.map_or((mean, 0.0, None), |at| {
            let evidence = cells[at].evidence();
            let shift = cells[at].4.filter(|shift| shift.time_ratio.is_finite());
            (evidence.mean, evidence.kept.clamp(0.0, 1.0), shift)
        });
        let left = 1.0 - kept;
        mean += kept * (cell_mean - mean);
        let mut total = Total::default();
        let parts_stretch = self.stretch.parts.powi(2);
        total.add(parts_stretch * left * left * open, COEFFICIENTS);
        let (interaction, freedom) = components.interaction;
        total.add(parts_stretch * left * interaction, freedom);
        // Nothing that was left out tells how well new names and workloads are forecast: what they add is not stretched.
        let squared = |term: &Term| (left * term.value).powi(2);
        for (block, term) in &parts.unknown {
            mean += left * term.value * self.believed(*block);
            let (variance, freedom) = components.global[*block as usize];
            total.add(squared(term) * variance, freedom);
        }
        for (block, term) in &parts.foreign {
            let (variance, freedom) = components.local[*block as usize];
            total.add(squared(term) * variance, freedom);
        }
        if matches!(self.response, Response::Epoch | Response::Whole) {
            let beyond = |size: Size| outside[size as usize].max(0.0);
            mean += SATURATION.0 * beyond(Size::Batch) + SATURATION.1 * beyond(Size::Threads);
        }
        let bends = self.response.bends().into_iter().zip(outside);
        let bent = bends.map(|(bend, far)| (bend * far).powi(2)).sum();
        total.add(bent, COEFFICIENTS);
        let noise = match cells.is_empty() {
            true => (components.noise, COEFFICIENTS),
            false => workload.noise,
        };
        total.add(self.stretch.runs.powi(2) * RUN_WIDTH * noise.0, noise.1);
        let sd = total.variance.sqrt() * quick_t95(total.freedom()) / Z95;
        Predicted { mean, sd, shift }
    }
}
