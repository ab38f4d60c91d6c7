//! One layer of settings, from a file, the environment or the command line.

use std::fmt;
use std::path::PathBuf;

use serde::Serialize;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::keys::{KEYS, Key, Value};
use crate::diagnostic::{Problem, nearest};

/// Where a value comes from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Origin {
    /// Built into dlrun.
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

/// A value that one layer sets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Which setting.
    pub key: &'static Key,
    /// Its value.
    pub value: Value,
    /// Where it comes from.
    pub origin: Origin,
}

/// One layer.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Fragment {
    /// What it sets.
    pub entries: Vec<Entry>,
    /// What it sets to something impossible: these stop the command.
    pub errors: Vec<Problem>,
    /// Keys that no version so far knows: named, then ignored, since a site's file may serve several versions.
    pub unknown: Vec<Problem>,
}

impl Fragment {
    /// Reads a configuration file's text; `path` is for the origins.
    #[must_use]
    pub fn from_toml(path: &std::path::Path, text: &str) -> Self {
        let mut fragment = Self::default();
        let (document, syntax) = DeTable::parse_recoverable(text);
        for error in &syntax {
            let message = error.message().trim().replace('\n', "; ");
            fragment.errors.push(Problem { span: error.span(), message, hint: None });
        }
        if syntax.is_empty() {
            fragment.read_table("", document.get_ref(), path, text);
        }
        fragment
    }

    fn read_table(&mut self, prefix: &str, table: &DeTable<'_>, path: &std::path::Path, text: &str) {
        for (key, value) in table {
            let name = format!("{prefix}{}", key.get_ref());
            if let Some(inner) = value.get_ref().as_table()
                && KEYS.iter().any(|known| known.name.starts_with(&format!("{name}.")))
            {
                self.read_table(&format!("{name}."), inner, path, text);
                continue;
            }
            let Some(known) = Key::named(&name) else {
                self.unknown.push(unknown_key(&name, key.span()));
                continue;
            };
            match value_text(value).and_then(|text| known.read(&text)) {
                Ok(read) => {
                    let line = text[..key.span().start].matches('\n').count() + 1;
                    let origin = Origin::File { path: path.to_owned(), line };
                    self.entries.push(Entry { key: known, value: read, origin });
                }
                Err(why) => self.errors.push(Problem::at(value.span(), format!("`{name}` {why}"))),
            }
        }
    }

    /// Takes the `DLRUN_SECTION__KEY` variables out of an environment. Others that begin with `DLRUN_` are left alone:
    /// dlrun itself sets some inside jobs.
    #[must_use]
    pub fn from_environment(variables: impl Fn(&str) -> Option<String>) -> Self {
        let mut fragment = Self::default();
        for key in &KEYS {
            let variable = key.variable();
            let Some(text) = variables(&variable) else { continue };
            fragment.add(key, &text, Origin::Environment { variable });
        }
        fragment
    }

    /// Adds one value given as text.
    pub fn add(&mut self, key: &'static Key, text: &str, origin: Origin) {
        match key.read(text) {
            Ok(value) => self.entries.push(Entry { key, value, origin }),
            Err(why) => self.errors.push(Problem::of_file(format!("{origin}: `{}` {why}", key.name))),
        }
    }
}

fn value_text(value: &Spanned<DeValue<'_>>) -> Result<String, String> {
    match value.get_ref() {
        DeValue::String(text) => Ok(text.to_string()),
        DeValue::Integer(number) => Ok(number.as_str().to_owned()),
        other => Err(format!("must be text or a whole number, not {}", other.type_str())),
    }
}

fn unknown_key(name: &str, span: std::ops::Range<usize>) -> Problem {
    let problem = Problem::at(span, format!("unknown setting `{name}` is ignored"));
    match nearest(name, KEYS.iter().map(|key| key.name)) {
        Some(guess) => problem.hinted(format!("did you mean `{guess}`?")),
        None => problem.hinted("`dlrun config show` lists all settings"),
    }
}
