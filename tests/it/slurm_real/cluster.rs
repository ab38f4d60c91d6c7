//! An ordinary user at a real cluster: a home of its own, dlrun, and Slurm's commands.

use std::ffi::OsStr;
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use nix::unistd::User as Account;
use serde_json::{Value, json};
use tempfile::TempDir;

/// How long one command may take before it counts as hung, in seconds.
const COMMAND_SECONDS: u32 = 150;
/// The node that a test lets die: jobs of the others keep off it.
pub(crate) const MORTAL_NODE: &str = "n4";

/// Where directories are seen by this machine and all nodes, which have a /tmp of their own.
pub(crate) const SHARED_DIR: &str = "/var/tmp";

/// A variable that `tests/run` sets for the tests that need more than Cargo.
pub(crate) fn wanted(name: &str) -> String {
    std::env::var(name)
        .ok()
        .filter(|value| !value.is_empty())
        .unwrap_or_else(|| {
            panic!(
                "{name} is not set. These tests need a cluster: `tests/run` starts one and sets it"
            )
        })
}

/// The cluster's `slurm.conf`.
pub(crate) fn conf() -> PathBuf {
    let path = PathBuf::from(wanted("DLRUN_TEST_SLURM_CONF"));
    assert!(
        path.is_file(),
        "{} is not there; is the cluster down? (tests/cluster up)",
        path.display()
    );
    path
}

/// Changes the cluster: `tests/cluster` with these arguments.
pub(crate) fn cluster(arguments: &[&str]) {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cluster");
    let dir = conf();
    let dir = dir.parent().expect("a file in a directory");
    let status = Command::new(script)
        .args(arguments)
        .env("DLRUN_CLUSTER_DIR", dir)
        .status();
    assert!(
        status.expect("tests/cluster is there").success(),
        "tests/cluster {arguments:?}"
    );
}

/// A user with a new home, which is also the place of job files and outputs.
pub(crate) struct User {
    home: TempDir,
    account: Account,
    dlrun: PathBuf,
    env: Vec<(String, String)>,
}

/// What a command said.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ran {
    pub(crate) fn of(output: Output) -> Self {
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        let code = output.status.code().unwrap_or(-1);
        Self {
            code,
            stdout: text(output.stdout),
            stderr: text(output.stderr),
        }
    }

    /// Its standard output, where it ended well.
    pub(crate) fn ok(self) -> String {
        assert_eq!(self.code, 0, "{self:?}");
        self.stdout
    }

    /// The result in its JSON envelope.
    pub(crate) fn result(self) -> Value {
        let envelope: Value =
            serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self:?}"));
        assert_eq!(envelope["ok"], json!(true), "{self:?}");
        envelope["result"].clone()
    }
}

impl User {
    /// The ordinary user of the cluster's tests.
    pub(crate) fn new() -> Self {
        Self::named(&wanted("DLRUN_TEST_USER"))
    }

    /// Any user of this machine, at the cluster.
    pub(crate) fn named(name: &str) -> Self {
        let mut user = Self::without_cluster(name);
        user.set("SLURM_CONF", &conf().to_string_lossy());
        user
    }

    /// Any user of this machine, who knows no cluster: what that one submits runs here.
    pub(crate) fn without_cluster(name: &str) -> Self {
        assert!(
            nix::unistd::geteuid().is_root(),
            "only root may act as `{name}`; run as root"
        );
        let account = Account::from_name(name)
            .expect("the user database can be read")
            .unwrap_or_else(|| {
                panic!("there is no user `{name}`; tests/cluster and tests/apptainer make one")
            });
        let home = tempfile::Builder::new()
            .prefix("dlrun-real-")
            .tempdir_in(SHARED_DIR)
            .expect("a directory");
        let bin = home.path().join("bin");
        fs::create_dir(&bin).expect("the directory is new");
        let dlrun = bin.join("dlrun");
        // The build directory may be closed to that user.
        let built = Path::new(env!("CARGO_BIN_EXE_dlrun"));
        fs::hard_link(built, &dlrun)
            .or_else(|_| fs::copy(built, &dlrun).map(drop))
            .expect("a copy of dlrun");
        for path in [home.path(), &bin] {
            fs::set_permissions(path, Permissions::from_mode(0o755)).expect("it is ours");
            chown(path, Some(account.uid.as_raw()), Some(account.gid.as_raw()))
                .expect("we are root");
        }
        let home_text = home.path().to_string_lossy().into_owned();
        let env = [
            ("PATH", "/usr/local/bin:/usr/bin:/bin"),
            ("LANG", "C.UTF-8"),
            ("HOME", &home_text),
            ("USER", name),
            ("LOGNAME", name),
            // Local runs of other tests must not hold ours up.
            ("DLRUN_LOCAL__LOCK_DIR", &home_text),
            ("DLRUN_MONITOR__INTERVAL_MS", "250"),
            ("DLRUN_MONITOR__RECORD_SECONDS", "1"),
        ];
        let env = env
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .to_vec();
        Self {
            home,
            account,
            dlrun,
            env,
        }
    }

    /// Sets a variable for all that the user runs from now on.
    pub(crate) fn set(&mut self, name: &str, value: &str) {
        self.env.retain(|(known, _)| known != name);
        self.env.push((name.to_owned(), value.to_owned()));
    }

    pub(crate) fn home(&self) -> &Path {
        self.home.path()
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    pub(crate) fn state_dir(&self) -> PathBuf {
        self.path(".local/state/dlrun")
    }

    pub(crate) fn name(&self) -> &str {
        &self.account.name
    }

    pub(crate) fn uid(&self) -> u32 {
        self.account.uid.as_raw()
    }

    /// The user's own dlrun.
    pub(crate) fn binary(&self) -> &Path {
        &self.dlrun
    }

    /// A command of this user's, in the home directory.
    pub(crate) fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        self.command_within(COMMAND_SECONDS, program)
    }

    /// The same for one that may take longer.
    pub(crate) fn command_within(
        &self,
        seconds: u32,
        program: impl AsRef<std::ffi::OsStr>,
    ) -> Command {
        let mut command = Command::new("timeout");
        command.args([
            "--kill-after=5",
            &seconds.to_string(),
            "setpriv",
            "--init-groups",
        ]);
        command
            .arg(format!("--reuid={}", self.account.uid))
            .arg(format!("--regid={}", self.account.gid));
        command
            .arg(program)
            .current_dir(self.home())
            .stdin(Stdio::null());
        command
            .env_clear()
            .envs(self.env.iter().map(|(name, value)| (name, value)));
        command
    }

    pub(crate) fn run<S: AsRef<std::ffi::OsStr>>(&self, program: &str, arguments: &[S]) -> Ran {
        Ran::of(
            self.command(program)
                .args(arguments)
                .output()
                .expect("timeout and setpriv are there"),
        )
    }

    pub(crate) fn shell(&self, script: &str) -> Ran {
        self.run("/bin/bash", &["-c", script])
    }

    pub(crate) fn dlrun<S: AsRef<std::ffi::OsStr>>(&self, arguments: &[S]) -> Ran {
        Ran::of(
            self.command(&self.dlrun)
                .args(arguments)
                .output()
                .expect("timeout and setpriv are there"),
        )
    }

    /// Writes a file of this user's.
    pub(crate) fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, text).expect("the home can be written");
        chown(
            &path,
            Some(self.account.uid.as_raw()),
            Some(self.account.gid.as_raw()),
        )
        .expect("we are root");
        path
    }

    pub(crate) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    /// Writes a job file: `run` stands in `[run]`, `rest` goes on in `[resources]` and may open further tables.
    pub(crate) fn job(&self, name: &str, run: &str, rest: &str) -> PathBuf {
        let text = format!(
            "name = \"{name}\"\n[run]\n{run}\n[resources]\nexclude = \"{MORTAL_NODE}\"\n{rest}\n"
        );
        self.write(&format!("{name}.toml"), &text)
    }

    /// Submits a job file; returns the run and the job.
    pub(crate) fn submit(&self, job_file: &Path) -> Submitted {
        self.submit_with(job_file, &[])
    }

    /// Hands a job over that dlrun itself would hold back.
    pub(crate) fn submit_unchecked(&self, job_file: &Path) -> Submitted {
        self.submit_with(job_file, &["--no-check"])
    }

    fn submit_with(&self, job_file: &Path, options: &[&str]) -> Submitted {
        let mut arguments: Vec<&OsStr> =
            vec!["--json".as_ref(), "submit".as_ref(), job_file.as_os_str()];
        arguments.extend(options.iter().map(OsStr::new));
        let result = self.dlrun(&arguments).result();
        let text = |key: &str| {
            result[key]
                .as_str()
                .unwrap_or_else(|| panic!("no {key}: {result}"))
                .to_owned()
        };
        Submitted {
            run: text("run_id"),
            job: text("job_id"),
            output: text("output").into(),
        }
    }

    pub(crate) fn show(&self, run: &str) -> Value {
        self.dlrun(&["--json", "show", run]).result()
    }

    pub(crate) fn state(&self, run: &str) -> String {
        self.show(run)["status"]["state"]
            .as_str()
            .expect("a state")
            .to_owned()
    }

    pub(crate) fn list(&self) -> Vec<Value> {
        let result = self.dlrun(&["--json", "list"]).result();
        result["runs"].as_array().expect("a list").clone()
    }

    /// Waits for the run; returns the exit code.
    pub(crate) fn wait(&self, run: &str) -> i32 {
        self.dlrun(&["wait", run]).code
    }

    /// Waits until the run is in this state.
    pub(crate) fn until_state(&self, run: &str, state: &str) {
        until(&format!("{run} to be {state}"), 60, || {
            (self.state(run) == state).then_some(())
        });
    }

    pub(crate) fn run_dir(&self, run: &str) -> PathBuf {
        self.state_dir().join("runs").join(run)
    }

    /// One field of `scontrol show job`, such as `NumCPUs`.
    pub(crate) fn scontrol(&self, job: &str, field: &str) -> String {
        let text = self
            .run("scontrol", &["--oneliner", "show", "job", job])
            .ok();
        let key = format!(" {field}=");
        let value = text
            .split_once(&key)
            .map(|(_, rest)| rest.split(' ').next().unwrap_or_default());
        value
            .unwrap_or_else(|| panic!("no {field} in {text}"))
            .to_owned()
    }
}

impl Drop for User {
    /// Nothing of a test that failed goes on in the cluster.
    fn drop(&mut self) {
        let jobs: Vec<String> = fs::read_dir(self.state_dir().join("runs"))
            .into_iter()
            .flatten()
            .flatten()
            .filter_map(|entry| {
                serde_json::from_slice(&fs::read(entry.path().join("run.json")).ok()?).ok()
            })
            .filter(|record: &Value| record["scheduler"] == "slurm")
            .filter_map(|record| record["job_id"].as_str().map(str::to_owned))
            .collect();
        if jobs.is_empty() {
            return;
        }
        self.run("scancel", &jobs);
        // A job that still ends would write into the directory while it is removed.
        let left = || {
            self.run(
                "squeue",
                &[
                    "--noheader".to_owned(),
                    format!("--jobs={}", jobs.join(",")),
                ],
            )
            .stdout
        };
        for _ in 0..100 {
            if left().is_empty() {
                return;
            }
            sleep(Duration::from_millis(100));
        }
    }
}

/// A run that was handed over.
#[derive(Debug, Clone)]
pub(crate) struct Submitted {
    pub(crate) run: String,
    pub(crate) job: String,
    pub(crate) output: PathBuf,
}

impl Submitted {
    /// What the job wrote so far.
    pub(crate) fn text(&self) -> String {
        fs::read_to_string(&self.output).unwrap_or_default()
    }
}

/// A command that a shell runs, for `[run]`.
pub(crate) fn sh(script: &str) -> String {
    argv(&["/bin/sh", "-c", script])
}

/// A command, for `[run]`. JSON's strings are TOML's too.
pub(crate) fn argv(words: &[&str]) -> String {
    format!("command = {}", json!(words))
}

/// Waits for something, with patience for a busy machine.
pub(crate) fn until<T>(what: &str, seconds: u64, mut look: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + Duration::from_secs(seconds);
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(
            Instant::now() < deadline,
            "waited {seconds} s in vain for {what}"
        );
        sleep(Duration::from_millis(100));
    }
}

/// The processes whose command line holds `word` and whose environment holds the run, by pid.
pub(crate) fn processes(run: &str, word: &str) -> Vec<i32> {
    let holds = |pid: i32, file: &str, text: &str| {
        let bytes = fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
        bytes
            .split(|byte| *byte == 0)
            .any(|part| String::from_utf8_lossy(part).contains(text))
    };
    let entries = fs::read_dir("/proc").expect("there is /proc").flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    pids.filter(|pid| holds(*pid, "environ", run) && holds(*pid, "cmdline", word))
        .collect()
}

/// The permission bits of a file.
pub(crate) fn mode(path: &Path) -> u32 {
    path.symlink_metadata()
        .unwrap_or_else(|error| panic!("{}: {error}", path.display()))
        .mode()
        & 0o777
}
