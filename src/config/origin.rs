//! Where a value or a table of the settings comes from.

use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};

use serde::Serialize;

/// Where a value comes from.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Origin {
    /// Built into dlrun.
    #[default]
    Default,
    /// A line of a file.
    File {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
    },
    /// An environment variable.
    Environment {
        /// Its name.
        variable: String,
    },
    /// A command-line flag.
    Flag {
        /// The flag with its dashes.
        flag: String,
    },
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File { path, line } => write!(f, "{}:{line}", path.display()),
            Self::Environment { variable } => write!(f, "${variable}"),
            Self::Flag { flag } => f.write_str(flag),
        }
    }
}

/// A file that is read, for the origins.
pub(crate) struct SourceFile<'a> {
    path: &'a Path,
    /// Where its lines end.
    line_ends: Vec<usize>,
}

impl<'a> SourceFile<'a> {
    pub(crate) fn new(path: &'a Path, text: &str) -> Self {
        let line_ends = text.match_indices('\n').map(|(at, _)| at).collect();
        Self { path, line_ends }
    }

    /// The line that a byte range begins in, from 1.
    pub(crate) fn line(&self, span: &Range<usize>) -> usize {
        self.line_ends.partition_point(|end| *end < span.start) + 1
    }

    /// The line that a byte range begins in, as an origin.
    pub(crate) fn origin(&self, span: &Range<usize>) -> Origin {
        Origin::File {
            path: self.path.to_owned(),
            line: self.line(span),
        }
    }
}
