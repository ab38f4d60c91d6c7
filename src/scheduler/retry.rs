//! Asking again after a failure that passes: a controller under load answers a moment later.
//!
//! For questions only. A submission is never repeated: the first may have been taken.

use std::thread::sleep;
use std::time::{Duration, Instant};

/// How often a question is asked at most.
const ATTEMPTS: u32 = 4;
/// The first pause; each further one is twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(200);
/// No new attempt begins later than this: somebody waits for the answer.
const PATIENCE: Duration = Duration::from_secs(20);

/// Asks until an answer is not one that `passes`, or patience ends; then that answer is returned.
pub(super) fn patiently<T>(mut ask: impl FnMut() -> T, passes: impl Fn(&T) -> bool) -> T {
    let begun = Instant::now();
    for attempt in 1..ATTEMPTS {
        let answer = ask();
        // Half to one and a half times as long, so that those who failed together do not come back together.
        let random = getrandom::u32().unwrap_or(128) % 256;
        let pause = FIRST_PAUSE * 2_u32.pow(attempt - 1);
        let pause = pause / 2 + pause * random / 255;
        if !passes(&answer) || begun.elapsed() + pause > PATIENCE {
            return answer;
        }
        tracing::debug!(attempt, ?pause, "the scheduler is busy; asking again");
        sleep(pause);
    }
    ask()
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
}
