//! Options that a job file hands through to the scheduler, and those that it must leave to dlrun.

use crate::foundation::diagnostic::Problem;
use crate::job::Located;
use crate::launch::PlannedResources;

/// Options of `sbatch`, and in place of each the key of the job file or what to do. Those with `!` the script or the command line
/// carries always; the others must not be handed through beside their key under `[resources]`: a directive loses against the key,
/// which is on the command line too, an argument beats it, and either way one of two wishes is dropped in silence.
const OPTIONS: &str = "
--job-name -J ! use `name`
--output -o ! use `run.output`
--error -e ! errors go where the output goes
--open-mode ! the output is appended to, so that a requeue loses nothing
--chdir -D ! use `run.workdir`
--wrap ! use `run.command`
--parsable ! dlrun reads the answer itself
--nodes -N ! use `resources.nodes`
--ntasks-per-node ! use `resources.tasks_per_node`
--ntasks -n ! use `resources.tasks`
--array -a ! use `resources.array`
--wait -W ! use `dlrun submit --wait`
--test-only ! use `dlrun check`
--time -t = walltime
--partition -p = queue
--account -A = account
--qos -q = qos
--reservation = reservation
--constraint -C = constraint
--nodelist -w = nodelist
--nodefile -F = nodelist
--exclude -x = exclude
--exclusive = exclusive
--oversubscribe -s = exclusive
--cpus-per-task -c = cpus_per_task
--mem = memory memory_per_cpu
--mem-per-cpu = memory memory_per_cpu
--mem-per-gpu = memory memory_per_cpu
--gpus-per-node = gpus_per_node
--gpus-per-task = gpus_per_task
--gres = gpus_per_node
--gpus -G = gpus_per_node
--dependency -d = depends
--begin -b = begin
--licenses -L = licenses
--mail-type = mail
--mail-user = mail
";

/// What is behind `sign` in the row of the option that Slurm takes `option` for, among the rows with that sign.
fn row(option: &str, sign: &'static str) -> Option<(&'static str, &'static str)> {
    let rows = || OPTIONS.lines().filter_map(|row| row.split_once(sign));
    let own = named(option, rows().flat_map(|(names, _)| names.split(' ')))?;
    let (_, rest) = rows().find(|(names, _)| names.split(' ').any(|name| name == own))?;
    Some((own, rest))
}

/// Says what is wrong with handing `option` through; `None` where nothing is.
pub(super) fn problem(option: &Located<String>) -> Option<Problem> {
    let text = &option.value;
    let at = |message: String| Problem::at(option.span.clone(), message);
    if text.split(' ').next() == Some("--export") {
        let problem = at("`--export` must be one word with its value".to_owned());
        return Some(problem.hinted("write \"--export=NAME,NAME\""));
    }
    let (_, instead) = row(text, " ! ")?;
    Some(at(format!("`{text}` is dlrun's own to write")).hinted(instead))
}

/// What is wrong with `option` where the job has the key that says the same.
pub(super) fn said_twice(
    option: &Located<String>,
    resources: &PlannedResources,
) -> Option<Problem> {
    let key = key(&option.value, resources)?;
    let message = format!(
        "`{}` and `resources.{key}` say the same thing twice",
        option.value
    );
    let hint = format!("leave one of them out: `dlrun plan` shows where `{key}` comes from");
    Some(Problem::at(option.span.clone(), message).hinted(hint))
}

/// The key under `[resources]` that says the same as `option`, where the job has it.
fn key(option: &str, resources: &PlannedResources) -> Option<&'static str> {
    let (own, keys) = row(option, " = ")?;
    let value = option.split_once(['=', ' ']).map(|(_, value)| value.trim());
    let is_gpu = |part: &str| part == "gpu" || part.starts_with("gpu:");
    if own == "--gres" && value.is_some_and(|list| !list.split(',').any(is_gpu)) {
        return None;
    }
    keys.split(' ').find(|key| resources.has(key) == Some(true))
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
    let letters = name.strip_prefix('-')?;
    let behind = letters.trim_start_matches(FLAGS);
    let is_meant = |own: &&str| {
        let letter = own.strip_prefix('-').filter(|own| own.len() == 1);
        letter.is_some_and(|letter| letters.starts_with(letter) || behind.starts_with(letter))
    };
    exact.or_else(|| names.clone().find(is_meant))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::foundation::units::{Bytes, Walltime};

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

    fn bare() -> PlannedResources {
        let bare = serde_json::json!({ "nodes": 1, "tasks_per_node": 1, "exclusive": false });
        serde_json::from_value(bare).expect("the rest may be left out")
    }

    #[test]
    fn an_option_beside_its_key_is_found_in_every_spelling() {
        let job = PlannedResources {
            walltime: Some(Walltime(60)),
            queue: Some("gpu".into()),
            gpus_per_node: Some("2".into()),
            gpus_per_task: Some("1".into()),
            memory_per_cpu: Some(Bytes(1 << 30)),
            exclusive: true,
            ..bare()
        };
        for (option, expected) in [
            ("--time=5", "walltime"),
            ("--time 5", "walltime"),
            ("--tim=5", "walltime"),
            ("-t5", "walltime"),
            ("-t", "walltime"),
            ("-Ht 5", "walltime"),
            ("-pgpu", "queue"),
            ("--gres=nvme:1,gpu:2", "gpus_per_node"),
            ("--gpus=2", "gpus_per_node"),
            ("--gpus-per-task=1", "gpus_per_task"),
            ("--mem=4G", "memory_per_cpu"),
            ("--exclusive=user", "exclusive"),
        ] {
            assert_eq!(key(option, &job), Some(expected), "{option}");
            assert_eq!(key(option, &bare()), None, "{option}");
        }
        for option in [
            "--time-min=5",
            "--gres=nvme:1",
            "--gres-flags=x",
            "-H",
            "--comment=time",
            "--qos=x",
        ] {
            assert_eq!(key(option, &job), None, "{option}");
        }
    }
}
