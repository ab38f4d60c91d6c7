//! Schedulers that answer late, wrongly or about others, and clients that are killed while they wait for them: a right
//! answer or a clear error.

use std::fs;

use nix::sys::signal::Signal;

use crate::support::{TestEnv, wait_for};

fn only_run(env: &TestEnv) -> serde_json::Value {
    let listed = env.dlrun(["list", "--json"]).run().code(0).result();
    assert_eq!(listed["runs"].as_array().map(Vec::len), Some(1), "{listed}");
    listed["runs"][0].clone()
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
