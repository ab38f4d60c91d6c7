//! How much faster the best trial of a tuning is than the user's settings. That follows from the pairs alone: the value that made a
//! trial the best is partly luck.

use std::collections::BTreeMap;

use serde::Serialize;
use toml::{Table, Value};

use super::document::Sweep;
use super::space::Values;
use super::start::first_start;
use super::study::Study;
use super::tune::trial_of;
use crate::foundation::diagnostic::Problem;
use crate::foundation::statistics::Spread;
use crate::foundation::toml_reader::syntax_problem;
use crate::foundation::units::counted;
use crate::learn::bench::Slot;

/// Medians of steps are exact to 2 %, however alike they are.
const STEPS_EXACT_TO: f64 = 0.02;
/// Times with more digits after the point are exact.
const MOST_DIGITS: i32 = 6;

/// How much faster the best trial is than the user's settings.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct SpeedUp {
    /// Number of the best trial, from 1; 1 has the user's own settings.
    pub trial: usize,
    /// Time of the user's settings over that of the trial: the geometric mean of the pairs. null: no pair of runs is over.
    pub speed_up: Option<f64>,
    /// Its 95 % interval, from the logarithms of the pairs' ratios by Student's distribution, widened by the most that the two times
    /// can be rounded by. null until all pairs have run, and of fewer than two.
    pub low: Option<f64>,
    /// Its upper end.
    pub high: Option<f64>,
    /// Pairs of which both runs have a value.
    pub pairs: usize,
    /// How many pairs there are to be.
    pub pairs_planned: u32,
    /// Whether the interval lies above 1.
    pub is_faster: bool,
    /// What the trial changes in the job file: keys with values as TOML.
    pub changes: BTreeMap<String, String>,
}

impl SpeedUp {
    /// `trial 3 is 1.42 times as fast (95 % interval 1.31 to 1.55), from 4 pairs`, or that none is known to be faster, and why.
    #[must_use]
    pub fn text(&self) -> String {
        let number = self.trial;
        let why = match (self.speed_up, self.low, self.high) {
            (Some(ratio), Some(low), Some(high)) => {
                let pairs = counted(self.pairs as u64, "pair");
                format!(
                    "trial {number} is {ratio:.2} times as fast (95 % interval {low:.2} to {high:.2}), from {pairs}"
                )
            }
            _ if number == 1 => "the trial with them is the best".to_owned(),
            _ => format!(
                "{} of {} pairs of runs compared",
                self.pairs, self.pairs_planned
            ),
        };
        match self.is_faster {
            true => why,
            false => format!("no setting is known to be faster than yours: {why}"),
        }
    }
}

impl Sweep {
    /// The next run of the pairs; `None`: they are over, or the user's settings are the best.
    #[must_use]
    pub fn next_of_pairs(&self, study: &Study) -> Option<Slot> {
        self.pairs(study)
            .into_iter()
            .find(|slot| !study.journal.is_done(*slot))
    }

    /// Runs that are over, and how many there are with those that are likely to come: of the pairs once a trial has a value, of trials
    /// that continue until none is left to.
    #[must_use]
    pub fn runs(&self, study: &Study) -> (usize, usize) {
        let is_done = |slot: &&Slot| study.journal.is_done(**slot);
        let is_over = |number: &usize| study.outcome(first_start(*number)).is_some();
        let over = study.numbers().filter(is_over);
        let (over, trials, pairs) = (over.count(), self.trials as usize, self.pairs(study));
        let pairs_likely = match &self.tune {
            Some(tune) if over < trials && study.best(&self.metric).is_some() => {
                2 * tune.pairs as usize
            }
            _ => pairs.len(),
        };
        let later: Vec<Slot> = study.later_starts().collect();
        let later_over = later.iter().filter(is_done).count();
        let later_likely = match over < trials || later_over < later.len() {
            true => self.promotions_likely(),
            false => later.len() + usize::from(self.next_promotion(study, true).is_some()),
        };
        (
            over + pairs.iter().filter(is_done).count() + later_over,
            over.max(trials) + pairs_likely + later.len().max(later_likely),
        )
    }

    /// Whether another trial may be proposed.
    #[must_use]
    pub fn needs_proposals(&self, study: &Study) -> bool {
        let has_hours = |most| study.node_hours() < most;
        study.next_number() < self.trials as usize && self.node_hours.is_none_or(has_hours)
    }

    fn pairs(&self, study: &Study) -> Vec<Slot> {
        let best = study.best(&self.metric).filter(|best| best.number > 0);
        let slots = self.tune.as_ref().zip(best);
        slots.map_or_else(Vec::new, |(tune, best)| tune.slots(best.number).collect())
    }

    /// Whether the user's own settings came to no value: with nothing to compare with, a tuning ends.
    #[must_use]
    pub fn has_lost_baseline(&self, study: &Study) -> bool {
        let mut trials = study.trials();
        let first = trials.find(|trial| trial.number == 0);
        let outcome = first.and_then(|trial| trial.outcome);
        self.tune.is_some() && outcome.is_some_and(|outcome| outcome.value.is_none())
    }

    /// How much faster the best trial is, by the pairs; `None`: this is no tuning, or no trial has a value.
    #[must_use]
    pub fn speed_up(&self, study: &Study) -> Option<SpeedUp> {
        let (tune, best) = (self.tune.as_ref()?, study.best(&self.metric)?);
        let slots = self.pairs(study);
        let seconds = |own: bool, pair: &[Slot]| {
            let slot = pair.iter().find(|slot| (trial_of(**slot) == 0) == own)?;
            let (_, outcome) = study.journal.result(*slot)?;
            outcome.value.filter(|_| outcome.failure.is_none())
        };
        let both = |pair: &[Slot]| Some([seconds(true, pair)?, seconds(false, pair)?]);
        let pairs: Vec<[f64; 2]> = slots.chunks(2).filter_map(both).collect();
        let logarithms: Vec<f64> = pairs.iter().map(|[own, best]| (own / best).ln()).collect();
        let spread = Spread::of(&logarithms);
        let are_over = slots.iter().all(|slot| study.journal.is_done(*slot));
        let bounds = spread.filter(|_| are_over).and_then(|it| it.bounds());
        let error = if tune.by_steps {
            STEPS_EXACT_TO
        } else {
            rounding(&pairs.concat())
        };
        let (low, high) = bounds
            .map(|(low, high)| ((low - 2.0 * error).exp(), (high + 2.0 * error).exp()))
            .unzip();
        Some(SpeedUp {
            trial: best.number + 1,
            speed_up: spread.map(|spread| spread.mean.exp()),
            low,
            high,
            pairs: pairs.len(),
            pairs_planned: tune.pairs,
            is_faster: low.is_some_and(|low| low > 1.0),
            changes: self.changes(best.values).unwrap_or_default(),
        })
    }

    /// The job file with a trial's settings and the user's name for the job.
    ///
    /// # Errors
    /// Placeholders that stand for nothing.
    pub fn tuned_job(&self, values: &Values) -> Result<String, Vec<Problem>> {
        let mut job = self.table_of(values)?;
        job.remove("name");
        let name = self.base.values.get("name").cloned();
        job.extend(name.map(|name| ("name".to_owned(), name)));
        Ok(job.to_string())
    }

    fn table_of(&self, values: &Values) -> Result<Table, Vec<Problem>> {
        let text = self.trial(0, values, None)?.job_file;
        toml::from_str(&text).map_err(|error| vec![syntax_problem(&error)])
    }

    /// What a trial's job file has and the user's own has not: keys with values as TOML.
    pub(super) fn changes(
        &self,
        values: &Values,
    ) -> Result<BTreeMap<String, String>, Vec<Problem>> {
        let own = self.tune.as_ref().map(|tune| tune.baseline.clone());
        let (mut before, mut after) = (BTreeMap::new(), BTreeMap::new());
        flatten("", self.table_of(&own.unwrap_or_default())?, &mut before);
        flatten("", self.table_of(values)?, &mut after);
        after.retain(|key, value| before.get(key) != Some(value));
        Ok(after)
    }
}

/// The most by which the logarithm of one of the times may be wrong because the program rounds it: half of the last digit that any of
/// them has. Keras prints whole seconds, and two settings may then seem to differ by half in every pair.
fn rounding(times: &[f64]) -> f64 {
    let unit = (0..=MOST_DIGITS)
        .map(|digits| 10_f64.powi(-digits))
        .find(|unit| {
            let mut parts = times.iter().map(|time| time / unit);
            parts.all(|part| (part - part.round()).abs() < 1e-6 * part.max(1.0))
        });
    let errors = times
        .iter()
        .map(|time| -(1.0 - unit.unwrap_or(0.0) / 2.0 / time).ln());
    errors.fold(0.0, f64::max)
}

fn flatten(prefix: &str, table: Table, leaves: &mut BTreeMap<String, String>) {
    for (key, value) in table {
        match value {
            Value::Table(inner) => flatten(&format!("{prefix}{key}."), inner, leaves),
            value => drop(leaves.insert(format!("{prefix}{key}"), value.to_string())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::{JobState, RunId};
    use crate::learn::bench::{Entry, Lines};
    use crate::learn::sweep::{Note, Outcome, parse_tune};

    const JOB: &str =
        "[run]\ncommand = [\"train\"]\n[resources]\ncpus_per_task = 4\n[tune]\npairs = 3\n";

    /// A study of `sweep` in which the runs of slots took so long; NaN: the run failed.
    fn study(runs: &[(usize, u32, f64)]) -> Study {
        let mut study = Study::default();
        for (place, (cell, repeat, seconds)) in runs.iter().enumerate() {
            if *repeat == 0 {
                study.add(Note::Proposed {
                    proposed: *cell,
                    values: Values::default(),
                    asked: None,
                });
            }
            let run_id: RunId = format!("{place:0>16}").parse().expect("an id");
            let slot = Slot {
                cell: *cell,
                repeat: *repeat,
            };
            study.add(Note::Job(Entry::Begun {
                at_ms: 0,
                slot,
                run_id: run_id.clone(),
            }));
            let failed = seconds.is_nan();
            let outcome = Outcome {
                state: if failed {
                    JobState::Failed
                } else {
                    JobState::Completed
                },
                value: (!failed).then_some(*seconds),
                failure: failed.then(|| "it failed".to_owned()),
                ..Outcome::default()
            };
            study.add(Note::Job(Entry::Over {
                at_ms: 1,
                run_id,
                measured: Box::new(outcome),
            }));
        }
        study
    }

    #[test]
    fn the_speed_up_comes_from_the_pairs_alone() {
        let sweep = parse_tune(JOB, "stem").expect("valid");
        let trials = [(0, 0, 9.0), (1, 0, 1.0), (2, 0, 5.0)];
        let with = |pairs: &[f64]| {
            let pairs = pairs
                .iter()
                .zip(1..)
                .map(|(seconds, repeat)| (1, repeat, *seconds));
            study(&trials.into_iter().chain(pairs).collect::<Vec<_>>())
        };
        let known = |pairs: &[f64]| sweep.speed_up(&with(pairs)).expect("a best trial");
        // In turn the user's, the best, the best, the user's.
        let all = known(&[2.0, 1.0, 1.0, 2.1, 1.9, 1.0]);
        assert_eq!((all.trial, all.pairs), (2, 3));
        let (low, high) = all.low.zip(all.high).expect("three pairs");
        // ln 2, ln 2.1, ln 1.9: mean 0.69231, deviation 0.05005, t(2) 4.3027; 1.0 may be 0.95, twice 0.05129.
        assert!(
            (low - 1.5926).abs() < 1e-3 && (high - 2.5073).abs() < 1e-3,
            "{low} {high}"
        );
        assert!(all.is_faster);
        // What is not over, too coarse, or has too few values claims nothing.
        assert!(!known(&[2.0, 1.0, 1.0, 2.1, 1.9]).is_faster);
        assert!(!known(&[2.0, 1.0, 1.0, 2.0, 2.0, 1.0]).is_faster);
        assert!(!known(&[0.3, 0.1, 0.1, 0.3, 0.3, 0.1]).is_faster);
        assert!(!known(&[2.0, 1.0, f64::NAN, 2.0, f64::NAN, 1.0]).is_faster);
        assert!(!known(&[2.0, 1.0, 2.0, 1.9, 1.1, 1.0]).is_faster);
        // Whole seconds of 2 and 1 may both be 1.5; of 200 and 100 they may not.
        assert!(known(&[200.0, 100.0, 100.0, 200.0, 200.0, 100.0]).is_faster);
        // Steps have their own error.
        let by_steps =
            parse_tune(&JOB.replace("pairs", "steps = 9\npairs"), "stem").expect("valid");
        let same = by_steps.speed_up(&with(&[2.0, 1.0, 1.0, 2.0, 2.0, 1.0]));
        let (low, high) = same
            .and_then(|same| same.low.zip(same.high))
            .expect("bounds");
        assert!(
            (1.9..1.93).contains(&low) && (2.07..2.1).contains(&high),
            "{low} {high}"
        );
        let next = |pairs: &[f64]| sweep.next_of_pairs(&with(pairs));
        assert_eq!(next(&[2.0, 1.0]), Some(Slot { cell: 1, repeat: 3 }));
        assert_eq!(next(&[2.0; 6]), None);
        let own = study(&[(0, 0, 1.0), (1, 0, 2.0)]);
        assert_eq!(sweep.next_of_pairs(&own), None);
    }
}
