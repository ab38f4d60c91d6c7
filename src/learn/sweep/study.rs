//! What is known of a sweep: its trials, from the lines of its journal alone.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::document::Metric;
use super::outcome::Outcome;
use super::space::Values;
use super::start::{Promotion, first_start};
use super::trial::{Later, Spent, Trial, waiting_or_running};
use crate::job::RunId;
use crate::learn::bench::{Entry, Journal, Lines, Slot, Try};

/// What Optuna said of a trial that it proposed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Asked {
    /// Its version.
    pub optuna: String,
    /// What its sampler has to find again with the trial: the state of CMA-ES, the generation of NSGA-II.
    #[serde(default, skip_serializing_if = "serde_json::Map::is_empty")]
    pub attrs: serde_json::Map<String, serde_json::Value>,
}

/// A line of the journal of a sweep.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Note {
    /// A trial has these values.
    Proposed {
        /// Which trial, from 0.
        proposed: usize,
        /// Its parameters.
        values: Values,
        /// Who proposed it, where that was Optuna.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        asked: Option<Asked>,
    },
    /// A run had a value at a rung.
    Reached {
        /// Which trial.
        reached: usize,
        /// The epoch.
        epoch: u64,
        /// The metric; null: no number.
        value: Option<f64>,
        /// Whether the trial is stopped for it.
        stops: bool,
    },
    /// A trial continues.
    Promoted {
        /// Which trial.
        promoted: usize,
        /// How.
        #[serde(flatten)]
        how: Promotion,
    },
    /// What becomes of its job.
    Job(Entry<Outcome>),
}

/// All that a journal holds.
#[derive(Debug, Clone, Default)]
pub struct Study {
    /// The jobs.
    pub journal: Journal<Outcome>,
    proposed: BTreeMap<usize, Values>,
    asked: BTreeMap<usize, Asked>,
    /// By trial, the last rung that it reached, and whether it was stopped there.
    rungs: BTreeMap<usize, (u64, bool)>,
    promotions: BTreeMap<usize, Vec<Promotion>>,
    /// Every value at a rung, in the order in which they came.
    pub reached: Vec<(u64, f64)>,
}

impl Lines for Study {
    type Line = Note;

    fn open_runs(&self) -> Vec<RunId> {
        self.journal.open_runs()
    }

    fn add(&mut self, note: Note) {
        match note {
            Note::Proposed {
                proposed,
                values,
                asked,
            } => {
                self.proposed.insert(proposed, values);
                self.asked.extend(asked.map(|asked| (proposed, asked)));
            }
            Note::Reached {
                reached,
                epoch,
                value,
                stops,
            } => {
                self.rungs.insert(reached, (epoch, stops));
                self.reached.push((epoch, value.unwrap_or(f64::NAN)));
            }
            Note::Promoted { promoted, how } => {
                self.promotions.entry(promoted).or_default().push(how);
            }
            Note::Job(entry) => self.journal.add(entry),
        }
    }
}

impl Study {
    /// The parameters of a trial.
    #[must_use]
    pub fn values(&self, number: usize) -> Option<&Values> {
        self.proposed.get(&number)
    }

    /// The trials whose values are known.
    pub fn numbers(&self) -> impl Iterator<Item = usize> {
        self.proposed.keys().copied()
    }

    /// What Optuna said of a trial that it proposed.
    #[must_use]
    pub fn asked(&self, number: usize) -> Option<&Asked> {
        self.asked.get(&number)
    }

    /// The versions of Optuna that proposed trials.
    #[must_use]
    pub fn optuna_versions(&self) -> BTreeSet<&str> {
        self.asked
            .values()
            .map(|asked| asked.optuna.as_str())
            .collect()
    }

    /// The last rung that a trial reached, 0 for none, and whether it was stopped there.
    #[must_use]
    pub fn rung(&self, number: usize) -> (u64, bool) {
        self.rungs.get(&number).copied().unwrap_or((0, false))
    }

    /// The number of the next trial; one whose values were lost keeps its own.
    #[must_use]
    pub fn next_number(&self) -> usize {
        let begun = self.journal.starts().map(|(slot, _)| slot.cell).max();
        let proposed = self.proposed.keys().next_back().copied();
        begun.max(proposed).map_or(0, |last| last + 1)
    }

    /// How a trial continued after its first start, oldest first.
    #[must_use]
    pub fn promotions(&self, number: usize) -> &[Promotion] {
        self.promotions.get(&number).map_or(&[], Vec::as_slice)
    }

    /// The start of a trial that it runs, or ran last.
    #[must_use]
    pub fn last_start(&self, number: usize) -> Slot {
        let repeat = u32::try_from(self.promotions(number).len()).unwrap_or(u32::MAX);
        Slot {
            repeat,
            ..first_start(number)
        }
    }

    /// The starts of trials after their first.
    pub fn later_starts(&self) -> impl Iterator<Item = Slot> {
        self.promotions.keys().flat_map(|number| {
            let last = self.last_start(*number);
            (1..=last.repeat).map(move |repeat| Slot { repeat, ..last })
        })
    }

    /// The newest start of a trial that came to a value, be it no number: a later one may run or have failed.
    fn valued_start(&self, number: usize) -> Slot {
        let last = self.last_start(number);
        let starts = (0..=last.repeat)
            .rev()
            .map(|repeat| Slot { repeat, ..last });
        let has_value = |start: &Slot| {
            let outcome = self.outcome(*start);
            outcome.is_some_and(|outcome| outcome.failure.is_none())
        };
        starts.into_iter().find(has_value).unwrap_or(last)
    }

    /// What a start came to; `None`: it is not over, or is tried again.
    #[must_use]
    pub fn outcome(&self, start: Slot) -> Option<&Outcome> {
        self.result(start).map(|(_, outcome)| outcome)
    }

    fn result(&self, start: Slot) -> Option<(&Try<Outcome>, &Outcome)> {
        let result = self.journal.result(start);
        result.filter(|_| self.journal.is_done(start))
    }

    /// All trials, each as its newest start that came to a value has it.
    pub fn trials(&self) -> impl Iterator<Item = Trial<'_>> {
        self.at_starts(|number| self.valued_start(number))
    }

    /// All trials as their first starts have them: these can be compared.
    pub fn first_starts(&self) -> impl Iterator<Item = Trial<'_>> {
        self.at_starts(first_start)
    }

    fn at_starts(&self, start: impl Fn(usize) -> Slot) -> impl Iterator<Item = Trial<'_>> {
        self.proposed.iter().map(move |(number, values)| {
            let slot = start(*number);
            let result = self.result(slot);
            let counts = result.map(|(one, _)| &one.run_id);
            Trial {
                number: *number,
                values,
                run_id: counts.or_else(|| self.running(slot)),
                outcome: result.map(|(_, outcome)| outcome),
                later: self.later(*number, slot),
                starts: self.promotions(*number).len() + 1,
                spent: self.spent(*number),
            }
        })
    }

    fn spent(&self, number: usize) -> Spent {
        let last = self.last_start(number);
        let starts = (0..=last.repeat).map(|repeat| Slot { repeat, ..last });
        let tries = starts.flat_map(|start| self.journal.tries(start));
        let outcomes = tries.filter_map(|one| one.measured.as_ref());
        let sum = |one: Option<f64>, other: Option<f64>| match (one, other) {
            (Some(one), Some(other)) => Some(one + other),
            (one, other) => one.or(other),
        };
        let spent = outcomes.fold(Spent::default(), |spent, outcome| Spent {
            epochs: spent.epochs + outcome.epochs,
            wall_seconds: sum(spent.wall_seconds, outcome.wall_seconds),
            node_hours: sum(spent.node_hours, outcome.node_hours),
        });
        // They are known to the millisecond.
        let rounded = |seconds: f64| (seconds * 1e3).round() / 1e3;
        Spent {
            wall_seconds: spent.wall_seconds.map(rounded),
            ..spent
        }
    }

    /// The run of a start that is not over.
    fn running(&self, slot: Slot) -> Option<&RunId> {
        let last = self.journal.tries(slot).last();
        let last = last.filter(|one| one.measured.is_none())?;
        Some(&last.run_id)
    }

    /// The last start of a trial, where that is another than `counted`.
    fn later(&self, number: usize, counted: Slot) -> Option<Later<'_>> {
        let last = self.last_start(number);
        let promotion = self.promotions(number).last().filter(|_| counted != last)?;
        let over = self.result(last);
        let running = self.running(last);
        let run_id = over.map(|(one, _)| &one.run_id).or(running);
        Some(Later {
            epochs: promotion.epochs,
            run_id: run_id.map(RunId::as_str),
            state: over.map_or(waiting_or_running(running), |(_, outcome)| {
                outcome.state.as_str()
            }),
            failure: over.and_then(|(_, outcome)| outcome.failure.as_deref()),
        })
    }

    /// The best trial. One that was stopped counts with the value that it had.
    #[must_use]
    pub fn best(&self, metric: &Metric) -> Option<Trial<'_>> {
        let valued = self.trials().filter_map(|trial| {
            let outcome = trial.outcome.filter(|outcome| outcome.failure.is_none())?;
            Some((metric.cost(outcome.value?), trial))
        });
        let best = valued.min_by(|(one, _), (other, _)| one.total_cmp(other));
        best.map(|(_, trial)| trial)
    }

    /// Hours of nodes that the trials that are over took.
    #[must_use]
    pub fn node_hours(&self) -> f64 {
        let starts = self
            .journal
            .starts()
            .filter_map(|(_, one)| one.measured.as_ref());
        starts
            .filter_map(|outcome| outcome.node_hours)
            .fold(0.0, |sum, hours| sum + hours)
    }
}
