//! The database's thread. A disk may be slow, full or gone; nobody but those who ask for what lies on it waits.

use std::collections::{HashMap, VecDeque};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{
    Receiver, RecvTimeoutError, SyncSender, TryRecvError, TrySendError, channel, sync_channel,
};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use nix::unistd::{Uid, User};
use tokio::sync::{mpsc, oneshot};

use super::budget;
use crate::foundation::diagnostic::chain_text;
use crate::observe::protocol::{RefusalKind, Registered, Response, Segment, StoreStatus};
use crate::record::store::{Backlog, Live, NodeId, NodeStore, Shortened, StoreError, StoreFault};
use crate::record::{Gap, NodeRecord, RunRecord, Sample};

/// The daemon's own number for a run.
pub(super) type Handle = u64;
pub(super) type Reply = oneshot::Sender<Response>;

/// Jobs that may wait for a slow disk. Samples are not among them: they wait in the backlog. One user has at most a job
/// for each connection and one for each run there, which by default is half of it.
const QUEUE: usize = 1024;
/// Ends that are written together.
const ENDS_AT_ONCE: usize = 64;
/// Samples that wait for a disk that takes nothing: an hour of one run, half a minute of a hundred; some 10 MB.
const BACKLOG: usize = 4096;
/// Ends that the disk did not take and that are kept, and how often they are tried.
const UNENDED: usize = 512;
const TRY_AGAIN: Duration = Duration::from_secs(2);
/// The name of a user is waited for so long.
const NAME_TIMEOUT: Duration = Duration::from_secs(1);

/// What the database is to do.
#[derive(Debug)]
pub(super) enum Job {
    Register(Box<Register>),
    /// There are samples in the backlog, or runs that ended.
    Ticks,
    /// Fold the samples of these runs, and remember this of each.
    Fold(Vec<(NodeId, String)>),
    /// There is an update of this run.
    Update(NodeId),
    Collect(NodeId, Option<u32>, Reply),
    Retain(u64, u64, u64),
    /// Finish what is queued and end; the answer comes when that is done.
    Stop(SyncSender<()>),
}

/// A run that is over. The answer is given once that is safe.
#[derive(Debug)]
pub(super) struct End {
    pub(super) node: NodeId,
    pub(super) uid: u32,
    /// Bytes of the client's record as JSON.
    pub(super) weight: usize,
    pub(super) record: Box<NodeRecord>,
    pub(super) answer: Option<(Box<Response>, Reply)>,
}

/// A run that is to be watched.
#[derive(Debug)]
pub(super) struct Register {
    pub(super) handle: Handle,
    pub(super) run: RunRecord,
    pub(super) uid: u32,
    pub(super) record: NodeRecord,
    pub(super) live: Live,
    pub(super) answer: Registered,
    /// Nobody asked for a job that was found.
    pub(super) reply: Option<Reply>,
}

/// What the node's owner hears of it.
#[derive(Debug)]
pub(super) enum Notice {
    Registered(Handle, NodeId),
    Rejected(Handle),
    /// Samples were dropped.
    Dropped(NodeId, Gap, u64),
    /// Samples that were written have gone again.
    Shortened(Shortened),
}

/// Updates that wait for the disk: of each run the newest, so that a client who sends many fills nothing.
type Updates = HashMap<NodeId, (Box<NodeRecord>, String)>;

/// What waits for the disk outside of the queue, and how that is.
struct Waiting {
    backlog: Mutex<Backlog>,
    updates: Mutex<Updates>,
    /// Runs that are over. Nobody else would say so again, so there is always room for them.
    /// Each with how many jobs were queued before it: it must not come before the registration of its run.
    ends: Mutex<VecDeque<(u64, End)>>,
    status: Mutex<StoreStatus>,
}

impl Waiting {
    fn new(status: StoreStatus) -> Arc<Self> {
        Arc::new(Self {
            backlog: Mutex::new(Backlog::new(BACKLOG)),
            updates: Mutex::default(),
            ends: Mutex::default(),
            status: Mutex::new(status),
        })
    }

    /// The next ends, where so many jobs are done.
    fn next_ends(&self, done: u64) -> Option<Vec<End>> {
        let mut ends = lock(&self.ends);
        let due = ends.iter().take_while(|(after, _)| *after <= done);
        let count = due.count().min(ENDS_AT_ONCE);
        let due = ends.drain(..count).map(|(_, end)| end);
        Some(due.collect()).filter(|ends: &Vec<End>| !ends.is_empty())
    }
}

/// The owner's end.
pub(super) struct Recorder {
    jobs: SyncSender<Job>,
    /// Jobs that were queued.
    queued: AtomicU64,
    waiting: Arc<Waiting>,
    thread: Option<JoinHandle<()>>,
}

impl Recorder {
    /// Starts the thread over an open database.
    pub(super) fn start(
        store: NodeStore,
        path: &Path,
        notices: mpsc::UnboundedSender<Notice>,
    ) -> Self {
        let (jobs, queue) = sync_channel(QUEUE);
        let waiting = Waiting::new(StoreStatus {
            path: path.display().to_string(),
            ..StoreStatus::default()
        });
        let desk = Desk {
            store,
            notices,
            waiting: Arc::clone(&waiting),
            done: 0,
            unended: VecDeque::new(),
            wanted: None,
            names: HashMap::new(),
            looked_up: None,
        };
        let thread = std::thread::Builder::new()
            .name("store".to_owned())
            .spawn(move || desk.work(&queue));
        Self {
            jobs,
            queued: AtomicU64::new(0),
            waiting,
            thread: thread.ok(),
        }
    }

    /// The update of a run that waits.
    #[cfg(test)]
    pub(super) fn updated(&self, node: NodeId) -> Option<NodeRecord> {
        lock(&self.waiting.updates)
            .get(&node)
            .map(|(record, _)| (**record).clone())
    }

    /// One without a database, whose queue has room for `room` jobs.
    #[cfg(test)]
    pub(super) fn queue_only(room: usize) -> (Self, Receiver<Job>) {
        let (jobs, queue) = sync_channel(room);
        let recorder = Self {
            jobs,
            queued: AtomicU64::new(0),
            waiting: Waiting::new(StoreStatus::default()),
            thread: None,
        };
        (recorder, queue)
    }

    /// How many ends wait.
    #[cfg(test)]
    pub(super) fn ending(&self) -> usize {
        lock(&self.waiting.ends).len()
    }

    /// Puts the samples of one tick where the database finds them.
    pub(super) fn tick(&self, samples: Vec<(NodeId, Sample)>) {
        if samples.is_empty() {
            return;
        }
        lock(&self.waiting.backlog).push(samples);
        // Where the queue is full the backlog is taken with a later job.
        let _ = self.send(Job::Ticks);
    }

    /// Keeps the record of a live run, and what the daemon remembers of it, for the disk.
    pub(super) fn update(&self, node: NodeId, record: Box<NodeRecord>, memory: String) {
        let is_first = lock(&self.waiting.updates)
            .insert(node, (record, memory))
            .is_none();
        if is_first && self.send(Job::Update(node)).is_err() {
            // The next one will do.
            lock(&self.waiting.updates).remove(&node);
        }
    }

    /// Keeps the end of a run for the disk. The run's last samples have been handed in before.
    pub(super) fn end(&self, end: End) {
        // It would make the run live again.
        lock(&self.waiting.updates).remove(&end.node);
        let before = self.queued.load(Ordering::Relaxed);
        lock(&self.waiting.ends).push_back((before, end));
        // Where the queue is full the ends are taken with a later job.
        let _ = self.send(Job::Ticks);
    }

    /// Queues a job; the job comes back where the disk is too slow for more.
    pub(super) fn send(&self, job: Job) -> Result<(), Job> {
        self.jobs.try_send(job).map_err(|error| match error {
            TrySendError::Full(job) | TrySendError::Disconnected(job) => job,
        })?;
        self.queued.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    pub(super) fn status(&self) -> StoreStatus {
        lock(&self.waiting.status).clone()
    }

    /// True where the thread has died, which it never should.
    pub(super) fn is_dead(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Ends the thread when it has done all that was queued, or after `patience`.
    pub(super) fn stop(&self, patience: Duration) -> bool {
        let (done, waiting) = sync_channel(1);
        // A full queue behind a hung disk does not keep the daemon.
        self.send(Job::Stop(done)).is_ok() && waiting.recv_timeout(patience).is_ok()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The thread's end.
struct Desk {
    store: NodeStore,
    notices: mpsc::UnboundedSender<Notice>,
    waiting: Arc<Waiting>,
    /// Jobs that are done.
    done: u64,
    /// Ends that the disk did not take.
    unended: VecDeque<End>,
    /// The time, the greatest age and the greatest size, while old runs are being forgotten.
    wanted: Option<(u64, u64, u64)>,
    /// Names of users, by their ids.
    names: HashMap<u32, String>,
    /// A question for a name that was not answered in time.
    looked_up: Option<Receiver<Option<String>>>,
}

impl Desk {
    fn work(mut self, queue: &Receiver<Job>) {
        while let Some(job) = self.next_job(queue) {
            self.take_backlog();
            self.end_runs();
            self.done += 1;
            if let Job::Stop(done) = job {
                let _ = done.send(());
                return;
            }
            // Asking costs as much as writing a tick does; what ticks add is in sight at the next fold.
            if matches!(job, Job::Ticks) {
                continue;
            }
            self.do_job(job);
            self.retain();
            if let Ok(bytes) = self.store.used_bytes() {
                lock(&self.waiting.status).bytes = bytes;
            }
        }
    }

    /// Waits for a job; meanwhile ends that failed are tried again. `None`: nobody is left to give any.
    fn next_job(&mut self, queue: &Receiver<Job>) -> Option<Job> {
        while !self.unended.is_empty() {
            match queue.recv_timeout(TRY_AGAIN) {
                Ok(job) => return Some(job),
                Err(RecvTimeoutError::Disconnected) => return None,
                Err(RecvTimeoutError::Timeout) => {
                    self.take_backlog();
                    self.end_runs();
                }
            }
        }
        queue.recv().ok()
    }

    /// Writes what waits; on failure it continues waiting, until there is no room for it.
    fn take_backlog(&mut self) {
        // The lock is not held while the disk works: the owner must not wait for it.
        while let Some(tick) = { lock(&self.waiting.backlog).take() } {
            let rows: Vec<_> = tick.iter().map(|(node, sample)| (*node, sample)).collect();
            let written = self.store.append(&rows);
            let has_failed = written.is_err();
            self.note(written);
            if has_failed {
                lock(&self.waiting.backlog).put_back(tick);
                break;
            }
        }
        let dropped = lock(&self.waiting.backlog).take_dropped();
        for (node, dropped) in dropped {
            let why = lock(&self.waiting.status)
                .error
                .clone()
                .unwrap_or_else(|| "the disk is too slow".to_owned());
            lock(&self.waiting.status).dropped_samples += dropped.samples;
            let gap = Gap::new(dropped.from_ms, dropped.to_ms, why);
            let notice = Notice::Dropped(node, gap, dropped.samples);
            let _ = self.notices.send(notice);
        }
    }

    fn do_job(&mut self, job: Job) {
        let done = match job {
            Job::Register(register) => self.register(*register),
            // Done by `work`.
            Job::Ticks | Job::Stop { .. } => return,
            Job::Fold(states) => {
                let nodes: Vec<NodeId> = states.iter().map(|(node, _)| *node).collect();
                self.store
                    .remember(&states)
                    .and_then(|()| self.store.fold(&nodes))
            }
            Job::Update(node) => self.update(node),
            Job::Collect(node, acknowledged, reply) => self.collect(node, acknowledged, reply),
            Job::Retain(now_ms, max_age_ms, max_bytes) => {
                self.wanted = Some((now_ms, max_age_ms, max_bytes));
                return;
            }
        };
        self.note(done);
    }

    /// A user's name, or `uid 1001` where there is none. Directory services may hang (`nsswitch.conf(5)`): one question at a time.
    fn name_of(&mut self, uid: u32) -> String {
        let none = format!("uid {uid}");
        if let Some(name) = self.names.get(&uid) {
            return name.clone();
        }
        let hangs = |asked: &Receiver<_>| asked.try_recv() == Err(TryRecvError::Empty);
        if self.looked_up.as_ref().is_some_and(hangs) {
            return none;
        }
        let (sender, receiver) = channel();
        let look_up = move || {
            let user = User::from_uid(Uid::from_raw(uid)).ok().flatten();
            let _ = sender.send(user.map(|user| user.name));
        };
        let started = std::thread::Builder::new()
            .name("names".to_owned())
            .spawn(look_up);
        match receiver.recv_timeout(NAME_TIMEOUT) {
            Ok(found) => self
                .names
                .entry(uid)
                .or_insert(found.unwrap_or(none))
                .clone(),
            Err(_) => {
                self.looked_up = started.is_ok().then_some(receiver);
                none
            }
        }
    }

    fn register(&mut self, mut new: Register) -> Result<(), StoreError> {
        // Whose it is the kernel says, not who asks.
        new.run.user = self.name_of(new.uid);
        let store = &mut self.store;
        let done = store.register(&new.run, new.uid, &new.record, &new.live);
        let done = done.and_then(|node| Ok((node, store.acknowledged(node)?)));
        let (notice, answered) = match done {
            Ok((node, acknowledged)) => {
                new.answer.acknowledged = acknowledged;
                let notice = Notice::Registered(new.handle, node);
                (notice, Ok(Response::Registered(new.answer)))
            }
            Err(error) => {
                let answered = match error.kind {
                    StoreFault::OtherUser => {
                        let why = chain_text(&error);
                        Ok(Response::refused(RefusalKind::NotPermitted, why))
                    }
                    _ => Err(error),
                };
                (Notice::Rejected(new.handle), answered)
            }
        };
        let _ = self.notices.send(notice);
        answer(new.reply, answered)
    }

    /// Forgets some old runs, and continues after the next job: nobody is to wait for all of them.
    fn retain(&mut self) {
        let Some((now_ms, max_age_ms, max_bytes)) = self.wanted.take() else {
            return;
        };
        let done = self
            .store
            .retain(now_ms, max_age_ms, max_bytes)
            .map(|gone| {
                self.wanted = gone.more.then_some((now_ms, max_age_ms, max_bytes));
                for shortened in &gone.shortened {
                    let _ = self.notices.send(Notice::Shortened(*shortened));
                }
                tracing::debug!(?gone, "old runs were looked for");
            });
        self.note(done);
    }

    fn update(&mut self, node: NodeId) -> Result<(), StoreError> {
        let Some((record, memory)) = lock(&self.waiting.updates).remove(&node) else {
            return Ok(());
        };
        self.store
            .update(node, &record)
            .and_then(|()| self.store.remember(&[(node, memory)]))
    }

    /// Tries ends again that the disk did not take, then ends the runs that are over since.
    fn end_runs(&mut self) {
        while let Some(end) = self.unended.pop_front() {
            let done = self.store.end(&[(end.node, &*end.record)]);
            let has_failed = done.is_err();
            self.note(done);
            if has_failed {
                self.unended.push_front(end);
                break;
            }
        }
        // The lock is not held while the disk works.
        while let Some(ends) = self.waiting.next_ends(self.done) {
            // An end must not come before the samples that led to it.
            self.take_backlog();
            self.end_together(ends);
        }
    }

    /// The jobs of a node often end at once, and each wait for the disk is long.
    fn end_together(&mut self, ends: Vec<End>) {
        let records: Vec<(NodeId, &NodeRecord)> =
            ends.iter().map(|end| (end.node, &*end.record)).collect();
        let all = self.store.end(&records);
        for mut end in ends {
            // One that the database refuses must not keep the others.
            let mut done = match all {
                Ok(()) => Ok(()),
                Err(_) => self.store.end(&[(end.node, &*end.record)]),
            };
            if let Some((measured, reply)) = end.answer.take() {
                done = answer(Some(reply), done.map(|()| *measured));
            }
            let held = self.unended.iter().map(|end| (end.uid, end.weight));
            if done.is_err()
                && self.unended.len() < UNENDED
                && budget::room(held, end.uid, end.weight).is_ok()
            {
                self.unended.push_back(end);
            }
            self.note(done);
        }
    }

    fn collect(
        &mut self,
        node: NodeId,
        acknowledged: Option<u32>,
        reply: Reply,
    ) -> Result<(), StoreError> {
        let noted = acknowledged.map_or(Ok(()), |seq| self.store.acknowledge(node, seq));
        let collected = noted.and_then(|()| {
            self.store
                .collect(node, acknowledged, crate::record::MAX_SEGMENT_BYTES)
        });
        let answered = collected.map(|found| {
            Response::Segment(Segment {
                through: found.as_ref().map(|found| found.through_seq),
                more: found.as_ref().is_some_and(|found| found.more),
                bytes: found.map(|found| found.bytes).unwrap_or_default(),
            })
        });
        answer(Some(reply), answered)
    }

    /// Keeps what failed last, for the status; logs it once.
    fn note(&self, done: Result<(), StoreError>) {
        let error = done.err().map(|error| chain_text(&error));
        let mut status = lock(&self.waiting.status);
        if status.error != error {
            match &error {
                Some(error) => {
                    tracing::warn!(error, "the database takes nothing; samples wait in memory")
                }
                None => tracing::info!("the database takes samples again"),
            }
            status.error = error;
        }
    }
}

/// Answers what was to be done, and returns how it went.
fn answer(reply: Option<Reply>, done: Result<Response, StoreError>) -> Result<(), StoreError> {
    let (response, done) = match done {
        Ok(response) => (response, Ok(())),
        Err(error) => {
            let refusal = Response::refused(RefusalKind::Internal, chain_text(&error));
            (refusal, Err(error))
        }
    };
    if let Some(reply) = reply {
        // The client may have left.
        let _ = reply.send(response);
    }
    done
}
