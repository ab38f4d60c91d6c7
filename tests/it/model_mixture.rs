//! Queues with two kinds of nodes: what is predicted before anybody knows which one a job gets.

use dlrun::job::SchedulerKind;
use dlrun::learn::model::{Length, Likely, Model, Observation, Priors, Situation};

use crate::support::planted::{Dice, Shape, World};
use crate::support::tell;

/// Runs of each workload, and runs that are asked for.
const RUNS: usize = 20;
const ASKED: usize = 12;
/// How often a job gets the first kind.
const FIRST: f64 = 0.6;

/// A way to run a workload, on one of two kinds of nodes.
fn somewhere(world: &World, workload: usize, dice: &mut Dice) -> Situation {
    let machine = usize::from(!dice.chance(FIRST));
    let candidates = world.candidates(workload, machine);
    dice.pick(&candidates).clone()
}

/// What a job of the queue may get, by the runs there.
fn likely(model: &Model, threads: Option<f64>) -> Vec<Likely> {
    let met = model.hardware_met(SchedulerKind::Slurm, &[Some("gpu")], false);
    assert!(met.of_queue);
    let all: u64 = met.kinds.iter().map(|kind| kind.runs).sum();
    #[allow(clippy::cast_precision_loss)]
    let share = |runs: u64| runs as f64 / all as f64;
    let mut kinds = met.kinds;
    kinds
        .iter_mut()
        .for_each(|kind| kind.hardware.threads = threads);
    kinds
        .into_iter()
        .map(|kind| Likely {
            share: share(kind.runs),
            hardware: kind.hardware,
        })
        .collect()
}

#[derive(Default)]
struct Tally {
    asked: f64,
    inside: f64,
    enough: f64,
}

impl Tally {
    fn ask(&mut self, model: &Model, situation: &Situation, kinds: &[Likely], came: &Observation) {
        let (Some(Length::Known(epoch)), Some(Length::Known(wall))) =
            (came.epoch_seconds, came.wall_seconds)
        else {
            return;
        };
        let told = model
            .forecasts_on(std::slice::from_ref(situation), kinds)
            .swap_remove(0);
        let (interval, total) = (
            told.epoch_seconds.expect("an epoch"),
            told.total_seconds.expect("all of it"),
        );
        self.asked += 1.0;
        self.inside += f64::from(u8::from((interval.low..=interval.high).contains(&epoch)));
        self.enough += f64::from(u8::from(wall <= total.high));
    }

    fn shares(&self) -> (f64, f64) {
        (self.inside / self.asked, self.enough / self.asked)
    }
}

#[test]
fn a_queue_with_two_kinds_of_nodes_is_covered() {
    let (mut mixed, mut commonest, mut known) =
        (Tally::default(), Tally::default(), Tally::default());
    for seed in 0..20 {
        let shape = Shape {
            workloads: 6,
            many_nodes: false,
            ..Shape::default()
        };
        let mut world = World::new(4_000 + seed, shape);
        let mut dice = Dice::new(seed);
        let mut runs = Vec::new();
        for workload in 0..world.workloads() {
            for _ in 0..RUNS {
                let situation = somewhere(&world, workload, &mut dice);
                runs.push(world.run(&situation));
            }
        }
        let model = Model::fit(runs, &Priors::none()).expect("there are runs");
        let kinds = likely(&model, Some(8.0));
        assert_eq!(kinds.len(), 2);
        let usual = Likely {
            share: 1.0,
            ..kinds[0].clone()
        };
        for workload in 0..world.workloads() {
            for _ in 0..ASKED {
                let situation = somewhere(&world, workload, &mut dice);
                let came = world.run(&situation);
                mixed.ask(&model, &situation, &kinds, &came);
                known.ask(&model, &situation, &[], &came);
                commonest.ask(&model, &situation, std::slice::from_ref(&usual), &came);
            }
        }
    }
    let ((inside, enough), (inside_one, enough_one)) = (mixed.shares(), commonest.shares());
    let (inside_known, enough_known) = known.shares();
    tell(&format!(
        "two kinds of nodes, {} runs: within 90 % {:.1} %, the upper end sufficed for {:.1} %; with the kind known {:.1} % and {:.1} %, by the commonest alone {:.1} % and {:.1} %",
        mixed.asked,
        100.0 * inside,
        100.0 * enough,
        100.0 * inside_known,
        100.0 * enough_known,
        100.0 * inside_one,
        100.0 * enough_one
    ));
    assert!((0.85..=0.95).contains(&inside), "{inside}");
    assert!(enough >= 0.93, "{enough}");
    assert!(inside_one < 0.8, "one kind would not do: {inside_one}");
}

#[test]
fn candidates_are_chosen_by_what_is_expected_over_the_kinds() {
    let mut world = World::new(
        77,
        Shape {
            workloads: 3,
            many_nodes: false,
            ..Shape::default()
        },
    );
    let mut dice = Dice::new(1);
    let runs: Vec<Observation> = (0..3 * RUNS)
        .map(|at| {
            let situation = somewhere(&world, at % 3, &mut dice);
            world.run(&situation)
        })
        .collect();
    let model = Model::fit(runs, &Priors::none()).expect("there are runs");
    let kinds = likely(&model, Some(8.0));
    let candidates = world.candidates(0, 2);
    let mixed = model.forecasts_on(&candidates, &kinds);
    for (at, told) in mixed.iter().enumerate() {
        let alone = |kind: &Likely| {
            let on = Situation {
                hardware: kind.hardware.clone(),
                ..candidates[at].clone()
            };
            kind.share * model.forecast(&on).total_seconds.expect("all of it").mean
        };
        let expected: f64 = kinds.iter().map(alone).sum();
        assert!((told.total_seconds.expect("all of it").mean / expected - 1.0).abs() < 1e-9);
    }
}
