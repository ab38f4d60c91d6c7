//! `dlrun image pull`: an image of a registry, the web or an archive becomes a file of the catalogue.

use super::{described, owner};
use crate::app::error::{Error, Kind};
use crate::app::images::making::{Order, Origins, make};
use crate::app::images::recipes::{arch, checked_name};
use crate::app::session::Session;
use crate::cli::args::ImagePull;
use crate::config::{Origin, Owner};
use crate::image::build::{PullSource, pulled_name};
use crate::image::catalogue::{Entry, Place, fetched};

/// Runs the verb.
pub(crate) fn run(session: &Session, args: &ImagePull) -> Result<u8, Error> {
    let usage = |why: String| Error::new(Kind::Usage, why);
    let written = known(session, &args.uri)?;
    let source = PullSource::parse(&written, &std::env::current_dir()?).map_err(usage)?;
    look_at(&source)?;
    let wanted = args.claims.digest.as_deref().map(digest).transpose()?;
    // A registry gives what has this digest, and nothing else; of other sources the file is looked at.
    let exact = wanted
        .as_deref()
        .and_then(|digest| source.by_digest(digest));
    let (source, digest) = match (exact, wanted) {
        (Some(exact), _) => (exact, None),
        (None, Some(digest)) if matches!(source, PullSource::Local { .. }) => {
            let message =
                "an archive is converted, and what comes of it has another digest each time";
            let hint = format!("compare the archive itself with {digest}");
            return Err(usage(message.to_owned()).hinted(hint));
        }
        (None, wanted) => (source, wanted),
    };
    let owner = owner(args.site);
    let uri = source.uri();
    let name = args.name.clone().unwrap_or_else(|| pulled_name(&uri));
    let order = Order {
        entry: entry(session, args, checked_name(&name)?, &uri, owner)?,
        origins: Origins::Pull { source, digest },
        force: args.force,
    };
    let made = make(session, &order)?;
    session.answer(&made.to_json(), &made.to_text("pulled"))
}

/// The URI that the site has for this one, as for jobs. Archives have none.
fn known(session: &Session, uri: &str) -> Result<String, Error> {
    if !uri.contains("://") {
        return Ok(uri.to_owned());
    }
    let found = fetched(uri, session.settings.tables())
        .map_err(|unknown| Error::new(Kind::Usage, unknown.to_string()).hinted(unknown.hint()))?;
    for reason in &found.reasons {
        session.note(&format!("{}: {reason}", found.uri));
    }
    Ok(found.uri)
}

/// What is on this machine must be a file or a directory: the runtime waits without end for the writer of a pipe.
fn look_at(source: &PullSource) -> Result<(), Error> {
    let PullSource::Local(_, path, _) = source else {
        return Ok(());
    };
    let found = std::fs::metadata(path).map_err(|error| {
        let kind = match error.kind() {
            std::io::ErrorKind::PermissionDenied => Kind::NotPermitted,
            _ => Kind::Missing,
        };
        Error::new(kind, format!("{path} cannot be reached: {error}"))
    })?;
    if found.is_file() || found.is_dir() {
        return Ok(());
    }
    let message = format!("{path} is neither a file nor a directory");
    Err(Error::new(Kind::JobFile, message))
}

/// As the options describe it. The file's name is the URI's, so that a job that names the URI finds it.
fn entry(
    session: &Session,
    args: &ImagePull,
    name: &str,
    uri: &str,
    owner: Owner,
) -> Result<Entry, Error> {
    let claims = &args.claims;
    let (Some(framework), Some(version)) = (&claims.framework, &claims.version) else {
        let message = "say what the image is: `--framework` and `--version`";
        return Err(Error::new(Kind::Usage, message));
    };
    let place = Place::Path(session.image_file(&pulled_name(uri), owner)?);
    let framework = framework.to_lowercase();
    let entry = Entry::new(name, place, &framework, version, owner, Origin::Default);
    Ok(Entry {
        arch: arch().to_owned(),
        recipe: Some(uri.to_owned()),
        ..described(entry, claims)
    })
}

fn digest(text: &str) -> Result<String, Error> {
    let digits = text.strip_prefix("sha256:").unwrap_or_default();
    let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    if digits.len() == 64 && digits.bytes().all(is_digit) {
        return Ok(text.to_owned());
    }
    let message = format!("`--digest`: {text:?} is not `sha256:` and 64 digits of 0-9 and a-f");
    Err(Error::new(Kind::Usage, message))
}
