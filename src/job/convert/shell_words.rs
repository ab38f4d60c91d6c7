//! Shell text as words, where the shell would do nothing else with it.

/// What a shell makes of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Words {
    /// A program and its arguments; no shell is needed.
    Plain(Vec<String>),
    /// Variables, patterns, several commands: only a shell understands it.
    Shell,
}

/// Commands that only a shell knows, or that would mean something else without it.
const BUILTINS: [&str; 41] = [
    "{", ".", ":", "alias", "bg", "break", "case", "cd", "command", "continue", "declare", "do",
    "done", "elif", "else", "esac", "eval", "exec", "exit", "export", "fg", "fi", "for",
    "function", "if", "in", "local", "read", "return", "set", "shift", "source", "then", "time",
    "trap", "ulimit", "umask", "unset", "until", "wait", "while",
];

/// Reads one simple command. Quotes and backslashes are taken as the shell does (POSIX, "Shell Command Language", 2.2);
/// whatever else has a meaning for a shell makes it [`Words::Shell`].
pub(super) fn simple_command(text: &str) -> Words {
    let Some(words) = split(text) else {
        return Words::Shell;
    };
    match words.first() {
        Some(first) if is_builtin(first) || assignment(first).is_some() => Words::Shell,
        _ => Words::Plain(words),
    }
}

pub(super) fn is_builtin(word: &str) -> bool {
    BUILTINS.contains(&word)
}

/// `NAME=value`, which before a command sets a variable for it.
pub(super) fn assignment(word: &str) -> Option<(&str, &str)> {
    word.split_once('=').filter(|(name, _)| is_name(name))
}

fn is_name(text: &str) -> bool {
    let is_part = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
    text.bytes().all(is_part) && text.starts_with(|c: char| !c.is_ascii_digit())
}

/// The words of a text in which nothing but quotes and backslashes has a meaning; `None` where something else has.
pub(super) fn split(text: &str) -> Option<Vec<String>> {
    expand(text, &|_| None)
}

/// [`split`] with the variables whose values are known, `HOME` among them for `~/`. Where a shell would split a value
/// or take it for a pattern, the text is not understood.
pub(super) fn expand(text: &str, known: &dyn Fn(&str) -> Option<String>) -> Option<Vec<String>> {
    let text = text.replace("\\\r\n", "").replace("\\\n", "");
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut chars = text.trim().chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\n' | '`' | '*' | '?' | '[' | ';' | '&' | '|' | '<' | '>' | '(' | ')' | '{' | '}'
            | '!' => {
                return None;
            }
            '$' => {
                let value = known(&variable(&mut chars)?)?;
                let is_one = !value.is_empty()
                    && !value.contains(|c: char| c.is_whitespace() || "*?[".contains(c));
                word.get_or_insert_default()
                    .push_str(Some(&value).filter(|_| is_one)?);
            }
            '~' if word.is_none() => {
                let home = known("HOME").filter(|_| chars.peek() == Some(&'/'))?;
                word = Some(home);
            }
            '#' if word.is_none() => break,
            c if c.is_whitespace() => words.extend(word.take()),
            '\'' => {
                let word = word.get_or_insert_default();
                loop {
                    match chars.next()? {
                        '\'' => break,
                        c => word.push(c),
                    }
                }
            }
            '"' => in_double_quotes(&mut chars, word.get_or_insert_default(), known)?,
            '\\' => word.get_or_insert_default().push(chars.next()?),
            c => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    Some(words)
}

type Chars<'a> = std::iter::Peekable<std::str::Chars<'a>>;

/// The name behind `$`, as `NAME` or `{NAME}`.
fn variable(chars: &mut Chars<'_>) -> Option<String> {
    let mut name = String::new();
    let is_braced = chars.next_if_eq(&'{').is_some();
    while let Some(c) = chars.next_if(|c| c.is_ascii_alphanumeric() || *c == '_') {
        name.push(c);
    }
    let is_whole = !is_braced || chars.next_if_eq(&'}').is_some();
    (is_whole && !name.is_empty() && is_name(&name)).then_some(name)
}

fn in_double_quotes(
    chars: &mut Chars<'_>,
    word: &mut String,
    known: &dyn Fn(&str) -> Option<String>,
) -> Option<()> {
    loop {
        match chars.next()? {
            '"' => return Some(()),
            '$' => word.push_str(&known(&variable(chars)?)?),
            '`' | '!' => return None,
            '\\' => match chars.next()? {
                c @ ('"' | '\\' | '$' | '`') => word.push(c),
                c => word.extend(['\\', c]),
            },
            c => word.push(c),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn plain(text: &str) -> Option<Vec<String>> {
        match simple_command(text) {
            Words::Plain(words) => Some(words),
            Words::Shell => None,
        }
    }

    #[test]
    fn plain_commands_are_split_as_a_shell_would() {
        for (text, words) in [
            (
                "python3 resnet/x.py --a=b -c",
                vec!["python3", "resnet/x.py", "--a=b", "-c"],
            ),
            (
                "./a 'b c' \"d 'e'\" f\\ g ''",
                vec!["./a", "b c", "d 'e'", "f g", ""],
            ),
            ("a \\\n  b \\\r\n c ", vec!["a", "b", "c"]),
            (
                "run a#b x=~/y \"\\n\\$\"",
                vec!["run", "a#b", "x=~/y", "\\n$"],
            ),
            ("", vec![]),
            ("a b # c 'd", vec!["a", "b"]),
        ] {
            assert_eq!(
                plain(text),
                Some(words.into_iter().map(str::to_owned).collect()),
                "{text}"
            );
        }
    }

    #[test]
    fn what_only_a_shell_understands_is_left_to_it() {
        for text in [
            "${ROOT}/bin/x",
            "a; b",
            "a && b",
            "a | b",
            "a > b",
            "ls *.c",
            "cd x",
            "A=1 b",
            "a \"$B\"",
            "a `b`",
            "~/bin/x",
            "a {1,2}",
            "a 'b",
            "a\nb",
            "source x",
            "a \\",
            "exec a",
            "echo \"a!b\"",
        ] {
            assert_eq!(simple_command(text), Words::Shell, "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "\\PC*|[a\\\\'\"$\n ]{0,12}") {
            let _ = simple_command(&text);
        }
    }
}
