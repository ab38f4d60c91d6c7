//! `dlrun export`: what comes out, to whom, and how often.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, File, Permissions};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use dlrun::job::JobState;
use dlrun::record::store::{NodeStore, Segment, Store, StoreError};
use dlrun::record::{
    Event, EventKind, ExitStatus, GpuFacts, GpuReading, GpuUsage, NodeState, Outcome,
    ProcessReading, RankRecord, Sample, Sentinel, Status, Table, encode_segments,
};
use serde_json::Value;

use crate::node_store::{live, records};
use crate::records::{mark, node, run, run_id};
use crate::support::env::{DLRUN, Done, TestEnv};
use crate::support::rows::lines;
use crate::support::skip;

const BEGIN_MS: u64 = 1_760_000_000_000;

/// A place with a database that is not the user's own.
pub(crate) struct Site {
    pub(crate) env: TestEnv,
    pub(crate) db: PathBuf,
    pub(crate) out: PathBuf,
}

impl Site {
    pub(crate) fn new() -> Self {
        let env = TestEnv::new();
        let (db, out) = (env.root().join("site.db"), env.root().join("out"));
        fs::create_dir(&out).expect("it is ours");
        Self { env, db, out }
    }

    pub(crate) fn store(&self) -> Store {
        Store::open(&self.db).expect("opened")
    }

    /// The arguments of an export to a consumer.
    pub(crate) fn arguments(&self, name: &str, more: &[&str]) -> Vec<String> {
        let path = |path: &Path| path.to_string_lossy().into_owned();
        let words = [
            "export",
            "--store",
            &path(&self.db),
            "--output-dir",
            &path(&self.out),
            "--since-last",
            name,
        ];
        words
            .iter()
            .chain(more)
            .map(|word| (*word).to_owned())
            .collect()
    }

    pub(crate) fn since_last(&self, name: &str, more: &[&str]) -> Done {
        self.env.dlrun(self.arguments(name, more)).run()
    }

    /// An export that succeeds.
    fn delivers(&self, name: &str, more: &[&str]) {
        drop(self.since_last(name, more).code(0));
    }

    fn export(&self, more: &[&str]) -> Done {
        let db = self.db.to_string_lossy().into_owned();
        self.env
            .dlrun(["export", "--store", &db].iter().chain(more))
            .run()
    }

    /// The lines of all files that were delivered, in the order of their names; they are taken away.
    pub(crate) fn take(&self) -> Vec<Value> {
        let mut files: Vec<PathBuf> = fs::read_dir(&self.out)
            .expect("a directory")
            .map(|entry| entry.expect("an entry").path())
            .filter(|path| {
                !path
                    .file_name()
                    .expect("a name")
                    .to_string_lossy()
                    .starts_with('.')
            })
            .collect();
        files.sort();
        let mut lines = Vec::new();
        for file in files {
            let text = fs::read_to_string(&file).expect("text");
            lines.extend(
                text.lines()
                    .map(|line| serde_json::from_str::<Value>(line).expect("JSON")),
            );
            fs::remove_file(&file).expect("it is ours");
        }
        lines
    }

    fn cursor(&self, name: &str) -> PathBuf {
        self.env.state().join(format!("exports/{name}.json"))
    }
}

/// Takes in a run of `epochs` epochs that is over.
pub(crate) fn put_run(store: &mut Store, number: u32, epochs: u64) {
    let mut record = node(run_id(number), "n1", BEGIN_MS + 9_000);
    record.state = NodeState::Ended;
    record.ended_at_ms = Some(BEGIN_MS + 9_000);
    record.exit = Some(ExitStatus::Code(0));
    let epoch = record.progress.epochs[1].clone();
    record.progress.epochs.clear();
    record.progress.epochs_completed = 0;
    for number in 0..epochs {
        let ended_at_ms = Some(BEGIN_MS + number * 1_000);
        record.progress.push_epoch(dlrun::record::Epoch {
            epoch: number,
            ended_at_ms,
            ..epoch.clone()
        });
    }
    let status = Status {
        ended_at_ms: Some(BEGIN_MS + 9_000),
        ..Status::of(JobState::Completed)
    };
    let done = store.write(|writer| {
        writer.upsert_run(&run(run_id(number), "mnist", BEGIN_MS + u64::from(number)))?;
        writer.ingest_node(&record)?;
        writer.set_status(&run_id(number), &status)
    });
    done.expect("written");
}

fn gpu() -> GpuUsage {
    GpuUsage {
        readings: 60,
        ..GpuUsage::of(GpuFacts {
            uuid: "GPU-1".to_owned(),
            ..GpuFacts::default()
        })
    }
}

/// Samples with a GPU and a process.
fn samples(count: u64) -> Vec<Sample> {
    let process = |cpu_us| ProcessReading {
        pid: 7,
        cpu_us: Some(cpu_us),
        ..ProcessReading::default()
    };
    let one = |number: u64| Sample {
        gpus: vec![GpuReading {
            power_milliwatts: Some(300_000),
            ..GpuReading::of("GPU-1".into())
        }],
        commands: vec![process(number)],
        cpu_user_us: Some(number * 1_000),
        ..Sample {
            at_ms: BEGIN_MS + number * 1_000,
            ..Sample::default()
        }
    };
    (0..count).map(one).collect()
}

/// All that a run can leave.
pub(crate) fn put_all(store: &mut Store, number: u32) {
    put_run(store, number, 3);
    let mut record = node(run_id(number), "n1", BEGIN_MS + 9_500);
    record.state = NodeState::Ended;
    record.gpus = vec![gpu()];
    record.ranks = vec![RankRecord {
        world_size: 1,
        started_at_ms: BEGIN_MS,
        ..RankRecord::default()
    }];
    let detail = "line\nbreak, \"quoted\"".to_owned();
    record.events = vec![Event {
        at_ms: BEGIN_MS + 1,
        kind: EventKind::Note,
        detail,
    }];
    let samples = samples(5);
    let bytes = encode_segments(&samples).remove(0);
    let segment = Segment {
        seq: 0,
        t0_ms: BEGIN_MS,
        t1_ms: BEGIN_MS + 4_000,
        samples: 5,
        bytes: &bytes,
    };
    let done = store.write(|writer| {
        writer.ingest_node(&record)?;
        writer.ingest_segment(&record.key, segment)
    });
    assert!(done.expect("written"));
}

/// How often each row came: its kind and its number.
fn counted(lines: &[Value]) -> BTreeMap<(String, u64, String), usize> {
    let mut counted = BTreeMap::new();
    for line in lines {
        let text = |name: &str| line[name].as_str().unwrap_or_default().to_owned();
        let row = format!(
            "{} {} {} {}",
            line["run_id"], line["node"], line["place"], line["at_ms"]
        );
        *counted
            .entry((text("kind"), line["seq"].as_u64().expect("a number"), row))
            .or_insert(0) += 1;
    }
    counted
}

#[test]
fn every_table_comes_out_with_its_columns() {
    let site = Site::new();
    put_all(&mut site.store(), 1);
    let rows = [1, 1, 1, 2, 1, 1, 2, 1, 5, 5, 5];
    for (table, rows) in Table::ALL.into_iter().zip(rows) {
        let lines = site
            .export(&["--what", table.as_str(), "--format", "jsonl"])
            .code(0)
            .text();
        assert_eq!(lines.lines().count(), rows, "{table:?}");
        for line in lines.lines() {
            let value: Value = serde_json::from_str(line).expect("JSON");
            assert_eq!(value["kind"], table.kind());
            for field in table.fields() {
                let value = value
                    .get(field.name)
                    .unwrap_or_else(|| panic!("{table:?} has no {}", field.name));
                assert!(
                    field.is_optional() || !value.is_null(),
                    "{table:?} {}",
                    field.name
                );
            }
        }
        let csv = site.export(&["--what", table.as_str()]).code(0).text();
        let names: Vec<&str> = csv
            .split("\r\n")
            .next()
            .expect("a head")
            .split(',')
            .collect();
        let expected: Vec<&str> = table.fields().iter().map(|field| field.name).collect();
        assert_eq!(names, expected);
    }
    let gpu = site
        .export(&["--what", "gpu-samples", "--format", "jsonl"])
        .code(0)
        .text();
    let gpu: Value = serde_json::from_str(gpu.lines().last().expect("a line")).expect("JSON");
    assert_eq!(
        (&gpu["uuid"], &gpu["power_milliwatts"]),
        (&"GPU-1".into(), &300_000.into())
    );
    assert_eq!(
        (&gpu["at_ms"], &gpu["segment"]),
        (&(BEGIN_MS + 4_000).into(), &0.into())
    );
}

#[test]
fn rows_are_chosen_by_time_user_and_run() {
    let site = Site::new();
    let mut store = site.store();
    put_run(&mut store, 1, 3);
    put_run(&mut store, 2, 2);
    let lines = |more: &[&str]| {
        site.export(&[&["--what", "timings", "--format", "jsonl"], more].concat())
            .code(0)
    };
    let count = |more: &[&str]| lines(more).text().lines().count();
    assert_eq!(count(&[]), 5);
    assert_eq!(count(&["--run", run_id(2).as_str()]), 2);
    assert_eq!(
        (count(&["--user", "ada"]), count(&["--user", "bob"])),
        (5, 0)
    );
    // The first second of 2025-10-09T08:53:20Z.
    assert_eq!(count(&["--since", "2025-10-09T08:53:21Z"]), 3);
    assert_eq!(
        count(&[
            "--since",
            "2025-10-09T08:53:21Z",
            "--until",
            "2025-10-09T08:53:22Z"
        ]),
        2
    );
    assert_eq!(site.export(&["--since", "soon"]).exit_code(), Some(64));
    assert_eq!(site.export(&["--run", "none"]).exit_code(), Some(66));
}

#[test]
fn a_consumer_gets_each_row_once_and_a_corrected_one_again() {
    let site = Site::new();
    let mut store = site.store();
    let more = ["--what", "runs,usage,timings", "--format", "jsonl"];
    put_run(&mut store, 1, 3);
    site.delivers("site", &more);
    let first = site.take();
    assert_eq!(first.len(), 5);
    site.delivers("site", &more);
    assert_eq!(site.take(), Vec::<Value>::new());
    // The same again is no news.
    put_run(&mut store, 1, 3);
    site.delivers("site", &more);
    assert_eq!(site.take(), Vec::<Value>::new());
    // A run that goes on is not settled, an epoch that ended is.
    let mut record = node(run_id(2), "n1", BEGIN_MS);
    let done = store.write(|writer| {
        writer.upsert_run(&run(run_id(2), "resnet", BEGIN_MS))?;
        writer.set_status(&run_id(2), &Status::of(JobState::Running))?;
        record.gpus = vec![gpu()];
        writer.ingest_node(&record)
    });
    done.expect("written");
    let more = ["--what", "runs,usage,timings,gpus", "--format", "jsonl"];
    site.delivers("site", &more);
    let kinds = |lines: &[Value]| -> Vec<String> {
        lines
            .iter()
            .map(|line| line["kind"].as_str().expect("a kind").to_owned())
            .collect()
    };
    assert_eq!(kinds(&site.take()), ["timing", "timing"]);
    // It ends: nothing else of its GPU changed, and it must come all the same.
    record.state = NodeState::Ended;
    record.updated_at_ms += 1;
    let done = store.write(|writer| {
        writer.ingest_node(&record)?;
        writer.set_status(&run_id(2), &Status::of(JobState::Completed))
    });
    done.expect("written");
    site.delivers("site", &more);
    assert_eq!(kinds(&site.take()), ["gpu", "run", "usage"]);
    // Accounting knows better.
    let status = Status {
        raw_state: Some("TIMEOUT".to_owned()),
        ..Status::of(JobState::Timeout)
    };
    store
        .write(|writer| writer.set_status(&run_id(1), &status))
        .expect("written");
    site.delivers("site", &more);
    let again = site.take();
    assert_eq!((again.len(), &again[0]["state"]), (1, &"timeout".into()));
    assert!(again[0]["seq"].as_u64() > first[0]["seq"].as_u64());
    // Another consumer begins at the beginning.
    site.delivers("other", &more);
    assert_eq!(site.take().len(), 5 + 2 + 3);
}

#[test]
fn starts_come_once_each_when_they_are_over_and_are_imported() {
    let site = Site::new();
    let mut store = site.store();
    let id = run_id(1);
    let noted = |end: Option<Sentinel>| {
        let mut attempt = crate::records::attempt(true);
        attempt.end = attempt.end.filter(|_| end.is_some());
        Outcome {
            start: Some(mark(BEGIN_MS, None)),
            end,
            attempt: Some(attempt),
            ..Outcome::default()
        }
    };
    let first = noted(Some(mark(BEGIN_MS + 8_000, Some(0))));
    let done = store.write(|writer| {
        writer.upsert_run(&run(id.clone(), "mnist", BEGIN_MS))?;
        writer.set_status(&id, &Status::of(JobState::Running))?;
        writer.ingest_attempt(&id, 0, 0, &first)?;
        writer.ingest_attempt(&id, 0, 1, &noted(None))
    });
    done.expect("written");
    let more = ["--what", "runs,attempts", "--format", "jsonl"];
    site.delivers("site", &more);
    let came = site.take();
    assert_eq!((came.len(), &came[0]["attempt"]), (1, &0.into()));
    for (column, value) in [
        ("verdict", "timeout".into()),
        ("next", "requeue".into()),
        ("checkpoint", "/home/ada/ckpt/2.pt".into()),
        ("checkpoint_bytes", 7.into()),
        ("advanced", true.into()),
        ("save_seconds", 1.5.into()),
        ("node_hours", 0.25.into()),
        ("resumed_from", "/home/ada/ckpt/1.pt".into()),
        ("exit_code", Value::from(0)),
    ] {
        assert_eq!(came[0][column], value, "{column}");
    }
    // The other one was killed, and left no end.
    let over = |writer: &dlrun::record::store::Writer<'_>| {
        writer.set_status(&id, &Status::of(JobState::NodeFail))?;
        writer.ingest_attempt(&id, 0, 0, &first)
    };
    store.write(over).expect("written");
    site.delivers("site", &more);
    let later = site.take();
    assert_eq!(later.len(), 2);
    site.delivers("site", &more);
    assert_eq!(site.take(), Vec::<Value>::new());
    // In any order, and twice.
    let rows = [&later[0], &came[0], &later[1], &came[0]];
    let file = site.env.write("starts.jsonl", lines(rows));
    let _ = site.env.dlrun(["import"]).arg(&file).run().code(0);
    let imported = Store::open(&site.env.state().join("dlrun.db")).expect("an index");
    assert_eq!(
        imported.attempts(&id).expect("read"),
        store.attempts(&id).expect("read")
    );
    let shown = site.env.show("mnist");
    assert_eq!(shown["attempts"][0]["end"]["verdict"], "timeout");
    assert_eq!(shown["attempts"][1]["found"]["bytes"], 7);
    let shown = site.env.dlrun(["show", "mnist"]).run().code(0);
    let _ = shown
        .says("2 starts, which ran 8.00 s together")
        .says("1.pt  1.50 s");
}

#[test]
fn a_run_whose_end_its_node_did_not_see_waits_only_until_it_is_closed() {
    let site = Site::new();
    let mut store = NodeStore::open(&site.db).expect("opened");
    let (run, mut record) = records(1);
    let node = store
        .register(&run, 1000, &record, &live())
        .expect("registered");
    let more = ["--what", "runs,usage", "--format", "jsonl"];
    site.delivers("site", &more);
    assert_eq!(site.take(), Vec::<Value>::new(), "it goes on");
    // As a daemon closes it that was away when the run ended.
    (record.state, record.exit) = (NodeState::Interrupted, None);
    store.end(&[(node, &record)]).expect("ended");
    site.delivers("site", &more);
    let came: Vec<_> = site
        .take()
        .iter()
        .map(|line| (line["kind"].clone(), line["state"].clone()))
        .collect();
    assert_eq!(
        came,
        [
            ("run".into(), "unknown".into()),
            ("usage".into(), "interrupted".into())
        ]
    );
    site.delivers("site", &more);
    assert_eq!(site.take(), Vec::<Value>::new());
}

#[test]
fn epochs_that_a_record_drops_come_once_all_the_same() {
    let site = Site::new();
    let mut store = site.store();
    let more = ["--what", "timings", "--format", "jsonl"];
    let mut lines = Vec::new();
    for epochs in [10, 900, 1_500, 1_500, 2_100] {
        put_run(&mut store, 1, epochs);
        site.delivers("site", &more);
        lines.extend(site.take());
    }
    // 1000 are kept; none of those that came between two exports was beyond that.
    let places: Vec<u64> = lines
        .iter()
        .map(|line| line["place"].as_u64().expect("a place"))
        .collect();
    assert_eq!(places, (0..2_100).collect::<Vec<u64>>());
    assert!(counted(&lines).values().all(|count| *count == 1));
}

#[test]
fn what_was_on_its_way_is_delivered_once_whenever_the_export_died() {
    let site = Site::new();
    let mut store = site.store();
    let more = ["--what", "timings", "--format", "jsonl"];
    put_run(&mut store, 1, 3);
    site.delivers("site", &more);
    let delivered = fs::read_dir(&site.out)
        .expect("a directory")
        .next()
        .expect("a file")
        .expect("a file");
    let (name, content) = (
        delivered.file_name(),
        fs::read(delivered.path()).expect("read"),
    );
    let cursor: Value =
        serde_json::from_slice(&fs::read(site.cursor("site")).expect("read")).expect("JSON");
    let hidden = format!(
        ".{}.{}.tmp",
        name.to_string_lossy(),
        cursor["id"].as_str().expect("an id")
    );
    let pending = serde_json::json!({
        "table": "timings", "upto": cursor["reached"]["timings"], "dir": site.out,
        "dir_inode": fs::metadata(&site.out).expect("there").ino(), "file": name.to_string_lossy(),
        "temporary": hidden, "bytes": content.len(),
    });
    let died = |pending: &Value| {
        let mut cursor = cursor.clone();
        cursor["reached"] = serde_json::json!({});
        cursor["pending"] = pending.clone();
        fs::write(site.cursor("site"), cursor.to_string()).expect("written");
    };
    let hidden = site.out.join(hidden);
    site.take();
    // Before it was pending: what lies there is garbage, of this consumer alone.
    died(&Value::Null);
    fs::write(&hidden, "half").expect("written");
    fs::write(site.out.join(".other.tmp"), "not his").expect("written");
    site.delivers("site", &more);
    assert_eq!(
        (
            site.take().len(),
            hidden.exists(),
            site.out.join(".other.tmp").exists()
        ),
        (3, false, true)
    );
    // Before it was renamed.
    died(&pending);
    fs::write(&hidden, &content).expect("written");
    site.delivers("site", &more);
    assert_eq!((site.take().len(), hidden.exists()), (3, false));
    // After it was renamed, and the consumer has it already.
    died(&pending);
    site.delivers("site", &more);
    assert_eq!(site.take().len(), 0);
    // Somebody shortened it: what was written is written again.
    died(&pending);
    fs::write(&hidden, &content[..9]).expect("written");
    site.delivers("site", &more);
    assert_eq!((site.take().len(), hidden.exists()), (3, false));
    // A link in its place leads nowhere.
    died(&pending);
    let precious = site.env.root().join("precious");
    fs::write(&precious, &content).expect("written");
    symlink(&precious, &hidden).expect("linked");
    site.delivers("site", &more);
    assert_eq!(
        (
            site.take().len(),
            fs::read(&precious).expect("read") == content
        ),
        (3, true)
    );
    // The directory is another one: nobody can tell.
    died(&pending);
    fs::rename(&site.out, site.env.root().join("moved")).expect("moved");
    fs::create_dir(&site.out).expect("made");
    let refused = site.since_last("site", &more).code(78);
    assert!(
        refused.stderr.contains("mount or restore it"),
        "{}",
        refused.stderr
    );
}

#[test]
fn what_a_cursor_does_not_fit_is_refused_and_begun_anew_where_asked() {
    let site = Site::new();
    let mut store = site.store();
    let more = ["--what", "runs", "--format", "jsonl"];
    put_run(&mut store, 1, 3);
    site.delivers("site", &more);
    assert_eq!(site.take().len(), 1);
    assert!(
        site.since_last("site", &[&more[..], &["--user", "ada"]].concat())
            .code(64)
            .stderr
            .contains("all users")
    );
    // An index that was made anew counts anew.
    store.write(|writer| writer.clear()).expect("cleared");
    put_run(&mut store, 1, 3);
    let refused = site.since_last("site", &more).code(78);
    assert!(
        refused.stderr.contains("another name"),
        "{}",
        refused.stderr
    );
    assert_eq!(site.take(), Vec::<Value>::new());
    site.delivers("other", &more);
    assert_eq!(site.take().len(), 1);
    fs::rename(site.cursor("other"), site.cursor("site")).expect("ours");
    // A copy of long ago.
    let mut cursor: Value =
        serde_json::from_slice(&fs::read(site.cursor("site")).expect("read")).expect("JSON");
    cursor["reached"]["runs"] = 1_000_000.into();
    fs::write(site.cursor("site"), cursor.to_string()).expect("written");
    assert!(
        site.since_last("site", &more)
            .code(78)
            .stderr
            .contains("the database only")
    );
    fs::write(site.cursor("site"), "{").expect("written");
    assert!(
        site.since_last("site", &more)
            .code(78)
            .stderr
            .contains("damaged")
    );
    fs::write(site.cursor("site"), " ".repeat(100_000)).expect("written");
    assert!(
        site.since_last("site", &more)
            .code(78)
            .stderr
            .contains("larger than")
    );
    fs::remove_file(site.cursor("site")).expect("ours");
    site.delivers("site", &more);
    assert_eq!(site.take().len(), 1);
    let mut cursor: Value =
        serde_json::from_slice(&fs::read(site.cursor("site")).expect("read")).expect("JSON");
    let precious = site.env.write("precious", "precious");
    cursor["pending"] = serde_json::json!({
        "table": "runs", "upto": 9, "dir": site.out, "dir_inode": site.out.metadata().expect("there").ino(),
        "file": "../taken", "temporary": "../precious", "bytes": 8,
    });
    fs::write(site.cursor("site"), cursor.to_string()).expect("written");
    assert!(
        site.since_last("site", &more)
            .code(78)
            .stderr
            .contains("damaged")
    );
    assert!(precious.exists());
    fs::write(site.cursor("site"), "{\"format\":2}").expect("written");
    assert!(
        site.since_last("site", &more)
            .code(78)
            .stderr
            .contains("format 2")
    );
    for name in ["../x", ".x", "a/b", "", "-x", "a\nb", &"x".repeat(65)] {
        let refused = site.since_last(name, &more);
        assert_eq!(
            refused.exit_code(),
            Some(64),
            "{name:?}: {}",
            refused.stderr
        );
    }
}

#[test]
fn two_exports_at_once_are_refused_and_what_is_there_stays() {
    let site = Site::new();
    put_run(&mut site.store(), 1, 1);
    site.delivers("site", &[]);
    let lock = File::open(site.env.state().join("exports/site.lock")).expect("there");
    lock.lock().expect("locked");
    assert!(
        site.since_last("site", &[])
            .code(75)
            .stderr
            .contains("another export for `site` is running")
    );
    drop(lock);
    // Of another consumer of this name, elsewhere; or a link that somebody left there.
    let name = fs::read_dir(&site.out)
        .expect("a directory")
        .next()
        .expect("a file")
        .expect("a file")
        .path();
    fs::remove_file(&name).expect("it is ours");
    let precious = site.env.root().join("precious");
    fs::write(&precious, "precious").expect("written");
    symlink(&precious, &name).expect("linked");
    fs::remove_file(site.cursor("site")).expect("ours");
    let refused = site.since_last("site", &[]).code(64);
    assert!(
        refused.stderr.contains("another consumer's"),
        "{}",
        refused.stderr
    );
    assert_eq!(fs::read_to_string(&precious).expect("read"), "precious");
    fs::remove_file(&name).expect("ours");
    site.delivers("site", &[]);
    assert!(name.is_file());
}

#[test]
fn a_database_of_another_version_is_refused_untouched() {
    let site = Site::new();
    put_run(&mut site.store(), 1, 1);
    let whole = fs::read(&site.db).expect("read");
    for (version, said) in [(99_u32, "has version 99"), (8, "has version 8")] {
        let mut bytes = whole.clone();
        // The database header keeps `user_version` at offset 60.
        bytes[60..64].copy_from_slice(&version.to_be_bytes());
        fs::write(&site.db, &bytes).expect("written");
        let refused = site.export(&[]).code(78);
        assert!(refused.stderr.contains(said), "{}", refused.stderr);
        let _ = site
            .env
            .dlrun(["show", "--store"])
            .arg(&site.db)
            .run()
            .code(78)
            .warns(said);
        assert_eq!(fs::read(&site.db).expect("read"), bytes);
    }
    fs::write(
        &site.db,
        "no database, and longer than its header would be: ".repeat(9),
    )
    .expect("written");
    assert!(
        site.export(&[])
            .code(65)
            .stderr
            .contains("restore a copy of it")
    );
    let _ = site
        .env
        .dlrun(["list", "--store"])
        .arg(&site.db)
        .run()
        .code(65);
    fs::remove_file(&site.db).expect("removed");
    assert_eq!(site.export(&[]).exit_code(), Some(66));
    assert!(!site.db.exists());
}

#[test]
fn a_damaged_block_keeps_no_other_back() {
    let site = Site::new();
    let mut store = site.store();
    put_all(&mut store, 1);
    put_run(&mut store, 2, 1);
    let key = node(run_id(2), "n1", 1).key;
    let segment = Segment {
        seq: 0,
        t0_ms: 1,
        t1_ms: 2,
        samples: 1,
        bytes: b"damage",
    };
    assert!(
        store
            .write(|writer| writer.ingest_segment(&key, segment))
            .expect("written")
    );
    let done = site
        .export(&["--what", "samples", "--format", "jsonl"])
        .code(0);
    assert_eq!(done.text().lines().count(), 5);
    assert!(done.stderr.contains("1 damaged blocks"), "{}", done.stderr);
}

#[test]
fn usage_is_told_and_json_names_the_files() {
    let site = Site::new();
    put_all(&mut site.store(), 1);
    assert_eq!(site.export(&["--what", "runs,usage"]).exit_code(), Some(64));
    assert_eq!(site.export(&["--json"]).exit_code(), Some(64));
    assert_eq!(
        site.export(&["--format", "openmetrics", "--what", "events"])
            .exit_code(),
        Some(64)
    );
    // Without a directory it is the setting's, which must be there.
    let missing = site.env.root().join("none");
    let words = ["export", "--since-last", "x", "--store"];
    let done = site
        .env
        .dlrun(words)
        .arg(&site.db)
        .env("DLRUN_EXPORT__DIR", &missing)
        .run()
        .code(66);
    assert!(done.stderr.contains("cannot open"), "{}", done.stderr);
    let out = site.env.root().join("rows.csv");
    let out = out.to_str().expect("text");
    let value = site
        .export(&["--json", "--what", "timings", "--output", out])
        .code(0)
        .result();
    assert_eq!(value["rows"], 2);
    assert_eq!(
        fs::metadata(out).expect("there").permissions().mode() & 0o137,
        0
    );
    let before = fs::read(out).expect("read");
    assert_eq!(
        site.export(&["--what", "timings", "--run", "none", "--output", out])
            .exit_code(),
        Some(66)
    );
    assert_eq!(
        fs::read(out).expect("read"),
        before,
        "what stood there still does"
    );
    let value = site
        .since_last("site", &["--json", "--what", "timings"])
        .code(0)
        .result();
    let file = &value["files"][0];
    assert!(
        file["path"]
            .as_str()
            .expect("a path")
            .contains("/out/site-timings-"),
        "{file}"
    );
    assert_eq!((&file["rows"], &file["after"]), (&2.into(), &0.into()));
}

/// A consumer who takes files away whenever he likes, and an export that is killed at any moment.
pub(crate) fn kill_exports(times: usize, mut chance: impl FnMut() -> u64) {
    let site = Site::new();
    let mut store = site.store();
    let more = ["--what", "runs,usage,timings", "--format", "jsonl"];
    let (mut lines, mut killed, mut next) = (Vec::new(), 0, 0);
    while killed < times {
        put_run(&mut store, next, 40);
        next += 1;
        let mut command = Command::new(DLRUN);
        command
            .args(site.arguments("site", &more))
            .env_clear()
            .stdin(Stdio::null())
            .stdout(Stdio::null());
        command
            .env("HOME", site.env.root().join("home"))
            .env("XDG_STATE_HOME", site.env.root().join("state"));
        let mut child = command.stderr(Stdio::null()).spawn().expect("started");
        let wait = std::time::Duration::from_micros(chance() % 60_000);
        std::thread::sleep(wait);
        if chance().is_multiple_of(2) {
            lines.extend(site.take());
        }
        child.kill().expect("it is ours");
        if child.wait().expect("it ended").code().is_none() {
            killed += 1;
        }
        if chance().is_multiple_of(3) {
            lines.extend(site.take());
        }
    }
    site.delivers("site", &more);
    lines.extend(site.take());
    let expected = usize::try_from(next).expect("few") * 42;
    let counted = counted(&lines);
    assert_eq!(
        (lines.len(), counted.len()),
        (expected, expected),
        "killed {killed} times"
    );
    let left: Vec<_> = fs::read_dir(&site.out).expect("a directory").collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn an_export_that_is_killed_at_any_moment_loses_and_doubles_nothing() {
    let mut seed = 7_u64;
    kill_exports(8, || {
        seed = seed
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        seed >> 33
    });
}

/// A user who needs no account, and the group that reads the node's database.
const READER: u32 = 64_011;
const GROUP: u32 = 64_012;

#[test]
fn a_member_of_the_group_reads_a_nodes_database_while_it_is_written_and_when_it_is_not() {
    if !nix::unistd::geteuid().is_root() {
        return skip("only root can act as another user");
    }
    let env = TestEnv::of_user(READER);
    env.open_to_others();
    let dir = env.root().join("node");
    fs::create_dir(&dir).expect("made");
    chown(&dir, None, Some(GROUP)).expect("root may");
    // The files take their group from it, as those of the service do from its group.
    fs::set_permissions(&dir, Permissions::from_mode(0o2750)).expect("it is ours");
    let db = dir.join("dlrun.db");
    let mut store = NodeStore::open(&db).expect("opened");
    let (run, mut record) = records(1);
    let node = store
        .register(&run, 1000, &record, &live())
        .expect("registered");
    let rows = |db: &Path, gid: u32| -> (Option<i32>, usize, String) {
        let mut command = Command::new("/usr/bin/setpriv");
        command.args([
            format!("--reuid={READER}"),
            format!("--regid={gid}"),
            "--clear-groups".to_owned(),
        ]);
        command
            .arg(env.root().join("bin/dlrun"))
            .args(["export", "--what", "timings", "--store"])
            .arg(db);
        command
            .env("HOME", env.root().join("home"))
            .env("XDG_STATE_HOME", env.root().join("state"));
        let done = command.output().expect("setpriv");
        let lines = String::from_utf8_lossy(&done.stdout).lines().count();
        (
            done.status.code(),
            lines.saturating_sub(1),
            String::from_utf8_lossy(&done.stderr).into_owned(),
        )
    };
    assert_eq!(rows(&db, READER).0, Some(77), "others do not");
    let (code, lines, said) = rows(&db, GROUP);
    assert_eq!((code, lines), (Some(0), 2), "while it is written: {said}");
    // What was not moved out of the journal yet is seen too.
    record.progress.push_epoch(dlrun::record::Epoch {
        epoch: 3,
        ..dlrun::record::Epoch::default()
    });
    record.updated_at_ms += 1;
    store.update(node, &record).expect("written");
    assert_eq!(rows(&db, GROUP).1, 3);
    // As a kill leaves it: database, journal and index of the journal.
    let killed = dir.join("killed.db");
    for suffix in ["", "-wal", "-shm"] {
        let (from, to) = (
            dir.join(format!("dlrun.db{suffix}")),
            dir.join(format!("killed.db{suffix}")),
        );
        fs::copy(&from, &to).expect("copied");
        chown(&to, None, Some(GROUP)).expect("root may");
    }
    let (code, lines, said) = rows(&killed, GROUP);
    assert_eq!((code, lines), (Some(0), 3), "after a kill: {said}");
    drop(store);
    assert!(
        !dir.join("dlrun.db-wal").exists(),
        "it took its journal along"
    );
    let (code, _, said) = rows(&db, GROUP);
    assert_eq!(code, Some(75), "when it is down: {said}");
    let owners = fs::read_dir(&dir)
        .expect("listed")
        .map(|entry| entry.expect("one").metadata().expect("one").uid());
    assert!(
        owners.into_iter().all(|owner| owner == 0),
        "the reader left nothing there"
    );
}

#[test]
fn a_full_disk_loses_and_doubles_nothing() {
    if !nix::unistd::geteuid().is_root() {
        return skip("only root can mount a small disk");
    }
    let site = Site::new();
    let mount = |options: &str| {
        let done = Command::new("mount")
            .args(["-t", "tmpfs", "-o", options, "none"])
            .arg(&site.out)
            .status();
        done.is_ok_and(|done| done.success())
    };
    if !mount("size=64k") {
        return skip("no tmpfs can be mounted here");
    }
    let mut store = site.store();
    let more = ["--what", "timings", "--format", "jsonl"];
    put_run(&mut store, 1, 10);
    site.delivers("site", &more);
    put_run(&mut store, 2, 900);
    for _ in 0..2 {
        let full = site.since_last("site", &more);
        assert_eq!(full.exit_code(), Some(73), "{}", full.stderr);
        assert!(full.stderr.contains("No space left"), "{}", full.stderr);
    }
    let mut lines = site.take();
    assert_eq!(lines.len(), 10);
    assert!(mount("remount,size=16m"));
    site.delivers("site", &more);
    lines.extend(site.take());
    let _ = Command::new("umount").arg(&site.out).status();
    assert_eq!((lines.len(), counted(&lines).len()), (910, 910));
}

#[test]
fn ones_own_records_are_exported_without_a_database_being_named() {
    let env = TestEnv::new();
    assert_eq!(env.dlrun(["export"]).run().exit_code(), Some(66));
    let run = env.submit(&env.job("echo 'Epoch 1/1 - 2.5s'", ""));
    env.wait_state(&run, "completed");
    let out = env.root().join("out");
    fs::create_dir(&out).expect("made");
    let arguments = [
        "export",
        "--what",
        "runs,usage",
        "--format",
        "jsonl",
        "--since-last",
        "me",
        "--output-dir",
    ];
    let export = || {
        env.dlrun(
            arguments
                .iter()
                .map(|word| Path::new(*word))
                .chain([out.as_path()]),
        )
        .run()
        .code(0)
        .text()
    };
    assert_eq!(export().lines().count(), 2);
    assert_eq!(export(), "");
    let runs = fs::read_dir(&out)
        .expect("listed")
        .map(|entry| entry.expect("one").path());
    let mut runs: Vec<PathBuf> = runs.collect();
    runs.sort();
    let line: Value =
        serde_json::from_str(&fs::read_to_string(&runs[0]).expect("text")).expect("JSON");
    assert_eq!(
        (&line["run_id"], &line["state"]),
        (&run.as_str().into(), &"completed".into())
    );
}

/// docs/export.md between its marks, as the code has it.
fn columns_for_people() -> String {
    let mut page = String::new();
    for table in Table::ALL {
        page.push_str(&format!(
            "\n### {}\n\n`kind` is `{}`.\n\n",
            table.as_str(),
            table.kind()
        ));
        page.push_str("| column | type | unit | null | what it is |\n|---|---|---|---|---|\n");
        for field in table.fields() {
            let null = if field.is_optional() {
                "may be"
            } else {
                "never"
            };
            let (name, of, unit) = (field.name, field.of.as_str(), unit(field.name));
            page.push_str(&format!(
                "| `{name}` | {of} | {unit} | {null} | {} |\n",
                field.about.replace('|', "\\|")
            ));
        }
    }
    page
}

#[test]
fn the_columns_are_documented() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/export.md");
    let page = fs::read_to_string(&path).expect("docs/export.md");
    let (begin, end) = (
        "<!-- columns: made by a test -->\n",
        "<!-- end of columns -->\n",
    );
    let (before, rest) = page.split_once(begin).expect("the first mark");
    let (columns, after) = rest.split_once(end).expect("the last mark");
    let now = columns_for_people();
    if std::env::var_os("UPDATE_DOCS").is_some() {
        fs::write(&path, format!("{before}{begin}{now}{end}{after}")).expect("written");
    } else {
        assert_eq!(
            columns, now,
            "`UPDATE_DOCS=1 cargo test the_columns_are_documented` writes them anew"
        );
    }
}

#[test]
fn seconds_and_source_are_as_the_record_has_them() {
    let site = Site::new();
    let mut store = site.store();
    let mut record = node(run_id(1), "n1", BEGIN_MS);
    record.progress.epochs.clear();
    record.progress.epochs_completed = 0;
    let times = [
        None,
        Some(2.0),
        Some(2.5),
        Some(99.0),
        Some(100.0),
        Some(147.0),
        Some(0.0),
    ];
    for printed_seconds in times {
        for clock_seconds in [None, Some(1.84), Some(147.3)] {
            for event in [false, true] {
                let epoch = dlrun::record::Epoch {
                    printed_seconds,
                    clock_seconds,
                    event,
                    ..Default::default()
                };
                record.progress.push_epoch(epoch);
            }
        }
    }
    let done = store.write(|writer| {
        writer.upsert_run(&run(run_id(1), "mnist", BEGIN_MS))?;
        writer.ingest_node(&record)
    });
    done.map_err(|error: StoreError| error.to_string())
        .expect("written");
    let lines = site
        .export(&["--what", "timings", "--format", "jsonl"])
        .code(0)
        .text();
    let lines: Vec<Value> = lines
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    assert_eq!(lines.len(), record.progress.epochs.len());
    for (line, epoch) in lines.iter().zip(&record.progress.epochs) {
        let time = epoch
            .time()
            .map(|(seconds, source)| (seconds, source.as_str()));
        let told = line["seconds"].as_f64().zip(line["source"].as_str());
        assert_eq!(told, time, "{epoch:?}");
    }
}

#[test]
fn names_that_are_no_utf8_are_written_to_or_refused() {
    let site = Site::new();
    put_all(&mut site.store(), 1);
    let odd = site.env.root().join(OsStr::from_bytes(b"odd \xff"));
    fs::create_dir(&odd).expect("a directory");
    let export = |output: &Path| {
        let words = ["export", "--json", "--what", "runs", "--store"];
        site.env
            .dlrun(words)
            .arg(&site.db)
            .arg("--output")
            .arg(output)
            .run()
    };
    assert_eq!(export(&odd.join("runs.csv")).code(0).result()["rows"], 1);
    assert!(odd.join("runs.csv").is_file());
    assert_eq!(
        export(&odd.join(OsStr::from_bytes(b"\xfe.csv"))).exit_code(),
        Some(64)
    );
    assert_eq!(fs::read_dir(&odd).expect("there").count(), 1);
}

/// The unit of a column's numbers, by the suffix of its name, which may be all of it; empty where it has none.
fn unit(name: &str) -> &'static str {
    const UNITS: [(&str, &str); 14] = [
        ("_at_ms", "Unix milliseconds UTC"),
        ("_ms", "ms"),
        ("_us", "µs"),
        ("_seconds", "s"),
        ("_hours", "h"),
        ("_basis_points", "1/100 %"),
        ("_bytes", "bytes"),
        ("_percent", "%"),
        ("_milliwatts", "mW"),
        ("_watts", "W"),
        ("_millijoules", "mJ"),
        ("_joules", "J"),
        ("_celsius", "°C"),
        ("_mhz", "MHz"),
    ];
    let suffixed = format!("_{name}");
    let found = UNITS.iter().find(|(suffix, _)| suffixed.ends_with(suffix));
    found.map_or("", |(_, unit)| unit)
}
