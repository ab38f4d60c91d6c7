//! The loop closes: what was recorded decides what the next run of the same job file gets.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::support::{TestEnv, tell};

/// A training that obeys its compiler: with XLA an epoch takes 0.1 s, without 0.4 s.
const TRAINING: &str = r#"case $DLRUN_COMPILER in xla) s=0.1 ;; none) s=0.4 ;; *) exit 9 ;; esac
echo "compiler $DLRUN_COMPILER, flags ${TF_XLA_FLAGS:-none}"
for e in 1 2 3 4; do sleep $s; echo "Epoch $e/4 - $s s - loss: 0.$e"; done"#;

const WORKLOAD: &str = "[workload]\nmodel = \"gated-mlp\"\ndataset = \"synthetic\"\nsamples = 2048\nbatch_size = 64\nepochs = 4\n";

/// A job of the workload; what stands in `framework` goes behind its name.
fn job(env: &TestEnv, name: &str, framework: &str, resources: &str) -> PathBuf {
    let more = format!("{resources}[framework]\nname = \"tensorflow\"\n{framework}\n{WORKLOAD}");
    env.job_called(name, TRAINING, &more)
}

fn decision<'a>(plan: &'a Value, what: &str) -> &'a Value {
    let decisions = plan["plan"]["decisions"].as_array().expect("a list");
    decisions
        .iter()
        .find(|decision| decision["what"] == what)
        .unwrap_or_else(|| panic!("{decisions:#?}"))
}

fn planned(env: &TestEnv, file: &PathBuf) -> (Value, String) {
    let ask = |words: &[&str]| env.dlrun(words.iter().copied()).arg(file).run().code(0);
    let text = ask(&["plan", "--scheduler", "local"]).text();
    (
        ask(&["plan", "--json", "--scheduler", "local"]).result(),
        text,
    )
}

/// Submits, waits, and gives what `show` knows of the run.
fn ran(env: &TestEnv, file: &Path) -> Value {
    let run = env.submit(file);
    let _ = env.dlrun(["wait", &run]).run().code(0);
    env.show(&run)
}

fn output(shown: &Value) -> String {
    fs::read_to_string(shown["run"]["output"].as_str().expect("a path")).expect("it wrote")
}

fn steady(shown: &Value) -> f64 {
    shown["summary"]["epochs"]["steady_seconds"]
        .as_f64()
        .unwrap_or_else(|| panic!("{shown:#}"))
}

#[test]
fn a_second_run_of_the_same_job_file_chooses_better_after_a_refit() {
    let env = TestEnv::new();
    let open = job(
        &env,
        "open",
        "compiler = \"auto\"",
        "[resources]\nwalltime = \"auto\"\nmemory = \"auto\"\n",
    );
    let trial = job(&env, "trial", "compiler = \"xla\"", "");

    let (first, text) = planned(&env, &open);
    tell(&format!("--- before: no model\n{text}"));
    assert_eq!(first["plan"]["framework"]["compiler"], "none");
    assert!(
        first["plan"]["forecast"].is_null() && decision(&first, "walltime")["value"] == "left out"
    );
    let before = ran(&env, &open);
    assert!(
        output(&before).starts_with("compiler none, flags none\n"),
        "{}",
        output(&before)
    );
    assert!(steady(&before) >= 0.4, "{before:#}");
    for _ in 0..3 {
        let _ = ran(&env, &trial);
    }
    let _ = ran(&env, &open);
    let _ = env.dlrun(["model", "fit", "--json"]).run().code(0);

    let (second, text) = planned(&env, &open);
    tell(&format!("--- after the refit\n{text}"));
    assert_eq!(second["plan"]["framework"]["compiler"], "xla");
    let forecast = &second["plan"]["forecast"];
    assert_eq!(
        (&forecast["basis"], &forecast["runs"]),
        (&"alike".into(), &3.into()),
        "{forecast}"
    );
    let why = decision(&second, "compiler")["why"]
        .as_str()
        .expect("text")
        .to_owned();
    assert!(
        why.contains("from 3 runs like this; next best no compiler, "),
        "{why}"
    );
    assert!(why.contains("in all ("), "{why}");
    let candidates = second["candidates"].as_array().expect("a list");
    let told: Vec<(&Value, &Value)> = candidates
        .iter()
        .map(|candidate| (&candidate["compiler"], &candidate["chosen"]))
        .collect();
    assert_eq!(
        told,
        [
            (&"xla".into(), &true.into()),
            (&"none".into(), &false.into())
        ]
    );
    assert!(
        candidates[1]["forecast"]["epoch_seconds"]["mean"]
            .as_f64()
            .expect("a number")
            > 0.3
    );
    assert!(text.contains("not no compiler: "), "{text}");
    assert!(
        second["plan"]["resources"]["walltime"]
            .as_u64()
            .expect("seconds")
            >= 300
    );
    assert!(
        second["plan"]["resources"]["memory"]
            .as_u64()
            .expect("bytes")
            .is_multiple_of(256 << 20)
    );
    let (again, _) = planned(&env, &open);
    assert_eq!(again["plan"], second["plan"], "a plan is the same twice");

    let after = ran(&env, &open);
    assert!(
        output(&after)
            .starts_with("compiler xla, flags --tf_xla_auto_jit=2 --tf_xla_cpu_global_jit\n"),
        "{}",
        output(&after)
    );
    assert!(steady(&after) < steady(&before) / 2.0, "{after:#}");
    assert_eq!(after["run"]["framework"]["compiler"], "xla");
    assert_eq!(
        after["run"]["forecast"], *forecast,
        "the record holds what was said before"
    );
}

#[test]
fn a_model_that_cannot_be_used_stops_no_job() {
    let env = TestEnv::new();
    let open = job(&env, "open", "compiler = \"auto\"", "");
    let _ = ran(&env, &open);
    let _ = env.dlrun(["model", "fit"]).run().code(0);
    let models = env.state().join("models");
    let mut damaged = 0;
    for entry in fs::read_dir(&models).expect("there is one").flatten() {
        if entry.file_type().expect("a type").is_file()
            && entry.file_name().to_string_lossy().ends_with(".model")
        {
            fs::write(entry.path(), b"{\"dlrun_model\": 1}\ngarbage").expect("ours");
            damaged += 1;
        }
    }
    assert!(damaged > 0);
    let done = env
        .dlrun(["plan", "--scheduler", "local"])
        .arg(&open)
        .run()
        .code(0);
    let _ = done
        .warns("performance model is passed over")
        .says("rules decide, for there is no performance model");
    let _ = ran(&env, &open);
}

#[test]
fn jobs_that_say_nothing_of_themselves_get_no_forecast() {
    let env = TestEnv::new();
    let _ = ran(&env, &job(&env, "open", "compiler = \"auto\"", ""));
    let _ = env.dlrun(["model", "fit"]).run().code(0);
    let (plain, _) = planned(&env, &env.job("true", ""));
    assert!(plain["plan"]["forecast"].is_null(), "{plain:#}");
    assert_eq!(plain["candidates"].as_array().map(Vec::len), Some(1));
}

#[test]
fn names_of_recorded_runs_cannot_pass_for_others() {
    let env = TestEnv::new();
    let named = WORKLOAD.replace("gated-mlp", "gated\u{202e}plm\u{200b}");
    let more = format!("[framework]\nname = \"tensorflow\"\ncompiler = \"none\"\n{named}");
    let file = env.job_called("odd", TRAINING, &more);
    let run = ran(&env, &file)["run"]["run_id"]
        .as_str()
        .expect("an id")
        .to_owned();
    let other = env.job_called("other", TRAINING, &more.replace("\"none\"", "\"xla\""));
    let _ = ran(&env, &other);
    let _ = env.dlrun(["model", "fit"]).run().code(0);
    let file = file.to_str().expect("text");
    let local = ["--scheduler", "local"];
    for verb in [
        &["model", "show"][..],
        &["model", "predict", file],
        &["plan", file],
        &["show", &run],
    ] {
        let asks_who = verb.contains(&file);
        let words = verb.iter().chain(local.iter().filter(|_| asks_who));
        let text = env.dlrun(words.copied()).run().code(0).text();
        assert!(
            !text.chars().any(|c| matches!(c, '\u{202e}' | '\u{200b}')),
            "{verb:?}: {text:?}"
        );
    }
    let shown = env.dlrun(["model", "show"]).run().code(0).text();
    assert!(shown.contains("gated\u{fffd}plm\u{fffd}"), "{shown}");
    // What another program reads is as it was written.
    let script = env
        .dlrun(["render", "--scheduler", "local", file])
        .run()
        .code(0)
        .text();
    assert!(script.contains('\u{202e}'), "{script}");
}
