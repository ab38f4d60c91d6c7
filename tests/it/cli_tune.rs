//! `dlrun tune`: a small training on the local scheduler, whose speed depends on a variable or on nothing.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::support::TestEnv;
use crate::support::env::Dlrun;

/// A training that states how long its epochs took: `$1` decides it, and a little how many ran before. It has 50 epochs.
const PROGRAM: &str = r#"
echo "$1" >>ran
n=$(wc -l <ran)
case "$1" in 1) base=400 ;; 2) base=900 ;; *) base=600 ;; esac
for epoch in $(seq 50); do
    sleep 0.1
    echo "Epoch $epoch/50 - 0.0$((base + n * 5 % 7))s - loss: 1.0"
done
"#;

fn job(env: &TestEnv, lines: &str) -> PathBuf {
    let _ = env.write("step.sh", PROGRAM);
    let job =
        "[run]\ncommand = [\"sh\", \"step.sh\", \"{{threads}}\"]\n[resources]\ncpus_per_task = 1\n";
    env.write("small.toml", format!("{job}[tune]\nepochs = 3\n{lines}"))
}

fn tune(env: &TestEnv, file: &Path) -> Dlrun {
    env.dlrun(["tune", "--scheduler", "local"]).arg(file)
}

fn shown(env: &TestEnv) -> Value {
    env.dlrun(["sweep", "show", "--json"])
        .run()
        .code(0)
        .result()
}

#[test]
fn the_fastest_setting_is_found_with_an_interval_and_lines_for_the_job_file() {
    let env = TestEnv::new();
    let file = job(&env, "pairs = 3\n[tune.space]\nvars.threads = [2, 4, 1]\n");
    let done = tune(&env, &file).run().code(0);
    let text = done.text();
    assert!(text.contains("trial 3 is 2.2"), "{text}");
    let lines = done.stderr.lines().filter(|line| line.starts_with('['));
    let numbers = |line: &str| line.split(']').next().map(str::to_owned);
    let numbers: Vec<String> = lines.filter_map(numbers).collect();
    let expected: Vec<String> = (1..=9).map(|run| format!("[{run}/9")).collect();
    assert_eq!(numbers, expected);
    assert!(
        text.contains("In the job file:\n  [run]\n  command = [\"sh\", \"step.sh\", \"1\"]\n"),
        "{text}"
    );
    let result = shown(&env);
    let tuned = &result["tuned"];
    assert_eq!(
        (&tuned["trial"], &tuned["pairs"], &tuned["is_faster"]),
        (&3.into(), &3.into(), &true.into()),
        "{result}"
    );
    let number = |key: &str| tuned[key].as_f64().expect("a number");
    let (low, ratio, high) = (number("low"), number("speed_up"), number("high"));
    assert!(
        2.0 < low && low < ratio && ratio < high && high < 2.5,
        "{tuned}"
    );
    // Each trial ended early: it has a value all the same.
    for trial in result["trials"].as_array().expect("a list") {
        let outcome = &trial["outcome"];
        assert!(
            outcome["epochs"].as_u64() < Some(50) && outcome["stopped_at"].as_u64() >= Some(3),
            "{trial}"
        );
    }
    // The trials, then the user's settings and the best in turn, each pair in the other order.
    let ran = fs::read_to_string(env.jobs().join("ran")).expect("it ran");
    assert_eq!(ran.split_whitespace().collect::<String>(), "241211221");
    let _ = env
        .dlrun(["sweep", "show", "--html", "page.html"])
        .run()
        .code(0);
    let page = fs::read_to_string(env.jobs().join("page.html")).expect("written");
    assert!(page.contains("Speed-up: trial 3 is 2.2"), "{page}");
    let best = env.dlrun(["sweep", "show", "--best"]).run().code(0).text();
    assert!(!best.contains("tune"), "{best}");
    let _ = env
        .dlrun(["check"])
        .arg(env.write("best.toml", best))
        .run()
        .code(0);
    // Nothing is left to do.
    let again = tune(&env, &file).run().code(0).text();
    assert_eq!(again, text);
    assert_eq!(
        fs::read_to_string(env.jobs().join("ran")).expect("it ran"),
        ran
    );
}

#[test]
fn where_nothing_matters_no_setting_is_called_faster() {
    let env = TestEnv::new();
    let file = job(&env, "pairs = 3\n[tune.space]\nvars.threads = [3, 4, 5]\n");
    let text = tune(&env, &file).run().code(0).text();
    assert!(
        text.contains("no setting is known to be faster than yours"),
        "{text}"
    );
    assert_eq!(shown(&env)["tuned"]["is_faster"], false);
    let refused = env.dlrun(["sweep", "show", "--best"]).run().code(66);
    assert!(
        refused.stderr.contains("no setting is known to be faster"),
        "{refused:?}"
    );
}

#[test]
fn other_lengths_are_another_search_and_what_changes_the_result_runs_nothing() {
    let env = TestEnv::new();
    let file = job(&env, "pairs = 2\n[tune.space]\nvars.threads = [2, 1]\n");
    let _ = tune(&env, &file).run().code(0);
    let longer = fs::read_to_string(&file)
        .expect("a file")
        .replace("epochs = 3", "epochs = 4");
    let refused = tune(&env, &env.write("small.toml", longer)).run().code(65);
    assert!(
        refused
            .stderr
            .contains("the tuning `small-tune` was started with another `tune.epochs`"),
        "{refused:?}"
    );
    let batch = job(
        &env,
        "[tune.space]\nvars.threads = [2, 1]\nworkload.batch_size = [8, 16]\n",
    );
    let refused = tune(&env, &batch).run().code(65);
    assert!(
        refused.stderr.contains("changes the global batch"),
        "{refused:?}"
    );
    let submitted = env.dlrun(["check"]).arg(&batch).run().code(65);
    assert!(
        submitted
            .stderr
            .contains("`dlrun tune FILE` runs it, with --dry-run only checks it"),
        "{submitted:?}"
    );
}

#[test]
fn hours_of_nodes_leave_room_for_the_pairs_and_it_says_so() {
    let env = TestEnv::new();
    let lines = "node_hours = 0.0004\n[tune.space]\nvars.threads = [2, 4, 1]\n";
    let done = tune(&env, &job(&env, lines)).run().code(0);
    assert!(
        done.stderr
            .contains("node hours of `tune.node_hours` are used up or kept for the pairs"),
        "{done:?}"
    );
}

#[test]
fn with_settings_of_the_user_s_that_fail_there_is_nothing_to_compare() {
    let env = TestEnv::new();
    let file = job(&env, "[tune.space]\nvars.threads = [2, 4, 1]\n");
    let _ = env.write("step.sh", format!("[ \"$1\" = 2 ] && exit 3\n{PROGRAM}"));
    let text = tune(&env, &file).run().code(10).text();
    assert!(
        text.contains("your own settings came to no value"),
        "{text}"
    );
    assert!(!env.jobs().join("ran").exists());
}

#[test]
fn a_trial_that_is_far_behind_the_best_one_is_ended_before_it_has_all_its_epochs() {
    let env = TestEnv::new();
    let file = job(&env, "pairs = 2\n[tune.space]\nvars.threads = [1, 4, 2]\n");
    let text = fs::read_to_string(&file).expect("ours");
    let file = env.write("small.toml", text.replace("epochs = 3", "epochs = 25"));
    let _ = tune(&env, &file).run().code(0);
    let result = shown(&env);
    let trials = result["trials"].as_array().expect("a list");
    let epochs = |number: u64| {
        let trial = trials.iter().find(|trial| trial["trial"] == number);
        trial.and_then(|trial| trial["outcome"]["stopped_at"].as_u64())
    };
    // 0.09 s an epoch against 0.04 s, and 0.06 s.
    assert!(epochs(3) < Some(20), "{result}");
    assert!(epochs(1) >= Some(25) && epochs(2) >= Some(25), "{result}");
}
