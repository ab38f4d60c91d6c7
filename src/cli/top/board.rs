//! The runs that `dlrun top` shows, and which of them is looked at.

use super::feed::Picture;
use super::watched::Watched;
use crate::record::MeasureKey;

/// What a key means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Key {
    Up,
    Down,
    Quit,
}

/// What terminals send for each key. Ctrl-C comes as a letter where the terminal makes no signal of it.
const KEYS: [(&[u8], Key); 8] = [
    (b"q", Key::Quit),
    (b"\x03", Key::Quit),
    (b"k", Key::Up),
    (b"\x1b[A", Key::Up),
    (b"\x1bOA", Key::Up),
    (b"j", Key::Down),
    (b"\x1b[B", Key::Down),
    (b"\x1bOB", Key::Down),
];

/// The keys in what was typed; others are ignored.
pub(super) fn keys(mut typed: &[u8]) -> Vec<Key> {
    let mut keys = Vec::new();
    while !typed.is_empty() {
        let known = KEYS.iter().find(|(bytes, _)| typed.starts_with(bytes));
        keys.extend(known.map(|(_, key)| *key));
        typed = &typed[known.map_or(1, |(bytes, _)| bytes.len())..];
    }
    keys
}

/// The runs of a node, and how they are looked at.
#[derive(Debug, Default)]
pub(crate) struct Board {
    pub(super) host: String,
    /// The daemon's time, in Unix milliseconds UTC.
    pub(super) at_ms: u64,
    /// The oldest first.
    pub(super) runs: Vec<Watched>,
    /// Runs of other users that are left out.
    pub(super) hidden: usize,
    /// Whether runs of other users are shown.
    pub(super) all_users: bool,
    /// Why the figures are not new.
    pub(super) trouble: Option<String>,
    /// Which run is looked at. Its place is kept too, for when it ends.
    pub(super) selected: Option<(MeasureKey, usize)>,
}

impl Board {
    /// Takes in what the daemon answers now.
    pub(crate) fn take(&mut self, picture: Picture) {
        (self.host, self.at_ms, self.hidden) = (picture.host, picture.at_ms, picture.hidden);
        self.all_users = picture.all_users;
        self.trouble = None;
        let mut former = std::mem::take(&mut self.runs);
        for (view, user) in picture.runs {
            let known = former.iter().position(|run| run.view.key == view.key);
            let run = known.map(|at| former.swap_remove(at));
            self.runs.push(Watched::newer(run, view, user));
        }
    }

    /// The daemon gave no answer; what was seen before stays.
    pub(crate) fn fail(&mut self, why: String) {
        self.trouble = Some(why);
    }

    /// True once rates are known, or there is nothing of which they could be.
    pub(crate) fn has_rates(&self) -> bool {
        let has_rates = |run: &Watched| run.cpus.is_some() || run.sampled_at_ms.is_none();
        self.runs.iter().all(has_rates)
    }

    /// The place of the run that is looked at.
    pub(super) fn selected(&self) -> usize {
        let Some((key, place)) = &self.selected else {
            return 0;
        };
        let found = self.runs.iter().position(|run| run.view.key == *key);
        found.unwrap_or_else(|| (*place).min(self.runs.len().saturating_sub(1)))
    }

    /// Does what a key means. False: the user quits.
    pub(crate) fn press(&mut self, key: Key) -> bool {
        let place = self.selected();
        match key {
            Key::Quit => return false,
            Key::Up => self.select(place.saturating_sub(1)),
            Key::Down => self.select((place + 1).min(self.runs.len().saturating_sub(1))),
        }
        true
    }

    fn select(&mut self, place: usize) {
        let run = self.runs.get(place);
        self.selected = run.map(|run| (run.view.key.clone(), place));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::top::tests_board::{board, names};

    #[test]
    fn keys_move_the_selection() {
        let mut board = board();
        assert_eq!(
            (names(&board), board.selected()),
            (vec!["mnist-cnn", "resnet", "idle"], 0)
        );
        for _ in 0..5 {
            assert!(board.press(Key::Down));
        }
        assert_eq!(board.selected(), 2);
        for _ in 0..5 {
            assert!(board.press(Key::Up));
        }
        assert_eq!(board.selected(), 0);
        assert!(!board.press(Key::Quit));
    }

    #[test]
    fn keys_are_found_in_what_was_typed() {
        assert_eq!(
            keys(b"x\x1b[A\x1b[5~jq\x1bOB\x1b"),
            [Key::Up, Key::Down, Key::Quit, Key::Down]
        );
    }

    #[test]
    fn the_next_run_is_looked_at_when_the_selected_one_ends() {
        let mut board = board();
        for _ in 0..2 {
            let _ = board.press(Key::Down);
        }
        let mut left: Vec<_> = board
            .runs
            .iter()
            .map(|run| (run.view.clone(), run.user.clone()))
            .collect();
        left.pop();
        let picture = |runs| Picture {
            runs,
            host: "n".into(),
            at_ms: 1,
            hidden: 0,
            all_users: false,
        };
        board.take(picture(left));
        assert_eq!((board.runs.len(), board.selected()), (2, 1));
        board.take(picture(Vec::new()));
        assert_eq!(board.selected(), 0);
        assert!(board.press(Key::Down));
    }

    #[test]
    fn there_are_rates_after_two_samples_of_each_run() {
        let board = board();
        assert!(board.has_rates());
        let first = board
            .runs
            .iter()
            .map(|run| (run.view.clone(), String::new()))
            .collect();
        let mut fresh = Board::default();
        assert!(fresh.has_rates());
        fresh.take(Picture {
            runs: first,
            host: "n".into(),
            at_ms: 1,
            hidden: 0,
            all_users: false,
        });
        assert!(!fresh.has_rates());
    }
}
