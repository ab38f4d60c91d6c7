//! Rules, storage and house rules of the configuration: what `plan` says of them, and what becomes of them in a job.

use std::fs;

use serde_json::Value;

use crate::support::{TestEnv, unwrapped};

pub(crate) fn configure(env: &TestEnv, text: &str) {
    let dir = env.root().join("home/config/dlrun");
    fs::create_dir_all(&dir)
        .and_then(|()| fs::write(dir.join("dlrun.toml"), text))
        .expect("ours");
}

/// Submits to this machine, waits, and gives the code of `wait` and the job's output.
fn ran(env: &TestEnv, more: &str, script: &str) -> (i32, String, Value) {
    let id = env.submit(&env.job(script, more));
    let done = env.dlrun(["wait", "--json", &id]).run();
    let run = env.show(&id);
    let output = run["run"]["output"]
        .as_str()
        .unwrap_or_else(|| panic!("{run}"))
        .to_owned();
    (
        done.exit_code().expect("no signal"),
        fs::read_to_string(output).expect("it has output"),
        run,
    )
}

const RULES: &str = r#"
[site]
name = "iris"
[storage.home]
path = "$HOME"
class = "common"
[storage.scratch]
path = "$HOME/it's $MARK"
class = "ssd"
[storage.local]
path = "/local"
class = "ultra_high"
queues = ["fast"]
[[rules]]
name = "tf"
when = { site = "iris", framework = "tensorflow", version = "2.1" }
set = { env = { A = "rule", B = "first", C = "$(id) `id` $HOME 'q' \\ \n\" é" }, prologue = [["mkdir", "made here"]] }
[[rules]]
name = "ssd"
when = { storage = ["ssd", "high"], accelerator = "none" }
set = { env = { B = "second" }, prologue = [["sh", "-c", "echo \"$DLRUN_STORAGE|$B\" > seen"]], epilogue = [["touch", "after"], ["sh", "-c", "echo $0 > last; exit 3", "it's; $(id)"]] }
[[rules]]
name = "other-version"
when = { framework = "tensorflow", version = "2.10" }
set = { env = { D = "wrong" } }
[[rules]]
name = "other-site"
when = { framework = "tensorflow", site = ["meluxina", "lumi"] }
set = { env = { D = "wrong" } }
"#;

const JOB: &str = "env = { A = \"job\" }\n[framework]\nname = \"tensorflow\"\nversion = \"2.1\"\n[storage]\nprefer = \"ultra_high\"\n";

#[test]
fn plan_tells_which_rules_hold_and_why_the_others_do_not() {
    let env = TestEnv::new();
    configure(&env, RULES);
    let file = env.job("true", JOB);
    let text = env
        .dlrun(["plan", "--scheduler", "local"])
        .arg(&file)
        .run()
        .code(0)
        .text();
    let text = unwrapped(&text);
    for part in [
        "tf, ssd  (2 of 4 hold)",
        "not other-version: version is 2.1, not 2.10 (",
        "not other-site: site is iris, not meluxina or lumi (",
        "dlrun.toml:18: accelerator is none, storage is ssd",
        "prologue mkdir 'made here'",
        "not B=\"first\": an earlier rule sets it so, and a later one wins",
        "not A: the job file sets it",
        "scratch (ssd, $HOME/it's $MARK)",
        "it is the nearest slower one",
        "not local: only for the queues fast",
        "not home: its class is common",
    ] {
        assert!(text.contains(part), "{part:?} in\n{text}");
    }
    let plan = env
        .dlrun(["plan", "--json", "--scheduler", "local"])
        .arg(&file)
        .run()
        .code(0)
        .result();
    let plan = &plan["plan"];
    assert_eq!(plan["storage"]["name"], "scratch");
    assert_eq!(
        (
            plan["prologue"][0]["rule"].as_str(),
            plan["prologue"][1]["rule"].as_str()
        ),
        (Some("tf"), Some("ssd"))
    );
}

#[test]
fn what_a_rule_attaches_takes_effect_byte_for_byte() {
    let mut env = TestEnv::new();
    configure(&env, RULES);
    env.set("MARK", "$(touch evil) 'x' \"y\"");
    let script = "printf '%s\\n' \"$A\" \"$B\" \"$C\" \"$D\" \"$DLRUN_STORAGE\" \"$DLRUN_STORAGE_CLASS\" > vars; ls > listed";
    let (code, output, run) = ran(&env, JOB, script);
    assert_eq!(code, 0, "{output}");
    let storage = format!(
        "{}/it's $(touch evil) 'x' \"y\"",
        env.root().join("home").display()
    );
    let expected = format!("job\nsecond\n$(id) `id` $HOME 'q' \\ \n\" é\n\n{storage}\nssd\n");
    assert_eq!(env.wait_file("vars"), expected);
    assert_eq!(env.wait_file("seen"), format!("{storage}|second\n"));
    let listed = env.wait_file("listed");
    assert!(
        listed.contains("made here\n") && !listed.contains("after") && !listed.contains("evil"),
        "{listed}"
    );
    assert!(env.jobs().join("after").exists(), "{output}");
    assert_eq!(env.wait_file("last"), "it's; $(id)\n");
    assert!(
        output.contains("warning: an epilogue step of rule ssd failed with exit code 3: sh -c"),
        "{output}"
    );
    assert_eq!(run["run"]["storage"], serde_json::json!(["scratch", "ssd"]));
    env.wait_quiet();
}

fn rule(set: &str) -> String {
    format!("[[rules]]\nname = \"r\"\nset = {{ {set} }}\n")
}

#[test]
fn prologue_that_fails_ends_the_job_before_its_command_and_the_epilogue_runs() {
    let env = TestEnv::new();
    configure(
        &env,
        &rule(
            "prologue = [[\"sh\", \"-c\", \"exit 7\"], [\"touch\", \"second\"]], epilogue = [[\"touch\", \"after\"]]",
        ),
    );
    let (code, output, run) = ran(&env, "", "touch command");
    assert_eq!(code, 10, "{output}");
    assert!(
        output.contains("error: a prologue step of rule r failed with exit code 7: sh -c exit 7"),
        "{output}"
    );
    assert_eq!(
        (
            run["status"]["state"].as_str(),
            run["status"]["exit"]["code"].as_i64()
        ),
        (Some("failed"), Some(7)),
        "{run}"
    );
    let made = ["command", "second", "after"].map(|name| env.jobs().join(name).exists());
    assert_eq!(made, [false, false, true]);
}

#[test]
fn steps_are_programs_and_no_shell() {
    let env = TestEnv::new();
    configure(&env, &rule("prologue = [[\"exit\", \"0\"]]"));
    let (code, output, _) = ran(&env, "", "touch command");
    assert_eq!(code, 10, "`exit` is a builtin of shells only: {output}");
    assert!(
        output.contains("failed with exit code 127: exit 0"),
        "{output}"
    );
    assert!(!env.jobs().join("command").exists());
}

#[test]
fn epilogue_runs_at_the_time_limit_and_its_failure_changes_no_exit_code() {
    let mut env = TestEnv::new();
    env.set("DLRUN_LOCAL__KILL_WAIT_SECONDS", "20");
    configure(
        &env,
        &rule("epilogue = [[\"touch\", \"after\"], [\"false\"]]"),
    );
    let (code, output, run) = ran(&env, "[resources]\nwalltime = \"1s\"\n", "exec sleep 600");
    assert_eq!(
        (code, run["status"]["state"].as_str()),
        (11, Some("timeout")),
        "{output}"
    );
    assert!(env.jobs().join("after").exists(), "{output}");
    let (code, output, _) = ran(&env, "", "exit 5");
    assert!(
        output.contains("an epilogue step of rule r failed with exit code 1"),
        "{output}"
    );
    assert_eq!(code, 10);
}

#[test]
fn epilogue_that_takes_too_long_is_cut_short_when_the_job_is_to_end() {
    let mut env = TestEnv::new();
    env.set("DLRUN_LOCAL__KILL_WAIT_SECONDS", "40");
    // The script waits ten seconds for it, a tenth at a time.
    let waits = env.fake("sleep");
    configure(
        &env,
        &rule("epilogue = [[\"tail\", \"-f\", \"/dev/null\"]]"),
    );
    let id = env.submit(&env.job("echo > ready; exec tail -f /dev/null", ""));
    env.wait_file("ready");
    let _ = env.dlrun(["cancel", &id]).run().code(0);
    let result = env.dlrun(["wait", "--json", &id]).run().code(15).result();
    assert_eq!(result["runs"][0]["status"]["state"], "cancelled");
    env.wait_quiet();
    assert!(waits.calls().len() >= 100, "{}", waits.calls().len());
}

#[test]
fn cancelling_in_the_prologue_ends_the_job() {
    let env = TestEnv::new();
    configure(
        &env,
        &rule(
            "prologue = [[\"sh\", \"-c\", \"echo > ready; exec sleep 600\"]], epilogue = [[\"touch\", \"after\"]]",
        ),
    );
    let id = env.submit(&env.job("touch command", ""));
    env.wait_file("ready");
    let _ = env.dlrun(["cancel", &id]).run().code(0);
    let _ = env.dlrun(["wait", &id]).run().code(15);
    env.wait_quiet();
    assert!(env.jobs().join("after").exists() && !env.jobs().join("command").exists());
}

#[test]
fn storage_whose_variable_is_not_set_stops_the_job() {
    let env = TestEnv::new();
    configure(
        &env,
        "[storage.s]\npath = \"/scratch/$NOT_HERE/x\"\nclass = \"high\"\n",
    );
    let (code, output, _) = ran(&env, "[storage]\nprefer = \"high\"\n", "touch command");
    assert_eq!(code, 10);
    assert!(
        output.contains("the storage s is at /scratch/$NOT_HERE/x, and $NOT_HERE is not set here"),
        "{output}"
    );
    assert!(!env.jobs().join("command").exists());
}

#[test]
fn preference_without_configured_storage_is_no_silence() {
    let env = TestEnv::new();
    let file = env.job("true", "[storage]\nprefer = \"ssd\"\n");
    let done = env
        .dlrun(["check", "--scheduler", "local"])
        .arg(&file)
        .run()
        .code(0);
    let _ = done
        .warns("`storage.prefer = \"ssd\"` has no effect")
        .warns("[storage.NAME]");
}

const HOUSE: &str = r#"
[gpus]
v100 = { queue = "gpu", cores_per_gpu = 7, constraint = "volta" }
k80 = { queue = "old", typed = false }
[house]
cores_per_gpu = 4
forbid = { memory = "memory goes by cores here", nodelist = "ask the desk" }
require = ["account"]
prologue = [["true"]]
"#;

#[test]
fn gpus_lead_to_queue_constraint_and_cores() {
    let env = TestEnv::new();
    let _ = env.fake_slurm();
    configure(&env, HOUSE);
    let resources = |lines: &str| {
        let file = env.job("true", &format!("[resources]\naccount = \"p\"\n{lines}\n"));
        let result = env
            .dlrun(["plan", "--json"])
            .arg(&file)
            .run()
            .code(0)
            .result();
        (
            result["plan"]["resources"].clone(),
            result["warnings"].to_string(),
        )
    };
    let (v100, _) = resources("gpus_per_node = \"v100:2\"");
    assert_eq!(
        (
            &v100["queue"],
            &v100["constraint"],
            &v100["cpus_per_task"],
            &v100["gpus_per_node"]
        ),
        (&"gpu".into(), &"volta".into(), &14.into(), &"v100:2".into())
    );
    let (k80, _) = resources("gpus_per_node = \"k80:2\"\ntasks_per_node = 2\nconstraint = \"ib\"");
    assert_eq!(
        (
            &k80["queue"],
            &k80["constraint"],
            &k80["cpus_per_task"],
            &k80["gpus_per_node"]
        ),
        (&"old".into(), &"ib".into(), &4.into(), &"2".into())
    );
    let (own, warnings) = resources(
        "gpus_per_node = \"v100:2\"\ncpus_per_task = 3\nqueue = \"mine\"\nconstraint = \"ib\"",
    );
    assert_eq!(
        (&own["queue"], &own["constraint"], &own["cpus_per_task"]),
        (&"mine".into(), &"ib".into(), &3.into())
    );
    assert!(
        warnings.contains("makes 3 CPUs on a node, where 14 go with its GPUs"),
        "{warnings}"
    );
}

#[test]
fn house_rules_are_told_with_the_sites_reason() {
    let env = TestEnv::new();
    let _ = env.fake_slurm();
    configure(&env, HOUSE);
    let file = env.job("true", "[resources]\nmemory = \"4GiB\"\n");
    let done = env
        .dlrun(["submit"])
        .arg(&file)
        .run()
        .code(65)
        .warns("job.toml:4:");
    let done =
        done.warns("`resources.memory` is forbidden at this site: memory goes by cores here");
    let _ = done
        .warns("`resources.account` is required at this site")
        .warns("dlrun.toml:8 requires it");
    let _ = env
        .dlrun(["check", "--scheduler", "local"])
        .arg(&file)
        .run()
        .code(0);
    let file = env.job("true", "");
    let plan = env
        .dlrun(["plan"])
        .env("DLRUN_DEFAULTS__ACCOUNT", "p")
        .arg(&file)
        .run()
        .code(0);
    let _ = plan.says("house prologue");
}

#[test]
fn what_a_rule_hands_through_gives_way_to_the_job_file_and_may_not_be_dlruns_own() {
    let env = TestEnv::new();
    let sbatch = env.fake_slurm();
    configure(
        &env,
        &rule(
            "directives = [\"--comment=site\", \"--nice=5\"], arguments = [\"--hold\"], modules = [\"gcc/12\"]",
        ),
    );
    let file = env.job(
        "true",
        "modules = [\"cuda\", \"gcc/12\"]\n[scheduler]\ndirectives = [\"--comment=mine\"]\n",
    );
    let done = env.dlrun(["plan"]).arg(&file).run().code(0);
    let _ = done
        .says("not --comment=site: the job file hands that option through itself")
        .says("gcc/12 cuda");
    let _ = env.dlrun(["submit"]).arg(&file).run().code(0);
    assert!(sbatch.call().argv.contains(&"--hold".to_owned()));
    let script = env.dlrun(["render"]).arg(&file).run().code(0).text();
    assert!(
        script.contains("#SBATCH --nice=5\n#SBATCH --comment=mine\n"),
        "{script}"
    );
    configure(&env, &rule("directives = [\"--output=x\"]"));
    let _ = env
        .dlrun(["plan"])
        .arg(&file)
        .run()
        .code(65)
        .warns("the rule r (")
        .warns("is dlrun's own to write");
}
