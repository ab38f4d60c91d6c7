//! `dlrun cancel`: asks schedulers to stop runs.

use serde::Serialize;

use crate::app::cancel;
use crate::app::error::{Error, ErrorAnswer, Kind};
use crate::app::session::Session;
use crate::app::track::{Tracked, Tracker};
use crate::cli::args::Cancel;
use crate::cli::summary::Runs;
use crate::job::{ArraySpec, JobState, RunId};
use crate::record::RunRecord;

/// What was done to a run.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct CancelledRun {
    run_id: RunId,
    /// Whether its scheduler was asked.
    asked: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    state_before: Option<JobState>,
    /// Those that were cancelled, of an array.
    #[serde(skip_serializing_if = "Option::is_none")]
    elements: Option<ArraySpec>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<ErrorAnswer>,
}

/// Runs the verb. All runs are found before any is cancelled; a run that is over stays as it is. One that cannot be
/// cancelled does not keep the rest from it.
pub(crate) fn run(session: &Session, args: &Cancel) -> Result<u8, Error> {
    if args.element.is_some() && args.runs.len() > 1 {
        return Err(Error::new(Kind::Usage, "`--element` takes one run"));
    }
    let mut tracker = Tracker::open(session)?;
    let named = if args.all {
        let all = tracker.all_going_on()?.into_iter();
        all.map(|run_id| (run_id, Vec::new())).collect()
    } else {
        named(&mut tracker, &args.runs)?
    };
    let run_ids: Vec<RunId> = named.iter().map(|(run_id, _)| run_id.clone()).collect();
    let tracked = tracker.refresh(&run_ids, false)?;
    let with_elements = |(tracked, (_, texts)): (Tracked, (RunId, Vec<&str>))| {
        let asked = args.element.clone();
        let asked = asked.or_else(|| elements_in(&texts, &tracked.record));
        asked
            .as_ref()
            .map_or(Ok(()), |asked| tracked.expect_elements(asked))?;
        Ok((tracked, asked))
    };
    let tracked: Vec<_> = tracked
        .into_iter()
        .zip(named)
        .map(with_elements)
        .collect::<Result<_, Error>>()?;
    let (mut runs, mut text, mut failures) = (Vec::new(), String::new(), Vec::new());
    for (tracked, elements) in tracked {
        match cancel(session, &tracker, &tracked, elements.as_ref()) {
            Ok((run, line)) => {
                runs.push(run);
                text.push_str(&line);
            }
            Err(error) => failures.push((tracked.record.run_id, error)),
        }
    }
    if runs.is_empty() && failures.len() == 1 {
        return Err(failures.remove(0).1);
    }
    if runs.is_empty() && failures.is_empty() {
        text.push_str("no run is pending or running\n");
    }
    // The exit code is that of the worst.
    let worst = failures.iter().map(|(_, error)| error.kind.code()).max();
    for (run_id, error) in failures {
        session.note(&format!("run {run_id} was not cancelled:"));
        if !session.output.json {
            session.output.failure(&error);
        }
        runs.push(CancelledRun {
            run_id,
            asked: false,
            state_before: None,
            elements: None,
            error: Some(error.answer()),
        });
    }
    session.answer(&Runs { runs }, &text)?;
    Ok(worst.unwrap_or(0))
}

/// The runs that are named, each with the texts that name it.
fn named<'a>(
    tracker: &mut Tracker<'_>,
    texts: &'a [String],
) -> Result<Vec<(RunId, Vec<&'a str>)>, Error> {
    let mut runs: Vec<(RunId, Vec<&str>)> = Vec::new();
    for text in texts {
        let run_id = tracker.find_going_on(text)?;
        match runs.iter_mut().find(|(known, _)| *known == run_id) {
            Some((_, texts)) => texts.push(text),
            None => runs.push((run_id, vec![text])),
        }
    }
    Ok(runs)
}

/// The elements that are named by ids of the run's job, of an array or not; `None` where anything else names it too.
fn elements_in(texts: &[&str], record: &RunRecord) -> Option<ArraySpec> {
    let job = record.job_id.as_ref()?;
    let elements = texts.iter().map(|text| element_of(text, &job.0));
    let elements: Vec<u32> = elements.collect::<Option<_>>()?;
    (!elements.is_empty()).then(|| ArraySpec::of(&elements, None))
}

/// The index in `95_3` of the job 95, in `14[3]` and `14[3].server` of `14[].server`.
fn element_of(text: &str, job: &str) -> Option<u32> {
    let number = job.split(['[', '.']).next()?;
    let rest = text.strip_prefix(number)?;
    let slurm = rest.strip_prefix('_');
    let pbs = || {
        rest.strip_prefix('[')?
            .split_once(']')
            .map(|(index, _)| index)
    };
    slurm.or_else(pbs)?.parse().ok()
}

/// Cancels a run or the elements of it that are not over; returns what is reported as JSON and as text.
fn cancel(
    session: &Session,
    tracker: &Tracker<'_>,
    tracked: &Tracked,
    asked: Option<&ArraySpec>,
) -> Result<(CancelledRun, String), Error> {
    let (record, state) = (&tracked.record, tracked.status.state);
    let id = &record.run_id.as_str()[..6];
    let left: Option<Vec<u32>> = asked.map(|asked| {
        let elements = tracked.elements.iter();
        let left = elements.filter(|element| !element.status.state.is_final());
        let left = left.map(|element| element.element);
        left.filter(|element| asked.contains(*element)).collect()
    });
    let is_over = state.is_final() || left.as_ref().is_some_and(Vec::is_empty);
    let mut cancelled = CancelledRun {
        run_id: record.run_id.clone(),
        asked: !is_over,
        state_before: Some(state),
        elements: None,
        error: None,
    };
    if is_over {
        let line = match asked.filter(|_| !state.is_final()) {
            Some(asked) => format!("{}{id} is over already\n", elements_of(asked)),
            None => format!("{id} ({}) is over already: {state}\n", record.name),
        };
        return Ok((cancelled, line));
    }
    let elements = left.map(|elements| ArraySpec::of(&elements, None));
    let job = cancel::cancel(session, tracker, record, elements.as_ref())?;
    let of = elements.as_ref().map(elements_of).unwrap_or_default();
    let (scheduler, name) = (record.scheduler.as_str(), &record.name);
    let line = format!("asked {scheduler} to cancel {of}{id} ({name}, job {job})\n");
    cancelled.elements = elements;
    Ok((cancelled, line))
}

/// `elements 3-5 of `
fn elements_of(elements: &ArraySpec) -> String {
    let plural = if elements.count() == 1 { "" } else { "s" };
    format!("element{plural} {elements} of ")
}

#[cfg(test)]
mod tests {
    use super::element_of;

    #[test]
    fn an_element_is_named_by_its_jobs_id() {
        for (text, job, index) in [
            ("95_3", "95", Some(3)),
            ("14[3].srv", "14[].srv", Some(3)),
            ("14[30]", "14[].srv", Some(30)),
            ("95", "95", None),
            ("9_3", "95", None),
            ("95_3", "9", None),
            ("95_x", "95", None),
            ("14[].srv", "14[].srv", None),
            ("14[3", "14[].srv", None),
        ] {
            assert_eq!(element_of(text, job), index, "{text} of {job}");
        }
    }
}
