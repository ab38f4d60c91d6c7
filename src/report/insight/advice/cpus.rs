//! CPUs: fewer where many are idle, more where the run waits for them, and threads that fit them.

use super::memory::{memory_line, needed, room, with_headroom};
use super::{Advice, AdviceKind, Case, Finding, Request, real};
use crate::report::insight::limit::LimitKind;
use crate::report::insight::threshold::{CPUS_LOW, HEADROOM};

pub(super) fn rule(case: &Case<'_>) -> Finding {
    let Some(request) = case.request() else {
        return Ok(None);
    };
    let waits = case.limit(&[LimitKind::Quota, LimitKind::Cpus]);
    let has_gpus = case.used.gpus_allocated > case.used.gpus_idle;
    if let Some(limit) = waits.filter(|limit| limit.kind == LimitKind::Quota || has_gpus) {
        case.too_little()?;
        case.is_one_of_many()?;
        return more(case, request, &limit.text);
    }
    let Some(asked) = request.cpus_per_task.filter(|asked| *asked > 1) else {
        return Ok(None);
    };
    case.is_one_of_many()?;
    case.too_little()?;
    let Some(high) = case.most(super::NodeUsed::cpus_busy_high) else {
        return Err("the CPU time of the run could not be measured".to_owned());
    };
    let tasks = request.tasks_per_node.max(1);
    let given = f64::from(asked) * f64::from(tasks);
    if high / given * 100.0 >= CPUS_LOW {
        return Ok(None);
    }
    let advised = whole((high * HEADROOM / f64::from(tasks)).ceil());
    if advised >= asked {
        return Ok(None);
    }
    may_be_fewer(case, request, has_gpus)?;
    let mut paste = format!("cpus_per_task = {advised}");
    // Sites give memory by the CPU where none is asked for: fewer CPUs would take memory away.
    if request.memory_bytes.is_none() {
        let because = |why| {
            format!("fewer CPUs may bring less memory, and how much it needs is not known: {why}")
        };
        let memory = with_headroom(needed(case).map_err(because)?);
        if memory > room(case) {
            return Err(
                "fewer CPUs may bring less memory, and the node has no more than it needs"
                    .to_owned(),
            );
        }
        paste = format!("{paste}\n{}", memory_line(memory));
    }
    let text = format!("{high:.1} of {given:.0} CPUs of a node were busy at the 95th percentile");
    let rests_on = [("cpus_busy_p95", high), ("cpus_asked", given)];
    Advice::new(AdviceKind::Cpus, text, &rests_on)
        .pasting("resources", paste)
        .some()
}

/// Why fewer CPUs could hurt.
fn may_be_fewer(case: &Case<'_>, request: &Request, has_gpus: bool) -> Result<(), String> {
    if request.memory_per_cpu_bytes.is_some() {
        return Err(
            "memory was asked for by the CPU, so fewer CPUs would bring less of it".to_owned(),
        );
    }
    let kinds = [LimitKind::OneThread, LimitKind::Storage, LimitKind::Unclear];
    if has_gpus && let Some(limit) = case.limit(&kinds) {
        return Err(format!(
            "some were idle, but its GPUs waited, and more workers could use them ({})",
            limit.text
        ));
    }
    Ok(())
}

fn more(case: &Case<'_>, request: &Request, why: &str) -> Finding {
    let tasks = f64::from(request.tasks_per_node.max(1));
    let given = case.most(|node| node.cpus_allocated);
    let machine = case
        .view
        .nodes
        .iter()
        .filter_map(|node| node.record.host.cpus)
        .min()
        .map(real);
    let Some((given, machine)) = given.zip(machine) else {
        return Ok(None);
    };
    let each = whole(((2.0 * given).min(machine) / tasks).floor());
    let rests_on = [("cpus_allocated", given), ("cpus_of_machine", machine)];
    if f64::from(each) * tasks <= given {
        let text =
            format!("{why}; the node has no more: prepare the data beforehand, or on the GPU");
        return Advice::new(AdviceKind::Cpus, text, &rests_on).some();
    }
    let memory = request
        .memory_per_cpu_bytes
        .map(|bytes| real(bytes) * f64::from(each) * tasks);
    if memory.is_some_and(|memory| memory > real(room(case))) {
        return Err(
            "memory was asked for by the CPU, and the node has not enough for more CPUs".to_owned(),
        );
    }
    Advice::new(AdviceKind::Cpus, why.to_owned(), &rests_on)
        .pasting("resources", format!("cpus_per_task = {each}"))
        .some()
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a number of CPUs"
)]
fn whole(cpus: f64) -> u32 {
    cpus.clamp(1.0, 65_536.0) as u32
}
