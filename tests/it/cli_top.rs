//! `dlrun top` against a stand-in for the node daemon, as lines, as a table and on a terminal.

use std::fs;
use std::path::PathBuf;

use dlrun::observe::protocol::{
    DaemonStatus, Hello, RefusalKind, Request, Response, RunView, Runs,
};
use dlrun::record::{GpuReading, MeasureKey, Progress, Sample, Usage};
use serde_json::Value;

use crate::support::{DLRUN, Dlrund, Scripted, TestEnv, python, wait_for, wait_for_some};

/// When the first sample was taken.
const BEGIN_MS: u64 = 1_763_650_000_000;

/// A private place where dlrun looks for the daemon at the returned path.
fn place() -> (TestEnv, PathBuf) {
    let mut env = TestEnv::new();
    let socket = env.root().join("dlrund.sock");
    env.set("DLRUN_MONITOR__DAEMON_SOCKET", &socket);
    (env, socket)
}

fn own_uid() -> u32 {
    nix::unistd::getuid().as_raw()
}

/// A run after `tick` seconds: half a CPU busy, 1 MiB read in a second.
fn view(letter: char, uid: u32, tick: u64) -> RunView {
    let run_id = letter.to_string().repeat(16).parse().expect("an id");
    let gpu = GpuReading {
        utilisation_percent: Some(0),
        mem_used_bytes: Some(3 << 20),
        run_processes: Some(0),
        ..GpuReading::of("GPU-1".into())
    };
    let sample = Sample {
        at_ms: BEGIN_MS + 1000 * tick,
        cpu_user_us: Some(400_000 * tick),
        cpu_system_us: Some(100_000 * tick),
        mem_rss_bytes: Some(5 << 20),
        io_read_bytes: Some(tick << 20),
        gpus: vec![gpu],
        ..Sample::default()
    };
    RunView {
        key: MeasureKey {
            run_id,
            element: 0,
            attempt: 0,
            node: "node01".into(),
            step: 0,
        },
        name: format!("train-{letter}"),
        job_id: None,
        uid,
        started_at_ms: BEGIN_MS,
        sample: Some(sample),
        usage: Usage::default(),
        gpus: Vec::new(),
        progress: Progress {
            epochs_completed: 2,
            epochs_announced: Some(5),
            ..Progress::default()
        },
        events: Vec::new(),
        processes_at_ms: None,
    }
}

fn status() -> DaemonStatus {
    DaemonStatus {
        version: "0.1.0".into(),
        pid: 1,
        started_at_ms: BEGIN_MS,
        interval_ms: 1000,
        runs: 1,
        gpus: Vec::new(),
        cost: Default::default(),
        store: Default::default(),
        problems: Vec::new(),
    }
}

/// A daemon with these runs, a letter and a user each; each question finds it a second later. It tells two at a time.
fn daemon(runs: &[(char, u32)]) -> impl FnMut(&Request) -> Option<Response> + Send + 'static {
    let (runs, mut tick) = (runs.to_vec(), 0);
    move |request| match request {
        Request::Runs(query) => {
            tick += u64::from(query.skip == 0);
            let some = runs
                .iter()
                .skip(query.skip)
                .take(2)
                .map(|(letter, uid)| view(*letter, *uid, tick));
            let runs = Runs {
                host: "node01".into(),
                at_ms: BEGIN_MS + 1000 * tick,
                runs: some.collect(),
                more: runs.len() > query.skip + 2,
            };
            Some(Response::Runs(runs))
        }
        Request::Status => Some(Response::Status(Box::new(status()))),
        _ => None,
    }
}

fn names(line: &Value) -> Vec<&str> {
    line["runs"]
        .as_array()
        .expect("runs")
        .iter()
        .map(|run| run["name"].as_str().expect("text"))
        .collect()
}

#[test]
fn lines_have_rates_and_end_quietly_when_nobody_reads() {
    let (env, socket) = place();
    let _daemon = Scripted::start(&socket, daemon(&[('a', own_uid())]));
    let script = format!("set -o pipefail; '{DLRUN}' top --json --interval 0.1 | head -n 3");
    let done = env.command("bash", ["-c", &script]).run().code(0);
    assert_eq!(done.stderr, "");
    let text = done.text();
    let lines: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    assert_eq!(lines.len(), 3);
    assert_eq!(
        (&lines[0]["host"], &lines[0]["at_ms"]),
        (&"node01".into(), &(BEGIN_MS + 1000).into())
    );
    assert_eq!(lines[0]["runs"][0]["cpu_busy"], Value::Null);
    for line in &lines[1..] {
        let run = &line["runs"][0];
        assert_eq!(
            (&run["cpu_busy"], &run["mem_bytes"]),
            (&0.5.into(), &(5 << 20).into()),
            "{line}"
        );
        assert_eq!(run["io_read_bytes_per_second"], 1 << 20);
        assert_eq!(
            (&run["gpus"][0]["idle"], &run["epoch"]),
            (&true.into(), &2.into())
        );
    }
}

#[test]
fn long_answers_are_followed_and_other_users_are_shown_when_asked_for() {
    let (env, socket) = place();
    let other = own_uid() + 1;
    let runs = [
        ('a', own_uid()),
        ('b', other),
        ('c', own_uid()),
        ('d', own_uid()),
        ('e', other),
    ];
    let _daemon = Scripted::start(&socket, daemon(&runs));
    let once = ["top", "--json", "--once", "--interval", "0.1"];
    let line =
        |done: crate::support::Done| serde_json::from_str::<Value>(&done.text()).expect("JSON");
    let own = line(env.dlrun(once).run().code(0));
    assert_eq!(names(&own), ["train-a", "train-c", "train-d"]);
    assert_eq!(own["runs"][2]["cpu_busy"], 0.5);
    let all = line(env.dlrun(once).arg("--all").run().code(0));
    assert_eq!(
        names(&all),
        ["train-a", "train-b", "train-c", "train-d", "train-e"]
    );
}

#[test]
fn without_a_terminal_there_is_one_table() {
    let (env, socket) = place();
    for more in [&[][..], &["--once"]] {
        let _daemon = Scripted::start(&socket, daemon(&[('a', own_uid())]));
        let done = env
            .dlrun(["top", "--interval", "0.1"])
            .args(more)
            .run()
            .code(0);
        let text = done.text();
        let lines: Vec<Vec<&str>> = text
            .lines()
            .map(|line| line.split_whitespace().collect())
            .collect();
        assert_eq!(lines.len(), 2, "{text}");
        assert_eq!(
            lines[0],
            [
                "RUN", "NAME", "JOB", "EPOCH", "TIME", "LEFT", "CPU%", "MEMORY", "READ/s",
                "WRITE/s", "GPU", "GPU", "MEM"
            ]
        );
        assert_eq!(lines[1][..2], ["aaaaaa", "train-a"]);
        assert_eq!(
            lines[1][3..],
            [
                "2/5", "0:02", "-", "50", "5MiB", "1MiB", "-", "1:", "0%", "1", "idle", "3MiB"
            ]
        );
    }
}

#[test]
fn a_node_without_runs_is_told_so() {
    let (env, socket) = place();
    let _daemon = Scripted::start(&socket, daemon(&[('a', own_uid() + 1)]));
    let done = env
        .dlrun(["top", "--once", "--interval", "0.1"])
        .run()
        .code(0);
    assert_eq!(
        done.text(),
        "no runs to show on node01; 1 of another user, with `--all`\n"
    );
}

#[test]
fn a_daemon_that_is_not_there_is_told_with_the_next_step() {
    let (env, socket) = place();
    let done = env
        .dlrun(["top"])
        .run()
        .code(69)
        .warns("error: cannot reach dlrund at `");
    let _ = done
        .warns("systemctl status dlrund")
        .warns("dlrun show RUN")
        .warns("service of a compute node");
    let error = env.dlrun(["top", "--json"]).run().code(69).error();
    assert_eq!(error["kind"], "unreachable");
    // A socket on which nobody listens.
    drop(std::os::unix::net::UnixListener::bind(&socket).expect("the place is free"));
    let _ = env
        .dlrun(["top", "--once"])
        .run()
        .code(69)
        .warns("systemctl status dlrund");
    let off = env.dlrun(["top"]).env("DLRUN_MONITOR__DAEMON", "off").run();
    let _ = off.code(69).warns("`monitor.daemon` is off");
}

#[test]
fn a_daemon_of_another_version_or_that_refuses_is_told() {
    let (env, socket) = place();
    {
        let hello = Hello {
            protocol: 99,
            version: "9.9.9".into(),
        };
        let _newer = Scripted::start(&socket, move |_| Some(Response::Hello(hello.clone())));
        let _ = env
            .dlrun(["top", "--once"])
            .run()
            .code(69)
            .warns("9.9.9")
            .warns("use a newer dlrun");
    }
    let refusal = |request: &Request| {
        let refused = || Response::refused(RefusalKind::Busy, "too many connections");
        (!matches!(request, Request::Hello(_))).then(refused)
    };
    let _busy = Scripted::start(&socket, refusal);
    let _ = env
        .dlrun(["top", "--once"])
        .run()
        .code(75)
        .warns("too many connections");
}

#[test]
fn lines_go_on_when_the_daemon_is_started_anew() {
    let (env, socket) = place();
    let first = Scripted::start(&socket, daemon(&[('a', own_uid())]));
    let out = env.jobs().join("lines");
    let stream = env
        .dlrun(["top", "--json", "--interval", "0.1"])
        .start_to(&out);
    let lines = || fs::read_to_string(&out).unwrap_or_default().lines().count();
    wait_for("two lines", || lines() >= 2);
    drop(first);
    let before = lines();
    let _second = Scripted::start(&socket, daemon(&[('b', own_uid())]));
    wait_for("more lines", || lines() >= before + 3);
    drop(stream);
    let text = fs::read_to_string(&out).expect("it is there");
    let last: Value =
        serde_json::from_str(text.lines().nth(before + 2).expect("a line")).expect("JSON");
    assert_eq!(names(&last), ["train-b"]);
}

#[test]
fn intervals_that_make_no_sense_are_refused() {
    let (env, _) = place();
    for interval in ["0", "0.05", "61", "-1", "nan", "soon"] {
        let _ = env
            .dlrun(["top", &format!("--interval={interval}")])
            .run()
            .code(64)
            .warns("between 0.1 and 60");
    }
}

/// Runs a command on a terminal of 60 by 15, makes it 80 by 24 once the screen is there, ends it with the first argument,
/// and tells as JSON how that went.
const ON_A_TERMINAL: &str = r#"
import fcntl, json, os, pty, signal, struct, sys, termios, time
signal.alarm(50)
end, command = sys.argv[1], sys.argv[2:]
ours, theirs = pty.openpty()
def resize(rows, columns):
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
resize(15, 60)
before = termios.tcgetattr(theirs)
child = os.fork()
if child == 0:
    os.setsid()
    fcntl.ioctl(theirs, termios.TIOCSCTTY, 0)
    for fd in range(3):
        os.dup2(theirs, fd)
    os.execv(command[0], command)
seen = b""
def read_until(what):
    global seen
    while what not in seen:
        seen += os.read(ours, 65536)
read_until(b"train-a")
during = termios.tcgetattr(theirs)
resize(24, 80)
read_until(b"TIME")
if end == "TERM":
    os.kill(child, signal.SIGTERM)
elif end == "HUP":
    os.kill(child, signal.SIGHUP)
else:
    os.write(ours, end.encode().decode("unicode_escape").encode())
read_until(b"\x1b[?1049l")
code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
after = termios.tcgetattr(theirs)
print(json.dumps({
    "code": code, "raw": during != before, "restored": after == before, "seen": seen.decode(errors="replace"),
}))
"#;

fn on_a_terminal(env: &TestEnv, end: &str) -> Value {
    let python = python().to_string_lossy().into_owned();
    let arguments = ["-c", ON_A_TERMINAL, end, DLRUN, "top", "--interval", "0.2"];
    let done = env.command(&python, arguments).run().code(0);
    serde_json::from_str(&done.text()).expect("JSON")
}

#[test]
fn the_terminal_is_given_back_however_it_ends() {
    let (mut env, socket) = place();
    let _daemon = Scripted::start(&socket, daemon(&[('a', own_uid())]));
    for (end, code) in [("q", 0), (r"\x03", 0), ("TERM", 143), ("HUP", 129)] {
        let told = on_a_terminal(&env, end);
        assert_eq!(told["code"], code, "{end}: {told}");
        assert_eq!(
            (&told["raw"], &told["restored"]),
            (&true.into(), &true.into()),
            "{end}"
        );
        let seen = told["seen"].as_str().expect("text");
        let (opened, closed) = (seen.find("\u{1b}[?1049h"), seen.find("\u{1b}[?1049l"));
        assert!(opened.is_some() && opened < closed, "{end}: {seen:?}");
        assert!(
            seen.rfind("\u{1b}[?25h") > seen.rfind("\u{1b}[?25l"),
            "the cursor is shown: {seen:?}"
        );
        assert!(seen.contains("\u{1b}[38;5;"), "there are colours: {seen:?}");
    }
    env.set("NO_COLOR", "1");
    let plain = on_a_terminal(&env, "q");
    assert!(
        !plain["seen"]
            .as_str()
            .expect("text")
            .contains("\u{1b}[38;5;"),
        "{plain}"
    );
}

#[test]
fn the_real_daemon_shows_a_run_that_works() {
    let env = TestEnv::new();
    let _daemon = Dlrund::start(&env, "");
    let run = env.submit(&env.job("while [ ! -e stop ]; do :; done", ""));
    let look = || {
        let done = env
            .dlrun(["top", "--json", "--once", "--interval", "0.5"])
            .run()
            .code(0);
        serde_json::from_str::<Value>(&done.text()).expect("JSON")
    };
    let shown = wait_for_some("the run with its CPU time", || {
        let line = look();
        let shown = line["runs"]
            .as_array()?
            .iter()
            .find(|shown| shown["run_id"] == run.as_str())
            .cloned()?;
        shown["cpu_busy"]
            .as_f64()
            .is_some_and(|cpus| cpus > 0.1)
            .then_some(shown)
    });
    assert_eq!(
        (&shown["name"], &shown["uid"]),
        (&"job".into(), &own_uid().into()),
        "{shown}"
    );
    assert!(shown["cpu_busy"].as_f64() < Some(1.5), "{shown}");
    assert!(shown["mem_bytes"].as_u64() > Some(100_000), "{shown}");
    env.write("stop", "");
    env.wait_state(&run, "completed");
    wait_for("the run to leave", || {
        look()["runs"].as_array().is_some_and(Vec::is_empty)
    });
}
