//! The job file of a matrix as values, with where the matrix has each of its keys.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use toml::de::DeTable;
use toml::{Table, Value};

/// A job file. Keys are named as in messages: `run.command`.
#[derive(Debug, Clone, PartialEq, Default)]
pub(in crate::learn) struct Document {
    pub(in crate::learn) values: Table,
    /// Byte ranges in the matrix: of tables, and of what their keys hold.
    pub(in crate::learn) spans: BTreeMap<String, Range<usize>>,
}

impl Document {
    /// All of a matrix or a sweep but its own table, `[bench]` or `[sweep]`. `plain` is the same text as values.
    pub(in crate::learn) fn without(own: &str, document: &DeTable<'_>, plain: &Table) -> Self {
        let mut spans = BTreeMap::new();
        for (table, value) in document {
            spans.insert(table.get_ref().to_string(), value.span());
            for (key, value) in value.get_ref().as_table().into_iter().flatten() {
                let span = if value.get_ref().is_table() {
                    key.span()
                } else {
                    value.span()
                };
                spans.insert(format!("{}.{}", table.get_ref(), key.get_ref()), span);
            }
        }
        let mut values = plain.clone();
        values.remove(own);
        Self { values, spans }
    }

    /// The first key whose value another document does not have, and where it is here.
    pub(in crate::learn) fn difference(
        &self,
        other: &Self,
    ) -> Option<(String, Option<Range<usize>>)> {
        let names: BTreeSet<&String> = self.values.keys().chain(other.values.keys()).collect();
        for name in names {
            let (own, theirs) = (self.values.get(name), other.values.get(name));
            let (Some(Value::Table(own)), Some(Value::Table(theirs))) = (own, theirs) else {
                if own != theirs {
                    return Some((name.clone(), self.spans.get(name).cloned()));
                }
                continue;
            };
            let keys: BTreeSet<&String> = own.keys().chain(theirs.keys()).collect();
            if let Some(key) = keys
                .into_iter()
                .find(|key| own.get(*key) != theirs.get(*key))
            {
                let whole = format!("{name}.{key}");
                let span = self.spans.get(&whole).cloned();
                return Some((whole, span));
            }
        }
        None
    }

    /// Sets a key, in tables that are made where there are none.
    pub(super) fn set(&mut self, path: &[String], value: Value) {
        let Some((last, above)) = path.split_last() else {
            return;
        };
        let mut table = &mut self.values;
        for key in above {
            let place = table.entry(key.clone()).or_insert(Value::Boolean(false));
            if !place.is_table() {
                *place = Value::Table(Table::new());
            }
            let Value::Table(inner) = place else { return };
            table = inner;
        }
        table.insert(last.clone(), value);
    }
}

/// The key of a job file's text that is at a place: `run.command`; at the head of a table that table.
pub(super) fn key_at(text: &str, at: usize) -> Option<String> {
    let (document, _) = DeTable::parse_recoverable(text);
    let mut keys: Vec<(usize, String)> = Vec::new();
    for (table, value) in document.get_ref() {
        keys.push((table.span().start, table.get_ref().to_string()));
        for (key, _) in value.get_ref().as_table().into_iter().flatten() {
            let name = format!("{}.{}", table.get_ref(), key.get_ref());
            keys.push((key.span().start, name));
        }
    }
    let before = keys.into_iter().filter(|(start, _)| *start <= at);
    before.max().map(|(_, name)| name)
}

/// A value as text.
pub(in crate::learn) fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(items) => items.iter().map(shown).collect::<Vec<_>>().join(" "),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_found_where_they_are_set() {
        let text = "[run]\ncommand = [\"a b\", \"\"\"c\nd\"\"\"]\nenv.X = \"1\"\n[bench]\nseed = 3\n[resources]\nnodes = 2\n";
        let (spans, _) = DeTable::parse_recoverable(text);
        let plain = toml::from_str(text).expect("valid");
        let mut document = Document::without("bench", spans.get_ref(), &plain);
        assert_eq!(&text[document.spans["resources.nodes"].clone()], "2");
        let path = |text: &str| text.split('.').map(str::to_owned).collect::<Vec<_>>();
        document.set(&path("run.env.Y"), Value::from("2"));
        document.set(&path("run.command"), Value::from(vec!["b"]));
        document.set(&path("name"), Value::from("n"));
        let written = document.values.to_string();
        let expected = "name = \"n\"\n[resources]\nnodes = 2\n[run]\ncommand = [\"b\"]\nenv = { X = \"1\", Y = \"2\" }\n";
        assert_eq!(
            toml::from_str::<Table>(&written).expect("valid"),
            toml::from_str::<Table>(expected).expect("valid")
        );
        for (part, key) in [
            ("\"n\"", "name"),
            ("2", "resources.nodes"),
            ("\"b\"", "run.command"),
            ("Y", "run.env"),
        ] {
            let at = written.find(part).expect("it is there");
            assert_eq!(key_at(&written, at).as_deref(), Some(key), "{written}");
        }
    }
}
