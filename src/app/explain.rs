//! What a scheduler printed, recognised.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use crate::app::error::{Error, failure};
use crate::app::job::source::cannot_read;
use crate::scheduler::explain::{self, Columns, MAX_BYTES};

pub(crate) use crate::scheduler::explain::{JobSeen, NodeSeen, Printed, Seen};
pub(crate) use crate::scheduler::slurm::meaning as slurm_reason_meaning;

/// Recognises what is in a file; `-` is standard input. Of a table without a head `columns` names the columns.
pub(crate) fn explain(file: &Path, columns: &[String], separator: &str) -> Result<Seen, Error> {
    let text = read(file)?;
    // Blanks separate where the line holds no bar, so the default is no more than that.
    let columns = Columns {
        names: columns,
        separator: Some(separator).filter(|separator| *separator != "|"),
    };
    explain::read(&text, columns).ok_or_else(|| unknown(file, columns.names))
}

fn read(path: &Path) -> Result<String, Error> {
    let unreadable = |error| cannot_read(path.display(), &error);
    let source: Box<dyn Read> = if path == Path::new("-") {
        Box::new(std::io::stdin().lock())
    } else {
        Box::new(File::open(path).map_err(unreadable)?)
    };
    let mut bytes = Vec::new();
    let limit = u64::try_from(MAX_BYTES).unwrap_or(u64::MAX);
    source
        .take(limit + 1)
        .read_to_end(&mut bytes)
        .map_err(unreadable)?;
    if bytes.len() > MAX_BYTES {
        return Err(failure!(
            Usage,
            "`{}` is larger than {} MiB",
            path.display(),
            MAX_BYTES >> 20
        ));
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn unknown(file: &Path, columns: &[String]) -> Error {
    let error = failure!(
        JobFile,
        "`{}` is no output that dlrun knows",
        file.display()
    );
    if columns.is_empty() {
        return error
            .hinted("of a table without a head, name its columns: --columns JobID,State,ExitCode");
    }
    error.hinted("the columns must name an id (JobID) or a node (NodeList), and a state (State)")
}
