//! Long tests: whatever takes more than a minute, and what chance must find.

mod again;
mod daemon;
mod disk;
mod export;
mod fuzz;
mod kills;
mod model;
mod queue;
mod same;
mod sweep;

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::slurm_real;
use crate::support::tell;

/// How often to try: `DLRUN_SOAK_COUNT`, or what takes about a minute.
fn count(default: usize) -> usize {
    let asked = std::env::var("DLRUN_SOAK_COUNT")
        .ok()
        .filter(|text| !text.is_empty());
    asked.map_or(default, |text| {
        text.parse().expect("DLRUN_SOAK_COUNT is a number")
    })
}

/// Rounds of a test that may go on for as long as wanted: for `DLRUN_SOAK_SECONDS`, else [`count`].
fn rounds(default: usize) -> impl Iterator<Item = usize> {
    let asked = std::env::var("DLRUN_SOAK_SECONDS")
        .ok()
        .filter(|text| !text.is_empty());
    let seconds = asked.map(|text| text.parse().expect("DLRUN_SOAK_SECONDS is a number"));
    let until = seconds.map(|seconds| Instant::now() + Duration::from_secs(seconds));
    let most = if until.is_some() {
        usize::MAX
    } else {
        count(default)
    };
    (0..most).take_while(move |_| until.is_none_or(|until| Instant::now() < until))
}

/// SplitMix64: small, good enough, and the same everywhere.
struct Chance(u64);

impl Chance {
    /// Chance from `DLRUN_SOAK_SEED`, or from the clock; the seed is printed so that a failure can be had again.
    fn new(test: &str) -> Self {
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        let seed = match std::env::var("DLRUN_SOAK_SEED") {
            Ok(text) => text.parse().expect("DLRUN_SOAK_SEED is a number"),
            Err(_) => now.as_secs() ^ u64::from(now.subsec_nanos()),
        };
        tell(&format!("{test}: DLRUN_SOAK_SEED={seed}"));
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `limit`.
    fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.next() % u64::try_from(limit.max(1)).expect("it fits"))
            .expect("it is below")
    }

    fn one_of<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.below(of.len())]
    }
}

#[test]
#[ignore = "soak tier: tests/run soak"]
fn a_job_in_its_time_limit_is_a_timeout() {
    slurm_real::run_into_the_time_limit();
}

#[test]
#[ignore = "soak tier: tests/run soak"]
fn a_job_whose_node_dies_is_a_node_failure() {
    slurm_real::let_a_node_die();
    slurm_real::resume::let_a_run_lose_a_node();
}

#[test]
#[ignore = "soak tier: tests/run soak"]
fn a_run_that_is_requeued_at_random_ends_as_if_it_had_not_been() {
    let mut chance = Chance::new("resume");
    slurm_real::resume::interrupt_at_random(count(4), |limit| chance.below(limit));
}
