//! What the program itself could do otherwise: where its data lie, who prepares them, what it does beside training.

use super::{Advice, AdviceKind, Case, Finding};
use crate::job::StorageClass;
use crate::report::insight::limit::LimitKind;
use crate::report::insight::threshold::ASIDE;

pub(super) fn storage(case: &Case<'_>) -> Finding {
    let Some(limit) = case.limit(&[LimitKind::Storage]) else {
        return Ok(None);
    };
    case.too_little()?;
    // Where the site has no own storage, the preference would have no effect.
    let class = case.request().and_then(|request| request.storage);
    let better = class.filter(|class| *class < StorageClass::Ssd);
    let advice = |text| Advice {
        rests_on: limit.rests_on.clone(),
        ..Advice::new(AdviceKind::Storage, text, &[])
    };
    match better {
        Some(class) => {
            let class = class.as_str();
            let line = format!("prefer = \"{}\"", StorageClass::Ssd.as_str());
            advice(format!("{}; its storage is of class `{class}`", limit.text))
                .pasting("storage", line)
                .some()
        }
        None => advice(format!(
            "{}: read the data from a faster storage, in fewer and larger files",
            limit.text
        ))
        .some(),
    }
}

pub(super) fn workers(case: &Case<'_>) -> Finding {
    let has_gpus = case.used.gpus_allocated > case.used.gpus_idle;
    let Some(limit) = case.limit(&[LimitKind::Workers, LimitKind::OneThread]) else {
        return Ok(None);
    };
    case.too_little()?;
    let what = match (limit.kind, has_gpus) {
        (LimitKind::Workers, _) => {
            "start more of them (PyTorch: `num_workers`, tf.data: `num_parallel_calls`)"
        }
        (_, true) => {
            "let worker processes prepare the data (PyTorch: `num_workers`, tf.data: `num_parallel_calls`)"
        }
        (_, false) => "if the program cannot use more, ask for one CPU",
    };
    let text = format!("{}; {what}", limit.text);
    Ok(Some(Advice {
        rests_on: limit.rests_on.clone(),
        ..Advice::new(AdviceKind::Workers, text, &[])
    }))
}

/// Evaluation and checkpoints that take much of an epoch.
pub(super) fn aside(case: &Case<'_>) -> Finding {
    let Some((timing, epochs)) = case
        .timing
        .and_then(|timing| Some((timing, timing.epochs.as_ref()?)))
    else {
        return Ok(None);
    };
    let share = |seconds: Option<f64>| {
        let share = seconds.unwrap_or(0.0) / epochs.mean_seconds * 100.0;
        (epochs.mean_seconds > 0.0 && share >= ASIDE).then_some(share)
    };
    let parts = [
        (
            "evaluation",
            "evaluate less often",
            "evaluation_seconds",
            timing.evaluation_seconds,
        ),
        (
            "writing checkpoints",
            "write them less often, or to a faster storage",
            "checkpoint_seconds",
            timing.checkpoint_seconds,
        ),
    ];
    for (what, hint, name, seconds) in parts {
        if let Some((share, seconds)) = share(seconds).zip(seconds) {
            let text = format!("{what} takes {share:.0}% of an epoch: {hint}");
            let rests_on = [(name, seconds), ("epoch_mean_seconds", epochs.mean_seconds)];
            return Advice::new(AdviceKind::Aside, text, &rests_on).some();
        }
    }
    Ok(None)
}

pub(super) fn balance(case: &Case<'_>) -> Finding {
    let Some(uneven) = case.balance.iter().find(|figure| figure.is_uneven) else {
        return Ok(None);
    };
    case.too_little()?;
    let rests_on = [(uneven.what, uneven.least), (uneven.what, uneven.most)];
    Advice::new(AdviceKind::Balance, uneven.text(), &rests_on).some()
}
