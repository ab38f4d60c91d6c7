//! One layer of settings, from a file, the environment or the command line.

use std::ops::Range;
use std::path::Path;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::keys::{Key, Kind, Setting};
use super::origin::{Origin, SourceFile};
use super::tables::{self, Owner, Tables};
use crate::foundation::diagnostic::{Problem, nearest};
use crate::foundation::toml_reader::{Fields, parse_document};

/// One layer.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Fragment {
    /// What it sets.
    pub entries: Vec<Setting>,
    /// The site's tables in it.
    pub tables: Tables,
    /// Whose it is.
    pub owner: Owner,
    /// What it sets to something impossible: these stop the command.
    pub errors: Vec<Problem>,
    /// Keys that no version so far knows: named, then ignored, since a site's file may serve several versions.
    pub unknown: Vec<Problem>,
}

impl Fragment {
    /// The same as the user's own, whose rules stand beside the site's and replace none of them.
    #[must_use]
    pub fn of_user(mut self) -> Self {
        self.owner = Owner::User;
        for rule in &mut self.tables.rules {
            rule.owner = Owner::User;
        }
        self
    }

    /// Reads the text of a file with these settings, and with the site's tables unless it is the daemon's.
    pub(super) fn read(keys: &'static [Key], is_daemon: bool, path: &Path, text: &str) -> Self {
        let mut fragment = Self::default();
        let file = SourceFile::new(path, text);
        match parse_document(text) {
            Err(problem) => fragment.errors.push(problem),
            Ok(document) => {
                let source = Source {
                    keys,
                    is_daemon,
                    file: &file,
                };
                fragment.read_table(&source, "", &document);
                if !is_daemon {
                    let mut fields = Fields::of_document(&document, &mut fragment.errors);
                    fragment.tables = tables::read(&mut fields, &file);
                }
            }
        }
        fragment
    }

    fn read_table(&mut self, source: &Source<'_>, prefix: &str, table: &DeTable<'_>) {
        for (key, value) in table {
            let name = format!("{prefix}{}", key.get_ref());
            if !source.is_daemon && tables::TABLES.contains(&name.as_str()) {
                continue;
            }
            if let Some(inner) = value.get_ref().as_table()
                && source.sections().any(|section| section == name)
            {
                self.read_table(source, &format!("{name}."), inner);
                continue;
            }
            let Some(known) = source.keys.iter().find(|known| known.name == name) else {
                let is_table = value.get_ref().is_table();
                self.unknown
                    .push(source.unknown_key(&name, key.span(), is_table));
                continue;
            };
            match value_text(known.kind, value).and_then(|text| known.read(&text)) {
                Ok(value) => self.entries.push(Setting {
                    key: known,
                    value: Some(value),
                    origin: source.file.origin(&key.span()),
                }),
                Err(why) => self
                    .errors
                    .push(Problem::at(value.span(), format!("`{name}` {why}"))),
            }
        }
    }

    /// Adds one value given as text.
    pub fn add(&mut self, key: &'static Key, text: &str, origin: Origin) {
        match key.read(text) {
            Ok(value) => self.entries.push(Setting {
                key,
                value: Some(value),
                origin,
            }),
            Err(why) => self
                .errors
                .push(Problem::of_file(format!("{origin}: `{}` {why}", key.name))),
        }
    }
}

/// A file and the settings that it may hold.
struct Source<'a> {
    keys: &'static [Key],
    is_daemon: bool,
    file: &'a SourceFile<'a>,
}

impl Source<'_> {
    fn sections(&self) -> impl Iterator<Item = &'static str> {
        self.keys
            .iter()
            .filter_map(|key| Some(key.name.split_once('.')?.0))
    }

    fn unknown_key(&self, name: &str, span: Range<usize>, is_table: bool) -> Problem {
        let is_daemon = self.is_daemon;
        let (ignored, list) = if is_daemon {
            ("", "docs/config.md lists all settings of dlrund.toml")
        } else {
            (" is ignored", "`dlrun config show` lists all settings")
        };
        let problem = Problem::at(span, format!("unknown setting `{name}`{ignored}"));
        let guess = if is_table {
            nearest(
                name,
                self.sections()
                    .chain(tables::TABLES.into_iter().filter(|_| !is_daemon)),
            )
        } else {
            nearest(name, self.keys.iter().map(|key| key.name))
        };
        match guess {
            Some(_) => problem.did_you_mean(guess),
            None => problem.hinted(list),
        }
    }
}

fn value_text(kind: Kind, value: &Spanned<DeValue<'_>>) -> Result<String, String> {
    match value.get_ref() {
        DeValue::String(text) => Ok(text.to_string()),
        DeValue::Integer(number) => Ok(number.as_str().to_owned()),
        DeValue::Boolean(on) if kind == Kind::Switch => Ok(on.to_string()),
        other if kind == Kind::Switch => {
            Err(format!("must be true or false, not {}", other.type_str()))
        }
        other => Err(format!(
            "must be text or a whole number, not {}",
            other.type_str()
        )),
    }
}
