//! The user's own runs beside a job: which are alike, and what those took.
//!
//! Limits rest on runs that are alike in everything but numbers.

use std::collections::BTreeSet;

use super::facts::History;
use crate::job::{JobState, RunId, SchedulerKind};
use crate::record::{Amount, Identity, Past, Shift};

/// A run that was cut off at its time limit needs at least so many times that limit: less would cut the next one off again.
const BEYOND_TIMEOUT: f64 = 2.0;
/// A run that ran out of memory needs at least so many times what it was given. With the reserve on top that doubles it.
const BEYOND_OUT_OF_MEMORY: f64 = 1.5;
/// So many runs must have been measured; one of them must have completed.
const ENOUGH: usize = 2;

/// A forecast holds what so many of the last repeats took.
const REPEATS: usize = 10;

/// What runs that are alike needed.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Needed {
    /// Runs that it rests on.
    pub(super) runs: usize,
    /// The largest that was measured.
    pub(super) longest: f64,
    /// The least that the job is taken to need: scaled up, where the job is larger, and beyond what cut a run off.
    pub(super) at_least: f64,
    /// What they had of the job's numbers.
    pub(super) numbers: Numbers,
    /// How many of them were cut off by the limit in question.
    pub(super) cut_off: usize,
}

/// How near the numbers of some runs are to the job's, the nearest first.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Numbers {
    /// The same.
    Same,
    /// Around them, with no more epochs, steps or samples than the job.
    NoLarger,
    /// Around them.
    Around,
}

/// The runs of a job's program.
#[derive(Debug)]
pub(super) struct Ladder<'a> {
    job: &'a Identity,
    /// Those with the same script, arguments, data, environment, size and place; numbers within what ran.
    same: Vec<&'a Past>,
    /// What the latest of the others with the same arguments lacks.
    lack: Option<String>,
    /// There are runs with other arguments.
    has_others: bool,
    /// Those with the same arguments that are over, the oldest first.
    over: Vec<&'a Past>,
    /// Numbers among its arguments that lie beyond those of the runs that completed.
    pub(super) unlike: Vec<Unlike>,
}

/// A number among the arguments that lies beyond those of the runs.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Unlike {
    pub(super) name: String,
    pub(super) asked: f64,
    /// The smallest and the largest of the runs.
    pub(super) ran: (f64, f64),
}

impl<'a> Ladder<'a> {
    pub(super) fn new(job: &'a Identity, scheduler: SchedulerKind, history: &'a History) -> Self {
        let mut ladder = Self {
            job,
            same: Vec::new(),
            lack: None,
            has_others: false,
            over: Vec::new(),
            unlike: Vec::new(),
        };
        for past in &history.past {
            let is_here =
                past.scheduler == scheduler && (!scheduler.is_local() || past.host == history.host);
            if past.identity.key == job.key && past.state.is_final() {
                ladder.over.push(past);
            }
            if past.identity.key != job.key {
                ladder.has_others |= past.identity.program == job.program;
            } else if let Some(lack) = lack(&past.identity, job, is_here) {
                ladder.lack = Some(lack.to_owned());
            } else {
                ladder.same.push(past);
            }
        }
        ladder.unlike = ladder.unlike_numbers();
        if let Some(beyond) = number_beyond(ladder.job, &ladder.same) {
            ladder.same.clear();
            ladder.lack = Some(beyond);
        }
        ladder
    }

    fn unlike_numbers(&self) -> Vec<Unlike> {
        let is_over = |past: &&&Past| past.state == JobState::Completed;
        // A rate or a share is no amount of work.
        let is_amount = |number: f64| number >= 1.0 && number.fract() == 0.0;
        let numbers = self.job.other_numbers().into_iter();
        let numbers = numbers.filter(|(_, asked)| is_amount(*asked));
        let unlike = numbers.filter_map(|(name, asked)| {
            let completed = self.same.iter().filter(is_over);
            let ran = completed.filter_map(|past| past.identity.numbers.get(&name).copied());
            let ran = range(ran.filter(|number| is_amount(*number)))?;
            let is_within = (ran.0..=ran.1).contains(&asked);
            (!is_within).then_some(Unlike { name, asked, ran })
        });
        unlike.collect()
    }

    /// What the runs of the first rung took, in seconds, where they are enough.
    pub(super) fn seconds(&self) -> Option<Needed> {
        self.needed(
            wall,
            |past| is_at_its_limit(past).then_some(BEYOND_TIMEOUT),
            true,
        )
    }

    /// The memory of a node that they had, in bytes, where they are enough.
    pub(super) fn bytes(&self) -> Option<Needed> {
        let beyond =
            |past: &Past| (past.state == JobState::OutOfMemory).then_some(BEYOND_OUT_OF_MEMORY);
        self.needed(memory, beyond, false)
    }

    /// `measured`: what a run needed as far as it got; `beyond`: by how much one that was cut off is taken to have needed more.
    fn needed(
        &self,
        measured: fn(&Past) -> Option<f64>,
        beyond: impl Fn(&Past) -> Option<f64>,
        scales: bool,
    ) -> Option<Needed> {
        let counted = |numbers: Numbers| -> Vec<(&Past, f64)> {
            let of_numbers = |past: &&&Past| match numbers {
                Numbers::Same => past.identity.numbers == self.job.numbers,
                Numbers::NoLarger => is_no_larger(&past.identity, self.job),
                Numbers::Around => true,
            };
            let runs = self.same.iter().filter(of_numbers);
            runs.filter_map(|past| Some((*past, measured(past)?)))
                .collect()
        };
        // Elements of an array are one run; one that is still running only shows that more is needed.
        let is_enough = |runs: &Vec<(&Past, f64)>| {
            let over = runs.iter().filter(|(past, _)| past.state.is_final());
            let over: BTreeSet<&RunId> = over.map(|(past, _)| &past.run_id).collect();
            over.len() >= ENOUGH
                && runs
                    .iter()
                    .any(|(past, _)| past.state == JobState::Completed)
        };
        let is_around = |runs: &[(&Past, f64)]| {
            let runs: Vec<&Past> = runs.iter().map(|(past, _)| *past).collect();
            number_beyond(self.job, &runs).is_none()
        };
        // The memory of a run does not grow with its epochs, so all of them say it.
        let nearest = match scales {
            true => &[Numbers::Same, Numbers::NoLarger, Numbers::Around][..],
            false => &[Numbers::Same, Numbers::Around],
        };
        let mut nearest = nearest.iter().map(|numbers| (*numbers, counted(*numbers)));
        let is_usable =
            |(_, runs): &(Numbers, Vec<(&Past, f64)>)| is_enough(runs) && is_around(runs);
        let (numbers, runs) = nearest.find(is_usable)?;
        let at_least = runs.iter().map(|(past, measured)| {
            let scale = if scales {
                scale(&past.identity, self.job, 1.0)
            } else {
                1.0
            };
            measured * beyond(past).unwrap_or(1.0) * scale
        });
        // The job's share of what longer runs took: one of them may be nearer in its other numbers.
        let longer = match numbers {
            Numbers::NoLarger => counted(Numbers::Around),
            Numbers::Same | Numbers::Around => Vec::new(),
        };
        let shares = longer.iter().map(|(past, measured)| {
            measured * beyond(past).unwrap_or(1.0) * scale(&past.identity, self.job, 0.0)
        });
        Some(Needed {
            runs: runs.len(),
            longest: runs
                .iter()
                .map(|(_, measured)| *measured)
                .fold(0.0, f64::max),
            at_least: at_least.chain(shares).fold(0.0, f64::max),
            numbers,
            cut_off: runs
                .iter()
                .filter(|(past, _)| beyond(past).is_some())
                .count(),
        })
    }

    /// The shortest of the last runs with the job's own numbers that completed, the longest of these and of those that their limit cut off, in
    /// seconds; and how many there are. After a shift only those that count since. `None`: none completed.
    pub(super) fn repeats(&self, shift: Option<Shift>) -> Option<(f64, f64, usize)> {
        let since = shift.and_then(|shift| usize::try_from(shift.runs).ok());
        let is_measured =
            |past: &&&Past| past.state == JobState::Completed || is_at_its_limit(past);
        let measured = self.same.iter().filter(is_measured);
        let equal = measured.filter(|past| past.identity.numbers == self.job.numbers);
        let is_over = |past: &Past| past.state == JobState::Completed;
        let seconds = equal.filter_map(|past| Some((is_over(past), wall(past)?)));
        let seconds: Vec<(bool, f64)> = seconds.collect();
        let newest = seconds
            .len()
            .saturating_sub(since.unwrap_or(REPEATS).min(REPEATS));
        let newest = seconds[newest..].iter();
        let (low, _) = range(
            newest
                .clone()
                .filter(|(over, _)| *over)
                .map(|(_, wall)| *wall),
        )?;
        let (_, high) = range(newest.map(|(_, wall)| *wall))?;
        Some((low, high, seconds.len()))
    }

    /// The longest of the runs with the job's own numbers that their limit cut off, in seconds: it takes longer than that.
    pub(super) fn longest_cut_off(&self) -> Option<f64> {
        let cut_off = self.same.iter().filter(|past| is_at_its_limit(past));
        let equal = cut_off.filter(|past| past.identity.numbers == self.job.numbers);
        Some(range(equal.filter_map(|past| wall(past)))?.1)
    }

    /// What changed at a shift, as far as it is recorded.
    pub(super) fn changed(&self, shift: Shift) -> Option<String> {
        let submitted = |at_ms: u64| {
            let past = self.over.iter().find(|past| past.at_ms == at_ms);
            past.map(|past| &past.identity)
        };
        let [before, after] = shift.between_ms.map(submitted);
        let (before, after) = before.zip(after)?;
        let commit = after
            .git
            .as_ref()
            .filter(|git| before.git.as_ref() != Some(git));
        let parts = [
            (before.script_digest != after.script_digest)
                .then(|| "the script was edited".to_owned()),
            commit.map(|git| format!("commit {}", git.short())),
            (before.environment != after.environment).then(|| "the environment changed".to_owned()),
        ];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        (!parts.is_empty()).then(|| format!("since {}", parts.join(", ")))
    }

    /// Why the job's needs are not known.
    pub(super) fn why_unknown(&self) -> String {
        let completed = |past: &&Past| past.state == JobState::Completed;
        match &self.lack {
            _ if self.same.iter().any(completed) => {
                "two measured runs like it are needed, one of which completed".to_owned()
            }
            _ if !self.same.is_empty() => "no run like it completed".to_owned(),
            Some(lack) => format!("of the nearest runs {lack}"),
            None if self.has_others => {
                "only runs of this program with other arguments are recorded".to_owned()
            }
            None => "no run of this program is recorded".to_owned(),
        }
    }
}

/// The smallest and the largest of some numbers.
fn range(mut numbers: impl Iterator<Item = f64>) -> Option<(f64, f64)> {
    let first = numbers.next()?;
    Some(numbers.fold((first, first), |(low, high), next| {
        (low.min(next), high.max(next))
    }))
}

/// The number of a job that no completed one of some runs speaks for, in words.
fn number_beyond(job: &Identity, runs: &[&Past]) -> Option<String> {
    let completed = || {
        let is_over = |past: &&&Past| past.state == JobState::Completed;
        runs.iter().filter(is_over)
    };
    completed().next()?;
    let beyond = job.numbers.iter().find_map(|(name, asked)| {
        let ran = completed().filter_map(|past| past.identity.numbers.get(name));
        let (low, high) = range(ran.copied()).unwrap_or((f64::INFINITY, f64::NEG_INFINITY));
        if (low..=high).contains(asked) {
            return None;
        }
        let ran = if low == high {
            format!("{low}")
        } else {
            format!("{low} to {high}")
        };
        Some(format!("{name} is {asked} where {ran} ran"))
    });
    // Each may have been as large, and not all in one run: layers and their width multiply. A rate or a share is no amount of work.
    let amounts = || {
        let numbers = job.numbers.iter();
        numbers.filter(|(name, asked)| **asked >= 1.0 && Amount::of(name).is_none())
    };
    let had_all = |past: &Past| {
        let ran = |name: &String| past.identity.numbers.get(name);
        amounts().all(|(name, asked)| ran(name).is_some_and(|ran| ran >= asked))
    };
    let together = || {
        let asked = amounts().map(|(name, asked)| format!("{name} {asked}"));
        let asked: Vec<String> = asked.collect();
        format!("none had {} together", asked.join(" and "))
    };
    beyond.or_else(|| (!completed().any(|past| had_all(past))).then(together))
}

/// Whether a run had no more epochs, steps and samples than the job has, which has any.
fn is_no_larger(past: &Identity, job: &Identity) -> bool {
    let amounts = || {
        let numbers = job.numbers.iter();
        numbers.filter(|(name, _)| Amount::of(name).is_some())
    };
    let is_less =
        |(name, asked): (&String, &f64)| past.numbers.get(name).is_some_and(|ran| ran <= asked);
    amounts().next().is_some() && amounts().all(is_less)
}

/// What a run with the same arguments lacks to tell what the job needs.
fn lack(past: &Identity, job: &Identity, is_here: bool) -> Option<&'static str> {
    let names = |identity: &Identity| identity.numbers.keys().cloned().collect::<Vec<_>>();
    let is_unknown = job.declared.is_none() && job.script_digest.is_none();
    let lacks = [
        (
            is_unknown,
            "the program is not a file whose content is known",
        ),
        (
            past.script_digest != job.script_digest,
            "the script was edited since",
        ),
        (past.inputs != job.inputs, "the data are others"),
        (
            past.environment != job.environment,
            "the environment is another",
        ),
        (
            !is_here || !past.asked.is_same_size(&job.asked),
            "the size or the queue is another",
        ),
        (names(past) != names(job), "the numbers go by other names"),
    ];
    lacks.iter().find(|(lacks, _)| *lacks).map(|(_, why)| *why)
}

/// By how much longer the job is than a run by its epochs, and by its samples; neither below `least`.
fn scale(past: &Identity, job: &Identity, least: f64) -> f64 {
    let mut scales = [None::<f64>; 2];
    for (name, asked) in &job.numbers {
        let (Some(amount), Some(ran)) = (Amount::of(name), past.numbers.get(name)) else {
            continue;
        };
        let ratio = asked / ran;
        if *ran > 0.0 && ratio.is_finite() {
            // Epochs and steps are two words for one amount.
            let scale = &mut scales[usize::from(amount == Amount::Samples)];
            *scale = Some(scale.unwrap_or(0.0).max(ratio));
        }
    }
    let scales = scales.into_iter();
    scales
        .map(|scale| scale.unwrap_or(1.0).max(least))
        .product()
}

/// Says whether a run was cut off at its time limit, or vanished so close to it that it may have been.
fn is_at_its_limit(past: &Past) -> bool {
    #[expect(clippy::cast_precision_loss, reason = "seconds of a time limit")]
    let limit = past
        .identity
        .asked
        .walltime_seconds
        .map(|seconds| seconds as f64);
    let is_close = limit
        .zip(past.wall_seconds)
        .is_some_and(|(limit, wall)| wall >= 0.9 * limit);
    past.state == JobState::Timeout || (past.state == JobState::Unknown && is_close)
}

/// What a run took; one at its time limit at least that.
fn wall(past: &Past) -> Option<f64> {
    let limit = past
        .identity
        .asked
        .walltime_seconds
        .filter(|_| is_at_its_limit(past));
    #[expect(clippy::cast_precision_loss, reason = "seconds of a time limit")]
    let limit = limit.map(|seconds| seconds as f64);
    larger(past.wall_seconds, limit)
}

/// The memory that a run had; one that ran out of it at least what it was given.
fn memory(past: &Past) -> Option<f64> {
    let limit = past
        .identity
        .asked
        .memory_bytes
        .filter(|_| past.state == JobState::OutOfMemory);
    #[expect(clippy::cast_precision_loss, reason = "memory is far below 2^53 bytes")]
    let bytes = |bytes: Option<u64>| bytes.map(|bytes| bytes as f64);
    larger(bytes(past.memory_bytes), bytes(limit))
}

fn larger(one: Option<f64>, other: Option<f64>) -> Option<f64> {
    let sound = |value: &f64| value.is_finite() && *value > 0.0;
    one.into_iter().chain(other).filter(sound).reduce(f64::max)
}

#[cfg(test)]
mod tests;
