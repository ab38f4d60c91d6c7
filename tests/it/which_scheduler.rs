//! Which scheduler takes a job that names none, and what is said where the wrong one is there.

use std::path::Path;

use serde_json::Value;

use crate::support::{Fake, TestEnv};

const OPENPBS: &str = "pbs_version = 23.06.06\n";
const TORQUE: &str = "Version: 6.1.3.h5\nCommit: \n";

/// The decision on the scheduler, as the plan in the script has it.
fn decision(env: &TestEnv, file: &Path, args: &[&str]) -> Value {
    let script = env
        .dlrun(["render"])
        .args(args)
        .arg(file)
        .run()
        .code(0)
        .text();
    let line = script
        .lines()
        .find_map(|line| line.strip_prefix("export DLRUN_PLAN='")?.strip_suffix('\''));
    let plan: Value =
        serde_json::from_str(&line.expect("a plan").replace("'\\''", "'")).expect("JSON");
    let decisions = plan["decisions"].as_array().expect("decisions");
    decisions
        .iter()
        .find(|decision| decision["what"] == "scheduler")
        .expect("it is decided")
        .clone()
}

fn qsub(env: &TestEnv, answer: &str) -> Fake {
    env.fake("qsub").stdout(answer)
}

#[test]
fn a_qsub_is_asked_what_it_is() {
    for (answer, kind) in [
        (OPENPBS, "openpbs"),
        (TORQUE, "torque"),
        ("", "local"),
        ("GE 6.2u5\n", "local"),
    ] {
        let env = TestEnv::new();
        let fake = qsub(&env, answer);
        let decision = decision(&env, &env.job("true", ""), &[]);
        assert_eq!(decision["value"], kind, "{answer:?}: {decision}");
        assert_eq!(fake.call().argv, ["--version"]);
        let told = decision.to_string();
        assert!(
            kind != "local" || told.contains("neither Torque nor OpenPBS"),
            "{told}"
        );
    }
}

#[test]
fn sbatch_comes_first_and_no_qsub_is_started() {
    let env = TestEnv::new();
    let (_, fake) = (env.fake_slurm(), qsub(&env, OPENPBS));
    let found = decision(&env, &env.job("true", ""), &[]);
    assert_eq!(found["value"], "slurm");
    assert!(
        found["rejected"]
            .to_string()
            .contains("so does sbatch, which comes first"),
        "{found}"
    );
    assert_eq!(
        decision(&env, &env.job("true", ""), &["--scheduler", "local"])["value"],
        "local"
    );
    assert_eq!(fake.calls().len(), 0);
    let asked = decision(&env, &env.job("true", ""), &["--scheduler", "openpbs"]);
    assert_eq!(
        (asked["value"].as_str(), fake.calls().len()),
        (Some("openpbs"), 1)
    );
}

#[test]
fn slurms_own_qsub_takes_no_job() {
    let env = TestEnv::new();
    let path = env.program("qsub", "#! /usr/bin/perl -w\nuse Slurm ':all';\ndie;\n");
    std::fs::rename(&path, env.root().join("bin/qsub")).expect("it is ours");
    let found = decision(&env, &env.job("true", ""), &[]);
    assert_eq!(found["value"], "local");
    assert!(
        found["rejected"]
            .to_string()
            .contains("Slurm's wrapper, no PBS"),
        "{found}"
    );
}

#[test]
fn a_job_for_the_other_pbs_is_rendered_but_never_handed_over() {
    let env = TestEnv::new();
    let fake = qsub(&env, OPENPBS);
    let file = env.job("true", "[scheduler]\nkind = \"torque\"\n");
    for verb in ["submit", "check", "plan"] {
        let told = env.dlrun([verb]).arg(&file).run().code(78).stderr;
        assert!(
            told.contains("torque is asked for, but `") && told.contains("is OpenPBS 23.06.06"),
            "{told}"
        );
    }
    assert!(
        fake.calls().iter().all(|call| call.argv == ["--version"]),
        "{:?}",
        fake.calls()
    );
    let script = env.dlrun(["render"]).arg(&file).run().code(0);
    assert!(
        script.stderr.contains("the job is for torque, but "),
        "{}",
        script.stderr
    );
}

#[test]
fn a_setting_leads_to_the_right_one_of_two() {
    let mut env = TestEnv::new();
    let fake = qsub(&env, OPENPBS);
    let named = env.program("torque/qsub", "#!/bin/sh\necho 'Version: 6.1.3.h5'\n");
    env.set(
        "DLRUN_TORQUE__BIN_DIR",
        named.parent().expect("a directory"),
    );
    let found = decision(
        &env,
        &env.job("true", "[scheduler]\nkind = \"torque\"\n"),
        &[],
    );
    assert_eq!(
        (found["value"].as_str(), fake.calls().len()),
        (Some("torque"), 0),
        "{found}"
    );
    let found = decision(
        &env,
        &env.job("true", "[scheduler]\nkind = \"openpbs\"\n"),
        &[],
    );
    assert_eq!(
        (found["value"].as_str(), fake.calls().len()),
        (Some("openpbs"), 1),
        "{found}"
    );
}
