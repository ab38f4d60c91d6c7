//! Real trainings in the order of time: what a plan said before each of them, and what came. `docs/model.md` has the tables;
//! `tests/bench/trainings.py` judges other methods in the same way.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use dlrun::config::Settings;
use dlrun::foundation::statistics::{mean, median};
use dlrun::job::{JobSpec, RunId, SchedulerKind, parse};
use dlrun::learn::model::{Left, Length, Model, Observation, Observations, Priors};
use dlrun::plan::{ModelFacts, Named, Plan, SiteFacts, resolve};
use dlrun::record::store::Store;
use dlrun::record::{Identity, Past};
use serde_json::Value;

use crate::support::{TestEnv, tell};

/// So many runs come before the first that is judged; after so many more the model is fitted again. The third and the fourth set are
/// smaller, and are judged as soon as each of their programs ran.
const FIRST: usize = 40;
const FIRST_OF_THIRD: usize = 12;
const FIRST_OF_FOURTH: usize = 12;
const REFIT: usize = 10;

/// A run, and the job that asks for another one like it.
struct Run {
    spec: JobSpec,
    facts: SiteFacts,
    past: Past,
    seen: Observation,
}

impl Run {
    fn new(row: &Value, seen: Observation) -> Self {
        let known: Option<Identity> = serde_json::from_value(row["identity"].clone()).expect("one");
        let known = known.unwrap_or_default();
        let (mut command, mut numbers) = (known.command, known.numbers);
        // Of the matrix the command is not recorded.
        command.extend(command.is_empty().then(|| "train".to_owned()));
        let threads = seen.situation.hardware.threads.expect("threads");
        let _ = numbers.insert("$OMP_NUM_THREADS".to_owned(), threads);
        let mut job = format!("resources.walltime = \"auto\"\n[run]\ncommand = {command:?}\n");
        for (name, number) in &numbers {
            if let Some(variable) = name.strip_prefix('$') {
                let _ = writeln!(job, "env.{variable} = \"{number}\"");
            }
        }
        let mut spec = parse(&job).expect("a job file");
        spec.framework = seen.situation.framework.clone();
        if row["model"].is_string() {
            spec.workload = seen.situation.workload.clone();
        }
        let mut facts = SiteFacts::unknown("/bench/job.toml".into());
        let script = known.script.map(|path| Named::File {
            path: path.into(),
            bytes: 1,
            digest: known.script_digest,
            executable: false,
        });
        let script = script.map(|script| (command[1].clone(), script));
        facts.named.extend(script);
        let ms = |column: &str| row[column].as_f64().expect("a time");
        let past = Past {
            run_id: seen.run_id.clone(),
            at_ms: seen.at_ms,
            identity: Identity::default(),
            scheduler: SchedulerKind::Local,
            host: String::new(),
            state: serde_json::from_value(row["state"].clone()).expect("a state"),
            wall_seconds: Some((ms("ended_at_ms") - ms("started_at_ms")) / 1e3),
            memory_bytes: None,
        };
        let mut run = Self {
            spec,
            facts,
            past,
            seen,
        };
        let identity = run.plan(&run.spec, None, &[]).identity.expect("one");
        assert!(known.key.is_empty() || known.key == identity.key, "{job}");
        run.past.identity = identity;
        run
    }

    /// The plan of a job with the run's files after the runs `before`.
    fn plan(&self, spec: &JobSpec, model: Option<&ModelFacts>, before: &[Past]) -> Plan {
        let mut facts = self.facts.clone();
        facts.history.past = before.to_vec();
        facts.model = model.cloned();
        let settings = Settings::merge(Some(PathBuf::from("/state")), &[]).expect("settings");
        resolve(spec, &settings, &facts).expect("a plan")
    }
}

/// The rows of a file, and a database of them.
fn imported(env: &TestEnv, name: &str) -> (Vec<u8>, Store) {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/model");
    let text = std::fs::read(fixtures.join(name)).expect("the fixture");
    let text = zstd::bulk::decompress(&text, 1 << 24).unwrap_or(text);
    let (file, database) = (env.root().join("runs.jsonl"), env.root().join("runs.db"));
    std::fs::write(&file, &text).expect("written");
    let import = env.dlrun(["import", "--store"]);
    let _ = import.arg(&database).arg(&file).run().code(0);
    let store = Store::open(&database).expect("a store");
    (text, store)
}

/// The runs of a fixture in the order of submission.
fn runs(name: &str) -> Vec<Run> {
    let env = TestEnv::new();
    let (text, store) = imported(&env, name);
    let seen = Observations::read(&store).expect("runs");
    let seen = seen.map(|seen| (seen.run_id.clone(), seen));
    let mut seen: BTreeMap<RunId, Observation> = seen.collect();
    let rows = serde_json::Deserializer::from_slice(&text).into_iter::<Value>();
    let rows = rows.map(|row| row.expect("JSON"));
    let rows = rows.filter(|row| row["kind"] == "run");
    let run = |row: Value| {
        let id = serde_json::from_value(row["run_id"].clone()).expect("an id");
        Run::new(&row, seen.remove(&id).expect("it was measured"))
    };
    let mut runs: Vec<Run> = rows.map(run).collect();
    runs.sort_by_key(|run| run.seen.at_ms);
    runs
}

/// Figures by what they are of.
#[derive(Default)]
struct Table(BTreeMap<String, Vec<f64>>);

impl Table {
    fn add(&mut self, what: String, figure: f64) {
        self.0.entry(what).or_default().push(figure);
    }

    /// What the plan said of an epoch and of the whole run: by how much its median was off, and whether the truth was inside of the 90 % interval.
    fn forecast(&mut self, how: &str, run: &Run, model: &ModelFacts, before: &[Past]) {
        let epoch = run.seen.epoch_seconds.and_then(Length::known);
        let said = run.plan(&run.spec, Some(model), before).forecast;
        let said = said.map_or([None; 2], |said| [said.epoch_seconds, said.total_seconds]);
        let came = [epoch, run.past.wall_seconds];
        for (at, of) in ["epoch", "run"].iter().enumerate() {
            if let Some((said, came)) = said[at].zip(came[at]) {
                let is_inside = (said.low..=said.high).contains(&came);
                let error = (said.median / came).ln().abs().exp_m1();
                self.add(format!("{of} {how}: error"), error);
                self.add(format!("{of} {how}: inside"), is_inside.into());
            }
        }
    }

    /// Whether `auto` sufficed, and what it wasted beyond the 60 s for the job's end. A run that hit its limit took that long at least.
    #[allow(clippy::cast_precision_loss)]
    fn limit(&mut self, run: &Run, scale: f64, before: &[Past]) {
        let plan = run.plan(&run.spec, None, before);
        if let Some((limit, came)) = plan.resources.walltime.zip(run.past.wall_seconds) {
            let (limit, came) = (limit.0 as f64, scale * came);
            let waste = (limit - 60.0 - came).max(0.0) / limit;
            self.add(format!("auto × {scale}: waste"), waste);
            self.add(format!("auto × {scale}: enough"), (came <= limit).into());
            if came > limit {
                tell(&format!("{} {came} s of {limit} s", run.past.identity.key));
            }
        }
    }

    /// Regret by the whole run, where both compilers ran the job: of `auto`, of none always, of the other always.
    fn choice(&mut self, run: &Run, all: &[Run], model: &ModelFacts, before: &[Past]) {
        let job = |run: &Run| {
            (
                run.past.identity.key.clone(),
                run.past.identity.numbers.clone(),
            )
        };
        let is_none = |compiler: &Option<String>| compiler.as_deref() == Some("none");
        let took = [true, false].map(|none| {
            let same = all.iter().filter(|other| job(other) == job(run));
            let same = same.filter(|other| is_none(&other.spec.framework.compiler) == none);
            median(same.filter_map(|run| run.past.wall_seconds).collect())
        });
        if let [Some(none), Some(other)] = took {
            let mut open = run.spec.clone();
            (open.framework.compiler, open.leaves_compiler) = (None, true);
            let chosen = run.plan(&open, Some(model), before).framework.compiler;
            let auto = if is_none(&chosen) { none } else { other };
            for (of, took) in [("auto", auto), ("none", none), ("other", other)] {
                self.add(format!("{of}: regret"), took / none.min(other) - 1.0);
            }
        }
    }

    /// Asserts the most that half of the medians are off by, the least share inside of the intervals and of limits that suffice, and regret.
    #[allow(clippy::cast_precision_loss)]
    fn assert(&self, off: f64, inside: f64, enough: f64, regret: Option<f64>) {
        let mean = |what: &str| mean(&self.0[what]).expect("some");
        for of in ["epoch", "run"] {
            let errors = self.0[&format!("{of} in time: error")].clone();
            assert!(median(errors).expect("some") < off, "{of}");
            assert!(mean(&format!("{of} in time: inside")) > inside, "{of}");
        }
        let (share, n) = (
            mean("auto × 1: enough"),
            self.0["auto × 1: enough"].len() as f64,
        );
        // The lower end of the 95 % interval (Wilson, 1927).
        let side = (share * (1.0 - share) / n + 0.96 / (n * n)).sqrt();
        let least = (share + 1.92 / n - 1.96 * side) / (1.0 + 3.84 / n);
        tell(&format!(
            "auto suffices in {share:.3} of {n}, at least {least:.3}"
        ));
        assert!(share > enough && regret.is_none_or(|most| mean("auto: regret") < most));
    }
}

fn fitted<'a>(runs: impl Iterator<Item = &'a Run>) -> ModelFacts {
    let seen = runs.map(|run| run.seen.clone()).collect::<Vec<_>>();
    let mut here = seen[0].situation.hardware.clone();
    here.threads = here.cpus;
    ModelFacts {
        model: Model::fit(seen, &Priors::built_in()).expect("one").into(),
        origin: "yours".into(),
        here,
        meant: None,
    }
}

/// Each run by those before it; and a quarter, kept aside by the random letter that their ids begin with, by the others.
fn judged(name: &str, first: usize) -> Table {
    let runs = runs(name);
    let past: Vec<Past> = runs.iter().map(|run| run.past.clone()).collect();
    // The 60 s and the rounding hide what the rule for limits is worth where all runs are short: here their seconds count as minutes.
    let mut long = past.clone();
    let seconds = long.iter_mut().flat_map(|past| &mut past.wall_seconds);
    seconds.for_each(|seconds| *seconds *= 60.0);
    let mut table = Table::default();
    for start in (first..runs.len()).step_by(REFIT) {
        let model = fitted(runs[..start].iter());
        for at in start..runs.len().min(start + REFIT) {
            table.forecast("in time", &runs[at], &model, &past[..at]);
            table.choice(&runs[at], &runs, &model, &past[..at]);
            table.limit(&runs[at], 1.0, &past[..at]);
            table.limit(&runs[at], 60.0, &long[..at]);
        }
    }
    let is_aside = |run: &&Run| run.past.run_id.as_str() < "8";
    let (aside, rest): (Vec<&Run>, Vec<&Run>) = runs.iter().partition(is_aside);
    let model = fitted(rest.iter().copied());
    let past: Vec<Past> = rest.iter().map(|run| run.past.clone()).collect();
    for run in aside {
        table.forecast("aside", run, &model, &past);
    }
    tell(&format!("{name}: {} runs", runs.len()));
    for (what, all) in &table.0 {
        let (n, median, mean) = (all.len(), median(all.clone()), mean(all));
        tell(&format!("{what}: {n}: {median:.3?}, mean {mean:.3?}"));
    }
    table
}

#[test]
fn trainings_on_a_busy_machine_are_predicted_in_the_order_of_time() {
    judged("trainings-2026-11.jsonl.zst", FIRST).assert(0.45, 0.6, 0.97, Some(0.15));
}

#[test]
fn trainings_that_were_never_seen_are_predicted_in_the_order_of_time() {
    judged("trainings-2026-11-b.jsonl.zst", FIRST).assert(0.9, 0.7, 0.95, Some(0.1));
}

#[test]
fn trainings_of_a_third_set_are_predicted_in_the_order_of_time() {
    judged("trainings-2026-11-c.jsonl.zst", FIRST_OF_THIRD).assert(0.9, 0.7, 0.95, None);
}

#[test]
fn trainings_of_a_fourth_set_are_predicted_in_the_order_of_time() {
    judged("trainings-2026-11-d.jsonl.zst", FIRST_OF_FOURTH).assert(0.9, 0.7, 0.95, None);
}

#[test]
fn trainings_on_a_quiet_machine_are_predicted_in_the_order_of_time() {
    judged("matrix-2026-11.jsonl", FIRST).assert(0.08, 0.8, 0.99, Some(0.02));
}

/// The time left that these trainings showed while they ran: with the spread of few epochs taken as known, 62 % of them ended within.
#[test]
fn trainings_end_within_what_was_forecast_while_they_ran() {
    let env = TestEnv::new();
    let (_, store) = imported(&env, "trainings-2026-11.jsonl.zst");
    let mut left = Left::default();
    store
        .each_training(|training| left.add(&training))
        .expect("read");
    let judged = left.errors();
    let counts: Vec<(f64, u64)> = judged
        .iter()
        .map(|one| (one.share, one.errors.runs))
        .collect();
    assert_eq!(counts, [(0.25, 1), (0.5, 16), (0.75, 44)]);
    let held = judged
        .iter()
        .map(|one| one.errors.coverage_ratio * one.errors.runs as f64);
    let coverage = held.sum::<f64>() / 61.0;
    assert!((0.8..=0.95).contains(&coverage), "{judged:?}");
}
