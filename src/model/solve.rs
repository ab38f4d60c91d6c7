//! The exact solution of the linear equations, workload by workload.
//!
//! Coefficients that all workloads share meet those of a workload only in that workload's runs, so the matrix of the normal
//! equations has the form of an arrow. Each workload's own block is eliminated (its Schur complement), what is left is solved for
//! the shared ones, and the own ones follow.

use nalgebra::{Cholesky, DMatrix, DVector, Dyn};

use super::block::Block;
use super::design::{Design, Span};

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
    /// Their covariance, were the shared ones known: a row after the other.
    pub(super) inverse: Vec<f32>,
    /// By how much an own one falls where a shared one rises: a row for each own one, a column for each of `places`.
    pub(super) carry: Vec<f32>,
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

/// Where each place stands among those of a workload; of others it is out of date.
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

    pub(super) fn of(&self, place: u16) -> usize {
        usize::from(self.0[usize::from(place)])
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
            out.own.places.iter().zip(from).for_each(|(its, value)| column[usize::from(*its)] += value);
        }
        own.push(out.own);
    }
    let (shared, covariance) = invert(matrix, &vector)?;
    for own in &mut own {
        for (at, value) in own.values.iter_mut().enumerate() {
            let carry = &own.carry[at * own.places.len()..][..own.places.len()];
            *value -= carry
                .iter()
                .zip(&own.places)
                .map(|(carry, place)| f64::from(*carry) * shared[usize::from(*place)])
                .sum::<f64>();
        }
    }
    Some(Posterior { shared, covariance, own })
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
pub(super) fn invert(matrix: DMatrix<f64>, vector: &DVector<f64>) -> Option<(DVector<f64>, DMatrix<f64>)> {
    let decomposed = decompose(matrix)?;
    let covariance = decomposed.inverse();
    let solved = decomposed.solve(vector);
    (solved.iter().all(|value| value.is_finite()) && covariance.iter().all(|value| value.is_finite()))
        .then_some((solved, covariance))
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
        let Evidence { mean, precision, .. } = evidence[*cell];
        row.clear();
        let entries = &design.entries[design.cells[*cell].entries.clone()];
        row.extend(entries.iter().map(|(place, value)| (positions.of(*place), f64::from(*value))));
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
    Sums { places, matrix, vector }
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
    let own: Vec<usize> = (0..places.len()).filter(|at| variances[*at] > 0.0).collect();
    let cells: Vec<usize> = span.cells.clone().filter(|cell| evidence[*cell].precision > 0.0).collect();
    if cells.len() < own.len() {
        let rows = Rows::new(design, &cells, positions);
        by_cells(&rows, &cells, evidence, places, &variances, &own)
    } else {
        by_coefficients(sums(design, &cells, evidence, places, positions), &variances, &own)
    }
}

/// Factors of cells, by the workload's positions.
struct Rows(Vec<Vec<(usize, f64)>>);

impl Rows {
    fn new(design: &Design, cells: &[usize], positions: &Positions) -> Self {
        let row = |cell: &usize| {
            let entries = &design.entries[design.cells[*cell].entries.clone()];
            entries.iter().map(|(place, value)| (positions.of(*place), f64::from(*value))).collect()
        };
        Self(cells.iter().map(row).collect())
    }
}

/// The covariance of the cells' means, were the shared coefficients known, is inverted: a row and a column for each cell.
fn by_cells(
    rows: &Rows,
    cells: &[usize],
    evidence: &[Evidence],
    places: Vec<u16>,
    variances: &[f64],
    own: &[usize],
) -> Option<Eliminated> {
    let (count, width) = (cells.len(), places.len());
    let mut covariance = DMatrix::<f64>::zeros(count, count);
    let mut dense = vec![0.0; width];
    for (at, row) in rows.0.iter().enumerate() {
        row.iter().for_each(|(position, value)| dense[*position] = value * variances[*position]);
        for (other, its) in rows.0.iter().enumerate().skip(at) {
            let shared: f64 = its.iter().map(|(position, value)| value * dense[*position]).sum();
            covariance[(other, at)] = shared;
            covariance[(at, other)] = shared;
        }
        covariance[(at, at)] += evidence[cells[at]].precision.recip();
        row.iter().for_each(|(position, _)| dense[*position] = 0.0);
    }
    let weights = decompose(covariance)?.inverse();
    // Weights times rows: a column for each cell, so that what is added lies in one piece.
    let mut weighted = DMatrix::<f64>::zeros(width, count);
    for (from, row) in rows.0.iter().enumerate() {
        for to in 0..count {
            let weight = weights[(from, to)];
            let column = &mut weighted.as_mut_slice()[to * width..(to + 1) * width];
            row.iter().for_each(|(position, value)| column[*position] += weight * value);
        }
    }
    let means = DVector::from_iterator(count, cells.iter().map(|cell| evidence[*cell].mean));
    let weighted_means = weights * means;
    let (mut matrix, mut vector) = (DMatrix::<f64>::zeros(width, width), DVector::zeros(width));
    for (at, row) in rows.0.iter().enumerate() {
        let from = &weighted.as_slice()[at * width..(at + 1) * width];
        for (position, value) in row {
            vector[*position] += value * weighted_means[at];
            let column = &mut matrix.as_mut_slice()[position * width..(position + 1) * width];
            column.iter_mut().zip(from).for_each(|(sum, weighted)| *sum += value * weighted);
        }
    }
    // Own coefficients have the same rows as the shared ones beside them, so nothing is left to multiply.
    let carry =
        DMatrix::from_fn(own.len(), width, |row, column| variances[own[row]] * matrix[(own[row], column)]);
    let inverse = DMatrix::from_fn(own.len(), own.len(), |row, column| {
        f64::from(u8::from(row == column)) * variances[own[row]]
            - carry[(row, own[column])] * variances[own[column]]
    });
    let values = own.iter().map(|position| variances[*position] * vector[*position]).collect();
    Some(Eliminated { own: Own::new(places, own, values, &inverse, &carry), matrix, vector })
}

/// The matrix of the own coefficients is inverted. What it is multiplied with afterwards is mostly itself, so the products are
/// written down and not computed.
fn by_coefficients(sums: Sums, variances: &[f64], own: &[usize]) -> Option<Eliminated> {
    let Sums { places, matrix, vector } = sums;
    let rest: Vec<usize> = (0..places.len()).filter(|at| variances[*at] <= 0.0).collect();
    let precision = |at: usize| variances[own[at]].recip();
    let mut inner = matrix.select_rows(own).select_columns(own);
    (0..own.len()).for_each(|at| inner[(at, at)] += precision(at));
    let across = matrix.select_rows(own).select_columns(&rest);
    let inverse = decompose(inner)?.inverse();
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
    let values = values.iter().copied().collect();
    Some(Eliminated {
        own: Own::new(places, own, values, &inverse, &carry),
        matrix: left,
        vector: left_vector,
    })
}

impl Own {
    fn new(
        places: Vec<u16>,
        own: &[usize],
        values: Vec<f64>,
        inverse: &DMatrix<f64>,
        carry: &DMatrix<f64>,
    ) -> Self {
        #[expect(clippy::cast_possible_truncation, reason = "seven digits of a covariance are enough")]
        let short = |matrix: &DMatrix<f64>| matrix.transpose().iter().map(|value| *value as f32).collect();
        Self {
            places,
            own: own.iter().map(|at| u16::try_from(*at).unwrap_or(u16::MAX)).collect(),
            values,
            inverse: short(inverse),
            carry: short(carry),
        }
    }
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
    /// Adds shared and own coefficients up.
    pub(super) fn sums(&self, shared: &DVector<f64>) -> Vec<f64> {
        let mut values: Vec<f64> = self.places.iter().map(|place| shared[usize::from(*place)]).collect();
        for (at, value) in self.own.iter().zip(&self.values) {
            values[usize::from(*at)] += value;
        }
        values
    }

    /// Adds shared and own coefficients up, with their covariance.
    pub(super) fn joined(&self, shared: &DVector<f64>, covariance: &DMatrix<f64>) -> Joined {
        let (count, own) = (self.places.len(), self.own.len());
        let carry = DMatrix::from_row_iterator(own, count, self.carry.iter().map(|value| f64::from(*value)));
        let inverse =
            DMatrix::from_row_iterator(own, own, self.inverse.iter().map(|value| f64::from(*value)));
        let places: Vec<usize> = self.places.iter().map(|place| usize::from(*place)).collect();
        let mut joined =
            DMatrix::from_fn(count, count, |row, column| covariance[(places[row], places[column])]);
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
        Joined { values: self.sums(shared), covariance: joined, own_variances }
    }
}
