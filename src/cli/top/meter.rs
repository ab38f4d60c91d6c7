//! Rates out of counters, which are kept as read.

use crate::record::{Column, ColumnKind};

/// A value is forgotten when no newer one came for so long. What is costly to read is read once a minute at the least.
const FORGET_MS: u64 = 60_000;

/// A value and when it was read, in Unix milliseconds UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Known {
    at_ms: u64,
    value: u64,
}

/// The last known values of a reading, and by how much its counters grow. Not every column is read at each tick, so each
/// has its own time.
#[derive(Debug, Clone, Copy)]
pub(super) struct Meter<const N: usize> {
    known: [Option<Known>; N],
    rates: [Option<u64>; N],
}

impl<const N: usize> Default for Meter<N> {
    fn default() -> Self {
        Self {
            known: [None; N],
            rates: [None; N],
        }
    }
}

impl<const N: usize> Meter<N> {
    /// Takes a newer reading in.
    pub(super) fn take(&mut self, columns: &[Column; N], at_ms: u64, values: [Option<u64>; N]) {
        for (at, value) in values.into_iter().enumerate() {
            let before = self.known[at];
            let Some(value) = value else {
                if before.is_some_and(|known| at_ms.abs_diff(known.at_ms) > FORGET_MS) {
                    (self.known[at], self.rates[at]) = (None, None);
                }
                continue;
            };
            let now = Known { at_ms, value };
            let is_counter = columns[at].kind == ColumnKind::Counter;
            self.rates[at] = before
                .filter(|_| is_counter)
                .and_then(|before| per_second(before, now));
            self.known[at] = Some(now);
        }
    }

    /// The last known values.
    pub(super) fn values(&self) -> [Option<u64>; N] {
        self.known.map(|known| known.map(|known| known.value))
    }

    /// By how much each counter grows in a second, in its own unit. `None`: it is no counter, was read once only, or began
    /// anew.
    pub(super) fn rates(&self) -> [Option<u64>; N] {
        self.rates
    }
}

/// The rate between two readings of a counter. `None` where it fell: it began anew, and how far it got before is not
/// known. `None`, too, where no time lies between them, or the clock was set back.
fn per_second(before: Known, now: Known) -> Option<u64> {
    let ms = now.at_ms.checked_sub(before.at_ms).filter(|ms| *ms > 0)?;
    let grown = now.value.checked_sub(before.value)?;
    u64::try_from(u128::from(grown) * 1000 / u128::from(ms)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const COLUMNS: [Column; 2] = [
        Column {
            name: "counter",
            kind: ColumnKind::Counter,
            about: "",
        },
        Column {
            name: "gauge",
            kind: ColumnKind::Gauge,
            about: "",
        },
    ];

    fn rate(before: (u64, u64), now: (u64, u64)) -> Option<u64> {
        let known = |(at_ms, value)| Known { at_ms, value };
        per_second(known(before), known(now))
    }

    #[test]
    fn a_rate_is_growth_over_the_time_between_the_readings() {
        assert_eq!(rate((1000, 5), (3000, 4005)), Some(2000));
        assert_eq!(rate((1000, 5), (1250, 5)), Some(0));
        assert_eq!(rate((0, 0), (1, u64::MAX)), None);
    }

    #[test]
    fn a_counter_or_a_clock_that_fell_gives_no_rate() {
        assert_eq!(rate((1000, 5), (2000, 4)), None);
        assert_eq!(rate((1000, 5), (1000, 9)), None);
        assert_eq!(rate((2000, 5), (1000, 9)), None);
    }

    #[test]
    fn a_column_that_is_not_due_keeps_what_it_said_until_it_is_old() {
        let mut meter = Meter::default();
        meter.take(&COLUMNS, 1000, [Some(10), Some(7)]);
        assert_eq!(meter.rates(), [None, None]);
        meter.take(&COLUMNS, 2000, [None, Some(8)]);
        meter.take(&COLUMNS, 3000, [Some(50), None]);
        assert_eq!(
            (meter.values(), meter.rates()),
            ([Some(50), Some(8)], [Some(20), None])
        );
        meter.take(&COLUMNS, 62_001, [None, Some(9)]);
        assert_eq!(
            (meter.values(), meter.rates()),
            ([Some(50), Some(9)], [Some(20), None])
        );
        meter.take(&COLUMNS, 63_001, [None, None]);
        assert_eq!(
            (meter.values(), meter.rates()),
            ([None, Some(9)], [None, None])
        );
    }

    #[test]
    fn a_counter_that_began_anew_has_a_rate_again_later() {
        let mut meter = Meter::default();
        for (at_ms, value, expected) in
            [(1000, 900, None), (2000, 100, None), (3000, 300, Some(200))]
        {
            meter.take(&COLUMNS, at_ms, [Some(value), None]);
            assert_eq!(meter.rates()[0], expected, "at {at_ms}");
        }
    }
}
