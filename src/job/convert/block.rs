//! One object of MODAK's JSON while it is read: values by key, and a note for each key that nobody asked for.

use std::collections::BTreeSet;

use super::draft::{Draft, Origin};
use super::json::{Json, Node};
use crate::foundation::diagnostic::nearest;

/// An object with its path.
pub(super) struct Block<'a> {
    /// Such as `job_options`, empty at the top.
    path: String,
    pairs: &'a [(String, Node)],
    asked: BTreeSet<&'static str>,
}

impl<'a> Block<'a> {
    /// The object in `node`; `None` where it is none.
    pub(super) fn of(path: &str, node: &'a Node) -> Option<Self> {
        match &node.value {
            Json::Object(pairs) => Some(Self {
                path: path.to_owned(),
                pairs,
                asked: BTreeSet::new(),
            }),
            _ => None,
        }
    }

    pub(super) fn path_of(&self, key: &str) -> String {
        if self.path.is_empty() {
            key.to_owned()
        } else {
            format!("{}.{key}", self.path)
        }
    }

    fn origin(&self, key: &str, node: &Node) -> Origin {
        Origin::new(self.path_of(key), node.span.clone())
    }

    /// A value that is there and not empty; the last one where a key stands twice, as all readers of JSON have it.
    pub(super) fn value(&mut self, key: &'static str) -> Option<(&'a Node, Origin)> {
        self.asked.insert(key);
        let (_, node) = self.pairs.iter().rev().find(|(name, _)| name == key)?;
        let is_empty = match &node.value {
            Json::Null => true,
            Json::Text(text) => text.trim().is_empty(),
            Json::List(items) => items.is_empty(),
            Json::Object(pairs) => pairs.is_empty(),
            _ => false,
        };
        (!is_empty).then(|| (node, self.origin(key, node)))
    }

    /// An object below this one.
    pub(super) fn block(&mut self, key: &'static str, draft: &mut Draft) -> Option<Self> {
        let (node, origin) = self.value(key)?;
        let block = Self::of(&origin.about, node);
        if block.is_none() {
            draft.refuse(&origin, "is no object");
        }
        block
    }

    /// Text, without the blanks around it; numbers count as text.
    pub(super) fn text(
        &mut self,
        key: &'static str,
        draft: &mut Draft,
    ) -> Option<(String, Origin)> {
        let (text, origin) = self.raw_text(key, draft)?;
        Some((text.trim().to_owned(), origin))
    }

    /// Text as it is.
    pub(super) fn raw_text(
        &mut self,
        key: &'static str,
        draft: &mut Draft,
    ) -> Option<(String, Origin)> {
        let (node, origin) = self.value(key)?;
        match &node.value {
            Json::Text(text) | Json::Number(text) => Some((text.clone(), origin)),
            _ => {
                draft.refuse(&origin, "is no text");
                None
            }
        }
    }

    /// A whole number from 1; in quotes too.
    pub(super) fn count(&mut self, key: &'static str, draft: &mut Draft) -> Option<(u32, Origin)> {
        let (number, origin) = self.number(key, draft)?;
        match u32::try_from(number) {
            Ok(number) if number > 0 => Some((number, origin)),
            _ => {
                draft.refuse(&origin, format!("{number} is no number that this can be"));
                None
            }
        }
    }

    /// A whole number.
    pub(super) fn number(&mut self, key: &'static str, draft: &mut Draft) -> Option<(u64, Origin)> {
        let (text, origin) = self.text(key, draft)?;
        let number = text.strip_suffix(".0").unwrap_or(&text).parse().ok();
        if number.is_none() {
            draft.refuse(&origin, format!("`{text}` is no whole number"));
        }
        Some((number?, origin))
    }

    /// True or false; in quotes too.
    pub(super) fn flag(&mut self, key: &'static str, draft: &mut Draft) -> Option<(bool, Origin)> {
        let (node, origin) = self.value(key)?;
        let flag = match &node.value {
            Json::Flag(flag) => Some(*flag),
            Json::Text(text) => text.trim().to_ascii_lowercase().parse().ok(),
            _ => None,
        };
        if flag.is_none() {
            draft.refuse(&origin, "is neither true nor false");
        }
        Some((flag?, origin))
    }

    /// Sets keys of the job file to texts as they are: pairs of a key and its own.
    pub(super) fn copy(&mut self, keys: &[(&'static str, &'static str)], draft: &mut Draft) {
        for (key, ours) in keys {
            if let Some((text, origin)) = self.text(key, draft) {
                draft.set(ours, text, &origin);
            }
        }
    }

    /// Sets a key of the job file to a number as it is.
    pub(super) fn copy_number(&mut self, key: &'static str, ours: &'static str, draft: &mut Draft) {
        if let Some((number, origin)) = self.number(key, draft) {
            draft.set(ours, number, &origin);
        }
    }

    /// Notes `message` for each of `keys` that is there.
    pub(super) fn note(&mut self, keys: &[&'static str], message: &str, draft: &mut Draft) {
        for key in keys {
            if let Some((_, origin)) = self.value(key) {
                draft.note(&origin, message);
            }
        }
    }

    /// Notes every key that nobody asked for, and every value that a later one of the same key puts out of force.
    pub(super) fn finish(self, draft: &mut Draft) {
        let mut later = BTreeSet::new();
        let mut notes = Vec::new();
        for (key, node) in self.pairs.iter().rev() {
            if !self.asked.contains(key.as_str()) {
                notes.push((key, node, "is no key of MODAK's specification; left out"));
            } else if !later.insert(key.as_str()) {
                notes.push((
                    key,
                    node,
                    "stands twice: the last one counts, this one is left out",
                ));
            }
        }
        for (key, node, what) in notes.into_iter().rev() {
            // A key that is almost one of the specification's is misspelt: the job would go without its value.
            let free = self
                .asked
                .iter()
                .copied()
                .filter(|asked| !later.contains(asked));
            match nearest(key, free).filter(|_| !self.asked.contains(key.as_str())) {
                Some(meant) => draft.refuse(
                    &self.origin(key, node),
                    format!("is no key of MODAK's specification; did you mean `{meant}`?"),
                ),
                None => draft.note(&self.origin(key, node), what),
            }
        }
    }
}
