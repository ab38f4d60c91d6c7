//! The rows that leave dlrun: which tables there are, and what their columns are called, hold and mean.
//!
//! One description drives all: the queries of the index, every format of `dlrun export`, what `dlrun import` takes, and
//! docs/export.md. Columns are only ever appended to a table; a change of meaning would be a new [`Table::FORMAT`].

mod assemble;
mod columns;

pub use assemble::MAX_NAME_BYTES;
pub(in crate::record) use assemble::{
    Cells, assemble, assemble_known, check, imported_values, stored_values,
};
pub(in crate::record) use columns::VERSION;

use std::borrow::Cow;

use crate::foundation::named_enum;

named_enum! {
    /// What a column holds, with its word in docs/export.md.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum FieldType {
        /// UTF-8 text.
        Text = "text",
        /// A whole number of 64 bits with sign. What is larger is written as the largest.
        Whole = "integer",
        /// A floating-point number of 64 bits.
        Real = "real",
        /// True or false.
        Flag = "boolean",
        /// A JSON value: in JSON Lines as it is, elsewhere as text.
        Json = "JSON",
    }
}

/// What a column is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// With the others of its table it names a row; never null.
    Key,
    /// Always there; never null.
    Always,
    /// Null where it is not known or does not apply.
    Optional,
    /// As `Optional`; without it the object of the record that it is a part of is not known either.
    Part,
}

/// A column of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Field {
    /// Its name; the unit is its suffix.
    pub name: &'static str,
    /// What it holds.
    pub of: FieldType,
    /// Whether it may be null.
    pub role: Role,
    /// What it means, as in docs/export.md.
    pub about: &'static str,
    /// Whether its text is a name, which is shown in tables and compared.
    pub(in crate::record) is_name: bool,
    /// The object that it is in, of the record that the row is of, as a JSON pointer. `None`: it follows from other columns.
    pub(in crate::record) object: Option<&'static str>,
    /// The key in that object.
    pub(in crate::record) key: &'static str,
    /// `table.column` of the index; `None` where it has no column.
    pub(in crate::record) stored: Option<&'static str>,
    /// Its expression in the index, in SQL.
    pub(in crate::record) sql: &'static str,
}

impl Field {
    /// Whether it may be null.
    #[must_use]
    pub fn is_optional(&self) -> bool {
        matches!(self.role, Role::Optional | Role::Part)
    }
}

/// One value of a row, borrowed from wherever the row comes from.
#[derive(Debug, Clone, PartialEq)]
pub enum Cell<'a> {
    /// Not known, or not applicable.
    Null,
    /// Of a column of type text or JSON.
    Text(Cow<'a, str>),
    /// Of a column of type integer.
    Whole(i64),
    /// Of a column of type real. Infinite where a program printed that; never NaN.
    Real(f64),
    /// Of a column of type boolean.
    Flag(bool),
}

named_enum! {
    /// A table of rows that can be exported, with its word on the command line and in names of files; in the order in which a reader
    /// that rebuilds records wants them.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum Table {
        /// One row a run.
        Runs = "runs",
        /// One row a start of a run, or of an element of its array.
        Attempts = "attempts",
        /// One row a measurement, which is one `dlrun exec` on one node: what it ran on, what it used, how far it came.
        Usage = "usage",
        /// One row an epoch.
        Timings = "timings",
        /// One row a GPU of a measurement.
        Gpus = "gpus",
        /// One row a rank of a distributed training.
        Ranks = "ranks",
        /// One row a loss or metric of an epoch, a step or an evaluation.
        Metrics = "metrics",
        /// One row an event of a measurement.
        Events = "events",
        /// One row a reading.
        Samples = "samples",
        /// One row a GPU in a reading.
        GpuSamples = "gpu-samples",
        /// One row a process in a reading.
        ProcessSamples = "process-samples",
    }
}

impl Table {
    /// Version of the rows, as in `format` of JSON Lines.
    pub const FORMAT: u32 = 1;

    /// The `kind` of one of its rows in JSON Lines.
    #[must_use]
    pub fn kind(self) -> &'static str {
        match self {
            Self::Runs => "run",
            Self::Attempts => "attempt",
            Self::Usage => "usage",
            Self::Timings => "timing",
            Self::Gpus => "gpu",
            Self::Ranks => "rank",
            Self::Metrics => "metric",
            Self::Events => "event",
            Self::Samples => "sample",
            Self::GpuSamples => "gpu_sample",
            Self::ProcessSamples => "process_sample",
        }
    }

    /// The table of this word.
    #[must_use]
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|table| table.as_str() == word)
    }

    /// The table of this `kind`.
    #[must_use]
    pub fn from_kind(kind: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|table| table.kind() == kind)
    }

    /// Whether it is made of blocks of samples.
    #[must_use]
    pub fn is_of_samples(self) -> bool {
        matches!(
            self,
            Self::Samples | Self::GpuSamples | Self::ProcessSamples
        )
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn names_are_unique_and_rows_have_a_key() {
        for table in Table::ALL {
            let fields = table.fields();
            let names: HashSet<&str> = fields.iter().map(|field| field.name).collect();
            assert_eq!(names.len(), fields.len(), "{table:?}");
            assert_eq!((fields[0].name, fields[1].name), ("store", "seq"));
            assert!(
                fields
                    .iter()
                    .any(|field| field.role == Role::Key && field.name == "run_id")
            );
            assert!(
                fields
                    .iter()
                    .all(|field| !field.about.is_empty() && field.about.ends_with('.'))
            );
            assert_eq!(Table::from_word(table.as_str()), Some(table));
            assert_eq!(Table::from_kind(table.kind()), Some(table));
        }
    }
}
