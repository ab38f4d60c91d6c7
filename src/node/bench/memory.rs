//! Memory bandwidth: STREAM's triad, `a = b + s * c`, over arrays that no cache holds.
//!
//! As STREAM counts (J. D. McCalpin, "Memory Bandwidth and Machine Balance in Current High Performance Computers", 1995, and
//! <https://www.cs.virginia.edu/stream/ref.html>): 24 bytes for each element of 8, though a cache may read `a` before it is
//! written; each array four times as large as all last-level caches; the first pass does not count; the highest rate of the passes
//! is the figure. Each thread has parts of its own, which lie where it first wrote to them.

use std::hint::black_box;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::team::{Member, Team};
use crate::record::Spread;

/// Fewer passes say little.
const PASSES: usize = 10;
/// More than this many tell no more.
const PASSES_MAX: usize = 200;
/// Passes go on for so long where they are quick.
const WANTED: Duration = Duration::from_millis(1500);
/// After this no further pass begins, once three are there.
const LONGEST: Duration = Duration::from_secs(7);
/// What each thread has of each array at least: a pass must take far longer than to begin it.
const PART_MIN: u64 = 4 << 20;
/// Caches are taken to be this large where the kernel does not tell.
const CACHE_ASSUMED: u64 = 64 << 20;
/// STREAM's rule.
const CACHES: u64 = 4;
const ARRAYS: u64 = 3;
const SCALE: f64 = 3.0;

/// What was found.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Bandwidth {
    /// In 10^9 bytes per second.
    pub(super) gb_per_second: Spread,
    /// The three arrays together.
    pub(super) arrays_bytes: u64,
}

/// How large the three arrays are together, and what speaks against it. At most a quarter of the `available` memory is taken.
pub(super) fn size(caches: Option<u64>, available: u64, threads: usize) -> (u64, Option<String>) {
    let cache = caches.unwrap_or(CACHE_ASSUMED);
    let parts = PART_MIN.saturating_mul(threads as u64);
    let wanted = ARRAYS.saturating_mul(CACHES.saturating_mul(cache).max(parts));
    let limit = available / 4;
    if wanted <= limit {
        let note = "the kernel does not tell how large the caches are: 64MiB were assumed";
        return (wanted, caches.is_none().then(|| note.to_owned()));
    }
    let note = format!(
        "the arrays of the triad are {} MiB together, for want of memory, and not {CACHES} times the caches each: caches may have \
         helped",
        limit >> 20
    );
    (limit, Some(note))
}

/// Measures a team with arrays of `bytes` together.
///
/// # Errors
/// When a thread cannot be started or the memory is not given.
pub(super) fn measure(team: &Team, bytes: u64) -> io::Result<Bandwidth> {
    let part = usize::try_from(bytes / ARRAYS / 8 / team.threads() as u64)
        .unwrap_or(0)
        .max(1024);
    let (failed, over) = (AtomicBool::new(false), AtomicBool::new(false));
    let found = team.work(|member| {
        let arrays = Arrays::new(part);
        failed.fetch_or(arrays.is_none(), Ordering::AcqRel);
        member.together();
        let arrays = arrays.filter(|_| !failed.load(Ordering::Acquire))?;
        Some(passes(member, arrays, &over))
    })?;
    let of_all: Vec<Vec<Pass>> = found.into_iter().flatten().collect();
    if of_all.len() < team.threads() {
        return Err(io::Error::new(
            io::ErrorKind::OutOfMemory,
            format!("no memory for {bytes} bytes"),
        ));
    }
    let arrays_bytes = ARRAYS * 8 * part as u64 * team.threads() as u64;
    // The first pass finds pages that were never written.
    let count = of_all.iter().map(Vec::len).min().unwrap_or(0);
    #[expect(clippy::cast_precision_loss, reason = "no machine has 2^53 bytes")]
    let moved = arrays_bytes as f64;
    let rates: Vec<f64> = (1..count)
        .map(|at| moved / seconds(&of_all, at) / 1e9)
        .collect();
    let gb_per_second =
        Spread::of(&rates).ok_or_else(|| io::Error::other("no pass took any time"))?;
    Ok(Bandwidth {
        gb_per_second,
        arrays_bytes,
    })
}

/// When a thread began and ended a pass.
type Pass = (Instant, Instant);

/// From the first thread that began a pass to the last that ended it.
fn seconds(of_all: &[Vec<Pass>], at: usize) -> f64 {
    let began = of_all.iter().map(|passes| passes[at].0).min();
    let ended = of_all.iter().map(|passes| passes[at].1).max();
    began
        .zip(ended)
        .map_or(0.0, |(began, ended)| (ended - began).as_secs_f64())
}

fn passes(member: &Member<'_>, mut arrays: Arrays, over: &AtomicBool) -> Vec<Pass> {
    let (mut passes, first) = (Vec::with_capacity(PASSES_MAX + 1), Instant::now());
    loop {
        member.together();
        let began = Instant::now();
        triad(&mut arrays);
        passes.push((began, Instant::now()));
        member.together();
        // One decides for all.
        if member.number == 0 {
            over.store(
                is_enough(passes.len() - 1, first.elapsed()),
                Ordering::Release,
            );
        }
        member.together();
        if over.load(Ordering::Acquire) {
            black_box(&arrays.to);
            return passes;
        }
    }
}

/// Whether so many passes, the first not counted, that took so long, are enough.
fn is_enough(passes: usize, spent: Duration) -> bool {
    (passes >= PASSES && spent >= WANTED)
        || passes >= PASSES_MAX
        || (passes >= 3 && spent >= LONGEST)
}

/// A thread's parts of the three arrays.
struct Arrays {
    to: Vec<f64>,
    from: Vec<f64>,
    scaled: Vec<f64>,
}

impl Arrays {
    /// `None` where the memory is not given.
    fn new(length: usize) -> Option<Self> {
        let filled = |value: f64| {
            let mut array = Vec::new();
            array.try_reserve_exact(length).ok()?;
            array.resize(length, value);
            Some(array)
        };
        Some(Self {
            to: filled(0.5)?,
            from: filled(1.0)?,
            scaled: filled(2.0)?,
        })
    }
}

/// One pass, with the widest vectors of the CPU.
fn triad(arrays: &mut Arrays) {
    let Arrays { to, from, scaled } = arrays;
    let scale = black_box(SCALE);
    #[cfg(target_arch = "x86_64")]
    {
        if is_x86_feature_detected!("avx512f") {
            // SAFETY: the CPU has it.
            return unsafe { triad_avx512(to, from, scaled, scale) };
        }
        if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
            // SAFETY: the CPU has them.
            return unsafe { triad_avx2(to, from, scaled, scale) };
        }
    }
    plain_triad(to, from, scaled, scale);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
fn triad_avx512(to: &mut [f64], from: &[f64], scaled: &[f64], scale: f64) {
    plain_triad(to, from, scaled, scale);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
fn triad_avx2(to: &mut [f64], from: &[f64], scaled: &[f64], scale: f64) {
    plain_triad(to, from, scaled, scale);
}

#[inline(always)]
fn plain_triad(to: &mut [f64], from: &[f64], scaled: &[f64], scale: f64) {
    for ((to, from), scaled) in to.iter_mut().zip(from).zip(scaled) {
        *to = *from + scale * *scaled;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_element_is_computed() {
        let mut arrays = Arrays::new(1003).expect("little memory");
        triad(&mut arrays);
        assert!(arrays.to.iter().all(|value| *value == 7.0), "1 + 3 * 2");
        assert!(Arrays::new(usize::MAX / 2).is_none());
    }

    #[test]
    fn arrays_are_larger_than_the_caches_or_it_is_told() {
        let (gib, mib) = (1 << 30, 1 << 20);
        assert_eq!(size(Some(32 * mib), 16 * gib, 2), (384 * mib, None));
        let (bytes, note) = size(None, 16 * gib, 2);
        assert_eq!((bytes, note.is_some()), (768 * mib, true));
        // Each of many threads needs a part that takes a while.
        assert_eq!(size(Some(32 * mib), 512 * gib, 128).0, 1536 * mib);
        let (bytes, note) = size(Some(384 * mib), 4 * gib, 2);
        assert_eq!(bytes, gib);
        assert!(note.expect("too little").contains("1024 MiB"));
    }

    #[test]
    fn passes_end() {
        let ms = Duration::from_millis;
        let cases = [
            ((9, ms(6_000)), false),
            ((10, ms(100)), false),
            ((10, ms(1_500)), true),
            ((200, ms(1)), true),
            ((2, ms(60_000)), false),
            ((3, ms(7_000)), true),
        ];
        for ((passes, spent), enough) in cases {
            assert_eq!(is_enough(passes, spent), enough, "{passes} {spent:?}");
        }
    }

    #[test]
    fn one_thread_and_several_have_a_rate() {
        for threads in [1, 3] {
            let found = measure(&Team::of(threads), 3 << 20).expect("little memory");
            let rate = found.gb_per_second;
            assert!(rate.best.is_finite() && rate.median > 0.0, "{found:?}");
            assert!(rate.repeats >= 10, "{found:?}");
            assert!(
                found.arrays_bytes <= 3 << 20 && found.arrays_bytes > 3 << 19,
                "{found:?}"
            );
        }
        assert!(measure(&Team::of(2), u64::MAX).is_err());
    }
}
