//! The epoch that runs, and when it began.

use std::collections::BTreeMap;
use std::time::Duration;

use super::pace::seconds_between;

/// The longest first step that is believed, in seconds. Ours: compilers take minutes.
const MAX_FIRST_STEP: f64 = 3600.0;

/// The epoch that runs.
#[derive(Debug, Default)]
pub(super) struct Open {
    pub(super) epoch: u64,
    /// When it began, and whether that is only when its first line came.
    pub(super) began_ms: Option<u64>,
    pub(super) began_with_line: bool,
    /// The time of the step before that line, where the line has it.
    pub(super) first_step_ms: u64,
    /// When the epoch before ended, where that is known.
    pub(super) after_ms: Option<u64>,
    /// Lines that spoke of it, and whether one was a step.
    pub(super) lines: u64,
    pub(super) stepped: bool,
    /// Whether an evaluation came between the epoch before and this one.
    pub(super) after_evaluation: bool,
    /// Whether its first line was of no step, or of a later one than the first.
    pub(super) began_late: bool,
    pub(super) last_line_ms: Option<u64>,
    pub(super) metrics: BTreeMap<String, f64>,
}

impl Open {
    /// Its first line is of a step, which took so long where the line says it.
    pub(super) fn first_line_is_step(&mut self, step: u64, took: Option<f64>, at_ms: Option<u64>) {
        self.began_late = step > 1;
        let took = took.filter(|took| step <= 1 && (0.0..MAX_FIRST_STEP).contains(took));
        // Before it came an evaluation, which is no part of the epoch.
        let is_from_end = self.began_ms == self.after_ms;
        let begins = self.after_evaluation && is_from_end && (took.is_some() || step == 0);
        if begins {
            self.began_ms = at_ms;
        }
        // The line came when the step was over.
        let took = took.filter(|_| self.began_with_line || begins);
        let took = Duration::from_secs_f64(took.unwrap_or(0.0));
        self.first_step_ms = u64::try_from(took.as_millis()).unwrap_or(0);
    }

    /// A line spoke of it; `stepped`: as of a step.
    pub(super) fn count_line(&mut self, stepped: bool, at_ms: Option<u64>) {
        self.began_late |= self.lines == 0 && !stepped;
        self.lines += 1;
        self.stepped |= stepped;
        self.last_line_ms = at_ms;
    }

    /// When it began, now that it has ended.
    pub(super) fn began_before(&self, ended_ms: Option<u64>) -> Option<u64> {
        // A line with the figures of an epoch, or of a later step than its first, says nothing of when the epoch began.
        let is_unknown = self.began_with_line && (self.lines <= 1 || self.began_late);
        let began_ms = self.began_ms.filter(|_| !is_unknown);
        // Its head may have been held back by a buffer until its end came: then it began where the one before ended.
        if began_ms == ended_ms {
            return self.after_ms;
        }
        began_ms.map(|ms| ms.saturating_sub(self.first_step_ms))
    }
}

/// The last epoch that is over.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ended {
    pub(super) epoch: u64,
    pub(super) began_ms: Option<u64>,
    /// When its last line was seen; `None` too where other epochs ended in the same reading.
    pub(super) at_ms: Option<u64>,
}

/// How long an epoch took by the clock. Where its beginning and its end were read at one go the clock cannot tell, nor
/// where it runs a second and more short of the `printed` seconds: then a buffer held the beginning back.
pub(super) fn clock_seconds(
    began_ms: Option<u64>,
    ended_ms: Option<u64>,
    printed: Option<f64>,
) -> Option<f64> {
    let (from, to) = began_ms.zip(ended_ms).filter(|(from, to)| from != to)?;
    seconds_between(from, to).filter(|clock| printed.is_none_or(|printed| *clock > printed - 1.0))
}
