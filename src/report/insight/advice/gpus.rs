//! GPUs: those that nobody used, those that are half empty, those that were held down.

use super::{Advice, AdviceKind, Case, Finding, NodeUsed, Request, real};
use crate::foundation::units::display_seconds;
use crate::report::insight::limit::LimitKind;
use crate::report::insight::threshold::{GPU_BUSY, GPU_HELD_DOWN, GPU_MEM_LOW};
use crate::report::insight::used::GpuUsed;

pub(super) fn rule(case: &Case<'_>) -> Finding {
    let idle = case.used.gpus_idle;
    if idle == 0 {
        return Ok(None);
    }
    case.too_little()?;
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
        return Advice::new(AdviceKind::Gpus, text, &rests_on).some();
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
    let paste = case
        .request()
        .filter(|_| all_seen && case.is_one_of_many().is_ok())
        .and_then(|request| {
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
    Ok(Some(match paste {
        Some(line) => advice.pasting("resources", line),
        None => advice,
    }))
}

fn working<'a>(case: &'a Case<'_>) -> impl Iterator<Item = &'a GpuUsed> {
    case.nodes()
        .iter()
        .flat_map(|node| &node.gpus)
        .filter(|gpu| !gpu.is_idle)
}

/// Larger batches keep a GPU busier where there is room for them and nothing else is waited for.
pub(super) fn batch(case: &Case<'_>) -> Finding {
    if case
        .limit(&[LimitKind::Unclear, LimitKind::OneThread])
        .is_none()
        || case.too_little().is_err()
    {
        return Ok(None);
    }
    let share =
        |gpu: &GpuUsed| Some(real(gpu.mem_peak_bytes?) / real(gpu.mem_total_bytes?) * 100.0);
    let shares: Option<Vec<f64>> = working(case).map(share).collect();
    let Some(fullest) = shares.and_then(|shares| shares.into_iter().reduce(f64::max)) else {
        return Ok(None);
    };
    let busy = case.most(NodeUsed::gpu_busy_training);
    let Some(busy) = busy.filter(|busy| *busy < GPU_BUSY && fullest < GPU_MEM_LOW) else {
        return Ok(None);
    };
    let text = format!(
        "its GPUs used {fullest:.0}% of their memory at most: a larger batch may keep them busier"
    );
    let rests_on = [
        ("gpu_mem_used_percent", fullest),
        ("gpu_busy_percent", busy),
    ];
    Advice::new(AdviceKind::Batch, text, &rests_on).some()
}

/// Power and heat are the site's to look at.
pub(super) fn cooling(case: &Case<'_>) -> Finding {
    for node in case.nodes() {
        let Some(wall) = node.wall_seconds.filter(|wall| *wall > 0.0) else {
            continue;
        };
        let held = |gpu: &&GpuUsed| gpu.throttled_seconds / wall * 100.0 >= GPU_HELD_DOWN;
        if let Some(gpu) = node.gpus.iter().find(held) {
            case.too_little()?;
            let text = format!(
                "power or heat held a GPU of {} down for {}: its timings are slower than they could be; the site's \
                 administrators can say why",
                node.node,
                display_seconds(gpu.throttled_seconds)
            );
            let rests_on = [
                ("gpu_throttled_seconds", gpu.throttled_seconds),
                ("wall_seconds", wall),
            ];
            return Advice::new(AdviceKind::Cooling, text, &rests_on).some();
        }
    }
    Ok(None)
}
