//! The equations of one response: columns, rows, and the values that they are compared with.

use super::Priors;
use super::block::{Block, Centres, Term};
use super::facts::Facts;
use super::gather::{Gathered, Group};
use super::hash::{Hash, OfHashes};
use super::response::Response;
use crate::foundation::statistics::mixed;

/// No block gets more coefficients than this; rarer levels have none of their own.
const MOST_LEVELS: usize = 40;

/// Coefficients that all workloads share, in the order of their keys.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Layout {
    pub(super) keys: Vec<u64>,
    pub(super) centres: Centres,
}

impl Layout {
    /// The place of a coefficient; `None`: none was learned.
    pub(super) fn place(&self, key: u64) -> Option<usize> {
        self.keys.binary_search(&key).ok()
    }

    /// The place of a block's only coefficient.
    pub(super) fn single(&self, block: Block) -> Option<usize> {
        self.place(block.key(0))
    }

    pub(super) fn block(&self, place: usize) -> Block {
        self.keys
            .get(place)
            .and_then(|key| Block::of(*key))
            .unwrap_or(Block::Intercept)
    }
}

/// A value that a row is compared with.
#[derive(Debug, Clone, Copy)]
pub(super) struct Target {
    pub(super) y: f64,
    pub(super) censored: bool,
    pub(super) doubtful: bool,
}

/// Runs with the same row: repeats.
#[derive(Debug, Clone)]
pub(super) struct Cell {
    /// Identifies workload and row.
    pub(super) key: u64,
    pub(super) entries: std::ops::Range<usize>,
    pub(super) targets: std::ops::Range<usize>,
}

/// A workload's cells.
#[derive(Debug, Clone)]
pub(super) struct Span {
    pub(super) workload: u64,
    pub(super) cells: std::ops::Range<usize>,
}

/// A published effect: the row of the one minus the row of the other.
#[derive(Debug, Clone)]
pub(super) struct Pseudo {
    pub(super) row: Vec<(usize, f64)>,
    pub(super) y: f64,
    pub(super) precision: f64,
}

/// The equations of one response.
#[derive(Debug, Default)]
pub(super) struct Design {
    pub(super) layout: Layout,
    pub(super) spans: Vec<Span>,
    pub(super) cells: Vec<Cell>,
    /// Places of coefficients with their factors, cell after cell, in the order of the places.
    pub(super) entries: Vec<(u16, f32)>,
    pub(super) targets: Vec<Target>,
    pub(super) pseudo: Vec<Pseudo>,
    /// Levels without a coefficient of their own.
    pub(super) pooled: u64,
}

/// The key of a cell, out of all that its row holds.
pub(super) fn cell_key<'a>(workload: u64, terms: impl Iterator<Item = &'a (Block, Term)>) -> u64 {
    terms
        .flat_map(|(_, term)| [term.key, term.value.to_bits()])
        .fold(Hash::new(8).number(workload), Hash::number)
        .end()
}

impl Design {
    pub(super) fn new(response: Response, gathered: &Gathered, priors: &Priors) -> Self {
        let values = &gathered.values[response as usize];
        let mut count = vec![0_u32; gathered.groups.len()];
        for value in values {
            count[value.group as usize] += 1;
        }
        let centres = centres(&gathered.groups, &count);
        let mut design = Self {
            layout: Layout {
                keys: Vec::new(),
                centres,
            },
            ..Self::default()
        };
        let published = if response == Response::Epoch {
            &priors.effects[..]
        } else {
            &[]
        };
        let pairs: Vec<(Facts, Facts)> = published
            .iter()
            .map(|effect| (Facts::new(&effect.a), Facts::new(&effect.b)))
            .collect();
        design.choose_columns(response, gathered, &count, &pairs);
        for ((a, b), effect) in pairs.iter().zip(published) {
            let row = design.difference(response, a, b);
            let y = effect.time_ratio.ln();
            if !row.is_empty() && y.is_finite() && effect.sd > 0.0 {
                design.pseudo.push(Pseudo {
                    row,
                    y,
                    precision: (effect.sd * effect.sd).recip(),
                });
            }
        }
        design.add_cells(response, gathered, &count);
        design
    }

    fn choose_columns(
        &mut self,
        response: Response,
        gathered: &Gathered,
        count: &[u32],
        pairs: &[(Facts, Facts)],
    ) {
        let mut runs: OfHashes<u64> = OfHashes::default();
        for (group, count) in gathered.groups.iter().zip(count).filter(|(_, n)| **n > 0) {
            for (_, term) in response.terms(&group.facts, &self.layout.centres) {
                *runs.entry(term.key).or_default() += u64::from(*count);
            }
        }
        // What is published gets a coefficient wherever it may matter.
        for (a, b) in pairs {
            for (key, _) in difference(response, &self.layout.centres, a, b) {
                *runs.entry(key).or_default() += 1;
            }
        }
        let mut levels: Vec<(u8, u64, u64)> = runs
            .into_iter()
            .map(|(key, runs)| {
                (
                    u8::try_from(key >> 56).unwrap_or(u8::MAX),
                    u64::MAX - runs,
                    key,
                )
            })
            .collect();
        levels.sort_unstable();
        let mut taken = [0_usize; Block::COUNT];
        for (block, _, key) in levels {
            let taken = &mut taken[usize::from(block)];
            *taken += 1;
            if *taken <= MOST_LEVELS {
                self.layout.keys.push(key);
            } else {
                self.pooled += 1;
            }
        }
        self.layout.keys.sort_unstable();
    }

    fn difference(&self, response: Response, a: &Facts, b: &Facts) -> Vec<(usize, f64)> {
        let keys = difference(response, &self.layout.centres, a, b);
        keys.into_iter()
            .filter_map(|(key, value)| Some((self.layout.place(key)?, value)))
            .collect()
    }

    fn add_cells(&mut self, response: Response, gathered: &Gathered, count: &[u32]) {
        // Groups that differ in nothing that matters here become one cell.
        let mut keyed: Vec<(u64, u64, u32)> = Vec::new();
        let centres = self.layout.centres;
        let terms = |facts: &Facts| -> Vec<_> { response.terms(facts, &centres).collect() };
        for ((at, group), _) in (0..)
            .zip(&gathered.groups)
            .zip(count)
            .filter(|(_, n)| **n > 0)
        {
            let Facts { workload, .. } = group.facts;
            keyed.push((workload, cell_key(workload, terms(&group.facts).iter()), at));
        }
        keyed.sort_unstable();
        let mut cell_of = vec![0_u32; gathered.groups.len()];
        let mut cells: Vec<Cell> = Vec::new();
        for (workload, key, group) in keyed {
            if cells.last().is_none_or(|cell| cell.key != key) {
                let begin = self.entries.len();
                for (_, term) in terms(&gathered.groups[group as usize].facts) {
                    if let Some(place) = self.layout.place(term.key) {
                        #[expect(
                            clippy::cast_possible_truncation,
                            reason = "a factor needs seven digits"
                        )]
                        let factor = term.value as f32;
                        let place = u16::try_from(place).unwrap_or(u16::MAX);
                        self.entries.push((place, factor));
                    }
                }
                self.entries[begin..].sort_unstable_by_key(|entry| entry.0);
                if self
                    .spans
                    .last()
                    .is_none_or(|span| span.workload != workload)
                {
                    self.spans.push(Span {
                        workload,
                        cells: cells.len()..cells.len(),
                    });
                }
                cells.push(Cell {
                    key,
                    entries: begin..self.entries.len(),
                    targets: 0..0,
                });
                if let Some(span) = self.spans.last_mut() {
                    span.cells.end = cells.len();
                }
            }
            cell_of[group as usize] = u32::try_from(cells.len() - 1).unwrap_or(u32::MAX);
        }
        self.cells = cells;
        self.add_targets(response, gathered, &cell_of);
    }

    fn add_targets(&mut self, response: Response, gathered: &Gathered, cell_of: &[u32]) {
        let values = &gathered.values[response as usize];
        let mut order: Vec<(u32, bool, bool, u64)> = values
            .iter()
            .map(|value| {
                (
                    cell_of[value.group as usize],
                    value.censored,
                    value.doubtful,
                    value.y.to_bits(),
                )
            })
            .collect();
        order.sort_unstable();
        for (cell, censored, doubtful, bits) in order {
            let at = self.targets.len();
            let targets = &mut self.cells[cell as usize].targets;
            if targets.end == 0 {
                *targets = at..at;
            }
            targets.end = at + 1;
            self.targets.push(Target {
                y: f64::from_bits(bits),
                censored,
                doubtful,
            });
        }
    }
}

impl Design {
    /// Values that were seen to their end, but for the first of each cell.
    pub(super) fn repeats(&self) -> usize {
        let seen = |cell: &Cell| {
            self.targets[cell.targets.clone()]
                .iter()
                .filter(|target| !target.censored)
                .count()
        };
        self.cells
            .iter()
            .map(|cell| seen(cell).saturating_sub(1))
            .sum()
    }

    /// A part of the cells, the same for the same cells; `None`: there are no more than so many.
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
            let left = most.saturating_sub(sample.cells.len());
            if left == 0 {
                break;
            }
            let mut cells: Vec<usize> = span.cells.clone().collect();
            cells.sort_unstable_by_key(|cell| mixed(self.cells[*cell].key));
            cells.truncate(left.min(share));
            sample.take(self, span.workload, &cells);
        }
        Some(sample)
    }

    fn take(&mut self, from: &Self, workload: u64, cells: &[usize]) {
        let begin = self.cells.len();
        for cell in cells {
            let Cell {
                key,
                entries,
                targets,
            } = from.cells[*cell].clone();
            let (entry, target) = (self.entries.len(), self.targets.len());
            self.entries.extend_from_slice(&from.entries[entries]);
            self.targets.extend_from_slice(&from.targets[targets]);
            self.cells.push(Cell {
                key,
                entries: entry..self.entries.len(),
                targets: target..self.targets.len(),
            });
        }
        self.spans.push(Span {
            workload,
            cells: begin..self.cells.len(),
        });
    }
}

/// The middle of each size over all runs.
fn centres(groups: &[Group], count: &[u32]) -> Centres {
    let mut centres = Centres::default();
    for size in Block::ALL.into_iter().filter_map(Block::centred_size) {
        // Sums of whole steps are the same in any order.
        let known = groups
            .iter()
            .zip(count)
            .filter_map(|(group, count)| Some((group.facts.size(size)?, f64::from(*count))));
        let (sum, weight) = known.fold((0.0, 0.0), |(sum, weight), (value, count)| {
            (sum + value * count, weight + count)
        });
        if weight > 0.0 {
            // Rounded, so that the keys of cells do not hang on the last bit.
            centres.0[size as usize] = Some((sum / weight * 64.0).round() / 64.0);
        }
    }
    centres
}

/// What differs between two situations. What is unknown of either says nothing.
pub(super) fn difference(
    response: Response,
    centres: &Centres,
    a: &Facts,
    b: &Facts,
) -> Vec<(u64, f64)> {
    let mut found: Vec<(u64, f64)> = Vec::new();
    for (facts, sign) in [(a, 1.0), (b, -1.0)] {
        let sure = |(block, _): &(Block, Term)| block.is_single() || block.is_told(facts);
        let terms = response.terms(facts, centres).filter(sure);
        found.extend(terms.map(|(_, term)| (term.key, sign * term.value)));
    }
    found.sort_by_key(|(key, _)| *key);
    let mut sums: Vec<(u64, f64)> = Vec::new();
    for (key, value) in found {
        match sums.last_mut() {
            Some(last) if last.0 == key => last.1 += value,
            _ => sums.push((key, value)),
        }
    }
    sums.retain(|(_, value)| *value != 0.0);
    sums
}
