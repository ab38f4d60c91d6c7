//! The one place that prints: results to standard output, everything else to standard error.

use std::io::{self, IsTerminal, Write};

use serde::Serialize;
use serde_json::{Value, json};

use crate::app::error::{Error, Kind, failure};
use crate::foundation::diagnostic::printable;

/// Version of the JSON envelope.
const SCHEMA_VERSION: u32 = 1;
/// Columns of what is no terminal.
const COLUMNS: usize = 100;

/// An empty sum is -0.0; no figure of ours means that.
fn unsign_zeros(value: &mut Value) {
    match value {
        Value::Number(number) if number.is_f64() && number.as_f64() == Some(0.0) => {
            *value = json!(0.0)
        }
        Value::Array(values) => values.iter_mut().for_each(unsign_zeros),
        Value::Object(values) => values.values_mut().for_each(unsign_zeros),
        _ => {}
    }
}

/// How this command talks.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Output {
    /// One JSON object instead of text.
    pub(crate) json: bool,
    /// The verb as it is typed, such as `image build`.
    operation: &'static str,
    /// Colour on standard error.
    pub(crate) colour: bool,
    /// Standard error is a terminal that can redraw a line.
    pub(crate) lively: bool,
}

impl Output {
    /// Looks at the streams: colour and redrawing only on a terminal that is not dumb, and no colour with `NO_COLOR`.
    pub(crate) fn new(json: bool, operation: &'static str) -> Self {
        let no_colour = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb");
        let lively = io::stderr().is_terminal() && !dumb;
        Self {
            json,
            operation,
            colour: lively && !no_colour,
            lively: lively && !json,
        }
    }

    /// The columns that sentences are wrapped into: those of the terminal, where standard output is one.
    pub(crate) fn columns(&self) -> usize {
        let terminal = io::stdout()
            .is_terminal()
            .then(crossterm::terminal::window_size);
        let columns = terminal
            .and_then(Result::ok)
            .map(|size| usize::from(size.columns));
        columns.filter(|columns| *columns > 0).unwrap_or(COLUMNS)
    }

    /// The object that carries a result, on a line.
    pub(crate) fn envelope(&self, answer: &impl Serialize) -> Result<String, Error> {
        let mut value =
            serde_json::to_value(answer).map_err(|error| Error::new(Kind::Internal, error))?;
        unsign_zeros(&mut value);
        let envelope = json!({
            "schema_version": SCHEMA_VERSION, "operation": self.operation, "ok": true, "result": value,
        });
        Ok(format!("{envelope}\n"))
    }

    /// Prints the result: `text` for people, `answer` for programs. What names from outside could do to a terminal is taken
    /// out of the text. A reader that went away is no error. Returns the exit code of success.
    pub(crate) fn result(&self, answer: &impl Serialize, text: &str) -> Result<u8, Error> {
        self.document(answer, &printable(text))
    }

    /// As [`Output::result`], of sentences and tables: on a terminal long lines are broken between words.
    pub(crate) fn sentences(&self, answer: &impl Serialize, text: &str) -> Result<u8, Error> {
        if io::stdout().is_terminal() {
            self.result(answer, &folded(text, self.columns()))
        } else {
            self.result(answer, text)
        }
    }

    /// The same with a text that other programs read, such as a script: it stays as it is.
    pub(crate) fn document(&self, answer: &impl Serialize, text: &str) -> Result<u8, Error> {
        let shown = if self.json {
            &self.envelope(answer)?
        } else {
            text
        };
        self.raw(shown.as_bytes()).map(|()| 0)
    }

    /// Writes bytes to standard output as they are.
    pub(crate) fn raw(&self, bytes: &[u8]) -> Result<(), Error> {
        let mut stdout = io::stdout().lock();
        match stdout.write_all(bytes).and_then(|()| stdout.flush()) {
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(failure!(
                CannotWrite,
                "cannot write standard output: {error}"
            )),
            _ => Ok(()),
        }
    }

    /// A line for people on standard error.
    pub(crate) fn note(&self, text: &str) {
        let _ = writeln!(io::stderr(), "{}", printable(text));
    }

    /// A warning on standard error.
    pub(crate) fn warning(&self, text: &str) {
        self.note(&format!("warning: {text}"));
    }

    /// A warning in a job's output, where other programs speak too.
    pub(crate) fn job_warning(&self, text: &str) {
        self.note(&format!("dlrun: warning: {text}"));
    }

    /// Reports a failed command: on standard error for people, on standard output for programs.
    pub(crate) fn failure(&self, error: &Error) {
        if self.json {
            let envelope = json!({
                "schema_version": SCHEMA_VERSION, "operation": self.operation, "ok": false, "error": error.to_json(),
            });
            if let Err(unwritten) = self.raw(format!("{envelope}\n").as_bytes()) {
                let _ = write!(
                    io::stderr(),
                    "{}{}",
                    error.render(false),
                    unwritten.render(false)
                );
            }
        } else {
            let _ = write!(io::stderr(), "{}", error.render(self.colour));
        }
    }
}

/// A text with lines of up to `columns` characters, broken between words; what follows is two blanks further in.
fn folded(text: &str, columns: usize) -> String {
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
    fn zero_has_no_sign_in_json() {
        let value = json!({ "a": [-0.0, -1.5, 0], "b": { "c": -0.0 } });
        let text = Output::new(true, "show").envelope(&value).expect("JSON");
        assert!(text.contains(r#""a":[0.0,-1.5,0],"b":{"c":0.0}"#), "{text}");
    }

    #[test]
    fn long_lines_are_broken_between_words_and_short_ones_stay() {
        let text = "  one two three four\nshort\n";
        assert_eq!(folded(text, 12), "  one two\n    three\n    four\nshort\n");
        assert_eq!(folded("a  b   c\n", 12), "a  b   c\n");
        assert_eq!(folded("/a/very/long/path\n", 5), "/a/very/long/path\n");
    }
}
