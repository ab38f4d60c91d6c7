//! `dlrun image`: the images that jobs run in. One file per verb.

use crate::cli::args::{ImageArgs, ImageVerb};
use crate::cli::error::{Error, Kind};
use crate::cli::session::Session;

/// Runs the verb.
pub(crate) fn run(_session: &Session, args: &ImageArgs) -> Result<u8, Error> {
    match &args.verb {
        ImageVerb::List(_) | ImageVerb::Show(_) | ImageVerb::Check(_) | ImageVerb::Add(_) => {
            Err(Error::new(Kind::Internal, format!("`dlrun {}` is not made yet", args.verb.name())))
        }
    }
}
