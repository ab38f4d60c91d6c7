//! Records as other programs read them, written to any `io::Write`.

mod openmetrics;

pub use openmetrics::{Family, Flavour, MetricKind, Point, write_metrics};
