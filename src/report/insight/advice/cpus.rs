//! CPUs: fewer where many are idle, more where the run waits for them, and threads that fit them.

use super::memory::{memory_line, needed, room, with_headroom};
use super::{Advice, AdviceKind, Case, NodeUsed, Request, real};
use crate::report::insight::limit::{Limit, LimitKind};
use crate::report::insight::threshold::{CPUS_LOW, HEADROOM};

pub(super) fn rule(case: &Case<'_>) -> Option<Advice> {
    let request = case.own_request()?;
    case.enough()?;
    let waits = case.limit(&[LimitKind::Quota, LimitKind::Cpus]);
    let has_gpus = case.used.gpus_allocated > case.used.gpus_idle;
    if let Some(limit) = waits.filter(|limit| limit.kind == LimitKind::Quota || has_gpus) {
        return more(case, request, limit);
    }
    // What it would use if others left it alone is not known.
    if case.limit(&[LimitKind::Others]).is_some() {
        return None;
    }
    let asked = request.cpus_per_task.filter(|asked| *asked > 1)?;
    let high = case.most(NodeUsed::cpus_busy_high)?;
    let tasks = request.tasks_per_node.max(1);
    let given = f64::from(asked) * f64::from(tasks);
    let advised = whole((high * HEADROOM / f64::from(tasks)).ceil());
    // More workers could use the idle ones while its GPUs wait, and fewer CPUs would bring less memory asked for by the CPU.
    let kinds = [LimitKind::OneThread, LimitKind::Storage, LimitKind::Unclear];
    let may_hurt =
        has_gpus && case.limit(&kinds).is_some() || request.memory_per_cpu_bytes.is_some();
    if high / given * 100.0 >= CPUS_LOW || advised >= asked || may_hurt {
        return None;
    }
    let mut paste = format!("cpus_per_task = {advised}");
    // Sites give memory by the CPU where none is asked for: fewer CPUs would take memory away.
    if request.memory_bytes.is_none() {
        let memory = with_headroom(needed(case)?);
        if memory > room(case) {
            return None;
        }
        paste = format!("{paste}\n{}", memory_line(memory));
    }
    let text = format!("{high:.1} of {given:.0} CPUs of a node were busy at the 95th percentile");
    let rests_on = [("cpus_busy_p95", high), ("cpus_asked", given)];
    let advice = Advice::new(AdviceKind::Cpus, text, &rests_on).pasting("resources", paste);
    Some(advice.saving(Some(0.0)))
}

fn more(case: &Case<'_>, request: &Request, limit: &Limit) -> Option<Advice> {
    let why = &limit.text;
    let tasks = f64::from(request.tasks_per_node.max(1));
    let given = case.most(|node| node.cpus_allocated)?;
    let nodes = case.view.nodes.iter();
    let machine = nodes.filter_map(|node| node.record.host.cpus).min();
    let machine = machine.map(real)?;
    let each = whole(((2.0 * given).min(machine) / tasks).floor());
    let rests_on = [("cpus_allocated", given), ("cpus_of_machine", machine)];
    if f64::from(each) * tasks <= given {
        let text =
            format!("{why}; the node has no more: prepare the data beforehand, or on the GPU");
        return Some(Advice::new(AdviceKind::Cpus, text, &rests_on));
    }
    let memory = request
        .memory_per_cpu_bytes
        .map(|bytes| real(bytes) * f64::from(each) * tasks);
    if memory.is_some_and(|memory| memory > real(room(case))) {
        return None;
    }
    // The time in which the quota held it back, or in which its GPUs did not work.
    let waits = match limit.kind {
        LimitKind::Quota => limit.figure("cpu_throttled_ratio"),
        _ => limit
            .figure("gpu_busy_percent")
            .map(|busy| 1.0 - busy / 100.0),
    };
    let advice = Advice::new(AdviceKind::Cpus, why.clone(), &rests_on);
    let advice = advice.pasting("resources", format!("cpus_per_task = {each}"));
    Some(advice.saving(waits))
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a number of CPUs"
)]
fn whole(cpus: f64) -> u32 {
    cpus.clamp(1.0, 65_536.0) as u32
}
