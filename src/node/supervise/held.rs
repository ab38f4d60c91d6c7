//! GPUs and CPUs that the run holds and does not use.
//!
//! A GPU works where any reading of its utilisation was above 0, even by another program; without GPUs a run works where it
//! used a fiftieth of a CPU or moved 100 kB/s. What gave no reading is not known to be idle: its time begins again.

use std::collections::BTreeMap;
use std::time::Duration;

use super::memory::{real, seconds_of};
use super::quiet::IDLE_CPU;
use crate::foundation::units::display_seconds;
use crate::launch::IdlePolicy;
use crate::record::{Held, NodeRecord};

/// Less than this many bytes a second, read and written, is no work: notes in a log.
const IDLE_IO: f64 = 100e3;
/// Looks that are closer together would see single ticks, in milliseconds.
const LEAST_PAUSE_MS: u64 = 30_000;

/// Idle time of one GPU, or of all that there is.
#[derive(Debug, Clone, Copy)]
struct Rest {
    since_ms: u64,
    /// Up to here it is added up.
    counted_ms: Option<u64>,
}

impl Rest {
    fn begin(now_ms: u64) -> Self {
        Self {
            since_ms: now_ms,
            counted_ms: None,
        }
    }

    /// Since when, if that is long, and what to add up, in seconds.
    fn count(&mut self, now_ms: u64, long_ms: u64) -> Option<(u64, f64)> {
        if now_ms.saturating_sub(self.since_ms) < long_ms {
            return None;
        }
        let from_ms = self.counted_ms.replace(now_ms).unwrap_or(self.since_ms);
        Some((self.since_ms, seconds_of(now_ms.saturating_sub(from_ms))))
    }
}

/// Looks at a run again and again.
#[derive(Debug)]
pub(super) struct Holding {
    policy: IdlePolicy,
    /// Between two looks at most; after a longer time the job was suspended, or the node was.
    pause_ms: u64,
    looked_ms: Option<u64>,
    /// At the last look seconds of CPU, and bytes read and written.
    cpus: Option<(f64, u64)>,
    /// By GPU its idle time, the sum of its utilisation and how often that was read.
    gpus: BTreeMap<String, (Rest, (u64, u64))>,
    /// Since when neither GPUs nor CPUs work.
    all: Option<Rest>,
    held: Held,
    is_ended: bool,
}

impl Holding {
    /// `pause`: between two looks at most.
    pub(super) fn new(policy: IdlePolicy, pause: Duration) -> Self {
        Self {
            policy,
            pause_ms: u64::try_from(pause.as_millis()).unwrap_or(u64::MAX / 2),
            looked_ms: None,
            cpus: None,
            gpus: BTreeMap::new(),
            all: None,
            held: Held::default(),
            is_ended: false,
        }
    }

    /// Continues what a killed watcher had added up.
    pub(super) fn take_over(&mut self, former: Option<&Held>) {
        self.held = former.map(Held::sums).unwrap_or_default();
    }

    /// What is held as of the last look, and what was in all; `None`: nothing. A run that is over holds nothing any more.
    pub(super) fn known(&self, is_running: bool) -> Option<Held> {
        let known = match is_running {
            true => self.held.clone(),
            false => self.held.sums(),
        };
        Some(known).filter(|held| *held != Held::default())
    }

    /// Looks at the record as of now. `has_gpus`: the job asked for GPUs; `is_alone`: it has no other node. Says why the run is to be
    /// ended, once, where a setting says so: nothing of it works, neither GPUs nor CPUs.
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
        let cpus_rest = self.cpus_rest(record, apart_ms.unwrap_or(0));
        let gpus_rest = self.gpus_rest(record, is_hole);
        // Of GPUs that are not seen nothing is known.
        let is_blind = has_gpus && record.gpus.is_empty();
        let rests = cpus_rest && gpus_rest && !is_hole && !is_blind;
        if !rests || self.all.is_none() {
            self.all = Some(Rest::begin(now_ms));
        }
        self.sum_up(now_ms, has_gpus);
        let minutes = self.policy.cancel_after_minutes.filter(|_| is_alone)?;
        self.end_after(minutes, now_ms)
    }

    /// Whether next to no CPU time was used since the last look, and next to nothing read or written.
    fn cpus_rest(&mut self, record: &NodeRecord, apart_ms: u64) -> bool {
        let usage = &record.usage;
        let moved = usage.io_read_bytes.zip(usage.io_write_bytes);
        // Where one is not measured, or some processes are not seen, nothing is known.
        let is_whole = record.missing.iter().all(|missing| missing.what != "ranks");
        let now = usage.cpu_seconds().zip(moved).filter(|_| is_whole);
        let now = now.map(|(cpu, (read, written))| (cpu, read.saturating_add(written)));
        let last = std::mem::replace(&mut self.cpus, now);
        now.zip(last).is_some_and(|(now, last)| {
            let time = seconds_of(apart_ms);
            let bytes = real(now.1.saturating_sub(last.1));
            now.0 - last.0 < IDLE_CPU * time && bytes < IDLE_IO * time
        })
    }

    /// Whether no GPU worked since the last look.
    fn gpus_rest(&mut self, record: &NodeRecord, is_hole: bool) -> bool {
        let now_ms = record.updated_at_ms;
        let mut all_rest = true;
        for gpu in &record.gpus {
            let sums = gpu.sums.utilisation;
            let begin = (Rest::begin(now_ms), sums);
            let known = self.gpus.insert(gpu.gpu.uuid.clone(), begin);
            let rests = known.filter(|(_, last)| sums.0 == last.0 && sums.1 > last.1);
            all_rest &= rests.is_some();
            if let Some((rest, _)) = rests.filter(|_| !is_hole) {
                self.gpus.insert(gpu.gpu.uuid.clone(), (rest, sums));
            }
        }
        all_rest
    }

    /// Adds up idle time, and names what is held now. A GPU that was not asked for may be seen by all jobs of its node.
    fn sum_up(&mut self, now_ms: u64, has_gpus: bool) {
        let long_ms = self.policy.shortest() * 60_000;
        let mut held = self.held.sums();
        for (uuid, (rest, _)) in self.gpus.iter_mut().filter(|_| has_gpus) {
            if let Some((since_ms, seconds)) = rest.count(now_ms, long_ms) {
                held.gpu_seconds += seconds;
                held.gpus.insert(uuid.clone(), since_ms);
            }
        }
        let all = self.all.as_mut();
        if let Some((since_ms, seconds)) = all.and_then(|all| all.count(now_ms, long_ms)) {
            held.node_seconds += seconds;
            held.since_ms = Some(since_ms);
        }
        let warning_ms = self.policy.warning_minutes * 60_000;
        held.warns = held
            .longest_since_ms()
            .is_some_and(|since| now_ms.saturating_sub(since) >= warning_ms);
        self.held = held;
    }

    /// Why the run is to be ended: nothing of it worked for as long as the setting lets it.
    fn end_after(&mut self, minutes: u64, now_ms: u64) -> Option<String> {
        let all = self.all.filter(|_| !self.is_ended)?;
        let idle_ms = now_ms.saturating_sub(all.since_ms);
        self.is_ended = idle_ms >= minutes * 60_000;
        let time = display_seconds(seconds_of(idle_ms));
        let gpus = if self.gpus.is_empty() {
            ""
        } else {
            "no GPU and "
        };
        self.is_ended.then(|| {
            format!(
                "it used {gpus}less than 2% of a CPU for {time}: ended by dlrun (`idle.cancel_after_minutes = {minutes}`)"
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::RunId;
    use crate::record::{GpuFacts, GpuUsage, HostFacts, MeasureKey, Missing};

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
        (record.usage.io_read_bytes, record.usage.io_write_bytes) = (Some(0), Some(0));
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
    fn a_gpu_that_has_just_become_idle_hides_no_other() {
        let mut holding = holding(None);
        for minute in 0..=75 {
            // One never worked, the other one for an hour.
            let record = record(minute, 0.0, &[(0, minute), (minute.min(60), minute)]);
            let _ = holding.look(&record, true, true);
            let found = text(&holding, record);
            let expected = match minute {
                0..10 => None,
                10..70 => Some("1 of 2 GPUs (0) held without work for "),
                70.. => Some("2 GPUs held without work for up to 1 h 1"),
            };
            let begins = expected.is_none_or(|expected| {
                let (warns, text) = found.as_ref().expect("held");
                *warns == (minute >= 60) && text.starts_with(expected)
            });
            assert!(
                begins && found.is_some() == expected.is_some(),
                "{minute}: {found:?}"
            );
        }
        let held = holding.known(true).expect("held");
        assert_eq!(held.gpus.values().collect::<Vec<_>>(), [&0, &(60 * MINUTE)]);
    }

    #[test]
    fn work_on_the_cpus_of_a_gpu_job_and_what_is_not_measured_end_nothing() {
        let ended = |change: fn(&mut NodeRecord, u64)| {
            let mut holding = holding(Some(10));
            (0..=60).any(|minute| {
                let mut record = record(minute, 0.0, &[(0, minute)]);
                change(&mut record, minute);
                holding.look(&record, true, true).is_some()
            })
        };
        assert!(ended(|_, _| {}));
        #[expect(clippy::cast_precision_loss, reason = "small")]
        let works =
            ended(|record, minute| record.usage.cpu_user_seconds = Some(minute as f64 * 20.0));
        assert!(!works);
        assert!(!ended(|record, _| record.usage.io_write_bytes = None));
        let unseen = |record: &mut NodeRecord, _| {
            record
                .missing
                .push(Missing::new("ranks", "not seen".to_owned()));
        };
        assert!(!ended(unseen));
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
                .ends_with("ended by dlrun (`idle.cancel_after_minutes = 120`)"),
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
