//! The daemon's rhythm, from a timer of the kernel's.
//!
//! A timer of tokio's that is a second away wakes its thread three times on the way (its wheel has slots of 64 ms and 4 s,
//! and it wakes itself for each new end), and is rounded up to the next millisecond.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use nix::sys::time::TimeSpec;
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};
use tokio::io::unix::AsyncFd;

/// Ticks at fixed times, the first at once; those that are missed are left out.
pub(super) struct Ticks {
    timer: AsyncFd<OwnedFd>,
    interval: Duration,
    /// The time of the last tick, however late it was noticed.
    due: Instant,
}

impl Ticks {
    /// Needs the event loop.
    pub(super) fn every(interval: Duration) -> io::Result<Self> {
        let timer = TimerFd::new(
            ClockId::CLOCK_MONOTONIC,
            TimerFlags::TFD_NONBLOCK | TimerFlags::TFD_CLOEXEC,
        )?;
        // No time at all would switch it off.
        let begin = TimeSpec::from_duration(Duration::from_nanos(1));
        let rhythm = Expiration::IntervalDelayed(begin, TimeSpec::from_duration(interval));
        timer.set(rhythm, TimerSetTimeFlags::empty())?;
        let begun = Instant::now();
        let due = begun.checked_sub(interval).unwrap_or(begun);
        // SAFETY: an `OwnedFd` keeps its one descriptor open for as long as it lives.
        let timer = unsafe { AsyncFd::register(OwnedFd::from(timer)) }?;
        Ok(Self {
            timer,
            interval,
            due,
        })
    }

    /// Waits for the next tick; returns how late it is noticed. Nothing is lost where the wait is given up.
    pub(super) async fn next(&mut self) -> Duration {
        loop {
            // It fails only where the event loop is gone, and then nobody waits.
            let Ok(mut ready) = self.timer.readable().await else {
                continue;
            };
            let mut count = [0; size_of::<u64>()];
            let read = ready.try_io(|timer| Ok(nix::unistd::read(timer.as_fd(), &mut count)?));
            if let Ok(Ok(_)) = read {
                let passed = u32::try_from(u64::from_ne_bytes(count)).unwrap_or(u32::MAX);
                self.due += self.interval.saturating_mul(passed);
                return self.due.elapsed();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missed_ticks_are_left_out_and_the_rhythm_stays() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime");
        runtime.block_on(async {
            let interval = Duration::from_millis(40);
            let mut ticks = Ticks::every(interval).expect("a timer");
            let begun = ticks.due + interval;
            ticks.next().await;
            while begun.elapsed() < interval * 3 + interval / 2 {}
            assert!(ticks.next().await > Duration::ZERO);
            ticks.next().await;
            // The timer was set a little before the clock was asked.
            let off = ticks.due.duration_since(begun).as_millis() % interval.as_millis();
            assert_eq!(off, 0);
            assert!(
                ticks.due.duration_since(begun) >= interval * 4,
                "{:?}",
                ticks.due.duration_since(begun)
            );
        });
    }
}
