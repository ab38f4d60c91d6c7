//! The clocks of this machine: the one place that asks what time it is.
//!
//! A wall clock can be set while a job runs. What measures therefore reads the clock that runs since boot, suspended times included,
//! and dates it once, by the time of the boot as the wall clock had it then. Processes of one boot that share this date agree.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use nix::time::{ClockId, clock_gettime};

/// A wall clock that moved by so much against the other one was set, in milliseconds.
const STEP_MS: u64 = 500;
/// The two clocks are not read at once; further apart, in milliseconds, they are read again.
const APART_MS: u64 = 20;

/// The date that [`now_ms`] of this process counts from; the largest number: none.
static DATED: AtomicU64 = AtomicU64::new(u64::MAX);

/// Now, in Unix milliseconds UTC: by the wall clock, in a process that called [`count_from`] by the clock that nobody sets.
#[must_use]
pub fn now_ms() -> u64 {
    match DATED.load(Ordering::Relaxed) {
        u64::MAX => wall_ms(),
        booted_at_ms => now_from(booted_at_ms),
    }
}

/// Now, where the machine booted at `booted_at_ms`, in Unix milliseconds UTC.
#[must_use]
pub fn now_from(booted_at_ms: u64) -> u64 {
    booted_at_ms.saturating_add(since_boot_ms())
}

/// When this machine booted by the wall clock as it is set now, in Unix milliseconds UTC.
#[must_use]
pub fn booted_at_ms() -> u64 {
    let mut tries = 0;
    loop {
        let (before, wall) = (since_boot_ms(), wall_ms());
        tries += 1;
        if since_boot_ms() - before <= APART_MS || tries == 5 {
            return wall.saturating_sub(before);
        }
    }
}

/// From now on [`now_ms`] of this process follows no step of the wall clock.
pub fn count_from(booted_at_ms: u64) {
    DATED.store(booted_at_ms, Ordering::Relaxed);
}

/// Notices that somebody sets the wall clock.
#[derive(Debug)]
pub struct Steps {
    booted_at_ms: u64,
}

impl Steps {
    /// Notices what happened since the boot was dated so.
    #[must_use]
    pub fn since(booted_at_ms: u64) -> Self {
        Self { booted_at_ms }
    }

    /// By how much the wall clock was set forward (backward: negative) since the last step that was noticed, in milliseconds.
    pub fn look(&mut self) -> Option<i64> {
        self.step_to(booted_at_ms())
    }

    fn step_to(&mut self, booted_at_ms: u64) -> Option<i64> {
        let step = booted_at_ms
            .cast_signed()
            .saturating_sub(self.booted_at_ms.cast_signed());
        (step.unsigned_abs() > STEP_MS).then(|| {
            self.booted_at_ms = booted_at_ms;
            step
        })
    }
}

/// The text of an event that says so.
#[must_use]
pub fn step_text(step_ms: i64) -> String {
    let seconds = std::time::Duration::from_millis(step_ms.unsigned_abs()).as_secs_f64();
    let way = if step_ms < 0 { "back" } else { "forward" };
    format!(
        "the wall clock was set {way} by {seconds:.1} s; the times of this run do not follow it"
    )
}

fn wall_ms() -> u64 {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

fn since_boot_ms() -> u64 {
    let now = clock_gettime(ClockId::CLOCK_BOOTTIME)
        .map(std::time::Duration::from)
        .unwrap_or_default();
    u64::try_from(now.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clock_that_was_set_is_told_from_one_that_is_read_late() {
        let mut steps = Steps::since(10_000);
        assert_eq!(steps.step_to(10_400), None);
        assert_eq!(steps.step_to(3_610_000), Some(3_600_000));
        assert_eq!(steps.step_to(3_610_000), None);
        assert_eq!(steps.step_to(9_000), Some(-3_601_000));
        // Small steps add up.
        assert_eq!(
            (steps.step_to(9_300), steps.step_to(9_600)),
            (None, Some(600))
        );
        assert_eq!(Steps::since(booted_at_ms()).look(), None);
    }

    #[test]
    fn both_clocks_give_the_same_date() {
        assert!(now_from(booted_at_ms()).abs_diff(wall_ms()) < 10_000);
    }
}
