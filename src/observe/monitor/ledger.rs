//! A total over processes that come and go, kept from falling.

use serde::{Deserialize, Serialize};

/// One cumulative total of a run.
///
/// A process that ended stays in the total through its parent's account of the children it waited for. Two things tear
/// holes: between reading the parent and the child the child may be waited for (it is missing for one reading), and a
/// parent that ignores `SIGCHLD` is never charged (it is missing for good, `wait(2)`). The first is bridged by showing the
/// former total, the second is made good as soon as it is certain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(super) struct Ledger {
    /// What the source had counted before the run; it is in the other two.
    before: u64,
    lost: u64,
    last: Option<u64>,
}

impl Ledger {
    /// A total of the run over a source that began earlier: it says `now`, of which the run used `used`.
    pub(super) fn begun(now: u64, used: u64) -> Self {
        Self {
            before: now.saturating_sub(used),
            ..Self::default()
        }
    }

    /// Goes on with another source, which counts the run alone.
    pub(super) fn change_source(&mut self) {
        *self = Self {
            before: 0,
            lost: 0,
            last: self.last(),
        };
    }

    /// Takes in a new `sum`. `vanished` is the last known share of processes that vanished during this very reading: they
    /// may be in `sum` already, or only in the next one.
    pub(super) fn settle(&mut self, sum: u64, vanished: u64) -> u64 {
        let last = self.last.unwrap_or(0);
        let at_most = sum.saturating_add(vanished).saturating_add(self.lost);
        self.lost = self.lost.saturating_add(last.saturating_sub(at_most));
        let total = sum.saturating_add(self.lost).max(last);
        self.last = Some(total);
        total.saturating_sub(self.before)
    }

    /// The total as last settled; `None` before.
    pub(super) fn last(&self) -> Option<u64> {
        Some(self.last?.saturating_sub(self.before))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_missing_for_one_reading_is_neither_lost_nor_doubled() {
        let mut ledger = Ledger::default();
        let totals =
            [(100, 0), (40, 60), (105, 0), (110, 0)].map(|(sum, gone)| ledger.settle(sum, gone));
        assert_eq!(totals, [100, 100, 105, 110]);
    }

    #[test]
    fn what_was_before_is_left_out() {
        let mut ledger = Ledger::begun(1000, 30);
        assert_eq!([1000, 1005].map(|sum| ledger.settle(sum, 0)), [30, 35]);
        // What was there before ends, and nobody is charged.
        assert_eq!([400, 404].map(|sum| ledger.settle(sum, 0)), [35, 39]);
        ledger.change_source();
        assert_eq!([12, 15, 50].map(|sum| ledger.settle(sum, 0)), [39, 42, 77]);
    }

    #[test]
    fn a_child_nobody_was_charged_for_is_kept() {
        let mut ledger = Ledger::default();
        let totals = [(100, 0), (40, 60), (40, 0), (45, 0), (50, 0)]
            .map(|(sum, gone)| ledger.settle(sum, gone));
        assert_eq!(totals, [100, 100, 100, 105, 110]);
    }
}
