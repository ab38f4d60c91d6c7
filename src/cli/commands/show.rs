//! `dlrun show`: all that is known of a run.

use std::time::Duration;

use serde::Serialize;

use crate::app::error::Error;
use crate::app::insight;
use crate::app::runs::look_at_run;
use crate::app::session::Session;
use crate::cli::args::Show;
use crate::cli::elements;
use crate::cli::summary::{self, RunAnswer};
use crate::record::AttemptSeen;
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
    /// What the command line said in place of the job file.
    #[serde(skip_serializing_if = "Option::is_none")]
    overrides: Option<&'a [String]>,
}

/// Runs the verb.
pub(crate) fn run(session: &Session, args: &Show) -> Result<u8, Error> {
    loop {
        let (code, is_over) = show(session, args)?;
        match args.watch.filter(|_| !is_over) {
            Some(seconds) => std::thread::sleep(Duration::from_secs(seconds)),
            None => return Ok(code),
        }
    }
}

/// Shows it once; also says whether the run is over.
fn show(session: &Session, args: &Show) -> Result<(u8, bool), Error> {
    let store = args.store.as_deref();
    let mut shown = look_at_run(session, &args.run, args.element, store, args.history)?;
    let Some(dir) = &shown.dir else {
        let answer = ShownRun {
            run: summary::run_answer(&shown.tracked, None),
            attempts: &shown.attempts,
            insight: None,
            overrides: None,
        };
        let text = summary::to_text(&shown.tracked, None) + &elements::attempts_table(&shown);
        return Ok((session.answer(&answer, &text)?, true));
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
        overrides: Some(&shown.overrides),
    };
    if args.watch.is_some() {
        session.output.clear()?;
    }
    let is_over = shown.tracked.status.state.is_final();
    Ok((session.answer(&answer, &text)?, is_over))
}
