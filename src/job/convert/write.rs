//! The text of a job file: tables and keys in the order of the documentation, each value as a person would write it.

use std::fmt::Write as _;

use crate::foundation::toml_reader::{basic_string, key_text};
use crate::job::schema;

/// A value of a job file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Value {
    Text(String),
    Number(u64),
    Flag(bool),
    Texts(Vec<String>),
    Table(Vec<(String, Self)>),
}

macro_rules! values {
    ($($type:ty: $value:ident => $variant:expr;)*) => {
        $(impl From<$type> for Value {
            fn from($value: $type) -> Self {
                $variant
            }
        })*
    };
}

values! {
    &str: text => Self::Text(text.to_owned());
    String: text => Self::Text(text);
    u32: number => Self::Number(number.into());
    u64: number => Self::Number(number);
    bool: flag => Self::Flag(flag);
    Vec<String>: texts => Self::Texts(texts);
    Vec<(String, Self)>: pairs => Self::Table(pairs);
}

/// The text of a job file that sets keys, such as `resources.nodes`.
pub(super) fn job_file(title: &str, entries: &[(&'static str, Value)]) -> String {
    let mut text = format!("# {title}\n");
    let mut table = "";
    let keys = schema::keys();
    for key in &keys {
        let Some((_, value)) = entries.iter().find(|(known, _)| known == key) else {
            continue;
        };
        let (in_table, name) = key.split_once('.').unwrap_or(("", key));
        if in_table != table {
            let _ = writeln!(text, "\n[{in_table}]");
            table = in_table;
        }
        let _ = writeln!(text, "{name} = {}", shown(value));
    }
    text
}

fn shown(value: &Value) -> String {
    match value {
        Value::Text(text) => quoted(text),
        Value::Number(number) => number.to_string(),
        Value::Flag(flag) => flag.to_string(),
        Value::Texts(items) => {
            let items: Vec<String> = items.iter().map(|item| quoted(item)).collect();
            format!("[{}]", items.join(", "))
        }
        Value::Table(pairs) => {
            let pair =
                |(name, value): &(String, Value)| format!("{} = {}", key_text(name), shown(value));
            let pairs: Vec<String> = pairs.iter().map(pair).collect();
            format!("{{ {} }}", pairs.join(", "))
        }
    }
}

/// Text in the quotes that need the fewest escapes; text of several lines keeps them.
fn quoted(text: &str) -> String {
    let has_control = text.chars().any(|c| c.is_control() && c != '\t');
    let plain = !has_control && !text.contains(['"', '\\']);
    let lines_only = text
        .chars()
        .all(|c| !c.is_control() || c == '\n' || c == '\t');
    if plain && !text.contains('\t') {
        basic_string(text)
    } else if !has_control && !text.contains('\'') {
        format!("'{text}'")
    } else if text.contains('\n') && lines_only && !text.contains("''") && !text.ends_with('\'') {
        format!("'''\n{text}'''")
    } else {
        basic_string(text)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::job::{Command, parse};

    #[test]
    fn a_job_file_has_the_order_of_the_documentation() {
        let nodes = ("resources.nodes", Value::Number(2));
        let words = Value::Texts(vec!["python3".into(), "a b".into()]);
        let name = ("name", Value::Text("x".to_owned()));
        let text = job_file("A title", &[nodes, ("run.command", words), name]);
        let expected = "# A title\nname = \"x\"\n\n[run]\ncommand = [\"python3\", \"a b\"]\n\n[resources]\nnodes = 2\n";
        assert_eq!(text, expected);
    }

    #[test]
    fn quotes_are_those_that_need_no_escapes() {
        for (text, shown) in [
            ("a b", "\"a b\""),
            ("say \"x\"", "'say \"x\"'"),
            ("it's \"x\"", "\"it's \\\"x\\\"\""),
            ("a\nb", "'''\na\nb'''"),
            ("a\u{1b}b", "\"a\\u001bb\""),
        ] {
            assert_eq!(quoted(text), shown);
        }
    }

    proptest! {
        #[test]
        fn any_words_come_back_as_they_were(words in prop::collection::vec("\\PC*|[\\x01-\\x7f]{0,20}|[a'\"\n\\\\]{0,9}", 0..6)) {
            let words: Vec<String> = std::iter::once("x".to_owned()).chain(words).collect();
            let text = job_file("t", &[("run.command", Value::Texts(words.clone()))]);
            let spec = parse(&text).map_err(|faults| TestCaseError::fail(format!("{faults:?} in {text}")))?;
            prop_assert_eq!(spec.run.command.value, Command::Argv(words));
        }
    }
}
