//! Placeholders: `{{batch_size}}` in a word of the command, or in a variable's value, is replaced by what the cell has there. A
//! word stays one word whatever comes into it; no shell reads it.

use std::collections::BTreeSet;

use toml::Value;

use super::axis::VARS;
use super::document::{Document, shown};
use crate::foundation::diagnostic::nearest;

/// What a cell has under each name.
pub(super) struct Names {
    /// Whole names with their values: `workload.batch_size`, `vars.threads`.
    known: Vec<(String, String)>,
    /// Names that an axis sets: they come before others with the same end.
    of_axes: BTreeSet<String>,
}

impl Names {
    pub(super) fn new(
        document: &Document,
        vars: &[(String, String)],
        of_axes: BTreeSet<String>,
    ) -> Self {
        let mut known: Vec<(String, String)> = vars
            .iter()
            .map(|(name, value)| (format!("{VARS}.{name}"), value.clone()))
            .collect();
        for (name, value) in document.values.iter().filter(|(_, value)| value.is_table()) {
            collect(name, value, &mut known);
        }
        Self { known, of_axes }
    }

    /// The value of what a placeholder says; else why there is none.
    fn find(&self, name: &str) -> Result<&str, String> {
        let is_meant = |whole: &str| {
            whole == name || (!name.contains('.') && whole.rsplit('.').next() == Some(name))
        };
        let mut found: Vec<&(String, String)> = self
            .known
            .iter()
            .filter(|(whole, _)| is_meant(whole))
            .collect();
        if found.len() > 1 {
            let set: Vec<_> = found
                .iter()
                .copied()
                .filter(|(whole, _)| self.of_axes.contains(whole))
                .collect();
            found = if set.len() == 1 { set } else { found };
        }
        match found[..] {
            [(_, value)] => Ok(value),
            [] => {
                let lasts = self
                    .known
                    .iter()
                    .filter_map(|(whole, _)| whole.rsplit('.').next());
                let guess =
                    nearest(name, lasts).map(|guess| format!("; did you mean {{{{{guess}}}}}?"));
                Err(format!(
                    "nothing has the name of {{{{{name}}}}}{}",
                    guess.unwrap_or_default()
                ))
            }
            _ => {
                let names: Vec<&str> = found.iter().map(|(whole, _)| whole.as_str()).collect();
                Err(format!(
                    "{{{{{name}}}}} may be {}; write one of them in full",
                    names.join(" or ")
                ))
            }
        }
    }

    /// The text with its placeholders filled.
    pub(super) fn fill(&self, text: &str) -> Result<String, String> {
        let (mut filled, mut rest) = (String::with_capacity(text.len()), text);
        while let Some((before, name, after)) = placeholder(rest) {
            filled.push_str(before);
            filled.push_str(self.find(name)?);
            rest = after;
        }
        Ok(filled + rest)
    }
}

/// Scalars, those in tables with dots.
fn collect(name: &str, value: &Value, known: &mut Vec<(String, String)>) {
    match value {
        Value::Table(inner) => {
            inner
                .iter()
                .for_each(|(key, value)| collect(&format!("{name}.{key}"), value, known));
        }
        Value::Array(_) => {}
        // A text that holds a placeholder itself would have to be filled first.
        Value::String(text) if placeholder(text).is_some() => {}
        scalar => known.push((name.to_owned(), shown(scalar))),
    }
}

/// The names in a text's placeholders.
pub(in crate::learn) fn names_in(text: &str) -> Vec<&str> {
    let (mut names, mut rest) = (Vec::new(), text);
    while let Some((_, name, after)) = placeholder(rest) {
        names.push(name);
        rest = after;
    }
    names
}

/// The first placeholder of a text, with what is before and behind it. What only looks like one stays text.
fn placeholder(text: &str) -> Option<(&str, &str, &str)> {
    let mut from = 0;
    while let Some(open) = text[from..].find("{{").map(|at| from + at) {
        let inner = &text[open + 2..];
        let length = inner
            .bytes()
            .take_while(|byte| byte.is_ascii_alphanumeric() || b"._".contains(byte))
            .count();
        if length > 0 && inner[length..].starts_with("}}") {
            return Some((&text[..open], &inner[..length], &inner[length + 2..]));
        }
        from = open + 1;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names() -> Names {
        let text = "[run]\ncommand = [\"a\"]\nenv = { T = \"{{threads}}\" }\n[framework]\nname = \"jax\"\n\
                    [workload]\nbatch_size = 64\nmodel = \"m\"\n[image]\nname = \"i\"\n";
        let (spans, _) = toml::de::DeTable::parse_recoverable(text);
        let document = Document::without(
            "bench",
            spans.get_ref(),
            &toml::from_str(text).expect("valid"),
        );
        Names::new(
            &document,
            &[("threads".into(), "2; rm -rf $HOME".into())],
            BTreeSet::from(["framework.name".into()]),
        )
    }

    fn filled(text: &str) -> Result<String, String> {
        names().fill(text)
    }

    #[test]
    fn placeholders_stand_for_keys_and_variables() {
        assert_eq!(
            filled("--batch={{batch_size}}/{{workload.model}}").as_deref(),
            Ok("--batch=64/m")
        );
        assert_eq!(
            filled("{{threads}}").as_deref(),
            Ok("2; rm -rf $HOME"),
            "one word, whatever is in it"
        );
        assert_eq!(
            filled("{{name}}").as_deref(),
            Ok("jax"),
            "an axis comes before another key that ends so"
        );
        assert_eq!(
            names_in("a{{threads}}{{batch_size}}{{"),
            ["threads", "batch_size"]
        );
    }

    #[test]
    fn what_only_looks_like_one_stays() {
        for text in ["", "{{", "{{}}", "{{ x }}", "{{{", "}}{{", "{{a-b}}", "é{{"] {
            assert_eq!(filled(text).as_deref(), Ok(text));
        }
        assert_eq!(filled("{{{batch_size}}}").as_deref(), Ok("{64}"));
    }

    #[test]
    fn unknown_and_ambiguous_names_are_told() {
        assert!(
            filled("{{batchsize}}")
                .expect_err("unknown")
                .contains("did you mean {{batch_size}}?")
        );
        let mut names = names();
        names.of_axes.clear();
        let why = names.fill("{{name}}").expect_err("two");
        assert!(why.contains("framework.name or image.name"), "{why}");
    }
}
