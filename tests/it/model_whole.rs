//! Whole runs: what a short trial says of a long training, and of runs whose epochs nobody sees.

use dlrun::learn::model::{Length, Model, Observation, Situation};
use dlrun::record::Interval;

use crate::model::{fit, known, situation};
use crate::support::planted::Dice;

/// A network of a trial: seconds of an epoch, of what is between two, and of what is outside.
struct Way {
    compiler: &'static str,
    epoch: f64,
    between: f64,
    outside: f64,
    /// What 200 epochs took in the trial, others beside them.
    came: f64,
}

/// Measured on a CNN: 5 epochs of 0.344 s and 0.250 s, and what the wall time left.
const WAYS: [Way; 2] = [
    Way {
        compiler: "none",
        epoch: 0.344,
        between: 0.006,
        outside: 2.8,
        came: 83.1,
    },
    Way {
        compiler: "inductor",
        epoch: 0.250,
        between: 0.004,
        outside: 4.1,
        came: 60.0,
    },
];

impl Way {
    fn asked(&self, epochs: u64) -> Situation {
        let mut asked = situation("torch-cnn", self.compiler, 1.0);
        asked.workload.epochs = Some(epochs);
        asked
    }

    #[allow(clippy::cast_precision_loss)]
    fn total(&self, epochs: u64) -> f64 {
        (self.epoch + self.between) * epochs as f64 + self.outside
    }

    /// A run of 5 epochs; `clocked`: when each ended was seen.
    fn trial(&self, dice: &mut Dice, clocked: bool) -> Observation {
        let mut noise = |sd: f64| dice.normal(sd).exp();
        let outside = self.outside + if clocked { 0.0 } else { 5.0 * self.between };
        let (epoch, outside) = (self.epoch * noise(0.03), outside * noise(0.05));
        Observation {
            between_seconds: clocked.then_some(self.between),
            outside_seconds: Some(Length::Known(outside)),
            wall_seconds: Some(Length::Known(self.total(5))),
            ..known(&self.asked(5), epoch)
        }
    }
}

fn trials(clocked: bool) -> Model {
    let mut dice = Dice::new(3);
    let runs = (0..8).map(|at| WAYS[at % 2].trial(&mut dice, clocked));
    fit(runs.collect::<Vec<_>>())
}

fn total(model: &Model, situation: &Situation) -> Interval {
    let forecast = model.forecast(situation);
    forecast.total_seconds.expect("the epochs are known")
}

#[test]
fn short_trial_predicts_long_training() {
    for clocked in [true, false] {
        let model = trials(clocked);
        for (way, epochs) in WAYS
            .iter()
            .flat_map(|way| [5, 50, 200, 500, 2000].map(|epochs| (way, epochs)))
        {
            let (predicted, truth) = (total(&model, &way.asked(epochs)), way.total(epochs));
            let shown = format!("{} {epochs}: {truth} in {predicted:?}", way.compiler);
            assert!((predicted.median / truth).ln().abs() < 0.05, "{shown}");
            assert!(predicted.low < truth && truth < predicted.high, "{shown}");
            assert!(
                predicted.high / predicted.low < 2.5,
                "it says something: {shown}"
            );
            assert!(predicted.mean < 1.1 * predicted.median, "{shown}");
        }
        for way in &WAYS {
            let predicted = total(&model, &way.asked(200));
            let shown = format!("{}: {} came, {predicted:?}", way.compiler, way.came);
            assert!(
                predicted.low < way.came && way.came < predicted.high,
                "{shown}"
            );
        }
    }
}

#[test]
fn longer_training_is_less_sure_than_measured_one() {
    let model = trials(true);
    let width = |epochs| {
        let predicted = total(&model, &WAYS[0].asked(epochs));
        predicted.high / predicted.low
    };
    assert!(
        width(2000) > 1.2 * width(50),
        "{} {}",
        width(50),
        width(2000)
    );
}

/// Runs that show no epochs: 20 s and 30 s for each.
fn silent(epochs: u64) -> Observation {
    let mut situation = situation("silent", "none", 2.0);
    situation.workload.epochs = Some(epochs);
    #[allow(clippy::cast_precision_loss)]
    let seconds = 20.0 + 30.0 * epochs as f64;
    Observation {
        epoch_seconds: None,
        outside_seconds: None,
        wall_seconds: Some(Length::Known(seconds)),
        ..known(&situation, 1.0)
    }
}

#[test]
fn runs_of_two_lengths_without_epochs_show_what_goes_by_their_number() {
    let model = fit((0..4).flat_map(|_| [silent(2), silent(8)]));
    for (epochs, truth) in [(1, 50.0), (4, 140.0), (40, 1220.0), (400, 12_020.0)] {
        let predicted = total(&model, &silent(epochs).situation);
        assert!(
            (predicted.median / truth).ln().abs() < 0.1,
            "{epochs}: {predicted:?}"
        );
        assert!(
            predicted.low < truth && truth < predicted.high,
            "{epochs}: {predicted:?}"
        );
    }
}

/// Runs that show no epochs and have these numbers among their arguments.
fn with_numbers(numbers: &[(&str, f64)], seconds: f64) -> Observation {
    let mut run = silent(1);
    run.situation.workload.epochs = None;
    let numbers = numbers
        .iter()
        .map(|(name, number)| ((*name).to_owned(), *number));
    run.situation.numbers = numbers.collect();
    run.wall_seconds = Some(Length::Known(seconds));
    run
}

#[test]
fn whole_runs_without_epochs_grow_with_the_argument_that_shows_it() {
    let mut dice = Dice::new(5);
    let truth = |steps: f64| 20.0 + 3e-5 * steps;
    let mut runs = Vec::new();
    for steps in [1e6, 2e6, 5e6, 1e6, 2e6, 5e6] {
        let numbers = [("steps", steps), ("lr", dice.between(0.001, 0.1))];
        runs.push(with_numbers(
            &numbers,
            truth(steps) * dice.normal(0.03).exp(),
        ));
    }
    let model = fit(runs);
    for steps in [1e6, 3e6, 5e6, 2e7] {
        let asked = with_numbers(&[("steps", steps), ("lr", 0.05)], 1.0).situation;
        let predicted = total(&model, &asked);
        let shown = format!("{steps}: {} in {predicted:?}", truth(steps));
        assert!(
            (predicted.median / truth(steps)).ln().abs() < 0.1,
            "{shown}"
        );
        assert!(
            predicted.low < truth(steps) && truth(steps) < predicted.high,
            "{shown}"
        );
        assert!(predicted.high / predicted.low < 3.5, "{shown}");
    }
    let far = with_numbers(&[("steps", 2e7), ("lr", 0.05)], 1.0).situation;
    let text = "the argument `steps` is 20000000, and the runs had 1000000 to 5000000";
    assert!(model.forecast(&far).beyond.contains(&text.to_owned()));
    let unknown = model.forecast(&with_numbers(&[("lr", 0.05)], 1.0).situation);
    assert_eq!(unknown.total_seconds, None, "nobody knows how many steps");
    assert!(
        unknown.beyond.iter().any(|text| text.contains("`steps`")),
        "{unknown:?}"
    );
}

#[test]
fn arguments_that_change_no_time_are_not_taken_for_its_cause() {
    let mut found = 0;
    for seed in 0..300 {
        let mut dice = Dice::new(seed);
        let mut run = || {
            let names = ["lr", "dropout", "width", "depth"];
            let numbers = names.map(|name| (name, dice.between(1.0, 9.0)));
            with_numbers(&numbers, 60.0 * dice.normal(0.15).exp())
        };
        let model = fit((0..6).map(|_| run()).collect::<Vec<_>>());
        let without = with_numbers(&[], 1.0).situation;
        found += usize::from(model.forecast(&without).total_seconds.is_none());
    }
    assert!(found <= 3, "{found} of 300");
}

/// Six noisy runs do not show that the time grows with `steps`: then a number beyond theirs may change anything.
#[test]
fn number_beyond_those_that_ran_widens_where_it_is_not_understood() {
    let came = [
        (1.0, 6.9),
        (2.0, 8.3),
        (4.0, 12.2),
        (1.0, 6.8),
        (2.0, 6.0),
        (4.0, 9.6),
    ];
    let run = |(steps, seconds): (f64, f64)| with_numbers(&[("steps", steps)], seconds);
    let model = fit(came.map(run));
    let asked = |steps| run((steps, 1.0)).situation;
    let (within, beyond) = (total(&model, &asked(3.0)), total(&model, &asked(20.0)));
    assert!(
        beyond.low < within.low && beyond.high > 41.0,
        "{within:?} {beyond:?}"
    );
    let text = "the argument `steps` is 20, and the runs had 1 to 4".to_owned();
    assert!(model.forecast(&asked(20.0)).beyond.contains(&text));
}
