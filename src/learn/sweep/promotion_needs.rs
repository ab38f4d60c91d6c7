//! What a sweep file needs so that its trials can continue from their checkpoints.

use std::collections::BTreeSet;

use super::space::Parameter;
use crate::foundation::diagnostic::Problem;
use crate::foundation::toml_reader::Fields;
use crate::learn::bench::{Document, gather};

/// What a trial needs that continues from its checkpoint.
pub(super) fn check_promotion(
    fields: &mut Fields<'_>,
    base: &Document,
    (space, epochs, first_epoch): (&[Parameter], Option<u32>, u32),
) {
    let (mut all, mut of_patterns) = (BTreeSet::new(), BTreeSet::new());
    base.values
        .values()
        .for_each(|value| gather(value, &mut all));
    let resume = base.values.get("resume");
    let patterns = resume.and_then(|resume| resume.get("checkpoints"));
    patterns
        .iter()
        .for_each(|patterns| gather(patterns, &mut of_patterns));
    let names = |names: &BTreeSet<String>, name: &str| {
        let is_it = |known: &String| known.rsplit('.').next() == Some(name);
        names.iter().any(is_it)
    };
    let is_searched = |one: &Parameter| ["workload.epochs", "vars.trial"].contains(&&*one.name);
    let found = [
        (
            epochs.is_none_or(|epochs| epochs <= first_epoch),
            "it needs `workload.epochs`, more than `sweep.first_epoch`",
            "add: [workload]\n        epochs = 27",
        ),
        (
            !names(&all, "epochs"),
            "the program has to be given the epochs after which it ends",
            "write {{epochs}} in run.command or run.env",
        ),
        (
            !names(&of_patterns, "trial"),
            "each trial needs its own checkpoints",
            "add: [resume]\n        checkpoints = [\"ckpt/{{trial}}/*.pt\"]",
        ),
        (
            space.iter().any(is_searched),
            "`workload.epochs` and `vars.trial` cannot be searched",
            "take the parameter out: each start of a trial has its own",
        ),
    ];
    for (_, what, hint) in found.into_iter().filter(|(is_so, ..)| *is_so) {
        let message = format!("`sweep.stop` is \"promotion\": {what}");
        fields.problem(Problem::at(fields.span("stop"), message).hinted(hint));
    }
}
