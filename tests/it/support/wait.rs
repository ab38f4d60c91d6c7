//! Waiting for a condition instead of for a time.

use std::time::{Duration, Instant};

/// How long anything may take before a test gives up. Generous: only a test that fails waits for it. A watcher that was not answered
/// tries again after a minute at most.
pub(crate) const PATIENCE: Duration = Duration::from_secs(150);

/// Asks `condition` until it holds.
///
/// # Panics
/// When it does not hold within [`PATIENCE`].
#[track_caller]
pub(crate) fn wait_for(what: &str, mut condition: impl FnMut() -> bool) {
    wait_for_some(what, || condition().then_some(()));
}

/// Asks until there is an answer, and returns it.
///
/// # Panics
/// When there is none within [`PATIENCE`].
#[track_caller]
pub(crate) fn wait_for_some<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(
            begun.elapsed() < PATIENCE,
            "waited {PATIENCE:?} in vain for: {what}"
        );
        std::thread::sleep(Duration::from_millis(10));
    }
}
