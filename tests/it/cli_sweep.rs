//! `dlrun sweep`: a small training on the local scheduler whose parameters are searched.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use nix::sys::signal::Signal;
use serde_json::Value;

use crate::support::env::Dlrun;
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
    let result = run(&env, &file).arg("--json").run().code(0).result();
    assert_eq!(
        (&result["best"], &result["trials_planned"]),
        (&4.into(), &12.into()),
        "{result}"
    );
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
    let best = env.dlrun(["sweep", "show", "--best"]).run().code(0).text();
    let job = env.write("best.toml", best);
    let _ = env.dlrun(["check"]).arg(&job).run().code(0);
    assert!(fs::read_to_string(job).expect("written").contains("\"3\""));
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
        refused.stderr.contains("was begun with another file") && refused.stderr.contains("vars.x"),
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
