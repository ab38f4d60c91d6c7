//! The exact solution of the linear equations, workload by workload.
//!
//! Coefficients that all workloads share meet those of a workload only in that workload's runs, so the matrix of the normal
//! equations has the form of an arrow. Each workload's own block is eliminated (its Schur complement), what is left is solved for
//! the shared ones, and the own ones follow.

use std::borrow::Cow;

use nalgebra::{Cholesky, DMatrix, DVector, Dyn};

use super::block::Block;
use super::design::{Design, Layout, Span};

/// Variances: how much the coefficients of a block differ, and the runs.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
pub(super) struct Components {
    /// Of the shared coefficients, by block.
    pub(super) global: [f64; Block::COUNT],
    /// How many coefficients that rests on, believed ones included.
    pub(super) global_freedom: [f64; Block::COUNT],
    /// Of workloads' own coefficients, by block; 0: there are none.
    pub(super) local: [f64; Block::COUNT],
    pub(super) local_freedom: [f64; Block::COUNT],
    /// Of what a configuration adds to its parts.
    pub(super) interaction: f64,
    pub(super) interaction_freedom: f64,
    /// Of repeats, over all workloads.
    pub(super) noise: f64,
    /// Variance of a run that something speaks against, as a multiple of that of others.
    pub(super) doubt: f64,
}

/// What the runs of a cell say together.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Evidence {
    /// Sum of the runs' weights.
    pub(super) weight: f64,
    /// Their weighted mean.
    pub(super) mean: f64,
    /// Precision of that mean as evidence on the row: repeats do not average away what the configuration adds.
    pub(super) precision: f64,
    /// How much of the distance between mean and row belongs to the configuration.
    pub(super) kept: f64,
}

/// A workload's own coefficients.
#[derive(Debug, Clone, Default)]
pub(super) struct Own {
    /// Places of the shared coefficients that its runs meet, ascending.
    pub(super) places: Vec<u16>,
    /// Those of them of which it has an own one, as indices into `places`.
    pub(super) own: Vec<u16>,
    /// The own ones.
    pub(super) values: Vec<f64>,
    pub(super) known: OwnKnown,
}

/// How well a workload's own coefficients are known, in the form that takes less room.
#[derive(Debug, Clone)]
pub(super) enum OwnKnown {
    Coefficients(Spelled),
    Cells(Few),
}

/// Spelled out.
#[derive(Debug, Clone, Default)]
pub(super) struct Spelled {
    /// The covariance of the own coefficients, were the shared ones known: a row after the other.
    pub(super) inverse: Vec<f32>,
    /// By how much an own one falls where a shared one rises: a row for each own one, a column for each of `places`.
    pub(super) carry: Vec<f32>,
}

/// By the few configurations that it rests on.
#[derive(Debug, Clone, Default)]
pub(super) struct Few {
    /// The factors of each cell, by index into `places`.
    pub(super) rows: Vec<Vec<(u16, f32)>>,
    /// The inverse of the covariance of the cells' means, were the shared coefficients known.
    pub(super) weights: Vec<f64>,
}

impl Default for OwnKnown {
    fn default() -> Self {
        Self::Coefficients(Spelled::default())
    }
}

/// The solution.
#[derive(Debug, Clone)]
pub(super) struct Posterior {
    /// Shared coefficients.
    pub(super) shared: DVector<f64>,
    /// Their covariance.
    pub(super) covariance: DMatrix<f64>,
    /// By span.
    pub(super) own: Vec<Own>,
}

/// Sums over the runs of a workload.
struct Sums {
    places: Vec<u16>,
    matrix: DMatrix<f64>,
    vector: DVector<f64>,
}

/// The index of each place among those of a workload; of others it is out of date.
pub(super) struct Positions(Vec<u16>);

impl Positions {
    pub(super) fn new(design: &Design) -> Self {
        Self(vec![0; design.layout.keys.len()])
    }

    /// The places that a workload's runs meet.
    pub(super) fn places(&mut self, design: &Design, span: &Span) -> Vec<u16> {
        let mut places: Vec<u16> = span
            .cells
            .clone()
            .flat_map(|cell| &design.entries[design.cells[cell].entries.clone()])
            .map(|entry| entry.0)
            .collect();
        places.sort_unstable();
        places.dedup();
        self.set(&places);
        places
    }

    pub(super) fn set(&mut self, places: &[u16]) {
        for (position, place) in (0_u16..).zip(places) {
            self.0[usize::from(*place)] = position;
        }
    }

    fn position(&self, place: u16) -> u16 {
        self.0[usize::from(place)]
    }

    pub(super) fn of(&self, place: u16) -> usize {
        usize::from(self.position(place))
    }
}

/// Solves the equations. `None`: floating point does not suffice.
pub(super) fn solve(
    design: &Design,
    components: &Components,
    means: &[f64],
    evidence: &[Evidence],
) -> Option<Posterior> {
    let (mut matrix, mut vector) = prior_equations(design, components, means);
    let count = design.layout.keys.len();
    let mut positions = Positions::new(design);
    let mut own = Vec::with_capacity(design.spans.len());
    for span in &design.spans {
        let out = eliminate(design, components, span, evidence, &mut positions)?;
        for (one, place) in out.own.places.iter().enumerate() {
            vector[usize::from(*place)] += out.vector[one];
            let column = &mut matrix.as_mut_slice()[usize::from(*place) * count..][..count];
            let from = &out.matrix.as_slice()[one * out.own.places.len()..][..out.own.places.len()];
            out.own
                .places
                .iter()
                .zip(from)
                .for_each(|(its, value)| column[usize::from(*its)] += value);
        }
        own.push(out.own);
    }
    let (shared, covariance) = invert(matrix, &vector)?;
    for (own, span) in own.iter_mut().zip(&design.spans) {
        let local = own.local(&design.layout, components);
        own.settle(&shared, &local, || {
            let with_weight = span
                .cells
                .clone()
                .filter(|cell| evidence[*cell].precision > 0.0);
            with_weight.map(|cell| evidence[cell].mean).collect()
        });
    }
    Some(Posterior {
        shared,
        covariance,
        own,
    })
}

/// The shared part before the first run: beliefs and what was published.
pub(super) fn prior_equations(
    design: &Design,
    components: &Components,
    means: &[f64],
) -> (DMatrix<f64>, DVector<f64>) {
    let count = design.layout.keys.len();
    let (mut matrix, mut vector) = (DMatrix::zeros(count, count), DVector::zeros(count));
    for (place, mean) in means.iter().enumerate() {
        let precision = components.global[design.layout.block(place) as usize].recip();
        matrix[(place, place)] += precision;
        vector[place] += precision * mean;
    }
    for pseudo in &design.pseudo {
        for (one, a) in &pseudo.row {
            vector[*one] += pseudo.precision * a * pseudo.y;
            for (other, b) in &pseudo.row {
                matrix[(*one, *other)] += pseudo.precision * a * b;
            }
        }
    }
    (matrix, vector)
}

/// Inverts a symmetric matrix and solves for a right side. A matrix that rounding has made indefinite is helped up first.
pub(super) fn invert(
    matrix: DMatrix<f64>,
    vector: &DVector<f64>,
) -> Option<(DVector<f64>, DMatrix<f64>)> {
    let decomposed = decompose(matrix)?;
    let covariance = inverse(&decomposed);
    let solved = decomposed.solve(vector);
    (solved.iter().all(|value| value.is_finite())
        && covariance.iter().all(|value| value.is_finite()))
    .then_some((solved, covariance))
}

/// The inverse out of a decomposition, of the whole symmetric matrix: L⁻¹ column by column, then its columns with each other. That
/// is a third of the work of solving for each column of the identity.
fn inverse(decomposed: &Cholesky<f64, Dyn>) -> DMatrix<f64> {
    let lower = decomposed.l_dirty();
    let count = lower.nrows();
    let factors = lower.as_slice();
    let mut columns = vec![0.0; count * count];
    for (at, column) in columns.chunks_exact_mut(count.max(1)).enumerate() {
        column[at] = 1.0;
        for row in at..count {
            let (solved, rest) = column[row..].split_at_mut(1);
            let its = &factors[row * count + row..(row + 1) * count];
            solved[0] /= its[0];
            rest.iter_mut()
                .zip(&its[1..])
                .for_each(|(left, factor)| *left -= solved[0] * factor);
        }
    }
    let mut inverse = DMatrix::zeros(count, count);
    for row in 0..count {
        let one = &columns[row * count + row..(row + 1) * count];
        for column in 0..=row {
            let value = product(one, &columns[column * count + row..(column + 1) * count]);
            inverse[(row, column)] = value;
            inverse[(column, row)] = value;
        }
    }
    inverse
}

/// The sum of products, in eight sums side by side.
pub(super) fn product(one: &[f64], other: &[f64]) -> f64 {
    let mut sums = [0.0; 8];
    let (ones, others) = (one.chunks_exact(8), other.chunks_exact(8));
    let rest: f64 = ones
        .remainder()
        .iter()
        .zip(others.remainder())
        .map(|(a, b)| a * b)
        .sum();
    for (one, other) in ones.zip(others) {
        sums.iter_mut()
            .zip(one.iter().zip(other))
            .for_each(|(sum, (a, b))| *sum += a * b);
    }
    rest + sums.iter().sum::<f64>()
}

pub(super) fn decompose(matrix: DMatrix<f64>) -> Option<Cholesky<f64, Dyn>> {
    let mut lift = 0.0;
    for _ in 0..4 {
        let mut lifted = matrix.clone();
        for at in 0..lifted.nrows() {
            lifted[(at, at)] *= 1.0 + lift;
        }
        if let Some(decomposed) = lifted.cholesky() {
            return Some(decomposed);
        }
        lift = if lift == 0.0 { 1e-12 } else { lift * 1e3 };
    }
    None
}

fn sums(
    design: &Design,
    cells: &[usize],
    evidence: &[Evidence],
    places: Vec<u16>,
    positions: &Positions,
) -> Sums {
    let count = places.len();
    let (mut matrix, mut vector) = (DMatrix::<f64>::zeros(count, count), DVector::zeros(count));
    let mut row: Vec<(usize, f64)> = Vec::new();
    for cell in cells {
        let Evidence {
            mean, precision, ..
        } = evidence[*cell];
        row.clear();
        let entries = &design.entries[design.cells[*cell].entries.clone()];
        row.extend(
            entries
                .iter()
                .map(|(place, value)| (positions.of(*place), f64::from(*value))),
        );
        for (at, (one, a)) in row.iter().enumerate() {
            let weighted = precision * a;
            vector[*one] += weighted * mean;
            // Columns lie in one piece.
            let column = &mut matrix.as_mut_slice()[one * count..(one + 1) * count];
            for (other, b) in &row[at..] {
                column[*other] += weighted * b;
            }
        }
    }
    matrix.fill_upper_triangle_with_lower_triangle();
    Sums {
        places,
        matrix,
        vector,
    }
}

/// A workload's own coefficients, and what its runs say of the shared ones once those are out of the way.
struct Eliminated {
    own: Own,
    matrix: DMatrix<f64>,
    vector: DVector<f64>,
}

/// Takes a workload's own coefficients out of the equations of the shared ones: over its configurations or over its coefficients,
/// whichever are fewer.
fn eliminate(
    design: &Design,
    components: &Components,
    span: &Span,
    evidence: &[Evidence],
    positions: &mut Positions,
) -> Option<Eliminated> {
    let places = positions.places(design, span);
    let local = |place: &u16| components.local[design.layout.block(usize::from(*place)) as usize];
    let variances: Vec<f64> = places.iter().map(local).collect();
    let own: Vec<usize> = (0..places.len())
        .filter(|at| variances[*at] > 0.0)
        .collect();
    let cells: Vec<usize> = span
        .cells
        .clone()
        .filter(|cell| evidence[*cell].precision > 0.0)
        .collect();
    if cells.len() < own.len() {
        let row = |cell: &usize| {
            let entries = &design.entries[design.cells[*cell].entries.clone()];
            entries
                .iter()
                .map(|(place, value)| (positions.position(*place), *value))
                .collect()
        };
        let rows = cells.iter().map(row).collect();
        by_cells(rows, &cells, evidence, places, &variances, &own)
    } else {
        by_coefficients(
            sums(design, &cells, evidence, places, positions),
            &variances,
            &own,
        )
    }
}

/// The covariance of the cells' means, were the shared coefficients known, is inverted: a row and a column for each cell.
fn by_cells(
    rows: Vec<Vec<(u16, f32)>>,
    cells: &[usize],
    evidence: &[Evidence],
    places: Vec<u16>,
    variances: &[f64],
    own: &[usize],
) -> Option<Eliminated> {
    let (count, width) = (cells.len(), places.len());
    let mut covariance = DMatrix::<f64>::zeros(count, count);
    let mut dense = vec![0.0; width];
    for (at, row) in rows.iter().enumerate() {
        for (position, value) in row {
            dense[usize::from(*position)] = f64::from(*value) * variances[usize::from(*position)];
        }
        for (other, its) in rows.iter().enumerate().skip(at) {
            let shared: f64 = its
                .iter()
                .map(|(position, value)| f64::from(*value) * dense[usize::from(*position)])
                .sum();
            covariance[(other, at)] = shared;
            covariance[(at, other)] = shared;
        }
        covariance[(at, at)] += evidence[cells[at]].precision.recip();
        row.iter()
            .for_each(|(position, _)| dense[usize::from(*position)] = 0.0);
    }
    let weights = inverse(&decompose(covariance)?);
    let few = Few {
        rows,
        weights: weights.as_slice().to_vec(),
    };
    let matrix = few.product(width);
    let means = DVector::from_iterator(count, cells.iter().map(|cell| evidence[*cell].mean));
    let weighted = weights * means;
    let mut vector = DVector::zeros(width);
    for (row, weighted) in few.rows.iter().zip(weighted.iter()) {
        row.iter().for_each(|(position, value)| {
            vector[usize::from(*position)] += f64::from(*value) * weighted
        });
    }
    let own = Own {
        places,
        own: own
            .iter()
            .map(|at| u16::try_from(*at).unwrap_or(u16::MAX))
            .collect(),
        values: Vec::new(),
        known: OwnKnown::Cells(few),
    };
    Some(Eliminated {
        own,
        matrix,
        vector,
    })
}

impl Few {
    /// The weights between the rows' factors on both sides: what the cells say of the shared coefficients.
    fn product(&self, width: usize) -> DMatrix<f64> {
        let count = self.rows.len();
        // A column for each cell, so that what is added lies in one piece.
        let mut weighted = vec![0.0; width * count];
        for (from, row) in self.rows.iter().enumerate() {
            for (to, column) in weighted.chunks_exact_mut(width.max(1)).enumerate() {
                let weight = self.weights[from * count + to];
                row.iter().for_each(|(position, value)| {
                    column[usize::from(*position)] += weight * f64::from(*value)
                });
            }
        }
        let mut matrix = DMatrix::<f64>::zeros(width, width);
        for (row, from) in self.rows.iter().zip(weighted.chunks_exact(width.max(1))) {
            for (position, value) in row {
                let column = &mut matrix.as_mut_slice()[usize::from(*position) * width..][..width];
                column
                    .iter_mut()
                    .zip(from)
                    .for_each(|(sum, weighted)| *sum += f64::from(*value) * weighted);
            }
        }
        matrix
    }

    /// Own coefficients have the same factors as the shared ones beside them, so nothing is left to multiply.
    fn spelled(&self, width: usize, own: &[u16], local: &[f64]) -> Spelled {
        let matrix = self.product(width);
        let carry =
            |row: usize, column: usize| local[row] * matrix[(usize::from(own[row]), column)];
        let mut spelled = Spelled::default();
        for row in 0..own.len() {
            for (column, position) in own.iter().enumerate() {
                let alone = f64::from(u8::from(row == column)) * local[row];
                spelled.inverse.push(short(
                    alone - carry(row, usize::from(*position)) * local[column],
                ));
            }
            spelled
                .carry
                .extend((0..width).map(|column| short(carry(row, column))));
        }
        spelled
    }
}

fn short(value: f64) -> f32 {
    #[expect(
        clippy::cast_possible_truncation,
        reason = "seven digits of a covariance are enough"
    )]
    let short = value as f32;
    short
}

/// The matrix of the own coefficients is inverted. What it is multiplied with afterwards is mostly itself, so the products are
/// written down and not computed.
fn by_coefficients(sums: Sums, variances: &[f64], own: &[usize]) -> Option<Eliminated> {
    let Sums {
        places,
        matrix,
        vector,
    } = sums;
    let rest: Vec<usize> = (0..places.len())
        .filter(|at| variances[*at] <= 0.0)
        .collect();
    let precision = |at: usize| variances[own[at]].recip();
    let mut inner = matrix.select_rows(own).select_columns(own);
    (0..own.len()).for_each(|at| inner[(at, at)] += precision(at));
    let across = matrix.select_rows(own).select_columns(&rest);
    let inverse = inverse(&decompose(inner)?);
    let values = &inverse * vector.select_rows(own);
    let carry_rest = &inverse * &across;
    let mut carry = DMatrix::<f64>::zeros(own.len(), places.len());
    let (mut left, mut left_vector) = (DMatrix::<f64>::zeros(places.len(), places.len()), vector);
    for (column, position) in own.iter().enumerate() {
        for row in 0..own.len() {
            let one = f64::from(u8::from(row == column));
            let share = inverse[(row, column)] * precision(column);
            carry[(row, *position)] = one - share;
            left[(own[row], *position)] = precision(row) * (one - share);
        }
        left_vector[*position] = precision(column) * values[column];
    }
    let left_rest = matrix.select_rows(&rest).select_columns(&rest) - across.tr_mul(&carry_rest);
    let vector_rest = across.tr_mul(&values);
    for (column, position) in rest.iter().enumerate() {
        for row in 0..own.len() {
            carry[(row, *position)] = carry_rest[(row, column)];
            let value = precision(row) * carry_rest[(row, column)];
            left[(own[row], *position)] = value;
            left[(*position, own[row])] = value;
        }
        for (row, other) in rest.iter().enumerate() {
            left[(*other, *position)] = left_rest[(row, column)];
        }
        left_vector[*position] -= vector_rest[column];
    }
    let spell = |matrix: &DMatrix<f64>| {
        matrix
            .transpose()
            .iter()
            .map(|value| short(*value))
            .collect()
    };
    let own = Own {
        places,
        own: own
            .iter()
            .map(|at| u16::try_from(*at).unwrap_or(u16::MAX))
            .collect(),
        values: values.iter().copied().collect(),
        known: OwnKnown::Coefficients(Spelled {
            inverse: spell(&inverse),
            carry: spell(&carry),
        }),
    };
    Some(Eliminated {
        own,
        matrix: left,
        vector: left_vector,
    })
}

/// What is known of a workload's coefficients, shared and own ones added.
pub(super) struct Joined {
    /// Their sums, by the workload's places.
    pub(super) values: Vec<f64>,
    /// The covariance of the sums.
    pub(super) covariance: DMatrix<f64>,
    /// The variances of the own ones.
    pub(super) own_variances: Vec<f64>,
}

impl Own {
    /// Believed variances of the own coefficients.
    pub(super) fn local(&self, layout: &Layout, components: &Components) -> Vec<f64> {
        let place = |position: &u16| usize::from(self.places[usize::from(*position)]);
        self.own
            .iter()
            .map(|position| components.local[layout.block(place(position)) as usize])
            .collect()
    }

    /// How well the own coefficients are known, spelled out.
    pub(super) fn spelled(&self, local: &[f64]) -> Cow<'_, Spelled> {
        match &self.known {
            OwnKnown::Coefficients(spelled) => Cow::Borrowed(spelled),
            OwnKnown::Cells(few) => Cow::Owned(few.spelled(self.places.len(), &self.own, local)),
        }
    }

    /// Sets the own coefficients once the shared ones are known; before that they are as if those were 0.
    fn settle(&mut self, shared: &DVector<f64>, local: &[f64], means: impl FnOnce() -> Vec<f64>) {
        let places = &self.places;
        let of = |position: usize| shared[usize::from(places[position])];
        match &self.known {
            OwnKnown::Coefficients(spelled) => {
                let carries = spelled.carry.chunks_exact(places.len().max(1));
                for (value, carry) in self.values.iter_mut().zip(carries) {
                    *value -= carry
                        .iter()
                        .enumerate()
                        .map(|(at, carry)| f64::from(*carry) * of(at))
                        .sum::<f64>();
                }
            }
            OwnKnown::Cells(few) => {
                let row = |row: &Vec<(u16, f32)>| -> f64 {
                    row.iter()
                        .map(|(at, value)| f64::from(*value) * of(usize::from(*at)))
                        .sum()
                };
                let left: Vec<f64> = few
                    .rows
                    .iter()
                    .zip(means())
                    .map(|(its, mean)| mean - row(its))
                    .collect();
                let mut sums = vec![0.0; places.len()];
                for (row, weights) in few
                    .rows
                    .iter()
                    .zip(few.weights.chunks_exact(left.len().max(1)))
                {
                    let weighted: f64 = weights
                        .iter()
                        .zip(&left)
                        .map(|(weight, left)| weight * left)
                        .sum();
                    row.iter().for_each(|(at, value)| {
                        sums[usize::from(*at)] += f64::from(*value) * weighted
                    });
                }
                let value = |(at, local): (&u16, &f64)| local * sums[usize::from(*at)];
                self.values = self.own.iter().zip(local).map(value).collect();
            }
        }
    }

    /// Adds shared and own coefficients up.
    pub(super) fn sums(&self, shared: &DVector<f64>) -> Vec<f64> {
        let mut values: Vec<f64> = self
            .places
            .iter()
            .map(|place| shared[usize::from(*place)])
            .collect();
        for (at, value) in self.own.iter().zip(&self.values) {
            values[usize::from(*at)] += value;
        }
        values
    }

    /// Adds shared and own coefficients up, with their covariance.
    pub(super) fn joined(
        &self,
        local: &[f64],
        shared: &DVector<f64>,
        covariance: &DMatrix<f64>,
    ) -> Joined {
        let (count, own) = (self.places.len(), self.own.len());
        let spelled = self.spelled(local);
        let carry = DMatrix::from_row_iterator(
            own,
            count,
            spelled.carry.iter().map(|value| f64::from(*value)),
        );
        let inverse = DMatrix::from_row_iterator(
            own,
            own,
            spelled.inverse.iter().map(|value| f64::from(*value)),
        );
        let places: Vec<usize> = self
            .places
            .iter()
            .map(|place| usize::from(*place))
            .collect();
        let mut joined = DMatrix::from_fn(count, count, |row, column| {
            covariance[(places[row], places[column])]
        });
        let moved = &carry * &joined;
        let alone = &moved * carry.transpose() + inverse;
        for (at, position) in self.own.iter().enumerate() {
            let position = usize::from(*position);
            for other in 0..count {
                joined[(position, other)] -= moved[(at, other)];
            }
        }
        for (at, position) in self.own.iter().enumerate() {
            let position = usize::from(*position);
            for other in 0..count {
                joined[(other, position)] -= moved[(at, other)];
            }
        }
        for (one, a) in self.own.iter().enumerate() {
            for (other, b) in self.own.iter().enumerate() {
                joined[(usize::from(*a), usize::from(*b))] += alone[(one, other)];
            }
        }
        let own_variances = (0..own).map(|at| alone[(at, at)]).collect();
        Joined {
            values: self.sums(shared),
            covariance: joined,
            own_variances,
        }
    }
}
