//! The runs that are most alike.

use super::{LONE_SD, Traits, ln_samples, moments, timed};
use crate::learn::model::evaluate::{Predict, log_normal};
use crate::learn::model::{Observation, Situation};

/// How far apart another word puts two runs, in the order of [`Traits::words`]: what matters most for the time weighs most.
const WORDS: [f64; 9] = [4.0, 2.0, 1.0, 1.5, 0.5, 4.0, 1.0, 1.0, 0.5];
/// How far a factor of e in a size puts them apart, in the order of [`Traits::sizes`].
const SIZES: [f64; 4] = [0.5, 1.0, 1.0, 1.0];
/// So far apart does a size put them that is known of one alone.
const UNKNOWN: f64 = 0.5;
/// The scatter is measured on so many runs.
const MEASURED: usize = 400;
/// Distances that differ by less are the same.
const SAME: f64 = 1e-9;

fn distance(a: &Traits, b: &Traits) -> f64 {
    let words = a
        .words
        .iter()
        .zip(&b.words)
        .zip(WORDS)
        .filter(|((a, b), _)| a != b)
        .map(|(_, weight)| weight);
    let sizes = a
        .sizes
        .iter()
        .zip(&b.sizes)
        .zip(SIZES)
        .map(|((a, b), weight)| match (a, b) {
            (Some(a), Some(b)) => weight * (a - b).abs(),
            (None, None) => 0.0,
            _ => UNKNOWN,
        });
    words.sum::<f64>() + sizes.sum::<f64>()
}

/// The mean of the nearest, of those but `apart`.
fn nearest_to(wanted: &Traits, known: &[(Traits, f64)], apart: Option<usize>) -> Option<f64> {
    let (mut least, mut sum, mut count) = (f64::INFINITY, 0.0, 0.0);
    for (at, (traits, ln)) in known.iter().enumerate() {
        if apart == Some(at) {
            continue;
        }
        let far = distance(wanted, traits);
        if far < least - SAME {
            (least, sum, count) = (far, *ln, 1.0);
        } else if far < least + SAME {
            (sum, count) = (sum + ln, count + 1.0);
        }
    }
    (count > 0.0).then(|| sum / count)
}

pub(super) fn nearest(train: &[&Observation]) -> Predict<'static> {
    let known: Vec<(Traits, f64)> = timed(train)
        .into_iter()
        .map(|(situation, ln)| (Traits::of(situation), ln))
        .collect();
    let step = known.len().div_ceil(MEASURED).max(1);
    let errors: Vec<f64> = (0..known.len())
        .step_by(step)
        .filter_map(|at| Some(known[at].1 - nearest_to(&known[at].0, &known, Some(at))?))
        .collect();
    let sd = if errors.len() < 2 {
        LONE_SD
    } else {
        moments(&errors).1
    };
    Box::new(move |situations| {
        let one = |situation: &Situation| {
            let ln = nearest_to(&Traits::of(situation), &known, None).unwrap_or_default();
            log_normal(ln + ln_samples(situation), sd)
        };
        situations.iter().map(one).collect()
    })
}
