//! Very many local runs at once.

use std::fs;
use std::process::{Child, Stdio};

use serde_json::Value;

use super::count;
use super::kills::Machine;
use crate::slurm_real::cluster::until;

#[test]
#[ignore = "soak tier: tests/run soak"]
fn many_local_runs_of_the_whole_machine_go_one_at_a_time_and_in_order() {
    let machine = Machine::new();
    let runs = count(200);
    // The first holds the machine until all others stand in line.
    let first = machine.job("first", "until [ -e go ]; do sleep 0.05; done");
    machine.submit(&first);
    let file = machine.job(
        "next",
        "echo \"begin $DLRUN_RUN_ID\" >> journal; sleep 0.02; echo \"end $DLRUN_RUN_ID\" >> journal",
    );
    let spawn = |_| -> Child {
        let mut command = machine.dlrun();
        command
            .arg("submit")
            .arg(&file)
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        command.spawn().expect("dlrun starts")
    };
    let clients: Vec<Child> = (0..runs).map(spawn).collect();
    for mut client in clients {
        assert!(client.wait().expect("it ends").success());
    }
    let waiting = || -> usize {
        let names = fs::read_dir(machine.entries())
            .into_iter()
            .flatten()
            .flatten();
        names
            .filter(|entry| entry.file_name().to_string_lossy().starts_with("wait-"))
            .count()
    };
    until("all to stand in line", 120, || {
        (waiting() == runs).then_some(())
    });
    machine.write("go", "");
    let lines = |text: String| -> Vec<String> { text.lines().map(str::to_owned).collect() };
    let journal = until("all to have run", 60 + 2 * runs as u64, || {
        Some(lines(machine.read("journal"))).filter(|lines| lines.len() == 2 * runs)
    });
    let mut order = Vec::new();
    for pair in journal.chunks(2) {
        let begun = pair[0].strip_prefix("begin ").expect("one at a time");
        assert_eq!(pair[1], format!("end {begun}"), "one at a time");
        let ticket = fs::read(
            machine
                .state_dir()
                .join("runs")
                .join(begun)
                .join("local.json"),
        )
        .expect("a ticket");
        let ticket: Value = serde_json::from_slice(&ticket).expect("JSON");
        order.push((
            ticket["queued_at_ms"].as_u64().expect("a time"),
            begun.to_owned(),
        ));
    }
    assert!(
        order.is_sorted_by_key(|(queued_at_ms, _)| *queued_at_ms),
        "first come, first served: {order:?}"
    );
    until("all to be over", 60, || {
        let rows = machine.list(runs + 10);
        (rows.len() == runs + 1 && rows.iter().all(|row| row["state"] == "completed")).then_some(())
    });
}
