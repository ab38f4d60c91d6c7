//! The performance model that plans go by: where it lies, and who wrote it.

mod exposed;
pub(crate) mod fit;
mod publish;
pub(crate) mod recorded;
mod shelf;

use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use nix::unistd::geteuid;

use crate::app::accounts::user_name;
use crate::app::error::{Error, Kind, failure};
use crate::app::job::source::{cannot_read, open};
use crate::app::session::Session;
use crate::config::Owner;
use crate::learn::model::Model;

use exposed::{Exposed, Others, exposed};
use publish::place;
use shelf::{Shelf, is_name, model_in};

/// Whose a model is, and where it lies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Origin {
    pub(crate) owner: Owner,
    pub(crate) path: PathBuf,
    /// By what others than the site may have written a site's model.
    exposed: Option<Exposed>,
}

impl Origin {
    fn user(path: PathBuf) -> Self {
        Self {
            owner: Owner::User,
            path,
            exposed: None,
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.owner {
            Owner::User => f.write_str("your own model"),
            Owner::Site => write!(f, "the site's model, {}", self.path.display()),
        }
    }
}

/// The model to plan by: the user's own, else the site's. One that cannot be used gives a warning, since a job is not to
/// wait for it: then the next one is taken, or none.
pub(crate) fn current(session: &Session) -> Option<(Model, Origin)> {
    if session.asked_model.is_some() {
        return meant(session)
            .inspect_err(|error| session.warning(&error.message()))
            .ok();
    }
    if !session.settings.uses_model() {
        return None;
    }
    let usable = |whose: &str, found: Result<Option<(Model, Origin)>, Error>| {
        found.unwrap_or_else(|error| {
            let why = error.message();
            session.warning(&format!("{whose} performance model is passed over: {why}"));
            None
        })
    };
    usable("your own", own(session)).or_else(|| {
        let found = usable("the site's", of_site(session));
        found.inspect(|(_, origin)| warn_of_others(session, origin))
    })
}

/// The model that was asked for on the command line: a file, or one of the user's own by its name; else the one that plans go by.
pub(crate) fn meant(session: &Session) -> Result<(Model, Origin), Error> {
    let Some(named) = &session.asked_model else {
        return in_use(session);
    };
    // Only what holds a `/` or exists is a file: a mistyped name is reported as a name.
    if named.as_os_str().as_bytes().contains(&b'/') || named.is_file() {
        let model = read_file(named).map_err(|error| {
            if error.kind == Kind::Missing {
                error.hinted(NAME_OR_FILE)
            } else {
                error
            }
        })?;
        return Ok((model, Origin::user(named.to_owned())));
    }
    let Some(name) = named.to_str().filter(|name| is_name(name)) else {
        return Err(failure!(
            Missing,
            "`{}` is neither the name of a model nor a file",
            named.display()
        )
        .hinted(NAME_OR_FILE));
    };
    let Some(shelf) = Shelf::open(session)? else {
        return Err(
            failure!(Missing, "there is no model `{name}`: you have fitted none")
                .hinted("`dlrun model fit` creates one"),
        );
    };
    let (model, path) = shelf.model(name)?;
    Ok((model, Origin::user(path)))
}

const NAME_OR_FILE: &str =
    "name one of the models in `models` of the state directory, or a file such as ./site.model";

/// The model that plans go by. Here one that cannot be used is an error.
fn in_use(session: &Session) -> Result<(Model, Origin), Error> {
    if let Some(own) = own(session)? {
        return Ok(own);
    }
    let found = of_site(session)?.inspect(|(_, origin)| warn_of_others(session, origin));
    found.ok_or_else(|| {
        let site = session.settings.site_model();
        let message = format!(
            "there is no performance model, neither your own nor the site's, {}",
            site.display()
        );
        // Nobody named it, so it is no name that is wrong.
        Error::new(Kind::Data, message).hinted(
            "create one from your recorded runs: `dlrun model fit`; from imported ones: `--store DB`",
        )
    })
}

/// The user's own current model; `None` where there is none.
fn own(session: &Session) -> Result<Option<(Model, Origin)>, Error> {
    let Some(shelf) = Shelf::open(session)? else {
        return Ok(None);
    };
    let Some(name) = shelf.current()? else {
        return Ok(None);
    };
    let (model, path) = shelf.model(&name)?;
    Ok(Some((model, Origin::user(path))))
}

/// The site's model; `None` where there is none.
fn of_site(session: &Session) -> Result<Option<(Model, Origin)>, Error> {
    let path = session.settings.site_model();
    match read_file(&path) {
        Ok(model) => {
            // What cannot be looked at was read none the less; then there is nothing to say of it.
            let exposed = exposed(&path, &is_trusted(session)).ok().flatten();
            Ok(Some((
                model,
                Origin {
                    owner: Owner::Site,
                    path,
                    exposed,
                },
            )))
        }
        Err(error) if error.kind == Kind::Missing => Ok(None),
        Err(error) => Err(error),
    }
}

/// Refuses to publish where [`publish`] would, before all that leads to it.
fn may_publish(session: &Session) -> Result<(), Error> {
    publish::check(&session.settings.site_model(), &is_trusted(session)).map(drop)
}

/// Writes the site's model. Says in a warning by what others could exchange it.
fn publish(session: &Session, path: &Path, model: &Model) -> Result<(), Error> {
    if let Some(exposed) = publish::publish(path, &model.to_bytes(), &is_trusted(session))? {
        session.warning(&format!(
            "{exposed}, so `{}` can be exchanged by others",
            path.display()
        ));
    }
    Ok(())
}

/// Whether a user, by id, may write the site's model: whoever asks, and whom the setting names. Root may in any case.
fn is_trusted(session: &Session) -> impl Fn(u32) -> bool {
    let (own, writer) = (geteuid().as_raw(), session.settings.model_owner());
    move |uid| uid == own || uid.to_string() == writer || user_name(uid).as_deref() == Some(writer)
}

/// A warning, once a command, of a site's model that others than the site may have written. What it says only suggests, so it is
/// used all the same.
fn warn_of_others(session: &Session, origin: &Origin) {
    let Some(exposed) = &origin.exposed else {
        return;
    };
    if session.warned_of_model.replace(true) {
        return;
    }
    let remedy = match exposed.to {
        Others::Owner(_) => "the setting `model.owner` names who writes it".to_owned(),
        Others::Group(_) | Others::All => {
            format!(
                "its owner closes it with `chmod go-w '{}'`",
                exposed.path.display()
            )
        }
    };
    session.warning(&format!(
        "the site's performance model, `{}`, may be somebody else's: {exposed}; it is used all the same, but do not trust its \
         forecasts and choices ({remedy}; `model.use = \"off\"` does without)",
        origin.path.display()
    ));
}

/// Reads a model out of any file.
fn read_file(path: &Path) -> Result<Model, Error> {
    let file = open(path).map_err(|error| cannot_read(path.display(), &error))?;
    model_in(file, path)
}
