//! `dlrun cancel`: tells schedulers to stop runs.

use std::time::Duration;

use serde_json::{Value, json};

use crate::app::error::{Error, Kind};
use crate::app::runs::plan_of;
use crate::app::session::Session;
use crate::app::track::{Tracked, Tracker, job_ref};
use crate::cli::args::Cancel;
use crate::foundation::clock::now_ms;
use crate::job::{ArraySpec, JobState, RunId};

/// Runs the verb. All runs are found before any is cancelled; a run that is over stays as it is. One that cannot be
/// cancelled keeps no other from it.
pub(crate) fn run(session: &Session, args: &Cancel) -> Result<u8, Error> {
    if args.element.is_some() && args.runs.len() > 1 {
        return Err(Error::new(Kind::Usage, "`--element` takes one run"));
    }
    let mut tracker = Tracker::open(session)?;
    let run_ids = if args.all {
        tracker.all_going_on()?
    } else {
        named(&mut tracker, &args.runs)?
    };
    let tracked = tracker.refresh(&run_ids, false)?;
    if let (Some(asked), Some(tracked)) = (&args.element, tracked.first()) {
        check(asked, tracked)?;
    }
    if args.element.is_none() {
        give_notice(&tracker, &tracked);
    }
    let mut told = Vec::new();
    let mut text = String::new();
    let mut failures = Vec::new();
    for tracked in tracked {
        match cancel(session, &tracker, &tracked, args.element.as_ref()) {
            Ok((value, line)) => {
                told.push(value);
                text.push_str(&line);
            }
            Err(error) => failures.push((tracked.record.run_id, error)),
        }
    }
    if told.is_empty() && failures.is_empty() {
        "no run goes on\n".clone_into(&mut text);
    }
    finish(session, &told, &text, failures)
}

/// How long programs have between the notice and `qdel`; nodes look for it every two seconds.
const NOTICE: Duration = Duration::from_secs(4);

/// Torque kills all nodes but the first at once. Their scripts see a cancel that is written down, and pass it on as SIGTERM.
fn give_notice(tracker: &Tracker<'_>, tracked: &[Tracked]) {
    let mut is_given = false;
    for run in tracked {
        let (record, state) = (&run.record, run.status.state);
        if run.kills_nodes_at_once() && record.nodes > 1 && state == JobState::Running {
            let Ok(run) = tracker.state.run(&record.run_id) else {
                continue;
            };
            let plan = plan_of(&run);
            if plan.is_some_and(|plan| plan.launcher.runs_on_each_node()) {
                is_given |= run.write_cancel(now_ms(), None).is_ok();
            }
        }
    }
    if is_given {
        std::thread::sleep(NOTICE);
    }
}

fn named(tracker: &mut Tracker<'_>, texts: &[String]) -> Result<Vec<RunId>, Error> {
    let mut run_ids: Vec<RunId> = Vec::new();
    for text in texts {
        let run_id = tracker.find_going_on(text)?;
        if !run_ids.contains(&run_id) {
            run_ids.push(run_id);
        }
    }
    Ok(run_ids)
}

fn check(asked: &ArraySpec, tracked: &Tracked) -> Result<(), Error> {
    let run_id = &tracked.record.run_id;
    let Some(array) = &tracked.record.array else {
        return Err(Error::new(Kind::Usage, format!("run {run_id} is no array")));
    };
    match asked.indexes().find(|index| !array.contains(*index)) {
        Some(index) => {
            let error = Error::new(
                Kind::Missing,
                format!("run {run_id} has no element {index}"),
            );
            Err(error.hinted(format!("its elements are {array}")))
        }
        None => Ok(()),
    }
}

/// Cancels a run or the elements of it that go on.
fn cancel(
    session: &Session,
    tracker: &Tracker<'_>,
    tracked: &Tracked,
    asked: Option<&ArraySpec>,
) -> Result<(Value, String), Error> {
    let record = &tracked.record;
    let going_on: Option<Vec<u32>> = asked.map(|asked| {
        let elements = tracked
            .elements
            .iter()
            .filter(|element| asked.contains(element.element));
        elements
            .filter(|element| !element.status.state.is_final())
            .map(|element| element.element)
            .collect()
    });
    let is_over = tracked.status.state.is_final()
        || going_on
            .as_ref()
            .is_some_and(|elements| elements.is_empty());
    let told = |asked: bool| {
        let mut value = json!({ "run_id": record.run_id, "asked": asked, "state_before": tracked.status.state });
        if let Some(elements) = going_on.as_ref().filter(|_| asked) {
            value["elements"] = json!(ArraySpec::of(elements, None));
        }
        value
    };
    if is_over {
        let line = match asked.filter(|_| !tracked.status.state.is_final()) {
            Some(asked) => format!(
                "{} {asked} of {} is over already\n",
                elements_word(asked),
                &record.run_id.as_str()[..6]
            ),
            None => format!(
                "{} ({}) is over already: {}\n",
                &record.run_id.as_str()[..6],
                record.name,
                tracked.status.state
            ),
        };
        return Ok((told(false), line));
    }
    let run = tracker.state.run(&record.run_id)?;
    let Some(job) = job_ref(&run, record) else {
        let error = Error::new(
            Kind::Missing,
            format!("run {} has no job id yet", record.run_id),
        );
        return Err(error.hinted("look for it with the scheduler's own commands, by its name"));
    };
    let elements = going_on
        .as_ref()
        .map(|elements| ArraySpec::of(elements, None));
    let asked_at_ms = now_ms();
    session
        .scheduler(record.scheduler)?
        .cancel(&job, elements.as_ref())?;
    // Remembered beside the run: schedulers forget why a job ended.
    if let Err(error) = run.write_cancel(asked_at_ms, elements.as_ref()) {
        session.warning(&format!(
            "that it was cancelled could not be written down: {error}"
        ));
    }
    let of = elements
        .as_ref()
        .map(|elements| format!("{} {elements} of ", elements_word(elements)))
        .unwrap_or_default();
    let line = format!(
        "asked {} to cancel {of}{} ({}, job {})\n",
        record.scheduler.as_str(),
        &record.run_id.as_str()[..6],
        record.name,
        job.job_id
    );
    Ok((told(true), line))
}

fn elements_word(elements: &ArraySpec) -> &'static str {
    if elements.count() == 1 {
        "element"
    } else {
        "elements"
    }
}

/// Tells what was done. Of one run that could not be cancelled the error is the result; of several each is told, and the
/// exit code is that of the worst.
fn finish(
    session: &Session,
    told: &[Value],
    text: &str,
    mut failures: Vec<(RunId, Error)>,
) -> Result<u8, Error> {
    if told.is_empty() && failures.len() == 1 {
        return Err(failures.remove(0).1);
    }
    let worst = failures
        .iter()
        .map(|(_, error)| error.kind.code())
        .max()
        .unwrap_or(0);
    let mut runs = told.to_vec();
    for (run_id, error) in &failures {
        session.note(&format!("run {run_id} was not cancelled:"));
        if !session.output.json {
            session.output.failure(error);
        }
        runs.push(json!({ "run_id": run_id, "asked": false, "error": error.to_json() }));
    }
    session.answer(&json!({ "runs": runs }), text)?;
    Ok(worst)
}
