//! The daemon as a whole: what it opens, waits for and leaves behind.

use std::collections::HashMap;
use std::fs;
use std::future::ready;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use sd_notify::NotifyState;
use tokio::net::{UnixListener, UnixStream};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{Semaphore, mpsc};
use tokio::time::{Instant, Interval, MissedTickBehavior, interval};

use super::check;
use super::connection::{self, Asked, Client, Patience, Places};
use super::metrics;
use super::node::Node;
use super::peer::Peer;
use super::recorder::{Notice, Recorder};
use super::scrape;
use super::ticks::Ticks;
use super::turns::Turns;
use crate::config::DaemonSettings;
use crate::observe::monitor::{GpuWatch, WatchPace, gpu_driver_present};
use crate::observe::protocol::{RefusalKind, Response, encode};
use crate::record::Sample;
use crate::record::export::Family;
use crate::record::store::{LiveRun, NodeStore, StoreError};

/// Requests that may wait for the owner; their senders wait with them.
const REQUESTS: usize = 256;
/// Messages of more than 64 KiB that are read or answered at a time: those of one user, and all.
const LONG_OF_USER: usize = 2;
const LONG_OF_ALL: usize = 16;
/// Requests of one user that wait for their answers at a time; further ones of that user wait before them.
const TURNS: usize = 16;
/// How often old runs are looked for.
const RETAIN_EVERY: Duration = Duration::from_secs(600);
/// How often the metrics' text file is written.
const TEXTFILE_EVERY: Duration = Duration::from_secs(15);
/// What a run used is remembered at every fold and update; samples so old are certainly in it.
const REPLAYED_MS: u64 = 3_600_000;
/// How long the database may take to finish at the end.
const FAREWELL: Duration = Duration::from_secs(10);

/// Why the daemon cannot run.
#[derive(Debug, thiserror::Error)]
pub(super) enum DaemonError {
    /// The database cannot be used.
    #[error("the database of the node cannot be used")]
    Store(#[source] StoreError),
    /// The socket cannot be made.
    #[error("cannot listen at `{0}`")]
    Socket(PathBuf, #[source] io::Error),
    /// The port for metrics cannot be had.
    #[error("cannot listen at {0} for metrics")]
    Metrics(std::net::SocketAddr, #[source] io::Error),
    /// The system refuses something basic.
    #[error("cannot set up {0}")]
    System(&'static str, #[source] io::Error),
}

/// Runs the daemon until SIGTERM or SIGINT.
///
/// # Errors
/// When it cannot begin; once it runs, trouble costs samples and is logged.
pub(super) fn run(settings: &DaemonSettings) -> Result<(), DaemonError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(2)
        .build();
    let runtime = runtime.map_err(|source| DaemonError::System("the event loop", source))?;
    let done = runtime.block_on(Daemon::open(settings)?.run());
    // A text file on a dead file system must not keep the process.
    runtime.shutdown_background();
    done
}

struct Daemon {
    node: Node,
    notices: mpsc::UnboundedReceiver<Notice>,
    read_group: Option<u32>,
}

impl Daemon {
    fn open(settings: &DaemonSettings) -> Result<Self, DaemonError> {
        let path = settings.state_dir().join("dlrun.db");
        let problems = check::problems(settings);
        for problem in &problems {
            tracing::warn!("{problem}");
        }
        let store = NodeStore::open(&path).map_err(DaemonError::Store)?;
        let found = found(&store).map_err(DaemonError::Store)?;
        let (notice, notices) = mpsc::unbounded_channel();
        let recorder = Recorder::start(store, &path, notice);
        let read_group = settings.read_group().and_then(check::group_id);
        let gpus = gpu_watch(settings);
        let mut node = Node::new(settings.clone(), gpus, recorder, problems);
        node.recover(found);
        Ok(Self {
            node,
            notices,
            read_group,
        })
    }

    async fn run(mut self) -> Result<(), DaemonError> {
        let listener = listen(self.node.settings.socket())?;
        let mut port = match self.node.settings.metrics_listen() {
            Some(address) => {
                let hosts = self
                    .node
                    .settings
                    .metrics_hosts()
                    .chain([self.node.host.as_str()])
                    .map(str::to_owned)
                    .collect();
                let opened = scrape::open(address, hosts).await;
                Some(opened.map_err(|source| DaemonError::Metrics(address, source))?)
            }
            None => None,
        };
        let (mut term, mut int) = (on(SignalKind::terminate())?, on(SignalKind::interrupt())?);
        let (asked, mut requests) = mpsc::channel(REQUESTS);
        let mut doorkeeper = Doorkeeper::new(&self.node.settings, self.read_group, asked);
        let ticks = Ticks::every(self.node.settings.interval());
        let mut ticks = ticks.map_err(|source| DaemonError::System("a timer", source))?;
        let (mut turns, mut has_accepted) = (Turns::new(), false);
        let mut retention = every(RETAIN_EVERY);
        let mut discovery = every(self.node.settings.process_interval());
        let mut textfile = every(TEXTFILE_EVERY);
        let mut watchdog = every(
            sd_notify::watchdog_enabled().map_or(Duration::from_secs(3600), |limit| limit / 3),
        );
        tell(&[NotifyState::Ready]);
        self.announce();
        loop {
            tokio::select! {
                // Ticks first: a crowd of clients must not delay them.
                biased;
                _ = term.recv() => break,
                _ = int.recv() => break,
                late = ticks.next() => self.node.tick(late > self.node.settings.interval() / 2),
                _ = watchdog.tick() => if !self.node.recorder.is_dead() { tell(&[NotifyState::Watchdog]) },
                Some(notice) = self.notices.recv() => self.node.notice(notice),
                accepted = listener.accept(), if !has_accepted => {
                    doorkeeper.accepted(accepted).await;
                    has_accepted = true;
                }
                Some(asked) = requests.recv() => match asked {
                    Asked::Gone { connection, uid } => {
                        doorkeeper.left(uid);
                        self.node.close_connection(connection);
                    }
                    Asked::Request(asked) => turns.add(asked.peer.uid, asked),
                },
                // One client let in, one request answered: neither crowd keeps the other out. Then the connections have
                // their turn, so that the next choice is among all who ask.
                () = ready(()), if has_accepted || !turns.is_empty() => {
                    has_accepted = false;
                    if let Some(asked) = turns.next() {
                        self.node.answer(asked);
                    }
                    tokio::task::yield_now().await;
                }
                scraper = scrape::next(port.as_mut()) => {
                    // The client may have left.
                    let _ = scraper.send(self.families());
                }
                _ = textfile.tick() => if let Some(path) = self.node.settings.metrics_textfile() {
                    metrics::write_textfile(path, self.families());
                },
                _ = discovery.tick(), if self.node.settings.all_jobs() => self.node.discover(),
                _ = retention.tick() => self.node.retain(),
            }
        }
        self.farewell();
        Ok(())
    }

    /// Brings what is in memory to the disk, and takes away what would look as if the daemon still ran.
    fn farewell(self) {
        tell(&[NotifyState::Stopping]);
        if self.node.stop(FAREWELL) {
            tracing::info!("dlrund has ended");
        } else {
            tracing::warn!(
                "dlrund has ended before the disk took all; the newest samples may be missing"
            );
        }
        // The next daemon makes its own; a client that still waits sees that nobody is there.
        let _ = fs::remove_file(self.node.settings.socket());
        // Figures of the past would be shown as those of now.
        if let Some(path) = self.node.settings.metrics_textfile() {
            let _ = fs::remove_file(path);
        }
    }

    fn families(&self) -> Vec<Family> {
        metrics::families(&self.node, self.node.settings.metrics_runs())
    }

    fn announce(&self) {
        tracing::info!(
            socket = %self.node.settings.socket().display(),
            gpus = self.node.gpu_report().is_some(),
            metrics = ?self.node.settings.metrics_listen(),
            all_jobs = self.node.settings.all_jobs(),
            "dlrund {} is ready",
            env!("CARGO_PKG_VERSION")
        );
    }
}

/// The runs that a former daemon left, with the samples that its figures may not hold yet.
fn found(store: &NodeStore) -> Result<Vec<(LiveRun, Vec<Sample>)>, StoreError> {
    let live = store.live()?.into_iter();
    live.map(|run| {
        let from_ms = run.last_at_ms.unwrap_or(0).saturating_sub(REPLAYED_MS);
        let samples = store.read_samples(run.node, from_ms)?;
        Ok((run, samples))
    })
    .collect()
}

/// Ticks at fixed times: one that is missed is left out.
fn every(period: Duration) -> Interval {
    let mut interval = interval(period);
    interval.set_missed_tick_behavior(MissedTickBehavior::Skip);
    interval
}

fn on(kind: SignalKind) -> Result<Signal, DaemonError> {
    signal(kind).map_err(|source| DaemonError::System("a signal handler", source))
}

/// Tells systemd, where it listens.
fn tell(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        tracing::debug!(%error, "systemd was not notified");
    }
}

fn gpu_watch(settings: &DaemonSettings) -> Option<GpuWatch> {
    let library = settings.gpu_library();
    let is_wanted = settings.gpu() && (library.is_some() || gpu_driver_present(Path::new("/")));
    let pace = WatchPace {
        interval: settings.gpu_interval(),
        deadline: settings.gpu_deadline(),
    };
    is_wanted.then(|| GpuWatch::nvidia(library.map(Path::to_owned), pace))
}

/// Makes the socket, for everybody: who may do what is asked of the kernel for each connection.
fn listen(path: &Path) -> Result<UnixListener, DaemonError> {
    let failed = |source| DaemonError::Socket(path.to_owned(), source);
    // A socket that a killed daemon left; that no other lives is known from the database's lock.
    if fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_socket()) {
        fs::remove_file(path).map_err(failed)?;
    }
    let listener = UnixListener::bind(path).map_err(failed)?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o666)).map_err(failed)?;
    Ok(listener)
}

/// Lets clients in, so many at once.
struct Doorkeeper {
    inside: usize,
    /// Connections and places of each user.
    by_user: HashMap<u32, (usize, Places)>,
    next: u64,
    limit: usize,
    limit_per_user: usize,
    patience: Patience,
    read_group: Option<u32>,
    asked: mpsc::Sender<Asked>,
    long: Arc<Semaphore>,
}

impl Doorkeeper {
    fn new(settings: &DaemonSettings, read_group: Option<u32>, asked: mpsc::Sender<Asked>) -> Self {
        Self {
            inside: 0,
            by_user: HashMap::new(),
            next: 0,
            limit: settings.connections(),
            limit_per_user: settings.connections_per_user(),
            patience: Patience {
                request: settings.request_timeout(),
                idle: settings.idle_timeout(),
            },
            read_group,
            asked,
            long: Arc::new(Semaphore::new(LONG_OF_ALL)),
        }
    }

    async fn accepted(&mut self, accepted: io::Result<(UnixStream, tokio::net::unix::SocketAddr)>) {
        let stream = match accepted {
            Ok((stream, _)) => stream,
            Err(error) => {
                // No descriptors are left, for instance: those who are inside will leave.
                tracing::warn!(%error, "a client could not be let in");
                tokio::time::sleep_until(Instant::now() + Duration::from_millis(20)).await;
                return;
            }
        };
        let Ok(peer) = Peer::from_socket(stream.as_fd(), self.read_group) else {
            return;
        };
        let new = || Places {
            turns: Arc::new(Semaphore::new(TURNS)),
            long: Arc::new(Semaphore::new(LONG_OF_USER)),
            long_of_all: Arc::clone(&self.long),
        };
        let of_user = self.by_user.entry(peer.uid);
        let (connections, places) = of_user.or_insert_with(|| (0, new()));
        // Root gets in even where users crowd the door.
        let is_full = self.inside >= self.limit && peer.uid != 0;
        if is_full || *connections >= self.limit_per_user {
            let refusal =
                Response::refused(RefusalKind::Busy, "too many connections; try again later");
            if let Ok(bytes) = encode(&refusal) {
                let _ = stream.try_write(&bytes);
            }
            return;
        }
        *connections += 1;
        self.inside += 1;
        let (connection, asked) = (self.next, self.asked.clone());
        let client = Client {
            connection,
            peer,
            patience: self.patience,
            places: places.clone(),
        };
        let serving = tokio::spawn(connection::serve(stream, client, asked.clone()));
        // However it ends, by a fault of ours too: its place is free again.
        tokio::spawn(async move {
            let _ = serving.await;
            let uid = peer.uid;
            let _ = asked.send(Asked::Gone { connection, uid }).await;
        });
        self.next += 1;
    }

    fn left(&mut self, uid: u32) {
        self.inside -= 1;
        if let Some((connections, _)) = self.by_user.get_mut(&uid) {
            *connections -= 1;
            if *connections == 0 {
                self.by_user.remove(&uid);
            }
        }
    }
}
