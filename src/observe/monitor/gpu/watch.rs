//! Reads all GPUs at a steady pace in a separate thread, so that a driver that hangs stops nobody.
//!
//! The thread reads the GPUs one after another. While a call takes longer than the deadline, all readings are stale.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::Builder;
use std::time::{Duration, Instant};

use super::{GpuError, GpuRead, GpuReader, Nvml};
use crate::foundation::clock::now_ms;
use crate::record::{Event, EventKind, GpuFacts};

/// The longest that a GPU or a driver that failed is left alone.
const LONGEST_PAUSE: Duration = Duration::from_secs(900);
/// Events kept until somebody takes them; later ones are dropped.
const EVENTS_KEPT: usize = 256;
/// Opening the driver may take this many deadlines: it takes seconds where the driver is not kept loaded.
const OPENING: u32 = 5;
/// "GPU has fallen off the bus."
const XID_LOST: u64 = 79;

/// How often GPUs are read, and how long one may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WatchPace {
    /// From one reading of all to the next; between 0.1 s and 60 s.
    pub interval: Duration,
    /// While a reading takes longer, all GPUs are stale.
    pub deadline: Duration,
}

impl Default for WatchPace {
    fn default() -> Self {
        Self {
            interval: Duration::from_secs(1),
            deadline: Duration::from_secs(2),
        }
    }
}

/// How far a GPU's last reading can be believed. Times are Unix milliseconds UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GpuCondition {
    /// It was not read yet.
    Waiting,
    /// It is what the GPU last said.
    Fresh,
    /// The GPU gives no answer.
    Stale {
        /// Since when.
        since_ms: u64,
    },
    /// The GPU fell off the bus.
    Lost {
        /// Since when.
        since_ms: u64,
    },
}

/// What is known of one GPU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GpuState {
    /// What it is.
    pub facts: Arc<GpuFacts>,
    /// Its last reading.
    pub last: Option<Arc<GpuRead>>,
    /// When that was taken, in Unix milliseconds UTC.
    pub at_ms: Option<u64>,
    /// Whether it can be believed.
    pub condition: GpuCondition,
}

impl GpuState {
    fn is_lost(&self) -> bool {
        matches!(self.condition, GpuCondition::Lost { .. })
    }

    /// Its reading, where that is not an old one.
    #[must_use]
    pub fn fresh(&self) -> Option<&GpuRead> {
        (self.condition == GpuCondition::Fresh)
            .then_some(self.last.as_deref())
            .flatten()
    }
}

/// What is known of all GPUs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct GpuReport {
    /// Every GPU that may be read, with its slices.
    pub gpus: Vec<GpuState>,
    /// Why nothing can be read, for people; `None` while the driver answers.
    pub missing: Option<String>,
    /// GPUs that the driver counts and refuses to hand out: which and why, for people.
    pub refused: Vec<String>,
    /// How many GPUs are not for this user, such as those of other jobs.
    pub forbidden: usize,
}

type Open = dyn Fn() -> Result<Box<dyn GpuReader>, GpuError> + Send + Sync;

/// Watches all GPUs of this machine, as far as this process may see them.
pub struct GpuWatch {
    shared: Arc<Shared>,
}

struct Shared {
    pace: WatchPace,
    open: Box<Open>,
    state: Mutex<State>,
    wake: Condvar,
}

#[derive(Default)]
struct State {
    stop: bool,
    call: Option<Call>,
    known: GpuReport,
    /// The driver is to be initialised again, not before its pause is over.
    reopen: bool,
    pause: Pause,
    /// GPUs are not read before it is over.
    rest: Pause,
    events: VecDeque<(Option<Arc<str>>, Event)>,
}

/// A call that has not come back.
#[derive(Clone, Copy)]
struct Call {
    opens: bool,
    begun: Instant,
    at_ms: u64,
}

/// A wait that doubles from failure to failure.
#[derive(Debug, Clone, Copy, Default)]
struct Pause {
    length: Duration,
    until: Option<Instant>,
}

impl Pause {
    fn begin(&mut self, first: Duration) {
        self.length = (self.length * 2).clamp(first, LONGEST_PAUSE.max(first));
        self.until = Some(Instant::now() + self.length);
    }

    fn is_over(&self) -> bool {
        self.until.is_none_or(|until| until <= Instant::now())
    }
}

impl GpuWatch {
    /// Starts watching NVIDIA's GPUs; `library` is that of the driver, where it is not the system's.
    #[must_use]
    pub fn nvidia(library: Option<PathBuf>, pace: WatchPace) -> Self {
        Self::start(pace, move || Ok(Box::new(Nvml::open(library.as_deref())?)))
    }

    /// Starts watching what `open` gives. Does not wait for it: `open` runs in a thread, again after each time that a GPU
    /// was lost, and may take its time.
    #[must_use]
    pub fn start<F>(pace: WatchPace, open: F) -> Self
    where
        F: Fn() -> Result<Box<dyn GpuReader>, GpuError> + Send + Sync + 'static,
    {
        let interval = pace
            .interval
            .clamp(Duration::from_millis(100), Duration::from_secs(60));
        let shared = Arc::new(Shared {
            pace: WatchPace { interval, ..pace },
            open: Box::new(open),
            state: Mutex::new(State {
                known: GpuReport {
                    missing: Some("the GPU driver has not answered yet".into()),
                    ..GpuReport::default()
                },
                reopen: true,
                ..State::default()
            }),
            wake: Condvar::new(),
        });
        let theirs = Arc::clone(&shared);
        let spawned = Builder::new().name("gpu-watch".into());
        if let Err(error) = spawned.spawn(move || theirs.work()) {
            shared.lock().known.missing = Some(format!("no thread to read GPUs in: {error}"));
        }
        Self { shared }
    }

    /// What was last read. Never waits for a driver.
    #[must_use]
    pub fn latest(&self) -> GpuReport {
        let mut state = self.shared.lock();
        state.note_late_call(self.shared.pace.deadline);
        state.known.clone()
    }

    /// What happened since the last call, and to which GPU. Never waits for a driver.
    #[must_use]
    pub fn take_events(&self) -> Vec<(Option<Arc<str>>, Event)> {
        let mut state = self.shared.lock();
        state.note_late_call(self.shared.pace.deadline);
        state.events.drain(..).collect()
    }
}

impl Drop for GpuWatch {
    /// Does not wait for the thread: it may hang, and closing the driver may take long.
    fn drop(&mut self) {
        self.shared.lock().stop = true;
        self.shared.wake.notify_all();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The life of the thread.
    fn work(&self) {
        let mut reader = None;
        let mut next = Instant::now();
        while !self.lock().stop {
            self.open_if_due(&mut reader);
            if let Some(reader) = &reader {
                self.read_all(&**reader);
            }
            // Late ticks are left out, not made up for.
            let now = Instant::now();
            while next <= now {
                next += self.pace.interval;
            }
            let left = next.saturating_duration_since(now);
            let stopped = self
                .wake
                .wait_timeout_while(self.lock(), left, |state| !state.stop);
            drop(stopped);
        }
    }

    /// Opens the driver where that is due.
    fn open_if_due(&self, reader: &mut Option<Box<dyn GpuReader>>) {
        let state = self.lock();
        if !(state.reopen && state.pause.is_over()) {
            return;
        }
        drop(state);
        self.begin(true);
        // The driver begins again only when nobody uses it any more.
        drop(reader.take());
        let opened = (self.open)().map(|reader| (reader.devices(), reader.refused(), reader));
        let mut state = self.lock();
        state.call = None;
        match opened {
            Ok((devices, refused, opened)) => {
                state.take_devices_in(devices);
                state.take_refused_in(refused);
                *reader = Some(opened);
            }
            Err(error) => {
                state.known.missing = Some(error.to_string());
                state.pause.begin(2 * self.pace.deadline);
                state.all_stale(now_ms(), &error.to_string());
            }
        }
    }

    fn read_all(&self, reader: &dyn GpuReader) {
        if !self.lock().rest.is_over() {
            return;
        }
        let gpus = self.lock().known.gpus.clone();
        for uuid in gpus.iter().map(|gpu| gpu.facts.uuid.as_str()) {
            // With a GPU that is lost its slices are.
            if self.lock().gpu(uuid).is_none_or(|gpu| gpu.is_lost()) {
                continue;
            }
            self.begin(false);
            let read = reader.read(uuid);
            let mut state = self.lock();
            let is_late = state.note_late_call(self.pace.deadline);
            state.call = None;
            if state.stop {
                return;
            }
            if is_late {
                // A driver that is slow is asked less and less often, or its events would push out all others.
                state.rest.begin(2 * self.pace.deadline);
                return;
            }
            state.take_in(uuid, now_ms(), read, &self.pace);
        }
        let xids = reader.take_xids();
        let mut state = self.lock();
        state.rest = Pause::default();
        for xid in xids {
            let detail = format!("XID {}", xid.xid);
            state.tell(Some(&xid.uuid), EventKind::Xid, xid.at_ms, &detail);
            if xid.xid == XID_LOST {
                state.set_lost(&xid.uuid, xid.at_ms, &self.pace);
            }
        }
    }

    fn begin(&self, opens: bool) {
        self.lock().call = Some(Call {
            opens,
            begun: Instant::now(),
            at_ms: now_ms(),
        });
    }
}

impl State {
    fn gpu(&mut self, uuid: &str) -> Option<&mut GpuState> {
        self.known
            .gpus
            .iter_mut()
            .find(|gpu| gpu.facts.uuid == uuid)
    }

    fn tell(&mut self, uuid: Option<&str>, kind: EventKind, at_ms: u64, detail: &str) {
        if self.events.len() < EVENTS_KEPT {
            let detail = detail.to_owned();
            self.events.push_back((
                uuid.map(Arc::from),
                Event {
                    at_ms,
                    kind,
                    detail,
                },
            ));
        }
    }

    /// Of a call that hangs nobody knows what it will say: until then no reading is fresh.
    /// Returns whether there is one.
    fn note_late_call(&mut self, deadline: Duration) -> bool {
        let Some(call) = self.call else {
            return false;
        };
        let waited = call.begun.elapsed();
        let is_late = waited
            > if call.opens {
                OPENING * deadline
            } else {
                deadline
            };
        if is_late {
            if call.opens {
                self.known.missing = Some("the GPU driver gives no answer".into());
            }
            let why = format!("no answer for {:.1} s", waited.as_secs_f64());
            self.all_stale(call.at_ms, &why);
        }
        is_late
    }

    fn set_stale(&mut self, uuid: &str, since_ms: u64, why: &str) {
        let Some(gpu) = self.gpu(uuid) else { return };
        if matches!(gpu.condition, GpuCondition::Waiting | GpuCondition::Fresh) {
            gpu.condition = GpuCondition::Stale { since_ms };
            self.tell(Some(uuid), EventKind::GpuStale, since_ms, why);
        }
    }

    fn all_stale(&mut self, since_ms: u64, why: &str) {
        for facts in self.all_facts() {
            self.set_stale(&facts.uuid, since_ms, why);
        }
    }

    fn all_facts(&self) -> Vec<Arc<GpuFacts>> {
        let gpus = self.known.gpus.iter();
        gpus.map(|gpu| Arc::clone(&gpu.facts)).collect()
    }

    /// A GPU is lost until the driver was opened again; its slices are lost with it.
    fn set_lost(&mut self, uuid: &str, since_ms: u64, pace: &WatchPace) {
        let facts = self.all_facts();
        let of_it =
            |facts: &&Arc<GpuFacts>| facts.uuid == uuid || facts.parent.as_deref() == Some(uuid);
        for lost in facts.iter().filter(of_it) {
            let Some(gpu) = self.gpu(&lost.uuid).filter(|gpu| !gpu.is_lost()) else {
                continue;
            };
            gpu.condition = GpuCondition::Lost { since_ms };
            let why = "the GPU fell off the bus";
            self.tell(Some(&lost.uuid), EventKind::GpuLost, since_ms, why);
        }
        self.open_again(pace);
    }

    fn open_again(&mut self, pace: &WatchPace) {
        if !self.reopen {
            self.reopen = true;
            self.pause.begin(2 * pace.deadline);
        }
    }

    fn take_devices_in(&mut self, devices: Vec<Arc<GpuFacts>>) {
        self.known.missing = devices
            .is_empty()
            .then(|| "the GPU driver shows no GPU that this user may read".into());
        // Slices may be taken apart; a GPU that is lost stays known.
        let is_there = |uuid: &str| devices.iter().any(|facts| facts.uuid == uuid);
        self.known
            .gpus
            .retain(|gpu| gpu.is_lost() || is_there(&gpu.facts.uuid));
        // Until a lost GPU is back, the driver is opened again from time to time.
        let mut gpus = self.known.gpus.iter();
        self.reopen = gpus.any(|gpu| !is_there(&gpu.facts.uuid));
        if self.reopen {
            self.pause.begin(self.pause.length);
        }
        for facts in devices {
            if let Some(gpu) = self.gpu(&facts.uuid) {
                gpu.facts = facts;
                if let GpuCondition::Lost { since_ms } = gpu.condition {
                    gpu.condition = GpuCondition::Stale { since_ms };
                }
            } else {
                self.known.gpus.push(GpuState {
                    facts,
                    last: None,
                    at_ms: None,
                    condition: GpuCondition::Waiting,
                });
            }
        }
    }

    /// A GPU that may be another job's is nobody's trouble; any other is reported once.
    fn take_refused_in(&mut self, refused: Vec<(u32, GpuError)>) {
        let (forbidden, ill): (Vec<_>, Vec<_>) = refused
            .into_iter()
            .partition(|(_, why)| *why == GpuError::NoPermission);
        let words: Vec<String> = ill
            .iter()
            .map(|(index, why)| format!("GPU {index} cannot be read: {why}"))
            .collect();
        let known = std::mem::take(&mut self.known.refused);
        for word in words.iter().filter(|word| !known.contains(word)) {
            self.tell(None, EventKind::Note, now_ms(), word);
        }
        if self.known.missing.is_some() && !words.is_empty() {
            self.known.missing = Some(words.join("; "));
        }
        (self.known.refused, self.known.forbidden) = (words, forbidden.len());
    }

    fn take_in(
        &mut self,
        uuid: &str,
        at_ms: u64,
        read: Result<GpuRead, GpuError>,
        pace: &WatchPace,
    ) {
        match read {
            Ok(read) => self.take_reading_in(uuid, at_ms, read),
            Err(GpuError::Lost) => self.set_lost(uuid, at_ms, pace),
            Err(error) => {
                // The driver was loaded again, or a slice taken apart.
                if matches!(error, GpuError::NoDriver | GpuError::NotFound) {
                    self.open_again(pace);
                }
                self.set_stale(uuid, at_ms, &error.to_string());
            }
        }
    }

    fn take_reading_in(&mut self, uuid: &str, at_ms: u64, read: GpuRead) {
        let Some(gpu) = self.gpu(uuid) else { return };
        (gpu.last, gpu.at_ms) = (Some(Arc::new(read)), Some(at_ms));
        let former = std::mem::replace(&mut gpu.condition, GpuCondition::Fresh);
        if let GpuCondition::Stale { since_ms } | GpuCondition::Lost { since_ms } = former {
            let gone = Duration::from_millis(at_ms.saturating_sub(since_ms));
            let detail = format!("it answers again, after {:.1} s", gone.as_secs_f64());
            self.tell(Some(uuid), EventKind::GpuBack, at_ms, &detail);
        }
        if !self.reopen && self.known.gpus.iter().all(|gpu| gpu.fresh().is_some()) {
            self.pause = Pause::default();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_doubles_up_to_a_quarter_of_an_hour() {
        let mut pause = Pause::default();
        assert!(pause.is_over());
        let lengths: Vec<u64> = (0..12)
            .map(|_| {
                pause.begin(Duration::from_secs(4));
                pause.length.as_secs()
            })
            .collect();
        assert_eq!(
            lengths,
            [4, 8, 16, 32, 64, 128, 256, 512, 900, 900, 900, 900]
        );
        assert!(!pause.is_over());
    }

    #[test]
    fn events_that_nobody_takes_are_bounded() {
        let mut state = State::default();
        for at in 0..1000 {
            state.tell(None, EventKind::Note, at, "");
        }
        assert_eq!(
            (state.events.len(), state.events[0].1.at_ms),
            (EVENTS_KEPT, 0)
        );
    }
}
