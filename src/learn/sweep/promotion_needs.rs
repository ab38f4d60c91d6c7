//! What a sweep file needs so that its trials can continue from their checkpoints.

use std::collections::BTreeSet;

use toml::Value;

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
    let at = |table: &str, key: &str| base.values.get(table)?.get(key);
    let names = |value: Option<&Value>, name: &str| {
        let mut names = BTreeSet::new();
        value.iter().for_each(|value| gather(value, &mut names));
        let is_it = |known: &String| known.rsplit('.').next() == Some(name);
        names.iter().any(is_it)
    };
    let is_given =
        |table: &str| names(at(table, "command"), "epochs") || names(at("run", "env"), "epochs");
    let patterns = at("resume", "checkpoints").and_then(Value::as_array);
    let is_own = |pattern: &Value| names(Some(pattern), "trial");
    let is_searched = |one: &Parameter| one.name == "workload.epochs" || one.short == "trial";
    let found = [
        (
            epochs.is_none_or(|epochs| epochs <= first_epoch),
            "it needs `workload.epochs`, more than `sweep.first_epoch`",
            "add: [workload]\n        epochs = 27",
        ),
        (
            !is_given("run"),
            "the program has to be given the epochs after which it ends",
            "write {{epochs}} in run.command or run.env",
        ),
        (
            at("resume", "command").is_some() && !is_given("resume"),
            "`resume.command` has to give the program the epochs after which it ends too",
            "write {{epochs}} in resume.command",
        ),
        (
            !patterns.is_some_and(|patterns| patterns.iter().all(is_own)),
            "each trial needs its own checkpoints, by each pattern",
            "add: [resume]\n        checkpoints = [\"ckpt/{{trial}}/*.pt\"]",
        ),
        (
            space.iter().any(is_searched),
            "`workload.epochs` and a parameter called `trial` cannot be searched",
            "take the parameter out: each start of a trial has its own",
        ),
    ];
    for (_, what, hint) in found.into_iter().filter(|(is_so, ..)| *is_so) {
        let message = format!("`sweep.stop` is \"promotion\": {what}");
        fields.problem(Problem::at(fields.span("stop"), message).hinted(hint));
    }
}
