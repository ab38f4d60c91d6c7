//! The job file while it is put together.

use std::ops::Range;

use super::form::Form;
use super::write::{self, Value};
use super::{Converted, Format};
use crate::foundation::diagnostic::{Problem, printable};
use crate::job;

/// Notes longer than this are cut: they may quote the description.
const MAX_NOTE: usize = 400;

/// What must be known of a conversion.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// The key or option of the description, such as `job_options.queue` or `--mem`.
    pub about: String,
    /// What became of it.
    pub message: String,
    /// Where it is in the description.
    pub span: Option<Range<usize>>,
    /// True where the job file asks for less than the description: such a job must not be submitted as it is.
    pub is_refusal: bool,
}

/// Where a value comes from: its name and place in the description.
#[derive(Debug, Clone)]
pub(super) struct Origin {
    pub(super) about: String,
    pub(super) span: Option<Range<usize>>,
}

impl Origin {
    pub(super) fn new(about: impl Into<String>, span: Range<usize>) -> Self {
        let span = Some(span);
        Self {
            span,
            ..Self::named(about)
        }
    }

    /// A value of which the name is enough.
    pub(super) fn named(about: impl Into<String>) -> Self {
        let about = about.into();
        Self { about, span: None }
    }
}

/// Keys, comments and notes so far.
#[derive(Debug, Default)]
pub(super) struct Draft {
    entries: Vec<(&'static str, Value)>,
    notes: Vec<Note>,
}

impl Draft {
    /// Sets a key of the job file, such as `resources.nodes`, if the job file's reader takes the value; else the
    /// refusal is noted. A later value replaces an earlier one.
    pub(super) fn set(&mut self, key: &'static str, value: impl Into<Value>, origin: &Origin) {
        self.try_set(key, value, origin);
    }

    /// As [`Draft::set`], and says whether it did.
    pub(super) fn try_set(
        &mut self,
        key: &'static str,
        value: impl Into<Value>,
        origin: &Origin,
    ) -> bool {
        let value = value.into();
        if let Err(why) = accepted(key, &value) {
            self.refuse(origin, why);
            return false;
        }
        self.remove(key);
        self.entries.push((key, value));
        true
    }

    /// Sets a key to what a text says in this form, or notes that it does not.
    pub(super) fn set_text(&mut self, key: &'static str, form: Form, text: &str, origin: &Origin) {
        match form.value(text) {
            Some(value) => self.set(key, value, origin),
            None => self.refuse(origin, format!("`{text}` cannot be written as `{key}`")),
        }
    }

    /// Says whether the job file's reader would take the value.
    pub(super) fn takes(key: &'static str, value: &Value) -> bool {
        accepted(key, value).is_ok()
    }

    pub(super) fn get(&self, key: &str) -> Option<&Value> {
        let (_, value) = self.entries.iter().find(|(known, _)| *known == key)?;
        Some(value)
    }

    /// The number that a key has.
    pub(super) fn number(&self, key: &str) -> Option<u32> {
        match self.get(key)? {
            Value::Number(number) => u32::try_from(*number).ok(),
            _ => None,
        }
    }

    pub(super) fn holds(&self, key: &str) -> bool {
        self.get(key).is_some()
    }

    pub(super) fn remove(&mut self, key: &str) {
        self.entries.retain(|(known, _)| *known != key);
    }

    /// Adds an item to a list of the job file.
    pub(super) fn push(&mut self, key: &'static str, item: impl Into<String>, origin: &Origin) {
        let mut items = match self.get(key) {
            Some(Value::Texts(items)) => items.clone(),
            _ => Vec::new(),
        };
        items.push(item.into());
        self.set(key, items, origin);
    }

    /// Adds a pair to a table of the job file; a later value of the same name replaces an earlier one.
    pub(super) fn insert(
        &mut self,
        key: &'static str,
        name: &str,
        value: impl Into<Value>,
        origin: &Origin,
    ) {
        let mut pairs = match self.get(key) {
            Some(Value::Table(pairs)) => pairs.clone(),
            _ => Vec::new(),
        };
        pairs.retain(|(known, _)| known != name);
        pairs.push((name.to_owned(), value.into()));
        self.set(key, pairs, origin);
    }

    /// Notes what became of a part of the description that has no line in the job file.
    pub(super) fn note(&mut self, origin: &Origin, message: impl Into<String>) {
        self.add_note(origin, message.into(), false);
    }

    /// Notes that something asked for cannot be written.
    pub(super) fn refuse(&mut self, origin: &Origin, message: impl Into<String>) {
        self.add_note(origin, message.into(), true);
    }

    fn add_note(&mut self, origin: &Origin, message: String, is_refusal: bool) {
        let one_line = |text: &str| {
            let text = printable(text).replace(['\n', '\t'], " ");
            let cut = text.char_indices().nth(MAX_NOTE).map(|(at, _)| at);
            cut.map_or(text.clone(), |at| format!("{}..", &text[..at]))
        };
        self.notes.push(Note {
            about: one_line(&origin.about),
            message: one_line(&message),
            span: origin.span.clone(),
            is_refusal,
        });
    }

    /// Writes the job file. `title` is its first line.
    pub(super) fn finish(
        mut self,
        format: Format,
        title: &'static str,
    ) -> Result<Converted, Vec<Problem>> {
        let job_file = write::job_file(title, &self.entries);
        self.notes
            .sort_by_key(|note| note.span.as_ref().map_or(0, |span| span.start));
        // A fault of the job file has no place in the description.
        let unplaced = |fault: Problem| Problem {
            span: None,
            ..fault
        };
        match job::parse(&job_file) {
            Ok(_) => Ok(Converted {
                format,
                job_file,
                notes: self.notes,
            }),
            Err(faults) => Err(faults.into_iter().map(unplaced).collect()),
        }
    }
}

/// Whether the reader takes `key = value`, in a job file that has no other fault.
fn accepted(key: &'static str, value: &Value) -> Result<(), String> {
    let mut entries = vec![(key, value.clone())];
    if !matches!(key, "run.command" | "run.script") {
        entries.push(("run.command", vec!["true".to_owned()].into()));
    }
    if key.starts_with("build.") && key != "build.source" {
        entries.push(("build.source", "x".into()));
    }
    let prefix = format!("`{key}`: ");
    job::parse(&write::job_file("", &entries)).map_err(|faults| {
        let why = faults.into_iter().next().map(|fault| fault.message);
        let why = why.unwrap_or_default();
        why.strip_prefix(&prefix).unwrap_or(&why).to_owned()
    })?;
    Ok(())
}
