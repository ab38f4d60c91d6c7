//! The highest single-precision rate: multiplications with additions that wait for nothing but each other.
//!
//! A fused multiply-add takes about four cycles and two or more may begin in each, so a core is busy only where as many chains of
//! them run side by side; the chains stay in registers, and memory is not touched. Two operations are counted for each element of
//! each instruction, as the peaks of data sheets count them. All instruction sets that the CPU has are tried: the widest is not
//! the quickest where it lowers the clock.

use std::hint::black_box;
use std::io;
use std::time::Duration;

use super::rates::rates;
use crate::record::Spread;

/// So many multiply-adds of each chain are done between two looks at the clock: some tenths of a millisecond.
const ROUNDS: u32 = 50_000;
/// Values of all chains stay near 1 with these: neither infinite nor denormal, which some CPUs are slow with.
const SCALE: f32 = 0.999;
const ADDED: f32 = 0.001;
const REPEATS: usize = 5;

/// A way to compute.
#[derive(Clone, Copy)]
struct Kernel {
    name: &'static str,
    /// Operations of a round.
    operations: f64,
    /// Does so many rounds; the caller must know that the CPU has the instructions.
    run: unsafe fn(u32) -> f32,
}

/// The quickest instruction set, tried for half a window each while the clock of a CPU that was idle rises, and its rate in 10^9
/// operations per second.
///
/// # Errors
/// If a thread cannot be started.
pub(super) fn measure(threads: usize, window: Duration) -> io::Result<(&'static str, Spread)> {
    let mut best: Option<(f64, Kernel)> = None;
    for kernel in kernels() {
        let rate = gflops(threads, kernel, &[window / 2])?[0];
        if best.is_none_or(|(highest, _)| rate > highest) {
            best = Some((rate, kernel));
        }
    }
    let none = || io::Error::other("nothing could be computed");
    let (_, kernel) = best.ok_or_else(none)?;
    let found = gflops(threads, kernel, &[window; REPEATS])?;
    Ok((kernel.name, Spread::of(&found).ok_or_else(none)?))
}

fn gflops(threads: usize, kernel: Kernel, windows: &[Duration]) -> io::Result<Vec<f64>> {
    let block = |(): &mut ()| {
        // SAFETY: `kernels` lists only what this CPU has.
        black_box(unsafe { (kernel.run)(ROUNDS) });
    };
    let blocks = rates(threads, windows, || Ok(()), block)?.into_iter();
    let of_block = f64::from(ROUNDS) * kernel.operations / 1e9;
    Ok(blocks.map(|rate| rate * of_block).collect())
}

/// A function of chains in registers. An array of chains would do, were it certain that it is held in registers.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
macro_rules! chains {
    ($name:ident, $feature:literal, $splat:path, $fma:expr, $add:path, $sum:expr, $($chain:ident)*) => {
        #[target_feature(enable = $feature)]
        fn $name(rounds: u32) -> f32 {
            let (scale, added) = ($splat(black_box(SCALE)), $splat(black_box(ADDED)));
            $(let mut $chain = $splat(black_box(1.0));)*
            for _ in 0..rounds {
                $($chain = $fma($chain, scale, added);)*
            }
            let mut all = $splat(0.0);
            $(all = $add(all, $chain);)*
            $sum(all)
        }
    };
}

/// The instruction sets that this CPU has. Every x86-64 has SSE2.
#[cfg(target_arch = "x86_64")]
fn kernels() -> Vec<Kernel> {
    use std::arch::x86_64::{
        _mm_add_ps, _mm_cvtss_f32, _mm_mul_ps, _mm_set1_ps, _mm256_add_ps, _mm256_castps256_ps128,
        _mm256_fmadd_ps, _mm256_set1_ps, _mm512_add_ps, _mm512_fmadd_ps, _mm512_reduce_add_ps,
        _mm512_set1_ps,
    };
    chains!(
        avx512, "avx512f",
        _mm512_set1_ps, _mm512_fmadd_ps, _mm512_add_ps, _mm512_reduce_add_ps,
        a b c d e f g h i j k l
    );
    chains!(
        avx2, "avx2,fma",
        _mm256_set1_ps, _mm256_fmadd_ps, _mm256_add_ps, |all| _mm_cvtss_f32(_mm256_castps256_ps128(all)),
        a b c d e f g h i j k l
    );
    chains!(
        sse2, "sse2",
        _mm_set1_ps, |value, scale, added| _mm_add_ps(_mm_mul_ps(value, scale), added), _mm_add_ps, _mm_cvtss_f32,
        a b c d e f g h i j k l
    );
    let has_avx512 = is_x86_feature_detected!("avx512f");
    let has_avx2 = is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma");
    let kernel = |name, lanes: f64, run: unsafe fn(u32) -> f32| Kernel {
        name,
        operations: 2.0 * 12.0 * lanes,
        run,
    };
    let all = [
        (has_avx512, kernel("avx512f", 16.0, avx512)),
        (has_avx2, kernel("avx2+fma", 8.0, avx2)),
        (!has_avx512 && !has_avx2, kernel("sse2", 4.0, sse2)),
    ];
    let there = all.into_iter().filter(|(is_there, _)| *is_there);
    there.map(|(_, kernel)| kernel).collect()
}

/// Cores with four units of four cycles need sixteen chains at once.
#[cfg(target_arch = "aarch64")]
fn kernels() -> Vec<Kernel> {
    use std::arch::aarch64::{vaddq_f32, vaddvq_f32, vdupq_n_f32, vfmaq_f32};
    chains!(
        neon, "neon",
        vdupq_n_f32, |value, scale, added| vfmaq_f32(added, value, scale), vaddq_f32, vaddvq_f32,
        a b c d e f g h i j k l m n o p q r s t u v w x
    );
    vec![Kernel {
        name: "neon",
        operations: 2.0 * 24.0 * 4.0,
        run: neon,
    }]
}

/// What the compiler makes of it: less than the peak where it finds no vectors.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn kernels() -> Vec<Kernel> {
    fn scalar(rounds: u32) -> f32 {
        let mut values = [black_box(1.0); 24];
        for _ in 0..rounds {
            values = values.map(|value: f32| value * SCALE + ADDED);
        }
        values.iter().sum()
    }
    vec![Kernel {
        name: "plain",
        operations: 2.0 * 24.0,
        run: scalar,
    }]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kernel_computes_and_stays_within_numbers() {
        for kernel in kernels() {
            // SAFETY: `kernels` lists only what this CPU has.
            let found = unsafe { (kernel.run)(1_000) };
            // Chains go to 1: ADDED / (1 - SCALE).
            assert!((8.0..400.0).contains(&found), "{}: {found}", kernel.name);
            assert!(kernel.operations >= 48.0);
        }
    }

    #[test]
    fn one_core_and_several_have_a_rate() {
        for threads in [1, 2] {
            let window = Duration::from_millis(5);
            let (_, peak) = measure(threads, window).expect("threads can be started");
            assert!(peak.median > 0.0 && peak.repeats == 5, "{peak:?}");
            assert!(peak.best >= peak.median && peak.best.is_finite());
        }
    }
}
