//! How good the model is, on runs whose truth is planted.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fmt::Write as _;

use dlrun::learn::model::{
    Evaluation, FEWEST, Fit, HoldOut, Length, Model, Observation, Priors, Sample, View, evaluate,
};

use crate::support::planted::{Dice, Shape, World};
use crate::support::tell;

const VIEWS: [HoldOut; 3] = [HoldOut::Run, HoldOut::Configuration, HoldOut::Workload];

fn workload(observation: &Observation) -> String {
    let workload = &observation.situation.workload;
    format!("{:?} {:?}", workload.model, workload.dataset)
}

/// The configuration, but for what the plan of a repeat shares with it.
fn configuration(observation: &Observation) -> String {
    let mut situation = observation.situation.clone();
    situation.workload.epochs = None;
    format!("{situation:?}")
}

fn told(evaluation: &Evaluation) -> String {
    let mut text = String::new();
    for view in &evaluation.views {
        if let Some(errors) = &view.epoch {
            let _ = writeln!(
                text,
                "{:?}: MAPE {:.1} %, median {:.3}, bias {:+.3}, within 90 % {:.1} %, width {:.2}",
                view.hold_out,
                100.0 * errors.mean_error_ratio,
                errors.median_error_ln,
                errors.bias_ln,
                100.0 * errors.coverage_ratio,
                errors.width_ratio,
            );
        }
    }
    text
}

fn evaluate_with(history: impl IntoIterator<Item = Observation>, fit: Fit<'_>) -> Evaluation {
    let mut sample = Sample::default();
    history.into_iter().for_each(|run| sample.add(&run));
    sample.evaluate(fit)
}

pub(crate) fn view(evaluation: &Evaluation, hold_out: HoldOut) -> &View {
    let mut views = evaluation.views.iter();
    views
        .find(|view| view.hold_out == hold_out)
        .expect("all three are there")
}

#[test]
fn what_is_held_back_is_not_learned_from() {
    let mut world = World::new(
        7,
        Shape {
            workloads: 6,
            ..Shape::default()
        },
    );
    let history = world.histories(30);
    let trains: RefCell<Vec<Vec<Observation>>> = RefCell::default();
    let evaluation = evaluate_with(history.clone(), &|train| {
        trains.borrow_mut().push(train);
        None
    });
    let trains = trains.into_inner();
    let folds: Vec<usize> = VIEWS
        .iter()
        .map(|of| usize::try_from(view(&evaluation, *of).folds).expect("few"))
        .collect();
    assert_eq!(folds, [5, 5, 6]);
    assert_eq!(trains.len(), folds.iter().sum::<usize>());
    let (runs, rest) = trains.split_at(folds[0]);
    let (configurations, workloads) = rest.split_at(folds[1]);

    let all: BTreeSet<String> = history.iter().map(|run| run.run_id.to_string()).collect();
    for train in runs {
        let learned: BTreeSet<String> = train.iter().map(|run| run.run_id.to_string()).collect();
        assert!(
            learned.len() < all.len() && learned.len() * 2 > all.len(),
            "{}",
            learned.len()
        );
    }
    // Whole configurations, but never a whole workload; and whole workloads.
    for (trains, key) in [
        (configurations, configuration as fn(&Observation) -> String),
        (workloads, workload),
    ] {
        let mut times_out = 0;
        for train in trains {
            let learned: BTreeSet<String> =
                train.iter().map(|run| run.run_id.to_string()).collect();
            let out: Vec<&Observation> = history
                .iter()
                .filter(|run| !learned.contains(run.run_id.as_str()))
                .collect();
            times_out += out.len();
            let seen: BTreeSet<String> = train.iter().map(key).collect();
            assert!(out.iter().all(|run| !seen.contains(&key(run))));
            let of_workloads: BTreeSet<String> = train.iter().map(workload).collect();
            assert_eq!(of_workloads.len(), if trains.len() == 5 { 6 } else { 5 });
        }
        assert!(
            times_out > history.len() / 2 && times_out <= history.len(),
            "{times_out}"
        );
    }
}

#[test]
fn the_order_of_the_runs_changes_nothing() {
    let mut world = World::new(
        8,
        Shape {
            workloads: 4,
            ..Shape::default()
        },
    );
    let mut history = world.histories(12);
    let evaluated = |history| evaluate_with(history, &|_| None);
    let first = evaluated(history.clone());
    let mut dice = Dice::new(1);
    for at in (1..history.len()).rev() {
        history.swap(at, dice.below(at + 1));
    }
    assert_eq!(evaluated(history), first);
    let text = serde_json::to_string(&first).expect("JSON");
    // It is stored with the model. Its numbers may lose their last digit on the way.
    let read: Evaluation = serde_json::from_str(&text).expect("JSON");
    let judged = |of: &Evaluation| {
        of.views
            .iter()
            .map(|view| (view.hold_out, view.epoch.is_some(), view.folds))
            .collect::<Vec<_>>()
    };
    assert_eq!((judged(&read), read.timed), (judged(&first), first.timed));
}

#[test]
fn too_few_runs_are_said_to_be_too_few() {
    let mut world = World::new(
        9,
        Shape {
            workloads: 1,
            ..Shape::default()
        },
    );
    let history = world.history(0, 40);
    for runs in [0, 1, 4] {
        let evaluation = evaluate_with(history[..runs].to_vec(), &|_| None);
        for view in &evaluation.views {
            let why = view.too_few.as_deref().unwrap_or_default();
            assert!(
                view.epoch.is_none() && why.contains(&format!("needs {FEWEST} ")),
                "{view:?}"
            );
        }
    }
    let evaluation = evaluate_with(history, &|_| None);
    let why = view(&evaluation, HoldOut::Workload).too_few.as_deref();
    assert_eq!(
        why,
        Some("needs 10 runs of one of several workloads, has 0")
    );
    assert!(view(&evaluation, HoldOut::Configuration).too_few.is_none());
}

#[test]
fn runs_that_were_cut_off_or_have_no_time_are_not_judged() {
    let mut world = World::new(
        10,
        Shape {
            workloads: 3,
            cut_off: 0.0,
            ..Shape::default()
        },
    );
    let mut history = world.histories(20);
    let bad = [
        Length::Known(f64::NAN),
        Length::Known(0.0),
        Length::Known(-1.0),
        Length::AtLeast(1.0),
    ];
    for (observation, length) in history.iter_mut().zip(bad) {
        observation.epoch_seconds = Some(length);
    }
    let evaluation = evaluate_with(history, &|_| None);
    assert_eq!((evaluation.timed, evaluation.evaluated), (56, 60));
}

#[test]
fn intervals_hold_for_runs_that_were_held_back() {
    let mut world = World::new(
        11,
        Shape {
            workloads: 5,
            ..Shape::default()
        },
    );
    let evaluation = evaluate(world.histories(14), &Priors::built_in());
    let text = told(&evaluation);
    tell(&text);
    for hold_out in VIEWS {
        let view = view(&evaluation, hold_out);
        let coverage = view.epoch.expect("they were judged").coverage_ratio;
        // Of so few runs intervals are rather too wide than too narrow.
        assert!(coverage >= 0.8, "{hold_out:?}: {coverage}\n{text}");
    }
}

#[test]
fn a_planted_world_is_what_it_says() {
    let mut world = World::new(
        14,
        Shape {
            outliers: 0.0,
            cut_off: 0.0,
            ..Shape::default()
        },
    );
    assert_eq!(world.workloads(), 12);
    let trials = world.trials(2, 1, 400);
    let rests: Vec<f64> = trials
        .iter()
        .map(|run| {
            (run.epoch_seconds.expect("timed").seconds() / world.seconds(&run.situation)).ln()
        })
        .collect();
    let mean = rests.iter().sum::<f64>() / 400.0;
    let sd = (rests.iter().map(|rest| (rest - mean).powi(2)).sum::<f64>() / 399.0).sqrt();
    assert!(
        mean.abs() < 0.02 && (0.02..0.12).contains(&sd),
        "{mean} {sd}"
    );
    // The planted effect of the compiler, as a workload without own effects has it, is in the times.
    let candidates = world.candidates(0, 0);
    assert_eq!(candidates.len(), 12);
    let ratio = world.seconds(&candidates[1]) / world.seconds(&candidates[0]);
    let framework = candidates[1].framework.clone();
    let (name, compiler) = (
        framework.name.expect("a name"),
        framework.compiler.expect("a compiler"),
    );
    let planted = world.effect(&format!("{name} {compiler} cpu"))
        + world.effect(&format!("resnet {name} {compiler} cpu"));
    assert!(
        (ratio.ln() - planted).abs() < 0.25,
        "{} {planted}",
        ratio.ln()
    );
    let best = (0..12).min_by(|a, b| {
        world
            .seconds(&candidates[*a])
            .total_cmp(&world.seconds(&candidates[*b]))
    });
    assert!(world.regret(&candidates, best.expect("candidates")).abs() < 1e-12);
    // The same seed, the same world.
    let again = World::new(14, Shape::default());
    assert_eq!(
        again.seconds(&candidates[3]).to_bits(),
        world.seconds(&candidates[3]).to_bits()
    );
}

/// Variances are looked for on 1,600 configurations; there are twice as many.
#[test]
fn configurations_beyond_the_solved_part_are_forecast_as_well() {
    let shape = Shape {
        workloads: 180,
        ..Shape::default()
    };
    let mut world = World::new(3, shape);
    let history = world.histories(30);
    let model = Model::fit(history, &Priors::none()).expect("there are runs");
    let (mut asked, mut inside, mut off) = (0.0, 0.0, 0.0);
    for workload in (0..world.workloads()).flat_map(|workload| [workload; 8]) {
        let situation = world.some_situation(workload);
        let Some(Length::Known(came)) = world.run(&situation).epoch_seconds else {
            continue;
        };
        let forecast = model.forecast(&situation);
        let time = forecast.time().expect("a time");
        asked += 1.0;
        inside += f64::from(u8::from(time.low <= came && came <= time.high));
        off += (world.seconds(&situation) / time.median).ln().abs();
    }
    let (inside, off) = (inside / asked, off / asked);
    tell(&format!(
        "{asked} asked: within 90 % {inside:.3}, off by {off:.3} in the mean"
    ));
    assert!((0.86..=0.96).contains(&inside), "{inside}");
    assert!(off < 0.08, "{off}");
}
