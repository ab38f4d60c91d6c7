//! The watcher's connection to the node daemon: who is asked when, what was handed over in both directions.

use std::collections::{BTreeSet, VecDeque};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::{Duration, Instant};

use super::writer::{Job, Placed, Writer};
use crate::observe::client::{ClientError, Daemon};
use crate::observe::protocol::{
    Measured, RefusalKind, Registered, Registration, Request, Response,
};
use crate::record::rundir::fitted;
use crate::record::{Gap, NodeRecord, ONE_MOMENT_MS, Sample, decode_segment, encode_segments};

/// How long one question may take, connecting included.
pub(super) const PATIENCE: Duration = Duration::from_secs(1);
/// Between two updates.
const UPDATE_PAUSE: Duration = Duration::from_secs(5);
/// Pauses between attempts double from the first to the second.
const RETRY_PAUSE: Duration = Duration::from_secs(1);
const RETRY_PAUSE_MAX: Duration = Duration::from_secs(60);
/// After a refusal that will not go by itself.
const REFUSED_PAUSE: Duration = Duration::from_secs(600);
/// How soon something is looked at that another thread works on.
const SOON: Duration = Duration::from_millis(20);
/// Times without the daemon that are remembered.
const MAX_PERIODS: usize = 64;
/// Times of samples that are remembered: a segment has some hundreds, and only the last ones are handed over again.
const MOST_TAKEN: usize = 20_000;

/// An attempt's result.
type Outcome = Result<(Daemon, Registered), ClientError>;

/// The connection, or the wish for one.
#[derive(Default)]
pub(super) struct Link {
    /// `None`: no daemon is wanted.
    pub(super) socket: Option<PathBuf>,
    pub(super) placed: Option<Box<Placed>>,
    daemon: Option<Daemon>,
    /// An attempt under way, on a separate thread: a daemon that hangs must cost neither samples nor the job's end.
    attempt: Option<Receiver<Outcome>>,
    pub(super) retry_at: Option<Instant>,
    pause: Duration,
    update_at: Option<Instant>,
    /// True from the first registration on.
    pub(super) was_registered: bool,
    pub(super) lost_at_ms: Option<u64>,
    /// The first and the last of the watcher's own samples since the daemon was lost, in Unix milliseconds UTC.
    own: Option<(u64, u64)>,
    handed: Handed,
}

/// What the daemon handed over.
#[derive(Default)]
struct Handed {
    /// The daemon's last segment that the writer has, and the last that is on disk.
    through: Option<u32>,
    safe: Option<u32>,
    more: bool,
    /// The newest sample of it, in Unix milliseconds UTC; before the first, when the daemon took over.
    last_ms: u64,
    /// Times of samples that lie in the run's directory already, from a watcher that was killed.
    known: BTreeSet<u64>,
    /// Times of the daemon's samples that were written last, and of those that are being written: a daemon that was killed before it
    /// noted that they arrived hands them over again.
    taken: BTreeSet<u64>,
    written: Vec<u64>,
    /// Times in which the watcher's own samples are in the run's directory.
    periods: VecDeque<(u64, u64)>,
}

impl Link {
    /// `known` are times of samples in the run's directory, `begun_ms` is the start of the command.
    pub(super) fn to(socket: Option<PathBuf>, known: BTreeSet<u64>, begun_ms: u64) -> Self {
        let last_ms = known.last().copied().unwrap_or(begun_ms);
        let handed = Handed {
            last_ms,
            known,
            ..Handed::default()
        };
        Self {
            socket,
            pause: RETRY_PAUSE,
            handed,
            ..Self::default()
        }
    }

    pub(super) fn is_up(&self) -> bool {
        self.daemon.is_some()
    }

    pub(super) fn socket(&self) -> PathBuf {
        self.socket.clone().unwrap_or_default()
    }

    /// A descriptor that is readable when the daemon is gone.
    pub(super) fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.daemon.as_ref().map(|daemon| daemon.as_fd())
    }

    /// The daemon's version of dlrun.
    pub(super) fn version(&self) -> &str {
        self.daemon
            .as_ref()
            .map_or("", |daemon| &daemon.hello().version)
    }

    /// When the link wants to be tended next.
    pub(super) fn due(&self, now: Instant) -> Option<Instant> {
        if self.daemon.is_some() {
            let more = self.handed.more.then(|| now + SOON);
            return more.into_iter().chain(self.update_at).min();
        }
        if self.attempt.is_some() {
            return Some(now + SOON);
        }
        self.retry_at.filter(|_| self.placed.is_some())
    }

    /// The place of the records is known: from now on the daemon is looked for.
    pub(super) fn place(&mut self, placed: Box<Placed>) {
        self.placed = Some(placed);
        self.retry_at = self.socket.as_ref().map(|_| Instant::now());
    }

    pub(super) fn is_time_to_try(&self, now: Instant) -> bool {
        let idle = self.daemon.is_none() && self.attempt.is_none() && self.placed.is_some();
        idle && self.retry_at.is_some_and(|at| now >= at)
    }

    /// Begins to connect and register.
    pub(super) fn try_now(&mut self, registration: Registration) {
        let Some(socket) = self.socket.clone() else {
            return;
        };
        let (sender, receiver) = sync_channel(1);
        std::thread::spawn(move || {
            let outcome = Daemon::connect(&socket, PATIENCE).and_then(|mut daemon| {
                match daemon.ask(&Request::Register(Box::new(registration)))? {
                    Response::Registered(registered) => Ok((daemon, registered)),
                    _ => Err(daemon.unexpected()),
                }
            });
            let _ = sender.send(outcome);
        });
        self.attempt = Some(receiver);
    }

    /// How the attempt went, waiting `patience` for it; `None` where there is none or it is not over.
    pub(super) fn outcome(
        &mut self,
        patience: Duration,
    ) -> Option<Result<Registered, ClientError>> {
        let outcome = self.attempt.as_ref()?.recv_timeout(patience).ok()?;
        self.attempt = None;
        Some(outcome.map(|(daemon, registered)| {
            self.connected(daemon, &registered);
            registered
        }))
    }

    fn connected(&mut self, daemon: Daemon, registered: &Registered) {
        self.daemon = Some(daemon);
        self.pause = RETRY_PAUSE;
        self.update_at = Some(Instant::now());
        let handed = &mut self.handed;
        if registered.resumed {
            handed.safe = handed.safe.max(registered.acknowledged);
        } else {
            handed.safe = registered.acknowledged;
        }
        // A daemon that has the run has samples of it.
        (handed.through, handed.more) = (handed.safe, registered.resumed);
    }

    /// The attempt failed: the next one is later.
    pub(super) fn try_later(&mut self, refusal: Option<RefusalKind>) {
        let lasting = matches!(
            refusal,
            Some(RefusalKind::Version | RefusalKind::NotPermitted)
        );
        let pause = if lasting { REFUSED_PAUSE } else { self.pause };
        self.pause = (self.pause * 2).min(RETRY_PAUSE_MAX);
        self.retry_at = Some(Instant::now() + pause);
    }

    /// The daemon is lost. Returns the newest sample that it handed over.
    pub(super) fn lose(&mut self, now_ms: u64) -> u64 {
        self.daemon = None;
        self.lost_at_ms = Some(now_ms);
        self.handed.more = false;
        self.pause = RETRY_PAUSE;
        self.try_later(None);
        self.handed.last_ms
    }

    /// Notes that the watcher took a sample itself.
    pub(super) fn note_own(&mut self, at_ms: u64) {
        if self.socket.is_some() {
            let (first, _) = self.own.unwrap_or((at_ms, at_ms));
            self.own = Some((first, at_ms));
        }
    }

    /// The daemon has samples of the same time and better ones.
    pub(super) fn forget_own(&mut self) {
        self.own = None;
    }

    /// From here on the daemon reads.
    pub(super) fn seal_own(&mut self) {
        let handed = &mut self.handed;
        if let Some((first, last)) = self.own.take() {
            handed.last_ms = handed.last_ms.max(last);
            handed.periods.push_back((first, last));
            if handed.periods.len() > MAX_PERIODS {
                handed.periods.pop_front();
            }
        }
    }

    /// What is left of a hole in what the daemon read where the watcher read instead: the time until its first sample.
    /// `slack_ms` is what two of its readings may be apart.
    pub(super) fn gap_until_watcher_read(&self, gap: Gap, slack_ms: u64) -> Gap {
        let covers = |(first, last): &&(u64, u64)| {
            gap.from_ms.saturating_add(slack_ms) >= *first
                && gap.to_ms <= last.saturating_add(slack_ms)
        };
        match self.handed.periods.iter().find(covers) {
            Some((first, _)) => Gap {
                from_ms: gap.from_ms,
                to_ms: (*first).clamp(gap.from_ms, gap.to_ms.max(gap.from_ms)),
                why: format!("{}; the watcher read meanwhile", gap.why),
            },
            None => gap,
        }
    }

    pub(super) fn is_time_to_update(&self, now: Instant) -> bool {
        self.daemon.is_some() && self.update_at.is_some_and(|at| now >= at)
    }

    /// Sends the daemon what was read from the output, and takes what it measured.
    pub(super) fn update(&mut self, record: &NodeRecord) -> Result<Measured, ClientError> {
        self.update_at = Some(Instant::now() + UPDATE_PAUSE);
        let record = Box::new(self.fitted_record(record));
        self.measured(&Request::Update { record }, PATIENCE)
    }

    /// The record as the daemon gets it: with its true key, and no larger than on disk.
    pub(super) fn fitted_record(&self, record: &NodeRecord) -> NodeRecord {
        let mut shown = fitted(record).unwrap_or_else(|| record.clone());
        if let Some(placed) = &self.placed {
            shown.key.clone_from(&placed.key);
        }
        shown
    }

    /// More samples are waiting, and what came before is on disk.
    pub(super) fn can_collect_more(&self) -> bool {
        self.daemon.is_some() && self.handed.more && !self.waits_for_disk()
    }

    /// The daemon cannot hand anything over now: it is asked again with the next segment, not at once.
    pub(super) fn collect_later(&mut self) {
        self.handed.more = false;
    }

    /// Nothing that the daemon had when it was asked last is missing here.
    pub(super) fn has_all(&self) -> bool {
        !self.handed.more
    }

    pub(super) fn waits_for_disk(&self) -> bool {
        self.handed.through != self.handed.safe
    }

    /// What the daemon sent up to `through` is on disk.
    pub(super) fn is_safe(&mut self, through: u32) {
        if self.handed.through == Some(through) {
            self.handed.safe = Some(through);
            let handed = &mut self.handed;
            handed.taken.extend(handed.written.drain(..));
            while handed.taken.len() > MOST_TAKEN {
                handed.taken.pop_first();
            }
        }
    }

    /// Acknowledges what is on disk and hands what is next to the writer. Returns the times of the samples, or
    /// `None` where there was nothing.
    pub(super) fn collect(
        &mut self,
        writer: &mut Writer,
        patience: Duration,
        mut each: impl FnMut(&Sample),
    ) -> Result<Option<Vec<u64>>, ClientError> {
        if self.waits_for_disk() {
            return Ok(None);
        }
        let acknowledged = self.handed.safe;
        let response = self.ask(&Request::Collect { acknowledged }, patience)?;
        let Response::Segment(segment) = response else {
            return Err(self.unexpected());
        };
        let Some(through) = segment.through else {
            self.handed.more = false;
            return Ok(None);
        };
        if acknowledged.is_some_and(|acknowledged| through <= acknowledged) {
            return Err(self.unexpected());
        }
        let samples = decode_segment(&segment.bytes).map_err(|_| self.unexpected())?;
        let times: Vec<u64> = samples.iter().map(|sample| sample.at_ms).collect();
        samples.iter().for_each(&mut each);
        let blocks = self.handed.blocks_not_on_disk(samples, segment.bytes);
        if writer.send(Job::Segments(blocks, Some(through))) {
            self.handed.through = Some(through);
            self.handed.written.clone_from(&times);
            let newest_ms = times.iter().copied().max().unwrap_or(0);
            self.handed.last_ms = self.handed.last_ms.max(newest_ms);
            self.handed.more = segment.more;
        }
        Ok(Some(times))
    }

    /// Asks what is answered with the daemon's figures.
    pub(super) fn measured(
        &mut self,
        request: &Request,
        patience: Duration,
    ) -> Result<Measured, ClientError> {
        match self.ask(request, patience)? {
            Response::Measured(measured) => Ok(*measured),
            _ => Err(self.unexpected()),
        }
    }

    fn ask(&mut self, request: &Request, patience: Duration) -> Result<Response, ClientError> {
        match &mut self.daemon {
            Some(daemon) => daemon.ask_within(request, patience),
            None => Err(self.unexpected()),
        }
    }

    fn unexpected(&self) -> ClientError {
        let closed = || ClientError::Closed(self.socket());
        self.daemon.as_ref().map_or_else(closed, Daemon::unexpected)
    }
}

impl Handed {
    /// The blocks without what is in the run's directory already.
    fn blocks_not_on_disk(&self, mut samples: Vec<Sample>, bytes: Vec<u8>) -> Vec<Vec<u8>> {
        let before = samples.len();
        let is_here = |at_ms: u64| {
            self.known.contains(&at_ms)
                || self.taken.contains(&at_ms)
                || self.periods.iter().any(|(from, to)| {
                    (from.saturating_sub(ONE_MOMENT_MS)..=to.saturating_add(ONE_MOMENT_MS))
                        .contains(&at_ms)
                })
        };
        samples.retain(|sample| !is_here(sample.at_ms));
        if samples.len() == before {
            vec![bytes]
        } else {
            encode_segments(&samples)
        }
    }
}
