//! Whose turn it is: first come, first served, and nobody overtakes a large job. And in words, what a job waits for.

use nix::unistd::{Uid, User};

use super::board::{Look, Seen};
use super::share::{Machine, Share};
use crate::scheduler::by_key;

/// Jobs that are named.
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
    let mut places: Vec<&Seen> = look
        .waiting
        .iter()
        .filter(|seen| !is_running(seen))
        .collect();
    places.sort_by_key(|seen| (seen.changed, seen.user, seen.entry.runner));
    let mut by_user = by_key(places.iter().map(|seen| (seen.user, *seen)));
    for jobs in by_user.values_mut() {
        jobs.sort_by_key(|seen| {
            std::cmp::Reverse((seen.entry.queued_at_ms, seen.changed, seen.entry.runner))
        });
    }
    let next = |place: &&'_ Seen| by_user.get_mut(&place.user).and_then(Vec::pop);
    places.iter().filter_map(next).collect()
}

/// What others hold.
pub(super) fn taken_by_others(look: &Look, me: &Seen, machine: Machine) -> Share {
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
    let earlier: Vec<&Seen> = line(look)
        .into_iter()
        .take_while(|seen| !seen.is(me))
        .filter(|seen| !passed(seen))
        .collect();
    if !earlier.is_empty() {
        return Verdict::Behind(earlier);
    }
    if taken_by_others(look, me, machine)
        .and(me.share(machine))
        .fits(machine)
    {
        Verdict::Start
    } else {
        Verdict::NoRoom
    }
}

/// Of those before `me`, the ones that could start now: each has room, after those before it.
pub(super) fn could_start<'a>(
    look: &'a Look,
    me: &Seen,
    machine: Machine,
    passed: impl Fn(&Seen) -> bool,
) -> Vec<&'a Seen> {
    let mut sum = taken_by_others(look, me, machine);
    let earlier = line(look)
        .into_iter()
        .take_while(|seen| !seen.is(me))
        .filter(|seen| !passed(seen));
    let has_room = |seen: &&Seen| {
        sum = sum.and(seen.share(machine));
        sum.fits(machine)
    };
    earlier.take_while(has_room).collect()
}

/// `waits for room behind L8: L7 of alice (train), L9 hold the machine`; `None` where it does not wait for anything.
pub(super) fn reason(look: &Look, me: &Seen, machine: Machine) -> Option<String> {
    let earlier = match verdict(look, me, machine, |_| false) {
        Verdict::Start => return None,
        Verdict::Behind(earlier) => earlier,
        Verdict::NoRoom => Vec::new(),
    };
    let mut holders: Vec<&Seen> = look.running.iter().filter(|seen| !seen.is(me)).collect();
    holders.sort_by_key(|seen| seen.changed);
    let list = |jobs: &[&Seen]| {
        let more = jobs.len().saturating_sub(NAMED);
        let named = jobs.iter().take(NAMED).map(|seen| shown(seen, me));
        let more = (more > 0).then(|| format!("{more} more"));
        named.chain(more).collect::<Vec<_>>().join(", ")
    };
    let behind = match earlier.is_empty() {
        true => String::new(),
        false => format!(" behind {}", list(&earlier)),
    };
    let running = match holders.is_empty() {
        true => String::new(),
        false => format!(": running are {}", list(&holders)),
    };
    Some(format!("waits for room on this machine{behind}{running}"))
}

/// `L7 of alice (train)`; the user only where it is another one.
fn shown(seen: &Seen, me: &Seen) -> String {
    let mut text = seen.entry.job.clone();
    if seen.user != me.user {
        let user = User::from_uid(Uid::from_raw(seen.user)).ok().flatten();
        text += &user.map_or_else(
            || format!(" of user id {}", seen.user),
            |user| format!(" of {}", user.name),
        );
    }
    if !seen.entry.name.is_empty() {
        text += &format!(" ({})", seen.entry.name);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scheduler::local::entry::{Entry, Here};
    use crate::scheduler::local::process::Identity;
    use crate::scheduler::local::share::Asked;

    const MACHINE: Machine = Machine {
        cpus: 8,
        memory: 64 << 30,
        gpus: Some(2),
    };
    const ALICE: u32 = 4_000_001;
    const BOB: u32 = 4_000_002;

    /// The job with number `pid`, which arrived at `arrival`.
    fn seen(user: u32, pid: i32, arrival: i64, asked: Asked) -> Seen {
        let here = Here::find().expect("the kernel says");
        let runner = Identity { pid, start: 1 };
        let queued_at_ms = u64::from(pid.unsigned_abs());
        let (job, name) = (
            format!("L{pid}"),
            if pid == 1 {
                String::new()
            } else {
                "train".to_owned()
            },
        );
        let entry = Entry::for_test(here, runner, queued_at_ms, asked, job, name);
        Seen {
            user,
            entry,
            changed: (arrival, 0),
        }
    }

    fn cpus(cpus: u32) -> Asked {
        Asked {
            cpus: Some(cpus),
            memory_bytes: Some(1 << 30),
            gpus: 0,
        }
    }

    fn pids(line: &[&Seen]) -> Vec<i32> {
        line.iter().map(|seen| seen.entry.runner.pid).collect()
    }

    #[test]
    fn users_are_served_by_the_kernels_clock_and_jobs_of_one_user_by_submission() {
        // Bob's runner of job 3 was slow to start; the time in an entry moves no other user.
        let waiting = vec![
            seen(ALICE, 9, 10, cpus(1)),
            seen(BOB, 3, 30, cpus(1)),
            seen(BOB, 4, 20, cpus(1)),
            seen(ALICE, 2, 40, cpus(1)),
        ];
        let look = Look {
            waiting,
            running: Vec::new(),
        };
        assert_eq!(pids(&line(&look)), [2, 3, 4, 9]);
    }

    #[test]
    fn large_job_at_the_head_is_not_overtaken() {
        let (large, small) = (
            seen(ALICE, 2, 1, Asked::default()),
            seen(BOB, 3, 2, cpus(1)),
        );
        let running = vec![seen(BOB, 4, 0, cpus(1))];
        let look = Look {
            waiting: vec![small.clone(), large.clone()],
            running,
        };
        assert!(matches!(
            verdict(&look, &large, MACHINE, |_| false),
            Verdict::NoRoom
        ));
        let Verdict::Behind(earlier) = verdict(&look, &small, MACHINE, |_| false) else {
            panic!("it waits")
        };
        assert_eq!(pids(&earlier), [2]);
        assert_eq!(
            could_start(&look, &small, MACHINE, |_| false),
            Vec::<&Seen>::new()
        );
    }

    #[test]
    fn job_that_does_not_start_in_spite_of_room_can_be_passed_over() {
        let (hung, me) = (seen(ALICE, 2, 1, cpus(2)), seen(BOB, 3, 2, cpus(1)));
        let look = Look {
            waiting: vec![hung, me.clone()],
            running: vec![seen(BOB, 4, 0, cpus(6))],
        };
        assert_eq!(pids(&could_start(&look, &me, MACHINE, |_| false)), [2]);
        assert!(matches!(
            verdict(&look, &me, MACHINE, |_| false),
            Verdict::Behind(_)
        ));
        assert!(matches!(
            verdict(&look, &me, MACHINE, |seen| seen.user == ALICE),
            Verdict::Start
        ));
    }

    #[test]
    fn claims_beyond_the_machine_count_as_the_machine() {
        let me = seen(ALICE, 2, 1, cpus(1));
        let boast = seen(
            BOB,
            3,
            0,
            Asked {
                cpus: Some(u32::MAX),
                memory_bytes: Some(u64::MAX),
                gpus: 9,
            },
        );
        let look = Look {
            waiting: vec![me.clone()],
            running: vec![boast.clone(), boast],
        };
        let sum = taken_by_others(&look, &me, MACHINE);
        assert_eq!((sum.cpus, sum.gpus), (16, 4));
        assert!(matches!(
            verdict(&look, &me, MACHINE, |_| false),
            Verdict::NoRoom
        ));
    }

    #[test]
    fn reason_names_what_is_waited_for_and_who_runs() {
        let me = seen(ALICE, 2, 5, cpus(2));
        let of = |running: Vec<Seen>, waiting: Vec<Seen>| {
            let waiting = waiting.into_iter().chain([me.clone()]).collect();
            reason(&Look { waiting, running }, &me, MACHINE)
        };
        let text = |running, waiting| of(running, waiting).unwrap_or_default();
        assert_eq!(of(Vec::new(), Vec::new()), None);
        let whole = seen(BOB, 7, 0, Asked::default());
        assert_eq!(
            text(vec![whole.clone()], vec![]),
            "waits for room on this machine: running are L7 of user id 4000002 (train)"
        );
        assert_eq!(
            text(vec![whole], vec![seen(ALICE, 1, 1, cpus(1))]),
            "waits for room on this machine behind L1: running are L7 of user id 4000002 (train)"
        );
        let many: Vec<Seen> = (3..11).map(|pid| seen(ALICE, pid, 0, cpus(1))).collect();
        assert!(text(many, vec![]).ends_with("L5 (train), 5 more"));
    }
}
