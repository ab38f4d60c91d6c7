//! `dlrun model evaluate`: how good the model is.

use serde::Serialize;

use super::quality;
use crate::app::error::{Error, failure};
use crate::app::models::fit::priors;
use crate::app::models::recorded::Source;
use crate::app::progress::Display;
use crate::app::session::Session;
use crate::cli::args::ModelEvaluate;
use crate::cli::forecast::count;
use crate::learn::model::{Evaluation, Judged, evaluate};

/// How good the model of a database is.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Evaluated<'a> {
    store: &'a str,
    runs: u64,
    evaluation: &'a Evaluation,
}

/// Runs the verb.
pub(crate) fn run(session: &Session, args: &ModelEvaluate) -> Result<u8, Error> {
    let source = Source::open(session, args.store.as_deref())?;
    let priors = priors(session)?;
    let mut display = Display::new(session.output);
    display.now("predicting runs that are held back", false);
    let mut observations = source.observations()?;
    let forecasts = source.forecasts()?;
    let mut judged = Judged::default();
    let judging = observations.by_ref().inspect(|run| {
        if let Some(forecast) = forecasts.get(&run.run_id) {
            judged.add(forecast, run);
        }
    });
    let mut evaluation = evaluate(judging, &priors);
    evaluation.views.push(judged.submitted());
    evaluation.left = source.left()?.errors();
    let counted = source.finish(observations)?;
    drop(display);
    let path = source.store.path().to_string_lossy();
    let mut views = evaluation.views.iter();
    if evaluation.timed == 0 && !views.any(|view| view.total.is_some()) {
        let message = format!(
            "none of {} in `{path}` shows a steady epoch, and none had a run-time forecast at submission",
            count(counted.runs, "run")
        );
        let hint = "programs without epochs are evaluated by the forecasts that their runs had: fit a model, then submit some more";
        return Err(failure!(Missing, "{message}")
            .hinted(hint)
            .hinted(source.hint()));
    }
    let answer = Evaluated {
        store: &path,
        runs: counted.runs,
        evaluation: &evaluation,
    };
    session
        .output
        .sentences(&answer, &quality::evaluated(&evaluation))
}
