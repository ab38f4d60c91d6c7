//! The exact solution of the linear equations, workload by workload.
//!
//! Coefficients that all workloads share meet those of a workload only in that workload's runs. Integrated over the own ones, the
//! runs of a workload are normally distributed around what the shared ones give, with the covariance V = K + D: K of the own ones, D
//! of what repeats and configurations add. All that they say of the shared ones is RᵀV⁻¹R and RᵀV⁻¹y, with R their rows and y their
//! values. Summed up over the workloads that is solved for the shared ones, and the own ones follow.

use nalgebra::{Cholesky, DMatrix, DVector, Dyn};
use serde::{Deserialize, Serialize};

use super::design::{Design, Layout, Pseudo, Row, Span, product};

/// A variance, and how many coefficients or runs it rests on, believed ones included.
pub(super) type Variance = (f64, f64);

/// Variances: how much the coefficients of a block differ, and the runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Components {
    /// Of the shared coefficients, by block.
    pub(super) global: Vec<Variance>,
    /// Of workloads' own coefficients, by block; 0: there are none.
    pub(super) local: Vec<Variance>,
    /// Of what a configuration adds to its parts.
    pub(super) interaction: Variance,
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

/// The solution.
#[derive(Debug, Clone)]
pub(super) struct Posterior {
    /// Shared coefficients.
    pub(super) shared: DVector<f64>,
    /// Their covariance.
    pub(super) covariance: DMatrix<f64>,
}

/// Solves the equations, and passes on what each workload says. `None`: floating point does not suffice.
pub(super) fn solve(
    design: &Design,
    components: &Components,
    means: &[f64],
    evidence: &[Evidence],
    mut keep: impl FnMut(Said),
) -> Option<Posterior> {
    let (mut matrix, mut vector) = prior_equations(design, components, means);
    for span in &design.spans {
        let its = Equations::of_span(design, span, evidence, components).said()?;
        for (at, place) in span.places.iter().enumerate() {
            vector[*place] += its.vector[at];
            let mut column = matrix.column_mut(*place);
            for (other, other_place) in span.places.iter().enumerate().skip(at) {
                column[*other_place] += its.matrix[(other, at)];
            }
        }
        keep(its);
    }
    let decomposed = decompose(matrix)?;
    let (shared, covariance) = (decomposed.solve(&vector), decomposed.inverse());
    let mut values = shared.iter().chain(covariance.iter());
    values
        .all(|value| value.is_finite())
        .then_some(Posterior { shared, covariance })
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
        let (variance, _) = components.global[design.layout.block(place) as usize];
        let precision = variance.recip();
        matrix[(place, place)] += precision;
        vector[place] += precision * mean;
    }
    for Pseudo { row, y, precision } in &design.pseudo {
        add_row(&mut matrix, &mut vector, row, *precision, *y);
    }
    (matrix, vector)
}

/// Adds the normal equations of a row, whose places ascend: of the matrix the lower triangle.
fn add_row(
    matrix: &mut DMatrix<f64>,
    vector: &mut DVector<f64>,
    row: &[(u32, f32)],
    precision: f64,
    y: f64,
) {
    for (at, (one, a)) in row.iter().enumerate() {
        let weighted = precision * f64::from(*a);
        vector[*one as usize] += weighted * y;
        let mut column = matrix.column_mut(*one as usize);
        for (other, b) in &row[at..] {
            column[*other as usize] += weighted * f64::from(*b);
        }
    }
}

/// Decomposes a symmetric matrix, by its lower triangle. The diagonal of one that rounding has made indefinite is raised first.
fn decompose(matrix: DMatrix<f64>) -> Option<Cholesky<f64, Dyn>> {
    [0.0, 1e-12, 1e-9, 1e-6].into_iter().find_map(|lift| {
        let mut lifted = matrix.clone();
        for at in 0..lifted.nrows() {
            lifted[(at, at)] *= 1.0 + lift;
        }
        lifted.cholesky()
    })
}

/// The normal equations of a workload, where the own coefficients are among its places, and their part with what is believed of them,
/// decomposed.
type Normal = (DMatrix<f64>, DVector<f64>, Vec<usize>, Cholesky<f64, Dyn>);

/// A workload's runs as equations: of the places that they meet, ascending, and each cell's row by the indices of these.
pub(super) struct Equations<'a> {
    places: &'a [usize],
    /// Rows with what their runs say, those that have any.
    rows: Vec<(&'a Row, &'a Evidence)>,
    /// Variances of the workload's own coefficients, by place; 0: there is none, or no row has it.
    own: DVector<f64>,
}

/// What a workload's runs say of the shared coefficients, whatever its own ones are.
#[derive(Debug, Clone)]
pub(super) struct Said {
    /// Variances of the own coefficients, by place; 0: there is none.
    pub(super) own: DVector<f64>,
    /// RᵀV⁻¹R.
    matrix: DMatrix<f64>,
    /// RᵀV⁻¹y.
    vector: DVector<f64>,
}

impl<'a> Equations<'a> {
    pub(super) fn of_span(
        design: &'a Design,
        span: &'a Span,
        evidence: &'a [Evidence],
        components: &Components,
    ) -> Self {
        let cells = span.cells.clone();
        let rows = design.cells[cells.clone()].iter().map(|cell| &cell.row);
        let rows = rows.zip(&evidence[cells]);
        Self::new(&span.places, rows, &design.layout, components)
    }

    pub(super) fn new(
        places: &'a [usize],
        rows: impl Iterator<Item = (&'a Row, &'a Evidence)>,
        layout: &Layout,
        components: &Components,
    ) -> Self {
        let rows: Vec<_> = rows.filter(|(_, its)| its.precision > 0.0).collect();
        let mut own = DVector::zeros(places.len());
        for (at, _) in rows.iter().flat_map(|(row, _)| row.iter()) {
            let place = places[*at as usize];
            own[*at as usize] = components.local[layout.block(place) as usize].0;
        }
        Self { places, rows, own }
    }

    /// Fewer rows than own coefficients are quicker solved by their covariance V, more by the coefficients' normal equations.
    fn are_few(&self) -> bool {
        self.rows.len() < self.own.iter().filter(|variance| **variance > 0.0).count()
    }

    /// V, decomposed.
    fn spread(&self) -> Option<Cholesky<f64, Dyn>> {
        let count = self.rows.len();
        let (mut spread, mut scaled) = (DMatrix::zeros(count, count), self.own.clone());
        for (column, (row, evidence)) in self.rows.iter().enumerate() {
            scaled.fill(0.0);
            for (at, value) in row.iter() {
                scaled[*at as usize] = f64::from(*value) * self.own[*at as usize];
            }
            for (other, (row, _)) in self.rows.iter().enumerate().skip(column) {
                spread[(other, column)] = product(row, &scaled);
            }
            spread[(column, column)] += evidence.precision.recip();
        }
        decompose(spread)
    }

    /// The own coefficients by place, where the shared ones are known.
    pub(super) fn own_values(&self, shared: &DVector<f64>) -> Option<DVector<f64>> {
        let met = shared.select_rows(self.places);
        let mut values = DVector::zeros(self.own.len());
        if !self.are_few() {
            let (matrix, vector, own, inner) = self.normal()?;
            let left = (vector - matrix * met).select_rows(&own);
            for (at, value) in own.iter().zip(&inner.solve(&left)) {
                values[*at] = *value;
            }
            return Some(values);
        }
        let left = self
            .rows
            .iter()
            .map(|(row, its)| its.mean - product(row, &met));
        let left = self
            .spread()?
            .solve(&DVector::from_iterator(self.rows.len(), left));
        for ((row, _), left) in self.rows.iter().zip(&left) {
            for (at, value) in row.iter() {
                values[*at as usize] += self.own[*at as usize] * f64::from(*value) * left;
            }
        }
        Some(values)
    }

    /// What they say of the shared coefficients.
    pub(super) fn said(&self) -> Option<Said> {
        let (matrix, vector) = if self.are_few() {
            self.said_by_rows()?
        } else {
            self.said_by_coefficients()?
        };
        Some(Said {
            own: self.own.clone(),
            matrix,
            vector,
        })
    }

    fn said_by_rows(&self) -> Option<(DMatrix<f64>, DVector<f64>)> {
        let means = self.rows.iter().map(|(_, its)| its.mean);
        let mut means = DVector::from_iterator(self.rows.len(), means);
        let mut dense = DMatrix::zeros(self.rows.len(), self.places.len());
        for (number, (row, _)) in self.rows.iter().enumerate() {
            for (at, value) in row.iter() {
                dense[(number, *at as usize)] = f64::from(*value);
            }
        }
        let spread = self.spread()?;
        spread.l_dirty().solve_lower_triangular_mut(&mut dense);
        spread.l_dirty().solve_lower_triangular_mut(&mut means);
        let turned = dense.transpose();
        Some((&turned * &dense, turned * means))
    }

    fn said_by_coefficients(&self) -> Option<(DMatrix<f64>, DVector<f64>)> {
        let (matrix, vector, own, inner) = self.normal()?;
        let of_own = matrix.select_rows(&own);
        let turned = of_own.transpose();
        let left_vector = &vector - &turned * inner.solve(&vector.select_rows(&own));
        Some((matrix - turned * inner.solve(&of_own), left_vector))
    }

    fn normal(&self) -> Option<Normal> {
        let count = self.places.len();
        let (mut matrix, mut vector) = (DMatrix::zeros(count, count), DVector::zeros(count));
        for (row, its) in &self.rows {
            add_row(&mut matrix, &mut vector, row, its.precision, its.mean);
        }
        matrix.fill_upper_triangle_with_lower_triangle();
        let own: Vec<usize> = (0..count).filter(|at| self.own[*at] > 0.0).collect();
        let mut inner = matrix.select_rows(&own).select_columns(&own);
        for (at, position) in own.iter().enumerate() {
            inner[(at, at)] += self.own[*position].recip();
        }
        Some((matrix, vector, own, decompose(inner)?))
    }
}

impl Said {
    /// The own coefficients by place, where the shared ones are known.
    pub(super) fn own_values(&self, places: &[usize], shared: &DVector<f64>) -> DVector<f64> {
        let met = shared.select_rows(places);
        (&self.vector - &self.matrix * met).component_mul(&self.own)
    }

    /// As [`Self::joined`], of the workload's places alone.
    pub(super) fn joined_at(
        &self,
        covariance: &DMatrix<f64>,
        places: &[usize],
    ) -> (DMatrix<f64>, DVector<f64>) {
        let met = covariance.select_rows(places).select_columns(places);
        let at: Vec<usize> = (0..places.len()).collect();
        self.joined(met, &at)
    }

    /// The covariance of the sums of shared and own coefficients, and the variances of the own ones, by place. `covariance` is that
    /// of shared ones, `at` where in it the workload's places are.
    pub(super) fn joined(
        &self,
        covariance: DMatrix<f64>,
        at: &[usize],
    ) -> (DMatrix<f64>, DVector<f64>) {
        let carried = &self.matrix * covariance.select_rows(at);
        let open = carried.select_columns(at) * &self.matrix - &self.matrix;
        let own = &self.own;
        let mut joined = covariance;
        for (one, row) in at.iter().enumerate() {
            for column in 0..joined.ncols() {
                let moved = own[one] * carried[(one, column)];
                joined[(*row, column)] -= moved;
                joined[(column, *row)] -= moved;
            }
            for (other, column) in at.iter().enumerate() {
                joined[(*row, *column)] += own[one] * own[other] * open[(one, other)];
            }
            joined[(*row, *row)] += own[one];
        }
        let variances = own.zip_map(&open.diagonal(), |own, open| own + own * own * open);
        (joined, variances)
    }
}
