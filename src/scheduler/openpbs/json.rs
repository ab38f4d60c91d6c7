//! The JSON of OpenPBS, which is not always JSON.
//!
//! Seen in versions 19 to 23: control characters inside strings, keys that stand twice, bare words and numbers such as
//! `007`, commas before a closing bracket, and an end in the middle when the server goes away. A strict reader would lose
//! all jobs for one such value, so this one takes what it can and never fails. Of a key that stands twice the last counts.

use std::collections::BTreeMap;

use crate::scheduler::pbs::answer::Thing;

/// Values may lie this deep in each other; OpenPBS's go to four.
const MAX_DEPTH: u32 = 16;

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
/// values that were not read to their end are left out.
pub(in crate::scheduler) fn read(text: &str) -> Value {
    let mut reader = Reader {
        rest: &text[text.find('{').unwrap_or(0)..],
        depth: 0,
    };
    reader
        .value()
        .unwrap_or_else(|begun| begun.unwrap_or(Value::Object(Vec::new())))
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

struct Reader<'a> {
    rest: &'a str,
    depth: u32,
}

/// `Err`: the text broke off, with what was whole of the value by then.
type Whole<T> = Result<T, Option<T>>;

impl<'a> Reader<'a> {
    fn next(&mut self) -> Option<char> {
        self.rest = self.rest.trim_start();
        self.rest.chars().next()
    }

    fn skip(&mut self, c: char) -> bool {
        let found = self.next() == Some(c);
        if found {
            self.rest = &self.rest[c.len_utf8()..];
        }
        found
    }

    fn value(&mut self) -> Whole<Value> {
        match self.next() {
            None => Err(None),
            Some('"') => self.string().map(Value::Text).ok_or(None),
            Some('{' | '[') if self.depth >= MAX_DEPTH => {
                self.rest = "";
                Err(None)
            }
            Some('{') => self.nested(Self::object),
            Some('[') => self.nested(Self::list),
            Some(_) => self.bare().map(Value::Text).ok_or(None),
        }
    }

    fn nested(&mut self, read: fn(&mut Self) -> Whole<Value>) -> Whole<Value> {
        self.rest = &self.rest[1..];
        self.depth += 1;
        let value = read(self);
        self.depth -= 1;
        value
    }

    fn object(&mut self) -> Whole<Value> {
        let mut members = Vec::new();
        loop {
            while self.skip(',') {}
            if self.skip('}') {
                return Ok(Value::Object(members));
            }
            let key = match self.next() {
                Some('"') => self.string(),
                Some(_) => self.bare(),
                None => None,
            };
            let Some(key) = key else {
                return Err(Some(Value::Object(members)));
            };
            // What is no key is passed over, so that a lost bracket ends in a short answer and not in an endless one.
            if !self.skip(':') {
                continue;
            }
            match self.value() {
                Ok(value) => members.push((key, value)),
                Err(begun) => {
                    // The answer's own tables hold whole jobs, the jobs' tables do not: only the former are kept.
                    members.extend(begun.filter(|_| self.depth == 1).map(|begun| (key, begun)));
                    return Err(Some(Value::Object(members)));
                }
            }
        }
    }

    fn list(&mut self) -> Whole<Value> {
        let mut values = Vec::new();
        loop {
            while self.skip(',') {}
            if self.skip(']') {
                return Ok(Value::List(values));
            }
            match self.value() {
                Ok(value) => values.push(value),
                Err(_) => return Err(Some(Value::List(values))),
            }
        }
    }

    /// A string; control characters in it are kept. `None`: it does not end.
    fn string(&mut self) -> Option<String> {
        let mut text = String::new();
        let mut chars = self.rest[1..].char_indices();
        while let Some((at, c)) = chars.next() {
            match c {
                '"' => {
                    self.rest = &self.rest[at + 2..];
                    return Some(text);
                }
                '\\' => match chars.next()?.1 {
                    'n' => text.push('\n'),
                    't' => text.push('\t'),
                    'r' => text.push('\r'),
                    'b' => text.push('\u{8}'),
                    'f' => text.push('\u{c}'),
                    'u' => {
                        let code: String = chars.by_ref().take(4).map(|(_, c)| c).collect();
                        let code = u32::from_str_radix(&code, 16).ok().and_then(char::from_u32);
                        text.push(code.unwrap_or(char::REPLACEMENT_CHARACTER));
                    }
                    other => text.push(other),
                },
                c => text.push(c),
            }
        }
        self.rest = "";
        None
    }

    /// A number, `true`, or whatever stands there without quotes. `None`: the text ends with it.
    fn bare(&mut self) -> Option<String> {
        let Some(end) = self.rest.find([',', '}', ']', ':', '{', '[', '\n']) else {
            self.rest = "";
            return None;
        };
        let (word, rest) = self.rest.split_at(end);
        // What can begin nothing here, such as a closing bracket that has no opening one, is stepped over.
        self.rest = if word.is_empty() { &rest[1..] } else { rest };
        Some(word.trim().to_owned())
    }
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
