//! Options that a job file hands through to the scheduler, and those that it must leave to dlrun.

use crate::foundation::diagnostic::Problem;
use crate::job::Located;
use crate::launch::Plan;

/// Options of `sbatch` that the script or the command line already carries.
const OWN_OPTIONS: [(&str, &str); 21] = [
    ("--job-name", "use `name`"),
    ("-J", "use `name`"),
    ("--output", "use `run.output`"),
    ("-o", "use `run.output`"),
    ("--error", "errors go where the output goes"),
    ("-e", "errors go where the output goes"),
    (
        "--open-mode",
        "the output is appended to, so that a requeue loses nothing",
    ),
    ("--chdir", "use `run.workdir`"),
    ("-D", "use `run.workdir`"),
    ("--wrap", "use `run.command`"),
    ("--parsable", "dlrun reads the answer itself"),
    ("--nodes", "use `resources.nodes`"),
    ("-N", "use `resources.nodes`"),
    ("--ntasks-per-node", "use `resources.tasks_per_node`"),
    ("--ntasks", "use `resources.tasks`"),
    ("-n", "use `resources.tasks`"),
    ("--array", "use `resources.array`"),
    ("-a", "use `resources.array`"),
    ("--wait", "use `dlrun submit --wait`"),
    ("-W", "use `dlrun submit --wait`"),
    ("--test-only", "use `dlrun check`"),
];

/// Says what is wrong with handing `option` through; `None` where nothing is.
pub(super) fn problem(option: &Located<String>) -> Option<Problem> {
    let text = &option.value;
    let name = text.split(['=', ' ']).next().unwrap_or_default();
    if name == "--export" && !text.contains('=') {
        let problem = Problem::at(
            option.span.clone(),
            "`--export` must be one word with its value",
        );
        return Some(problem.hinted("write \"--export=NAME,NAME\""));
    }
    let own = named(text, OWN_OPTIONS.iter().map(|(own, _)| *own))?;
    let (_, instead) = OWN_OPTIONS.iter().find(|(known, _)| *known == own)?;
    let problem = Problem::at(
        option.span.clone(),
        format!("`{text}` is dlrun's own to write"),
    );
    Some(problem.hinted(*instead))
}

/// Says that `option` is of PBS's `qsub`, where Slurm was found because the job file names no scheduler: `sbatch` has no such
/// letter, or takes it for something else.
pub(super) fn of_pbs(option: &Located<String>) -> Option<Problem> {
    let mut letters = option.value.strip_prefix('-')?.chars();
    let letter = letters.next()?;
    let value = letters.as_str().trim_start();
    let is_of_pbs = match letter {
        'l' | 'r' | 'K' | 'P' | 'T' => true,
        'h' | 'u' => !value.starts_with('-'),
        'p' => value.parse::<i32>().is_ok(),
        'W' => value.contains('='),
        _ => false,
    };
    let message = format!(
        "`{}` is an option of PBS, and this job would go to Slurm",
        option.value
    );
    let hint = "write `scheduler.kind = \"torque\"`, \"openpbs\" or, if Slurm is meant, \"slurm\"";
    is_of_pbs.then(|| Problem::at(option.span.clone(), message).hinted(hint))
}

/// The option handed through to `sbatch` that it takes for one of `names`: long ones, and letters as `-d`.
#[must_use]
pub fn handed_through<'p>(plan: &'p Plan, names: &[&str]) -> Option<&'p str> {
    let options = plan.directives.iter().chain(&plan.arguments);
    options
        .map(String::as_str)
        .find(|option| named(option, names.iter().copied()).is_some())
}

/// Letters of `sbatch` that take no value: another may be stuck to them (`-Ht5`).
const FLAGS: [char; 6] = ['H', 'k', 'O', 'Q', 's', 'v'];

/// Which of `names` Slurm takes `option` for: it knows a long one by any unique beginning, and a short one with its value
/// stuck to it.
pub(super) fn named<'n>(
    option: &str,
    names: impl Iterator<Item = &'n str> + Clone,
) -> Option<&'n str> {
    let name = option.split(['=', ' ']).next().unwrap_or_default();
    let exact = names.clone().find(|own| *own == name);
    if name.starts_with("--") {
        return exact.or_else(|| {
            names
                .clone()
                .find(|own| name.len() > 3 && own.starts_with(name))
        });
    }
    let letter = |own: &str| {
        own.strip_prefix('-')
            .filter(|own| own.len() == 1)
            .map(str::to_owned)
    };
    let letters = name.strip_prefix('-')?;
    let behind = letters.trim_start_matches(FLAGS);
    exact.or_else(|| {
        names.clone().find(|own| {
            letter(own).is_some_and(|own| letters.starts_with(&own) || behind.starts_with(&own))
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(option: &str) -> Option<String> {
        problem(&Located {
            value: option.to_owned(),
            span: 3..5,
        })
        .map(|problem| problem.message)
    }

    #[test]
    fn what_dlrun_writes_itself_is_refused_in_every_spelling() {
        for option in [
            "--output=x",
            "--out=x",
            "-o/dev/null",
            "-a0-3",
            "-N2",
            "--nod=2",
            "--wait",
            "--test-only",
            "-n4",
            "--ntasks=4",
            "-HN2",
        ] {
            assert!(
                refused(option).is_some_and(|why| why.contains("dlrun's own")),
                "{option}"
            );
        }
        assert!(refused("--export").is_some_and(|why| why.contains("one word")));
    }

    #[test]
    fn options_of_pbs_are_told_from_those_of_slurm() {
        let is_of_pbs = |option: &str| {
            of_pbs(&Located {
                value: option.to_owned(),
                span: 3..5,
            })
            .is_some()
        };
        for option in [
            "-l cput=1:00",
            "-r n",
            "-p 10",
            "-p-5",
            "-h",
            "-W umask=022",
            "-u me",
            "-P project",
        ] {
            assert!(is_of_pbs(option), "{option}");
        }
        for option in [
            "-p gpu",
            "-H",
            "-W",
            "-c 4",
            "--hold",
            "--partition=1",
            "-",
            "x",
            "",
        ] {
            assert!(!is_of_pbs(option), "{option}");
        }
    }

    #[test]
    fn the_rest_is_handed_through() {
        for option in [
            "--no-requeue",
            "--nice=5",
            "-H",
            "--hold",
            "--comment=paper",
            "--exclusive=user",
            "--export=A",
        ] {
            assert_eq!(refused(option), None, "{option}");
        }
    }
}
