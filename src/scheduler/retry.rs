//! Asking again after a failure that passes: a controller under load answers a moment later.
//!
//! For questions only. A submission is never repeated: the first may have been taken.

use std::thread::sleep;
use std::time::{Duration, Instant};

/// How often a question is asked at most.
const ATTEMPTS: u32 = 4;
/// The first pause; each further one is twice as long, up to the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);
/// No new attempt begins later than this: somebody waits for the answer.
const PATIENCE: Duration = Duration::from_secs(20);

/// Asks until the answer is none that `passes`, or patience is at its end; then that answer is returned.
pub(super) fn patiently<T>(mut ask: impl FnMut() -> T, passes: impl Fn(&T) -> bool) -> T {
    let begun = Instant::now();
    let mut attempt = 1;
    loop {
        let answer = ask();
        let pause = jittered(pause_after(attempt), random_byte());
        if !passes(&answer) || attempt == ATTEMPTS || begun.elapsed() + pause > PATIENCE {
            return answer;
        }
        tracing::debug!(attempt, ?pause, "the scheduler is busy; asking again");
        sleep(pause);
        attempt += 1;
    }
}

fn pause_after(attempt: u32) -> Duration {
    (FIRST_PAUSE * 2_u32.saturating_pow(attempt - 1)).min(LONGEST_PAUSE)
}

/// Half to one and a half times as long, so that those who failed together do not come back together.
fn jittered(pause: Duration, random: u8) -> Duration {
    pause / 2 + pause * u32::from(random) / 255
}

fn random_byte() -> u8 {
    let mut byte = [128];
    // Without randomness the pause is the plain one.
    let _ = getrandom::fill(&mut byte);
    byte[0]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_that_passes_is_asked_again_and_another_is_not() {
        let mut asked = 0;
        let answer = patiently(
            || {
                asked += 1;
                asked
            },
            |answer| *answer < 2,
        );
        assert_eq!((answer, asked), (2, 2));
        let mut asked = 0;
        assert!(!patiently(
            || {
                asked += 1;
                false
            },
            |_| false
        ));
        assert_eq!(asked, 1);
    }

    #[test]
    fn it_ends() {
        let mut asked = 0;
        patiently(|| asked += 1, |()| true);
        assert_eq!(asked, ATTEMPTS);
    }

    #[test]
    fn pauses_grow_to_a_cap_and_vary() {
        let pauses: Vec<u128> = (1..7)
            .map(|attempt| pause_after(attempt).as_millis())
            .collect();
        assert_eq!(pauses, [200, 400, 800, 1600, 2000, 2000]);
        assert_eq!(
            jittered(Duration::from_secs(1), 0),
            Duration::from_millis(500)
        );
        assert_eq!(
            jittered(Duration::from_secs(1), 255),
            Duration::from_millis(1500)
        );
    }
}
