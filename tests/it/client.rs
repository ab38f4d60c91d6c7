//! The watcher and a node daemon, played by a stand-in: sound, absent, of another version, killed, hanging, mad.

use std::fs;
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use dlrun::observe::client::{ClientError, Daemon};
use dlrun::observe::protocol::{RefusalKind, Request};
use dlrun::record::{ExitStatus, NodeRecord, NodeState, Sample, decode_segment};
use nix::sys::signal::{Signal, kill};

use crate::support::env::{Dlrun, Started};
use crate::support::stand_in::{CPU_SECONDS, Manner, PROCESSES, StandIn};
use crate::support::{TestEnv, wait_for, wait_for_some};

const RUN: &str = "0000000000000001";
const INTERVAL_MS: u64 = 200;
const INTERVAL: Duration = Duration::from_millis(INTERVAL_MS);
const PATIENCE: Duration = Duration::from_millis(300);
/// As long as the end of a job may wait for the watcher.
const LAST_WORDS: Duration = Duration::from_secs(8);

fn socket(env: &TestEnv) -> PathBuf {
    env.root().join("dlrund.sock")
}

/// `dlrun exec` of a shell script whose plan names a daemon.
fn exec(env: &TestEnv, script: &str) -> Dlrun {
    let made = fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(env.run_dir(RUN));
    made.expect("the directory is ours");
    let file = env.job("true", "");
    let planned = env
        .dlrun(["plan", "--scheduler", "local", "--json"])
        .arg(file);
    let interval = INTERVAL_MS.to_string();
    let planned = planned
        .env("DLRUN_MONITOR__INTERVAL_MS", interval)
        .env("DLRUN_MONITOR__RECORD_SECONDS", "1");
    let mut plan = planned.run().code(0).result()["plan"].clone();
    plan["daemon_socket"] = socket(env).to_str().expect("text").into();
    env.dlrun(["exec", "--", "sh", "-c", script])
        .env("DLRUN_PLAN", plan.to_string())
        .env("DLRUN_RUN_ID", RUN)
        .env("DLRUN_STATE_DIR", env.state())
        .env("DLRUN_NODE", "n1")
        .env("DLRUN_JOB_ID", "7")
}

/// A training that lasts until the file `go` is there.
fn start(env: &TestEnv) -> Started {
    let script = "echo 'epoch 1 0.5s'; while [ ! -e go ]; do sleep 0.02; done; exit 4";
    exec(env, script).start_to(&env.jobs().join("job.out"))
}

/// Lets the training end; how long that took.
fn finish(env: &TestEnv, started: Started) -> Duration {
    env.write("go", "");
    let begun = Instant::now();
    let _ = started.finish().code(4);
    begun.elapsed()
}

fn record_of(env: &TestEnv) -> Option<NodeRecord> {
    serde_json::from_slice(&fs::read(env.run_dir(RUN).join("0.0/n1.0/record.json")).ok()?).ok()
}

fn record(env: &TestEnv) -> NodeRecord {
    record_of(env).expect("there is a record")
}

fn kinds(record: &NodeRecord) -> Vec<&'static str> {
    record
        .events
        .iter()
        .map(|event| event.kind.as_str())
        .collect()
}

/// All samples in the run's directory, by time.
fn series(env: &TestEnv) -> Vec<Sample> {
    let dir = env.run_dir(RUN).join("0.0/n1.0");
    let names = fs::read_dir(&dir)
        .expect("listed")
        .map(|entry| entry.expect("an entry").path());
    let segments =
        names.filter(|path| path.extension().is_some_and(|extension| extension == "seg"));
    let mut samples: Vec<Sample> = segments
        .flat_map(|path| decode_segment(&fs::read(path).expect("ours")).expect("a segment"))
        .collect();
    samples.sort_by_key(|sample| sample.at_ms);
    samples
}

fn is_daemons(sample: &Sample) -> bool {
    sample.processes == Some(PROCESSES)
}

/// Requires that nothing is there twice, and that no two neighbours are further apart than two intervals.
#[track_caller]
fn is_without_holes(series: &[Sample]) {
    for pair in series.windows(2) {
        let apart = pair[1].at_ms - pair[0].at_ms;
        assert!(apart <= 2 * INTERVAL_MS, "{apart} ms between {pair:#?}");
        assert_ne!(pair[0], pair[1]);
    }
}

#[track_caller]
fn is_own(env: &TestEnv) {
    let (series, record) = (series(env), record(env));
    assert!(!series.is_empty() && !series.iter().any(is_daemons));
    assert_eq!(
        (record.state, record.exit),
        (NodeState::Ended, Some(ExitStatus::Code(4)))
    );
    assert_eq!(
        (record.gaps.as_slice(), record.progress.epochs_completed),
        (&[][..], 1)
    );
    assert!(record.cgroup.is_none() && record.watcher.samples == series.len() as u64);
}

fn count(daemon: &StandIn, is_wanted: impl Fn(&Request) -> bool) -> usize {
    daemon.kept().count(is_wanted)
}

fn is_update(request: &Request) -> bool {
    matches!(request, Request::Update { .. })
}

fn is_register(request: &Request) -> bool {
    matches!(request, Request::Register(_))
}

fn wait_samples(daemon: &StandIn, count: usize) {
    wait_for("samples of the daemon", || {
        daemon.kept().samples().len() >= count
    });
}

#[test]
fn with_a_daemon_the_watcher_rests_and_the_record_is_whole() {
    let env = TestEnv::new();
    let daemon = StandIn::start(&socket(&env), INTERVAL, Manner::Sound);
    let started = start(&env);
    wait_samples(&daemon, 8);
    wait_for("a record with the daemon's figures", || {
        record_of(&env).is_some_and(|record| record.usage.cpu_user_seconds == Some(CPU_SECONDS))
    });
    finish(&env, started);
    let (record, series, kept) = (record(&env), series(&env), daemon.kept());
    let Request::Register(registration) = &kept.requests[0] else {
        panic!("{:?}", kept.requests[0])
    };
    assert_eq!(
        (&registration.record.key, registration.run.name.as_str()),
        (&record.key, "job")
    );
    assert!(registration.command.pid > 0 && registration.command.start_time_ticks > 0);
    // The watcher's own are those from before the daemon took over.
    let (daemons, own): (Vec<_>, Vec<_>) = series.iter().partition(|sample| is_daemons(sample));
    assert!(own.len() <= 4, "{own:?}");
    assert!(daemons.len() > 6, "more than two segments");
    assert_eq!(
        daemons.into_iter().cloned().collect::<Vec<_>>(),
        kept.samples()
    );
    assert!(kept.is_collected());
    assert_eq!(record.watcher.samples, series.len() as u64);
    assert_eq!(
        (kinds(&record), record.gaps.as_slice()),
        (vec!["adopted"], &[][..])
    );
    assert_eq!(
        (record.missing.as_slice(), record.cgroup.as_deref()),
        (&[][..], Some("/job_7"))
    );
    assert_eq!(record.progress.epochs_completed, 1);
    let Some(Request::End(end)) = kept
        .requests
        .iter()
        .find(|request| matches!(request, Request::End(_)))
    else {
        panic!("no end");
    };
    assert_eq!(
        (end.record.exit, end.record.progress.epochs_completed),
        (Some(ExitStatus::Code(4)), 1)
    );
    is_without_holes(&series);
}

#[test]
fn without_a_daemon_nothing_changes() {
    let env = TestEnv::new();
    let started = start(&env);
    wait_for("a second of samples", || {
        record_of(&env).is_some_and(|record| record.watcher.samples > 4)
    });
    finish(&env, started);
    is_own(&env);
    assert_eq!(
        (record(&env).events, lacking(&record(&env))),
        (vec![], vec![])
    );
    is_without_holes(&series(&env));
}

/// Runs beside a daemon of this manner until it was tried, and requires the watcher's own record.
fn beside(manner: Manner) -> NodeRecord {
    let env = TestEnv::new();
    let _daemon = StandIn::start(&socket(&env), INTERVAL, manner);
    let started = start(&env);
    let tried = |record: NodeRecord| record.watcher.samples > 4 && !record.events.is_empty();
    wait_for("an attempt", || record_of(&env).is_some_and(tried));
    let took = finish(&env, started);
    assert!(took < LAST_WORDS, "{took:?}");
    is_own(&env);
    is_without_holes(&series(&env));
    record(&env)
}

#[test]
fn refusals_and_nonsense_are_noted_once_and_cost_nothing() {
    for (manner, reason) in [
        (Manner::Later, "dlrund 9.9.9 speaks protocol 99"),
        (
            Manner::Refusing(RefusalKind::NotPermitted),
            "refused: the stand-in was told so",
        ),
        (
            Manner::Refusing(RefusalKind::Busy),
            "refused: the stand-in was told so",
        ),
        (Manner::Garbage, "a message cannot be understood"),
        (Manner::Endless, "a message of 4294967295 bytes"),
        (Manner::Mute, "did not answer within 1s"),
        (Manner::Trickling, "did not answer within 1s"),
    ] {
        let record = beside(manner);
        assert_eq!(kinds(&record), ["note"], "{manner:?}");
        assert!(
            record.events[0].detail.contains(reason),
            "{manner:?}: {:?}",
            record.events
        );
    }
}

#[test]
fn daemon_that_is_killed_and_comes_back_costs_no_sample() {
    let env = TestEnv::new();
    let daemon = StandIn::start(&socket(&env), INTERVAL, Manner::Sound);
    let started = start(&env);
    wait_samples(&daemon, 5);
    daemon.kill();
    let lost =
        |record: NodeRecord| kinds(&record) == ["adopted", "daemon_lost"] && record.gaps.len() == 1;
    wait_for("the loss in the record", || {
        record_of(&env).is_some_and(lost)
    });
    let before = daemon.kept().samples().len();
    let again = daemon.again(INTERVAL);
    wait_samples(&again, before + 5);
    let is_short = |record: &NodeRecord| {
        let interval_ms = u64::try_from(INTERVAL.as_millis()).expect("short");
        record.gaps.len() == 1
            && record.gaps.iter().all(|gap| {
                gap.why.contains("killed")
                    && gap.why.contains("watcher")
                    && gap.to_ms - gap.from_ms <= 2 * interval_ms
            })
    };
    wait_for("a gap of an interval", || {
        record_of(&env).is_some_and(|record| is_short(&record))
    });
    finish(&env, started);
    let (record, series, kept) = (record(&env), series(&env), again.kept());
    assert_eq!(kinds(&record), ["adopted", "daemon_lost", "adopted"]);
    assert!(
        is_short(&record) && lacking(&record).is_empty(),
        "{:?} {:?}",
        record.gaps,
        record.missing
    );
    is_without_holes(&series);
    let own = series.iter().filter(|sample| !is_daemons(sample)).count();
    assert!(own > 3, "{own}");
    // The second daemon knew the run and read before the watcher came: of two samples of one time the own one stays.
    assert!(record.watcher.samples >= series.len() as u64);
    let hints = kept.requests.iter().filter_map(|request| match request {
        Request::Register(registration) => Some(registration.gap.is_some()),
        _ => None,
    });
    assert_eq!(hints.collect::<Vec<_>>(), [false, true]);
}

#[test]
fn daemon_that_does_not_come_back_leaves_a_gap_with_its_reason() {
    let env = TestEnv::new();
    let daemon = StandIn::start(&socket(&env), INTERVAL, Manner::Sound);
    let started = start(&env);
    wait_samples(&daemon, 4);
    daemon.kill();
    wait_for("the loss in the record", || {
        record_of(&env).is_some_and(|record| kinds(&record).contains(&"daemon_lost"))
    });
    finish(&env, started);
    let (record, series) = (record(&env), series(&env));
    assert_eq!(record.gaps.len(), 1, "{:?}", record.gaps);
    let gap = &record.gaps[0];
    assert!(gap.why.starts_with("dlrund was lost"), "{gap:?}");
    // Beside the gap there are samples on both sides, and none in it.
    assert!(
        series.iter().any(|sample| sample.at_ms >= gap.to_ms),
        "{gap:?}"
    );
    assert!(
        series.iter().any(|sample| sample.at_ms == gap.from_ms),
        "{gap:?}"
    );
    assert!(
        !series
            .iter()
            .any(|sample| gap.from_ms < sample.at_ms && sample.at_ms < gap.to_ms)
    );
    assert_eq!(lacking(&record), ["segments"], "{:?}", record.missing);
}

/// What a record says is missing, but for a cgroup: whether the tests run in one is no matter.
fn lacking(record: &NodeRecord) -> Vec<String> {
    let what = record.missing.iter().map(|missing| missing.what.clone());
    what.filter(|what| what != "cgroup").collect()
}

#[test]
fn daemon_that_stops_answering_is_lost_and_taken_back() {
    let env = TestEnv::new();
    let daemon = StandIn::start(&socket(&env), INTERVAL, Manner::Sound);
    let started = start(&env);
    wait_samples(&daemon, 2);
    daemon.behave(Manner::Mute);
    wait_for("own samples", || {
        record_of(&env).is_some_and(|record| kinds(&record).contains(&"daemon_lost"))
    });
    daemon.behave(Manner::Sound);
    wait_for("the second registration", || {
        record_of(&env)
            .is_some_and(|record| kinds(&record) == ["adopted", "daemon_lost", "adopted"])
    });
    finish(&env, started);
    assert_eq!(record(&env).missing, []);
    assert!(daemon.kept().is_collected());
}

#[test]
fn daemon_that_hangs_at_the_end_does_not_hold_the_job_up() {
    for manner in [Manner::Mute, Manner::Trickling, Manner::Garbage] {
        let env = TestEnv::new();
        let daemon = StandIn::start(&socket(&env), INTERVAL, Manner::Sound);
        let started = start(&env);
        wait_samples(&daemon, 2);
        wait_for("the first update", || count(&daemon, is_update) > 0);
        daemon.behave(manner);
        let took = finish(&env, started);
        assert!(took < LAST_WORDS / 2, "{manner:?}: {took:?}");
        let record = record(&env);
        assert_eq!(
            (record.state, record.exit),
            (NodeState::Ended, Some(ExitStatus::Code(4)))
        );
        assert_eq!(
            record.usage.cpu_user_seconds,
            Some(CPU_SECONDS),
            "what was measured last is kept"
        );
        assert!(
            record
                .missing
                .iter()
                .any(|missing| missing.why.contains("dlrund")),
            "{:?}",
            record.missing
        );
        // The last sample is the watcher's own.
        assert!(
            series(&env)
                .last()
                .is_some_and(|sample| !is_daemons(sample))
        );
    }
}

#[test]
fn daemon_that_refuses_the_end_still_hands_over() {
    let env = TestEnv::new();
    let daemon = StandIn::start(&socket(&env), INTERVAL, Manner::Sound);
    let started = start(&env);
    wait_samples(&daemon, 5);
    daemon.behave(Manner::Refusing(RefusalKind::BadRequest));
    finish(&env, started);
    let record = record(&env);
    assert_eq!(
        (kinds(&record), record.gaps.as_slice()),
        (vec!["adopted", "note"], &[][..])
    );
    assert!(
        record.events[1].detail.contains("did not take the end"),
        "{:?}",
        record.events
    );
    assert!(daemon.kept().is_collected());
    let series = series(&env);
    assert_eq!(
        series.iter().filter(|sample| is_daemons(sample)).count(),
        daemon.kept().samples().len()
    );
    assert!(series.last().is_some_and(|sample| !is_daemons(sample)));
}

#[test]
fn killed_watcher_finds_its_run_with_the_daemon() {
    let env = TestEnv::new();
    let daemon = StandIn::start(&socket(&env), INTERVAL, Manner::Sound);
    let started = start(&env);
    // Some were collected and not acknowledged when the watcher is killed.
    wait_for("a collection", || {
        count(&daemon, |request| {
            matches!(request, Request::Collect { .. })
        }) > 0
    });
    let watcher = wait_for_some("a watcher", || {
        env.processes_with("exec-watch").into_iter().next()
    });
    kill(watcher, Signal::SIGKILL).expect("it runs");
    wait_for("the second registration", || {
        count(&daemon, is_register) == 2
    });
    let before = daemon.kept().samples().len();
    wait_samples(&daemon, before + 3);
    finish(&env, started);
    let (record, series, kept) = (record(&env), series(&env), daemon.kept());
    assert_eq!((record.gaps.as_slice(), record.key.step), (&[][..], 0));
    assert_eq!(record.missing, []);
    let daemons: Vec<_> = series
        .iter()
        .filter(|sample| is_daemons(sample))
        .cloned()
        .collect();
    assert_eq!(daemons, kept.samples());
    is_without_holes(&series);
    let steps = fs::read_dir(env.run_dir(RUN).join("0.0"))
        .expect("listed")
        .count();
    assert_eq!(steps, 1);
}

#[test]
fn watcher_killed_twice_leaves_no_gap_where_the_daemon_read() {
    let env = TestEnv::new();
    let daemon = StandIn::start(&socket(&env), INTERVAL, Manner::Sound);
    let started = start(&env);
    wait_samples(&daemon, 5);
    let kill_watcher = || {
        let watcher = wait_for_some("a watcher", || {
            env.processes_with("exec-watch").into_iter().next()
        });
        kill(watcher, Signal::SIGKILL).expect("it runs");
    };
    kill_watcher();
    // The second one's first record is from before it found the daemon. It is killed with that on disk.
    wait_for("a gap", || !record(&env).gaps.is_empty());
    wait_for("the second registration", || {
        count(&daemon, is_register) == 2
    });
    kill_watcher();
    assert_eq!(record(&env).gaps.len(), 1);
    wait_for("the third registration", || {
        count(&daemon, is_register) == 3
    });
    let before = daemon.kept().samples().len();
    wait_samples(&daemon, before + 3);
    finish(&env, started);
    assert_eq!(record(&env).gaps, []);
    is_without_holes(&series(&env));
}

fn listening(env: &TestEnv, manner: Manner) -> (StandIn, Result<Daemon, ClientError>) {
    let daemon = StandIn::start(&socket(env), INTERVAL, manner);
    let connected = Daemon::connect(&socket(env), PATIENCE);
    (daemon, connected)
}

#[test]
fn every_way_not_to_answer_has_its_error() {
    let env = TestEnv::new();
    let absent = Daemon::connect(&socket(&env), PATIENCE).expect_err("nobody is there");
    assert!(
        absent.is_absent() && absent.to_string().contains("dlrund.sock"),
        "{absent}"
    );
    assert!(
        absent
            .hint()
            .expect("a hint")
            .contains("systemctl status dlrund")
    );
    drop(UnixListener::bind(socket(&env)).expect("free"));
    let left = Daemon::connect(&socket(&env), PATIENCE).expect_err("nobody listens");
    assert!(left.is_absent(), "{left}");
    let of = |manner| listening(&env, manner).1.expect_err("no sound answer");
    assert!(matches!(of(Manner::Garbage), ClientError::Frame { .. }));
    assert!(matches!(of(Manner::Endless), ClientError::Frame { .. }));
    assert!(matches!(of(Manner::Later), ClientError::Version { .. }));
    for manner in [Manner::Mute, Manner::Trickling] {
        let begun = Instant::now();
        assert!(matches!(of(manner), ClientError::TimedOut { .. }));
        let took = begun.elapsed();
        assert!(
            took >= PATIENCE && took < 5 * PATIENCE,
            "{manner:?}: {took:?}"
        );
    }
}

#[test]
fn connection_is_of_no_use_after_an_answer_that_did_not_come() {
    let env = TestEnv::new();
    let (daemon, connected) = listening(&env, Manner::Sound);
    let mut connected = connected.expect("it is sound");
    assert_eq!(connected.hello().version, env!("CARGO_PKG_VERSION"));
    daemon.behave(Manner::Mute);
    let hello = Request::Hello(dlrun::observe::protocol::Hello::ours());
    assert!(matches!(
        connected.ask(&hello),
        Err(ClientError::TimedOut { .. })
    ));
    daemon.behave(Manner::Sound);
    assert!(matches!(
        connected.ask(&hello),
        Err(ClientError::Closed { .. })
    ));
}

#[test]
fn full_queue_of_connections_costs_the_patience() {
    use nix::sys::socket::{
        AddressFamily, Backlog, SockFlag, SockType, UnixAddr, bind, listen, socket,
    };
    let env = TestEnv::new();
    let path = super::client::socket(&env);
    let listener = socket(
        AddressFamily::Unix,
        SockType::Stream,
        SockFlag::SOCK_CLOEXEC,
        None,
    )
    .expect("a socket");
    let address = UnixAddr::new(&path).expect("short");
    bind(std::os::fd::AsRawFd::as_raw_fd(&listener), &address).expect("free");
    listen(&listener, Backlog::new(1).expect("small")).expect("bound");
    // They connect, since the queue takes them, and wait for a greeting.
    let waiting: Vec<_> = (0..4)
        .map(|_| {
            let path = path.clone();
            std::thread::spawn(move || Daemon::connect(&path, Duration::from_secs(3)))
        })
        .collect();
    let begun = Instant::now();
    let error = Daemon::connect(&path, PATIENCE).expect_err("nobody accepts");
    assert!(matches!(error, ClientError::TimedOut { .. }), "{error}");
    assert!(begun.elapsed() < 5 * PATIENCE);
    drop(listener);
    for thread in waiting {
        assert!(thread.join().expect("no panic").is_err());
    }
}
