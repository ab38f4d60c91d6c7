//! The site model at work: what was kept, what is asked, and whom it refuses.

use std::fs;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use dlrun::job::SchedulerKind;
use dlrun::site::{NodeType, Queue, SiteModel};
use dlrun::units::{Bytes, Walltime};
use serde_json::{Value, json};

use crate::support::{Fake, TestEnv};

fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
    u64::try_from(since.as_millis()).expect("it fits")
}

/// A queue of four nodes, up to a day, and one of GPUs.
fn model(asked_at_ms: u64) -> SiteModel {
    let queue = |name: &str| Queue { name: name.into(), is_up: true, ..Queue::default() };
    let node = |queue: &str, count, gpus: &[(&str, u32)]| NodeType {
        queues: vec![queue.into()],
        count,
        up: count,
        cpus: Some(16),
        sockets: None,
        memory: Some(Bytes(64 << 30)),
        gpus: gpus.iter().map(|(kind, count)| ((*kind).to_owned(), *count)).collect(),
        features: Vec::new(),
    };
    SiteModel {
        format: SiteModel::FORMAT,
        scheduler: SchedulerKind::Slurm,
        version: Some("22.05.8".into()),
        asked_at_ms,
        accounting: Some(false),
        max_array_index: Some(1000),
        queues: vec![
            Queue { is_default: true, max_walltime: Some(Walltime(86_400)), ..queue("batch") },
            queue("gpu"),
        ],
        nodes: vec![node("batch", 4, &[]), node("gpu", 2, &[("h100", 8)])],
        licenses: Vec::new(),
    }
}

fn kept_file(env: &TestEnv) -> PathBuf {
    env.state().join("site/slurm.json")
}

/// Puts a model where an earlier command would have kept it.
fn keep(env: &TestEnv, model: &SiteModel) {
    let mut builder = fs::DirBuilder::new();
    builder.mode(0o700).recursive(true).create(kept_file(env).parent().expect("it has one")).expect("ours");
    let kept = json!({ "asked_of": [], "site": model });
    fs::write(kept_file(env), kept.to_string()).expect("ours");
}

fn kept(env: &TestEnv) -> Value {
    serde_json::from_slice(&fs::read(kept_file(env)).expect("it was kept")).expect("JSON")
}

const LONG: &str = "[resources]\nwalltime = \"400:00:00\"\n";

/// A Slurm whose `sinfo` knows its version and no more.
fn with_sinfo(env: &TestEnv) -> Fake {
    let _ = env.fake_slurm();
    env.fake("sinfo").stdout("slurm 22.05.8\n")
}

#[test]
fn what_is_kept_and_fresh_is_not_asked_for_again() {
    let env = TestEnv::new();
    let sinfo = with_sinfo(&env);
    keep(&env, &model(now_ms() - 600_000));
    let file = env.job("true", "[resources]\nwalltime = \"12h\"\n");
    let _ = env.dlrun(["plan"]).arg(&file).run().code(0).says("site: slurm 22.05.8, asked 10 min ago\n");
    let told = env.dlrun(["check", "--json"]).arg(&file).run().code(0).result();
    assert_eq!(told["site"]["version"], "22.05.8", "{told}");
    let _ = env.dlrun(["submit"]).arg(&file).run().code(0);
    assert_eq!(sinfo.calls().len(), 0);
}

#[test]
fn nobody_is_refused_for_what_was_said_some_time_ago() {
    let env = TestEnv::new();
    let sinfo = with_sinfo(&env);
    keep(&env, &model(now_ms()));
    let file = env.job("true", LONG);
    // The queue has another limit by now.
    let _ = env.dlrun(["check"]).arg(&file).run().code(0);
    assert!(!sinfo.calls().is_empty());
    let site = kept(&env)["site"].clone();
    assert!(site["queues"].as_array().expect("a list").is_empty(), "the new answer is kept: {site}");
    // A mistake that has nothing to do with the site is no reason to ask.
    keep(&env, &model(now_ms()));
    let before = sinfo.calls().len();
    let wrong = env.job_called("wrong", "true", "[resources]\nnodes = 2\n");
    let _ = env.dlrun(["check"]).arg(&wrong).run().code(65);
    assert_eq!(sinfo.calls().len(), before);
    // No answer now: no check.
    let _ = env.fake("sinfo").stderr("Unable to contact slurm controller").code(1);
    let _ = env.dlrun(["submit", "-v"]).arg(&file).run().code(0).warns("is not held against the site");
}

#[test]
fn what_is_old_damaged_or_of_another_cluster_is_not_believed() {
    let env = TestEnv::new();
    let sinfo = with_sinfo(&env);
    let file = env.job("true", "");
    let asked = |what: &str, change: &dyn Fn()| {
        keep(&env, &model(now_ms()));
        change();
        let before = sinfo.calls().len();
        let _ = env.dlrun(["plan"]).arg(&file).run().code(0).says("asked just now");
        assert!(sinfo.calls().len() > before, "{what}");
    };
    asked("old", &|| keep(&env, &model(now_ms() - 3_700_000)));
    asked("from the future", &|| keep(&env, &model(now_ms() + 3_600_000)));
    asked("of a newer form", &|| keep(&env, &SiteModel { format: 2, ..model(now_ms()) }));
    asked("cut off", &|| fs::write(kept_file(&env), "{\"asked_of\": [], \"si").expect("ours"));
    asked("open to others", &|| {
        fs::set_permissions(env.state(), fs::Permissions::from_mode(0o777)).expect("ours");
    });
    fs::set_permissions(env.state(), fs::Permissions::from_mode(0o700)).expect("ours");
    keep(&env, &model(now_ms()));
    let before = sinfo.calls().len();
    for (name, value) in [("SLURM_CLUSTERS", "other"), ("DLRUN_SCHEDULER__CACHE_MINUTES", "0")] {
        let _ = env.dlrun(["plan"]).arg(&file).env(name, value).run().code(0).says("asked just now");
    }
    assert!(sinfo.calls().len() >= before + 2);
}

#[test]
fn the_first_submission_keeps_the_answer_and_a_plan_makes_nothing() {
    let env = TestEnv::new();
    let sinfo = with_sinfo(&env);
    let file = env.job("true", "");
    let _ = env.dlrun(["plan"]).arg(&file).run().code(0);
    assert!(!env.state().exists());
    let _ = env.dlrun(["submit"]).arg(&file).run().code(0);
    assert_eq!(kept(&env)["site"]["version"], "22.05.8");
    let mode = kept_file(&env).metadata().expect("there").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let calls = sinfo.calls().len();
    let _ = env.dlrun(["submit"]).arg(&file).run().code(0);
    assert_eq!(sinfo.calls().len(), calls);
}

#[test]
fn no_check_and_render_ask_nobody_and_refuse_nothing() {
    let env = TestEnv::new();
    let sinfo = with_sinfo(&env);
    let file = env.job("true", LONG);
    let _ = env.dlrun(["render"]).arg(&file).run().code(0);
    let _ = env.dlrun(["submit", "--no-check"]).arg(&file).run().code(0);
    assert_eq!(sinfo.calls().len(), 0);
}

#[test]
fn a_scheduler_that_hangs_holds_nobody_up() {
    let env = TestEnv::new();
    let _ = with_sinfo(&env).hang();
    let file = env.job("true", "");
    let submitted = env.dlrun(["submit"]).arg(&file).env("DLRUN_SLURM__TIMEOUT_SECONDS", "1").run();
    let _ = submitted.code(0).says("job 4711");
}
