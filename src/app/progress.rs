//! What a waiting user sees: the environment being made, the job's state, epochs as they finish.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::time::{Duration, Instant, UNIX_EPOCH};

use indicatif::{ProgressBar, ProgressStyle};

use crate::app::output::Output;
use crate::foundation::clock::now_ms;
use crate::foundation::diagnostic::printable;
use crate::foundation::lock::Owner;
use crate::foundation::units::display_seconds;
use crate::image::Progress;
use crate::job::TimingPattern;
use crate::observe::timing::Follower;
use crate::record::{self, Epoch};

/// Lines on standard error, and on a terminal one more that is redrawn.
pub(crate) struct Display {
    output: Output,
    bar: Option<ProgressBar>,
    last: String,
    /// The step of an image that is made now.
    phase: Option<String>,
}

impl Display {
    pub(crate) fn new(output: Output) -> Self {
        let bar = output.lively.then(|| {
            let bar = ProgressBar::new_spinner();
            let style = ProgressStyle::with_template("{spinner} {elapsed} {wide_msg}");
            bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
            bar.enable_steady_tick(Duration::from_millis(120));
            bar
        });
        Self {
            output,
            bar,
            last: String::new(),
            phase: None,
        }
    }

    /// True on a terminal.
    pub(crate) fn is_lively(&self) -> bool {
        self.bar.is_some()
    }

    /// A line that stays.
    pub(crate) fn line(&self, text: &str) {
        match &self.bar {
            Some(bar) => bar.suspend(|| self.output.note(text)),
            None => self.output.note(text),
        }
    }

    /// What happens now: redrawn on a terminal; elsewhere printed where `lasting` and new.
    pub(crate) fn now(&mut self, text: &str, lasting: bool) {
        match &self.bar {
            Some(bar) => bar.set_message(printable(text)),
            None if lasting && text != self.last => self.output.note(text),
            None => {}
        }
        text.clone_into(&mut self.last);
    }

    /// Progress of an environment.
    pub(crate) fn environment(&mut self, progress: &Progress<'_>) {
        match progress {
            Progress::Waiting(owner) => {
                let who = in_brackets(*owner);
                self.now(
                    &format!("another dlrun creates this environment{who}"),
                    true,
                );
            }
            Progress::Phase(phase) => self.now(&format!("environment: {phase}"), true),
            // pip prints hundreds of lines. A terminal shows each for its moment, a log only what takes long.
            Progress::Line(line) => {
                let line = line.split(" (from ").next().unwrap_or(line);
                let lasts = line.starts_with("Collecting") || line.starts_with("Successfully");
                self.now(&format!("environment: {line}"), lasts);
            }
        }
    }

    /// Progress of an image.
    pub(crate) fn image(&mut self, name: &str, progress: &Progress<'_>) {
        match progress {
            Progress::Waiting(owner) => {
                let who = in_brackets(*owner);
                self.now(&format!("{name}: another dlrun makes it{who}"), true);
            }
            Progress::Phase(phase) => {
                let phase = printable(phase);
                self.now(&format!("{name}: {phase}"), true);
                self.phase = Some(phase);
            }
            Progress::Line(line) => {
                let phase = self.phase.as_deref().unwrap_or("starting");
                let text = format!("{name}: {phase} | {}", printable(line));
                self.now(&text, false);
            }
        }
    }
}

/// ` (pid 12 on node3)`, where that is known.
pub(crate) fn in_brackets(owner: Option<&Owner>) -> String {
    owner.map_or_else(String::new, |owner| format!(" ({owner})"))
}

impl Drop for Display {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

/// Follows a job's output from outside and prints epochs as they end.
pub(crate) struct Epochs {
    path: PathBuf,
    offset: u64,
    follower: Option<Follower>,
    reported: u64,
    /// What stood in the output before the first look was not seen as it came, so its times are not known.
    looked: bool,
    /// When a step was shown last, and which: for trainings that count no epochs.
    stepped: Option<(Instant, u64)>,
    buffer: Vec<u8>,
}

/// Time between two lines about steps. Ours: a look at a log of an hour still fits a few screens.
const STEPS_APART: Duration = Duration::from_secs(10);

impl Epochs {
    pub(crate) fn new(path: PathBuf, pattern: Option<&TimingPattern>) -> Self {
        let follower = Follower::new(pattern).ok();
        Self {
            path,
            offset: 0,
            follower,
            reported: 0,
            looked: false,
            stepped: None,
            buffer: vec![0; 64 << 10],
        }
    }

    /// Reads what is new; also whether there was a look before.
    pub(crate) fn read(&mut self) -> Option<(record::Progress, bool)> {
        let follower = self.follower.as_mut()?;
        let is_new = std::mem::replace(&mut self.looked, true);
        let file = File::open(&self.path).ok()?;
        let written_ms = written_ms(&file);
        while let Ok(read @ 1..) = file.read_at(&mut self.buffer, self.offset) {
            self.offset += read as u64;
            follower.feed(&self.buffer[..read], is_new.then_some(written_ms));
        }
        Some((follower.progress(), is_new))
    }

    /// Reads the rest of an output whose program ended with exit code 0.
    pub(crate) fn ended_well(&mut self) {
        self.read();
        if let Some(follower) = &mut self.follower {
            follower.finish(None);
            follower.ended_well();
        }
    }

    /// Reads what is new and prints the epochs that ended, each behind `whose` it is.
    pub(crate) fn print(&mut self, display: &Display, whose: &str) {
        let Some((progress, is_new)) = self.read() else {
            return;
        };
        let new = usize::try_from(progress.epochs_completed - self.reported).unwrap_or(usize::MAX);
        let of = progress
            .epochs_announced
            .map(|of| format!("/{of}"))
            .unwrap_or_default();
        if !is_new && new > 1 {
            // Whoever comes late wants to know how far the training is, not every step to it.
            display.line(&format!(
                "{whose}{new}{of} epochs are over, the last of them:"
            ));
        }
        let shown = if is_new { new } else { new.min(1) };
        for epoch in progress
            .epochs
            .iter()
            .skip(progress.epochs.len().saturating_sub(shown))
        {
            display.line(&format!("{whose}{}", epoch_line(epoch, &of)));
        }
        self.reported = progress.epochs_completed;
        let step = progress
            .last_step
            .and_then(|mark| mark.step)
            .zip(progress.last_step_text());
        if let Some((step, text)) =
            step.filter(|_| progress.epochs_announced.is_none() && self.reported == 0)
            && self
                .stepped
                .is_none_or(|(at, known)| known != step && at.elapsed() >= STEPS_APART)
        {
            display.line(&format!("{whose}{text}{}", metrics(&progress.last_metrics)));
            self.stepped = Some((Instant::now(), step));
        }
    }
}

/// When the file was last written to, Unix milliseconds. Looks are a tenth of a second and more apart, so the times of
/// looks would make epochs that are timed by the clock longer or shorter by as much. Never later than now.
fn written_ms(file: &File) -> u64 {
    let now = now_ms();
    let modified = file
        .metadata()
        .and_then(|metadata| metadata.modified())
        .ok();
    let since = modified.and_then(|modified| modified.duration_since(UNIX_EPOCH).ok());
    since
        .and_then(|since| u64::try_from(since.as_millis()).ok())
        .map_or(now, |written| written.min(now))
}

fn epoch_line(epoch: &Epoch, of: &str) -> String {
    let seconds = epoch
        .seconds()
        .map(|seconds| format!("  {}", display_seconds(seconds)))
        .unwrap_or_default();
    format!(
        "epoch {}{of}{seconds}{}",
        epoch.epoch,
        metrics(&epoch.metrics)
    )
}

/// The first few metrics, behind blanks.
fn metrics(metrics: &BTreeMap<String, f64>) -> String {
    metrics
        .iter()
        .take(4)
        .map(|(name, value)| format!("  {name} {value:.4}"))
        .collect()
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::time::SystemTime;

    use super::*;
    use crate::app::output::Output;

    /// Looks come late, each by another time: what counts is when the lines were written.
    #[test]
    fn epochs_are_timed_by_when_their_lines_were_written() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("out");
        let mut file = File::create(&path).expect("a file");
        let display = Display::new(Output::new(true, "wait"));
        let mut epochs = Epochs::new(path, None);
        epochs.print(&display, "");
        let begin = SystemTime::now() - Duration::from_secs(60);
        for epoch in 1..=3_u64 {
            writeln!(file, "epoch {epoch} loss 0.5").expect("a line");
            file.set_modified(begin + Duration::from_millis(700 * epoch))
                .expect("its time");
            epochs.print(&display, "");
        }
        let progress = epochs.follower.expect("no pattern").progress();
        assert_eq!(progress.epochs_completed, 3);
        assert!(
            progress.epochs[1..]
                .iter()
                .all(|epoch| epoch.clock_seconds == Some(0.7)),
            "{progress:?}"
        );
    }

    #[test]
    fn a_file_of_the_future_was_written_now() {
        let file = tempfile::tempfile().expect("a file");
        file.set_modified(SystemTime::now() + Duration::from_hours(1))
            .expect("its time");
        assert!(written_ms(&file) <= now_ms());
    }
}
