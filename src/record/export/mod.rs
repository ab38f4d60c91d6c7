//! Records as other programs read them, written to any `io::Write`; and files that each consumer gets exactly once.

mod consumer;
mod openmetrics;
mod parquet;
mod rows;
mod series;

pub use consumer::{Consumer, ConsumerError, ConsumerFault};
pub use openmetrics::{Family, Flavour, MetricKind, Point, write_metrics};
pub use parquet::Parquet;
pub use rows::{Csv, JsonLines, RowWriter, csv_text};
pub use series::{SeriesFamily, SeriesWriter, series_families};
