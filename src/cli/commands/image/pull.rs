//! `dlrun image pull`: an image of a registry, the web or an archive becomes a file of the catalogue.

use super::{described, owner};
use crate::app::error::{Error, Kind};
use crate::app::images::making::{Order, Origins, make};
use crate::app::images::recipes::checked_name;
use crate::app::session::Session;
use crate::cli::args::ImagePull;
use crate::image::build::{check_uri, pulled_name, uri_by_digest};
use crate::image::catalogue::{Entry, Place, fetched, read_digest};

/// Runs the verb.
pub(crate) fn run(session: &Session, args: &ImagePull) -> Result<u8, Error> {
    let mut uri = args.uri.clone();
    // The URI that the site has for this one, as for jobs.
    if uri.contains("://") {
        let found = fetched(&uri, session.settings.tables()).map_err(|unknown| {
            Error::new(Kind::Usage, unknown.message).hinted(unknown.hint.unwrap_or_default())
        })?;
        for reason in &found.reasons {
            session.note(&format!("{}: {reason}", found.uri));
        }
        uri = found.uri;
    }
    check_uri(&uri).map_err(|why| Error::new(Kind::Usage, why))?;
    let digest = args.digest.as_deref().map(read_digest).transpose();
    let mut digest = digest.map_err(|why| Error::new(Kind::Usage, format!("`--digest`: {why}")))?;
    // A registry gives what has this digest, and nothing else; of other sources the file is looked at.
    if let Some(exact) = digest
        .as_ref()
        .and_then(|digest| uri_by_digest(&uri, digest))
    {
        (uri, digest) = (exact, None);
    }
    let owner = owner(args.site);
    // The file's name is the URI's, so that a job that names the URI finds it.
    let file_name = pulled_name(&uri);
    let place = Place::Path(session.image_file(&file_name, owner)?);
    let name = checked_name(args.name.as_ref().unwrap_or(&file_name))?;
    let entry = Entry {
        recipe: Some(uri.clone()),
        ..described(&args.claims, name, place, owner)
    };
    let order = Order {
        entry,
        origins: Origins::Pull { uri, digest },
        force: args.force,
    };
    let made = make(session, &order)?;
    session.answer(&made, &made.to_text("pulled"))
}
