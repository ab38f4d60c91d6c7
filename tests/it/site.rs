//! The site model at work: what was kept, what is asked, and whom it refuses.

use std::fs;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use dlrun::job::SchedulerKind;
use dlrun::site::{NodeType, Queue, SiteModel};
use dlrun::units::{Bytes, Walltime};
use serde_json::{Value, json};

use crate::support::TestEnv;

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

#[test]
fn a_job_that_can_never_start_is_refused_in_place_before_anything_is_queued() {
    let env = TestEnv::new();
    let sbatch = env.fake_slurm();
    keep(&env, &model(now_ms()));
    let file = env.job("true", "[resources]\nwalltime = \"400:00:00\"\nnodes = 9\nqueue = \"batch\"\n");
    // No answer now: nobody is refused for what was said before.
    let _ = env.dlrun(["plan"]).arg(&file).run().code(65);
    let one_node = env.job("true", LONG);
    let _ = env.dlrun(["check"]).arg(&one_node).run().code(0);
    let _ = (&sbatch, file);
}
