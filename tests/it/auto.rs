//! Limits that are left open, beside recorded runs: `walltime = "auto"` and `memory = "auto"` on a Slurm that is played.

use std::path::{Path, PathBuf};
use std::time::Duration;

use dlrun::job::JobState;
use dlrun::record::store::{Store, StoreError};
use dlrun::record::{Epoch, ExitStatus, NodeState, Outcome, Progress, RunRecord, Status};
use serde_json::Value;

use crate::records::{mark, node, run, run_id};
use crate::site::with_site;
use crate::support::{TestEnv, unwrapped};

const BEGIN_MS: u64 = 1_763_650_000_000;
const DAY: u64 = 86_400;

/// A place with a Slurm and a state directory, and programs and data to name.
fn place() -> TestEnv {
    let (env, _sbatch) = with_site();
    for (name, text) in [
        ("short.py", "# short"),
        ("slow.py", "# slow"),
        ("a.csv", "1"),
        ("b.csv", "2"),
    ] {
        let _ = env.write(name, text);
    }
    let other = env.job("true", "");
    let _ = env.dlrun(["submit"]).arg(&other).run().code(0);
    env
}

/// A job file of a command, with its limits left open.
fn open(env: &TestEnv, name: &str, command: &str, more: &str) -> PathBuf {
    let words: Vec<&str> = command.split(' ').collect();
    let command = serde_json::to_string(&words).expect("text");
    let limits = "walltime = \"auto\"\nmemory = \"auto\"\n";
    env.write(
        &format!("{name}.toml"),
        format!("[run]\ncommand = {command}\n[resources]\n{limits}{more}"),
    )
}

fn planned(env: &TestEnv, file: &Path) -> Value {
    env.dlrun(["plan", "--json", "--no-check"])
        .arg(file)
        .run()
        .code(0)
        .result()
}

fn walltime(env: &TestEnv, file: &Path) -> u64 {
    planned(env, file)["plan"]["resources"]["walltime"]
        .as_u64()
        .expect("a limit")
}

fn why(env: &TestEnv, file: &Path, what: &str) -> String {
    let planned = planned(env, file);
    let decisions = planned["plan"]["decisions"].as_array().expect("a list");
    let found = decisions.iter().find(|decision| decision["what"] == what);
    found.unwrap_or_else(|| panic!("{decisions:#?}"))["why"]
        .as_str()
        .expect("text")
        .to_owned()
}

/// Plants a run of a job file as it would be recorded, with epochs as `epoch` makes them.
fn plant(
    env: &TestEnv,
    file: &Path,
    number: u32,
    seconds: f64,
    state: JobState,
    epoch: &dyn Fn(u64) -> Option<Epoch>,
) -> RunRecord {
    let plan = planned(env, file)["plan"].clone();
    let submitted_at_ms = BEGIN_MS + u64::from(number) * 3_600_000;
    let record = RunRecord {
        identity: serde_json::from_value(plan["identity"].clone()).expect("an identity"),
        workload: serde_json::from_value(plan["workload"].clone()).expect("a workload"),
        forecast: serde_json::from_value(plan["forecast"].clone()).expect("a forecast, or none"),
        nodes: 1,
        tasks_per_node: Some(1),
        ..run(run_id(number), "job", submitted_at_ms)
    };
    let code = i32::from(state != JobState::Completed);
    let begun = submitted_at_ms + 60_000;
    let ended =
        begun + u64::try_from(Duration::from_secs_f64(seconds).as_millis()).expect("it fits");
    let mut measured = node(run_id(number), "n1", ended);
    measured.host.cpus_allowed = measured.host.cpus;
    measured.state = NodeState::Ended;
    measured.exit = Some(ExitStatus::Code(code));
    (measured.started_at_ms, measured.ended_at_ms) = (begun, Some(ended));
    measured.usage.wall_seconds = Some(seconds);
    measured.progress = Progress {
        recogniser: Some("plain".to_owned()),
        ..Progress::default()
    };
    (1..=5)
        .filter_map(epoch)
        .for_each(|epoch| measured.progress.push_epoch(epoch));
    let outcome = Outcome {
        start: Some(mark(begun, None)),
        end: Some(mark(ended, Some(code))),
        nodes: vec![measured],
        ..Outcome::default()
    };
    let mut store = Store::open(&env.state().join("dlrun.db")).expect("opened");
    let written: Result<(), StoreError> = store.write(|writer| {
        writer.upsert_run(&record)?;
        writer.ingest_attempt(&record.run_id, 0, 0, &outcome)?;
        writer.set_status(&record.run_id, &Status::of(state))
    });
    written.expect("written");
    record
}

/// Runs that completed and told no epochs.
fn ran(env: &TestEnv, file: &Path, first: u32, seconds: &[f64]) {
    for (number, seconds) in (first..).zip(seconds) {
        let _ = plant(env, file, number, *seconds, JobState::Completed, &|_| None);
    }
}

fn stated(seconds: f64) -> impl Fn(u64) -> Option<Epoch> {
    move |epoch| {
        Some(Epoch {
            epoch,
            printed_seconds: Some(seconds),
            ..Epoch::default()
        })
    }
}

#[test]
fn another_program_sets_no_limit() {
    let env = place();
    let short = open(&env, "short", "python3 short.py", "");
    for number in 1..=3 {
        let _ = plant(&env, &short, number, 8.0, JobState::Completed, &stated(0.7));
    }
    let _ = env.dlrun(["model", "fit"]).run().code(0);
    let long = open(
        &env,
        "long",
        "python3 slow.py --epochs 30",
        "[workload]\nepochs = 30\n",
    );
    let planned = planned(&env, &long);
    assert_eq!(planned["plan"]["resources"]["walltime"], DAY, "{planned:#}");
    // A sixteenth of 64000 MiB.
    assert_eq!(planned["plan"]["resources"]["memory"], 4000_u64 << 20);
    let why = why(&env, &long, "walltime");
    assert_eq!(
        why,
        "queue `batch` allows 24h; only runs of this program with other arguments are recorded"
    );
    let text = env
        .dlrun(["plan", "--no-check"])
        .arg(&long)
        .run()
        .code(0)
        .text();
    assert!(
        unwrapped(&text).contains("only runs of this program with other arguments"),
        "{text}"
    );
}

/// Five epochs of a second by the clock behind a start of 330 s; the first says when it ends alone.
fn behind_a_slow_start(epoch: u64) -> Option<Epoch> {
    let clock_seconds = (epoch > 1).then_some(1.0);
    Some(Epoch {
        epoch,
        clock_seconds,
        warmup: epoch == 1,
        ..Epoch::default()
    })
}

#[test]
fn a_slow_start_counts_in_forecast_and_limit() {
    let env = place();
    let slow = open(&env, "slow", "python3 slow.py --epochs 5", "");
    for (number, seconds) in [(1, 335.0), (2, 336.0), (3, 334.0)] {
        let _ = plant(
            &env,
            &slow,
            number,
            seconds,
            JobState::Completed,
            &behind_a_slow_start,
        );
    }
    assert_eq!(
        walltime(&env, &slow),
        600,
        "334 s to 336 s, half as much again and a minute"
    );
    assert!(
        why(&env, &slow, "walltime")
            .starts_with("same script, same arguments: 3 runs, the longest took 5 min 36 s")
    );
    let _ = env.dlrun(["model", "fit"]).run().code(0);
    let total = planned(&env, &slow)["plan"]["forecast"]["total_seconds"].clone();
    let of = |key: &str| total[key].as_f64().unwrap_or_else(|| panic!("{total}"));
    assert!(
        of("low") <= 334.0 && of("high") >= 336.0 && (300.0..370.0).contains(&of("median")),
        "{total}"
    );
    let text = env
        .dlrun(["model", "predict", "--no-check"])
        .arg(&slow)
        .run()
        .code(0)
        .text();
    assert!(text.contains("in all 5 min 3"), "{text}");

    // One that took longer than ever: the next limit is longer, whatever a refit says, and the forecast that it had is judged.
    let _ = plant(&env, &slow, 4, 600.0, JobState::Timeout, &|_| None);
    let raised = walltime(&env, &slow);
    assert!(raised > 1200, "{raised}");
    let _ = env.dlrun(["model", "fit"]).run().code(0);
    assert_eq!(walltime(&env, &slow), raised);
    let judged = env.dlrun(["model", "evaluate", "--json"]).run().code(0);
    let judged = judged.result()["evaluation"]["views"][3].clone();
    assert_eq!(
        (
            &judged["hold_out"],
            &judged["total"]["runs"],
            &judged["total"]["coverage_ratio"]
        ),
        (&"submitted".into(), &1.into(), &0.0.into()),
        "{judged}"
    );
}

#[test]
fn a_limit_that_cut_a_run_off_is_raised_without_a_refit() {
    let env = place();
    let slow = open(&env, "slow", "python3 slow.py", "");
    ran(&env, &slow, 1, &[20.0, 21.0]);
    let mut before = walltime(&env, &slow);
    assert_eq!(before, 300);
    for number in 3.. {
        let _ = plant(
            &env,
            &slow,
            number,
            before as f64,
            JobState::Timeout,
            &|_| None,
        );
        let next = walltime(&env, &slow);
        assert!(next > before, "{next} after {before}");
        before = next;
        if next == DAY {
            break;
        }
        assert!(number < 20, "it climbs to the queue's own limit");
    }
    assert!(why(&env, &slow, "walltime").contains("cut off by the limit"));
}

#[test]
fn what_was_changed_since_does_not_act() {
    let env = place();
    let command = "python3 slow.py --epochs 5 --data a.csv";
    let same = open(&env, "same", command, "");
    ran(&env, &same, 1, &[60.0, 70.0]);
    assert_eq!(walltime(&env, &same), 300);
    let seeded = open(
        &env,
        "seeded",
        &format!("{command} --seed 7 --run-name x1 --output-dir out/7"),
        "",
    );
    assert_eq!(
        walltime(&env, &seeded),
        300,
        "seeds, names and outputs are no difference"
    );

    let others = [
        (command.replace("a.csv", "b.csv"), "", "the data are others"),
        (command.replace(" 5 ", " 6 "), "", "epochs is 6 where 5 ran"),
        (command.replace(" 5 ", " 4 "), "", "epochs is 4 where 5 ran"),
        (
            command.to_owned(),
            "cpus_per_task = 2\n",
            "the size or the queue is another",
        ),
        (
            command.to_owned(),
            "queue = \"gpu\"\n",
            "the size or the queue is another",
        ),
        (format!("{command} --fast"), "", "with other arguments"),
        (
            command.replace("slow.py", "short.py"),
            "",
            "with other arguments",
        ),
        (
            command.to_owned(),
            "[framework]\nname = \"pytorch\"\n",
            "with other arguments",
        ),
    ];
    for (command, more, lacks) in others {
        let other = open(&env, "other", &command, more);
        let limit = if more.contains("gpu") { 7 * DAY } else { DAY };
        assert_eq!(walltime(&env, &other), limit, "{command} {more}");
        let why = why(&env, &other, "walltime");
        assert!(why.contains(lacks), "{lacks}: {why}");
    }
    let _ = env.write("slow.py", "# slow, and slower");
    assert_eq!(walltime(&env, &same), DAY);
    assert!(why(&env, &same, "walltime").contains("the script was edited since"));
    let _ = env.write("slow.py", "# slow");
    assert_eq!(walltime(&env, &same), 300);
    let _ = env.write("a.csv", "11");
    assert!(why(&env, &same, "walltime").contains("the data are others"));
}

#[test]
fn one_run_or_none_that_completed_is_not_enough() {
    let env = place();
    let file = open(&env, "slow", "python3 slow.py", "");
    let _ = plant(&env, &file, 1, 60.0, JobState::Failed, &|_| None);
    let _ = plant(&env, &file, 2, 60.0, JobState::Cancelled, &|_| None);
    assert_eq!(walltime(&env, &file), DAY);
    assert!(why(&env, &file, "walltime").ends_with("no run like it completed"));
    ran(&env, &file, 3, &[50.0]);
    assert_eq!(
        walltime(&env, &file),
        300,
        "the longest took 60 s, and went on longer"
    );
}

#[test]
fn plan_submit_predict_and_render_agree() {
    let env = place();
    let file = open(&env, "hello", "python3 slow.py --epochs 5", "");
    for number in 1..=2 {
        let _ = plant(&env, &file, number, 40.0, JobState::Completed, &stated(7.0));
    }
    let _ = env.dlrun(["model", "fit"]).run().code(0);
    let forecast = planned(&env, &file)["plan"]["forecast"].clone();
    assert_eq!(
        (&forecast["basis"], &forecast["runs"]),
        (&"alike".into(), &2.into()),
        "{forecast}"
    );
    let predicted = env
        .dlrun(["model", "predict", "--json", "--no-check"])
        .arg(&file)
        .run()
        .code(0)
        .result();
    assert_eq!(predicted["forecast"], forecast);
    let script = env
        .dlrun(["render", "--no-check"])
        .arg(&file)
        .run()
        .code(0)
        .text();
    assert!(
        script.contains("--time=00:05:00") || script.contains("--time=5"),
        "{script}"
    );
    let id = env
        .dlrun(["submit", "--json", "--no-check"])
        .arg(&file)
        .run()
        .code(0)
        .result()["run_id"]
        .clone();
    let shown = env.show(id.as_str().expect("an id"));
    assert_eq!(shown["run"]["forecast"], forecast);
    let identity = &shown["run"]["identity"];
    assert_eq!(
        (&identity["program"], &identity["numbers"]["epochs"]),
        (&"python".into(), &5.0.into())
    );
    assert_eq!(identity["asked"]["walltime_seconds"], 300);
    // The table of runs has it, and it comes back from there.
    let rows = env
        .dlrun(["export", "--format", "jsonl", "--what", "runs"])
        .run()
        .code(0)
        .text();
    let file = env.write("runs.jsonl", &rows);
    let store = env.jobs().join("other.db");
    let _ = env
        .dlrun(["import", "--store"])
        .arg(&store)
        .arg(&file)
        .run()
        .code(0);
    let again = env
        .dlrun(["show", "--json", id.as_str().expect("an id"), "--store"])
        .arg(&store)
        .run()
        .code(0)
        .result();
    assert_eq!(again["run"]["identity"], *identity);
}

#[test]
fn a_job_that_no_model_knows_is_planned_and_submitted_and_predict_says_why() {
    let env = place();
    let file = open(&env, "hello", "python3 slow.py", "");
    let predict = || env.dlrun(["model", "predict", "--no-check"]).arg(&file);
    let _ = predict()
        .run()
        .code(65)
        .warns("there is no performance model")
        .warns("`dlrun model fit`");
    let other = open(&env, "other", "python3 short.py", "");
    for number in 1..=3 {
        let _ = plant(&env, &other, number, 9.0, JobState::Completed, &stated(1.0));
    }
    let _ = env.dlrun(["model", "fit"]).run().code(0);
    let _ = predict()
        .run()
        .code(65)
        .warns("cannot predict this job: no run of it was learned from");
    let _ = predict().args(["--model", "nosuch"]).run().code(66);
    let _ = env.dlrun(["plan", "--no-check"]).arg(&file).run().code(0);
    let _ = env.dlrun(["submit", "--no-check"]).arg(&file).run().code(0);
}

#[test]
fn a_repeat_that_ran_is_inside_of_its_forecast() {
    let env = place();
    let file = open(&env, "hello", "python3 slow.py --epochs 5", "");
    for number in 1..=8 {
        let _ = plant(&env, &file, number, 40.0, JobState::Completed, &stated(7.0));
    }
    // A program that was quick eight times and slow once.
    let _ = plant(&env, &file, 9, 400.0, JobState::Completed, &stated(7.0));
    let _ = env.dlrun(["model", "fit"]).run().code(0);
    let total = planned(&env, &file)["plan"]["forecast"]["total_seconds"].clone();
    let of = |key: &str| total[key].as_f64().expect("a number");
    assert!(of("low") <= 40.0 && of("high") >= 400.0, "{total}");
    assert_eq!(
        walltime(&env, &file),
        900,
        "400 s, half as much again and a minute"
    );
}

#[test]
fn a_job_of_the_readme_has_a_forecast_after_one_run_and_a_fit() {
    let env = place();
    // As `jobs/mnist-cnn/train.toml`, without its Python environment.
    let mnist = "[workload]\nmodel = \"mnist-cnn\"\nparameters = 1199882\ndataset = \"digits\"\nsamples = 6000\nbatch_size = 128\n\
                 epochs = 3\nprecision = \"fp32\"\n";
    let mnist = open(&env, "mnist-cnn", "python3 short.py --epochs 3", mnist);
    let hello = open(&env, "hello", "python3 slow.py", "");
    let _ = plant(&env, &mnist, 1, 14.0, JobState::Completed, &|epoch| {
        stated(3.0)(epoch).filter(|_| epoch <= 3)
    });
    let _ = plant(&env, &hello, 2, 0.82, JobState::Completed, &|_| None);
    let _ = env.dlrun(["model", "fit"]).run().code(0);
    for (file, seconds) in [(&mnist, 14.0), (&hello, 0.82)] {
        let forecast = planned(&env, file)["plan"]["forecast"].clone();
        let total = &forecast["total_seconds"];
        assert!(
            total["low"].as_f64().is_some_and(|low| low <= seconds),
            "{forecast}"
        );
        assert!(
            total["high"].as_f64().is_some_and(|high| high >= seconds),
            "{forecast}"
        );
        let predicted = env
            .dlrun(["model", "predict", "--json", "--no-check"])
            .arg(file)
            .run()
            .code(0)
            .result();
        assert_eq!(predicted["forecast"], forecast);
    }
}
