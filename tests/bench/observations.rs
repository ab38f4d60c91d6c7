//! The runs of a large site as the performance model sees them, and `dlrun model fit` over all of them.

use std::error::Error;
use std::path::Path;
use std::time::Instant;

use dlrun::job::{Framework, JobState, Provenance, Workload};
use dlrun::learn::model::Observations;
use dlrun::record::store::{Store, StoreError};
use dlrun::record::{Epoch, NodeState, Outcome, Sentinel, Status};

use crate::list::{node_record, run_record};
use crate::measure::{median, number, quiet, run};
use crate::report::Row;
use crate::{DLRUN, Effort};

const RUNS: u32 = 100_000;
const EPOCHS: u64 = 10;
const BEGIN_MS: u64 = 1_760_000_000_000;

/// 100,000 runs with ten epochs each: what reading them takes beside SQLite's own going through the same rows.
pub(crate) fn rows(effort: Effort) -> Result<Vec<Row>, Box<dyn Error>> {
    let tmp = tempfile::tempdir()?;
    let path = tmp.path().join("site.db");
    fill(&path)?;
    let store = Store::open_reader(&path)?;
    let plain = rusqlite::Connection::open(&path)?;
    let (mut ours, mut floor) = (Vec::new(), Vec::new());
    for _ in 0..effort.of(3, 9) {
        let begun = Instant::now();
        let mut observations = Observations::read(&store)?;
        let seen = observations.by_ref().count();
        observations.finish()?;
        ours.push(begun.elapsed().as_secs_f64());
        if seen != usize::try_from(RUNS)? {
            return Err(format!("{seen} observations of {RUNS} runs").into());
        }
        let begun = Instant::now();
        for (table, column) in [
            ("timing", "printed_seconds"),
            ("node", "started_at_ms"),
            ("run", "submitted_at_ms"),
        ] {
            plain.query_row(&format!("SELECT sum({column}) FROM {table}"), [], |row| {
                row.get::<_, f64>(0)
            })?;
        }
        floor.push(begun.elapsed().as_secs_f64());
    }
    let output = tmp.path().join("out.model");
    let mut command = quiet(DLRUN);
    command
        .args(["model", "fit", "--store"])
        .arg(&path)
        .arg("--output")
        .arg(&output);
    let fitted = run(command.env("HOME", tmp.path()))?;
    let (ours, floor) = (median(ours), median(floor));
    Ok(vec![
        Row::figure("learn", "100,000 runs as observations", ours, "s").detailed(format!(
            "SQLite sums one column of each table in {floor:.2} s: {:.1} times as much",
            ours / floor
        )),
        Row::figure(
            "learn",
            "dlrun model fit over them, evaluated",
            fitted.wall.as_secs_f64(),
            "s",
        ),
        Row::budget(
            "learn",
            "the same: peak RSS",
            number(usize::try_from(fitted.rss_bytes)?) / 1e6,
            "MB",
            200.0,
        ),
    ])
}

fn fill(path: &Path) -> Result<(), Box<dyn Error>> {
    let mut store = Store::open(path)?;
    let written: Result<(), StoreError> =
        store.write(|writer| (0..RUNS).try_for_each(|at| one(writer, at)));
    Ok(written?)
}

fn one(writer: &dlrun::record::store::Writer<'_>, at: u32) -> Result<(), StoreError> {
    let begun = BEGIN_MS + u64::from(at) * 60_000;
    let mut record = run_record(at, begun, "/home/anna".into());
    record.framework = Framework {
        name: Some(["tensorflow", "pytorch", "jax"][(at % 3) as usize].to_owned()),
        version: Some(format!("2.{}", at % 5)),
        compiler: Some(["none", "xla"][(at % 2) as usize].to_owned()),
        provenance: Some(Provenance::Pip),
    };
    record.workload = Workload {
        model: Some(format!("network-{}", at % 97)),
        parameters: Some(1_000_000 * u64::from(at % 97 + 1)),
        samples: Some(60_000),
        batch_size: Some(32 << (at % 4)),
        epochs: Some(EPOCHS),
        ..Workload::default()
    };
    let mut node = node_record(&record, NodeState::Ended, begun, Some(begun + 60_000));
    node.host.cpu_model = Some(format!("EPYC {}", 7_000 + at % 4));
    node.host.cpus = Some(64);
    node.progress = Default::default();
    let steady =
        f64::from(at % 97 + 1) * (1.0 + f64::from(at.wrapping_mul(2_654_435_761) % 100) / 1e3);
    for epoch in 1..=EPOCHS {
        let seconds = if epoch == 1 { 1.5 * steady } else { steady };
        let ended_at_ms = Some(begun + epoch * 1000);
        node.progress.push_epoch(Epoch {
            epoch,
            printed_seconds: Some(seconds),
            ended_at_ms,
            ..Epoch::default()
        });
    }
    let mark = |at_ms, exit_code| Sentinel {
        format: 1,
        at_ms,
        uptime_ms: None,
        node: "n1".to_owned(),
        job_id: None,
        exit_code,
        refused: None,
    };
    let outcome = Outcome {
        start: Some(mark(begun, None)),
        end: Some(mark(begun + 60_000, Some(0))),
        nodes: vec![node],
        ..Outcome::default()
    };
    writer.upsert_run(&record)?;
    writer.ingest_attempt(&record.run_id, 0, 0, &outcome)?;
    writer.set_status(&record.run_id, &Status::of(JobState::Completed))
}
