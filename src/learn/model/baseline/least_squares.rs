//! A plain linear regression of the logarithm, without interactions and without pooling.

use std::collections::BTreeMap;

use nalgebra::{DMatrix, DVector};

use super::{LEAST_SD, LONE_SD, Traits, ln_samples, moments, timed};
use crate::learn::model::evaluate::{Predict, log_normal};
use crate::learn::model::{Observation, Situation};

/// The commonest words get a column each.
const MOST_COLUMNS: usize = 300;
/// As if each coefficient had been seen to be 0 with a thousandth of a run's weight: so that it can be solved at all.
const RIDGE: f64 = 1e-3;

/// Kinds of words.
const KINDS: usize = 9;

/// Which column a word has, by its kind.
type Columns = BTreeMap<(usize, u64), usize>;

/// The columns of one run that are not 0.
fn row(traits: &Traits, columns: &Columns) -> Vec<(usize, f64)> {
    let sizes = traits.sizes.iter().enumerate();
    let sizes = sizes.filter_map(|(at, size)| Some((1 + at, (*size)?)));
    let words = traits.words.iter().enumerate();
    let words = words.filter_map(|key| Some((*columns.get(&(key.0, *key.1))?, 1.0)));
    let several_nodes = traits.sizes[3]
        .filter(|nodes| *nodes > 0.0)
        .map(|_| (5, 1.0));
    std::iter::once((0, 1.0))
        .chain(sizes)
        .chain(several_nodes)
        .chain(words)
        .collect()
}

fn columns_of(known: &[(Traits, f64)]) -> Columns {
    let mut counts: BTreeMap<(usize, u64), usize> = BTreeMap::new();
    for (traits, _) in known {
        for (kind, word) in traits.words.iter().enumerate() {
            *counts.entry((kind, *word)).or_default() += 1;
        }
    }
    let mut ranked: Vec<((usize, u64), usize)> = counts.into_iter().collect();
    ranked.sort_by_key(|(key, count)| (std::cmp::Reverse(*count), *key));
    ranked
        .into_iter()
        .take(MOST_COLUMNS)
        .enumerate()
        .map(|(rank, (key, _))| (key, 6 + rank))
        .collect()
}

pub(super) fn regression(train: &[&Observation]) -> Predict<'static> {
    let known: Vec<(Traits, f64)> = timed(train)
        .into_iter()
        .map(|(situation, ln)| (Traits::of(situation), ln))
        .collect();
    let columns = columns_of(&known);
    let width = 6 + columns.len();
    let mut normal = DMatrix::<f64>::identity(width, width) * RIDGE;
    let mut right = DVector::<f64>::zeros(width);
    for (traits, ln) in &known {
        let row = row(traits, &columns);
        for (a, of_a) in &row {
            right[*a] += of_a * ln;
            for (b, of_b) in &row {
                normal[(*a, *b)] += of_a * of_b;
            }
        }
    }
    let solved = normal.cholesky().map(|factor| factor.solve(&right));
    let coefficients = solved.unwrap_or_else(|| DVector::zeros(width));
    let told = move |traits: &Traits| -> f64 {
        row(traits, &columns)
            .iter()
            .map(|(column, value)| coefficients[*column] * value)
            .sum()
    };
    let errors: Vec<f64> = known.iter().map(|(traits, ln)| ln - told(traits)).collect();
    // One column of each kind of word follows from its others.
    let spare = known
        .len()
        .saturating_sub(width.saturating_sub(KINDS))
        .max(1) as f64;
    let sd = match errors.len() {
        0 | 1 => LONE_SD,
        count => moments(&errors).1 * (count as f64 / spare).sqrt().max(1.0),
    };
    let sd = sd.max(LEAST_SD);
    Box::new(move |situations| {
        let one = |situation: &Situation| {
            log_normal(told(&Traits::of(situation)) + ln_samples(situation), sd)
        };
        situations.iter().map(one).collect()
    })
}
