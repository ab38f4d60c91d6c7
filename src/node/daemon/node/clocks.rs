//! What the clocks tell between two ticks: a machine that slept, a daemon that was held up, a clock that was set.

use std::time::{Duration, Instant};

use super::Node;
use crate::node::daemon::watched::Stage;
use crate::observe::monitor::identity;
use crate::record::{EventKind, Gap};

/// A wall clock that moved so much against the steady one was set.
const CLOCK_JUMP_MS: u64 = 500;
/// A pause between two ticks that is longer than the interval by this is a hole in the series.
const HELD_UP: Duration = Duration::from_secs(5);

impl Node {
    pub(super) fn watch_clocks(&mut self, now: u64, steady: Instant) {
        let since_boot = identity::age(0).unwrap_or_default();
        let Some((then, steady_then, boot_then)) = self.clocks.replace((now, steady, since_boot))
        else {
            return;
        };
        let awake = steady.duration_since(steady_then);
        let asleep = since_boot.saturating_sub(boot_then).saturating_sub(awake);
        let why = match (asleep > HELD_UP, awake > self.options.interval + HELD_UP) {
            (true, _) => Some("the machine was suspended"),
            (false, true) => Some("dlrund was held up"),
            (false, false) => None,
        };
        if let Some(why) = why {
            let passed_ms = u64::try_from((awake + asleep).as_millis()).unwrap_or(u64::MAX);
            for watched in self
                .runs
                .values_mut()
                .filter(|watched| watched.stage == Stage::Live)
            {
                let to_ms = watched.now_ms();
                watched.add_gap(Gap {
                    from_ms: to_ms.saturating_sub(passed_ms),
                    to_ms,
                    why: why.to_owned(),
                });
            }
        }
        if let Some(expected) = jumped(then, awake + asleep, now) {
            let detail = format!("the wall clock jumped from {expected} to {now} ms");
            for watched in self
                .runs
                .values_mut()
                .filter(|watched| !watched.memory.notices_steps)
            {
                watched.note(watched.now_ms(), EventKind::ClockJump, detail.clone());
            }
        }
    }
}

/// Where the wall clock would stand had nobody set it; `None` where it stands there.
fn jumped(then_ms: u64, elapsed: Duration, now_ms: u64) -> Option<u64> {
    let elapsed_ms = u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX);
    let expected = then_ms.saturating_add(elapsed_ms);
    (now_ms.abs_diff(expected) > CLOCK_JUMP_MS).then_some(expected)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_was_set_is_told_from_one_that_is_late() {
        let second = Duration::from_secs(1);
        assert_eq!(jumped(5_000, second, 6_000), None);
        assert_eq!(jumped(5_000, 30 * second, 35_400), None);
        assert_eq!(jumped(5_000, second, 3_606_000), Some(6_000));
        assert_eq!(jumped(3_600_000, second, 5_000), Some(3_601_000));
    }
}
