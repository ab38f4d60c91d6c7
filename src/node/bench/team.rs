//! Threads that do the same work at the same time, one a CPU.

use std::hint::spin_loop;
use std::io;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::thread::{Builder, scope, yield_now};

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;

/// So often a waiting thread looks before it lets others run: some microseconds.
const SPINS: u32 = 4096;

const WAIT: u8 = 0;
const GO: u8 = 1;
const STOP: u8 = 2;

/// How many threads, and where each runs.
#[derive(Debug, Clone)]
pub(super) struct Team {
    threads: usize,
    /// The CPU of each thread; empty: the kernel chooses.
    cpus: Vec<usize>,
}

/// One thread of a team at work.
#[derive(Debug)]
pub(super) struct Member<'a> {
    /// From 0.
    pub(super) number: usize,
    gate: &'a Gate,
}

impl Team {
    /// A team of so many threads. Where these are as many as the CPUs that this process may use, each gets one of them: then
    /// no two share one, and each finds its memory where it first wrote it.
    pub(super) fn of(threads: usize) -> Self {
        let threads = threads.max(1);
        let cpus = allowed();
        Self {
            threads,
            cpus: if threads > 1 && cpus.len() == threads {
                cpus
            } else {
                Vec::new()
            },
        }
    }

    /// How many threads.
    pub(super) fn threads(&self) -> usize {
        self.threads
    }

    /// Does `work` in all threads and returns what each found, in the order of their numbers.
    ///
    /// # Errors
    /// When a thread cannot be started; then none has done anything.
    pub(super) fn work<T: Send>(
        &self,
        work: impl Fn(&Member<'_>) -> T + Sync,
    ) -> io::Result<Vec<T>> {
        let (gate, order) = (Gate::of(self.threads), AtomicU8::new(WAIT));
        let one = |number: usize| {
            while order.load(Ordering::Acquire) == WAIT {
                yield_now();
            }
            if order.load(Ordering::Acquire) == STOP {
                return None;
            }
            self.bind(number);
            Some(work(&Member {
                number,
                gate: &gate,
            }))
        };
        scope(|scope| {
            let mut started = Vec::with_capacity(self.threads);
            for number in 0..self.threads {
                match Builder::new()
                    .name("bench".to_owned())
                    .spawn_scoped(scope, move || one(number))
                {
                    Ok(thread) => started.push(thread),
                    Err(error) => {
                        order.store(STOP, Ordering::Release);
                        return Err(error);
                    }
                }
            }
            order.store(GO, Ordering::Release);
            let found = started
                .into_iter()
                .map(|thread| thread.join().ok().flatten());
            found
                .map(|found| found.ok_or_else(|| io::Error::other("a thread ended early")))
                .collect()
        })
    }

    /// Binds the calling thread to its CPU. Without that the figures are somewhat lower, and no worse.
    fn bind(&self, number: usize) {
        let Some(cpu) = self.cpus.get(number) else {
            return;
        };
        let mut only = CpuSet::new();
        if only.set(*cpu).is_ok() {
            let _ = sched_setaffinity(Pid::from_raw(0), &only);
        }
    }
}

impl Member<'_> {
    /// Waits until all threads of the team are here.
    pub(super) fn together(&self) {
        self.gate.wait();
    }
}

/// The CPUs in the affinity mask of this process. Empty on a machine with more CPUs than a fixed mask holds.
fn allowed() -> Vec<usize> {
    let Ok(set) = sched_getaffinity(Pid::from_raw(0)) else {
        return Vec::new();
    };
    (0..CpuSet::count())
        .filter(|cpu| set.is_set(*cpu).unwrap_or(false))
        .collect()
}

/// A barrier without sleep: waking hundreds of threads takes the kernel longer than some passes over the arrays.
#[derive(Debug)]
struct Gate {
    parties: usize,
    arrived: AtomicUsize,
    opened: AtomicUsize,
}

impl Gate {
    fn of(parties: usize) -> Self {
        Self {
            parties,
            arrived: AtomicUsize::new(0),
            opened: AtomicUsize::new(0),
        }
    }

    fn wait(&self) {
        let opened = self.opened.load(Ordering::Acquire);
        if self.arrived.fetch_add(1, Ordering::AcqRel) + 1 == self.parties {
            self.arrived.store(0, Ordering::Relaxed);
            self.opened.store(opened.wrapping_add(1), Ordering::Release);
            return;
        }
        let mut looks = 0_u32;
        while self.opened.load(Ordering::Acquire) == opened {
            looks = looks.saturating_add(1);
            if looks < SPINS {
                spin_loop()
            } else {
                yield_now()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_threads_pass_the_gate_together() {
        let arrived = AtomicUsize::new(0);
        let seen = Team {
            threads: 5,
            cpus: Vec::new(),
        }
        .work(|member| {
            let mut seen = Vec::new();
            for _ in 0..50 {
                arrived.fetch_add(1, Ordering::SeqCst);
                member.together();
                seen.push(arrived.load(Ordering::SeqCst));
                member.together();
            }
            (member.number, seen)
        });
        let seen = seen.expect("threads can be started");
        let all: Vec<usize> = (1..=50).map(|round| 5 * round).collect();
        for (at, (number, counts)) in seen.into_iter().enumerate() {
            assert_eq!((at, &counts), (number, &all));
        }
    }

    #[test]
    fn threads_are_bound_where_each_has_a_cpu() {
        let cpus = allowed();
        let team = Team::of(cpus.len());
        let found = team.work(|_| allowed()).expect("threads can be started");
        if cpus.len() > 1 {
            assert_eq!(found.concat(), cpus);
        }
        assert_eq!(Team::of(cpus.len() + 1).cpus, Vec::<usize>::new());
        assert_eq!(Team::of(0).threads(), 1);
    }
}
