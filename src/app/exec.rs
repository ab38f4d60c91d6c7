//! The processes inside a job: `dlrun exec`, and the processes behind it and behind local jobs.

use std::ffi::OsString;
use std::path::Path;

use crate::app::error::{Error, Kind, failure};
use crate::app::output::Output;
use crate::app::session::hostname;
use crate::foundation::command::{CommandError, replace_by};
use crate::image::flags::Container;
use crate::job::{SchedulerKind, SchedulerVariables};
use crate::node::check::examine;
use crate::node::supervise::{self, Closed, Context, NoEntry};
use crate::record::{NOT_FIT, NOT_MET};
use crate::scheduler::{local, script};

/// Gives a run id to a job that came through `dlrun render`, and prints it.
pub(crate) fn mint(output: Output) -> Result<u8, Error> {
    let context = context();
    let mut bits = [0; 10];
    getrandom::fill(&mut bits).map_err(|error| Error::new(Kind::Internal, error))?;
    let script = context
        .plan
        .as_ref()
        .map(script::render)
        .unwrap_or_default();
    let run_id = supervise::mint(&context, bits, &hostname(), &script)
        .map_err(|error| Error::new(Kind::CannotWrite, error))?;
    output.raw(format!("{run_id}\n").as_bytes())?;
    Ok(0)
}

pub(crate) fn context() -> Context {
    Context::from_environment(|name| std::env::var(name).ok(), hostname())
}

/// The id of the job that this runs in, as its scheduler's commands know it.
pub(crate) fn job_name(kind: SchedulerKind) -> Option<String> {
    // The id of one element may be that of its whole array (`scontrol(1)`).
    let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    if let (Some(array), Some(task)) = (
        variable("SLURM_ARRAY_JOB_ID"),
        variable("SLURM_ARRAY_TASK_ID"),
    ) {
        return Some(format!("{array}_{task}"));
    }
    let mut all = SchedulerVariables::ALL
        .iter()
        .filter(|it| it.kinds.contains(&kind));
    all.find_map(|variables| std::env::var(variables.job_id).ok())
}

/// Starts and watches a command; the exit code is the command's own.
pub(crate) fn run(output: Output, command: &[OsString], in_image: usize) -> Result<u8, Error> {
    if command.is_empty() {
        return Err(
            failure!(Usage, "no command is given").hinted("write: dlrun exec -- python train.py")
        );
    }
    let say = |text: &str| output.note(&format!("dlrun: {text}"));
    let context = match supervise::try_ways(command, in_image, context(), &say) {
        Ok(context) => context,
        Err(code) => return Ok(u8::try_from(code).unwrap_or(125)),
    };
    let prepared = match supervise::prepare(command.to_vec(), in_image, context) {
        Ok(prepared) => prepared.checked(),
        Err(closed) => {
            let kind = kind_of(&closed.why.why);
            return Err(closed_error(kind, closed.record(i32::from(kind.code()))));
        }
    };
    prepared
        .warnings()
        .iter()
        .for_each(|warning| output.job_warning(warning));
    match supervise::exec(prepared) {
        Ok(exit) => Ok(u8::try_from(exit.shell_code()).unwrap_or(125)),
        Err(error) => Ok(not_started(output, error)),
    }
}

/// Looks whether this node is fit for the plan's command; prints a line for each thing that it looks at and finds.
pub(crate) fn check_node(output: Output) -> Result<u8, Error> {
    let context = context();
    if let Some(plan) = &context.plan {
        examine(plan, &mut |line| {
            let _ = output.raw(format!("{line}\n").as_bytes());
        });
    }
    Ok(0)
}

/// Ends in the place of a command whose node is not fit for it.
pub(crate) fn refused(output: Output, why: &str) -> Result<u8, Error> {
    let error = failure!(Unreachable, "{NOT_FIT}{why}");
    output.failure(&error);
    Ok(Kind::Unreachable.code())
}

/// Starts the ranks of a distributed training on this node; the exit code is that of the run's cause.
pub(crate) fn ranks(output: Output, command: &[OsString]) -> Result<u8, Error> {
    let say = |text: &str| output.job_warning(text);
    match supervise::run_ranks(command, &context(), &say) {
        Ok(code) => Ok(u8::try_from(code).unwrap_or(125)),
        Err((code, why)) => {
            output.failure(&failure!(Unreachable, "{NOT_MET}{why}"));
            Ok(u8::try_from(code).unwrap_or(125))
        }
    }
}

/// Becomes the container's runtime: there is no dlrun between a rank and what starts it.
pub(crate) fn enter(
    output: Output,
    image: &str,
    command: &[OsString],
    bare: usize,
) -> Result<u8, Error> {
    let entry = match serde_json::from_str::<Container>(image) {
        Ok(container) => supervise::prepare_rank(&container, command, bare)
            .map_err(|closed| closed_error(kind_of(&closed.why), closed))?,
        Err(error) => {
            output.job_warning(&format!(
                "the container's description cannot be read: {error}"
            ));
            return Ok(not_started(output, replace_by(command, &[], &[])));
        }
    };
    if is_first_of_node(|name| std::env::var(name).ok()) {
        entry
            .record
            .warnings
            .iter()
            .for_each(|warning| output.job_warning(warning));
    }
    Ok(not_started(
        output,
        replace_by(&entry.argv, &entry.sets, &entry.removals),
    ))
}

/// Where all ranks of a node have the same to say, its first one does.
fn is_first_of_node(variable: impl Fn(&str) -> Option<String>) -> bool {
    let of_schedulers = SchedulerVariables::ALL.iter();
    let of_schedulers = of_schedulers.filter_map(|variables| variables.local_rank);
    let of_mpi = ["OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID"];
    let rank = of_schedulers.chain(of_mpi).find_map(variable);
    rank.is_none_or(|rank| rank == "0")
}

/// The shell's own codes: 127 for a missing command, 126 for one that cannot be executed.
fn not_started(output: Output, error: CommandError) -> u8 {
    let code = u8::try_from(error.shell_code()).unwrap_or(126);
    output.failure(&Error::new(Kind::Missing, error));
    code
}

/// What is missing here, or what this runtime cannot do.
fn kind_of(why: &Closed) -> Kind {
    match why {
        Closed::Refused(refusal) if !refusal.is_missing => Kind::Config,
        Closed::Refused(_) | Closed::NoRuntime(_) | Closed::NoImage { .. } => Kind::Missing,
    }
}

fn closed_error(kind: Kind, closed: NoEntry) -> Error {
    let hint = match &closed.why {
        Closed::Refused(refusal) => refusal.remedy.clone(),
        Closed::NoRuntime(_) => {
            "name the runtime on the nodes with the setting `images.runtime`, or load its module with `run.modules`"
                .to_owned()
        }
        Closed::NoImage { .. } => "the image must lie where all nodes see it".to_owned(),
    };
    Error::new(kind, closed).hinted(hint)
}

/// Runs the watcher.
pub(crate) fn watch() -> Result<u8, Error> {
    supervise::watch()?;
    Ok(0)
}

/// Runs a local job.
pub(crate) fn local_run(run_dir: &Path) -> Result<u8, Error> {
    local::run(run_dir)?;
    Ok(0)
}
