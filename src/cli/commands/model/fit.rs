//! `dlrun model fit`: a model of the recorded runs.

use std::path::PathBuf;

use serde_json::{Value, json};

use super::source::Source;
use super::{priors, words};
use crate::app::error::{Error, Kind};
use crate::app::models::{self, Shelf, place, publish};
use crate::app::progress::Display;
use crate::app::session::Session;
use crate::cli::args::ModelFit;
use crate::foundation::clock::now_ms;
use crate::foundation::diagnostic::printable;
use crate::learn::model::{
    BeforeAndAfter, Challenge, Drawn, FEWEST, Model, Priors, Unfit, challenge, evaluate_drawn,
};
use crate::record::store::Counted;

/// Runs the verb.
pub(crate) fn run(session: &Session, args: &ModelFit) -> Result<u8, Error> {
    if args.publish {
        models::may_publish(session)?;
    }
    let priors = priors(session)?;
    let source = Source::open(session, args.store.as_deref())?;
    let before = if args.output.is_some() {
        None
    } else {
        before(session, args)
    };
    let mut display = Display::timed(session.output);
    let (model, counted, compared) = fit(&source, &priors, before.as_ref(), &mut display)?;
    drop(display);
    let is_worse = compared
        .as_ref()
        .is_some_and(|compared| compared.refit_is_worse)
        && !args.force;
    let written = match &args.output {
        Some(path) => {
            place(path, &model.chunks())?;
            Written {
                path: path.clone(),
                published: None,
                removed: Vec::new(),
            }
        }
        None => keep(session, args, &model, !is_worse)?,
    };
    let in_use = args.output.is_none() && !is_worse;
    let told = Told {
        model: &model,
        counted,
        before: before.as_ref(),
        compared,
        in_use,
        written: &written,
    };
    session
        .output
        .sentences("model fit", &told.to_json(), &printable(&told.to_text()))?;
    Ok(0)
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

/// The model whose place the new one would take: with `--publish` the site's, else the user's own.
fn before(session: &Session, args: &ModelFit) -> Option<Model> {
    let found = if args.publish {
        models::of_site(session)
    } else {
        models::own(session)
    };
    match found {
        Ok(found) => found.map(|(model, _)| model),
        Err(error) => {
            session.output.warning(&format!(
                "the model before cannot be compared: {}",
                error.message()
            ));
            None
        }
    }
}

/// Where a model went.
struct Written {
    path: PathBuf,
    published: Option<PathBuf>,
    /// Names of models that were removed for their age.
    removed: Vec<String>,
}

fn keep(
    session: &Session,
    args: &ModelFit,
    model: &Model,
    takes_over: bool,
) -> Result<Written, Error> {
    let shelf = Shelf::create(session)?;
    let name = &model.head().name;
    let path = shelf.keep(name, model)?;
    let mut published = None;
    if takes_over {
        // What others go by first: where that fails, nothing has changed.
        if args.publish {
            let site = session.settings.site_model();
            publish(session, &site, model)?;
            published = Some(site);
        }
        shelf.make_current(name)?;
    }
    let removed = shelf.prune(session.settings.models_kept(), name)?;
    Ok(Written {
        path,
        published,
        removed,
    })
}

/// What is told of a fit.
struct Told<'a> {
    model: &'a Model,
    counted: Counted,
    before: Option<&'a Model>,
    compared: Option<Challenge>,
    in_use: bool,
    written: &'a Written,
}

impl Told<'_> {
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
            "before": self.before.map(|before| &before.head().name),
            "compared": self.compared,
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
        match (&self.compared, self.before) {
            (Some(compared), _) => text.push_str(&words::compared(compared, self.in_use)),
            (None, Some(before)) => text.push_str(&format!(
                "fewer than {FEWEST} runs came after those of {}, the model before: it is not known yet which is better\n",
                before.head().name
            )),
            (None, None) => {}
        }
        let path = self.written.path.display();
        let name = &self.model.head().name;
        text.push_str(&match (&self.written.published, self.in_use, self.before) {
            (Some(site), ..) => format!("published as {}: all users' plans go by it\n", site.display()),
            (None, true, _) => format!("`plan` and `submit` go by it from now on: {path}\n"),
            (None, false, Some(before)) => format!(
                "{} stays in use; this one is kept as {path}\n\
                 `dlrun model show {name}` tells of it, `dlrun model fit --force` takes it into use\n",
                before.head().name
            ),
            (None, false, None) => format!("written to {path}; nothing goes by it\n"),
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
