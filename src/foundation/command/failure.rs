//! Why a program did not run, or did not run well.

use std::fmt;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::ExitStatus;

use nix::sys::signal::Signal;

/// Why a program could not be run to its end, or what it ended with.
#[derive(Debug, thiserror::Error)]
pub enum CommandError {
    /// No such program.
    #[error("cannot find the program `{program}`{}", places(.searched))]
    NotFound {
        /// As it was asked for.
        program: String,
        /// The directories that were searched before `PATH`; empty where none was fixed.
        searched: Vec<PathBuf>,
    },
    /// A file is there, but may not be executed.
    #[error("`{}` is not an executable file", .program.display())]
    NotExecutable {
        /// The file.
        program: PathBuf,
    },
    /// The working directory of the program is missing.
    #[error("cannot start `{program}` in `{}`, which is not a directory", .path.display())]
    NoDirectory {
        /// As it was asked for.
        program: String,
        /// The working directory.
        path: PathBuf,
    },
    /// The system refused to start it.
    #[error("cannot start `{program}`")]
    Spawn {
        /// As it was asked for.
        program: String,
        /// The refusal.
        #[source]
        source: io::Error,
    },
    /// It was started, but could not be followed.
    #[error("cannot follow `{program}`")]
    Follow {
        /// As it was asked for.
        program: String,
        /// The failure of the pipe or of the wait.
        #[source]
        source: io::Error,
    },
    /// It took too long and was killed.
    #[error("`{program}` gave no answer within {seconds} s and was stopped")]
    TimedOut {
        /// As it was asked for.
        program: String,
        /// The limit, in seconds.
        seconds: f64,
    },
    /// It was stopped on request.
    #[error("`{program}` was stopped")]
    Stopped {
        /// As it was asked for.
        program: String,
    },
    /// It wrote too much and was killed.
    #[error("`{program}` wrote more than {limit_bytes} bytes and was stopped")]
    TooMuchOutput {
        /// As it was asked for.
        program: String,
        /// The limit, in bytes.
        limit_bytes: usize,
    },
    /// It ended with a failure.
    #[error("`{program}` {status}")]
    Failed {
        /// As it was asked for.
        program: String,
        /// `exited with status 1`, `was killed by SIGKILL`.
        status: String,
        /// The end of what it wrote; `None` where it was silent.
        #[source]
        words: Option<Words>,
    },
}

impl CommandError {
    /// Returns the exit code that a shell gives for this failure: 127 for a missing program, else 126.
    #[must_use]
    pub fn shell_code(&self) -> i32 {
        if matches!(self, Self::NotFound { .. }) {
            127
        } else {
            126
        }
    }
}

/// What a failed program wrote at last.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Words(
    /// The text, without blank lines at its ends.
    pub String,
);

impl fmt::Display for Words {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Words {}

/// Lines of a failed program that an error repeats. A Python traceback's point is in its last lines.
const WORD_LINES: usize = 12;

/// Characters that an error repeats at most.
const WORD_CHARACTERS: usize = 2000;

impl Words {
    /// Takes the last lines of `text`; `None` where it is blank.
    #[must_use]
    pub fn end_of(text: &str) -> Option<Self> {
        let text = text.trim();
        let lines: Vec<&str> = text.lines().collect();
        let shown = lines[lines.len().saturating_sub(WORD_LINES)..].join("\n");
        let surplus = shown.chars().count().saturating_sub(WORD_CHARACTERS);
        let shown: String = shown.chars().skip(surplus).collect();
        (!shown.is_empty()).then_some(Self(shown))
    }
}

/// `exited with status 1` or `was killed by SIGKILL`.
pub(super) fn status_text(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exited with status {code}"),
        (None, Some(number)) => match Signal::try_from(number) {
            Ok(signal) => format!("was killed by {signal}"),
            Err(_) => format!("was killed by signal {number}"),
        },
        (None, None) => "ended in an unknown way".to_owned(),
    }
}

fn places(searched: &[PathBuf]) -> String {
    let fixed: Vec<String> = searched
        .iter()
        .map(|dir| format!("`{}`", dir.display()))
        .collect();
    if fixed.is_empty() {
        String::new()
    } else {
        format!(" in {} or in PATH", fixed.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_the_last_lines_only() {
        assert_eq!(Words::end_of(" \n\n"), None);
        assert_eq!(Words::end_of("a\nb\n\n"), Some(Words("a\nb".to_owned())));
        let long = (0..50).map(|n| format!("line {n}\n")).collect::<String>();
        let words = Words::end_of(&long).expect("it is not blank").0;
        assert!(
            words.starts_with("line 38\n") && words.ends_with("line 49"),
            "{words}"
        );
        let wide = Words::end_of(&"é".repeat(100_000))
            .expect("it is not blank")
            .0;
        assert_eq!(wide.chars().count(), WORD_CHARACTERS);
    }

    #[test]
    fn status_says_code_or_signal() {
        assert_eq!(
            status_text(ExitStatus::from_raw(1 << 8)),
            "exited with status 1"
        );
        assert_eq!(
            status_text(ExitStatus::from_raw(9)),
            "was killed by SIGKILL"
        );
        assert_eq!(
            status_text(ExitStatus::from_raw(40)),
            "was killed by signal 40"
        );
    }

    #[test]
    fn not_found_names_the_fixed_directories() {
        let error = CommandError::NotFound {
            program: "sbatch".into(),
            searched: vec!["/opt/slurm/bin".into()],
        };
        assert_eq!(
            error.to_string(),
            "cannot find the program `sbatch` in `/opt/slurm/bin` or in PATH"
        );
        assert_eq!(error.shell_code(), 127);
    }
}
