//! A job file as its keys, each with where it stands in the matrix, and back to text.

use std::fmt::Write as _;
use std::ops::Range;

use toml::Value;
use toml::de::{DeTable, DeValue};

use crate::foundation::diagnostic::Problem;
use crate::foundation::toml_reader::key_text;

/// Where a value comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Origin {
    /// Byte range in the matrix; `None`: nobody wrote it.
    pub(super) span: Option<Range<usize>>,
    /// Whether it differs between cells.
    pub(super) varies: bool,
}

/// One key of a table.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Leaf {
    /// The table; empty: the top level.
    pub(super) table: String,
    pub(super) key: String,
    pub(super) value: Value,
    pub(super) origin: Origin,
}

/// The keys of a job file in the order of the text.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Document(pub(super) Vec<Leaf>);

impl Document {
    /// All of a matrix but the table `[bench]`. `plain` is the same text as values.
    pub(super) fn of_matrix(document: &DeTable<'_>, plain: &toml::Table) -> Self {
        let mut leaves = Vec::new();
        for (name, value) in document {
            let table: &str = name.get_ref();
            let Some(known) = plain.get(table).filter(|_| table != "bench") else {
                continue;
            };
            let mut add = |table: &str, key: &str, value: &Value, span| {
                let origin = Origin {
                    span: Some(span),
                    varies: false,
                };
                leaves.push(Leaf {
                    table: table.to_owned(),
                    key: key.to_owned(),
                    value: value.clone(),
                    origin,
                });
            };
            match (value.get_ref(), known) {
                (DeValue::Table(keys), Value::Table(values)) => {
                    for (key, value) in keys {
                        let key_text: &str = key.get_ref();
                        let span = if value.get_ref().is_table() {
                            key.span()
                        } else {
                            value.span()
                        };
                        values
                            .get(key_text)
                            .into_iter()
                            .for_each(|known| add(table, key_text, known, span.clone()));
                    }
                    // An empty table may be faulty too.
                }
                _ => add("", table, known, value.span()),
            }
        }
        leaves.sort_by_key(|leaf| leaf.origin.span.as_ref().map(|span| span.start));
        Self(leaves)
    }

    /// The value of `table.key` or of a key below it.
    pub(super) fn get(&self, path: &[String]) -> Option<&Value> {
        let [table, key, below @ ..] = path else {
            return None;
        };
        let leaf = self
            .0
            .iter()
            .find(|leaf| leaf.table == *table && leaf.key == *key)?;
        below
            .iter()
            .try_fold(&leaf.value, |value, key| value.get(key))
    }

    /// Sets `table.key`, or a key below it.
    pub(super) fn set(&mut self, path: &[String], value: Value, origin: Origin) {
        let [table, key, below @ ..] = path else {
            return;
        };
        let at = self
            .0
            .iter()
            .position(|leaf| leaf.table == *table && leaf.key == *key);
        let at = at.unwrap_or_else(|| {
            let (table, key) = (table.clone(), key.clone());
            let empty = Value::Table(toml::Table::new());
            self.0.push(Leaf {
                table,
                key,
                value: empty,
                origin: origin.clone(),
            });
            self.0.len() - 1
        });
        let leaf = &mut self.0[at];
        leaf.origin = origin;
        let mut place = &mut leaf.value;
        for key in below {
            if !place.is_table() {
                *place = Value::Table(toml::Table::new());
            }
            let Value::Table(table) = place else { return };
            place = table
                .entry(key.clone())
                .or_insert_with(|| Value::Table(toml::Table::new()));
        }
        *place = value;
    }

    /// The job file's text, with where each line comes from.
    pub(super) fn written(&self) -> (String, Vec<(Range<usize>, Origin)>) {
        let (mut text, mut places) = (String::new(), Vec::new());
        let mut tables: Vec<&str> = Vec::new();
        // The top level stands first: behind a table's head a key would belong to that.
        tables.push("");
        for leaf in &self.0 {
            if !tables.contains(&leaf.table.as_str()) {
                tables.push(&leaf.table);
            }
        }
        for table in tables {
            let leaves: Vec<&Leaf> = self.0.iter().filter(|leaf| leaf.table == table).collect();
            let Some(first) = leaves.first().filter(|_| !table.is_empty()) else {
                leaves
                    .iter()
                    .for_each(|leaf| line(&mut text, &mut places, leaf));
                continue;
            };
            let begin = text.len();
            let _ = writeln!(
                text,
                "{}[{}]",
                if begin > 0 { "\n" } else { "" },
                key_text(table)
            );
            places.push((begin..text.len(), first.origin.clone()));
            leaves
                .iter()
                .for_each(|leaf| line(&mut text, &mut places, leaf));
        }
        (text, places)
    }
}

fn line(text: &mut String, places: &mut Vec<(Range<usize>, Origin)>, leaf: &Leaf) {
    let begin = text.len();
    let _ = writeln!(text, "{} = {}", key_text(&leaf.key), leaf.value);
    places.push((begin..text.len(), leaf.origin.clone()));
}

/// A problem of a written text, as one of the matrix. `cell` says which combination it is of.
pub(super) fn in_matrix(
    places: &[(Range<usize>, Origin)],
    cell: &str,
    problem: Problem,
) -> Problem {
    let at = problem.span.as_ref().map(|span| span.start);
    let place = at.and_then(|at| places.iter().find(|(range, _)| range.contains(&at)));
    let origin = place.map(|(_, origin)| origin);
    let is_common = origin.is_some_and(|origin| !origin.varies);
    let message = if is_common {
        problem.message
    } else {
        format!("{cell}: {}", problem.message)
    };
    Problem {
        span: origin.and_then(|origin| origin.span.clone()),
        message,
        hint: problem.hint,
    }
}

/// A value in a few words.
pub(super) fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(items) => items.iter().map(shown).collect::<Vec<_>>().join(" "),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document(text: &str) -> Document {
        let (spans, faults) = DeTable::parse_recoverable(text);
        assert!(faults.is_empty(), "{faults:?}");
        Document::of_matrix(spans.get_ref(), &toml::from_str(text).expect("valid"))
    }

    fn path(text: &str) -> Vec<String> {
        text.split('.').map(str::to_owned).collect()
    }

    #[test]
    fn what_is_written_reads_as_what_was_read() {
        let text = "[run]\ncommand = [\"a b\", \"\"\"c\nd\"\"\"]\nenv.X = \"1\"\n[resources]\nnodes = 2\n[bench]\nseed = 3\n\
                    [\"odd \\\" table\"]\nx = 1\n";
        let (written, places) = document(text).written();
        let mut expected: toml::Table = toml::from_str(text).expect("valid");
        expected.remove("bench");
        assert_eq!(
            toml::from_str::<toml::Table>(&written).expect("valid"),
            expected,
            "{written}"
        );
        let of_nodes = written.find("nodes").expect("it is there");
        let (_, origin) = places
            .iter()
            .find(|(range, _)| range.contains(&of_nodes))
            .expect("a place");
        assert_eq!(&text[origin.span.clone().expect("it was read")], "2");
    }

    #[test]
    fn keys_are_set_at_any_depth_and_the_top_level_comes_first() {
        let mut document = document("[run]\ncommand = [\"a\"]\n");
        let origin = || Origin {
            span: Some(3..5),
            varies: true,
        };
        document.set(&path("run.env.X"), Value::from("1"), origin());
        document.set(&path("run.env.Y"), Value::from("2"), origin());
        document.set(&path("run.command"), Value::from(vec!["b"]), origin());
        document.set(
            &[String::new(), "name".to_owned()],
            Value::from("n"),
            origin(),
        );
        let (written, _) = document.written();
        let expected = "name = \"n\"\n\n[run]\ncommand = [\"b\"]\nenv = { X = \"1\", Y = \"2\" }\n";
        assert_eq!(written, expected);
        assert_eq!(
            document.get(&path("run.env.Y")).and_then(Value::as_str),
            Some("2")
        );
        assert_eq!(document.get(&path("run.env.Z")), None);
    }

    #[test]
    fn problems_are_told_where_the_matrix_has_them() {
        let mut document = document("[run]\ncommand = [\"a\"]\nwrong = 1\n");
        document.set(
            &path("workload.epochs"),
            Value::from(0),
            Origin {
                span: Some(70..72),
                varies: true,
            },
        );
        let (written, places) = document.written();
        let of = |what: &str| {
            let at = written.find(what).expect("it is there");
            in_matrix(&places, "cell 2 (epochs=0)", Problem::at(at..at + 1, "bad"))
        };
        assert_eq!(
            (of("wrong").span, of("wrong").message.as_str()),
            (Some(30..31), "bad")
        );
        assert_eq!(
            (of("epochs").span, of("epochs").message.as_str()),
            (Some(70..72), "cell 2 (epochs=0): bad")
        );
        assert_eq!(
            in_matrix(&places, "cell 2", Problem::of_file("none")).message,
            "cell 2: none"
        );
    }
}
