//! Makes a node record writable: within its size, and of numbers that JSON can hold.

use std::collections::{BTreeMap, BTreeSet};

use crate::record::{Missing, NodeRecord};

/// The largest node record, in bytes. A larger one is thinned before it is written.
pub const MAX_RECORD: usize = 256 << 10;

/// The record as JSON of at most `limit` bytes. `None` when leaving out epochs, gaps and events does not get it there.
pub(super) fn encode(record: &NodeRecord, limit: usize) -> Option<Vec<u8>> {
    fit(record, limit).map(|(_, bytes)| bytes)
}

/// The record as it would be written: at most [`MAX_RECORD`] bytes as JSON, and without numbers that JSON
/// cannot hold. `None` where it cannot be made so small.
#[must_use]
pub fn fitted(record: &NodeRecord) -> Option<NodeRecord> {
    fit(record, MAX_RECORD).map(|(record, _)| record)
}

fn fit(record: &NodeRecord, limit: usize) -> Option<(NodeRecord, Vec<u8>)> {
    let mut record = record.clone();
    drop_non_finite(&mut record);
    let whole = to_json(&record);
    if whole.len() <= limit {
        return Some((record, whole));
    }
    // Curves are the first to go: what they end in is in the metrics of the epochs and in the last ones.
    thin(
        &mut record.progress.points,
        0,
        0,
        "points",
        &mut record.missing,
    );
    let mut epochs = record.progress.epochs.len();
    let mut others = record.gaps.len().max(record.events.len());
    loop {
        let mut thinned = record.clone();
        let missing = &mut thinned.missing;
        // Every summary shows the first epoch separately.
        thin(&mut thinned.progress.epochs, 1, epochs, "epochs", missing);
        thin(&mut thinned.gaps, 0, others, "gaps", missing);
        thin(&mut thinned.events, 0, others, "events", missing);
        let bytes = to_json(&thinned);
        if bytes.len() <= limit {
            return Some((thinned, bytes));
        }
        match (&mut epochs, &mut others) {
            (kept, _) | (_, kept) if *kept > 2 => *kept /= 2,
            _ => return None,
        }
    }
}

fn to_json(record: &NodeRecord) -> Vec<u8> {
    serde_json::to_vec(record).expect("a node record has no keys but text")
}

/// Keeps the first `begin` of a list and the newest of the others, `kept` in all, and says so.
fn thin<T>(list: &mut Vec<T>, begin: usize, kept: usize, what: &str, missing: &mut Vec<Missing>) {
    let dropped = list.len().saturating_sub(kept);
    if dropped > 0 {
        list.drain(begin..begin + dropped);
        let why = format!("the record was too large; the {dropped} oldest {what} are left out");
        missing.push(Missing::new(what, why));
    }
}

/// JSON has no NaN and no infinity: they would be written as `null`, which does not read back as a number.
fn drop_non_finite(record: &mut NodeRecord) {
    let mut dropped = BTreeSet::new();
    let progress = &mut record.progress;
    let maps = progress.epochs.iter_mut().map(|epoch| &mut epoch.metrics);
    let points = progress.points.iter_mut().map(|point| &mut point.metrics);
    for metrics in maps.chain(points).chain([&mut progress.last_metrics]) {
        retain_finite(metrics, &mut dropped);
    }
    if progress
        .throughput
        .as_ref()
        .is_some_and(|rate| !rate.value.is_finite())
    {
        progress.throughput = None;
        dropped.insert("throughput".to_owned());
    }
    for name in dropped {
        let why = "its value was not a finite number".to_owned();
        record.missing.push(Missing {
            what: format!("metric {name}"),
            why,
        });
    }
}

fn retain_finite(metrics: &mut BTreeMap<String, f64>, dropped: &mut BTreeSet<String>) {
    metrics.retain(|name, value| {
        if !value.is_finite() {
            dropped.insert(name.clone());
        }
        value.is_finite()
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::RunId;
    use crate::record::{
        Epoch, Event, EventKind, Gap, HostFacts, MeasureKey, NodeState, Progress, Scope,
        Throughput, Usage, WatcherCost,
    };

    fn record() -> NodeRecord {
        let run_id = RunId::from_random([7; 10]);
        NodeRecord {
            format: NodeRecord::FORMAT,
            last_words: Vec::new(),
            key: MeasureKey {
                run_id,
                element: 0,
                attempt: 0,
                node: "n1".into(),
                step: 0,
            },
            job_id: None,
            state: NodeState::Running,
            started_at_ms: 1,
            ended_at_ms: None,
            updated_at_ms: 2,
            exit: None,
            output: None,
            host: HostFacts::default(),
            conditions: crate::record::Conditions::default(),
            usage: Usage::default(),
            progress: Progress::default(),
            segments: 0,
            gaps: vec![],
            missing: vec![],
            watcher: WatcherCost::default(),
            cgroup: None,
            container: None,
            gpus: Vec::new(),
            time_stop: None,
            trial: None,
            ranks: Vec::new(),
            events: Vec::new(),
        }
    }

    fn read(bytes: &[u8]) -> NodeRecord {
        serde_json::from_slice(bytes).expect("a record")
    }

    #[test]
    fn a_small_record_is_written_as_it_is() {
        assert_eq!(read(&encode(&record(), 10_000).expect("fits")), record());
    }

    #[test]
    fn a_large_record_keeps_the_first_epoch_and_the_newest() {
        let mut large = record();
        let metrics: BTreeMap<_, _> = (0..20)
            .map(|i| (format!("metric_number_{i}"), 0.5))
            .collect();
        for epoch in 0..1000 {
            large.progress.push_epoch(Epoch {
                epoch,
                metrics: metrics.clone(),
                ..Epoch::default()
            });
        }
        let bytes = encode(&large, 256 << 10).expect("can be thinned");
        assert!(
            bytes.len() <= 256 << 10 && bytes.len() > 64 << 10,
            "{}",
            bytes.len()
        );
        let thin = read(&bytes);
        let kept = &thin.progress.epochs;
        assert_eq!((kept[0].epoch, kept[kept.len() - 1].epoch), (0, 999));
        assert_eq!(kept[1].epoch, 1000 - (kept.len() as u64 - 1));
        assert_eq!(thin.progress.epochs_completed, 1000);
        assert_eq!(thin.missing.len(), 1, "{:?}", thin.missing);
    }

    #[test]
    fn many_gaps_and_events_are_thinned_and_boundless_text_is_refused() {
        let mut large = record();
        large.gaps = vec![
            Gap {
                from_ms: 1,
                to_ms: 2,
                why: "late".into()
            };
            10_000
        ];
        assert!(
            !read(&encode(&large, 256 << 10).expect("can be thinned"))
                .gaps
                .is_empty()
        );
        large.events = vec![
            Event {
                at_ms: 1,
                kind: EventKind::Note,
                detail: "again".into()
            };
            10_000
        ];
        let thinned = fitted(&large).expect("can be thinned");
        assert!(!thinned.events.is_empty() && thinned.events.len() < 10_000);
        large.host.hostname = "x".repeat(300_000);
        assert_eq!(encode(&large, 256 << 10), None);
    }

    #[test]
    fn a_loss_that_is_no_number_leaves_a_record_that_can_be_read() {
        let mut nan = record();
        let metrics = BTreeMap::from([("loss".to_owned(), f64::NAN), ("accuracy".to_owned(), 0.5)]);
        nan.progress.push_epoch(Epoch {
            metrics: metrics.clone(),
            ..Epoch::default()
        });
        nan.progress.last_metrics = metrics;
        nan.progress.throughput = Some(Throughput {
            value: f64::INFINITY,
            unit: "it/s".into(),
            scope: Scope::Global,
        });
        let back = read(&encode(&nan, 10_000).expect("fits"));
        assert_eq!(
            back.progress.epochs[0].metrics,
            BTreeMap::from([("accuracy".to_owned(), 0.5)])
        );
        assert_eq!(back.progress.throughput, None);
        let missing: Vec<&str> = back
            .missing
            .iter()
            .map(|missing| missing.what.as_str())
            .collect();
        assert_eq!(missing, ["metric loss", "metric throughput"]);
    }
}
