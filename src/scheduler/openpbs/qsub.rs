//! `qsub -N .. -l .. -v DLRUN_RUN_ID=.. -j oe -o RUN_DIR/scheduler.out SCRIPT`
//!
//! Answer: `4711.server`, of an array `4711[].server`.

use super::{NAME, OpenPbs, directives, unreachable};
use crate::command::{CommandError, Output, Tool};
use crate::job::{Inherit, JobId};
use crate::plan::Plan;
use crate::scheduler::{SchedulerError, Submission, Submitted};

/// The arguments after `qsub`. `has` says whether a variable is set: `qsub` refuses to hand over one that is not.
fn arguments(submission: &Submission<'_>, has: impl Fn(&str) -> bool) -> Vec<String> {
    let plan = submission.plan;
    let mut arguments = Vec::new();
    for (option, value) in directives::requested(plan) {
        arguments.extend([option.to_owned(), value]);
    }
    let mut variables = vec![format!("DLRUN_RUN_ID={}", submission.run_id)];
    match &plan.inherit {
        Some(Inherit::All) => arguments.push("-V".to_owned()),
        Some(Inherit::Names(names)) => variables.extend(names.iter().filter(|name| has(name)).cloned()),
        Some(Inherit::None) | None => {}
    }
    arguments.extend(["-v".to_owned(), variables.join(",")]);
    // The job's own output goes where the script sends it; here is what the scheduler has to say.
    let file = if plan.resources.array.is_some() { "scheduler.^array_index^.out" } else { "scheduler.out" };
    let spool = submission.run_dir.join(file).to_string_lossy().into_owned();
    arguments.extend(["-j".to_owned(), "oe".to_owned(), "-o".to_owned(), spool]);
    for argument in &plan.arguments {
        // An option and its value are two words for `qsub`.
        arguments.extend(argument.splitn(2, ' ').map(str::to_owned));
    }
    arguments.push(submission.script.to_string_lossy().into_owned());
    arguments
}

pub(super) fn command_line(submission: &Submission<'_>) -> Vec<String> {
    std::iter::once("qsub".to_owned()).chain(arguments(submission, |_| true)).collect()
}

pub(super) fn submit(openpbs: &OpenPbs, submission: &Submission<'_>) -> Result<Submitted, SchedulerError> {
    let has = |name: &str| std::env::var_os(name).is_some();
    let output = match qsub(openpbs, submission.plan).args(arguments(submission, has)).run() {
        Ok(output) => output,
        Err(source @ (CommandError::TimedOut { .. } | CommandError::TooMuchOutput { .. })) => {
            return Err(SchedulerError::Unclear { scheduler: NAME, source: Box::new(source) });
        }
        Err(source) => return Err(SchedulerError::Unreachable { scheduler: NAME, source }),
    };
    let job_id = read_answer(output)?;
    Ok(Submitted { output: output_file(submission.plan, &job_id), job_id, parts: Vec::new() })
}

/// What names the server and the installation to OpenPBS's commands, and is no part of a job.
const KEPT_VARIABLES: [&str; 4] = ["PBS_CONF_FILE", "PBS_SERVER", "PBS_DEFAULT", "PBS_EXEC"];

/// What a job's surroundings set without the prefix.
const JOB_VARIABLES: [&str; 3] = ["NCPUS", "OMP_NUM_THREADS", "TMPDIR"];

fn qsub(openpbs: &OpenPbs, plan: &Plan) -> Tool {
    // With `-V` it hands its environment to the job, so nothing of ours is put into it.
    let tool = Tool::new("qsub")
        .in_dirs(&openpbs.bin_dirs)
        .timeout(openpbs.timeout)
        .current_dir(&plan.workdir)
        .keep_locale()
        // Submitting from inside a job: its shape must not leak into the new one.
        .env_remove_prefixes(&["PBS_", "SLURM_", "DLRUN_"]);
    let inside = std::env::var_os("PBS_JOBID").is_some();
    let tool = JOB_VARIABLES.iter().filter(|_| inside).fold(tool, Tool::env_remove);
    let kept = KEPT_VARIABLES.iter().filter_map(|name| Some((name, std::env::var_os(name)?)));
    kept.fold(tool, |tool, (name, value)| tool.env(name, value))
}

/// The job's output, as the script opens it.
fn output_file(plan: &Plan, job_id: &JobId) -> std::path::PathBuf {
    let number = job_id.0.split(['.', '[']).next().unwrap_or_default();
    let element = if plan.resources.array.is_some() { "_%a" } else { "" };
    std::path::Path::new(&plan.workdir).join(format!("{}-{number}{element}.out", plan.name))
}

fn read_answer(output: Output) -> Result<JobId, SchedulerError> {
    let no_contact = unreachable(&output);
    let was_killed = output.status.code().is_none();
    let said: String = output.stdout.chars().take(200).collect();
    // Sites' hooks print greetings: the id is the last line that looks like one.
    let id = output.stdout.lines().rev().map(str::trim).find(|line| is_id(line)).map(str::to_owned);
    match output.require_success("qsub") {
        Err(source) if was_killed => {
            Err(SchedulerError::Unclear { scheduler: NAME, source: Box::new(source) })
        }
        Err(source) if no_contact => Err(SchedulerError::Unreachable { scheduler: NAME, source }),
        Err(source) => Err(SchedulerError::Refused { scheduler: NAME, source }),
        Ok(_) => id.map(JobId).ok_or_else(|| {
            let text = format!("`qsub` exited with status 0, but printed no job id: {said:?}");
            SchedulerError::Unclear { scheduler: NAME, source: text.into() }
        }),
    }
}

/// `4711.server` or `4711[].server`.
fn is_id(line: &str) -> bool {
    let Some((number, server)) = line.split_once('.') else { return false };
    let number = number.strip_suffix("[]").unwrap_or(number);
    let is_number = !number.is_empty() && number.len() <= 20 && number.bytes().all(|b| b.is_ascii_digit());
    let is_host =
        !server.is_empty() && server.bytes().all(|b| b.is_ascii_alphanumeric() || b".-_".contains(&b));
    is_number && is_host
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
    fn ids_are_read_with_greetings_around() {
        for (stdout, id) in [
            ("4711.pbs\n", "4711.pbs"),
            ("10[].pbs.site.org\n", "10[].pbs.site.org"),
            ("Welcome to 7.0!\n4711.pbs\nYour project has 12 h left.\n", "4711.pbs"),
        ] {
            assert_eq!(answer(0, stdout, "").expect("an id"), JobId(id.into()), "{stdout}");
        }
        for stdout in ["", "4711\n", "pbs.4711\n", "[].pbs\n", "1 2.pbs\n"] {
            assert!(matches!(answer(0, stdout, ""), Err(SchedulerError::Unclear { .. })), "{stdout}");
        }
    }

    #[test]
    fn a_server_that_is_down_is_told_from_one_that_says_no() {
        for (code, stderr) in [
            (170, "qsub: Unknown queue\n"),
            (166, "qsub: Illegal attribute or resource value Resource_List.walltime\n"),
            (188, "qsub: Job violates queue and/or server resource limits\n"),
            (159, "qsub: Unauthorized Request \n"),
        ] {
            assert!(matches!(answer(code, "", stderr), Err(SchedulerError::Refused { .. })), "{stderr}");
        }
        for (code, stderr) in [
            (162, "Connection refused\nqsub: cannot connect to server pbs (errno=15010)\n"),
            (160, "Unknown Host.\nqsub: cannot connect to server pbs (errno=15008)\n"),
        ] {
            assert!(matches!(answer(code, "", stderr), Err(SchedulerError::Unreachable { .. })), "{stderr}");
        }
    }
}
