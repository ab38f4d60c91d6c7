//! Samples that could not be written yet.

use std::collections::{BTreeMap, VecDeque};

use super::NodeId;
use crate::record::Sample;

/// Ticks that wait for room on the disk, oldest first. There is room for so many samples; the oldest ticks go first.
#[derive(Debug)]
pub struct Backlog {
    ticks: VecDeque<Vec<(NodeId, Sample)>>,
    samples: usize,
    max_samples: usize,
    dropped: BTreeMap<NodeId, Dropped>,
}

/// Samples of one node that were lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Dropped {
    /// The earliest of them, in Unix milliseconds UTC.
    pub from_ms: u64,
    /// The latest.
    pub to_ms: u64,
    /// How many.
    pub samples: u64,
}

impl Backlog {
    /// Room for this many samples; a tick has one of each run.
    #[must_use]
    pub fn new(max_samples: usize) -> Self {
        Self {
            ticks: VecDeque::new(),
            samples: 0,
            max_samples,
            dropped: BTreeMap::new(),
        }
    }

    /// Whether no sample waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.samples == 0
    }

    /// Adds a tick, and drops the oldest ones where there are too many.
    pub fn push(&mut self, tick: Vec<(NodeId, Sample)>) {
        self.samples += tick.len();
        self.ticks.push_back(tick);
        self.drop_surplus();
    }

    fn drop_surplus(&mut self) {
        while self.samples > self.max_samples
            && let Some(oldest) = self.take()
        {
            for (node, Sample { at_ms, .. }) in oldest {
                let none = Dropped {
                    from_ms: at_ms,
                    to_ms: at_ms,
                    samples: 0,
                };
                let dropped = self.dropped.entry(node).or_insert(none);
                dropped.from_ms = dropped.from_ms.min(at_ms);
                dropped.to_ms = dropped.to_ms.max(at_ms);
                dropped.samples += 1;
            }
        }
    }

    /// Takes the oldest tick out, to be written.
    pub fn take(&mut self) -> Option<Vec<(NodeId, Sample)>> {
        let tick = self.ticks.pop_front()?;
        self.samples -= tick.len();
        Some(tick)
    }

    /// Puts a tick back that could not be written. What came meanwhile may have taken its room: then it is dropped.
    pub fn put_back(&mut self, tick: Vec<(NodeId, Sample)>) {
        self.samples += tick.len();
        self.ticks.push_front(tick);
        self.drop_surplus();
    }

    /// What was dropped since this was last asked, by node: the gaps of their series.
    pub fn take_dropped(&mut self) -> Vec<(NodeId, Dropped)> {
        std::mem::take(&mut self.dropped).into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tick(nodes: &[i64], at_ms: u64) -> Vec<(NodeId, Sample)> {
        nodes
            .iter()
            .map(|node| {
                (
                    NodeId(*node),
                    Sample {
                        at_ms,
                        ..Sample::default()
                    },
                )
            })
            .collect()
    }

    #[test]
    fn the_oldest_go_first_and_are_counted() {
        let mut backlog = Backlog::new(4);
        for (nodes, at_ms) in [(&[1, 2][..], 10), (&[1], 20), (&[1, 2], 30), (&[1, 2], 40)] {
            backlog.push(tick(nodes, at_ms));
        }
        assert_eq!(backlog.samples, 4);
        let dropped = |from_ms, to_ms, samples| Dropped {
            from_ms,
            to_ms,
            samples,
        };
        assert_eq!(
            backlog.take_dropped(),
            [
                (NodeId(1), dropped(10, 20, 2)),
                (NodeId(2), dropped(10, 10, 1))
            ]
        );
        assert_eq!(backlog.take_dropped(), []);
        backlog.push(tick(&[1, 2, 3, 4, 5], 50));
        assert_eq!(
            (
                backlog.samples,
                backlog.is_empty(),
                backlog.take_dropped().len()
            ),
            (0, true, 5)
        );
    }

    #[test]
    fn what_fails_waits_and_keeps_its_order() {
        let mut backlog = Backlog::new(3);
        (1..4).for_each(|at_ms| backlog.push(tick(&[7], at_ms)));
        let failed = backlog.take().expect("a tick");
        assert_eq!(backlog.samples, 2);
        backlog.put_back(failed);
        let times: Vec<u64> = std::iter::from_fn(|| backlog.take())
            .map(|tick| tick[0].1.at_ms)
            .collect();
        assert_eq!((times, backlog.is_empty()), (vec![1, 2, 3], true));
        let failed = tick(&[7], 4);
        (5..8).for_each(|at_ms| backlog.push(tick(&[7], at_ms)));
        backlog.put_back(failed);
        assert_eq!(backlog.samples, 3);
        assert_eq!(
            backlog.take_dropped(),
            [(
                NodeId(7),
                Dropped {
                    from_ms: 4,
                    to_ms: 4,
                    samples: 1
                }
            )]
        );
    }
}
