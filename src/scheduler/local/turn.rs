//! A job's way to its share of the machine: it puts up its entry, waits for its turn, claims its share and looks again.
//!
//! Two jobs may both find room for one. So a job first puts up its claim and then looks once more; it starts only where all
//! claims together fit. Of jobs that start, the one that claimed last looked after all others had claimed, so it saw them.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::time::{Duration, Instant};

use super::board::{Board, Look, OwnDir, Published, Seen};
use super::entry::Kind;
use super::line::{Verdict, could_start, taken_by_others, verdict};
use super::process::Identity;
use super::share::Machine;
use super::ticket::Ticket;

/// A job that could start and does not start for so long is no longer waited for: its runner is stopped or hangs.
const PATIENCE: Duration = Duration::from_secs(30);
const SHORTEST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);
/// Looking takes a twentieth of the time at most, however many entries others make.
const REST: u32 = 20;

/// A job that waits.
pub(super) struct Turn {
    board: Board,
    machine: Machine,
    /// `None` where no entry can be put up.
    place: Option<(Rc<OwnDir>, Published)>,
    /// Since when those before this one could have started.
    room_since: BTreeMap<(u32, Identity), Instant>,
    /// What is not waited for any more: all jobs of another user, or one of this user.
    passed: BTreeSet<(u32, Option<Identity>)>,
    /// From here on jobs of other users are not waited for; `None`: never.
    alone_from: Option<Instant>,
    /// True where others held what this job takes.
    ignores_others: bool,
    /// For how long to do something else.
    pub(super) pause: Duration,
}

/// A share of the machine that a job has; it goes with this. `None`: it could not be put up, and the job runs all the same.
pub(super) struct Claim(
    #[expect(dead_code, reason = "its end removes the entry")] Option<Published>,
);

impl Turn {
    /// Queues up. What is in the way of that is a warning in the ticket: then the job does not wait.
    pub(super) fn take(ticket: &mut Ticket) -> Self {
        let board = Board::new(&ticket.lock_dir);
        let place = board.own_dir().and_then(|dir| {
            let entry = board.entry_of(ticket);
            let entry = entry
                .ok_or_else(|| std::io::Error::other("the kernel does not name this process"))?;
            let dir = Rc::new(dir);
            let published = dir.publish(Kind::Wait, board.user, &entry)?;
            Ok((dir, published))
        });
        let place = place.inspect_err(|error| {
            ticket.warning = Some(format!(
                "runs without waiting for its share of the machine: {error}"
            ));
        });
        Self {
            board,
            machine: Machine::here(),
            place: place.ok(),
            room_since: BTreeMap::new(),
            passed: BTreeSet::new(),
            alone_from: ticket
                .others_wait_seconds
                .and_then(|seconds| Instant::now().checked_add(Duration::from_secs(seconds))),
            ignores_others: false,
            // Mostly it is our turn at once.
            pause: Duration::from_millis(10),
        }
    }

    /// The share, if it is this job's turn.
    pub(super) fn claim(&mut self, ticket: &mut Ticket) -> Option<Claim> {
        let Some((_, published)) = &self.place else {
            return Some(Claim(None));
        };
        let me = published.seen.clone();
        self.pause = SHORTEST_PAUSE;
        let begun = Instant::now();
        let look = self.read_board(&me);
        self.pass_over(&look, &me);
        let verdict = verdict(&look, &me, self.machine, |seen| self.is_passed(seen));
        self.pause = (begun.elapsed() * REST).clamp(SHORTEST_PAUSE, LONGEST_PAUSE);
        if !matches!(verdict, Verdict::Start) {
            return None;
        }
        self.take_share(ticket)
    }

    /// Puts the claim up and looks again; `None` where all claims together do not fit.
    fn take_share(&mut self, ticket: &mut Ticket) -> Option<Claim> {
        let Some((dir, published)) = &self.place else {
            return Some(Claim(None));
        };
        let (dir, me) = (Rc::clone(dir), published.seen.clone());
        let claim = match dir.publish(Kind::Run, me.user, &me.entry) {
            Ok(claim) => claim,
            Err(error) => {
                ticket.warning = Some(format!(
                    "other jobs do not see that it takes its share: {error}"
                ));
                self.place = None;
                return Some(Claim(None));
            }
        };
        let others = taken_by_others(&self.read_board(&me), &me, self.machine);
        if !others.and(me.share(self.machine)).fits(self.machine) {
            // Others that claim at this moment do the same: not all of them should be back at the same time.
            self.pause = Duration::from_millis(10 + getrandom::u64().unwrap_or(0) % 90);
            return None;
        }
        if self.ignores_others {
            ticket.warning = Some(
                "started beside jobs of other users, for which it had waited long enough"
                    .to_owned(),
            );
        }
        self.place = None;
        Some(Claim(Some(claim)))
    }

    fn read_board(&mut self, me: &Seen) -> Look {
        let mut look = self.board.read();
        if self.alone_from.is_some_and(|from| Instant::now() >= from) {
            // An entry costs its user nothing but a process: it must not hold others up for ever.
            let all = look.waiting.len() + look.running.len();
            look.waiting.retain(|seen| seen.user == me.user);
            look.running.retain(|seen| seen.user == me.user);
            self.ignores_others = look.waiting.len() + look.running.len() < all;
        }
        if !look.waiting.iter().any(|seen| seen.is(me)) {
            // Somebody removed our entry; the place in the line is still ours.
            look.waiting.push(me.clone());
        }
        look
    }

    fn pass_over(&mut self, look: &Look, me: &Seen) {
        let now = Instant::now();
        let could = could_start(look, me, self.machine, |seen| self.is_passed(seen));
        let key = |seen: &Seen| (seen.user, seen.entry.runner);
        self.room_since
            .retain(|known, _| could.iter().any(|seen| key(seen) == *known));
        for seen in could {
            let since = self.room_since.entry(key(seen)).or_insert(now);
            if now.duration_since(*since) >= PATIENCE {
                // One user's entries cost others this patience once, however many they are.
                self.passed.insert((
                    seen.user,
                    (seen.user == me.user).then_some(seen.entry.runner),
                ));
            }
        }
    }

    fn is_passed(&self, seen: &Seen) -> bool {
        [None, Some(seen.entry.runner)]
            .into_iter()
            .any(|which| self.passed.contains(&(seen.user, which)))
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::process::{Command, Stdio};
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;
    use crate::scheduler::local::share::Asked;

    fn ticket_of(runner: u32, dir: &Path) -> Ticket {
        let text = serde_json::json!({
            "format": 1, "run_id": "0000000000000000", "job_id": "L7", "host": "h", "script": "/s", "workdir": "/w",
            "output": "/o", "queue_dir": dir.join("queue"), "lock_dir": dir, "walltime_seconds": null,
            "kill_wait_seconds": 30, "queued_at_ms": 5, "phase": "pending", "runner": null, "shell": null,
            "started_at_ms": null, "ended_at_ms": null, "exit": null, "end": null, "note": null,
        });
        let mut ticket: Ticket = serde_json::from_value(text).expect("a ticket");
        assert_eq!(ticket.asked, Asked::default(), "the whole machine");
        ticket.runner = Identity::from_pid(runner.cast_signed());
        ticket
    }

    #[test]
    fn of_jobs_that_claim_the_machine_at_once_one_has_it() {
        let dir = tempfile::tempdir().expect("a directory");
        let (holders, rounds) = (AtomicU32::new(0), AtomicU32::new(0));
        let contender = || {
            // The process that stands for the runner.
            let mut cat = Command::new("cat");
            let mut runner = cat
                .stdin(Stdio::piped())
                .stdout(Stdio::null())
                .spawn()
                .expect("cat");
            let mut ticket = ticket_of(runner.id(), dir.path());
            for _ in 0..10 {
                let mut turn = Turn::take(&mut ticket);
                assert!(turn.place.is_some(), "{:?}", ticket.warning);
                // Without waiting for its turn in the line: all claim at the same time.
                let claim = loop {
                    if let Some(claim) = turn.take_share(&mut ticket) {
                        break claim;
                    }
                    std::thread::sleep(turn.pause / 20);
                };
                assert_eq!(
                    holders.fetch_add(1, Ordering::SeqCst),
                    0,
                    "another one has the machine"
                );
                std::thread::sleep(Duration::from_millis(1));
                holders.fetch_sub(1, Ordering::SeqCst);
                drop(claim);
                rounds.fetch_add(1, Ordering::SeqCst);
            }
            runner.kill().expect("ours");
            runner.wait().expect("it ends");
        };
        std::thread::scope(|scope| (0..8).for_each(|_| drop(scope.spawn(contender))));
        assert_eq!(rounds.load(Ordering::SeqCst), 80);
    }
}
