//! `qsub -N .. -l .. -j oe -o RUN_DIR/scheduler.out SCRIPT`
//!
//! Answer: `4711.server`, of an array `4711[].server`.

use super::directives;
use crate::foundation::command::Tool;
use crate::job::Inherit;
use crate::launch::Plan;
use crate::scheduler::output_file;
use crate::scheduler::pbs::commands::Commands;
use crate::scheduler::pbs::options;
use crate::scheduler::{SchedulerError, Submission, Submitted};

/// The arguments after `qsub`. `has` says whether a variable is set: `qsub` refuses to hand over one that is not.
fn arguments(submission: &Submission<'_>, has: impl Fn(&str) -> bool) -> Vec<String> {
    let plan = submission.plan;
    let mut arguments = options::words(&directives::requested(plan));
    match &plan.inherit {
        Some(Inherit::All) => arguments.push("-V".to_owned()),
        Some(Inherit::Names(names)) => {
            let names: Vec<&str> = names
                .iter()
                .map(String::as_str)
                .filter(|name| has(name))
                .collect();
            arguments.extend(
                (!names.is_empty())
                    .then(|| ["-v".to_owned(), names.join(",")])
                    .into_iter()
                    .flatten(),
            );
        }
        Some(Inherit::None) | None => {}
    }
    // The job's own output goes where the script sends it; here is what the scheduler has to say.
    let file = if plan.resources.array.is_some() {
        "scheduler.^array_index^.out"
    } else {
        "scheduler.out"
    };
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
    std::iter::once("qsub".to_owned())
        .chain(arguments(submission, |_| true))
        .collect()
}

pub(super) fn submit(
    openpbs: &Commands,
    submission: &Submission<'_>,
) -> Result<Submitted, SchedulerError> {
    let has = |name: &str| std::env::var_os(name).is_some();
    let ran = tool(openpbs, submission.plan)
        .args(arguments(submission, has))
        .run();
    let job_id = openpbs.submitted(ran)?;
    let output = output_file(submission.plan, &job_id);
    Ok(Submitted {
        job_id,
        output,
        parts: Vec::new(),
    })
}

/// What a job's surroundings set without the prefix.
const JOB_VARIABLES: [&str; 3] = ["NCPUS", "OMP_NUM_THREADS", "TMPDIR"];

fn tool(openpbs: &Commands, plan: &Plan) -> Tool {
    let tool = openpbs.qsub().current_dir(&plan.workdir);
    let inside = std::env::var_os("PBS_JOBID").is_some();
    JOB_VARIABLES
        .iter()
        .filter(|_| inside)
        .fold(tool, Tool::env_remove)
}
