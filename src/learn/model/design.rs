//! The equations of one response: columns, rows, and the values that they are compared with.

use std::collections::HashMap;

use nalgebra::DVector;
use serde::{Deserialize, Serialize};

use super::block::{Block, Centres, Term};
use super::facts::Facts;
use super::gather::{Group, Target, Value};
use super::recent::{Ahead, recent};
use super::response::Response;
use super::{Effect, Priors};
use crate::foundation::hash::Hash;
use crate::foundation::statistics::{median, mixed};
use crate::record::Shift;

/// No block gets more coefficients than this; rarer levels have none of their own.
const MOST_LEVELS: usize = 40;

/// Coefficients that all workloads share, in the order of their keys.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub(super) struct Layout {
    pub(super) keys: Vec<u64>,
    pub(super) centres: Centres,
}

impl Layout {
    /// The place of a coefficient; `None`: none was learned.
    pub(super) fn place(&self, key: u64) -> Option<usize> {
        self.keys.binary_search(&key).ok()
    }

    pub(super) fn block(&self, place: usize) -> Block {
        self.keys
            .get(place)
            .and_then(|key| Block::from_key(*key))
            .unwrap_or(Block::Intercept)
    }
}

/// Places of coefficients with their factors, ascending; those of a cell by their index among its workload's places.
pub(super) type Row = Vec<(u32, f32)>;

/// Runs with the same row: repeats.
#[derive(Debug, Clone)]
pub(super) struct Cell {
    /// Identifies workload and row.
    pub(super) key: u64,
    pub(super) row: Row,
    /// In the order of time.
    pub(super) targets: Vec<Target>,
    /// Why they are not all that there were.
    pub(super) shift: Option<Shift>,
    /// How well each run followed from those before it.
    pub(super) ahead: Vec<Ahead>,
}

/// A workload's cells.
#[derive(Debug, Clone)]
pub(super) struct Span {
    pub(super) workload: u64,
    /// Places of the coefficients that they meet, ascending.
    pub(super) places: Vec<usize>,
    pub(super) cells: std::ops::Range<usize>,
}

/// A published effect: the row of the one minus the row of the other.
#[derive(Debug, Clone)]
pub(super) struct Pseudo {
    pub(super) row: Row,
    pub(super) y: f64,
    pub(super) precision: f64,
}

/// The equations of one response.
#[derive(Debug, Default)]
pub(super) struct Design {
    pub(super) layout: Layout,
    pub(super) spans: Vec<Span>,
    pub(super) cells: Vec<Cell>,
    pub(super) pseudo: Vec<Pseudo>,
    /// Levels without a coefficient of their own.
    pub(super) pooled: u64,
}

/// Levels that were met, by their keys: the number of each in the order in which they came, and its runs.
type Levels = HashMap<u64, (usize, u64)>;

/// The key of a cell, out of all that its row holds.
pub(super) fn cell_key(workload: u64, terms: impl Iterator<Item = (u64, f64)>) -> u64 {
    terms
        .flat_map(|(key, value)| [key, value.to_bits()])
        .fold(Hash::new(8).number(workload), Hash::number)
        .end()
}

/// From so many steps from run to run on a workload's scatter is known.
const STEPS: usize = 8;

impl Design {
    pub(super) fn new(
        response: Response,
        groups: &[Group],
        mut values: Vec<Value>,
        priors: &Priors,
    ) -> Self {
        values.sort_by_key(|value| value.group);
        let of_group = |values: &[Value]| {
            let targets = values.iter().map(|value| value.target);
            (&groups[values[0].group as usize], targets.collect())
        };
        let chunks = values.chunk_by(|one, other| one.group == other.group);
        let groups: Vec<(&Group, Vec<Target>)> = chunks.map(of_group).collect();
        drop(values);
        let mut design = Self {
            layout: Layout {
                keys: Vec::new(),
                centres: centres(&groups),
            },
            ..Self::default()
        };
        let published = Some(&priors.effects).filter(|_| response == Response::Epoch);
        let centres = design.layout.centres;
        let mut levels = Levels::new();
        let mut row = |terms: &[(u64, f64)], runs: usize| -> Row {
            let met = |(key, value): &(u64, f64)| {
                let next = levels.len();
                let (number, all) = levels.entry(*key).or_insert((next, 0));
                *all += runs as u64;
                entry(*number, *value)
            };
            terms.iter().map(met).collect()
        };
        // What is published gets a coefficient wherever it may matter.
        let effect = |effect: &Effect| {
            let (a, b) = (Facts::new(&effect.a), Facts::new(&effect.b));
            Pseudo {
                row: row(&difference(response, &centres, &a, &b), 1),
                y: effect.time_ratio.ln(),
                precision: effect.sd.max(0.0).powi(-2),
            }
        };
        design.pseudo = published.into_iter().flatten().map(effect).collect();
        let cell = |(group, targets): (&Group, Vec<Target>)| {
            let terms = response.terms(&group.facts, &centres);
            let terms: Vec<_> = terms.map(|(_, term)| (term.key, term.value)).collect();
            let cell = Cell {
                key: cell_key(group.facts.workload, terms.iter().copied()),
                row: row(&terms, targets.len()),
                targets,
                shift: None,
                ahead: Vec::new(),
            };
            (group.facts.workload, cell)
        };
        let mut cells: Vec<(u64, Cell)> = groups.into_iter().map(cell).collect();
        let places = design.choose_columns(levels);
        let published = design.pseudo.iter_mut().map(|pseudo| &mut pseudo.row);
        for row in published.chain(cells.iter_mut().map(|(_, cell)| &mut cell.row)) {
            row.retain_mut(|(level, _)| {
                let place = places[*level as usize];
                *level = place.unwrap_or_default();
                place.is_some()
            });
            row.sort_unstable_by_key(|(place, _)| *place);
        }
        // A ratio or a scatter that is none says nothing.
        let says = |its: &Pseudo| !its.row.is_empty() && (its.y * its.precision).is_finite();
        design.pseudo.retain(says);
        design.add_cells(response, cells);
        design
    }

    /// Takes the commonest levels of each block as columns. Returns the place of each level, by its number.
    fn choose_columns(&mut self, levels: Levels) -> Vec<Option<u32>> {
        let mut places = vec![None; levels.len()];
        let mut levels: Vec<_> = levels
            .into_iter()
            .map(|(key, (number, runs))| (key >> 56, u64::MAX - runs, key, number))
            .collect();
        levels.sort_unstable();
        let mut chosen: Vec<(u64, usize)> = Vec::new();
        for same in levels.chunk_by(|one, other| one.0 == other.0) {
            let taken = &same[..same.len().min(MOST_LEVELS)];
            chosen.extend(taken.iter().map(|its| (its.2, its.3)));
            self.pooled += (same.len() - taken.len()) as u64;
        }
        chosen.sort_unstable();
        for (place, (_, number)) in (0..).zip(&chosen) {
            places[*number] = Some(place);
        }
        self.layout.keys = chosen.into_iter().map(|(key, _)| key).collect();
        places
    }

    /// Cells of groups that differ in nothing that matters here become one.
    fn add_cells(&mut self, response: Response, mut cells: Vec<(u64, Cell)>) {
        cells.sort_by_key(|(workload, cell)| (*workload, cell.key));
        for (workload, cell) in cells {
            let at = self.cells.len();
            if self
                .spans
                .last()
                .is_none_or(|span| span.workload != workload)
            {
                self.spans.push(Span {
                    workload,
                    places: Vec::new(),
                    cells: at..at,
                });
            }
            let span = self.spans.last_mut().expect("pushed where there was none");
            let same = self.cells[span.cells.clone()].last_mut();
            if let Some(same) = same.filter(|same| same.key == cell.key) {
                same.targets.extend(cell.targets);
                continue;
            }
            span.cells.end = at + 1;
            span.places
                .extend(cell.row.iter().map(|(place, _)| *place as usize));
            self.cells.push(cell);
        }
        for span in &mut self.spans {
            span.places.sort_unstable();
            span.places.dedup();
            span.places.shrink_to_fit();
            let sd = response
                .scatter()
                .0
                .max(scatter(&self.cells[span.cells.clone()]));
            for cell in &mut self.cells[span.cells.clone()] {
                (cell.shift, cell.ahead) = recent(&mut cell.targets, sd);
                for (place, value) in &mut cell.row {
                    let at = span
                        .places
                        .partition_point(|known| *known < *place as usize);
                    (*place, *value) = entry(at, (*value).into());
                }
            }
        }
    }

    /// Values that were seen to their end, but for the first of each cell.
    pub(super) fn repeats(&self) -> usize {
        let seen = |cell: &Cell| {
            cell.targets
                .iter()
                .filter(|target| !target.censored)
                .count()
        };
        let cells = self.cells.iter();
        cells.map(|cell| seen(cell).saturating_sub(1)).sum()
    }

    /// A part of the cells, the same for the same cells; `None`: they are `most` at most.
    ///
    /// Workloads are taken whole, so that what is their own shows, but for very large ones.
    pub(super) fn sample(&self, most: usize) -> Option<Self> {
        if self.cells.len() <= most {
            return None;
        }
        let mut order: Vec<&Span> = self.spans.iter().collect();
        order.sort_unstable_by_key(|span| mixed(span.workload));
        let mut sample = Self {
            layout: self.layout.clone(),
            pseudo: self.pseudo.clone(),
            ..Self::default()
        };
        // Workloads teach what workloads differ in: some forty of them, or all.
        let share = most / self.spans.len().clamp(1, 40);
        for span in order {
            let begin = sample.cells.len();
            if begin == most {
                break;
            }
            let mut cells: Vec<&Cell> = self.cells[span.cells.clone()].iter().collect();
            cells.sort_unstable_by_key(|cell| mixed(cell.key));
            let taken = cells.into_iter().take(share.min(most - begin));
            sample.cells.extend(taken.cloned());
            sample.spans.push(Span {
                cells: begin..sample.cells.len(),
                ..span.clone()
            });
        }
        Some(sample)
    }
}

/// By what a workload's repeats scatter: by how much each differs from the one before, which a shift changes once. 0: there are few.
fn scatter(cells: &[Cell]) -> f64 {
    let steps = |cell: &Cell| {
        let sure = cell.targets.iter().filter(|target| target.is_sure());
        let mut sure: Vec<(u64, f64)> = sure.map(|target| (target.at_ms, target.y)).collect();
        sure.sort_by(|one, other| one.0.cmp(&other.0).then(one.1.total_cmp(&other.1)));
        let step = |two: &[(u64, f64)]| (two[1].1 - two[0].1).abs();
        sure.windows(2).map(step).collect::<Vec<f64>>()
    };
    let steps: Vec<f64> = cells.iter().flat_map(steps).collect();
    let are_enough = steps.len() >= STEPS;
    // Of a normal distribution half of the steps are smaller than 0.954 standard deviations.
    median(steps).filter(|_| are_enough).unwrap_or_default() / 0.954
}

/// A place with its factor, as a row holds them.
#[expect(
    clippy::cast_possible_truncation,
    reason = "places are some hundreds, factors small multiples of 1/128 and their squares"
)]
pub(super) fn entry(place: usize, factor: f64) -> (u32, f32) {
    (place as u32, factor as f32)
}

/// The sum of a row's factors with what they multiply.
pub(super) fn product(row: &[(u32, f32)], with: &DVector<f64>) -> f64 {
    let products = row
        .iter()
        .map(|(at, value)| f64::from(*value) * with[*at as usize]);
    products.sum()
}

/// The middle of each size over all runs.
fn centres(groups: &[(&Group, Vec<Target>)]) -> Centres {
    let mut centres = Centres::default();
    for size in Block::ALL.into_iter().filter_map(Block::centred_size) {
        // Sums of whole steps are the same in any order.
        let (mut sum, mut weight) = (0.0, 0.0);
        for (group, targets) in groups {
            if let Some(value) = group.facts.size(size) {
                sum += value * targets.len() as f64;
                weight += targets.len() as f64;
            }
        }
        if weight > 0.0 {
            // Rounded, so that the keys of cells do not depend on the last bit.
            centres.0[size as usize] = Some((sum / weight * 64.0_f64).round() / 64.0);
        }
    }
    centres
}

/// What differs between two situations, by the keys of coefficients. What is unknown of either says nothing.
pub(super) fn difference(
    response: Response,
    centres: &Centres,
    a: &Facts,
    b: &Facts,
) -> Vec<(u64, f64)> {
    let mut sums: HashMap<u64, f64> = HashMap::new();
    for (facts, sign) in [(a, 1.0), (b, -1.0)] {
        let is_sure = |(block, _): &(Block, Term)| block.is_single() || block.is_known(facts);
        for (_, term) in response.terms(facts, centres).filter(is_sure) {
            *sums.entry(term.key).or_default() += sign * term.value;
        }
    }
    let mut sums: Vec<(u64, f64)> = sums.into_iter().collect();
    sums.retain(|(_, value)| *value != 0.0);
    sums.sort_unstable_by_key(|(key, _)| *key);
    sums
}
