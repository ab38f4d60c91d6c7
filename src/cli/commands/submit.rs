//! `dlrun submit`: plan, environment, script, hand-over; with `--wait` the whole way to the end.

use std::borrow::Cow;
use std::path::Path;

use serde::Serialize;

use crate::app::error::{Error, Kind};
use crate::app::exit_of_run::{code_of_state, own_code};
use crate::app::job::load::{Against, Job};
use crate::app::job::submit::{new_run_id, prepare, show_choices, submit};
use crate::app::session::Session;
use crate::app::track::Tracker;
use crate::app::wait::{self, Watched};
use crate::cli::args::{Submit, WaitHow};
use crate::cli::summary;
use crate::job::{JobId, RunId, SchedulerKind};
use crate::record::RunRecord;

/// A submitted run; with `--wait` it is a [`summary::RunAnswer`].
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Submitted<'a> {
    run_id: &'a RunId,
    name: &'a str,
    scheduler: SchedulerKind,
    job_id: Option<&'a JobId>,
    output: Option<&'a str>,
    records: Cow<'a, str>,
}

/// Runs the verb; returns the exit code.
pub(crate) fn run(session: &Session, args: &Submit) -> Result<u8, Error> {
    let mut job = Job::load(session, &args.job.request(), Against::Site)?;
    show_choices(session, &job.plan);
    prepare(session, &job)?;
    job.build_image(session)?;
    let (record, run) = submit(session, &job, new_run_id()?, true)?;
    let Some(how) = args.wait else {
        return show_submitted(session, &record, run.path());
    };
    session.note(&submitted_line(&record));
    let mut tracker = Tracker::open(session)?;
    let watched = Watched::new(&record, &job.plan);
    let tracked = wait::until_over(session, &mut tracker, vec![watched], None)?;
    let Some(tracked) = tracked.into_iter().next() else {
        let message = "the run vanished while it was waited for";
        return Err(Error::new(Kind::Internal, message));
    };
    let records = tracker.records_of(&tracked.record.run_id);
    let answer = summary::run_answer(&tracked, Some(&records));
    session.answer(&answer, &summary::to_text(&tracked, Some(&records)))?;
    wait::show_hopeless(session, &tracked);
    Ok(match how {
        WaitHow::State => code_of_state(tracked.status.state),
        WaitHow::Passthrough => own_code(&tracked.status),
    })
}

fn submitted_line(record: &RunRecord) -> String {
    let job = record.job_id.as_ref().map(|job| format!(" job {job}"));
    let (scheduler, job) = (record.scheduler.as_str(), job.unwrap_or_default());
    let (name, run) = (&record.name, short(&record.run_id));
    format!("submitted {name} as run {run} ({scheduler}{job})")
}

/// The first letters of an id: six are unique among thousands of runs, and `list` shows what is enough.
fn short(run_id: &RunId) -> &str {
    &run_id.as_str()[..6]
}

pub(crate) fn show_submitted(
    session: &Session,
    record: &RunRecord,
    records: &Path,
) -> Result<u8, Error> {
    let answer = Submitted {
        run_id: &record.run_id,
        name: &record.name,
        scheduler: record.scheduler,
        job_id: record.job_id.as_ref(),
        output: record.output.as_deref(),
        records: records.to_string_lossy(),
    };
    let id = short(&record.run_id);
    let place = if record.scheduler.is_local() {
        "; it continues when this shell ends"
    } else {
        ""
    };
    let text = format!(
        "{}{place}\nfollow it with: dlrun logs -f {id}\nwait for it:    dlrun wait {id}\n",
        submitted_line(record)
    );
    let printed = session.answer(&answer, &text);
    if printed.is_err() {
        // Nobody read it, and the job is queued.
        session.note(&submitted_line(record));
    }
    printed
}
