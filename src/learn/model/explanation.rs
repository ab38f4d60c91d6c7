//! What was learned, as comparisons that people know: how much longer with the one than with the other.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use nalgebra::{DMatrix, DVector};
use serde::{Deserialize, Serialize};

use super::block::Block;
use super::design::difference;
use super::facts::{Facts, Size, Word};
use super::fit::State;
use super::gather::Gathered;
use super::hash::OfHashes;
use super::solve::{Own, Posterior, invert, prior_equations};
use crate::foundation::statistics::Z95;

/// What a model has learned, with what supports each part.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Default)]
pub struct Explanation {
    /// Comparisons: how much longer an epoch takes with the one than with the other.
    pub effects: Vec<LearnedEffect>,
    /// By how much things differ from each other, largest first: where time goes with the choice, and where it does not.
    pub spreads: Vec<Spread>,
}

/// How much longer an epoch takes with one thing than with another, all else the same.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LearnedEffect {
    /// What is compared: `compiler`, `framework`, `version`, `provenance`, `precision`, `storage`, `hardware`, `batch`, `threads`,
    /// `workers` or `nodes`.
    pub kind: String,
    /// The one.
    pub this: String,
    /// The other.
    pub than: String,
    /// Where: such as `tensorflow on cpu`; empty: everywhere.
    pub within: String,
    /// The workload that it is of; `None`: a workload that was never measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workload: Option<String>,
    /// The time with the one divided by the time with the other.
    pub time_ratio: RatioInterval,
    /// What the priors alone say; `None` where they say nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priors_alone: Option<RatioInterval>,
    /// Runs with the one.
    pub runs_this: u64,
    /// Runs with the other.
    pub runs_than: u64,
}

/// A ratio of times with its 90 % interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct RatioInterval {
    /// As likely below as above.
    pub median: f64,
    /// One time in twenty it is below this.
    pub low: f64,
    /// One time in twenty it is above this.
    pub high: f64,
}

/// By how much the members of a group differ.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// Which group: such as `compiler with framework on device, of a workload`.
    pub group: String,
    /// Standard deviation of the natural logarithm of an epoch's time among its members.
    pub sd: f64,
    /// How many members were measured.
    pub members: u64,
}

/// Workloads whose own effects are reported: those with the most runs.
const WORKLOADS: usize = 20;
/// Effects of workloads, at most.
const MOST: usize = 400;

/// A kind of comparison: the word that differs, and the blocks that say something of it.
struct Kind {
    word: Word,
    /// What both sides share.
    within: Option<Word>,
    /// The side to compare with, where it was measured.
    usual: Option<&'static str>,
    blocks: &'static [Block],
}

const fn kind(
    word: Word,
    within: Option<Word>,
    usual: Option<&'static str>,
    blocks: &'static [Block],
) -> Kind {
    Kind {
        word,
        within,
        usual,
        blocks,
    }
}

const OF_COMPILER: [Block; 2] = [Block::CompilerDevice, Block::Software];
const OF_FRAMEWORK: [Block; 2] = [Block::Framework, Block::Software];
const OF_PROVENANCE: [Block; 2] = [Block::Provenance, Block::ProvenanceFramework];
const FRAMEWORK: Option<Word> = Some(Word::Framework);

const KINDS: [Kind; 7] = [
    kind(Word::Compiler, FRAMEWORK, Some("none"), &OF_COMPILER),
    kind(Word::Framework, Some(Word::Compiler), None, &OF_FRAMEWORK),
    kind(Word::Version, FRAMEWORK, None, &[Block::Version]),
    kind(Word::Provenance, FRAMEWORK, Some("hub"), &OF_PROVENANCE),
    kind(
        Word::Precision,
        None,
        Some("fp32"),
        &[Block::PrecisionDevice],
    ),
    kind(Word::Storage, None, Some("common"), &[Block::Storage]),
    kind(Word::Hardware, None, None, &[Block::Hardware]),
];

impl Kind {
    fn is_by_device(&self) -> bool {
        self.blocks.iter().any(|block| block.is_by_device())
    }
}

/// What it means to have twice as much of a size: kind, the one, the other, and what the row holds.
type Slope = (
    Size,
    &'static str,
    &'static str,
    &'static str,
    &'static [(Block, f64)],
);

const LN_2: f64 = std::f64::consts::LN_2;
const SLOPES: [Slope; 4] = [
    (
        Size::Batch,
        "batch",
        "twice the batch size of a worker",
        "once",
        &[(Block::Batch, LN_2)],
    ),
    (
        Size::Threads,
        "threads",
        "twice the threads",
        "once",
        &[(Block::Threads, LN_2)],
    ),
    (
        Size::Workers,
        "workers",
        "two workers",
        "one",
        &[(Block::Workers, LN_2), (Block::WorkersSquared, LN_2 * LN_2)],
    ),
    (
        Size::Nodes,
        "nodes",
        "the same workers on two nodes",
        "one",
        &[(Block::ManyNodes, 1.0), (Block::Nodes, LN_2)],
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
    let learner = Learner {
        state,
        gathered,
        posterior,
        published: invert(matrix, &vector),
    };
    let shared = Known {
        workload: None,
        places: None,
        values: posterior.shared.clone(),
        covariance: &posterior.covariance,
    };
    let mut effects: Vec<LearnedEffect> = KINDS
        .iter()
        .flat_map(|kind| learner.effects_of(kind, &shared))
        .collect();
    effects.extend(SLOPES.iter().filter_map(|slope| learner.slope(slope)));
    effects.extend(learner.effects_of_workloads());
    Explanation {
        effects,
        spreads: spreads(state, posterior),
    }
}

struct Learner<'a> {
    state: &'a State<'a>,
    gathered: &'a Gathered,
    posterior: &'a Posterior,
    /// What priors say by themselves: coefficients with their covariance.
    published: Option<(DVector<f64>, DMatrix<f64>)>,
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

/// The levels of a kind, by what both sides share.
fn levels<'f>(
    kind: &Kind,
    groups: impl Iterator<Item = (&'f Facts, &'f u32)>,
) -> BTreeMap<[u64; 2], Levels> {
    let mut found: BTreeMap<[u64; 2], Levels> = BTreeMap::new();
    let counts = |(facts, runs): &(&Facts, &u32)| **runs > 0 && facts.word(kind.word) != 0;
    for (facts, runs) in groups.filter(counts) {
        let within = kind.within.map_or(0, |word| facts.word(word));
        let shared = [within, u64::from(kind.is_by_device() && facts.gpu)];
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

impl Learner<'_> {
    fn name(&self, hash: u64) -> String {
        let known = self.gathered.names.get(&hash).cloned();
        known.unwrap_or_else(|| "unknown".to_owned())
    }

    /// The groups of runs, with how many of each were seen to their end.
    fn groups(&self) -> impl Iterator<Item = (&Facts, &u32)> {
        let groups = self.gathered.groups.iter();
        groups.map(|group| (&group.facts, &group.runs))
    }

    /// Each level against the usual one, else against the commonest.
    fn pairs<'l>(&self, kind: &Kind, levels: &'l Levels) -> Vec<(&'l Level, &'l Level)> {
        let named = |hash: &u64| kind.usual.is_some_and(|usual| self.name(*hash) == usual);
        let usual = levels.iter().find(|(hash, _)| named(hash));
        let commonest = || {
            levels
                .iter()
                .max_by_key(|(hash, level)| (level.runs, Reverse(**hash)))
        };
        let Some((than, other)) = usual.or_else(commonest) else {
            return Vec::new();
        };
        levels
            .iter()
            .filter(|(hash, _)| *hash != than)
            .map(|(_, level)| (level, other))
            .collect()
    }

    /// The effects of a kind, over all runs or those of a workload.
    fn effects_of(&self, kind: &Kind, known: &Known<'_>) -> Vec<LearnedEffect> {
        let is_meant = |facts: &Facts| known.workload.is_none_or(|its| facts.workload == its);
        let groups = self.groups().filter(|(facts, _)| is_meant(facts));
        let mut found = Vec::new();
        for levels in levels(kind, groups).values() {
            for (this, than) in self.pairs(kind, levels) {
                let row = self.row(kind, this, than, known.workload.is_some());
                let position =
                    |(place, value): &(usize, f64)| Some((known.position(*place)?, *value));
                let own_row: Option<Vec<_>> = row.iter().map(position).collect();
                if let Some(own_row) = own_row.filter(|row| !row.is_empty()) {
                    let time_ratio = ratio(&own_row, &known.values, known.covariance);
                    found.push(LearnedEffect {
                        workload: known.workload.map(|its| self.name(its)),
                        ..self.effect(kind, this, than, time_ratio, &row)
                    });
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
        row: &[(usize, f64)],
    ) -> LearnedEffect {
        let within = kind.within.map(|word| {
            let name = self.name(this.facts.word(word));
            match word {
                Word::Compiler => format!("compiler {name}"),
                _ => name,
            }
        });
        let device = if this.facts.gpu { "on GPU" } else { "on CPU" };
        let device = kind.is_by_device().then(|| device.to_owned());
        let within: Vec<String> = within.into_iter().chain(device).collect();
        LearnedEffect {
            kind: kind.word.as_str().to_owned(),
            this: self.name(this.facts.word(kind.word)),
            than: self.name(than.facts.word(kind.word)),
            within: within.join(" "),
            workload: None,
            time_ratio,
            priors_alone: self.priors_alone(row),
            runs_this: this.runs,
            runs_than: than.runs,
        }
    }

    /// What differs between a level's commonest configuration and the same with the other's name.
    fn row(&self, kind: &Kind, this: &Level, than: &Level, of_workload: bool) -> Vec<(usize, f64)> {
        let counts = |block: Block| {
            let is_own = of_workload && kind.word != Word::Version;
            kind.blocks.contains(&block) || (is_own && block == Block::FamilySoftware)
        };
        let layout = &self.state.design.layout;
        let other = this.facts.with_word(kind.word, than.facts.word(kind.word));
        let keys = difference(self.state.response, &layout.centres, &this.facts, &other);
        keys.into_iter()
            .filter(|(key, _)| Block::of(*key).is_some_and(counts))
            .filter_map(|(key, value)| Some((layout.place(key)?, value)))
            .collect()
    }

    fn priors_alone(&self, row: &[(usize, f64)]) -> Option<RatioInterval> {
        let (values, covariance) = self.published.as_ref()?;
        let published = self.state.design.pseudo.iter().flat_map(|its| &its.row);
        let is_published = |place: usize| published.clone().any(|(its, _)| *its == place);
        row.iter()
            .any(|(place, _)| is_published(*place))
            .then(|| ratio(row, values, covariance))
    }

    /// What twice as much of a size means; `None`: it never changed, and so says nothing of itself.
    fn slope(&self, (size, kind, this, than, parts): &Slope) -> Option<LearnedEffect> {
        let sizes = || {
            self.groups()
                .filter(|(_, runs)| **runs > 0)
                .filter_map(|(facts, runs)| Some((facts.size(*size)?, u64::from(*runs))))
        };
        let low = sizes().map(|(size, _)| size).reduce(f64::min)?;
        let above: u64 = sizes()
            .filter(|(size, _)| *size > low)
            .map(|(_, runs)| runs)
            .sum();
        let all: u64 = sizes().map(|(_, runs)| runs).sum();
        let layout = &self.state.design.layout;
        let row: Vec<(usize, f64)> = parts
            .iter()
            .filter_map(|(block, value)| Some((layout.single(*block)?, *value)))
            .collect();
        let Posterior {
            shared, covariance, ..
        } = self.posterior;
        (above > 0).then(|| LearnedEffect {
            kind: (*kind).to_owned(),
            this: (*this).to_owned(),
            than: (*than).to_owned(),
            within: String::new(),
            workload: None,
            time_ratio: ratio(&row, shared, covariance),
            priors_alone: self.priors_alone(&row),
            runs_this: above,
            runs_than: all - above,
        })
    }

    /// What choosing software does to each of the commonest workloads, as far as it was measured there.
    fn effects_of_workloads(&self) -> Vec<LearnedEffect> {
        let mut runs: OfHashes<u64> = OfHashes::default();
        for (facts, count) in self.groups() {
            *runs.entry(facts.workload).or_default() += u64::from(*count);
        }
        let mut order: Vec<(Reverse<u64>, u64)> = runs
            .into_iter()
            .map(|(workload, runs)| (Reverse(runs), workload))
            .collect();
        order.sort_unstable();
        let mut found = Vec::new();
        for (_, workload) in order.into_iter().take(WORKLOADS) {
            let spans = &self.state.design.spans;
            let span = spans.iter().position(|span| span.workload == workload);
            if let Some(span) = span {
                found.extend(self.effects_of_workload(workload, &self.posterior.own[span]));
            }
            if found.len() >= MOST {
                break;
            }
        }
        found
    }

    fn effects_of_workload(&self, workload: u64, own: &Own) -> Vec<LearnedEffect> {
        let local = own.local(&self.state.design.layout, &self.state.components);
        let joined = own.joined(&local, &self.posterior.shared, &self.posterior.covariance);
        let known = Known {
            workload: Some(workload),
            places: Some(&own.places),
            values: DVector::from_column_slice(&joined.values),
            covariance: &joined.covariance,
        };
        let software = [Word::Compiler, Word::Framework, Word::Version];
        KINDS
            .iter()
            .filter(|kind| software.contains(&kind.word))
            .flat_map(|kind| self.effects_of(kind, &known))
            .collect()
    }
}

/// Coefficients with their covariance: those that all workloads share, or those of a workload.
struct Known<'a> {
    workload: Option<u64>,
    /// The coefficients that the workload's runs meet; `None`: all, in their order.
    places: Option<&'a [u16]>,
    values: DVector<f64>,
    covariance: &'a DMatrix<f64>,
}

impl Known<'_> {
    fn position(&self, place: usize) -> Option<usize> {
        match self.places {
            Some(places) => places.iter().position(|its| usize::from(*its) == place),
            None => Some(place),
        }
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

fn spreads(state: &State<'_>, posterior: &Posterior) -> Vec<Spread> {
    let components = &state.components;
    let mut members = [0_u64; Block::COUNT];
    (0..state.design.layout.keys.len())
        .for_each(|place| members[state.design.layout.block(place) as usize] += 1);
    let mut own = [0_u64; Block::COUNT];
    for its in &posterior.own {
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
                group: block.as_str().to_owned(),
                sd: components.global[at].sqrt(),
                members: members[at],
            });
        }
        if components.local[at] > 0.0 && own[at] > 1 {
            let group = if block == Block::Intercept {
                block.as_str().to_owned()
            } else {
                format!("{}, from workload to workload", block.as_str())
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
