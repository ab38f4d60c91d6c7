//! The runs of an index as the performance model sees them.

use std::collections::BTreeMap;

use dlrun::job::{ArraySpec, Framework, JobState, Provenance, StorageClass};
use dlrun::learn::model::{Counted, Length, Observation, Observations};
use dlrun::record::store::{Store, StoreError, Writer};
use dlrun::record::{
    Conditions, Element, Epoch, ExitStatus, GpuFacts, GpuUsage, Identity, Interval, NodeRecord,
    NodeState, Outcome, RunImage, Status,
};
use tempfile::TempDir;

use crate::records::{forecast, mark, node, run, run_id};

fn filled(fill: impl FnOnce(&Writer<'_>) -> Result<(), StoreError>) -> (TempDir, Store) {
    let tmp = tempfile::tempdir().expect("a directory");
    let mut store = Store::open(&tmp.path().join("dlrun.db")).expect("opened");
    store.write(fill).expect("written");
    (tmp, store)
}

fn seen(store: &Store) -> (Vec<Observation>, Counted) {
    let mut observations = Observations::read(store).expect("read");
    let all: Vec<Observation> = observations.by_ref().collect();
    (all, observations.finish().expect("read to their end"))
}

fn status(state: JobState) -> Status {
    Status {
        started_at_ms: Some(2_000),
        ended_at_ms: Some(62_000),
        ..Status::of(state)
    }
}

/// Epochs of 10, 4, 5 and 6 s.
fn trained(run: u32, name: &str) -> NodeRecord {
    let mut record = node(run_id(run), name, 61_000);
    record.state = NodeState::Ended;
    record.exit = Some(ExitStatus::Code(0));
    record.ended_at_ms = Some(61_000);
    record.progress = Default::default();
    for (epoch, seconds) in [(1, 10.0), (2, 4.0), (3, 5.0), (4, 6.0)] {
        let ended_at_ms = Some(1_000 + 10_000 * epoch);
        record.progress.push_epoch(Epoch {
            epoch,
            printed_seconds: Some(seconds),
            ended_at_ms,
            ..Epoch::default()
        });
    }
    record
}

fn outcome(nodes: Vec<NodeRecord>) -> Outcome {
    Outcome {
        start: Some(mark(2_000, None)),
        end: Some(mark(62_000, Some(0))),
        nodes,
        ..Outcome::default()
    }
}

#[test]
fn a_run_becomes_what_the_model_learns_from() {
    let (_tmp, store) = filled(|writer| {
        let mut record = run(run_id(1), "train", 1_000);
        record.nodes = 1;
        record.queue = Some("gpu".to_owned());
        record.framework = Framework {
            name: Some("tensorflow".to_owned()),
            version: Some("2.21".to_owned()),
            compiler: Some("xla".to_owned()),
            provenance: Some(Provenance::Pip),
        };
        record.image = Some(RunImage {
            source: "/shared/tf.sif".to_owned(),
            name: None,
            digest: Some("sha256:00ff".to_owned()),
        });
        record.storage = Some(("scratch".to_owned(), StorageClass::Ssd));
        writer.upsert_run(&record)?;
        let mut measured = trained(1, "n1");
        measured.host.omp_num_threads = Some("4".to_owned());
        measured.conditions = Conditions {
            cpus_effective: Some(16.0),
            ..Conditions::default()
        };
        let gpu = |uuid: &str| {
            GpuUsage::of(GpuFacts {
                uuid: uuid.to_owned(),
                name: "H200".to_owned(),
                ..GpuFacts::default()
            })
        };
        measured.gpus = vec![gpu("GPU-1"), gpu("GPU-2")];
        writer.ingest_attempt(&record.run_id, 0, 0, &outcome(vec![measured]))?;
        writer.set_status(&record.run_id, &status(JobState::Completed))
    });
    let (observations, counted) = seen(&store);
    let [one] = &observations[..] else {
        panic!("{observations:#?}")
    };
    assert_eq!(
        (one.run_id.clone(), one.element, one.attempt, one.at_ms),
        (run_id(1), 0, 0, 1_000)
    );
    assert_eq!(
        (one.epoch_seconds, one.epochs),
        (Some(Length::Known(5.0)), 3)
    );
    assert_eq!(
        (one.between_seconds, one.outside_seconds),
        (Some(5.0), Some(Length::Known(20.0)))
    );
    assert_eq!(
        (one.wall_seconds, one.memory_bytes),
        (Some(Length::Known(60.0)), Some(1 << 30))
    );
    let situation = &one.situation;
    assert_eq!(situation.framework.compiler.as_deref(), Some("xla"));
    assert_eq!(situation.framework.provenance, Some(Provenance::Pip));
    assert_eq!(situation.image.as_deref(), Some("sha256:00ff"));
    assert_eq!(
        (situation.storage, situation.nodes),
        (Some(StorageClass::Ssd), 1)
    );
    assert_eq!(situation.workload.model.as_deref(), Some("resnet50"));
    let hardware = &situation.hardware;
    assert_eq!(
        (hardware.cpu_model.as_deref(), hardware.threads),
        (Some("EPYC 7742"), Some(4.0))
    );
    assert_eq!(
        (hardware.gpu_model.as_deref(), hardware.gpus),
        (Some("H200"), 2)
    );
    assert_eq!(one.queue.as_deref(), Some("gpu"));
    let expected = Counted {
        runs: 1,
        starts: 1,
        observations: 1,
        epochs: 4,
        ..Counted::default()
    };
    assert_eq!(counted, expected);
}

#[test]
fn each_end_counts_as_what_it_is() {
    let states = [
        JobState::Completed,
        JobState::Failed,
        JobState::Timeout,
        JobState::Cancelled,
        JobState::Running,
        JobState::Pending,
    ];
    let (_tmp, store) = filled(|writer| {
        for (number, state) in (1..).zip(states) {
            writer.upsert_run(&run(run_id(number), "train", 1_000))?;
            writer.ingest_attempt(&run_id(number), 0, 0, &outcome(vec![trained(number, "n1")]))?;
            writer.set_status(&run_id(number), &status(state))?;
        }
        // Submitted, and nothing yet.
        writer.upsert_run(&run(run_id(9), "waits", 1_000))
    });
    let (observations, counted) = seen(&store);
    let walls: Vec<_> = observations.iter().map(|seen| seen.wall_seconds).collect();
    let cut_off = Some(Length::AtLeast(60.0));
    assert_eq!(walls, [Some(Length::Known(60.0)), None, cut_off, cut_off]);
    assert!(
        observations
            .iter()
            .all(|seen| seen.epoch_seconds == Some(Length::Known(5.0)))
    );
    assert_eq!(
        (
            counted.runs,
            counted.starts,
            counted.observations,
            counted.going_on
        ),
        (7, 6, 4, 2)
    );
}

#[test]
fn elements_and_requeues_are_observations_of_their_own() {
    let (_tmp, store) = filled(|writer| {
        let mut record = run(run_id(1), "sweep", 1_000);
        record.array = Some(ArraySpec::parse("0-2").expect("an array"));
        writer.upsert_run(&record)?;
        for (element, attempt) in [(0, 0), (1, 0), (1, 1), (2, 0)] {
            let mut measured = trained(1, "n1");
            (measured.key.element, measured.key.attempt) = (element, attempt);
            writer.ingest_attempt(&record.run_id, element, attempt, &outcome(vec![measured]))?;
        }
        let ended = |element, attempt, state| Element {
            element,
            attempt: Some(attempt),
            status: status(state),
        };
        // Of the third nobody noted how it ended: its shell's exit code tells.
        writer.set_elements(
            &record.run_id,
            &[
                ended(0, 0, JobState::Timeout),
                ended(1, 1, JobState::Completed),
            ],
        )?;
        writer.set_status(&record.run_id, &status(JobState::Failed))
    });
    let (observations, counted) = seen(&store);
    let told: Vec<_> = observations
        .iter()
        .map(|seen| {
            (
                seen.element,
                seen.attempt,
                matches!(seen.wall_seconds, Some(Length::Known(_))),
            )
        })
        .collect();
    assert_eq!(
        told,
        [(0, 0, false), (1, 0, false), (1, 1, true), (2, 0, true)]
    );
    let resumed: Vec<bool> = observations
        .iter()
        .map(|seen| seen.doubts.resumed)
        .collect();
    assert_eq!(resumed, [false, false, true, false]);
    assert_eq!(counted.starts, 4);
}

#[test]
fn of_several_nodes_the_one_that_timed_tells_the_epochs() {
    let (_tmp, store) = filled(|writer| {
        writer.upsert_run(&run(run_id(1), "train", 1_000))?;
        let mut silent = trained(1, "n1");
        silent.progress = Default::default();
        silent.usage.mem_peak_bytes = Some(9 << 30);
        writer.ingest_attempt(&run_id(1), 0, 0, &outcome(vec![silent, trained(1, "n2")]))?;
        writer.set_status(&run_id(1), &status(JobState::Completed))
    });
    let (observations, _) = seen(&store);
    assert_eq!(observations[0].epoch_seconds, Some(Length::Known(5.0)));
    assert_eq!(
        (
            observations[0].memory_bytes,
            observations[0].situation.nodes
        ),
        (Some(9 << 30), 2)
    );
}

#[test]
fn memory_of_few_samples_is_unknown_to_the_model_and_a_bound_of_limits() {
    for (samples, memory) in [(3, None), (4, Some(1 << 30))] {
        let (_tmp, store) = filled(|writer| {
            let mut record = run(run_id(1), "train", 1_000);
            record.nodes = 1;
            record.identity = Some(Identity {
                program: "train".to_owned(),
                ..Identity::default()
            });
            writer.upsert_run(&record)?;
            let mut node = trained(1, "n1");
            node.watcher.samples = samples;
            node.usage.mem_peak_bytes = Some(1 << 30);
            writer.ingest_attempt(&run_id(1), 0, 0, &outcome(vec![node]))?;
            writer.set_status(&run_id(1), &status(JobState::Completed))
        });
        assert_eq!(seen(&store).0[0].memory_bytes, memory);
        // The next run needs at least as much.
        let past = store.history("train", "").expect("read");
        assert_eq!(past[0].memory_bytes, Some(1 << 30));
    }
}

#[test]
fn programs_without_epochs_and_odd_versions_are_taken_as_they_are() {
    let (_tmp, store) = filled(|writer| {
        let mut record = run(run_id(1), "solver", 1_000);
        record.framework.version = Some(">=2.1, <3".to_owned());
        writer.upsert_run(&record)?;
        let mut silent = trained(1, "n1");
        silent.progress = Default::default();
        writer.ingest_attempt(&run_id(1), 0, 0, &outcome(vec![silent]))?;
        writer.set_status(&run_id(1), &status(JobState::Completed))?;
        // The command never started.
        writer.upsert_run(&run(run_id(2), "broken", 1_000))?;
        writer.ingest_attempt(&run_id(2), 0, 0, &outcome(Vec::new()))?;
        writer.set_status(&run_id(2), &status(JobState::Failed))
    });
    let (observations, counted) = seen(&store);
    let [one] = &observations[..] else {
        panic!("{observations:#?}")
    };
    assert_eq!(
        (one.epoch_seconds, one.wall_seconds),
        (None, Some(Length::Known(60.0)))
    );
    assert_eq!(
        one.situation.framework.version, None,
        "a range says what was asked for"
    );
    assert_eq!(counted.unmeasured, 1);
}

#[test]
fn more_runs_than_are_read_at_once_all_come() {
    let (_tmp, store) = filled(|writer| {
        for number in 1..=1_203 {
            writer.upsert_run(&run(run_id(number), "train", u64::from(number)))?;
            if number % 3 == 0 {
                writer.ingest_attempt(
                    &run_id(number),
                    0,
                    0,
                    &outcome(vec![trained(number, "n1")]),
                )?;
                writer.set_status(&run_id(number), &status(JobState::Completed))?;
            }
        }
        (1..=600).try_for_each(|number| writer.forget_run(&run_id(number)))
    });
    let (observations, counted) = seen(&store);
    assert_eq!(
        (observations.len(), counted.runs, counted.epochs),
        (201, 603, 804)
    );
    let ids: BTreeMap<_, _> = observations
        .iter()
        .map(|seen| (seen.run_id.clone(), ()))
        .collect();
    assert_eq!(ids.len(), 201);
    assert_eq!(
        seen(&Store::in_memory().expect("a store")).1,
        Counted::default()
    );
}

#[test]
fn what_was_foretold_is_kept_with_the_run() {
    let interval = Interval {
        mean: 5.1,
        median: 5.0,
        low: 4.0,
        high: 6.0,
    };
    let forecast = forecast(interval);
    let (_tmp, store) = filled(|writer| {
        let mut record = run(run_id(1), "train", 1_000);
        record.forecast = Some(forecast.clone());
        writer.upsert_run(&record)?;
        writer.upsert_run(&run(run_id(2), "train", 1_000))
    });
    let forecasts = store.forecasts().expect("read");
    assert_eq!(forecasts, [(run_id(1), forecast)].into());
}
