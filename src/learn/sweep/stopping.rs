//! Which trials are not worth going on with. Both rules look only at values that trials had at the same epoch, and follow from
//! what the journal holds.
//!
//! ASHA in its stopping form (Li et al., MLSys 2020): a trial continues beyond a rung if it is among the best `1/eta` of all that
//! have reached the rung. Median stopping (Golovin et al., KDD 2017): if it is not worse than the median.

use std::collections::BTreeMap;

use super::document::{Metric, StopRule, Sweep};

/// So many others must have reached an epoch before the median is asked for (Vizier's and Ray's rules wait for as many).
const LEAST_OTHERS: usize = 4;

/// The values of all trials at the epochs that count.
#[derive(Debug, Clone)]
pub struct Stopping {
    rule: StopRule,
    metric: Metric,
    first: u64,
    factor: u64,
    /// By epoch, the costs of those that reached it.
    reached: BTreeMap<u64, Vec<f64>>,
}

impl Stopping {
    /// The rule of a sweep, without trials.
    #[must_use]
    pub fn new(sweep: &Sweep) -> Self {
        Self {
            rule: sweep.stop,
            metric: sweep.metric.clone(),
            first: sweep.first_epoch.into(),
            factor: if sweep.stop == StopRule::Median {
                2
            } else {
                sweep.eta.into()
            },
            reached: BTreeMap::new(),
        }
    }

    /// The epochs after which trials are compared, beyond `after`; of a sweep that stops none there are none.
    pub fn rungs(&self, after: u64) -> impl Iterator<Item = u64> {
        let factor = self.factor;
        let all = std::iter::successors(Some(self.first), move |rung| rung.checked_mul(factor));
        let has_any = !matches!(self.rule, StopRule::None | StopRule::Promotion);
        all.take(64).filter(move |rung| has_any && *rung > after)
    }

    /// Takes in the value that a trial has at a rung; true: the trial is to be stopped.
    pub fn reach(&mut self, rung: u64, value: f64) -> bool {
        let cost = self.metric.cost(value);
        let all = self.reached.entry(rung).or_default();
        let better = all.iter().filter(|other| **other < cost).count();
        all.push(cost);
        let count = all.len();
        match self.rule {
            StopRule::None | StopRule::Promotion => false,
            StopRule::Asha => {
                let eta = usize::try_from(self.factor).unwrap_or(usize::MAX);
                better >= (count / eta).max(1)
            }
            StopRule::Median => count > LEAST_OTHERS && better * 2 > count - 1,
        }
    }
}
