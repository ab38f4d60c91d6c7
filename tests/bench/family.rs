//! A run as the node daemon finds it: a supervisor, its command of many processes, and the client that registers it.

use std::error::Error;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use dlrun::observe::client::Daemon;
use dlrun::observe::monitor::start_time_ticks;
use dlrun::observe::protocol::{Process, Registration, Request, Response};
use dlrun::record::{NodeRecord, NodeState};
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

use crate::list;

/// This program with one of these first arguments is part of the family.
pub(crate) const VERBS: [&str; 3] = ["supervisor", "load", "client"];

/// What each process touches.
const TOUCHED_BYTES: usize = 4 << 20;
/// Each process works so long, so often.
const WORK: Duration = Duration::from_micros(150);
const PAUSE: Duration = Duration::from_millis(100);
/// Between two updates of a client, as of dlrun's own.
const UPDATE_PAUSE: Duration = Duration::from_secs(10);
/// Daemons are stopped for minutes while others are measured.
const PATIENCE: Duration = Duration::from_secs(3600);
/// GPUs that the runs say they were given, where there are any.
pub(crate) const GPUS: usize = 8;

/// Of threads.
type Failure = Box<dyn Error + Send + Sync>;

/// Names of the GPUs.
pub(crate) fn gpu_uuids() -> Vec<String> {
    (0..GPUS).map(|number| format!("GPU-{number}")).collect()
}

/// A running family; it ends when this is dropped.
pub(crate) struct Family {
    supervisor: Child,
    output: BufReader<std::process::ChildStdout>,
    /// The command's first process.
    pub(crate) command: u32,
}

impl Family {
    /// Starts one with a command of `count` processes. It first sees to it that `enter` puts the supervisor where the
    /// family is to live.
    pub(crate) fn start(
        count: usize,
        mode: &Mode,
        sockets: &[&Path],
        enter: impl FnOnce(u32) -> Result<(), Box<dyn Error>>,
    ) -> Result<Self, Box<dyn Error>> {
        let mut command = Command::new(std::env::current_exe()?);
        command
            .arg(VERBS[0])
            .arg(count.to_string())
            .arg(mode.to_text())
            .args(sockets);
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .process_group(0);
        let mut supervisor = command.spawn()?;
        let output = BufReader::new(supervisor.stdout.take().ok_or("it has an output")?);
        let mut family = Self {
            supervisor,
            output,
            command: 0,
        };
        enter(family.supervisor.id())?;
        family
            .supervisor
            .stdin
            .take()
            .ok_or("it has an input")?
            .write_all(b"\n")?;
        family.command = family.line()?.parse()?;
        Ok(family)
    }

    /// The next line that a client prints.
    pub(crate) fn line(&mut self) -> Result<String, Box<dyn Error>> {
        let mut line = String::new();
        self.output.read_line(&mut line)?;
        if line.is_empty() {
            Err("the family has ended".into())
        } else {
            Ok(line.trim_end().to_owned())
        }
    }
}

impl Drop for Family {
    fn drop(&mut self) {
        if let Ok(group) = i32::try_from(self.supervisor.id()) {
            let _ = killpg(Pid::from_raw(group), Signal::SIGKILL);
        }
        let _ = self.supervisor.wait();
    }
}

/// What the client does.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Mode {
    /// Registers with each socket, and stays.
    Stay,
    /// Registers runs with the first socket: so many one after another, then so many at once. A line for each has its
    /// milliseconds.
    Register { singly: usize, at_once: usize },
}

impl Mode {
    fn to_text(self) -> String {
        match self {
            Self::Stay => "0,0".to_owned(),
            Self::Register { singly, at_once } => format!("{singly},{at_once}"),
        }
    }
}

/// Plays the part that `verb` names.
pub(crate) fn run(verb: &str, arguments: &[String]) -> ExitCode {
    let played = match (verb, arguments) {
        ("load", [count]) => load(count),
        ("supervisor", [count, mode, sockets @ ..]) => supervise(count, mode, sockets),
        ("client", [command, mode, sockets @ ..]) => be_client(command, mode, sockets),
        _ => Err("the arguments are others".into()),
    };
    match played {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "{verb}: {error}");
            ExitCode::FAILURE
        }
    }
}

fn supervise(count: &str, mode: &str, sockets: &[String]) -> Result<(), Failure> {
    std::io::stdin().read_exact(&mut [0])?;
    let own = std::env::current_exe()?;
    let mut load = Command::new(&own)
        .args(["load", count])
        .stdout(Stdio::piped())
        .spawn()?;
    // It says when all its processes are there.
    load.stdout
        .take()
        .ok_or("it has an output")?
        .read_exact(&mut [0])?;
    let pid = load.id();
    writeln!(std::io::stdout(), "{pid}")?;
    let status = Command::new(own)
        .args(["client", &pid.to_string(), mode])
        .args(sockets)
        .status()?;
    // Whoever started us ends us, once it has read what the client printed.
    load.wait()?;
    Err(format!("the client ended: {status}").into())
}

fn load(count: &str) -> Result<(), Failure> {
    let count: usize = count.parse()?;
    let mut others = Vec::new();
    for _ in 1..count {
        let mut command = Command::new(std::env::current_exe()?);
        let mut child = command.args(["load", "1"]).stdout(Stdio::piped()).spawn()?;
        others.push(child.stdout.take());
    }
    let mut touched = vec![1_u8; TOUCHED_BYTES];
    for mut other in others.into_iter().flatten() {
        other.read_exact(&mut [0])?;
    }
    writeln!(std::io::stdout())?;
    loop {
        let begun = Instant::now();
        while begun.elapsed() < WORK {
            touched[0] = touched[TOUCHED_BYTES - 1].wrapping_add(1);
            std::hint::black_box(&mut touched);
        }
        std::thread::sleep(PAUSE);
    }
}

fn be_client(command: &str, mode: &str, sockets: &[String]) -> Result<(), Failure> {
    let (singly, at_once) = mode.split_once(',').ok_or("no mode")?;
    let (singly, at_once): (u32, u32) = (singly.parse()?, at_once.parse()?);
    let pid: u32 = command.parse()?;
    let command = Process {
        pid,
        start_time_ticks: start_time_ticks(pid)?,
    };
    let first = sockets.first().map(PathBuf::from).ok_or("no socket")?;
    if singly + at_once == 0 {
        return stay(command, sockets);
    }
    for place in 0..singly {
        let (_, took) = register(&first, command, place)?;
        writeln!(std::io::stdout(), "{}", took.as_secs_f64() * 1e3)?;
    }
    let begun = Instant::now();
    let (registered, crowd) = std::sync::mpsc::channel();
    for place in singly..singly + at_once {
        let (registered, first) = (registered.clone(), first.clone());
        std::thread::spawn(move || {
            let done = register(&first, command, place).map_err(|error| error.to_string());
            let _ = registered.send(done.map(|(daemon, _)| (daemon, begun.elapsed())));
        });
    }
    drop(registered);
    let mut inside = Vec::new();
    for done in crowd {
        let (daemon, after) = done?;
        inside.push(daemon);
        writeln!(std::io::stdout(), "{}", after.as_secs_f64() * 1e3)?;
    }
    Ok(())
}

/// Has each daemon watch, and tells it every ten seconds how the run stands.
fn stay(command: Process, sockets: &[String]) -> Result<(), Failure> {
    let mut daemons = Vec::new();
    for (place, socket) in (0..).zip(sockets) {
        daemons.push((register(Path::new(socket), command, place)?.0, place));
    }
    writeln!(std::io::stdout(), "registered")?;
    std::thread::scope(|scope| {
        for (mut daemon, place) in daemons {
            scope.spawn(move || {
                loop {
                    std::thread::sleep(UPDATE_PAUSE);
                    let Ok(record) = node_record(place) else {
                        break;
                    };
                    if daemon
                        .ask(&Request::Update {
                            record: Box::new(record),
                        })
                        .is_err()
                    {
                        break;
                    }
                }
            });
        }
    });
    Ok(())
}

/// Connects and registers; says how long that took.
fn register(socket: &Path, command: Process, place: u32) -> Result<(Daemon, Duration), Failure> {
    let record = node_record(place)?;
    let run = list::run_record(place, record.started_at_ms, PathBuf::from("/"));
    let registration = Registration {
        run,
        record,
        command,
        gpus: gpu_uuids(),
        gap: None,
        booted_at_ms: None,
    };
    let begun = Instant::now();
    let mut daemon = Daemon::connect(socket, PATIENCE)?;
    match daemon.ask(&Request::Register(Box::new(registration)))? {
        Response::Registered(_) => Ok((daemon, begun.elapsed())),
        other => Err(format!("{other:?}").into()),
    }
}

fn node_record(place: u32) -> Result<NodeRecord, Failure> {
    let now_ms = u64::try_from(SystemTime::now().duration_since(UNIX_EPOCH)?.as_millis())?;
    let run = list::run_record(place, now_ms, PathBuf::from("/"));
    Ok(list::node_record(&run, NodeState::Running, now_ms, None))
}

/// Registers runs of a family of its own with a daemon: milliseconds of those that came singly, and of those that came at
/// once.
pub(crate) fn registrations(
    socket: &Path,
    singly: usize,
    at_once: usize,
) -> Result<(Vec<f64>, Vec<f64>), Box<dyn Error>> {
    let mode = Mode::Register { singly, at_once };
    let mut family = Family::start(1, &mode, &[socket], |_| Ok(()))?;
    let mut taken = Vec::new();
    for _ in 0..singly + at_once {
        taken.push(family.line()?.parse()?);
    }
    let crowd = taken.split_off(singly);
    Ok((taken, crowd))
}
