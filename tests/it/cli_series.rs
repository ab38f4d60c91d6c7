//! What `dlrun report --json` says of a run over time.

use std::fs;
use std::path::PathBuf;

use serde_json::Value;

use crate::support::{Dlrund, TestEnv, wait_for};

/// A CPU busy until there is a file `stop`.
const WORKS: &str = "while [ ! -e stop ]; do :; done";

fn env() -> TestEnv {
    let mut env = TestEnv::new();
    env.set("DLRUN_MONITOR__INTERVAL_MS", "100");
    env.set("DLRUN_MONITOR__PROCESS_INTERVAL_MS", "200");
    env.set("DLRUN_MONITOR__RECORD_SECONDS", "1");
    env
}

fn node_dir(env: &TestEnv, run: &str) -> PathBuf {
    let entries = fs::read_dir(env.run_dir(run).join("0.0"))
        .expect("an attempt")
        .flatten();
    entries
        .map(|entry| entry.path())
        .find(|path| path.is_dir())
        .expect("a node")
}

/// Runs it until enough samples are in the record.
fn worked(env: &TestEnv) -> String {
    let run = env.submit(&env.job(WORKS, ""));
    wait_for("samples", || {
        env.show(&run)["nodes"][0]["watcher"]["samples"].as_u64() > Some(20)
    });
    env.write("stop", "");
    env.wait_state(&run, "completed");
    run
}

fn numbers(env: &TestEnv, run: &str) -> Value {
    let done = env.dlrun(["report", run, "--json"]).run().code(0);
    done.result()["runs"][0].clone()
}

fn values(series: &Value, column: &str) -> Vec<Option<f64>> {
    let values = series["columns"][column]["value"]
        .as_array()
        .unwrap_or_else(|| panic!("no {column} in {series}"));
    values.iter().map(Value::as_f64).collect()
}

/// A CPU was busy all the time, and the curve says so.
fn assert_series(env: &TestEnv, run: &str) {
    let shown = numbers(env, run);
    let node = &shown["nodes"][0];
    let (series, usage) = (&node["series"], &node["record"]["usage"]);
    let points = series["points"].as_u64().expect("a number");
    for column in [
        "cpu_busy",
        "mem_used_bytes",
        "processes",
        "io_read_bytes_per_second",
    ] {
        assert_eq!(
            values(series, column).len() as u64,
            points,
            "{column}: {series}"
        );
    }
    let second = series["interval_ms"].as_f64().expect("a number") / 1000.0;
    let busy: f64 = values(series, "cpu_busy")
        .iter()
        .flatten()
        .map(|cpus| cpus * second)
        .sum();
    let used =
        ["cpu_user_seconds", "cpu_system_seconds"].map(|part| usage[part].as_f64().expect("known"));
    let used: f64 = used.iter().sum();
    // The time before the first sample is not in the curve; its last point is not all used.
    assert!(
        busy > 0.5 * used && busy < used + second,
        "{busy} of {used}: {series}"
    );
    let memory = values(series, "mem_used_bytes")
        .into_iter()
        .flatten()
        .fold(0.0, f64::max);
    assert!(memory > 100_000.0, "{series}");
    assert!(series["samples"].as_u64() > Some(20), "{series}");
    assert!(
        shown["unreadable"].as_array().is_some_and(Vec::is_empty),
        "{shown}"
    );
}

#[test]
fn the_series_of_a_run_without_the_daemon() {
    let env = env();
    let run = worked(&env);
    assert_series(&env, &run);
}

#[test]
fn the_series_of_a_run_that_the_daemon_watched() {
    let env = env();
    let daemon = Dlrund::start(&env, "");
    let run = worked(&env);
    let events = env.show(&run)["nodes"][0]["events"].to_string();
    assert!(events.contains("adopted"), "{events}\n{}", daemon.log());
    assert_series(&env, &run);
}

#[test]
fn segments_that_are_damaged_or_there_twice_spoil_nothing() {
    let env = env();
    let run = worked(&env);
    let dir = node_dir(&env, &run);
    let before = numbers(&env, &run);
    fs::copy(dir.join("series-0000.seg"), dir.join("series-0998.seg")).expect("ours");
    fs::write(dir.join("series-0999.seg"), "no segment").expect("ours");
    let after = numbers(&env, &run);
    let of = |run: &Value, key: &str| run["nodes"][0]["series"][key].clone();
    for key in ["begin_ms", "samples"] {
        assert_eq!(of(&after, key), of(&before, key));
    }
    let what = after["unreadable"][0]["what"].as_str().expect("a note");
    assert!(what.ends_with(".0/series-0999.seg"), "{what}");
    let shown = env.dlrun(["show", &run]).run().code(0);
    let _ = shown.says("series-0999.seg cannot be read: not a series segment");
    for entry in fs::read_dir(&dir)
        .expect("listed")
        .flatten()
        .map(|entry| entry.path())
    {
        if entry
            .extension()
            .is_some_and(|extension| extension == "seg")
        {
            fs::remove_file(entry).expect("ours");
        }
    }
    assert_eq!(numbers(&env, &run)["nodes"][0]["series"], Value::Null);
}
