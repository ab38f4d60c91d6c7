//! The words of a command as names and values.

/// One argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Argument<'a> {
    /// Its name without dashes; `None`: it has none.
    pub name: Option<&'a str>,
    /// Its value; `None`: it is a flag.
    pub value: Option<&'a str>,
}

/// Takes words apart: `--epochs 5`, `--epochs=5`, `-e 5`, `train.epochs=5`, `data.csv`. Whether a word behind an option is its
/// value cannot be known; it is taken for that, which is the same in each run of the same command.
#[must_use]
pub fn arguments<'a>(words: &[&'a str]) -> Vec<Argument<'a>> {
    let mut arguments = Vec::new();
    let mut words = words.iter().copied().peekable();
    while let Some(word) = words.next() {
        let bare = word.trim_start_matches('-');
        let assigned = word.split_once('=').filter(|(name, _)| is_key(name));
        let (name, value) = match (is_option(word), bare.split_once('='), assigned) {
            (true, Some((name, value)), _) => (Some(name), Some(value)),
            (true, None, _) => (Some(bare), words.next_if(|next| !is_option(next))),
            (false, _, Some((name, value))) => {
                (Some(name.trim_start_matches(['+', '~'])), Some(value))
            }
            (false, _, None) => (None, Some(word)),
        };
        arguments.push(Argument { name, value });
    }
    arguments
}

/// A word of a command line, in quotes where a shell needs them.
#[must_use]
pub fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-./=:,@%+*".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// Says whether a word is an option; a negative number is none.
#[must_use]
pub fn is_option(word: &str) -> bool {
    word.len() > 1 && word.starts_with('-') && number(word).is_none()
}

/// `trainer.max_epochs` of `trainer.max_epochs=5`: a name without a slash, which a path would have.
fn is_key(text: &str) -> bool {
    let text = text.trim_start_matches(['+', '~']);
    let allowed = |c: char| c.is_ascii_alphanumeric() || "._-@".contains(c);
    text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') && text.chars().all(allowed)
}

/// A finite number in digits: `5`, `-1`, `3e-4`. Words such as `inf` are none.
#[must_use]
pub fn number(text: &str) -> Option<f64> {
    let digits = text.trim_start_matches(['+', '-']);
    let is_number = digits.starts_with(|c: char| c.is_ascii_digit() || c == '.')
        && digits.bytes().any(|byte| byte.is_ascii_digit());
    text.parse()
        .ok()
        .filter(|number: &f64| is_number && number.is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(line: &str) -> Vec<(Option<&str>, Option<&str>)> {
        let words: Vec<&str> = line.split(' ').collect();
        arguments(&words)
            .into_iter()
            .map(|argument| (argument.name, argument.value))
            .collect()
    }

    #[test]
    fn each_spelling_of_an_argument_comes_to_the_same() {
        for line in [
            "--epochs 5",
            "--epochs=5",
            "-epochs 5",
            "epochs=5",
            "+epochs=5",
        ] {
            assert_eq!(taken(line), [(Some("epochs"), Some("5"))], "{line}");
        }
        assert_eq!(
            taken("-e 5 -x"),
            [(Some("e"), Some("5")), (Some("x"), None)]
        );
        assert_eq!(
            taken("--lr -1 a"),
            [(Some("lr"), Some("-1")), (None, Some("a"))]
        );
        assert_eq!(
            taken("--a --b=c=d"),
            [(Some("a"), None), (Some("b"), Some("c=d"))]
        );
        assert_eq!(
            taken("/a/b=c"),
            [(None, Some("/a/b=c"))],
            "a path is not a name"
        );
        assert_eq!(taken("- --"), [(None, Some("-")), (Some(""), None)]);
    }

    #[test]
    fn numbers_are_in_digits() {
        assert_eq!(
            [
                "5", "-1", "3e-4", ".5", "1_0", "inf", "nan", "5k", "e5", "0x1"
            ]
            .map(number),
            [
                Some(5.0),
                Some(-1.0),
                Some(3e-4),
                Some(0.5),
                None,
                None,
                None,
                None,
                None,
                None
            ]
        );
    }
}
