//! The rhythm and the phases of the run as the watcher sees them: analysed seldom, so that it costs next to nothing.

use std::time::{Duration, Instant};

use crate::observe::activity::{Facts, Signals, analyse};
use crate::record::{Activity, NodeRecord, Sample};

/// Between two analyses at least.
const PAUSE: Duration = Duration::from_secs(30);
/// And so many times as long as the last one took: a five-hundredth of a core.
const REST: u32 = 500;

/// What was seen so far.
pub(super) struct Seen {
    /// `None`: not all samples went through this watcher.
    signals: Option<Signals>,
    activity: Option<Activity>,
    due: Instant,
}

impl Seen {
    /// Of a watcher that takes over nothing: the samples of the one before are in the run's directory, and who looks reads them.
    pub(super) fn new(takes_over: bool) -> Self {
        Self {
            signals: (!takes_over).then(Signals::default),
            activity: None,
            due: Instant::now() + PAUSE,
        }
    }

    pub(super) fn take(&mut self, sample: &Sample) {
        if let Some(signals) = &mut self.signals {
            signals.take(sample);
        }
    }

    pub(super) fn is_due(&self, now: Instant) -> bool {
        self.signals.is_some() && now >= self.due
    }

    /// Analyses all samples up to now; `record` is as of now.
    pub(super) fn analyse(&mut self, record: &NodeRecord) {
        let begun = Instant::now();
        let found = self
            .signals
            .as_ref()
            .and_then(|signals| analyse(signals, &Facts::of(record)));
        self.activity = found.map(|found| found.activity);
        self.due = Instant::now() + PAUSE.max(begun.elapsed() * REST);
    }

    /// What came of the last analysis.
    pub(super) fn known(&self) -> Option<Activity> {
        self.activity.clone()
    }
}
