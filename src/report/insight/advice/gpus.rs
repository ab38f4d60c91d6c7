//! GPUs: those that nobody used, those that are half empty, those that were held down.

use super::{Advice, AdviceKind, Case, NodeUsed, Request, real};

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
