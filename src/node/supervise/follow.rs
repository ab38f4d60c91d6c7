//! Reads the output behind the command: epochs and steps out of it, and the echo where it is no file of the job.

use std::borrow::Cow;
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::time::{Duration, Instant};

use nix::sys::inotify::{AddWatchFlags, Inotify};

use super::ask_to_stop::wait_to_pass_on;
use super::container::Judge;
use super::events::EventFile;
use super::handover::Handover;
use super::output::{Reader, notices_of};
use crate::foundation::units::Bytes;
use crate::observe::timing::Follower;
use crate::record::{ExitStatus, LAST_WORDS_BYTES, Missing, Progress, last_words};

/// Shortest time between two reads: a progress bar that redraws a thousand times a second must not keep us awake.
pub(super) const SPACING: Duration = Duration::from_millis(20);
/// Bytes read at one go before the watcher looks at its clock again, and how long that may take: samples are due meanwhile.
const PORTION: usize = 4 << 20;
const PORTION_TIME: Duration = Duration::from_millis(100);

/// The command's output under watch.
pub(super) struct Followed {
    /// Made when something is to be read: what a short command costs is most of all this.
    follower: Option<Follower>,
    reader: Option<Reader>,
    changes: Option<Inotify>,
    /// The kernel was asked to say when the output grows.
    listens: bool,
    judge: Option<Judge>,
    /// The end of the output.
    tail: Vec<u8>,
    events: Option<EventFile>,
    echo: bool,
    last_read: Instant,
    missing: Vec<Missing>,
    /// Bytes in which nothing was looked for: the command has ended, and time is up.
    unheard: u64,
    until: Option<Instant>,
    /// The last portion was not all that there was.
    has_more: bool,
}

impl Followed {
    /// Opens the output. What is in it already (a watcher that takes over) is read without times.
    pub(super) fn open(handover: &Handover) -> Self {
        let plan = handover.context.plan.as_ref();
        let pattern = plan.and_then(|plan| plan.timing.as_ref());
        let output = handover.output.as_ref();
        let mut missing = Vec::new();
        let follower = pattern.and_then(|pattern| {
            let made = Follower::new(Some(pattern));
            made.map_err(|error| missing.push(Missing::new("timing", error.to_string())))
                .ok()
        });
        // What only echoes is a file of the run's own.
        let is_shared = !handover.echo && plan.is_some_and(|plan| !plan.has_own_output());
        let opened = match output {
            None => Err("the output is no file that dlrun can read".to_owned()),
            Some(_) if is_shared => Err(
                "other jobs may write to the output file; put `%j` into `run.output`".to_owned(),
            ),
            Some(output) => Reader::open(&output.path, output.offset)
                .map_err(|error| format!("the output cannot be read: {error}")),
        };
        let reader = opened
            .map_err(|why| missing.push(Missing::new("timing", why)))
            .ok();
        let judge = handover
            .is_runtime
            .then(|| Judge::new(handover.command.pid));
        let events = handover
            .events
            .as_deref()
            .and_then(|path| EventFile::open(path, handover.resumes).ok());
        // The answer is a file beside that of the events.
        wait_to_pass_on(handover);
        let last_read = Instant::now();
        let mut followed = Self {
            follower,
            reader,
            changes: None,
            listens: false,
            judge,
            tail: Vec::new(),
            events,
            echo: false,
            last_read,
            missing,
            unheard: 0,
            until: None,
            has_more: false,
        };
        if handover.resumes {
            while followed.portion(None) > 0 {}
        }
        followed.echo = handover.echo;
        followed
    }

    /// Has the kernel say when the output or the file of events grows. Not from the beginning: to give such a descriptor back
    /// takes the kernel some 15 ms, which short commands would wait for.
    pub(super) fn listen(&mut self, output: Option<&Path>) {
        if std::mem::replace(&mut self.listens, true) {
            return;
        }
        self.changes = output
            .filter(|_| self.reader.is_some())
            .and_then(|path| notices_of(path, AddWatchFlags::IN_MODIFY));
        if let Some(events) = &mut self.events {
            events.listen();
        }
        // What was written before is read without notice.
        self.has_more = true;
    }

    /// Descriptors that are readable when the output or the file of events has grown.
    pub(super) fn changes(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let output = self.changes.as_ref().map(|changes| changes.as_fd());
        output
            .into_iter()
            .chain(self.events.as_ref().and_then(EventFile::changes))
    }

    /// True where something is read and nobody reports that it grows.
    pub(super) fn is_unannounced(&self) -> bool {
        let untold = self
            .events
            .as_ref()
            .is_some_and(|events| events.changes().is_none());
        untold || (self.reader.is_some() && self.changes.is_none())
    }

    /// True where more is there to be read at once.
    pub(super) fn is_behind(&self) -> bool {
        self.has_more || self.events.as_ref().is_some_and(EventFile::is_behind)
    }

    /// When the next read may come.
    pub(super) fn not_before(&self) -> Instant {
        self.last_read + SPACING
    }

    /// Reads what is new, at most a portion. A look that nothing announced holds up none that is.
    pub(super) fn read(&mut self, now_ms: u64, has_grown: bool) {
        if let Some(changes) = &self.changes {
            let _ = changes.read_events();
        }
        self.portion(Some(now_ms));
        if let Some(events) = &mut self.events {
            events.read(now_ms);
        }
        if has_grown || self.is_behind() {
            self.last_read = Instant::now();
        }
    }

    /// Reads all that is left; the command has ended. After `until` nothing is recognised any more: the job waits, and the record
    /// must be written.
    pub(super) fn finish(&mut self, now_ms: u64, until: Instant) {
        self.until = Some(until);
        while self.portion(Some(now_ms)) > 0 {}
        if self.unheard > 0 {
            let (all, unheard) = (
                Bytes(self.reader.as_ref().map_or(0, Reader::offset)),
                Bytes(self.unheard),
            );
            let why = format!(
                "it was written faster than read: the last {unheard} of {all} are not in it"
            );
            self.missing.push(Missing::new("timing", why));
        }
        if let Some(follower) = &mut self.follower {
            follower.finish(Some(now_ms));
        }
        if let Some(events) = &mut self.events {
            events.finish(now_ms);
        }
    }

    /// The command ended well; all was read before.
    pub(super) fn ended_well(&mut self) {
        if let Some(follower) = &mut self.follower {
            follower.ended_well();
        }
    }

    fn portion(&mut self, at_ms: Option<u64>) -> usize {
        let mut total = 0;
        let begun = Instant::now();
        self.has_more = true;
        while total < PORTION && begun.elapsed() < PORTION_TIME {
            let Some(reader) = &mut self.reader else {
                self.has_more = false;
                break;
            };
            match reader.read() {
                Ok([]) => {
                    self.has_more = false;
                    break;
                }
                Ok(bytes) => {
                    total += bytes.len();
                    if self.until.is_some_and(|until| Instant::now() >= until) {
                        self.unheard += bytes.len() as u64;
                    } else {
                        let follower = self.follower.get_or_insert_with(built_in);
                        follower.feed(bytes, at_ms);
                    }
                    keep_end(&mut self.tail, bytes);
                    if let Some(judge) = &mut self.judge {
                        judge.hear(bytes);
                    }
                    if self.echo
                        && io::stdout()
                            .write_all(bytes)
                            .and_then(|()| io::stdout().flush())
                            .is_err()
                    {
                        self.echo = false;
                    }
                }
                Err(error) => {
                    self.missing.push(Missing::new(
                        "timing",
                        format!("the output cannot be read any more: {error}"),
                    ));
                    self.reader = None;
                }
            }
        }
        total
    }

    /// How much was read of the output and of events, in bytes.
    pub(super) fn heard(&self) -> u64 {
        let events = self.events.as_ref().map_or(0, EventFile::offset);
        self.reader.as_ref().map_or(0, Reader::offset) + events
    }

    /// Why the container did not start, where it did not. All of the output was read before.
    pub(super) fn container_failure(&mut self, exit: ExitStatus) -> Option<String> {
        self.judge.as_mut()?.failure(exit)
    }

    /// What the command said last, where it failed.
    pub(super) fn last_words(&self, exit: ExitStatus) -> Vec<String> {
        if exit.is_success() {
            Vec::new()
        } else {
            last_words(&self.tail, exit)
        }
    }

    /// The end of the output.
    pub(super) fn tail(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(&self.tail)
    }

    /// What was recognised; what the program reports as events wins.
    pub(super) fn progress(&self) -> Progress {
        let progress = (self.follower.as_ref()).map_or_else(Progress::default, Follower::progress);
        match &self.events {
            Some(events) => events.over(progress),
            None => progress,
        }
    }

    pub(super) fn missing(&self) -> impl Iterator<Item = Missing> {
        let of_events = self.events.iter().flat_map(EventFile::missing);
        self.missing.iter().cloned().chain(of_events)
    }
}

fn built_in() -> Follower {
    Follower::new(None).unwrap_or_else(|_| unreachable!("the built-in recognisers need no pattern"))
}

/// Adds to the end of an output, of which no more than twice [`LAST_WORDS_BYTES`] are held.
fn keep_end(tail: &mut Vec<u8>, bytes: &[u8]) {
    tail.extend_from_slice(&bytes[bytes.len().saturating_sub(LAST_WORDS_BYTES)..]);
    if tail.len() > 2 * LAST_WORDS_BYTES {
        tail.drain(..tail.len() - LAST_WORDS_BYTES);
    }
}
