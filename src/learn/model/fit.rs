//! Solves the equations of one response: again and again, since weights, cut-off runs and variances hang on the solution.

use nalgebra::{DMatrix, DVector};

use super::block::Block;
use super::design::{Design, Span, product};
use super::gather::Target;
use super::response::Response;
use super::solve::{Components, Equations, Evidence, Posterior, Said, Variance, solve};
use crate::foundation::statistics::normal_hazard;

/// Degrees of freedom of the runs' scatter: outliers happen, and Student's distribution knows it.
const RUN_FREEDOM: f64 = 4.0;
/// Variance of a normal distribution that is as wide at 90 % as Student's with four degrees of freedom, in units of its scale:
/// the square of 2.1318 / 1.6449.
pub(super) const RUN_WIDTH: f64 = 1.6797;
/// Believed cells and runs behind the variances of configurations and of runs.
const BELIEVED: f64 = 4.0;
/// Believed coefficients behind the variance of a block.
const BELIEVED_LEVELS: f64 = 1.0;
/// A run that something speaks against has this times the variance of others, until enough of them were met.
const DOUBT: f64 = 4.0;
/// Variances stay above this: clocks and schedulers scatter by more.
const LEAST_VARIANCE: f64 = 1e-6;

/// How often all runs are weighed by the solution of a part.
const LOOKS: usize = 2;

/// A response's equations on their way to a solution.
pub(super) struct State<'a> {
    pub(super) design: &'a Design,
    pub(super) response: Response,
    pub(super) components: Components,
    /// Believed mean of each coefficient.
    pub(super) means: Vec<f64>,
    pub(super) evidence: Vec<Evidence>,
    /// What the rows give, by cell; empty before the first solution.
    pub(super) rows: Vec<f64>,
    /// Of repeats, by span.
    pub(super) noise: Vec<Variance>,
    /// How much each cell's mean decides about its own row: 0 not at all, 1 alone.
    pub(super) leverage: Vec<f64>,
    pub(super) posterior: Option<Posterior>,
    /// What each workload says, by span.
    said: Vec<Said>,
}

impl<'a> State<'a> {
    pub(super) fn new(design: &'a Design, response: Response) -> Self {
        let (repeats, interaction) = response.scatter();
        let belief = |block: Block| response.belief(block);
        let by_block = |sd: &dyn Fn(Block) -> f64| {
            Block::ALL
                .map(|block| (sd(block).powi(2), BELIEVED_LEVELS))
                .to_vec()
        };
        let components = Components {
            global: by_block(&|block| belief(block).map_or(1.0, |belief| belief.sd)),
            local: by_block(&|block| belief(block).map_or(0.0, |belief| belief.local_sd)),
            interaction: (interaction * interaction, BELIEVED),
            noise: repeats * repeats,
            doubt: DOUBT,
        };
        let place_mean =
            |place: usize| belief(design.layout.block(place)).map_or(0.0, |belief| belief.mean);
        Self {
            design,
            response,
            means: (0..design.layout.keys.len()).map(place_mean).collect(),
            evidence: vec![Evidence::default(); design.cells.len()],
            rows: Vec::new(),
            noise: vec![(components.noise, BELIEVED); design.spans.len()],
            leverage: vec![0.0; design.cells.len()],
            posterior: None,
            said: Vec::new(),
            components,
        }
    }

    /// The same on all cells, where it was solved on a part of them: what that says of the shared coefficients is sure enough to weigh
    /// each workload's runs by themselves, so that all need be solved together only once. `None`: floating point does not suffice.
    pub(super) fn on_all(self, design: &Design) -> Option<State<'_>> {
        let mut all = State::new(design, self.response);
        all.noise.fill((self.components.noise, BELIEVED));
        all.components = self.components;
        let shared = self.posterior?.shared;
        for _ in 0..LOOKS {
            all.weigh_all();
            all.rows.clear();
            for span in &design.spans {
                let equations = Equations::of_span(design, span, &all.evidence, &all.components);
                let own = equations.own_values(&shared)?;
                add_rows(&mut all.rows, design, span, &shared, &own);
            }
            all.learn_noise();
        }
        all.weigh_all();
        let (components, means) = (&all.components, &all.means);
        all.posterior = Some(solve(design, components, means, &all.evidence, drop)?);
        Some(all)
    }

    /// Weighs the runs by the last solution and solves again. `None`: floating point does not suffice.
    pub(super) fn step(&mut self) -> Option<()> {
        self.weigh_all();
        self.said.clear();
        let State {
            design,
            components,
            means,
            evidence,
            said,
            ..
        } = self;
        let posterior = solve(design, components, means, evidence, |its| said.push(its))?;
        self.rows.clear();
        for (said, span) in self.said.iter().zip(&self.design.spans) {
            let own = said.own_values(&span.places, &posterior.shared);
            add_rows(&mut self.rows, self.design, span, &posterior.shared, &own);
        }
        self.posterior = Some(posterior);
        self.learn_noise();
        Some(())
    }

    fn weigh_all(&mut self) {
        for (at, span) in self.design.spans.iter().enumerate() {
            for cell in span.cells.clone() {
                self.evidence[cell] = self.weigh(cell, self.noise[at].0);
            }
        }
    }

    /// What a cell's runs give: the row, and what the configuration adds to it.
    fn expected(&self, cell: usize) -> f64 {
        let Evidence { mean, kept, .. } = self.evidence[cell];
        self.rows[cell] + kept * (mean - self.rows[cell])
    }

    fn scale(&self, target: &Target, noise: f64) -> f64 {
        if target.doubtful {
            noise * self.components.doubt
        } else {
            noise
        }
    }

    fn weigh(&self, cell: usize, noise: f64) -> Evidence {
        let expected = (!self.rows.is_empty()).then(|| self.expected(cell));
        let (mut weight, mut sum) = (0.0, 0.0);
        for target in &self.design.cells[cell].targets {
            let variance = self.scale(target, noise);
            let (own, y) = match (expected, target.censored) {
                (None, true) => continue,
                (None, false) => (1.0, target.y),
                (Some(expected), false) => (student(target.y - expected, variance), target.y),
                (Some(expected), true) => cut_off(target.y, expected, variance),
            };
            let own = own * f64::from(target.recency) * noise / variance;
            weight += own;
            sum += own * y;
        }
        if weight <= 1e-12 {
            return Evidence::default();
        }
        let spread = noise / weight;
        let (interaction, _) = self.components.interaction;
        Evidence {
            weight,
            mean: sum / weight,
            precision: (interaction + spread).recip(),
            kept: interaction / (interaction + spread),
        }
    }

    /// Variance of repeats: that of all workloads first, then each one's own around it.
    fn learn_noise(&mut self) {
        let squares: Vec<(f64, f64)> = (0..self.design.spans.len())
            .map(|span| self.squares(span))
            .collect();
        let (sum, runs) = squares
            .iter()
            .fold((0.0, 0.0), |(sum, runs), (a, b)| (sum + a, runs + b));
        let believed = self.response.scatter().0.powi(2);
        self.components.noise =
            ((BELIEVED * believed + sum) / (BELIEVED + runs)).max(LEAST_VARIANCE);
        for (at, (sum, runs)) in squares.into_iter().enumerate() {
            let noise = (BELIEVED * self.components.noise + sum) / (BELIEVED + runs);
            self.noise[at] = (noise.max(LEAST_VARIANCE), BELIEVED + runs);
        }
    }

    /// Weighted squares of what is left of a workload's runs, and how many of them are free to differ.
    fn squares(&self, span: usize) -> (f64, f64) {
        let (mut sum, mut free, noise) = (0.0, 0.0, self.noise[span].0);
        for cell in self.design.spans[span].cells.clone() {
            let Evidence { weight, kept, .. } = self.evidence[cell];
            if weight <= 0.0 {
                continue;
            }
            let expected = self.expected(cell);
            let mut runs = 0.0;
            let targets = &self.design.cells[cell].targets;
            for target in targets.iter().filter(|target| !target.censored) {
                let scale = self.scale(target, noise);
                let left = target.y - expected;
                sum += student(left, scale) * left * left * noise / scale;
                runs += 1.0;
            }
            let fixed = kept + (1.0 - kept) * self.leverage[cell];
            free += f64::max(runs - fixed, 0.0);
        }
        (sum, free)
    }

    /// Finds the variances under which the data are likeliest, given what is believed of them: one step.
    ///
    /// This is MacKay's fixed point: a block's squares over its number of well-determined coefficients. Returns the largest
    /// change of a variance, as a share of it.
    pub(super) fn learn_components(&mut self) -> f64 {
        let Some(posterior) = self.posterior.take() else {
            return 0.0;
        };
        let before = self.components.clone();
        let design = self.design;
        let (mut global, mut local) = ([(0.0, 0.0); Block::COUNT], [(0.0, 0.0); Block::COUNT]);
        for place in 0..design.layout.keys.len() {
            let block = design.layout.block(place) as usize;
            let value = posterior.shared[place];
            global[block].0 += value * value;
            global[block].1 +=
                1.0 - posterior.covariance[(place, place)] / self.components.global[block].0;
        }
        let all_said = std::mem::take(&mut self.said);
        for (said, span) in all_said.iter().zip(&design.spans) {
            let (covariance, variances) = said.joined_at(&posterior.covariance, &span.places);
            let values = said.own_values(&span.places, &posterior.shared);
            for (at, place) in span.places.iter().enumerate() {
                let block = design.layout.block(*place) as usize;
                if said.own[at] > 0.0 {
                    local[block].0 += values[at].powi(2);
                    local[block].1 += 1.0 - variances[at] / self.components.local[block].0;
                }
            }
            self.learn_leverage(span, &covariance);
        }
        let mut own_cells = (0.0, 0.0);
        for cell in 0..design.cells.len() {
            let its = self.evidence[cell];
            if its.precision > 0.0 {
                own_cells.0 += (its.kept * (its.mean - self.rows[cell])).powi(2);
                own_cells.1 += its.kept * (1.0 - self.leverage[cell]);
            }
        }
        for block in Block::ALL {
            let Some(belief) = self.response.belief(block) else {
                continue;
            };
            let at = block as usize;
            if !block.is_single() {
                self.components.global[at] = pooled(belief.sd, global[at]);
            }
            if belief.local_sd > 0.0 {
                self.components.local[at] = pooled(belief.local_sd, local[at]);
            }
        }
        let (squares, free) = own_cells;
        let believed = self.response.scatter().1.powi(2);
        let interaction = (BELIEVED * believed + squares) / (BELIEVED + free);
        self.components.interaction = (interaction.max(LEAST_VARIANCE), BELIEVED + free);
        self.learn_doubt();
        self.posterior = Some(posterior);
        let change = |((new, _), (old, _)): (&Variance, &Variance)| match *old > 0.0 {
            true => (new / old).ln().abs(),
            false => 0.0,
        };
        let now = &self.components;
        let blocks = now
            .global
            .iter()
            .zip(&before.global)
            .chain(now.local.iter().zip(&before.local));
        blocks
            .chain([(&now.interaction, &before.interaction)])
            .map(change)
            .fold(0.0, f64::max)
    }

    /// What each cell of a workload decides about its own row.
    fn learn_leverage(&mut self, span: &Span, covariance: &DMatrix<f64>) {
        for cell in span.cells.clone() {
            let row = &self.design.cells[cell].row;
            let leverage = self.evidence[cell].precision * spread(row, covariance);
            self.leverage[cell] = leverage.clamp(0.0, 1.0);
        }
    }

    /// What each cell decides about its own row, by the last solution.
    pub(super) fn learn_leverages(&mut self) {
        let Some(posterior) = self.posterior.take() else {
            return;
        };
        for (span, said) in self.design.spans.iter().zip(std::mem::take(&mut self.said)) {
            let joined = said.joined_at(&posterior.covariance, &span.places).0;
            self.learn_leverage(span, &joined);
        }
        self.posterior = Some(posterior);
    }

    /// By how much more the doubtful runs scatter than the others; five believed ones keep few from saying much.
    fn learn_doubt(&mut self) {
        const BELIEVED_RUNS: f64 = 5.0;
        let (mut squares, mut runs) = (BELIEVED_RUNS * DOUBT, BELIEVED_RUNS);
        for (at, span) in self.design.spans.iter().enumerate() {
            for cell in span.cells.clone() {
                let expected = self.rows[cell];
                let variance = self.noise[at].0 + self.components.interaction.0;
                let targets = self.design.cells[cell].targets.iter();
                for target in targets.filter(|target| target.doubtful && !target.censored) {
                    let left = target.y - expected;
                    let scale = variance * self.components.doubt;
                    squares += student(left, scale) * left * left / variance;
                    runs += 1.0;
                }
            }
        }
        self.components.doubt = (squares / runs).clamp(1.0, 100.0);
    }
}

/// Adds what the rows of a workload's cells give.
fn add_rows(
    rows: &mut Vec<f64>,
    design: &Design,
    span: &Span,
    shared: &DVector<f64>,
    own: &DVector<f64>,
) {
    let sums = shared.select_rows(&span.places) + own;
    let cells = &design.cells[span.cells.clone()];
    rows.extend(cells.iter().map(|cell| product(&cell.row, &sums)));
}

/// A variance out of squares and the number of coefficients that the data determine, with what rests on belief; and how much it
/// rests on in all.
fn pooled(believed_sd: f64, (squares, free): (f64, f64)) -> Variance {
    let freedom = BELIEVED_LEVELS + f64::max(free, 0.0);
    (
        ((BELIEVED_LEVELS * believed_sd * believed_sd + squares) / freedom).max(LEAST_VARIANCE),
        freedom,
    )
}

/// The variance of a row.
pub(super) fn spread(row: &[(u32, f32)], covariance: &DMatrix<f64>) -> f64 {
    let of = |(one, a): &(u32, f32)| {
        let column = covariance.column(*one as usize);
        let products = row
            .iter()
            .map(|(other, b)| f64::from(*b) * column[*other as usize]);
        f64::from(*a) * products.sum::<f64>()
    };
    row.iter().map(of).sum::<f64>().max(0.0)
}

/// The weight of a run under Student's distribution: what lies far off counts little.
pub(super) fn student(left: f64, variance: f64) -> f64 {
    (RUN_FREEDOM + 1.0) / (RUN_FREEDOM + left * left / variance)
}

/// A cut-off run as one that was seen to its end: with less weight the less it says. One step of Newton's on the likelihood of
/// what lies above the bound.
fn cut_off(bound: f64, expected: f64, variance: f64) -> (f64, f64) {
    let scale = variance.sqrt();
    let z = (bound - expected) / scale;
    let hazard = normal_hazard(z);
    let bend = hazard * (hazard - z);
    if bend < 1e-9 {
        (0.0, bound)
    } else {
        (bend.min(1.0), expected + scale * hazard / bend)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_that_is_long_exceeded_says_nothing_and_one_that_is_not_reached_pulls_up() {
        let (weight, _) = cut_off(0.0, 5.0, 0.01);
        assert!(weight < 1e-6, "{weight}");
        let (weight, y) = cut_off(1.0, 0.0, 0.01);
        assert!(weight > 0.9 && y >= 1.0, "{weight} {y}");
        let (weight, y) = cut_off(1.0, 1.0, 0.01);
        assert!(weight > 0.5 && weight < 0.7 && y > 1.1, "{weight} {y}");
    }
}
