//! `sampler = "optuna"` with a Python that answers wrongly, late or not at all.

use std::fs;
use std::path::PathBuf;

use nix::sys::signal::Signal;

use crate::support::env::{Dlrun, Done, python};
use crate::support::{TestEnv, wait_for};

const GOOD: &str = r#"echo '{"params":{"vars.x":5},"attrs":{},"optuna":"9.9.9"}'"#;

fn sweep(env: &TestEnv) -> PathBuf {
    env.write(
        "small.toml",
        "[run]\ncommand = ['sh', '-c', 'echo \"Epoch 1/1 - 0.01s - loss: {{x}}.0\"']\n[resources]\ncpus_per_task = 1\n\
         [sweep]\nmetric = 'loss'\nmode = 'min'\ntrials = 3\nsampler = 'optuna'\n[sweep.space]\nvars.x = { low = 0, high = 11 }\n",
    )
}

/// A Python that does `script` once it was asked.
fn with_python(env: &mut TestEnv, script: &str) {
    let script = format!("#!/bin/sh\ncat >>asked.jsonl\n{script}\n")
        .replace("asked", &env.jobs().join("asked").display().to_string());
    let python = env.program("python", &script);
    env.set("DLRUN_OPTUNA__PYTHON", python);
}

fn run(env: &TestEnv) -> Dlrun {
    env.dlrun(["sweep", "run", "--scheduler", "local", "small.toml"])
}

fn shown(env: &TestEnv) -> serde_json::Value {
    let shown = env.dlrun(["sweep", "show", "--json"]);
    shown.run().code(0).result()
}

#[test]
fn each_failure_of_optuna_says_why_and_the_same_command_continues() {
    let mut env = TestEnv::new();
    let _ = sweep(&env);
    env.set("DLRUN_OPTUNA__TIMEOUT_SECONDS", "1");
    // The first trial is proposed, the second one not.
    let second = |script: &str| {
        format!("tail -n 1 asked.jsonl | grep -q '\"trials\":\\[\\]' && {GOOD} && exit\n{script}")
    };
    let mut known = 0;
    for (script, why) in [
        ("echo 'hello'", "its answer `hello` cannot be read"),
        ("exit 0", "its answer `` cannot be read"),
        (
            "echo \"ModuleNotFoundError: No module named 'optuna'\" >&2; exit 1",
            "-m pip install 'optuna>=4,<6'",
        ),
        ("sleep 60", "gave no answer within 1 s"),
        ("sleep 60 & wait", "gave no answer within 1 s"),
        ("kill -9 $$", "was killed by SIGKILL"),
        (
            "echo '{\"params\":{\"vars.x\":12},\"optuna\":\"9\"}'",
            "its answer 12 for `vars.x` is outside",
        ),
        (
            "echo '{\"params\":{\"vars.x\":NaN},\"optuna\":\"9\"}'",
            "cannot be read",
        ),
        (
            "echo '{\"params\":{},\"optuna\":\"9\"}'",
            "no value of `vars.x`",
        ),
    ] {
        with_python(&mut env, &second(script));
        let done: Done = run(&env).run().code(69);
        assert!(done.stderr.contains(why), "{script}: {}", done.stderr);
        assert!(done.stderr.contains("no trial is lost"), "{}", done.stderr);
        known = shown(&env)["trials"].as_array().map_or(0, Vec::len);
        assert_eq!(known, 1, "{script}");
    }
    assert_eq!(known, 1);
    with_python(&mut env, GOOD);
    let result = run(&env).arg("--json").run().code(0).result();
    assert_eq!(result["trials"].as_array().map(Vec::len), Some(3));
    assert_eq!(
        (&result["sampler"], &result["optuna"]),
        (&"optuna".into(), &serde_json::json!(["9.9.9"]))
    );
    let asked = fs::read_to_string(env.jobs().join("asked.jsonl")).expect("asked");
    let last: serde_json::Value =
        serde_json::from_str(asked.lines().last().expect("a line")).expect("JSON");
    assert_eq!(last["trials"].as_array().map(Vec::len), Some(2));
    assert_eq!(last["trials"][0]["values"][0], 5.0);
}

#[test]
fn a_process_that_was_killed_once_is_started_again() {
    let mut env = TestEnv::new();
    let _ = sweep(&env);
    let script = format!("[ -e asked.killed ] || {{ >asked.killed; kill -9 $$; }}\n{GOOD}");
    with_python(&mut env, &script);
    let done = run(&env).run().code(0);
    assert!(
        done.stderr.contains("it is started once more"),
        "{}",
        done.stderr
    );
    assert_eq!(shown(&env)["trials"].as_array().map(Vec::len), Some(3));
}

#[test]
fn without_a_python_nothing_is_queued_and_the_next_step_is_named() {
    let mut env = TestEnv::new();
    let _ = sweep(&env);
    let refused = |env: &TestEnv, code: i32, says: &[&str]| {
        for more in [None, Some("--dry-run")] {
            let done = run(env).args(more).run().code(code);
            let is_said = |one: &&str| done.stderr.contains(*one);
            assert!(says.iter().all(is_said), "{more:?}: {}", done.stderr);
            assert!(!done.stderr.contains("no trial is lost"), "{}", done.stderr);
            assert!(!env.state().join("sweeps").exists());
            assert!(!env.state().join("python").exists());
        }
    };
    env.set("DLRUN_OPTUNA__PYTHON", "/nowhere/python3");
    refused(&env, 69, &["/nowhere/python3", "`optuna.python`"]);
    with_python(&mut env, "echo 'No module named cmaes' >&2; exit 1");
    refused(&env, 69, &["-m pip install 'optuna>=4,<6'"]);
    with_python(&mut env, GOOD);
    let dry = run(&env).arg("--dry-run").run().code(0).text();
    assert!(dry.contains("Optuna proposes the trials"), "{dry}");
    env.unset("DLRUN_OPTUNA__PYTHON");
    env.set("DLRUN_PYTHON__INTERPRETER", "/nowhere/python4");
    refused(&env, 66, &["/nowhere/python4", "`optuna.python`"]);
    env.set("DLRUN_PYTHON__INTERPRETER", python());
    env.set("DLRUN_OPTUNA__INSTALL", "off");
    refused(&env, 66, &["`optuna.install` is off", "`optuna.python`"]);
    env.set("DLRUN_OPTUNA__INSTALL", "auto");
    let dry = run(&env).arg("--dry-run").run().code(0);
    let created = "`dlrun sweep run` creates a Python environment with optuna>=4,<6 first";
    assert!(dry.stderr.contains(created), "{}", dry.stderr);
    assert!(!env.state().join("python").exists());
    // No package index is reached.
    env.set("PIP_NO_INDEX", "1");
    env.set("PIP_CONFIG_FILE", "/dev/null");
    let done = run(&env).run().code(66);
    assert!(
        done.stderr.contains("pip needs a package index")
            && done.stderr.contains("`optuna.python`"),
        "{}",
        done.stderr
    );
    assert!(!env.state().join("sweeps").exists());
    assert!(!env.state().join("runs").exists());
}

#[test]
fn a_finished_sweep_is_shown_without_optuna() {
    let mut env = TestEnv::new();
    let _ = sweep(&env);
    with_python(&mut env, GOOD);
    let _ = run(&env).run().code(0);
    env.set("DLRUN_OPTUNA__PYTHON", "/nowhere/python3");
    let again = run(&env).run().code(0).text();
    assert!(again.contains("3 of 3 trials finished"), "{again}");
    let _ = run(&env).args(["--trials", "4"]).run().code(69);
    let _ = run(&env).arg("--restart").run().code(69);
    assert_eq!(shown(&env)["trials"].as_array().map(Vec::len), Some(3));
}

#[test]
fn ctrl_c_is_heard_while_optuna_is_asked() {
    let mut env = TestEnv::new();
    let _ = sweep(&env);
    let second = "[ $(wc -l <asked.jsonl) = 3 ] && { >asked.waits; exec sleep 600; }";
    with_python(&mut env, &format!("{second}\n{GOOD}"));
    let started = run(&env).start();
    let waits = env.jobs().join("asked.waits");
    wait_for("the second question", || waits.exists());
    started.signal(Signal::SIGINT);
    let done = started.finish().code(75);
    let says = [
        "interrupted; nothing is running",
        "1 of 3 runs are finished",
    ];
    assert!(
        says.iter().all(|one| done.stderr.contains(one)),
        "{}",
        done.stderr
    );
    assert!(!done.stderr.contains("dlrun cancel"), "{}", done.stderr);
    with_python(&mut env, GOOD);
    let result = run(&env).arg("--json").run().code(0).result();
    assert_eq!(result["trials"].as_array().map(Vec::len), Some(3));
}
