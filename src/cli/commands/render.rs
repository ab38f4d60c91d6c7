//! `dlrun render`: the very script that `submit` hands over, for `sbatch` or for reading.

use serde::Serialize;

use crate::app::error::Error;
use crate::app::job::load::{Against, Job};
use crate::app::job::submit::{output_dir, prepare};
use crate::app::session::Session;
use crate::cli::args::Render;

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct JobScript {
    script: String,
}

/// Runs the verb.
pub(crate) fn run(session: &Session, args: &Render) -> Result<u8, Error> {
    let job = Job::load(session, &args.job.request(), Against::Nothing)?;
    let warnings = &job.plan.warnings;
    warnings.iter().for_each(|text| session.warning(text));
    if let Some(dir) = output_dir(&job.plan) {
        let dir = dir.display();
        session.warning(&format!(
            "create {dir} before you submit this: the output goes there"
        ));
    }
    if args.prepare {
        prepare(session, &job)?;
    } else if job.python.as_ref().is_some_and(|python| !python.ready) {
        session
            .warning("the Python environment is not made yet: `dlrun render --prepare` makes it");
    }
    if let Some(order) = &job.to_build {
        let name = &order.entry.name;
        session.warning(&format!(
            "the image {name} is not built yet: `dlrun submit` builds it first"
        ));
    }
    let script = job.script();
    let answer = JobScript { script };
    session.output.document(&answer, &answer.script)
}
