//! The index as a database file: old, new, damaged, shared between processes.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use dlrun::job::{ArraySpec, Framework, JobId, JobState, Provenance, RunId, StorageClass};
use dlrun::record::store::{Filter, Found, Segment, Store, StoreError, StoreFault};
use dlrun::record::{
    self, ArrayPart, AttemptMarks, Cause, Conditions, Element, EpochNumbering, Event, EventKind,
    ExitStatus, Forecast, Gap, GpuFacts, GpuUsage, Interval, Missing, NodeState, Outcome, Progress,
    RunImage, RunRecord, Scope, Status, StepMark, StepTimes, Throughput, TimeSource,
    merge_elements,
};
use tempfile::TempDir;

use crate::records::{container, forecast, mark, node, run, run_id, spread_id};

fn fixture() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/store/v8.db")
}

fn store() -> (TempDir, Store) {
    let tmp = tempfile::tempdir().expect("a directory");
    let store = Store::open(&tmp.path().join("dlrun.db")).expect("opened");
    (tmp, store)
}

fn write<T>(
    store: &mut Store,
    work: impl FnOnce(&dlrun::record::store::Writer<'_>) -> Result<T, StoreError>,
) -> T {
    store.write(work).expect("written")
}

fn completed() -> Status {
    Status {
        raw_state: Some("COMPLETED".to_owned()),
        exit: Some(ExitStatus::Code(0)),
        started_at_ms: Some(2_000),
        ended_at_ms: Some(9_000),
        ..Status::of(JobState::Completed)
    }
}

/// An array of which one element failed and one waits for what cannot come.
fn sweep() -> (RunRecord, Status, Vec<Element>) {
    let mut record = run(run_id(3), "sweep", 3_000);
    record.job_id = Some(JobId("95".to_owned()));
    record.array = Some(ArraySpec::parse("0-3%2").expect("an array"));
    record.parts = vec![ArrayPart {
        job_id: JobId("96".to_owned()),
        offset: 2,
    }];
    record.framework = Framework {
        name: Some("pytorch".to_owned()),
        version: Some("2.1".to_owned()),
        compiler: Some("inductor".to_owned()),
        provenance: Some(Provenance::Pip),
    };
    record.image = Some(RunImage {
        source: "/shared/images/pytorch.sif".to_owned(),
        name: Some("pytorch-2.1".to_owned()),
        digest: Some("sha256:00ff".to_owned()),
    });
    record.storage = Some(("scratch".to_owned(), StorageClass::Ssd));
    let ended = |element, exit, state| {
        let status = Status {
            exit: Some(exit),
            started_at_ms: Some(4_000),
            ended_at_ms: Some(5_000),
            cause: Cause::of(state, Some(exit), None),
            ..Status::of(state)
        };
        Element {
            element,
            attempt: Some(1),
            status,
        }
    };
    let elements = vec![
        ended(0, ExitStatus::Code(0), JobState::Completed),
        ended(1, ExitStatus::Signal(11), JobState::Failed),
    ];
    let waits = |element| {
        let status = Status {
            reason: Some("JobHeldUser".to_owned()),
            stuck: true,
            ..Status::of(JobState::Pending)
        };
        Element {
            element,
            attempt: None,
            status,
        }
    };
    let all: Vec<Element> = elements
        .iter()
        .cloned()
        .chain([waits(2), waits(3)])
        .collect();
    (record, merge_elements(&all), elements)
}

fn gpu() -> GpuUsage {
    let gpu = GpuFacts {
        uuid: "GPU-1".to_owned(),
        name: "NVIDIA H200".to_owned(),
        minor: Some(3),
        mem_total_bytes: Some(150_754_820_096),
        mig: Some(false),
        ..GpuFacts::default()
    };
    let energy_joules = Some(1_234.5);
    GpuUsage {
        readings: 60,
        energy_joules,
        idle_seconds: 2.0,
        xid_errors: 1,
        ..GpuUsage::of(gpu)
    }
}

/// All that can be recognised.
fn progress() -> Progress {
    let mut progress = node(run_id(1), "n1", 1).progress;
    progress.epochs[0].warmup = true;
    progress.epochs[1].event = true;
    progress.epochs[1].samples = Some(60_000);
    progress.epochs[1].evaluation_seconds = Some(0.25);
    progress.epochs[1].checkpoint_seconds = Some(0.125);
    Progress {
        epochs_announced: Some(3),
        epoch_numbering: Some(EpochNumbering::OneBased),
        steps_per_epoch: Some(469),
        last_step: Some(StepMark {
            epoch: Some(2),
            step: Some(469),
            of: Some(469),
        }),
        step_seconds: Some(0.003),
        step_times: Some(StepTimes {
            source: TimeSource::Clock,
            steps: 900,
            median_seconds: 0.003,
            p95_seconds: 0.004,
            data_wait_ratio: Some(0.25),
        }),
        throughput: Some(Throughput {
            value: 812.5,
            unit: "samples/s".to_owned(),
            scope: Scope::PerDevice,
        }),
        run_seconds: Some(3.75),
        evaluation_seconds: Some(0.75),
        checkpoint_seconds: Some(1.5),
        restarts: 1,
        last_metrics: [("loss".to_owned(), 0.5)].into(),
        ..progress
    }
}

fn conditions() -> Conditions {
    let of = |of: &str, class: &str| record::StorageClass {
        of: of.to_owned(),
        class: class.to_owned(),
    };
    Conditions {
        affinity: Some("0-3,8".to_owned()),
        cpus_effective: Some(4.0),
        others_cpus_busy: Some(0.5),
        storage: vec![of("workdir", "nfs4")],
        ..Conditions::default()
    }
}

/// What the newest fixture holds; the same records go into a new database in the tests of idempotency.
fn foretold() -> Forecast {
    let epoch_seconds = Interval {
        mean: 3.0,
        median: 2.9,
        low: 2.0,
        high: 4.0,
    };
    Forecast {
        beyond: vec!["batch".to_owned()],
        ..forecast(epoch_seconds)
    }
}

fn fill(store: &mut Store) {
    let mut first = run(run_id(1), "mnist", 1_000);
    first.job_id = Some(JobId("4711".to_owned()));
    (first.queue, first.tasks_per_node, first.forecast) =
        (Some("gpu".to_owned()), Some(2), Some(foretold()));
    let mut record = node(run_id(1), "n1", 5_000);
    record.gaps = vec![Gap {
        from_ms: 1,
        to_ms: 2,
        why: "stopped".to_owned(),
    }];
    record.missing = vec![Missing {
        what: "io_read_bytes".to_owned(),
        why: "not permitted".to_owned(),
    }];
    record.cgroup = Some("system.slice/slurmstepd.scope/job_4711/step_0".to_owned());
    record.usage.cpu_throttled_seconds = Some(1.5);
    record.usage.mem_oom_kills = Some(2);
    record.gpus = vec![gpu()];
    record.container = Some(container());
    record.events = vec![Event {
        at_ms: 3_000,
        kind: EventKind::OomKill,
        detail: "one of `python3`".to_owned(),
    }];
    record.progress = progress();
    record.conditions = conditions();
    let key = record.key.clone();
    let outcome = Outcome {
        start: Some(mark(2_000, None)),
        end: Some(mark(9_000, Some(0))),
        nodes: vec![record],
        ..Outcome::default()
    };
    let segment = Segment {
        seq: 0,
        t0_ms: 1_000,
        t1_ms: 5_000,
        samples: 5,
        bytes: b"samples",
    };
    write(store, |writer| {
        writer.upsert_run(&first)?;
        writer.upsert_run(&run(run_id(2), "resnet", 2_000))?;
        writer.set_status(&run_id(1), &completed())?;
        writer.ingest_attempt(&run_id(1), 0, 0, &outcome)?;
        assert!(writer.ingest_segment(&key, segment)?);
        let (record, status, elements) = sweep();
        writer.upsert_run(&record)?;
        writer.set_elements(&record.run_id, &elements)?;
        writer.set_status(&record.run_id, &status)
    });
}

#[test]
fn an_array_is_read_back_with_its_elements() {
    let (_tmp, mut store) = store();
    fill(&mut store);
    let (record, status, elements) = sweep();
    let row = store.run(&record.run_id).expect("read").expect("there");
    assert_eq!((row.record, row.status), (record.clone(), status));
    assert_eq!(store.elements(&record.run_id).expect("read"), elements);
    let found = Found::One(record.run_id.clone());
    for text in ["95", "95_3", "96", "96_1", "95[2]"] {
        assert_eq!(store.find(text).expect("read"), found, "{text}");
    }
    for text in ["9", "95_", "95.n", "95_x", "950"] {
        assert_eq!(store.find(text).expect("read"), Found::None, "{text}");
    }
    write(&mut store, |writer| writer.forget_run(&record.run_id));
    assert_eq!(store.elements(&record.run_id).expect("read"), []);
}

#[test]
fn jobs_of_the_pbs_family_are_found_by_their_number() {
    let (_tmp, mut store) = store();
    for (place, job) in [(1, "14.vm"), (2, "12[].vm")] {
        let mut record = run(run_id(place), "pbs", 1_000);
        record.job_id = Some(JobId(job.to_owned()));
        write(&mut store, |writer| writer.upsert_run(&record));
    }
    let found = |text: &str| store.find(text).expect("read");
    for text in ["14", "14.vm"] {
        assert_eq!(found(text), Found::One(run_id(1)), "{text}");
    }
    for text in ["12", "12[]", "12[3]", "12[].vm"] {
        assert_eq!(found(text), Found::One(run_id(2)), "{text}");
    }
}

/// Every row of every table, without what depends on the order in which they came: the numbers of changes.
fn dump_without_numbers(store: &Store) -> String {
    let normal = "UPDATE run SET change_seq = -id; UPDATE node SET change_seq = -id; UPDATE block SET change_seq = -rowid;
        UPDATE gpu SET change_seq = -node; UPDATE event SET change_seq = -node * 1000 - place;
        UPDATE timing SET change_seq = -node * 1000 - place;
        UPDATE metric SET change_seq = -node * 1000 - place; UPDATE attempt SET change_seq = -id; UPDATE change SET store = '', last = 0;";
    let done = Command::new("sqlite3")
        .arg(store.path())
        .arg(normal)
        .status();
    assert!(done.map_or(true, |done| done.success()));
    dump(store)
}

/// Every row of every table.
fn dump(store: &Store) -> String {
    let done = Command::new("sqlite3")
        .arg(store.path())
        .arg(".dump")
        .output();
    match done {
        Ok(done) if done.status.success() => String::from_utf8(done.stdout).expect("text"),
        _ => format!(
            "{:?} {:?} {:?}",
            store.list(99, &Filter::default()),
            store.node_records(&run_id(1)),
            store.elements(&run_id(1))
        ),
    }
}

#[test]
fn taking_in_twice_changes_nothing() {
    let (_tmp, mut store) = store();
    fill(&mut store);
    let once = dump(&store);
    fill(&mut store);
    assert_eq!(dump(&store), once);
}

#[test]
fn a_newer_record_replaces_and_an_older_does_not() {
    let (_tmp, mut store) = store();
    fill(&mut store);
    let mut newer = node(run_id(1), "n1", 6_000);
    newer.state = NodeState::Ended;
    newer.usage.wall_seconds = Some(6.0);
    newer.progress.epochs.truncate(1);
    write(&mut store, |writer| writer.ingest_node(&newer));
    let after = dump(&store);
    write(&mut store, |writer| {
        writer.ingest_node(&node(run_id(1), "n1", 5_999))
    });
    assert_eq!(dump(&store), after);
    let read = store.node_records(&run_id(1)).expect("read").remove(0);
    assert_eq!(read.usage, newer.usage);
    assert_eq!(read.progress.epochs, newer.progress.epochs);
}

#[test]
fn a_job_id_is_not_forgotten_when_the_record_was_older() {
    let (_tmp, mut store) = store();
    fill(&mut store);
    write(&mut store, |writer| {
        writer.upsert_run(&run(run_id(1), "mnist", 1_000))
    });
    let row = store.run(&run_id(1)).expect("read").expect("is there");
    assert_eq!(
        (row.record.job_id, row.status),
        (Some(JobId("4711".to_owned())), completed())
    );
}

#[test]
fn what_was_measured_is_read_back() {
    let (_tmp, mut store) = store();
    fill(&mut store);
    let mut record = node(run_id(1), "n1", 5_000);
    record.usage.cpu_throttled_seconds = Some(1.5);
    record.usage.mem_oom_kills = Some(2);
    let read = store.node_records(&run_id(1)).expect("read");
    assert_eq!((read.len(), &read[0].key), (1, &record.key));
    assert_eq!(read[0].usage, record.usage);
    assert_eq!(read[0].progress, progress());
    assert_eq!(read[0].conditions, conditions());
    assert_eq!(read[0].gpus, [gpu()]);
    assert_eq!(read[0].events[0].kind, EventKind::OomKill);
    let blocks = crate::support::index_rows::blocks(&store, &record.key);
    assert_eq!(
        (blocks.len(), blocks[0].samples, blocks[0].bytes.as_slice()),
        (1, 5, b"samples".as_slice())
    );
}

/// What a run with `[resume]` left: three starts of one that was lost in between, with epochs that were trained again.
#[test]
fn starts_are_read_back_and_count_as_one() {
    let (_tmp, mut store) = store();
    let id = run_id(1);
    let start = |attempt: u32, first: u64, until: Option<u64>| {
        let mut measured = node(id.clone(), "n1", 1_000 * first + 4_000);
        (measured.key.attempt, measured.progress.epoch_numbering) =
            (attempt, Some(EpochNumbering::OneBased));
        let epochs = measured.progress.epochs.iter_mut().zip(first..);
        epochs.for_each(|(epoch, number)| epoch.epoch = number);
        Outcome {
            start: Some(mark(1_000 * first, None)),
            end: until.map(|at_ms| mark(at_ms, Some(143))),
            attempt: Some(crate::records::attempt(attempt > 0)),
            nodes: vec![measured],
            ..Outcome::default()
        }
    };
    let outcomes = [
        start(0, 1, Some(4_000)),
        start(1, 3, None),
        start(2, 4, None),
    ];
    let running = Status::of(JobState::Running);
    for _ in 0..2 {
        write(&mut store, |writer| {
            writer.upsert_run(&run(id.clone(), "mnist", 1_000))?;
            writer.set_status(&id, &running)?;
            let mut starts = (0..).zip(&outcomes);
            starts.try_for_each(|(attempt, of)| writer.ingest_attempt(&id, 0, attempt, of))
        });
    }
    let read = store.attempts(&id).expect("read");
    let expected = outcomes.iter().map(AttemptMarks::from);
    assert!(read.iter().map(|(_, marks)| marks.clone()).eq(expected));
    assert_eq!(read[2].0.attempt, 2);
    let continued = |store: &Store| {
        let all = store
            .continued(&[id.clone(), run_id(2)], 9_000)
            .expect("read");
        assert_eq!(all.len(), 1);
        all[&(id.clone(), None)].to_string()
    };
    // Until its end mark, as long as it was watched, and until now.
    let text = "3 starts, which ran 12.0 s together and trained 5 epochs";
    assert_eq!(continued(&store), text);
    write(&mut store, |writer| {
        writer.set_status(&id, &Status::of(JobState::Failed))
    });
    assert!(continued(&store).contains("ran 11.0 s"));
    write(&mut store, |writer| {
        let mut outcome = outcomes[0].clone();
        outcome.nodes[0].updated_at_ms += 1;
        outcome.nodes[0].progress.epoch_numbering = Some(EpochNumbering::Unnumbered);
        writer.ingest_attempt(&id, 0, 0, &outcome)
    });
    assert!(continued(&store).ends_with("together"));
}

#[test]
fn parts_of_an_unknown_run_are_refused_whole() {
    let (_tmp, mut store) = store();
    let error = store.write(|writer| {
        writer.upsert_run(&run(run_id(1), "mnist", 1))?;
        writer.ingest_node(&node(run_id(7), "n1", 1))
    });
    assert!(
        matches!(error, Err(ref error) if error.kind == StoreFault::UnknownRun),
        "{error:?}"
    );
    assert_eq!(
        store.known_runs().expect("read").len(),
        0,
        "the transaction is undone"
    );
    let segment = Segment {
        seq: 0,
        t0_ms: 1,
        t1_ms: 2,
        samples: 1,
        bytes: b"",
    };
    let key = node(run_id(7), "n1", 1).key;
    assert!(!write(&mut store, |writer| writer.ingest_segment(&key, segment)));
}

#[test]
fn a_forgotten_run_takes_everything_along() {
    let (_tmp, mut store) = store();
    fill(&mut store);
    write(&mut store, |writer| writer.forget_run(&run_id(1)));
    assert_eq!(store.node_records(&run_id(1)).expect("read"), []);
    fill(&mut store);
    write(&mut store, |writer| writer.clear());
    assert_eq!(store.known_runs().expect("read").len(), 0);
}

#[test]
fn text_of_users_is_kept_as_it_is() {
    let (_tmp, mut store) = store();
    let mut hostile = run(run_id(1), "'; DROP TABLE run; --", u64::MAX);
    hostile.workdir = "/home/ä\u{1b}\n%_\\".to_owned();
    hostile.workload.parameters = Some(u64::MAX);
    write(&mut store, |writer| writer.upsert_run(&hostile));
    let row = store.run(&run_id(1)).expect("read").expect("is there");
    assert_eq!(
        (row.record.name, row.record.workdir),
        (hostile.name.clone(), hostile.workdir)
    );
    assert_eq!(
        row.record.workload.parameters,
        Some(i64::MAX.unsigned_abs())
    );
    assert_eq!(
        store.find(&hostile.name).expect("read"),
        Found::One(run_id(1))
    );
}

#[test]
fn runs_are_found_by_every_name_they_have() {
    let (_tmp, mut store) = store();
    let id = |text: &str| text.parse::<RunId>().expect("an id");
    let (old, new, other) = (
        id("abcd000000000000"),
        id("abce000000000000"),
        id("47110000000000zz"),
    );
    write(&mut store, |writer| {
        let mut by_job = run(old.clone(), "mnist", 1);
        by_job.job_id = Some(JobId("4711".to_owned()));
        writer.upsert_run(&by_job)?;
        writer.upsert_run(&run(new.clone(), "mnist", 2))?;
        writer.upsert_run(&run(other.clone(), "abcd", 3))
    });
    let find = |text: &str| store.find(text).expect("read");
    assert_eq!(find("@1"), Found::One(other.clone()));
    assert_eq!(find("@3"), Found::One(old.clone()));
    assert_eq!(
        find("mnist"),
        Found::One(new.clone()),
        "the newest of that name"
    );
    assert_eq!(find("abcd000000000000"), Found::One(old.clone()));
    assert_eq!(find("abcd0"), Found::One(old.clone()));
    assert_eq!(
        find("abcd"),
        Found::One(other.clone()),
        "a name comes before a prefix"
    );
    assert_eq!(
        find("4711"),
        Found::One(old.clone()),
        "a job id comes before a prefix"
    );
    for nothing in [
        "",
        "@",
        "@0",
        "@4",
        "@-1",
        "@+1",
        "@x",
        "abc",
        "none",
        "%",
        "@99999999999999999999",
    ] {
        assert_eq!(find(nothing), Found::None, "{nothing}");
    }
    let prefixes = store.shortest_prefixes(&[old, new, other]).expect("read");
    assert_eq!(prefixes, ["abcd0", "abce", "47110"]);
}

#[test]
fn what_fits_several_runs_is_ambiguous() {
    let (_tmp, mut store) = store();
    write(&mut store, |writer| {
        let mut by_job = run(run_id(1), "a", 1);
        by_job.job_id = Some(JobId("4711".to_owned()));
        writer.upsert_run(&by_job)?;
        writer.upsert_run(&run(run_id(2), "4711", 2))
    });
    assert_eq!(
        store.find("0000").expect("read"),
        Found::Ambiguous(vec![run_id(2), run_id(1)])
    );
    assert_eq!(
        store.find("4711").expect("read"),
        Found::Ambiguous(vec![run_id(2), run_id(1)])
    );
}

#[test]
fn lists_are_filtered_and_the_newest_come_first() {
    let (_tmp, mut store) = store();
    fill(&mut store);
    let ids = |filter: Filter| -> Vec<RunId> {
        store
            .list(10, &filter)
            .expect("read")
            .into_iter()
            .map(|row| row.record.run_id)
            .collect()
    };
    assert_eq!(ids(Filter::default()), [run_id(3), run_id(2), run_id(1)]);
    assert_eq!(
        ids(Filter {
            name: Some("mnist".to_owned()),
            ..Filter::default()
        }),
        [run_id(1)]
    );
    assert_eq!(
        ids(Filter {
            states: vec![JobState::Unknown],
            ..Filter::default()
        }),
        [run_id(2)]
    );
    assert_eq!(store.list(1, &Filter::default()).expect("read").len(), 1);
    // None of them held anything; of those that did the worst comes first.
    let held = || Filter {
        held: true,
        ..Filter::default()
    };
    assert!(ids(held()).is_empty());
    for (number, gpu_seconds) in [(1, 60.0), (3, 7200.0)] {
        let mut record = node(run_id(number), "idle", 5_000);
        record.progress.held = Some(dlrun::record::Held {
            gpu_seconds,
            node_seconds: 30.0,
            ..Default::default()
        });
        write(&mut store, |writer| writer.ingest_node(&record));
    }
    let rows = store.list(10, &held()).expect("read");
    let ids: Vec<RunId> = rows.into_iter().map(|row| row.record.run_id).collect();
    assert_eq!(ids, [run_id(3), run_id(1)]);
    assert_eq!(store.held(&run_id(3)).expect("read"), (7200.0, 30.0));
    assert_eq!(store.held(&run_id(2)).expect("read"), (0.0, 0.0));
    assert_eq!(store.unfinished().expect("read").len(), 2);
}

#[test]
fn every_shown_prefix_leads_back_to_its_run() {
    let (_tmp, mut store) = store();
    let ids: Vec<RunId> = (0..2_000).map(spread_id).collect();
    write(&mut store, |writer| {
        ids.iter()
            .zip(0..)
            .try_for_each(|(id, time)| writer.upsert_run(&run(id.clone(), "sweep", time)))
    });
    let prefixes = store.shortest_prefixes(&ids).expect("read");
    for (id, prefix) in ids.iter().zip(&prefixes) {
        assert_eq!(
            store.find(prefix).expect("read"),
            Found::One(id.clone()),
            "{prefix}"
        );
    }
    assert!(prefixes.iter().any(|prefix| prefix.len() > 4));
    assert_eq!(store.known_runs().expect("read").len(), 2_000);
}

#[test]
fn a_database_of_0_1_is_read_and_brought_up_to_date() {
    let tmp = tempfile::tempdir().expect("a directory");
    let path = tmp.path().join("dlrun.db");
    fs::copy(fixture(), &path).expect("copied");
    let mut old = Store::open(&path).expect("opened");
    let rows = old.list(10, &Filter::default()).expect("read");
    let mnist = rows
        .iter()
        .find(|row| row.record.name == "mnist")
        .expect("there");
    assert_eq!((rows.len(), &mnist.status), (3, &completed()));
    let read = old.node_records(&run_id(1)).expect("read").remove(0);
    assert_eq!((read.progress.epochs.len(), read.gpus.len()), (2, 1));
    let (_tmp, mut new) = store();
    fill(&mut new);
    fill(&mut old);
    let rows = |store: &Store| {
        let dump = dump_without_numbers(store);
        let mut rows: Vec<String> = dump.lines().map(str::to_owned).collect();
        rows.retain(|line| line.starts_with("INSERT"));
        rows.sort();
        rows
    };
    assert_eq!(rows(&old), rows(&new), "it ends up as a new one does");
}

#[test]
fn a_newer_database_is_refused_untouched() {
    let (_tmp, store) = store();
    let path = store.path().to_owned();
    drop(store);
    let mut bytes = fs::read(&path).expect("read");
    // The database header keeps `user_version` at offset 60.
    bytes[60..64].copy_from_slice(&99_u32.to_be_bytes());
    fs::write(&path, &bytes).expect("written");
    let error = Store::open(&path).expect_err("newer");
    assert!(
        error.kind == StoreFault::Newer
            && error
                .to_string()
                .ends_with("99, and this dlrun knows up to 15"),
        "{error}"
    );
    assert_eq!(fs::read(&path).expect("read"), bytes);
}

#[test]
fn a_damaged_database_is_named_so_and_can_be_replaced() {
    let whole = fs::read(fixture()).expect("read");
    let mut torn = whole.clone();
    torn.truncate(5_000);
    let mut holed = whole.clone();
    holed[4_096..].fill(0xa5);
    for (what, content) in [
        (
            "garbage",
            b"garbage, and more than a header of it".repeat(9),
        ),
        ("torn", torn),
        ("holed", holed),
    ] {
        let tmp = tempfile::tempdir().expect("a directory");
        let path = tmp.path().join("dlrun.db");
        fs::write(&path, content).expect("written");
        let used = Store::open(&path).and_then(|mut store| {
            store.write(|writer| writer.upsert_run(&run(run_id(1), "a", 1)))?;
            store.list(10, &Filter::default())
        });
        assert!(
            matches!(used, Err(ref error) if error.kind == StoreFault::Damaged),
            "{what}: {used:?}"
        );
        let aside = Store::set_aside(&path).expect("moved");
        fill(&mut Store::open(&path).expect("a new one"));
        assert!(aside.exists());
    }
}

#[test]
fn other_peoples_files_are_left_alone() {
    let tmp = tempfile::tempdir().expect("a directory");
    let target = tmp.path().join("target");
    let link = tmp.path().join("dlrun.db");
    symlink(&target, &link).expect("a link");
    assert!(matches!(
        Store::open(&link),
        Err(ref error) if error.kind == StoreFault::NotOurs
    ));
    assert!(!target.exists());
    assert!(matches!(
        Store::open(tmp.path()),
        Err(ref error) if error.kind == StoreFault::NotOurs
    ));
    assert!(matches!(
        Store::open(&tmp.path().join("no/such.db")),
        Err(ref error) if error.kind == StoreFault::Create
    ));
}

#[test]
fn the_database_is_its_owners_alone() {
    let (_tmp, store) = store();
    let mode = store
        .path()
        .metadata()
        .expect("is there")
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn processes_that_write_at_once_wait_for_each_other() {
    let tmp = tempfile::tempdir().expect("a directory");
    let path = tmp.path().join("dlrun.db");
    let test = std::env::current_exe().expect("this test");
    let writers: Vec<_> = (0..4)
        .map(|number: u32| {
            Command::new(&test)
                .args(["--exact", "store::writes_fifty_runs", "--ignored"])
                .env("DLRUN_TEST_DB", &path)
                .env("DLRUN_TEST_NUMBER", number.to_string())
                .spawn()
                .expect("started")
        })
        .collect();
    for mut writer in writers {
        assert!(writer.wait().expect("ended").success());
    }
    assert_eq!(
        Store::open(&path)
            .expect("opened")
            .known_runs()
            .expect("read")
            .len(),
        200
    );
}

#[test]
#[ignore = "run by `processes_that_write_at_once_wait_for_each_other` in processes of its own"]
fn writes_fifty_runs() {
    let (Some(path), Ok(number)) = (
        std::env::var_os("DLRUN_TEST_DB"),
        std::env::var("DLRUN_TEST_NUMBER"),
    ) else {
        return;
    };
    let number: u32 = number.parse().expect("a number");
    let mut store = Store::open(Path::new(&path)).expect("opened");
    for place in 0..50 {
        write(&mut store, |writer| {
            writer.upsert_run(&run(run_id(number * 50 + place), "a", 1))
        });
    }
}

#[test]
fn an_index_in_memory_serves_where_no_file_can() {
    let mut store = Store::in_memory().expect("opened");
    fill(&mut store);
    assert_eq!(store.find("mnist").expect("read"), Found::One(run_id(1)));
}
