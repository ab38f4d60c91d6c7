//! `dlrun show`: all that is known of a run.

use std::time::{Duration, Instant};

use serde::Serialize;

use crate::app::error::Error;
use crate::app::insight;
use crate::app::runs::look_at_run;
use crate::app::session::Session;
use crate::app::wait::UNCLEAR_PATIENCE;
use crate::cli::args::Show;
use crate::cli::elements;
use crate::cli::summary::{self, RunAnswer};
use crate::job::JobState;
use crate::record::{AttemptSeen, FollowedScore};
use crate::report::insight::Insight;

/// The run with its attempts; of one whose files are here also what follows from the measurements.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct ShownRun<'a> {
    #[serde(flatten)]
    run: RunAnswer<'a>,
    attempts: &'a [AttemptSeen],
    #[serde(skip_serializing_if = "Option::is_none")]
    insight: Option<&'a Insight>,
    /// What came of the advice that it follows (`run.identity.followed`).
    #[serde(skip_serializing_if = "Option::is_none")]
    followed_score: Option<FollowedScore>,
    /// What the command line said in place of the job file.
    #[serde(skip_serializing_if = "Option::is_none")]
    overrides: Option<&'a [String]>,
}

/// Runs the verb.
pub(crate) fn run(session: &Session, args: &Show) -> Result<u8, Error> {
    let mut unknown_since = None;
    loop {
        if args.watch.is_some() {
            session.output.clear()?;
        }
        let (code, state) = show(session, args)?;
        let going_on = state.filter(|state| !state.is_final());
        let Some((seconds, state)) = args.watch.zip(going_on) else {
            return Ok(code);
        };
        if state != JobState::Unknown {
            unknown_since = None;
        } else if unknown_since.get_or_insert_with(Instant::now).elapsed() > UNCLEAR_PATIENCE {
            return Ok(code);
        }
        std::thread::sleep(Duration::from_secs(seconds));
        if !session.output.is_read() {
            return Ok(code);
        }
    }
}

/// Shows it once; also says how the run stands, where that can change.
fn show(session: &Session, args: &Show) -> Result<(u8, Option<JobState>), Error> {
    let store = args.store.as_deref();
    let mut shown = look_at_run(session, &args.run, args.element, store, args.history)?;
    let Some(dir) = &shown.dir else {
        let insight = insight::insight(&shown.tracked, None, Vec::new());
        let answer = ShownRun {
            run: summary::run_answer(&shown.tracked, None),
            attempts: &shown.attempts,
            insight: None,
            followed_score: summary::followed_score(&shown.tracked, &insight),
            overrides: None,
        };
        let text = summary::to_text(&shown.tracked, None) + &elements::attempts_table(&shown);
        return Ok((session.answer(&answer, &text)?, None));
    };
    let insight = insight::read(session, dir, &mut shown.tracked);
    let given = shown.overrides.iter();
    let given: String = given.map(|given| format!("given: {given}\n")).collect();
    let tables = given + &elements::failed_table(&shown) + &elements::attempts_table(&shown);
    let text = summary::with_tables(&shown, Some(dir.path()), &insight, &tables);
    let answer = ShownRun {
        run: summary::run_answer(&shown.tracked, Some(dir.path())),
        attempts: &shown.attempts,
        insight: Some(&insight),
        followed_score: summary::followed_score(&shown.tracked, &insight),
        overrides: Some(&shown.overrides),
    };
    let state = shown.tracked.status.state;
    Ok((session.answer(&answer, &text)?, Some(state)))
}
