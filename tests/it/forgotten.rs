//! What schedulers forget, do not answer or cannot know stays true all the same.

use std::fs;

use nix::sys::signal::Signal;
use serde_json::Value;

use crate::support::{Fake, TestEnv, wait_for};

fn now() -> u64 {
    std::time::UNIX_EPOCH.elapsed().expect("a clock").as_secs()
}

fn queue_says(env: &TestEnv, state: &str) -> Fake {
    let now = now();
    env.fake("squeue")
        .stdout(&format!("4711|{state}|{now}|{now}|{now}|n1|Why\n"))
}

fn queue_forgot(env: &TestEnv) -> Fake {
    env.fake("squeue")
        .stderr("slurm_load_jobs error: Invalid job id specified\n")
        .code(1)
        .stdout("")
}

/// The marks that a batch script leaves.
fn leave_marks(env: &TestEnv, id: &str, exit_code: i32) {
    let dir = env.run_dir(id).join("0.0");
    fs::create_dir_all(&dir).expect("the run is ours");
    for (name, code) in [
        ("start.json", "null".to_owned()),
        ("end.json", exit_code.to_string()),
    ] {
        let at_ms = now() * 1000;
        let mark = format!(
            "{{\"format\":1,\"at_ms\":{at_ms},\"node\":\"n1\",\"job_id\":\"4711\",\"exit_code\":{code}}}\n"
        );
        fs::write(dir.join(name), mark).expect("the run is ours");
    }
}

fn submitted(env: &TestEnv) -> String {
    let _ = env.fake_slurm();
    let result = env
        .dlrun(["submit", "--json"])
        .arg(env.job("true", ""))
        .run()
        .code(0)
        .result();
    result["run_id"].as_str().expect("an id").to_owned()
}

#[test]
fn why_a_run_ended_outlives_the_schedulers_memory() {
    for (state, word) in [
        ("TIMEOUT", "timeout"),
        ("CANCELLED", "cancelled"),
        ("OUT_OF_MEMORY", "out_of_memory"),
    ] {
        let env = TestEnv::new();
        let id = submitted(&env);
        leave_marks(&env, &id, 143);
        let _ = queue_says(&env, state);
        let _ = env.dlrun(["list"]).run().code(0).says(word);
        let _ = queue_forgot(&env);
        assert_eq!(env.state_of(&id), word);
        let _ = env.dlrun(["list", "--reindex"]).run().code(0).says(word);
    }
}

/// Slurm may call a job failed whose training goes on, where it tracks processes badly.
#[test]
fn files_of_a_failed_run_are_read_until_they_are_final() {
    let env = TestEnv::new();
    let _ = env.fake_slurm();
    let script = "echo epoch 1 loss: 0.5; echo > ready; while [ ! -e go ]; do sleep 0.1; done; echo epoch 2 loss: 0.4";
    let result = env
        .dlrun(["submit", "--json"])
        .arg(env.job(script, ""))
        .run()
        .code(0)
        .result();
    let id = result["run_id"].as_str().expect("an id").to_owned();
    let job = env
        .command("bash", [env.run_dir(&id).join("job.sh")])
        .env("DLRUN_RUN_ID", &id);
    let job = job.env("SLURM_JOB_ID", "4711").env("SLURMD_NODENAME", "n1");
    let started = job.start_to(&env.jobs().join("job-4711.out"));
    env.wait_file("ready");
    let record = env.run_dir(&id).join("0.0/n1.0/record.json");
    wait_for("a record", || record.exists());
    started.signal(Signal::SIGKILL);
    drop(started);
    let _ = queue_says(&env, "FAILED");
    let _ = env.dlrun(["list"]).run().code(0).says("failed");
    env.write("go", "");
    wait_for("the last record", || {
        let text = fs::read(&record).expect("it is there");
        serde_json::from_slice::<Value>(&text).expect("JSON")["state"] == "ended"
    });
    let _ = queue_forgot(&env);
    let exported = || {
        env.dlrun(["export", "--what", "timings", "--format", "csv"])
            .run()
            .code(0)
            .text()
    };
    assert_eq!(exported().lines().count(), 3, "{}", exported());
    assert_eq!(env.state_of(&id), "failed");
    let _ = env
        .dlrun(["list", "--reindex"])
        .run()
        .code(0)
        .says("failed");
}

#[test]
fn cancel_is_remembered_though_nobody_looked_in_time() {
    let env = TestEnv::new();
    let id = submitted(&env);
    let _ = queue_says(&env, "RUNNING");
    let _ = env.dlrun(["cancel", &id]).run().code(0);
    leave_marks(&env, &id, 143);
    let _ = queue_forgot(&env);
    let _ = env.dlrun(["wait", &id]).run().code(15);
}

#[test]
fn controller_that_is_down_ends_no_run() {
    let env = TestEnv::new();
    let id = submitted(&env);
    let _ = queue_says(&env, "RUNNING");
    assert_eq!(env.state_of(&id), "running");
    let _ = env
        .fake("squeue")
        .stdout("")
        .stderr("slurm_load_jobs error: Unable to contact slurm controller\n")
        .code(1);
    let _ = env
        .dlrun(["list"])
        .run()
        .code(0)
        .says("running")
        .warns("states are those last heard of");
    let _ = env.dlrun(["wait", &id, "--timeout", "1"]).run().code(75);
}

#[test]
fn controller_that_is_down_changes_nothing_of_a_run_that_is_over() {
    let env = TestEnv::new();
    let id = submitted(&env);
    let _ = queue_says(&env, "CANCELLED");
    let before = env.show(&id)["status"].clone();
    let _ = env
        .fake("squeue")
        .stdout("")
        .stderr("slurm_load_jobs error: Unable to contact slurm controller\n")
        .code(1);
    assert_eq!(env.show(&id)["status"], before);
}

#[test]
fn run_whose_files_are_gone_hides_no_other() {
    let env = TestEnv::new();
    let gone = submitted(&env);
    let file = env.job_called("other", "true", "");
    let _ = env.dlrun(["submit"]).arg(file).run().code(0);
    fs::remove_dir_all(env.run_dir(&gone)).expect("the run is ours");
    let _ = env.dlrun(["list"]).run().code(0).says("other").warns(&gone);
    let _ = env
        .dlrun(["list"])
        .run()
        .code(0)
        .says("other")
        .never_says(&gone[..4]);
}

#[test]
fn sbatch_that_may_have_queued_the_job_is_never_called_a_refusal() {
    for stderr in [
        "Batch job submission failed: Socket timed out on send/recv operation",
        "Zero Bytes were transmitted or received",
    ] {
        let env = TestEnv::new();
        let _ = env.fake_slurm();
        let _ = env
            .fake("sbatch")
            .stdout("")
            .stderr(&format!("sbatch: error: {stderr}\n"))
            .code(1);
        let error = env
            .dlrun(["submit", "--json"])
            .arg(env.job("true", ""))
            .run()
            .code(75)
            .error();
        let message = error["message"].as_str().expect("text");
        assert!(message.contains("may be queued"), "{message}");
        assert!(
            env.only_run_dir().join("run.json").exists(),
            "the run is kept"
        );
    }
}

#[test]
fn controller_that_takes_no_jobs_at_the_moment_is_no_refusal() {
    let env = TestEnv::new();
    let _ = env.fake_slurm();
    let words = "sbatch: error: Slurm temporarily unable to accept job, sleeping and retrying.\n\
                 sbatch: error: Batch job submission failed: Resource temporarily unavailable\n";
    let _ = env.fake("sbatch").stdout("").stderr(words).code(1);
    let file = env.job("true", "");
    let error = env
        .dlrun(["submit", "--json"])
        .arg(&file)
        .run()
        .code(75)
        .error();
    assert_eq!(
        (&error["kind"], &error["hints"][0]),
        (
            &"try_again".into(),
            &"nothing is queued; try again later".into()
        )
    );
    assert_eq!(
        std::fs::read_dir(env.state().join("runs"))
            .expect("it was made")
            .count(),
        0
    );
    let words =
        "sbatch: error: Batch job submission failed: Socket timed out on send/recv operation\n";
    let _ = env.fake("sbatch").stdout("").stderr(words).code(1);
    let done = env.dlrun(["check"]).arg(&file).run().code(69);
    let _ = done
        .warns("slurm cannot be reached")
        .warns("Socket timed out");
}

/// `sbatch rendered.sh` from inside a run is a run of its own.
#[test]
fn script_that_is_started_inside_a_run_does_not_write_into_it() {
    let env = TestEnv::new();
    let inner = env.job_called("inner", "exit 5", "");
    let script = env
        .dlrun(["render", "--scheduler", "local"])
        .arg(inner)
        .run()
        .code(0)
        .text();
    env.write("inner.sh", script);
    let outer = env.submit(&env.job("/bin/bash inner.sh; echo inner $?", ""));
    let _ = env.dlrun(["wait", &outer]).run().code(0);
    let _ = env.dlrun(["logs", &outer]).run().code(0).says("inner 5\n");
    assert_eq!(env.show(&outer)["nodes"].as_array().map(Vec::len), Some(1));
    let runs = env.dlrun(["list", "--json"]).run().code(0).result();
    assert_eq!(runs["runs"].as_array().map(Vec::len), Some(2), "{runs}");
}

#[test]
fn env_file_cannot_take_over_what_is_reserved() {
    for line in [
        "DLRUN_RUN_ID=0000000000000000",
        "BASH_ENV=/tmp/x",
        "IFS=x",
        "PATH=/nowhere",
    ] {
        let env = TestEnv::new();
        let secrets = env.write("secrets.env", format!("{line}\n"));
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o600);
        fs::set_permissions(secrets, mode).expect("it is ours");
        env.write(
            "job.toml",
            "[run]\ncommand = [\"sh\", \"-c\", \"echo > ran\"]\nenv_file = \"secrets.env\"\n",
        );
        let id = env.submit(&env.jobs().join("job.toml"));
        let _ = env.dlrun(["wait", &id, "--passthrough"]).run().code(78);
        assert!(!env.jobs().join("ran").exists());
        let _ = env
            .dlrun(["logs", &id])
            .run()
            .code(0)
            .says("which is reserved");
    }
}

#[test]
fn local_job_is_cancelled_before_its_runner_is_there() {
    let env = TestEnv::new();
    for _ in 0..5 {
        let id = env.submit(&env.job("sleep 30", ""));
        let _ = env.dlrun(["cancel", &id]).run().code(0);
        let _ = env.dlrun(["wait", &id]).run().code(15);
    }
}
