//! Measurements on a real cluster: a matrix on whole nodes, several at a time, and another command that takes up what a killed
//! one left; a kind of node.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

use super::cluster::{User, until};

const MATRIX: &str = r#"
[run]
command = ["sh", "-c", "sleep 4; for e in 1 2 3; do echo \"Epoch $e/3 - $1.5${e}0000 s - loss: 0.5\"; done", "sh", "{{size}}"]

[resources]
walltime = "5m"
exclude = "MORTAL"

[bench]
name = "whole"
repeats = 2
max_jobs = 2

[bench.axes]
vars.size = [1, 3]
"#;

/// The jobs of the matrix that run: other tests have jobs of the same user.
fn running(user: &User) -> Vec<String> {
    let jobs = user
        .run(
            "squeue",
            &["--me", "--noheader", "--states=RUNNING", "--format=%i %j"],
        )
        .ok();
    let named = jobs.lines().filter_map(|job| job.trim().split_once(' '));
    named
        .filter(|(_, name)| name.starts_with("whole-"))
        .map(|(job, _)| job.to_owned())
        .collect()
}

/// Who runs the matrix: what was started may only have started it.
fn owner(user: &User) -> Pid {
    let matrices = fs::read_dir(user.state_dir().join("benches")).expect("a directory");
    let matrix = matrices.flatten().next().expect("a matrix").path();
    let lock = fs::read_to_string(matrix.join("lock")).expect("a lock");
    Pid::from_raw(
        lock.split(' ')
            .next()
            .and_then(|pid| pid.parse().ok())
            .expect("a process"),
    )
}

#[test]
#[ignore = "needs slurmctld: run tests/run"]
fn a_matrix_has_whole_nodes_and_survives_its_command() {
    let user = User::new();
    let file = user.write("whole.toml", &MATRIX.replace("MORTAL", super::MORTAL_NODE));
    let words = ["bench", "run", "--scheduler", "slurm"];
    let mut started = user
        .command(user.binary())
        .args(words)
        .arg(&file)
        .spawn()
        .expect("it starts");
    // Two at a time, if the cluster has two nodes free.
    let jobs = until("a job of the matrix", 120, || {
        Some(running(&user)).filter(|jobs| !jobs.is_empty())
    });
    let nodes: BTreeSet<String> = jobs
        .iter()
        .map(|job| user.scontrol(job, "NodeList"))
        .collect();
    assert_eq!(nodes.len(), jobs.len(), "{jobs:?}");
    for job in &jobs {
        // Slurm's word for --exclusive.
        assert_eq!(user.scontrol(job, "OverSubscribe"), "NO", "{job}");
    }
    kill(owner(&user), Signal::SIGKILL).expect("it runs");
    let _ = started.wait();

    // Without the option: what counts is whose jobs they are.
    let done = user.dlrun(&[
        "bench".as_ref(),
        "run".as_ref(),
        "--json".as_ref(),
        file.as_os_str(),
    ]);
    assert_eq!(done.code, 0, "{done:?}");
    let result: Value = serde_json::from_str(&done.stdout).expect("JSON");
    let result = &result["result"];
    assert_eq!(
        (&result["runs_measured"], &result["asked"]["exclusive"]),
        (&json!(4), &json!(true))
    );
    let medians: Vec<f64> = result["cells"]
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|cell| cell["epoch_seconds_median"].as_f64())
        .collect();
    assert!(
        (medians[0] - 1.525).abs() < 0.1 && (medians[1] - 3.525).abs() < 0.1,
        "{medians:?}"
    );
    let runs = fs::read_dir(user.state_dir().join("runs"))
        .expect("a directory")
        .count();
    assert_eq!(runs, 4, "no run is doubled");
}

#[test]
#[ignore = "needs slurmctld: run tests/run"]
fn a_node_is_measured_by_the_job_that_comes_with_dlrun() {
    let mut user = User::new();
    let path = format!(
        "{}:/usr/local/bin:/usr/bin:/bin",
        user.path("bin").display()
    );
    user.set("PATH", &path);
    // Small, and kept although other tests keep the machine busy.
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("jobs/bench/node.toml");
    let file = user.write("node.toml", &fs::read_to_string(source).expect("ours"));
    let file = file.to_string_lossy().into_owned();
    let small = ["--arrays", "96MiB", "--force"];
    let submit = [
        "submit",
        "--wait",
        &file,
        "--set",
        "resources.queue=debug",
        "--",
    ];
    let submitted = user.dlrun(&[&submit[..], &small[..]].concat());
    assert_eq!(
        submitted.code,
        0,
        "{submitted:?} {:?}",
        user.dlrun(&["logs", "@1"])
    );
    let targets = fs::read_dir(user.state_dir().join("targets"))
        .expect("figures are kept")
        .flatten();
    let targets: Vec<_> = targets.map(|target| target.path()).collect();
    assert_eq!(targets.len(), 1, "{targets:?}");
    let kept: Value =
        serde_json::from_str(&fs::read_to_string(&targets[0]).expect("a file")).expect("JSON");
    assert!(
        kept["figures"]["core_gflops"].as_f64() > Some(0.0),
        "{kept}"
    );
}
