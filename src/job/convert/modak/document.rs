//! MODAK's JSON as values, each with its path: `job_options.queue`.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::foundation::diagnostic::{Problem, nearest};
use crate::job::convert::draft::{Draft, Origin};

/// Parts of paths of older files, and what the specification calls them.
const OLD_NAMES: [(&str, &str); 10] = [
    ("optimization", "optimisation"),
    ("ai_training", "app_type-ai_training"),
    ("hpc", "app_type-hpc"),
    ("ai_inference", "app_type-ai_inference"),
    ("big_data", "app_type-big_data"),
    ("tensorflow", "ai_framework-tensorflow"),
    ("pytorch", "ai_framework-pytorch"),
    ("keras", "ai_framework-keras"),
    ("cntk", "ai_framework-cntk"),
    ("mxnet", "ai_framework-mxnet"),
];

/// What a description without `job` around it begins with.
const PARTS: [&str; 5] = [
    "job_options",
    "target",
    "application",
    "optimisation",
    "optimization",
];

/// The values of a description. Those that nobody asks for are noted in the end.
pub(super) struct Document {
    /// What is neither empty nor an object, by its path in the specification's names, without the outermost `job`.
    values: BTreeMap<String, Value>,
    asked: BTreeSet<String>,
    /// The job file that is made of it.
    pub(super) draft: Draft,
}

impl Document {
    /// Reads a document. One that begins with a key has lost its outer braces, as two of MODAK's own examples have.
    ///
    /// # Errors
    /// Where it is not valid JSON, or not a description of a job.
    pub(super) fn parse(text: &str) -> Result<Self, Problem> {
        let text = text.trim_start_matches('\u{feff}').trim_start();
        let braced = text.starts_with('"').then(|| format!("{{{text}}}"));
        let root: Value = serde_json::from_str(braced.as_deref().unwrap_or(text))
            .map_err(|error| Problem::of_file(format!("not valid JSON: {error}")))?;
        let is_description = match root.get("job") {
            Some(job) => job.as_object().is_some_and(|job| !job.is_empty()),
            // An entry of MODAK's image catalogue has parts of the same names.
            None => {
                PARTS.iter().any(|part| root.get(part).is_some())
                    && root.get("container_file").is_none()
            }
        };
        if !is_description {
            let what = "this JSON is not a job description of MODAK: it has neither an object `job` nor `application`";
            return Err(Problem::of_file(what));
        }
        let mut values = BTreeMap::new();
        flatten("", root, &mut values);
        Ok(Self {
            values,
            asked: BTreeSet::new(),
            draft: Draft::default(),
        })
    }

    /// Text as it is; a number or a flag as JSON writes it.
    pub(super) fn raw_text(&mut self, path: &str) -> Option<(String, Origin)> {
        self.asked.insert(path.to_owned());
        let origin = Origin::named(path);
        match self.values.get(path)? {
            Value::String(text) => Some((text.clone(), origin)),
            Value::Array(_) => {
                self.draft.refuse(&origin, "is not text");
                None
            }
            value => Some((value.to_string(), origin)),
        }
    }

    /// Text without the blanks around it.
    pub(super) fn text(&mut self, path: &str) -> Option<(String, Origin)> {
        let (text, origin) = self.raw_text(path)?;
        Some((text.trim().to_owned(), origin))
    }

    /// One word in small letters. A list of them, as `x86/arm/amd/power`, is the specification's sheet, not a job.
    pub(super) fn word(&mut self, path: &str) -> Option<(String, Origin)> {
        let (word, origin) = self.text(path)?;
        if word.contains('/') {
            let what = format!("`{word}` are the specification's alternatives; write one of them");
            self.draft.refuse(&origin, what);
            return None;
        }
        Some((word.to_ascii_lowercase(), origin))
    }

    /// A whole number from 1; in quotes too.
    pub(super) fn count(&mut self, path: &str) -> Option<(u32, Origin)> {
        let (text, origin) = self.text(path)?;
        let number = text.strip_suffix(".0").unwrap_or(&text).parse().ok();
        let number = number.filter(|number| *number > 0);
        if number.is_none() {
            let what = format!("`{text}` is not a number that this can be");
            self.draft.refuse(&origin, what);
        }
        Some((number?, origin))
    }

    /// True or false; in quotes too.
    pub(super) fn flag(&mut self, path: &str) -> Option<(bool, Origin)> {
        let (text, origin) = self.text(path)?;
        let flag = text.to_ascii_lowercase().parse().ok();
        if flag.is_none() {
            self.draft.refuse(&origin, "is neither true nor false");
        }
        Some((flag?, origin))
    }

    /// Whether there is a value of that name, or one below it.
    pub(super) fn holds(&self, path: &str) -> bool {
        self.values.keys().any(|known| is_within(known, path))
    }

    /// Notes a value, or all that an object of that name holds, as far as nobody asked for it, unless all of it is `false`.
    pub(super) fn note_rest(&mut self, path: &str, what: &str) {
        let rest = |known: &&String| is_within(known, path) && !self.asked.contains(*known);
        let rest: Vec<String> = self.values.keys().filter(rest).cloned().collect();
        if rest
            .iter()
            .any(|known| self.values[known] != Value::Bool(false))
        {
            self.draft.note(&Origin::named(path), what);
        }
        self.asked.extend(rest);
        self.asked.insert(path.to_owned());
    }

    /// Notes every value that nobody asked for, and refuses misspelt ones: the job would go without them.
    pub(super) fn finish(mut self) -> Draft {
        let mut draft = std::mem::take(&mut self.draft);
        for path in self
            .values
            .keys()
            .filter(|path| !self.asked.contains(*path))
        {
            let what = "is not a key of MODAK's specification";
            let origin = Origin::named(path);
            match self.nearest(path) {
                Some(meant) => {
                    let what = format!("{what}; did you mean `{meant}`?");
                    draft.refuse(&origin, what);
                }
                None => draft.note(&origin, format!("{what}; left out")),
            }
        }
        draft
    }

    /// What the first name in a path that is unknown at its place is a misspelling of.
    fn nearest(&self, path: &str) -> Option<&str> {
        let mut parent = String::new();
        for name in path.split('.') {
            let beside = self.asked.iter();
            let beside = beside.filter_map(|asked| asked.strip_prefix(&parent)?.split('.').next());
            let known: BTreeSet<&str> = beside.collect();
            if !known.contains(name) {
                let is_free = |known: &&str| !self.holds(&format!("{parent}{known}"));
                return nearest(name, known.into_iter().filter(is_free));
            }
            parent = format!("{parent}{name}.");
        }
        None
    }
}

/// Whether a path is another, or one below it.
fn is_within(path: &str, outer: &str) -> bool {
    path.strip_prefix(outer)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

fn flatten(path: &str, value: Value, values: &mut BTreeMap<String, Value>) {
    match value {
        Value::Object(fields) => {
            for (key, value) in fields {
                let old = OLD_NAMES.iter().find(|(old, _)| *old == key);
                let name = old.map_or(key.as_str(), |(_, name)| name);
                match path {
                    "" | "job" => flatten(name, value, values),
                    path => flatten(&format!("{path}.{name}"), value, values),
                }
            }
        }
        Value::Null => {}
        Value::Array(items) if items.is_empty() => {}
        Value::String(text) if text.trim().is_empty() => {}
        value => {
            values.insert(path.to_owned(), value);
        }
    }
}
