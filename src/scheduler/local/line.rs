//! Whose turn it is: first come, first served, and nobody overtakes a large job. And in words, what a job waits for.

use std::collections::BTreeMap;

use nix::unistd::{Uid, User};

use super::board::{Look, Seen};
use super::share::{Machine, Share};
use crate::units::Bytes;

/// Holders that are named.
const NAMED: usize = 3;

/// What a job that waits may do.
#[derive(Debug)]
pub(super) enum Verdict<'a> {
    Start,
    /// Others came earlier, the first of them first.
    Behind(Vec<&'a Seen>),
    /// It is the first, and the running jobs hold too much.
    NoRoom,
}

/// Those that wait, in the order of their arrival by the kernel's clock. The jobs of one user take that user's places in the
/// order in which they were submitted: which runner started first is chance.
pub(super) fn line(look: &Look) -> Vec<&Seen> {
    let is_running = |seen: &Seen| look.running.iter().any(|running| running.is(seen));
    let mut places: Vec<&Seen> = look.waiting.iter().filter(|seen| !is_running(seen)).collect();
    places.sort_by_key(|seen| (seen.changed, seen.user, seen.entry.runner));
    let mut by_user: BTreeMap<u32, Vec<&Seen>> = BTreeMap::new();
    places.iter().for_each(|seen| by_user.entry(seen.user).or_default().push(seen));
    for jobs in by_user.values_mut() {
        jobs.sort_by_key(|seen| std::cmp::Reverse((seen.entry.queued_at_ms, seen.changed, seen.entry.runner)));
    }
    let next = |place: &&'_ Seen| by_user.get_mut(&place.user).and_then(Vec::pop);
    places.iter().filter_map(next).collect()
}

/// What others hold.
pub(super) fn held(look: &Look, me: &Seen, machine: Machine) -> Share {
    let others = look.running.iter().filter(|seen| !seen.is(me));
    others.fold(Share::default(), |sum, seen| sum.and(seen.share(machine)))
}

/// Says whether `me` may start. `passed` are jobs that are not waited for.
pub(super) fn verdict<'a>(
    look: &'a Look,
    me: &Seen,
    machine: Machine,
    passed: impl Fn(&Seen) -> bool,
) -> Verdict<'a> {
    let earlier: Vec<&Seen> =
        line(look).into_iter().take_while(|seen| !seen.is(me)).filter(|seen| !passed(seen)).collect();
    if !earlier.is_empty() {
        return Verdict::Behind(earlier);
    }
    if held(look, me, machine).and(me.share(machine)).fits(machine) { Verdict::Start } else { Verdict::NoRoom }
}

/// Of those before `me`, the ones that could start now: each has room, after those before it.
pub(super) fn could_start<'a>(
    look: &'a Look,
    me: &Seen,
    machine: Machine,
    passed: impl Fn(&Seen) -> bool,
) -> Vec<&'a Seen> {
    let mut sum = held(look, me, machine);
    let earlier = line(look).into_iter().take_while(|seen| !seen.is(me)).filter(|seen| !passed(seen));
    let has_room = |seen: &&Seen| {
        sum = sum.and(seen.share(machine));
        sum.fits(machine)
    };
    earlier.take_while(has_room).collect()
}

/// `waits for 2 CPUs: L7 of alice (train) holds 8 of 8`; `None` where it does not wait for anything.
pub(super) fn reason(look: &Look, me: &Seen, machine: Machine) -> Option<String> {
    let earlier = match verdict(look, me, machine, |_| false) {
        Verdict::Start => return None,
        Verdict::Behind(earlier) => earlier,
        Verdict::NoRoom => Vec::new(),
    };
    let (share, whole) = (me.share(machine), machine.whole());
    let sum = held(look, me, machine).and(share);
    let kind = if sum.cpus > whole.cpus || (sum.memory <= whole.memory && sum.gpus <= whole.gpus) {
        Kind::Cpus
    } else if sum.memory > whole.memory {
        Kind::Memory
    } else {
        Kind::Gpus
    };
    let wanted = if share == whole { "the whole machine".to_owned() } else { kind.amount(share) };
    let before = match earlier.as_slice() {
        [] => String::new(),
        [one] => format!(" behind {}", shown(one, me)),
        [first, others @ ..] => format!(" behind {} and {}", shown(first, me), more(others.len())),
    };
    let mut holders: Vec<&Seen> = look.running.iter().filter(|seen| !seen.is(me)).collect();
    holders.retain(|seen| kind.of(seen.share(machine)) > 0);
    holders.sort_by_key(|seen| (std::cmp::Reverse(kind.of(seen.share(machine))), seen.changed));
    let unit = if share == whole { kind.unit() } else { "" };
    let mut named: Vec<String> = holders
        .iter()
        .take(NAMED)
        .map(|seen| {
            let (held, of) = (kind.plain(seen.share(machine)), kind.plain(whole));
            format!("{} holds {held} of {of}{unit}", shown(seen, me))
        })
        .collect();
    if holders.len() > NAMED {
        named.push(more(holders.len() - NAMED));
    }
    let holders = if named.is_empty() { String::new() } else { format!(": {}", named.join(", ")) };
    Some(format!("waits for {wanted}{before}{holders}"))
}

fn more(count: usize) -> String {
    if count == 1 { "1 more".to_owned() } else { format!("{count} more") }
}

/// `L7 of alice (train)`; the user only where it is another one.
fn shown(seen: &Seen, me: &Seen) -> String {
    let mut text = seen.entry.job.clone();
    if seen.user != me.user {
        let user = User::from_uid(Uid::from_raw(seen.user)).ok().flatten();
        text += &user.map_or_else(|| format!(" of user id {}", seen.user), |user| format!(" of {}", user.name));
    }
    if !seen.entry.name.is_empty() {
        text += &format!(" ({})", seen.entry.name);
    }
    text
}

#[derive(Clone, Copy)]
enum Kind {
    Cpus,
    Memory,
    Gpus,
}

impl Kind {
    fn of(self, share: Share) -> u64 {
        match self {
            Self::Cpus => share.cpus,
            Self::Memory => share.memory,
            Self::Gpus => share.gpus,
        }
    }

    fn plain(self, share: Share) -> String {
        match self {
            Self::Memory => Bytes(share.memory).to_string(),
            _ => self.of(share).to_string(),
        }
    }

    fn unit(self) -> &'static str {
        match self {
            Self::Cpus => " CPUs",
            Self::Memory => "",
            Self::Gpus => " GPUs",
        }
    }

    /// `2 CPUs`, `12GiB`, `1 GPU`.
    fn amount(self, share: Share) -> String {
        let one = self.of(share) == 1;
        let unit = if one { self.unit().trim_end_matches('s') } else { self.unit() };
        if matches!(self, Self::Memory) {
            return format!("{} of memory", self.plain(share));
        }
        format!("{}{unit}", self.plain(share))
    }
}
