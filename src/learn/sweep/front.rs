//! The Pareto front of a sweep with two metrics.

use super::document::Sweep;
use super::trial::Trial;

/// The numbers of the trials that no other is better than in one metric and at least as good as in the other, best in the first
/// metric first. Empty where there is one metric. A trial that failed or lacks a value is on no front.
#[must_use]
pub fn front(sweep: &Sweep, trials: &[Trial<'_>]) -> Vec<usize> {
    let Some(second) = &sweep.second else {
        return Vec::new();
    };
    let costs = |trial: &Trial<'_>| {
        let (one, other) = trial.both_values()?;
        Some((sweep.metric.cost(one), second.cost(other), trial.number))
    };
    let mut points: Vec<(f64, f64, usize)> = trials.iter().filter_map(costs).collect();
    points.sort_by(|one, other| one.0.total_cmp(&other.0).then(one.1.total_cmp(&other.1)));
    let mut last: Option<(f64, f64)> = None;
    points.retain(|(one, other, _)| {
        let is_on = last.is_none_or(|last| *other < last.1 || (*one, *other) == last);
        if is_on {
            last = Some((*one, *other));
        }
        is_on
    });
    points.into_iter().map(|(.., number)| number).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::learn::sweep::{Outcome, Spent, Values, parse};

    fn front_of(mode: &str, values: &[(Option<f64>, Option<f64>)]) -> Vec<usize> {
        let text = format!(
            "[run]\ncommand = [\"train\", \"{{{{x}}}}\"]\n[sweep]\nmetric = [\"loss\", \"epoch_seconds\"]\nmode = {mode}\n[sweep.space]\nvars.x = [1]\n"
        );
        let sweep = parse(&text, "stem").unwrap_or_else(|problems| panic!("{problems:?}"));
        let outcome = |(value, second_value): &(Option<f64>, Option<f64>)| Outcome {
            value: *value,
            second_value: *second_value,
            ..Outcome::default()
        };
        let outcomes: Vec<Outcome> = values.iter().map(outcome).collect();
        let none = Values::default();
        let trial = |(number, outcome)| Trial {
            number,
            values: &none,
            run_id: None,
            outcome: Some(outcome),
            later: None,
            starts: 1,
            spent: Spent::default(),
        };
        let trials: Vec<Trial<'_>> = outcomes.iter().enumerate().map(trial).collect();
        front(&sweep, &trials)
    }

    #[test]
    fn a_trial_that_another_beats_in_one_and_equals_in_the_other_is_not_on_the_front() {
        let of = |pairs: &[(f64, f64)]| -> Vec<(Option<f64>, Option<f64>)> {
            pairs
                .iter()
                .map(|pair| (Some(pair.0), Some(pair.1)))
                .collect()
        };
        let both = "[\"min\", \"min\"]";
        let values = of(&[
            (3.0, 1.0),
            (1.0, 3.0),
            (2.0, 2.0),
            (2.0, 2.5),
            (2.0, 2.0),
            (4.0, 4.0),
        ]);
        assert_eq!(front_of(both, &values), [1, 2, 4, 0]);
        assert_eq!(
            front_of(both, &of(&[(1.0, 2.0), (1.0, 1.0), (2.0, 1.0)])),
            [1]
        );
        let max = "[\"max\", \"min\"]";
        assert_eq!(
            front_of(max, &of(&[(0.9, 5.0), (0.8, 2.0), (0.7, 3.0)])),
            [0, 1]
        );
        // What is unknown or no number is on no front.
        let odd = [(Some(0.1), None), (None, Some(0.1)), (Some(5.0), Some(5.0))];
        assert_eq!(front_of(both, &odd), [2]);
    }
}
