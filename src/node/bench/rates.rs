//! How often threads can do something side by side, one a CPU.

use std::io;
use std::sync::{Barrier, PoisonError, RwLock};
use std::thread::{Builder, scope};
use std::time::{Duration, Instant};

use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;

use crate::observe::monitor::allowed_cpus;

/// How often per second `threads` threads together do `block` in each of `windows`, after each thread prepared its data. Where the
/// threads are as many as the CPUs that this process may use, each is bound to one of them: no two share a CPU, and each finds
/// its memory where it first wrote it.
///
/// # Errors
/// If a thread cannot be started or cannot prepare its data.
pub(super) fn rates<T>(
    threads: usize,
    windows: &[Duration],
    prepare: impl Fn() -> io::Result<T> + Sync,
    block: impl Fn(&mut T) + Sync,
) -> io::Result<Vec<f64>> {
    let threads = threads.max(1);
    let cpus = allowed_cpus().filter(|cpus| threads > 1 && cpus.len() == threads);
    // Threads begin once all have been started, and end at once if one could not be.
    let (may_begin, barrier) = (RwLock::new(false), Barrier::new(threads));
    let work = |number: usize| -> io::Result<Vec<(Instant, Instant, u64)>> {
        if !*may_begin.read().unwrap_or_else(PoisonError::into_inner) {
            return Ok(Vec::new());
        }
        if let Some(cpu) = cpus.as_ref().and_then(|cpus| cpus.get(number)) {
            bind_to(*cpu);
        }
        let mut data = prepare();
        let spans = windows.iter().map(|window| {
            barrier.wait();
            let (began, mut blocks) = (Instant::now(), 0);
            while let Ok(data) = &mut data
                && began.elapsed() < *window
            {
                block(data);
                blocks += 1;
            }
            (began, Instant::now(), blocks)
        });
        let spans = spans.collect();
        data.map(|_| spans)
    };
    let of_threads: Vec<_> = scope(|scope| {
        let mut go = may_begin.write().unwrap_or_else(PoisonError::into_inner);
        let work = &work;
        let started: Vec<_> = (0..threads)
            .map(|number| {
                let thread = Builder::new().name("bench".to_owned());
                thread.spawn_scoped(scope, move || work(number))
            })
            .collect::<io::Result<_>>()?;
        *go = true;
        drop(go);
        let ended = started.into_iter().map(|thread| thread.join());
        ended
            .map(|found| found.unwrap_or_else(|_| Err(io::Error::other("a thread ended early"))))
            .collect::<io::Result<_>>()
    })?;
    Ok((0..windows.len())
        .map(|window| rate(of_threads.iter().map(|spans| spans[window])))
        .collect())
}

/// The blocks of all threads over the time from the first that began to the last that ended.
#[expect(clippy::cast_precision_loss, reason = "they are few")]
fn rate(spans: impl Iterator<Item = (Instant, Instant, u64)> + Clone) -> f64 {
    let began = spans.clone().map(|(began, ..)| began).min();
    let ended = spans.clone().map(|(_, ended, _)| ended).max();
    let blocks: u64 = spans.map(|(.., blocks)| blocks).sum();
    began.zip(ended).map_or(0.0, |(began, ended)| {
        blocks as f64 / (ended - began).as_secs_f64()
    })
}

/// Without that the figures are somewhat lower, and no worse.
fn bind_to(cpu: usize) {
    let mut only = CpuSet::new();
    if only.set(cpu).is_ok() {
        let _ = sched_setaffinity(Pid::from_raw(0), &only);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    const WINDOWS: [Duration; 2] = [Duration::from_millis(5); 2];

    #[test]
    fn threads_are_bound_where_each_has_a_cpu() {
        let cpus = allowed_cpus().expect("few CPUs");
        let seen = Mutex::new(Vec::new());
        let note = || {
            seen.lock()
                .expect("nobody panics")
                .push(allowed_cpus().expect("few CPUs"));
            Ok(())
        };
        let found = rates(cpus.len(), &WINDOWS, note, |()| {}).expect("threads can be started");
        assert!(found.iter().all(|rate| *rate > 0.0), "{found:?}");
        let mut seen = seen.into_inner().expect("nobody panics").concat();
        seen.sort_unstable();
        assert_eq!(seen, cpus);
    }

    #[test]
    fn error_of_one_thread_ends_all() {
        let failed = || Err::<(), _>(io::Error::other("no memory"));
        assert!(rates(3, &WINDOWS, failed, |()| {}).is_err());
        assert_eq!(
            rates(0, &WINDOWS, || Ok(()), |()| {}).map_or(0, |found| found.len()),
            2
        );
    }
}
