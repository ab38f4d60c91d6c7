//! Errors as people read them: a chain of causes with hints, or a place in a file with its line shown.

use std::error::Error;
use std::fmt::Write as _;
use std::ops::Range;

use annotate_snippets::{AnnotationKind, Level, Renderer, Snippet};

/// Something wrong at a place in a text file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Byte range in the file; `None` where something is missing.
    pub span: Option<Range<usize>>,
    /// What is wrong; lower case, no full stop.
    pub message: String,
    /// The user's next step.
    pub hint: Option<String>,
}

impl Problem {
    /// A problem at `span`.
    #[must_use]
    pub fn at(span: Range<usize>, message: impl Into<String>) -> Self {
        Self {
            span: Some(span),
            message: message.into(),
            hint: None,
        }
    }

    /// A problem of the file as a whole.
    #[must_use]
    pub fn of_file(message: impl Into<String>) -> Self {
        Self {
            span: None,
            message: message.into(),
            hint: None,
        }
    }

    /// Adds the user's next step.
    #[must_use]
    pub fn hinted(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Adds the word that was most likely meant, if there is one.
    #[must_use]
    pub fn did_you_mean(self, guess: Option<&str>) -> Self {
        match guess {
            Some(guess) => self.hinted(format!("did you mean `{guess}`?")),
            None => self,
        }
    }

    /// Line and column of the beginning, both counted from 1, the column in characters.
    #[must_use]
    pub fn position(&self, text: &str) -> Option<(usize, usize)> {
        line_and_column(self.span.as_ref()?.start, text)
    }
}

/// Line and column of a byte, both counted from 1, the column in characters.
#[must_use]
pub fn line_and_column(at: usize, text: &str) -> Option<(usize, usize)> {
    let before = text.get(..at)?;
    let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
    Some((
        before.matches('\n').count() + 1,
        before[line_start..].chars().count() + 1,
    ))
}

impl From<Problem> for Vec<Problem> {
    fn from(problem: Problem) -> Self {
        vec![problem]
    }
}

/// Puts problems into the order of their file; those of the file as a whole come last.
pub fn sort_problems(problems: &mut [Problem]) {
    problems.sort_by_key(|problem| problem.span.as_ref().map_or(usize::MAX, |span| span.start));
}

/// Lines longer than this are not shown: the excerpt of a problem is for reading.
const MAX_SHOWN_LINE: usize = 400;

/// Shows `problems` of the file `path` one after the other, each with its line underlined.
#[must_use]
pub fn render_problems(path: &str, text: &str, problems: &[Problem], colour: bool) -> String {
    let renderer = if colour {
        Renderer::styled()
    } else {
        Renderer::plain()
    };
    let mut shown = String::new();
    for problem in problems {
        if !shown.is_empty() {
            shown.push('\n');
        }
        shown.push_str(&render_one(path, text, problem, &renderer));
        shown.push('\n');
    }
    shown
}

fn render_one(path: &str, text: &str, problem: &Problem, renderer: &Renderer) -> String {
    let message = printable(&problem.message);
    let Some(span) = problem
        .span
        .clone()
        .filter(|span| text.get(span.clone()).is_some())
    else {
        let mut plain = format!("error: {path}: {message}");
        if let Some(hint) = &problem.hint {
            let _ = write!(plain, "\n  help: {}", printable(hint));
        }
        return plain;
    };
    let start = text[..span.start]
        .rfind('\n')
        .map_or(0, |newline| newline + 1);
    let end = text[span.start..]
        .find('\n')
        .map_or(text.len(), |newline| span.start + newline);
    if end - start > MAX_SHOWN_LINE {
        let (line, column) = problem.position(text).unwrap_or((1, 1));
        let at = Problem {
            span: None,
            ..problem.clone()
        };
        return render_one(&format!("{path}:{line}:{column}"), text, &at, renderer);
    }
    let line_number = text[..start].matches('\n').count() + 1;
    let inside = (span.start - start)..(span.end.min(end).max(span.start) - start);
    let group = Level::ERROR.primary_title(message).element(
        Snippet::source(&text[start..end])
            .path(path)
            .line_start(line_number)
            .annotation(AnnotationKind::Primary.span(inside)),
    );
    let group = match &problem.hint {
        Some(hint) => group.element(Level::HELP.message(printable(hint))),
        None => group,
    };
    renderer.render(&[group])
}

/// Replaces what is deceptive, so that text from outside can neither drive the terminal nor pass for other text.
#[must_use]
pub fn printable(text: &str) -> String {
    text.chars()
        .map(|c| {
            if is_deceptive(c) && c != '\n' && c != '\t' {
                '\u{fffd}'
            } else {
                c
            }
        })
        .collect()
}

/// Control characters, and those that turn the direction of writing or have no width.
#[must_use]
pub fn is_deceptive(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

/// The causes of `error`, outermost first, each as its own text.
#[must_use]
pub fn chain(error: &dyn Error) -> Vec<String> {
    let mut texts = vec![printable(&error.to_string())];
    let mut source = error.source();
    while let Some(cause) = source {
        texts.push(printable(&cause.to_string()));
        source = cause.source();
    }
    texts
}

/// The causes of `error` on one line.
#[must_use]
pub fn chain_text(error: &dyn Error) -> String {
    chain(error).join(": ")
}

/// Shows an error as a chain with hints:
///
/// ```text
/// error: slurm refused the job
///   caused by: `sbatch` exited with status 1
///   caused by: sbatch: error: invalid partition specified: gpux
/// hint: list partitions with `sinfo -s`
/// ```
#[must_use]
pub fn render_chain(error: &dyn Error, hints: &[String]) -> String {
    let mut shown = String::new();
    for (depth, text) in chain(error).into_iter().enumerate() {
        // Output of another program may have several lines.
        let text = text.replace('\n', "\n             ");
        let _ = writeln!(
            shown,
            "{}{text}",
            if depth == 0 {
                "error: "
            } else {
                "  caused by: "
            }
        );
    }
    for hint in hints {
        let _ = writeln!(shown, "hint: {}", printable(hint));
    }
    shown
}

/// The candidate that a mistyped `word` most likely meant: at most 1 + a third of its length away.
#[must_use]
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let limit = 1 + word.chars().count() / 3;
    candidates
        .into_iter()
        .map(|candidate| (strsim::damerau_levenshtein(word, candidate), candidate))
        .filter(|(distance, _)| *distance <= limit)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// A text with lines of up to `columns` characters, broken between words; what follows is two blanks further in.
#[must_use]
pub fn folded(text: &str, columns: usize) -> String {
    let mut shown = String::new();
    for line in text.lines() {
        let indent = line.chars().take_while(|c| *c == ' ').count() + 2;
        let (mut used, mut is_begun) = (0, false);
        for word in line.split(' ') {
            let length = word.chars().count();
            if is_begun && used + 1 + length > columns && !word.is_empty() {
                shown.push_str(&format!("\n{:indent$}", ""));
                (used, is_begun) = (indent, false);
            }
            if is_begun {
                shown.push(' ');
                used += 1;
            }
            shown.push_str(word);
            (used, is_begun) = (used + length, true);
        }
        shown.push('\n');
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lines_are_broken_between_words_and_short_ones_stay() {
        let text = "  one two three four\nshort\n";
        assert_eq!(folded(text, 12), "  one two\n    three\n    four\nshort\n");
        assert_eq!(folded("a  b   c\n", 12), "a  b   c\n");
        assert_eq!(folded("/a/very/long/path\n", 5), "/a/very/long/path\n");
    }

    #[test]
    fn a_problem_shows_file_line_column_and_hint() {
        let text = "a = 1\nbacth = 2\n";
        let problem = Problem::at(6..11, "unknown key `bacth`").hinted("did you mean `batch`?");
        let shown = render_problems("job.toml", text, std::slice::from_ref(&problem), false);
        for part in [
            "unknown key `bacth`",
            "job.toml:2:1",
            "bacth = 2",
            "^^^^^",
            "did you mean `batch`?",
        ] {
            assert!(shown.contains(part), "{part} in\n{shown}");
        }
        assert_eq!(problem.position(text), Some((2, 1)));
    }

    #[test]
    fn control_characters_never_reach_the_terminal() {
        let shown = render_problems("j", "x", &[Problem::of_file("bad \u{1b}[31m name")], false);
        assert!(!shown.contains('\u{1b}'), "{shown}");
        assert_eq!(
            printable("a\u{202e}b\u{2066}c\u{200b}\td\n\u{9b}é"),
            "a\u{fffd}b\u{fffd}c\u{fffd}\td\n\u{fffd}é"
        );
    }

    #[test]
    fn very_long_lines_are_named_not_shown() {
        let text = format!("x = \"{}\"", "a".repeat(10_000));
        let shown = render_problems("j", &text, &[Problem::at(4..9000, "too long")], false);
        assert!(shown.len() < 200 && shown.contains("j:1:5"), "{shown}");
    }

    #[test]
    fn nearest_finds_typing_errors_only() {
        let keys = ["walltime", "memory", "nodes"];
        assert_eq!(nearest("waltime", keys), Some("walltime"));
        assert_eq!(nearest("memroy", keys), Some("memory"));
        assert_eq!(nearest("bananas", keys), None);
    }
}
