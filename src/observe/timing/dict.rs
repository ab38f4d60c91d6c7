//! Flat dictionaries as Python and JSON print them: `{'loss': 0.5, "epoch": "1"}`.

use super::scan;

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
        let value = self
            .number()
            .filter(|value| (0.0..9e15).contains(value) && value.fract() == 0.0)?;
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "it is whole and in range"
        )]
        Some(value as u64)
    }
}

/// The pairs of the first dictionary in `text`, in order; empty where there is none. One that is cut off ends with its
/// last whole pair. Keys stand in quotation marks; values in parentheses or calls (`np.float64(0.5)`) are what is inside.
pub(super) fn read(text: &str) -> Vec<(&str, Value<'_>)> {
    let mut pairs = Vec::new();
    let Some(begin) = text.find('{') else {
        return pairs;
    };
    let mut rest = &text[begin + 1..];
    while pairs.len() < MAX_PAIRS {
        rest = rest.trim_start_matches([' ', ',', '\t']);
        let Some((key, after)) = quoted(rest) else {
            break;
        };
        let Some(after) = after.trim_start().strip_prefix(':') else {
            break;
        };
        let Some((value, after)) = value(after.trim_start()) else {
            break;
        };
        pairs.push((key, value));
        rest = after;
    }
    pairs
}

/// The value of a key.
pub(super) fn get<'a>(pairs: &[(&'a str, Value<'a>)], key: &str) -> Option<Value<'a>> {
    pairs
        .iter()
        .find(|(known, _)| *known == key)
        .map(|(_, value)| *value)
}

/// A text in quotation marks and the rest.
fn quoted(text: &str) -> Option<(&str, &str)> {
    let mark = text
        .chars()
        .next()
        .filter(|mark| matches!(mark, '"' | '\''))?;
    let inside = &text[1..];
    let mut escaped = false;
    let end = inside.find(|c| {
        let found = c == mark && !escaped;
        escaped = c == '\\' && !escaped;
        found
    })?;
    Some((&inside[..end], &inside[end + 1..]))
}

fn value(text: &str) -> Option<(Value<'_>, &str)> {
    if let Some((inside, rest)) = quoted(text) {
        let number = scan::number(inside.trim()).filter(|(_, rest)| rest.is_empty());
        return Some((
            number.map_or(Value::Text(inside), |(value, _)| Value::Number(value)),
            rest,
        ));
    }
    if text.starts_with(['{', '[', '(']) {
        return nested(text).map(|(inside, rest)| (Value::Nested(inside), rest));
    }
    if let Some((value, rest)) = scan::number(text)
        && rest.trim_start().starts_with([',', '}'])
    {
        return Some((Value::Number(value), rest));
    }
    // `tensor(0.5)`, `np.float64(0.5)`, `tensor(0.5, device='cuda:0')`, or a bare word such as `None`.
    let end = text.find(|c: char| !(scan::is_word(c) || matches!(c, '.' | '-' | '+')))?;
    let (word, rest) = text.split_at(end);
    if rest.starts_with('(') {
        let (inside, rest) = nested(rest)?;
        let number = scan::number(inside[1..].trim_start());
        return Some((
            number.map_or(Value::Nested(inside), |(value, _)| Value::Number(value)),
            rest,
        ));
    }
    (!word.is_empty()).then_some((Value::Text(word), rest))
}

/// What stands in the brackets that `text` begins with, with them, and the rest.
fn nested(text: &str) -> Option<(&str, &str)> {
    let mut depth = 0_u32;
    let mut mark = None;
    for (at, byte) in text.bytes().enumerate() {
        match (mark, byte) {
            (Some(open), _) if byte == open => mark = None,
            (Some(_), _) => {}
            (None, b'"' | b'\'') => mark = Some(byte),
            (None, b'{' | b'[' | b'(') => depth += 1,
            (None, b'}' | b']' | b')') => {
                depth = depth.checked_sub(1)?;
                if depth == 0 {
                    return Some(text.split_at(at + 1));
                }
            }
            _ => {}
        }
    }
    None
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
        for text in [
            "", "{", "{'", "{'a'", "{'a':", "{'a': (", "{a: 1}", "no", "{'a': }",
        ] {
            assert_eq!(read(text), [], "{text}");
        }
    }
}
