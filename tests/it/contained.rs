//! Jobs in a container whose runtime is a stand-in: which words it gets, and what becomes of what it says.

use std::fs;

use serde_json::{Value, json};

use crate::support::TestEnv;

/// Says its version, writes its words and those variables that are for the container to `calls`, and then does as told.
const RUNTIME: &str = r#"#!/bin/bash
if [ "$1" != exec ]; then VERSION; fi
{ printf '%s\n' "$@"; env | grep ^APPTAINERENV_ | sort; env | grep ^DLRUN_ENV_NAMES; } >> "$CALLS"
while [ "${1%/image}" = "$1" ]; do shift; done
shift
THEN
"#;

/// An environment with a stand-in for Apptainer, and an image: a directory.
fn env(version: &str, then: &str) -> TestEnv {
    let mut env = TestEnv::new();
    let runtime = env.program(
        "apptainer",
        &RUNTIME.replace("VERSION", version).replace("THEN", then),
    );
    fs::rename(runtime, env.root().join("bin/apptainer")).expect("ours");
    env.write("image/bin/sh", "");
    let calls = env.root().join("calls");
    env.set("CALLS", calls);
    env
}

const KNOWN: &str = "echo apptainer version 1.4.5; exit";
const RUNS: &str = "exec \"$@\"";
const IMAGE: &str = "[image]\npath = \"image\"\n";

fn calls(env: &TestEnv) -> String {
    fs::read_to_string(env.root().join("calls")).unwrap_or_default()
}

/// Runs a job to its end; returns its exit code, its output and what `show` knows.
fn ran(env: &TestEnv, script: &str, more: &str) -> (i64, String, Value) {
    let id = env.submit(&env.job(script, more));
    let _ = env.dlrun(["wait", &id]).run();
    let shown = env.show(&id);
    let output =
        fs::read_to_string(shown["run"]["output"].as_str().expect("a path")).expect("written");
    (
        shown["status"]["exit"]["code"].as_i64().unwrap_or(-1),
        output,
        shown,
    )
}

#[test]
fn the_node_decides_and_values_stand_on_no_command_line() {
    let env = env(KNOWN, RUNS);
    let secret = env.write("secret.env", "TOKEN=s3cret $(id)\n");
    fs::set_permissions(&secret, std::os::unix::fs::PermissionsExt::from_mode(0o600))
        .expect("ours");
    let more = format!(
        "env = {{ ODD = \"it's $HOME\" }}\nenv_file = \"secret.env\"\n{IMAGE}cleanenv = true\n"
    );
    let (code, output, shown) = ran(&env, "echo \"[$ODD]\"; exit 3", &more);
    assert_eq!(code, 3, "{output}");
    assert!(output.contains("[it's $HOME]"), "{output}");
    let calls = calls(&env);
    let (words, variables) = calls
        .split_once("APPTAINERENV_")
        .expect("variables are given");
    let jobs = env.jobs().display().to_string();
    for word in [
        "exec",
        "--cleanenv",
        "--no-eval",
        &format!("{jobs}:{jobs}"),
        &format!("{jobs}/image"),
        "-c",
    ] {
        assert!(words.lines().any(|line| line == word), "{word}: {words}");
    }
    assert!(!words.contains("s3cret"), "{words}");
    assert!(
        variables.contains("TOKEN=s3cret $(id)\n")
            && calls.contains("APPTAINERENV_ODD=it's $HOME\n"),
        "{calls}"
    );
    assert!(
        !calls.contains("DLRUN_ENV_NAMES") && !calls.contains("DLRUN_PLAN"),
        "{calls}"
    );
    let container = &shown["nodes"][0]["container"];
    assert_eq!(container["runtime"]["version"], "1.4.5", "{container}");
    assert_eq!(container["identity"]["form"], "sandbox", "{container}");
    assert!(!container.to_string().contains("s3cret"), "{container}");
}

#[test]
fn a_runtime_that_cannot_be_asked_gets_the_words_of_the_submission() {
    let env = env("echo broken >&2; exit 9", RUNS);
    let (code, output, shown) = ran(&env, "echo ran", IMAGE);
    assert_eq!(code, 0, "{output}");
    assert!(
        output.contains("ran\n") && output.contains("dlrun: warning: "),
        "{output}"
    );
    let container = &shown["nodes"][0]["container"];
    assert!(
        container["unasked"]
            .as_str()
            .is_some_and(|why| why.contains("does not work")),
        "{container}"
    );
    assert_eq!(calls(&env).lines().next(), Some("exec"));
}

#[test]
fn a_node_without_dlrun_runs_the_words_of_the_submission() {
    let env = env(KNOWN, RUNS);
    let script = env
        .dlrun(["render", "--scheduler", "local"])
        .arg(env.job("echo ran", IMAGE))
        .run()
        .code(0)
        .text();
    let bare = script.replace(crate::support::DLRUN, "/nowhere/dlrun");
    let done = env.command("bash", ["-c", &bare]).run().code(0);
    let _ = done.says("ran\n").warns("dlrun does not run on");
    assert_eq!(
        calls(&env),
        format!(
            "exec\n{}\nsh\n-c\necho ran\n",
            env.jobs().join("image").display()
        )
    );
}

#[test]
fn a_missing_source_ends_the_job_before_its_command_with_66() {
    let env = env(KNOWN, RUNS);
    let more = format!("{IMAGE}bind = [\"/nowhere/$DLRUN_RUN_ID:/data\"]\n");
    let (code, output, shown) = ran(&env, "touch ran", &more);
    assert_eq!(code, 66, "{output}");
    assert!(
        output.contains("does not exist on this node") && output.contains("hint: "),
        "{output}"
    );
    assert_eq!(shown["status"]["cause"]["kind"], "container", "{shown}");
    assert_eq!(shown["nodes"][0]["exit"]["code"], 66, "{shown}");
    assert!(!env.jobs().join("ran").exists() && calls(&env).is_empty());
}

#[test]
fn gpus_that_are_granted_and_not_there_are_told_and_recorded() {
    let env = env(KNOWN, RUNS);
    let more = format!(
        "env = {{ CUDA_VISIBLE_DEVICES = \"0\" }}\n[resources]\ngpus_per_node = 1\n{IMAGE}"
    );
    if fs::exists("/dev/nvidiactl").unwrap_or(false) || fs::exists("/dev/kfd").unwrap_or(false) {
        return crate::support::skip("this machine has GPUs");
    }
    let (code, output, shown) = ran(&env, "echo ran", &more);
    assert_eq!(code, 0, "{output}");
    assert!(
        output.contains("dlrun: warning: the job was given GPUs, but"),
        "{output}"
    );
    let node = &shown["nodes"][0];
    assert!(node["container"]["gpu_missing"].is_string(), "{node}");
    assert!(
        node["events"]
            .as_array()
            .expect("events")
            .iter()
            .any(|event| event["kind"] == "gpu_missing"),
        "{node}"
    );
    let id = shown["run"]["run_id"].as_str().expect("an id");
    let _ = env.dlrun(["show", id]).run().code(0).says("GPU MISSING");
    let (code, output, shown) = ran(&env, "touch ran", &format!("{more}require_gpu = true\n"));
    assert_eq!(code, 66, "{output}");
    assert_eq!(shown["status"]["cause"]["kind"], "container");
    assert!(!env.jobs().join("ran").exists());
}

#[test]
fn require_gpu_starts_nothing_where_no_gpu_was_given() {
    let env = env(KNOWN, RUNS);
    if fs::exists("/dev/nvidiactl").unwrap_or(false) || fs::exists("/dev/kfd").unwrap_or(false) {
        return crate::support::skip("this machine has GPUs");
    }
    let (code, output, shown) = ran(&env, "touch ran", &format!("{IMAGE}require_gpu = true\n"));
    assert_eq!(code, 66, "{output}");
    assert!(
        output.contains("the job was given no GPU") && output.contains("require_gpu"),
        "{output}"
    );
    assert_eq!(shown["status"]["cause"]["kind"], "container");
    assert!(!env.jobs().join("ran").exists());
}

#[test]
fn a_runtimes_last_words_are_the_cause_and_anything_else_is_the_programs() {
    for (then, code, kind) in [
        (
            "echo 'FATAL:   no such thing' >&2; exit 255",
            255,
            "container",
        ),
        ("echo 'FATAL:   no such thing' >&2; exit 3", 3, "program"),
        (
            "echo 'FATAL:   no such thing' >&2; echo more; exit 255",
            255,
            "program",
        ),
        ("exit 255", 255, "program"),
    ] {
        let (found, output, shown) = ran(&env(KNOWN, then), "true", IMAGE);
        let cause = &shown["status"]["cause"];
        assert_eq!(
            (found, &cause["kind"]),
            (code, &json!(kind)),
            "{then}: {output}"
        );
        assert_eq!(
            cause["text"] == "the container did not start: no such thing",
            kind == "container",
            "{cause}"
        );
    }
}

#[test]
fn what_cannot_be_read_runs_as_it_stands() {
    let env = env(KNOWN, RUNS);
    let image = env.jobs().join("image").display().to_string();
    let words = ["apptainer", "exec", &image, "sh", "-c", "echo ran"];
    let done = env
        .dlrun(["enter", "--image", "nonsense", "--bare", "3", "--"])
        .args(words)
        .run()
        .code(0);
    let _ = done.says("ran\n").warns("cannot be read");
    // A job without its plan.
    let done = env
        .dlrun(["exec", "--in-image", "3", "--"])
        .args(words)
        .run()
        .code(0);
    let _ = done.says("ran\n");
    assert_eq!(
        calls(&env).lines().filter(|line| *line == "exec").count(),
        2
    );
}
