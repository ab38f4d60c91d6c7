//! The node's database under `kill -9`: its writer dies at random moments, and another one goes on.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use dlrun::record::store::{NodeId, NodeStore};
use dlrun::record::{GpuReading, MAX_SEGMENT_BYTES, ProcessReading, Sample};

use crate::node_store::{live, records, registered};
use crate::support::wait_for;

/// Runs that are written at once.
const RUNS: u32 = 3;
const DIR: &str = "DLRUN_TEST_NODE_DIR";

#[test]
fn killed_writers_lose_nothing_and_double_nothing() {
    kill_writers(10, |round| 7 + 41 * round % 230);
}

/// Kills a writer `count` times, each as many milliseconds after its first tick as `delay_ms` says.
pub(crate) fn kill_writers(count: u64, mut delay_ms: impl FnMut(u64) -> u64) {
    let mut tmp = tempfile::tempdir().expect("a directory");
    for round in 0..count {
        // Not ever more samples to look at.
        if round % 20 == 19 {
            tmp = tempfile::tempdir().expect("a directory");
        }
        let before = acked(tmp.path()).len();
        let mut writer = start_writer(tmp.path());
        wait_for("a tick", || acked(tmp.path()).len() > before);
        sleep(Duration::from_millis(delay_ms(round)));
        writer.kill().and_then(|()| writer.wait()).expect("it ends");
        check(tmp.path(), round);
    }
}

fn start_writer(dir: &Path) -> std::process::Child {
    let mut command = Command::new(std::env::current_exe().expect("this test"));
    command
        .args([
            "--exact",
            "node_kills::writes_until_it_is_killed",
            "--ignored",
        ])
        .env(DIR, dir);
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .expect("started")
}

#[test]
#[ignore = "run by `killed_writers_lose_nothing_and_double_nothing` in a process of its own"]
fn writes_until_it_is_killed() {
    let Some(dir) = std::env::var_os(DIR).map(PathBuf::from) else {
        return;
    };
    let mut store = NodeStore::open(&dir.join("dlrun.db")).expect("opened");
    let nodes: Vec<NodeId> = (0..RUNS)
        .map(|number| registered(&mut store, number))
        .collect();
    let last = store
        .live()
        .expect("read")
        .iter()
        .filter_map(|run| run.last_at_ms)
        .max();
    let mut journal = OpenOptions::new()
        .append(true)
        .create(true)
        .open(dir.join("acked"))
        .expect("opened");
    for tick in last.unwrap_or(0) / 1_000 + 1.. {
        let samples: Vec<Sample> = nodes
            .iter()
            .zip(0..)
            .map(|(_, run)| sample(run, tick * 1_000))
            .collect();
        let of_nodes: Vec<(NodeId, &Sample)> = nodes.iter().copied().zip(&samples).collect();
        store.append(&of_nodes).expect("appended");
        // In one piece: killed between a number and its end of line, it would run into the next writer's.
        journal
            .write_all(format!("{}\n", tick * 1_000).as_bytes())
            .expect("written");
        if tick % 3 == 0 {
            store.append(&of_nodes[1..]).expect("appended again");
        }
        if tick % 7 == 0 {
            store.fold(&nodes).expect("folded");
        }
        if tick % 11 == 0 {
            let taken = store
                .collect(nodes[0], None, MAX_SEGMENT_BYTES)
                .expect("collected")
                .expect("something");
            store
                .acknowledge(nodes[0], taken.through_seq)
                .expect("noted");
        }
        if tick % 17 == 0 {
            let (run, mut record) = records(2);
            record.updated_at_ms += tick;
            store.update(nodes[2], &record).expect("updated");
            store.end(&[(nodes[2], &record)]).expect("ended");
            assert_eq!(
                store
                    .register(&run, 1000, &record, &live())
                    .expect("registered"),
                nodes[2]
            );
        }
    }
}

/// What a run measures at a time.
fn sample(run: u64, at_ms: u64) -> Sample {
    let mixed = (at_ms + run).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mut sample = Sample::from_values(
        at_ms,
        std::array::from_fn(|i| Some(mixed >> (i + 7) & 0xfffff)),
    );
    sample.threads = None;
    sample.gpus = vec![GpuReading {
        mem_used_bytes: Some(mixed >> 40),
        ..GpuReading::of("GPU-1".into())
    }];
    // Processes come and go.
    let pid = u32::try_from(at_ms / 5_000 % 9).expect("it fits");
    let process = ProcessReading {
        pid,
        name: "python3".into(),
        cpu_us: Some(at_ms),
        ..ProcessReading::default()
    };
    sample.commands = if at_ms.is_multiple_of(2_000) {
        vec![process]
    } else {
        Vec::new()
    };
    sample
}

/// The times of the ticks that were written, as far as their writer knew.
fn acked(dir: &Path) -> Vec<u64> {
    let text = fs::read_to_string(dir.join("acked")).unwrap_or_default();
    text.split_inclusive('\n')
        .filter_map(|line| line.strip_suffix('\n')?.parse().ok())
        .collect()
}

fn check(dir: &Path, round: u64) {
    let path = dir.join("dlrun.db");
    let store = NodeStore::open(&path).expect("opened");
    assert_eq!(integrity(&path), "ok", "round {round}");
    let acked = acked(dir);
    for number in 0..RUNS {
        let node = store
            .node_id(&records(number).1.key)
            .expect("read")
            .expect("it was registered");
        let samples = store.read_samples(node, 0).expect("read");
        let times: Vec<u64> = samples.iter().map(|sample| sample.at_ms).collect();
        assert!(
            times.is_sorted_by(|a, b| a < b),
            "round {round}: a sample is there twice"
        );
        let lost: Vec<_> = acked
            .iter()
            .filter(|at_ms| times.binary_search(at_ms).is_err())
            .collect();
        assert!(
            lost.is_empty(),
            "round {round}: {lost:?} of {} are lost",
            acked.len()
        );
        assert!(
            samples
                .iter()
                .all(|one| *one == sample(u64::from(number), one.at_ms)),
            "round {round}"
        );
    }
}

/// What SQLite thinks of a database.
pub(crate) fn integrity(path: &Path) -> String {
    let connection = rusqlite::Connection::open(path).expect("opened");
    connection
        .query_row("PRAGMA integrity_check", [], |row| row.get(0))
        .expect("an answer")
}
