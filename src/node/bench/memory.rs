//! Memory bandwidth: STREAM's triad, `a = b + s * c`, over arrays that no cache holds.
//!
//! As STREAM counts (J. D. McCalpin, "Memory Bandwidth and Machine Balance in Current High Performance Computers", 1995, and
//! <https://www.cs.virginia.edu/stream/ref.html>): 24 bytes for each element of 8, though a cache may read `a` before it is
//! written; each array four times as large as all last-level caches; the first measurement does not count; the highest rate is the
//! figure. Each thread has its own parts, in memory near its CPU: pages lie where they are first written.

use std::hint::black_box;
use std::io;
use std::time::Duration;

use super::rates::rates;
use crate::record::Spread;

/// The first of these many measurements does not count.
const REPEATS: usize = 11;
/// What each thread has of each array at least: measuring must take far longer than to begin it.
const PART_MIN: u64 = 4 << 20;
/// Caches are taken to be this large where the kernel does not tell.
const CACHE_ASSUMED: u64 = 64 << 20;
/// STREAM's rule.
const CACHES: u64 = 4;
const ARRAYS: u64 = 3;
/// Elements that are computed between two looks at the clock.
const BLOCK: usize = 1 << 16;
const SCALE: f64 = 3.0;

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

/// A thread's parts of the three arrays, and where it continues in them.
struct Arrays {
    to: Vec<f64>,
    from: Vec<f64>,
    scaled: Vec<f64>,
    next: usize,
}

impl Arrays {
    /// Of whole blocks.
    fn new(blocks: usize) -> io::Result<Self> {
        let filled = |value: f64| {
            let mut array = Vec::new();
            let length = blocks.saturating_mul(BLOCK);
            array.try_reserve_exact(length)?;
            array.resize(length, value);
            Ok::<_, std::collections::TryReserveError>(array)
        };
        let arrays = || {
            Ok::<_, std::collections::TryReserveError>(Self {
                to: filled(0.5)?,
                from: filled(1.0)?,
                scaled: filled(2.0)?,
                next: 0,
            })
        };
        arrays().map_err(|error| io::Error::new(io::ErrorKind::OutOfMemory, error))
    }

    fn compute_block(&mut self) {
        let block = self.next..self.next + BLOCK;
        let (from, scaled) = (&self.from[block.clone()], &self.scaled[block.clone()]);
        triad(&mut self.to[block], from, scaled);
        self.next = (self.next + BLOCK) % self.to.len();
    }
}

/// The rate in 10^9 bytes per second of threads with three arrays of about `bytes` together, and how large these are.
///
/// # Errors
/// If a thread cannot be started or the memory is not given.
pub(super) fn measure(threads: usize, bytes: u64, window: Duration) -> io::Result<(Spread, u64)> {
    let of_block = ARRAYS * 8 * BLOCK as u64;
    let blocks = (bytes / of_block / threads as u64).max(1);
    let prepare = || Arrays::new(usize::try_from(blocks).unwrap_or(usize::MAX));
    let found = rates(threads, &[window; REPEATS], prepare, Arrays::compute_block)?;
    #[expect(clippy::cast_precision_loss, reason = "it is small")]
    let rates: Vec<f64> = (found.iter().skip(1))
        .map(|rate| rate * of_block as f64 / 1e9)
        .collect();
    let rate = Spread::of(&rates).ok_or_else(|| io::Error::other("nothing took any time"))?;
    Ok((rate, blocks * of_block * threads as u64))
}

/// With the widest vectors of the CPU.
fn triad(to: &mut [f64], from: &[f64], scaled: &[f64]) {
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
        let mut arrays = Arrays::new(2).expect("little memory");
        arrays.compute_block();
        arrays.compute_block();
        assert!(arrays.to.iter().all(|value| *value == 7.0), "1 + 3 * 2");
        assert!(Arrays::new(usize::MAX / 2).is_err());
    }

    #[test]
    fn arrays_are_larger_than_the_caches_or_a_note_says_so() {
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
    fn one_thread_and_several_have_a_rate() {
        for threads in [1, 3] {
            let window = Duration::from_millis(5);
            let (rate, bytes) = measure(threads, 6 << 20, window).expect("little memory");
            assert!(rate.best.is_finite() && rate.median > 0.0, "{rate:?}");
            assert_eq!(rate.repeats, 10);
            assert!(bytes <= 6 << 20 && bytes > 2 << 20, "{bytes}");
        }
        assert!(measure(2, u64::MAX, Duration::ZERO).is_err());
    }
}
