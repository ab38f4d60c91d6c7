//! A model's file, of which a plan reads what its job needs.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use crate::app::error::{Error, Kind, failure};
use crate::learn::model::{LONGEST_LINE, Model, Pieces, Unreadable};

/// No model's front or piece is as large; more is not read, in bytes.
const MOST_AT_ONCE: usize = 256 << 20;
/// Bytes that hold the first line of most models, and the front of small ones.
const BEGINNING: usize = 64 << 10;

/// What lies behind a model's front in its file. The file stays open: one that is put in its place later is another.
#[derive(Debug)]
struct Rest {
    file: File,
    begins: u64,
}

impl Pieces for Rest {
    fn piece(&self, from: u64, length: usize) -> Option<Vec<u8>> {
        let mut bytes = vec![0; Some(length).filter(|length| *length <= MOST_AT_ONCE)?];
        self.file
            .read_exact_at(&mut bytes, self.begins.checked_add(from)?)
            .ok()?;
        Some(bytes)
    }
}

/// Reads the model in `file`, which `path` names.
pub(super) fn model_in(file: File, path: &Path) -> Result<Model, Error> {
    let unreadable =
        |error: io::Error| failure!(TryAgain, "cannot read `{}`: {error}", path.display());
    let about = file.metadata().map_err(unreadable)?;
    if !about.is_file() {
        return Err(failure!(Data, "`{}` is no file", path.display()));
    }
    let mut bytes = Vec::with_capacity(BEGINNING);
    more(&file, &mut bytes, BEGINNING).map_err(unreadable)?;
    if !bytes.contains(&b'\n') {
        more(&file, &mut bytes, LONGEST_LINE).map_err(unreadable)?;
    }
    let extent = Model::extent(&bytes).map_err(|why| unusable(&why, path))?;
    if extent.whole != about.len() {
        return Err(unusable(
            &Unreadable::Damaged("it is cut off, or goes on"),
            path,
        ));
    }
    if extent.front > MOST_AT_ONCE {
        return Err(unusable(&Unreadable::Damaged("it is too large"), path));
    }
    more(&file, &mut bytes, extent.front).map_err(unreadable)?;
    bytes.truncate(extent.front);
    let rest = Rest {
        file,
        begins: extent.front as u64,
    };
    Model::from_front(bytes, Arc::new(rest)).map_err(|why| unusable(&why, path))
}

/// Reads on until there are `count` bytes, or no more.
fn more(file: &File, bytes: &mut Vec<u8>, count: usize) -> io::Result<()> {
    let left = count.saturating_sub(bytes.len());
    bytes.reserve_exact(left);
    file.take(left as u64).read_to_end(bytes).map(drop)
}

/// Why a model cannot be used.
pub(crate) fn unusable(why: &Unreadable, path: &Path) -> Error {
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
