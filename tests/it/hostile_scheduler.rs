//! Schedulers that answer late, wrongly or about others, and clients that are killed while they wait for them: a right
//! answer or a clear error.

use std::fs;

use nix::sys::signal::Signal;

use crate::support::{TestEnv, wait_for};

/// A Slurm that takes arrays up to index 100. The second job that it is handed takes for ever.
fn slow_slurm(env: &TestEnv) {
    let _ = (env.fake("squeue"), env.fake("scancel"), env.fake("sinfo"));
    let _ = env
        .fake("scontrol")
        .stdout("MaxArraySize            = 101\n");
    let _ = env.fake("sbatch").hook(
        r#"number=${call##*/}
        if [ "$number" = 2 ]; then exec sleep 600; fi
        echo $((5000 + number))"#,
    );
}

fn only_run(env: &TestEnv) -> serde_json::Value {
    let listed = env.dlrun(["list", "--json"]).run().code(0).result();
    assert_eq!(listed["runs"].as_array().map(Vec::len), Some(1), "{listed}");
    listed["runs"][0].clone()
}

#[test]
fn submission_of_a_split_array_that_is_killed_half_way_loses_no_job() {
    let env = TestEnv::new();
    slow_slurm(&env);
    let file = env.job("true", "[resources]\narray = \"0-299\"");
    let submit = env
        .dlrun(["submit", "--scheduler", "slurm", "--no-check"])
        .arg(&file)
        .start();
    let second = env.root().join("bin/sbatch.calls/2");
    wait_for("the second job to be handed over", || second.exists());
    submit.signal(Signal::SIGKILL);
    let _ = submit.finish().killed_by(Signal::SIGKILL);
    let squeue = env
        .fake("squeue")
        .stdout("5001_[0-100]|PENDING|N/A|N/A|N/A||Priority\n");
    let run = only_run(&env);
    assert_eq!(
        (&run["job_id"], &run["state"]),
        (&"5001".into(), &"pending".into()),
        "{run}"
    );
    assert_eq!(squeue.call().option("--jobs"), Some("5001"));
    let _ = env
        .dlrun(["cancel", run["run_id"].as_str().expect("an id")])
        .run()
        .code(0)
        .says(", job 5001)");
    assert!(env.fake("scancel").call().argv.contains(&"5001".to_owned()));
}

#[test]
fn a_split_array_whose_parts_would_share_their_outputs_is_refused() {
    let env = TestEnv::new();
    slow_slurm(&env);
    let submit = |output: &str| {
        let file = env.job(
            "true",
            &format!("output = \"{output}\"\n[resources]\narray = \"0-299\""),
        );
        env.dlrun(["submit", "--scheduler", "slurm", "--no-check"])
            .arg(&file)
            .run()
    };
    let _ = submit("%x-%a.out")
        .code(76)
        .warns("`run.output` needs `%j`");
    assert!(!env.root().join("bin/sbatch.calls/1").exists());
}

#[test]
fn element_that_started_tells_the_job_id_of_an_array_whose_submission_was_killed() {
    let env = TestEnv::new();
    let _ = (
        env.fake("squeue"),
        env.fake("scancel"),
        env.fake("sbatch").hang(),
    );
    let file = env.job("true", "[resources]\narray = \"5-9\"");
    let submit = env
        .dlrun(["submit", "--scheduler", "slurm", "--no-check"])
        .arg(&file)
        .start();
    let first = env.root().join("bin/sbatch.calls/1");
    wait_for("the job to be handed over", || first.exists());
    submit.signal(Signal::SIGKILL);
    let _ = submit.finish().killed_by(Signal::SIGKILL);
    assert_eq!(only_run(&env)["job_id"], serde_json::Value::Null);
    let attempt = env.only_run_dir().join("7.0");
    fs::create_dir(&attempt).expect("ours");
    let mark = r#"{"format":1,"at_ms":5000,"node":"n1","job_id":"4711","exit_code":null}"#;
    fs::write(attempt.join("start.json"), mark).expect("ours");
    assert_eq!(only_run(&env)["job_id"], "4711");
}

#[test]
fn jobs_of_a_split_array_are_told_where_they_cannot_be_written_down() {
    let env = TestEnv::new();
    slow_slurm(&env);
    // The run's directory goes while the jobs are handed over: nothing can be written there, not even by root.
    let runs = env.state().join("runs");
    let _ = env.fake("sbatch").hook(&format!(
        "rm -rf {}/*; echo $((5000 + ${{call##*/}}))",
        runs.display()
    ));
    let file = env.job("true", "[resources]\narray = \"0-299\"");
    let _ = env
        .dlrun(["submit", "--scheduler", "slurm", "--no-check"])
        .arg(&file)
        .run()
        .code(0)
        .warns("queued as 5001, 5002, 5003, but that could not be written down: ");
}

#[test]
fn run_that_nobody_knew_is_not_called_running_because_its_scheduler_is_silent() {
    let env = TestEnv::new();
    let _ = env.fake_slurm();
    let _ = env
        .dlrun(["submit", "--scheduler", "slurm", "--no-check"])
        .arg(env.job("true", ""))
        .run()
        .code(0);
    assert_eq!(only_run(&env)["state"], "unknown");
    let unreachable =
        "slurm_load_jobs error: Unable to contact slurm controller (connect failure)\n";
    let _ = env.fake("squeue").stderr(unreachable).code(1);
    let run = only_run(&env);
    assert_eq!(
        (&run["state"], &run["reason"]),
        (&"unknown".into(), &"its scheduler gives no answer".into())
    );
    let now = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .expect("after 1970")
        .as_secs();
    let _ = env
        .fake("squeue")
        .stderr("")
        .code(0)
        .stdout(&format!("4711|RUNNING|{now}|{now}|N/A|n1|None\n"));
    assert_eq!(only_run(&env)["state"], "running");
}

#[test]
fn a_job_id_that_is_handed_out_again_lends_its_state_to_the_later_run_only() {
    let env = TestEnv::new();
    let _ = (
        env.fake("squeue"),
        env.fake("scontrol"),
        env.fake("sinfo"),
        env.fake("sbatch").stdout("5001\n"),
    );
    let file = env.job("true", "");
    let submit = || -> String {
        let submit = env
            .dlrun(["submit", "--scheduler", "slurm", "--no-check", "--json"])
            .arg(&file);
        submit.run().code(0).result()["run_id"]
            .as_str()
            .expect("an id")
            .to_owned()
    };
    let (first, second) = (submit(), submit());
    let now = dlrun::foundation::clock::now_ms() / 1000;
    let _ = env
        .fake("squeue")
        .stdout(&format!("5001|FAILED|{now}|{now}|{now}|n1|None\n"));
    let state =
        |run: &str| env.dlrun(["show", run, "--json"]).run().result()["status"]["state"].clone();
    assert_eq!(state(&second), "failed");
    assert_ne!(state(&first), "failed");
}
