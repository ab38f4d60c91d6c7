//! What the program itself could do otherwise: where its data lie, who prepares them, what it does beside training.

use super::{Advice, AdviceKind, Case};
use crate::job::StorageClass;
use crate::report::insight::limit::LimitKind;

pub(super) fn storage(case: &Case<'_>) -> Option<Advice> {
    let limit = case.limit(&[LimitKind::Storage])?;
    case.enough()?;
    // Where the site has no own storage, the preference would have no effect.
    let class = case.request().and_then(|request| request.storage);
    let better = class.filter(|class| *class < StorageClass::Ssd);
    let advice = |text| Advice {
        rests_on: limit.rests_on.clone(),
        ..Advice::new(AdviceKind::Storage, text, &[])
    };
    Some(match better {
        Some(class) => {
            let class = class.as_str();
            let line = format!("prefer = \"{}\"", StorageClass::Ssd.as_str());
            advice(format!("{}; its storage is of class `{class}`", limit.text))
                .pasting("storage", line)
                .saving(limit.figure("io_wait_ratio"))
        }
        None => advice(format!(
            "{}: read the data from a faster storage, in fewer and larger files",
            limit.text
        )),
    })
}

pub(super) fn workers(case: &Case<'_>) -> Option<Advice> {
    let has_gpus = case.used.gpus_allocated > case.used.gpus_idle;
    let limit = case.limit(&[LimitKind::OneThread])?;
    case.enough()?;
    let what = if has_gpus {
        "let worker processes prepare the data (PyTorch: `num_workers`, tf.data: `num_parallel_calls`)"
    } else {
        "if the program cannot use more, ask for one CPU"
    };
    let text = format!("{}; {what}", limit.text);
    Some(Advice {
        rests_on: limit.rests_on.clone(),
        ..Advice::new(AdviceKind::Workers, text, &[])
    })
}
