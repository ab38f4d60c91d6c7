//! Reads all GPUs at a steady pace in threads of its own, so that a driver that hangs stops nobody.
//!
//! One worker reads the GPUs one after another. When a call takes longer than the deadline, its GPU is stale, that worker
//! is left to its call, and another continues with the other GPUs; a GPU whose call did not come back is not called again.
//! So there are never more threads than GPUs that hang, and one.

use std::collections::VecDeque;
use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::Builder;
use std::time::{Duration, Instant};

use super::{GpuError, GpuRead, GpuReader, GpuXid, Nvml};
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
    /// A GPU whose reading takes longer is stale.
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
    /// The number of the worker that is at work; others came back late and end.
    worker: u64,
    reader: Option<Arc<dyn GpuReader>>,
    call: Option<Call>,
    missing: Option<String>,
    refused: Vec<String>,
    forbidden: usize,
    gpus: Vec<Slot>,
    /// The driver is to be initialised again, not before its pause is over.
    reopen: bool,
    pause: Pause,
    events: VecDeque<(Option<Arc<str>>, Event)>,
}

/// A call that has not come back; `uuid` is `None` for one that opens the driver.
struct Call {
    uuid: Option<Arc<str>>,
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

struct Slot {
    uuid: Arc<str>,
    state: GpuState,
    pause: Pause,
    /// A call for it has not come back.
    hangs: bool,
    /// It is known to the driver as it was last opened.
    present: bool,
}

impl fmt::Debug for GpuWatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GpuWatch")
            .field("pace", &self.shared.pace)
            .finish_non_exhaustive()
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
        let state = State {
            missing: Some("the GPU driver has not answered yet".into()),
            ..State::default()
        };
        let shared = Arc::new(Shared {
            pace: WatchPace { interval, ..pace },
            open: Box::new(open),
            state: Mutex::new(State {
                reopen: true,
                ..state
            }),
            wake: Condvar::new(),
        });
        hire(&shared, &mut shared.lock());
        Self { shared }
    }

    /// What was last read. Never waits for a driver.
    #[must_use]
    pub fn latest(&self) -> GpuReport {
        let mut state = self.shared.lock();
        self.give_up_on_late_calls(&mut state);
        GpuReport {
            gpus: state.gpus.iter().map(|slot| slot.state.clone()).collect(),
            missing: state.missing.clone(),
            refused: state.refused.clone(),
            forbidden: state.forbidden,
        }
    }

    /// What happened since the last call, and to which GPU. Never waits for a driver.
    #[must_use]
    pub fn take_events(&self) -> Vec<(Option<Arc<str>>, Event)> {
        let mut state = self.shared.lock();
        self.give_up_on_late_calls(&mut state);
        state.events.drain(..).collect()
    }

    fn give_up_on_late_calls(&self, state: &mut State) {
        let deadline = self.shared.pace.deadline;
        let is_late = |call: &mut Call| {
            call.begun.elapsed()
                > if call.uuid.is_some() {
                    deadline
                } else {
                    OPENING * deadline
                }
        };
        let Some(call) = state.call.take_if(is_late) else {
            return;
        };
        let Some(uuid) = call.uuid.clone() else {
            // Without a driver there is nothing that another worker could do.
            state.missing = Some("the GPU driver gives no answer".into());
            state.all_stale(call.at_ms, "the driver gives no answer");
            state.call = Some(call);
            return;
        };
        let late = format!("no answer for {:.1} s", call.begun.elapsed().as_secs_f64());
        if let Some(slot) = state.slot(&uuid) {
            slot.hangs = true;
            slot.pause.begin(2 * deadline);
        }
        state.set_stale(&uuid, call.at_ms, &late);
        hire(&self.shared, state);
    }
}

impl Drop for GpuWatch {
    /// Does not wait for the threads: one of them may hang.
    fn drop(&mut self) {
        self.shared.lock().stop = true;
        self.shared.wake.notify_all();
    }
}

/// Puts a new worker in the place of the former one.
fn hire(shared: &Arc<Shared>, state: &mut State) {
    state.worker += 1;
    let (worker, theirs) = (state.worker, Arc::clone(shared));
    let work = move || theirs.work(worker);
    if let Err(error) = Builder::new().name("gpu-watch".into()).spawn(work) {
        state.missing = Some(format!("no thread to read GPUs in: {error}"));
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The life of a worker.
    fn work(&self, worker: u64) {
        let mut next = Instant::now();
        while self.round(worker).is_some() {
            // Late ticks are left out, not made up for.
            let now = Instant::now();
            while next <= now {
                next += self.pace.interval;
            }
            if self.sleep(worker, next).is_none() {
                break;
            }
        }
        // Closing the driver may take long: it is for this thread, not for who drops the watch.
        let reader = {
            let mut state = self.lock();
            if state.stop && state.worker == worker {
                state.reader.take()
            } else {
                None
            }
        };
        drop(reader);
    }

    /// Reads what is due. `None`: this worker is not wanted any more.
    fn round(&self, worker: u64) -> Option<()> {
        let Some(reader) = self.reader(worker) else {
            return self.wanted(worker);
        };
        let due: Vec<Arc<str>> = self.lock().due();
        for uuid in due {
            self.begin(worker, Some(Arc::clone(&uuid)))?;
            let read = reader.read(&uuid);
            let at_ms = now_ms();
            let mut state = self.lock();
            if state.worker != worker {
                if let Some(slot) = state.slot(&uuid) {
                    slot.hangs = false;
                }
                return None;
            }
            state.call = None;
            state.take_in(&uuid, at_ms, read, &self.pace);
        }
        let xids = reader.take_xids();
        let mut state = self.lock();
        xids.into_iter()
            .for_each(|xid| state.take_xid_in(&xid, &self.pace));
        drop(state);
        self.wanted(worker)
    }

    fn wanted(&self, worker: u64) -> Option<()> {
        let state = self.lock();
        (state.worker == worker && !state.stop).then_some(())
    }

    /// The driver, opened where it is not; `None` where there is nothing to read now.
    fn reader(&self, worker: u64) -> Option<Arc<dyn GpuReader>> {
        let former = {
            let mut state = self.lock();
            if !(state.reopen && state.pause.is_over()) {
                return state.reader.clone();
            }
            state.reader.take()
        };
        self.begin(worker, None)?;
        // The driver begins again only when nobody uses it any more.
        drop(former);
        let opened = (self.open)().map(Arc::<dyn GpuReader>::from);
        let opened = opened.map(|reader| (reader.devices(), reader.refused(), reader));
        let mut state = self.lock();
        if state.worker != worker || state.stop {
            return None;
        }
        state.call = None;
        match opened {
            Ok((devices, refused, reader)) => {
                state.take_devices_in(devices);
                state.take_refused_in(refused);
                state.reader = Some(reader);
            }
            Err(error) => {
                state.missing = Some(error.to_string());
                state.pause.begin(2 * self.pace.deadline);
                state.all_stale(now_ms(), &error.to_string());
            }
        }
        state.reader.clone()
    }

    fn begin(&self, worker: u64, uuid: Option<Arc<str>>) -> Option<()> {
        let mut state = self.lock();
        if state.worker != worker || state.stop {
            return None;
        }
        state.call = Some(Call {
            uuid,
            begun: Instant::now(),
            at_ms: now_ms(),
        });
        Some(())
    }

    fn sleep(&self, worker: u64, until: Instant) -> Option<()> {
        let mut state = self.lock();
        loop {
            if state.worker != worker || state.stop {
                return None;
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Some(());
            }
            state = self
                .wake
                .wait_timeout(state, left)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
    }
}

impl State {
    fn slot(&mut self, uuid: &str) -> Option<&mut Slot> {
        self.gpus.iter_mut().find(|slot| *slot.uuid == *uuid)
    }

    /// GPUs that may be called now.
    fn due(&self) -> Vec<Arc<str>> {
        let due = |slot: &&Slot| slot.present && !slot.hangs && slot.pause.is_over();
        self.gpus
            .iter()
            .filter(due)
            .map(|slot| Arc::clone(&slot.uuid))
            .collect()
    }

    fn tell(&mut self, uuid: Option<&str>, kind: EventKind, at_ms: u64, detail: &str) {
        if self.events.len() < EVENTS_KEPT {
            self.events.push_back((
                uuid.map(Arc::from),
                Event {
                    at_ms,
                    kind,
                    detail: detail.to_owned(),
                },
            ));
        }
    }

    fn set_stale(&mut self, uuid: &str, since_ms: u64, why: &str) {
        let Some(slot) = self.slot(uuid) else { return };
        if matches!(
            slot.state.condition,
            GpuCondition::Waiting | GpuCondition::Fresh
        ) {
            slot.state.condition = GpuCondition::Stale { since_ms };
            self.tell(Some(uuid), EventKind::GpuStale, since_ms, why);
        }
    }

    fn all_stale(&mut self, since_ms: u64, why: &str) {
        let uuids: Vec<Arc<str>> = self
            .gpus
            .iter()
            .map(|slot| Arc::clone(&slot.uuid))
            .collect();
        uuids
            .iter()
            .for_each(|uuid| self.set_stale(uuid, since_ms, why));
    }

    /// A GPU is lost until the driver was opened again; its slices are lost with it.
    fn set_lost(&mut self, uuid: &str, at_ms: u64, pace: &WatchPace) {
        let of_it = |slot: &&mut Slot| {
            *slot.uuid == *uuid || slot.state.facts.parent.as_deref() == Some(uuid)
        };
        let mut lost = Vec::new();
        for slot in self.gpus.iter_mut().filter(of_it) {
            slot.present = false;
            if !matches!(slot.state.condition, GpuCondition::Lost { .. }) {
                slot.state.condition = GpuCondition::Lost { since_ms: at_ms };
                lost.push(Arc::clone(&slot.uuid));
            }
        }
        lost.iter().for_each(|uuid| {
            self.tell(
                Some(uuid),
                EventKind::GpuLost,
                at_ms,
                "the GPU fell off the bus",
            )
        });
        self.open_again(pace);
    }

    fn open_again(&mut self, pace: &WatchPace) {
        if !self.reopen {
            self.reopen = true;
            self.pause.begin(2 * pace.deadline);
        }
    }

    fn take_devices_in(&mut self, devices: Vec<Arc<GpuFacts>>) {
        (self.reopen, self.missing) = (false, None);
        if devices.is_empty() {
            self.missing = Some("the GPU driver shows no GPU that this user may read".into());
        }
        for slot in &mut self.gpus {
            slot.present = false;
        }
        for facts in devices {
            if let Some(slot) = self.slot(&facts.uuid) {
                (slot.present, slot.state.facts) = (true, facts);
            } else {
                let uuid = facts.uuid.as_str().into();
                let state = GpuState {
                    facts,
                    last: None,
                    at_ms: None,
                    condition: GpuCondition::Waiting,
                };
                self.gpus.push(Slot {
                    uuid,
                    state,
                    pause: Pause::default(),
                    hangs: false,
                    present: true,
                });
            }
        }
        // Slices may be taken apart; a GPU that is lost stays known.
        self.gpus.retain(|slot| {
            slot.present || matches!(slot.state.condition, GpuCondition::Lost { .. })
        });
        // Until a lost GPU is back, the driver is opened again from time to time.
        self.reopen = self.gpus.iter().any(|slot| !slot.present);
        if self.reopen {
            self.pause.begin(self.pause.length);
        }
    }

    /// A GPU that may be another job's is nobody's trouble; any other is told once.
    fn take_refused_in(&mut self, refused: Vec<(u32, GpuError)>) {
        let (forbidden, ill): (Vec<_>, Vec<_>) = refused
            .into_iter()
            .partition(|(_, why)| *why == GpuError::NoPermission);
        let words: Vec<String> = ill
            .iter()
            .map(|(index, why)| format!("GPU {index} cannot be read: {why}"))
            .collect();
        let known = std::mem::take(&mut self.refused);
        for word in words.iter().filter(|word| !known.contains(word)) {
            self.tell(None, EventKind::Note, now_ms(), word);
        }
        if self.missing.is_some() && !words.is_empty() {
            self.missing = Some(words.join("; "));
        }
        (self.refused, self.forbidden) = (words, forbidden.len());
    }

    fn take_in(
        &mut self,
        uuid: &str,
        at_ms: u64,
        read: Result<GpuRead, GpuError>,
        pace: &WatchPace,
    ) {
        let error = match read {
            Ok(read) => return self.take_reading_in(uuid, at_ms, read),
            Err(error) => error,
        };
        match error {
            GpuError::Lost => return self.set_lost(uuid, at_ms, pace),
            // The driver was loaded again, or a slice taken apart.
            GpuError::NoDriver | GpuError::NotFound => self.open_again(pace),
            _ => {}
        }
        if let Some(slot) = self.slot(uuid) {
            slot.pause.begin(2 * pace.deadline);
        }
        self.set_stale(uuid, at_ms, &error.to_string());
    }

    fn take_reading_in(&mut self, uuid: &str, at_ms: u64, read: GpuRead) {
        let Some(slot) = self.slot(uuid) else { return };
        slot.pause = Pause::default();
        (slot.state.last, slot.state.at_ms) = (Some(Arc::new(read)), Some(at_ms));
        let former = std::mem::replace(&mut slot.state.condition, GpuCondition::Fresh);
        if let GpuCondition::Stale { since_ms } | GpuCondition::Lost { since_ms } = former {
            let gone = Duration::from_millis(at_ms.saturating_sub(since_ms));
            let detail = format!("it answers again, after {:.1} s", gone.as_secs_f64());
            self.tell(Some(uuid), EventKind::GpuBack, at_ms, &detail);
        }
        if !self.reopen
            && self
                .gpus
                .iter()
                .all(|slot| slot.state.condition == GpuCondition::Fresh)
        {
            self.pause = Pause::default();
        }
    }

    fn take_xid_in(&mut self, xid: &GpuXid, pace: &WatchPace) {
        self.tell(
            Some(&xid.uuid),
            EventKind::Xid,
            xid.at_ms,
            &format!("XID {}", xid.xid),
        );
        if xid.xid == XID_LOST {
            self.set_lost(&xid.uuid, xid.at_ms, pace);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

    use super::*;
    use crate::record::GpuReading;

    /// Two GPUs; calls for the first come back when `open` says so.
    #[derive(Debug, Default)]
    struct Stuck {
        calls: AtomicUsize,
        open: AtomicBool,
    }

    #[derive(Debug)]
    struct Shown(Arc<Stuck>);

    impl GpuReader for Shown {
        fn devices(&self) -> Vec<Arc<GpuFacts>> {
            let facts = |uuid: &str| {
                Arc::new(GpuFacts {
                    uuid: uuid.into(),
                    ..GpuFacts::default()
                })
            };
            ["GPU-0", "GPU-1"].map(facts).to_vec()
        }

        fn read(&self, uuid: &str) -> Result<GpuRead, GpuError> {
            if uuid == "GPU-0" {
                self.0.calls.fetch_add(1, Ordering::SeqCst);
                while !self.0.open.load(Ordering::SeqCst) {
                    std::thread::sleep(Duration::from_millis(1));
                }
            }
            Ok(GpuRead {
                reading: GpuReading::of(uuid.into()),
                processes: None,
            })
        }

        fn take_xids(&self) -> Vec<GpuXid> {
            Vec::new()
        }
    }

    #[track_caller]
    fn wait(watch: &GpuWatch, at: usize, holds: impl Fn(&GpuState) -> bool) -> GpuState {
        let begun = Instant::now();
        loop {
            let found = watch
                .latest()
                .gpus
                .get(at)
                .filter(|gpu| holds(gpu))
                .cloned();
            if let Some(found) = found {
                return found;
            }
            assert!(
                begun.elapsed() < Duration::from_secs(60),
                "in vain: {:?}",
                watch.latest()
            );
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    #[test]
    fn a_gpu_whose_call_has_not_come_back_is_not_called_again() {
        let stuck = Arc::new(Stuck::default());
        let shown = Arc::clone(&stuck);
        let pace = WatchPace {
            interval: Duration::ZERO,
            deadline: Duration::from_millis(100),
        };
        let watch = GpuWatch::start(pace, move || Ok(Box::new(Shown(Arc::clone(&shown)))));
        for _ in 0..6 {
            let before = watch.latest().gpus.get(1).and_then(|gpu| gpu.at_ms);
            wait(&watch, 1, |gpu| {
                gpu.condition == GpuCondition::Fresh && gpu.at_ms > before
            });
        }
        assert_eq!(
            stuck.calls.load(Ordering::SeqCst),
            1,
            "its pause of 200 ms is over"
        );
        let stale = wait(&watch, 0, |_| true);
        assert!(
            matches!(stale.condition, GpuCondition::Stale { .. }) && stale.last.is_none(),
            "{stale:?}"
        );
        stuck.open.store(true, Ordering::SeqCst);
        wait(&watch, 0, |gpu| gpu.condition == GpuCondition::Fresh);
        let of_it = watch
            .take_events()
            .into_iter()
            .filter(|(uuid, _)| uuid.as_deref() == Some("GPU-0"));
        let kinds: Vec<EventKind> = of_it.map(|(_, event)| event.kind).collect();
        assert_eq!(kinds, [EventKind::GpuStale, EventKind::GpuBack]);
    }

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
