//! `dlrun show`, and the ways to name a run.

use std::fs;

use serde_json::json;

use crate::support::TestEnv;

fn ran(env: &TestEnv, name: &str, script: &str) -> String {
    let id = env.submit(&env.job_called(name, script, ""));
    let _ = env.dlrun(["wait", &id]).run();
    id
}

fn ran_with(env: &TestEnv, script: &str, more: &str) -> String {
    let id = env.submit(&env.job_called("same", script, more));
    let _ = env.dlrun(["wait", &id]).run();
    id
}

#[test]
fn run_is_found_by_id_prefix_name_job_id_and_place() {
    let env = TestEnv::new();
    let (first, second) = (ran(&env, "first", "true"), ran(&env, "second", "true"));
    for (text, id) in [
        (first.as_str(), &first),
        (&first[..8], &first),
        ("first", &first),
        ("L1", &first),
        ("@2", &first),
        ("@1", &second),
        ("second", &second),
    ] {
        assert_eq!(env.show(text)["run"]["run_id"], id.as_str(), "{text}");
    }
    let latest = env.dlrun(["show", "--json"]).run().code(0).result();
    assert_eq!(latest["run"]["run_id"], second.as_str());
}

#[test]
fn run_that_is_not_there_is_told_with_the_next_step() {
    let env = TestEnv::new();
    let error = env.dlrun(["show", "--json"]).run().code(66).error();
    assert!(
        error["message"]
            .as_str()
            .expect("text")
            .contains("there are no records in"),
        "{error}"
    );
    let _ = ran(&env, "a", "true");
    for text in ["nothing", "4711", "@9", "", "../../etc", "zzzz"] {
        let error = env.dlrun(["show", "--json", text]).run().code(66).error();
        assert_eq!(error["kind"], "missing", "{text}");
        assert!(
            error["hints"][0]
                .as_str()
                .expect("a hint")
                .contains("`dlrun list`"),
            "{text}: {error}"
        );
    }
    let _ = env
        .dlrun(["show", "nothing"])
        .run()
        .code(66)
        .warns("error: there is no run `nothing`\nhint: `dlrun list`");
}

#[test]
fn name_of_several_runs_means_the_latest_or_is_asked_back() {
    let env = TestEnv::new();
    let ids = [ran(&env, "same", "true"), ran(&env, "same", "true")];
    let done = env.dlrun(["show", "--json", "same"]).run();
    match done.status.code() {
        Some(0) => assert_eq!(done.result()["run"]["run_id"], ids[1].as_str()),
        _ => {
            let error = done.code(66).error();
            let told = error.to_string();
            assert!(ids.iter().all(|id| told.contains(id.as_str())), "{told}");
        }
    }
}

#[test]
fn text_and_json_tell_what_was_measured() {
    let env = TestEnv::new();
    let script =
        "echo 'epoch 1 0.5s loss: 0.5'; echo 'epoch 2 0.25s loss: 0.25'; sleep 0.3; exit 3";
    let id = ran(&env, "measured", script);
    let shown = env.show(&id);
    assert_eq!(shown["status"]["state"], "failed");
    assert_eq!(shown["status"]["exit"]["code"], 3);
    assert_eq!(shown["attempt"], 0);
    let node = &shown["nodes"][0];
    assert_eq!(
        (&node["state"], &node["progress"]["epochs_completed"]),
        (&"ended".into(), &2.into())
    );
    assert!(
        node["usage"]["mem_peak_bytes"]
            .as_u64()
            .is_some_and(|bytes| bytes > 100_000),
        "{node}"
    );
    assert!(
        shown["summary"]["usage"]["wall_seconds"]
            .as_f64()
            .is_some_and(|seconds| seconds > 0.0)
    );
    assert_eq!(shown["unreadable"].as_array().map(Vec::len), Some(0));
    let text = env.dlrun(["show", &id]).run().code(0).text();
    for part in [
        "failed (exit code 3)",
        "local, job L1",
        "epochs       2\n",
        "loss 0.2500",
        "seen, the peak is not known",
        "CPU  ",
        &id,
    ] {
        assert!(text.contains(part), "{part:?} in\n{text}");
    }
}

#[test]
fn run_too_short_to_be_measured_has_no_figures_instead_of_zeros() {
    let env = TestEnv::new();
    let id = ran(&env, "short", "true");
    let shown = env.show(&id);
    let usage = &shown["nodes"][0]["usage"];
    // Slow machines may have measured it all the same.
    if usage["processes_peak"].is_null() {
        assert!(
            usage["mem_peak_bytes"].is_null() && usage["io_read_bytes"].is_null(),
            "{usage}"
        );
    } else {
        assert!(usage["mem_peak_bytes"].as_u64() > Some(0), "{usage}");
    }
}

/// `0 of 4` would say that the program did nothing.
#[test]
fn epochs_that_no_line_shows_are_unknown() {
    let env = TestEnv::new();
    let id = ran_with(&env, "true", "[workload]\nepochs = 4\n");
    let shown = env.dlrun(["show", &id]).run().code(0).text();
    let unknown = "epochs     unknown: no line of the output was recognised as the end of one (4 are planned)";
    assert!(shown.contains(unknown), "{shown}");
}

#[test]
fn signal_is_told_by_its_name() {
    let env = TestEnv::new();
    let id = ran(&env, "killed", "kill -KILL $$");
    let _ = env
        .dlrun(["show", &id])
        .run()
        .code(0)
        .says("failed (SIGKILL, exit code 137)");
}

#[test]
fn records_that_cannot_be_read_are_named_and_hide_nothing_else() {
    let env = TestEnv::new();
    let id = ran(&env, "hurt", "echo 'epoch 1 0.5s'");
    let attempt = env.run_dir(&id).join("0.0");
    let node = fs::read_dir(&attempt)
        .expect("listed")
        .map(|entry| entry.expect("entry").path())
        .find(|path| path.is_dir());
    fs::write(
        node.expect("the node's directory").join("record.json"),
        "{\"format\":1,",
    )
    .expect("ours");
    let shown = env.show(&id);
    assert_eq!(shown["status"]["state"], "completed");
    assert_eq!(
        shown["unreadable"].as_array().map(Vec::len),
        Some(1),
        "{shown}"
    );
    let _ = env
        .dlrun(["show", &id])
        .run()
        .code(0)
        .says("note: ")
        .says("cannot be read: ");
}

/// A run that lost a process for lack of memory; what `show` advises then, the next run does.
#[test]
fn advice_that_the_next_run_followed_is_scored_where_nothing_else_changed() {
    let env = TestEnv::new();
    let job = |script: &str, memory: &str| {
        ran_with(&env, script, &format!("[resources]\nmemory = \"{memory}\""))
    };
    let killed = |id: &str| {
        let attempt = env.run_dir(id).join("0.0");
        let mut entries = fs::read_dir(&attempt).expect("listed");
        let node = entries.find_map(|entry| Some(entry.ok()?.path()).filter(|path| path.is_dir()));
        let path = node.expect("the node's directory").join("record.json");
        let text = fs::read_to_string(&path).expect("a record");
        let mut record: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        record["usage"]["mem_oom_kills"] = 1.into();
        fs::write(&path, record.to_string()).expect("ours");
    };
    let first = job("true", "64MiB");
    killed(&first);
    let advised = env.show(&first)["insight"]["advice"][0]["paste"].clone();
    assert_eq!(advised, "memory = \"1GiB\"");

    let second = job("true", "1GiB");
    let shown = env.show(&second);
    let followed = &shown["run"]["identity"]["followed"];
    assert_eq!(
        (&followed["run_id"], &followed["lines"]),
        (&json!(first), &json!(["memory = \"1GiB\""]))
    );
    assert_eq!(shown["followed_score"]["suffices"], true);
    let text = format!(
        "memory = \"1GiB\", as advised on {}: predicted to suffice, and did",
        &first[..6]
    );
    let _ = env.dlrun(["show", &second]).run().code(0).says(&text);
    let _ = env
        .dlrun(["export", "--what", "runs", "--format", "jsonl"])
        .run()
        .code(0)
        .says("\"followed\":{");

    // Nothing was advised; more than advised; what was advised, and another script.
    let mut before = second;
    for (script, memory) in [("true", "1GiB"), ("true", "3GiB"), ("true; true", "5GiB")] {
        let run = job(script, memory);
        let other = env.show(&run);
        let identity = &other["run"]["identity"];
        assert_eq!(
            (identity.get("followed"), other.get("followed_score")),
            (None, None),
            "{memory} after {before}"
        );
        killed(&run);
        before = run;
    }
    let advised = env.show(&before)["insight"]["advice"][0]["paste"].clone();
    assert_eq!(advised, "memory = \"8GiB\"", "it is advised all the time");
}

#[test]
fn control_characters_in_names_from_outside_do_not_reach_the_terminal() {
    let env = TestEnv::new();
    let done = env.dlrun(["show", "\u{1b}[31mred"]).run().code(66);
    let _ = done.never_says("\u{1b}");
}

#[test]
fn what_the_node_daemon_measured_is_shown() {
    let env = TestEnv::new();
    let id = ran(&env, "measured", "true");
    let node = fs::read_dir(env.run_dir(&id).join("0.0"))
        .expect("an attempt")
        .map(|entry| entry.expect("entry").path())
        .find(|path| path.is_dir())
        .expect("a node");
    let path = node.join("record.json");
    let mut record: serde_json::Value =
        serde_json::from_slice(&fs::read(&path).expect("a record")).expect("JSON");
    record["cgroup"] = "/slurm/uid_1000/job_4711".into();
    record["usage"]["cpu_throttled_seconds"] = 2.5.into();
    record["usage"]["mem_oom_kills"] = 1.into();
    record["events"] = serde_json::json!([
        { "at_ms": 1_763_650_000_000_u64, "kind": "oom_kill", "detail": "bad \u{1b}[31m detail" },
    ]);
    record["gpus"] = serde_json::json!([{
        "uuid": "GPU-1", "name": "NVIDIA H200", "minor": 0, "readings": 9, "utilisation_mean_percent": 50.0,
        "mem_peak_bytes": 1 << 30, "energy_joules": 700.0, "throttled_seconds": 0.0, "idle_seconds": 0.0,
        "xid_errors": 1, "pci_bus_id": null, "mem_total_bytes": null, "power_limit_watts": null,
        "sm_clock_max_mhz": null, "mig": null, "parent": null, "driver": null, "power_mean_watts": null,
        "temperature_peak_celsius": null, "sm_clock_mean_mhz": null,
    }]);
    fs::write(&path, record.to_string()).expect("ours");
    let done = env.dlrun(["show", &id]).run().code(0);
    let done =
        done.says("NVIDIA H200 (0), 50% busy on average, 1GiB at most, 700 J, 1 XID errors\n");
    let done = done
        .says("kept it from running for 2.50 s")
        .says("1, by the kernel for want of memory");
    let _ = done.says("/slurm/uid_1000/job_4711");
    let shown = env.show(&id);
    assert_eq!(shown["nodes"][0]["gpus"][0]["energy_joules"], 700.0);
    assert_eq!(shown["nodes"][0]["events"][0]["kind"], "oom_kill");
    assert_eq!(shown["nodes"][0]["cgroup"], "/slurm/uid_1000/job_4711");
    assert_eq!(shown["summary"]["usage"]["mem_oom_kills"], 1);
}

#[test]
fn a_code_above_128_is_told_from_a_signal() {
    let env = TestEnv::new();
    for (name, script, exit, cause) in [
        ("code", "exit 130", json!({ "code": 130 }), "exit code 130"),
        (
            "signal",
            "kill -INT $$; sleep 9",
            json!({ "signal": 2 }),
            "SIGINT",
        ),
    ] {
        let run = env.submit(&env.job_called(name, script, ""));
        env.wait_state(&run, "failed");
        assert_eq!(env.show(&run)["status"]["exit"], exit, "{name}");
        let _ = env.dlrun(["show", &run]).run().code(0).says(cause);
        let _ = env
            .dlrun(["list", "--name", name])
            .run()
            .code(0)
            .says(cause);
    }
}

#[test]
fn run_of_a_moment_has_no_notes() {
    let env = TestEnv::new();
    let id = ran(&env, "short", "true");
    let text = env.dlrun(["show", &id]).run().code(0).text();
    let notes: Vec<&str> = text
        .lines()
        .filter(|line| line.starts_with("note: "))
        .collect();
    assert!(notes.is_empty(), "{text}");
}

#[test]
fn run_without_a_module_is_told_what_brings_modules() {
    let env = TestEnv::new();
    let said = "echo 'Traceback (most recent call last):' >&2; echo '  File \"t.py\", line 1, in <module>' >&2; \
                echo \"ModuleNotFoundError: No module named 'torch'\" >&2; exit 1";
    let id = ran(&env, "lacks", said);
    let _ = env
        .dlrun(["show", &id])
        .run()
        .code(0)
        .says("bring Python packages");
    let other = ran(
        &env,
        "other",
        &said.replace("ModuleNotFoundError", "ValueError"),
    );
    let _ = env
        .dlrun(["show", &other])
        .run()
        .code(0)
        .never_says("bring Python packages");
}
