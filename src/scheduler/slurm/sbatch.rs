//! `sbatch --parsable --chdir=WORKDIR OPTIONS < SCRIPT`
//!
//! Answer: `4711`, or `4711;cluster` on a federation. The script names its run in a separate line and comes through standard
//! input: neither command lines nor `scontrol show job` show the id.

use std::path::PathBuf;

use super::parts::{self, Part};
use super::{NAME, Slurm, WORDS, directives, export, scancel, site};
use crate::foundation::command::Tool;
use crate::job::JobId;
use crate::launch::Plan;
use crate::record::ArrayPart;
use crate::scheduler::{SchedulerError, Submission, Submitted, script};

/// Variables of the user's environment that `sbatch` would obey and dlrun does without: the output's place is known
/// beforehand, arrays are the job file's, and an `sbatch` that waits gives no answer in time.
pub const OWN_VARIABLES: [&str; 5] = [
    "SBATCH_OUTPUT",
    "SBATCH_ERROR",
    "SBATCH_OPEN_MODE",
    "SBATCH_ARRAY_INX",
    "SBATCH_WAIT",
];

/// The arguments after `sbatch`, for a plan or for that of one part of its array.
fn arguments(plan: &Plan) -> Vec<String> {
    let mut arguments = vec!["--parsable".to_owned(), format!("--chdir={}", plan.workdir)];
    arguments.extend(directives::requested(plan));
    arguments.extend(export::for_command_line(plan).map(|list| format!("--export={list}")));
    let is_read = |argument: &&String| export::is_export(argument) || directives::is_gres(argument);
    arguments.extend(
        plan.arguments
            .iter()
            .filter(|argument| !is_read(argument))
            .cloned(),
    );
    arguments
}

/// The jobs that a plan becomes: one, unless its array goes beyond the site's largest index.
fn parts_of(plan: &Plan, max_index: Option<u32>) -> Result<Vec<Part>, SchedulerError> {
    let Some(array) = &plan.resources.array else {
        return Ok(Vec::new());
    };
    let parts = parts::split(array, max_index.unwrap_or(u32::MAX));
    let parts = parts.and_then(|parts| {
        match parts::lost_dependency(plan, &parts).or_else(|| parts::shared_output(plan, &parts)) {
            Some(why) => Err(why),
            None => Ok(parts),
        }
    });
    parts.map_err(|why| SchedulerError::Impossible {
        scheduler: NAME,
        why,
    })
}

/// The largest index of an array, where the plan has one. One that is not known is left to `sbatch`.
fn max_index(slurm: &Slurm, plan: &Plan, known: Option<u32>) -> Option<u32> {
    known.or_else(|| {
        plan.resources
            .array
            .as_ref()
            .and_then(|_| site::max_array_index(slurm))
    })
}

/// The plan of the part, and what is added to its indexes.
fn plan_of(plan: &Plan, parts: &[Part], at: usize, former: Option<&JobId>) -> (Plan, u32) {
    match parts.get(at) {
        Some(part) if parts.len() > 1 || part.offset > 0 => {
            (parts::plan_of(plan, parts, at, former), part.offset)
        }
        _ => (plan.clone(), 0),
    }
}

pub(super) fn command_line(submission: &Submission<'_>) -> Vec<String> {
    let parts = parts_of(submission.plan, submission.max_array_index).unwrap_or_default();
    let (plan, _) = plan_of(submission.plan, &parts, 0, None);
    std::iter::once("sbatch".to_owned())
        .chain(arguments(&plan))
        .collect()
}

pub(super) fn submit(
    slurm: &Slurm,
    submission: &Submission<'_>,
) -> Result<Submitted, SchedulerError> {
    configured()?;
    let max_index = max_index(slurm, submission.plan, submission.max_array_index);
    let parts = parts_of(submission.plan, max_index)?;
    let mut taken: Vec<ArrayPart> = Vec::new();
    for at in 0..parts.len().max(1) {
        let former = taken.last().map(|part| &part.job_id);
        let (plan, offset) = plan_of(submission.plan, &parts, at, former);
        if !taken.is_empty() {
            (submission.on_part)(&submitted(submission.plan, &taken));
        }
        match hand_over(slurm, submission, &plan, offset) {
            Ok(job_id) => taken.push(ArrayPart { job_id, offset }),
            Err(error) if taken.is_empty() => return Err(error),
            Err(error) => return Err(take_back(slurm, &taken, parts.len(), error)),
        }
    }
    Ok(submitted(submission.plan, &taken))
}

/// The jobs of a run, of which there is at least one. The first is among the parts where its indexes are shifted.
fn submitted(plan: &Plan, taken: &[ArrayPart]) -> Submitted {
    let job_id = taken[0].job_id.clone();
    let is_shifted = taken[0].offset > 0;
    let parts = taken[usize::from(!is_shifted)..].to_vec();
    Submitted {
        output: plan.output_of(&job_id.0),
        job_id,
        parts,
    }
}

/// One `sbatch`.
fn hand_over(
    slurm: &Slurm,
    submission: &Submission<'_>,
    plan: &Plan,
    offset: u32,
) -> Result<JobId, SchedulerError> {
    let script = script::of_run(submission.plan, submission.run_id, offset);
    let tool = sbatch(slurm, plan).args(arguments(plan));
    WORDS.job_id("sbatch", tool.stdin(script.into_bytes()).run(), id_in)
}

/// The id in `4711` and `4711;cluster`.
fn id_in(line: &str) -> Option<&str> {
    let id = line.split(';').next()?;
    let is_id = (1..=20).contains(&id.len()) && id.bytes().all(|b| b.is_ascii_digit());
    is_id.then_some(id)
}

/// An array that is queued in part is not what anybody asked for: what was taken is cancelled again.
fn take_back(
    slurm: &Slurm,
    taken: &[ArrayPart],
    parts: usize,
    error: SchedulerError,
) -> SchedulerError {
    let ids: Vec<&str> = taken.iter().map(|part| part.job_id.0.as_str()).collect();
    let left = match scancel::cancel_all(slurm, &ids) {
        Ok(()) => Vec::new(),
        Err(_) => taken.iter().map(|part| part.job_id.clone()).collect(),
    };
    SchedulerError::Partly {
        scheduler: NAME,
        taken: taken.len(),
        parts,
        left,
        source: Box::new(error),
    }
}

/// `sbatch --test-only` with the script on standard input; it answers on standard error.
pub(super) fn test(slurm: &Slurm, plan: &Plan, script: &str) -> Result<String, SchedulerError> {
    configured()?;
    let parts = parts_of(plan, max_index(slurm, plan, None))?;
    let (plan, _) = plan_of(plan, &parts, 0, None);
    let tool = sbatch(slurm, &plan)
        .arg("--test-only")
        .args(directives::requested(&plan))
        .args(&plan.arguments)
        .stdin(script.as_bytes().to_vec());
    let output = WORDS.taken("sbatch", tool.run(), false)?;
    Ok(verdict(&output.stderr))
}

/// `sbatch: Job 23 to start at ..`: the id is of no job, so it is left out.
fn verdict(said: &str) -> String {
    let said = said.trim().trim_start_matches("sbatch: ");
    match said.split_once(" to start at ") {
        Some((_, rest)) => format!("it would start at {rest}"),
        None => said.to_owned(),
    }
}

/// `sbatch` waits half a minute and more for a `SLURM_CONF` that does not exist (22.05), and then nobody could say whether
/// a job is queued.
fn configured() -> Result<(), SchedulerError> {
    let Some(path) = std::env::var_os("SLURM_CONF").map(PathBuf::from) else {
        return Ok(());
    };
    match std::fs::metadata(&path) {
        Ok(_) => Ok(()),
        Err(source) => Err(SchedulerError::File {
            what: "read what SLURM_CONF names,",
            path,
            source,
        }),
    }
}

/// Of the user's environment they would add GPUs to those that `--gres` asks for.
const GPU_VARIABLES: [&str; 2] = ["SBATCH_GPUS", "SBATCH_GPUS_PER_NODE"];

fn sbatch(slurm: &Slurm, plan: &Plan) -> Tool {
    // `sbatch` hands its environment to the job, so nothing of ours is put into it.
    let found = slurm
        .sbatch()
        .and_then(|file| Some(file.parent()?.to_owned()));
    let tool = Tool::new("sbatch")
        .in_dirs(found.as_slice())
        .in_dirs(&slurm.bin_dirs)
        .timeout(slurm.timeout)
        .keep_locale()
        // Submitting from inside a job: its shape must not leak into the new one.
        .env_remove_prefixes(&["SLURM_", "PBS_", "DLRUN_"]);
    let tool = OWN_VARIABLES.iter().fold(tool, Tool::env_remove);
    let asks_for_gpus = plan.resources.gpus_per_node.is_some();
    let tool = GPU_VARIABLES
        .iter()
        .filter(|_| asks_for_gpus)
        .fold(tool, Tool::env_remove);
    let kept = KEPT_VARIABLES
        .iter()
        .filter_map(|name| Some((name, std::env::var_os(name)?)));
    kept.fold(tool, |tool, (name, value)| tool.env(name, value))
}

/// What names a cluster and the user to the schedulers' commands, and is no part of a job's shape.
const KEPT_VARIABLES: [&str; 6] = [
    "SLURM_CONF",
    "SLURM_CLUSTERS",
    "SLURM_JWT",
    "PBS_DEFAULT",
    "PBS_SERVER",
    "PBS_EXEC",
];

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;
    use std::process::ExitStatus;
    use std::time::Duration;

    use super::*;
    use crate::foundation::command::Output;

    fn answer(code: i32, stdout: &str, stderr: &str) -> Result<JobId, SchedulerError> {
        let status = ExitStatus::from_raw(code << 8);
        let (stdout, stderr) = (stdout.to_owned(), stderr.to_owned());
        let output = Output {
            status,
            stdout,
            stderr,
            elapsed: Duration::ZERO,
        };
        WORDS.job_id("sbatch", Ok(output), id_in)
    }

    #[test]
    fn ids_are_read_with_cluster_and_greetings() {
        for stdout in ["4711\n", "4711;hawk\n", "Welcome!\n4711\n"] {
            assert_eq!(
                answer(0, stdout, "").expect("an id"),
                JobId("4711".into()),
                "{stdout}"
            );
        }
    }

    #[test]
    fn nonsense_is_not_taken_for_a_refusal() {
        for stdout in ["", "Submitted?\n", "12ab\n", "999999999999999999999999\n"] {
            assert!(
                matches!(answer(0, stdout, ""), Err(SchedulerError::Unclear { .. })),
                "{stdout}"
            );
        }
    }

    #[test]
    fn a_controller_that_is_down_is_told_from_one_that_says_no() {
        let down = answer(
            1,
            "",
            "sbatch: error: Batch job submission failed: Unable to contact slurm controller (connect failure)",
        );
        assert!(matches!(down, Err(SchedulerError::Unreachable { .. })));
        let silent = answer(
            1,
            "",
            "sbatch: error: Batch job submission failed: Socket timed out on send/recv operation",
        );
        assert!(matches!(silent, Err(SchedulerError::Unclear { .. })));
        let no = answer(1, "", "sbatch: error: invalid partition specified: gpux\n");
        assert!(matches!(no, Err(SchedulerError::Refused { .. })));
    }
}
