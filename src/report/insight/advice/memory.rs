//! Memory: what a node's share of the run held at most, with headroom.

use super::{Advice, AdviceKind, Case, NodeUsed, real};
use crate::foundation::units::Bytes;
use crate::job::JobState;
use crate::report::insight::limit::LimitKind;
use crate::report::insight::threshold::{HEADROOM, LEAST_SAMPLES, MEM_LOW, MEM_MORE, MEM_NEAR};

const GIB: f64 = (1_u64 << 30) as f64;
/// Memory of the last quarter of the run over that of the first three from which on it still grew.
const GROWTH: f64 = 1.05;

pub(super) fn rule(case: &Case<'_>) -> Option<Advice> {
    let asked = case.own_request()?.memory_per_node_bytes()?;
    let kills: u64 = case
        .nodes()
        .iter()
        .filter_map(|node| node.mem_oom_kills)
        .fold(0, u64::saturating_add);
    if case.state() == JobState::OutOfMemory || kills > 0 {
        return Some(more(case, asked, kills));
    }
    case.enough()?;
    let peak = peak(case)?;
    let rests_on = [("mem_peak_bytes", peak), ("mem_asked_bytes", real(asked))];
    let share = peak / real(asked) * 100.0;
    let advised = with_headroom(peak);
    let used = format!(
        "{} of {} were used ({share:.0}%)",
        Bytes(whole(peak)),
        Bytes(asked)
    );
    if share >= MEM_NEAR {
        let text = format!("{used}: a little more, and it is killed");
        return (advised <= room(case)).then(|| advice(case, text, advised, &rests_on));
    }
    let is_less = share < MEM_LOW && advised < asked && may_be_less(case);
    is_less.then(|| advice(case, used, advised, &rests_on))
}

/// The most that the run held on a node, in bytes; `None` where that may not be all that it needs.
fn peak(case: &Case<'_>) -> Option<f64> {
    let readings = |node: &NodeUsed| Some(node.sampled.as_ref()?.mem_readings);
    let fewest = case.nodes().iter().filter_map(readings).min()?;
    let is_sure = case.state() == JobState::Completed && real(fewest) >= LEAST_SAMPLES;
    case.most(|node| node.mem_peak_bytes.map(real))
        .filter(|_| is_sure)
}

/// As [`peak`], for a run that would be given no more than that.
pub(super) fn needed(case: &Case<'_>) -> Option<f64> {
    peak(case).filter(|_| may_be_less(case))
}

/// False where less memory could hurt: it waited for memory, or for storage, for which what it did not use served as cache.
fn may_be_less(case: &Case<'_>) -> bool {
    let mut nodes = case.nodes().iter().zip(&case.view.nodes);
    let may_hurt = nodes.any(|(node, view)| {
        let sampled = node.sampled.as_ref();
        let early = sampled.and_then(|sampled| sampled.mem_most_early_bytes);
        let late = sampled.and_then(|sampled| sampled.mem_most_late_bytes);
        let grows = early
            .zip(late)
            .is_some_and(|(early, late)| real(late) > GROWTH * real(early));
        // Files in memory belong to no process; only a cgroup's account has them.
        let is_own = |of: &str| of != "image";
        let mut storage = view.record.conditions.storage.iter();
        let in_memory = storage.any(|storage| storage.class == "tmpfs" && is_own(&storage.of));
        grows || in_memory && view.record.cgroup.is_none()
    });
    !may_hurt
        && case
            .limit(&[LimitKind::Storage, LimitKind::Memory])
            .is_none()
}

/// A run that was killed needs more; how much more is not known.
fn more(case: &Case<'_>, asked: u64, kills: u64) -> Advice {
    let advised = rounded_up(real(asked) * MEM_MORE);
    let rests_on = [
        ("mem_asked_bytes", real(asked)),
        ("mem_oom_kills", real(kills)),
    ];
    let text = format!("{} were too little", Bytes(asked));
    if advised > room(case) {
        let text = format!(
            "{text}, and the node has not much more: use more nodes, smaller batches or fewer workers"
        );
        return Advice::new(AdviceKind::Memory, text, &rests_on);
    }
    let text = format!("{text}; how much it needs is not known");
    advice(case, text, advised, &rests_on)
}

/// What the smallest node has; a twentieth is the system's.
pub(super) fn room(case: &Case<'_>) -> u64 {
    let totals = case.nodes().iter().filter_map(|node| node.mem_total_bytes);
    totals.min().map_or(u64::MAX, |total| total / 20 * 19)
}

fn advice(case: &Case<'_>, text: String, advised: u64, rests_on: &[(&'static str, f64)]) -> Advice {
    Advice::new(AdviceKind::Memory, text, rests_on).pasting("resources", line(case, advised))
}

/// The line of the job file for so much memory on a node, in the way in which it was asked for.
fn line(case: &Case<'_>, bytes: u64) -> String {
    let cpus = case
        .request()
        .filter(|request| request.memory_per_cpu_bytes.is_some());
    match cpus.and_then(super::Request::cpus_per_node) {
        Some(cpus) => {
            let each = bytes.div_ceil(u64::from(cpus.max(1)));
            format!("memory_per_cpu = \"{}MiB\"", Bytes(each).mebibytes_up())
        }
        None => memory_line(bytes),
    }
}

/// `memory = "24GiB"`.
pub(super) fn memory_line(bytes: u64) -> String {
    format!("memory = \"{}\"", Bytes(bytes))
}

/// So much and its headroom, rounded up.
pub(super) fn with_headroom(bytes: f64) -> u64 {
    rounded_up(HEADROOM * bytes)
}

/// Up to a whole GiB, from 30 GiB on to five of them, from 100 GiB on to ten, from 1000 GiB on to a hundred.
fn rounded_up(bytes: f64) -> u64 {
    let gib = (bytes / GIB).ceil().max(1.0);
    let step = match gib {
        ..=30.0 => 1.0,
        ..=100.0 => 5.0,
        ..=1000.0 => 10.0,
        _ => 100.0,
    };
    whole((gib / step).ceil() * step * GIB)
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "bytes, not negative"
)]
fn whole(bytes: f64) -> u64 {
    bytes.round() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_rounded_up_more_the_more_it_is() {
        let gib = |used: f64| with_headroom(used * GIB) >> 30;
        assert_eq!(
            [0.0, 0.1, 9.0, 25.0, 26.0, 90.0, 900.0, 2600.0].map(gib),
            [1, 1, 11, 30, 35, 110, 1100, 3200]
        );
    }
}
