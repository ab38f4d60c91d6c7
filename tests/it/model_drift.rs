//! Time passes: what the model says after code, data or machines have changed.

use dlrun::learn::model::{Doubts, Observation};
use dlrun::record::{Forecast, Interval};

use crate::model::{fit, known, situation};
use crate::support::planted::Dice;
use crate::support::tell;

/// Runs a minute apart whose epochs take so long, by some per cent.
fn runs(levels: &[(usize, f64)]) -> Vec<Observation> {
    let mut dice = Dice::new(17);
    let seconds = levels
        .iter()
        .flat_map(|(runs, level)| std::iter::repeat_n(*level, *runs));
    let run = |(at, seconds): (u64, f64)| Observation {
        at_ms: 1_790_000_000_000 + 60_000 * at,
        ..known(
            &situation("cnn", "none", 2.0),
            seconds * dice.normal(0.03).exp(),
        )
    };
    (0..).zip(seconds).map(run).collect()
}

fn epoch(levels: &[(usize, f64)]) -> (Interval, Forecast) {
    let forecast = fit(runs(levels)).forecast(&situation("cnn", "none", 2.0));
    (forecast.epoch_seconds.expect("epochs"), forecast)
}

#[test]
fn forecast_follows_a_shift_within_three_runs_and_covers_it_from_the_second() {
    for (before, after) in [(60.0, 90.0), (90.0, 60.0)] {
        for new in [1, 2, 3, 5, 10, 20] {
            let (predicted, forecast) = epoch(&[(20, before), (new, after)]);
            tell(&format!(
                "{new} after 20: {predicted:?} {:?}",
                forecast.shift
            ));
            if new >= 2 {
                assert!(
                    predicted.low < after && after < predicted.high,
                    "{new}: {predicted:?}"
                );
            }
            if new >= 3 {
                assert!(
                    (predicted.median / after).ln().abs() < 0.05,
                    "{new}: {predicted:?}"
                );
                assert!(predicted.high / predicted.low < 1.6, "{new}: {predicted:?}");
            }
            assert_eq!(forecast.shift.is_some(), new >= 2, "{new}");
        }
    }
    let (predicted, forecast) = epoch(&[(100, 60.0), (10, 90.0)]);
    assert!((predicted.median / 90.0).ln().abs() < 0.03, "{predicted:?}");
    let said = forecast.shift.expect("news");
    assert_eq!((said.runs, said.before), (10, 100));
    assert!((said.time_ratio - 1.5).abs() < 0.05, "{said:?}");
}

#[test]
fn noise_and_single_slow_runs_are_no_shift() {
    let steady = epoch(&[(60, 60.0)]);
    for levels in [
        &[(20, 60.0), (1, 90.0), (20, 60.0)][..],
        &[(20, 60.0), (1, 90.0), (1, 60.0), (1, 90.0)],
    ] {
        let (predicted, forecast) = epoch(levels);
        assert!((predicted.median / 60.0).ln().abs() < 0.03, "{predicted:?}");
        assert_eq!(forecast.shift, None);
    }
    assert_eq!(steady.1.shift, None);
    assert!(steady.0.high / steady.0.low < 1.2, "{:?}", steady.0);
}

#[test]
fn disturbed_runs_widen_and_do_not_shift() {
    let mut runs = runs(&[(20, 60.0), (5, 120.0)]);
    runs[20..]
        .iter_mut()
        .for_each(|run| run.doubts.others_busy = true);
    let forecast = fit(runs).forecast(&situation("cnn", "none", 2.0));
    let predicted = forecast.epoch_seconds.expect("epochs");
    assert!(
        forecast.shift.is_none() && (predicted.median / 60.0).ln().abs() < 0.05,
        "{predicted:?}"
    );
}

#[test]
fn where_most_runs_are_disturbed_the_next_is_expected_to_be() {
    let mut dice = Dice::new(7);
    let run = |at_ms: u64| Observation {
        at_ms,
        ..known(
            &situation("cnn", "none", 2.0),
            60.0 * dice.normal(0.4).exp(),
        )
    };
    let mut runs: Vec<Observation> = (0..24).map(run).collect();
    let width = |runs: &[Observation]| {
        let forecast = fit(runs.to_vec()).forecast(&situation("cnn", "none", 2.0));
        let predicted = forecast.epoch_seconds.expect("epochs");
        predicted.high / predicted.low
    };
    let undisturbed = width(&runs);
    let most = runs.iter_mut().skip(2);
    most.for_each(|run| run.doubts.others_busy = true);
    assert_eq!(width(&runs), undisturbed);
    assert!(undisturbed > 3.0, "{undisturbed}");
}

#[test]
fn short_runs_of_one_epoch_do_not_outvote_long_ones() {
    let mut all = runs(&[(4, 60.0), (6, 180.0)]);
    let short = all.iter_mut().skip(4);
    short.for_each(|run| run.doubts.warm_up = true);
    let forecast = fit(all).forecast(&situation("cnn", "none", 2.0));
    let predicted = forecast.epoch_seconds.expect("epochs");
    assert!(
        predicted.low < 60.0 && predicted.median < 90.0,
        "{predicted:?}"
    );
    assert_eq!(forecast.shift, None);
}

#[test]
fn a_shift_of_one_workload_is_seen_beside_noisy_ones() {
    let mut dice = Dice::new(3);
    let mut all = runs(&[(20, 60.0), (6, 88.8)]);
    for network in ["rnn", "gan"] {
        all.extend((0..20).map(|at| Observation {
            at_ms: 1_790_000_000_000 + 60_000 * at,
            ..known(
                &situation(network, "none", 2.0),
                60.0 * dice.normal(0.4).exp(),
            )
        }));
    }
    let forecast = fit(all).forecast(&situation("cnn", "none", 2.0));
    assert_eq!(forecast.shift.map(|shift| shift.runs), Some(6));
}

#[test]
fn operations_that_are_declared_later_change_no_forecast() {
    let asked = situation("cnn", "none", 2.0);
    let mut declared = asked.clone();
    declared.workload.flops_per_sample = Some(8_000_000_000);
    let median = |some: usize, asked| {
        let mut all = runs(&[(8, 60.0)]);
        let later = all.iter_mut().rev().take(some);
        later.for_each(|run| run.situation.workload.flops_per_sample = Some(8_000_000_000));
        fit(all)
            .forecast(asked)
            .epoch_seconds
            .expect("epochs")
            .median
    };
    for (some, asked) in [(0, &declared), (3, &declared), (3, &asked), (8, &asked)] {
        let median = median(some, asked);
        assert!((median / 60.0).ln().abs() < 0.03, "{some}: {median}");
    }
}

/// Sessions: all runs of an hour are some per cent slower or quicker.
#[test]
fn intervals_hold_in_the_order_of_time_where_hours_differ() {
    let (mut asked, mut inside) = (0.0, 0.0);
    for seed in 0..12 {
        let mut dice = Dice::new(100 + seed);
        let mut runs = Vec::new();
        let mut hour = 0.0;
        for at in 0..60_u64 {
            if at % 6 == 0 {
                hour = dice.normal(0.06);
            }
            let seconds = 60.0 * (hour + dice.normal(0.03)).exp();
            let next = Observation {
                at_ms: 1_790_000_000_000 + 600_000 * at,
                ..known(&situation("cnn", "none", 2.0), seconds)
            };
            if at >= 24 && at % 5 == 0 {
                let predicted = fit(runs.clone())
                    .forecast(&next.situation)
                    .epoch_seconds
                    .expect("epochs");
                asked += 1.0;
                inside += f64::from(u8::from(
                    predicted.low < seconds && seconds < predicted.high,
                ));
            }
            runs.push(next);
        }
    }
    tell(&format!(
        "in the order of time {inside} of {asked} within 90 %"
    ));
    assert!(
        (0.8..=1.0).contains(&(inside / asked)),
        "{inside} of {asked}"
    );
}

/// What was forecast of an epoch, and all of it.
fn forecast_of(runs: Vec<Observation>) -> (Interval, Forecast) {
    let forecast = fit(runs).forecast(&situation("cnn", "none", 2.0));
    (forecast.epoch_seconds.expect("epochs"), forecast)
}

#[test]
fn two_programs_under_one_name_widen_and_are_no_shift() {
    let mut runs = runs(&[(24, 60.0)]);
    let quick = |run: &mut Observation| {
        *run = Observation {
            at_ms: run.at_ms,
            run_id: run.run_id.clone(),
            ..known(&situation("cnn", "none", 2.0), 10.0)
        }
    };
    runs.iter_mut().step_by(2).for_each(quick);
    let (predicted, forecast) = forecast_of(runs);
    assert!(
        predicted.low < 10.0 && predicted.high > 60.0,
        "{predicted:?}"
    );
    assert_eq!(forecast.shift, None);
}

#[test]
fn runs_of_one_epoch_are_all_in_doubt_and_said_to_be() {
    let one_epoch = |run: Observation| Observation {
        epochs: 1,
        doubts: Doubts {
            warm_up: true,
            ..Doubts::default()
        },
        ..run
    };
    let (_, forecast) = forecast_of(runs(&[(12, 60.0)]).into_iter().map(one_epoch).collect());
    assert_eq!((forecast.runs, forecast.doubtful), (12, 12));
    assert!(forecast.doubts[0].contains("no epoch but the first"));
}

#[test]
fn clocks_that_jump_shift_nothing() {
    let mut runs = runs(&[(24, 60.0)]);
    let dates = [0, u64::MAX, 1_700_000_000_000, 4_000_000_000_000];
    for (run, at_ms) in runs.iter_mut().zip(dates.into_iter().cycle()) {
        run.at_ms = at_ms;
    }
    let (predicted, forecast) = forecast_of(runs);
    assert!((predicted.median / 60.0).ln().abs() < 0.05, "{predicted:?}");
    assert_eq!(forecast.shift, None);
}
