//! `framework.trial`: before the command runs, each way in which it can run is begun twice, for some tens of steps, and the
//! quickest is taken. It is taken only if both of its passes were clearly quicker than both of the planned one; else the plan holds.

use std::ffi::OsString;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use nix::fcntl::{FallocateFlags, fallocate};
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

use super::context::Context;
use super::events::{self, EventFile};
use super::output::Reader;
use super::prepare::{Prepared, prepare};
use super::signals::Signals;
use super::step::family_of;
use crate::foundation::clock::now_ms;
use crate::foundation::command::{TrainingCommand, spawn_training};
use crate::foundation::statistics::median;
use crate::foundation::units::{Bytes, display_seconds};
use crate::foundation::wait;
use crate::launch::{Trial, TrialWay};
use crate::observe::monitor::identity::children_of;
use crate::observe::timing::Follower;
use crate::record::{ExitStatus, Progress, TrialPass, TrialRecord, TriedWay, signal_name};

/// Set while a way is tried, so that the program need not save anything.
const VARIABLE: &str = "DLRUN_TRIAL";
/// A pass is over after so many steps, or so many epochs.
const STEPS: u64 = 40;
const EPOCHS: u64 = 3;
/// Steps at the begin that do not count, and how many must follow.
const WARM_UP: u64 = 3;
const LEAST_STEPS: u64 = 5;
/// The steps of a pass take at least so long: a look at the output is not exact.
const SPAN: Duration = Duration::from_secs(1);
/// Another way takes at most so many times what the planned one takes: less may be chance.
const CLEARLY: f64 = 0.97;
/// Between two looks at the output.
const LOOK: Duration = Duration::from_millis(20);
/// From SIGTERM to SIGKILL.
const GRACE: Duration = Duration::from_secs(5);
/// A pass that would have less time is not begun.
const LEAST_PASS: Duration = Duration::from_secs(1);
/// Bytes of output that are read between two looks at the clock and at signals.
const PORTION: u64 = 1 << 20;
/// More output that nobody has read ends a pass: it is in memory that the job has for its training.
const MOST_UNREAD: u64 = 64 << 20;

/// Why the trials end before their time.
enum Stop {
    /// The job ends.
    End(Signal),
    /// Somebody asks the program for something: there is no time for trials.
    Ask(Signal),
}

/// Tries the ways of the plan, where it has any, and says which one the command gets.
///
/// # Errors
/// The exit code of a job that was ended while it tried.
pub fn try_ways(
    argv: &[OsString],
    bare: usize,
    mut context: Context,
    say: &dyn Fn(&str),
) -> Result<Context, i32> {
    let Some(trial) = context.plan.as_ref().and_then(|plan| plan.trial.clone()) else {
        return Ok(context);
    };
    let (record, asked) = run(argv, bare, &context, &trial)?;
    say(&format!("trial: {}", record.why));
    let way = &trial.ways[record.chosen];
    if let Some(plan) = &mut context.plan {
        plan.framework.compiler.clone_from(&way.compiler);
    }
    if let Some(threads) = way.threads {
        context.omp_num_threads = Some(threads.to_string());
    }
    context.way = Some(record.chosen);
    context.trial = Some(record);
    context.asked = asked;
    Ok(context)
}

/// All passes: each way once, then once more in the opposite order, so that what grows slower or quicker meanwhile evens out. Also the
/// signal that the command is to get, where one ended the trials.
fn run(
    argv: &[OsString],
    bare: usize,
    context: &Context,
    trial: &Trial,
) -> Result<(TrialRecord, Option<Signal>), i32> {
    let begun = Instant::now();
    // What a way leaves behind comes to us, and is ended before the next one.
    let _ = nix::sys::prctl::set_child_subreaper(true);
    let mut passes: Vec<Vec<Pass>> = trial.ways.iter().map(|_| Vec::new()).collect();
    let order = (0..trial.ways.len()).chain((0..trial.ways.len()).rev());
    let end = begun + Duration::from_secs(trial.seconds).saturating_sub(GRACE);
    let mut left = u32::try_from(2 * trial.ways.len()).unwrap_or(u32::MAX);
    let mut asked = None;
    if let Ok(mut signals) = Signals::take() {
        for number in order {
            let time = end.saturating_duration_since(Instant::now()) / left;
            left = left.saturating_sub(1).max(1);
            // What failed once would fail again.
            if time < LEAST_PASS || passes[number].iter().any(|pass| pass.failure.is_some()) {
                continue;
            }
            let until = Instant::now() + time;
            match pass(argv, bare, context, number, until, &mut signals) {
                (_, Some(Stop::End(signal))) => return Err(128 + signal as i32),
                (_, Some(Stop::Ask(signal))) => {
                    asked = Some(signal);
                    break;
                }
                (pass, None) => passes[number].push(pass),
            }
        }
    }
    let planned = context.plan.as_ref().and_then(|plan| plan.workload.epochs);
    let mut record = judged(&trial.ways, &passes, planned);
    if let Some(signal) = asked {
        record.why = format!(
            "{} is kept: {signal} came during the trial",
            trial.ways[0].name()
        );
    }
    record.seconds = begun.elapsed().as_secs_f64();
    Ok((record, asked))
}

/// What a pass measured.
#[derive(Debug, Clone, Default)]
struct Pass {
    first_seconds: Option<f64>,
    /// Mean of a step, and number.
    steps: Option<(f64, u64)>,
    epochs: Option<(f64, u64)>,
    epochs_in_all: Option<u64>,
    steps_of_epoch: Option<u64>,
    failure: Option<String>,
    /// The first step that was seen, that from which steps count, and the last.
    seen: Option<u64>,
    from: Option<Mark>,
    last: u64,
}

/// A step, and when it was seen, in seconds.
#[derive(Debug, Clone, Copy)]
struct Mark {
    epoch: Option<u64>,
    step: u64,
    at: f64,
}

/// One pass of a way.
fn pass(
    argv: &[OsString],
    bare: usize,
    context: &Context,
    way: usize,
    until: Instant,
    signals: &mut Signals,
) -> (Pass, Option<Stop>) {
    let failed = |why: String| Pass {
        failure: Some(why),
        ..Pass::default()
    };
    let context = Context {
        way: Some(way),
        ..context.clone()
    };
    let prepared = match prepare(argv.to_vec(), bare, context.clone()) {
        Ok(prepared) => prepared,
        Err(closed) => return (failed(closed.why.to_string()), None),
    };
    let events = prepared.events.clone();
    let (pass, mut stop) = match start(prepared) {
        Ok((pid, output)) => {
            let mut follow = Follow::new(&context, output, events.as_deref());
            let stop = follow.run(pid, until, signals);
            end(pid);
            (follow.pass, stop)
        }
        Err(why) => (failed(why), None),
    };
    // One that came while the pass was ended.
    stop = stop.or_else(|| {
        stop_of(
            signals
                .wait(Some(Duration::ZERO))
                .into_iter()
                .map(|(signal, _)| signal),
        )
    });
    events.iter().for_each(|file| events::remove(file));
    (pass, stop)
}

/// Starts the command with its output in memory: nobody but this trial reads it.
fn start(mut prepared: Prepared) -> Result<(Pid, File), String> {
    let output =
        memfd_create(c"dlrun-trial", MFdFlags::MFD_CLOEXEC).map_err(|error| error.to_string())?;
    let output = File::from(output);
    let twin = || {
        output
            .try_clone()
            .map(Stdio::from)
            .map_err(|error| error.to_string())
    };
    prepared.sets.push((VARIABLE.into(), "1".into()));
    let training = TrainingCommand {
        argv: prepared.argv,
        sets: prepared.sets,
        removals: prepared.removals,
        stdout: twin()?,
        stderr: twin()?,
        leads_group: true,
        dies_with_us: true,
        cpus: Vec::new(),
    };
    let pid = spawn_training(training).map_err(|error| error.to_string())?;
    Ok((pid, output))
}

/// A command under trial, as it is followed.
struct Follow {
    pass: Pass,
    output: File,
    reader: Option<Reader>,
    follower: Option<Follower>,
    events: Option<EventFile>,
    begun: Instant,
}

impl Follow {
    fn new(context: &Context, output: File, events: Option<&Path>) -> Self {
        let pattern = context.plan.as_ref().and_then(|plan| plan.timing.as_ref());
        let path = format!("/proc/self/fd/{}", output.as_raw_fd());
        Self {
            pass: Pass::default(),
            reader: Reader::open(path.as_ref(), 0).ok(),
            output,
            follower: Follower::new(pattern).or_else(|_| Follower::new(None)).ok(),
            events: events.and_then(|path| EventFile::open(path, false).ok()),
            begun: Instant::now(),
        }
    }

    /// Follows the command until enough is measured, its time is up, it ends by itself, or a signal comes.
    fn run(&mut self, pid: Pid, until: Instant, signals: &mut Signals) -> Option<Stop> {
        loop {
            let over = reap(pid);
            let is_behind = self.read();
            let pause = if is_behind { Duration::ZERO } else { LOOK };
            let came = signals
                .wait(Some(pause))
                .into_iter()
                .map(|(signal, _)| signal);
            if let Some(stop) = stop_of(came) {
                return Some(stop);
            }
            if let Some(status) = over {
                let measured = self.pass.steps.is_some() || self.pass.epochs.is_some();
                if !(measured || status == ExitStatus::Code(0)) {
                    self.pass.failure = Some(match status {
                        ExitStatus::Code(code) => {
                            format!("the command ended with exit code {code}")
                        }
                        ExitStatus::Signal(signal) => {
                            format!("{} ended the command", signal_name(signal))
                        }
                    });
                }
                return None;
            }
            if self.unread() > MOST_UNREAD {
                let most = Bytes(MOST_UNREAD);
                self.pass.failure = Some(format!(
                    "the command prints faster than its output is read: {most} wait"
                ));
                return None;
            }
            if self.pass.is_enough() || Instant::now() >= until {
                return None;
            }
        }
    }

    /// Takes in a portion of what is new; true: there may be more. What was read needs no memory any more.
    fn read(&mut self) -> bool {
        let now = now_ms();
        let mut total = 0;
        let mut is_behind = false;
        if let (Some(reader), Some(follower)) = (&mut self.reader, &mut self.follower) {
            while let Ok(bytes @ [_, ..]) = reader.read() {
                follower.feed(bytes, Some(now));
                total += bytes.len() as u64;
                is_behind = total >= PORTION;
                if is_behind {
                    break;
                }
            }
            let flags = FallocateFlags::FALLOC_FL_PUNCH_HOLE | FallocateFlags::FALLOC_FL_KEEP_SIZE;
            if let Some(length) = i64::try_from(reader.offset()).ok().filter(|_| total > 0) {
                let _ = fallocate(&self.output, flags, 0, length);
            }
        }
        let mut progress = self
            .follower
            .as_ref()
            .map_or_else(Progress::default, Follower::progress);
        if let Some(events) = &mut self.events {
            events.read(now);
            progress = events.over(progress);
        }
        self.pass.take(&progress, self.begun);
        is_behind
    }

    fn unread(&self) -> u64 {
        let length = self.output.metadata().map_or(0, |metadata| metadata.len());
        length.saturating_sub(self.reader.as_ref().map_or(0, Reader::offset))
    }
}

/// What signals mean for the trials; the first that ends the job counts most.
fn stop_of(signals: impl Iterator<Item = Signal>) -> Option<Stop> {
    let mut stop = None;
    for signal in signals {
        match signal {
            Signal::SIGTERM | Signal::SIGINT | Signal::SIGHUP | Signal::SIGQUIT => {
                return Some(Stop::End(signal));
            }
            Signal::SIGUSR1 | Signal::SIGUSR2 => stop = Some(Stop::Ask(signal)),
            _ => {}
        }
    }
    stop
}

/// How the command ended; `None`: it runs.
fn reap(pid: Pid) -> Option<ExitStatus> {
    match wait::collect(Some(pid)) {
        Ok(ended) => ended.map(|(_, status)| status.into()),
        Err(_) => Some(ExitStatus::Code(125)),
    }
}

/// Ends the command and all that it started: the next way finds the machine as this one did.
fn end(pid: Pid) {
    let _ = killpg(pid, Signal::SIGTERM);
    let kill_at = Instant::now() + GRACE;
    while Instant::now() < kill_at && reap(pid).is_none() {
        std::thread::sleep(LOOK);
    }
    let _ = killpg(pid, Signal::SIGKILL);
    let _ = wait::wait_for(pid);
    // What left the group is our child by now.
    for _ in 0..20 {
        let left = children_of(std::process::id()).unwrap_or_default();
        if left.is_empty() {
            return;
        }
        let families = left.into_iter().flat_map(family_of);
        families.for_each(|process| process.send(Signal::SIGKILL));
        std::thread::sleep(LOOK);
        while let Ok(Some(_)) = wait::collect(None) {}
    }
}

impl Pass {
    fn take(&mut self, progress: &Progress, begun: Instant) {
        if self.first_seconds.is_none()
            && (progress.last_step.is_some() || progress.epochs_completed > 0)
        {
            self.first_seconds = Some(begun.elapsed().as_secs_f64());
        }
        self.step(progress, begun.elapsed().as_secs_f64());
        // The first epoch begins with start-up and compilation.
        let later = progress.epochs.iter().skip(1);
        let seconds: Vec<f64> = later
            .filter_map(|epoch| Some(epoch.training_time()?.0))
            .collect();
        let count = seconds.len() as u64;
        self.epochs = median(seconds).map(|median| (median, count));
        self.epochs_in_all = progress.epochs_announced;
        self.steps_of_epoch = progress
            .steps_per_epoch
            .filter(|_| !progress.counts_samples);
    }

    /// Steps of the first epoch count too, but for the first ones: nobody waits for an epoch here.
    fn step(&mut self, progress: &Progress, now: f64) {
        let mark = progress.last_step.filter(|_| !progress.counts_samples);
        let Some((epoch, step)) = mark.and_then(|mark| Some((mark.epoch, mark.step?))) else {
            return;
        };
        let from = self
            .from
            .filter(|from| from.epoch == epoch && from.step <= step);
        let Some(from) = from else {
            // The first that is seen pays for what comes before it.
            let is_warm = self.seen.is_some_and(|seen| step >= seen + WARM_UP);
            self.seen.get_or_insert(step);
            if is_warm && self.steps.is_none() {
                self.from = Some(Mark {
                    epoch,
                    step,
                    at: now,
                });
            }
            return;
        };
        let count = step - from.step;
        if count >= LEAST_STEPS && self.last != step {
            #[expect(clippy::cast_precision_loss, reason = "tens of steps")]
            let seconds = (now - from.at) / count as f64;
            self.steps = Some((seconds, count));
        }
        self.last = step;
    }

    fn is_enough(&self) -> bool {
        let span = |(seconds, count): (f64, u64)| {
            Duration::from_secs_f64(seconds) * u32::try_from(count).unwrap_or(u32::MAX)
        };
        self.steps
            .is_some_and(|steps| steps.1 >= STEPS && span(steps) >= SPAN)
            || self.epochs.is_some_and(|(_, count)| count + 1 >= EPOCHS)
    }
}

/// Chooses: the planned way, unless another one was clearly quicker in each of its passes.
fn judged(ways: &[TrialWay], passes: &[Vec<Pass>], planned_epochs: Option<u64>) -> TrialRecord {
    let all = || passes.iter().flatten();
    let is_by_step = all().filter(|pass| pass.steps.is_some()).count() * 2 > all().count();
    let figure = |pass: &Pass| if is_by_step { pass.steps } else { pass.epochs };
    let unit = if is_by_step { "step" } else { "epoch" };
    let seconds = |number: usize| -> Option<(f64, f64)> {
        let figures: Option<Vec<f64>> = passes[number]
            .iter()
            .map(|pass| Some(figure(pass)?.0))
            .collect();
        let figures = figures.filter(|figures| figures.len() >= 2)?;
        let least = figures.iter().copied().reduce(f64::min)?;
        Some((least, figures.iter().copied().reduce(f64::max)?))
    };
    let units = all().find_map(|pass| {
        let epochs = pass.epochs_in_all.or(planned_epochs)?;
        let each = if is_by_step { pass.steps_of_epoch? } else { 1 };
        #[expect(clippy::cast_precision_loss, reason = "steps of a training")]
        Some((epochs * each) as f64)
    });
    let begin = |number: usize| passes[number].last().and_then(|pass| pass.first_seconds);
    let pays = |number: usize, gain: f64| match (begin(number), begin(0), units) {
        (Some(own), Some(planned), Some(units)) => gain * units > own - planned,
        _ => true,
    };
    let planned = seconds(0);
    let mut chosen = (0, planned.map_or(f64::INFINITY, |(_, most)| most));
    let article = if is_by_step { "a" } else { "an" };
    let name = ways[0].name();
    let mut why = match (
        planned,
        passes[0].iter().find_map(|pass| pass.failure.as_ref()),
    ) {
        (Some((_, most)), _) => format!(
            "{name} is kept: {} {article} {unit}, and no other way was clearly quicker",
            display_seconds(most)
        ),
        (None, Some(failure)) => format!("{name} is kept: in the trial {failure}"),
        (None, None) => {
            format!("{name} is kept: too few of its steps or epochs were recognised in time")
        }
    };
    for number in 1..ways.len() {
        let (Some((least, _)), Some((_, most))) = (planned, seconds(number)) else {
            continue;
        };
        if most < CLEARLY * least && most < chosen.1 && pays(number, least - most) {
            chosen = (number, most);
            why = format!(
                "{} takes {} {article} {unit}, {} takes {}",
                ways[number].name(),
                display_seconds(most),
                ways[0].name(),
                display_seconds(least)
            );
        }
    }
    let tried = |(way, passes): (&TrialWay, &Vec<Pass>)| TriedWay {
        name: way.name(),
        passes: passes
            .iter()
            .map(|pass| TrialPass {
                first_seconds: pass.first_seconds,
                unit_seconds: figure(pass).map(|(seconds, _)| seconds),
                count: figure(pass).map_or(0, |(_, count)| count),
                failure: pass.failure.clone(),
            })
            .collect(),
    };
    let way = &ways[chosen.0];
    TrialRecord {
        seconds: 0.0,
        unit: planned.map(|_| unit.to_owned()),
        ways: ways.iter().zip(passes).map(tried).collect(),
        chosen: chosen.0,
        why,
        compiler: way.compiler.clone(),
        threads: way.threads,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn way(compiler: &str) -> TrialWay {
        TrialWay {
            compiler: Some(compiler.into()),
            threads: None,
            env: Vec::new(),
            unset: Vec::new(),
        }
    }

    fn chosen(passes: &[&[(f64, f64)]], epochs: Option<u64>) -> usize {
        let ways = [way("none"), way("inductor")];
        let pass = |(first, step): &(f64, f64)| Pass {
            first_seconds: Some(*first),
            steps: Some((*step, STEPS)),
            steps_of_epoch: Some(10),
            ..Pass::default()
        };
        let passes: Vec<Vec<Pass>> = passes
            .iter()
            .map(|of| of.iter().map(pass).collect())
            .collect();
        judged(&ways, &passes, epochs).chosen
    }

    #[test]
    fn another_way_is_taken_only_if_it_was_quicker_in_each_pass() {
        let planned: &[(f64, f64)] = &[(1.0, 0.030), (1.0, 0.031)];
        assert_eq!(chosen(&[planned, &[(9.0, 0.020), (1.0, 0.022)]], None), 1);
        assert_eq!(chosen(&[planned, &[(9.0, 0.020), (1.0, 0.030)]], None), 0);
        assert_eq!(
            chosen(&[planned, &[(9.0, 0.0295), (1.0, 0.0295)]], None),
            0,
            "that may be chance"
        );
        assert_eq!(
            chosen(&[planned, &[(9.0, 0.020)]], None),
            0,
            "one pass says too little"
        );
        assert_eq!(
            chosen(&[&[], &[(9.0, 0.020), (1.0, 0.020)]], None),
            0,
            "the planned way is unknown"
        );
    }

    #[test]
    fn what_takes_long_to_begin_must_pay() {
        let planned: &[(f64, f64)] = &[(1.0, 0.030), (1.0, 0.030)];
        // It begins 5 s later and saves 0.01 s a step of ten an epoch: from 51 epochs on.
        let compiled: &[(f64, f64)] = &[(40.0, 0.020), (6.0, 0.020)];
        assert_eq!(chosen(&[planned, compiled], Some(50)), 0);
        assert_eq!(chosen(&[planned, compiled], Some(51)), 1);
    }
}
