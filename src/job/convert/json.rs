//! JSON with the place of every value, so that problems can point at it.

use std::ops::Range;

use crate::foundation::diagnostic::Problem;
use crate::foundation::lenient_json::{self, Value as Read};

/// A value and its bytes in the text.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Node {
    pub(super) span: Range<usize>,
    pub(super) value: Json,
}

/// A value; objects in the order of the text.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Json {
    Null,
    Flag(bool),
    /// As written.
    Number(String),
    Text(String),
    List(Vec<Node>),
    Object(Vec<(String, Node)>),
}

/// Reads a document. One that begins with a key has lost its outer braces, and is read as if it had them.
///
/// # Errors
/// Where it is no JSON, at the place where it ends to be.
pub(super) fn parse(text: &str) -> Result<Node, Problem> {
    let body = text.trim_start_matches('\u{feff}');
    let is_bare = body.trim_start().starts_with('"');
    let whole = if is_bare {
        format!("{{{body}}}")
    } else {
        body.to_owned()
    };
    // A place in `whole` as one in `text`.
    let skipped = text.len() - body.len();
    let place = |at: usize| {
        (at + skipped)
            .saturating_sub(usize::from(is_bare))
            .min(text.len())
    };
    if let Err(error) = serde_json::from_str::<serde_json::Value>(&whole) {
        let at = if error.is_eof() {
            text.len()
        } else {
            place(offset(&whole, error.line(), error.column()))
        };
        let at = (0..=at)
            .rev()
            .find(|at| text.is_char_boundary(*at))
            .unwrap_or(0);
        let what = error.to_string();
        let what = what
            .split(" at line ")
            .next()
            .unwrap_or_default()
            .to_owned();
        return Err(Problem::at(at..at, format!("no JSON: {what}")));
    }
    let node = lenient_json::read(&whole, 0, 0).ok_or_else(|| Problem::of_file("no JSON"))?;
    Ok(placed(&whole, node, &place))
}

/// A value with the places that it has in the document; text that `serde_json` has found valid is read by it.
fn placed(text: &str, node: lenient_json::Node<'_>, place: &impl Fn(usize) -> usize) -> Node {
    let string = |span: Range<usize>| serde_json::from_str(&text[span]).unwrap_or_default();
    let span = place(node.span.start)..place(node.span.end);
    let value = match node.value {
        Read::Quoted(_) => Json::Text(string(node.span)),
        Read::Word("null") => Json::Null,
        Read::Word("true") => Json::Flag(true),
        Read::Word("false") => Json::Flag(false),
        Read::Word(number) => Json::Number(number.to_owned()),
        Read::List(items) => Json::List(
            items
                .into_iter()
                .map(|item| placed(text, item, place))
                .collect(),
        ),
        Read::Object(pairs) => Json::Object(
            pairs
                .into_iter()
                .map(|(key, item)| (string(key.span), placed(text, item, place)))
                .collect(),
        ),
    };
    Node { span, value }
}

/// The byte of a place as `serde_json` tells it: lines from 1, columns in bytes.
fn offset(text: &str, line: usize, column: usize) -> usize {
    let starts = std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1));
    let start = starts.take(line.max(1)).last().unwrap_or(0);
    (start + column.saturating_sub(1)).min(text.len())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn value_of(node: &Node) -> serde_json::Value {
        match &node.value {
            Json::Null => serde_json::Value::Null,
            Json::Flag(flag) => (*flag).into(),
            Json::Number(number) => serde_json::from_str(number).expect("a number"),
            Json::Text(text) => text.clone().into(),
            Json::List(items) => items.iter().map(value_of).collect(),
            Json::Object(pairs) => pairs
                .iter()
                .map(|(key, node)| (key.clone(), value_of(node)))
                .collect(),
        }
    }

    #[test]
    fn values_know_their_places() {
        let text = "{ \"a\": [1, \"x\\\"y\"],\n \"b\": {\"c\": -1.5e3} }";
        let node = parse(text).expect("JSON");
        let Json::Object(pairs) = &node.value else {
            panic!("{node:?}")
        };
        assert_eq!(&text[pairs[0].1.span.clone()], "[1, \"x\\\"y\"]");
        assert_eq!(&text[pairs[1].1.span.clone()], "{\"c\": -1.5e3}");
        assert_eq!(
            value_of(&node),
            serde_json::from_str::<serde_json::Value>(text).expect("JSON")
        );
    }

    #[test]
    fn lost_braces_are_put_back_and_places_stay_right() {
        let text = "\n\t\"job\": {\n\t\"x\": 1}\n";
        let node = parse(text).expect("JSON");
        let Json::Object(pairs) = node.value else {
            panic!()
        };
        assert_eq!(&text[pairs[0].1.span.clone()], "{\n\t\"x\": 1}");
    }

    #[test]
    fn broken_text_is_pointed_at() {
        for (text, place) in [
            ("{\n  \"a\": 1,\n  b\n}", (3, 3)),
            ("{\"a\": 1", (1, 8)),
            ("\"a\": tru,\n", (1, 9)),
            ("{\"ä\": x}", (1, 7)),
        ] {
            let problem = parse(text).expect_err("broken");
            assert_eq!(problem.position(text), Some(place), "{problem:?}");
            assert!(problem.message.starts_with("no JSON: "), "{problem:?}");
        }
        let deep = "[".repeat(100_000);
        assert!(
            parse(&deep)
                .expect_err("too deep")
                .message
                .contains("recursion")
        );
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "\\PC*|[\\[\\]{}:,\"a1\\\\ \n]{0,20}") {
            if let Ok(node) = parse(&text) && let Ok(value) = serde_json::from_str::<serde_json::Value>(&text) {
                prop_assert_eq!(value_of(&node), value);
            }
        }
    }
}
