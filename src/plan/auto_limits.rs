//! `walltime = "auto"` and `memory = "auto"`: what runs that are alike took, else all that the queue allows.
//!
//! A limit that is too low kills a healthy job, so nothing here rests on a guess: neither on the performance model nor on runs
//! that are only similar.

use super::PlannedResources;
use super::decisions::Resolver;
use super::forecast_text::{self, whole_bytes};
use super::similar_runs::{Ladder, Needed, Numbers};
use super::site_check::wanted;
use crate::config::site::{self, NodeType, Queue, SiteModel, Wanted};
use crate::foundation::units::{Bytes, Walltime, display_seconds};
use crate::job::{Asked, SHARES};

/// A run takes up to so many times what the longest of its like took: on a busy node, with cold caches, after a driver's change.
/// Of 112 measured trainings that others disturbed one in twenty took more than 1.4 times the median of its like.
const WALLTIME_RESERVE: f64 = 1.5;
/// What the end of a job with its last records takes, in seconds.
const LEAD_SECONDS: f64 = 60.0;
/// Time limits are rounded up to this, in seconds: up to an hour, and beyond.
const STEPS: (u64, u64) = (5 * 60, 15 * 60);

/// The largest memory of a run is read every second or so; a short peak between two looks may be missed, and caches of files count.
const MEMORY_RESERVE: f64 = 1.3;
/// Memory is asked for in steps of this, in bytes.
const MEMORY_STEP: u64 = 256 << 20;

/// A limit, or why there is none, with the reason.
type Settled<T> = (Option<T>, String);

/// Where the job goes, as far as it is known.
struct Place {
    is_local: bool,
    /// Its queues; several with commas between on Slurm.
    queue: Option<String>,
    site: Option<SiteModel>,
}

impl Place {
    fn queue_names(&self) -> Vec<&str> {
        let names = self.queue.iter().flat_map(|names| names.split(','));
        names.collect()
    }

    /// The queues that may take the job, as far as the site reports them.
    fn queues(&self) -> Vec<&Queue> {
        let names = self.queue_names();
        let all = self.site.iter().flat_map(|site| &site.queues);
        all.filter(|queue| names.contains(&queue.name.as_str()))
            .collect()
    }

    /// The longest time limit: of several queues any may take the job.
    fn longest(&self) -> Option<Walltime> {
        self.queues()
            .iter()
            .map(|queue| queue.max_walltime)
            .reduce(|one, other| Some(one?.max(other?)))?
    }

    /// The kinds of nodes of the queues.
    fn nodes(&self) -> impl Iterator<Item = &NodeType> {
        let names = self.queue_names();
        let is_of = move |node: &&NodeType| {
            node.queues.is_empty()
                || names.is_empty()
                || node.queues.iter().any(|own| names.contains(&own.as_str()))
        };
        self.site.iter().flat_map(|site| &site.nodes).filter(is_of)
    }
}

impl Resolver<'_> {
    /// Fills in the limits that the job file leaves open.
    pub(super) fn limits(&mut self, ladder: &Ladder<'_>) {
        let asked = &self.spec.resources;
        if !asked.has_open_limits() {
            return;
        }
        let place = self.place();
        let nearest = match &self.facts.history.unread {
            Some(why) => format!("the records could not be read ({why})"),
            None => ladder.why_unknown(),
        };
        if asked.memory == Some(Asked::Auto) {
            let resources = &self.plan.resources;
            let spread = resources.tasks.is_some_and(|tasks| tasks > 1)
                && !(resources.nodes_asked || resources.tasks_per_node_asked || place.is_local);
            let (memory, why) = match ladder.bytes() {
                // Memory is a node's, and which tasks share one is not known before.
                _ if spread => (
                    None,
                    "the scheduler spreads the tasks over nodes as it likes".to_owned(),
                ),
                Some(needed) => self.memory_of(&needed, &place),
                None => share(resources, &place, &nearest),
            };
            self.plan.resources.memory = memory;
            self.settle_limit("memory", memory, why);
        }
        if asked.walltime == Some(Asked::Auto) {
            let (walltime, why) = match ladder.seconds() {
                Some(needed) => self.walltime_of(&needed, &place),
                None => self.all_time(&place, &nearest),
            };
            self.plan.resources.walltime = walltime;
            self.settle_limit("walltime", walltime, why);
        }
    }

    fn settle_limit(&mut self, what: &str, value: Option<impl ToString>, why: String) {
        let shown = value.map_or_else(|| "left out".to_owned(), |value| value.to_string());
        self.redecide(what, shown, why, Vec::new());
    }

    /// Options handed through and the user's environment may send the job elsewhere.
    fn place(&self) -> Place {
        let elsewhere = self.elsewhere();
        Place {
            is_local: self.is_local(),
            queue: elsewhere.queue.map(str::to_owned).or(self.queue.clone()),
            site: self.site().filter(|_| !elsewhere.other_cluster),
        }
    }

    fn walltime_of(&mut self, needed: &Needed, place: &Place) -> Settled<Walltime> {
        let mut why = basis_text(needed, "the longest took", display_seconds);
        let Some(wanted) = rounded(needed) else {
            return (None, format!("{why}, which no limit holds"));
        };
        why.push_str("; half as much again and 60 s for the job's end, rounded up");
        let Some(limit) = place.longest().filter(|limit| *limit < wanted) else {
            return (Some(wanted), why);
        };
        #[expect(clippy::cast_precision_loss, reason = "seconds of a time limit")]
        if (limit.0 as f64) < needed.at_least {
            let least = display_seconds(needed.at_least);
            self.plan.warnings.push(format!(
                "walltime = {limit} is the queue's longest, and the run may take {least}: it may be cut off"
            ));
        }
        (
            Some(limit),
            format!("{why}; cut from {wanted} to the longest that the queue allows"),
        )
    }

    /// All the time that the queue allows.
    fn all_time(&mut self, place: &Place, nearest: &str) -> Settled<Walltime> {
        if place.is_local {
            return (None, format!("a local job needs none; {nearest}"));
        }
        let Some(name) = &place.queue else {
            return (
                None,
                format!("the queue is not known, and its default holds; {nearest}"),
            );
        };
        if let Some(limit) = place.longest() {
            return (
                Some(limit),
                format!("queue `{name}` allows {limit}; {nearest}"),
            );
        }
        if let Some(default) = place
            .queues()
            .iter()
            .find_map(|queue| queue.default_walltime)
        {
            self.plan.warnings.push(format!(
                "walltime is left out, and queue `{name}` gives {default} to jobs that ask for none: write a limit if that is too short"
            ));
        }
        (
            None,
            format!("queue `{name}` reports no longest time, and its default holds; {nearest}"),
        )
    }

    fn memory_of(&mut self, needed: &Needed, place: &Place) -> Settled<Bytes> {
        let shown = |bytes: f64| forecast_text::size(bytes).to_string();
        let mut why = basis_text(needed, "the largest had", shown);
        let Some(wanted) = memory_wanted(needed) else {
            return (None, format!("{why}, which no node has"));
        };
        why.push_str(&format!(
            "; three tenths more, rounded up to {}",
            Bytes(MEMORY_STEP)
        ));
        if place.is_local {
            return (
                Some(wanted),
                format!("{why}; a local job is not held to it"),
            );
        }
        let largest = place.nodes().filter_map(|node| node.memory).max();
        let largest = largest.map(|memory| Bytes(memory.0 >> 20 << 20));
        let Some(limit) = largest.filter(|limit| *limit < wanted) else {
            return (Some(wanted), why);
        };
        #[expect(clippy::cast_precision_loss, reason = "memory is far below 2^53 bytes")]
        if (limit.0 as f64) < needed.at_least {
            let least = shown(needed.at_least);
            self.plan.warnings.push(format!(
                "memory = {limit} is the largest node's, and the run may take {least}"
            ));
        }
        (
            Some(limit),
            format!("{why}; cut from {wanted} to what the largest node has"),
        )
    }
}

/// What of a node's memory goes with the CPUs, or the GPUs, that are asked for.
fn share(resources: &PlannedResources, place: &Place, nearest: &str) -> Settled<Bytes> {
    if place.is_local {
        return (None, format!("a local job may use all there is; {nearest}"));
    }
    if place.site.as_ref().and_then(|site| site.accounts_memory) == Some(false) {
        return (
            None,
            format!("the scheduler does not account memory here; {nearest}"),
        );
    }
    let gpus = resources.gpus_on_node();
    let wanted = Wanted {
        memory: None,
        walltime: None,
        ..wanted(resources, gpus.as_deref(), None)
    };
    let fitting = place.nodes().filter(|node| site::serves(node, &wanted));
    let shares = fitting
        .filter_map(|node| Some((node.up, share_of(node, &wanted, resources.exclusive)?, node)));
    // Most nodes are of this kind, so the job waits for no rare one.
    let Some((_, share, node)) = shares.max_by_key(|(up, share, _)| (*up, *share)) else {
        return (
            None,
            format!("no memory of nodes is known, and the site's default holds; {nearest}"),
        );
    };
    let of = site::described(node);
    let what = if resources.exclusive {
        "all memory"
    } else {
        "the job's share of the memory"
    };
    (
        Some(share),
        format!("{what} of a node with {of}; {nearest}"),
    )
}

/// What a limit rests on: `same script, same arguments: 4 runs, the longest took 5 min 35 s`.
fn basis_text(needed: &Needed, most: &str, shown: impl Fn(f64) -> String) -> String {
    let numbers = match needed.numbers {
        Numbers::Same => "same arguments",
        Numbers::NoLarger => "numbers within those that ran, with no more epochs, steps or samples",
        Numbers::Around => "numbers within those that ran",
    };
    let runs = forecast_text::count(needed.runs as u64, "run");
    let mut words = format!(
        "same script, {numbers}: {runs}, {most} {}",
        shown(needed.longest)
    );
    if needed.cut_off > 0 {
        words.push_str(&format!(" ({} cut off by the limit)", needed.cut_off));
    }
    if needed.at_least > needed.longest {
        words.push_str(&format!(
            ", so this one may need {}",
            shown(needed.at_least)
        ));
    }
    words
}

/// The memory that goes with a job's part of a node, in whole mebibytes, since schedulers count in these.
fn share_of(node: &NodeType, wanted: &Wanted<'_>, whole: bool) -> Option<Bytes> {
    let memory = node.memory?.0;
    if whole {
        return Some(Bytes(memory >> 20 << 20));
    }
    let part = |asked: u64, has: u64| -> Option<u128> {
        (has > 0).then(|| u128::from(memory) * u128::from(asked.min(has)) / u128::from(has))
    };
    let cpus = part(wanted.cpus_per_node(), u64::from(node.cpus?))?;
    let whole = node
        .gpus
        .iter()
        .filter(|(kind, _)| !SHARES.contains(&&**kind));
    let gpus: u64 = whole.map(|(_, count)| u64::from(*count)).sum();
    let gpus = part(wanted.gpus().map_or(0, |(_, count)| u64::from(count)), gpus).unwrap_or(0);
    let share = u64::try_from(cpus.max(gpus)).ok()?;
    Some(Bytes(share >> 20 << 20)).filter(|share| share.0 > 0)
}

/// The time limit: what such runs took, the reserve, and the job's end, rounded up. `None`: no limit is so long.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "checked"
)]
fn rounded(needed: &Needed) -> Option<Walltime> {
    const TEN_YEARS: f64 = 3650.0 * 86_400.0;
    let seconds = needed.at_least * WALLTIME_RESERVE + LEAD_SECONDS;
    if !(0.0..TEN_YEARS).contains(&seconds) {
        return None;
    }
    let seconds = seconds.ceil() as u64;
    let step = if seconds <= 3600 { STEPS.0 } else { STEPS.1 };
    Some(Walltime(seconds.next_multiple_of(step)))
}

/// The memory for a run: what such runs had, and the reserve, rounded up.
fn memory_wanted(needed: &Needed) -> Option<Bytes> {
    let bytes = whole_bytes(needed.at_least * MEMORY_RESERVE)?;
    bytes
        .0
        .max(1)
        .checked_next_multiple_of(MEMORY_STEP)
        .map(Bytes)
}

#[cfg(test)]
mod tests;
