//! A private place for one test, and `dlrun` run in it.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Instant;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use super::fakes::Fake;
use super::wait::{PATIENCE, wait_for, wait_for_some};

/// The program under test.
pub(crate) const DLRUN: &str = env!("CARGO_BIN_EXE_dlrun");

/// Programs that batch scripts and test jobs may use. A scheduler that is really installed is not among them.
const TOOLS: &[&str] = &[
    "bash",
    "cat",
    "chmod",
    "cp",
    "cut",
    "date",
    "dd",
    "dirname",
    "env",
    "false",
    "find",
    "grep",
    "head",
    "kill",
    "ln",
    "ls",
    "mkdir",
    "mv",
    "printf",
    "readlink",
    "rm",
    "rmdir",
    "sed",
    "seq",
    "setsid",
    "sh",
    "sha256sum",
    "sleep",
    "sort",
    "stat",
    "sync",
    "tail",
    "tar",
    "timeout",
    "touch",
    "tr",
    "true",
    "uname",
    "wc",
];

/// The Python of this machine itself, not a script that chooses one. The tests need it.
pub(crate) fn python() -> PathBuf {
    let asked = Command::new("python3")
        .args(["-c", "import sys; print(sys.executable)"])
        .output()
        .expect("python3");
    let said = String::from_utf8(asked.stdout).expect("a path");
    Path::new(said.trim())
        .canonicalize()
        .expect("python3 tells where it is")
}

/// Directories of its own and an environment without anything of the machine's. When it goes, so does every process
/// that was started in it: they are known by their `HOME`.
#[derive(Debug)]
pub(crate) struct TestEnv {
    dir: tempfile::TempDir,
    root: PathBuf,
    variables: BTreeMap<OsString, OsString>,
    /// Whose processes run in it, and which dlrun; `None`: ours.
    user: Option<(u32, PathBuf)>,
}

impl TestEnv {
    pub(crate) fn new() -> Self {
        Self::within(&std::env::temp_dir())
    }

    /// One in a directory that is there already, such as one that a cluster's nodes share.
    pub(crate) fn within(parent: &Path) -> Self {
        let dir = tempfile::Builder::new()
            .prefix("dlrun-it-")
            .tempdir_in(parent)
            .expect("temp");
        let root = dir.path().canonicalize().expect("it was made just now");
        for name in ["home", "state", "jobs", "bin", "tools", "lock", "tmp"] {
            fs::create_dir(root.join(name)).expect("the directory is ours");
        }
        fs::set_permissions(root.join("state"), fs::Permissions::from_mode(0o700))
            .expect("it is ours");
        for tool in TOOLS {
            let found = ["/usr/bin", "/bin"]
                .iter()
                .map(|dir| Path::new(dir).join(tool))
                .find(|path| path.exists());
            if let Some(found) = found {
                symlink(found, root.join("tools").join(tool)).expect("the directory is ours");
            }
        }
        let path = format!(
            "{}:{}",
            root.join("bin").display(),
            root.join("tools").display()
        );
        let variables = [
            ("HOME", root.join("home").into_os_string()),
            ("XDG_STATE_HOME", root.join("state").into_os_string()),
            ("XDG_CONFIG_HOME", root.join("home/config").into_os_string()),
            ("TMPDIR", root.join("tmp").into_os_string()),
            ("PATH", path.into()),
            ("TERM", "xterm".into()),
            ("TZ", "UTC".into()),
            ("DLRUN_LOCAL__LOCK_DIR", root.join("lock").into_os_string()),
            (
                "DLRUN_MONITOR__DAEMON_SOCKET",
                root.join("run/dlrund.sock").into_os_string(),
            ),
            ("DLRUN_LOCAL__KILL_WAIT_SECONDS", "3".into()),
            (
                "DLRUN_MODEL__PATH",
                root.join("site/model").into_os_string(),
            ),
        ];
        let variables = variables.map(|(name, value)| (name.into(), value)).into();
        Self {
            dir,
            root,
            variables,
            user: None,
        }
    }

    /// One in which all is another user's, who need not exist. It takes root.
    pub(crate) fn of_user(uid: u32) -> Self {
        let mut env = Self::new();
        let dlrun = install(DLRUN, &env.root.join("bin"));
        let owned = fs::read_dir(&env.root)
            .expect("it is ours")
            .map(|entry| entry.expect("an entry").path());
        for path in owned.chain([env.root.clone()]) {
            chown(&path, Some(uid), Some(uid)).expect("root may");
        }
        env.user = Some((uid, dlrun));
        env
    }

    /// Lets other users pass through to what is open to them.
    pub(crate) fn open_to_others(&self) {
        fs::set_permissions(self.root(), fs::Permissions::from_mode(0o711)).expect("it is ours");
    }

    /// The directory that holds all the others.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// Where job files lie and commands are run.
    pub(crate) fn jobs(&self) -> PathBuf {
        self.root().join("jobs")
    }

    /// dlrun's state directory.
    pub(crate) fn state(&self) -> PathBuf {
        self.root().join("state/dlrun")
    }

    /// Sets a variable for everything that is run from here on.
    pub(crate) fn set(&mut self, name: &str, value: impl AsRef<OsStr>) {
        self.variables
            .insert(name.into(), value.as_ref().to_owned());
    }

    /// Takes a variable out.
    pub(crate) fn unset(&mut self, name: &str) {
        self.variables.remove(OsStr::new(name));
    }

    /// Writes a file; `name` is relative to [`TestEnv::jobs`].
    pub(crate) fn write(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.jobs().join(name);
        fs::create_dir_all(path.parent().expect("it has a directory"))
            .expect("the directory is ours");
        fs::write(&path, content).expect("the directory is ours");
        path
    }

    /// Writes an executable file.
    pub(crate) fn program(&self, name: &str, content: &str) -> PathBuf {
        let path = self.write(name, content);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("the file is ours");
        path
    }

    /// Writes `job.toml` whose command is `sh -c SCRIPT`; `more` stands before `[run]`'s end and may open other tables.
    pub(crate) fn job(&self, script: &str, more: &str) -> PathBuf {
        self.job_called("job", script, more)
    }

    /// As [`TestEnv::job`], with another name.
    pub(crate) fn job_called(&self, name: &str, script: &str, more: &str) -> PathBuf {
        let command = serde_json::to_string(&["sh", "-c", script]).expect("text");
        self.write(
            &format!("{name}.toml"),
            format!("[run]\ncommand = {command}\n{more}\n"),
        )
    }

    /// A fake program in front of `PATH`.
    pub(crate) fn fake(&self, name: &str) -> Fake {
        Fake::install(&self.root().join("bin"), name)
    }

    /// The commands of a Slurm that takes every job as number 4711 and knows no other.
    pub(crate) fn fake_slurm(&self) -> Fake {
        let _ = (
            self.fake("squeue"),
            self.fake("scancel"),
            self.fake("sacct"),
        );
        self.fake("sbatch").stdout("4711\n")
    }

    /// `dlrun` with arguments, in [`TestEnv::jobs`].
    pub(crate) fn dlrun<A: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = A>) -> Dlrun {
        let dlrun = self
            .user
            .as_ref()
            .map_or(Path::new(DLRUN), |(_, dlrun)| dlrun);
        self.command(dlrun, args)
    }

    /// Any program in this environment.
    pub(crate) fn command<A: AsRef<OsStr>>(
        &self,
        program: impl AsRef<OsStr>,
        args: impl IntoIterator<Item = A>,
    ) -> Dlrun {
        let mut command = Command::new(program);
        if let Some((uid, _)) = self.user {
            command.uid(uid).gid(uid);
        }
        command
            .args(args)
            .env_clear()
            .envs(&self.variables)
            .current_dir(self.jobs())
            .stdin(Stdio::null());
        Dlrun { command }
    }

    /// Submits `file` to this machine and returns the run id at once.
    #[track_caller]
    pub(crate) fn submit(&self, file: &Path) -> String {
        let done = self
            .dlrun(["submit", "--scheduler", "local", "--json"])
            .arg(file)
            .run()
            .code(0);
        done.result()["run_id"].as_str().expect("an id").to_owned()
    }

    /// What `dlrun show --json` says of a run.
    #[track_caller]
    pub(crate) fn show(&self, run: &str) -> Value {
        self.dlrun(["show", "--json", run]).run().code(0).result()
    }

    /// The state of a run.
    #[track_caller]
    pub(crate) fn state_of(&self, run: &str) -> String {
        self.show(run)["status"]["state"]
            .as_str()
            .expect("a state")
            .to_owned()
    }

    /// Waits until a run has this state.
    #[track_caller]
    pub(crate) fn wait_state(&self, run: &str, state: &str) {
        wait_for(&format!("run {run} to be {state}"), || {
            self.state_of(run) == state
        });
    }

    /// The directory of a run.
    pub(crate) fn run_dir(&self, run: &str) -> PathBuf {
        self.state().join("runs").join(run)
    }

    /// The only run's directory.
    #[track_caller]
    pub(crate) fn only_run_dir(&self) -> PathBuf {
        let runs: Vec<PathBuf> = fs::read_dir(self.state().join("runs"))
            .expect("there is one")
            .map(|entry| entry.expect("entry").path())
            .collect();
        assert_eq!(runs.len(), 1, "{runs:?}");
        runs[0].clone()
    }

    /// Waits for a file of [`TestEnv::jobs`] that is not empty, and returns its text.
    #[track_caller]
    pub(crate) fn wait_file(&self, name: &str) -> String {
        wait_for_some(&format!("the file {name}"), || {
            fs::read_to_string(self.jobs().join(name))
                .ok()
                .filter(|text| text.ends_with('\n'))
        })
    }

    /// Waits for a file that holds a process id.
    #[track_caller]
    pub(crate) fn wait_pid(&self, name: &str) -> Pid {
        Pid::from_raw(self.wait_file(name).trim().parse().expect("a process id"))
    }

    /// Processes that were started in here and live.
    pub(crate) fn processes(&self) -> Vec<Pid> {
        let mark = [b"HOME=", self.root().join("home").as_os_str().as_bytes()].concat();
        let Ok(entries) = fs::read_dir("/proc") else {
            return Vec::new();
        };
        let pids = entries
            .flatten()
            .filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
        let ours = |pid: &i32| {
            let environ = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            environ.split(|byte| *byte == 0).any(|entry| entry == mark)
        };
        pids.filter(|pid| *pid != std::process::id().cast_signed())
            .filter(ours)
            .map(Pid::from_raw)
            .collect()
    }

    /// Processes in here whose command line has this word.
    pub(crate) fn processes_with(&self, word: &str) -> Vec<Pid> {
        let has = |pid: &Pid| {
            let cmdline = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            cmdline
                .split(|byte| *byte == 0)
                .any(|argument| argument == word.as_bytes())
        };
        self.processes().into_iter().filter(has).collect()
    }

    /// Waits until nothing runs in here any more.
    #[track_caller]
    pub(crate) fn wait_quiet(&self) {
        wait_for("all processes to end", || self.processes().is_empty());
    }
}

/// Puts a program where all users may run it: the build directory may be closed to them.
pub(crate) fn install(program: &str, dir: &Path) -> PathBuf {
    let path = dir.join(Path::new(program).file_name().expect("a file"));
    fs::hard_link(program, &path)
        .or_else(|_| fs::copy(program, &path).map(drop))
        .expect("a copy");
    path
}

impl Drop for TestEnv {
    fn drop(&mut self) {
        // What is killed may have children that appear meanwhile.
        for _ in 0..200 {
            let left = self.processes();
            if left.is_empty() {
                break;
            }
            for pid in left {
                let _ = kill(pid, Signal::SIGKILL);
            }
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        let _ = self.dir.path();
    }
}

/// A command that is about to run.
#[derive(Debug)]
#[must_use]
pub(crate) struct Dlrun {
    command: Command,
}

impl Dlrun {
    pub(crate) fn arg(mut self, arg: impl AsRef<OsStr>) -> Self {
        self.command.arg(arg);
        self
    }

    pub(crate) fn args<A: AsRef<OsStr>>(mut self, args: impl IntoIterator<Item = A>) -> Self {
        self.command.args(args);
        self
    }

    pub(crate) fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    pub(crate) fn current_dir(mut self, dir: impl AsRef<Path>) -> Self {
        self.command.current_dir(dir);
        self
    }

    /// Starts it, with both streams captured through pipes.
    pub(crate) fn start(mut self) -> Started {
        self.command.stdout(Stdio::piped()).stderr(Stdio::piped());
        self.spawn()
    }

    /// Starts it with both streams going to `file`.
    pub(crate) fn start_to(mut self, file: &Path) -> Started {
        let file = File::options()
            .create(true)
            .append(true)
            .open(file)
            .expect("the file is ours");
        self.command
            .stderr(file.try_clone().expect("a file"))
            .stdout(file);
        self.spawn()
    }

    fn spawn(mut self) -> Started {
        let shown = format!("{:?}", self.command);
        let mut child = self
            .command
            .spawn()
            .unwrap_or_else(|error| panic!("cannot start {shown}: {error}"));
        let stdout = child.stdout.take().map(read_all);
        let stderr = child.stderr.take().map(read_all);
        Started {
            child: Some(child),
            stdout,
            stderr,
            shown,
        }
    }

    /// Runs it to its end.
    #[track_caller]
    pub(crate) fn run(self) -> Done {
        self.start().finish()
    }

    /// Runs it to its end with both streams going to `file`, as batch jobs have it.
    #[track_caller]
    pub(crate) fn run_to(self, file: &Path) -> Done {
        self.start_to(file).finish()
    }
}

fn read_all(mut stream: impl Read + Send + 'static) -> Receiver<Vec<u8>> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = stream.read_to_end(&mut bytes);
        let _ = sender.send(bytes);
    });
    receiver
}

/// A command that runs. Killed when it is dropped.
#[derive(Debug)]
pub(crate) struct Started {
    child: Option<Child>,
    stdout: Option<Receiver<Vec<u8>>>,
    stderr: Option<Receiver<Vec<u8>>>,
    shown: String,
}

impl Started {
    pub(crate) fn pid(&self) -> Pid {
        let child = self.child.as_ref().expect("it is taken at the end only");
        Pid::from_raw(child.id().cast_signed())
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill(self.pid(), signal).expect("it runs");
    }

    /// Waits for its end.
    #[track_caller]
    pub(crate) fn finish(mut self) -> Done {
        let mut child = self.child.take().expect("it is taken at the end only");
        let begun = Instant::now();
        let status = loop {
            if let Some(status) = child.try_wait().expect("it is ours") {
                break status;
            }
            if begun.elapsed() > PATIENCE {
                let _ = child.kill();
                let _ = child.wait();
                panic!("gave no answer within {PATIENCE:?}: {}", self.shown);
            }
            std::thread::sleep(std::time::Duration::from_millis(2));
        };
        let text = |stream: Option<Receiver<Vec<u8>>>| {
            let bytes = stream.map(|stream| {
                stream
                    .recv_timeout(PATIENCE)
                    .expect("a child keeps the pipe open")
            });
            bytes.unwrap_or_default()
        };
        let (stdout, stderr) = (text(self.stdout.take()), text(self.stderr.take()));
        let stderr = String::from_utf8_lossy(&stderr).into_owned();
        Done {
            shown: std::mem::take(&mut self.shown),
            status,
            stdout,
            stderr,
        }
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// A command that ended.
#[derive(Debug)]
#[must_use]
pub(crate) struct Done {
    shown: String,
    pub(crate) status: ExitStatus,
    /// Standard output, byte for byte.
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: String,
}

impl Done {
    fn told(&self) -> String {
        format!(
            "{}\nended with {}\n--- stdout\n{}\n--- stderr\n{}",
            self.shown,
            self.status,
            self.text(),
            self.stderr
        )
    }

    /// Standard output as text.
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    /// Its exit code; `None`: a signal ended it.
    pub(crate) fn exit_code(&self) -> Option<i32> {
        self.status.code()
    }

    /// Requires this exit code.
    #[track_caller]
    pub(crate) fn code(self, code: i32) -> Self {
        assert_eq!(self.status.code(), Some(code), "{}", self.told());
        self
    }

    /// Requires that a signal ended it.
    #[track_caller]
    pub(crate) fn killed_by(self, signal: Signal) -> Self {
        assert_eq!(self.status.signal(), Some(signal as i32), "{}", self.told());
        self
    }

    /// Requires `part` in standard output, whether or not it is broken into lines there.
    #[track_caller]
    pub(crate) fn says(self, part: &str) -> Self {
        let text = self.text();
        let said = text.contains(part) || super::unwrapped(&text).contains(part);
        assert!(said, "no {part:?} in standard output of {}", self.told());
        self
    }

    /// Requires `part` in standard error.
    #[track_caller]
    pub(crate) fn warns(self, part: &str) -> Self {
        assert!(
            self.stderr.contains(part),
            "no {part:?} in standard error of {}",
            self.told()
        );
        self
    }

    /// Requires that `part` stands in neither stream.
    #[track_caller]
    pub(crate) fn never_says(self, part: &str) -> Self {
        let either = self.text().contains(part) || self.stderr.contains(part);
        assert!(!either, "{part:?} in the output of {}", self.told());
        self
    }

    /// The JSON envelope; exactly one object on one line.
    #[track_caller]
    pub(crate) fn envelope(&self) -> Value {
        let text = self.text();
        assert_eq!(
            text.matches('\n').count(),
            1,
            "one line is expected of {}",
            self.told()
        );
        let value: Value = serde_json::from_str(&text)
            .unwrap_or_else(|error| panic!("no JSON ({error}): {}", self.told()));
        assert_eq!(value["schema_version"], 1, "{}", self.told());
        assert!(value["operation"].is_string(), "{}", self.told());
        value
    }

    /// `result` of the envelope of a success.
    #[track_caller]
    pub(crate) fn result(&self) -> Value {
        let envelope = self.envelope();
        assert_eq!(envelope["ok"], true, "{}", self.told());
        assert!(envelope.get("error").is_none(), "{}", self.told());
        envelope["result"].clone()
    }

    /// `error` of the envelope of a failure.
    #[track_caller]
    pub(crate) fn error(&self) -> Value {
        let envelope = self.envelope();
        assert_eq!(envelope["ok"], false, "{}", self.told());
        assert!(envelope.get("result").is_none(), "{}", self.told());
        let error = envelope["error"].clone();
        assert!(
            error["message"].is_string() && error["hints"].is_array(),
            "{}",
            self.told()
        );
        assert_eq!(
            error["exit_code"].as_i64(),
            self.status.code().map(i64::from),
            "{}",
            self.told()
        );
        error
    }
}
