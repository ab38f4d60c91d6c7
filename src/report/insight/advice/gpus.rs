//! GPUs: those that nobody used, those that are half empty, those that were held down.

use super::{Advice, AdviceKind, Case, NodeUsed, Request, real};
use crate::job::SchedulerKind;

pub(super) fn rule(case: &Case<'_>) -> Option<Advice> {
    let idle = case.used.gpus_idle;
    if idle == 0 {
        return None;
    }
    case.enough()?;
    let had = case.used.gpus_allocated;
    let rests_on = [
        ("gpus_allocated", real(had as u64)),
        ("gpus_idle", real(idle as u64)),
    ];
    if idle == had {
        let text = format!(
            "none of its {had} GPUs did anything: is the program made for GPUs, and does it see them? Else leave \
             `gpus_per_node` out"
        );
        return Some(Advice::new(AdviceKind::Gpus, text, &rests_on));
    }
    let works = case
        .nodes()
        .iter()
        .map(NodeUsed::gpus_working)
        .max()
        .unwrap_or(0);
    let text = format!("{idle} of its {had} GPUs never did anything");
    let asked = case
        .request()
        .and_then(Request::gpus)
        .filter(|asked| *asked as usize > works);
    // A node whose GPUs were not all seen says nothing of the others.
    let all_seen = asked.is_some_and(|asked| {
        case.nodes()
            .iter()
            .all(|node| node.gpus.len() == asked as usize)
    });
    let paste = case.own_request().filter(|_| all_seen).and_then(|request| {
        let kind = request
            .gpus_per_node
            .as_deref()?
            .rsplit_once(':')
            .map(|(kind, _)| kind);
        Some(kind.map_or_else(
            || format!("gpus_per_node = {works}"),
            |kind| format!("gpus_per_node = \"{kind}:{works}\""),
        ))
    });
    let advice = Advice::new(AdviceKind::Gpus, text, &rests_on);
    Some(match paste {
        Some(line) => advice.pasting("resources", line).saving(Some(0.0)),
        None => advice,
    })
}

/// GPUs that worked, and of which no near CPU was the run's.
pub(super) fn far(case: &Case<'_>) -> Option<Advice> {
    case.enough()?;
    let of_node = |node: &NodeUsed| {
        let far = node
            .gpus
            .iter()
            .filter(|gpu| gpu.is_far == Some(true) && !gpu.is_idle);
        let far: Vec<_> = far.collect();
        Some((
            node.node.clone(),
            far.len(),
            far.first()?.near_cpus.clone()?,
        ))
    };
    let (node, count, near) = case.nodes().iter().find_map(of_node)?;
    let what = match count {
        1 => "a GPU that worked is".to_owned(),
        more => format!("{more} GPUs that worked are"),
    };
    let mut text = format!(
        "{what} near CPUs {near} of {node}, and the run had none of these: what it sends to them crosses the machine"
    );
    if case.view.run.scheduler == SchedulerKind::Slurm {
        text.push_str("; `directives = [\"--gres-flags=enforce-binding\"]` in `[scheduler]` asks Slurm for CPUs near the GPUs");
    }
    let all: usize = case.nodes().iter().map(|node| node.gpus.len()).sum();
    let rests_on = [
        ("gpus_far", real(count as u64)),
        ("gpus_allocated", real(all as u64)),
    ];
    Some(Advice::new(AdviceKind::GpuCpus, text, &rests_on))
}
