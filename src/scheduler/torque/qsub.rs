//! `qsub -N .. -l .. -j oe -o RUN_DIR/scheduler.out SCRIPT`
//!
//! Answer: `14.server`, of an array `14[].server`. The script is always a file: a `qsub` that reads it from a pipe names the
//! job STDIN.

use std::path::Path;

use super::directives;
use crate::foundation::command::Tool;
use crate::launch::Plan;
use crate::scheduler::output_file;
use crate::scheduler::pbs::commands::Commands;
use crate::scheduler::pbs::options::{Flag, variables, words};
use crate::scheduler::{SchedulerError, Submission, Submitted};

/// The arguments after `qsub`.
fn arguments(submission: &Submission<'_>) -> Vec<String> {
    let plan = submission.plan;
    let mut flags = directives::requested(plan);
    flags.extend(variables(plan));
    flags.push(Flag::with("-j", "oe"));
    flags.push(Flag::with("-o", spool(submission.run_dir)));
    let mut arguments = words(&flags);
    for argument in &plan.arguments {
        // An option and its value are two words for `qsub`.
        arguments.extend(argument.splitn(2, ' ').map(str::to_owned));
    }
    arguments.push(submission.script.to_string_lossy().into_owned());
    arguments
}

/// Where what the scheduler says of the job goes. Torque 6.1.3 cannot copy to a path with blanks: it keeps the job for
/// eight seconds and loses the file.
fn spool(run_dir: &Path) -> String {
    let path = run_dir.join("scheduler.out").to_string_lossy().into_owned();
    if path.contains(char::is_whitespace) {
        "/dev/null".to_owned()
    } else {
        path
    }
}

pub(super) fn command_line(submission: &Submission<'_>) -> Vec<String> {
    std::iter::once("qsub".to_owned())
        .chain(arguments(submission))
        .collect()
}

pub(super) fn submit(
    torque: &Commands,
    submission: &Submission<'_>,
) -> Result<Submitted, SchedulerError> {
    let plan = submission.plan;
    let ran = tool(torque, plan).args(arguments(submission)).run();
    let job_id = torque.submitted(ran)?;
    let output = output_file(plan, &job_id);
    Ok(Submitted {
        output,
        job_id,
        parts: Vec::new(),
    })
}

/// Torque tells the job where `qsub` was called (`PBS_O_WORKDIR`).
fn tool(torque: &Commands, plan: &Plan) -> Tool {
    if Path::new(&plan.workdir).is_dir() {
        torque.qsub().current_dir(&plan.workdir)
    } else {
        torque.qsub()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_with_blanks_is_not_given_to_torque() {
        assert_eq!(
            spool(Path::new("/home/u/runs/x")),
            "/home/u/runs/x/scheduler.out"
        );
        assert_eq!(spool(Path::new("/home/u/my runs/x")), "/dev/null");
    }
}
