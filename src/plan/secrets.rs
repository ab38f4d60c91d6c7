//! A command as it may be shown to others: values of arguments that look like secrets are left out.

use super::arguments::{About, about};
use crate::job::{EnvVar, Overrides, is_option, quoted};

/// What is written in the place of a secret.
const MASK: &str = "***";
/// Longer words are cut, in bytes: with the dots they are names that exports and daemons take.
const LONGEST_WORD: usize = 4000;
/// Words beyond so many bytes are left out.
const MOST_BYTES: usize = 16 << 10;
/// The shortest value that is looked for in other text, in bytes.
const SHORTEST_SECRET: usize = 4;

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

/// The overrides of the command line, as it was written but for values that look like secrets.
pub(super) fn shown_overrides(overrides: &Overrides) -> Vec<String> {
    let set = overrides.set.iter().map(|text| {
        // A variable is known by its bare name.
        let (table, key) = text
            .strip_prefix("run.env.")
            .map_or(("", &**text), |key| ("run.env.", key));
        let shown = masked(&[key]).concat();
        match text.split_once('=') {
            // A list or a table may name a secret in one place and hold it in another.
            Some((key, value))
                if value.trim_start().starts_with(['[', '{']) && names_secret_in(value) =>
            {
                format!("--set {key}={MASK}")
            }
            _ => format!("--set {table}{shown}"),
        }
    });
    let name = overrides.name.iter().map(|name| format!("--name {name}"));
    let words: Vec<&str> = overrides.arguments.iter().map(String::as_str).collect();
    let arguments = (!words.is_empty()).then(|| format!("-- {}", quoted_words(&words)));
    set.chain(name).chain(arguments).collect()
}

/// An argument vector for people, as a shell would take it.
pub(super) fn shown_argv(argv: &[String]) -> String {
    quoted_words(&argv.iter().map(String::as_str).collect::<Vec<_>>())
}

fn quoted_words(words: &[&str]) -> String {
    masked(words)
        .iter()
        .map(|word| quoted(word))
        .collect::<Vec<_>>()
        .join(" ")
}

/// A line of output with secrets masked: the values that the job was given as such (see [`hidden_values`]), and what looks like one.
#[must_use]
pub fn masked_line(line: &str, hidden: &[String]) -> String {
    let line = hidden.iter().fold(line.to_owned(), |line, value| {
        line.replace(value.as_str(), MASK)
    });
    mask_word(&line)
}

/// Values in a job's command and variables that are masked wherever they are shown. Short ones could be any word.
#[must_use]
pub fn hidden_values(command: &[String], variables: &[EnvVar]) -> Vec<String> {
    let words: Vec<&str> = command.iter().map(String::as_str).collect();
    let shown = mask_words(&words);
    let of_words = words
        .iter()
        .zip(&shown)
        .filter(|(word, shown)| word != shown)
        .map(|(word, _)| {
            let value = word
                .split_once('=')
                .filter(|(name, _)| !name.contains(char::is_whitespace));
            value.map_or(*word, |(_, value)| value)
        });
    let of_variables = variables
        .iter()
        .filter(|variable| is_of_secret(&variable.name, &variable.value))
        .map(|it| &*it.value);
    of_words
        .chain(of_variables)
        .filter(|value| value.len() >= SHORTEST_SECRET)
        .map(str::to_owned)
        .collect()
}

fn mask_words(words: &[&str]) -> Vec<String> {
    let mut name: Option<&str> = None;
    // The quote that a secret of several words ends with.
    let mut within: Option<char> = None;
    words
        .iter()
        .map(|word| {
            if let Some(quote) = within {
                within = within.filter(|_| !word.ends_with(quote));
                return MASK.to_owned();
            }
            let is_secret = name.take().is_some_and(|name| is_of_secret(name, word));
            if is_secret && !word.starts_with("--") && !word.is_empty() {
                let quote = word.chars().next().filter(|c| ['"', '\''].contains(c));
                within = quote.filter(|quote| word.len() == 1 || !word.ends_with(*quote));
                return MASK.to_owned();
            }
            name = name_of_next(word);
            mask_word(&cut(word))
        })
        .collect()
}

/// What names the word behind this one: `--token`, `"api_key":`, `Bearer`.
fn name_of_next(word: &str) -> Option<&str> {
    let bare = word.trim_matches(|c: char| "\"':={,(".contains(c));
    if ["bearer", "basic"].contains(&bare.to_ascii_lowercase().as_str()) {
        return Some("secret");
    }
    (is_option(word) || word.ends_with([':', '='])).then_some(bare)
}

/// Text for a shell: its words are masked, all between them stays.
fn mask_text(text: &str) -> String {
    let pieces: Vec<&str> = text.split_inclusive(char::is_whitespace).collect();
    let words: Vec<&str> = pieces.iter().map(|piece| piece.trim_end()).collect();
    let masked = mask_words(&words);
    pieces
        .iter()
        .zip(words)
        .zip(masked)
        .map(|((piece, word), shown)| shown + &piece[word.len()..])
        .collect()
}

fn mask_word(word: &str) -> String {
    let named = word
        .split_once('=')
        .filter(|(name, _)| !name.contains(char::is_whitespace));
    if let Some((name, value)) =
        named.filter(|(name, value)| !value.is_empty() && is_of_secret(name, value))
    {
        return format!("{name}={MASK}").replace(value, MASK);
    }
    if word.contains(char::is_whitespace) {
        return mask_text(word);
    }
    if holds_secret(word) {
        return named.map_or(MASK.to_owned(), |(name, _)| {
            if holds_secret(name) {
                MASK.to_owned()
            } else {
                format!("{name}={MASK}")
            }
        });
    }
    if word.contains("://") {
        without_password(word)
    } else {
        word.to_owned()
    }
}

/// Whether text such as `{"api_key":"x"}` has the name of a secret with a value behind it.
fn holds_secret(word: &str) -> bool {
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let mut rest = word;
    while let Some(begin) = rest.find(is_name) {
        let name = &rest[begin..];
        let end = name.find(|c| !is_name(c)).unwrap_or(name.len());
        let behind = name[end..].trim_start_matches(['"', '\'']);
        let value = behind.strip_prefix([':', '=', ',']).unwrap_or_default();
        if !value.is_empty() && is_of_secret(&name[..end], value) {
            return true;
        }
        rest = &name[end..];
    }
    false
}

/// Whether any name in a text is one of a secret.
fn names_secret_in(text: &str) -> bool {
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    text.split(|c| !is_name(c))
        .any(|name| !name.is_empty() && is_of_secret(name, "x"))
}

/// Whether a name, of an option or of a variable, is one of a secret.
fn is_of_secret(name: &str, value: &str) -> bool {
    let bare = name.trim_matches(|c: char| "-+~'\"({$".contains(c));
    let is_variable = !name.starts_with('-')
        && bare
            .chars()
            .all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_');
    let name = if is_variable {
        format!("${bare}")
    } else {
        bare.to_owned()
    };
    about(&name, Some(value)) == About::Secret
}

/// `https://user:word@host/x?key=word` without user and query.
pub(super) fn without_password(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else {
        return url.to_owned();
    };
    let rest = rest.split('?').next().unwrap_or(rest);
    let authority = rest.find('/').unwrap_or(rest.len());
    match rest[..authority].rfind('@') {
        Some(at) => format!("{scheme}://{}", &rest[at + 1..]),
        None => format!("{scheme}://{rest}"),
    }
}

fn cut(word: &str) -> String {
    if word.len() <= LONGEST_WORD {
        return word.to_owned();
    }
    format!("{}...", &word[..word.floor_char_boundary(LONGEST_WORD)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_in_words_options_and_shell_text_are_masked() {
        for (words, shown) in [
            (
                vec!["python", "train.py", "--lr", "0.1"],
                vec!["python", "train.py", "--lr", "0.1"],
            ),
            (
                vec!["p", "--hf-token", "hf_abc", "-v"],
                vec!["p", "--hf-token", "***", "-v"],
            ),
            (vec!["p", "--api_key=abc"], vec!["p", "--api_key=***"]),
            (
                vec!["env", "WANDB_API_KEY=abc", "p"],
                vec!["env", "WANDB_API_KEY=***", "p"],
            ),
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
    fn values_that_were_masked_are_masked_in_output_too() {
        let command = ["p", "--api-key", "SEKRET1", "--lr=0.1"].map(str::to_owned);
        let variables = [EnvVar {
            name: "HF_TOKEN".into(),
            value: "hf_abcdef".into(),
        }];
        let hidden = hidden_values(&command, &variables);
        assert_eq!(hidden, ["SEKRET1", "hf_abcdef"]);
        let line = "t.py: error: unrecognized arguments: SEKRET1 --api-key other, hf_abcdef at https://ada:pw@host/x";
        let shown = masked_line(line, &hidden);
        assert_eq!(
            shown,
            "t.py: error: unrecognized arguments: *** --api-key *** *** at https://host/x"
        );
        assert_eq!(
            masked_line("ValueError: token 5 is bad", &hidden),
            "ValueError: token 5 is bad"
        );
    }

    #[test]
    fn long_commands_are_cut() {
        let word = "a".repeat(5000);
        let shown = masked(&[word.as_str(); 10]);
        assert!(
            shown.len() < 6 && shown.last().is_some_and(|last| last == "..."),
            "{}",
            shown.len()
        );
        assert!(shown[0].ends_with("...") && shown[0].len() == LONGEST_WORD + 3);
    }
}
