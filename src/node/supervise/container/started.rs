//! Whether the command was seen in its container.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::observe::monitor::runs_in_container;

/// How often is looked while a container usually starts: the shortest Python program lives longer than two of these pauses.
const QUICK: Duration = Duration::from_millis(5);
/// How often later: an image may take minutes to be unpacked.
const SLOW: Duration = Duration::from_millis(100);
const QUICK_FOR: Duration = Duration::from_secs(3);

/// Looks for the command behind its runtime, on a thread of its own, until it is seen or nobody wants to know any more.
#[derive(Debug)]
pub(super) struct Started {
    seen: Arc<AtomicBool>,
}

impl Started {
    /// `runtime` is the process that was started: the runtime, which starts the command.
    pub(super) fn watch(runtime: u32) -> Self {
        let seen = Arc::new(AtomicBool::new(false));
        let told = Arc::downgrade(&seen);
        let begun = Instant::now();
        std::thread::spawn(move || {
            while let Some(seen) = told.upgrade() {
                match runs_in_container(runtime) {
                    Some(true) => seen.store(true, Ordering::Relaxed),
                    Some(false) => {
                        drop(seen);
                        std::thread::sleep(if begun.elapsed() < QUICK_FOR {
                            QUICK
                        } else {
                            SLOW
                        });
                        continue;
                    }
                    // It is over.
                    None => {}
                }
                return;
            }
        });
        Self { seen }
    }

    pub(super) fn was_seen(&self) -> bool {
        self.seen.load(Ordering::Relaxed)
    }
}
