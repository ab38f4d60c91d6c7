//! What was learned, as comparisons that people know: how much longer with the one than with the other.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use nalgebra::{DMatrix, DVector};
use serde::{Deserialize, Serialize};

use super::block::Block;
use super::design::{Row, difference, entry, product};
use super::facts::{Facts, Word};
use super::fit::{State, spread};
use super::gather::{Gathered, Group};
use super::solve::Equations;
use crate::foundation::statistics::Z95;

/// What a model has learned, with what supports each part.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Default)]
pub struct Explanation {
    /// Comparisons: how much longer an epoch takes with the one than with the other.
    pub effects: Vec<LearnedEffect>,
}

/// How much longer an epoch takes with one thing than with another, all else the same.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LearnedEffect {
    /// What is compared: `compiler`, `framework`, `version`, `provenance`, `precision`, `storage` or `hardware`.
    pub kind: String,
    /// The one.
    pub this: String,
    /// The other.
    pub than: String,
    /// Where: such as `tensorflow on cpu`; empty: everywhere.
    pub within: String,
    /// The workload that it is of; `None`: one that was never measured.
    pub workload: Option<String>,
    /// The time with the one divided by the time with the other.
    pub time_ratio: RatioInterval,
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

/// Workloads whose own effects are reported: those with the most configurations.
const WORKLOADS: usize = 20;

/// A kind of comparison: the word that differs, what both sides share, the side to compare with where it was measured, and the
/// blocks that say something of it.
type Kind = (Word, Option<Word>, &'static str, &'static [Block]);

const KINDS: [Kind; 7] = [
    (
        Word::Compiler,
        Some(Word::Framework),
        "none",
        &[Block::CompilerDevice, Block::Software],
    ),
    (
        Word::Framework,
        Some(Word::Compiler),
        "",
        &[Block::Framework, Block::Software],
    ),
    (Word::Version, Some(Word::Framework), "", &[Block::Version]),
    (
        Word::Provenance,
        Some(Word::Framework),
        "hub",
        &[Block::Provenance, Block::ProvenanceFramework],
    ),
    (Word::Precision, None, "fp32", &[Block::PrecisionDevice]),
    (Word::Storage, None, "common", &[Block::Storage]),
    (Word::Hardware, None, "", &[Block::Hardware]),
];

/// The runs with a name: how many, and the commonest of their configurations with how common it is.
struct Level {
    runs: u64,
    facts: Facts,
    commonest: u32,
}

/// Coefficients with their covariance: those that all workloads share, or those of a workload.
struct Known {
    workload: Option<u64>,
    places: Vec<usize>,
    values: DVector<f64>,
    covariance: DMatrix<f64>,
}

/// The effects of all kinds, as a workload that was never measured has them, and those of software in the largest workloads.
pub(super) fn explain(state: &State<'_>, gathered: &Gathered) -> Explanation {
    let Some(posterior) = &state.posterior else {
        return Explanation::default();
    };
    let shared = Known {
        workload: None,
        places: (0..posterior.shared.len()).collect(),
        values: posterior.shared.clone(),
        covariance: posterior.covariance.clone(),
    };
    let mut effects = effects(state, gathered, &shared);
    let mut spans: Vec<_> = state.design.spans.iter().collect();
    spans.sort_by_key(|span| (Reverse(span.cells.len()), span.workload));
    for span in spans.into_iter().take(WORKLOADS) {
        let equations = Equations::of_span(state.design, span, &state.evidence, &state.components);
        let Some(said) = equations.said() else {
            continue;
        };
        let own = said.own_values(&span.places, &posterior.shared);
        let known = Known {
            workload: Some(span.workload),
            values: posterior.shared.select_rows(&span.places) + own,
            covariance: said.joined_at(&posterior.covariance, &span.places).0,
            places: span.places.clone(),
        };
        effects.extend(self::effects(state, gathered, &known));
    }
    Explanation { effects }
}

fn effects(state: &State<'_>, gathered: &Gathered, known: &Known) -> Vec<LearnedEffect> {
    let mut effects = Vec::new();
    let is_its = |group: &&Group| {
        let workload = group.facts.workload;
        group.runs > 0 && known.workload.is_none_or(|its| its == workload)
    };
    let groups: Vec<&Group> = gathered.groups.iter().filter(is_its).collect();
    let is_of_software = |word| matches!(word, Word::Compiler | Word::Framework | Word::Version);
    let is_meant = |kind: &&Kind| known.workload.is_none() || is_of_software(kind.0);
    for kind in KINDS.iter().filter(is_meant) {
        let (word, within, usual, blocks) = *kind;
        let is_by_device = blocks.iter().any(|block| block.is_by_device());
        let mut found: BTreeMap<(u64, bool), BTreeMap<u64, Level>> = BTreeMap::new();
        for group in groups.iter().filter(|group| group.facts.word(word) != 0) {
            let (facts, runs) = (group.facts, group.runs);
            let shared = within.map_or(0, |word| facts.word(word));
            let levels = found
                .entry((shared, is_by_device && facts.gpu))
                .or_default();
            let level = levels.entry(facts.word(word)).or_insert(Level {
                runs: 0,
                facts,
                commonest: 0,
            });
            level.runs += u64::from(runs);
            if (runs, Reverse(facts)) > (level.commonest, Reverse(level.facts)) {
                (level.commonest, level.facts) = (runs, facts);
            }
        }
        for levels in found.values() {
            let is_usual = |hash: &u64| gathered.name(*hash) == usual;
            let rank =
                |(hash, level): &(&u64, &Level)| (is_usual(hash), level.runs, Reverse(**hash));
            let Some((than, other)) = levels.iter().max_by_key(rank) else {
                continue;
            };
            let levels = levels.iter().filter(|(hash, _)| *hash != than);
            effects.extend(
                levels.filter_map(|(_, level)| effect(state, gathered, known, kind, level, other)),
            );
        }
    }
    effects
}

/// What differs between a name's commonest configuration and the same with the other's name; `None`: no coefficient says.
fn effect(
    state: &State<'_>,
    gathered: &Gathered,
    known: &Known,
    (word, within, _, blocks): &Kind,
    this: &Level,
    than: &Level,
) -> Option<LearnedEffect> {
    let layout = &state.design.layout;
    let other = this.facts.with_word(*word, than.facts.word(*word));
    let keys = difference(state.response, &layout.centres, &this.facts, &other);
    let is_own = known.workload.is_some() && *word != Word::Version;
    let keys = keys.into_iter().filter(|(key, _)| {
        let block = Block::from_key(*key);
        block.is_some_and(|block| {
            blocks.contains(&block) || is_own && block == Block::FamilySoftware
        })
    });
    let row: Option<Row> = keys
        .filter_map(|(key, value)| Some((layout.place(key)?, value)))
        .map(|(place, value)| Some(entry(known.places.binary_search(&place).ok()?, value)))
        .collect();
    let row = row.filter(|row| !row.is_empty())?;
    let mean = product(&row, &known.values);
    let half = Z95 * spread(&row, &known.covariance).sqrt();
    // Nothing is 10^130 times as quick; the number must stay one.
    let exp = |logarithm: f64| logarithm.clamp(-300.0, 300.0).exp();
    let name = |facts: &Facts, word: Word| gathered.name(facts.word(word)).to_owned();
    let shared = within.map(|word| match word {
        Word::Compiler => format!("compiler {}", name(&this.facts, word)),
        _ => name(&this.facts, word),
    });
    let device = if this.facts.gpu { "on GPU" } else { "on CPU" };
    let is_by_device = blocks.iter().any(|block| block.is_by_device());
    let device = is_by_device.then(|| device.to_owned());
    let within: Vec<String> = shared.into_iter().chain(device).collect();
    Some(LearnedEffect {
        kind: word.as_str().to_owned(),
        this: name(&this.facts, *word),
        than: name(&than.facts, *word),
        within: within.join(" "),
        workload: known.workload.map(|hash| gathered.name(hash).to_owned()),
        time_ratio: RatioInterval {
            median: exp(mean),
            low: exp(mean - half),
            high: exp(mean + half),
        },
        runs_this: this.runs,
        runs_than: than.runs,
    })
}
