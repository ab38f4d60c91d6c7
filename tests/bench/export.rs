//! `dlrun export` of a million epochs, against the `sqlite3` shell that writes the same columns.

use std::error::Error;
use std::path::Path;
use std::process::Command;

use dlrun::record::store::{Store, StoreError};
use dlrun::record::{Epoch, NodeState, Progress};

use crate::list::{node_record, run_record};
use crate::measure::{in_turns, median_ms, quiet};
use crate::report::Row;
use crate::{DLRUN, Effort};

const EPOCHS: u32 = 1_000;
const RUNS: u32 = 1_000;
const BEGIN_MS: u64 = 1_760_000_000_000;

/// What the shell is asked: the columns of `dlrun export --what timings`.
const QUERY: &str = "SELECT (SELECT store FROM change), timing.change_seq, run_id, element, attempt.attempt, node.node, step,
        name, user, place, epoch, coalesce(printed_seconds, clock_seconds), iif(printed_seconds IS NULL, 'clock', 'stated'),
        printed_seconds, clock_seconds, timing.ended_at_ms, event, warmup, timing.samples, evaluation_seconds,
        checkpoint_seconds, metrics
    FROM timing JOIN node ON node.id = timing.node JOIN attempt ON attempt.id = node.attempt JOIN run ON run.id = attempt.run";

/// CSV, JSON Lines and Parquet in time.
pub(crate) fn rows(effort: Effort) -> Result<Vec<Row>, Box<dyn Error>> {
    let tmp = tempfile::Builder::new()
        .prefix("dlrun-export-")
        .tempdir_in("/var/tmp")?;
    let whole = tmp.path().join("whole.db");
    fill(&whole, RUNS)?;
    let parquet = tmp.path().join("rows.parquet");
    let mut commands = [
        shell(&whole),
        export(&whole, tmp.path(), &["--format", "csv"]),
        export(&whole, tmp.path(), &["--format", "jsonl"]),
        export(
            &whole,
            tmp.path(),
            &[
                "--format",
                "parquet",
                "--output",
                &parquet.to_string_lossy(),
            ],
        ),
    ];
    let taken = match in_turns(effort.of(3, 9), &mut commands) {
        Err(error) if Command::new("sqlite3").arg("--version").output().is_err() => {
            return Ok(vec![Row::not_measured(
                "export",
                "all of it",
                format!("it needs sqlite3: {error}"),
            )]);
        }
        other => other?,
    };
    let least = median_ms(&taken[0]);
    let row = |what: &str, which: usize, budget: f64| {
        let ms = median_ms(&taken[which]);
        let detail = format!(
            "{ms:.0} ms, the shell {least:.0} ms, for {} rows",
            RUNS * EPOCHS
        );
        Row::budget(
            "export",
            &format!("{what} over the sqlite3 shell"),
            ms / least,
            "times",
            budget,
        )
        .detailed(detail)
    };
    let lines = median_ms(&taken[2]) / least;
    Ok(vec![
        row("CSV", 1, 2.0),
        row("Parquet", 3, 3.0),
        Row::figure(
            "export",
            "JSON Lines over the sqlite3 shell",
            lines,
            "times",
        ),
    ])
}

fn shell(db: &Path) -> Command {
    let mut command = quiet("sqlite3");
    command
        .args(["-readonly", "-csv", "-header"])
        .arg(db)
        .arg(QUERY);
    command
}

fn export(db: &Path, home: &Path, arguments: &[&str]) -> Command {
    let mut command = quiet(DLRUN);
    command
        .args(["export", "--what", "timings", "--store"])
        .arg(db)
        .args(arguments);
    command.env_clear().env("HOME", home);
    command
}

/// Runs of a thousand epochs each, as they would be taken in.
fn fill(path: &Path, runs: u32) -> Result<(), Box<dyn Error>> {
    let mut store = Store::open(path)?;
    for number in 0..runs {
        let run = run_record(number, BEGIN_MS + u64::from(number), "/home/anna".into());
        let mut record = node_record(&run, NodeState::Ended, BEGIN_MS, Some(BEGIN_MS + 60_000));
        record.progress = epochs();
        store.write(|writer| {
            writer.upsert_run(&run)?;
            writer.ingest_node(&record)?;
            Ok::<(), StoreError>(())
        })?;
    }
    Ok(())
}

fn epochs() -> Progress {
    let mut progress = Progress::default();
    for epoch in 1..=EPOCHS {
        let seconds = 9.1 + f64::from(epoch) / 7.0;
        let loss = 1.0 / f64::from(epoch);
        progress.push_epoch(Epoch {
            epoch: epoch.into(),
            printed_seconds: Some(seconds),
            clock_seconds: Some(seconds + 0.011),
            ended_at_ms: Some(BEGIN_MS + u64::from(epoch) * 9_100),
            metrics: [
                ("loss".to_owned(), loss),
                ("accuracy".to_owned(), 1.0 - loss),
            ]
            .into(),
            warmup: epoch == 1,
            samples: Some(60_000),
            ..Epoch::default()
        });
    }
    progress
}
