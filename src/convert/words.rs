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
const BUILTINS: [&str; 40] = [
    ".", ":", "alias", "bg", "break", "case", "cd", "command", "continue", "declare", "do", "done", "elif",
    "else", "esac", "eval", "exec", "exit", "export", "fg", "fi", "for", "function", "if", "in", "local",
    "read", "return", "set", "shift", "source", "then", "time", "trap", "ulimit", "umask", "unset", "until",
    "wait", "while",
];

/// Reads one simple command. Quotes and backslashes are taken as the shell does (POSIX, "Shell Command Language", 2.2);
/// whatever else has a meaning for a shell makes it [`Words::Shell`].
pub(super) fn simple_command(text: &str) -> Words {
    let Some(words) = split(text) else { return Words::Shell };
    match words.first() {
        Some(first) if BUILTINS.contains(&first.as_str()) || is_assignment(first) => Words::Shell,
        _ => Words::Plain(words),
    }
}

/// `NAME=value` before a command sets a variable for it.
fn is_assignment(word: &str) -> bool {
    let name = word.split_once('=').map_or("", |(name, _)| name);
    !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

/// The words of a text in which nothing but quotes and backslashes has a meaning; `None` where something else has.
pub(super) fn split(text: &str) -> Option<Vec<String>> {
    let text = text.replace("\\\r\n", "").replace("\\\n", "");
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut chars = text.trim().chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\n' | '$' | '`' | '*' | '?' | '[' | ';' | '&' | '|' | '<' | '>' | '(' | ')' | '{' | '}'
            | '!' => {
                return None;
            }
            '~' | '#' if word.is_none() => return None,
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
            '"' => in_double_quotes(&mut chars, word.get_or_insert_default())?,
            '\\' => word.get_or_insert_default().push(chars.next()?),
            c => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    Some(words)
}

fn in_double_quotes(chars: &mut std::iter::Peekable<std::str::Chars<'_>>, word: &mut String) -> Option<()> {
    loop {
        match chars.next()? {
            '"' => return Some(()),
            '$' | '`' | '!' => return None,
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
            ("python3 resnet/x.py --a=b -c", vec!["python3", "resnet/x.py", "--a=b", "-c"]),
            ("./a 'b c' \"d 'e'\" f\\ g ''", vec!["./a", "b c", "d 'e'", "f g", ""]),
            ("a \\\n  b \\\r\n c ", vec!["a", "b", "c"]),
            ("run a#b x=~/y \"\\n\\$\"", vec!["run", "a#b", "x=~/y", "\\n$"]),
            ("", vec![]),
        ] {
            assert_eq!(plain(text), Some(words.into_iter().map(str::to_owned).collect()), "{text}");
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
            "a # b",
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
