//! Flat dictionaries as Python and JSON print them: `{'loss': 0.5, "epoch": "1"}`.

use super::scan;
use crate::foundation::lenient_json::{self, Value as Json};

/// Pairs read of one dictionary at most: a line holds no more of interest.
const MAX_PAIRS: usize = 128;

/// The value of a pair.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Value<'a> {
    /// A number, also one inside quotation marks.
    Number(f64),
    /// Any other text inside quotation marks, or a bare word.
    Text(&'a str),
    /// A nested dictionary or list, with its brackets.
    Nested(&'a str),
}

impl Value<'_> {
    pub(super) fn number(self) -> Option<f64> {
        match self {
            Self::Number(value) => Some(value),
            Self::Text(_) | Self::Nested(_) => None,
        }
    }

    /// The number as a count: whole and not negative.
    pub(super) fn count(self) -> Option<u64> {
        self.number().and_then(scan::whole)
    }
}

/// The pairs of the first dictionary in `text`, in order; empty where there is none. One that is cut off ends with its
/// last whole pair. Keys stand in quotation marks; values in calls (`np.float64(0.5)`) are what is inside.
pub(super) fn read(text: &str) -> Vec<(&str, Value<'_>)> {
    let begin = text.find('{');
    let node = begin.and_then(|begin| lenient_json::read(text, begin, 0));
    let Some(Json::Object(pairs)) = node.map(|node| node.value) else {
        return Vec::new();
    };
    let pairs = pairs.into_iter().map_while(|(key, value)| match key.value {
        Json::Quoted(key) => Some((key, value_of(&text[value.span], &value.value))),
        _ => None,
    });
    pairs.take(MAX_PAIRS).collect()
}

/// The value of a key.
pub(super) fn get<'a>(pairs: &[(&'a str, Value<'a>)], key: &str) -> Option<Value<'a>> {
    pairs
        .iter()
        .find(|(known, _)| *known == key)
        .map(|(_, value)| *value)
}

/// The value that is written as `text`.
fn value_of<'a>(text: &'a str, value: &Json<'a>) -> Value<'a> {
    match *value {
        Json::Quoted(inside) => whole_number(inside.trim()).unwrap_or(Value::Text(inside)),
        Json::Word(word) => match word.split_once('(') {
            Some((name, inside)) if !name.is_empty() => scan::number(inside.trim_start())
                .map_or(Value::Nested(word), |(value, _)| Value::Number(value)),
            Some(_) => Value::Nested(word),
            None => whole_number(word).unwrap_or(Value::Text(word)),
        },
        Json::Object(_) | Json::List(_) => Value::Nested(text),
    }
}

fn whole_number(text: &str) -> Option<Value<'_>> {
    let (value, rest) = scan::number(text)?;
    rest.is_empty().then_some(Value::Number(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn python_and_json_are_read_alike() {
        let pairs = read(
            "x {'eval_loss': 2.1, \"epoch\": \"3\", 'a b': np.float64(0.5), 'n': None, 'l': [1, {'x': 2}], 'e': nan}",
        );
        assert_eq!(get(&pairs, "eval_loss"), Some(Value::Number(2.1)));
        assert_eq!(get(&pairs, "epoch").and_then(Value::count), Some(3));
        assert_eq!(get(&pairs, "a b"), Some(Value::Number(0.5)));
        assert_eq!(get(&pairs, "n"), Some(Value::Text("None")));
        assert_eq!(get(&pairs, "l"), Some(Value::Nested("[1, {'x': 2}]")));
        assert!(
            get(&pairs, "e")
                .and_then(Value::number)
                .is_some_and(f64::is_nan)
        );
        assert_eq!(pairs.len(), 6);
    }

    #[test]
    fn what_is_cut_off_ends_with_its_last_whole_pair() {
        assert_eq!(read("{\"a\": 1, \"b\": 2"), [("a", Value::Number(1.0))]);
        for text in ["", "{", "{'", "{'a'", "{'a':", "{'a': (", "{a: 1}", "no"] {
            assert_eq!(read(text), [], "{text}");
        }
    }
}
