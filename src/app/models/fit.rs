//! Fits a model on recorded runs, and keeps it.

use std::path::Path;

use serde::Serialize;
use serde_json::json;

use super::recorded::Source;
use super::{Shelf, may_publish, of_site, own, place, publish};
use crate::app::error::{Error, Kind, failure};
use crate::app::job::source::{open, read_text};
use crate::app::progress::Display;
use crate::app::session::Session;
use crate::foundation::clock::now_ms;
use crate::learn::model::{Counted, Head, Model, Priors, Sample, Unfit};

/// What came of a fit.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Fitted {
    pub(crate) model: Head,
    pub(crate) path: String,
    /// Where it was written for all users.
    pub(crate) published: Option<String>,
    pub(crate) in_use: bool,
    /// The name of the model whose place it takes.
    before: Option<String>,
    /// Names of models that were removed for their age.
    pub(crate) removed: Vec<String>,
    /// What was read.
    read: Counted,
}

/// Fits a model on the runs of a database, else on one's own records, and keeps it: in the file `output`, else as one's own, and
/// for all users where `is_for_all`.
pub(crate) fn fit_model(
    session: &Session,
    store: Option<&Path>,
    output: Option<&Path>,
    is_for_all: bool,
) -> Result<Fitted, Error> {
    if is_for_all {
        may_publish(session)?;
    }
    let priors = priors(session)?;
    let source = Source::open(session, store)?;
    let before = match output {
        Some(_) => None,
        None => model_before(session, is_for_all),
    };
    let mut display = Display::new(session.output);
    let (model, read) = fit(&source, &priors, &mut display)?;
    drop(display);
    let mut fitted = Fitted {
        model: model.head().clone(),
        path: output.map(shown).unwrap_or_default(),
        published: None,
        in_use: output.is_none(),
        before,
        removed: Vec::new(),
        read,
    };
    match output {
        Some(path) => place(path, &model.to_bytes())?,
        None => keep(session, is_for_all, &model, &mut fitted)?,
    }
    Ok(fitted)
}

/// Fits, and holds runs back to say how good that is. The runs are read once, so that both are of the same ones.
fn fit(source: &Source, priors: &Priors, display: &mut Display) -> Result<(Model, Counted), Error> {
    display.now("reading the recorded runs", false);
    let mut observations = source.observations()?;
    let mut sample = Sample::default();
    let counting = observations.by_ref();
    let counting = counting.inspect(|observation| sample.add(observation));
    let fitted = Model::fit(counting, priors);
    // What went wrong in reading comes first: of a part of the runs nothing is made.
    let counted = source.finish(observations)?;
    let model = fitted.map_err(|why| unfit(&why, counted, source))?;
    display.now("predicting runs that are held back", false);
    let evaluation = sample.evaluate(&|train| Model::fit(train, priors).ok());
    let model = model
        .with_made_at(now_ms())
        .with_evaluation(json!(evaluation));
    Ok((model, counted))
}

/// Why there is no model, with what would help.
fn unfit(why: &Unfit, counted: Counted, source: &Source) -> Error {
    let (runs, store) = (counted.runs, source.store.path().display());
    let kind = match why {
        Unfit::Unsolvable { .. } => Kind::Data,
        _ => Kind::Missing,
    };
    let message = format!("{why}; `{store}` has {runs} runs");
    Error::new(kind, message).hinted(source.hint())
}

/// The name of the model whose place the new one takes: with `--publish` the site's, else the user's own.
fn model_before(session: &Session, of_site_is_meant: bool) -> Option<String> {
    let found = if of_site_is_meant {
        of_site(session)
    } else {
        own(session)
    };
    let (before, _) = found.ok().flatten()?;
    Some(before.head().name.clone())
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
    // What others go by first: where that fails, nothing has changed.
    if is_for_all {
        let site = session.settings.site_model();
        publish(session, &site, model)?;
        fitted.published = Some(shown(&site));
    }
    shelf.make_current(name)?;
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
        failure!(Config, "cannot read `{shown}`: {error}")
            .hinted("the setting `model.priors` names it; without it dlrun's own are taken")
    };
    let file = open(path).map_err(unreadable)?;
    if !file.metadata().map_err(unreadable)?.is_file() {
        return Err(unreadable(std::io::ErrorKind::InvalidInput.into()));
    }
    let text = read_text(file, &shown)?;
    Priors::parse(&text).map_err(|problems| Error::in_file(Kind::Config, &shown, &text, problems))
}
