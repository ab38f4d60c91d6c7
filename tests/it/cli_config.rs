//! `dlrun config show`, and what wrong settings lead to.

use std::fs;

use serde_json::Value;

use crate::support::TestEnv;

fn user_file(env: &TestEnv, text: &str) {
    let dir = env.root().join("home/config/dlrun");
    fs::create_dir_all(&dir)
        .and_then(|()| fs::write(dir.join("dlrun.toml"), text))
        .expect("ours");
}

fn setting(env: &TestEnv, name: &str) -> Value {
    let settings = env
        .dlrun(["config", "show", "--json"])
        .run()
        .code(0)
        .result()["settings"]
        .clone();
    let found = settings
        .as_array()
        .expect("a list")
        .iter()
        .find(|setting| setting["name"] == name);
    found
        .unwrap_or_else(|| panic!("no {name} in {settings}"))
        .clone()
}

#[test]
fn every_value_is_shown_with_its_origin() {
    let mut env = TestEnv::new();
    user_file(
        &env,
        "[slurm]\ntimeout_seconds = 7\nbin_dir = \"/opt/slurm/bin\"\n",
    );
    env.set("DLRUN_SLURM__BIN_DIR", "/opt/other/bin");
    let timeout = setting(&env, "slurm.timeout_seconds");
    assert_eq!(timeout["value"], "7");
    let file = env.root().join("home/config/dlrun/dlrun.toml");
    assert_eq!(timeout["from"], format!("{}:2", file.display()));
    assert_eq!(timeout["origin"]["kind"], "file");
    assert_eq!(
        setting(&env, "slurm.bin_dir")["from"],
        "$DLRUN_SLURM__BIN_DIR"
    );
    assert_eq!(setting(&env, "monitor.interval_ms")["from"], "default");
    assert_eq!(
        setting(&env, "state_dir")["value"],
        env.state().to_str().expect("text")
    );
    let text = env
        .dlrun(["config", "show", "--state-dir", "relative"])
        .run()
        .code(0)
        .text();
    let row = text
        .lines()
        .find(|line| line.trim_start().starts_with("state_dir"))
        .expect("a row");
    assert!(
        row.contains(env.jobs().join("relative").to_str().expect("text"))
            && row.contains("--state-dir"),
        "{row}"
    );
    assert!(!env.state().exists(), "showing settings makes nothing");
}

#[test]
fn each_setting_has_a_variable_that_works() {
    let mut env = TestEnv::new();
    let settings = env
        .dlrun(["config", "show", "--json"])
        .run()
        .code(0)
        .result()["settings"]
        .clone();
    for setting in settings.as_array().expect("a list") {
        let name = setting["name"].as_str().expect("a name");
        let value = match name {
            "scheduler.kind" => "local",
            "monitor.daemon"
            | "optuna.install"
            | "model.use"
            | "resume.use"
            | "resume.exclude_nodes" => "off",
            "model.keep" | "resume.attempts" | "resume.node_hours" | "trial.minutes" => "7",
            "launch.wait_seconds" => "50",
            "launch.interface" => "word",
            "node.check" => "warn",
            "launch.first_port" | "launch.last_port" => "20500",
            "defaults.queue" | "defaults.account" => "word",
            _ if name.ends_with("_ms") => "500",
            _ if ["_seconds", "_minutes", "_hours"]
                .iter()
                .any(|unit| name.ends_with(unit)) =>
            {
                "5"
            }
            _ => "/a/path",
        };
        env.set(setting["variable"].as_str().expect("a variable"), value);
        assert_eq!(self::setting(&env, name)["value"], value);
    }
}

#[test]
fn wrong_value_stops_the_command_and_names_its_place() {
    let env = TestEnv::new();
    user_file(&env, "\n[slurm]\ntimeout_seconds = 0\n");
    let done = env
        .dlrun(["list"])
        .run()
        .code(78)
        .warns("dlrun.toml:3:19")
        .warns("from 1 to 600");
    drop(done);
    let error = env.dlrun(["list", "--json"]).run().code(78).error();
    assert_eq!(
        (&error["kind"], &error["problems"][0]["line"]),
        (&"config".into(), &3.into())
    );
    user_file(&env, "this is no TOML");
    let _ = env
        .dlrun(["config", "show"])
        .run()
        .code(78)
        .warns("dlrun.toml:1:");
    user_file(&env, "");
    let done = env
        .dlrun(["list"])
        .env("DLRUN_SLURM__TIMEOUT_SECONDS", "soon")
        .run()
        .code(78);
    let _ = done.warns("DLRUN_SLURM__TIMEOUT_SECONDS").warns("soon");
    let _ = env
        .dlrun(["list"])
        .env("DLRUN_STATE_DIR", "relative")
        .run()
        .code(78)
        .warns("absolute path");
}

#[test]
fn unknown_key_is_named_and_passed_over() {
    let env = TestEnv::new();
    user_file(&env, "[slurm]\ntimeout_second = 5\n[later]\nx = 1\n");
    let done = env
        .dlrun(["list"])
        .run()
        .code(0)
        .warns("dlrun.toml:2: ")
        .warns("slurm.timeout_seconds");
    let _ = done.warns("dlrun.toml:3: ");
}

#[test]
fn fault_of_a_sites_table_is_shown_with_its_place() {
    let env = TestEnv::new();
    user_file(&env, "[storage.s]\npath = \"/s\"\nclass = \"sdd\"\n");
    let _ = env
        .dlrun(["list"])
        .run()
        .code(78)
        .warns("dlrun.toml:3:9")
        .warns("did you mean `ssd`?");
}

#[test]
fn files_that_cannot_be_settings_are_refused() {
    let env = TestEnv::new();
    user_file(&env, &"#".repeat((1 << 20) + 1));
    let _ = env
        .dlrun(["list"])
        .run()
        .code(78)
        .warns("larger than 1 MiB");
    let path = env.root().join("home/config/dlrun/dlrun.toml");
    fs::write(&path, b"\xff\xfe").expect("ours");
    let _ = env.dlrun(["list"]).run().code(78).warns("dlrun.toml");
    fs::remove_file(&path)
        .and_then(|()| fs::create_dir(&path))
        .expect("ours");
    let _ = env.dlrun(["list"]).run().code(78).warns("dlrun.toml");
}

#[test]
fn without_home_and_state_dir_the_next_step_is_told() {
    let mut env = TestEnv::new();
    env.unset("XDG_STATE_HOME");
    env.unset("HOME");
    let _ = env
        .dlrun(["list"])
        .run()
        .code(78)
        .warns("no place for records")
        .warns("--state-dir");
    let _ = env
        .dlrun(["list", "--state-dir"])
        .arg(env.root().join("other"))
        .run()
        .code(0);
    // A relative base directory does not count (XDG Base Directory Specification).
    let _ = env
        .dlrun(["list"])
        .env("XDG_STATE_HOME", "relative")
        .run()
        .code(78);
}
