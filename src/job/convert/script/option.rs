//! One option of a directive line, of `sbatch` or of `qsub`, and the words of the line, by Slurm's rules of quoting, which hold for
//! PBS too.

use std::ops::Range;

use crate::job::convert::draft::{Draft, Origin};
use crate::job::convert::write::Value;

/// One word: as written, and without its quotes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Word {
    pub(super) raw: String,
    pub(super) text: String,
    pub(super) span: Range<usize>,
}

/// Splits a line that begins at byte `start` of its file. `#` begins a comment.
pub(super) fn words(line: &str, start: usize) -> Vec<Word> {
    let mut words: Vec<Word> = Vec::new();
    let mut begin: Option<usize> = None;
    let mut text = String::new();
    let mut quote: Option<char> = None;
    let mut is_escaped = false;
    let mut end = line.len();
    for (at, c) in line.char_indices() {
        if is_escaped {
            is_escaped = false;
            text.push(c);
        } else if let Some(open) = quote {
            match c {
                c if c == open => quote = None,
                c => text.push(c),
            }
        } else if c.is_whitespace() {
            if let Some(begin) = begin.take() {
                words.push(word(line, begin..at, std::mem::take(&mut text), start));
            }
        } else if c == '#' {
            end = at;
            break;
        } else {
            let _ = begin.get_or_insert(at);
            match c {
                '\\' => is_escaped = true,
                '"' | '\'' => quote = Some(c),
                c => text.push(c),
            }
        }
    }
    if let Some(begin) = begin {
        words.push(word(line, begin..end, text, start));
    }
    words
}

fn word(line: &str, at: Range<usize>, text: String, start: usize) -> Word {
    Word {
        raw: line[at.clone()].to_owned(),
        text,
        span: start + at.start..start + at.end,
    }
}

/// An option with its value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ScriptOption {
    /// Its name without dashes: Slurm's long one, PBS's letter.
    pub(super) name: String,
    pub(super) value: Option<String>,
    /// As it can stand in a directive line again.
    pub(super) verbatim: String,
    pub(super) span: Range<usize>,
}

impl ScriptOption {
    /// An option with its value as written and without quotes, from its word to that of its value.
    pub(super) fn new(
        name: &str,
        value: Option<(&str, &str)>,
        word: &Word,
        next: Option<&Word>,
    ) -> Self {
        let is_letter = name.chars().count() == 1;
        let (dashes, sign) = if is_letter { ("-", " ") } else { ("--", "=") };
        let raw = value.map(|(raw, _)| format!("{sign}{raw}"));
        Self {
            name: name.to_owned(),
            value: value.map(|(_, text)| text.to_owned()),
            verbatim: format!("{dashes}{name}{}", raw.unwrap_or_default()),
            span: word.span.start..next.map_or(word.span.end, |next| next.span.end),
        }
    }

    /// `-N2`, `-N 2`, and letters without values together, `-Hs`. `known` names the option of a letter, and whether it has a value.
    /// Returns whether all letters are known.
    pub(super) fn read_letters<'n>(
        word: &'n Word,
        words: &mut impl Iterator<Item = Word>,
        known: impl Fn(&'n str) -> Option<(&'n str, bool)>,
        found: &mut Vec<Self>,
    ) -> bool {
        for (at, letter) in word.text.char_indices().skip(1) {
            let behind = at + letter.len_utf8();
            let Some((name, has_value)) = known(&word.text[at..behind]) else {
                return false;
            };
            if !has_value {
                found.push(Self::new(name, None, word, None));
                continue;
            }
            // What is stuck to a letter keeps its quotes: the letters before it have none.
            let stuck = &word.text[behind..];
            let next = if stuck.is_empty() { words.next() } else { None };
            let value = match &next {
                Some(next) => (next.raw.as_str(), next.text.as_str()),
                None => (word.raw.get(behind..).unwrap_or_default(), stuck),
            };
            found.push(Self::new(name, Some(value), word, next.as_ref()));
            break;
        }
        true
    }

    pub(super) fn origin(&self) -> Origin {
        let dashes = if self.name.len() == 1 { "-" } else { "--" };
        Origin::new(format!("{dashes}{}", self.name), self.span.clone())
    }

    /// Its value; empty where it has none.
    pub(super) fn text(&self) -> &str {
        self.value.as_deref().unwrap_or("")
    }
}

impl Draft {
    /// An option that the job file has no word for goes to the scheduler as it is.
    pub(super) fn pass_through(&mut self, option: &ScriptOption) {
        self.push(
            "scheduler.directives",
            option.verbatim.as_str(),
            &option.origin(),
        );
    }

    /// The job file's own key where it takes the value, else the scheduler's option.
    pub(super) fn set_or_pass(
        &mut self,
        key: &'static str,
        value: impl Into<Value>,
        option: &ScriptOption,
    ) {
        let value = value.into();
        // These are dlrun's own to write, so that Slurm's option would be refused.
        let own = "name run.workdir resources.array resources.nodes resources.tasks resources.tasks_per_node";
        let is_own = own.split(' ').any(|own| own == key);
        if is_own || Self::takes(key, &value) {
            self.set(key, value, &option.origin());
        } else {
            self.pass_through(option);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn quotes_hold_words_together_and_a_hash_ends_them() {
        let words = words(" --comment=\"a b\" -J x\\ y 'p q' # rest", 10);
        let texts: Vec<&str> = words.iter().map(|word| word.text.as_str()).collect();
        assert_eq!(texts, ["--comment=a b", "-J", "x y", "p q"]);
        assert_eq!(
            (words[0].raw.as_str(), words[0].span.clone()),
            ("--comment=\"a b\"", 11..26)
        );
    }

    proptest! {
        #[test]
        fn no_line_panics(line in "\\PC*|[a\\\\'\"# ]{0,12}") {
            for word in words(&line, 0) {
                prop_assert_eq!(&line[word.span.clone()], word.raw.as_str());
            }
        }
    }
}
