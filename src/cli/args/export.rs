//! The arguments of `dlrun export`.

use std::path::PathBuf;

use clap::builder::PossibleValuesParser;
use clap::{Args, ValueHint};

use super::word;
use crate::app::export::{ExportRequest, Format};
use crate::record::Table;

pub(crate) const EXPORT: &str = "Write runs, timings, usage and samples for other programs

Without --output or --output-dir the rows go to standard output. With --since-last NAME each row arrives exactly once in files \
of --output-dir, whatever is killed meanwhile: files are named after the range of changes that they hold, and the consumer may \
take them away at any time. Only rows that are settled are exported so: runs and measurements that are over, epochs that ended. \
One that changes later comes again, with a larger seq. The columns are in docs/export.md.";

#[derive(Debug, Args)]
pub(crate) struct Export {
    /// Which tables, separated by commas; several need --format jsonl or --output-dir
    #[arg(long, value_name = "TABLES", value_delimiter = ',', default_value = "runs",
        value_parser = PossibleValuesParser::new(Table::ALL.map(Table::as_str)))]
    pub(crate) what: Vec<String>,
    /// How rows are written: csv (RFC 4180, with a head), jsonl (one JSON object a line; what `dlrun import` reads), parquet
    /// (compressed with zstd), openmetrics (series with times for Prometheus; of runs, usage, timings, gpus and samples)
    #[arg(long, value_name = "FORMAT", default_value = "csv", value_parser = word(Format::ALL.map(|format| (format.as_str(), format))))]
    pub(crate) format: Format,
    /// Only rows of this time and later: 2026-11-20, 2026-11-20T08:00, 2026-11-20T08:00Z, or an age such as 7d or 12h
    #[arg(long, value_name = "TIME")]
    pub(crate) since: Option<String>,
    /// Only rows before this time
    #[arg(long, value_name = "TIME")]
    pub(crate) until: Option<String>,
    /// Only rows of this user's runs
    #[arg(long, value_name = "NAME")]
    pub(crate) user: Option<String>,
    /// Only rows of this run: the beginning of its id, its name, the scheduler's job id, or @1 for the latest
    #[arg(long, value_name = "RUN")]
    pub(crate) run: Vec<String>,
    /// Write to this file, in place of what is there, instead of standard output
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with = "output_dir")]
    pub(crate) output: Option<PathBuf>,
    /// Write a file for each table into this directory; it is made, unless --since-last is given
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) output_dir: Option<PathBuf>,
    /// Only rows that this consumer has not got yet, each exactly once; without --output-dir into the setting `export.dir`
    #[arg(long, value_name = "NAME", conflicts_with_all = ["since", "until", "run", "output"])]
    pub(crate) since_last: Option<String>,
    /// Read this database instead of your own records: a node's, such as /var/lib/dlrun/dlrun.db, or a site's
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) store: Option<PathBuf>,
}

impl Export {
    /// What is exported; each table once, in the order in which they are asked for.
    pub(crate) fn request(&self) -> ExportRequest {
        let mut tables = Vec::new();
        for table in self.what.iter().filter_map(|word| Table::from_word(word)) {
            if !tables.contains(&table) {
                tables.push(table);
            }
        }
        ExportRequest {
            tables,
            format: self.format,
            since: self.since.clone(),
            until: self.until.clone(),
            user: self.user.clone(),
            runs: self.run.clone(),
            output: self.output.clone(),
            output_dir: self.output_dir.clone(),
            since_last: self.since_last.clone(),
            store: self.store.clone(),
        }
    }
}
