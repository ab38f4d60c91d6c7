//! Which column of a row a fault is about: what reads JSON tells a place in the line, people look for a name.

use serde_json::{Map, Value};

use crate::record::{FieldType, Table};

/// Longer keys, and those of other characters, are nobody's that is to be named.
const LONGEST: usize = 64;

/// The key whose value ends at `column` (in bytes, from 1), with those that it lies in: `forecast.epoch_seconds.low`. `None` at the
/// end of a row, and outside.
pub(super) fn key_at(text: &str, column: usize) -> Option<String> {
    let seen = &text.as_bytes()[..column.min(text.len())];
    // The objects that are open, each with its last key; of lists nothing is told.
    let mut open: Vec<Option<Object<'_>>> = Vec::new();
    let mut at = 0;
    while let Some(byte) = seen.get(at) {
        match byte {
            b'"' => {
                let begin = at + 1;
                at = string_end(seen, begin);
                if let Some(Some(object)) =
                    open.last_mut().filter(|object| is_at_key(object.as_ref()))
                {
                    object.key = text.get(begin..at);
                }
            }
            b'{' => open.push(Some(Object {
                key: None,
                is_at_key: true,
            })),
            b'[' => open.push(None),
            b'}' | b']' => {
                open.pop();
            }
            b':' | b',' => {
                if let Some(Some(object)) = open.last_mut() {
                    object.is_at_key = *byte == b',';
                }
            }
            _ => {}
        }
        at += 1;
    }
    let keys = open
        .into_iter()
        .flatten()
        .map_while(|object| object.key.filter(|key| is_name(key)));
    let path = keys.collect::<Vec<_>>().join(".");
    (!path.is_empty()).then_some(path)
}

/// The key of a value that was read up to `column`. A value that is the last of its object is told by the brace behind it.
pub(super) fn key_of_value(text: &str, column: usize) -> Option<String> {
    let is_brace = column
        .checked_sub(1)
        .is_some_and(|at| text.as_bytes().get(at) == Some(&b'}'));
    key_at(text, column - usize::from(is_brace))
}

struct Object<'a> {
    key: Option<&'a str>,
    is_at_key: bool,
}

fn is_at_key(object: Option<&Object<'_>>) -> bool {
    object.is_some_and(|object| object.is_at_key)
}

/// Where the quote stands that ends a string; the end where there is none.
fn string_end(seen: &[u8], begin: usize) -> usize {
    let mut at = begin;
    while let Some(byte) = seen.get(at) {
        match byte {
            b'"' => return at,
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    seen.len()
}

fn is_name(key: &str) -> bool {
    key.len() <= LONGEST
        && key
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// The first column whose value is of another type than it has. For rows that are read as a whole: their faults have no place.
pub(super) fn unlike(table: Table, text: &str) -> Option<String> {
    let row: Map<String, Value> = serde_json::from_str(text).ok()?;
    let is_unlike = |value: &Value, of: FieldType| match of {
        FieldType::Text => !value.is_string(),
        FieldType::Whole => !value.is_u64(),
        FieldType::Real => !value.is_number(),
        FieldType::Flag => !value.is_boolean(),
        FieldType::Json => false,
    };
    let fields = table.fields().into_iter();
    let mut found = fields.filter(|field| {
        row.get(field.name)
            .is_some_and(|value| !value.is_null() && is_unlike(value, field.of))
    });
    found.next().map(|field| field.name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_found_by_their_place() {
        let text = r#"{"a":-1,"b":{"c":[1,{"d":"x\"}{,"}],"e":2},"f g":{"h":3},"i":4}"#;
        for (end, expected) in [
            (r#""a":-1"#, Some("a")),
            (r#""b":{"c":[1"#, Some("b.c")),
            (r#"{"d":"x\"}{,""#, Some("b.c.d")),
            (r#"{"d":"x\"}{,"}"#, Some("b.c")),
            (r#""e":2"#, Some("b.e")),
            (r#""e":2}"#, Some("b")),
            (r#""h":3"#, None),
            (r#""i":4"#, Some("i")),
            (r#""i":4}"#, None),
        ] {
            let column = text.find(end).expect("it is there") + end.len();
            assert_eq!(key_at(text, column).as_deref(), expected, "{end}");
        }
        assert_eq!(key_of_value(text, text.len()).as_deref(), Some("i"));
        assert_eq!(
            key_of_value(text, text.find("2}").expect("there") + 2).as_deref(),
            Some("b.e")
        );
        assert_eq!(key_of_value(text, 0), None);
        // What is no JSON at all ends somewhere.
        for text in ["", "}", "]]", "\"", "{\"", "{\"\\", ",:", "\u{e9}{\"\u{e9}"] {
            for column in 0..=text.len() + 2 {
                assert_eq!(key_at(text, column), None, "{text}");
            }
        }
    }
}
