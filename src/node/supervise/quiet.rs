//! Programs that seem to hang: no output and no event for much longer than ever before, and no work meanwhile.
//!
//! A program that waits busily, as NCCL's do, works: its silence is no proof, so it is noted, and nothing follows from it.

use std::time::{Duration, Instant};

use crate::foundation::units::display_seconds;
use crate::record::{EventKind, NodeRecord};

/// A silence is no sign of anything before this.
const SHORTEST: Duration = Duration::from_secs(600);
/// Nor before so many times the longest pause so far.
const LONGER: u32 = 10;
/// A rhythm is known after so many pauses.
const PAUSES: u32 = 5;
/// CPU time of a second that is no work: threads that look at a clock, in seconds.
pub(super) const IDLE_CPU: f64 = 0.02;

/// What is known of a program's silences.
pub(super) struct Quiet {
    /// How long the user takes a silence for a hang; `None`: by the rhythm.
    after: Option<Duration>,
    heard: u64,
    since: Instant,
    longest: Duration,
    pauses: u32,
    /// Work at the first look into this silence: CPU time and sums of the GPUs' utilisation.
    work: Option<(Instant, f64, (u64, u64))>,
    is_reported: bool,
    /// Whether it was noted that it works and is silent.
    is_noted: bool,
    /// The last look, and the longest time between two: after a longer one the job was suspended, or the node was.
    looked: Instant,
    pause: Duration,
}

impl Quiet {
    /// `pause`: between two looks at most.
    pub(super) fn new(after: Option<Duration>, pause: Duration) -> Self {
        Self {
            after,
            heard: 0,
            since: Instant::now(),
            longest: Duration::ZERO,
            pauses: 0,
            work: None,
            is_reported: false,
            is_noted: false,
            looked: Instant::now(),
            pause,
        }
    }

    /// Notes how much the program has written and reported up to now, in bytes. True where it had seemed to hang.
    pub(super) fn hear(&mut self, heard: u64, now: Instant) -> bool {
        if heard == self.heard {
            return false;
        }
        let is_over = self.is_reported;
        // What comes before the first output is the start-up.
        if self.heard > 0 {
            self.longest = self.longest.max(now.saturating_duration_since(self.since));
            self.pauses = self.pauses.saturating_add(1);
        }
        (self.heard, self.since, self.work) = (heard, now, None);
        (self.is_reported, self.is_noted) = (false, false);
        is_over
    }

    /// The former watcher reported a hang.
    pub(super) fn take_over(&mut self, is_reported: bool) {
        self.is_reported = is_reported;
    }

    /// How long nothing has been printed.
    pub(super) fn silent(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.since)
    }

    /// Looks whether the program seems to hang, or is silent for as long while it works (a note); says so once in each silence.
    pub(super) fn look(
        &mut self,
        record: &NodeRecord,
        now: Instant,
    ) -> Option<(EventKind, String)> {
        let last = std::mem::replace(&mut self.looked, now);
        if now.saturating_duration_since(last) > 2 * self.pause {
            (self.since, self.work) = (now, None);
        }
        let silent = self.silent(now);
        let cpu = record.usage.cpu_seconds()?;
        let gpus = record.gpus.iter().map(|gpu| gpu.sums.utilisation);
        let gpus = gpus.fold((0, 0), |all, one| (all.0 + one.0, all.1 + one.1));
        let (from, cpu_before, gpus_before) = *self.work.get_or_insert((now, cpu, gpus));
        let limit = match self.after {
            Some(after) => after,
            None if self.pauses < PAUSES => return None,
            None => SHORTEST.max(self.longest * LONGER),
        };
        let seen = now.saturating_duration_since(from);
        if self.is_reported || silent < limit || seen < limit / 2 {
            return None;
        }
        let works = cpu - cpu_before > IDLE_CPU * seen.as_secs_f64() || gpus.0 != gpus_before.0;
        // Of GPUs that do not answer nothing is known.
        let is_blind = !record.gpus.is_empty() && gpus.1 == gpus_before.1;
        let text = |time: Duration| display_seconds(time.as_secs_f64());
        let (silent, longest) = (text(silent), text(self.longest));
        if is_blind || works && std::mem::replace(&mut self.is_noted, true) {
            return None;
        }
        if works {
            let note = format!(
                "no output for {silent}, although it works (its longest pause before: {longest}): it may wait busily, as NCCL does for a \
                 rank that hangs"
            );
            return Some((EventKind::Note, note));
        }
        self.is_reported = true;
        let seen = text(seen);
        let hang = format!(
            "no output for {silent} and no work for {seen}: it seems to hang (its longest pause before: {longest})"
        );
        Some((EventKind::Hang, hang))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::RunId;
    use crate::record::{HostFacts, MeasureKey};

    fn record(cpu_seconds: f64) -> NodeRecord {
        let key = MeasureKey {
            run_id: RunId::from_random([0; 10]),
            element: 0,
            attempt: 0,
            node: "n".into(),
            step: 0,
        };
        let mut record = NodeRecord::begun(key, None, 0, HostFacts::default());
        record.usage.cpu_user_seconds = Some(cpu_seconds);
        record.usage.cpu_system_seconds = Some(0.0);
        record
    }

    /// Looks every minute of a silence after ten outputs a minute apart; `work` is the CPU time of a second.
    fn first_report(after: Option<Duration>, outputs: u64, work: f64) -> Option<(EventKind, u64)> {
        let (mut quiet, begin) = (Quiet::new(after, Duration::from_secs(3600)), Instant::now());
        let at = |minute: u64| begin + Duration::from_secs(60 * minute);
        for minute in 1..=outputs {
            quiet.hear(minute, at(minute));
        }
        let reports: Vec<(EventKind, u64)> = (0..60)
            .filter_map(|minute| {
                let now = at(outputs + minute);
                #[expect(clippy::cast_precision_loss, reason = "small")]
                let cpu = minute as f64 * 60.0 * work;
                let (kind, _) = quiet.look(&record(cpu), now)?;
                Some((kind, minute))
            })
            .collect();
        assert!(reports.len() <= 1, "{reports:?}");
        reports.first().copied()
    }

    #[test]
    fn only_a_long_silence_without_work_is_reported_and_once() {
        let hang = |minute| Some((EventKind::Hang, minute));
        assert_eq!(first_report(None, 10, 0.0), hang(10));
        let busy = first_report(None, 10, 0.9);
        assert_eq!(busy, Some((EventKind::Note, 10)), "it works");
        assert_eq!(first_report(None, 3, 0.0), None, "its rhythm is not known");
        assert_eq!(
            first_report(Some(Duration::from_secs(180)), 3, 0.001),
            hang(3)
        );
    }
}
