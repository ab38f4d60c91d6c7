//! `dlrun model fit`: a model of the recorded runs.

use std::path::PathBuf;

use serde_json::{Value, json};

use super::source::Source;
use super::{priors, words};
use crate::cli::args::ModelFit;
use crate::cli::error::{Error, Kind};
use crate::cli::model::{self, Shelf, place, publish};
use crate::cli::progress::Display;
use crate::cli::session::Session;
use crate::foundation::clock::now_ms;
use crate::foundation::diagnostic::printable;
use crate::learn::model::{Counted, Model, Priors, Sample, Unfit};

/// Runs the verb.
pub(crate) fn run(session: &Session, args: &ModelFit) -> Result<u8, Error> {
    if args.publish {
        model::may_publish(session)?;
    }
    let priors = priors(session)?;
    let source = Source::open(session, args.store.as_deref())?;
    let before = if args.output.is_some() {
        None
    } else {
        before(session, args)
    };
    let mut display = Display::timed(session.output);
    let (model, counted) = fit(&source, &priors, &mut display)?;
    drop(display);
    let written = match &args.output {
        Some(path) => {
            place(path, &model.chunks())?;
            Written {
                path: path.clone(),
                published: None,
                removed: Vec::new(),
            }
        }
        None => keep(session, args, &model)?,
    };
    let fitted = Fitted {
        model: &model,
        counted,
        before,
        in_use: args.output.is_none(),
        written: &written,
    };
    session.output.sentences(
        "model fit",
        &fitted.to_json(),
        &printable(&fitted.to_text()),
    )?;
    Ok(0)
}

/// Fits, and holds runs back to say how good that is. The runs are read once, so that both are of the same ones.
fn fit(source: &Source, priors: &Priors, display: &mut Display) -> Result<(Model, Counted), Error> {
    display.now("reading the recorded runs", false);
    let mut observations = source.observations()?;
    let mut seen = 0_u64;
    let mut sample = Sample::default();
    let counting = observations.by_ref().inspect(|observation| {
        sample.add(observation);
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
    let evaluation = sample.evaluate(&|train| Model::fit(train, priors).ok());
    let model = model
        .with_made_at(now_ms())
        .with_evaluation(json!(evaluation));
    Ok((model, counted))
}

/// Why there is no model, with what would help.
pub(super) fn unfit(why: &Unfit, counted: Counted, source: &Source) -> Error {
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

/// The name of the model whose place the new one takes: with `--publish` the site's, else the user's own.
fn before(session: &Session, args: &ModelFit) -> Option<String> {
    let found = if args.publish {
        model::of_site(session)
    } else {
        model::own(session)
    };
    let (before, _) = found.ok().flatten()?;
    Some(before.head().name.clone())
}

/// Where a model went.
struct Written {
    path: PathBuf,
    published: Option<PathBuf>,
    /// Names of models that were removed for their age.
    removed: Vec<String>,
}

fn keep(session: &Session, args: &ModelFit, model: &Model) -> Result<Written, Error> {
    let shelf = Shelf::create(session)?;
    let name = &model.head().name;
    let path = shelf.keep(name, model)?;
    let mut published = None;
    // What others go by first: where that fails, nothing has changed.
    if args.publish {
        let site = session.settings.site_model();
        publish(session, &site, model)?;
        published = Some(site);
    }
    shelf.make_current(name)?;
    let removed = shelf.prune(session.settings.models_kept(), name)?;
    Ok(Written {
        path,
        published,
        removed,
    })
}

/// What came of a fit.
struct Fitted<'a> {
    model: &'a Model,
    counted: Counted,
    before: Option<String>,
    in_use: bool,
    written: &'a Written,
}

impl Fitted<'_> {
    fn to_json(&self) -> Value {
        let Counted {
            runs,
            starts,
            observations,
            going_on,
            unmeasured,
            epochs,
            epochs_passed_over,
        } = self.counted;
        json!({
            "model": self.model.head(),
            "path": self.written.path.to_string_lossy(),
            "published": self.written.published.as_ref().map(|path| path.to_string_lossy()),
            "in_use": self.in_use,
            "before": self.before,
            "removed": self.written.removed,
            "read": {
                "runs": runs, "starts": starts, "observations": observations, "going_on": going_on,
                "unmeasured": unmeasured, "epochs": epochs, "epochs_passed_over": epochs_passed_over,
            },
        })
    }

    fn to_text(&self) -> String {
        let mut text = words::trained_on(self.model.head());
        text.push_str(&words::evaluation(self.model.head()));
        let path = self.written.path.display();
        text.push_str(&match (&self.written.published, self.in_use) {
            (Some(site), _) => {
                format!(
                    "published as {}: all users' plans go by it\n",
                    site.display()
                )
            }
            (None, true) => format!("`plan` and `submit` go by it from now on: {path}\n"),
            (None, false) => format!("written to {path}; nothing goes by it\n"),
        });
        if !self.written.removed.is_empty() {
            text.push_str(&format!(
                "removed for their age: {}\n",
                self.written.removed.join(", ")
            ));
        }
        text
    }
}
