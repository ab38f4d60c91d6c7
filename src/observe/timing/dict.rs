//! Flat dictionaries as Python and JSON print them: `{'loss': 0.5, "epoch": "1"}`.

use super::scan;
use crate::foundation::lenient_json::{self, Value as Json};

/// Pairs read of one dictionary at most: a line holds no more of interest.
const MAX_PAIRS: usize = 128;

/// The numbers of the first dictionary in `text`, in order; empty where there is none. One that is cut off ends with its
/// last whole pair. Keys stand in quotation marks; of calls (`np.float64(0.5)`) the number is what is inside.
pub(super) fn read(text: &str) -> Vec<(&str, f64)> {
    let begin = text.find('{');
    let node = begin.and_then(|begin| lenient_json::read(text, begin, 0));
    let Some(Json::Object(pairs)) = node.map(|node| node.value) else {
        return Vec::new();
    };
    let numbers = pairs.into_iter().filter_map(|(key, value)| {
        let Json::Quoted(key) = key.value else {
            return None;
        };
        Some((key, number(&value.value)?))
    });
    numbers.take(MAX_PAIRS).collect()
}

/// The number of a key.
pub(super) fn get(pairs: &[(&str, f64)], key: &str) -> Option<f64> {
    let pair = pairs.iter().find(|(known, _)| *known == key);
    pair.map(|(_, value)| *value)
}

fn number(value: &Json<'_>) -> Option<f64> {
    let text = match *value {
        Json::Quoted(inside) => inside.trim(),
        Json::Word(word) => match word.split_once('(') {
            Some((name, inside)) if !name.is_empty() => {
                return Some(scan::number(inside.trim_start())?.0);
            }
            _ => word,
        },
        Json::Object(_) | Json::List(_) => return None,
    };
    scan::number(text)
        .filter(|(_, rest)| rest.is_empty())
        .map(|(value, _)| value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn python_and_json_are_read_alike() {
        let pairs = read(
            "x {'eval_loss': 2.1, \"epoch\": \"3\", 'a b': np.float64(0.5), 'n': None, 'l': [1, {'x': 2}], 'e': nan}",
        );
        assert_eq!(get(&pairs, "eval_loss"), Some(2.1));
        assert_eq!(get(&pairs, "epoch"), Some(3.0));
        assert_eq!(get(&pairs, "a b"), Some(0.5));
        assert_eq!((get(&pairs, "n"), get(&pairs, "l")), (None, None));
        assert!(get(&pairs, "e").is_some_and(f64::is_nan));
        assert_eq!(pairs.len(), 4);
    }

    #[test]
    fn what_is_cut_off_ends_with_its_last_whole_pair() {
        assert_eq!(read("{\"a\": 1, \"b\": 2"), [("a", 1.0)]);
        for text in ["", "{", "{'", "{'a'", "{'a':", "{'a': (", "{a: 1}", "no"] {
            assert_eq!(read(text), [], "{text}");
        }
    }
}
