//! GPUs and CPUs that the run holds and does not use. Looked at in the record, whoever reads the samples.
//!
//! A GPU works where any reading of its utilisation was above 0, even by another program; without GPUs a run works where it
//! used a fiftieth of a CPU or moved 100 kB/s. What gave no reading is not known to rest: its time begins again.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::foundation::units::display_seconds;
use crate::launch::IdlePolicy;
use crate::record::{Held, NodeRecord};

/// Less CPU time a second is no work: threads that look at a clock. As [`super::quiet`] has it.
const IDLE_CPU: f64 = 0.02;
/// Less than this many bytes a second, read and written, is no work: notes in a log.
const IDLE_IO: f64 = 100e3;
/// Looks that are closer together would see single ticks, in milliseconds.
const LEAST_PAUSE_MS: u64 = 30_000;

/// What is known of one GPU, of all of them, or of the CPUs.
#[derive(Debug, Clone, Copy)]
struct Rest {
    since_ms: u64,
    /// Up to here its time without work is added up.
    counted_ms: Option<u64>,
}

/// Looks at a run again and again.
#[derive(Debug)]
pub(super) struct Holding {
    policy: IdlePolicy,
    /// Between two looks at most; after a longer time the job was suspended, or the node was.
    pause_ms: u64,
    looked_ms: Option<u64>,
    /// At the last look the sum of each GPU's utilisation and how often it was read; seconds of CPU, and bytes read and written.
    gpus: BTreeMap<String, (u64, u64)>,
    cpus: Option<(f64, u64)>,
    rests: BTreeMap<String, Rest>,
    held: Held,
    is_ended: bool,
}

/// The name of all GPUs together, or of the CPUs: no GPU has it.
const ALL: &str = "";

impl Holding {
    /// `pause`: between two looks at most.
    pub(super) fn new(policy: IdlePolicy, pause: Duration) -> Self {
        Self {
            policy,
            pause_ms: u64::try_from(pause.as_millis()).unwrap_or(u64::MAX / 2),
            looked_ms: None,
            gpus: BTreeMap::new(),
            cpus: None,
            rests: BTreeMap::new(),
            held: Held::default(),
            is_ended: false,
        }
    }

    /// Continues what a killed watcher had added up.
    pub(super) fn take_over(&mut self, former: Option<&Held>) {
        if let Some(former) = former {
            (self.held.gpu_seconds, self.held.node_seconds) =
                (former.gpu_seconds, former.node_seconds);
        }
    }

    /// What is held as of the last look, and what was in all; `None`: nothing. A run that is over holds nothing any more.
    pub(super) fn known(&self, is_running: bool) -> Option<Held> {
        let known = match is_running {
            true => self.held.clone(),
            false => Held {
                gpu_seconds: self.held.gpu_seconds,
                node_seconds: self.held.node_seconds,
                ..Held::default()
            },
        };
        Some(known).filter(|held| *held != Held::default())
    }

    /// Looks at the record as of now. `has_gpus`: the job asked for GPUs; `is_alone`: it has no other node. Says why the run is to be
    /// ended, once, where the site says so.
    pub(super) fn look(
        &mut self,
        record: &NodeRecord,
        has_gpus: bool,
        is_alone: bool,
    ) -> Option<String> {
        let now_ms = record.updated_at_ms;
        let apart_ms = self.looked_ms.map(|last| now_ms.saturating_sub(last));
        if apart_ms.is_some_and(|apart| apart < LEAST_PAUSE_MS) {
            return None;
        }
        self.looked_ms = Some(now_ms);
        let is_hole = apart_ms.is_none_or(|apart| apart > 2 * self.pause_ms);
        let mut rested = match has_gpus {
            // Of GPUs that are not seen nothing is known.
            true => !record.gpus.is_empty(),
            false => self.cpus_rested(record, apart_ms.unwrap_or(0)),
        };
        for gpu in &record.gpus {
            let (sum, readings) = gpu.sums.utilisation;
            let uuid = &gpu.gpu.uuid;
            let last = self.gpus.insert(uuid.clone(), (sum, readings));
            let rests = last.is_some_and(|last| sum == last.0 && readings > last.1);
            rested &= rests;
            // One that was not asked for may be seen by all jobs of its node.
            self.note(uuid, rests && has_gpus && !is_hole, now_ms);
        }
        self.note(ALL, rested && !is_hole, now_ms);
        self.sum_up(now_ms);
        let minutes = self.policy.cancel_after_minutes.filter(|_| is_alone)?;
        self.end_after(minutes, has_gpus, now_ms)
    }

    /// Whether next to no CPU time was used since the last look, and next to nothing read or written.
    fn cpus_rested(&mut self, record: &NodeRecord, apart_ms: u64) -> bool {
        let usage = &record.usage;
        let Some(cpu) = usage.cpu_seconds() else {
            return false;
        };
        let moved = usage
            .io_read_bytes
            .unwrap_or(0)
            .saturating_add(usage.io_write_bytes.unwrap_or(0));
        let last = self.cpus.replace((cpu, moved));
        #[expect(
            clippy::cast_precision_loss,
            reason = "milliseconds and bytes of minutes"
        )]
        let (seconds, bytes) = (
            apart_ms as f64 / 1e3,
            last.map_or(0, |last| moved.saturating_sub(last.1)) as f64,
        );
        last.is_some_and(|last| cpu - last.0 < IDLE_CPU * seconds && bytes < IDLE_IO * seconds)
    }

    fn note(&mut self, name: &str, rested: bool, now_ms: u64) {
        let begin = Rest {
            since_ms: now_ms,
            counted_ms: None,
        };
        let rest = self.rests.entry(name.to_owned()).or_insert(begin);
        if !rested {
            *rest = begin;
        }
    }

    /// Adds up the time without work, and names what is held now.
    fn sum_up(&mut self, now_ms: u64) {
        let long_ms = self.policy.advice_minutes * 60_000;
        let (mut gpus, mut since_ms) = (Vec::new(), None);
        for (name, rest) in &mut self.rests {
            if now_ms.saturating_sub(rest.since_ms) < long_ms {
                continue;
            }
            let from_ms = rest.counted_ms.replace(now_ms).unwrap_or(rest.since_ms);
            #[expect(clippy::cast_precision_loss, reason = "milliseconds of a run")]
            let seconds = now_ms.saturating_sub(from_ms) as f64 / 1e3;
            if name == ALL {
                self.held.node_seconds += seconds;
            } else {
                self.held.gpu_seconds += seconds;
                gpus.push(name.clone());
            }
            // Since when all that is held rests.
            since_ms = since_ms.max(Some(rest.since_ms));
        }
        let warning_ms = self.policy.warning_minutes * 60_000;
        self.held.warns = since_ms.is_some_and(|since| now_ms.saturating_sub(since) >= warning_ms);
        (self.held.gpus, self.held.since_ms) = (gpus, since_ms);
    }

    /// Why the run is to be ended: nothing of it worked for as long as the site lets it.
    fn end_after(&mut self, minutes: u64, has_gpus: bool, now_ms: u64) -> Option<String> {
        let rest = self.rests.get(ALL).filter(|_| !self.is_ended)?;
        let ms = now_ms.saturating_sub(rest.since_ms);
        self.is_ended = ms >= minutes * 60_000;
        let what = if has_gpus { "GPUs" } else { "CPUs" };
        #[expect(clippy::cast_precision_loss, reason = "milliseconds of a run")]
        let time = display_seconds(ms as f64 / 1e3);
        self.is_ended.then(|| {
            format!(
                "its {what} did no work for {time}: dlrun ended it, as the setting `idle.cancel_after_minutes = {minutes}` says"
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::RunId;
    use crate::record::{GpuFacts, GpuUsage, HostFacts, MeasureKey};

    const MINUTE: u64 = 60_000;

    /// After so many minutes, with CPU seconds, and of each GPU the sum of its utilisation and the number of readings.
    fn record(minute: u64, cpu: f64, gpus: &[(u64, u64)]) -> NodeRecord {
        let key = MeasureKey {
            run_id: RunId::from_random([0; 10]),
            element: 0,
            attempt: 0,
            node: "n".into(),
            step: 0,
        };
        let mut record = NodeRecord::begun(key, None, 0, HostFacts::default());
        record.updated_at_ms = minute * MINUTE;
        record.usage.cpu_user_seconds = Some(cpu);
        record.usage.cpu_system_seconds = Some(0.0);
        let gpu = |(minor, sums): (u32, &(u64, u64))| {
            let mut usage = GpuUsage::of(GpuFacts {
                uuid: format!("GPU-{minor}"),
                minor: Some(minor),
                ..GpuFacts::default()
            });
            usage.sums.utilisation = *sums;
            usage
        };
        record.gpus = (0..).zip(gpus).map(gpu).collect();
        record
    }

    fn holding(cancel: Option<u64>) -> Holding {
        let policy = IdlePolicy {
            cancel_after_minutes: cancel,
            ..IdlePolicy::default()
        };
        Holding::new(policy, Duration::from_secs(300))
    }

    fn text(holding: &Holding, mut record: NodeRecord) -> Option<(bool, String)> {
        record.progress.held = holding.known(true);
        record.remarks(record.updated_at_ms).pop()
    }

    #[test]
    fn gpus_without_work_are_advice_after_ten_minutes_and_a_warning_after_sixty() {
        let mut holding = holding(None);
        for minute in 0..=70 {
            // They worked for five minutes.
            let gpu = (100 * minute.min(5), 60 * minute);
            let record = record(minute, 60.0 * 60.0, &[gpu, gpu]);
            assert_eq!(holding.look(&record, true, true), None);
            let expected = match minute {
                0..15 => None,
                15.. => Some((
                    minute >= 65,
                    format!(
                        "2 GPUs held without work for {}",
                        display_seconds(
                            #[expect(clippy::cast_precision_loss, reason = "small")]
                            {
                                (minute - 5) as f64 * 60.0
                            }
                        )
                    ),
                )),
            };
            assert_eq!(text(&holding, record), expected, "{minute}");
        }
        let held = holding.known(false).expect("held");
        assert_eq!((held.gpu_seconds, held.node_seconds), (7800.0, 3900.0));
        let works = record(71, 0.0, &[(900, 9000), (500, 9000)]);
        let _ = holding.look(&works, true, true);
        let (_, text) = text(&holding, works).expect("one still rests");
        assert_eq!(text, "1 of 2 GPUs (1) held without work for 1 h 06 min");
    }

    #[test]
    fn gpus_that_were_not_asked_for_are_no_reason_and_their_work_counts() {
        let (mut busy, mut computes) = (holding(Some(60)), holding(Some(60)));
        for minute in 0..=200 {
            #[expect(clippy::cast_precision_loss, reason = "small")]
            let cpu = minute as f64 * 30.0;
            let unused = record(minute, cpu, &[(0, minute)]);
            assert_eq!(busy.look(&unused, false, true), None);
            let used = record(minute, 0.0, &[(minute, minute)]);
            assert_eq!(computes.look(&used, false, true), None);
        }
        assert_eq!((busy.known(true), computes.known(true)), (None, None));
    }

    #[test]
    fn gpus_that_give_no_reading_and_holes_in_the_time_are_no_rest() {
        let (mut blind, mut suspended) = (holding(Some(10)), holding(Some(10)));
        for minute in 0..=60 {
            assert_eq!(
                blind.look(&record(minute, 0.0, &[(0, 7)]), true, true),
                None
            );
            assert_eq!(blind.look(&record(minute, 0.0, &[]), true, true), None);
            let rests = record(11 * minute, 0.0, &[(0, minute)]);
            assert_eq!(suspended.look(&rests, true, true), None);
        }
        assert_eq!((blind.known(true), suspended.known(true)), (None, None));
    }

    #[test]
    fn a_job_that_sleeps_is_ended_once_where_the_site_says_so_and_never_one_that_works() {
        let run = |cancel, cpu_of_minute: f64, bytes: u64, is_alone| -> Vec<(u64, String)> {
            let mut holding = holding(cancel);
            let look = |minute: u64| {
                #[expect(clippy::cast_precision_loss, reason = "small")]
                let mut record = record(minute, cpu_of_minute * minute as f64, &[]);
                record.usage.io_read_bytes = Some(bytes * minute);
                Some((minute, holding.look(&record, false, is_alone)?))
            };
            (0..200).filter_map(look).collect()
        };
        let ends = run(Some(120), 0.5, 1_000_000, true);
        assert_eq!(ends.len(), 1, "{ends:?}");
        assert_eq!(ends[0].0, 120);
        assert!(
            ends[0]
                .1
                .ends_with("as the setting `idle.cancel_after_minutes = 120` says"),
            "{ends:?}"
        );
        assert!(run(None, 0.0, 0, true).is_empty());
        assert!(run(Some(120), 1.3, 0, true).is_empty(), "it works");
        assert!(run(Some(120), 0.0, 7_000_000, true).is_empty(), "it reads");
        assert!(
            run(Some(120), 0.0, 0, false).is_empty(),
            "another node may work"
        );
    }
}
