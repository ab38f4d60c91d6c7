//! `dlrun wait`: its exit code says how runs ended.

use crate::support::{Fake, TestEnv, wait_for};

/// A pending job of Slurm with id 4711, and the queue that knows it in `state`.
fn submitted(env: &TestEnv, state: &str) -> Fake {
    let _ = env.fake_slurm();
    let now = std::time::UNIX_EPOCH.elapsed().expect("a clock").as_secs();
    let queue = env
        .fake("squeue")
        .stdout(&format!("4711|{state}|{now}|{now}|{now}|n1|Why\n"));
    let _ = env.dlrun(["submit"]).arg(env.job("true", "")).run().code(0);
    queue
}

#[test]
fn every_end_that_slurm_knows_has_its_code() {
    let env = TestEnv::new();
    for (state, code, word) in [
        ("FAILED", 10, "failed"),
        ("TIMEOUT", 11, "timeout"),
        ("DEADLINE", 11, "timeout"),
        ("OUT_OF_MEMORY", 12, "out_of_memory"),
        ("PREEMPTED", 13, "preempted"),
        ("NODE_FAIL", 14, "node_fail"),
        ("CANCELLED", 15, "cancelled"),
    ] {
        let _ = submitted(&env, state);
        let result = env
            .dlrun(["wait", "@1", "--json"])
            .run()
            .code(code)
            .result();
        assert_eq!(result["runs"][0]["status"]["state"], word, "{state}");
        assert_eq!(result["runs"][0]["status"]["raw_state"], state);
        // Nobody knows the code of the command.
        let _ = env.dlrun(["wait", "@1", "--passthrough"]).run().code(125);
    }
}

#[test]
fn of_several_runs_the_highest_code_counts() {
    let env = TestEnv::new();
    let ids: Vec<String> = [("a", "exit 0"), ("b", "exit 1"), ("c", "exit 0")]
        .map(|(name, script)| env.submit(&env.job_called(name, script, "")))
        .into();
    let done = env.dlrun(["wait", "--json"]).args(&ids).run().code(10);
    let runs = done.result()["runs"].as_array().expect("a list").clone();
    let waited: Vec<&str> = runs
        .iter()
        .map(|run| run["run"]["run_id"].as_str().expect("an id"))
        .collect();
    assert_eq!(waited, ids);
    let _ = env.dlrun(["wait", &ids[0], &ids[2]]).run().code(0);
}

#[test]
fn epochs_of_several_runs_say_whose_they_are() {
    let env = TestEnv::new();
    let script = "while [ ! -e go ]; do sleep 0.05; done; echo 'epoch 1/1 took 0.5 s'";
    let first = env.submit(&env.job_called("one", script, ""));
    let second = env.submit(&env.job_called("two", "true", ""));
    env.wait_state(&first, "running");
    let told = env.write("told", "");
    let waiting = env.dlrun(["wait", &first, &second]).start_to(&told);
    let said = || std::fs::read_to_string(&told).expect("it is ours");
    wait_for("the first look", || said().contains("running"));
    env.write("go", "");
    let _ = waiting.finish().code(0);
    assert!(
        said().contains(&format!("[{}] epoch 1/1", &first[..6])),
        "{}",
        said()
    );
}

#[test]
fn waiting_ends_at_its_limit_and_the_run_goes_on() {
    let env = TestEnv::new();
    let id = env.submit(&env.job("while [ ! -e go ]; do sleep 0.05; done", ""));
    let error = env
        .dlrun(["wait", &id, "--timeout", "0", "--json"])
        .run()
        .code(75)
        .error();
    assert_eq!(error["kind"], "try_again");
    env.write("go", "");
    let _ = env
        .dlrun(["wait", &id])
        .current_dir("/")
        .run()
        .code(0)
        .says("completed");
}

#[test]
fn interrupted_waiting_says_that_the_run_goes_on() {
    let env = TestEnv::new();
    let id = env.submit(&env.job("echo > ready; while [ ! -e go ]; do sleep 0.05; done", ""));
    env.wait_file("ready");
    let waiting = env.dlrun(["wait", &id]).start();
    let status = format!("/proc/{}/status", waiting.pid());
    wait_for("the signal to be taken over", || {
        let status = std::fs::read_to_string(&status).unwrap_or_default();
        let mask = status
            .lines()
            .find_map(|line| line.strip_prefix("SigCgt:"))
            .map(str::trim);
        mask.and_then(|mask| u64::from_str_radix(mask, 16).ok())
            .is_some_and(|mask| mask >> 1 & 1 == 1)
    });
    waiting.signal(nix::sys::signal::Signal::SIGINT);
    let _ = waiting.finish().code(75).warns("submitted jobs continue");
    env.write("go", "");
    let _ = env.dlrun(["wait", &id]).run().code(0);
}

#[test]
fn passthrough_is_the_jobs_own_code_and_takes_one_run() {
    let env = TestEnv::new();
    let id = env.submit(&env.job("exit 42", ""));
    let _ = env.dlrun(["wait", &id, "--passthrough"]).run().code(42);
    let _ = env
        .dlrun(["wait", &id, &id, "--passthrough"])
        .run()
        .code(64)
        .warns("takes one run");
}

#[test]
fn run_that_is_not_there_stops_the_wait_before_it_begins() {
    let env = TestEnv::new();
    let id = env.submit(&env.job("while [ ! -e go ]; do sleep 0.05; done", ""));
    let _ = env
        .dlrun(["wait", &id, "nothing"])
        .run()
        .code(66)
        .warns("there is no run `nothing`");
}

#[test]
fn queue_that_fails_now_and_then_does_not_end_the_wait() {
    let env = TestEnv::new();
    let queue = submitted(&env, "RUNNING")
        .stderr("squeue: error: Socket timed out on send/recv operation\n")
        .code(1);
    let waiting = env.dlrun(["wait", "@1"]).start();
    // A question is asked four times before its failure is told.
    crate::support::wait_for("two questions", || queue.calls().len() > 4);
    let now = std::time::UNIX_EPOCH.elapsed().expect("a clock").as_secs();
    let _ = queue
        .code(0)
        .stderr("")
        .stdout(&format!("4711|FAILED|{now}|{now}|{now}|n1|None\n"));
    let _ = waiting.finish().code(10).warns("Socket timed out");
}

#[test]
fn a_name_means_all_its_runs_that_go_on() {
    let env = TestEnv::new();
    let held = |script: &str| env.submit(&env.job_called("same", script, ""));
    let over = held("exit 4");
    let _ = env.dlrun(["wait", &over]).run().code(10);
    let first = held("while [ ! -e go ]; do sleep 0.05; done");
    let second = held("true");
    env.wait_state(&first, "running");
    let _ = env
        .dlrun(["wait", "--passthrough", "same"])
        .run()
        .code(64)
        .warns("2 runs match");
    env.write("go", "");
    let result = env
        .dlrun(["wait", "same", &first, "--json"])
        .run()
        .code(0)
        .result();
    let mut waited: Vec<&str> = result["runs"]
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|run| run["run"]["run_id"].as_str())
        .collect();
    waited.sort_unstable();
    let mut expected = [first.as_str(), second.as_str()];
    expected.sort_unstable();
    assert_eq!(waited, expected);
}
