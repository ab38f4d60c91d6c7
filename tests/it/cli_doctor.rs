//! `dlrun doctor`.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;

use dlrun::observe::protocol::{DaemonStatus, Request, Response, StoreStatus};
use serde_json::Value;

use crate::support::{Dlrund, Scripted, TestEnv, python};

/// A place where nothing is amiss but that there is no daemon, without the machine's GPUs.
fn place() -> TestEnv {
    let mut env = TestEnv::new();
    env.set(
        "DLRUN_MONITOR__DAEMON_SOCKET",
        env.root().join("dlrund.sock"),
    );
    env.set("DLRUN_PYTHON__INTERPRETER", python());
    env
}

/// What was found out about one thing.
#[track_caller]
pub(crate) fn finding(told: &Value, check: &str) -> (String, String) {
    let findings = told["findings"].as_array().expect("findings");
    let found = findings.iter().find(|finding| finding["check"] == check);
    let found = found.unwrap_or_else(|| panic!("no {check} in {told}"));
    let text = |key: &str| found[key].as_str().expect("text").to_owned();
    (text("level"), text("text"))
}

#[track_caller]
fn examined(env: &TestEnv, code: i32) -> Value {
    env.dlrun(["doctor", "--json"]).run().code(code).result()
}

#[test]
fn a_place_that_is_well_is_told_so_and_nothing_is_made() {
    let env = place();
    let told = examined(&env, 0);
    for (check, part) in [
        ("dlrun", env!("CARGO_PKG_VERSION")),
        ("state", "does not exist yet"),
        ("space", " free"),
        ("scheduler", "jobs run on this machine"),
        ("python", "3."),
    ] {
        let (level, text) = finding(&told, check);
        assert!(level == "ok" && text.contains(part), "{check}: {told}");
    }
    let (level, text) = finding(&told, "dlrund");
    assert!(
        level == "warning" && text.contains("there is none at `"),
        "{told}"
    );
    assert!(!env.state().exists());
    let text = env.dlrun(["doctor"]).run().code(0).text();
    assert!(
        text.lines()
            .any(|line| line.trim_start().starts_with("-> normal on a login node")),
        "{text}"
    );
}

#[test]
fn a_state_directory_in_use_is_looked_at_with_its_index() {
    let env = place();
    let run = env.submit(&env.job("true", ""));
    env.wait_state(&run, "completed");
    let told = examined(&env, 0);
    assert_eq!(finding(&told, "state").0, "ok");
    assert!(finding(&told, "index").1.starts_with("1 runs"), "{told}");
    // Whatever the file system, the index says where it lies.
    let index = finding(&told, "index")
        .1
        .split('`')
        .nth(1)
        .expect("a path")
        .to_owned();
    fs::write(
        &index,
        "no database at all, and long enough to be seen as none",
    )
    .expect("ours");
    let told = examined(&env, 0);
    assert_eq!(finding(&told, "index").0, "warning", "{told}");
    fs::set_permissions(env.state(), fs::Permissions::from_mode(0o777)).expect("ours");
    let told = examined(&env, 78);
    assert_eq!(
        (finding(&told, "state").0.as_str(), &told["worst"]),
        ("problem", &"problem".into())
    );
}

#[test]
fn scheduler_and_python_are_asked_for_their_versions() {
    let mut env = place();
    let _ = env.fake("sbatch").stdout("slurm 25.11.1\n");
    // Of queues there is nobody to ask.
    assert!(
        finding(&examined(&env, 78), "scheduler")
            .1
            .starts_with("slurm 25.11.1, /")
    );
    let _ = env
        .fake("sbatch")
        .code(1)
        .stderr("cannot find slurm.conf\n");
    let (level, text) = finding(&examined(&env, 78), "scheduler");
    assert!(
        level == "warning" && text.contains("cannot find slurm.conf"),
        "{text}"
    );
    env.set("DLRUN_PYTHON__INTERPRETER", "/nonexistent/python3");
    let told = examined(&env, 78);
    let (level, text) = finding(&told, "python");
    assert!(
        level == "problem" && text.contains("/nonexistent/python3"),
        "{told}"
    );
}

#[test]
fn slurm_that_is_wanted_and_missing_is_a_problem() {
    let mut env = place();
    env.set("DLRUN_SCHEDULER__KIND", "slurm");
    let told = examined(&env, 78);
    assert_eq!(finding(&told, "scheduler").0, "problem", "{told}");
}

#[test]
fn the_daemon_is_asked_how_it_is() {
    let env = place();
    let socket = env.root().join("dlrund.sock");
    let status = DaemonStatus {
        version: env!("CARGO_PKG_VERSION").into(),
        pid: 1,
        started_at_ms: 0,
        interval_ms: 1000,
        runs: 3,
        gpus: Vec::new(),
        cost: Default::default(),
        store: StoreStatus {
            path: "/var/lib/dlrun/node.db".into(),
            ..StoreStatus::default()
        },
        problems: vec!["no cgroups are mounted".into()],
    };
    let answer = |status: DaemonStatus| {
        move |request: &Request| {
            (*request == Request::Status).then(|| Response::Status(Box::new(status.clone())))
        }
    };
    {
        let _daemon = Scripted::start(&socket, answer(status.clone()));
        let told = examined(&env, 0);
        assert!(finding(&told, "dlrund").1.contains("3 runs"), "{told}");
        assert!(
            told.to_string().contains("no cgroups are mounted"),
            "{told}"
        );
        assert_eq!(finding(&told, "dlrund store").0, "ok");
    }
    let error = Some("database or disk is full".to_owned());
    let full = DaemonStatus {
        store: StoreStatus {
            error,
            ..status.store.clone()
        },
        ..status
    };
    {
        let _daemon = Scripted::start(&socket, answer(full));
        let (level, text) = finding(&examined(&env, 78), "dlrund store");
        assert!(
            level == "problem" && text.contains("disk is full"),
            "{text}"
        );
    }
    // A socket that is left over is not the same as none.
    drop(UnixListener::bind(&socket).expect("the place is free"));
    assert_eq!(finding(&examined(&env, 78), "dlrund").0, "problem");
    let off = env
        .dlrun(["doctor", "--json"])
        .env("DLRUN_MONITOR__DAEMON", "off")
        .run()
        .code(0)
        .result();
    assert_eq!(finding(&off, "dlrund").0, "ok");
}

#[test]
fn the_real_daemon_says_how_it_is() {
    let mut env = TestEnv::new();
    env.set("DLRUN_PYTHON__INTERPRETER", python());
    let _daemon = Dlrund::start(&env, "");
    let told = examined(&env, 0);
    let (level, text) = finding(&told, "dlrund");
    assert!(
        level == "ok" && text.contains("0 runs") && text.contains("% of a CPU"),
        "{told}"
    );
    assert_eq!(finding(&told, "dlrund store").0, "ok", "{told}");
}

#[test]
fn the_container_runtime_is_asked_and_what_it_can_do_is_told() {
    let mut env = place();
    let runtime = env.fake("apptainer").stdout("apptainer version 1.4.5\n");
    let told = examined(&env, 0);
    let (level, text) = finding(&told, "container");
    assert!(
        level == "ok" && text.starts_with("apptainer 1.4.5, /"),
        "{told}"
    );
    for check in ["namespaces", "fakeroot", "sif images", "gpu files"] {
        assert!(!finding(&told, check).1.is_empty(), "{told}");
    }
    // Nothing is kept: whoever asks the doctor changed something.
    let calls = runtime.calls().len();
    examined(&env, 0);
    assert_eq!(runtime.calls().len(), 2 * calls);
    let _ = env
        .fake("apptainer")
        .code(127)
        .stderr("apptainer: error while loading shared libraries\n");
    let (level, text) = finding(&examined(&env, 0), "container");
    assert!(
        level == "warning" && text.contains("shared libraries"),
        "{text}"
    );
    env.set("DLRUN_IMAGES__RUNTIME", "/nonexistent/apptainer");
    let (level, text) = finding(&examined(&env, 0), "container");
    assert!(
        level == "warning" && text.contains("/nonexistent/apptainer"),
        "{text}"
    );
}
