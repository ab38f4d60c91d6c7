//! `dlrund`, run for real: runs are watched, handed over, and survive what happens to it; clients that misbehave are sent
//! away.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

use dlrun::job::RunId;
use dlrun::observe::protocol::{Hello, MAX_MESSAGE_BYTES, RefusalKind, Request, Response, encode};
use dlrun::record::store::Store;
use dlrun::record::{NodeRecord, NodeState, Sample};
use nix::sys::signal::{Signal, kill};

use crate::support::recorded::{longest_hole, rows};
use crate::support::{Dlrund, RawClient, TestEnv, recorded, wait_for, wait_for_some};

/// Works a little until the file `stop` is there.
const UNTIL_STOP: &str = "i=0; while [ ! -e stop ]; do i=$((i+1)); sleep 0.02; done; echo done";

fn env() -> TestEnv {
    let mut env = TestEnv::new();
    env.set("DLRUN_MONITOR__INTERVAL_MS", "100");
    env.set("DLRUN_MONITOR__RECORD_SECONDS", "1");
    env
}

fn stop(env: &TestEnv) {
    env.write("stop", "");
}

/// The record of the only node of a run.
fn record(env: &TestEnv, run: &str) -> NodeRecord {
    recorded::record(&env.run_dir(run)).unwrap_or_else(|| panic!("no record of {run}"))
}

fn series(env: &TestEnv, run: &str) -> Vec<Sample> {
    recorded::series(&env.run_dir(run))
}

fn is_adopted(env: &TestEnv, run: &str) -> bool {
    recorded::is_adopted(&env.run_dir(run))
}

#[test]
fn a_run_is_watched_by_the_daemon_and_handed_over() {
    let env = env();
    let mut daemon = Dlrund::start(&env, "[store]\nfold_ticks = 10");
    let run = env.submit(&env.job(UNTIL_STOP, ""));
    wait_for("the daemon to watch it", || is_adopted(&env, &run));
    let mut client = RawClient::greeted(&daemon);
    let view = wait_for_some("the run in the daemon's list", || {
        client.runs().into_iter().find(|view| {
            view.sample
                .as_ref()
                .is_some_and(|sample| sample.processes >= Some(1))
        })
    });
    assert_eq!(
        (view.key.run_id.as_str(), view.uid),
        (run.as_str(), nix::unistd::getuid().as_raw())
    );
    // More than one fold.
    let begun = Instant::now();
    wait_for("some samples", || begun.elapsed() > Duration::from_secs(3));
    stop(&env);
    env.wait_state(&run, "completed");
    let record = record(&env, &run);
    assert_eq!(record.state, NodeState::Ended);
    let samples = series(&env, &run);
    assert!(samples.len() as u64 >= 25, "{}", samples.len());
    assert!(longest_hole(&samples) < 1500, "{}", longest_hole(&samples));
    assert_eq!(record.gaps, []);
    assert!(
        record.usage.cpu_seconds() > Some(0.0) && record.usage.mem_peak_bytes > Some(100_000),
        "{:?}",
        record.usage
    );
    assert!(client.runs().is_empty());
    daemon.stop();
    // The node's database has the same.
    let store = Store::open(&daemon.database()).expect("the index form");
    let run_id: RunId = run.parse().expect("an id");
    let blocks = crate::support::index_rows::blocks(&store, &record.key);
    let stored: u32 = blocks.iter().map(|block| block.samples).sum();
    assert!(stored >= 25, "{stored}");
    let read = store.node_records(&run_id).expect("records");
    assert_eq!(read.len(), 1);
    assert_eq!(read[0].usage.mem_peak_bytes, record.usage.mem_peak_bytes);
}

#[test]
fn a_killed_daemon_costs_no_run_and_no_interval() {
    let env = env();
    let mut daemon = Dlrund::start(&env, "");
    let run = env.submit(&env.job(UNTIL_STOP, ""));
    wait_for("the daemon to watch it", || is_adopted(&env, &run));
    daemon.kill();
    let pause = Instant::now();
    wait_for("the watcher to sample by itself", || {
        pause.elapsed() > Duration::from_millis(1500)
    });
    daemon.start_again(&env);
    let mut client = RawClient::greeted(&daemon);
    wait_for("the run to be taken up again", || {
        client
            .runs()
            .iter()
            .any(|view| view.key.run_id.as_str() == run)
    });
    let text = || serde_json::to_string(&record(&env, &run)).expect("JSON");
    wait_for("the client to come back", || {
        text().matches("\"adopted\"").count() >= 2
    });
    stop(&env);
    env.wait_state(&run, "completed");
    let record = record(&env, &run);
    let samples = series(&env, &run);
    assert!(
        longest_hole(&samples) < 1000,
        "{} ms in {}",
        longest_hole(&samples),
        samples.len()
    );
    assert!(
        record.gaps.iter().any(|gap| gap.why.contains("killed")),
        "{:?}",
        record.gaps
    );
    assert!(
        record
            .events
            .iter()
            .any(|event| event.kind.as_str() == "daemon_lost"),
        "{:?}",
        record.events
    );
    let user: Vec<u64> = samples
        .iter()
        .filter_map(|sample| sample.cpu_user_us)
        .collect();
    assert!(!user.is_empty());
    // The daemon's own hole and what the client tells of it are one gap.
    daemon.stop();
    assert_eq!(
        rows(&daemon.database(), "SELECT count(*) FROM gap"),
        [["1"]]
    );
}

#[test]
fn a_stopped_daemon_says_so_and_dead_runs_are_closed() {
    let env = env();
    let mut daemon = Dlrund::start(&env, "");
    let run = env.submit(&env.job(UNTIL_STOP, ""));
    wait_for("the daemon to watch it", || is_adopted(&env, &run));
    let pids = env.processes();
    let daemon_pid = daemon.pid();
    daemon.stop();
    for pid in pids.into_iter().filter(|pid| *pid != daemon_pid) {
        let _ = kill(pid, Signal::SIGKILL);
    }
    daemon.start_again(&env);
    let mut client = RawClient::greeted(&daemon);
    assert!(client.runs().is_empty());
    daemon.stop();
    assert_eq!(
        rows(&daemon.database(), "SELECT state FROM node"),
        [["interrupted"]]
    );
    assert!(
        daemon.log().contains("ended while dlrund was not running"),
        "{}",
        daemon.log()
    );
}

#[test]
fn hostile_clients_are_sent_away_and_others_are_served() {
    let env = env();
    let daemon = Dlrund::start(
        &env,
        "[limits]\nrequest_seconds = 1\nconnections_per_user = 8",
    );
    let refused = |answer: Option<Response>| match answer {
        Some(Response::Refused(refusal)) => refusal,
        other => panic!("{other:?}"),
    };
    // No hello, or one of another time.
    let mut client = RawClient::connect(&daemon);
    assert_eq!(
        refused(client.ask(&Request::Status)).kind,
        RefusalKind::BadRequest
    );
    assert_eq!(client.answer(), None);
    let mut client = RawClient::connect(&daemon);
    let refusal = refused(client.ask(&Request::Hello(Hello {
        protocol: 99,
        version: "9.9.9".to_owned(),
    })));
    assert_eq!(refusal.kind, RefusalKind::Version);
    assert!(
        refusal.message.contains("9.9.9") && refusal.message.contains("restart dlrund"),
        "{}",
        refusal.message
    );
    // Too long, and nonsense.
    let mut client = RawClient::connect(&daemon);
    client.send(
        &u32::try_from(MAX_MESSAGE_BYTES + 1)
            .expect("small")
            .to_le_bytes(),
    );
    assert_eq!(refused(client.answer()).kind, RefusalKind::BadRequest);
    let mut client = RawClient::greeted(&daemon);
    client.send(&[2, 0, 0, 0, b'{', b'{']);
    assert_eq!(refused(client.answer()).kind, RefusalKind::BadRequest);
    assert_eq!(client.answer(), None);
    // A process that is no child of whoever started the client.
    let mut client = RawClient::greeted(&daemon);
    assert_eq!(
        refused(client.ask(&Request::Collect { acknowledged: None })).kind,
        RefusalKind::BadRequest
    );
    // Slow: one byte, then nothing.
    let mut slow = RawClient::greeted(&daemon);
    let begun = Instant::now();
    slow.send(&[1]);
    assert_eq!(refused(slow.answer()).kind, RefusalKind::BadRequest);
    assert!(begun.elapsed() < Duration::from_secs(20));
    // A crowd: some are refused, and when it is gone others come in.
    let mut crowd: Vec<RawClient> = (0..40).map(|_| RawClient::connect(&daemon)).collect();
    let mut turned_away = 0;
    // None leaves before all have asked, however slowly they are let in.
    for client in &mut crowd {
        turned_away += usize::from(match client.ask(&Request::Hello(Hello::ours())) {
            Some(Response::Refused(refusal)) => refusal.kind == RefusalKind::Busy,
            Some(_) => false,
            None => true,
        });
    }
    drop(crowd);
    assert!(turned_away >= 1, "{turned_away}");
    wait_for("room", || {
        let mut client = RawClient::connect(&daemon);
        matches!(
            client.ask(&Request::Hello(Hello::ours())),
            Some(Response::Hello(_))
        )
    });
    // Answers that nobody reads.
    let mut deaf = RawClient::greeted(&daemon);
    let many = encode(&Request::Status).expect("short").repeat(2000);
    deaf.send(&many);
    let mut client = RawClient::greeted(&daemon);
    let begun = Instant::now();
    assert!(matches!(
        client.ask(&Request::Status),
        Some(Response::Status(_))
    ));
    assert!(
        begun.elapsed() < Duration::from_secs(5),
        "{:?}",
        begun.elapsed()
    );
}

#[test]
fn the_configuration_is_checked() {
    let env = env();
    let mut daemon = Dlrund::start(&env, "");
    daemon.stop();
    let config = env.jobs().join("dlrund.toml");
    let checked = |file: &std::path::Path| {
        env.command(crate::support::dlrund::DLRUND, ["check-config", "--config"])
            .arg(file)
            .run()
    };
    fs::set_permissions(env.root().join("node"), fs::Permissions::from_mode(0o750)).expect("ours");
    let done = checked(&config).code(0);
    assert!(
        done.text().contains("sampling.interval_ms") && done.text().contains("100"),
        "{}",
        done.text()
    );
    let bad = env.write(
        "bad.toml",
        "socket = \"relative\"\n[sampling]\nintervall_ms = 5\n",
    );
    let done = checked(&bad).code(78);
    assert!(
        done.stderr.contains("bad.toml:1") && done.stderr.contains("interval_ms"),
        "{}",
        done.stderr
    );
    let done = checked(&env.jobs().join("none.toml")).code(78);
    assert!(done.stderr.contains("none.toml"), "{}", done.stderr);
    let done = env
        .command(crate::support::dlrund::DLRUND, ["--nonsense"])
        .run()
        .code(64);
    assert!(done.stderr.contains("check-config"), "{}", done.stderr);
}

#[test]
fn only_one_daemon_has_the_database() {
    let env = env();
    let daemon = Dlrund::start(&env, "");
    let config = env.jobs().join("dlrund.toml");
    let second = env
        .command(crate::support::dlrund::DLRUND, ["--config"])
        .arg(&config)
        .run()
        .code(75);
    assert!(
        second.stderr.contains(&daemon.pid().to_string()),
        "{}",
        second.stderr
    );
    assert!(matches!(
        RawClient::greeted(&daemon).ask(&Request::Status),
        Some(Response::Status(_))
    ));
}

#[test]
fn systemd_is_told() {
    let mut env = env();
    let path = env.root().join("notify");
    let socket = std::os::unix::net::UnixDatagram::bind(&path).expect("a socket");
    socket
        .set_read_timeout(Some(Duration::from_secs(60)))
        .expect("a socket");
    env.set("NOTIFY_SOCKET", &path);
    env.set("WATCHDOG_USEC", "600000");
    let mut daemon = Dlrund::start(&env, "");
    let heard = || {
        let mut buffer = [0; 512];
        let count = socket.recv(&mut buffer).expect("a word");
        String::from_utf8_lossy(&buffer[..count]).into_owned()
    };
    assert!(heard().contains("READY=1") || heard().contains("READY=1"));
    wait_for("two signs of life", || heard().contains("WATCHDOG=1"));
    wait_for("another", || heard().contains("WATCHDOG=1"));
    daemon.stop();
    wait_for("the farewell", || heard().contains("STOPPING=1"));
}

#[test]
fn metrics_are_written_and_served() {
    let env = env();
    let textfile = env.root().join("dlrun.prom");
    let port = std::net::TcpListener::bind("127.0.0.1:0")
        .expect("a port")
        .local_addr()
        .expect("an address");
    let more = format!(
        "[metrics]\ntextfile = {:?}\nlisten = \"{port}\"",
        textfile.display().to_string()
    );
    let daemon = Dlrund::start(&env, &more);
    let run = env.submit(&env.job(UNTIL_STOP, ""));
    wait_for("the text file", || textfile.exists());
    let text = fs::read_to_string(&textfile).expect("a file");
    assert!(
        text.contains("dlrun_daemon_ticks_total") && !text.contains("# EOF"),
        "{text}"
    );
    assert_eq!(
        fs::metadata(&textfile)
            .expect("a file")
            .permissions()
            .mode()
            & 0o777,
        0o644
    );
    wait_for("the daemon to watch it", || is_adopted(&env, &run));
    let sent = |request: &str| {
        let mut stream = TcpStream::connect(port).expect("it listens");
        stream.write_all(request.as_bytes()).expect("sent");
        stream
    };
    let scraped = |host: &str| {
        let mut stream = sent(&format!("GET /metrics HTTP/1.1\r\nHost: {host}\r\n\r\n"));
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        answer
    };
    // Somebody who holds connections with half a request keeps nobody out.
    let half: Vec<_> = (0..100)
        .map(|_| sent("GET /metrics HTTP/1.1\r\n"))
        .collect();
    let text = scraped(&port.to_string());
    drop(half);
    assert!(scraped("rebound.example").starts_with("HTTP/1.1 421 "));
    assert!(text.contains("dlrun_daemon_runs 1"), "{text}");
    // Every local user can read the port: it names no run unless it is told to.
    assert!(!text.contains(&run), "{text}");
    stop(&env);
    env.wait_state(&run, "completed");
    drop(daemon);
}

#[test]
fn many_runs_register_at_once() {
    register_at_once(30);
}

/// So many runs of `dlrun exec` that begin together, and end together.
pub(crate) fn register_at_once(count: u8) {
    let mut env = env();
    env.set("DLRUN_MONITOR__INTERVAL_MS", "1000");
    let daemon = Dlrund::start(&env, "[sampling]\ninterval_ms = 1000");
    // So many of these must not be busy themselves.
    let waits = "while [ ! -e stop ]; do sleep 1; done";
    let file = env.job(waits, "");
    let planned = env
        .dlrun(["plan", "--scheduler", "local", "--json"])
        .arg(file)
        .run()
        .code(0);
    let plan = planned.result()["plan"].to_string();
    let started: Vec<_> = (0..count)
        .map(|number: u8| {
            let run = RunId::of_owner([number; 10], nix::unistd::getuid().as_raw());
            env.dlrun(["exec", "--", "sh", "-c", waits])
                .env("DLRUN_PLAN", &plan)
                .env("DLRUN_RUN_ID", run.as_str())
                .env("DLRUN_STATE_DIR", env.state())
                .env("DLRUN_NODE", "n1")
                .start()
        })
        .collect();
    let mut client = RawClient::greeted(&daemon);
    wait_for("all runs", || client.runs().len() == usize::from(count));
    stop(&env);
    for run in started {
        let _ = run.finish().code(0);
    }
    wait_for("all to be over", || client.runs().is_empty());
    let status = match client.ask(&Request::Status) {
        Some(Response::Status(status)) => status,
        other => panic!("{other:?}"),
    };
    assert_eq!(
        (status.store.dropped_samples, status.store.error),
        (0, None)
    );
}

/// A cgroup named as Slurm names a job's, in every v1 hierarchy that Slurm uses; removed when it goes.
struct SlurmCgroup(Vec<std::path::PathBuf>);

impl SlurmCgroup {
    fn new(job: u32) -> Option<Self> {
        let made = ["memory", "cpuacct", "freezer"].map(|controller| {
            let dir = std::path::PathBuf::from(format!(
                "/sys/fs/cgroup/{controller}/slurm/uid_0/job_{job}/step_0"
            ));
            fs::create_dir_all(&dir).ok().map(|()| dir)
        });
        let made: Option<Vec<_>> = made.into_iter().collect();
        made.map(Self)
    }

    fn add(&self, pid: u32) {
        self.0.iter().for_each(|dir| {
            fs::write(dir.join("cgroup.procs"), pid.to_string()).expect("it is ours")
        });
    }
}

impl Drop for SlurmCgroup {
    fn drop(&mut self) {
        for dir in &self.0 {
            for level in dir.ancestors().take(2) {
                let _ = fs::remove_dir(level);
            }
        }
    }
}

#[test]
fn other_jobs_are_recorded_where_the_site_wants_it() {
    let env = env();
    let job = 900_000 + std::process::id() % 90_000;
    let Some(cgroup) = SlurmCgroup::new(job) else {
        return crate::support::skip("it takes root and v1 cgroups to make a job's cgroup");
    };
    let mut daemon = Dlrund::start(
        &env,
        "[sampling]\ninterval_ms = 100\nprocess_interval_ms = 200\nall_jobs = true",
    );
    let work = env.command("/bin/sh", ["-c", UNTIL_STOP]).start();
    cgroup.add(work.pid().as_raw().unsigned_abs());
    let mut client = RawClient::greeted(&daemon);
    let name = format!("slurm job {job}");
    let found = wait_for_some("the job to be found", || {
        client
            .runs()
            .into_iter()
            .find(|view| view.name == name && view.usage.cpu_seconds() > Some(0.0))
    });
    assert_eq!(found.job_id.map(|id| id.0), Some(job.to_string()));
    // It survives a restart, under the same id.
    daemon.kill();
    daemon.start_again(&env);
    let mut client = RawClient::greeted(&daemon);
    let again = wait_for_some("the job after the restart", || {
        client.runs().into_iter().find(|view| view.name == name)
    });
    assert_eq!(again.key, found.key);
    stop(&env);
    let _ = work.finish().code(0);
    drop(cgroup);
    wait_for("the job to be over", || {
        client.runs().iter().all(|view| view.name != name)
    });
    daemon.stop();
    let sql = format!(
        "SELECT node.state FROM node JOIN attempt ON node.attempt = attempt.id JOIN run ON attempt.run = run.id
         WHERE name = '{name}'"
    );
    assert_eq!(rows(&daemon.database(), &sql), [["ended"]]);
}
