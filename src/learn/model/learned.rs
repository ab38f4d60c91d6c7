//! What was learned, as comparisons that people know: how much longer with the one than with the other.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use nalgebra::{DMatrix, DVector};

use super::block::Block;
use super::chance::Z95;
use super::design::difference;
use super::explanation::{Explanation, LearnedEffect, RatioInterval, Spread};
use super::facts::{Facts, Size, Word};
use super::fit::State;
use super::gather::Gathered;
use super::hash::OfHashes;
use super::solve::{Own, invert, prior_equations};

/// Workloads whose own effects are told: those with the most runs.
const WORKLOADS: usize = 20;
/// Effects of workloads, at most.
const MOST: usize = 400;

/// A kind of comparison: the word that differs, and the blocks that say something of it.
struct Kind {
    name: &'static str,
    word: Word,
    /// What both sides share.
    within: Option<Word>,
    by_device: bool,
    /// The side to compare with, where it was measured.
    usual: Option<&'static str>,
    blocks: &'static [Block],
}

const KINDS: [Kind; 7] = [
    Kind {
        name: "compiler",
        word: Word::Compiler,
        within: Some(Word::Framework),
        by_device: true,
        usual: Some("none"),
        blocks: &[Block::CompilerDevice, Block::Software],
    },
    Kind {
        name: "framework",
        word: Word::Framework,
        within: Some(Word::Compiler),
        by_device: true,
        usual: None,
        blocks: &[Block::Framework, Block::Software],
    },
    Kind {
        name: "version",
        word: Word::Version,
        within: Some(Word::Framework),
        by_device: false,
        usual: None,
        blocks: &[Block::Version],
    },
    Kind {
        name: "provenance",
        word: Word::Provenance,
        within: Some(Word::Framework),
        by_device: false,
        usual: Some("hub"),
        blocks: &[Block::Provenance, Block::ProvenanceFramework],
    },
    Kind {
        name: "precision",
        word: Word::Precision,
        within: None,
        by_device: true,
        usual: Some("fp32"),
        blocks: &[Block::PrecisionDevice],
    },
    Kind {
        name: "storage",
        word: Word::Storage,
        within: None,
        by_device: false,
        usual: Some("common"),
        blocks: &[Block::Storage],
    },
    Kind {
        name: "hardware",
        word: Word::Hardware,
        within: None,
        by_device: true,
        usual: None,
        blocks: &[Block::Hardware],
    },
];

/// What it means to have twice as much: kind, the one, the other, and what the row holds.
type Slope = (
    &'static str,
    &'static str,
    &'static str,
    &'static [(Block, f64)],
);

const SLOPES: [Slope; 4] = [
    (
        "batch",
        "twice the batch size of a worker",
        "once",
        &[(Block::Batch, std::f64::consts::LN_2)],
    ),
    (
        "threads",
        "twice the threads",
        "once",
        &[(Block::Threads, std::f64::consts::LN_2)],
    ),
    (
        "workers",
        "two workers",
        "one",
        &[
            (Block::Workers, std::f64::consts::LN_2),
            (
                Block::WorkersSquared,
                std::f64::consts::LN_2 * std::f64::consts::LN_2,
            ),
        ],
    ),
    (
        "nodes",
        "the same workers on two nodes",
        "one",
        &[
            (Block::ManyNodes, 1.0),
            (Block::Nodes, std::f64::consts::LN_2),
        ],
    ),
];

/// Says what was learned.
pub(super) fn explain(state: &State<'_>, gathered: &Gathered) -> Explanation {
    let Some(posterior) = &state.posterior else {
        return Explanation::default();
    };
    // Before the first run the variances are those that are believed.
    let believed = State::new(state.design, state.response);
    let (matrix, vector) = prior_equations(state.design, &believed.components, &believed.means);
    let published = Shared::of_published(state, invert(matrix, &vector));
    let learner = Learner {
        state,
        gathered,
        all: Shared {
            values: &posterior.shared,
            covariance: &posterior.covariance,
        },
        published,
    };
    let mut effects: Vec<LearnedEffect> = KINDS
        .iter()
        .flat_map(|kind| learner.of_kind(kind))
        .collect();
    effects.extend(learner.slopes());
    effects.extend(learner.of_workloads());
    Explanation {
        effects,
        spreads: spreads(state),
    }
}

struct Shared<'a> {
    values: &'a DVector<f64>,
    covariance: &'a DMatrix<f64>,
}

/// What priors say by themselves, and of which coefficients.
struct Published {
    values: DVector<f64>,
    covariance: DMatrix<f64>,
    told: Vec<bool>,
}

impl Shared<'_> {
    fn of_published(
        state: &State<'_>,
        solution: Option<(DVector<f64>, DMatrix<f64>)>,
    ) -> Option<Published> {
        let (values, covariance) = solution?;
        let mut told = vec![false; values.len()];
        for (place, _) in state.design.pseudo.iter().flat_map(|pseudo| &pseudo.row) {
            told[*place] = true;
        }
        Some(Published {
            values,
            covariance,
            told,
        })
    }
}

struct Learner<'a> {
    state: &'a State<'a>,
    gathered: &'a Gathered,
    all: Shared<'a>,
    published: Option<Published>,
}

/// The runs with a level.
struct Level {
    runs: u64,
    /// The commonest of their configurations, and how common it is.
    facts: Facts,
    commonest: u32,
}

/// By the name's hash.
type Levels = BTreeMap<u64, Level>;

impl Learner<'_> {
    fn name(&self, hash: u64) -> String {
        self.gathered
            .names
            .get(&hash)
            .cloned()
            .unwrap_or_else(|| "unknown".to_owned())
    }

    /// The levels of a kind, by what both sides share.
    fn levels<'f>(
        kind: &Kind,
        groups: impl Iterator<Item = (&'f Facts, &'f u32)>,
    ) -> BTreeMap<[u64; 2], Levels> {
        let mut found: BTreeMap<[u64; 2], Levels> = BTreeMap::new();
        for (facts, runs) in groups.filter(|(_, runs)| **runs > 0) {
            let within = kind.within.map_or(0, |word| facts.word(word));
            let shared = [within, u64::from(kind.by_device && facts.gpu)];
            if facts.word(kind.word) == 0 {
                continue;
            }
            let levels = found.entry(shared).or_default();
            let level = levels.entry(facts.word(kind.word)).or_insert(Level {
                runs: 0,
                facts: *facts,
                commonest: 0,
            });
            level.runs += u64::from(*runs);
            if (*runs, Reverse(*facts)) > (level.commonest, Reverse(level.facts)) {
                (level.commonest, level.facts) = (*runs, *facts);
            }
        }
        found
    }

    /// Each level against the usual one, else against the commonest.
    fn pairs<'l>(&self, kind: &Kind, levels: &'l Levels) -> Vec<(&'l Level, &'l Level)> {
        let named = |hash: &u64| kind.usual.is_some_and(|usual| self.name(*hash) == usual);
        let than = levels.iter().find(|(hash, _)| named(hash)).or_else(|| {
            levels
                .iter()
                .max_by_key(|(hash, level)| (level.runs, Reverse(**hash)))
        });
        let Some((than, other)) = than else {
            return Vec::new();
        };
        levels
            .iter()
            .filter(|(hash, _)| *hash != than)
            .map(|(_, level)| (level, other))
            .collect()
    }

    fn within(&self, kind: &Kind, facts: &Facts) -> String {
        let mut parts: Vec<String> = Vec::new();
        if let Some(word) = kind.within {
            let name = self.name(facts.word(word));
            parts.push(if word == Word::Compiler {
                format!("compiler {name}")
            } else {
                name
            });
        }
        if kind.by_device {
            parts.push(if facts.gpu { "on GPU" } else { "on CPU" }.to_owned());
        }
        parts.join(" ")
    }

    fn of_kind(&self, kind: &Kind) -> Vec<LearnedEffect> {
        let mut found = Vec::new();
        let groups = self.gathered.groups.iter().zip(&self.gathered.runs);
        for levels in Self::levels(kind, groups).values() {
            for (this, than) in self.pairs(kind, levels) {
                let row = self.row(kind, this, than, |block| kind.blocks.contains(&block));
                if !row.is_empty() {
                    let time_ratio = ratio(&row, self.all.values, self.all.covariance);
                    found.push(self.effect(kind, this, than, time_ratio, self.priors_alone(&row)));
                }
            }
        }
        found
    }

    fn effect(
        &self,
        kind: &Kind,
        this: &Level,
        than: &Level,
        time_ratio: RatioInterval,
        priors_alone: Option<RatioInterval>,
    ) -> LearnedEffect {
        LearnedEffect {
            kind: kind.name.to_owned(),
            this: self.name(this.facts.word(kind.word)),
            than: self.name(than.facts.word(kind.word)),
            within: self.within(kind, &this.facts),
            workload: None,
            time_ratio,
            priors_alone,
            runs_this: this.runs,
            runs_than: than.runs,
        }
    }

    /// What differs between a level's commonest configuration and the same with the other's name.
    fn row(
        &self,
        kind: &Kind,
        this: &Level,
        than: &Level,
        of: impl Fn(Block) -> bool,
    ) -> Vec<(usize, f64)> {
        let layout = &self.state.design.layout;
        let other = this.facts.with_word(kind.word, than.facts.word(kind.word));
        let keys = difference(self.state.response, &layout.centres, &this.facts, &other);
        let place = |(key, value): (u64, f64)| {
            Block::of(key)
                .is_some_and(&of)
                .then(|| Some((layout.place(key)?, value)))
                .flatten()
        };
        keys.into_iter().filter_map(place).collect()
    }

    fn priors_alone(&self, row: &[(usize, f64)]) -> Option<RatioInterval> {
        let published = self.published.as_ref()?;
        let told = row.iter().any(|(place, _)| published.told[*place]);
        told.then(|| ratio(row, &published.values, &published.covariance))
    }

    fn slopes(&self) -> Vec<LearnedEffect> {
        let sizes = [Size::Batch, Size::Threads, Size::Workers, Size::Nodes];
        let mut found = Vec::new();
        for ((kind, this, than, parts), size) in SLOPES.into_iter().zip(sizes) {
            // A size that never changed says nothing of itself.
            let groups = || {
                self.gathered
                    .groups
                    .iter()
                    .zip(&self.gathered.runs)
                    .filter(|(_, runs)| **runs > 0)
            };
            let sizes =
                || groups().filter_map(|(facts, runs)| Some((facts.size(size)?, u64::from(*runs))));
            let (low, high) = sizes().fold((f64::MAX, f64::MIN), |(low, high), (size, _)| {
                (low.min(size), high.max(size))
            });
            if low >= high {
                continue;
            }
            let layout = &self.state.design.layout;
            let row: Vec<(usize, f64)> = parts
                .iter()
                .filter_map(|(block, value)| Some((layout.single(*block)?, *value)))
                .collect();
            let runs = |of: &dyn Fn(f64) -> bool| {
                sizes()
                    .filter(|(size, _)| of(*size))
                    .map(|(_, runs)| runs)
                    .sum()
            };
            found.push(LearnedEffect {
                kind: kind.to_owned(),
                this: this.to_owned(),
                than: than.to_owned(),
                within: String::new(),
                workload: None,
                time_ratio: ratio(&row, self.all.values, self.all.covariance),
                priors_alone: self.priors_alone(&row),
                runs_this: runs(&|size| size > low),
                runs_than: runs(&|size| size <= low),
            });
        }
        found
    }

    /// What choosing software does to each of the commonest workloads, as far as it was measured there.
    fn of_workloads(&self) -> Vec<LearnedEffect> {
        let Some(posterior) = &self.state.posterior else {
            return Vec::new();
        };
        let mut runs: OfHashes<u64> = OfHashes::default();
        for (facts, count) in self.gathered.groups.iter().zip(&self.gathered.runs) {
            *runs.entry(facts.workload).or_default() += u64::from(*count);
        }
        let mut order: Vec<(u64, u64)> = runs
            .into_iter()
            .map(|(workload, runs)| (u64::MAX - runs, workload))
            .collect();
        order.sort_unstable();
        order.truncate(WORKLOADS);
        let mut groups: BTreeMap<u64, Vec<usize>> = order
            .iter()
            .map(|(_, workload)| (*workload, Vec::new()))
            .collect();
        for (at, facts) in self.gathered.groups.iter().enumerate() {
            if let Some(groups) = groups.get_mut(&facts.workload) {
                groups.push(at);
            }
        }
        let mut found = Vec::new();
        for (_, workload) in order {
            let Some(span) = self
                .state
                .design
                .spans
                .iter()
                .position(|span| span.workload == workload)
            else {
                continue;
            };
            found.extend(self.of_workload(workload, &posterior.own[span], &groups[&workload]));
            if found.len() >= MOST {
                break;
            }
        }
        found
    }

    /// `groups`: those of the workload.
    fn of_workload(&self, workload: u64, own: &Own, groups: &[usize]) -> Vec<LearnedEffect> {
        let local = own.local(&self.state.design.layout, &self.state.components);
        let joined = own.joined(&local, self.all.values, self.all.covariance);
        let values = DVector::from_column_slice(&joined.values);
        let software =
            |kind: &&Kind| matches!(kind.word, Word::Compiler | Word::Framework | Word::Version);
        let mut found = Vec::new();
        for kind in KINDS.iter().filter(software) {
            let groups = groups
                .iter()
                .map(|at| (&self.gathered.groups[*at], &self.gathered.runs[*at]));
            for levels in Self::levels(kind, groups).values() {
                for (this, than) in self.pairs(kind, levels) {
                    let row = self.row(kind, this, than, |block| {
                        kind.blocks.contains(&block)
                            || (block == Block::FamilySoftware && kind.word != Word::Version)
                    });
                    let position = |(place, value): &(usize, f64)| {
                        let position = own
                            .places
                            .iter()
                            .position(|its| usize::from(*its) == *place)?;
                        Some((position, *value))
                    };
                    let Some(own_row) = row.iter().map(position).collect::<Option<Vec<_>>>() else {
                        continue;
                    };
                    if !own_row.is_empty() {
                        let time_ratio = ratio(&own_row, &values, &joined.covariance);
                        let effect =
                            self.effect(kind, this, than, time_ratio, self.priors_alone(&row));
                        found.push(LearnedEffect {
                            workload: Some(self.name(workload)),
                            ..effect
                        });
                    }
                }
            }
        }
        found
    }
}

fn ratio(row: &[(usize, f64)], values: &DVector<f64>, covariance: &DMatrix<f64>) -> RatioInterval {
    let mean: f64 = row
        .iter()
        .map(|(place, value)| value * values[*place])
        .sum();
    let variance: f64 = row
        .iter()
        .flat_map(|(one, a)| {
            row.iter()
                .map(move |(other, b)| a * b * covariance[(*one, *other)])
        })
        .sum();
    let half = Z95 * variance.max(0.0).sqrt();
    // Nothing is 10^130 times as quick; the number must stay one.
    let exp = |logarithm: f64| logarithm.clamp(-300.0, 300.0).exp();
    RatioInterval {
        median: exp(mean),
        low: exp(mean - half),
        high: exp(mean + half),
    }
}

fn spreads(state: &State<'_>) -> Vec<Spread> {
    let components = &state.components;
    let mut members = [0_u64; Block::COUNT];
    (0..state.design.layout.keys.len())
        .for_each(|place| members[state.design.layout.block(place) as usize] += 1);
    let mut own = [0_u64; Block::COUNT];
    for its in state.posterior.iter().flat_map(|posterior| &posterior.own) {
        for position in &its.own {
            own[state
                .design
                .layout
                .block(usize::from(its.places[usize::from(*position)]))
                as usize] += 1;
        }
    }
    let mut found = Vec::new();
    for block in Block::ALL {
        let at = block as usize;
        if !block.is_single() && members[at] > 1 {
            found.push(Spread {
                group: block.name().to_owned(),
                sd: components.global[at].sqrt(),
                members: members[at],
            });
        }
        if components.local[at] > 0.0 && own[at] > 1 {
            let group = if block == Block::Intercept {
                block.name().to_owned()
            } else {
                format!("{}, from workload to workload", block.name())
            };
            found.push(Spread {
                group,
                sd: components.local[at].sqrt(),
                members: own[at],
            });
        }
    }
    found.sort_by(|one, other| other.sd.total_cmp(&one.sd));
    found
}
