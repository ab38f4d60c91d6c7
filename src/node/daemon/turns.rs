//! Whose request is next. Users take turns, so that a crowd of one costs another no more than one request's time.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound::{Excluded, Unbounded};

/// Things that wait, by user. A connection has one request under way, so the limits on connections bound them.
#[derive(Debug)]
pub(super) struct Turns<T> {
    waiting: BTreeMap<u32, VecDeque<T>>,
    /// The user who was served last.
    last: u32,
}

impl<T> Turns<T> {
    pub(super) fn new() -> Self {
        Self {
            waiting: BTreeMap::new(),
            last: 0,
        }
    }

    pub(super) fn add(&mut self, uid: u32, thing: T) {
        self.waiting.entry(uid).or_default().push_back(thing);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// The oldest of the next user's.
    pub(super) fn next(&mut self) -> Option<T> {
        let after = self.waiting.range((Excluded(self.last), Unbounded)).next();
        let uid = *after.or_else(|| self.waiting.first_key_value())?.0;
        self.last = uid;
        let things = self.waiting.get_mut(&uid)?;
        let thing = things.pop_front();
        if things.is_empty() {
            self.waiting.remove(&uid);
        }
        thing
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_take_turns_and_each_keeps_its_order() {
        let mut turns = Turns::new();
        for number in 1..=3 {
            turns.add(7, format!("seven {number}"));
        }
        turns.add(0, "root 1".to_owned());
        assert_eq!(turns.next().as_deref(), Some("seven 1"));
        turns.add(9, "nine 1".to_owned());
        turns.add(9, "nine 2".to_owned());
        let order: Vec<String> = std::iter::from_fn(|| turns.next()).collect();
        assert_eq!(order, ["nine 1", "root 1", "seven 2", "nine 2", "seven 3"]);
        assert!(turns.is_empty());
    }
}
