//! Lists of words and phrases as texts, separated by `|`.

use memchr::memchr2_iter;

/// True where `text` begins with one of `words`, which are separated by `|`, whichever letters either has.
pub(super) fn starts_with_any(text: &str, words: &str) -> bool {
    words.split('|').any(|word| {
        text.get(..word.len())
            .is_some_and(|start| start.eq_ignore_ascii_case(word))
    })
}

/// True where `text` is one of `words`, which are separated by `|`, whichever letters either has.
pub(super) fn is_any(text: &str, words: &str) -> bool {
    words.split('|').any(|word| text.eq_ignore_ascii_case(word))
}

/// True where `text` holds one of `words`, which are in small letters and separated by `|`, whichever letters `text` has.
pub(super) fn holds_any(text: &str, words: &str) -> bool {
    words.split('|').any(|word| holds(text, word))
}

/// True where `text` holds `word`, which is in small letters, whichever letters `text` has.
pub(super) fn holds(text: &str, word: &str) -> bool {
    position(text, word).is_some()
}

/// Where `text` holds `word`, which is in small letters, whichever letters `text` has.
pub(super) fn position(text: &str, word: &str) -> Option<usize> {
    let (text, word) = (text.as_bytes(), word.as_bytes());
    let last = text.len().checked_sub(word.len())?;
    // The first byte rules out most places, at a fraction of the cost.
    memchr2_iter(word[0], word[0].to_ascii_uppercase(), &text[..=last])
        .find(|at| text[*at..at + word.len()].eq_ignore_ascii_case(word))
}
