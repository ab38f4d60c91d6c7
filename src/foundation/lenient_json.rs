//! JSON and what is printed for it, with the place of every value: dictionaries of Python, control characters inside strings,
//! bare words, keys that stand twice, commas before a closing bracket, and texts that break off. Nothing is copied.

use std::ops::Range;

/// Values may lie this deep in each other, as in `serde_json`.
const MAX_DEPTH: u32 = 128;

/// A value and its bytes in the text.
#[derive(Debug, Clone, PartialEq)]
pub struct Node<'a> {
    /// Its place, with its quotation marks or brackets.
    pub span: Range<usize>,
    /// What it is.
    pub value: Value<'a>,
}

/// A value as written.
#[derive(Debug, Clone, PartialEq)]
pub enum Value<'a> {
    /// What is between quotation marks; see [`unescaped`].
    Quoted(&'a str),
    /// A number, `true`, `None`, a call such as `tensor(0.5, device='cpu')`, or anything else without them.
    Word(&'a str),
    /// The keys and values of an object, in the order of the text.
    Object(Vec<(Node<'a>, Node<'a>)>),
    /// The items of a list.
    List(Vec<Node<'a>>),
}

/// Reads the value that begins at `from`. Of a text that breaks off, what was not read to its end is left out, but for objects
/// and lists that lie less than `kept_depth` deep in the outermost: they keep what was whole.
#[must_use]
pub fn read(text: &str, from: usize, kept_depth: u32) -> Option<Node<'_>> {
    let mut reader = Reader {
        text,
        at: from,
        depth: 0,
        kept_depth,
    };
    match reader.node() {
        Ok(node) => Some(node),
        Err(begun) => begun,
    }
}

/// The text between quotation marks without its escapes.
#[must_use]
pub fn unescaped(quoted: &str) -> String {
    let mut text = String::with_capacity(quoted.len());
    let mut chars = quoted.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some('n') => text.push('\n'),
                Some('t') => text.push('\t'),
                Some('r') => text.push('\r'),
                Some('b') => text.push('\u{8}'),
                Some('f') => text.push('\u{c}'),
                Some('u') => {
                    let code: String = chars.by_ref().take(4).collect();
                    let code = u32::from_str_radix(&code, 16).ok().and_then(char::from_u32);
                    text.push(code.unwrap_or(char::REPLACEMENT_CHARACTER));
                }
                other => text.extend(other),
            },
            c => text.push(c),
        }
    }
    text
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
    depth: u32,
    kept_depth: u32,
}

/// `Err`: the text broke off, with what was whole of the value by then.
type Whole<T> = Result<T, Option<T>>;

impl<'a> Reader<'a> {
    fn next(&mut self) -> Option<char> {
        let rest = &self.text[self.at..];
        self.at += rest.len() - rest.trim_start().len();
        self.text[self.at..].chars().next()
    }

    fn skip(&mut self, c: char) -> bool {
        let found = self.next() == Some(c);
        self.at += if found { c.len_utf8() } else { 0 };
        found
    }

    fn node(&mut self) -> Whole<Node<'a>> {
        let first = self.next();
        let from = self.at;
        let value = match first {
            None => Err(None),
            Some('{' | '[') if self.depth >= MAX_DEPTH => {
                self.at = self.text.len();
                Err(None)
            }
            Some('{') => self.nested(Self::object),
            Some('[') => self.nested(Self::list),
            Some(_) => self.scalar().ok_or(None),
        };
        let span = from..self.at;
        let node = |value| Node {
            span: span.clone(),
            value,
        };
        value.map(node).map_err(|begun| begun.map(node))
    }

    fn nested(&mut self, read: fn(&mut Self) -> Whole<Value<'a>>) -> Whole<Value<'a>> {
        self.at += 1;
        self.depth += 1;
        let value = read(self);
        self.depth -= 1;
        value
    }

    fn object(&mut self) -> Whole<Value<'a>> {
        let mut members = Vec::new();
        loop {
            while self.skip(',') {}
            if self.skip('}') {
                return Ok(Value::Object(members));
            }
            let begin = self.next().map(|_| self.at);
            let Some((from, key)) = begin.zip(self.scalar()) else {
                return Err(Some(Value::Object(members)));
            };
            let key = Node {
                span: from..self.at,
                value: key,
            };
            // What is no key is passed over, so that a lost bracket ends in a short answer and not in an endless one.
            if !self.skip(':') {
                continue;
            }
            match self.node() {
                Ok(value) => members.push((key, value)),
                Err(begun) => {
                    let kept = begun.filter(|_| self.depth <= self.kept_depth);
                    members.extend(kept.map(|begun| (key, begun)));
                    return Err(Some(Value::Object(members)));
                }
            }
        }
    }

    fn list(&mut self) -> Whole<Value<'a>> {
        let mut items = Vec::new();
        loop {
            while self.skip(',') {}
            if self.skip(']') {
                return Ok(Value::List(items));
            }
            match self.node() {
                Ok(item) => items.push(item),
                Err(_) => return Err(Some(Value::List(items))),
            }
        }
    }

    /// Text in quotation marks, or a bare word. `None`: the text ends with it.
    fn scalar(&mut self) -> Option<Value<'a>> {
        match self.next()? {
            mark @ ('"' | '\'') => self.quoted(mark).map(Value::Quoted),
            _ => self.word().map(Value::Word),
        }
    }

    fn quoted(&mut self, mark: char) -> Option<&'a str> {
        let inside = &self.text[self.at + 1..];
        let mut escaped = false;
        let end = inside.find(|c| {
            let found = c == mark && !escaped;
            escaped = c == '\\' && !escaped;
            found
        });
        self.at += end.map_or(inside.len() + 1, |end| end + 2);
        Some(&inside[..end?])
    }

    fn word(&mut self) -> Option<&'a str> {
        let rest = &self.text[self.at..];
        let ends = |c| matches!(c, ',' | '}' | ']' | ':' | '{' | '[' | '\n');
        // Commas inside a call end nothing.
        let call = rest.find(['(', ',', '}', ']', ':', '{', '[', '\n']);
        let call = call.and_then(|at| Some(at + closing(&rest[at..])?));
        let from = call.unwrap_or(0);
        let Some(end) = rest[from..].find(ends).map(|end| from + end) else {
            self.at = self.text.len();
            return None;
        };
        // What can begin nothing here, such as a closing bracket that has no opening one, is stepped over.
        self.at += end.max(1);
        Some(rest[..end].trim())
    }
}

/// Where the parentheses that `text` begins with are closed, in the same line.
fn closing(text: &str) -> Option<usize> {
    let (mut depth, mut mark) = (0_u32, None);
    for (at, byte) in text.bytes().enumerate() {
        match (mark, byte) {
            (_, b'\n') => return None,
            (Some(open), _) if byte == open => mark = None,
            (Some(_), _) => {}
            (None, b'"' | b'\'') => mark = Some(byte),
            (None, b'(') => depth += 1,
            (None, b')') if depth == 1 => return Some(at + 1),
            (None, b')') => depth -= 1,
            (None, _) if depth == 0 => return None,
            _ => {}
        }
    }
    None
}
