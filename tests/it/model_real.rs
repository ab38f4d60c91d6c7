//! The 160 measured runs of `tests/fixtures/model/matrix-2026-11.md`: learn from a part, tell the rest.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use dlrun::learn::model::{HoldOut, Model, Observation, Observations, Priors, Situation, evaluate};
use dlrun::record::store::Store;

use crate::model_evaluate::view;
use crate::support::{TestEnv, tell};

fn middle(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    f64::midpoint(values[(values.len() - 1) / 2], values[values.len() / 2])
}

/// The runs as the model gets them: imported into an empty store and read from it, in the order of submission.
fn measured() -> Vec<Observation> {
    let env = TestEnv::new();
    let rows =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/model/matrix-2026-11.jsonl");
    let database = env.root().join("matrix.db");
    let _ = env
        .dlrun(["import", "--store"])
        .arg(&database)
        .arg(rows)
        .run()
        .code(0);
    let store = Store::open(&database).expect("a store");
    let mut read = Observations::read(&store).expect("runs");
    let mut observations: Vec<Observation> = read.by_ref().collect();
    let counted = read.finish().expect("all of them");
    assert_eq!(
        (counted.runs, counted.observations, counted.epochs),
        (160, 160, 680)
    );
    observations.sort_by_key(|observation| observation.at_ms);
    observations
}

/// The cells of one place with and without XLA: forecasts and what came, both as XLA's time ratio.
struct Compiled {
    name: String,
    told: f64,
    came: f64,
}

fn cell(observation: &Observation) -> String {
    let situation = &observation.situation;
    format!(
        "{} {} batch {} CPUs {}",
        situation.workload.model.as_deref().unwrap_or_default(),
        situation.framework.name.as_deref().unwrap_or_default(),
        situation.workload.batch_size.unwrap_or_default(),
        situation.hardware.threads.unwrap_or_default(),
    )
}

/// What XLA does by a model, and what it did in all runs.
fn compiled(model: &Model, all: &[Observation]) -> Vec<Compiled> {
    let mut cells: BTreeMap<String, BTreeMap<String, (Situation, Vec<f64>)>> = BTreeMap::new();
    for observation in all {
        let compiler = observation
            .situation
            .framework
            .compiler
            .clone()
            .expect("a compiler");
        let cell = cells.entry(cell(observation)).or_default();
        let of = cell
            .entry(compiler)
            .or_insert_with(|| (observation.situation.clone(), Vec::new()));
        of.1.push(observation.epoch_seconds.expect("timed").seconds());
    }
    cells
        .into_iter()
        .map(|(name, cell)| {
            let told = |compiler: &str| {
                model
                    .forecast(&cell[compiler].0)
                    .time()
                    .expect("a time")
                    .median
            };
            let came = |compiler: &str| middle(cell[compiler].1.clone());
            Compiled {
                name,
                told: told("xla") / told("none"),
                came: came("xla") / came("none"),
            }
        })
        .collect()
}

/// Of forecasts by `model`: MAPE, share within the 90 % interval, and the interval's upper ÷ lower end of the middle run.
fn judged(model: &Model, rest: &[Observation]) -> (f64, f64, f64) {
    let (mut error, mut within, mut widths) = (0.0, 0.0, Vec::new());
    for observation in rest {
        let told = model
            .forecast(&observation.situation)
            .time()
            .copied()
            .expect("a time");
        let came = observation.epoch_seconds.expect("timed").seconds();
        error += (told.median / came - 1.0).abs();
        within += f64::from(u8::from((told.low..=told.high).contains(&came)));
        widths.push(told.high / told.low);
    }
    (
        error / rest.len() as f64,
        within / rest.len() as f64,
        middle(widths),
    )
}

/// The first `rounds` of the five rounds, in each of which every cell was run once, and the others.
fn rounds(all: &[Observation], rounds: usize) -> (Vec<Observation>, Vec<Observation>) {
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    all.iter().cloned().partition(|observation| {
        let name = format!(
            "{} {:?}",
            cell(observation),
            observation.situation.framework.compiler
        );
        let count = seen.entry(name).or_default();
        *count += 1;
        *count <= rounds
    })
}

#[test]
fn one_round_tells_the_others() {
    let all = measured();
    assert_eq!(all.len(), 160);
    let (train, rest) = rounds(&all, 1);
    assert_eq!((train.len(), rest.len()), (32, 128));
    let model = Model::fit(train, &Priors::built_in()).expect("a model");
    let (error, within, width) = judged(&model, &rest);
    tell(&format!(
        "one round tells four: MAPE {error:.3}, within 90 % {within:.3}, width {width:.2}"
    ));
    for count in 2..5 {
        let (train, rest) = rounds(&all, count);
        let (error, within, width) = judged(
            &Model::fit(train, &Priors::built_in()).expect("a model"),
            &rest,
        );
        tell(&format!(
            "{count} rounds tell the rest: MAPE {error:.3}, within 90 % {within:.3}, width {width:.2}"
        ));
        assert!(error < 0.12 && within > 0.65, "{error} {within}");
    }
    // That round was 5.9 % slower than the mean of all, which no run in it can tell: fewer are within than should be.
    assert!(error < 0.12 && within > 0.65, "{error} {within}");

    // The paper's finding, and its other side: XLA slows the convolutions down, and what has no convolutions it does not.
    let mut text = String::new();
    let effects = compiled(&model, &all);
    for effect in &effects {
        let _ = writeln!(
            text,
            "{}: told {:.2}, came {:.2}",
            effect.name, effect.told, effect.came
        );
    }
    tell(&text);
    for effect in effects
        .iter()
        .filter(|effect| effect.name.starts_with("mnist-cnn tensorflow"))
    {
        assert!(effect.told > 1.25 && effect.came > 1.25, "{text}");
    }
    let quickest = effects
        .iter()
        .find(|effect| effect.name == "gated-mlp tensorflow batch 512 CPUs 2");
    let quickest = quickest.expect("a cell");
    assert!(quickest.told < 0.85 && quickest.came < 0.7, "{text}");
}

#[test]
fn measured_runs_are_predicted_from_the_others() {
    let evaluation = evaluate(measured(), &Priors::built_in());
    for (hold_out, least, most_off) in [
        (HoldOut::Run, 0.8, 0.06),
        (HoldOut::Configuration, 0.8, 0.13),
        // What the other network does nobody can tell.
        (HoldOut::Workload, 0.5, f64::INFINITY),
    ] {
        let view = view(&evaluation, hold_out);
        let errors = view.epoch.expect("a score");
        tell(&format!("{hold_out:?}: {errors:?}"));
        assert!(errors.coverage_ratio > least, "{hold_out:?} {errors:#?}");
        assert!(
            errors.median_error_ln < most_off,
            "{hold_out:?} {errors:#?}"
        );
    }
}
