//! How fast each rank trains, by what it prints into its own file: read on a separate thread, since that file system may hang.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use crate::foundation::clock::now_ms;
use crate::foundation::statistics::median;
use crate::job::TimingPattern;
use crate::node::supervise::output::Reader;
use crate::observe::timing::Follower;
use crate::record::{Progress, RankRecord, TimeSource};

/// Between two looks at the files; times by our clock are exact to this.
const LOOK: Duration = Duration::from_millis(500);
/// Bytes read of a file at one look: ranks that print more are followed later, and given up at the end.
const PORTION: usize = 1 << 20;
/// How long the last look may take.
const PATIENCE: Duration = Duration::from_secs(2);

/// Epochs that are shorter are not timed by our clock: a look may come so much late as to matter, in seconds.
const SHORTEST: f64 = 10.0;

/// What a rank has shown of its pace.
#[derive(Debug, Clone, Copy, Default)]
struct Pace {
    epochs: u64,
    epoch: Option<(f64, TimeSource)>,
    step: Option<(f64, TimeSource)>,
}

impl Pace {
    /// As printed, where every epoch has it, else by our clock. Epochs that are warm-up, or during which the clock was set, do not count.
    fn of(progress: &Progress) -> Self {
        let usable = progress.epochs.iter();
        let usable = usable.filter(|epoch| !epoch.warmup && !epoch.clock_set);
        let printed: Option<Vec<f64>> = usable.clone().map(|epoch| epoch.printed_seconds).collect();
        let by_clock = || median(usable.filter_map(|epoch| epoch.clock_seconds).collect());
        let epoch = match printed.and_then(median) {
            Some(seconds) => Some((seconds, TimeSource::Stated)),
            None => by_clock()
                .filter(|seconds| *seconds >= SHORTEST)
                .map(|seconds| (seconds, TimeSource::Clock)),
        };
        let steps = progress.step_times.as_ref();
        let steps = steps.filter(|steps| steps.source != TimeSource::Clock);
        Self {
            epochs: progress.epochs_completed,
            epoch,
            step: steps.map(|steps| (steps.median_seconds, steps.source)),
        }
    }
}

enum Order {
    Follow {
        rank: u32,
        path: PathBuf,
        offset: u64,
    },
    Finish(Sender<()>),
}

/// The paces of the ranks of this node.
pub(super) struct Paces {
    known: Arc<Mutex<BTreeMap<u32, Pace>>>,
    orders: Sender<Order>,
}

impl Paces {
    /// `pattern`: the user's own, by which epochs are recognised.
    pub(super) fn new(pattern: Option<TimingPattern>) -> Self {
        let (orders, given) = channel();
        let known = Arc::default();
        let shared = Arc::clone(&known);
        // Without a thread there are no paces.
        drop(thread::Builder::new().spawn(move || follow(&given, pattern.as_ref(), &shared)));
        Self { known, orders }
    }

    /// Follows what a rank prints behind the first `offset` bytes of a file.
    pub(super) fn follow(&self, rank: u32, path: PathBuf, offset: u64) {
        let _ = self.orders.send(Order::Follow { rank, path, offset });
    }

    /// Reads what was printed last.
    pub(super) fn finish(&self) {
        let (sender, done) = channel();
        let _ = self.orders.send(Order::Finish(sender));
        let _ = done.recv_timeout(PATIENCE);
    }

    /// Adds to the records what is known.
    pub(super) fn add_to(&self, mut records: Vec<RankRecord>) -> Vec<RankRecord> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        for record in records.iter_mut().filter(|record| record.role.is_none()) {
            if let Some(pace) = known.get(&record.rank) {
                record.epochs = Some(pace.epochs).filter(|epochs| *epochs > 0);
                (record.epoch_seconds, record.epoch_source) = pace.epoch.unzip();
                (record.step_seconds, record.step_source) = pace.step.unzip();
            }
        }
        records
    }
}

struct Followed {
    rank: u32,
    reader: Reader,
    follower: Follower,
}

impl Followed {
    /// Reads a portion; whether something was there.
    fn read(&mut self) -> bool {
        let mut total = 0;
        while total < PORTION {
            match self.reader.read() {
                Ok([]) | Err(_) => break,
                Ok(bytes) => {
                    total += bytes.len();
                    self.follower.feed(bytes, Some(now_ms()));
                }
            }
        }
        total > 0
    }
}

fn follow(
    orders: &Receiver<Order>,
    pattern: Option<&TimingPattern>,
    known: &Mutex<BTreeMap<u32, Pace>>,
) {
    let mut all: Vec<Followed> = Vec::new();
    loop {
        let order = orders.recv_timeout(LOOK);
        let is_last = matches!(order, Ok(Order::Finish(_)));
        for followed in &mut all {
            let has_grown = followed.read();
            if is_last {
                followed.follower.finish(Some(now_ms()));
            }
            if has_grown || is_last {
                let pace = Pace::of(&followed.follower.progress());
                let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
                known.insert(followed.rank, pace);
            }
        }
        match order {
            Ok(Order::Follow { rank, path, offset }) => {
                let reader = Reader::open(&path, offset).ok();
                let opened = reader.zip(Follower::new(pattern).ok());
                all.extend(opened.map(|(reader, follower)| Followed {
                    rank,
                    reader,
                    follower,
                }));
            }
            Ok(Order::Finish(done)) => drop(done.send(())),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn epochs_of_each_rank_are_read_from_its_own_file() {
        let dir = tempfile::tempdir().expect("a directory");
        let paces = Paces::new(None);
        for (rank, seconds) in [(0, 2), (1, 4)] {
            let path = dir.path().join(format!("rank-{rank}.out"));
            let lines =
                (1..=3).map(|epoch| format!("Epoch {epoch}/3 loss: 0.5 time: {seconds}.5s\n"));
            fs::write(
                &path,
                "Epoch 9/9 time: 99.5s\n".to_owned() + &lines.collect::<String>(),
            )
            .expect("ours");
            paces.follow(rank, path, 22);
        }
        paces.finish();
        let of = |rank| RankRecord {
            rank,
            ..RankRecord::default()
        };
        let agent = RankRecord {
            role: Some("agent".into()),
            ..of(0)
        };
        let records = paces.add_to(vec![of(0), of(1), of(2), agent]);
        let figures = records.iter().map(|rank| (rank.epochs, rank.epoch_seconds));
        assert_eq!(
            figures.collect::<Vec<_>>(),
            [
                (Some(3), Some(2.5)),
                (Some(3), Some(4.5)),
                (None, None),
                (None, None)
            ]
        );
    }
}
