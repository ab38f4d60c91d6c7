//! XID errors, which NVML reports to those who wait for them.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use nvml_wrapper::enums::event::XidError;
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::{EventSet, Nvml as Library};
use tracing::debug;

use super::device::{Device, Handle};
use super::raw;
use crate::foundation::clock::now_ms;
use crate::observe::monitor::gpu::GpuXid;

/// For how long one call waits for events, and so how long the end of the thread may take.
const WAIT: Duration = Duration::from_secs(1);
/// Errors kept until somebody takes them; a broken GPU may report thousands.
const KEPT: usize = 256;
/// How NVML says an error whose number it does not know.
const UNKNOWN_XID: u64 = 999;

#[derive(Debug, Default)]
struct Seen {
    /// Per GPU whose errors are reported, how many there were.
    counts: BTreeMap<Arc<str>, u64>,
    waiting: VecDeque<GpuXid>,
}

/// A thread that waits for errors of GPUs.
#[derive(Debug)]
pub(super) struct XidWatch {
    stop: Arc<AtomicBool>,
    seen: Arc<Mutex<Seen>>,
    thread: Option<JoinHandle<()>>,
}

impl XidWatch {
    /// Starts to wait for the errors of these GPUs; only what happens from now on is seen.
    pub(super) fn start<'a>(
        library: &Arc<Library>,
        devices: impl Iterator<Item = &'a Device>,
    ) -> Self {
        let (stop, seen) = (
            Arc::new(AtomicBool::new(false)),
            Arc::new(Mutex::new(Seen::default())),
        );
        let devices: Vec<(Handle, Arc<str>)> = devices
            .map(|device| (device.handle, Arc::clone(&device.uuid)))
            .collect();
        let (library, ends, into) = (Arc::clone(library), Arc::clone(&stop), Arc::clone(&seen));
        let work = move || wait_for_errors(&library, &devices, &ends, &into);
        let thread = Builder::new().name("gpu-events".into()).spawn(work).ok();
        Self { stop, seen, thread }
    }

    /// How many errors the GPU reported; `None` where it does not tell.
    pub(super) fn count(&self, uuid: &str) -> Option<u64> {
        lock(&self.seen).counts.get(uuid).copied()
    }

    pub(super) fn take(&self) -> Vec<GpuXid> {
        lock(&self.seen).waiting.drain(..).collect()
    }

    /// Lets the thread end, and waits for that as long as its call may take, but not for one that hangs.
    pub(super) fn stop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let Some(thread) = self.thread.take() else {
            return;
        };
        let patience = Instant::now() + 2 * WAIT;
        while !thread.is_finished() && Instant::now() < patience {
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

fn lock(seen: &Mutex<Seen>) -> MutexGuard<'_, Seen> {
    seen.lock().unwrap_or_else(PoisonError::into_inner)
}

fn wait_for_errors(
    library: &Library,
    devices: &[(Handle, Arc<str>)],
    stop: &AtomicBool,
    seen: &Mutex<Seen>,
) {
    let Ok(set) = library.create_event_set() else {
        return;
    };
    for (handle, uuid) in devices {
        // SAFETY: the set is alive.
        match raw::register_xids(library.lib(), handle.0, unsafe { set.handle() }) {
            Ok(()) => drop(lock(seen).counts.insert(Arc::clone(uuid), 0)),
            Err(error) => debug!(%uuid, %error, "XID errors of this GPU are not reported"),
        }
    }
    if lock(seen).counts.is_empty() {
        return;
    }
    while !stop.load(Ordering::Relaxed) {
        if let Err(error) = wait_once(&set, devices, seen) {
            debug!(%error, "no events of GPUs for a while");
            std::thread::sleep(WAIT);
        }
    }
}

fn wait_once(
    set: &EventSet<'_>,
    devices: &[(Handle, Arc<str>)],
    seen: &Mutex<Seen>,
) -> Result<(), NvmlError> {
    let event = match set.wait(u32::try_from(WAIT.as_millis()).unwrap_or(1000)) {
        Ok(event) => event,
        Err(NvmlError::Timeout) => return Ok(()),
        Err(error) => return Err(error),
    };
    let xid = match event.event_data {
        Some(XidError::Value(xid)) => xid,
        Some(XidError::Unknown) => UNKNOWN_XID,
        None => return Ok(()),
    };
    let handle = Handle::new(&event.device);
    if let Some((_, uuid)) = devices.iter().find(|(known, _)| *known == handle) {
        let mut seen = lock(seen);
        *seen.counts.entry(Arc::clone(uuid)).or_default() += 1;
        if seen.waiting.len() < KEPT {
            seen.waiting.push_back(GpuXid {
                at_ms: now_ms(),
                uuid: Arc::clone(uuid),
                xid,
            });
        }
    }
    Ok(())
}
