//! Jobs in containers on a real cluster. They need a real runtime too.

use serde_json::{Value, json};

use super::cluster::{User, sh, until};
use crate::apptainer_real::place::base_sandbox;

fn image() -> String {
    format!("[image]\npath = {}", json!(base_sandbox()))
}

fn nodes(shown: &Value) -> &Vec<Value> {
    shown["nodes"].as_array().expect("nodes")
}

#[test]
#[ignore = "needs slurmctld and Apptainer: run tests/run"]
fn each_node_enters_the_container_and_tells_of_it() {
    let user = User::new();
    let run = format!(
        "launcher = \"each\"\n{}",
        sh("echo on $SLURMD_NODENAME in $APPTAINER_NAME; pwd; sleep 1")
    );
    let submitted = user.submit(&user.job("each", &run, &format!("nodes = 2\n{}", image())));
    assert_eq!(user.wait(&submitted.run), 0, "{}", submitted.text());
    let shown = user.show(&submitted.run);
    assert_eq!(nodes(&shown).len(), 2, "{shown}");
    for node in nodes(&shown) {
        let name = node["key"]["node"]
            .as_str()
            .or(node["node"].as_str())
            .expect("a name");
        assert_eq!(
            node["container"]["runtime"]["product"], "apptainer",
            "{node}"
        );
        let output =
            std::fs::read_to_string(node["output"].as_str().expect("a path")).expect("written");
        let home = user.home().display();
        assert!(
            output.contains(&format!("on {name} in base\n{home}\n")),
            "{output}"
        );
    }
}

#[test]
#[ignore = "needs slurmctld and Apptainer: run tests/run"]
fn ranks_and_elements_enter_their_containers() {
    let user = User::new();
    let run = format!(
        "launcher = \"mpi\"\n{}",
        sh("echo rank $SLURM_PROCID in $APPTAINER_NAME")
    );
    let more = format!("nodes = 2\ntasks_per_node = 2\n{}", image());
    let submitted = user.submit(&user.job("mpi", &run, &more));
    assert_eq!(user.wait(&submitted.run), 0, "{}", submitted.text());
    for rank in 0..4 {
        assert!(
            submitted.text().contains(&format!("rank {rank} in base\n")),
            "{}",
            submitted.text()
        );
    }
    let run = sh("echo element $DLRUN_ARRAY_INDEX in $APPTAINER_NAME");
    let submitted = user.submit(&user.job("array", &run, &format!("array = \"1-3\"\n{}", image())));
    assert_eq!(user.wait(&submitted.run), 0);
    for index in 1..=3 {
        let output = user.read(&format!("array-{}_{index}.out", submitted.job));
        assert!(
            output.ends_with(&format!("element {index} in base\n")),
            "{output}"
        );
    }
}

#[test]
#[ignore = "needs slurmctld and Apptainer: run tests/run"]
fn ranks_of_a_framework_find_their_variables_in_the_container() {
    let user = User::new();
    let run = format!(
        "launcher = \"ddp\"\n{}",
        sh(
            "echo rank $RANK of $WORLD_SIZE, $LOCAL_RANK of node $NODE_RANK in $APPTAINER_NAME; \
            test -n \"$MASTER_ADDR\" -a -n \"$MASTER_PORT\""
        )
    );
    let more = format!("nodes = 2\ntasks_per_node = 2\n{}", image());
    let submitted = user.submit(&user.job("ddp", &run, &more));
    assert_eq!(user.wait(&submitted.run), 0, "{}", submitted.text());
    for rank in 0..4 {
        let log = user
            .dlrun(&["logs", &submitted.run, "--rank", &rank.to_string()])
            .ok();
        let (local, node) = (rank % 2, rank / 2);
        let expected = format!("rank {rank} of 4, {local} of node {node} in base\n");
        assert!(log.contains(&expected), "{log}");
    }
}

#[test]
#[ignore = "needs slurmctld and Apptainer: run tests/run"]
fn failures_and_ends_pass_through_the_container() {
    let user = User::new();
    let ran = |name: &str, script: &str, more: &str| {
        let submitted =
            user.submit_unchecked(&user.job(name, &sh(script), &format!("{}\n{more}", image())));
        user.wait(&submitted.run);
        (user.show(&submitted.run), submitted.text())
    };
    let (shown, output) = ran("absent", "true", "bind = [\"/nowhere/at/all:/data\"]");
    assert_eq!(shown["status"]["exit"]["code"], 66, "{output}");
    assert_eq!(shown["status"]["cause"]["kind"], "container", "{shown}");
    let (shown, output) = ran("fatal", "true", "options = [\"--nosuch\"]");
    assert_eq!(
        shown["status"]["cause"]["kind"], "container",
        "{output}: {shown}"
    );
    let (shown, output) = ran("own", "echo 'FATAL:   it is I'; sleep 0.2; exit 255", "");
    assert_eq!(
        shown["status"]["cause"]["kind"], "program",
        "{output}: {shown}"
    );
    let script = "trap 'echo got TERM; exit 7' TERM; echo ready; while :; do sleep 0.2; done";
    let submitted = user.submit(&user.job("cancel", &sh(script), &image()));
    until("the program to run", 60, || {
        submitted.text().contains("ready").then_some(())
    });
    user.dlrun(&["cancel", &submitted.run]).ok();
    assert_eq!(user.wait(&submitted.run), 15, "{}", submitted.text());
    assert!(
        submitted.text().contains("got TERM"),
        "{}",
        submitted.text()
    );
}
