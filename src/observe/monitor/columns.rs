//! Which columns were ever read, and why others were not.

use crate::record::{COLUMNS, Missing, Sample};

/// Whether a column was ever read.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Reading {
    NotTried,
    Failed(String),
    Done,
}

/// The columns of all samples so far.
#[derive(Debug)]
pub(super) struct Columns([Reading; COLUMNS.len()]);

impl Columns {
    pub(super) fn new() -> Self {
        Self(std::array::from_fn(|_| Reading::NotTried))
    }

    /// Takes note of a sample. `why` tells why a column is not in it; `None`: it was not due, or has no source.
    pub(super) fn note(&mut self, sample: &Sample, why: impl Fn(&str) -> Option<String>) {
        for ((column, reading), value) in COLUMNS.iter().zip(&mut self.0).zip(sample.values()) {
            if value.is_some() {
                *reading = Reading::Done;
            } else if *reading == Reading::NotTried
                && let Some(why) = why(column.name)
            {
                *reading = Reading::Failed(why);
            }
        }
    }

    /// Takes note of columns that could not be read. The first reason stands: at the end of a run it is always that no
    /// process is left.
    pub(super) fn note_failure(&mut self, columns: &[&str], why: &str) {
        for (column, reading) in COLUMNS.iter().zip(&mut self.0) {
            if columns.contains(&column.name) && *reading == Reading::NotTried {
                *reading = Reading::Failed(why.to_owned());
            }
        }
    }

    /// The columns that could not be read in any sample so far.
    pub(super) fn missing(&self) -> Vec<Missing> {
        let columns = COLUMNS.iter().zip(&self.0);
        let missing = columns.filter_map(|(column, reading)| match reading {
            Reading::Failed(why) => Some(Missing::new(column.name, why)),
            Reading::NotTried | Reading::Done => None,
        });
        missing.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_reason_stands_until_it_is_read() {
        let mut columns = Columns::new();
        let io = ["io_read_bytes", "io_write_bytes"];
        columns.note_failure(&io, "permission denied");
        columns.note_failure(&io, "no process was left");
        let sample = Sample {
            io_write_bytes: Some(1),
            ..Sample::default()
        };
        columns.note(&sample, |_| None);
        columns.note_failure(&io, "no process was left");
        let missing = Missing {
            what: "io_read_bytes".to_owned(),
            why: "permission denied".to_owned(),
        };
        assert_eq!(columns.missing(), [missing]);
    }
}
