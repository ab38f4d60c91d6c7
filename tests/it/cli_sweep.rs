//! `dlrun sweep`: a small training on the local scheduler whose parameters are searched.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::sys::signal::Signal;
use nix::unistd::Pid;
use serde_json::Value;

use crate::support::env::{Dlrun, python};
use crate::support::{TestEnv, wait_for};

/// A training that notes its value, and whose loss after ten epochs is `(x - 3)²`, from above.
const PROGRAM: &str = r#"
echo "$1" >>ran
[ "$1" = "${FAILS:-none}" ] && { echo "ValueError: x is $1"; exit 3; }
for epoch in 1 2 3 4 5 6 7 8 9 10; do
    sleep "${2:-0}"
    echo "Epoch $epoch/10 - 0.01s - loss: $((($1 - 3) * ($1 - 3) + 10 - epoch)).0"
done
"#;

fn sweep(env: &TestEnv, pause: &str, lines: &str) -> PathBuf {
    let _ = env.write("step.sh", PROGRAM);
    let job = format!(
        "[run]\ncommand = [\"sh\", \"step.sh\", \"{{{{x}}}}\", \"{pause}\"]\n[resources]\ncpus_per_task = 1\n"
    );
    env.write(
        "small.toml",
        format!("{job}[sweep]\nmetric = \"loss\"\nmode = \"min\"\n{lines}"),
    )
}

fn run(env: &TestEnv, file: &Path) -> Dlrun {
    env.dlrun(["sweep", "run", "--scheduler", "local"])
        .arg(file)
}

fn ran(env: &TestEnv) -> Vec<String> {
    let text = fs::read_to_string(env.jobs().join("ran")).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

const WHOLE: &str = "[sweep.space]\nvars.x = { low = 0, high = 11 }\n";

#[test]
fn the_planted_best_is_found_and_becomes_a_job_file() {
    let env = TestEnv::new();
    let file = sweep(
        &env,
        "0",
        &format!("sampler = \"grid\"\nmax_jobs = 3\n{WHOLE}"),
    );
    let done = run(&env, &file).arg("--json").run().code(0);
    let result = done.result();
    assert_eq!(
        (&result["best"], &result["trials_planned"]),
        (&4.into(), &12.into()),
        "{result}"
    );
    let table = env.dlrun(["sweep", "show"]).run().code(0).text();
    let ended = done
        .stderr
        .lines()
        .filter_map(|line| line.split("(run ").nth(1));
    let times: Vec<_> = ended.filter_map(|end| end.split_once(", ")).collect();
    assert_eq!(times.len(), 12, "{}", done.stderr);
    for (id, took) in times {
        let row = table.lines().find(|line| line.contains(id));
        let took = took.trim_end_matches(')');
        assert!(
            row.is_some_and(|row| row.contains(took)),
            "{id} {took}: {table}"
        );
    }
    let again = run(&env, &file).args(["--trials", "2"]).run().code(0);
    let _ = again.warns("nothing is left to run: 12 runs finished earlier");
    let first = &result["trials"][0];
    assert_eq!(
        (
            &first["values"]["vars.x"],
            &first["outcome"]["value"],
            &first["outcome"]["epochs"]
        ),
        (&3.into(), &0.0.into(), &10.into())
    );
    let csv = env
        .dlrun(["sweep", "show", "small", "--csv"])
        .run()
        .code(0)
        .text();
    assert_eq!(csv.lines().count(), 13, "{csv}");
    assert!(
        csv.lines()
            .nth(1)
            .is_some_and(|line| line.starts_with("4,0,10,")),
        "{csv}"
    );
    let _ = env
        .dlrun(["sweep", "show", "--html", "page.html"])
        .run()
        .code(0);
    let page = fs::read_to_string(env.jobs().join("page.html")).expect("written");
    assert!(
        page.contains("Best: trial 4, loss 0, with x=3.") && page.matches("h1").count() >= 12,
        "{page}"
    );
    let best = env.dlrun(["sweep", "show", "--best"]).run().code(0);
    let home = format!("save it in {}:", env.jobs().display());
    let job = env.write("best.toml", best.warns(&home).text());
    let _ = env.dlrun(["check"]).arg(&job).run().code(0);
    assert!(fs::read_to_string(job).expect("written").contains("\"3\""));
}

#[test]
fn the_page_draws_each_trial_through_all_parameters() {
    let env = TestEnv::new();
    let space = "[sweep.space]\nvars.x = { low = 2, high = 5 }\nrun.env.OTHER = [\"a\", \"b\"]\n";
    let file = sweep(
        &env,
        "0",
        &format!("sampler = \"grid\"\nmax_jobs = 4\n{space}"),
    );
    let _ = run(&env, &file).run().code(0);
    let _ = env
        .dlrun(["sweep", "show", "--html", "page.html"])
        .run()
        .code(0);
    let page = fs::read_to_string(env.jobs().join("page.html")).expect("written");
    let (_, drawn) = page
        .split_once("in colour: the best 1 trial")
        .expect("the drawing");
    let lines = |class: &str| {
        let (_, rest) = drawn
            .split_once(&format!("class=\"{class}\""))
            .expect("a shape");
        let (path, _) = rest.split_once("/>").expect("its end");
        path.matches('M').count()
    };
    assert_eq!((lines("line"), lines("others")), (1, 7), "{drawn}");
}

#[test]
fn trials_that_are_worse_are_stopped_and_what_they_had_is_kept() {
    let env = TestEnv::new();
    let lines =
        format!("sampler = \"grid\"\nmax_jobs = 2\nstop = \"asha\"\nfirst_epoch = 2\n{WHOLE}");
    let file = sweep(&env, "0.2", &lines);
    let result = run(&env, &file).arg("--json").run().code(0).result();
    assert_eq!(result["best"], 4, "{result}");
    let trials = result["trials"].as_array().expect("a list");
    let stopped: Vec<&Value> = trials
        .iter()
        .filter(|trial| !trial["outcome"]["stopped_at"].is_null())
        .collect();
    assert!(stopped.len() >= 6, "{result}");
    for trial in stopped {
        let outcome = &trial["outcome"];
        assert!(
            outcome["value"].is_f64() && outcome["epochs"].as_u64() < Some(10),
            "{trial}"
        );
        assert_eq!(
            (&outcome["state"], &outcome["failure"]),
            (&"cancelled".into(), &Value::Null)
        );
    }
}

#[test]
fn a_killed_sweep_goes_on_and_no_trial_is_lost_or_doubled() {
    let env = TestEnv::new();
    let file = sweep(
        &env,
        "0.02",
        &format!("sampler = \"grid\"\nmax_jobs = 2\n{WHOLE}"),
    );
    let mut kills = 0;
    for seen in [1, 3, 5, 8] {
        let started = run(&env, &file).start();
        wait_for("trials", || ran(&env).len() >= seen);
        started.signal(Signal::SIGKILL);
        let _ = started.finish().killed_by(Signal::SIGKILL);
        kills += 1;
    }
    let result = run(&env, &file).arg("--json").run().code(0).result();
    let values = ran(&env);
    let once: BTreeSet<&String> = values.iter().collect();
    assert_eq!((values.len(), once.len(), kills), (12, 12, 4), "{values:?}");
    assert_eq!(
        (&result["best"], result["trials"].as_array().map(Vec::len)),
        (&4.into(), Some(12))
    );
    // At its end there is nothing left to do.
    let _ = run(&env, &file).run().code(0);
    assert_eq!(ran(&env).len(), 12);
}

/// A training that continues from its checkpoint, notes each epoch that it trains, and whose loss is `(x - 3)²` and less with each.
const RESUMED: &str = r#"
mkdir -p "ckpt/$3"
last=$(cat "${DLRUN_RESUME_FROM:-/dev/null}")
for epoch in $(seq $((${last:-0} + 1)) "$2"); do
    sleep 0.02
    echo "$3 $epoch" >>ran
    echo "Epoch $epoch/$2 - 0.02s - loss: $((($1 - 3) * ($1 - 3) + 10 - epoch)).0"
    echo "$epoch" >"ckpt/$3/tmp.part"
    mv "ckpt/$3/tmp.part" "ckpt/$3/e$epoch"
done
"#;

fn promoted(env: &TestEnv, program: &str) -> PathBuf {
    let _ = env.write("step.sh", program);
    let job = "[run]\ncommand = [\"sh\", \"step.sh\", \"{{x}}\", \"{{epochs}}\", \"{{trial}}\"]\n[workload]\nepochs = 9\n\
               [resume]\ncheckpoints = [\"ckpt/{{trial}}/*\"]\n[resources]\ncpus_per_task = 1\n";
    let sweep = "[sweep]\nmetric = \"loss\"\nmode = \"min\"\nsampler = \"grid\"\nmax_jobs = 2\nstop = \"promotion\"\n";
    env.write("small.toml", format!("{job}{sweep}{WHOLE}"))
}

#[test]
fn the_best_trials_continue_from_their_checkpoints_and_no_epoch_is_trained_twice() {
    let env = TestEnv::new();
    let file = promoted(&env, RESUMED);
    for seen in [3, 9, 15] {
        let started = run(&env, &file).start();
        wait_for("epochs", || ran(&env).len() >= seen);
        started.signal(Signal::SIGKILL);
        let _ = started.finish().killed_by(Signal::SIGKILL);
    }
    let result = run(&env, &file).arg("--json").run().code(0).result();
    let first = &result["trials"][0];
    assert_eq!(
        (
            &result["best"],
            &first["spent"]["epochs"],
            &first["outcome"]["value"]
        ),
        (&4.into(), &9.into(), &1.0.into()),
        "{result}"
    );
    let trials = result["trials"].as_array().expect("a list");
    let trained = |epochs: u64| {
        let is_it = |trial: &&Value| trial["spent"]["epochs"] == epochs;
        trials.iter().filter(is_it).count()
    };
    // A third of twelve and of four, rounded down; which one was compared before the best came is chance.
    let (few, some, all) = (trained(1), trained(3), trained(9));
    assert!(
        all >= 1 && some >= 2 && few >= 6 && few + some + all == 12,
        "{result}"
    );
    let epochs = ran(&env);
    let once: BTreeSet<&String> = epochs.iter().collect();
    assert_eq!(epochs.len(), once.len(), "{epochs:?}");
    assert_eq!(epochs.len(), few + 3 * some + 9 * all);
    let best = env.dlrun(["sweep", "show", "--best"]).run().code(0);
    assert!(best.text().contains("epochs = 9"), "{}", best.text());
    let _ = run(&env, &file)
        .run()
        .code(0)
        .warns("nothing is left to run");
}

/// Its job is killed after the checkpoint of its last epoch, and `[resume]` starts it again. What was written in the last second
/// before a SIGKILL would not be trusted.
#[test]
fn a_start_with_nothing_left_to_train_has_the_value_of_the_attempt_before() {
    let env = TestEnv::new();
    let killed = "[ \"$1 $2 $DLRUN_ATTEMPT\" != \"3 9 0\" ] || { sleep 1.1; kill -KILL $$; }\n";
    let file = promoted(&env, &format!("{RESUMED}{killed}"));
    let text = fs::read_to_string(&file).expect("ours");
    let text = text.replace("[resume]\n", "[resume]\non = [\"failure\"]\n");
    fs::write(&file, text).expect("ours");
    let result = run(&env, &file).arg("--json").run().code(0).result();
    let first = &result["trials"][0];
    let found = serde_json::json!([
        first["trial"],
        first["outcome"]["value"],
        first["spent"]["epochs"]
    ]);
    assert_eq!(found, serde_json::json!([4, 1.0, 9]), "{result}");
    assert_eq!(
        ran(&env)
            .iter()
            .filter(|line| line.starts_with("0004 "))
            .count(),
        9
    );
}

/// What was known of a trial before it continued stays in the table, the CSV file and the choice of the best one.
#[test]
fn a_trial_that_fails_when_it_continues_keeps_its_value() {
    let env = TestEnv::new();
    let fails = "[ \"$1 $2\" = \"3 9\" ] && exit 7\n";
    let file = promoted(&env, &format!("{fails}{RESUMED}"));
    let result = run(&env, &file).arg("--json").run().code(0).result();
    let (first, why) = (&result["trials"][0], "the program ended with exit code 7");
    let (outcome, later) = (&first["outcome"], &first["later"]);
    assert_eq!(
        [
            &result["best"],
            &outcome["value"],
            &later["epochs"],
            &later["state"]
        ],
        [&4.into(), &7.0.into(), &9.into(), &Value::from("failed")],
        "{result}"
    );
    let failure = later["failure"].as_str().unwrap_or_default();
    assert!(failure.starts_with(why), "{result}");
    assert_eq!(first["spent"]["epochs"], 3, "{result}");
    let shown = env.dlrun(["sweep", "show"]).run().code(0);
    let state = format!("given 3 epochs; to 9: {why}");
    assert!(shown.text().contains(&state), "{}", shown.text());
    let csv = env.dlrun(["sweep", "show", "--csv"]).run().code(0);
    let line = csv.text().lines().nth(1).expect("a trial").to_owned();
    assert!(line.starts_with("4,7,3,"), "{line}");
    assert!(line.contains(&format!(",failed,\"{why}")), "{line}");
    let again = run(&env, &file).run().code(0);
    let _ = again.warns("nothing is left to run");
}

/// Before the journal of the sweep before is set aside.
#[test]
fn a_single_machine_has_no_other_to_conduct_a_sweep() {
    let env = TestEnv::new();
    let file = sweep(
        &env,
        "0",
        "sampler = \"sobol\"\ntrials = 2\n[sweep.space]\nvars.x = { low = 0, high = 11 }\n",
    );
    let _ = run(&env, &file).run().code(0);
    let refused = run(&env, &file)
        .arg("--detach")
        .arg("--restart")
        .run()
        .code(64);
    assert!(refused.stderr.contains("nohup"), "{}", refused.stderr);
    assert_eq!(ran(&env).len(), 2);
    let _ = run(&env, &file)
        .run()
        .code(0)
        .warns("nothing is left to run");
}

#[test]
fn a_changed_search_is_refused_and_a_larger_budget_continues() {
    let env = TestEnv::new();
    let lines = |trials: u32, low: u32| {
        format!(
            "sampler = \"sobol\"\ntrials = {trials}\n[sweep.space]\nvars.x = {{ low = {low}, high = 11 }}\n"
        )
    };
    let _ = run(&env, &sweep(&env, "0", &lines(2, 0))).run().code(0);
    let _ = run(&env, &sweep(&env, "0", &lines(4, 0))).run().code(0);
    assert_eq!(ran(&env).len(), 4);
    let refused = run(&env, &sweep(&env, "0", &lines(4, 1))).run().code(65);
    assert!(
        refused
            .stderr
            .contains("was started with another `sweep.space.vars.x`"),
        "{}",
        refused.stderr
    );
    assert_eq!(ran(&env).len(), 4);
    let _ = run(&env, &sweep(&env, "0", &lines(4, 1)))
        .arg("--restart")
        .run()
        .code(0);
    assert_eq!(ran(&env).len(), 8);
}

#[test]
fn failing_trials_are_named_and_a_metric_that_never_comes_ends_the_sweep() {
    let env = TestEnv::new();
    let file = sweep(&env, "0", &format!("sampler = \"grid\"\n{WHOLE}"));
    let text = fs::read_to_string(&file)
        .expect("text")
        .replace("[resources]", "env = { FAILS = \"3\" }\n[resources]");
    fs::write(&file, text).expect("ours");
    let result = run(&env, &file).arg("--json").run().code(0).result();
    assert!(
        [3, 5].contains(&result["best"].as_u64().expect("one of both sides")),
        "{result}"
    );
    let last = result["trials"]
        .as_array()
        .and_then(|all| all.last())
        .expect("trials");
    assert_eq!(
        (&last["trial"], &last["outcome"]["failure"]),
        (&4.into(), &"the program ended with exit code 3".into())
    );
    // It is not tried twice: it would fail again.
    assert_eq!(ran(&env).iter().filter(|x| *x == "3").count(), 1);
    let other = fs::read_to_string(&file)
        .expect("text")
        .replace("\"loss\"", "\"los\"")
        .replace("[sweep]", "[sweep]\nname = \"other\"");
    let file = env.write("other.toml", other);
    let done = run(&env, &file).run().code(10);
    assert!(done.stderr.contains("it shows loss"), "{}", done.stderr);
    assert!(ran(&env).len() < 12 + 8, "five failures are enough");
}

fn damaged_run(env: &TestEnv) -> PathBuf {
    let runs = env.state().join("runs");
    wait_for("a run", || {
        runs.read_dir().is_ok_and(|mut all| all.next().is_some())
    });
    let run = runs
        .read_dir()
        .expect("runs")
        .flatten()
        .next()
        .expect("one")
        .path();
    wait_for("its record", || run.join("run.json").exists());
    run
}

#[test]
fn a_running_job_whose_record_cannot_be_read_is_neither_removed_nor_started_twice() {
    let env = TestEnv::new();
    let file = sweep(&env, "0.5", &format!("sampler = \"grid\"\n{WHOLE}"));
    let started = run(&env, &file).start();
    wait_for("a trial", || !ran(&env).is_empty());
    let dir = damaged_run(&env);
    started.signal(Signal::SIGKILL);
    let _ = started.finish().killed_by(Signal::SIGKILL);
    let record = fs::read(dir.join("run.json")).expect("a record");
    fs::write(dir.join("run.json"), "{").expect("ours");
    let done = run(&env, &file).run();
    assert!(
        !done.status.success() && done.stderr.contains("run.json"),
        "{}",
        done.stderr
    );
    assert!(dir.is_dir());
    fs::write(dir.join("run.json"), record).expect("ours");
    let fast = fs::read_to_string(&file).expect("text");
    assert!(fast.contains("0.5"));
    let first = env.dlrun(["list", "--json"]).run().code(0).result();
    assert_eq!(first["runs"].as_array().map(Vec::len), Some(1));
}

#[test]
fn every_value_of_a_list_is_checked_before_the_first_trial() {
    let env = TestEnv::new();
    let file = sweep(
        &env,
        "0",
        "[sweep.space]\nvars.x = [1]\nresources.walltime = [\"1h\", \"banana\", \"2h\"]\n",
    );
    let refused = run(&env, &file).run().code(65);
    assert!(
        refused.stderr.contains("banana") && refused.stderr.contains("trial 1 ("),
        "{}",
        refused.stderr
    );
    assert!(ran(&env).is_empty());
}

#[test]
fn a_loss_that_is_no_number_is_the_worst_and_no_failure() {
    let env = TestEnv::new();
    let file = sweep(&env, "0", &format!("sampler = \"grid\"\n{WHOLE}"));
    let program = PROGRAM
        .replace("loss: $((", "loss: $N$((")
        .replace("for epoch", "[ $1 -lt 6 ] && N=nan\nfor epoch")
        .replace(
            "$N$((($1 - 3) * ($1 - 3) + 10 - epoch)).0",
            "${N:-$((($1 - 3) * ($1 - 3) + 10 - epoch)).0}",
        );
    let _ = env.write("step.sh", program);
    let result = run(&env, &file).arg("--json").run().code(0).result();
    assert_eq!(result["best"], 7, "{result}");
    let trials = result["trials"].as_array().expect("a list");
    assert!(
        trials
            .iter()
            .all(|trial| trial["outcome"]["failure"].is_null()),
        "{result}"
    );
    assert_eq!(
        trials
            .iter()
            .filter(|trial| trial["outcome"]["value"].is_null())
            .count(),
        6
    );
}

#[test]
fn a_metric_that_not_every_epoch_shows_is_compared_where_it_is_shown() {
    let env = TestEnv::new();
    let file = sweep(
        &env,
        "0.2",
        &format!("sampler = \"grid\"\nmax_jobs = 2\nstop = \"asha\"\n{WHOLE}"),
    );
    let program = PROGRAM.replace("    echo \"Epoch", "    [ $((epoch % 2)) = 1 ] && echo \"Epoch $epoch/10 - 0.01s\" && continue\n    echo \"Epoch");
    let _ = env.write("step.sh", program);
    let result = run(&env, &file).arg("--json").run().code(0).result();
    let trials = result["trials"].as_array().expect("a list");
    let stopped = trials
        .iter()
        .filter(|trial| !trial["outcome"]["stopped_at"].is_null());
    assert!(stopped.count() >= 4, "{result}");
}

#[test]
fn the_same_name_elsewhere_is_refused_and_a_restart_names_what_still_runs() {
    let env = TestEnv::new();
    let file = sweep(
        &env,
        "3",
        "sampler = \"sobol\"\ntrials = 2\n[sweep.space]\nvars.x = { low = 0, high = 11 }\n",
    );
    let started = run(&env, &file).start();
    wait_for("a trial", || !ran(&env).is_empty());
    started.signal(Signal::SIGKILL);
    let _ = started.finish().killed_by(Signal::SIGKILL);
    fs::create_dir(env.jobs().join("other")).expect("ours");
    let _ = env.write("other/step.sh", PROGRAM);
    let other = env.write("other/small.toml", fs::read_to_string(&file).expect("text"));
    let refused = run(&env, &other).run().code(65);
    assert!(
        refused.stderr.contains("was started from"),
        "{}",
        refused.stderr
    );
    let again = run(&env, &file).arg("--restart").start();
    wait_for("the new trials", || {
        ran(&env).len() > 1
            || env
                .state()
                .join("sweeps/small")
                .read_dir()
                .is_ok_and(|all| all.count() > 4)
    });
    again.signal(Signal::SIGKILL);
    let done = again.finish().killed_by(Signal::SIGKILL);
    assert!(
        done.stderr.contains("may still run beside"),
        "{}",
        done.stderr
    );
}

#[test]
fn node_hours_end_a_sweep_and_it_says_so() {
    let env = TestEnv::new();
    let file = sweep(
        &env,
        "0",
        &format!("sampler = \"grid\"\nnode_hours = 1e-6\n{WHOLE}"),
    );
    let done = run(&env, &file).run().code(0);
    assert!(done.stderr.contains("are used up"), "{}", done.stderr);
    assert_eq!(ran(&env).len(), 1);
}

/// A sweep of three whose second and third trials are worse, each as long as it takes to hear of it.
fn sweep_that_stops(env: &TestEnv, program: &str, wait: &str) -> Value {
    let _ = env.write("train.py", program);
    let job = format!(
        "[run]\ncommand = ['{}', 'train.py', '{{{{x}}}}']\n[resources]\ncpus_per_task = 1\n",
        python().display()
    );
    let sweep = format!(
        "[sweep]\nmetric = 'loss'\nmode = 'min'\nsampler = 'grid'\nmax_jobs = 3\nstop = 'asha'\nstop_wait = '{wait}'\n"
    );
    let file = env.write(
        "small.toml",
        format!("{job}{sweep}[sweep.space]\nvars.x = [1, 2, 3]\n"),
    );
    let module = Path::new(env!("CARGO_MANIFEST_DIR")).join("python/dlrun_events.py");
    fs::copy(module, env.jobs().join("dlrun_events.py")).expect("ours");
    run(env, &file).arg("--json").run().code(0).result()
}

const TRAIN: &str = "import sys, time\nfrom dlrun_events import epoch, should_stop\nx = sys.argv[1]\n\
    for number in range(1, 121):\n    with epoch(number, of=120) as now:\n        time.sleep(0.1)\n        now['loss'] = float(x)\n    ";

fn stopped(result: &Value, state: &str) -> Vec<u64> {
    let trials = result["trials"].as_array().expect("a list").iter();
    trials
        .filter(|trial| {
            !trial["outcome"]["stopped_at"].is_null() && trial["outcome"]["state"] == state
        })
        .map(|trial| trial["values"]["vars.x"].as_u64().expect("a number"))
        .collect()
}

#[test]
fn a_program_that_asks_ends_by_itself_and_counts_as_stopped() {
    let env = TestEnv::new();
    let asks = "if should_stop():\n        open('saved-' + x, 'w').close()\n        sys.exit(0)\n";
    let result = sweep_that_stops(&env, &format!("{TRAIN}{asks}"), "10m");
    let stopped = stopped(&result, "completed");
    assert!(!stopped.is_empty(), "{result}");
    for x in 1..=3 {
        let has_saved = env.jobs().join(format!("saved-{x}")).exists();
        assert_eq!(has_saved, stopped.contains(&x), "{x} {result}");
    }
    let trials = result["trials"].as_array().expect("a list");
    let is_valued = |trial: &Value| trial["outcome"]["value"].is_f64();
    assert!(trials.iter().all(is_valued), "{result}");
}

#[test]
fn a_program_that_never_asks_is_cancelled_after_the_wait() {
    let env = TestEnv::new();
    let result = sweep_that_stops(&env, &format!("{TRAIN}pass\n"), "1s");
    assert!(!stopped(&result, "cancelled").is_empty(), "{result}");
}

/// The loss falls with x, and the second metric rises: with `y` of 1 it is worse than it could be.
#[test]
fn two_metrics_have_a_front_and_no_best_trial() {
    let env = TestEnv::new();
    let program = "echo \"Epoch 1/1 - 0.01s - loss: $((9 - $1)).0 - val_loss: $(($1 + $2)).0\"\n";
    let _ = env.write("step.sh", program);
    let sweep = "[sweep]\nmetric = ['loss', 'val_loss']\nmode = ['min', 'min']\nsampler = 'grid'\nmax_jobs = 3\n\
                 [sweep.space]\nvars.x = [1, 2]\nvars.y = [0, 1]\n";
    let file = env.write(
        "two.toml",
        format!(
            "[run]\ncommand = ['sh', 'step.sh', '{{{{x}}}}', '{{{{y}}}}']\n[resources]\ncpus_per_task = 1\n{sweep}"
        ),
    );
    let result = run(&env, &file).arg("--json").run().code(0).result();
    // Trials 1 to 4 are (1, 0), (1, 1), (2, 0), (2, 1); the lower loss comes first.
    assert_eq!(result["front"], serde_json::json!([3, 1]), "{result}");
    assert_eq!(
        (&result["best"], &result["second"]["metric"]),
        (&Value::Null, &"val_loss".into())
    );
    let shown: Vec<u64> = result["trials"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|trial| trial["trial"].as_u64().expect("a number"))
        .collect();
    assert_eq!(shown, [3, 1, 4, 2], "{result}");
    assert_eq!(result["trials"][0]["outcome"]["second_value"], 2.0);
    let csv = env
        .dlrun(["sweep", "show", "two", "--csv"])
        .run()
        .code(0)
        .text();
    let row = |number: usize| csv.lines().nth(number).expect("a row").to_owned();
    let heads = "run_id,second_value,front,metric,second_metric,vars.x";
    assert!(row(0).contains(heads), "{csv}");
    assert!(
        row(1).ends_with(",2,true,loss,val_loss,2,0")
            && row(3).ends_with(",3,false,loss,val_loss,2,1"),
        "{csv}"
    );
    let run = result["trials"][1]["run_id"].as_str().expect("a run");
    let report = format!("dlrun-report-{}.html", &run[..6]);
    let _ = env.write(&report, "");
    let shown = env
        .dlrun(["sweep", "show", "two", "--html", "two.html"])
        .run()
        .code(0)
        .text();
    assert!(shown.contains("front: trials 3, 1:"), "{shown}");
    let page = fs::read_to_string(env.jobs().join("two.html")).expect("written");
    assert!(
        page.contains("Pareto front") && page.contains("2 trials on the front"),
        "{page}"
    );
    let link = format!("<a href=\"{report}\">{run}</a>");
    assert!(
        page.matches("dlrun-report-").count() == 1 && page.contains(&link),
        "{page}"
    );
    let refused = env.dlrun(["sweep", "show", "two", "--best"]).run().code(64);
    assert!(
        refused.stderr.contains("no trial is the best"),
        "{}",
        refused.stderr
    );
}

#[test]
fn a_trial_without_the_second_metric_has_failed() {
    let env = TestEnv::new();
    let file = sweep(
        &env,
        "0",
        "sampler = \"grid\"\n[sweep.space]\nvars.x = [1, 2]\n",
    );
    let text = fs::read_to_string(&file)
        .expect("text")
        .replace("\"loss\"", "[\"loss\", \"accuracy\"]")
        .replace("\"min\"", "[\"min\", \"max\"]");
    fs::write(&file, text).expect("ours");
    let done = run(&env, &file).arg("--json").run().code(10);
    let trials = done.result()["trials"].clone();
    let why = trials[0]["outcome"]["failure"].as_str().unwrap_or_default();
    assert!(
        why.contains("no metric `accuracy`; it shows loss"),
        "{trials}"
    );
}

/// Trials in the parts of a job, here of one that there is not: each has its own CPU, and what the job's end takes with it runs again.
#[test]
fn packed_trials_have_their_own_cpus_and_end_with_the_job() {
    let all = sched_getaffinity(Pid::from_raw(0)).expect("it says");
    let two: Vec<usize> = (0..CpuSet::count())
        .filter(|cpu| all.is_set(*cpu).unwrap_or(false))
        .take(2)
        .collect();
    let mut set = CpuSet::new();
    two.iter().for_each(|cpu| set.set(*cpu).expect("it fits"));
    sched_setaffinity(Pid::from_raw(0), &set).expect("fewer CPUs");

    let env = TestEnv::new();
    let file = sweep(&env, "0.06", &format!("sampler = \"grid\"\n{WHOLE}"));
    let program = format!("{PROGRAM}\ngrep Cpus_allowed_list /proc/self/status >>cpus\n");
    let _ = env.write("step.sh", program);
    let count = two.len().to_string();
    let packed = || {
        let words = ["sweep", "run", "small.toml", "--pack", &count];
        env.dlrun(words)
            .env("SLURM_JOB_ID", "77")
            .env("SLURMD_NODENAME", "n1")
    };
    let outside = env.dlrun(["sweep", "run", "small.toml", "--pack", "2"]);
    let _ = outside.run().code(64).warns("and this is none");
    // A run that its job ends does not count as a try, of which there are two.
    for _ in 0..3 {
        let seen = ran(&env).len();
        let begun = packed().start();
        wait_for("trials", || ran(&env).len() >= seen + two.len());
        begun.signal(Signal::SIGTERM);
        let ended = begun.finish().code(75);
        let _ = ended.warns(&format!("asked to end, and {} run", two.len()));
    }
    let shown = packed().arg("--json").run().code(0).result();
    assert_eq!(shown["best"], 4, "{shown}");
    let trials = shown["trials"].as_array().expect("a list");
    let is_completed = |trial: &Value| trial["outcome"]["state"] == "completed";
    assert!(
        trials.len() == 12 && trials.iter().all(is_completed),
        "{shown}"
    );
    assert_eq!(
        ran(&env).len(),
        12 + 3 * two.len(),
        "those that ended early ran again"
    );
    let cpus = fs::read_to_string(env.jobs().join("cpus")).expect("trials write it");
    let each: BTreeSet<&str> = cpus.lines().collect();
    let expected = two.iter().map(|cpu| format!("Cpus_allowed_list:\t{cpu}"));
    assert_eq!(
        each.iter()
            .map(|line| (*line).to_owned())
            .collect::<BTreeSet<_>>(),
        expected.collect()
    );
    // The time of those that ended early counts too, each a part of the node.
    let seconds = |trial: &Value| trial["outcome"]["wall_seconds"].as_f64();
    let own: f64 = trials.iter().filter_map(seconds).sum();
    let all = shown["node_hours"].as_f64().expect("a time") * 3600.0 * two.len() as f64;
    assert!(
        all > own + 0.1 && all < 2.0 * own,
        "{all} s, {own} s of which came to values"
    );
    let run = trials[0]["run_id"].as_str().expect("an id");
    let plan = fs::read_to_string(env.run_dir(run).join("plan.json")).expect("it has one");
    assert!(plan.contains("of job 77"), "{plan}");

    let text = fs::read_to_string(&file).expect("ours");
    let searched = text.replace("vars.x", "resources.cpus_per_task = [1, 2]\nvars.x");
    let _ = env.write("small.toml", searched);
    let refused = packed().run().code(65);
    let _ = refused.warns("all parts of a job are alike, and `resources.cpus_per_task` differs");
    let _ = env.write("small.toml", text.replace("cpus_per_task = 1", "nodes = 1"));
    let _ = packed()
        .run()
        .code(65)
        .warns("`resources.cpus_per_task` is missing");
}

#[test]
fn a_dry_run_says_what_the_trials_will_take_where_the_model_knows_them() {
    let env = TestEnv::new();
    let file = sweep(
        &env,
        "0.02",
        &format!("sampler = \"grid\"\nmax_jobs = 2\n{WHOLE}"),
    );
    let text = fs::read_to_string(&file).expect("ours");
    let file = env.write("small.toml", format!("[workload]\nepochs = 10\n{text}"));
    let planned = || {
        run(&env, &file)
            .args(["--dry-run", "--json"])
            .run()
            .code(0)
            .result()
    };
    let unknown = planned();
    assert!(
        unknown["expected_node_hours"].is_null()
            && unknown["first"][0]["expected_seconds"].is_null()
    );
    let _ = run(&env, &file).run().code(0);
    let _ = env.dlrun(["model", "fit"]).run().code(0);
    let known = planned();
    let all = known["expected_node_hours"].as_f64().expect("a time") * 3600.0;
    let first = known["first"].as_array().expect("a list");
    let seconds = |trial: &Value| trial["expected_seconds"].as_f64();
    let sum: f64 = first.iter().filter_map(seconds).sum();
    assert!(
        first.len() == 12 && (all - sum).abs() < 1e-6 && (1.0..60.0).contains(&all),
        "{known}"
    );
    let text = run(&env, &file).arg("--dry-run").run().code(0).text();
    assert!(
        text.contains("EXPECTED") && text.contains("by forecasts of 12 trials"),
        "{text}"
    );
}
