//! `jobs/distributed` with real frameworks over two nodes of a real Slurm. Each needs a Python that has its framework, named by a
//! variable; without it, it is left out.

use std::fs;
use std::path::Path;

use serde_json::json;

use super::cluster::User;
use crate::apptainer_real::place::base_sandbox;
use crate::support::skip;

fn trains(framework: &str, ranks: usize) {
    trains_with(framework, ranks, &[]);
}

/// The same with other lines in the job file, each in place of one that it has.
fn trains_with(framework: &str, ranks: usize, other: &[(&str, String)]) {
    let variable = format!("DLRUN_TEST_{}_PYTHON", framework.to_uppercase());
    let Ok(python) = std::env::var(&variable) else {
        skip(&format!("{variable} names no Python with {framework}"));
        return;
    };
    let user = User::new();
    let jobs = Path::new(env!("CARGO_MANIFEST_DIR")).join("jobs/distributed");
    for name in [format!("{framework}.toml"), format!("{framework}_train.py")] {
        let text = fs::read_to_string(jobs.join(&name)).expect("it is there");
        let own = other
            .iter()
            .filter(|_| name.ends_with("toml"))
            .fold(text, |text, (line, other)| text.replace(line, other));
        user.write(&name, &own.replace("\"python3\"", &format!("\"{python}\"")));
    }
    let file = user.path(&format!("{framework}.toml"));
    let checked = user
        .dlrun(&["check", "--run", &file.to_string_lossy()])
        .ok();
    let met = format!("all {ranks} ranks connected and their all-reduce is right: ");
    assert!(checked.contains(&met), "{checked}");
    let submitted = user.submit(&file);
    assert_eq!(user.wait(&submitted.run), 0, "{}", submitted.text());
    for rank in 0..ranks {
        let log = user
            .dlrun(&["logs", &submitted.run, "--rank", &rank.to_string()])
            .ok();
        assert!(log.contains(&format!("rank {rank} of {ranks}: ")), "{log}");
    }
    let shown = user.dlrun(&["show", &submitted.run]).ok();
    assert!(
        shown.contains("epochs") && shown.contains("3 of 3"),
        "{shown}"
    );
}

#[test]
#[ignore = "needs slurmctld and PyTorch: docs/testing.md"]
fn pytorch_trains_with_equal_weights_on_all_ranks() {
    trains("pytorch", 4);
}

#[test]
#[ignore = "needs slurmctld, PyTorch and Apptainer: docs/testing.md"]
fn pytorch_trains_under_torchrun_in_containers() {
    let Ok(python) = std::env::var("DLRUN_TEST_PYTORCH_PYTHON") else {
        // It says what is missing.
        return trains("pytorch", 4);
    };
    let environment = Path::new(&python).ancestors().nth(2);
    let image = format!(
        "path = {}\nbind = [{}]",
        json!(base_sandbox()),
        json!(environment)
    );
    let launcher = "launcher = \"torchrun\"\n\n[framework]".to_owned();
    trains_with(
        "pytorch",
        4,
        &[("none = true", image), ("[framework]", launcher)],
    );
}

#[test]
#[ignore = "needs slurmctld and JAX: docs/testing.md"]
fn jax_trains_with_equal_weights_on_all_processes() {
    trains("jax", 4);
}

#[test]
#[ignore = "needs slurmctld and TensorFlow: docs/testing.md"]
fn tensorflow_trains_to_a_low_loss_on_all_workers() {
    trains("tensorflow", 2);
}

#[test]
#[ignore = "needs slurmctld and Horovod with TensorFlow: docs/testing.md"]
fn horovod_trains_with_equal_weights_on_all_ranks() {
    trains("horovod", 4);
}

#[test]
#[ignore = "needs slurmctld and Horovod with PyTorch: docs/testing.md"]
fn horovod_trains_pytorch_with_equal_weights_on_all_ranks() {
    trains("horovod_pytorch", 4);
}

#[test]
#[ignore = "needs slurmctld and MXNet: docs/testing.md"]
fn mxnet_trains_with_equal_weights_on_all_workers() {
    trains("mxnet", 4);
}

#[test]
#[ignore = "needs slurmctld and Keras with JAX: docs/testing.md"]
fn keras_trains_on_jax_with_equal_weights_on_all_processes() {
    trains("keras", 4);
}
