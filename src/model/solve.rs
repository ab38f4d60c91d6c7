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
    let mut positions = Positions::new(design);
    let mut own = Vec::with_capacity(design.spans.len());
    for span in &design.spans {
        let sums = sums(design, span, evidence, &mut positions);
        own.push(eliminate(design, components, &sums, &mut matrix, &mut vector)?);
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

fn sums(design: &Design, span: &Span, evidence: &[Evidence], positions: &mut Positions) -> Sums {
    let places = positions.places(design, span);
    let count = places.len();
    let (mut matrix, mut vector) = (DMatrix::<f64>::zeros(count, count), DVector::zeros(count));
    let mut row: Vec<(usize, f64)> = Vec::new();
    for cell in span.cells.clone() {
        let Evidence { mean, precision, .. } = evidence[cell];
        if precision <= 0.0 {
            continue;
        }
        row.clear();
        let entries = &design.entries[design.cells[cell].entries.clone()];
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

/// Takes a workload's own coefficients out of the equations of the shared ones.
fn eliminate(
    design: &Design,
    components: &Components,
    sums: &Sums,
    matrix: &mut DMatrix<f64>,
    vector: &mut DVector<f64>,
) -> Option<Own> {
    let local = |place: u16| components.local[design.layout.block(usize::from(place)) as usize];
    let own: Vec<u16> =
        (0_u16..).zip(&sums.places).filter(|(_, place)| local(**place) > 0.0).map(|(at, _)| at).collect();
    let rows = sums.matrix.select_rows(own.iter().map(|at| usize::from(*at)).collect::<Vec<_>>().iter());
    let mut inner = rows.select_columns(own.iter().map(|at| usize::from(*at)).collect::<Vec<_>>().iter());
    for (at, position) in own.iter().enumerate() {
        inner[(at, at)] += local(sums.places[usize::from(*position)]).recip();
    }
    let right = DVector::from_iterator(own.len(), own.iter().map(|at| sums.vector[usize::from(*at)]));
    let decomposed = decompose(inner)?;
    let carry = decomposed.solve(&rows);
    let values = decomposed.solve(&right);
    let left = &sums.matrix - rows.tr_mul(&carry);
    let left_vector = &sums.vector - carry.tr_mul(&right);
    for (one, place) in sums.places.iter().enumerate() {
        let place = usize::from(*place);
        vector[place] += left_vector[one];
        for (other, its) in sums.places.iter().enumerate() {
            matrix[(usize::from(*its), place)] += left[(other, one)];
        }
    }
    let inverse = decomposed.inverse();
    #[expect(clippy::cast_possible_truncation, reason = "seven digits of a covariance are enough")]
    let short =
        |matrix: DMatrix<f64>| matrix.transpose().iter().map(|value| *value as f32).collect::<Vec<f32>>();
    Some(Own {
        places: sums.places.clone(),
        own,
        values: values.iter().copied().collect(),
        inverse: short(inverse),
        carry: short(carry),
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
