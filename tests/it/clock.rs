//! A wall clock that is set while a training runs, by libfaketime where it is installed.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::support::{TestEnv, skip};

/// The library as distributions install it, or the one that `DLRUN_TEST_LIBFAKETIME` names.
fn libfaketime() -> Option<PathBuf> {
    let named = std::env::var_os("DLRUN_TEST_LIBFAKETIME").map(PathBuf::from);
    let dirs = [
        "/usr/lib/x86_64-linux-gnu",
        "/usr/lib/aarch64-linux-gnu",
        "/usr/lib64",
        "/usr/lib",
    ];
    let usual = dirs
        .iter()
        .map(|dir| Path::new(dir).join("faketime/libfaketime.so.1"));
    named.into_iter().chain(usual).find(|path| path.exists())
}

/// What `show` says of a run of five epochs of 1.5 s, in whose third the clock is set by `step`.
fn shown(library: &Path, step: &str) -> Value {
    let mut env = TestEnv::new();
    let file = env.write("clock", "+0\n");
    for (name, value) in [
        ("LD_PRELOAD", library.to_str().expect("text")),
        ("FAKETIME_TIMESTAMP_FILE", file.to_str().expect("text")),
        ("FAKETIME_NO_CACHE", "1"),
        ("FAKETIME_DONT_FAKE_MONOTONIC", "1"),
        ("DLRUN_MONITOR__INTERVAL_MS", "100"),
    ] {
        env.set(name, value);
    }
    let script = "for i in 1 2 3 4 5; do sleep 0.8; [ $i -ne 3 ] || echo > third; sleep 0.7; echo epoch $i loss: 0.5; done";
    let run = env.submit(&env.job(script, ""));
    env.wait_file("third");
    env.write("clock.new", format!("{step}\n"));
    fs::rename(env.jobs().join("clock.new"), &file).expect("ours");
    env.wait_quiet();
    env.show(&run)
}

#[test]
fn clock_that_is_set_changes_no_time_and_marks_the_epoch() {
    let Some(library) = libfaketime() else {
        return skip("no libfaketime is installed");
    };
    for (step, way) in [
        ("+3600", "forward by 3600.0 s"),
        ("-3600", "back by 3600.0 s"),
    ] {
        let shown = shown(&library, step);
        let number = |value: &Value| value.as_f64().expect("a number");
        let status = &shown["status"];
        let ran = number(&status["ended_at_ms"]) - number(&status["started_at_ms"]);
        let node = &shown["nodes"][0];
        let wall = number(&node["usage"]["wall_seconds"]);
        assert!(
            (7_500.0..60_000.0).contains(&ran) && (7.5..60.0).contains(&wall),
            "{ran} ms, {wall} s"
        );
        let epochs = node["progress"]["epochs"].as_array().expect("epochs");
        let taken = epochs
            .iter()
            .filter_map(|epoch| epoch["clock_seconds"].as_f64());
        assert!(
            taken.clone().all(|seconds| (0.0..60.0).contains(&seconds)),
            "{epochs:?}"
        );
        let marked: Vec<bool> = epochs
            .iter()
            .map(|epoch| epoch["clock_set"] == true)
            .collect();
        assert!(marked[2] && !marked[0] && !marked[4], "{marked:?}");
        let events = node["events"].as_array().expect("events");
        let steps: Vec<&Value> = events
            .iter()
            .filter(|event| event["kind"] == "clock_jump")
            .collect();
        assert_eq!(steps.len(), 1, "{events:?}");
        assert!(
            steps[0]["detail"].as_str().expect("text").contains(way),
            "{steps:?}"
        );
    }
}
