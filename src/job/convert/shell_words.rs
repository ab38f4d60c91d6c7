//! Shell text as words, where the shell would do nothing else with it.

/// Commands that only a shell knows, or that would mean something else without it.
const BUILTINS: [&str; 41] = [
    "{", ".", ":", "alias", "bg", "break", "case", "cd", "command", "continue", "declare", "do",
    "done", "elif", "else", "esac", "eval", "exec", "exit", "export", "fg", "fi", "for",
    "function", "if", "in", "local", "read", "return", "set", "shift", "source", "then", "time",
    "trap", "ulimit", "umask", "unset", "until", "wait", "while",
];

/// The words of one simple command; `None` where only a shell understands the text.
pub(super) fn simple_command(text: &str) -> Option<Vec<String>> {
    split(text).filter(|words| {
        let is_for_shell = |first: &String| is_builtin(first) || assignment(first).is_some();
        !words.first().is_some_and(is_for_shell)
    })
}

/// Whether only a shell has a command of that name.
pub(super) fn is_builtin(word: &str) -> bool {
    BUILTINS.contains(&word)
}

/// `NAME=value`, which before a command sets a variable for it.
pub(super) fn assignment(word: &str) -> Option<(&str, &str)> {
    let is_part = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
    word.split_once('=').filter(|(name, _)| {
        name.bytes().all(is_part) && name.starts_with(|c: char| !c.is_ascii_digit())
    })
}

/// The words of a text in which nothing but quotes and backslashes has a meaning (POSIX, "Shell Command Language", 2.2);
/// `None` where something else has.
pub(super) fn split(text: &str) -> Option<Vec<String>> {
    let text = text.replace("\\\r\n", "").replace("\\\n", "");
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut chars = text.trim().chars();
    while let Some(c) = chars.next() {
        match c {
            c if "\n`*?[;&|<>(){}!$".contains(c) => return None,
            '~' if word.is_none() => return None,
            '#' if word.is_none() => break,
            c if c.is_whitespace() => words.extend(word.take()),
            '\'' => {
                let (quoted, rest) = chars.as_str().split_once('\'')?;
                word.get_or_insert_default().push_str(quoted);
                chars = rest.chars();
            }
            '"' => in_double_quotes(&mut chars, word.get_or_insert_default())?,
            '\\' => word.get_or_insert_default().push(chars.next()?),
            c => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    Some(words)
}

fn in_double_quotes(chars: &mut std::str::Chars<'_>, word: &mut String) -> Option<()> {
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
        simple_command(text)
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
            assert_eq!(simple_command(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "\\PC*|[a\\\\'\"$\n ]{0,12}") {
            let _ = simple_command(&text);
        }
    }
}
