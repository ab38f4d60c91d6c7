//! The exact solution of the linear equations, workload by workload.
//!
//! Coefficients that all workloads share meet those of a workload only in that workload's runs, so the matrix of the normal
//! equations has the form of an arrow. Each workload's own block is eliminated (its Schur complement), what is left is solved for
//! the shared ones, and the own ones follow.

use nalgebra::{Cholesky, DMatrix, DVector, Dyn};
use serde::{Deserialize, Serialize};

use super::design::{Design, Layout, Row};

/// Variances: how much the coefficients of a block differ, and the runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Components {
    /// Of the shared coefficients, by block.
    pub(super) global: Vec<f64>,
    /// How many coefficients that rests on, believed ones included.
    pub(super) global_freedom: Vec<f64>,
    /// Of workloads' own coefficients, by block; 0: there are none.
    pub(super) local: Vec<f64>,
    pub(super) local_freedom: Vec<f64>,
    /// Of what a configuration adds to its parts.
    pub(super) interaction: f64,
    pub(super) interaction_freedom: f64,
    /// Of repeats, over all workloads.
    pub(super) noise: f64,
    /// Variance of a run that something speaks against, as a multiple of that of others.
    pub(super) doubt: f64,
}

/// What the runs of a cell say together.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
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
#[derive(Debug, Clone)]
pub(super) struct Own {
    /// Places of the shared coefficients that its runs meet, ascending.
    pub(super) places: Vec<usize>,
    /// Those of them of which it has an own one, as indices into `places`.
    pub(super) own: Vec<usize>,
    /// The own ones.
    pub(super) values: DVector<f64>,
    /// Their covariance, were the shared ones known.
    pub(super) inverse: DMatrix<f64>,
    /// By how much an own one falls where a shared one rises: a row for each own one, a column for each of `places`.
    pub(super) carry: DMatrix<f64>,
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

/// Solves the equations. `None`: floating point does not suffice.
pub(super) fn solve(
    design: &Design,
    components: &Components,
    means: &[f64],
    evidence: &[Evidence],
) -> Option<Posterior> {
    let (mut matrix, mut vector) = prior_equations(design, components, means);
    let mut own = Vec::with_capacity(design.spans.len());
    for span in &design.spans {
        let rows = design.cells[span.cells.clone()]
            .iter()
            .map(|cell| &cell.row);
        let rows: Vec<_> = rows.zip(&evidence[span.cells.clone()]).collect();
        let (its, left, left_vector) = Own::eliminated(&rows, &design.layout, components)?;
        for (at, place) in its.places.iter().enumerate() {
            vector[*place] += left_vector[at];
            for (other, other_place) in its.places.iter().enumerate() {
                matrix[(*other_place, *place)] += left[(other, at)];
            }
        }
        own.push(its);
    }
    let decomposed = decompose(matrix)?;
    let (shared, covariance) = (decomposed.solve(&vector), decomposed.inverse());
    own.iter_mut().for_each(|own| own.settle(shared.as_slice()));
    let is_finite = shared
        .iter()
        .chain(covariance.iter())
        .all(|value| value.is_finite());
    is_finite.then_some(Posterior {
        shared,
        covariance,
        own,
    })
}

/// The shared part before the first run: beliefs and what was published.
fn prior_equations(
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
        add_row(
            &mut matrix,
            &mut vector,
            &pseudo.row,
            pseudo.precision,
            pseudo.y,
        );
    }
    (matrix, vector)
}

/// Adds the normal equations of a row.
fn add_row(
    matrix: &mut DMatrix<f64>,
    vector: &mut DVector<f64>,
    row: &[(usize, f64)],
    precision: f64,
    y: f64,
) {
    for (one, a) in row {
        vector[*one] += precision * a * y;
        for (other, b) in row {
            matrix[(*other, *one)] += precision * a * b;
        }
    }
}

/// Decomposes a symmetric matrix. One that rounding has made indefinite is helped up first.
fn decompose(matrix: DMatrix<f64>) -> Option<Cholesky<f64, Dyn>> {
    [0.0, 1e-12, 1e-9, 1e-6].into_iter().find_map(|lift| {
        let mut lifted = matrix.clone();
        for at in 0..lifted.nrows() {
            lifted[(at, at)] *= 1.0 + lift;
        }
        lifted.cholesky()
    })
}

/// A row by the index of each place among those of a workload.
pub(super) fn positions(places: &[usize], row: &[(usize, f64)]) -> Row {
    let position =
        |(place, value): &(usize, f64)| Some((places.binary_search(place).ok()?, *value));
    row.iter().filter_map(position).collect()
}

impl Own {
    /// Takes a workload's own coefficients out of the equations of the shared ones: what is known of them as if the shared ones were
    /// 0, and what the workload's runs say of the shared ones that they meet, as a matrix and a vector.
    pub(super) fn eliminated(
        rows: &[(&Row, &Evidence)],
        layout: &Layout,
        components: &Components,
    ) -> Option<(Self, DMatrix<f64>, DVector<f64>)> {
        let mut places: Vec<usize> = rows
            .iter()
            .flat_map(|(row, _)| row.iter().map(|(place, _)| *place))
            .collect();
        places.sort_unstable();
        places.dedup();
        let count = places.len();
        let (mut matrix, mut vector) = (DMatrix::zeros(count, count), DVector::zeros(count));
        for (row, evidence) in rows.iter().filter(|(_, its)| its.precision > 0.0) {
            let row = positions(&places, row);
            add_row(
                &mut matrix,
                &mut vector,
                &row,
                evidence.precision,
                evidence.mean,
            );
        }
        let variance = |at: usize| components.local[layout.block(places[at]) as usize];
        let own: Vec<usize> = (0..count).filter(|at| variance(*at) > 0.0).collect();
        let of_own = matrix.select_rows(&own);
        let mut inner = of_own.select_columns(&own);
        for (at, position) in own.iter().enumerate() {
            inner[(at, at)] += variance(*position).recip();
        }
        let inverse = decompose(inner)?.inverse();
        let (carry, values) = (&inverse * &of_own, &inverse * vector.select_rows(&own));
        let (left, left_vector) = (
            matrix - of_own.tr_mul(&carry),
            vector - of_own.tr_mul(&values),
        );
        let own = Self {
            places,
            own,
            values,
            inverse,
            carry,
        };
        Some((own, left, left_vector))
    }

    /// Sets the own coefficients once the shared ones are known.
    pub(super) fn settle(&mut self, shared: &[f64]) {
        let met = self.places.iter().map(|place| shared[*place]);
        self.values -= &self.carry * DVector::from_iterator(self.places.len(), met);
    }

    /// The covariance of the sums of shared and own coefficients, by the workload's places; and the variances of the own ones.
    pub(super) fn joined(&self, covariance: &DMatrix<f64>) -> (DMatrix<f64>, DVector<f64>) {
        let met = covariance
            .select_rows(&self.places)
            .select_columns(&self.places);
        let own_variances =
            (&self.carry * &met * self.carry.transpose() + &self.inverse).diagonal();
        let count = self.places.len();
        let mut moved = DMatrix::identity(count, count);
        for (at, position) in self.own.iter().enumerate() {
            let mut row = moved.row_mut(*position);
            row -= self.carry.row(at);
        }
        let mut joined = &moved * met * moved.transpose();
        for (at, one) in self.own.iter().enumerate() {
            for (other_at, other) in self.own.iter().enumerate() {
                joined[(*one, *other)] += self.inverse[(at, other_at)];
            }
        }
        (joined, own_variances)
    }
}
