//! The clock that all curves of a run share: where a moment is.

use super::ticks::{Ticks, times};
use crate::report::number::{duration, seconds_between};

/// From the start of a run to its end, or to the last that is known of it.
#[derive(Debug, Clone)]
pub(in crate::report) struct Clock {
    pub(in crate::report) begin_ms: u64,
    pub(in crate::report) ticks: Ticks,
}

/// A span of time, in milliseconds.
pub(in crate::report) type Span = (u64, u64);

impl Clock {
    /// Over all that these spans cover; `None` where none has a length.
    pub(in crate::report) fn over(spans: impl Iterator<Item = Span>) -> Option<Self> {
        let spans: Vec<Span> = spans.filter(|(begin, end)| end > begin).collect();
        let begin_ms = spans.iter().map(|span| span.0).min()?;
        let end_ms = spans.iter().map(|span| span.1).max()?;
        Some(Self {
            begin_ms,
            ticks: times(seconds_between(begin_ms, end_ms)),
        })
    }

    /// How far from the left a moment is, 0 to 1.
    pub(in crate::report) fn place(&self, at_ms: u64) -> f64 {
        self.ticks.place(seconds_between(self.begin_ms, at_ms))
    }

    /// The time since the start, as text.
    pub(in crate::report) fn since(&self, at_ms: u64) -> String {
        duration(seconds_between(self.begin_ms, at_ms))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_placed_within_the_drawing() {
        let clock = Clock::over([(5000, 5000), (10_000, 20_000), (12_000, 30_000)].into_iter())
            .expect("a span");
        assert_eq!((clock.begin_ms, clock.ticks.end), (10_000, 20.0));
        assert_eq!(
            [0, 10_000, 15_000, 30_000, u64::MAX].map(|at| clock.place(at)),
            [0.0, 0.0, 0.25, 1.0, 1.0]
        );
        assert_eq!(clock.since(15_000), "5 s");
        assert!(Clock::over(std::iter::once((7, 7))).is_none());
    }
}
