//! Rates of a run from the counters of its samples.

use crate::record::{COLUMNS, ColumnKind, Sample};

/// A value is forgotten when no newer one came for this long. What is costly to read is read at least once a minute.
const FORGET_MS: u64 = 60_000;
const COUNT: usize = COLUMNS.len();

/// The last known values of a run and when each was read, and by how much its counters grow. Not every column is read each
/// time.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rates {
    known: [Option<(u64, u64)>; COUNT],
    rates: [Option<u64>; COUNT],
}

impl Default for Rates {
    fn default() -> Self {
        Self {
            known: [None; COUNT],
            rates: [None; COUNT],
        }
    }
}

impl Rates {
    /// Takes in a newer reading of `at_ms`.
    pub(super) fn take(&mut self, at_ms: u64, values: [Option<u64>; COUNT]) {
        for (at, value) in values.into_iter().enumerate() {
            let before = self.known[at];
            if let Some(value) = value {
                let is_counter = COLUMNS[at].kind == ColumnKind::Counter;
                let before = before.filter(|_| is_counter);
                self.rates[at] = before.and_then(|before| per_second(before, (at_ms, value)));
                self.known[at] = Some((at_ms, value));
            } else if before.is_some_and(|(known_ms, _)| at_ms.abs_diff(known_ms) > FORGET_MS) {
                (self.known[at], self.rates[at]) = (None, None);
            }
        }
    }

    /// The last known values.
    pub(super) fn values(&self, at_ms: u64) -> Sample {
        let values = self.known.map(|known| known.map(|(_, value)| value));
        Sample::from_values(at_ms, values)
    }

    /// By how much each counter grows in a second, in its own unit.
    pub(super) fn rates(&self, at_ms: u64) -> Sample {
        Sample::from_values(at_ms, self.rates)
    }
}

/// The rate between two readings of a counter, each its time in milliseconds and its value. `None` where the counter restarted,
/// or the clock was set back.
fn per_second((before_ms, before): (u64, u64), (now_ms, now): (u64, u64)) -> Option<u64> {
    let ms = now_ms.checked_sub(before_ms).filter(|ms| *ms > 0)?;
    let grown = now.checked_sub(before)?;
    u64::try_from(u128::from(grown) * 1000 / u128::from(ms)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_growth_over_the_time_between_the_readings() {
        assert_eq!(per_second((1000, 5), (3000, 4005)), Some(2000));
        assert_eq!(per_second((1000, 5), (1250, 5)), Some(0));
        assert_eq!(per_second((0, 0), (1, u64::MAX)), None);
    }

    #[test]
    fn a_counter_or_a_clock_that_fell_gives_no_rate() {
        assert_eq!(per_second((1000, 5), (2000, 4)), None);
        assert_eq!(per_second((1000, 5), (1000, 9)), None);
        assert_eq!(per_second((2000, 5), (1000, 9)), None);
    }

    #[test]
    fn a_column_that_is_not_read_keeps_its_value_until_it_is_old() {
        let at = COLUMNS
            .iter()
            .position(|column| column.kind == ColumnKind::Counter)
            .expect("a counter");
        let mut rates = Rates::default();
        for (at_ms, value, expected) in [
            (1000, Some(10), (Some(10), None)),
            (2000, None, (Some(10), None)),
            (3000, Some(50), (Some(50), Some(20))),
            (63_000, None, (Some(50), Some(20))),
            (63_001, None, (None, None)),
            (64_000, Some(90), (Some(90), None)),
            (65_000, Some(5), (Some(5), None)),
            (66_000, Some(6), (Some(6), Some(1))),
        ] {
            let mut values = [None; COUNT];
            values[at] = value;
            rates.take(at_ms, values);
            let known = rates.known[at].map(|(_, value)| value);
            assert_eq!((known, rates.rates[at]), expected, "at {at_ms}");
        }
    }
}
