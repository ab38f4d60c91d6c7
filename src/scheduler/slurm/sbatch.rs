//! `sbatch --parsable --chdir=WORKDIR OPTIONS < SCRIPT`
//!
//! Answer: `4711`, or `4711;cluster` on a federation. The script names its run in a separate line and comes through standard
//! input: neither command lines nor `scontrol show job` show the id.

use std::path::PathBuf;

use super::{Slurm, WORDS, directives, export};
use crate::foundation::command::Tool;
use crate::launch::Plan;
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

/// The arguments after `sbatch`.
pub(super) fn arguments(plan: &Plan) -> Vec<String> {
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

pub(super) fn submit(
    slurm: &Slurm,
    submission: &Submission<'_>,
) -> Result<Submitted, SchedulerError> {
    configured()?;
    let plan = submission.plan;
    let script = script::render_for_run(plan, submission.run_id);
    let tool = sbatch(slurm, plan).args(arguments(plan));
    let job_id = WORDS.job_id("sbatch", tool.stdin(script.into_bytes()).run(), id_in)?;
    Ok(Submitted {
        output: plan.output_of(&job_id.0),
        job_id,
    })
}

/// The id in `4711` and `4711;cluster`.
fn id_in(line: &str) -> Option<&str> {
    let id = line.split(';').next()?;
    let is_id = (1..=20).contains(&id.len()) && id.bytes().all(|b| b.is_ascii_digit());
    is_id.then_some(id)
}

/// `sbatch --test-only` with the script on standard input; it answers on standard error.
pub(super) fn test(slurm: &Slurm, plan: &Plan, script: &str) -> Result<String, SchedulerError> {
    configured()?;
    let tool = sbatch(slurm, plan)
        .arg("--test-only")
        .args(directives::requested(plan))
        .args(&plan.arguments)
        .stdin(script.as_bytes().to_vec());
    let output = WORDS.taken("sbatch", tool.run(), false)?;
    Ok(verdict(&output.stderr))
}

/// `sbatch: Job 23 to start at ..`: the id is of no job, so it is left out.
fn verdict(answer: &str) -> String {
    let answer = answer.trim().trim_start_matches("sbatch: ");
    match answer.split_once(" to start at ") {
        Some((_, rest)) => format!("it would start at {rest}"),
        None => answer.to_owned(),
    }
}

/// `sbatch` waits half a minute and more for a `SLURM_CONF` that does not exist (22.05), and then nobody could say whether
/// a job is queued.
fn configured() -> Result<(), SchedulerError> {
    let Some(path) = std::env::var_os("SLURM_CONF").map(PathBuf::from) else {
        return Ok(());
    };
    let what = "read what SLURM_CONF names,";
    let found = std::fs::metadata(&path).map(drop);
    found.map_err(|source| SchedulerError::File { what, path, source })
}

/// Of the user's environment they would add GPUs to those that `--gres` asks for.
const GPU_VARIABLES: [&str; 2] = ["SBATCH_GPUS", "SBATCH_GPUS_PER_NODE"];

fn sbatch(slurm: &Slurm, plan: &Plan) -> Tool {
    let tool = slurm.commands.submitting("sbatch", &KEPT_VARIABLES);
    let tool = OWN_VARIABLES.iter().fold(tool, Tool::env_remove);
    let asks_for_gpus = plan.resources.gpus_per_node.is_some();
    GPU_VARIABLES
        .iter()
        .filter(|_| asks_for_gpus)
        .fold(tool, Tool::env_remove)
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

    use super::*;
    use crate::foundation::command::Output;
    use crate::job::JobId;

    fn answer(code: i32, stdout: &str, stderr: &str) -> Result<JobId, SchedulerError> {
        let status = ExitStatus::from_raw(code << 8);
        let (stdout, stderr) = (stdout.to_owned(), stderr.to_owned());
        let output = Output {
            status,
            stdout,
            stderr,
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
