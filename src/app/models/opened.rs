//! A model's file.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use crate::app::error::{Error, Kind, failure};
use crate::learn::model::{Model, Unreadable};

/// No model's file is larger, in bytes.
const MOST: u64 = 1 << 30;

/// Reads the model in `file`, which `path` names.
pub(super) fn model_in(file: File, path: &Path) -> Result<Model, Error> {
    let unreadable =
        |error: io::Error| failure!(TryAgain, "cannot read `{}`: {error}", path.display());
    if !file.metadata().map_err(unreadable)?.is_file() {
        return Err(failure!(Data, "`{}` is no file", path.display()));
    }
    let mut bytes = Vec::new();
    file.take(MOST)
        .read_to_end(&mut bytes)
        .map_err(unreadable)?;
    Model::from_bytes(&bytes).map_err(|why| unusable(&why, path))
}

/// Why a model cannot be used.
fn unusable(why: &Unreadable, path: &Path) -> Error {
    let (kind, hint) = match why {
        Unreadable::Newer { .. } => (
            Kind::Config,
            "use the dlrun that wrote it, or fit another with this one: `dlrun model fit`",
        ),
        _ => (Kind::Data, "`dlrun model fit` makes another"),
    };
    Error::new(
        kind,
        format!("cannot use the model `{}`: {why}", path.display()),
    )
    .hinted(hint)
}
