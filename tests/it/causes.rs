//! Why a run ended, where the scheduler forgot it and there is no accounting.

use std::fs;

use dlrun::record::{CauseKind, ContainerRecord, ExitStatus, Outcome, resolve};
use serde_json::Value;

use crate::records::{container, mark, node, run_id};
use crate::support::TestEnv;

const LIMIT: &str = "slurmstepd-n1: error: *** JOB 4711 ON n1 CANCELLED AT 2026-11-20T21:23:24 DUE TO TIME LIMIT ***\n";

/// A run of job 4711, of which Slurm knows nothing any more.
fn forgotten() -> (TestEnv, String) {
    let env = TestEnv::new();
    let _ = env.fake_slurm();
    let done = env
        .dlrun(["submit", "--json"])
        .arg(env.job("true", ""))
        .run()
        .code(0);
    let id = done.result()["run_id"].as_str().expect("an id").to_owned();
    (env, id)
}

fn attempt(env: &TestEnv, id: &str, name: &str, exit_code: Option<u8>) {
    let dir = env.run_dir(id).join(name);
    fs::create_dir_all(&dir).expect("ours");
    let mark = |code: &str| {
        format!(r#"{{"format":1,"at_ms":5000,"node":"n1","job_id":"4711","exit_code":{code}}}"#)
    };
    fs::write(dir.join("start.json"), mark("null")).expect("ours");
    if let Some(code) = exit_code {
        fs::write(dir.join("end.json"), mark(&code.to_string())).expect("ours");
    }
}

fn status(env: &TestEnv, id: &str) -> Value {
    env.show(id)["status"].clone()
}

#[test]
fn notice_in_the_output_tells_the_time_limit() {
    let (env, id) = forgotten();
    attempt(&env, &id, "0.0", Some(143));
    env.write("job-4711.out", format!("epoch 1\n{LIMIT}"));
    let run = env.dlrun(["list", "--json"]).run().code(0).result()["runs"][0].clone();
    assert_eq!(
        (&run["state"], &run["cause"]["kind"]),
        (&"timeout".into(), &"time_limit".into()),
        "{run}"
    );
    assert!(
        run["cause"]["text"]
            .as_str()
            .expect("text")
            .contains(LIMIT.trim()),
        "{run}"
    );
    assert_eq!(status(&env, &id)["exit"]["signal"], 15);
    let _ = env.dlrun(["wait", &id]).run().code(11);
    // What the index says is in the files too.
    let _ = env
        .dlrun(["list", "--reindex"])
        .run()
        .code(0)
        .says("timeout");
}

#[test]
fn training_that_saved_its_work_at_the_limit_has_not_completed() {
    let (env, id) = forgotten();
    attempt(&env, &id, "0.0", Some(0));
    env.write("job-4711.out", LIMIT);
    assert_eq!(status(&env, &id)["state"], "timeout");
}

#[test]
fn job_whose_shell_was_killed_is_told_by_the_notice_alone() {
    let (env, id) = forgotten();
    attempt(&env, &id, "0.0", None);
    assert_eq!(status(&env, &id)["state"], "unknown");
    env.write(
        "job-4711.out",
        LIMIT.replace("TIME LIMIT", "NODE FAILURE, SEE SLURMCTLD LOG FOR DETAILS"),
    );
    let status = status(&env, &id);
    assert_eq!(
        (&status["state"], &status["cause"]["kind"]),
        (&"node_fail".into(), &"node".into()),
        "{status}"
    );
}

#[test]
fn notice_on_another_job_or_on_an_earlier_start_says_nothing() {
    let (env, id) = forgotten();
    attempt(&env, &id, "0.0", Some(1));
    env.write("job-4711.out", LIMIT.replace("4711", "815"));
    let seen = status(&env, &id);
    assert_eq!(
        (&seen["state"], &seen["cause"]["kind"]),
        (&"failed".into(), &"program".into()),
        "{seen}"
    );
    let (env, id) = forgotten();
    attempt(&env, &id, "0.0", Some(143));
    attempt(&env, &id, "0.1", Some(3));
    env.write("job-4711.out", LIMIT.replace("TIME LIMIT", "PREEMPTION"));
    assert_eq!(
        status(&env, &id)["cause"]["text"],
        "the program ended with exit code 3"
    );
}

#[test]
fn notice_of_the_pbs_family_lies_beside_the_records() {
    let (env, id) = forgotten();
    attempt(&env, &id, "0.0", Some(143));
    let notice = "=>> PBS: job killed: walltime 7 exceeded limit 3";
    fs::write(
        env.run_dir(&id).join("scheduler.out"),
        format!("{notice}\n"),
    )
    .expect("ours");
    let status = status(&env, &id);
    assert_eq!(
        status["cause"]["text"],
        format!("it reached its time limit: {notice}"),
        "{status}"
    );
}

#[test]
fn kill_for_want_of_memory_is_in_the_nodes_record() {
    let (env, id) = forgotten();
    attempt(&env, &id, "0.0", Some(1));
    let mut record = crate::records::node(id.parse().expect("an id"), "n1", 5_000);
    record.usage.mem_oom_kills = Some(1);
    let dir = env.run_dir(&id).join("0.0/n1.0");
    fs::create_dir(&dir).expect("ours");
    fs::write(
        dir.join("record.json"),
        serde_json::to_vec(&record).expect("text"),
    )
    .expect("ours");
    let status = status(&env, &id);
    assert_eq!(
        (&status["state"], &status["exit"]["code"]),
        (&"out_of_memory".into(), &1.into()),
        "{status}"
    );
}

#[test]
fn only_the_end_of_a_large_output_is_looked_at() {
    let (env, id) = forgotten();
    attempt(&env, &id, "0.0", Some(143));
    env.write("job-4711.out", format!("{LIMIT}{}", "epoch\n".repeat(2000)));
    assert_eq!(status(&env, &id)["state"], "failed");
}

#[test]
fn scheduler_that_knows_the_end_is_believed() {
    let (env, id) = forgotten();
    attempt(&env, &id, "0.0", Some(143));
    env.write("job-4711.out", LIMIT);
    let now = std::time::UNIX_EPOCH.elapsed().expect("a clock").as_secs();
    let _ = env
        .fake("squeue")
        .stdout(&format!("4711|PREEMPTED|{now}|{now}|{now}|n1|None\n"));
    let status = status(&env, &id);
    assert_eq!(
        (&status["state"], &status["raw_state"]),
        (&"preempted".into(), &"PREEMPTED".into()),
        "{status}"
    );
}

#[test]
fn a_container_that_did_not_start_is_the_cause_where_the_codes_agree() {
    let cause = |code, failure: Option<&str>| {
        let mut record = node(run_id(1), "n1", 5_000);
        record.exit = Some(ExitStatus::Code(255));
        record.container = Some(ContainerRecord {
            failure: failure.map(str::to_owned),
            ..container()
        });
        let outcome = Outcome {
            start: Some(mark(2_000, None)),
            end: Some(mark(9_000, Some(code))),
            nodes: vec![record],
            ..Outcome::default()
        };
        resolve(&outcome, None)
            .cause
            .map(|cause| (cause.kind, cause.text))
    };
    let told = Some((
        CauseKind::Container,
        "the container did not start: no such image".to_owned(),
    ));
    assert_eq!(cause(255, Some("no such image")), told);
    assert_eq!(
        cause(255, None).map(|(kind, _)| kind),
        Some(CauseKind::Program)
    );
    assert_eq!(
        cause(3, Some("no such image")).map(|(kind, _)| kind),
        Some(CauseKind::Program)
    );
    assert_eq!(cause(0, Some("no such image")), None);
}
