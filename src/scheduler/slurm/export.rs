//! `--export`: which variables of the submitting shell reach the job.
//!
//! From two places: `run.inherit` and the user's own `--export=`. Slurm keeps only the last `--export` of several, so there is
//! one. `NONE` and `NIL` stand alone in Slurm; a list of names hands over those and nothing else, and with a list or `NONE`
//! `slurmd` starts the user's login shell on the node for its environment (measured with 22.05).

use crate::job::Inherit;
use crate::launch::Plan;

/// What names Slurm's option.
const OPTION: &str = "--export=";

/// Whether an option of the user's is this one.
pub(super) fn is_export(option: &str) -> bool {
    option.starts_with(OPTION)
}

/// What the job file asks for, for the script: `run.inherit` and the user's own directive in one. `None`: nothing.
pub(super) fn for_script(plan: &Plan) -> Option<String> {
    plan.inherit.as_ref()?;
    list(plan, last_of(&plan.directives))
}

/// The same for the command line, where `SBATCH_EXPORT` does not beat it. `None`: nobody asked for anything, and `sbatch` goes by
/// its own default or by `SBATCH_EXPORT`. A list of names makes `slurmd` start the user's login shell on the node, so nothing of
/// ours goes this way.
pub(super) fn for_command_line(plan: &Plan) -> Option<String> {
    let own = last_of(&plan.arguments).or_else(|| last_of(&plan.directives));
    list(plan, own)
}

/// The list with what the user wrote in Slurm's own words, as Slurm takes it.
fn list(plan: &Plan, own: Option<&str>) -> Option<String> {
    let list = merged(plan.inherit.as_ref(), own)?;
    Some(if list.is_empty() {
        "NONE".to_owned()
    } else {
        list
    })
}

fn last_of(options: &[String]) -> Option<&str> {
    options
        .iter()
        .rev()
        .find_map(|option| option.strip_prefix(OPTION))
}

/// Both wishes as one list; empty: no variable; `None`: nobody said anything. What the user wrote in Slurm's own words
/// adds to `run.inherit`, and its `NONE` beats it.
fn merged(inherit: Option<&Inherit>, own: Option<&str>) -> Option<String> {
    let inherited = match inherit {
        None => None,
        Some(Inherit::All) => Some("ALL".to_owned()),
        Some(Inherit::None) => Some(String::new()),
        Some(Inherit::Names(names)) => Some(names.join(",")),
    };
    let has_all = |list: &str| list.split(',').any(|word| word.eq_ignore_ascii_case("ALL"));
    match (inherited, own) {
        (inherited, None | Some("")) => inherited,
        (_, Some(own)) if own.eq_ignore_ascii_case("NONE") || own.eq_ignore_ascii_case("NIL") => {
            Some(String::new())
        }
        (Some(inherited), Some(own)) if !inherited.is_empty() && !has_all(own) => {
            Some(format!("{inherited},{own}"))
        }
        (_, Some(own)) => Some(own.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wishes_are_merged() {
        let names = Inherit::Names(vec!["HOME".to_owned(), "LANG".to_owned()]);
        for (inherit, own, expected) in [
            (None, None, None),
            (None, Some("NONE"), Some("")),
            (None, Some("NIL"), Some("")),
            (None, Some("ALL,A=1"), Some("ALL,A=1")),
            (Some(&Inherit::All), None, Some("ALL")),
            (Some(&Inherit::All), Some("A=1"), Some("ALL,A=1")),
            (Some(&Inherit::All), Some("none"), Some("")),
            (Some(&Inherit::None), None, Some("")),
            (Some(&Inherit::None), Some("A=1"), Some("A=1")),
            (Some(&names), None, Some("HOME,LANG")),
            (Some(&names), Some("A=1"), Some("HOME,LANG,A=1")),
            (Some(&names), Some("ALL,A=1"), Some("ALL,A=1")),
        ] {
            assert_eq!(
                merged(inherit, own).as_deref(),
                expected,
                "{inherit:?} {own:?}"
            );
        }
    }
}
