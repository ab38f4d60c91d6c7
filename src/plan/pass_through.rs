//! Options that a job file hands through to the scheduler, and those that it must leave to dlrun.

use crate::diagnostic::Problem;
use crate::job::Located;

/// Options of `sbatch` that the script or the command line already carries.
const OWN_OPTIONS: [(&str, &str); 18] = [
    ("--job-name", "use `name`"),
    ("-J", "use `name`"),
    ("--output", "the output's place is dlrun's: `dlrun logs` shows it"),
    ("-o", "the output's place is dlrun's: `dlrun logs` shows it"),
    ("--error", "errors go where the output goes"),
    ("-e", "errors go where the output goes"),
    ("--open-mode", "the output is appended to, so that a requeue loses nothing"),
    ("--chdir", "use `run.workdir`"),
    ("-D", "use `run.workdir`"),
    ("--wrap", "use `run.command`"),
    ("--parsable", "dlrun reads the answer itself"),
    ("--nodes", "use `resources.nodes`"),
    ("-N", "use `resources.nodes`"),
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
        let problem = Problem::at(option.span.clone(), "`--export` must be one word with its value");
        return Some(problem.hinted("write \"--export=NAME,NAME\": the run id is added to it"));
    }
    let (_, instead) = OWN_OPTIONS.iter().find(|(own, _)| means(name, own))?;
    let problem = Problem::at(option.span.clone(), format!("`{text}` is dlrun's own to write"));
    Some(problem.hinted(*instead))
}

/// Says whether Slurm takes `name` for the option `own`: it knows a long one by any unique beginning, and a short one with
/// its value stuck to it.
fn means(name: &str, own: &str) -> bool {
    if own.starts_with("--") {
        name.len() > 3 && own.starts_with(name)
    } else {
        !name.starts_with("--") && name.starts_with(own)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(option: &str) -> Option<String> {
        problem(&Located { value: option.to_owned(), span: 3..5 }).map(|problem| problem.message)
    }

    #[test]
    fn what_dlrun_writes_itself_is_refused_in_every_spelling() {
        for option in
            ["--output=x", "--out=x", "-o/dev/null", "-a0-3", "-N2", "--nod=2", "--wait", "--test-only"]
        {
            assert!(refused(option).is_some_and(|why| why.contains("dlrun's own")), "{option}");
        }
        assert!(refused("--export").is_some_and(|why| why.contains("one word")));
    }

    #[test]
    fn the_rest_is_handed_through() {
        for option in
            ["--no-requeue", "--nice=5", "-H", "--hold", "--comment=paper", "--exclusive=user", "--export=A"]
        {
            assert_eq!(refused(option), None, "{option}");
        }
    }
}
