//! A run id for a job whose script came through `dlrun render`: nobody recorded its submission.

use std::path::Path;

use nix::unistd::{User, getuid};

use super::context::Context;
use crate::foundation::clock::now_ms;
use crate::foundation::private::FileError;
use crate::foundation::private::kernel_uid;
use crate::job::{ArraySpec, RunId};
use crate::record::RunRecord;
use crate::record::rundir::StateDir;

/// Makes a run id and its directory, or finds those that an earlier start of the same job made. `script` is kept as the
/// run's batch script.
///
/// # Errors
/// When the state directory cannot be used, or the environment holds no plan.
pub fn mint(
    context: &Context,
    bits: [u8; 10],
    hostname: &str,
    script: &str,
) -> Result<RunId, MintError> {
    let plan = context.plan.as_ref().ok_or(MintError::NoPlan)?;
    let state = StateDir::create(Path::new(&plan.state_dir))?;
    if context.attempt > 0
        && let Some(run_id) = former(&state, context)
    {
        return Ok(run_id);
    }
    let run_id = RunId::of_owner(bits, kernel_uid());
    let output = context
        .job_id
        .as_ref()
        .and_then(|_| std::fs::read_link("/proc/self/fd/2").ok());
    let names = (user_name(), hostname.to_owned());
    let submitted = plan.begun_run(run_id.clone(), now_ms(), names, context.job_id.clone());
    let record = RunRecord {
        // Each element of an array is a separate run.
        array: submitted
            .array
            .as_ref()
            .map(|_| ArraySpec::of(&[context.element], None)),
        output: output
            .filter(|path| path.is_absolute())
            .map(|path| path.to_string_lossy().into_owned()),
        job_file: None,
        ..submitted
    };
    state.create_run(&record, script, &plan.to_json())?;
    Ok(run_id)
}

/// The login name of this process's user; the number where there is none.
pub(super) fn user_name() -> String {
    let user = User::from_uid(getuid()).ok().flatten();
    user.map_or_else(|| getuid().to_string(), |user| user.name)
}

/// The run of the same job before it was requeued.
fn former(state: &StateDir, context: &Context) -> Option<RunId> {
    let records = state
        .runs()
        .ok()?
        .filter_map(|run_id| state.run(&run_id).ok()?.read_run().ok());
    let same = records.filter(|record| record.job_id.is_some() && record.job_id == context.job_id);
    same.max_by_key(|record| record.submitted_at_ms)
        .map(|record| record.run_id)
}

/// Why no run id could be made.
#[derive(Debug, thiserror::Error)]
pub enum MintError {
    /// `DLRUN_PLAN` is not set or cannot be read.
    #[error("the environment holds no plan")]
    NoPlan,
    /// The state directory cannot be used.
    #[error(transparent)]
    RunDir(#[from] FileError),
}
