//! The node daemon, run in a test's private place.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use dlrun::observe::protocol::{Decoder, Hello, Request, Response, RunView, RunsQuery, encode};
use nix::sys::signal::Signal;

use super::env::{Started, TestEnv};
use super::wait::{PATIENCE, wait_for};

/// The daemon under test.
pub(crate) const DLRUND: &str = env!("CARGO_BIN_EXE_dlrund");

/// A daemon of one test.
#[derive(Debug)]
pub(crate) struct Dlrund {
    process: Option<Started>,
    /// What starts it, its own path last.
    command: Vec<String>,
    config: PathBuf,
    socket: PathBuf,
    log: PathBuf,
}

impl Dlrund {
    /// Starts one that samples every 100 ms; `more` stands in its configuration: keys first, tables after them.
    #[track_caller]
    pub(crate) fn start(env: &TestEnv, more: &str) -> Self {
        Self::start_with(env, &[DLRUND], more)
    }

    /// The same with a command that starts it.
    #[track_caller]
    pub(crate) fn start_with(env: &TestEnv, command: &[&str], more: &str) -> Self {
        let root = env.root();
        let (node, run) = (root.join("node"), root.join("run"));
        fs::create_dir_all(&node).expect("the directory is ours");
        fs::create_dir_all(&run).expect("the directory is ours");
        let socket = run.join("dlrund.sock");
        let sampling = if more.contains("[sampling]") {
            ""
        } else {
            "[sampling]\ninterval_ms = 100\nprocess_interval_ms = 200\n"
        };
        let (keys, tables) = more.split_at(more.find('[').unwrap_or(more.len()));
        let group = if keys.contains("read_group") {
            ""
        } else {
            "read_group = \"\"\n"
        };
        let text = format!(
            "socket = {:?}\nstate_dir = {:?}\n{group}{keys}\n{sampling}{tables}\n",
            socket.display().to_string(),
            node.display().to_string()
        );
        let config = env.write("dlrund.toml", text);
        let command = command.iter().map(|word| (*word).to_owned()).collect();
        let mut daemon = Self {
            process: None,
            command,
            config,
            socket,
            log: root.join("dlrund.log"),
        };
        daemon.start_again(env);
        daemon
    }

    /// Starts it once more, after it was killed or stopped.
    #[track_caller]
    pub(crate) fn start_again(&mut self, env: &TestEnv) {
        let (program, words) = self.command.split_first().expect("a program");
        let command = env
            .command(program, words)
            .arg("--config")
            .arg(&self.config);
        self.process = Some(command.start_to(&self.log));
        wait_for("dlrund to listen", || {
            assert!(self.is_running(), "{}", self.log());
            UnixStream::connect(&self.socket).is_ok()
        });
    }

    fn is_running(&self) -> bool {
        let Some(process) = &self.process else {
            return false;
        };
        let stat = fs::read_to_string(format!("/proc/{}/stat", process.pid())).unwrap_or_default();
        stat.rsplit(')')
            .next()
            .is_some_and(|rest| !rest.trim_start().starts_with('Z') && !rest.is_empty())
    }

    pub(crate) fn pid(&self) -> nix::unistd::Pid {
        self.process.as_ref().expect("it runs").pid()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        self.process.as_ref().expect("it runs").signal(signal);
    }

    /// Kills it without a word.
    #[track_caller]
    pub(crate) fn kill(&mut self) {
        self.signal(Signal::SIGKILL);
        let _ = self
            .process
            .take()
            .expect("it runs")
            .finish()
            .killed_by(Signal::SIGKILL);
    }

    /// Stops it as systemd does.
    #[track_caller]
    pub(crate) fn stop(&mut self) {
        self.signal(Signal::SIGTERM);
        let done = self.process.take().expect("it runs").finish();
        assert_eq!(done.status.code(), Some(0), "{}", self.log());
    }

    /// Where it listens.
    pub(crate) fn socket(&self) -> &Path {
        &self.socket
    }

    pub(crate) fn database(&self) -> PathBuf {
        self.socket
            .parent()
            .and_then(|run| run.parent())
            .expect("it has one")
            .join("node/dlrun.db")
    }

    /// What it logged.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }
}

/// A client that says what it likes.
#[derive(Debug)]
pub(crate) struct RawClient {
    stream: UnixStream,
    decoder: Decoder,
}

impl RawClient {
    #[track_caller]
    pub(crate) fn connect(daemon: &Dlrund) -> Self {
        let stream = UnixStream::connect(&daemon.socket).expect("it listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("a socket");
        stream
            .set_write_timeout(Some(Duration::from_secs(5)))
            .expect("a socket");
        Self {
            stream,
            decoder: Decoder::default(),
        }
    }

    /// Connects and says hello.
    #[track_caller]
    pub(crate) fn greeted(daemon: &Dlrund) -> Self {
        let mut client = Self::connect(daemon);
        let answer = client.ask(&Request::Hello(Hello::ours()));
        assert_eq!(answer, Some(Response::Hello(Hello::ours())));
        client
    }

    /// Sends bytes; false where the daemon has hung up.
    pub(crate) fn send(&mut self, bytes: &[u8]) -> bool {
        self.stream.write_all(bytes).is_ok()
    }

    /// Says no more; answers still come.
    pub(crate) fn hang_up(&self) {
        let _ = self.stream.shutdown(std::net::Shutdown::Write);
    }

    /// The next answer; `None` where the daemon hung up.
    pub(crate) fn answer(&mut self) -> Option<Response> {
        loop {
            if let Some(response) = self.decoder.next().expect("a response") {
                return Some(response);
            }
            let mut buffer = [0; 4096];
            match self.stream.read(&mut buffer) {
                Ok(0) => return None,
                Ok(count) => self.decoder.push(&buffer[..count]),
                Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => return None,
                Err(error) => panic!("no answer: {error}"),
            }
        }
    }

    /// The runs that this client may see.
    #[track_caller]
    pub(crate) fn runs(&mut self) -> Vec<RunView> {
        match self.ask(&Request::Runs(RunsQuery::default())) {
            Some(Response::Runs(runs)) => runs.runs,
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn ask(&mut self, request: &Request) -> Option<Response> {
        self.send(&encode(request).expect("it is short"));
        self.answer()
    }
}
