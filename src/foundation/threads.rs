//! Independent pieces of work on the CPUs that there are.

use std::sync::{Mutex, PoisonError};
use std::thread;

/// Does each piece of `work`, and gives what came of them in their order. As many threads share it as there are CPUs that this
/// process may use; where none can be started, this one does all.
///
/// # Panics
/// Where `each` does.
pub(crate) fn on_threads<T: Send, R: Send>(work: Vec<T>, each: impl Fn(T) -> R + Sync) -> Vec<R> {
    let others = thread::available_parallelism().map_or(1, usize::from);
    let others = others.min(work.len()).saturating_sub(1);
    let queue = Mutex::new(work.into_iter().enumerate());
    let done = Mutex::new(Vec::new());
    let next = || queue.lock().unwrap_or_else(PoisonError::into_inner).next();
    let take_turns = || {
        while let Some((place, piece)) = next() {
            let result = each(piece);
            let mut done = done.lock().unwrap_or_else(PoisonError::into_inner);
            done.push((place, result));
        }
    };
    thread::scope(|scope| {
        for _ in 0..others {
            let thread = thread::Builder::new();
            // A user may have no more processes: then there are fewer threads.
            let _ = thread.spawn_scoped(scope, take_turns);
        }
        take_turns();
    });
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_by_key(|(place, _)| *place);
    done.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_come_in_the_order_of_the_work() {
        let late = |number: u64| {
            thread::sleep(std::time::Duration::from_millis(20 - number));
            number
        };
        let numbers: Vec<u64> = (0..20).collect();
        assert_eq!(on_threads(numbers.clone(), late), numbers);
        assert_eq!(on_threads(Vec::new(), late), Vec::<u64>::new());
    }
}
