//! All that is on the screen.

use std::cmp::Ordering;

use super::feed::Picture;
use super::keys::Key;
use super::watched::Watched;
use crate::observe::protocol::DaemonStatus;
use crate::record::MeasureKey;

/// What the runs are sorted by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Sort {
    /// The oldest first.
    #[default]
    Start,
    Cpu,
    Memory,
    Gpu,
}

impl Sort {
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Cpu => "CPU",
            Self::Memory => "memory",
            Self::Gpu => "GPU",
        }
    }

    fn next(self) -> Self {
        match self {
            Self::Start => Self::Cpu,
            Self::Cpu => Self::Memory,
            Self::Memory => Self::Gpu,
            Self::Gpu => Self::Start,
        }
    }
}

/// The runs of a node, and how they are looked at.
#[derive(Debug, Default)]
pub(crate) struct Board {
    pub(super) host: String,
    /// The daemon's time, in Unix milliseconds UTC.
    pub(super) at_ms: u64,
    /// In the order of the screen.
    pub(super) runs: Vec<Watched>,
    /// Runs of other users that are left out.
    pub(super) hidden: usize,
    /// Whether runs of other users are shown.
    pub(super) all_users: bool,
    pub(super) daemon: Option<DaemonStatus>,
    /// Why the picture is not new.
    pub(super) trouble: Option<String>,
    pub(super) sort: Sort,
    pub(super) shows_processes: bool,
    pub(super) shows_help: bool,
    /// Which run is looked at. Its place is kept too, for when it ends.
    pub(super) selected: Option<(MeasureKey, usize)>,
}

impl Board {
    /// Takes in what the daemon says now.
    pub(crate) fn take(&mut self, picture: Picture) {
        (self.host, self.at_ms, self.hidden) = (picture.host, picture.at_ms, picture.hidden);
        self.all_users = picture.all_users;
        self.trouble = None;
        let mut former = std::mem::take(&mut self.runs);
        for (view, user) in picture.runs {
            let known = former.iter().position(|run| *run.key() == view.key);
            self.runs.push(match known {
                Some(at) => {
                    let mut run = former.swap_remove(at);
                    run.take(view);
                    run
                }
                None => Watched::new(view, user),
            });
        }
        self.put_in_order();
    }

    /// Takes in how the daemon is.
    pub(crate) fn take_status(&mut self, status: DaemonStatus) {
        self.daemon = Some(status);
    }

    /// The daemon gave no answer; what was seen before stays.
    pub(crate) fn fail(&mut self, why: String) {
        self.trouble = Some(why);
    }

    /// Whether processes are to be asked for.
    pub(crate) fn wants_processes(&self) -> bool {
        self.shows_processes
    }

    /// True once rates can be told, or there is nothing of which they could be.
    pub(crate) fn has_rates(&self) -> bool {
        self.runs
            .iter()
            .all(|run| run.cpus().is_some() || run.sampled_at_ms().is_none())
    }

    /// The place of the run that is looked at.
    pub(super) fn selected(&self) -> usize {
        let Some((key, place)) = &self.selected else {
            return 0;
        };
        let found = self.runs.iter().position(|run| run.key() == key);
        found.unwrap_or_else(|| (*place).min(self.runs.len().saturating_sub(1)))
    }

    /// Does what a key means. False: no more.
    pub(crate) fn press(&mut self, key: Key) -> bool {
        let last = self.runs.len().saturating_sub(1);
        let place = self.selected();
        match key {
            Key::Quit => return false,
            Key::Escape if !self.shows_help => return false,
            Key::Help => self.shows_help = !self.shows_help,
            _ if self.shows_help => self.shows_help = false,
            Key::Up => self.select(place.saturating_sub(1)),
            Key::Down => self.select((place + 1).min(last)),
            Key::First => self.select(0),
            Key::Last => self.select(last),
            Key::Processes => self.shows_processes = !self.shows_processes,
            Key::Sort => {
                self.select(place);
                self.sort = self.sort.next();
                self.put_in_order();
            }
            Key::Escape => {}
        }
        true
    }

    fn select(&mut self, place: usize) {
        self.selected = self.runs.get(place).map(|run| (run.key().clone(), place));
    }

    fn put_in_order(&mut self) {
        let sort = self.sort;
        let descending = |a: Option<f64>, b: Option<f64>| match (a, b) {
            (Some(a), Some(b)) => b.total_cmp(&a),
            (a, b) => b.is_some().cmp(&a.is_some()),
        };
        self.runs.sort_by(|a, b| {
            let by = match sort {
                Sort::Start => Ordering::Equal,
                Sort::Cpu => descending(a.cpus(), b.cpus()),
                Sort::Memory => b.now().mem_used_bytes().cmp(&a.now().mem_used_bytes()),
                Sort::Gpu => descending(a.gpu_percent(), b.gpu_percent()),
            };
            by.then_with(|| (a.view.started_at_ms, a.key()).cmp(&(b.view.started_at_ms, b.key())))
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::top::sample_board::{board, names};

    #[test]
    fn keys_move_the_selection_and_sorting_keeps_it() {
        let mut board = board();
        assert_eq!(
            (names(&board), board.selected()),
            (vec!["mnist-cnn", "resnet", "idle"], 0)
        );
        assert!(board.press(Key::Down) && board.press(Key::Sort));
        assert_eq!(
            (names(&board), board.selected()),
            (vec!["resnet", "mnist-cnn", "idle"], 0)
        );
        assert!(board.press(Key::Last) && board.press(Key::Down));
        assert_eq!(board.selected(), 2);
        assert!(board.press(Key::First) && board.press(Key::Up));
        assert_eq!(board.selected(), 0);
        assert!(!board.press(Key::Quit) && !board.press(Key::Escape));
    }

    #[test]
    fn any_key_closes_the_help() {
        let mut board = board();
        for key in [Key::Escape, Key::Down, Key::Help] {
            assert!(board.press(Key::Help) && board.shows_help);
            assert!(board.press(key) && !board.shows_help);
        }
        assert_eq!(board.selected(), 0);
    }

    #[test]
    fn the_next_run_is_looked_at_when_the_selected_one_ends() {
        let mut board = board();
        let _ = board.press(Key::Last);
        let mut left: Vec<_> = board
            .runs
            .iter()
            .map(|run| (run.view.clone(), run.user.clone()))
            .collect();
        left.pop();
        let picture = Picture {
            runs: left,
            host: "n".into(),
            at_ms: 1,
            hidden: 0,
            all_users: false,
        };
        board.take(picture);
        assert_eq!((board.runs.len(), board.selected()), (2, 1));
        board.take(Picture {
            runs: Vec::new(),
            host: "n".into(),
            at_ms: 2,
            hidden: 0,
            all_users: false,
        });
        assert_eq!(board.selected(), 0);
        assert!(board.press(Key::Down) && board.press(Key::Sort));
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
