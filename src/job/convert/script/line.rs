//! Words of a directive line, by Slurm's rules of quoting, which hold for PBS too.

use std::ops::Range;

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
