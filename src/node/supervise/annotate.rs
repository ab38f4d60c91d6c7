//! The job's comment says what the run does, where a setting asks for it: phase, epochs and expected end.
//!
//! Another dlrun writes it, which knows schedulers and settings. On a thread, and never more than one: a controller may be slow.

use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use jiff::tz::TimeZone;

use crate::foundation::command::Tool;
use crate::record::{Phase, Progress};

/// Between two comments at least.
const LEAST_PAUSE: Duration = Duration::from_secs(30);
/// How long one may take to be written.
const PATIENCE: Duration = Duration::from_secs(60);
/// After so many failures in turn no more are tried.
const FAILURES: u32 = 5;
/// Expected ends are given to this, in seconds: each minute would be a change.
const STEP_SECONDS: i64 = 300;

/// Writes the comment of one job.
pub(super) struct Annotator {
    /// `None`: it is not to be written, or not any more.
    pause: Option<Duration>,
    due: Instant,
    text: String,
    written: Option<Receiver<bool>>,
    failures: u32,
}

impl Annotator {
    /// `seconds` between two comments; 0: there are none.
    pub(super) fn new(seconds: u64) -> Self {
        let pause = (seconds > 0).then(|| LEAST_PAUSE.max(Duration::from_secs(seconds)));
        Self {
            pause,
            due: Instant::now() + LEAST_PAUSE,
            text: String::new(),
            written: None,
            failures: 0,
        }
    }

    /// When there is something to do; `None`: never.
    pub(super) fn due(&self) -> Option<Instant> {
        self.pause.map(|_| self.due)
    }

    /// Writes what changed.
    pub(super) fn tend(&mut self, progress: &Progress, now: Instant) {
        let Some(pause) = self.pause.filter(|_| now >= self.due) else {
            return;
        };
        self.due = now + pause;
        match self.written.as_ref().map(Receiver::try_recv) {
            Some(Err(TryRecvError::Empty)) => return,
            Some(Ok(true)) => self.failures = 0,
            // A comment of the user's, or one that could not be written: the thread's sender is gone.
            Some(Ok(false)) => self.pause = None,
            Some(Err(TryRecvError::Disconnected)) => {
                self.failures += 1;
                self.text.clear();
            }
            None => {}
        }
        self.written = None;
        if self.failures >= FAILURES {
            self.pause = None;
        }
        let text = comment(progress);
        if self.pause.is_none() || text == self.text {
            return;
        }
        self.text.clone_from(&text);
        let (sender, receiver) = channel();
        let write = move || {
            let tool = Tool::new("/proc/self/exe").args(["exec", "--comment", &text]);
            let code = tool.timeout(PATIENCE).run().ok()?.status.code()?;
            match code {
                0 => sender.send(true).ok(),
                77 => sender.send(false).ok(),
                _ => None,
            }
        };
        let thread = std::thread::Builder::new();
        self.written = thread
            .spawn(move || write().unwrap_or_default())
            .ok()
            .map(|_| receiver);
    }
}

/// `dlrun: training, 12 of 50 epochs, ends about 2026-11-20 14:05`.
fn comment(progress: &Progress) -> String {
    let activity = progress.activity.as_ref();
    let phase = activity.and_then(|activity| activity.phase);
    let phase = phase.filter(|phase| *phase != Phase::Unknown);
    let phase = phase.map(|phase| phase.as_str().replace('_', " "));
    let epochs = (progress.epochs_done() > 0).then(|| {
        let of = progress.epochs_announced;
        let of = of.map_or_else(String::new, |all| format!(" of {all}"));
        format!("{}{of} epochs", progress.epochs_done())
    });
    let end = progress.expected_end.and_then(|end| {
        let seconds = i64::try_from(end.at_ms / 1000).ok()?;
        let rounded = (seconds + STEP_SECONDS / 2) / STEP_SECONDS * STEP_SECONDS;
        let time = Timestamp::from_second(rounded).ok()?;
        let time = time.to_zoned(TimeZone::system());
        Some(format!("ends about {}", time.strftime("%Y-%m-%d %H:%M")))
    });
    let parts: Vec<String> = phase.into_iter().chain(epochs).chain(end).collect();
    match parts.is_empty() {
        true => "dlrun: running".to_owned(),
        false => format!("dlrun: {}", parts.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::ExpectedEnd;

    #[test]
    fn comment_changes_with_epochs_and_not_with_each_look_at_the_end() {
        assert_eq!(comment(&Progress::default()), "dlrun: running");
        let at = |epochs, at_ms| {
            comment(&Progress {
                epochs_announced: Some(50),
                epochs_completed: epochs,
                expected_end: Some(ExpectedEnd {
                    at_ms,
                    earliest_ms: at_ms,
                    latest_ms: at_ms,
                }),
                ..Progress::default()
            })
        };
        let text = at(12, 1_800_000_000_000);
        assert!(
            text.starts_with("dlrun: 12 of 50 epochs, ends about 2027-01-1"),
            "{text}"
        );
        assert_eq!(text, at(12, 1_800_000_070_000));
        assert_ne!(text, at(13, 1_800_000_000_000));
        assert_ne!(text, at(12, 1_800_000_300_000));
    }

    #[test]
    fn without_the_setting_nothing_is_ever_due() {
        assert_eq!(Annotator::new(0).due(), None);
        assert!(Annotator::new(1).due().is_some());
    }
}
