//! The highest single-precision rate: multiplications with additions that wait for nothing but each other.
//!
//! A fused multiply-add takes about four cycles and two or more may begin in each, so a core is busy only where as many chains of
//! them run side by side; the chains stay in registers, and memory is not touched. Two operations are counted for each element of
//! each instruction, as the peaks of data sheets count them. All instruction sets that the CPU has are tried: the widest is not
//! the quickest where it lowers the clock.

use std::hint::black_box;
use std::io;
use std::time::{Duration, Instant};

use super::team::Team;
use crate::record::Spread;

/// So many multiply-adds of each chain are done between two looks at the clock: some tenths of a millisecond.
const ROUNDS: u32 = 50_000;
/// Values of all chains stay near 1 with these: neither infinite nor denormal, which some CPUs are slow with.
const SCALE: f32 = 0.999;
const ADDED: f32 = 0.001;

/// How long to measure.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pace {
    /// Each instruction set is tried for so long; the clock of a CPU that was idle rises meanwhile.
    pub(super) trial: Duration,
    /// Each measurement takes so long.
    pub(super) window: Duration,
    /// How many measurements.
    pub(super) repeats: usize,
}

/// A way to compute.
#[derive(Clone, Copy)]
struct Kernel {
    name: &'static str,
    /// Operations of a round.
    operations: f64,
    /// Does so many rounds from these values; the caller must know that the CPU has the instructions.
    run: unsafe fn(u32, &[f32; 24]) -> f32,
}

/// What was found.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Peak {
    /// The quickest instruction set.
    pub(super) instructions: &'static str,
    /// In 10^9 operations per second.
    pub(super) gflops: Spread,
}

/// Measures a team.
///
/// # Errors
/// When a thread cannot be started.
pub(super) fn measure(team: &Team, pace: Pace) -> io::Result<Peak> {
    let mut best: Option<(f64, Kernel)> = None;
    for kernel in kernels() {
        let rate = rate(team, kernel, pace.trial)?;
        if best.is_none_or(|(highest, _)| rate > highest) {
            best = Some((rate, kernel));
        }
    }
    let none = || io::Error::other("nothing could be computed");
    let (_, kernel) = best.ok_or_else(none)?;
    let rates: Vec<f64> = (0..pace.repeats)
        .map(|_| rate(team, kernel, pace.window))
        .collect::<io::Result<_>>()?;
    Ok(Peak {
        instructions: kernel.name,
        gflops: Spread::of(&rates).ok_or_else(none)?,
    })
}

/// The rate of all threads together: their operations over the time from the first that began to the last that ended.
fn rate(team: &Team, kernel: Kernel, window: Duration) -> io::Result<f64> {
    let found = team.work(|member| {
        let from: [f32; 24] = std::array::from_fn(|at| {
            #[expect(clippy::cast_precision_loss, reason = "they are few")]
            let value = 1.0 + at as f32 / 64.0;
            black_box(value)
        });
        member.together();
        let began = Instant::now();
        let mut blocks = 0_u32;
        while began.elapsed() < window {
            // SAFETY: `kernels` lists only what this CPU has.
            black_box(unsafe { (kernel.run)(ROUNDS, &from) });
            blocks += 1;
        }
        (began, Instant::now(), blocks)
    })?;
    let began = found.iter().map(|(began, ..)| *began).min();
    let ended = found.iter().map(|(_, ended, _)| *ended).max();
    let seconds = began
        .zip(ended)
        .map_or(0.0, |(began, ended)| (ended - began).as_secs_f64());
    let blocks: f64 = found.iter().map(|(.., blocks)| f64::from(*blocks)).sum();
    Ok(blocks * f64::from(ROUNDS) * kernel.operations / seconds / 1e9)
}

/// A function of chains in registers. An array of chains would do, were it certain that it is held in registers.
macro_rules! chains {
    ($(#[$attribute:meta])* $name:ident, $lanes:literal, $splat:path, $fma:expr, $add:path, $sum:expr, $($chain:ident $at:literal),*) => {
        $(#[$attribute])*
        fn $name(rounds: u32, from: &[f32; 24]) -> f32 {
            let (scale, added) = ($splat(black_box(SCALE)), $splat(black_box(ADDED)));
            $(let mut $chain = $splat(from[$at]);)*
            for _ in 0..rounds {
                $($chain = $fma($chain, scale, added);)*
            }
            let mut all = $splat(0.0);
            $(all = $add(all, $chain);)*
            $sum(all)
        }
    };
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::{
        __m128, _mm_add_ps, _mm_cvtss_f32, _mm_mul_ps, _mm_set1_ps, _mm256_add_ps,
        _mm256_castps256_ps128, _mm256_fmadd_ps, _mm256_set1_ps, _mm512_add_ps, _mm512_fmadd_ps,
        _mm512_reduce_add_ps, _mm512_set1_ps,
    };
    use std::hint::black_box;

    use super::{ADDED, Kernel, SCALE};

    chains!(
        #[target_feature(enable = "avx512f")]
        avx512, 16, _mm512_set1_ps, _mm512_fmadd_ps, _mm512_add_ps, _mm512_reduce_add_ps,
        a 0, b 1, c 2, d 3, e 4, f 5, g 6, h 7, i 8, j 9, k 10, l 11
    );
    chains!(
        #[target_feature(enable = "avx2,fma")]
        avx2, 8, _mm256_set1_ps, _mm256_fmadd_ps, _mm256_add_ps, |all| _mm_cvtss_f32(_mm256_castps256_ps128(all)),
        a 0, b 1, c 2, d 3, e 4, f 5, g 6, h 7, i 8, j 9, k 10, l 11
    );
    chains!(
        #[target_feature(enable = "sse2")]
        sse2, 4, _mm_set1_ps, multiplied_and_added, _mm_add_ps, _mm_cvtss_f32,
        a 0, b 1, c 2, d 3, e 4, f 5, g 6, h 7, i 8, j 9, k 10, l 11
    );

    #[inline]
    #[target_feature(enable = "sse2")]
    fn multiplied_and_added(value: __m128, scale: __m128, added: __m128) -> __m128 {
        _mm_add_ps(_mm_mul_ps(value, scale), added)
    }

    /// Those that this CPU has. Every x86-64 has SSE2.
    pub(super) fn kernels() -> Vec<Kernel> {
        let mut found = Vec::new();
        if is_x86_feature_detected!("avx512f") {
            found.push(Kernel {
                name: "avx512f",
                operations: 2.0 * 12.0 * 16.0,
                run: avx512,
            });
        }
        if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
            found.push(Kernel {
                name: "avx2+fma",
                operations: 2.0 * 12.0 * 8.0,
                run: avx2,
            });
        }
        if found.is_empty() {
            found.push(Kernel {
                name: "sse2",
                operations: 2.0 * 12.0 * 4.0,
                run: sse2,
            });
        }
        found
    }
}

#[cfg(target_arch = "aarch64")]
mod arm {
    use std::arch::aarch64::{float32x4_t, vaddq_f32, vaddvq_f32, vdupq_n_f32, vfmaq_f32};
    use std::hint::black_box;

    use super::{ADDED, Kernel, SCALE};

    // Cores with four units of four cycles need sixteen chains at once.
    chains!(
        #[target_feature(enable = "neon")]
        neon, 4, vdupq_n_f32, multiplied_and_added, vaddq_f32, vaddvq_f32,
        a 0, b 1, c 2, d 3, e 4, f 5, g 6, h 7, i 8, j 9, k 10, l 11, m 12, n 13, o 14, p 15,
        q 16, r 17, s 18, t 19, u 20, v 21, w 22, x 23
    );

    #[inline]
    #[target_feature(enable = "neon")]
    fn multiplied_and_added(
        value: float32x4_t,
        scale: float32x4_t,
        added: float32x4_t,
    ) -> float32x4_t {
        vfmaq_f32(added, value, scale)
    }

    pub(super) fn kernels() -> Vec<Kernel> {
        vec![Kernel {
            name: "neon",
            operations: 2.0 * 24.0 * 4.0,
            run: neon,
        }]
    }
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
mod plain {
    use super::{ADDED, Kernel, SCALE};

    /// What the compiler makes of it: less than the peak where it finds no vectors.
    fn scalar(rounds: u32, from: &[f32; 24]) -> f32 {
        let mut values = *from;
        for _ in 0..rounds {
            for value in &mut values {
                *value = *value * SCALE + ADDED;
            }
        }
        values.iter().sum()
    }

    pub(super) fn kernels() -> Vec<Kernel> {
        vec![Kernel {
            name: "plain",
            operations: 2.0 * 24.0,
            run: scalar,
        }]
    }
}

#[cfg(target_arch = "aarch64")]
use arm::kernels;
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
use plain::kernels;
#[cfg(target_arch = "x86_64")]
use x86::kernels;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kernel_computes_and_stays_within_numbers() {
        for kernel in kernels() {
            // SAFETY: `kernels` lists only what this CPU has.
            let found = unsafe { (kernel.run)(1_000, &[1.0; 24]) };
            // Chains go to 1: ADDED / (1 - SCALE).
            assert!((8.0..400.0).contains(&found), "{}: {found}", kernel.name);
            assert!(kernel.operations >= 48.0);
        }
    }

    #[test]
    fn one_core_and_several_have_a_rate() {
        let pace = Pace {
            trial: Duration::from_millis(2),
            window: Duration::from_millis(5),
            repeats: 3,
        };
        for threads in [1, 2] {
            let peak = measure(&Team::of(threads), pace).expect("threads can be started");
            assert!(
                peak.gflops.median > 0.0 && peak.gflops.repeats == 3,
                "{peak:?}"
            );
            assert!(peak.gflops.best >= peak.gflops.median && peak.gflops.best.is_finite());
        }
    }
}
