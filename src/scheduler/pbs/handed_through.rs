//! Options of PBS's `qsub` that a job file hands through, and those that it must leave to dlrun.

use crate::foundation::diagnostic::Problem;
use crate::job::Located;

const OUTPUT: &str = "use `run.output`";
pub(in crate::scheduler) const NO_WAIT: &str = "use `dlrun submit --wait`";

/// Letters that the script or the command line already carries, or that take `qsub`'s answer away.
const OWN_LETTERS: [Letters; 14] = [
    ("N", "use `name`"),
    ("oejkR", OUTPUT),
    ("dwD", "use `run.workdir`"),
    ("S", "the script is for bash; use `run.command`"),
    ("F", "use `run.command`"),
    ("q", "use `resources.queue`"),
    ("A", "use `resources.account`"),
    ("a", "use `resources.begin`"),
    ("mM", "use `resources.mail`"),
    ("tJ", "use `resources.array`"),
    ("vV", "use `run.inherit` or `run.env`"),
    ("I", "dlrun's jobs are not interactive"),
    ("C", "the script's directives begin with `#PBS`"),
    ("z", "dlrun reads the job's id"),
];
/// Resources that keys of the job file stand for. One that stood twice would count once.
const OWN_RESOURCES: [(&str, &str); 13] = [
    ("nodes select", "use `resources.nodes`"),
    ("procs ppn mpiprocs", "use `resources.tasks_per_node`"),
    ("place naccesspolicy", "use `resources.exclusive`"),
    ("ncpus", "use `resources.cpus_per_task`"),
    ("ngpus gpus", "use `resources.gpus_per_node`"),
    ("mem", "use `resources.memory`"),
    ("pmem", "use `resources.memory_per_cpu`"),
    ("walltime", "use `resources.walltime`"),
    ("qos", "use `resources.qos`"),
    ("advres", "use `resources.reservation`"),
    ("host", "use `resources.nodelist`"),
    ("feature", "use `resources.constraint`"),
    ("gres", "use `resources.licenses`"),
];
/// Attributes of `-W` that are dlrun's, or that keep `qsub` until the job ends.
const OWN_ATTRIBUTES: [(&str, &str); 2] =
    [("depend", "use `resources.depends`"), ("block", NO_WAIT)];

/// Letters that are dlrun's to write, and what to use in their place.
pub(in crate::scheduler) type Letters = (&'static str, &'static str);

/// Says what is wrong with handing `option` through; `None` where nothing is. `more` are letters of one PBS alone.
pub(in crate::scheduler) fn problem(option: &Located<String>, more: &[Letters]) -> Option<Problem> {
    let text = &option.value;
    let at = |message: String| Problem::at(option.span.clone(), message);
    let mut letters = text.strip_prefix('-')?.chars();
    let letter = letters.next()?;
    let value = letters.as_str().trim_start();
    let names = || {
        value
            .split(',')
            .map(|part| part.split(['=', ':']).next().unwrap_or_default().trim())
    };
    let own = |list: &[(&str, &'static str)]| {
        names()
            .find_map(|name| {
                list.iter()
                    .find(|(known, _)| known.split(' ').any(|one| one == name))
            })
            .map(|(_, instead)| *instead)
    };
    if matches!(letter, 'l' | 'W') && value.is_empty() {
        let problem = at(format!("`-{letter}` must stand in one text with its value"));
        return Some(problem.hinted(format!("write \"-{letter} NAME=VALUE\"")));
    }
    let instead = match letter {
        'l' => own(&OWN_RESOURCES),
        'W' => own(&OWN_ATTRIBUTES),
        letter => {
            let mut letters = OWN_LETTERS.iter().chain(more);
            letters
                .find(|(known, _)| known.contains(letter))
                .map(|(_, instead)| *instead)
        }
    }?;
    Some(at(format!("`{text}` is dlrun's own to write")).hinted(instead))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TORQUE: [Letters; 1] = [("n", "use `resources.exclusive`")];
    const OPENPBS: [Letters; 1] = [("f", NO_WAIT)];

    fn refused(option: &str, more: &[Letters]) -> Option<String> {
        problem(
            &Located {
                value: option.to_owned(),
                span: 3..5,
            },
            more,
        )
        .map(|problem| problem.message)
    }

    #[test]
    fn what_dlrun_writes_itself_is_refused_in_every_spelling() {
        for option in [
            "-N x",
            "-Nx",
            "-o /dev/null",
            "-joe",
            "-t 0-3",
            "-l nodes=2",
            "-lnodes=2:ppn=4",
            "-l cput=1:00,walltime=2:00",
            "-W depend=afterok:7",
            "-W umask=022,depend=on:1",
            "-v A=1",
            "-I",
        ] {
            let why = refused(option, &TORQUE);
            assert!(
                why.is_some_and(|why| why.contains("dlrun's own")),
                "{option}"
            );
        }
        assert!(refused("-l", &TORQUE).is_some_and(|why| why.contains("one text")));
        assert!(refused("-n", &TORQUE).is_some());
        assert!(refused("-f", &OPENPBS).is_some());
    }

    #[test]
    fn the_rest_is_handed_through() {
        for option in [
            "-h",
            "-p 10",
            "-r n",
            "-l cput=1:00:00",
            "-l vmem=4gb,software=x",
            "-W umask=022",
            "x",
        ] {
            assert_eq!(refused(option, &TORQUE), None, "{option}");
        }
        assert_eq!(refused("-n", &OPENPBS), None);
        assert_eq!(refused("-f", &TORQUE), None);
    }
}
