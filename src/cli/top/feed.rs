//! Asks the node daemon, again and again.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::unistd::getuid;

use crate::app::accounts::user_name;
use crate::observe::client::{ClientError, Daemon};
use crate::observe::protocol::{Request, Response, RunView, Runs, RunsQuery};

/// How long an answer may take: the screen does not change meanwhile.
const PATIENCE: Duration = Duration::from_secs(2);
/// More runs than a node has.
const RUNS_MOST: usize = 10_000;

/// The runs of the node as the daemon lists them.
#[derive(Debug, Default)]
pub(crate) struct Picture {
    pub(super) host: String,
    /// The daemon's time, in Unix milliseconds UTC.
    pub(super) at_ms: u64,
    /// Each with its user's login name.
    pub(super) runs: Vec<(RunView, String)>,
    /// Runs of other users that were left out.
    pub(super) hidden: usize,
    /// Whether runs of other users were asked for.
    pub(super) all_users: bool,
}

/// The way to the daemon. It is opened again where it broke: a daemon may be restarted at any time.
#[derive(Debug)]
pub(crate) struct Feed {
    socket: PathBuf,
    daemon: Option<Daemon>,
    all_users: bool,
    users: BTreeMap<u32, String>,
}

impl Feed {
    /// Connects.
    pub(crate) fn open(socket: &Path, all_users: bool) -> Result<Self, ClientError> {
        let daemon = Some(Daemon::connect(socket, PATIENCE)?);
        Ok(Self {
            socket: socket.to_owned(),
            daemon,
            all_users,
            users: BTreeMap::new(),
        })
    }

    /// The runs now, of this user or of all that this user may see.
    pub(crate) fn picture(&mut self) -> Result<Picture, ClientError> {
        let mut picture = Picture {
            all_users: self.all_users,
            ..Picture::default()
        };
        let mut skip = 0;
        loop {
            let query = RunsQuery {
                skip,
                processes: false,
            };
            let runs = self.ask(&Request::Runs(query))?;
            (picture.host, picture.at_ms) = (runs.host, runs.at_ms);
            skip += runs.runs.len();
            let is_last = !runs.more || runs.runs.is_empty() || skip >= RUNS_MOST;
            for run in runs.runs {
                // A run that ended meanwhile moves the others up: one may come twice.
                let is_known = picture.runs.iter().any(|(known, _)| known.key == run.key);
                if !self.all_users && run.uid != getuid().as_raw() {
                    picture.hidden += 1;
                } else if !is_known {
                    let user = self.user(run.uid);
                    picture.runs.push((run, user));
                }
            }
            if is_last {
                return Ok(picture);
            }
        }
    }

    fn user(&mut self, uid: u32) -> String {
        let name = || user_name(uid).unwrap_or_else(|| uid.to_string());
        self.users.entry(uid).or_insert_with(name).clone()
    }

    fn ask(&mut self, request: &Request) -> Result<Runs, ClientError> {
        let mut daemon = match self.daemon.take() {
            Some(daemon) => daemon,
            None => Daemon::connect(&self.socket, PATIENCE)?,
        };
        let response = match daemon.ask(request) {
            Err(ClientError::Closed { .. } | ClientError::Broken { .. }) => {
                daemon = Daemon::connect(&self.socket, PATIENCE)?;
                daemon.ask(request)?
            }
            other => other?,
        };
        let Response::Runs(runs) = response else {
            return Err(daemon.unexpected());
        };
        self.daemon = Some(daemon);
        Ok(runs)
    }
}
