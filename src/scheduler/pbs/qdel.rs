//! What `qdel` said.

use crate::foundation::command::{Output, Tool};
use crate::scheduler::SchedulerError;

/// Runs a `qdel`. A job that is `gone`, by the exit code for it, is what was asked for. `unreachable` tells an answer of a
/// server that was never reached.
pub(in crate::scheduler) fn delete(
    scheduler: &'static str,
    tool: &Tool,
    what: String,
    gone: &[i32],
    unreachable: fn(&Output) -> bool,
) -> Result<(), SchedulerError> {
    let output = match tool.run() {
        Ok(output) => output,
        Err(source) => return Err(SchedulerError::of_question(scheduler, what, source)),
    };
    let no_contact = unreachable(&output);
    if !no_contact
        && output
            .status
            .code()
            .is_some_and(|code| gone.contains(&code))
    {
        return Ok(());
    }
    match output.require_success("qdel") {
        Ok(_) => Ok(()),
        Err(source) if no_contact => Err(SchedulerError::Unreachable { scheduler, source }),
        Err(source) => Err(SchedulerError::of_question(scheduler, what, source)),
    }
}
