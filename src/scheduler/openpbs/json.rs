//! The JSON of OpenPBS, which is not always JSON.
//!
//! Seen in versions 19 to 23: control characters inside strings, keys that stand twice, bare words and numbers such as
//! `007`, commas before a closing bracket, and an end in the middle when the server goes away. A strict reader would lose
//! all jobs for one such value, so this one takes what it can and never fails. Of a key that occurs twice the last counts.

use crate::foundation::lenient_json::{self, Node, Value};
use crate::scheduler::pbs::answer::Thing;

/// The answer's own values, and the things in its tables, each with its table's name as kind. It begins at the first brace:
/// wrappers and login scripts greet before it. Of a text that breaks off, what was not read to its end is left out.
pub(in crate::scheduler) fn read(text: &str) -> (Thing, Vec<Thing>) {
    let root = lenient_json::read(text, text.find('{').unwrap_or(0), 1);
    let mut things = Vec::new();
    let mut top = Thing::default();
    for (table, value) in root.iter().flat_map(members) {
        top.add(&table, value);
        for (id, value) in members(value) {
            let mut thing = Thing {
                kind: table.clone(),
                id,
                ..Thing::default()
            };
            for (name, value) in members(value) {
                thing.add(&name, value);
                for (part, value) in members(value) {
                    thing.add(&format!("{name}.{part}"), value);
                }
            }
            things.push(thing);
        }
    }
    (top, things)
}

impl Thing {
    fn add(&mut self, name: &str, node: &Node<'_>) {
        if let Some(text) = text(node) {
            self.attributes
                .insert(name.to_owned(), text.trim().to_owned());
        }
    }
}

/// Text, a number or a bare word.
fn text(node: &Node<'_>) -> Option<String> {
    match node.value {
        Value::Quoted(text) => Some(lenient_json::unescaped(text)),
        Value::Word(word) => Some(word.to_owned()),
        Value::Object(_) | Value::List(_) => None,
    }
}

/// The members of an object; none of anything else.
fn members<'n, 't>(node: &'n Node<'t>) -> impl Iterator<Item = (String, &'n Node<'t>)> {
    let pairs = match &node.value {
        Value::Object(pairs) => &pairs[..],
        _ => &[],
    };
    pairs
        .iter()
        .filter_map(|(key, value)| Some((text(key)?, value)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn json_is_read() {
        let text = "{\"a\":\t\"x \\\"y\\\" \\u00e9\\n\", \"Jobs\": {\"7.s\": {\"n\": -29, \"o\": {\"k\": 1, \"l\": [2]}, \"e\": \"\"}}}";
        let (top, things) = read(text);
        assert_eq!(top.get("a"), Some("x \"y\" é"));
        let job = &things[0];
        assert_eq!((job.kind.as_str(), job.id.as_str()), ("Jobs", "7.s"));
        assert_eq!(
            (
                job.number::<i32>("n"),
                job.get("e"),
                job.get("o.k"),
                job.get("o.l")
            ),
            (Some(-29), None, Some("1"), None)
        );
    }

    #[test]
    fn what_is_no_json_is_read_all_the_same() {
        let value = read("{\"a\":\"one\ntwo\u{1}\",\"n\":007,\"w\":inf,\"a\":\"last\",\"t\":1,}").0;
        assert_eq!(value.get("a"), Some("last"));
        assert_eq!(
            (value.get("n"), value.get("w"), value.get("t")),
            (Some("007"), Some("inf"), Some("1"))
        );
        assert_eq!(read("{\"a\":\"one\ntwo\"}").0.get("a"), Some("one\ntwo"));
        let greeted = read("Welcome to 7.0!\n\u{fffd}{\"a\":\"one\"}\0").0;
        assert_eq!(greeted.get("a"), Some("one"));
        for text in ["", "nothing", "}", "]", "{]", "{:", "[}", "{\"a\" \"b\"}"] {
            assert_eq!(read(text).0.get("a"), None, "{text}");
        }
    }

    #[test]
    fn of_a_text_that_breaks_off_whole_jobs_are_kept() {
        let whole = "{\"timestamp\":1,\"Jobs\":{\"1.s\":{\"job_state\":\"R\",\"r\":{\"a\":1}},\"2.s\":{\"job_state\":\"F\",\"Exit_status\":271}}}";
        let all = |text: &str| read(text).1.len();
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
        read(&"{\"a\":".repeat(100_000));
        read(&"[".repeat(100_000));
    }

    proptest! {
        #[test]
        fn any_text_is_read_without_panic(text in "[\\[\\]{}\":,\\\\u0-9a-z\n\té-]{0,200}") {
            read(&text);
        }
    }
}
