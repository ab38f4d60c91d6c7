//! The one reader of TOML: typed access to a table that collects every fault, each with its place, instead of stopping
//! at the first.

use std::ops::{Range, RangeInclusive};

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::diagnostic::{Problem, nearest};

/// A value and where it is in its file, so that a later check can point at it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Located<T> {
    /// The value.
    pub value: T,
    /// Byte range in the file.
    pub span: Range<usize>,
}

/// What to write in place of an unknown key: gets its name and the known keys of its table.
pub(crate) type Advice = fn(&str, &[&'static str]) -> Option<String>;

type Value<'a> = Spanned<DeValue<'a>>;

/// Parses a TOML text.
///
/// # Errors
/// The first fault of the syntax: after it all is guesswork.
pub(crate) fn parse_document(text: &str) -> Result<DeTable<'_>, Problem> {
    let (document, faults) = DeTable::parse_recoverable(text);
    let start = |fault: &&toml::de::Error| fault.span().map_or(0, |span| span.start);
    match faults.iter().min_by_key(start) {
        Some(first) => Err(syntax_problem(first)),
        None => Ok(document.into_inner()),
    }
}

/// A basic string (TOML 1.0, "String"). JSON's escapes are TOML's, but for DEL, which JSON takes as it is.
pub(crate) fn basic_string(text: &str) -> String {
    let quoted = serde_json::Value::from(text).to_string();
    quoted.replace('\u{7f}', "\\u007F")
}

/// A key as it is where TOML allows it, else in quotes.
pub(crate) fn key_text(key: &str) -> String {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"_-".contains(&byte);
    if !key.is_empty() && key.bytes().all(allowed) {
        key.to_owned()
    } else {
        basic_string(key)
    }
}

/// An error of the `toml` crate, on one line.
pub(crate) fn syntax_problem(error: &toml::de::Error) -> Problem {
    Problem {
        span: error.span(),
        message: error.message().trim().replace('\n', "; "),
        hint: None,
    }
}

/// One table while it is read.
pub(crate) struct Fields<'a> {
    /// Its name with a dot behind it (`resources.`), empty at the top level.
    prefix: String,
    table: &'a DeTable<'a>,
    span: Range<usize>,
    asked: Vec<&'static str>,
    advice: Option<Advice>,

    problems: &'a mut Vec<Problem>,
}

impl<'a> Fields<'a> {
    /// The top level of a document.
    pub(crate) fn of_document(table: &'a DeTable<'a>, problems: &'a mut Vec<Problem>) -> Self {
        Self {
            prefix: String::new(),
            table,
            span: 0..0,
            asked: Vec::new(),
            advice: None,

            problems,
        }
    }

    /// Adds advice on unknown keys of this table and of those in it.
    pub(crate) fn advised(mut self, advice: Advice) -> Self {
        self.advice = Some(advice);
        self
    }

    /// Its name with a dot behind it: `resources.`.
    pub(crate) fn prefix(&self) -> &str {
        &self.prefix
    }

    /// The value of `key`, which is thereby known.
    pub(crate) fn raw(&mut self, key: &'static str) -> Option<&'a Value<'a>> {
        if !self.asked.contains(&key) {
            self.asked.push(key);
        }
        self.table.get(key)
    }

    /// Says whether the table has the key, faulty or not.
    pub(crate) fn holds(&self, key: &str) -> bool {
        self.table.contains_key(key)
    }

    /// TOML's name of the type of a key's value, such as `array`; empty where the key is absent.
    pub(crate) fn type_of(&self, key: &str) -> &'static str {
        self.table
            .get(key)
            .map_or("", |value| value.get_ref().type_str())
    }

    /// Where the value of `key` is; the table itself where the key is absent.
    pub(crate) fn span(&self, key: &str) -> Range<usize> {
        self.table
            .get(key)
            .map_or_else(|| self.span.clone(), Spanned::span)
    }

    /// The byte ranges of the values of those `keys` that the table has.
    pub(crate) fn spans<'k>(
        &self,
        keys: impl IntoIterator<Item = &'k str>,
    ) -> impl Iterator<Item = (&'k str, Range<usize>)> {
        keys.into_iter()
            .filter_map(|key| Some((key, self.table.get(key)?.span())))
    }

    /// Reports a fault.
    pub(crate) fn problem(&mut self, problem: Problem) {
        self.problems.push(problem);
    }

    /// Reports a fault of a key's value.
    pub(crate) fn fault(&mut self, key: &str, message: impl Into<String>) {
        self.problem(Problem::at(self.span(key), message));
    }

    /// Reports each of `keys` that the table lacks; `who` begins the sentence.
    pub(crate) fn require(&mut self, keys: &[&str], who: &str) {
        for key in keys.iter().filter(|key| !self.table.contains_key(**key)) {
            let message = format!("{who} needs `{key}`");
            self.problems.push(Problem::at(self.span.clone(), message));
        }
    }

    pub(crate) fn wrong_type<T>(
        &mut self,
        key: &str,
        value: &Value<'_>,
        wanted: &str,
    ) -> Option<T> {
        let found = match value.get_ref().type_str() {
            "string" => "text",
            "integer" => "a whole number",
            "float" => "a number with a fraction",
            "boolean" => "true or false",
            "datetime" => "a date",
            "array" => "a list",
            _ => "a table",
        };
        let message = format!("`{}{key}` must be {wanted}, not {found}", self.prefix);
        self.problem(Problem::at(value.span(), message));
        None
    }

    /// Text without NUL.
    pub(crate) fn text(&mut self, key: &'static str) -> Option<String> {
        let value = self.raw(key)?;
        self.text_of(key, value)
    }

    /// The text of an item of `key`.
    pub(crate) fn text_of(&mut self, key: &str, value: &Value<'_>) -> Option<String> {
        match value.get_ref().as_str() {
            None => self.wrong_type(key, value, "text in quotes"),
            Some(text) if text.contains('\0') => {
                let message = format!("`{}{key}` must not contain a NUL character", self.prefix);
                self.problem(Problem::at(value.span(), message));
                None
            }
            Some(text) => Some(text.to_owned()),
        }
    }

    /// Text that `read` turns into a value; its error becomes the problem.
    pub(crate) fn parsed<T, E: std::fmt::Display>(
        &mut self,
        key: &'static str,
        read: impl Fn(&str) -> Result<T, E>,
    ) -> Option<T> {
        let value = self.raw(key)?;
        // Of a number both faults are reported at once: the quotes and what it would lack in them.
        if let Some(number) = value.get_ref().as_integer()
            && let Err(why) = read(number.as_str())
        {
            let prefix = &self.prefix;
            let message =
                format!("`{prefix}{key}` must be text in quotes, not a whole number: {why}");
            self.problem(Problem::at(value.span(), message));
            return None;
        }
        let text = self.text_of(key, value)?;
        self.checked(key, value, read(&text))
    }

    fn checked<T, E: std::fmt::Display>(
        &mut self,
        key: &str,
        value: &Value<'_>,
        read: Result<T, E>,
    ) -> Option<T> {
        read.map_err(|why| {
            let message = format!("`{}{key}`: {why}", self.prefix);
            self.problem(Problem::at(value.span(), message));
        })
        .ok()
    }

    /// A word out of `words`.
    pub(crate) fn word<T: Copy>(
        &mut self,
        key: &'static str,
        words: &[(&'static str, T)],
    ) -> Option<T> {
        let value = self.raw(key)?;
        let known: Vec<String> = words.iter().map(|(word, _)| format!("`{word}`")).collect();
        if value.get_ref().as_str().is_none() {
            let wanted = format!("one of {}, in quotes", known.join(", "));
            return self.wrong_type(key, value, &wanted);
        }
        let text = self.text_of(key, value)?;
        if let Some((_, value)) = words.iter().find(|(word, _)| *word == text) {
            return Some(*value);
        }
        let (prefix, known) = (&self.prefix, known.join(", "));
        let message = format!("`{prefix}{key}` must be one of {known}, not `{text}`");
        let guess = nearest(&text, words.iter().map(|(word, _)| *word));
        self.problem(Problem::at(self.span(key), message).did_you_mean(guess));
        None
    }

    /// A whole number from `range`; underscores as TOML has them.
    pub(crate) fn number(&mut self, key: &'static str, range: RangeInclusive<u64>) -> Option<u64> {
        let value = self.raw(key)?;
        let Some(integer) = value.get_ref().as_integer() else {
            return self.wrong_type(key, value, "a whole number");
        };
        let number = u64::from_str_radix(integer.as_str(), integer.radix()).ok();
        self.within(key, number, &range, integer)
    }

    /// As [`Fields::number`], also as a whole float such as `4e9`.
    pub(crate) fn large_number(
        &mut self,
        key: &'static str,
        range: RangeInclusive<u64>,
    ) -> Option<u64> {
        let float = self.raw(key)?.get_ref().as_float();
        let number = float.and_then(|float| float.as_str().parse::<f64>().ok());
        match number.filter(|number| number.fract() == 0.0 && *number >= 0.0) {
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "what is too large becomes the largest number, which no range has"
            )]
            Some(number) => self.within(key, Some(number as u64), &range, number),
            None => self.number(key, range),
        }
    }

    fn within<T: PartialOrd + std::fmt::Display>(
        &mut self,
        key: &str,
        number: Option<T>,
        range: &RangeInclusive<T>,
        written: impl std::fmt::Display,
    ) -> Option<T> {
        number.filter(|number| range.contains(number)).or_else(|| {
            let (prefix, first, last) = (&self.prefix, range.start(), range.end());
            let message = format!("`{prefix}{key}` must be from {first} to {last}, not {written}");
            let problem = Problem::at(self.span(key), message);
            self.problem(match written.to_string() == "0" {
                true => problem.hinted("leave the line out for the default"),
                false => problem,
            });
            None
        })
    }

    /// A number from `range`, with a fraction or without; underscores as TOML has them.
    pub(crate) fn decimal(&mut self, key: &'static str, range: RangeInclusive<f64>) -> Option<f64> {
        let value = self.raw(key)?;
        let text = match value.get_ref() {
            DeValue::Float(float) => float.as_str(),
            DeValue::Integer(integer) if integer.radix() == 10 => integer.as_str(),
            _ => return self.wrong_type(key, value, "a number"),
        };
        self.within(key, text.parse().ok(), &range, text)
    }

    /// A whole number that fits 32 bits, at least 1.
    pub(crate) fn count(&mut self, key: &'static str, limit: u32) -> Option<u32> {
        let number = self.number(key, 1..=limit.into())?;
        u32::try_from(number).ok()
    }

    pub(crate) fn boolean(&mut self, key: &'static str) -> Option<bool> {
        let value = self.raw(key)?;
        let boolean = value.get_ref().as_bool();
        boolean.or_else(|| self.wrong_type(key, value, "true or false"))
    }

    /// The items of a list; `wanted` says what the list must be.
    pub(crate) fn items(&mut self, key: &'static str, wanted: &str) -> Option<&'a [Value<'a>]> {
        let value = self.raw(key)?;
        match value.get_ref().as_array() {
            Some(items) => Some(items),
            None => self.wrong_type(key, value, wanted),
        }
    }

    /// A list of texts, each turned into a value; items with a fault are reported and left out. `None` where the key is
    /// absent or no list.
    pub(crate) fn list<T, E: std::fmt::Display>(
        &mut self,
        key: &'static str,
        read: impl Fn(&str) -> Result<T, E>,
    ) -> Option<Vec<Located<T>>> {
        let items = self.items(key, "a list of texts, such as [\"a\", \"b\"]")?;
        let mut list = Vec::new();
        for (at, item) in items.iter().enumerate() {
            let text = self.text_of(&format!("{key}[{at}]"), item);
            let read = text.and_then(|text| self.checked(key, item, read(&text)));
            list.extend(read.map(|value| Located {
                value,
                span: item.span(),
            }));
        }
        Some(list)
    }

    /// A list of texts.
    pub(crate) fn texts(&mut self, key: &'static str) -> Option<Vec<String>> {
        let texts = self.list(key, |text| Ok::<_, String>(text.to_owned()))?;
        Some(texts.into_iter().map(|text| text.value).collect())
    }

    /// A list whose items are texts or tables; `of_table` gives `None` where it has reported what is wrong.
    pub(crate) fn texts_or_tables<T>(
        &mut self,
        key: &'static str,
        of_text: impl Fn(&str) -> Result<T, String>,
        of_table: impl Fn(&mut Fields<'_>) -> Option<Result<T, String>>,
    ) -> Option<Vec<Located<T>>> {
        let mut list = Vec::new();
        for (at, item) in self.items(key, "a list")?.iter().enumerate() {
            let name = format!("{key}[{at}]");
            let read = match item.get_ref().as_table() {
                Some(table) => self.inner(&name, table, item.span(), &of_table),
                None => self.text_of(&name, item).map(|text| of_text(&text)),
            };
            let read = read.and_then(|read| self.checked(&name, item, read));
            list.extend(read.map(|value| Located {
                value,
                span: item.span(),
            }));
        }
        Some(list)
    }

    /// Hands each entry of the table of `key` to `read`, in the order of the file.
    pub(crate) fn table_entries(
        &mut self,
        key: &'static str,
        mut read: impl FnMut(&mut Self, Located<String>, &Value<'_>),
    ) -> Option<()> {
        let mut entries: Vec<_> = self.raw_table(key)?.iter().collect();
        // A reader looks for what was written, not for the alphabet.
        entries.sort_by_key(|(name, _)| name.span().start);
        for (name, value) in entries {
            let (span, name) = (name.span(), name.get_ref().to_string());
            read(self, Located { value: name, span }, value);
        }
        Some(())
    }

    /// A table of texts: names with their spans, and values.
    pub(crate) fn text_table(&mut self, key: &'static str) -> Vec<(Located<String>, String)> {
        let mut entries = Vec::new();
        let _ = self.table_entries(key, |fields, name, value| {
            let text = fields.text_of(&format!("{key}.{}", name.value), value);
            entries.extend(text.map(|text| (name, text)));
        });
        entries
    }

    fn inner<T>(
        &mut self,
        name: &str,
        table: &DeTable<'_>,
        span: Range<usize>,
        read: impl FnOnce(&mut Fields<'_>) -> T,
    ) -> T {
        let mut fields = Fields {
            prefix: format!("{}{name}.", self.prefix),
            table,
            span,
            asked: Vec::new(),
            advice: self.advice,

            problems: &mut *self.problems,
        };
        let value = read(&mut fields);
        fields.finish();
        value
    }

    /// The table of `key` as it is, for somebody else to read.
    pub(crate) fn raw_table(&mut self, key: &'static str) -> Option<&'a DeTable<'a>> {
        let value = self.raw(key)?;
        match value.get_ref().as_table() {
            Some(table) => Some(table),
            None => self.wrong_type(key, value, &format!("a table, written [{key}]")),
        }
    }

    /// Reads the table of `key` with `read`.
    pub(crate) fn table<T>(
        &mut self,
        key: &'static str,
        read: impl FnOnce(&mut Fields<'_>) -> T,
    ) -> Option<T> {
        let table = self.raw_table(key)?;
        Some(self.inner(key, table, self.span(key), read))
    }

    /// Reads the tables of a list, written `[[key]]`. Those with a fault are left out. Problems name a table by its number
    /// in the list where it `is_numbered`.
    pub(crate) fn tables<T>(
        &mut self,
        key: &'static str,
        is_numbered: bool,
        mut read: impl FnMut(&mut Fields<'_>) -> Option<T>,
    ) -> Vec<T> {
        let written =
            |value: &Value<'_>| Problem::at(value.span(), format!("`{key}` is written [[{key}]]"));
        let Some(value) = self.raw(key) else {
            return Vec::new();
        };
        let Some(items) = value.get_ref().as_array() else {
            self.problem(written(value));
            return Vec::new();
        };
        let mut tables = Vec::new();
        for (at, item) in items.iter().enumerate() {
            let before = self.problems.len();
            let name = match is_numbered {
                true => format!("{key}[{at}]"),
                false => key.to_owned(),
            };
            let read = match item.get_ref().as_table() {
                Some(table) => self.inner(&name, table, item.span(), &mut read),
                None => {
                    self.problem(written(item));
                    None
                }
            };
            tables.extend(read.filter(|_| self.problems.len() == before));
        }
        tables
    }

    /// Reads the tables in the table of `key`, written `[key.NAME]`, in the order of the file. Those of whose name `check`
    /// complains are left out.
    pub(crate) fn named_tables<T>(
        &mut self,
        key: &'static str,
        check: impl Fn(&str) -> Result<String, String>,
        mut read: impl FnMut(&str, &mut Fields<'_>) -> T,
    ) -> Vec<T> {
        let mut tables = Vec::new();
        let _ = self.table_entries(key, |fields, name, value| {
            let whole = format!("{key}.{}", name.value);
            if let Err(why) = check(&name.value) {
                let message = format!("`{}{key}`: {why}", fields.prefix);
                fields.problem(Problem::at(name.span, message));
            } else if let Some(table) = value.get_ref().as_table() {
                let inner = |fields: &mut Fields<'_>| read(&name.value, fields);
                tables.push(fields.inner(&whole, table, name.span, inner));
            } else {
                let wanted = format!("a table, written [{whole}]");
                let _: Option<()> = fields.wrong_type(&whole, value, &wanted);
            }
        });
        tables
    }

    /// Where the table is.
    pub(crate) fn own_span(&self) -> Range<usize> {
        self.span.clone()
    }

    /// Reads the version of a file's form, 1 where it has none. A file of a later form is not read at all: what it says
    /// may mean something else.
    pub(crate) fn has_format(&mut self, format: u64) -> bool {
        if !self.holds("format") {
            return true;
        }
        let found = self.number("format", 1..=u32::MAX.into());
        let (span, message) = match found {
            Some(later) if later > format => (
                self.span("format"),
                format!("`format = {later}` is not in this version of dlrun"),
            ),
            _ => return found.is_some(),
        };
        let hint = format!("the file was made for a newer dlrun; this one reads format {format}");
        self.problem(Problem::at(span, message).hinted(hint));
        false
    }

    /// Reports every key that nobody asked for.
    pub(crate) fn finish(self) {
        for (key, _) in self.table {
            let name: &str = key.get_ref();
            if self.asked.contains(&name) {
                continue;
            }
            let shown = format!("{}{name}", self.prefix);
            let problem = Problem::at(key.span(), format!("unknown key `{shown}`"));
            let advice = self.advice.and_then(|advice| advice(name, &self.asked));
            let guess = || {
                let guess = nearest(name, self.asked.iter().copied())?;
                Some(format!("did you mean `{guess}`?"))
            };
            let known = || format!("known here: {}", self.asked.join(", "));
            self.problems
                .push(problem.hinted(advice.or_else(guess).unwrap_or_else(known)));
        }
    }
}
