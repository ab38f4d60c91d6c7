//! This machine as a scheduler: jobs share it or wait, run detached, and leave nothing behind.

use std::fs;

use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, getsid};

use crate::support::{TestEnv, skip, wait_for, wait_for_some};

/// A job of the whole machine that says `NAME.ready` and waits for `NAME.go`.
fn held(env: &TestEnv, name: &str) -> String {
    asking(env, name, "")
}

/// One that asks for a part of the machine.
fn asking(env: &TestEnv, name: &str, resources: &str) -> String {
    let script = format!(
        "echo {name} >> order; echo $$ > {name}.ready; while [ ! -e {name}.go ]; do sleep 0.02; done"
    );
    env.submit(&env.job_called(name, &script, &format!("[resources]\n{resources}\n")))
}

/// CPUs of this machine that the tests may use.
fn cpus() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

fn reason_of(env: &TestEnv, run: &str) -> String {
    env.show(run)["status"]["reason"]
        .as_str()
        .unwrap_or_default()
        .to_owned()
}

/// Where this user's jobs say what they take.
fn entries(env: &TestEnv) -> std::path::PathBuf {
    env.root()
        .join("lock")
        .join(format!("dlrun-local-{}", nix::unistd::geteuid()))
}

fn names_in(dir: &std::path::Path) -> Vec<String> {
    let names = fs::read_dir(dir).into_iter().flatten().flatten();
    names
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect()
}

fn release(env: &TestEnv, name: &str) {
    env.write(&format!("{name}.go"), "");
}

/// Kills the only runner. While the kernel takes it apart, its lock still says that it lives.
fn kill_runner(env: &TestEnv) {
    let runner = env.processes_with("local-run")[0];
    kill(runner, Signal::SIGKILL).expect("it runs");
    wait_for("the runner to be gone", || {
        fs::read_to_string(format!("/proc/{runner}/stat"))
            .map_or(true, |stat| stat.contains(") Z "))
    });
}

#[test]
fn jobs_that_ask_for_nothing_run_one_at_a_time_in_the_order_of_their_submission() {
    let env = TestEnv::new();
    let ids = ["a", "b", "c"].map(|name| held(&env, name));
    env.wait_pid("a.ready");
    env.wait_state(&ids[0], "running");
    let holder = "running are L1 (a)";
    let reasons = [
        "waits for room on this machine: ",
        "waits for room on this machine behind L2 (b): ",
    ];
    for (id, reason) in ids[1..].iter().zip(reasons) {
        wait_for("the reason", || {
            reason_of(&env, id) == format!("{reason}{holder}")
        });
        assert_eq!(env.state_of(id), "pending");
        let _ = env.dlrun(["list"]).run().code(0).says(holder);
    }
    release(&env, "b");
    release(&env, "c");
    assert!(!env.jobs().join("b.ready").exists() && !env.jobs().join("c.ready").exists());
    release(&env, "a");
    let _ = env.dlrun(["wait"]).args(&ids).run().code(0);
    assert_eq!(
        fs::read_to_string(env.jobs().join("order")).expect("written"),
        "a\nb\nc\n"
    );
    env.wait_quiet();
}

#[test]
fn two_state_directories_share_the_machine() {
    let env = TestEnv::new();
    let first = held(&env, "a");
    env.wait_pid("a.ready");
    let other = env.root().join("other-state");
    let in_other = ["--state-dir", other.to_str().expect("text")];
    let submit = env
        .dlrun(["submit", "--scheduler", "local", "--json"])
        .args(in_other);
    let second = submit
        .arg(env.job_called("b", "echo b >> order", ""))
        .run()
        .code(0)
        .result()["run_id"]
        .clone();
    let second = second.as_str().expect("an id");
    let show = env
        .dlrun(["show", "--json", second])
        .args(in_other)
        .run()
        .code(0)
        .result();
    assert_eq!(show["status"]["state"], "pending");
    release(&env, "a");
    let _ = env.dlrun(["wait", second]).args(in_other).run().code(0);
    assert_eq!(env.state_of(&first), "completed");
    assert_eq!(
        fs::read_to_string(env.jobs().join("order")).expect("written"),
        "a\nb\n"
    );
}

#[test]
fn waiting_job_can_be_cancelled_and_never_runs() {
    let env = TestEnv::new();
    let (first, second) = (held(&env, "a"), held(&env, "b"));
    env.wait_pid("a.ready");
    let _ = env
        .dlrun(["cancel", &second])
        .run()
        .code(0)
        .says("asked local to cancel ");
    let result = env
        .dlrun(["wait", "--json", &second])
        .run()
        .code(15)
        .result();
    assert_eq!(result["runs"][0]["status"]["state"], "cancelled");
    release(&env, "a");
    let _ = env.dlrun(["wait", &first]).run().code(0);
    env.wait_quiet();
    assert!(!env.jobs().join("b.ready").exists());
}

#[test]
fn running_job_can_be_cancelled_and_has_time_to_save() {
    let env = TestEnv::new();
    let script =
        "trap 'echo saved > saved; exit 0' TERM; echo > ready; while :; do sleep 0.02; done";
    let id = env.submit(&env.job(script, ""));
    env.wait_file("ready");
    let _ = env.dlrun(["cancel", "L1"]).current_dir("/").run().code(0);
    let result = env.dlrun(["wait", "--json", &id]).run().code(15).result();
    assert_eq!(result["runs"][0]["status"]["state"], "cancelled");
    assert_eq!(
        fs::read_to_string(env.jobs().join("saved")).expect("it had time"),
        "saved\n"
    );
    env.wait_quiet();
}

#[test]
fn job_that_ignores_the_request_is_killed_with_all_its_processes() {
    let mut env = TestEnv::new();
    env.set("DLRUN_LOCAL__KILL_WAIT_SECONDS", "1");
    let script = "trap '' TERM; (trap '' TERM; setsid sleep 600) & echo > ready; while :; do sleep 0.1; done";
    let id = env.submit(&env.job(script, ""));
    env.wait_file("ready");
    let _ = env.dlrun(["cancel", &id]).run().code(0);
    let _ = env.dlrun(["wait", &id]).run().code(15);
    env.wait_quiet();
}

#[test]
fn time_limit_ends_a_job() {
    let env = TestEnv::new();
    let id = env.submit(&env.job(
        "echo 'epoch 1 0.5s'; exec sleep 600",
        "[resources]\nwalltime = \"1s\"\n",
    ));
    let result = env.dlrun(["wait", "--json", &id]).run().code(11).result();
    let status = &result["runs"][0]["status"];
    assert_eq!(
        (&status["state"], &status["raw_state"]),
        (&"timeout".into(), &"timeout".into())
    );
    assert_eq!(
        result["runs"][0]["nodes"][0]["exit"]["signal"],
        Signal::SIGTERM as i32
    );
    env.wait_quiet();
}

#[test]
fn what_a_job_leaves_behind_is_killed() {
    let env = TestEnv::new();
    let script =
        "setsid sleep 600 & (sleep 600 &) ; trap '' HUP; sh -c 'sleep 600 & sleep 600 &' ; exit 0";
    let id = env.submit(&env.job(script, ""));
    let _ = env.dlrun(["wait", &id]).run().code(0);
    env.wait_quiet();
}

#[test]
fn job_is_detached_from_the_shell_that_submitted_it() {
    let env = TestEnv::new();
    let _ = held(&env, "a");
    let training = env.wait_pid("a.ready");
    let session = getsid(Some(training)).expect("it runs");
    assert_ne!(session, getsid(None).expect("ours"));
    let runner = env.processes_with("local-run");
    assert_eq!(runner, [session], "the runner leads the session");
    for fd in 0..3 {
        let target = fs::read_link(format!("/proc/{}/fd/{fd}", runner[0])).expect("it is open");
        assert_eq!(target.to_str(), Some("/dev/null"), "fd {fd}");
    }
    assert_eq!(
        fs::read_link(format!("/proc/{}/cwd", runner[0])).ok(),
        Some(env.jobs()),
        "the job's directory"
    );
    release(&env, "a");
    let _ = env.dlrun(["wait", "a"]).current_dir("/").run().code(0);
}

#[test]
fn end_that_the_runner_is_about_to_write_down_is_no_fault() {
    let env = TestEnv::new();
    let run = held(&env, "job");
    env.wait_state(&run, "running");
    let runner = env.processes_with("local-run")[0];
    kill(runner, Signal::SIGSTOP).expect("it runs");
    release(&env, "job");
    wait_for("the end", || {
        env.show(&run)["status"]["raw_state"] == "ending"
    });
    assert_eq!(reason_of(&env, &run), "");
    let mark = env.run_dir(&run).join("0.0/end.json");
    let aside = mark.with_extension("aside");
    fs::rename(&mark, &aside).expect("the script left it");
    assert!(reason_of(&env, &run).contains("is there room in the state directory?"));
    fs::rename(&aside, &mark).expect("it is there");
    kill(runner, Signal::SIGCONT).expect("it runs");
    env.wait_state(&run, "completed");
}

#[test]
fn killed_runner_does_not_take_the_job_with_it() {
    let env = TestEnv::new();
    let id = held(&env, "a");
    env.wait_pid("a.ready");
    env.wait_state(&id, "running");
    kill_runner(&env);
    assert_eq!(env.state_of(&id), "running");
    release(&env, "a");
    let _ = env.dlrun(["wait", &id]).run().code(0).says("completed");
    env.wait_quiet();
}

#[test]
fn job_without_its_runner_can_still_be_cancelled() {
    let env = TestEnv::new();
    let id = held(&env, "a");
    env.wait_pid("a.ready");
    env.wait_state(&id, "running");
    kill_runner(&env);
    let _ = env.dlrun(["cancel", &id]).run().code(0);
    env.wait_quiet();
    let _ = env.dlrun(["wait", &id]).run().code(15);
}

#[test]
fn job_that_outlives_its_runner_is_still_the_only_one() {
    let env = TestEnv::new();
    let _ = held(&env, "a");
    env.wait_pid("a.ready");
    kill_runner(&env);
    let second = held(&env, "b");
    wait_for("the second runner", || {
        env.processes_with("local-run").len() == 1
    });
    for _ in 0..10 {
        assert_eq!(env.state_of(&second), "pending");
    }
    assert_eq!(
        fs::read_to_string(env.jobs().join("order")).expect("written"),
        "a\n"
    );
    release(&env, "a");
    env.wait_pid("b.ready");
    release(&env, "b");
    let _ = env.dlrun(["wait", &second]).run().code(0);
}

#[test]
fn runner_killed_while_it_waits_frees_its_place() {
    let env = TestEnv::new();
    let first = held(&env, "a");
    env.wait_pid("a.ready");
    let before = env.processes_with("local-run");
    let second = held(&env, "b");
    let runner = wait_for_some("the second runner", || {
        env.processes_with("local-run")
            .into_iter()
            .find(|pid| !before.contains(pid))
    });
    let place = format!("wait-{runner}-");
    wait_for("its place in the line", || {
        names_in(&entries(&env))
            .iter()
            .any(|name| name.starts_with(&place))
    });
    let third = held(&env, "c");
    kill(runner, Signal::SIGKILL).expect("it runs");
    release(&env, "a");
    release(&env, "c");
    let _ = env.dlrun(["wait", &first, &third]).run().code(0);
    let status = env.show(&second)["status"].clone();
    assert_eq!(
        (&status["state"], &status["reason"]),
        (
            &"unknown".into(),
            &"its runner is gone: it was killed, or the state directory could not be written"
                .into()
        )
    );
    let _ = env.dlrun(["wait", &second]).run().code(16);
    assert!(!env.jobs().join("b.ready").exists());
}

#[test]
fn everything_killed_at_once_is_unknown_not_completed() {
    let env = TestEnv::new();
    let id = held(&env, "a");
    env.wait_pid("a.ready");
    env.wait_state(&id, "running");
    // As a machine that loses power: nobody can write anything down.
    let all = env.processes();
    for pid in &all {
        let _ = kill(*pid, Signal::SIGSTOP);
    }
    for pid in all {
        let _ = kill(pid, Signal::SIGKILL);
    }
    env.wait_quiet();
    // A lock may be held until all threads of its process are gone.
    env.wait_state(&id, "unknown");
    let result = env.dlrun(["wait", "--json", &id]).run().code(16).result();
    assert_eq!(result["runs"][0]["status"]["exit"], serde_json::Value::Null);
}

#[test]
fn output_files_never_overwrite_each_other() {
    let env = TestEnv::new();
    env.write("job-L1.out", "precious\n");
    let id = env.submit(&env.job("echo new", ""));
    let _ = env.dlrun(["wait", &id]).run().code(0);
    assert_eq!(
        fs::read_to_string(env.jobs().join("job-L1.out")).expect("kept"),
        "precious\n"
    );
    assert_eq!(env.show(&id)["run"]["job_id"], "L2");
    let _ = env.dlrun(["logs", &id]).run().code(0).says("new\n");
}

#[test]
fn link_in_the_place_of_the_users_directory_is_not_followed() {
    let env = TestEnv::new();
    let victim = env.root().join("victim");
    fs::create_dir(&victim).expect("ours");
    std::os::unix::fs::symlink(&victim, entries(&env)).expect("ours");
    let (first, second) = (held(&env, "a"), held(&env, "b"));
    // No entry can be put up, so neither waits for the other.
    env.wait_pid("a.ready");
    env.wait_pid("b.ready");
    assert!(names_in(&victim).is_empty());
    for name in ["a", "b"] {
        release(&env, name);
    }
    let _ = env.dlrun(["wait", &first, &second]).run().code(0);
}

#[test]
fn jobs_that_fit_beside_each_other_run_at_once() {
    if cpus() < 2 {
        return skip("this machine has one CPU");
    }
    let env = TestEnv::new();
    let ids = ["a", "b"].map(|name| asking(&env, name, "cpus_per_task = 1\nmemory = \"1MiB\""));
    // Each waits for the other to be there.
    env.wait_pid("a.ready");
    env.wait_pid("b.ready");
    for (id, name) in ids.iter().zip(["a", "b"]) {
        env.wait_state(id, "running");
        release(&env, name);
    }
    let _ = env.dlrun(["wait"]).args(&ids).run().code(0);
    assert_eq!(
        names_in(&entries(&env)),
        Vec::<String>::new(),
        "nothing is left behind"
    );
}

#[test]
fn small_job_does_not_overtake_a_large_one_that_waits() {
    if cpus() < 2 {
        return skip("this machine has one CPU");
    }
    let env = TestEnv::new();
    let small = "cpus_per_task = 1\nmemory = \"1MiB\"";
    let first = asking(&env, "a", small);
    env.wait_pid("a.ready");
    let large = held(&env, "b");
    wait_for("the large one to wait", || {
        reason_of(&env, &large) == "waits for room on this machine: running are L1 (a)"
    });
    // There is room for it, and it came later.
    let last = asking(&env, "c", small);
    wait_for("the small one to wait", || {
        reason_of(&env, &last).contains("behind L2 (b)")
    });
    release(&env, "a");
    env.wait_pid("b.ready");
    assert!(!env.jobs().join("c.ready").exists());
    release(&env, "b");
    release(&env, "c");
    let _ = env.dlrun(["wait", &first, &large, &last]).run().code(0);
    assert_eq!(
        fs::read_to_string(env.jobs().join("order")).expect("written"),
        "a\nb\nc\n"
    );
}

#[test]
fn job_that_asks_for_more_than_the_machine_has_gets_all_of_it() {
    let env = TestEnv::new();
    let first = asking(
        &env,
        "a",
        "cpus_per_task = 4096\nmemory = \"1000TiB\"\ngpus_per_node = 1000",
    );
    env.wait_pid("a.ready");
    let second = asking(&env, "b", "cpus_per_task = 1\nmemory = \"1MiB\"");
    let reason = "waits for room on this machine: running are L1 (a)";
    wait_for("the reason", || reason_of(&env, &second) == reason);
    release(&env, "a");
    release(&env, "b");
    let _ = env.dlrun(["wait", &first, &second]).run().code(0);
}

#[test]
fn jobs_of_gpus_that_are_not_their_own_run_one_after_the_other() {
    if cpus() < 2 {
        return skip("this machine has one CPU");
    }
    let env = TestEnv::new();
    let resources = "cpus_per_task = 1\nmemory = \"1MiB\"\ngpus_per_node = 1";
    let first = asking(&env, "a", resources);
    env.wait_pid("a.ready");
    let second = asking(&env, "b", resources);
    wait_for("the second to wait", || {
        let reason = reason_of(&env, &second);
        reason.contains("running are L1 (a)")
    });
    release(&env, "a");
    release(&env, "b");
    let _ = env.dlrun(["wait", &first, &second]).run().code(0);
}

#[test]
fn job_runs_though_nothing_can_be_written_for_it() {
    let mut env = TestEnv::new();
    env.set("DLRUN_LOCAL__LOCK_DIR", "/proc/nowhere");
    let ids = ["c", "d"].map(|name| held(&env, name));
    for name in ["c", "d"] {
        env.wait_pid(&format!("{name}.ready"));
    }
    wait_for("the warning", || {
        reason_of(&env, &ids[0]).starts_with("runs without waiting for its share of the machine: ")
    });
    release(&env, "c");
    release(&env, "d");
    let _ = env.dlrun(["wait"]).args(&ids).run().code(0);
}

#[test]
fn job_of_another_host_is_not_taken_for_a_dead_one() {
    let env = TestEnv::new();
    let id = held(&env, "a");
    env.wait_pid("a.ready");
    let ticket = env.run_dir(&id).join("local.json");
    let text = fs::read_to_string(&ticket).expect("there");
    let mut value: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    value["host"] = "elsewhere".into();
    fs::write(&ticket, value.to_string()).expect("ours");
    let status = env.show(&id)["status"].clone();
    assert_eq!(
        (&status["state"], &status["reason"]),
        (&"running".into(), &"it is on elsewhere; ask there".into())
    );
    let _ = env
        .dlrun(["cancel", &id])
        .run()
        .warns("the job is on elsewhere; cancel it there");
    let alive = kill(Pid::from_raw(env.wait_pid("a.ready").as_raw()), None);
    assert!(alive.is_ok(), "it was not touched");
}
