//! Long tests: the same again and again until something gives. `DLRUN_SOAK_COUNT` says how often.

use std::fs;

use nix::sys::signal::{Signal, kill};

use crate::support::TestEnv;

fn count(usual: u32) -> u32 {
    std::env::var("DLRUN_SOAK_COUNT").ok().and_then(|text| text.parse().ok()).unwrap_or(usual)
}

/// Numbers that are different every time, and the same in every run of the tests.
fn spread(number: u32, below: u64) -> u64 {
    u64::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23) % below
}

#[test]
#[ignore = "soak tier"]
fn random_text_survives_the_script() {
    crate::bad_input::any_text_survives_the_script(count(2000));
}

/// Kills one of a job's processes of ours at a random moment. Whatever it was, the job's state must be told truly.
#[test]
#[ignore = "soak tier"]
fn killing_anything_at_any_time_loses_no_run() {
    let env = TestEnv::new();
    for round in 0..count(100) {
        let done = format!("done-{round}");
        let script = format!("for n in 1 2 3 4; do echo \"epoch $n 0.1s\"; sleep 0.1; done; echo > {done}");
        let id = env.submit(&env.job(&script, ""));
        std::thread::sleep(std::time::Duration::from_millis(spread(round, 700)));
        let verb = ["local-run", "exec", "exec-watch"][usize::try_from(spread(round + 7, 3)).expect("small")];
        for pid in env.processes_with(verb) {
            let _ = kill(pid, Signal::SIGKILL);
        }
        let ended = env.dlrun(["wait", &id, "--timeout", "60", "--json"]).run();
        let code = ended.status.code().expect("an exit code");
        let state = env.state_of(&id);
        let finished = env.jobs().join(&done).exists();
        let truth = match (code, state.as_str()) {
            (0, "completed") => finished,
            (10, "failed") => verb == "exec",
            (16, "unknown") => verb == "local-run",
            _ => false,
        };
        assert!(
            truth,
            "round {round}: killed {verb}; {state}, code {code}, finished: {finished}\n{}",
            ended.text()
        );
        env.wait_quiet();
    }
}

#[test]
#[ignore = "soak tier"]
fn watcher_that_is_killed_again_and_again_never_disturbs_the_training() {
    let env = TestEnv::new();
    for round in 0..count(10) {
        fs::remove_file(env.jobs().join("go")).unwrap_or_default();
        let id = env.submit(&env.job("while [ ! -e go ]; do sleep 0.05; done; exit 3", ""));
        // More often than it is started again.
        for _ in 0..8 {
            std::thread::sleep(std::time::Duration::from_millis(200 + spread(round, 2000)));
            for pid in env.processes_with("exec-watch") {
                let _ = kill(pid, Signal::SIGKILL);
            }
        }
        env.write("go", "");
        let _ = env.dlrun(["wait", &id]).run().code(10);
        assert_eq!(env.show(&id)["status"]["exit"]["code"], 3);
        env.wait_quiet();
    }
}

#[test]
#[ignore = "soak tier"]
fn many_submissions_at_once_all_run_once() {
    let env = TestEnv::new();
    let file = env.job("echo x >> ran", "");
    let jobs = count(100);
    let started: Vec<_> = (0..jobs)
        .map(|_| env.dlrun(["submit", "--scheduler", "local", "--json"]).arg(&file).start())
        .collect();
    let ids: Vec<String> = started
        .into_iter()
        .map(|submit| submit.finish().code(0).result()["run_id"].as_str().expect("an id").to_owned())
        .collect();
    let mut waited = env.dlrun(["wait", "--timeout", "50"]).args(&ids).run();
    while waited.status.code() == Some(75) {
        waited = env.dlrun(["wait", "--timeout", "50"]).args(&ids).run();
    }
    let _ = waited.code(0);
    let ran = fs::read_to_string(env.jobs().join("ran")).expect("written");
    assert_eq!(ran.lines().count(), usize::try_from(jobs).expect("small"));
}
