//! MODAK's JSON as a list of values, each with its path: `job_options.queue`.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use crate::foundation::diagnostic::{Problem, nearest};
use crate::foundation::lenient_json::{self, Node, Value};
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

/// What a description may consist of.
const PARTS: [&str; 5] = [
    "job_options",
    "target",
    "application",
    "optimisation",
    "optimization",
];

/// A value that is neither empty nor an object.
struct Leaf {
    /// Its text; `None`: it is a list.
    text: Option<String>,
    origin: Origin,
    is_asked: bool,
}

/// The values of a description that were not asked for yet are noted in the end.
pub(super) struct Document {
    /// By their paths in the specification's names.
    leaves: BTreeMap<String, Leaf>,
    asked: BTreeSet<String>,
    /// The job file that is made of it.
    pub(super) draft: Draft,
}

impl Document {
    /// Reads a document. One that begins with a key has lost its outer braces, and is read as if it had them.
    ///
    /// # Errors
    /// Where it is not valid JSON, or no description of a job.
    pub(super) fn parse(text: &str) -> Result<Self, Problem> {
        let body = text.trim_start_matches('\u{feff}');
        let is_bare = body.trim_start().starts_with('"');
        let whole = if is_bare {
            format!("{{{body}}}")
        } else {
            body.to_owned()
        };
        // A place in `whole` as one in `text`.
        let place = |at: usize| {
            let at = (at + text.len() - body.len()).saturating_sub(usize::from(is_bare));
            (0..=at.min(text.len()))
                .rev()
                .find(|at| text.is_char_boundary(*at))
                .unwrap_or(0)
        };
        if let Err(error) = serde_json::from_str::<serde_json::Value>(&whole) {
            let lines = whole.split_inclusive('\n').take(error.line() - 1);
            let line: usize = lines.map(str::len).sum();
            let at = if error.is_eof() {
                text.len()
            } else {
                place(line + error.column().saturating_sub(1))
            };
            let what = error.to_string();
            let what = what.split(" at line ").next().unwrap_or_default();
            return Err(Problem::at(at..at, format!("no JSON: {what}")));
        }
        let root = lenient_json::read(&whole, 0, 0).ok_or_else(|| Problem::of_file("no JSON"))?;
        let mut document = Self {
            leaves: BTreeMap::new(),
            asked: BTreeSet::new(),
            draft: Draft::default(),
        };
        let place = |span: &Range<usize>| place(span.start)..place(span.end);
        document.add(&whole, "", "", &root, &place);
        match what_is_wrong(&whole, &root) {
            Some(what) => Err(Problem::at(
                place(&(root.span.start..root.span.start)),
                what,
            )),
            None => Ok(document),
        }
    }

    /// Adds what a value holds.
    fn add(
        &mut self,
        text: &str,
        path: &str,
        about: &str,
        node: &Node<'_>,
        place: &impl Fn(&Range<usize>) -> Range<usize>,
    ) {
        let value = match &node.value {
            Value::Object(pairs) => {
                let mut keys = BTreeSet::new();
                for (key, node) in pairs {
                    let key = string(text, key);
                    let old = OLD_NAMES.iter().find(|(old, _)| *old == key);
                    let name = old.map_or(key.as_str(), |(_, name)| name);
                    // Keys are named as MODAK's specification names them, without the outermost.
                    let joined = |path: &str, key: &str| match path {
                        "" | "job" => key.to_owned(),
                        path => format!("{path}.{key}"),
                    };
                    let (path, about) = (joined(path, name), joined(about, &key));
                    if keys.insert(path.clone()) {
                        self.add(text, &path, &about, node, place);
                    } else {
                        let origin = Origin::new(about, place(&node.span));
                        self.draft.refuse(&origin, "occurs twice");
                    }
                }
                return;
            }
            Value::List(items) if items.is_empty() => return,
            Value::List(_) => None,
            Value::Word("null") => return,
            Value::Word(word) => Some((*word).to_owned()),
            Value::Quoted(_) => match string(text, node) {
                blank if blank.trim().is_empty() => return,
                text => Some(text),
            },
        };
        let leaf = Leaf {
            text: value,
            origin: Origin::new(about, place(&node.span)),
            is_asked: false,
        };
        self.leaves.insert(path.to_owned(), leaf);
    }

    /// Text as it is; a number or a flag as written.
    pub(super) fn raw_text(&mut self, path: &str) -> Option<(String, Origin)> {
        self.asked.insert(path.to_owned());
        let leaf = self.leaves.get_mut(path)?;
        leaf.is_asked = true;
        if leaf.text.is_none() {
            self.draft.refuse(&leaf.origin, "is no text");
        }
        Some((leaf.text.clone()?, leaf.origin.clone()))
    }

    /// Text without the blanks around it.
    pub(super) fn text(&mut self, path: &str) -> Option<(String, Origin)> {
        let (text, origin) = self.raw_text(path)?;
        Some((text.trim().to_owned(), origin))
    }

    /// A whole number from 1; in quotes too.
    pub(super) fn count(&mut self, path: &str) -> Option<(u32, Origin)> {
        let (text, origin) = self.text(path)?;
        let number = text.strip_suffix(".0").unwrap_or(&text).parse().ok();
        match number.filter(|number| *number > 0) {
            Some(number) => Some((number, origin)),
            None => {
                self.draft
                    .refuse(&origin, format!("`{text}` is no number that this can be"));
                None
            }
        }
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

    /// Asks for a value, or for all that an object of that name holds. Returns its place, unless all of it is `false`.
    pub(super) fn take(&mut self, path: &str) -> Option<Origin> {
        self.asked.insert(path.to_owned());
        let below = format!("{path}.");
        let mut found = None;
        for (place, leaf) in &mut self.leaves {
            if place == path || place.starts_with(&below) {
                leaf.is_asked = true;
                let depth = place.len() - path.len();
                let about = leaf.origin.about.len().saturating_sub(depth);
                let about = leaf.origin.about.get(..about).unwrap_or(path);
                if leaf.text.as_deref() != Some("false") && found.is_none() {
                    found = Some(Origin::new(about, leaf.origin.span.clone()));
                }
            }
        }
        found
    }

    /// Whether there is a value of that name, or one below it.
    pub(super) fn holds(&self, path: &str) -> bool {
        let below = format!("{path}.");
        let mut places = self.leaves.keys();
        places.any(|place| place == path || place.starts_with(&below))
    }

    /// Notes every value that nobody asked for, and refuses misspelt ones: the job would go without them.
    pub(super) fn finish(mut self) -> Draft {
        let mut draft = std::mem::take(&mut self.draft);
        let what = "is no key of MODAK's specification";
        for (path, leaf) in self.leaves.iter().filter(|(_, leaf)| !leaf.is_asked) {
            let below = format!("{path}.");
            if self.asked.iter().any(|asked| asked.starts_with(&below)) {
                draft.refuse(&leaf.origin, "has to be an object");
                continue;
            }
            match self.nearest(path) {
                Some(meant) => {
                    draft.refuse(&leaf.origin, format!("{what}; did you mean `{meant}`?"));
                }
                None => draft.note(&leaf.origin, format!("{what}; left out")),
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

/// Text as `serde_json`, which has found it valid, reads it.
fn string(text: &str, node: &Node<'_>) -> String {
    serde_json::from_str(&text[node.span.clone()]).unwrap_or_default()
}

/// Why a document describes no job; `None` where it does.
fn what_is_wrong(text: &str, root: &Node<'_>) -> Option<&'static str> {
    let Value::Object(pairs) = &root.value else {
        return Some("this JSON is no job description: it is no object");
    };
    let has = |names: &[&str]| {
        pairs
            .iter()
            .any(|(key, _)| names.contains(&string(text, key).as_str()))
    };
    let job = pairs.iter().find(|(key, _)| string(text, key) == "job");
    match job.map(|(_, node)| &node.value) {
        Some(Value::Object(pairs)) if pairs.is_empty() => Some("`job` is empty"),
        Some(Value::Object(_)) => None,
        Some(_) => Some("`job` is no object"),
        // An entry of MODAK's image catalogue has parts of the same names.
        None if has(&PARTS) && !has(&["container_file", "container_name", "image_type"]) => None,
        None => {
            Some("this JSON is no job description of MODAK: it has neither `job` nor `application`")
        }
    }
}
