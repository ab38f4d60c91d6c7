//! Starts processes that are not read by us: the training itself, and our own background processes.

use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use nix::sched::{CpuSet, sched_setaffinity};
use nix::sys::signal::{SigHandler, SigSet, Signal, signal};
use nix::unistd::Pid;

use super::failure::CommandError;
use super::find::{locate, search_path};
use super::pump::pid_of;

/// Signals that the training finds at their default, whatever the batch shell did: a shell without job control starts
/// background jobs with SIGINT and SIGQUIT ignored (POSIX, "Asynchronous Lists"), `nohup` ignores SIGHUP.
const DEFAULTED: [Signal; 8] = [
    Signal::SIGINT,
    Signal::SIGQUIT,
    Signal::SIGHUP,
    Signal::SIGTERM,
    Signal::SIGUSR1,
    Signal::SIGUSR2,
    Signal::SIGPIPE,
    Signal::SIGCONT,
];

/// The user's command and what it shall find.
#[derive(Debug)]
pub struct TrainingCommand {
    /// Program and arguments; the program is looked for in the `PATH` that it will see.
    pub argv: Vec<OsString>,
    /// Variables to set on top of our own environment; a later one wins.
    pub sets: Vec<(OsString, OsString)>,
    /// Variables to take out of our own environment first.
    pub removals: Vec<OsString>,
    /// Standard output; inherited, it is the job's output file.
    pub stdout: Stdio,
    /// Standard error.
    pub stderr: Stdio,
    /// True to start it as the leader of its own process group; false to leave it in ours, as a shell script leaves
    /// the programs that it starts.
    pub leads_group: bool,
    /// True where the kernel kills it when the thread that starts it ends (`PR_SET_PDEATHSIG`).
    pub dies_with_us: bool,
    /// CPUs that it is bound to; empty: as we are.
    pub cpus: Vec<u32>,
}

/// Starts the training with default signals, nothing blocked and an empty standard input. The caller waits for it with
/// `waitpid`.
///
/// # Errors
/// `NotFound`, `NotExecutable` or `Spawn`; [`CommandError::shell_code`] is what the job then exits with.
pub fn spawn_training(training: TrainingCommand) -> Result<Pid, CommandError> {
    let mut command = background(&training.argv, &training.sets, &training.removals)?;
    command.stdout(training.stdout).stderr(training.stderr);
    if training.leads_group {
        command.process_group(0);
    }
    let (dies_with_us, cpus) = (training.dies_with_us, cpu_set(&training.cpus));
    let reset = move || {
        for which in DEFAULTED {
            // SAFETY: SIG_DFL installs no code of ours; the only unsafe part of `signal` is a handler's body.
            unsafe { signal(which, SigHandler::SigDfl) }?;
        }
        SigSet::empty().thread_set_mask()?;
        if dies_with_us {
            nix::sys::prctl::set_pdeathsig(Signal::SIGKILL)?;
        }
        if let Some(cpus) = &cpus {
            // One that left the machine meanwhile is no reason not to train.
            let _ = sched_setaffinity(Pid::from_raw(0), cpus);
        }
        io::Result::Ok(())
    };
    // SAFETY: runs between fork and exec, where only async-signal-safe calls are allowed: `signal` and
    // `pthread_sigmask` are such (`signal-safety(7)`), `prctl` and `sched_setaffinity` are plain system calls, and the closure
    // allocates nothing.
    unsafe { command.pre_exec(reset) };
    Ok(pid_of(&start(&mut command, &training.argv)?))
}

fn cpu_set(cpus: &[u32]) -> Option<CpuSet> {
    let mut set = CpuSet::new();
    let known = cpus
        .iter()
        .filter(|cpu| set.set(**cpu as usize).is_ok())
        .count();
    (known > 0).then_some(set)
}

/// Starts a helper process of ours in its own process group: `stdin` is how we talk to it, `stdout` is all it may
/// write to. The caller waits for it with `waitpid`.
///
/// # Errors
/// `NotFound`, `NotExecutable` or `Spawn`.
pub fn spawn_companion(
    argv: &[OsString],
    stdin: OwnedFd,
    stdout: Stdio,
) -> Result<Pid, CommandError> {
    let mut command = background(argv, &[], &[])?;
    command
        .stdin(stdin)
        .stdout(stdout)
        .stderr(Stdio::null())
        .process_group(0);
    Ok(pid_of(&start(&mut command, argv)?))
}

/// Starts a background process that shall outlive us, with its three streams on `/dev/null`, and returns its process
/// id.
///
/// It stays in our process group and session, with our signal mask: leaving them (`setsid`, which a group's leader may
/// not call) is its own first act. While we live a thread waits for it, so it never stays a zombie; afterwards it is
/// init's.
///
/// # Errors
/// `NotFound`, `NotExecutable`, `NoDirectory` or `Spawn`.
pub fn spawn_detached(
    argv: &[OsString],
    env: &[(OsString, OsString)],
    cwd: &Path,
) -> Result<u32, CommandError> {
    let mut command = background(argv, env, &[])?;
    command
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .current_dir(cwd);
    if !cwd.is_dir() {
        return Err(CommandError::NoDirectory {
            program: name_of(argv),
            path: cwd.to_owned(),
        });
    }
    let mut child = start(&mut command, argv)?;
    let pid = child.id();
    std::thread::spawn(move || child.wait());
    Ok(pid)
}

/// Becomes another program: same process, same streams, same directory. Comes back only where that fails.
///
/// # Errors
/// Always: `NotFound`, `NotExecutable` or `Spawn`; [`CommandError::shell_code`] is what to exit with.
#[must_use]
pub fn replace_by(
    argv: &[OsString],
    sets: &[(OsString, OsString)],
    removals: &[OsString],
) -> CommandError {
    let mut command = match background(argv, sets, removals) {
        Ok(command) => command,
        Err(error) => return error,
    };
    // The Rust runtime ignores SIGPIPE, and the program would inherit that.
    // SAFETY: SIG_DFL installs no code of ours.
    let _ = unsafe { signal(Signal::SIGPIPE, SigHandler::SigDfl) };
    tracing::debug!(?argv, "taking its place");
    CommandError::Spawn {
        program: name_of(argv),
        source: command.stdin(Stdio::inherit()).exec(),
    }
}

fn background(
    argv: &[OsString],
    sets: &[(OsString, OsString)],
    removals: &[OsString],
) -> Result<Command, CommandError> {
    let Some((program, args)) = argv.split_first() else {
        return Err(CommandError::NotFound {
            program: String::new(),
            searched: Vec::new(),
        });
    };
    let mut command = Command::new(locate(program, &[], &search_path(sets))?);
    // The name as given: programs such as busybox and Python's virtual environments look at it.
    command.arg0(program).args(args).stdin(Stdio::null());
    for name in removals {
        command.env_remove(name);
    }
    // After the removals: what is set stays.
    command.envs(sets.iter().map(|(name, value)| (name, value)));
    Ok(command)
}

fn start(command: &mut Command, argv: &[OsString]) -> Result<Child, CommandError> {
    let child = command.spawn().map_err(|source| CommandError::Spawn {
        program: name_of(argv),
        source,
    })?;
    tracing::debug!(?argv, pid = child.id(), "started");
    Ok(child)
}

fn name_of(argv: &[OsString]) -> String {
    argv.first()
        .map(|program| program.to_string_lossy().into_owned())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::{Read, Seek};
    use std::time::{Duration, Instant};

    use nix::sys::wait::{WaitStatus, waitpid};

    use super::*;

    fn shell(script: &str) -> Vec<OsString> {
        ["sh", "-c", script].map(OsString::from).to_vec()
    }

    /// Runs a training to its end; returns its exit code and what it wrote to either stream.
    fn trained(argv: Vec<OsString>, sets: Vec<(OsString, OsString)>) -> (i32, String, Pid) {
        let mut file = tempfile::tempfile().expect("temp");
        let twin = || Stdio::from(file.try_clone().expect("a file can be cloned"));
        let (stdout, stderr) = (twin(), twin());
        let training = TrainingCommand {
            argv,
            sets,
            removals: vec![],
            stdout,
            stderr,
            leads_group: true,
            dies_with_us: false,
            cpus: vec![],
        };
        let pid = spawn_training(training).expect("it starts");
        let WaitStatus::Exited(_, code) = waitpid(pid, None).expect("it is ours") else {
            panic!("killed")
        };
        let mut text = String::new();
        file.rewind().expect("a file");
        file.read_to_string(&mut text).expect("text");
        (code, text, pid)
    }

    /// A line of `/proc/self/status` as a number: bit n-1 stands for signal n (`proc_pid_status(5)`).
    fn mask(status: &str, name: &str) -> u64 {
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix(name))
            .expect("the kernel writes it");
        u64::from_str_radix(line.trim_start_matches(':').trim(), 16).expect("hexadecimal")
    }

    #[test]
    fn training_finds_default_signals_and_an_empty_mask() {
        for which in [
            Signal::SIGINT,
            Signal::SIGQUIT,
            Signal::SIGHUP,
            Signal::SIGUSR1,
        ] {
            // SAFETY: SIG_IGN runs no code of ours.
            unsafe { signal(which, SigHandler::SigIgn) }.expect("it may be ignored");
        }
        SigSet::from_iter([Signal::SIGTERM, Signal::SIGUSR2])
            .thread_block()
            .expect("they may be blocked");
        let (code, status, pid) = trained(
            ["cat", "/proc/self/status"].map(OsString::from).to_vec(),
            vec![],
        );
        assert_eq!(code, 0, "{status}");
        let ours = DEFAULTED
            .iter()
            .fold(0_u64, |bits, which| bits | 1 << (*which as i32 - 1));
        assert_eq!(mask(&status, "SigIgn") & ours, 0, "{status}");
        assert_eq!(mask(&status, "SigBlk"), 0, "{status}");
        assert!(status.contains(&format!("Pid:\t{pid}")), "{status}");
        SigSet::from_iter([Signal::SIGTERM, Signal::SIGUSR2])
            .thread_unblock()
            .expect("they may be unblocked");
    }

    #[test]
    fn training_leads_its_own_group_and_reads_nothing() {
        // `stat`: pid, name, state, parent, group.
        let (code, text, pid) = trained(
            shell("cat; echo $V; cat /proc/$$/stat; exit 7"),
            vec![("V".into(), "first".into()), ("V".into(), "second".into())],
        );
        assert_eq!(code, 7);
        let (set, stat) = text.split_once('\n').expect("two lines");
        assert_eq!(set, "second");
        let fields: Vec<&str> = stat.split(' ').collect();
        assert_eq!(fields[4], pid.to_string(), "{stat}");
    }

    #[test]
    fn training_is_looked_for_in_its_own_path() {
        let dir = tempfile::tempdir().expect("temp");
        std::os::unix::fs::symlink("/bin/echo", dir.path().join("python"))
            .expect("the directory is ours");
        let path = vec![("PATH".into(), dir.path().as_os_str().to_owned())];
        let (code, text, _) = trained(["python", "train.py"].map(OsString::from).to_vec(), path);
        assert_eq!((code, text.as_str()), (0, "train.py\n"));
    }

    #[test]
    fn training_that_cannot_start_has_the_shells_code() {
        let dir = tempfile::tempdir().expect("temp");
        let plain = dir.path().join("train.py");
        fs::write(&plain, "print()").expect("the directory is ours");
        for (program, code) in [
            (OsString::from("no-such-program"), 127),
            (dir.path().join("gone").into(), 127),
            (plain.into(), 126),
        ] {
            let (stdout, stderr) = (Stdio::inherit(), Stdio::inherit());
            let (sets, removals) = (vec![], vec![]);
            let training = TrainingCommand {
                argv: vec![program],
                sets,
                removals,
                stdout,
                stderr,
                leads_group: true,
                dies_with_us: false,
                cpus: vec![],
            };
            let error = spawn_training(training).expect_err("it cannot start");
            assert_eq!(error.shell_code(), code, "{error}");
        }
        let none = TrainingCommand {
            argv: vec![],
            sets: vec![],
            removals: vec![],
            stdout: Stdio::inherit(),
            stderr: Stdio::inherit(),
            leads_group: true,
            dies_with_us: false,
            cpus: vec![],
        };
        assert!(spawn_training(none).is_err());
    }

    #[test]
    fn detached_process_runs_in_its_directory_and_leaves_no_zombie() {
        let dir = tempfile::tempdir().expect("temp");
        let script = shell("printf %s \"$WORD\" > part; mv part done");
        let pid = spawn_detached(&script, &[("WORD".into(), "said".into())], dir.path())
            .expect("it starts");
        let deadline = Instant::now() + Duration::from_secs(10);
        while Path::new(&format!("/proc/{pid}")).exists() {
            assert!(
                Instant::now() < deadline,
                "still there, perhaps as a zombie"
            );
            std::thread::sleep(Duration::from_millis(5));
        }
        assert_eq!(
            fs::read_to_string(dir.path().join("done")).expect("it was written"),
            "said"
        );
        let error =
            spawn_detached(&script, &[], Path::new("/no/such/place")).expect_err("no directory");
        assert!(matches!(error, CommandError::NoDirectory { .. }), "{error}");
    }
}
