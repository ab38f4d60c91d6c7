//! A command as it may be shown to others: values of arguments that look like secrets are left out.

use super::arguments::{About, about};
use super::identity::without_password;
use crate::job::is_option;

/// What is written in the place of a secret.
pub(super) const MASK: &str = "***";
/// Longer words are cut.
const LONGEST_WORD: usize = 4096;
/// Words beyond so many bytes are left out.
const MOST_BYTES: usize = 16 << 10;

/// The words with secrets masked and bounded in length. A text for a shell is masked word by word.
pub(super) fn masked(words: &[&str]) -> Vec<String> {
    let mut bytes = 0;
    let mut shown = mask_words(words);
    let fits = shown.iter().take_while(|word| {
        bytes += word.len();
        bytes <= MOST_BYTES
    });
    let kept = fits.count();
    if kept < shown.len() {
        shown.truncate(kept);
        shown.push("...".to_owned());
    }
    shown
}

fn mask_words(words: &[&str]) -> Vec<String> {
    let mut option = "";
    words
        .iter()
        .map(|word| {
            let named = std::mem::replace(&mut option, if is_option(word) { word } else { "" });
            if !named.is_empty() && option.is_empty() && is_of_secret(named, word) {
                return MASK.to_owned();
            }
            let word = cut(word);
            if word.contains(char::is_whitespace) { mask_text(&word) } else { mask_word(&word) }
        })
        .collect()
}

/// Text for a shell: its words are masked, all between them stays.
fn mask_text(text: &str) -> String {
    let pieces: Vec<&str> = text.split_inclusive(char::is_whitespace).collect();
    let words: Vec<&str> = pieces.iter().map(|piece| piece.trim_end()).collect();
    let masked = mask_words(&words);
    pieces.iter().zip(words).zip(masked).map(|((piece, word), shown)| shown + &piece[word.len()..]).collect()
}

fn mask_word(word: &str) -> String {
    match word.split_once('=') {
        Some((name, value)) if !value.is_empty() && is_of_secret(name, value) => format!("{name}={MASK}"),
        _ => match word.find("://") {
            Some(_) => without_password(word),
            None => word.to_owned(),
        },
    }
}

/// Whether a name, of an option or of a variable, is one of a secret.
fn is_of_secret(name: &str, value: &str) -> bool {
    let bare = name.trim_start_matches(['-', '+', '~', '\'', '"', '(', '$', '{']);
    let is_variable = !name.starts_with('-') && bare.chars().all(|c| c.is_ascii_uppercase() || c == '_');
    let name = if is_variable { format!("${bare}") } else { bare.to_owned() };
    about(&name, Some(value)) == About::Secret
}

fn cut(word: &str) -> String {
    match word.char_indices().nth(LONGEST_WORD) {
        Some((end, _)) => format!("{}...", &word[..end]),
        None => word.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_in_words_options_and_shell_text_are_masked() {
        for (words, shown) in [
            (vec!["python", "train.py", "--lr", "0.1"], vec!["python", "train.py", "--lr", "0.1"]),
            (vec!["p", "--hf-token", "hf_abc", "-v"], vec!["p", "--hf-token", "***", "-v"]),
            (vec!["p", "--api_key=abc"], vec!["p", "--api_key=***"]),
            (vec!["env", "WANDB_API_KEY=abc", "p"], vec!["env", "WANDB_API_KEY=***", "p"]),
            (
                vec!["bash", "-c", "export HF_TOKEN=abc; p --password x y"],
                vec!["bash", "-c", "export HF_TOKEN=*** p --password *** y"],
            ),
            // How many tokens there are is no secret.
            (
                vec!["p", "--max_token", "512", "--max_token=9"],
                vec!["p", "--max_token", "512", "--max_token=9"],
            ),
        ] {
            assert_eq!(masked(&words), shown);
        }
        let masked = masked(&["p", "https://ada:pw@host/data"]);
        assert!(!masked[1].contains("pw"), "{masked:?}");
    }

    #[test]
    fn long_commands_are_cut() {
        let word = "a".repeat(5000);
        let shown = masked(&[word.as_str(); 10]);
        assert!(shown.len() < 6 && shown.last().is_some_and(|last| last == "..."), "{}", shown.len());
        assert!(shown[0].ends_with("...") && shown[0].len() == LONGEST_WORD + 3);
    }
}
