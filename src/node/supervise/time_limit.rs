//! What the supervisor does when the time of a run that may continue is nearly up: the program is asked to save its work, and ended
//! once a new checkpoint is complete, so that the batch script can still see to the run's next start.
//!
//! The signal goes to processes that handle it and to none below them: it would kill all others, such as the shell of a
//! script or torchrun's agent. What the scheduler sends itself may come a minute early (Slurm's `--signal`) or never (PBS).

use std::path::PathBuf;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::context::Context;
use super::events;
use super::signals::is_in_set;
use super::step::{family_of, name_of};
use crate::foundation::clock::now_ms;
use crate::job::SaveSignal;
use crate::observe::checkpoint::Checkpoints;
use crate::observe::monitor::identity::children_of;
use crate::observe::protocol::Process;
use crate::record::{Checkpoint, TimeStop};

/// What is kept of the job's time for the last record, the end mark and the next start, at most.
const RESERVE: Duration = Duration::from_secs(30);
/// For a start whose end is not known: it may be asked to end early.
const FAR: Duration = Duration::from_secs(10 * 365 * 86_400);
const LEAD: Duration = Duration::from_secs(120);
/// From SIGTERM to SIGKILL.
const GRACE: Duration = Duration::from_secs(10);
/// Between two looks at the checkpoints, at first and later.
const PAUSE: Duration = Duration::from_millis(500);
const LATER_PAUSE: Duration = Duration::from_secs(3);
const SOON: Duration = Duration::from_secs(30);
/// Processes around a program in a container (`comm` of `proc_pid_stat(5)`). The runtime's parent handles all signals, and gives them
/// to the first process in the container alone.
const RUNTIME: [&str; 4] = ["starter", "starter-suid", "appinit", "sinit"];
/// Beginnings of the names of those that serve its file system: without them the program could not save.
const FILE_SYSTEMS: [&str; 3] = ["squashfuse", "fuse", "gocryptfs"];
/// So many looks in turn must find the same before a checkpoint is taken for complete.
const SAME_LOOKS: u32 = 2;

/// The time limit of a run that may continue.
pub(super) struct TimeLimit {
    signal: Option<Signal>,
    /// `None` on other nodes than the batch script's: one looks for all.
    checkpoints: Option<Checkpoints>,
    save_at: Instant,
    stop_at: Instant,
    /// How long before the limit the program is to be asked, and the file in which the watcher writes that the limit was raised.
    lead: Duration,
    events: Option<PathBuf>,
    /// From SIGTERM to SIGKILL: within what is kept.
    grace: Duration,
    kill_at: Option<Instant>,
    saved: Option<Receiver<()>>,
    done: Option<TimeStop>,
}

impl TimeLimit {
    /// That of the plan; `None`: the run does not continue.
    pub(super) fn of(context: &Context, events: Option<PathBuf>) -> Option<Self> {
        let plan = context.plan.as_ref()?;
        let resume = plan.resume.as_ref()?;
        let (now, is_first) = (Instant::now(), context.is_batch_node());
        // Nobody knows when it is up: then it ends early at most.
        let limit = context.time_limit.map(|(end, lead)| {
            let left = Duration::from_millis((end * 1000).saturating_sub(now_ms()));
            (within_reason(left, is_first), Duration::from_secs(lead))
        });
        let (left, lead) = limit.unwrap_or((FAR, LEAD));
        let signal = signal_of(resume.signal);
        let reserve = if signal.is_some() {
            RESERVE.min(lead / 2)
        } else {
            lead
        };
        Some(Self {
            signal,
            checkpoints: is_first.then(|| Checkpoints::new(resume, &plan.workdir, context.element)),
            save_at: now + left.saturating_sub(lead),
            stop_at: now + left.saturating_sub(reserve),
            lead,
            events: events.filter(|_| plan.extend_up_to.is_some()),
            grace: GRACE.min(reserve / 2),
            kill_at: None,
            saved: None,
            done: None,
        })
    }

    /// The time is up now: the program is asked to save, and has as long for it as at the limit.
    pub(super) fn stop_early(&mut self) {
        if self.done.is_none() {
            let now = Instant::now();
            self.stop_at = now + self.stop_at.saturating_duration_since(self.save_at);
            self.save_at = now;
            self.events = None;
        }
    }

    /// How long there is nothing to do.
    pub(super) fn due_in(&self) -> Duration {
        let next = match (&self.done, &self.saved, self.kill_at) {
            (None, ..) => self.save_at,
            (_, _, Some(kill_at)) => kill_at,
            (_, Some(_), None) => self.stop_at.min(Instant::now() + PAUSE),
            (_, None, None) => self.stop_at,
        };
        next.saturating_duration_since(Instant::now())
    }

    /// Does what is due.
    pub(super) fn tend(&mut self, training: Pid) {
        let now = Instant::now();
        if self.done.is_none() && now >= self.save_at && !self.was_raised(now) {
            self.ask_to_save(training);
        }
        let Some(done) = &mut self.done else { return };
        if done.saved_seconds.is_none()
            && self
                .saved
                .as_ref()
                .is_some_and(|saved| saved.try_recv().is_ok())
        {
            done.saved_seconds = Some(now.saturating_duration_since(self.save_at).as_secs_f64());
        }
        if self.kill_at.is_none() && (done.saved_seconds.is_some() || now >= self.stop_at) {
            done.stopped = true;
            signal_all(training, Signal::SIGTERM);
            self.kill_at = Some(now + self.grace);
        } else if self.kill_at.is_some_and(|at| now >= at) {
            signal_all(training, Signal::SIGKILL);
            self.kill_at = Some(now + GRACE);
        }
    }

    /// Whether the limit was raised since, so that there is more time.
    fn was_raised(&mut self, now: Instant) -> bool {
        let end = self.events.as_deref().and_then(events::limit);
        let left = end.map_or(0, |end| end.saturating_mul(1000).saturating_sub(now_ms()));
        let more = Duration::from_millis(left).saturating_sub(self.lead);
        self.save_at += more;
        self.stop_at += more;
        now < self.save_at
    }

    /// What was done.
    pub(super) fn done(&self) -> Option<TimeStop> {
        self.done
    }

    fn ask_to_save(&mut self, training: Pid) {
        let signal = self.signal;
        let receivers = signal.map_or_else(Vec::new, |signal| handlers_of(training, signal));
        if let Some(checkpoints) = self.checkpoints.clone().filter(|_| !receivers.is_empty()) {
            let (sender, receiver) = channel();
            let until = self.stop_at;
            // On a thread: the file system of the checkpoints may hang.
            let looks = move || {
                if wait_for_new(&checkpoints, until) {
                    let _ = sender.send(());
                }
            };
            let started = std::thread::Builder::new().spawn(looks);
            self.saved = started.ok().map(|_| receiver);
            // The first look comes before the program can write.
            std::thread::sleep(PAUSE.min(self.stop_at.saturating_duration_since(Instant::now())));
        }
        let sent = receivers
            .iter()
            .filter(|pid| signal.is_some_and(|signal| kill(**pid, signal).is_ok()));
        self.done = Some(TimeStop {
            at_ms: now_ms(),
            signalled: u32::try_from(sent.count()).unwrap_or(u32::MAX),
            saved_seconds: None,
            stopped: false,
        });
        self.save_at = Instant::now();
    }
}

/// The end is by the clock of the batch script's node. Another node's may be wrong: it never ends a program in the first half of
/// its time, and the first node's end ends all.
fn within_reason(left: Duration, is_first: bool) -> Duration {
    let whole = std::env::var("DLRUN_TIME_LEFT")
        .ok()
        .and_then(|text| text.parse().ok());
    bounded(left, whole.map(Duration::from_secs).filter(|_| !is_first))
}

fn bounded(left: Duration, whole: Option<Duration>) -> Duration {
    whole.map_or(left, |whole| left.clamp(whole / 2, whole))
}

fn signal_of(signal: SaveSignal) -> Option<Signal> {
    match signal {
        SaveSignal::None => None,
        SaveSignal::Usr1 => Some(Signal::SIGUSR1),
        SaveSignal::Usr2 => Some(Signal::SIGUSR2),
        SaveSignal::Term => Some(Signal::SIGTERM),
        SaveSignal::Int => Some(Signal::SIGINT),
        SaveSignal::Hup => Some(Signal::SIGHUP),
    }
}

/// Waits until a checkpoint is there that was not, and nothing changes any more: ranks may write one each.
fn wait_for_new(checkpoints: &Checkpoints, until: Instant) -> bool {
    let begun = Instant::now();
    let before = checkpoints.all();
    let (mut last, mut same): (Vec<Checkpoint>, _) = (Vec::new(), 0);
    while Instant::now() < until {
        std::thread::sleep(if begun.elapsed() < SOON {
            PAUSE
        } else {
            LATER_PAUSE
        });
        let all = checkpoints.all();
        same = if all == last { same + 1 } else { 0 };
        if same >= SAME_LOOKS
            && checkpoints
                .newest(|found, _| !before.contains(found))
                .is_some()
        {
            return true;
        }
        last = all;
    }
    false
}

/// On each branch below `root` the first process that handles a signal (`SigCgt` of `proc_pid_status(5)`).
fn handlers_of(root: Pid, signal: Signal) -> Vec<Pid> {
    let mut found = Vec::new();
    let mut open = vec![root.as_raw().unsigned_abs()];
    while let Some(pid) = open.pop() {
        let name = name_of(pid).unwrap_or_default();
        if serves_files(&name) {
            continue;
        }
        if !RUNTIME.contains(&&*name) && is_in_set(pid, "SigCgt:", signal) {
            found.extend(i32::try_from(pid).ok().map(Pid::from_raw));
        } else {
            let children = children_of(pid).unwrap_or_default();
            open.extend(children.iter().map(|child| child.pid));
        }
    }
    found
}

fn serves_files(name: &str) -> bool {
    FILE_SYSTEMS.iter().any(|begin| name.starts_with(begin))
}

/// To a process and all below it.
fn signal_all(root: Pid, signal: Signal) {
    let Ok(root) = Process::with_pid(root.as_raw().unsigned_abs()) else {
        return;
    };
    let ends_all = signal == Signal::SIGKILL;
    for process in family_of(root) {
        if ends_all || !name_of(process.pid).is_some_and(|name| serves_files(&name)) {
            process.send(signal);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn a_wrong_clock_ends_nothing_in_the_first_half_of_its_time() {
        let minutes = |minutes: u64| Duration::from_secs(60 * minutes);
        let of = |left| bounded(minutes(left), Some(minutes(60)));
        assert_eq!([0, 40, 120].map(of), [30, 40, 60].map(minutes));
        assert_eq!(bounded(minutes(0), None), minutes(0));
    }

    #[test]
    fn the_signal_goes_to_the_first_process_that_handles_it() {
        // The outer shell handles nothing, as that of a script; the inner one does, and its own child is not asked.
        let inner = "trap : USR1; sleep 60 & echo ready; wait; wait";
        let script = format!("sh -c '{inner}' & wait");
        let mut outer = Command::new("sh")
            .args(["-c", &script])
            .stdout(Stdio::piped())
            .spawn()
            .expect("sh");
        let mut line = [0; 6];
        outer
            .stdout
            .as_mut()
            .expect("piped")
            .read_exact(&mut line)
            .expect("it says ready");
        let root = Pid::from_raw(i32::try_from(outer.id()).expect("a pid"));
        let found = handlers_of(root, Signal::SIGUSR1);
        assert_eq!(found.len(), 1, "{found:?}");
        assert_ne!(found[0], root);
        assert_eq!(handlers_of(root, Signal::SIGUSR2), []);
        signal_all(root, Signal::SIGKILL);
        outer.wait().expect("it ends");
    }
}
