//! The node's database: what was measured comes back, whatever happens to the process that writes.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use dlrun::record::store::{Live, NodeId, NodeStore, Store, StoreFault};
use dlrun::record::{
    Event, EventKind, Gap, MAX_SEGMENT_BYTES, NodeRecord, NodeState, ProcessReading, RunRecord,
    Sample, decode_segment,
};
use tempfile::TempDir;

use crate::records::{node, run, run_id};
use crate::support::index_rows::blocks;
use crate::support::noisy::{Noisy, SERIES};

/// When the tests begin.
const BEGIN_MS: u64 = 1_760_000_000_123;

fn store() -> (TempDir, NodeStore) {
    let tmp = tempfile::tempdir().expect("a directory");
    let store = NodeStore::open(&tmp.path().join("dlrun.db")).expect("opened");
    (tmp, store)
}

fn reopened(store: NodeStore) -> NodeStore {
    let path = store.store().path().to_owned();
    drop(store);
    NodeStore::open(&path).expect("opened again")
}

pub(crate) fn live() -> Live {
    let boot_id = "6a1c6c2e-7a1c-4a52-9f0e-0f4d7d2c1b3a".to_owned();
    Live {
        pid: 4711,
        start_time_ticks: 99,
        boot_id,
        state: "{\"interval_ms\":1000}".to_owned(),
    }
}

pub(crate) fn records(number: u32) -> (RunRecord, NodeRecord) {
    (
        run(run_id(number), "mnist", BEGIN_MS),
        node(run_id(number), "n1", BEGIN_MS),
    )
}

pub(crate) fn registered(store: &mut NodeStore, number: u32) -> NodeId {
    let (run, record) = records(number);
    store
        .register(&run, 1000, &record, &live())
        .expect("registered")
}

/// Samples as a daemon takes them: processes every fifth time.
fn samples(count: usize) -> Vec<Sample> {
    let mut noisy = Noisy::new(BEGIN_MS);
    let thinned = |number: usize| {
        let mut sample = noisy.next();
        if number % 5 != 3 {
            sample.commands.clear();
        }
        sample
    };
    (0..count).map(thinned).collect()
}

fn append(store: &mut NodeStore, node: NodeId, samples: &[Sample]) {
    for sample in samples {
        store.append(&[(node, sample)]).expect("appended");
    }
}

/// The user id that a run was registered with.
pub(crate) fn owner(store: &NodeStore, run_id: &dlrun::job::RunId) -> Option<u32> {
    store.store().run(run_id).expect("read")?.uid
}

#[test]
fn samples_come_back_from_spool_and_blocks_and_after_a_restart() {
    let (_tmp, mut store) = store();
    let (one, other) = (registered(&mut store, 1), registered(&mut store, 2));
    let samples = samples(40);
    let mut taken = 0;
    for until in [1, 9, 10, 25, 26, 40] {
        append(&mut store, one, &samples[taken..until]);
        append(&mut store, other, &samples[taken..until]);
        taken = until;
        assert_eq!(store.read_samples(one, 0).expect("read"), samples[..until]);
        if until % 2 == 1 {
            store.fold(&[one]).expect("folded");
        }
        store = reopened(store);
        assert_eq!(
            store.read_samples(one, 0).expect("read"),
            samples[..until],
            "{until}"
        );
        assert_eq!(
            store.read_samples(other, 0).expect("read"),
            samples[..until],
            "{until}"
        );
    }
    store.fold(&[one, other]).expect("folded");
    let since = samples[30].at_ms;
    assert_eq!(
        store.read_samples(other, since).expect("read"),
        samples[30..]
    );
    let key = records(1).1.key;
    assert_eq!(store.node_id(&key).expect("read"), Some(one));
    let blocks = blocks(store.store(), &key);
    let counts: Vec<(u32, u32)> = blocks
        .iter()
        .map(|block| (block.seq, block.samples))
        .collect();
    assert_eq!(counts, [(0, 1), (1, 8), (2, 16), (3, 15)]);
}

#[test]
fn a_sample_given_twice_changes_nothing() {
    let (_tmp, mut store) = store();
    let node = registered(&mut store, 1);
    let samples = samples(3);
    append(&mut store, node, &samples[..2]);
    append(&mut store, node, &samples[1..2]);
    store = reopened(store);
    append(&mut store, node, &samples[1..2]);
    store.fold(&[node]).expect("folded");
    append(&mut store, node, &samples[1..2]);
    store = reopened(store);
    append(&mut store, node, &samples[1..]);
    assert_eq!(store.read_samples(node, 0).expect("read"), samples);
    // Nor does one that comes after the end.
    store.end(&[(node, &records(1).1)]).expect("ended");
    assert_eq!(registered(&mut store, 1), node);
    append(&mut store, node, &samples[2..]);
    assert_eq!(store.read_samples(node, 0).expect("read"), samples);
}

#[test]
fn a_reader_that_takes_its_time_holds_nobody_up() {
    let (_tmp, mut store) = store();
    let node = registered(&mut store, 1);
    let samples = samples(40);
    append(&mut store, node, &samples[..10]);
    let reader = rusqlite::Connection::open(store.store().path()).expect("opened");
    let rows = || -> i64 {
        reader
            .query_row("SELECT count(*) FROM spool", [], |row| row.get(0))
            .expect("a number")
    };
    reader.execute_batch("BEGIN").expect("begun");
    assert_eq!(rows(), 10);
    append(&mut store, node, &samples[10..30]);
    store.fold(&[node]).expect("folded");
    append(&mut store, node, &samples[30..]);
    assert_eq!(rows(), 10, "what was there at its beginning");
    reader.execute_batch("COMMIT").expect("ended");
    assert_eq!(rows(), 10, "what came after the fold");
    assert_eq!(store.read_samples(node, 0).expect("read"), samples);
    let before = fs::metadata(store.store().path()).expect("is there").len();
    store.fold(&[node]).expect("folded");
    assert!(
        fs::metadata(store.store().path()).expect("is there").len() > before,
        "the journal was moved"
    );
}

#[test]
fn a_clock_that_jumps_back_loses_nothing() {
    let (_tmp, mut store) = store();
    let node = registered(&mut store, 1);
    let mut samples = samples(20);
    for sample in &mut samples[8..] {
        sample.at_ms -= 3_600_000;
    }
    append(&mut store, node, &samples);
    assert_eq!(store.read_samples(node, 0).expect("read"), samples);
    store.fold(&[node]).expect("folded");
    assert_eq!(store.read_samples(node, 0).expect("read"), samples);
    assert_eq!(
        store.read_samples(node, samples[0].at_ms).expect("read"),
        samples[..8]
    );
    let (_, mut record) = records(1);
    record.updated_at_ms -= 3_600_000;
    record.state = NodeState::Ended;
    store.end(&[(node, &record)]).expect("ended");
    assert_eq!(store.live().expect("read"), []);
}

#[test]
fn registering_again_is_the_same_row_and_others_are_refused() {
    let (_tmp, mut store) = store();
    let node = registered(&mut store, 1);
    store.acknowledge(node, 3).expect("noted");
    store.acknowledge(node, 2).expect("noted");
    assert_eq!(registered(&mut store, 1), node);
    assert_ne!(registered(&mut store, 2), node);
    let (run, mut record) = records(1);
    let refused = store.register(&run, 1001, &record, &live());
    assert!(
        matches!(refused, Err(ref error) if error.kind == StoreFault::OtherUser),
        "{refused:?}"
    );
    record.key.run_id = run_id(2);
    let refused = store.register(&run, 1000, &record, &live());
    assert!(
        matches!(refused, Err(ref error) if error.kind == StoreFault::UnknownRun),
        "{refused:?}"
    );
    let refused = store.update(node, &record);
    assert!(
        matches!(refused, Err(ref error) if error.kind == StoreFault::UnknownRun),
        "{refused:?}"
    );
    assert_eq!(owner(&store, &run_id(1)), Some(1000));
    assert_eq!(owner(&store, &run_id(9)), None);
    let found = store.live().expect("read");
    let taken = |at: usize| store.acknowledged(found[at].node).expect("read");
    assert_eq!((found.len(), taken(0), taken(1)), (2, Some(3), None));
}

#[test]
fn what_was_live_is_found_after_a_restart_until_it_ends() {
    let (_tmp, mut store) = store();
    let node = registered(&mut store, 1);
    let (_, mut record) = records(1);
    record.usage.mem_oom_kills = Some(1);
    record.gaps = vec![Gap {
        from_ms: 1,
        to_ms: 2,
        why: "late".to_owned(),
    }];
    store.update(node, &record).expect("written");
    let gap = Gap {
        from_ms: 5,
        to_ms: 9,
        why: "the disk was full".to_owned(),
    };
    let event = Event {
        at_ms: 7,
        kind: EventKind::Xid,
        detail: "79".to_owned(),
    };
    record.events.push(event);
    record.gaps.push(gap);
    store.update(node, &record).expect("written");
    let samples = samples(2);
    append(&mut store, node, &samples);
    store = reopened(store);
    let found = store.live().expect("read").remove(0);
    assert_eq!(
        (found.node, found.uid, &found.live, &found.record),
        (node, 1000, &live(), &record)
    );
    assert_eq!(found.last_at_ms, Some(samples[1].at_ms));
    store.fold(&[node]).expect("folded");
    let found = store.live().expect("read").remove(0);
    assert_eq!(found.last_at_ms, Some(samples[1].at_ms));
    let late = Sample {
        at_ms: BEGIN_MS + 9_000,
        threads: Some(1),
        ..Sample::default()
    };
    append(&mut store, node, std::slice::from_ref(&late));
    record.state = NodeState::Ended;
    store.end(&[(node, &record)]).expect("ended");
    assert_eq!(store.live().expect("read"), []);
    assert_eq!(store.read_samples(node, late.at_ms).expect("read"), [late]);
    let read = store.store().node_records(&run_id(1)).expect("read");
    assert_eq!((read[0].usage, read[0].events.len()), (record.usage, 1));
}

#[test]
fn what_is_collected_is_all_of_it_in_few_segments() {
    let (_tmp, mut store) = store();
    let node = registered(&mut store, 1);
    assert_eq!(
        store.collect(node, None, MAX_SEGMENT_BYTES).expect("read"),
        None
    );
    let samples = samples(200);
    for part in samples.chunks(10) {
        append(&mut store, node, part);
        store.fold(&[node]).expect("folded");
    }
    for (max_bytes, most) in [(MAX_SEGMENT_BYTES, 2), (40_000, 12), (1, 20)] {
        let (mut read, mut after, mut pieces) = (Vec::new(), None, 0);
        while let Some(collected) = store.collect(node, after, max_bytes).expect("collected") {
            read.extend(decode_segment(&collected.bytes).expect("a segment"));
            assert!(collected.bytes.len() <= max_bytes || max_bytes == 1);
            assert_eq!(collected.more, collected.through_seq < 19);
            (after, pieces) = (Some(collected.through_seq), pieces + 1);
        }
        assert_eq!(read, samples);
        assert!(pieces <= most, "{pieces} pieces of {max_bytes} bytes");
    }
    let late = Sample {
        at_ms: BEGIN_MS + 900_000,
        ..Sample::default()
    };
    append(&mut store, node, std::slice::from_ref(&late));
    let last = store
        .collect(node, Some(19), MAX_SEGMENT_BYTES)
        .expect("read")
        .expect("what was spooled");
    assert_eq!(
        (
            decode_segment(&last.bytes).expect("a segment"),
            last.through_seq
        ),
        (vec![late], 20)
    );
}

#[test]
fn processes_that_come_and_go_are_handed_over_too() {
    let (_tmp, mut store) = store();
    let node = registered(&mut store, 1);
    let of_one = |number: u32| {
        let commands = vec![ProcessReading {
            pid: number,
            start_time_ticks: u64::from(number),
            name: "sleep".into(),
            cpu_us: Some(1),
            ..ProcessReading::default()
        }];
        Sample {
            at_ms: BEGIN_MS + u64::from(number) * 100,
            commands,
            ..Sample::default()
        }
    };
    let samples: Vec<Sample> = (1..=1800).map(of_one).collect();
    for (number, sample) in samples.iter().enumerate() {
        store.append(&[(node, sample)]).expect("appended");
        if number % 60 == 59 {
            store.fold(&[node]).expect("folded");
        }
    }
    let (mut after, mut read) = (None, Vec::new());
    while let Some(collected) = store
        .collect(node, after, MAX_SEGMENT_BYTES)
        .expect("collected")
    {
        read.extend(decode_segment(&collected.bytes).expect("a segment that its reader takes"));
        after = Some(collected.through_seq);
    }
    assert_eq!(read, samples);
}

#[test]
fn runs_that_are_over_go_and_live_ones_stay() {
    let (_tmp, mut store) = store();
    let samples = samples(60);
    for number in 1..=4 {
        let node = registered(&mut store, number);
        append(&mut store, node, &samples);
        if number != 2 {
            let (_, mut record) = records(number);
            record.ended_at_ms = Some(BEGIN_MS + 1_000 * u64::from(number));
            record.state = NodeState::Ended;
            store.end(&[(node, &record)]).expect("ended");
        }
    }
    let size = || fs::metadata(store.store().path()).expect("is there").len();
    let before = size();
    let day_later = BEGIN_MS + 86_400_000;
    let kept = store.retain(day_later, 86_400_000, u64::MAX).expect("kept");
    assert_eq!(
        (kept.forgotten, kept.before_bytes),
        (vec![], kept.after_bytes)
    );
    let first = store
        .retain(day_later + 2_000, 86_400_000, u64::MAX)
        .expect("kept");
    assert_eq!(first.forgotten, [run_id(1)]);
    let second = store
        .retain(day_later, 86_400_000, first.after_bytes - 1)
        .expect("kept");
    assert_eq!(second.forgotten, [run_id(3)]);
    assert!(second.after_bytes < first.after_bytes && first.after_bytes < first.before_bytes);
    let last = store.retain(day_later, u64::MAX, 0).expect("kept");
    assert_eq!(last.forgotten, [run_id(4)]);
    assert!(last.after_bytes > 0);
    let live = store.live().expect("read");
    assert_eq!(
        (
            live.len(),
            store.read_samples(live[0].node, 0).expect("read").len()
        ),
        (1, 60)
    );
    let after = fs::metadata(store.store().path()).expect("is there").len();
    assert!(after < before * 2 / 3, "{before} bytes became {after}");
    // Samples of a run that is gone are nobody's.
    let gone = store.node_id(&records(1).1.key).expect("read");
    assert_eq!(gone, None);
}

#[test]
fn many_runs_of_one_user_make_room_at_the_cost_of_that_user() {
    let (_tmp, mut store) = store();
    // Run 1 is the oldest, and the only one of its user.
    for number in 1..=50 {
        let (run, mut record) = records(number);
        let uid = if number == 1 { 1001 } else { 1000 };
        let node = store
            .register(&run, uid, &record, &live())
            .expect("registered");
        record.ended_at_ms = Some(BEGIN_MS + 1_000 * u64::from(number));
        record.state = NodeState::Ended;
        store.end(&[(node, &record)]).expect("ended");
    }
    let first = store.retain(BEGIN_MS, u64::MAX, 0).expect("kept");
    // Not all at once.
    assert!(first.more && first.forgotten.len() < 49, "{first:?}");
    let second = store.retain(BEGIN_MS, u64::MAX, 0).expect("kept");
    assert!(!second.more && second.after_bytes > 0);
    let all: Vec<_> = (2..50).chain([1, 50]).map(run_id).collect();
    assert_eq!([first.forgotten, second.forgotten].concat(), all);
}

#[test]
fn live_runs_lose_their_oldest_samples_where_there_is_no_room() {
    let (_tmp, mut store) = store();
    let few = registered(&mut store, 1);
    let (run, record) = records(2);
    let many = store
        .register(&run, 1001, &record, &live())
        .expect("registered");
    let samples = samples(6_000);
    store.backfill(few, &samples[..120]).expect("taken");
    for part in samples.chunks(60) {
        store.backfill(many, part).expect("taken");
    }
    let before = store.used_bytes().expect("counted");
    let kept = store
        .retain(BEGIN_MS, u64::MAX, before - 10_000)
        .expect("kept");
    assert!(
        kept.forgotten.is_empty() && kept.after_bytes <= before - 10_000 && !kept.more,
        "{kept:?}"
    );
    let [gone] = kept.shortened[..] else {
        panic!("{kept:?}")
    };
    assert_eq!(
        (gone.node, gone.from_ms, gone.samples, gone.collected),
        (many, samples[0].at_ms, 3_600, false)
    );
    let left = store.read_samples(many, 0).expect("read");
    assert_eq!(left, samples[3_600..]);
    assert_eq!(gone.to_ms, samples[3_599].at_ms);
    // The rest its client can still collect, and what comes goes on.
    assert!(store.collect(many, None, 1 << 20).expect("read").is_some());
    let kept = store.retain(BEGIN_MS, u64::MAX, 0).expect("kept");
    assert!(
        !kept.more
            && kept
                .shortened
                .iter()
                .all(|gone| gone.node == many || gone.samples < 120),
        "{kept:?}"
    );
    assert!(!store.read_samples(many, 0).expect("read").is_empty());
    assert_eq!(store.live().expect("read").len(), 2);
}

#[test]
fn a_second_process_is_told_who_has_it() {
    let (tmp, store) = store();
    let path = tmp.path().join("dlrun.db");
    let refused = NodeStore::open(&path).expect_err("held");
    let holder = std::process::id().to_string();
    assert!(
        refused.kind == StoreFault::Held && refused.to_string().ends_with(&holder),
        "{refused}"
    );
    assert!(
        refused.to_string().contains(&format!("process {holder}")),
        "{refused}"
    );
    let mode = |name: &str| {
        tmp.path()
            .join(name)
            .metadata()
            .expect("is there")
            .permissions()
            .mode()
            & 0o777
    };
    assert_eq!((mode("dlrun.db"), mode("dlrun.db.lock")), (0o640, 0o600));
    // Others read meanwhile, and exports do.
    assert_eq!(
        Store::open(&path)
            .expect("opened")
            .known_runs()
            .expect("read")
            .len(),
        0
    );
    drop(store);
    NodeStore::open(&path).expect("free again");
}

#[test]
fn what_is_not_ours_is_left_alone() {
    let tmp = tempfile::tempdir().expect("a directory");
    let path = tmp.path().join("dlrun.db");
    symlink(tmp.path().join("elsewhere"), &path).expect("a link");
    assert!(matches!(
        NodeStore::open(&path),
        Err(ref error) if error.kind == StoreFault::NotOurs
    ));
    fs::remove_file(&path).expect("removed");
    drop(NodeStore::open(&path).expect("opened"));
    let mut bytes = fs::read(&path).expect("read");
    // The database header keeps `user_version` at offset 60.
    bytes[60..64].copy_from_slice(&99_u32.to_be_bytes());
    fs::write(&path, &bytes).expect("written");
    let error = NodeStore::open(&path).expect_err("newer");
    assert!(error.kind == StoreFault::Newer, "{error}");
    assert_eq!(fs::read(&path).expect("read"), bytes);
    fs::write(&path, b"garbage, and more than a header of it".repeat(9)).expect("written");
    assert!(matches!(
        NodeStore::open(&path),
        Err(ref error) if error.kind == StoreFault::Damaged
    ));
    fs::write(tmp.path().join("dlrun.db-wal"), b"old").expect("written");
    Store::set_aside(&path).expect("moved");
    let store = NodeStore::open(&path).expect("a new one");
    assert_eq!(store.live().expect("read"), []);
    assert!(tmp.path().join("dlrun.db.old-1-wal").exists());
}

#[test]
fn a_database_of_0_1_is_brought_up_to_date() {
    let tmp = tempfile::tempdir().expect("a directory");
    let path = tmp.path().join("dlrun.db");
    fs::copy(
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/store/v8.db"),
        &path,
    )
    .expect("copied");
    let mut store = NodeStore::open(&path).expect("opened");
    assert_eq!(owner(&store, &run_id(1)), None);
    let node = registered(&mut store, 1);
    append(&mut store, node, &samples(1));
    assert_eq!(owner(&store, &run_id(1)), Some(1000));
}

#[test]
fn a_value_takes_two_and_a_half_bytes() {
    let (_tmp, mut store) = store();
    let empty = store.used_bytes().expect("read");
    let node = registered(&mut store, 1);
    let mut noisy = Noisy::new(BEGIN_MS);
    let ticks = 600;
    for tick in 1..=ticks {
        append(&mut store, node, &[noisy.next()]);
        if tick % 60 == 0 {
            store.fold(&[node]).expect("folded");
        }
    }
    let used = store.used_bytes().expect("read") - empty;
    let milli_bytes = used * 1_000 / (ticks * SERIES);
    assert!(milli_bytes <= 2_500, "{milli_bytes} thousandths of a byte");
}
