//! `jobs/distributed` with real frameworks over two nodes of a real Slurm. Each needs a Python that has its framework, named by a
//! variable; without it, it is left out.

use std::fs;
use std::path::Path;

use serde_json::json;

use super::cluster::{User, argv, until};
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

/// A file of docs/resume.md, by its first comment and a word that is in it.
fn recipe(comment: &str, word: &str) -> String {
    let docs = include_str!("../../../docs/resume.md");
    let blocks = docs.split("```sh\n").skip(1);
    let blocks = blocks.filter_map(|block| block.split("```").next());
    let mut own = blocks.filter(|block| block.contains(comment) && block.contains(word));
    own.next().expect("it is in the docs").to_owned()
}

/// Adds up what its ranks see, and keeps the number of its steps.
const GROWING: &str = r#"
import os, time, torch, torch.distributed as dist
dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
step = torch.load("kept")["step"] if os.path.exists("kept") else 0
print(f"world {world} from step {step}", flush=True)
while step < 400:
    seen = torch.ones(1)
    dist.all_reduce(seen)
    assert seen.item() == world
    step += 1
    time.sleep(0.1)
    if rank == 0:
        torch.save({"step": step}, "kept.new")
        os.replace("kept.new", "kept")
print("trained", flush=True)
"#;

#[test]
#[ignore = "needs slurmctld and PyTorch: docs/testing.md"]
fn an_array_of_agents_grows_and_shrinks_while_it_trains() {
    let Ok(python) = std::env::var("DLRUN_TEST_PYTORCH_PYTHON") else {
        skip("DLRUN_TEST_PYTORCH_PYTHON names no Python with PyTorch");
        return;
    };
    let script = recipe("# agent.sh", "torchrun");
    let user = User::new();
    let torchrun = Path::new(&python).with_file_name("torchrun");
    user.write(
        "agent.sh",
        &script.replace("torchrun ", &format!("{} ", torchrun.display())),
    );
    user.write("train.py", GROWING);
    let resources = "array = \"0-3%2\"\nmemory = \"700MiB\"\nwalltime = \"5m\"";
    let run = user.submit(&user.job("grow", &argv(&["sh", "agent.sh"]), resources));
    let output = |element: u32| user.path(&format!("grow-{}_{element}.out", run.job));
    let worlds = |element| {
        let text = fs::read_to_string(output(element)).unwrap_or_default();
        let lines = text.lines().filter(|line| line.starts_with("world "));
        lines.map(|line| line[6..7].to_owned()).collect::<String>()
    };
    until("two ranks", 60, || {
        (worlds(0) == "2" && worlds(1) == "2").then_some(())
    });
    user.dlrun(&["scale", &run.run, "4"]).ok();
    until("four ranks", 60, || {
        (worlds(1) == "24" && worlds(3) == "4").then_some(())
    });
    user.dlrun(&["scale", &run.run, "3"]).ok();
    user.dlrun(&["cancel", &format!("{}_0", run.job)]).ok();
    until("three ranks", 60, || (worlds(1) == "243").then_some(()));
    let _ = user.wait(&run.run);
    let shown = user.show(&run.run);
    for element in 1..4 {
        let text = fs::read_to_string(output(element)).expect("an output");
        assert!(text.contains("trained"), "{text}");
    }
    let elements = shown["elements"].as_array().expect("a list").iter();
    let states: Vec<_> = elements.map(|element| &element["state"]).collect();
    assert_eq!(
        states,
        ["cancelled", "completed", "completed", "completed"],
        "{shown}"
    );
}

/// The same under Horovod, which continues without being started again.
const ELASTIC: &str = r#"
import time, torch, horovod.torch as hvd
hvd.init()
model = torch.nn.Linear(1, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
state = hvd.elastic.TorchState(model=model, optimizer=optimizer, step=0)
@hvd.elastic.run
def train(state):
    print(f"world {hvd.size()} from step {state.step}", flush=True)
    while state.step < 500:
        assert hvd.allreduce(torch.ones(1), op=hvd.Sum).item() == hvd.size()
        state.step += 1
        time.sleep(0.1)
        if state.step % 10 == 0:
            state.commit()
    print(f"trained {state.step}", flush=True)
train(state)
"#;

#[test]
#[ignore = "needs slurmctld and Horovod with PyTorch: docs/testing.md"]
fn horovod_grows_and_shrinks_while_it_trains() {
    let Ok(python) = std::env::var("DLRUN_TEST_HOROVOD_PYTORCH_PYTHON") else {
        skip("DLRUN_TEST_HOROVOD_PYTORCH_PYTHON names no Python with Horovod");
        return;
    };
    let user = User::new();
    let horovodrun = Path::new(&python).with_file_name("horovodrun");
    let agent = recipe("# agent.sh", "horovodrun")
        .replace("horovodrun --", &format!("{} --", horovodrun.display()))
        .replace("python train.py", &format!("{python} train.py"));
    user.write("agent.sh", &agent);
    user.write("train.py", ELASTIC);
    user.shell("mkdir -p bin").ok();
    for name in ["bin/hosts", "bin/ssh"] {
        user.write(name, &recipe(&format!("# {name}: "), "sh"));
    }
    user.shell("chmod 755 bin/hosts bin/ssh").ok();
    // One element a node by its memory: other tests use the nodes too.
    let resources = "array = \"0-3%2\"\nmemory = \"33GiB\"\nwalltime = \"5m\"";
    let run = user.submit(&user.job("hvdgrow", &argv(&["sh", "agent.sh"]), resources));
    let text = || {
        let output = |element: u32| user.path(&format!("hvdgrow-{}_{element}.out", run.job));
        let texts = (0..4).map(|element| fs::read_to_string(output(element)).unwrap_or_default());
        texts.collect::<String>()
    };
    let says = |line: &str, times| {
        until(line, 60, || {
            (text().matches(line).count() >= times).then_some(())
        });
    };
    says("world 2 from step 0", 2);
    user.dlrun(&["scale", &run.run, "3"]).ok();
    says("world 3 from step", 3);
    user.dlrun(&["scale", &run.run, "2"]).ok();
    user.dlrun(&["cancel", &format!("{}_2", run.job)]).ok();
    says("world 2 from step", 4);
    // Slurm gives no success for elements that have ended.
    user.dlrun(&["scale", &run.run, "3"]).ok();
    says("world 3 from step", 6);
    let _ = user.wait(&run.run);
    assert_eq!(text().matches("trained 500").count(), 3, "{}", text());
}
