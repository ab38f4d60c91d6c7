//! Saved outputs of schedulers are read as their recorded truth says.

use std::collections::BTreeMap;
use std::path::Path;

use dlrun::scheduler::printed::{self, Seen};
use proptest::prelude::*;
use serde_json::Value;

use crate::support::TestEnv;

/// A file of tests/fixtures, as text.
fn fixture(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/fixtures")
        .join(name);
    let bytes = std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The recorded outputs with what they are.
fn index() -> Vec<Value> {
    serde_json::from_str(&fixture("scheduler/index.json")).expect("JSON")
}

fn read(item: &Value) -> Seen {
    let file = item["file"].as_str().expect("a name");
    printed::read(&fixture(&format!("scheduler/{file}")))
        .unwrap_or_else(|| panic!("{file} is not known"))
}

/// What is stated must be found; where the truth has nothing, nothing is asked for.
fn holds(file: &str, truth: &Value, found: &Value) -> Vec<String> {
    let keys = truth
        .as_object()
        .expect("an object")
        .iter()
        .filter(|(key, value)| *key != "note" && !value.is_null());
    let wrong = keys.filter(|(key, value)| found.get(key) != Some(value));
    wrong
        .map(|(key, value)| format!("{file}: {key} is {value}, not {}", found[key]))
        .collect()
}

#[test]
fn recorded_outputs_say_what_they_said() {
    let mut faults = Vec::new();
    let mut checked = BTreeMap::new();
    for item in index() {
        let file = item["file"].as_str().expect("a name").to_owned();
        let seen = serde_json::to_value(read(&item)).expect("JSON");
        if let Some(truth) = item["truth"]["jobs"].as_array() {
            let found = seen["jobs"].as_array().expect("a list");
            if truth.len() != found.len() {
                faults.push(format!("{file}: {} jobs, not {}", truth.len(), found.len()));
            }
            for (truth, found) in truth.iter().zip(found) {
                faults.extend(holds(&file, truth, found));
                *checked.entry("jobs").or_insert(0) += 1;
            }
        }
        let class = item["truth"].get("error_class");
        if let Some(class) = class {
            faults.extend(
                (seen["error"]["error_class"] != *class)
                    .then(|| format!("{file}: {}", seen["error"])),
            );
            let transient = &item["truth"]["transient"];
            faults.extend(
                (seen["error"]["transient"] != *transient).then(|| format!("{file}: transient")),
            );
            *checked.entry("errors").or_insert(0) += 1;
        }
    }
    assert!(faults.is_empty(), "{faults:#?}");
    assert!(
        checked["jobs"] >= 20 && checked["errors"] >= 9,
        "{checked:?}"
    );
}

#[test]
fn a_saved_output_is_told_in_our_words() {
    let env = TestEnv::new();
    let path = |name: &str| {
        Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("tests/fixtures/scheduler")
            .join(name)
            .display()
            .to_string()
    };
    let _ = env
        .dlrun(["explain", &path("sacct-oom-truncated.txt")])
        .run()
        .code(0)
        .says("out_of_memory")
        .never_says("signal 125");
    let _ = env
        .dlrun(["explain", &path("squeue-error-timeout.txt")])
        .run()
        .code(0)
        .says("controller_unavailable");
    let nonsense = env.write("nonsense.txt", "once upon a time\n");
    let _ = env
        .dlrun(["explain", &nonsense.display().to_string()])
        .run()
        .code(65)
        .warns("scontrol show job");
    let _ = env
        .dlrun(["explain", "/no/such/file"])
        .run()
        .code(66)
        .warns("/no/such/file");
}

#[test]
fn words_of_daemons_are_no_refusal() {
    for text in [
        "slurmstepd: error: couldn't chdir to `/x': No such file or directory",
        "06/16/2011 19:13:45  S    Reject reply code=15001(Unknown Job Id), aux=0, from pbs_mom@h",
        "srun: error: n1: task 4: Out Of Memory",
        "srun: Job step aborted: Waiting up to 32 seconds for job step to finish.",
    ] {
        assert_eq!(printed::read(text), None, "{text}");
    }
}

proptest! {
    #[test]
    fn no_text_is_too_strange(text in "\\PC{0,200}") {
        let _ = printed::read(&text);
    }

    #[test]
    fn no_piece_of_a_recorded_output_is_too_strange(which in 0..35_usize, from in 0.0..1.0_f64, length in 0..2000_usize) {
        let items = index();
        let file = items[which % items.len()]["file"].as_str().expect("a name").to_owned();
        let text = fixture(&format!("scheduler/{file}"));
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss)]
        let start = (text.len() as f64 * from) as usize;
        let piece: String = text.chars().skip(start).take(length).collect();
        let _ = printed::read(&piece);
    }
}
