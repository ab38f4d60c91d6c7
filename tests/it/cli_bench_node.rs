//! `dlrun bench node`: what a kind of node can do, where it is kept, and how it goes along with runs.

use std::fs;
use std::path::{Path, PathBuf};

use dlrun::record::{NodeFigures, TargetRecord};
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;
use serde_json::{Value, json};

use crate::support::TestEnv;
use crate::support::recorded::rows;

/// Little of everything, for a program that is not optimised and a machine that others use.
const LITTLE: [&str; 5] = ["bench", "node", "--json", "--force", "--arrays=6MiB"];

fn targets(env: &TestEnv) -> Vec<PathBuf> {
    let entries = fs::read_dir(env.state().join("targets"))
        .into_iter()
        .flatten()
        .flatten();
    entries.map(|entry| entry.path()).collect()
}

fn target(path: &Path) -> TargetRecord {
    serde_json::from_slice(&fs::read(path).expect("a file")).expect("a target")
}

/// Puts figures of this machine where a measurement would have put them.
fn put(env: &TestEnv, like: &TargetRecord, core_gflops: f64, measured_at_ms: u64) {
    let figures = NodeFigures {
        core_gflops,
        measured_at_ms,
        disk_mb_per_second: Some(900.0),
        ..like.figures
    };
    let path = targets(env).pop().expect("it was measured");
    let text = serde_json::to_string(&TargetRecord {
        figures,
        ..like.clone()
    })
    .expect("JSON");
    fs::write(path, text).expect("ours");
}

fn usage(env: &TestEnv) -> Vec<Value> {
    let done = env
        .dlrun(["export", "--what", "usage", "--format", "jsonl"])
        .run()
        .code(0);
    done.text()
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect()
}

#[test]
fn figures_are_positive_repeatable_and_kept_once() {
    let env = TestEnv::new();
    let found: Vec<Value> = (0..2)
        .map(|_| env.dlrun(LITTLE).run().code(0).result())
        .collect();
    for told in &found {
        for name in ["core_gflops", "node_gflops", "memory_gb_per_second"] {
            let figure = told["figures"][name].as_f64().expect("a number");
            assert!(figure > 0.0 && figure.is_finite(), "{name}: {told}");
            let spread = &told["bench"][name];
            assert!(
                spread["median"].as_f64() <= spread["best"].as_f64(),
                "{name}: {told}"
            );
        }
        assert!(told["bench"]["cpus_used"].as_u64() >= Some(1), "{told}");
    }
    let core = |told: &Value| told["figures"]["core_gflops"].as_f64().expect("a number");
    let ratio = core(&found[0]) / core(&found[1]);
    assert!((0.05..20.0).contains(&ratio), "{found:?}");
    // Both are of one kind of node, and the later one counts.
    let files = targets(&env);
    assert_eq!(files.len(), 1, "{files:?}");
    let kept = target(&files[0]);
    assert_eq!(
        Some(kept.figures.core_gflops),
        found[1]["figures"]["core_gflops"].as_f64()
    );
    assert_eq!(found[1]["kept_in"], json!(files[0]));
    assert_eq!(found[1]["fingerprint"], json!(kept.host.fingerprint()));
}

#[test]
fn runs_carry_the_figures_of_their_kind_of_node_through_export_and_import() {
    let env = TestEnv::new();
    let run = env.submit(&env.job("true", ""));
    env.wait_state(&run, "completed");
    let before = usage(&env);
    assert!(
        before[0]["core_gflops"].is_null() && before[0]["benched_at_ms"].is_null(),
        "{before:?}"
    );
    let _ = env.dlrun(LITTLE).run().code(0);
    let first = target(&targets(&env)[0]);
    let after = usage(&env);
    assert_eq!(
        after[0]["core_gflops"],
        json!(first.figures.core_gflops),
        "{after:?}"
    );
    assert_eq!(
        after[0]["disk_mb_per_second"],
        json!(first.figures.disk_mb_per_second)
    );
    assert!(
        after[0]["seq"].as_u64() > before[0]["seq"].as_u64(),
        "a row that changed is news"
    );
    // A later measurement counts, an earlier one does not.
    let later = first.figures.measured_at_ms + 5;
    put(&env, &first, 4321.5, later);
    let _ = env.dlrun(["list"]).run().code(0);
    put(&env, &first, 1.5, later - 1);
    let told = usage(&env);
    assert_eq!(
        (&told[0]["core_gflops"], &told[0]["benched_at_ms"]),
        (&json!(4321.5), &json!(later))
    );
    // Measured by dlrun 0.1.
    assert_eq!(told[0]["disk_mb_per_second"], json!(900.0));
    // An index that is made anew has what the files have.
    put(&env, &first, 4321.5, later);
    let _ = env.dlrun(["list", "--reindex"]).run().code(0);
    assert_eq!(usage(&env)[0]["core_gflops"], json!(4321.5));

    let file = env.root().join("out.jsonl");
    let arguments = [
        "export",
        "--what",
        "runs,usage",
        "--format",
        "jsonl",
        "--output",
    ];
    let _ = env.dlrun(arguments).arg(&file).run().code(0);
    let other = TestEnv::new();
    let _ = other.dlrun(["import"]).arg(&file).run().code(0);
    let there = usage(&other);
    for name in [
        "core_gflops",
        "node_gflops",
        "memory_gb_per_second",
        "disk_mb_per_second",
        "benched_at_ms",
    ] {
        assert_eq!(there[0][name], told[0][name], "{name}");
    }
    let _ = other.dlrun(["list", "--reindex"]).run().code(0);
    assert_eq!(usage(&other)[0]["core_gflops"], json!(4321.5));
    let sql = "SELECT count(*), max(core_gflops) FROM target";
    assert_eq!(
        rows(&other.state().join("dlrun.db"), sql),
        [["1", "4321.5"]]
    );
}

#[test]
fn a_part_of_a_node_is_measured_and_not_kept() {
    let env = TestEnv::new();
    let all = sched_getaffinity(Pid::from_raw(0)).expect("the kernel tells");
    let cpus: Vec<usize> = (0..CpuSet::count())
        .filter(|cpu| all.is_set(*cpu).unwrap_or(false))
        .collect();
    if cpus.len() < 2 {
        return crate::support::skip("it takes two CPUs");
    }
    let mut one = CpuSet::new();
    one.set(cpus[0]).expect("it is one");
    sched_setaffinity(Pid::from_raw(0), &one).expect("of this thread");
    let little = ["bench", "node", "--json", "--arrays=3MiB"];
    let done = env.dlrun(little).run().code(75);
    let done = done.warns("only 1 of the node's");
    let told = done.result();
    assert_eq!(
        (&told["kept_in"], &told["bench"]["cpus_used"]),
        (&Value::Null, &json!(1)),
        "{told}"
    );
    assert!(told["figures"]["disk_mb_per_second"].is_null(), "{told}");
    assert_eq!(targets(&env), Vec::<PathBuf>::new());
}

#[test]
fn files_that_are_wrong_are_told_and_stop_nothing() {
    let env = TestEnv::new();
    let run = env.submit(&env.job("true", ""));
    env.wait_state(&run, "completed");
    let dir = env.state().join("targets");
    fs::create_dir(&dir).expect("ours");
    fs::write(dir.join("x.json"), "{").expect("ours");
    fs::write(dir.join("y.json"), r#"{"format": 9}"#).expect("ours");
    let done = env.dlrun(["list"]).run().code(0);
    let _ = done
        .says(&run[..4])
        .warns("passed over")
        .warns("is damaged");
}
