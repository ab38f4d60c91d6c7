//! Reports in a real browser: what a parser of HTML would only guess.
//!
//! `tests/browser/check up` gets Chromium and axe-core, `tests/browser/check env` tells where they are. Screenshots and a PDF of
//! each page are left in `DLRUN_TEST_SHOTS`, for people to look at.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::cli_report::with;
use crate::support::{TestEnv, Trained, python};

fn of_environment(name: &str) -> PathBuf {
    let value = std::env::var_os(name);
    PathBuf::from(value.unwrap_or_else(|| panic!("no {name}: eval \"$(tests/browser/check env)\"")))
}

/// What `tests/browser/look.py` says of the report of these runs.
fn looked_at(env: &TestEnv, name: &str, runs: &[&str]) -> Value {
    let _ = env
        .dlrun(["report", "--output", "report.html"])
        .args(runs)
        .run()
        .code(0);
    page_looked_at(&env.jobs().join("report.html"), name)
}

fn page_looked_at(page: &Path, name: &str) -> Value {
    let output = Command::new(python())
        .arg(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/tests/browser/look.py"
        ))
        .args([
            of_environment("DLRUN_TEST_CHROMIUM"),
            of_environment("DLRUN_TEST_AXE"),
        ])
        .args([page, &of_environment("DLRUN_TEST_SHOTS").join(name)])
        .output()
        .expect("python3 can be started");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    serde_json::from_slice(&output.stdout).expect("look.py prints JSON")
}

#[track_caller]
fn assert_good(found: &Value) {
    let nothing = Value::Array(Vec::new());
    for view in ["wide-light", "wide-dark", "phone-light", "phone-dark"] {
        let seen = &found[view];
        for what in ["console", "requests", "wide", "crowded", "axe"] {
            assert_eq!(seen[what], nothing, "{view}: {what}");
        }
        assert_eq!(seen["scrolls_sideways"], false, "{view}");
    }
    assert_eq!(found["evil"], Value::Null, "a name was run as a script");
    assert!(found["focusable"].as_u64() > Some(2), "{found}");
    assert_eq!(
        found["tabbed"], found["focusable"],
        "the Tab key comes to all of them"
    );
    let levels: Vec<u64> = found["headings"]
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(Value::as_u64)
        .collect();
    assert_eq!(
        levels.iter().filter(|level| **level == 1).count(),
        1,
        "{levels:?}"
    );
    assert!(
        levels[0] == 1 && levels.windows(2).all(|pair| pair[1] <= pair[0] + 1),
        "{levels:?}"
    );
}

#[test]
#[ignore = "it needs Chromium and axe-core: tests/browser/check"]
fn one_run_with_trouble_and_hostile_names() {
    let evil = "\"><script>window.evil=1</script><img src=//evil.example/x onerror=window.evil=2>";
    let hostile = Trained {
        hostile: evil.to_owned(),
        has_trouble: true,
        ..Trained::usual(1, "hostile")
    };
    let env = with(&[hostile]);
    assert_good(&looked_at(&env, "one", &["hostile"]));
}

#[test]
#[ignore = "it needs Chromium and axe-core: tests/browser/check"]
fn a_comparison_with_scaling() {
    let large = Trained {
        nodes: 2,
        gpus: 8,
        cpus: 64,
        epoch_seconds: 9.1,
        epochs: 40,
        ..Trained::usual(3, "resnet50-2x8")
    };
    let lustre = Trained {
        epoch_seconds: 64.4,
        has_trouble: true,
        ..Trained::usual(2, "resnet50-lustre")
    };
    let untimed = Trained {
        gpus: 0,
        is_timed: false,
        ..Trained::usual(4, "no-times")
    };
    let env = with(&[Trained::usual(1, "resnet50-bf16"), lustre, large, untimed]);
    let runs = [
        "resnet50-bf16",
        "resnet50-lustre",
        "resnet50-2x8",
        "no-times",
    ];
    assert_good(&looked_at(&env, "four", &runs));
}
