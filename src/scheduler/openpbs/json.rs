//! The JSON of OpenPBS, which is not always JSON.
//!
//! Seen in versions 19 to 23: control characters inside strings, keys that stand twice, bare words and numbers such as
//! `007`, commas before a closing bracket, and an end in the middle when the server goes away. A strict reader would lose
//! all jobs for one such value, so this one takes what it can and never fails. Of a key that stands twice the last counts.

use std::collections::BTreeMap;

use crate::foundation::lenient_json::{self, Value as Json};
use crate::scheduler::pbs::answer::Thing;

/// A value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::scheduler) enum Value {
    /// Text, a number or a bare word, as written.
    Text(String),
    /// An object, in its order.
    Object(Vec<(String, Self)>),
    /// A list.
    List(Vec<Self>),
}

impl Value {
    /// The member of an object.
    pub(in crate::scheduler) fn get(&self, key: &str) -> Option<&Self> {
        self.members()
            .iter()
            .rev()
            .find(|(name, _)| name == key)
            .map(|(_, value)| value)
    }

    /// Text or number, without blanks around; `None` for what is neither or empty.
    pub(in crate::scheduler) fn text(&self, key: &str) -> Option<&str> {
        match self.get(key)? {
            Self::Text(text) => Some(text.trim()).filter(|text| !text.is_empty()),
            _ => None,
        }
    }

    /// A whole number.
    pub(in crate::scheduler) fn number<T: std::str::FromStr>(&self, key: &str) -> Option<T> {
        self.text(key)?.parse().ok()
    }

    /// The members of an object; none of anything else.
    pub(in crate::scheduler) fn members(&self) -> &[(String, Self)] {
        match self {
            Self::Object(members) => members,
            _ => &[],
        }
    }
}

/// Reads what there is, from the first brace on: wrappers and login scripts greet before it. Of a text that breaks off,
/// values that were not read to their end are left out: the answer's own tables hold whole jobs and are kept.
pub(in crate::scheduler) fn read(text: &str) -> Value {
    lenient_json::read(text, text.find('{').unwrap_or(0), 1)
        .map_or(Value::Object(Vec::new()), |node| Value::from(node.value))
}

impl From<Json<'_>> for Value {
    fn from(json: Json<'_>) -> Self {
        let text_of = |key: Json<'_>| match key {
            Json::Quoted(text) => lenient_json::unescaped(text),
            Json::Word(word) => word.to_owned(),
            Json::Object(_) | Json::List(_) => String::new(),
        };
        match json {
            Json::Object(members) => Self::Object(
                members
                    .into_iter()
                    .map(|(key, node)| (text_of(key.value), node.value.into()))
                    .collect(),
            ),
            Json::List(items) => {
                Self::List(items.into_iter().map(|node| node.value.into()).collect())
            }
            scalar => Self::Text(text_of(scalar)),
        }
    }
}

/// The jobs or nodes of an answer, by the name of their table, with their groups' members as `Resource_List.ncpus`.
pub(in crate::scheduler) fn things(answer: &Value, table: &str) -> Vec<Thing> {
    let members = answer.get(table).map(Value::members).unwrap_or_default();
    let thing = |(id, value): &(String, Value)| {
        let mut attributes = BTreeMap::new();
        for (key, value) in value.members() {
            let of_group = value
                .members()
                .iter()
                .map(|(name, value)| (format!("{key}.{name}"), value));
            for (name, value) in std::iter::once((key.clone(), value)).chain(of_group) {
                if let Value::Text(text) = value {
                    attributes.insert(name, text.trim().to_owned());
                }
            }
        }
        Thing {
            kind: table.to_owned(),
            id: id.clone(),
            attributes,
        }
    };
    members.iter().map(thing).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn json_is_read() {
        let value = read(
            "{ \"a\":\t\"x \\\"y\\\" \\u00e9\\n\", \"n\": -29, \"o\": {\"k\": [1, \"2\", {}]}, \"e\": \"\" }",
        );
        assert_eq!(value.text("a"), Some("x \"y\" é"));
        assert_eq!(
            (value.number::<i32>("n"), value.text("e"), value.text("o")),
            (Some(-29), None, None)
        );
        let list = value.get("o").and_then(|o| o.get("k"));
        assert!(
            matches!(list, Some(Value::List(values)) if values.len() == 3),
            "{list:?}"
        );
    }

    #[test]
    fn what_is_no_json_is_read_all_the_same() {
        let value = read("{\"a\":\"one\ntwo\u{1}\",\"n\":007,\"w\":inf,\"a\":\"last\",\"t\":1,}");
        assert_eq!(value.text("a"), Some("last"));
        assert_eq!(
            (value.text("n"), value.text("w"), value.text("t")),
            (Some("007"), Some("inf"), Some("1"))
        );
        assert_eq!(read("{\"a\":\"one\ntwo\"}").text("a"), Some("one\ntwo"));
        assert_eq!(
            read("Welcome to 7.0!\n\u{fffd}{\"a\":\"one\"}\0").text("a"),
            Some("one")
        );
        for text in ["", "nothing", "}", "]", "{]", "{:", "[}", "{\"a\" \"b\"}"] {
            assert_eq!(read(text).text("a"), None, "{text}");
        }
    }

    #[test]
    fn of_a_text_that_breaks_off_whole_jobs_are_kept() {
        let whole = "{\"timestamp\":1,\"Jobs\":{\"1.s\":{\"job_state\":\"R\",\"r\":{\"a\":1}},\"2.s\":{\"job_state\":\"F\",\"Exit_status\":271}}}";
        let all = |text: &str| {
            read(text)
                .get("Jobs")
                .map_or(0, |jobs| jobs.members().len())
        };
        assert_eq!(all(whole), 2);
        let second = whole.find("\"2.s\"").expect("it is there");
        let first = whole.find("\"1.s\"").expect("it is there");
        for end in 0..whole.len() - 2 {
            let jobs = all(&whole[..end]);
            let expected = if end < second - 1 { 0 } else { 1 };
            assert!(
                jobs == expected || end < first,
                "{jobs} jobs in {}",
                &whole[..end]
            );
        }
        assert_eq!(all(&whole[..whole.len() - 2]), 2);
    }

    #[test]
    fn depth_is_bounded() {
        let deep = "{\"a\":".repeat(100_000);
        assert!(read(&deep).get("a").is_some_and(|a| a.members().is_empty()));
        read(&"[".repeat(100_000));
    }

    proptest! {
        #[test]
        fn any_text_is_read_without_panic(text in "[\\[\\]{}\":,\\\\u0-9a-z\n\té-]{0,200}") {
            read(&text);
        }
    }
}
