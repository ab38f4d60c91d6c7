//! The end of a training whose job is over. Where Slurm tracks processes by their parents (`proctrack/linuxproc`), it leaves a
//! training alive whose supervisor or batch shell was killed: outside of its allocation, and beside its own second start where
//! the job is requeued. Slurm ends `slurmstepd` with the step, so the watcher sees that.

use std::fs;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::observe::monitor::identity;
use crate::observe::protocol::Process;

/// The process that Slurm runs beside each step of a job, on each of its nodes.
pub(super) const SLURM_STEP_PROCESS: &str = "slurmstepd";

impl Process {
    /// The nearest process above this one that is Slurm's.
    pub(super) fn slurm_step() -> Option<Self> {
        let parent = |pid: &u32| identity::parent_of(*pid).ok().filter(|parent| *parent > 1);
        std::iter::successors(Some(std::process::id()), parent)
            .find(|pid| name_of(*pid).as_deref() == Some(SLURM_STEP_PROCESS))
            .and_then(|pid| Self::with_pid(pid).ok())
    }

    pub(super) fn send(self, signal: Signal) {
        if let Ok(pid) = i32::try_from(self.pid)
            && self.is_alive()
        {
            let _ = kill(Pid::from_raw(pid), signal);
        }
    }
}

pub(super) fn name_of(pid: u32) -> Option<String> {
    fs::read_to_string(format!("/proc/{pid}/comm"))
        .ok()
        .map(|name| name.trim_end().to_owned())
}

/// The step that a training runs in.
#[derive(Debug)]
pub(super) struct Step {
    /// `None` outside of Slurm: there nothing is to be ended.
    process: Option<Process>,
    /// It was gone at the last look too: a training is ended on no single answer.
    was_gone: bool,
    command: Process,
    kill_wait: Duration,
    /// When SIGKILL follows SIGTERM, and what got that.
    ending: Option<(Instant, Vec<Process>)>,
}

impl Step {
    pub(super) fn new(process: Option<Process>, command: Process, kill_wait: Duration) -> Self {
        Self {
            process,
            was_gone: false,
            command,
            kill_wait,
            ending: None,
        }
    }

    /// The training's first process.
    pub(super) fn command(&self) -> Process {
        self.command
    }

    /// True where the training is to be ended, now or once Slurm has ended the step.
    pub(super) fn has_training(&self) -> bool {
        let ending = self
            .ending
            .iter()
            .flat_map(|(_, family)| family)
            .any(|process| process.is_alive());
        self.process.is_some() && (ending || self.command.is_alive())
    }

    /// Ends a training that outlived its step, as Slurm ends one: with SIGTERM, and after a while with SIGKILL. Returns what is
    /// to be noted, once.
    pub(super) fn tend(&mut self, now: Instant) -> Option<String> {
        if let Some((kill_at, family)) = &mut self.ending {
            if now >= *kill_at {
                let new = family_of(self.command)
                    .into_iter()
                    .filter(|process| !family.contains(process));
                family.extend(new.collect::<Vec<_>>());
                family
                    .iter()
                    .for_each(|process| process.send(Signal::SIGKILL));
            }
            return None;
        }
        let gone = self.process.filter(|step| step.is_gone());
        let step = gone.filter(|_| std::mem::replace(&mut self.was_gone, gone.is_some()))?;
        if !self.command.is_alive() {
            return None;
        }
        self.end(now);
        Some(format!(
            "Slurm had ended the job (its process {} is gone), and the training was still running: dlrun ended it",
            step.pid
        ))
    }

    /// Ends the training: SIGTERM now, SIGKILL after a while.
    pub(super) fn end(&mut self, now: Instant) {
        let family = family_of(self.command);
        for process in &family {
            process.send(Signal::SIGTERM);
            // One that is stopped would not see it.
            process.send(Signal::SIGCONT);
        }
        self.ending = Some((now + self.kill_wait, family));
    }

    /// While a training is being ended, it is looked at soon again.
    pub(super) fn due(&self, now: Instant) -> Option<Instant> {
        let mut family = self.ending.iter().flat_map(|(_, family)| family);
        let is_ending = family.any(|process| process.is_alive());
        is_ending.then(|| now + Duration::from_millis(200))
    }
}

/// A process and all below it.
pub(super) fn family_of(root: Process) -> Vec<Process> {
    let mut family: Vec<Process> = Some(root)
        .filter(|root| root.is_alive())
        .into_iter()
        .collect();
    let mut next = 0;
    while let Some(parent) = family.get(next) {
        family.extend(identity::children_of(parent.pid).unwrap_or_default());
        next += 1;
    }
    family
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command, Stdio};

    use super::*;

    fn started(script: &str) -> Child {
        Command::new("sh")
            .args(["-c", script])
            .stdout(Stdio::piped())
            .spawn()
            .expect("sh")
    }

    fn of(child: &Child) -> Process {
        Process::with_pid(child.id()).expect("it runs")
    }

    fn end(mut child: Child) {
        child.kill().expect("ours");
        child.wait().expect("it ends");
    }

    #[test]
    fn training_is_left_alone_while_its_step_runs_and_where_there_is_none() {
        let (step, training) = (started("exec sleep 600"), started("exec sleep 600"));
        for process in [Some(of(&step)), None] {
            let mut step = Step::new(process, of(&training), Duration::ZERO);
            assert_eq!(
                (step.tend(Instant::now()), step.due(Instant::now())),
                (None, None)
            );
            assert_eq!(step.has_training(), process.is_some());
        }
        assert!(of(&training).is_alive());
        end(step);
        end(training);
    }

    #[test]
    fn training_that_outlives_its_step_gets_sigterm_and_then_sigkill_with_its_children() {
        let script =
            "trap '' TERM; sh -c 'trap \"\" TERM; echo ready; while :; do sleep 600; done' & wait";
        let mut training = started(script);
        let mut line = [0; 6];
        std::io::Read::read_exact(training.stdout.as_mut().expect("piped"), &mut line)
            .expect("it says ready");
        let command = of(&training);
        let family = family_of(command);
        assert!(family.len() >= 2, "{family:?}");
        let step = started("exec sleep 600");
        let mut ending = Step::new(Some(of(&step)), command, Duration::from_secs(30));
        end(step);
        let begin = Instant::now();
        assert_eq!(ending.tend(begin), None, "one look is not enough");
        assert!(
            ending
                .tend(begin)
                .is_some_and(|note| note.contains("Slurm had ended the job"))
        );
        assert_eq!(ending.tend(begin + Duration::from_secs(29)), None);
        assert!(
            ending.has_training() && family.iter().all(|process| process.is_alive()),
            "they ignore it"
        );
        assert!(ending.due(begin).is_some());
        assert_eq!(ending.tend(begin + Duration::from_secs(30)), None);
        training.wait().expect("it ends");
        // A child that began since `family` was read is ended too, and takes as long.
        while ending.has_training() || family.iter().any(|process| process.is_alive()) {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}
