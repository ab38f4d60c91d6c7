//! Fits a model on recorded runs, and keeps it.

use std::path::Path;

use serde::Serialize;
use serde_json::json;

use super::recorded::Source;
use super::{Shelf, may_publish, of_site, own, place, publish};
use crate::app::error::{Error, Kind};
use crate::app::job::source::{open, read_text};
use crate::app::progress::Display;
use crate::app::session::Session;
use crate::foundation::clock::now_ms;
use crate::learn::model::{
    BeforeAndAfter, Challenge, Drawn, Head, Model, Priors, Unfit, challenge, evaluate_drawn,
};
use crate::record::store::Counted;

/// What a fit is to do.
pub(crate) struct FitRequest<'a> {
    /// The database to learn from; `None`: one's own records.
    pub(crate) store: Option<&'a Path>,
    /// The file to write to instead of taking the model into use.
    pub(crate) output: Option<&'a Path>,
    /// Take it into use even where it is worse.
    pub(crate) force: bool,
    /// For all users.
    pub(crate) publish: bool,
}

/// What came of a fit.
#[derive(Serialize)]
pub(crate) struct Fitted {
    pub(crate) model: Head,
    pub(crate) path: String,
    /// Where it was written for all users.
    pub(crate) published: Option<String>,
    pub(crate) in_use: bool,
    /// The name of the model whose place it would take.
    pub(crate) before: Option<String>,
    pub(crate) compared: Option<Challenge>,
    /// Names of models that were removed for their age.
    pub(crate) removed: Vec<String>,
    /// What was read.
    read: Counted,
}

/// Fits a model and keeps it.
pub(crate) fn fit_model(session: &Session, request: &FitRequest<'_>) -> Result<Fitted, Error> {
    if request.publish {
        may_publish(session)?;
    }
    let priors = priors(session)?;
    let source = Source::open(session, request.store)?;
    let before = if request.output.is_some() {
        None
    } else {
        model_before(session, request.publish)
    };
    let mut display = Display::timed(session.output);
    let (model, read, compared) = fit(&source, &priors, before.as_ref(), &mut display)?;
    drop(display);
    let is_worse = compared
        .as_ref()
        .is_some_and(|compared| compared.refit_is_worse)
        && !request.force;
    let in_use = request.output.is_none() && !is_worse;
    let mut fitted = Fitted {
        model: model.head().clone(),
        path: request.output.map(shown).unwrap_or_default(),
        published: None,
        in_use,
        before: before.map(|before| before.head().name.clone()),
        compared,
        removed: Vec::new(),
        read,
    };
    match request.output {
        Some(path) => place(path, &model.chunks())?,
        None => keep(session, request.publish, &model, &mut fitted)?,
    }
    Ok(fitted)
}

/// Fits, holds runs back to tell how good that is, and lets the model before foretell those that came after its own. The runs are read
/// once, so that all of it is of the same ones.
fn fit(
    source: &Source,
    priors: &Priors,
    before: Option<&Model>,
    display: &mut Display,
) -> Result<(Model, Counted, Option<Challenge>), Error> {
    display.now("reading the recorded runs", false);
    let mut observations = source.observations()?;
    let mut seen = 0_u64;
    let mut drawn = Drawn::default();
    let mut around = before.map(|before| BeforeAndAfter::new(before.head().last_at_ms));
    let counting = observations.by_ref().inspect(|observation| {
        drawn.add(observation);
        if let Some(around) = &mut around {
            around.add(observation);
        }
        seen += 1;
        if seen.is_multiple_of(10_000) {
            display.now(&format!("{seen} runs read"), false);
        }
    });
    let fitted = Model::fit(counting, priors);
    // What went wrong in reading comes first: of a part of the runs nothing is made.
    let counted = source.finish(observations)?;
    let model = fitted.map_err(|why| unfit(&why, counted, source))?;
    display.now("holding runs back and foretelling them", false);
    let evaluation = evaluate_drawn(drawn, priors);
    let compared = before.zip(around).and_then(|(before, around)| {
        display.now("comparing with the model before", false);
        challenge(before, around, priors)
    });
    Ok((
        model
            .with_made_at(now_ms())
            .with_evaluation(json!(evaluation)),
        counted,
        compared,
    ))
}

/// Why there is no model, with what would help.
fn unfit(why: &Unfit, counted: Counted, source: &Source) -> Error {
    let more = match counted {
        Counted { runs: 0, .. } => format!("`{}` holds no runs", source.store.path().display()),
        Counted {
            runs,
            going_on,
            unmeasured,
            ..
        } => {
            format!(
                "there are {runs} runs: of {unmeasured} starts nothing was measured, {going_on} go on"
            )
        }
    };
    let kind = if matches!(why, Unfit::Unsolvable { .. }) {
        Kind::Data
    } else {
        Kind::Missing
    };
    Error::new(kind, format!("{why}; {more}")).hinted(source.hint())
}

/// The model whose place the new one would take: with `--publish` the site's, else the user's own.
fn model_before(session: &Session, of_site_is_meant: bool) -> Option<Model> {
    let found = if of_site_is_meant {
        of_site(session)
    } else {
        own(session)
    };
    match found {
        Ok(found) => found.map(|(model, _)| model),
        Err(error) => {
            session.warning(&format!(
                "the model before cannot be compared: {}",
                error.message()
            ));
            None
        }
    }
}

/// A path as text; what is no UTF-8 in it is replaced.
fn shown(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

fn keep(
    session: &Session,
    is_for_all: bool,
    model: &Model,
    fitted: &mut Fitted,
) -> Result<(), Error> {
    let shelf = Shelf::create(session)?;
    let name = &model.head().name;
    fitted.path = shown(&shelf.keep(name, model)?);
    if fitted.in_use {
        // What others go by first: where that fails, nothing has changed.
        if is_for_all {
            let site = session.settings.site_model();
            publish(session, &site, model)?;
            fitted.published = Some(shown(&site));
        }
        shelf.make_current(name)?;
    }
    fitted.removed = shelf.prune(session.settings.models_kept(), name)?;
    Ok(())
}

/// The published effects that a fit begins with.
pub(crate) fn priors(session: &Session) -> Result<Priors, Error> {
    let Some(path) = session.settings.priors() else {
        return Ok(Priors::built_in());
    };
    let shown = path.display().to_string();
    let unreadable = |error: std::io::Error| {
        Error::new(Kind::Config, format!("cannot read `{shown}`: {error}"))
            .hinted("the setting `model.priors` names it; without it dlrun's own are taken")
    };
    let file = open(path).map_err(unreadable)?;
    if !file.metadata().map_err(unreadable)?.is_file() {
        return Err(unreadable(std::io::ErrorKind::InvalidInput.into()));
    }
    let text = read_text(file, &shown)?;
    Priors::parse(&text).map_err(|problems| Error::in_file(Kind::Config, &shown, &text, problems))
}
