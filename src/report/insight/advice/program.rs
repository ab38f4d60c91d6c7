//! What the program itself could do otherwise: where its data lie, who prepares them, what it does beside training.

use super::{Advice, AdviceKind, Case, Word, evidence};
use crate::job::StorageClass;
use crate::report::insight::limit::LimitKind;
use crate::report::insight::threshold::ASIDE;

pub(super) fn storage(case: &Case<'_>) -> Word {
    let Some(limit) = case.limit(&[LimitKind::Storage]) else {
        return Ok(None);
    };
    case.too_little()?;
    let class = case.request().and_then(|request| request.storage);
    let kind = AdviceKind::Storage;
    let rests_on = limit.rests_on.clone();
    // Where the site has no storage of its own, the preference would have no effect.
    let better = class.filter(|class| *class < StorageClass::Ssd);
    Ok(Some(match better {
        Some(class) => Advice {
            kind,
            text: format!(
                "{}; its storage is of class `{}`",
                limit.text,
                class.as_str()
            ),
            table: Some("storage"),
            paste: Some(format!("prefer = \"{}\"", StorageClass::Ssd.as_str())),
            rests_on,
        },
        None => Advice {
            kind,
            text: format!(
                "{}: read the data from a faster storage, in fewer and larger files",
                limit.text
            ),
            table: None,
            paste: None,
            rests_on,
        },
    }))
}

pub(super) fn workers(case: &Case<'_>) -> Word {
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
    let rests_on = limit.rests_on.clone();
    Ok(Some(Advice {
        kind: AdviceKind::Workers,
        text,
        table: None,
        paste: None,
        rests_on,
    }))
}

/// Evaluation and checkpoints that take much of an epoch.
pub(super) fn aside(case: &Case<'_>) -> Word {
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
            let rests_on = vec![
                evidence(name, seconds),
                evidence("epoch_mean_seconds", epochs.mean_seconds),
            ];
            return Ok(Some(Advice {
                kind: AdviceKind::Aside,
                text,
                table: None,
                paste: None,
                rests_on,
            }));
        }
    }
    Ok(None)
}

pub(super) fn balance(case: &Case<'_>) -> Word {
    let Some(uneven) = crate::report::insight::balance::uneven(case.view, case.used)
        .into_iter()
        .find(|uneven| uneven.is_uneven)
    else {
        return Ok(None);
    };
    case.too_little()?;
    let text = uneven.text();
    let rests_on = vec![
        evidence(uneven.what, uneven.least),
        evidence(uneven.what, uneven.most),
    ];
    Ok(Some(Advice {
        kind: AdviceKind::Balance,
        text,
        table: None,
        paste: None,
        rests_on,
    }))
}
