//! The performance model on many worlds whose truth is planted.

use std::collections::{BTreeMap, BTreeSet};

use dlrun::learn::model::{Length, Model, Observation, Priors, Situation};

use super::count;
use crate::support::planted::{Shape, World};
use crate::support::tell;

/// Runs of each workload.
const RUNS: usize = 20;
/// New configurations that are asked for, of each workload.
const ASKED: usize = 10;

/// Workloads whose every candidate ran so often.
const OFTEN: (usize, usize) = (3, 60);

/// Answers that were held against the truth.
#[derive(Default)]
struct Tally {
    asked: f64,
    inside: f64,
    /// Sum of |ln(told ÷ true median)|.
    off: f64,
    /// Sum of ln(upper end ÷ lower end).
    width: f64,
    choices: f64,
    regret: f64,
}

impl Tally {
    /// New configurations of a workload, each run once.
    fn ask(&mut self, model: &Model, world: &mut World, workload: usize, known: &BTreeSet<String>) {
        let mut left = ASKED;
        while left > 0 {
            let situation = world.some_situation(workload);
            if known.contains(&format!("{situation:?}")) {
                continue;
            }
            left -= usize::from(self.hold(model, world, &situation));
        }
    }

    /// A run's forecast against the run; `false`: it was cut off.
    fn hold(&mut self, model: &Model, world: &mut World, situation: &Situation) -> bool {
        let Some(Length::Known(came)) = world.run(situation).epoch_seconds else {
            return false;
        };
        let told = model.forecast(situation).time().copied().expect("a time");
        self.asked += 1.0;
        self.inside += f64::from(u8::from(told.low <= came && came <= told.high));
        self.off += (world.seconds(situation) / told.median).ln().abs();
        self.width += (told.high / told.low).ln();
        true
    }

    /// Each of a job's candidates again, after each ran so often.
    fn repeat(&mut self, mut world: World, machine: usize) {
        let jobs: Vec<Vec<Situation>> = (0..OFTEN.0)
            .map(|workload| world.candidates(workload, machine))
            .collect();
        let mut history = Vec::new();
        for situation in jobs.iter().flatten() {
            history.extend((0..OFTEN.1).map(|_| world.run(situation)));
        }
        let model = fit(history);
        for situation in jobs.iter().flatten() {
            self.hold(&model, &mut world, situation);
        }
    }

    /// The software of a job, chosen as a plan does.
    fn choose(&mut self, model: &Model, world: &World, workload: usize, machine: usize) {
        let candidates = world.candidates(workload, machine);
        let told = model.forecasts(&candidates);
        let median = |at: &usize| told[*at].time().expect("a time").median;
        let best = (0..candidates.len()).min_by(|a, b| median(a).total_cmp(&median(b)));
        self.choices += 1.0;
        self.regret += world.regret(&candidates, best.expect("candidates"));
    }

    fn coverage(&self) -> f64 {
        self.inside / self.asked
    }

    fn mean_regret(&self) -> f64 {
        self.regret / self.choices
    }

    fn tell(&self, what: &str) {
        tell(&format!(
            "{what}: within 90 % {:.1} %, off by {:.1} % in the mean, width {:.2}, regret {:.2} % ({} asked, {} choices)",
            100.0 * self.coverage(),
            100.0 * self.off / self.asked,
            (self.width / self.asked).exp(),
            if self.choices > 0.0 {
                100.0 * self.mean_regret()
            } else {
                0.0
            },
            self.asked,
            self.choices,
        ));
    }
}

/// Learned effects of one kind against what was planted.
#[derive(Default)]
struct Recovered {
    effects: f64,
    inside: f64,
    /// Squares of what was planted, and of what the model is off by.
    planted: f64,
    off: f64,
}

/// The logarithm of what was planted between two names of a kind; `None`: the world holds several answers.
fn planted(world: &World, kind: &str, within: &str, this: &str, than: &str) -> Option<f64> {
    let (framework, device) = within.split_once(" on ").unwrap_or((within, within));
    let device = device.trim_start_matches("on ").to_ascii_lowercase();
    // Of versions the model keeps two numbers.
    let version = |name: &str| {
        if name == "0.4" {
            "jax 0.4.30".to_owned()
        } else {
            format!("{framework} {name}")
        }
    };
    let difference =
        |name: &dyn Fn(&str) -> String| world.effect(&name(this)) - world.effect(&name(than));
    match kind {
        "compiler" => Some(difference(&|name| format!("{framework} {name} {device}"))),
        "version" => Some(difference(&version)),
        "provenance" => Some(difference(&|name| format!("{framework} {name}"))),
        "precision" => Some(difference(&|name| format!("{name} {device}"))),
        "storage" => Some(difference(&str::to_owned)),
        _ => None,
    }
}

fn recover(found: &mut BTreeMap<String, Recovered>, model: &Model, world: &World) {
    let explanation = model.explanation();
    let effects = explanation.effects.iter();
    for effect in effects.filter(|effect| effect.workload.is_none()) {
        let Some(truth) = planted(
            world,
            &effect.kind,
            &effect.within,
            &effect.this,
            &effect.than,
        ) else {
            continue;
        };
        let ratio = effect.time_ratio;
        let its = found.entry(effect.kind.clone()).or_default();
        its.effects += 1.0;
        its.inside += f64::from(u8::from(
            ratio.low.ln() <= truth && truth <= ratio.high.ln(),
        ));
        its.planted += truth * truth;
        its.off += (ratio.median.ln() - truth).powi(2);
    }
}

fn fit(runs: impl IntoIterator<Item = Observation>) -> Model {
    Model::fit(runs, &Priors::none()).expect("there are runs")
}

fn names(situation: &Situation) -> (Option<&str>, Option<&str>) {
    (
        situation.workload.model.as_deref(),
        situation.workload.dataset.as_deref(),
    )
}

/// What `docs/model.md` promises, over `DLRUN_SOAK_COUNT` worlds.
#[test]
#[ignore = "soak tier: tests/run soak"]
fn over_many_worlds_the_model_keeps_its_promises() {
    let worlds = count(200);
    let (mut known, mut new, mut often) = (Tally::default(), Tally::default(), Tally::default());
    let mut recovered = BTreeMap::new();
    for seed in 0..worlds {
        let mut world = World::new(u64::try_from(seed).expect("few"), Shape::default());
        let history = world.histories(RUNS);
        let model = fit(history.iter().cloned());
        recover(&mut recovered, &model, &world);
        let measured: BTreeSet<String> = history
            .iter()
            .map(|run| format!("{:?}", run.situation))
            .collect();
        for workload in 0..world.workloads() {
            known.ask(&model, &mut world, workload, &measured);
            known.choose(&model, &world, workload, workload + seed);
        }
        often.repeat(
            World::new(u64::try_from(seed).expect("few"), Shape::default()),
            seed,
        );
        // A workload that was never run, on software that others ran.
        let left_out = seed % world.workloads();
        let asked = world.candidates(left_out, 0).swap_remove(0);
        let others = history
            .into_iter()
            .filter(|run| names(&run.situation) != names(&asked));
        let model = fit(others);
        new.ask(&model, &mut world, left_out, &measured);
        (0..5).for_each(|machine| new.choose(&model, &world, left_out, machine));
    }
    tell(&format!(
        "{worlds} worlds of 12 workloads with {RUNS} runs each"
    ));
    known.tell("a known workload in new configurations");
    new.tell("a new workload on known software");
    often.tell("configurations that ran 60 times");
    for (kind, its) in &recovered {
        let its: &Recovered = its;
        tell(&format!(
            "{kind}: {} effects, within 90 % {:.1} %, off by {:.3} of {:.3} (root of mean squares)",
            its.effects,
            100.0 * its.inside / its.effects,
            (its.off / its.effects).sqrt(),
            (its.planted / its.effects).sqrt(),
        ));
    }
    assert!(
        (0.85..=0.95).contains(&known.coverage()),
        "{}",
        known.coverage()
    );
    assert!(known.mean_regret() <= 0.02, "{}", known.mean_regret());
    assert!(new.mean_regret() <= 0.10, "{}", new.mean_regret());
    assert!(
        (0.85..=0.95).contains(&often.coverage()),
        "{}",
        often.coverage()
    );
    assert!(new.coverage() >= 0.85, "{}", new.coverage());
    for (kind, its) in &recovered {
        assert!(
            its.inside / its.effects >= 0.8,
            "{kind}: {} of {} intervals hold",
            its.inside,
            its.effects
        );
        assert!(
            its.off < 0.5 * its.planted,
            "{kind}: squares of {} for {}",
            its.off,
            its.planted
        );
    }
}
