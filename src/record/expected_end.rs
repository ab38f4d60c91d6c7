//! When a training that runs will end.

use serde::{Deserialize, Serialize};

/// When the last epoch or step ends, in Unix milliseconds UTC, as of the record's time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ExpectedEnd {
    /// Most likely.
    pub at_ms: u64,
    /// Nineteen in twenty end later.
    pub earliest_ms: u64,
    /// Nineteen in twenty end earlier.
    pub latest_ms: u64,
}

impl ExpectedEnd {
    /// `seconds` after `from_ms`: the earliest, the likely and the latest; none of them before `now_ms`. `None` where they are no times.
    pub(super) fn new(from_ms: u64, seconds: (f64, f64, f64), now_ms: u64) -> Option<Self> {
        let (low, likely, high) = seconds;
        let is_sane = high.is_finite() && high < 1e10;
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "positive and bounded above"
        )]
        let at = |seconds: f64| {
            from_ms
                .saturating_add((seconds.max(0.0) * 1e3) as u64)
                .max(now_ms)
        };
        is_sane.then(|| Self {
            at_ms: at(likely),
            earliest_ms: at(low),
            latest_ms: at(high),
        })
    }
}
