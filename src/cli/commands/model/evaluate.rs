//! `dlrun model evaluate`: how good the model is.

use serde_json::json;

use super::quality;
use crate::app::error::{Error, failure};
use crate::app::models::fit::priors;
use crate::app::models::recorded::Source;
use crate::app::progress::Display;
use crate::app::session::Session;
use crate::cli::args::ModelEvaluate;
use crate::learn::model::{Evaluation, Live, evaluate, live};

/// Runs the verb.
pub(crate) fn run(session: &Session, args: &ModelEvaluate) -> Result<u8, Error> {
    let source = Source::open(session, args.store.as_deref())?;
    if args.live {
        by_forecasts(session, &source)
    } else {
        by_hold_out(session, &source)
    }
}

fn by_hold_out(session: &Session, source: &Source) -> Result<u8, Error> {
    let priors = priors(session)?;
    let mut display = Display::timed(session.output);
    display.now("predicting runs that are held back", false);
    let mut observations = source.observations()?;
    let evaluation: Evaluation = evaluate(observations.by_ref(), &priors);
    let counted = source.finish(observations)?;
    drop(display);
    if evaluation.timed == 0 {
        let path = source.store.path().display();
        return Err(failure!(
            Missing,
            "of the {} runs in `{path}` none has an epoch to predict",
            counted.runs
        )
        .hinted(source.hint()));
    }
    let value = json!({ "store": source.store.path().to_string_lossy(), "runs": counted.runs, "evaluation": evaluation });
    session
        .output
        .sentences(&value, &quality::evaluated(&evaluation))
}

fn by_forecasts(session: &Session, source: &Source) -> Result<u8, Error> {
    let forecasts = source
        .store
        .forecasts()
        .map_err(|error| source.failed(error))?;
    let mut observations = source.observations()?;
    // Elements of an array and starts after a requeue share the forecast of their run.
    let judged: Live = live(observations.by_ref().map(|observation| {
        let forecast = forecasts.get(&observation.run_id).cloned();
        (forecast, observation)
    }));
    let counted = source.finish(observations)?;
    if judged.forecast == 0 {
        let path = source.store.path().display();
        return Err(failure!(Missing, "of the {} runs in `{path}` none had a forecast and ended",
            counted.runs).hinted(
            "`dlrun submit` makes one once there is a model: `dlrun model fit`; without --live recorded runs are held back",
        ));
    }
    let value = json!({ "store": source.store.path().to_string_lossy(), "runs": counted.runs, "live": judged });
    session.output.sentences(&value, &quality::lived(&judged))
}
