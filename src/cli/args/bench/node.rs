//! Arguments of `dlrun bench node`.

use std::path::PathBuf;

use clap::{Args, ValueHint};

use crate::foundation::units::Bytes;

/// What `dlrun bench node --help` says beside its options.
pub(super) const ABOUT: &str = "Measure what this kind of node can do: memory bandwidth, floating-point peak, reading

It takes half a minute, on all CPUs that this process may use. What was measured is kept in the state directory, once for each \
kind of node; runs on such nodes carry the figures, and the performance model tells nodes apart by them. Figures of a node that is \
busy, or of which only a part may be used, are shown and not kept, with exit code 75. For other nodes run it as a job, alone on its \
node: docs/node-figures.md.";

#[derive(Debug, Args)]
pub(crate) struct BenchNode {
    /// Where reading is measured, with a file that has no name; default: the state directory, else $TMPDIR
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) dir: Option<PathBuf>,
    /// Length of that file at most, and never more than a tenth of the free space
    #[arg(long, value_name = "SIZE", default_value = "1GiB", value_parser = Bytes::parse)]
    pub(crate) file: Bytes,
    /// Do not measure reading
    #[arg(long, conflicts_with_all = ["dir", "file"])]
    pub(crate) no_disk: bool,
    /// Memory of the three arrays together; default: each four times as large as the last-level caches
    #[arg(long, value_name = "SIZE", value_parser = arrays)]
    pub(crate) arrays: Option<Bytes>,
    /// Keep the figures although the node is busy, or only a part of it may be used
    #[arg(long)]
    pub(crate) force: bool,
}

/// Smaller ones measure the caches of one core.
fn arrays(text: &str) -> Result<Bytes, String> {
    let bytes = Bytes::parse(text).map_err(|error| error.to_string())?;
    let least = Bytes(1 << 20);
    if bytes < least {
        Err(format!("the arrays are {least} together at least"))
    } else {
        Ok(bytes)
    }
}
