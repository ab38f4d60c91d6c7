//! `dlrund` killed, stopped, on a full disk, replaced: runs go on, and nothing that was acknowledged is lost.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use dlrun::observe::protocol::{Decoder, Hello, PROTOCOL, Request, Response, encode};
use dlrun::record::store::{NodeStore, Store};
use dlrun::record::{EventKind, NodeRecord, NodeState, Sample, decode_segment};
use nix::sys::signal::Signal;

use crate::support::recorded::{self, longest_hole, rows};
use crate::support::{Dlrund, RawClient, TestEnv, skip, wait_for};

/// Works a little, with children that come and go, until the file `stop` is there.
const UNTIL_STOP: &str = "i=0; while [ ! -e stop ]; do i=$((i+1)); sleep 0.02; done; echo done";

/// A place whose runs find the daemon at this socket.
fn user_of(socket: &Path) -> TestEnv {
    let mut env = TestEnv::new();
    env.set("DLRUN_MONITOR__DAEMON_SOCKET", socket);
    env.set("DLRUN_MONITOR__INTERVAL_MS", "100");
    env.set("DLRUN_MONITOR__RECORD_SECONDS", "1");
    env
}

fn watched(env: &TestEnv) -> String {
    let run = env.submit(&env.job(UNTIL_STOP, ""));
    wait_for("the daemon to watch it", || {
        recorded::is_adopted(&env.run_dir(&run))
    });
    run
}

fn record(env: &TestEnv, run: &str) -> NodeRecord {
    recorded::record(&env.run_dir(run)).expect("a record")
}

fn has_event(record: &NodeRecord, kind: EventKind) -> bool {
    record.events.iter().any(|event| event.kind == kind)
}

fn pause(time: Duration) {
    let begun = Instant::now();
    wait_for("some time to pass", || begun.elapsed() >= time);
}

/// Files of the database as a kill left them, in a place of their own: looking must not mend them.
fn copied(database: &Path, to: &Path) -> PathBuf {
    let _ = fs::remove_dir_all(to);
    fs::create_dir(to).expect("it is ours");
    for entry in fs::read_dir(database.parent().expect("a directory"))
        .expect("it is ours")
        .flatten()
    {
        if entry.file_name().to_string_lossy().starts_with("dlrun.db") {
            fs::copy(entry.path(), to.join(entry.file_name())).expect("a copy");
        }
    }
    to.join("dlrun.db")
}

/// Times of samples by run.
type Times = BTreeMap<String, BTreeSet<u64>>;

/// What a killed daemon had promised to keep.
fn kept(database: &Path) -> Times {
    assert_eq!(rows(database, "PRAGMA integrity_check"), [["ok"]]);
    assert_eq!(
        rows(database, "PRAGMA foreign_key_check"),
        Vec::<Vec<String>>::new()
    );
    let store = NodeStore::open(database).expect("it opens");
    let live = store.live().expect("it reads");
    let of = |run: &dlrun::record::store::LiveRun| {
        let samples = store.read_samples(run.node, 0).expect("all can be read");
        (
            run.record.key.run_id.to_string(),
            samples.iter().map(|sample| sample.at_ms).collect(),
        )
    };
    live.iter().map(of).collect()
}

/// Checks that no sample is there twice and that counters only grow; returns the times.
#[track_caller]
fn sound(what: &str, samples: &[Sample]) -> BTreeSet<u64> {
    let mut in_time: Vec<&Sample> = samples.iter().collect();
    in_time.sort_by_key(|sample| sample.at_ms);
    for pair in in_time.windows(2) {
        assert!(
            pair[0].at_ms < pair[1].at_ms,
            "{what}: two samples at {}",
            pair[0].at_ms
        );
        let counters = |sample: &Sample| [sample.cpu_user_us, sample.cpu_system_us];
        for (before, after) in counters(pair[0]).into_iter().zip(counters(pair[1])) {
            let has_fallen = before
                .zip(after)
                .is_some_and(|(before, after)| after < before);
            let apart = pair[1].at_ms - pair[0].at_ms;
            assert!(
                !has_fallen,
                "{what}: a counter falls from {before:?} to {after:?} at {}, after {apart} ms",
                pair[1].at_ms
            );
        }
    }
    in_time.iter().map(|sample| sample.at_ms).collect()
}

/// Kills the daemon `count` times at moments that `chance` tells, in ms, while three runs go on.
pub(crate) fn kill_again_and_again(count: usize, mut chance: impl FnMut() -> u64) {
    let place = TestEnv::new();
    let mut daemon = Dlrund::start(&place, "[store]\nfold_ticks = 10");
    let users: Vec<TestEnv> = (0..3).map(|_| user_of(daemon.socket())).collect();
    let runs: Vec<String> = users.iter().map(watched).collect();
    let mut promised = Times::new();
    for _ in 0..count {
        pause(Duration::from_millis(chance() % 900));
        daemon.kill();
        let copy = copied(&daemon.database(), &place.root().join("copy"));
        for (run, times) in kept(&copy) {
            promised.entry(run).or_default().extend(times);
        }
        pause(Duration::from_millis(chance() % 150));
        daemon.start_again(&place);
    }
    wait_for("all runs to be watched again", || {
        RawClient::greeted(&daemon).runs().len() == 3
    });
    // A client that is not back yet comes back for its last words.
    for (env, run) in users.iter().zip(&runs) {
        env.write("stop", "");
        env.wait_state(run, "completed");
    }
    daemon.stop();
    assert_eq!(rows(&daemon.database(), "PRAGMA integrity_check"), [["ok"]]);
    let store = Store::open(&daemon.database()).expect("the index form");
    for (env, run) in users.iter().zip(&runs) {
        let record = record(env, run);
        assert_eq!(record.state, NodeState::Ended);
        assert!(
            has_event(&record, EventKind::DaemonLost) || count == 0,
            "{:?}",
            record.events
        );
        let blocks = crate::support::index_rows::blocks(&store, &record.key);
        let on_node: Vec<Sample> = blocks
            .iter()
            .flat_map(|block| decode_segment(&block.bytes).expect("a block"))
            .collect();
        let on_node = sound("the node's database", &on_node);
        let of_user = recorded::series(&env.run_dir(run));
        let with_user = sound("the run's directory", &of_user);
        let lost: Vec<_> = promised[run].difference(&on_node).collect();
        assert!(lost.is_empty(), "{lost:?} were on the node");
        assert!(
            longest_hole(&of_user) < 2000,
            "{} ms in {}",
            longest_hole(&of_user),
            with_user.len()
        );
        assert!(
            with_user.len() >= on_node.len() / 2,
            "{} here, {} there",
            with_user.len(),
            on_node.len()
        );
    }
    assert_eq!(
        rows(&daemon.database(), "SELECT DISTINCT state FROM node"),
        [["ended"]]
    );
}

#[test]
fn a_daemon_that_is_killed_at_any_moment_loses_nothing_that_it_promised() {
    let mut turn = 0;
    kill_again_and_again(3, || {
        turn += 271;
        turn
    });
}

#[test]
fn a_daemon_that_hangs_delays_no_end_and_the_watcher_takes_over() {
    let place = TestEnv::new();
    let daemon = Dlrund::start(&place, "");
    let env = user_of(daemon.socket());
    let run = watched(&env);
    daemon.signal(Signal::SIGSTOP);
    wait_for("the watcher to take over", || {
        has_event(&record(&env, &run), EventKind::DaemonLost)
    });
    env.write("stop", "");
    let begun = Instant::now();
    env.wait_state(&run, "completed");
    let took = begun.elapsed();
    assert!(took < Duration::from_secs(6), "{took:?}");
    let left = record(&env, &run);
    assert!(
        left.gaps
            .iter()
            .any(|gap| gap.why.contains("dlrund was lost")),
        "{:?}",
        left.gaps
    );
    assert!(
        left.usage.cpu_seconds().is_some() && left.state == NodeState::Ended,
        "{left:?}"
    );
    // One that ends before anybody noticed.
    daemon.signal(Signal::SIGCONT);
    fs::remove_file(env.jobs().join("stop")).expect("it is there");
    let run = watched(&env);
    daemon.signal(Signal::SIGSTOP);
    env.write("stop", "");
    let begun = Instant::now();
    env.wait_state(&run, "completed");
    assert!(
        begun.elapsed() < Duration::from_secs(8),
        "{:?}",
        begun.elapsed()
    );
    daemon.signal(Signal::SIGCONT);
}

/// A small file system of its own; it goes with the value.
struct SmallDisk(PathBuf);

impl SmallDisk {
    fn mount(image: &Path, at: &Path) -> Option<Self> {
        let run = |program: &str, arguments: &[&std::ffi::OsStr]| {
            Command::new(program)
                .args(arguments)
                .output()
                .is_ok_and(|output| output.status.success())
        };
        File::create(image)
            .and_then(|file| file.set_len(12 << 20))
            .expect("it is ours");
        fs::create_dir_all(at).expect("it is ours");
        let is_up = run(
            "/usr/sbin/mkfs.ext4",
            &["-q".as_ref(), "-m0".as_ref(), image.as_os_str()],
        ) && run(
            "/usr/bin/mount",
            &[
                "-o".as_ref(),
                "loop".as_ref(),
                image.as_os_str(),
                at.as_os_str(),
            ],
        );
        is_up.then(|| Self(at.to_owned()))
    }

    /// Leaves no room.
    fn fill(&self) {
        let mut file = File::create(self.0.join("full")).expect("there is some room");
        let piece = [0; 4096];
        while file.write_all(&piece).is_ok() {}
        let _ = file.sync_all();
    }

    fn empty(&self) {
        fs::remove_file(self.0.join("full")).expect("it is there");
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // A killed daemon may still be going.
        for _ in 0..50 {
            if Command::new("/usr/bin/umount")
                .arg(&self.0)
                .output()
                .is_ok_and(|done| done.status.success())
            {
                return;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}

fn store_status(daemon: &Dlrund) -> dlrun::observe::protocol::StoreStatus {
    match RawClient::greeted(daemon).ask(&Request::Status) {
        Some(Response::Status(status)) => status.store,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_full_disk_costs_no_run_and_no_sample() {
    let place = TestEnv::new();
    let Some(disk) = SmallDisk::mount(&place.root().join("disk"), &place.root().join("node"))
    else {
        return skip("no small file system can be mounted here; that takes root and loop devices");
    };
    let mut daemon = Dlrund::start(&place, "");
    let (env, other) = (user_of(daemon.socket()), user_of(daemon.socket()));
    let (run, ended) = (watched(&env), watched(&other));
    disk.fill();
    wait_for("the disk to be full", || {
        store_status(&daemon).error.is_some()
    });
    // One ends while there is no room, the other goes on.
    other.write("stop", "");
    let begun = Instant::now();
    other.wait_state(&ended, "completed");
    assert!(
        begun.elapsed() < Duration::from_secs(8),
        "{:?}",
        begun.elapsed()
    );
    let left = record(&other, &ended);
    assert_eq!(left.state, NodeState::Ended);
    assert!(left.usage.cpu_seconds().is_some(), "{left:?}");
    // What the daemon read last is missing, and that is said; or a few pages were free and it was handed over.
    let is_said = left
        .missing
        .iter()
        .any(|missing| missing.what == "segments" && missing.why.contains("full"));
    let handed = recorded::series(&other.run_dir(&ended));
    let until_end = |sample: &Sample| {
        left.ended_at_ms
            .is_some_and(|end| end < sample.at_ms + 1500)
    };
    assert!(
        is_said || longest_hole(&handed) < 1500 && handed.last().is_some_and(until_end),
        "{left:?}"
    );
    disk.empty();
    wait_for("the disk to take samples again", || {
        store_status(&daemon).error.is_none()
    });
    env.write("stop", "");
    env.wait_state(&run, "completed");
    let whole = record(&env, &run);
    assert_eq!(whole.state, NodeState::Ended);
    let samples = recorded::series(&env.run_dir(&run));
    assert!(
        longest_hole(&samples) < 1500,
        "{} ms, {:?}",
        longest_hole(&samples),
        whole.events
    );
    wait_for("both ends to be on the node", || {
        rows(&daemon.database(), "SELECT DISTINCT state FROM node") == [["ended"]]
    });
    assert_eq!(store_status(&daemon).dropped_samples, 0);
    daemon.stop();
    assert_eq!(rows(&daemon.database(), "PRAGMA integrity_check"), [["ok"]]);
    drop(disk);
}

#[test]
fn a_run_goes_on_where_the_socket_s_directory_is_removed() {
    let place = TestEnv::new();
    let daemon = Dlrund::start(&place, "");
    let env = user_of(daemon.socket());
    let run = watched(&env);
    fs::remove_dir_all(daemon.socket().parent().expect("a directory")).expect("it is ours");
    let second = user_of(daemon.socket());
    let unseen = second.submit(&second.job("true", ""));
    second.wait_state(&unseen, "completed");
    assert!(!recorded::is_adopted(&second.run_dir(&unseen)));
    env.write("stop", "");
    env.wait_state(&run, "completed");
    // The connection that was there is all that is needed.
    assert_eq!(record(&env, &run).gaps, []);
}

#[test]
fn a_daemon_of_another_time_is_left_alone() {
    let place = TestEnv::new();
    let mut daemon = Dlrund::start(&place, "");
    let env = user_of(daemon.socket());
    let run = watched(&env);
    daemon.kill();
    fs::remove_file(daemon.socket()).expect("a killed daemon leaves it");
    let listener = UnixListener::bind(daemon.socket()).expect("a socket");
    let (mut stream, _) = listener.accept().expect("a client");
    let mut decoder = Decoder::default();
    let hello: Request = loop {
        if let Some(request) = decoder.next().expect("a frame") {
            break request;
        }
        let mut buffer = [0; 256];
        let count = stream.read(&mut buffer).expect("a hello");
        decoder.push(&buffer[..count]);
    };
    assert!(matches!(hello, Request::Hello(_)), "{hello:?}");
    let newer = Hello {
        protocol: PROTOCOL + 1,
        version: "9.9.9".to_owned(),
    };
    stream
        .write_all(&encode(&Response::Hello(newer)).expect("short"))
        .expect("sent");
    wait_for("the watcher to say so", || {
        record(&env, &run)
            .events
            .iter()
            .any(|event| event.detail.contains("use a newer dlrun"))
    });
    env.write("stop", "");
    env.wait_state(&run, "completed");
    let samples = recorded::series(&env.run_dir(&run));
    assert!(longest_hole(&samples) < 1500, "{}", longest_hole(&samples));
}
