//! What a running job has printed since its record was written: records are up to 300 s old, its output is not.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use crate::app::track::{Tracked, output_path};
use crate::job::JobState;
use crate::observe::timing::Follower;
use crate::record::Progress;

/// Longer outputs are not read again at each look.
const LONGEST: u64 = 64 << 20;

/// Brings epochs, steps and metrics of a running job up to date from its output; true where that was done. Left alone is what
/// cannot be read in the same way from its beginning: arrays, several nodes, later attempts, and timings that come by events or by a pattern.
pub(crate) fn refresh(tracked: &mut Tracked) -> bool {
    let is_first = tracked
        .reading
        .attempt
        .is_some_and(|attempt| attempt.attempt == 0);
    if tracked.status.state != JobState::Running || tracked.record.array.is_some() || !is_first {
        return false;
    }
    let path = output_path(&tracked.record, None);
    let [node] = &mut tracked.reading.outcome.nodes[..] else {
        return false;
    };
    let by_output = !matches!(
        node.progress.recogniser.as_deref(),
        Some("events" | "pattern")
    );
    let is_known = by_output && node.missing.iter().all(|missing| missing.what != "timing");
    let Some(latest) = path.filter(|_| is_known).and_then(|path| read(&path)) else {
        return false;
    };
    take(&mut node.progress, latest)
}

fn read(path: &Path) -> Option<Progress> {
    let found = path
        .metadata()
        .ok()
        .filter(|found| found.is_file() && found.len() <= LONGEST)?;
    let mut follower = Follower::new(None).ok()?;
    let mut bytes = Vec::new();
    File::open(path)
        .ok()?
        .take(found.len())
        .read_to_end(&mut bytes)
        .ok()?;
    follower.feed(&bytes, None);
    Some(follower.progress())
}

/// Takes what is newer. Times stay those of the record: a file that is read at once has none.
fn take(known: &mut Progress, latest: Progress) -> bool {
    let newer = latest.epochs_completed.checked_sub(known.epochs_completed);
    let is_same = known.recogniser.is_none() || known.recogniser == latest.recogniser;
    let Some(newer) = newer.filter(|_| is_same && latest.recogniser.is_some()) else {
        return false;
    };
    let first_new = latest
        .epochs
        .len()
        .saturating_sub(usize::try_from(newer).unwrap_or(usize::MAX));
    for epoch in &latest.epochs[first_new..] {
        known.push_epoch(epoch.clone());
    }
    known.recogniser = latest.recogniser;
    known.epochs_announced = latest.epochs_announced.or(known.epochs_announced);
    known.last_step = latest.last_step.or(known.last_step);
    known.counts_samples |= latest.counts_samples;
    known.last_metrics = latest.last_metrics;
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Epoch;

    #[test]
    fn epochs_that_a_record_lacks_are_added_and_known_ones_keep_their_times() {
        let mut known = Progress {
            recogniser: Some("keras".into()),
            ..Progress::default()
        };
        known.push_epoch(Epoch {
            epoch: 1,
            clock_seconds: Some(3.0),
            ..Epoch::default()
        });
        let mut latest = Progress {
            recogniser: Some("keras".into()),
            ..Progress::default()
        };
        (1..=3).for_each(|epoch| {
            latest.push_epoch(Epoch {
                epoch,
                ..Epoch::default()
            })
        });
        latest.last_metrics.insert("loss".into(), 0.1);
        assert!(take(&mut known, latest.clone()));
        let seen: Vec<_> = known
            .epochs
            .iter()
            .map(|epoch| (epoch.epoch, epoch.clock_seconds))
            .collect();
        assert_eq!(seen, [(1, Some(3.0)), (2, None), (3, None)]);
        assert_eq!(
            (known.epochs_completed, known.last_metrics["loss"]),
            (3, 0.1)
        );
        // Another recogniser, or fewer epochs than are known: the record stays.
        assert!(!take(
            &mut known,
            Progress {
                recogniser: Some("tqdm".into()),
                ..latest.clone()
            }
        ));
        assert!(!take(
            &mut known,
            Progress {
                epochs_completed: 1,
                ..latest
            }
        ));
    }
}
