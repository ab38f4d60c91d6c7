//! What a program printed before it failed: the end of its traceback, or its error message.

use super::ExitStatus;
use super::first_rank::{NOT_FIT, NOT_MET};

/// Only this much of the end of an output is looked at, in bytes.
pub const LAST_WORDS_BYTES: usize = 16 << 10;
/// Lines that are kept, and characters of each.
const MOST_LINES: usize = 12;
const LONGEST_LINE: usize = 500;
/// Exceptions of programs that only started another one: its own is above.
const OF_LAUNCHERS: [&str; 4] = [
    "ChildFailedError",
    "CalledProcessError",
    "ProcessExitedException",
    "SystemExit",
];
/// How lines begin that say why a program ended.
const BEGINNINGS: [&str; 6] = [
    "Segmentation fault",
    "Bus error",
    "Aborted",
    "Illegal instruction",
    "Fatal Python error:",
    "terminate called",
];
/// How the last line of an output begins that says so.
const LAST_BEGINNINGS: [&str; 4] = ["error:", "fatal:", "fatal error:", "[error]"];
/// What such lines have within, and the exit code that goes with it: of argparse, of shells, of Python and of dlrun itself.
const WITHIN: [(&str, i32); 8] = [
    (": error: ", 2),
    (": command not found", 127),
    (": No such file or directory", 127),
    (": Permission denied", 126),
    (": can't open file ", 2),
    ("dlrun: error: rank ", 66),
    (NOT_MET, 69),
    (NOT_FIT, 69),
];

/// The last lines of the traceback in the end of an output, the exception as the last; else one line that says why the program ended;
/// else nothing. `exit` is how the command ended: a message that another end goes with is not its reason.
#[must_use]
pub fn last_words(tail: &[u8], exit: ExitStatus) -> Vec<String> {
    let text = String::from_utf8_lossy(tail);
    let lines: Vec<&str> = text
        .lines()
        .map(|line| line.rsplit('\r').next().unwrap_or(line))
        .collect();
    let found = traceback(&lines)
        .or_else(|| error_line(&lines, exit))
        .unwrap_or_default();
    let skipped = found.len().saturating_sub(MOST_LINES);
    found[skipped..].iter().map(|line| shown(line)).collect()
}

/// The lines of the last traceback that is not a launcher's.
fn traceback<'a>(lines: &[&'a str]) -> Option<Vec<&'a str>> {
    const HEAD: &str = "Traceback (most recent call last):";
    let heads = lines
        .iter()
        .enumerate()
        .rev()
        .filter_map(|(at, line)| Some((at, line.find(HEAD)?)));
    let mut any = None;
    for (at, prefix) in heads {
        let prefix = &lines[at][..prefix];
        // Of several ranks each line has its own prefix.
        let own = lines[at..]
            .iter()
            .filter_map(|line| line.strip_prefix(prefix));
        let mut body = Vec::new();
        for line in own {
            let is_inside =
                body.is_empty() || line.starts_with(char::is_whitespace) || line.is_empty();
            body.push(line.trim_end());
            if !is_inside {
                break;
            }
        }
        // An output that ends within a traceback has no exception.
        let exception = body
            .last()
            .filter(|line| body.len() > 1 && is_exception(line));
        let Some(exception) = exception else { continue };
        if !OF_LAUNCHERS.iter().any(|name| exception.contains(name)) {
            return Some(body);
        }
        any.get_or_insert(body);
    }
    any
}

/// `ValueError: ...`, `torch.cuda.OutOfMemoryError: ...`, `KeyboardInterrupt`
fn is_exception(line: &str) -> bool {
    let name = line.split([':', ' ']).next().unwrap_or_default();
    name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "._".contains(c))
}

fn error_line<'a>(lines: &[&'a str], exit: ExitStatus) -> Option<Vec<&'a str>> {
    let says_why = |line: &&&str| {
        let line = line.trim();
        let goes_with =
            |(word, code): &(&str, i32)| *code == exit.shell_code() && line.contains(word);
        BEGINNINGS.iter().any(|word| line.starts_with(word)) || WITHIN.iter().any(goes_with)
    };
    // A program that names its error last ended by it.
    let last = lines.iter().rfind(|line| !line.trim().is_empty());
    let names_error = |line: &&&str| {
        let line = line.trim().to_ascii_lowercase();
        LAST_BEGINNINGS.iter().any(|word| line.starts_with(word))
    };
    let found = lines.iter().rev().take(30).find(says_why);
    let found = found.or_else(|| last.filter(names_error));
    found.map(|line| vec![line.trim()])
}

fn shown(line: &str) -> String {
    let clean: String = line.chars().filter(|c| !c.is_control()).collect();
    match clean.char_indices().nth(LONGEST_LINE) {
        Some((end, _)) => format!("{}...", &clean[..end]),
        None => clean,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Vec<String> {
        last_words(text.as_bytes(), ExitStatus::Code(1))
    }

    #[test]
    fn an_error_that_is_the_last_line_is_the_reason() {
        assert_eq!(
            of("epoch 1\nERROR: dataset is corrupt\n\n"),
            ["ERROR: dataset is corrupt"]
        );
        assert_eq!(of("Error: retrying\nepoch 2\n"), Vec::<String>::new());
    }

    #[test]
    fn the_traceback_is_found_with_its_exception() {
        let text = "epoch 1\nTraceback (most recent call last):\n  File \"a.py\", line 3, in <module>\n    import x\n\
             ModuleNotFoundError: No module named 'x'\nsrun: error: n1: task 0: Exited with exit code 1\n";
        let found = of(text);
        assert_eq!(
            (found.len(), found[3].as_str()),
            (4, "ModuleNotFoundError: No module named 'x'")
        );
    }

    #[test]
    fn a_launchers_exception_is_not_the_cause() {
        let text = "[rank1]: Traceback (most recent call last):\n[rank0]: epoch 2\n[rank1]:   File \"a.py\", line 3\n\
             [rank1]: ValueError: bad\nTraceback (most recent call last):\n  File \"run.py\", line 1\n\
             torch.distributed.elastic.multiprocessing.errors.ChildFailedError: \n====\n";
        assert_eq!(of(text).last().map(String::as_str), Some("ValueError: bad"));
        let alone = &text[text.find("\nTraceback").expect("the second") + 1..];
        assert!(
            of(alone)
                .last()
                .is_some_and(|line| line.contains("ChildFailedError"))
        );
    }

    #[test]
    fn errors_without_a_traceback_are_one_line() {
        let argparse = "t.py: error: unrecognized arguments: --lrr";
        let shell = "bash: line 1: foo: command not found";
        for (text, code, found) in [
            (format!("usage: t.py [-h]\n{argparse}\n"), 2, Some(argparse)),
            (format!("{shell}\n"), 127, Some(shell)),
            // The program went on after it.
            (format!("{shell}\ntraining\n"), 3, None),
            (
                "ls: cannot access '/x': No such file or directory\ntraining\n".to_owned(),
                3,
                None,
            ),
            (
                "Segmentation fault (core dumped)\n".to_owned(),
                139,
                Some("Segmentation fault (core dumped)"),
            ),
            (
                "epoch 1 loss 0.5\nerror rate 0.3\ndone\n".to_owned(),
                1,
                None,
            ),
            ("Traceback (most recent call last):\n".to_owned(), 1, None),
            (String::new(), 1, None),
        ] {
            let words = last_words(text.as_bytes(), ExitStatus::Code(code));
            assert_eq!(words.last().map(String::as_str), found, "{text}");
        }
        let long = format!(
            "Traceback (most recent call last):\n{}E: {}\n",
            "  File \"a\"\n".repeat(50),
            "x".repeat(900)
        );
        assert_eq!(of(&long).len(), MOST_LINES);
        assert!(of(&long)[MOST_LINES - 1].len() < 510);
    }
}
