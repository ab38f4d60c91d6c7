//! `DLRUN_RUN_ID=.. sbatch --parsable --chdir=WORKDIR --export=ALL,DLRUN_RUN_ID=.. OPTIONS SCRIPT`
//!
//! Answer: `4711`, or `4711;cluster` on a federation.

use std::path::PathBuf;

use super::{NAME, Slurm, directives, unanswered, unreachable};
use crate::command::{CommandError, Output, Tool};
use crate::job::JobId;
use crate::plan::Plan;
use crate::scheduler::{SchedulerError, Submission, Submitted};

/// Variables of the user's environment that `sbatch` would obey and dlrun does without: the run id joins the first, the
/// output's place is known beforehand, arrays come later, and an `sbatch` that waits gives no answer in time.
pub const OWN_VARIABLES: [&str; 6] =
    ["SBATCH_EXPORT", "SBATCH_OUTPUT", "SBATCH_ERROR", "SBATCH_OPEN_MODE", "SBATCH_ARRAY_INX", "SBATCH_WAIT"];

/// The arguments after `sbatch`.
pub(super) fn arguments(submission: &Submission<'_>, site_export: Option<&str>) -> Vec<String> {
    let plan = submission.plan;
    let mut arguments = vec!["--parsable".to_owned(), format!("--chdir={}", plan.workdir)];
    arguments.extend(directives::requested(plan));
    let (exports, others): (Vec<&String>, Vec<&String>) =
        plan.arguments.iter().partition(|argument| argument.starts_with("--export="));
    let directive = plan.directives.iter().filter(|directive| directive.starts_with("--export="));
    let asked = exports.into_iter().next_back().or(directive.into_iter().next_back());
    let asked = asked.and_then(|export| export.strip_prefix("--export=")).or(site_export);
    arguments.push(format!("--export={}", merged_export(asked, submission.run_id.as_str())));
    arguments.extend(others.into_iter().cloned());
    arguments.push(submission.script.to_string_lossy().into_owned());
    arguments
}

/// Adds the run id to what the user exports. `NONE` stands alone in Slurm; a list of names means the same for the rest.
fn merged_export(asked: Option<&str>, run_id: &str) -> String {
    match asked {
        None | Some("") => format!("ALL,DLRUN_RUN_ID={run_id}"),
        Some("NONE" | "NIL") => format!("DLRUN_RUN_ID={run_id}"),
        Some(names) => format!("{names},DLRUN_RUN_ID={run_id}"),
    }
}

pub(super) fn command_line(submission: &Submission<'_>) -> Vec<String> {
    std::iter::once("sbatch".to_owned()).chain(arguments(submission, None)).collect()
}

pub(super) fn submit(slurm: &Slurm, submission: &Submission<'_>) -> Result<Submitted, SchedulerError> {
    let site_export = std::env::var("SBATCH_EXPORT").ok();
    configured()?;
    let tool = sbatch(slurm).args(arguments(submission, site_export.as_deref()));
    let output = match tool.run() {
        Ok(output) => output,
        Err(
            source @ (CommandError::TimedOut { .. }
            | CommandError::TooMuchOutput { .. }
            | CommandError::Follow { .. }),
        ) => {
            return Err(SchedulerError::Unclear { scheduler: NAME, source: Box::new(source) });
        }
        Err(source) => return Err(SchedulerError::Unreachable { scheduler: NAME, source }),
    };
    let job_id = read_answer(output)?;
    Ok(Submitted { output: output_file(submission.plan, &job_id), job_id, parts: Vec::new() })
}

/// `sbatch --test-only` with the script on standard input; it answers on standard error.
pub(super) fn test(slurm: &Slurm, plan: &Plan, script: &str) -> Result<String, SchedulerError> {
    configured()?;
    let tool = sbatch(slurm)
        .arg("--test-only")
        .args(directives::requested(plan))
        .args(&plan.arguments)
        .stdin(script.as_bytes().to_vec());
    let output = tool.run().map_err(|source| SchedulerError::Unreachable { scheduler: NAME, source })?;
    if output.status.success() {
        return Ok(verdict(&output.stderr));
    }
    Err(refusal(output))
}

/// `sbatch: Job 23 to start at ..`: the id is of no job, so it is left out.
fn verdict(said: &str) -> String {
    let said = said.trim().trim_start_matches("sbatch: ");
    match said.split_once(" to start at ") {
        Some((_, rest)) => format!("it would start at {rest}"),
        None => said.to_owned(),
    }
}

/// `sbatch` waits half a minute and more for a `SLURM_CONF` that is not there (22.05), and then nobody could say whether
/// a job is queued.
fn configured() -> Result<(), SchedulerError> {
    let Some(path) = std::env::var_os("SLURM_CONF").map(PathBuf::from) else { return Ok(()) };
    match std::fs::metadata(&path) {
        Ok(_) => Ok(()),
        Err(source) => Err(SchedulerError::File { what: "read what SLURM_CONF names,", path, source }),
    }
}

fn sbatch(slurm: &Slurm) -> Tool {
    // `sbatch` hands its environment to the job, so nothing of ours is put into it.
    let found = slurm.sbatch().and_then(|file| Some(file.parent()?.to_owned()));
    let tool = Tool::new("sbatch")
        .in_dirs(found.as_slice())
        .in_dirs(&slurm.bin_dirs)
        .timeout(slurm.timeout)
        .keep_locale()
        // Submitting from inside a job: its shape must not leak into the new one.
        .env_remove_prefixes(&["SLURM_", "DLRUN_"]);
    let tool = OWN_VARIABLES.iter().fold(tool, Tool::env_remove);
    let kept = KEPT_VARIABLES.iter().filter_map(|name| Some((name, std::env::var_os(name)?)));
    kept.fold(tool, |tool, (name, value)| tool.env(name, value))
}

/// What names the cluster and the user to Slurm's commands, and is no part of a job's shape.
const KEPT_VARIABLES: [&str; 3] = ["SLURM_CONF", "SLURM_CLUSTERS", "SLURM_JWT"];

/// The job's output, as [`directives::directives`] asked for it.
fn output_file(plan: &Plan, job_id: &JobId) -> std::path::PathBuf {
    std::path::Path::new(&plan.workdir).join(format!("{}-{job_id}.out", plan.name))
}

/// What a failed `sbatch` means. A controller that was reached but did not answer may have queued the job, and so may one
/// whose `sbatch` was killed while it waited.
fn refusal(output: Output) -> SchedulerError {
    let (no_contact, no_answer) =
        (unreachable(&output), unanswered(&output) || output.status.code().is_none());
    match output.require_success("sbatch") {
        Err(source) if no_answer => SchedulerError::Unclear { scheduler: NAME, source: Box::new(source) },
        Err(source) if no_contact => SchedulerError::Unreachable { scheduler: NAME, source },
        Err(source) => SchedulerError::Refused { scheduler: NAME, source },
        Ok(_) => unreachable!("only failures are asked about"),
    }
}

fn read_answer(output: Output) -> Result<JobId, SchedulerError> {
    if !output.status.success() {
        return Err(refusal(output));
    }
    // Sites' submit plug-ins print greetings: the id is the last line that looks like one.
    let id = output.stdout.lines().rev().find_map(|line| {
        let id = line.trim().split(';').next().unwrap_or_default();
        (!id.is_empty() && id.len() <= 20 && id.bytes().all(|b| b.is_ascii_digit())).then(|| id.to_owned())
    });
    id.map(JobId).ok_or_else(|| {
        let said: String = output.stdout.chars().take(200).collect();
        let text = format!("`sbatch` exited with status 0, but printed no job id: {said:?}");
        SchedulerError::Unclear { scheduler: NAME, source: text.into() }
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;
    use std::process::ExitStatus;
    use std::time::Duration;

    use super::*;

    fn answer(code: i32, stdout: &str, stderr: &str) -> Result<JobId, SchedulerError> {
        let status = ExitStatus::from_raw(code << 8);
        let (stdout, stderr) = (stdout.to_owned(), stderr.to_owned());
        read_answer(Output { status, stdout, stderr, elapsed: Duration::ZERO })
    }

    #[test]
    fn ids_are_read_with_cluster_and_greetings() {
        for stdout in ["4711\n", "4711;hawk\n", "Welcome!\n4711\n"] {
            assert_eq!(answer(0, stdout, "").expect("an id"), JobId("4711".into()), "{stdout}");
        }
    }

    #[test]
    fn nonsense_is_not_taken_for_a_refusal() {
        for stdout in ["", "Submitted?\n", "12ab\n", "999999999999999999999999\n"] {
            assert!(matches!(answer(0, stdout, ""), Err(SchedulerError::Unclear { .. })), "{stdout}");
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

    #[test]
    fn the_run_id_joins_what_the_user_exports() {
        assert_eq!(merged_export(None, "id"), "ALL,DLRUN_RUN_ID=id");
        assert_eq!(merged_export(Some("NONE"), "id"), "DLRUN_RUN_ID=id");
        assert_eq!(merged_export(Some("HOME,A=1"), "id"), "HOME,A=1,DLRUN_RUN_ID=id");
    }
}
