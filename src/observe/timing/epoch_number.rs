//! The word `epoch` in a line and the number behind it: `Epoch 3/10`, `[epoch: 3 of 10]`.

use super::scan;

/// How far in a line, in bytes, the word may begin.
const MAX_PREFIX: usize = 160;
/// Words that may stand before it.
const PREFIX_WORDS: &str = "loss|after|average|avg|accuracy|mean|result|results|summary|new|\
    running|time|taken|for|train|training|finished|finish|end|ended|of|done|completed|complete|\
    starting|start|beginning|begin|going|into|root|main|__main__";
/// Words before it by which a logger is known; then any names may stand there.
const LOG_LEVELS: &str = "info|debug|notice|i";
/// Parts of words before it that say that something else is meant.
const OTHER_SUBJECTS: &str = "val|test|eval|sav|load|best|resum|warn|error|skip|restor|stop|meta";

/// The text before and behind the word `epoch`.
pub(super) fn split_at_word(text: &str) -> Option<(&str, &str)> {
    let bytes = text.as_bytes();
    let head = &bytes[..bytes.len().min(MAX_PREFIX)];
    let mut from = 0;
    loop {
        let word = head[from..]
            .windows(5)
            .position(|word| word.eq_ignore_ascii_case(b"epoch"));
        let word = word?;
        let at = from + word;
        let inside =
            |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'\'' | b'"' | b'@');
        // `0-epoch (99/44660)` counts steps, `5-epoch average` is a name.
        let numbered = head[..at].ends_with(b"-") && at > 1 && bytes[at - 2].is_ascii_digit();
        let alone = (at == 0 || !inside(bytes[at - 1]))
            && !numbered
            && !bytes.get(at + 5).is_some_and(|byte| inside(*byte));
        // What is found is ASCII, so that both sides end at characters.
        if alone {
            return Some((&text[..at], &text[at + 5..]));
        }
        from = at + 5;
    }
}

/// Reads ` 3`, `: 3/10`, `[ 3 of 10]`, ` #3]`; the rest begins behind the number and its bracket.
pub(super) fn read_number(text: &str) -> Option<(u64, Option<u64>, &str)> {
    let text = text.trim_start_matches([' ', '\t', ':', '=', '#', '[', '(']);
    let (epoch, epochs, rest) = scan::counted(text)?;
    let rest = rest.trim_start_matches([']', ')']);
    let mut next = rest.chars();
    let ended = match next.next() {
        None => true,
        Some('.' | '-') => !next.next().is_some_and(char::is_alphanumeric),
        Some('/' | '%' | '@' | '+') => false,
        Some(other) => !scan::is_word(other),
    };
    ended.then_some((epoch, epochs, rest))
}

/// What stands before the word: `None` where something else is meant, else whether the epoch begins.
pub(super) fn prefix(before: &str) -> Option<bool> {
    let before = before.trim_end_matches(|c: char| !c.is_alphanumeric());
    if before.is_empty() {
        return Some(false);
    }
    let lower = before.to_ascii_lowercase();
    let words = || {
        lower
            .split(|c: char| !(scan::is_word(c) || matches!(c, '.' | '/')))
            .filter(|word| !word.is_empty())
    };
    let logged = words().any(|word| scan::is_any(word, LOG_LEVELS));
    let mut opening = false;
    for word in words() {
        let name = word.contains(['.', '/']) || word.contains(|c: char| c.is_ascii_digit());
        if !name && scan::holds_any(word, OTHER_SUBJECTS) {
            return None;
        }
        if !(name || logged || scan::is_any(word, PREFIX_WORDS) || scan::is_any(word, LOG_LEVELS)) {
            return None;
        }
        opening |= matches!(word, "starting" | "start" | "beginning" | "begin");
    }
    Some(opening)
}

/// The epoch that the label of a bar names: `Train Epoch 3/10`, `Epoch [3] loss 0.1`, `[3/10]`, `Train 3/10`.
pub(super) fn epoch_in_label(label: &str) -> Option<(u64, Option<u64>)> {
    if let Some((_, after)) = split_at_word(label) {
        return read_number(after).map(|(epoch, epochs, _)| (epoch, epochs));
    }
    let bare =
        label.trim_start_matches(|c: char| c.is_alphabetic() || matches!(c, ' ' | '[' | '(' | ':'));
    let (epoch, of, _) = scan::counted(bare)?;
    of.map(|of| (epoch, Some(of)))
}
