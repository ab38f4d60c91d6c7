//! `dlrun exec`, and the processes behind it and behind local jobs.

use std::path::Path;

use crate::cli::args::Exec;
use crate::cli::error::{Error, Kind};
use crate::cli::output::Output;
use crate::cli::session::hostname;
use crate::scheduler::{local, script};
use crate::supervise::{self, Context};

/// Runs the verb; the exit code is the command's own.
pub(crate) fn run(output: Output, args: &Exec) -> Result<u8, Error> {
    let context = Context::from_environment(|name| std::env::var(name).ok(), hostname());
    if args.mint {
        let mut bits = [0; 10];
        getrandom::fill(&mut bits).map_err(|error| Error::new(Kind::Internal, error))?;
        let script = context.plan.as_ref().map(script::render).unwrap_or_default();
        let run_id = supervise::mint(&context, bits, &hostname(), &script)
            .map_err(|error| Error::new(Kind::CannotWrite, error))?;
        output.raw(format!("{run_id}\n").as_bytes())?;
        return Ok(0);
    }
    if args.command.is_empty() {
        let error = Error::new(Kind::Usage, "no command is given");
        return Err(error.hinted("write: dlrun exec -- python train.py"));
    }
    match supervise::exec(args.command.clone(), context) {
        Ok(exit) => Ok(u8::try_from(exit.shell_code()).unwrap_or(125)),
        Err(error) => {
            // The shell's own codes: 127 for a command that is not there, 126 for one that cannot be executed.
            let code = u8::try_from(error.shell_code()).unwrap_or(126);
            output.failure("exec", &Error::new(Kind::Missing, error));
            Ok(code)
        }
    }
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
