//! What was measured so far, by the watcher and by the node daemon, as one.

use super::handover::Ended;
use super::writer::Resumed;
use crate::foundation::clock::now_ms;
use crate::observe::protocol::Measured;
use crate::record::{
    Event, EventKind, Gap, GpuFacts, Missing, NodeRecord, Sample, Usage, add_gpu_readings, add_new,
};

/// Events that the watcher itself keeps; the oldest go first. A daemon that comes and goes all day must not fill the
/// record.
const MAX_EVENTS: usize = 128;

/// The sums. What the daemon reports replaces its last report, and is added to the watcher's own.
#[derive(Default)]
pub(super) struct Account {
    started_at_ms: u64,
    /// What this watcher measured itself, or took over; its CPU time is that of daemons whose count is over.
    own: Measured,
    /// The most memory that was resident in a sample of its own, file pages too, in bytes.
    resident_peak_bytes: Option<u64>,
    /// The daemon's last report.
    measured: Measured,
    /// From a watcher that was killed to this one, unless the daemon watched on.
    takeover: Option<Gap>,
    /// The counts of the killed watcher hold the daemon's.
    holds_daemons_counts: bool,
    /// What the daemon has and did not hand over yet.
    owed: Option<Gap>,
}

/// Less than this may be of the process that started the command, whose size the kernel counts too, in bytes.
const LEAST_MISSED: u64 = 64 << 20;

impl Account {
    pub(super) fn starting(started_at_ms: u64) -> Self {
        Self {
            started_at_ms,
            ..Self::default()
        }
    }

    /// Goes on where a killed watcher ended; `from_ms` is the last sample that it left.
    pub(super) fn take_over(&mut self, former: Option<&Resumed>) {
        // What was resident in the samples of the former watcher is not known.
        self.resident_peak_bytes = former.map(|_| u64::MAX);
        // What the former watcher had read and not yet written is lost with it.
        let last_ms = former.and_then(|former| former.times.last().copied());
        let from_ms = last_ms.unwrap_or(self.started_at_ms);
        if let Some(record) = former.map(|former| former.record.clone()) {
            self.own = Measured {
                usage: record.usage,
                gpus: record.gpus,
                gaps: record.gaps,
                events: record.events,
                samples: record.watcher.samples,
                late_ticks: record.watcher.late_ticks,
                ..Measured::default()
            };
            self.measured.cgroup = record.cgroup;
        }
        let why = "the watcher was killed and started again";
        self.takeover = Some(Gap::new(from_ms, now_ms(), why));
    }

    /// True for a watcher that took over from a killed one and does not know yet whether the daemon watched on.
    pub(super) fn is_taken_over(&self) -> bool {
        self.takeover.is_some()
    }

    /// The daemon watched on while the watcher was dead: there is no hole.
    pub(super) fn nothing_was_missed(&mut self) {
        self.takeover = None;
        self.holds_daemons_counts = true;
    }

    /// The run's directory has samples of these times, which are in order; between two of one series lies `slack_ms` at most.
    /// A killed watcher noted a hole before it could ask the daemon: where the daemon read, there is none.
    pub(super) fn has_samples(&mut self, times: impl IntoIterator<Item = u64>, slack_ms: u64) {
        let times: Vec<u64> = times.into_iter().collect();
        self.own.gaps.retain_mut(|gap| {
            let from_ms = gap.from_ms;
            for at in &times {
                let next = gap.from_ms..=gap.from_ms.saturating_add(slack_ms);
                if next.contains(at) && *at < gap.to_ms {
                    gap.from_ms = *at;
                }
            }
            gap.from_ms == from_ms || gap.to_ms.saturating_sub(gap.from_ms) > slack_ms
        });
    }

    /// Takes in a sample of the watcher's own.
    pub(super) fn add(&mut self, sample: &Sample, facts: &[GpuFacts]) {
        self.own.samples += 1;
        self.own.usage.add_sample(sample, self.started_at_ms);
        self.resident_peak_bytes = self.resident_peak_bytes.max(sample.mem_rss_bytes);
        add_gpu_readings(&mut self.own.gpus, sample, |uuid| {
            facts.iter().find(|facts| facts.uuid == uuid).cloned()
        });
    }

    /// Takes in the most memory that one process held.
    pub(super) fn note_process_peak(&mut self, bytes: Option<u64>) {
        self.own.usage.note_process_peak(bytes);
    }

    /// Takes in what the daemon measured.
    pub(super) fn take(&mut self, mut measured: Measured) {
        // The watcher looks at the clock itself.
        measured
            .events
            .retain(|event| event.kind != EventKind::ClockJump);
        if std::mem::take(&mut self.holds_daemons_counts) {
            self.own.samples = self.own.samples.saturating_sub(measured.samples);
            self.own.late_ticks = self.own.late_ticks.saturating_sub(measured.late_ticks);
        }
        self.own.usage.add_view(&measured.usage);
        // The daemon continues from the figures that it was given on registering.
        if !measured.gpus.is_empty() {
            self.own.gpus = std::mem::take(&mut measured.gpus);
        }
        self.measured = measured;
    }

    /// The daemon that takes the run knows nothing of what was measured before: that becomes the watcher's own.
    pub(super) fn forget_daemon(&mut self) {
        let measured = std::mem::take(&mut self.measured);
        add_new(&mut self.own.gaps, &measured.gaps);
        add_new(&mut self.own.missing, &measured.missing);
        add_new(&mut self.own.events, &measured.events);
        self.own.gaps.extend(self.owed.take());
        self.own.samples += measured.samples;
        self.own.late_ticks += measured.late_ticks;
        self.own.cpu_us += measured.cpu_us;
        self.measured.cgroup = measured.cgroup;
    }

    pub(super) fn note(&mut self, kind: EventKind, detail: String) {
        self.note_at(Event {
            at_ms: now_ms(),
            kind,
            detail,
        });
    }

    /// When the wall clock was set, as far as that was noticed.
    pub(super) fn clock_steps(&self) -> impl Iterator<Item = u64> {
        self.own
            .events
            .iter()
            .filter(|event| event.kind == EventKind::ClockJump)
            .map(|event| event.at_ms)
    }

    pub(super) fn note_at(&mut self, event: Event) {
        let events = &mut self.own.events;
        if events.len() >= MAX_EVENTS {
            let is_minor = |event: &Event| event.kind != EventKind::ClockJump;
            let place = events.iter().position(is_minor);
            events.remove(place.unwrap_or(0));
        }
        events.push(event);
    }

    /// The daemon holds samples from `from_ms` to now that are not in the run's directory.
    pub(super) fn is_owed(&mut self, from_ms: u64) {
        let why = "dlrund was lost before it handed over what it measured";
        let from_ms = self.owed.as_ref().map_or(from_ms, |owed| owed.from_ms);
        self.owed = Some(Gap::new(from_ms, now_ms(), why));
    }

    /// The daemon handed all over.
    pub(super) fn is_settled(&mut self) {
        self.owed = None;
    }

    /// Something will be missing in the record.
    pub(super) fn lacks(&mut self, what: &str, why: impl Into<String>) {
        self.own.missing.push(Missing::new(what, why));
    }

    /// A daemon without privileges may not read the I/O of other users' processes.
    pub(super) fn lacks_io(&self) -> bool {
        let mut missing = self.measured.missing.iter();
        missing.any(|missing| missing.what == "io_write_bytes")
    }

    /// Takes the I/O of the whole run from a reading of the watcher's own: their owner may read it.
    pub(super) fn complete_io(&mut self, last: &Sample) {
        self.own.usage.add_view(&Usage {
            io_read_bytes: last.io_read_bytes,
            io_write_bytes: last.io_write_bytes,
            ..Usage::default()
        });
    }

    /// What was missed by the daemon, and what the watcher could not get from it.
    pub(super) fn missing(&self) -> Vec<Missing> {
        let mut missing = self.own.missing.clone();
        missing.extend(self.measured.missing.iter().cloned());
        missing
    }

    /// The kernel's sums over the whole family count what no sample saw, and the end is known exactly.
    pub(super) fn close(&mut self, ended: &Ended) {
        let wall_ms = ended.ended_at_ms.saturating_sub(self.started_at_ms);
        self.own
            .usage
            .add_family(wall_ms, ended.cpu_user_us, ended.cpu_system_us);
        self.add_missed_peak(ended.mem_peak_bytes);
    }

    /// A process may have held more between two samples, by so much more than all processes together in any of them. Samples of a
    /// cgroup leave file pages out, the kernel's peak of a process does not.
    fn add_missed_peak(&mut self, peak: Option<u64>) {
        let usage = &mut self.own.usage;
        let Some((peak, seen)) = peak.zip(self.resident_peak_bytes) else {
            return;
        };
        let missed = peak.saturating_sub(seen);
        if missed >= LEAST_MISSED {
            let with_missed = usage.mem_peak_bytes.unwrap_or(0) + missed;
            usage.note_process_peak(Some(with_missed.min(peak)));
        }
    }

    /// Writes the sums into a record whose watcher counts are those of this process.
    pub(super) fn fill(&self, record: &mut NodeRecord) {
        record.usage = self.own.usage;
        record.gpus.clone_from(&self.own.gpus);
        // The daemon's where it reads; it looks from outside, where a container hides nothing.
        if self.measured.cgroup.is_some() {
            record.cgroup.clone_from(&self.measured.cgroup);
        }
        record.gaps.clone_from(&self.own.gaps);
        record
            .gaps
            .extend(self.takeover.iter().chain(&self.owed).cloned());
        add_new(&mut record.gaps, &self.measured.gaps);
        record.events.clone_from(&self.own.events);
        add_new(&mut record.events, &self.measured.events);
        record.events.sort_by_key(|event| event.at_ms);
        record.watcher.samples += self.own.samples + self.measured.samples;
        record.watcher.late_ticks += self.own.late_ticks + self.measured.late_ticks;
        record.watcher.cpu_us += self.own.cpu_us + self.measured.cpu_us;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_between_two_samples_is_in_the_peak() {
        let peak = |seen: u64, of_process: u64| {
            let mut account = Account::starting(0);
            let sample = Sample {
                mem_rss_bytes: Some(seen),
                // Without file pages.
                mem_anon_bytes: Some(seen - 4),
                ..Sample::default()
            };
            account.add(&sample, &[]);
            account.add_missed_peak(Some(of_process));
            account.own.usage.mem_peak_bytes
        };
        assert_eq!(peak(10 << 20, 400 << 20), Some((400 << 20) - 4));
        assert_eq!(peak(10 << 20, 40 << 20), Some((10 << 20) - 4));
        assert_eq!(peak(10, 8), Some(6), "several processes held more together");
    }

    fn with_gaps(gaps: &[(u64, u64)]) -> Account {
        let why = "the watcher was killed and started again".to_owned();
        let gap = |(from_ms, to_ms): &(u64, u64)| Gap {
            from_ms: *from_ms,
            to_ms: *to_ms,
            why: why.clone(),
        };
        let gaps = gaps.iter().map(gap).collect();
        let mut account = Account::starting(0);
        account.own.gaps = gaps;
        account
    }

    fn left(account: &Account) -> Vec<(u64, u64)> {
        account
            .own
            .gaps
            .iter()
            .map(|gap| (gap.from_ms, gap.to_ms))
            .collect()
    }

    #[test]
    fn gap_in_which_the_daemon_read_is_none_also_where_its_samples_come_in_pieces() {
        let mut account = with_gaps(&[(1000, 7100)]);
        account.has_samples([1000, 2000, 3000], 2000);
        assert_eq!(left(&account), [(3000, 7100)]);
        account.has_samples([4000, 5000, 6000, 7000, 8000], 2000);
        assert_eq!(left(&account), []);
    }

    #[test]
    fn gap_without_samples_in_it_stays() {
        let mut account = with_gaps(&[(1000, 2500), (5000, 9000)]);
        // Before, at its edges and after it, and a single one far from the others.
        account.has_samples([500, 1000, 2500, 3500, 5000, 8000, 9000], 2000);
        assert_eq!(left(&account), [(1000, 2500), (5000, 9000)]);
    }
}
