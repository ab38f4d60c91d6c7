//! `dlrund` between users: nobody sees, takes, ends or starves the runs of another, and only root and one group read all.
//!
//! Acting as two users takes root; without it these tests say that they did nothing.

use std::fs::{self, Permissions};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use dlrun::job::RunId;
use dlrun::observe::protocol::{
    Ending, Hello, Process, RefusalKind, Registration, Request, Response, RunView, RunsQuery,
};
use dlrun::record::{Epoch, EventKind, NodeRecord, RunRecord, Sample};
use nix::sys::statfs::{TMPFS_MAGIC, statfs};

use crate::support::env::install;
use crate::support::{Dlrund, RawClient, TestEnv, dlrund, recorded, skip, wait_for, wait_for_some};

/// Users who need no account, and the one whom the daemon runs as.
const ALICE: u32 = 64_001;
const MALLORY: u32 = 64_002;
const DAEMON: u32 = 64_003;
/// Bytes that the daemon must do with: half of `MemoryHigh=` of the unit and a little.
const MEMORY: u64 = 144 << 20;
/// A group of every system, for `read_group`.
const GROUP: (&str, u32) = ("daemon", 1);

/// Works until the file `stop` is there; the machine has little to do meanwhile.
const UNTIL_STOP: &str = "while [ ! -e stop ]; do sleep 0.05; done; echo done";

fn is_root() -> bool {
    let is_root = nix::unistd::geteuid().is_root();
    if !is_root {
        skip("only root can act as other users");
    }
    is_root
}

/// A daemon's place: others reach the socket and nothing else, as the unit has it.
fn place() -> TestEnv {
    let env = TestEnv::new();
    env.open_to_others();
    for (name, mode) in [("node", 0o750), ("run", 0o755)] {
        fs::create_dir(env.root().join(name)).expect("it is ours");
        fs::set_permissions(env.root().join(name), Permissions::from_mode(mode))
            .expect("it is ours");
    }
    env
}

/// A user whose runs find the daemon.
fn user(uid: u32, daemon: &Dlrund, interval_ms: &str) -> TestEnv {
    let mut env = TestEnv::of_user(uid);
    env.set("DLRUN_MONITOR__DAEMON_SOCKET", daemon.socket());
    env.set("DLRUN_MONITOR__INTERVAL_MS", interval_ms);
    env.set("DLRUN_MONITOR__RECORD_SECONDS", "1");
    env
}

/// Starts a run and waits until the daemon has it.
fn watched(env: &TestEnv) -> String {
    let run = env.submit(&env.job(UNTIL_STOP, ""));
    wait_for("the daemon to watch it", || {
        recorded::is_adopted(&env.run_dir(&run))
    });
    run
}

fn stop(env: &TestEnv, run: &str) {
    env.write("stop", "");
    env.wait_state(run, "completed");
    fs::remove_file(env.jobs().join("stop")).expect("it is there");
}

/// Processes of another user: a shell as supervisor, with a process to watch and a client that says what it likes.
struct Stranger {
    uid: u32,
    gid: u32,
    script: std::path::PathBuf,
}

impl Stranger {
    fn new(env: &TestEnv, uid: u32, gid: u32) -> Self {
        let script = env.root().join(format!("stranger.{uid}.{gid}.pl"));
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fakes/stranger.pl");
        fs::copy(source, &script).expect("a copy");
        fs::set_permissions(&script, Permissions::from_mode(0o644)).expect("it is ours");
        Self { uid, gid, script }
    }

    fn start(&self, daemon: &Dlrund, requests: &[Request], mode: &[&str]) -> Child {
        let mut command = Command::new("/bin/sh");
        // A shell gives what it puts into the background no standard input.
        let script = "exec 3<&0; sleep 300 </dev/null >/dev/null 2>&1 & p=$!; script=$1; socket=$2; shift 2; perl \"$script\" \"$socket\" $p \"$@\" <&3; kill $p";
        command
            .args(["-c", script, "sh"])
            .arg(&self.script)
            .arg(daemon.socket())
            .args(mode);
        command
            .uid(self.uid)
            .gid(self.gid)
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut child = command.spawn().expect("sh and perl are there");
        let mut input = child.stdin.take().expect("a pipe");
        let hello = Request::Hello(Hello::ours());
        for request in [&hello].into_iter().chain(requests) {
            writeln!(input, "{}", serde_json::to_string(request).expect("JSON"))
                .expect("it listens");
        }
        child
    }

    /// The answers to requests; `None` where the daemon hung up.
    fn ask(&self, daemon: &Dlrund, requests: &[Request]) -> Vec<Option<Response>> {
        let output = self
            .start(daemon, requests, &[])
            .wait_with_output()
            .expect("it ends");
        let text = String::from_utf8(output.stdout).expect("text");
        let mut answers: Vec<_> = text
            .lines()
            .map(|line| serde_json::from_str(line).ok())
            .collect();
        assert_eq!(answers.len(), requests.len() + 1, "{text}");
        assert_eq!(answers.remove(0), Some(Response::Hello(Hello::ours())));
        answers
    }

    fn runs(&self, daemon: &Dlrund) -> Vec<RunView> {
        match self
            .ask(
                daemon,
                &[Request::Runs(RunsQuery {
                    skip: 0,
                    processes: true,
                })],
            )
            .remove(0)
        {
            Some(Response::Runs(runs)) => runs.runs,
            other => panic!("{other:?}"),
        }
    }

    /// Whether a shell of this user can do it.
    fn can(&self, script: &str) -> bool {
        let mut command = Command::new("/bin/sh");
        command
            .args(["-c", script])
            .uid(self.uid)
            .gid(self.gid)
            .current_dir("/");
        command
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .expect("there is a shell")
            .success()
    }
}

fn refusal(answer: Option<Response>) -> RefusalKind {
    match answer {
        Some(Response::Refused(refusal)) => refusal.kind,
        other => panic!("{other:?}"),
    }
}

/// The process that the stranger's script puts in, and a registration with it.
const OWN: Process = Process {
    pid: 1_111_111_111,
    start_time_ticks: 2_222_222_222_222,
};

fn registration(env: &TestEnv, run: &str, command: Process) -> Registration {
    let path = env.run_dir(run).join("run.json");
    let described: RunRecord =
        serde_json::from_slice(&fs::read(path).expect("a file")).expect("a record");
    let record: NodeRecord = recorded::record(&env.run_dir(run)).expect("a record");
    Registration {
        run: described,
        record,
        command,
        gpus: Vec::new(),
        gap: None,
        booted_at_ms: None,
    }
}

/// The same under an id of that user's own.
fn of_owner(mut registration: Registration, uid: u32) -> Registration {
    let run_id = RunId::of_owner([7; 10], uid);
    registration.run.run_id = run_id.clone();
    registration.record.key.run_id = run_id;
    registration
}

fn register(registration: Registration) -> Request {
    Request::Register(Box::new(registration))
}

/// The command of the only run that is watched, as its own processes are known.
fn command_of(env: &TestEnv) -> Process {
    let pid = env.processes_with(UNTIL_STOP)[0].as_raw().unsigned_abs();
    Process {
        pid,
        start_time_ticks: dlrun::observe::monitor::start_time_ticks(pid).expect("it runs"),
    }
}

/// The name of a run's user in the database of a node.
fn recorded_user(daemon: &Dlrund, run: &RunId) -> String {
    let store = dlrun::record::store::Store::open_reader(&daemon.database()).expect("a database");
    let rows = store
        .list(10, &dlrun::record::store::Filter::default())
        .expect("runs");
    let found = rows.into_iter().find(|row| row.record.run_id == *run);
    found.expect("it was registered").record.user
}

#[test]
fn users_have_their_own_runs_and_no_others() {
    if !is_root() {
        return;
    }
    let place = place();
    let daemon = Dlrund::start(&place, &format!("read_group = {:?}\n", GROUP.0));
    let alice = user(ALICE, &daemon, "100");
    let run = watched(&alice);
    let mallory = Stranger::new(&place, MALLORY, MALLORY);

    // Seeing: the owner, root and the group, with the uid that the kernel told.
    assert_eq!(mallory.runs(&daemon), []);
    let seen = |views: Vec<RunView>| -> Vec<(String, u32)> {
        views
            .iter()
            .map(|view| (view.key.run_id.to_string(), view.uid))
            .collect()
    };
    let whole = [(run.clone(), ALICE)];
    assert_eq!(
        seen(Stranger::new(&place, ALICE, ALICE).runs(&daemon)),
        whole
    );
    assert_eq!(
        seen(Stranger::new(&place, MALLORY, GROUP.1).runs(&daemon)),
        whole
    );
    assert_eq!(seen(RawClient::greeted(&daemon).runs()), whole);

    // Registering: neither another's process, nor another's run with a process of one's own; a run of one's own is fine.
    let theirs = registration(&alice, &run, command_of(&alice));
    let answers = mallory.ask(&daemon, &[register(theirs.clone())]);
    assert_eq!(
        refusal(answers.into_iter().next().flatten()),
        RefusalKind::BadRequest
    );
    let stolen = Registration {
        command: OWN,
        ..theirs.clone()
    };
    let end = Ending {
        record: theirs.record.clone(),
        cpu_user_us: 0,
        cpu_system_us: 0,
    };
    let answers = mallory.ask(
        &daemon,
        &[
            register(stolen.clone()),
            Request::Collect { acknowledged: None },
            Request::End(Box::new(end)),
        ],
    );
    let kinds: Vec<_> = answers.into_iter().map(refusal).collect();
    assert_eq!(
        kinds,
        [
            RefusalKind::NotPermitted,
            RefusalKind::BadRequest,
            RefusalKind::BadRequest
        ]
    );
    let named = |run_id: RunId| {
        let mut named = stolen.clone();
        named.record.key.run_id = run_id.clone();
        named.run.run_id = run_id;
        named
    };
    // Nor under an id that this node has not seen: run ids are public.
    for run_id in [RunId::of_owner([7; 10], ALICE), RunId::from_random([7; 10])] {
        let answers = mallory.ask(&daemon, &[register(named(run_id))]);
        assert_eq!(
            refusal(answers.into_iter().next().flatten()),
            RefusalKind::NotPermitted
        );
    }
    let own = named(RunId::of_owner([7; 10], MALLORY));
    let answers = mallory.ask(
        &daemon,
        &[register(own), Request::Runs(RunsQuery::default())],
    );
    assert!(
        matches!(answers[0], Some(Response::Registered(_))),
        "{answers:?}"
    );
    let Some(Response::Runs(runs)) = &answers[1] else {
        panic!("{answers:?}")
    };
    assert!(runs.runs.iter().all(|view| view.uid == MALLORY), "{runs:?}");
    // Whatever the message says, the name is that of the user id; this one has none.
    let named = recorded_user(&daemon, &RunId::of_owner([7; 10], MALLORY));
    assert_eq!(named, format!("uid {MALLORY}"));

    // Files: the database is closed, and the socket stays where it is.
    let (node, socket) = (
        place.root().join("node"),
        daemon.socket().display().to_string(),
    );
    let run_dir = place.root().join("run");
    for script in [
        format!("ls {}", node.display()),
        format!("cat {}", daemon.database().display()),
        format!("touch {}/x", node.display()),
        format!("touch {}/x", run_dir.display()),
        format!("rm -f {socket} && [ ! -e {socket} ]"),
        format!("mv {socket} /tmp"),
    ] {
        assert!(!mallory.can(&script), "{script}");
    }
    assert!(
        mallory.can(&format!("[ -S {socket} ]")),
        "it can be reached"
    );
    fs::set_permissions(&node, Permissions::from_mode(0o755)).expect("it is ours");
    assert!(
        !mallory.can(&format!("cat {}", daemon.database().display())),
        "its mode alone keeps it"
    );

    // All of that cost the owner nothing.
    stop(&alice, &run);
    let record = recorded::record(&alice.run_dir(&run)).expect("a record");
    assert_eq!(
        (record.gaps, record.exit.map(|exit| exit.is_success())),
        (Vec::new(), Some(true))
    );
    assert!(
        record
            .events
            .iter()
            .all(|event| event.kind != EventKind::DaemonLost),
        "{:?}",
        record.events
    );
}

#[test]
fn a_flood_of_one_user_starves_no_other() {
    if !is_root() {
        return;
    }
    const INTERVAL_MS: u64 = 500;
    let place = place();
    let daemon = Dlrund::start(&place, "[sampling]\ninterval_ms = 500\n");
    let alice = user(ALICE, &daemon, "500");
    let run = watched(&alice);
    let mallory = Stranger::new(&place, MALLORY, MALLORY);
    let theirs = of_owner(registration(&alice, &run, OWN), MALLORY);
    let update = Request::Update {
        record: Box::new(theirs.record.clone()),
    };
    let requests = [
        register(theirs),
        Request::Status,
        Request::Runs(RunsQuery::default()),
        update,
    ];
    let before = recorded::series(&alice.run_dir(&run)).len();
    let over = place.root().join("over");
    let mode = ["flood", &over.display().to_string()];
    let mut floods: Vec<Child> = (0..4)
        .map(|_| mallory.start(&daemon, &requests, &mode))
        .collect();
    let begun = Instant::now();
    wait_for("the flood to rise", || {
        begun.elapsed() > Duration::from_secs(2)
    });
    // Another run of the same user is taken up at once.
    let again = user(ALICE, &daemon, "500");
    let second = watched(&again);
    let record = recorded::record(&again.run_dir(&second)).expect("a record");
    let adopted = record
        .events
        .iter()
        .find(|event| event.kind == EventKind::Adopted)
        .expect("it is")
        .at_ms;
    let taken = adopted - record.started_at_ms;
    let asked = Instant::now();
    assert!(
        RawClient::greeted(&daemon)
            .runs()
            .iter()
            .filter(|view| view.uid == ALICE)
            .count()
            == 2
    );
    let answered = asked.elapsed();
    assert!(
        floods
            .iter_mut()
            .all(|flood| flood.try_wait().expect("ours").is_none()),
        "the flood goes on"
    );
    fs::write(&over, "").expect("it is ours");
    wait_for("the flood to end", || {
        floods
            .iter_mut()
            .all(|flood| flood.try_wait().expect("ours").is_some())
    });
    stop(&alice, &run);
    stop(&again, &second);
    let record = recorded::record(&alice.run_dir(&run)).expect("a record");
    let samples = recorded::series(&alice.run_dir(&run));
    let hole = recorded::longest_hole(&samples);
    let told = format!(
        "taken up after {taken} ms, root answered after {answered:?}, {} samples ({before} before), longest hole {hole} ms, late {} {:?}",
        samples.len(),
        record.watcher.late_ticks,
        record.events
    );
    crate::support::tell(&told);
    // The former includes the start of the run's processes beside the flood.
    assert!(taken < 2000 && answered < Duration::from_secs(1), "{told}");
    assert!(
        hole < 2 * INTERVAL_MS && record.watcher.late_ticks <= 3 && record.gaps.is_empty(),
        "{told}"
    );
    assert!(
        record
            .events
            .iter()
            .all(|event| event.kind != EventKind::DaemonLost),
        "{told}"
    );
}

/// Users who send as much as they can: the daemon stays within its memory, serves others, and comes
/// back after a restart without more.
#[test]
fn the_heaviest_records_of_many_users_fit_half_the_memory_of_the_unit() {
    if !is_root() {
        return;
    }
    let place = place();
    let daemon = format!("--data={MEMORY}");
    let mut daemon = Dlrund::start_with(&place, &["/usr/bin/prlimit", &daemon, dlrund::DLRUND], "");
    let alice = user(ALICE, &daemon, "500");
    let run = watched(&alice);
    let over = place.root().join("over").display().to_string();
    let mut heavy = registration(&alice, &run, OWN);
    heavy.record.key.node = "NODE".to_owned();
    fill(&mut heavy.record);
    let floods: Vec<Child> = (0..6)
        .map(|number| {
            let uid = MALLORY + 100 + number;
            let theirs = of_owner(heavy.clone(), uid);
            let update = Request::Update {
                record: Box::new(theirs.record.clone()),
            };
            Stranger::new(&place, uid, uid).start(
                &daemon,
                &[register(theirs), update],
                &["heavy", &over],
            )
        })
        .collect();
    let mut told = Vec::new();
    let mut floods: Vec<_> = floods
        .into_iter()
        .map(|mut flood| {
            let mut line = String::new();
            let answers = flood.stdout.take().expect("a pipe");
            BufReader::new(answers)
                .read_line(&mut line)
                .expect("a line");
            told.push(line.trim().to_owned());
            flood
        })
        .collect();
    let second = user(ALICE, &daemon, "500");
    let second = (watched(&second), second);
    let high = |daemon: &Dlrund| {
        let status =
            fs::read_to_string(format!("/proc/{}/status", daemon.pid())).expect("it lives");
        let of = |name: &str| {
            status
                .lines()
                .find(|line| line.starts_with(name))
                .unwrap_or_default()
                .to_owned()
        };
        format!("{} {}", of("VmHWM:"), of("VmData:"))
    };
    let flooded = high(&daemon);
    daemon.kill();
    daemon.start_again(&place);
    wait_for("the runs to be watched again", || {
        recorded::is_adopted(&alice.run_dir(&run))
    });
    crate::support::tell(&format!(
        "{told:?}: {flooded}; after a restart {}",
        high(&daemon)
    ));
    let taken: usize = told
        .iter()
        .filter_map(|line| line.split(' ').next()?.parse::<usize>().ok())
        .sum();
    assert!((30..=64).contains(&taken), "{told:?}");
    fs::write(&over, "").expect("it is ours");
    wait_for("the flood to end", || {
        floods
            .iter_mut()
            .all(|flood| flood.try_wait().expect("ours").is_some())
    });
    stop(&alice, &run);
    stop(&second.1, &second.0);
}

/// Makes a record as heavy as the daemon takes it.
fn fill(record: &mut NodeRecord) {
    let epoch = |epoch| Epoch {
        epoch,
        printed_seconds: Some(1.5),
        metrics: [("loss".to_owned(), 0.25)].into(),
        ..Epoch::default()
    };
    record.progress.epochs = (1..=2600).map(epoch).collect();
    while serde_json::to_string(record).expect("JSON").len() > 255 << 10 {
        let shorter = record.progress.epochs.len() - 10;
        record.progress.epochs.truncate(shorter);
    }
}

#[test]
fn a_daemon_without_privileges_says_what_it_cannot_read() {
    if !is_root() {
        return;
    }
    let caps = "+sys_ptrace,+dac_read_search";
    for with in [false, true] {
        let place = place();
        for name in ["node", "run"] {
            chown(place.root().join(name), Some(DAEMON), Some(DAEMON)).expect("root may");
        }
        fs::set_permissions(place.jobs(), Permissions::from_mode(0o755)).expect("it is ours");
        let dlrund = install(dlrund::DLRUND, &place.root().join("bin"))
            .display()
            .to_string();
        let ids = [
            format!("--reuid={DAEMON}"),
            format!("--regid={DAEMON}"),
            "--clear-groups".to_owned(),
        ];
        let held = [
            format!("--inh-caps={caps}"),
            format!("--ambient-caps={caps}"),
        ];
        let mut command = vec!["/usr/bin/setpriv"];
        command.extend(ids.iter().map(String::as_str));
        command.extend(held.iter().map(String::as_str).filter(|_| with));
        command.push(&dlrund);
        let mut daemon = Dlrund::start_with(&place, &command, "");
        let alice = user(ALICE, &daemon, "100");
        let file = alice.job(
            &format!("dd if=/dev/zero of=big bs=1M count=1 conv=fsync; {UNTIL_STOP}"),
            "",
        );
        let run = alice.submit(&file);
        wait_for("the daemon to watch it", || {
            recorded::is_adopted(&alice.run_dir(&run))
        });
        let view = wait_for_some("a sample", || {
            RawClient::greeted(&daemon).runs().into_iter().find(|view| {
                view.sample
                    .as_ref()
                    .is_some_and(|sample| sample.processes >= Some(1))
            })
        });
        assert_eq!(view.uid, ALICE);
        stop(&alice, &run);
        let record = recorded::record(&alice.run_dir(&run)).expect("a record");
        let why = record
            .missing
            .iter()
            .find(|missing| missing.what == "io_read_bytes");
        let has_io = |sample: &Sample| sample.io_read_bytes.is_some();
        let by_daemon = recorded::series(&alice.run_dir(&run))
            .into_iter()
            .skip(1)
            .any(|sample| has_io(&sample));
        assert_eq!(by_daemon, with, "{record:?}");
        // What the daemon may not read the watcher reads at the end. A file system in memory writes nothing.
        let is_disk = statfs(alice.root()).expect("it is there").filesystem_type() != TMPFS_MAGIC;
        assert!(
            !is_disk || record.usage.io_write_bytes >= Some(1 << 20),
            "{record:?}"
        );
        assert_eq!(why.is_none(), with, "{:?}", record.missing);
        assert!(
            why.is_none_or(|why| why.why.contains("ermission denied")),
            "{why:?}"
        );
        assert!(
            record.usage.cpu_seconds().is_some() && record.usage.mem_peak_bytes > Some(0),
            "{record:?}"
        );
        daemon.stop();
    }
}
