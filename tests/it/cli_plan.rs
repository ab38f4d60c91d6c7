//! `dlrun plan`.

use crate::support::{TestEnv, unwrapped};

#[test]
fn every_choice_is_told_with_its_reason_and_what_was_rejected() {
    let env = TestEnv::new();
    let more = "workdir = \"..\"\nenv = { A = \"1 2\" }\nmodules = [\"gcc/12\"]\n[resources]\nmemory = \"auto\"\nwalltime = \"1h\"\nqueue = \"q\"\n";
    let file = env.job("true", more);
    let text = env
        .dlrun(["plan", "--scheduler", "local"])
        .arg(&file)
        .run()
        .code(0)
        .text();
    let lines = unwrapped(&text);
    assert!(
        lines.contains("a local job may use all there is; no run of this program is recorded"),
        "{text}"
    );
    for part in [
        "plan for ",
        "scheduler      local  (",
        "(--scheduler says so)",
        "not slurm, torque, openpbs: neither `sbatch` nor `qsub` is in PATH",
        "not container: the job names no image",
        "walltime       1h  (",
        "A=\"1 2\"",
        "gcc/12",
        "warning: without effect on a local job: queue",
        "submit by: /bin/bash ",
    ] {
        assert!(text.contains(part), "{part:?} in\n{text}");
    }
    assert!(
        env.processes().is_empty() && !env.state().exists(),
        "a plan leaves nothing behind"
    );
}

#[test]
fn submit_command_is_the_one_that_submit_uses() {
    let env = TestEnv::new();
    let sbatch = env.fake_slurm();
    let file = env.job(
        "true",
        "[resources]\nnodes = 1\nconstraint = \"a&b\"\n[scheduler]\narguments = [\"--hold\"]\n",
    );
    let result = env
        .dlrun(["plan", "--json"])
        .arg(&file)
        .run()
        .code(0)
        .result();
    assert_eq!(sbatch.calls().len(), 0);
    let planned: Vec<String> =
        serde_json::from_value(result["submit_command"].clone()).expect("words");
    let submitted = env
        .dlrun(["submit", "--json"])
        .arg(&file)
        .run()
        .code(0)
        .result();
    let id = submitted["run_id"].as_str().expect("an id");
    let used: Vec<String> = sbatch
        .call()
        .argv
        .iter()
        .map(|word| word.replace(id, "RUN"))
        .collect();
    assert_eq!(planned[1..], used[..]);
    let _ = env
        .dlrun(["plan"])
        .arg(&file)
        .run()
        .code(0)
        .says(" '--constraint=a&b' ")
        .says(" --hold ");
}

#[test]
fn json_holds_the_plan_that_the_script_carries() {
    let env = TestEnv::new();
    let file = env.job("true", "");
    let plan = env
        .dlrun(["plan", "--json", "--scheduler", "local"])
        .arg(&file)
        .run()
        .code(0)
        .result()["plan"]
        .clone();
    let script = env
        .dlrun(["render", "--scheduler", "local"])
        .arg(&file)
        .run()
        .code(0)
        .text();
    let carried = script
        .lines()
        .find_map(|line| line.strip_prefix("export DLRUN_PLAN='")?.strip_suffix('\''))
        .expect("it has one");
    let carried: serde_json::Value =
        serde_json::from_str(&carried.replace("'\\''", "'")).expect("JSON");
    assert_eq!(carried, plan);
}

#[test]
fn more_nodes_than_a_launcher_are_refused_in_place() {
    let env = TestEnv::new();
    let file = env.job("true", "[resources]\nnodes = 2\n");
    let done = env
        .dlrun(["plan", "--scheduler", "slurm"])
        .arg(&file)
        .run()
        .code(65);
    let _ = done
        .warns("job.toml:4:9")
        .warns("2 nodes need a launcher")
        .warns("`each` starts the command on every node");
    let file = env.job("true", "launcher = \"each\"\n[resources]\nnodes = 2\n");
    let _ = env
        .dlrun(["plan", "--scheduler", "slurm"])
        .arg(&file)
        .run()
        .code(0)
        .says("launcher       each");
    let _ = env
        .dlrun(["plan", "--scheduler", "local"])
        .arg(&file)
        .run()
        .code(65)
        .warns("a local job has one node");
}

#[test]
fn options_that_are_dlruns_own_are_refused_with_what_to_use() {
    let env = TestEnv::new();
    for (option, instead) in [
        ("--output=x", "use `run.output`"),
        ("-J x", "use `name`"),
        ("--nodes=3", "use `resources.nodes`"),
        ("--export", "one word"),
    ] {
        let file = env.job(
            "true",
            &format!("[scheduler]\ndirectives = [\"{option}\"]\n"),
        );
        let _ = env
            .dlrun(["plan", "--scheduler", "slurm"])
            .arg(&file)
            .run()
            .code(65)
            .warns(instead);
    }
}
