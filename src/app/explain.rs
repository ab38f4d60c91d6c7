//! What a scheduler printed, recognised.

use std::io::Read;
use std::path::Path;

use crate::app::error::{Error, failure};
use crate::app::job::source::{cannot_read, open_input};
use crate::scheduler::printed::{self, MAX_BYTES};

pub(crate) use crate::scheduler::printed::{JobSeen, Printed, Seen};
pub(crate) use crate::scheduler::slurm::meaning as slurm_reason_meaning;

/// Recognises what is in a file; `-` is standard input.
pub(crate) fn explain(file: &Path) -> Result<Seen, Error> {
    let mut bytes = Vec::new();
    let (source, shown) = open_input(file, "name the file that holds the output")?;
    source
        .take(MAX_BYTES + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| cannot_read(&shown, &error))?;
    if bytes.len() as u64 > MAX_BYTES {
        let most = MAX_BYTES >> 20;
        return Err(failure!(Usage, "`{shown}` is larger than {most} MiB"));
    }
    printed::read(&String::from_utf8_lossy(&bytes)).ok_or_else(|| {
        failure!(JobFile, "`{shown}` is not an output that dlrun knows").hinted(
            "it knows `squeue` and `sacct` with their head, `scontrol show job`, `qstat -f`, and refusals of one command",
        )
    })
}
