//! The one place that prints: results to standard output, everything else to standard error.

use std::io::{self, IsTerminal, Write};
use std::os::fd::AsFd;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use serde::Serialize;
use serde_json::Value;

use crate::app::error::{Error, ErrorAnswer, Kind, failure};
use crate::foundation::diagnostic::{folded, printable};

/// Version of the JSON envelope.
const SCHEMA_VERSION: u32 = 1;

/// An empty sum is -0.0; no figure of ours means that.
fn unsign_zeros(value: &mut Value) {
    match value {
        Value::Number(number) if number.is_f64() && number.as_f64() == Some(0.0) => {
            *value = 0.0.into()
        }
        Value::Array(values) => values.iter_mut().for_each(unsign_zeros),
        Value::Object(values) => values.values_mut().for_each(unsign_zeros),
        _ => {}
    }
}

/// What every `--json` prints, on one line.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Envelope<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<ErrorAnswer>,
    ok: bool,
    /// The verb as it is typed, such as `image build`.
    operation: &'a str,
    /// What the verb answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<Value>,
    schema_version: u32,
}

/// The columns of the terminal, where standard output is one.
pub(crate) fn terminal_columns() -> Option<u16> {
    let size = io::stdout()
        .is_terminal()
        .then(crossterm::terminal::window_size)?
        .ok()?;
    Some(size.columns).filter(|columns| *columns > 0)
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

    /// The object that carries a result, on a line.
    pub(crate) fn envelope(&self, answer: &impl Serialize) -> Result<String, Error> {
        let mut value =
            serde_json::to_value(answer).map_err(|error| Error::new(Kind::Internal, error))?;
        unsign_zeros(&mut value);
        self.line(Some(value), None)
    }

    fn line(&self, result: Option<Value>, error: Option<ErrorAnswer>) -> Result<String, Error> {
        let envelope = Envelope {
            ok: error.is_none(),
            error,
            operation: self.operation,
            result,
            schema_version: SCHEMA_VERSION,
        };
        let value = serde_json::to_value(&envelope);
        value
            .map(|value| format!("{value}\n"))
            .map_err(|error| Error::new(Kind::Internal, error))
    }

    /// Prints the result: `text` for people, `answer` for programs. What names from outside could do to a terminal is taken
    /// out of the text. A reader that went away is no error. Returns the exit code of success.
    pub(crate) fn result(&self, answer: &impl Serialize, text: &str) -> Result<u8, Error> {
        self.document(answer, &printable(text))
    }

    /// As [`Output::result`], of sentences and tables: on a terminal long lines are broken between words.
    pub(crate) fn sentences(&self, answer: &impl Serialize, text: &str) -> Result<u8, Error> {
        match terminal_columns() {
            Some(columns) => self.result(answer, &folded(text, usize::from(columns))),
            None => self.result(answer, text),
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

    /// Whether somebody may still read standard output: a pipe without a reader reports an error.
    pub(crate) fn is_read(&self) -> bool {
        let stdout = io::stdout();
        let mut fds = [PollFd::new(stdout.as_fd(), PollFlags::empty())];
        let _ = poll(&mut fds, PollTimeout::ZERO);
        let events = fds[0].revents().unwrap_or(PollFlags::empty());
        !events.contains(PollFlags::POLLERR)
    }

    /// Empties the screen, where standard output is one.
    pub(crate) fn clear(&self) -> Result<(), Error> {
        match self.lively && io::stdout().is_terminal() {
            true => self.raw(b"\x1b[2J\x1b[H"),
            false => Ok(()),
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

    /// A line in a job's output, where other programs speak too.
    pub(crate) fn job_note(&self, text: &str) {
        self.note(&format!("dlrun: {text}"));
    }

    /// A warning in a job's output, where other programs speak too.
    pub(crate) fn job_warning(&self, text: &str) {
        self.note(&format!("dlrun: warning: {text}"));
    }

    /// Reports a failed command: on standard error for people, on standard output for programs.
    pub(crate) fn failure(&self, error: &Error) {
        if self.json {
            let line = self.line(None, Some(error.answer()));
            if line.and_then(|line| self.raw(line.as_bytes())).is_err() {
                self.note(&error.render(false));
            }
        } else {
            let _ = write!(io::stderr(), "{}", error.render(self.colour));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zero_has_no_sign_in_json() {
        let value = serde_json::json!({ "a": [-0.0, -1.5, 0], "b": { "c": -0.0 } });
        let text = Output::new(true, "show").envelope(&value).expect("JSON");
        assert!(text.contains(r#""a":[0.0,-1.5,0],"b":{"c":0.0}"#), "{text}");
    }
}
