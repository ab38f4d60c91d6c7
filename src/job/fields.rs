//! Typed access to one TOML table that collects every fault instead of stopping at the first. The tables of the
//! configuration are read with it too.

use std::borrow::Cow;
use std::ops::{Range, RangeInclusive};

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::spec::Located;
use crate::foundation::diagnostic::{Problem, nearest};

/// Keys that a later version will know, with the feature they belong to: refused by name, never ignored.
pub(crate) type LaterKeys = &'static [(&'static str, &'static str)];

/// One table of the job file while it is read.
pub(crate) struct Fields<'a> {
    /// Its name with the dot behind it (`resources.`), empty at the top level.
    prefix: Cow<'static, str>,
    table: &'a DeTable<'a>,
    later: LaterKeys,
    asked: Vec<&'static str>,
    problems: &'a mut Vec<Problem>,
}

type Value<'a> = &'a Spanned<DeValue<'a>>;

impl<'a> Fields<'a> {
    pub(crate) fn new(
        prefix: impl Into<Cow<'static, str>>,
        table: &'a DeTable<'a>,
        later: LaterKeys,
        problems: &'a mut Vec<Problem>,
    ) -> Self {
        Self {
            prefix: prefix.into(),
            table,
            later,
            asked: Vec::new(),
            problems,
        }
    }

    /// What stands before its keys: `resources.`.
    pub(crate) fn prefix(&self) -> &str {
        &self.prefix
    }

    /// The value of `key`, which is thereby known.
    fn value(&mut self, key: &'static str) -> Option<Value<'a>> {
        self.asked.push(key);
        self.table.get(key)
    }

    /// The value of `key` as it stands there, for whoever reads it otherwise.
    pub(crate) fn raw(&mut self, key: &'static str) -> Option<&'a Spanned<DeValue<'a>>> {
        self.value(key)
    }

    /// Says whether the key stands in the table, faulty or not.
    pub(crate) fn holds(&self, key: &str) -> bool {
        self.table.contains_key(key)
    }

    /// Says whether the key holds a whole number.
    pub(super) fn is_number(&self, key: &str) -> bool {
        self.table
            .get(key)
            .is_some_and(|value| value.get_ref().is_integer())
    }

    /// Says whether the key holds a list.
    pub(crate) fn is_list(&self, key: &str) -> bool {
        self.table
            .get(key)
            .is_some_and(|value| value.get_ref().is_array())
    }

    /// Says whether the key holds a table.
    pub(super) fn is_table(&self, key: &str) -> bool {
        self.table
            .get(key)
            .is_some_and(|value| value.get_ref().is_table())
    }

    /// Says whether the key holds text.
    pub(crate) fn is_text(&self, key: &str) -> bool {
        self.table
            .get(key)
            .is_some_and(|value| value.get_ref().is_str())
    }

    /// Reports a fault.
    pub(crate) fn problem(&mut self, problem: Problem) {
        self.problems.push(problem);
    }

    fn wrong_type(&mut self, key: &str, value: Value<'a>, wanted: &str) {
        self.wrong_type_because(key, value, wanted, "");
    }

    fn wrong_type_because(&mut self, key: &str, value: Value<'a>, wanted: &str, why: &str) {
        let found = match value.get_ref().type_str() {
            "string" => "text",
            "integer" => "a whole number",
            "float" => "a number with a fraction",
            "boolean" => "true or false",
            "datetime" => "a date",
            "array" => "a list",
            _ => "a table",
        };
        let message = format!("`{}{key}` must be {wanted}, not {found}{why}", self.prefix);
        self.problem(Problem::at(value.span(), message));
    }

    /// Text without NUL.
    pub(crate) fn text(&mut self, key: &'static str) -> Option<Located<String>> {
        let value = self.value(key)?;
        self.text_of(key, value)
    }

    fn text_of(&mut self, key: &str, value: Value<'a>) -> Option<Located<String>> {
        let Some(text) = value.get_ref().as_str() else {
            self.wrong_type(key, value, "text in quotes");
            return None;
        };
        if text.contains('\0') {
            let message = format!("`{}{key}` must not contain a NUL character", self.prefix);
            self.problem(Problem::at(value.span(), message));
            return None;
        }
        Some(Located {
            value: text.to_owned(),
            span: value.span(),
        })
    }

    /// Text that `read` turns into a value; its error becomes the problem.
    pub(crate) fn parsed<T, E: std::fmt::Display>(
        &mut self,
        key: &'static str,
        read: impl Fn(&str) -> Result<T, E>,
    ) -> Option<Located<T>> {
        let value = self.value(key)?;
        // Of a number both faults are reported at once: the quotes and what it would lack in them.
        if let Some(number) = value.get_ref().as_integer()
            && let Err(why) = read(number.as_str())
        {
            self.wrong_type_because(key, value, "text in quotes", &format!(": {why}"));
            return None;
        }
        let text = self.text_of(key, value)?;
        match read(&text.value) {
            Ok(value) => Some(Located {
                value,
                span: text.span,
            }),
            Err(error) => {
                self.problem(Problem::at(
                    text.span,
                    format!("`{}{key}`: {error}", self.prefix),
                ));
                None
            }
        }
    }

    /// A word out of `words`; words that belong to a later version are refused by their feature.
    pub(crate) fn word<T>(
        &mut self,
        key: &'static str,
        words: &[(&'static str, T)],
        later: LaterKeys,
    ) -> Option<Located<T>>
    where
        T: Copy,
    {
        let text = self.text(key)?;
        if let Some((_, value)) = words.iter().find(|(word, _)| *word == text.value) {
            return Some(Located {
                value: *value,
                span: text.span,
            });
        }
        let name = format!("{}{key}", self.prefix);
        let problem = match later.iter().find(|(word, _)| *word == text.value) {
            Some((word, feature)) => Problem::at(
                text.span,
                format!("`{name} = \"{word}\"` is not in this version of dlrun: {feature}"),
            ),
            None => {
                let known = words
                    .iter()
                    .map(|(word, _)| format!("`{word}`"))
                    .collect::<Vec<_>>()
                    .join(", ");
                Problem::at(
                    text.span,
                    format!("`{name}` must be one of {known}, not `{}`", text.value),
                )
            }
        };
        let guess = nearest(&text.value, words.iter().map(|(word, _)| *word));
        self.problem(match guess {
            Some(guess) => problem.hinted(format!("did you mean `{guess}`?")),
            None => problem,
        });
        None
    }

    /// A whole number from `range`; underscores as TOML has them.
    pub(crate) fn number(&mut self, key: &'static str, range: Range<u64>) -> Option<Located<u64>> {
        let value = self.value(key)?;
        let Some(integer) = value.get_ref().as_integer() else {
            self.wrong_type(key, value, "a whole number");
            return None;
        };
        let number = u64::from_str_radix(integer.as_str(), integer.radix()).ok();
        if let Some(number) = number.filter(|number| range.contains(number)) {
            return Some(Located {
                value: number,
                span: value.span(),
            });
        }
        let (first, last) = (range.start, range.end - 1);
        let message = format!(
            "`{}{key}` must be from {first} to {last}, not {integer}",
            self.prefix
        );
        self.problem(Problem::at(value.span(), message));
        None
    }

    /// A number from `range`, with a fraction or without; underscores as TOML has them.
    pub(crate) fn decimal(
        &mut self,
        key: &'static str,
        range: RangeInclusive<f64>,
    ) -> Option<Located<f64>> {
        let value = self.value(key)?;
        let text = match value.get_ref() {
            DeValue::Float(float) => float.as_str(),
            DeValue::Integer(integer) if integer.radix() == 10 => integer.as_str(),
            _ => {
                self.wrong_type(key, value, "a number");
                return None;
            }
        };
        if let Some(number) = text.parse().ok().filter(|number| range.contains(number)) {
            return Some(Located {
                value: number,
                span: value.span(),
            });
        }
        let (first, last) = range.into_inner();
        let message = format!(
            "`{}{key}` must be from {first} to {last}, not {text}",
            self.prefix
        );
        self.problem(Problem::at(value.span(), message));
        None
    }

    /// A whole number that fits 32 bits, at least 1.
    pub(crate) fn count(&mut self, key: &'static str, limit: u32) -> Option<Located<u32>> {
        let number = self.number(key, 1..u64::from(limit) + 1)?;
        Some(Located {
            value: u32::try_from(number.value).ok()?,
            span: number.span,
        })
    }

    pub(crate) fn boolean(&mut self, key: &'static str) -> Option<bool> {
        let value = self.value(key)?;
        let boolean = value.get_ref().as_bool();
        if boolean.is_none() {
            self.wrong_type(key, value, "true or false");
        }
        boolean
    }

    /// A list of texts; `None` where the key is absent or faulty.
    pub(crate) fn texts(&mut self, key: &'static str) -> Option<Located<Vec<Located<String>>>> {
        let value = self.value(key)?;
        let Some(list) = value.get_ref().as_array() else {
            self.wrong_type(key, value, "a list of texts, such as [\"a\", \"b\"]");
            return None;
        };
        let item = |(at, item)| self.text_of(&format!("{key}[{at}]"), item);
        let items: Vec<_> = list.iter().enumerate().map(item).collect();
        let items: Option<Vec<_>> = items.into_iter().collect();
        Some(Located {
            value: items?,
            span: value.span(),
        })
    }

    /// A list whose items are texts or tables; `of_table` gives `None` where it has reported what is wrong.
    pub(crate) fn texts_or_tables<T>(
        &mut self,
        key: &'static str,
        of_text: impl Fn(&str) -> Result<T, String>,
        of_table: impl Fn(&mut Fields<'_>) -> Option<Result<T, String>>,
    ) -> Vec<Located<T>> {
        let Some(value) = self.value(key) else {
            return Vec::new();
        };
        let Some(list) = value.get_ref().as_array() else {
            self.wrong_type(key, value, "a list");
            return Vec::new();
        };
        let mut items = Vec::new();
        for (at, item) in list.iter().enumerate() {
            let name = format!("{key}[{at}]");
            let read = match item.get_ref().as_table() {
                Some(table) => {
                    let mut fields = Fields::new(
                        format!("{}{name}.", self.prefix),
                        table,
                        &[],
                        &mut *self.problems,
                    );
                    let read = of_table(&mut fields);
                    fields.finish();
                    read
                }
                None => self.text_of(&name, item).map(|text| of_text(&text.value)),
            };
            match read {
                Some(Ok(value)) => items.push(Located {
                    value,
                    span: item.span(),
                }),
                Some(Err(why)) => {
                    let message = format!("`{}{name}`: {why}", self.prefix);
                    self.problem(Problem::at(item.span(), message));
                }
                None => {}
            }
        }
        items
    }

    /// A list of lists of texts.
    pub(crate) fn lists_of_texts(
        &mut self,
        key: &'static str,
    ) -> Option<Vec<Located<Vec<Located<String>>>>> {
        let value = self.value(key)?;
        let lists: Option<Vec<_>> = value.get_ref().as_array().and_then(|lists| {
            lists
                .iter()
                .map(|list| Some((list.get_ref().as_array()?, list.span())))
                .collect()
        });
        let Some(lists) = lists else {
            self.wrong_type(
                key,
                value,
                "a list of lists, such as [[\"mkdir\", \"-p\", \"a\"]]",
            );
            return None;
        };
        let mut read = Vec::new();
        for (at, (list, span)) in lists.into_iter().enumerate() {
            let item = |item| self.text_of(&format!("{key}[{at}]"), item);
            let items: Vec<_> = list.iter().map(item).collect();
            let items: Option<Vec<_>> = items.into_iter().collect();
            read.extend(items.map(|value| Located { value, span }));
        }
        Some(read)
    }

    /// A table of texts: names with their spans, and values.
    pub(crate) fn text_table(&mut self, key: &'static str) -> Vec<(Located<String>, String)> {
        let Some(value) = self.value(key) else {
            return Vec::new();
        };
        let Some(table) = value.get_ref().as_table() else {
            self.wrong_type(key, value, "a table, such as { NAME = \"value\" }");
            return Vec::new();
        };
        let mut entries = Vec::new();
        for (name, value) in table {
            let located = Located {
                value: name.get_ref().to_string(),
                span: name.span(),
            };
            if let Some(text) = self.text_of(&format!("{key}.{}", located.value), value) {
                entries.push((located, text.value));
            }
        }
        // In the order of the file, not of the alphabet: a reader looks for what was written.
        entries.sort_by_key(|(name, _)| name.span.start);
        entries
    }

    /// A sub-table of this table.
    pub(crate) fn table(&mut self, key: &'static str) -> Option<Located<&'a DeTable<'a>>> {
        let value = self.value(key)?;
        let table = value.get_ref().as_table();
        if table.is_none() {
            self.wrong_type(key, value, &format!("a table, written [{key}]"));
        }
        Some(Located {
            value: table?,
            span: value.span(),
        })
    }

    /// A table within this one, to be read and finished as this one, and where it stands.
    pub(super) fn nested(&mut self, key: &'static str) -> Option<(Fields<'_>, Range<usize>)> {
        let table = self.table(key)?;
        let prefix = format!("{}{key}.", self.prefix);
        Some((
            Fields::new(prefix, table.value, &[], &mut *self.problems),
            table.span,
        ))
    }

    /// Reports every key that nobody asked for.
    pub(crate) fn finish(self) {
        for (key, _) in self.table {
            let name: &str = key.get_ref();
            if self.asked.contains(&name) {
                continue;
            }
            let shown = format!("{}{name}", self.prefix);
            let problem = match self.later.iter().find(|(later, _)| *later == name) {
                Some((_, feature)) => Problem::at(
                    key.span(),
                    format!("`{shown}` is not in this version of dlrun: {feature}"),
                )
                .hinted("take the line out; it is refused because it would have no effect"),
                None => {
                    let known = self
                        .asked
                        .iter()
                        .copied()
                        .chain(self.later.iter().map(|(later, _)| *later));
                    let problem = Problem::at(key.span(), format!("unknown key `{shown}`"));
                    if let Some((_, hint)) = ELSEWHERE.iter().find(|(table, _)| *table == shown) {
                        self.problems.push(problem.hinted(*hint));
                        continue;
                    }
                    match synonym(name, &self.asked).or_else(|| nearest(name, known)) {
                        Some(guess) => problem.hinted(format!("did you mean `{guess}`?")),
                        None => problem.hinted(format!("known here: {}", self.asked.join(", "))),
                    }
                }
            };
            self.problems.push(problem);
        }
    }
}

/// Tables that others have, and what to write.
const ELSEWHERE: [(&str, &str); 5] = [
    (
        "slurm",
        "options of Slurm are keys of `[resources]`, such as `queue`; others go into `scheduler.directives`",
    ),
    (
        "pbs",
        "options of PBS are keys of `[resources]`, such as `queue`; others go into `scheduler.directives`",
    ),
    ("container", "write `[image]`"),
    ("environment", "write `env` under `[run]`"),
    ("bench", "this is a matrix: `dlrun bench run FILE` runs it"),
];

/// What other programs call our keys: Slurm's options, PBS's resources.
const SYNONYMS: [(&str, &str); 20] = [
    ("time", "walltime"),
    ("timelimit", "walltime"),
    ("partition", "queue"),
    ("mem", "memory"),
    ("cpus", "cpus_per_task"),
    ("ncpus", "cpus_per_task"),
    ("gpus", "gpus_per_node"),
    ("gres", "gpus_per_node"),
    ("ntasks", "tasks"),
    ("ppn", "tasks_per_node"),
    ("nodefile", "nodelist"),
    ("environment", "env"),
    ("cmd", "command"),
    ("chdir", "workdir"),
    ("dependency", "depends"),
    ("depend", "depends"),
    ("mem_per_cpu", "memory_per_cpu"),
    ("pmem", "memory_per_cpu"),
    ("licences", "licenses"),
    ("export", "inherit"),
];

fn synonym(name: &str, known: &[&'static str]) -> Option<&'static str> {
    let name = name.replace('-', "_");
    let found = SYNONYMS
        .iter()
        .find(|(other, ours)| *other == name && known.contains(ours));
    found.map(|(_, ours)| *ours)
}
