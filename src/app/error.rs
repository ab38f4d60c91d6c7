//! What a failed command reports to the shell and its user.

use std::error::Error as StdError;

use serde::Serialize;

use crate::foundation::command::CommandError;
use crate::foundation::diagnostic::{Problem, chain, render_chain, render_problems};
use crate::foundation::private::{FileError, FileFault};
use crate::foundation::units::counted;
use crate::image::build::MakeError;
use crate::image::python::PyenvError;
use crate::image::runtime::{ContainerError, advice};
use crate::job::SchedulerKind;
use crate::observe::client::ClientError;
use crate::observe::protocol::RefusalKind;
use crate::record::store::StoreError;
use crate::scheduler::find::WrongQsub;
use crate::scheduler::{SchedulerError, adapter_for};

/// An [`Error`] of a kind, with a text as `format!` takes it: `failure!(Missing, "there is no run `{text}`")`.
macro_rules! failure {
    ($kind:ident, $($text:tt)+) => {
        $crate::app::error::Error::new($crate::app::error::Kind::$kind, format!($($text)+))
    };
}
pub(crate) use failure;

/// Kinds of failure; the number is the exit code (`sysexits.h`), but for [`Kind::Data`], which shares one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub(crate) enum Kind {
    /// The command line is wrong.
    Usage = 64,
    /// The job file is wrong.
    JobFile = 65,
    /// Another file that was named is wrong; the exit code is that of [`Kind::JobFile`].
    Data = 165,
    /// Something that was named does not exist.
    Missing = 66,
    /// A scheduler or the node daemon does not answer.
    Unreachable = 69,
    /// dlrun itself failed.
    Internal = 70,
    /// Something cannot be written.
    CannotWrite = 73,
    /// A later try may succeed.
    TryAgain = 75,
    /// The scheduler refused.
    Refused = 76,
    /// The user may not do that.
    NotPermitted = 77,
    /// The configuration is wrong.
    Config = 78,
}

impl Kind {
    /// The exit code. Files that are wrong share one.
    pub(crate) fn code(self) -> u8 {
        match self {
            Self::Data => Self::JobFile as u8,
            other => other as u8,
        }
    }
}

/// An error with its kind and the user's next steps.
#[derive(Debug)]
pub(crate) struct Error {
    pub(crate) kind: Kind,
    source: Box<dyn StdError + Send + Sync>,
    hints: Vec<String>,
    faults: Option<Box<Faults>>,
}

/// Problems in a file, kept with its text so that they can be shown in place.
#[derive(Debug)]
struct Faults {
    path: String,
    text: String,
    problems: Vec<Problem>,
}

/// An error for programs.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct ErrorAnswer {
    kind: Kind,
    exit_code: u8,
    message: String,
    hints: Vec<String>,
    /// Those of a file that was named.
    #[serde(skip_serializing_if = "Option::is_none")]
    problems: Option<Vec<ProblemAnswer>>,
}

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct ProblemAnswer {
    line: Option<usize>,
    column: Option<usize>,
    message: String,
    hint: Option<String>,
}

impl ProblemAnswer {
    fn new(problem: &Problem, text: &str) -> Self {
        let position = problem.position(text);
        Self {
            line: position.map(|(line, _)| line),
            column: position.map(|(_, column)| column),
            message: problem.message.clone(),
            hint: problem.hint.clone(),
        }
    }
}

impl Error {
    /// An error of `kind`.
    pub(crate) fn new(kind: Kind, source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Self {
            kind,
            source: source.into(),
            hints: Vec::new(),
            faults: None,
        }
    }

    /// Problems in a file.
    pub(crate) fn in_file(kind: Kind, path: &str, text: &str, problems: Vec<Problem>) -> Self {
        let message = format!("{} in {path}", counted(problems.len() as u64, "problem"));
        let faults = Faults {
            path: path.to_owned(),
            text: text.to_owned(),
            problems,
        };
        Self {
            faults: Some(Box::new(faults)),
            ..Self::new(kind, message)
        }
    }

    /// Adds the user's next step.
    pub(crate) fn hinted(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }

    /// Without the next steps that its cause brought along.
    pub(crate) fn unhinted(mut self) -> Self {
        self.hints.clear();
        self
    }

    /// The error with its causes, on one line.
    pub(crate) fn message(&self) -> String {
        chain(self.source.as_ref()).join(": ")
    }

    /// The user's next steps.
    pub(crate) fn hints(&self) -> &[String] {
        &self.hints
    }

    /// The error for people.
    pub(crate) fn render(&self, colour: bool) -> String {
        let mut shown = String::new();
        if let Some(faults) = &self.faults {
            let Faults {
                path,
                text,
                problems,
            } = &**faults;
            shown = render_problems(path, text, problems, colour) + "\n";
        }
        shown + &render_chain(self.source.as_ref(), &self.hints)
    }

    /// The error for programs.
    pub(crate) fn answer(&self) -> ErrorAnswer {
        let problems = self.faults.as_ref().map(|faults| {
            let problems = faults.problems.iter();
            problems
                .map(|problem| ProblemAnswer::new(problem, &faults.text))
                .collect()
        });
        ErrorAnswer {
            kind: self.kind,
            exit_code: self.kind.code(),
            message: self.message(),
            hints: self.hints.clone(),
            problems,
        }
    }
}

fn hinted(kind: Kind, error: impl StdError + Send + Sync + 'static, hint: Option<&str>) -> Error {
    let error = Error::new(kind, error);
    hint.into_iter().fold(error, Error::hinted)
}

/// How to see whether a job is queued of which nobody knows.
fn look_first(scheduler: &str) -> &'static str {
    let kind = SchedulerKind::from_word(scheduler).unwrap_or_default();
    adapter_for(kind).how_to_find_the_job()
}

const STATE_DIR_HINT: &str =
    "`dlrun config show` shows where the state directory is; `--state-dir` names another";
const LATER: &str = "nothing is queued; try again later";

impl From<SchedulerError> for Error {
    fn from(error: SchedulerError) -> Self {
        use SchedulerError::{
            Busy, Failed, File, NoHistory, Private, Refused, Unclear, Unreachable,
        };
        let (kind, hint) = match &error {
            Refused { .. } => {
                let hint = "nothing was queued; `dlrun plan` shows what was asked for";
                (Kind::Refused, Some(hint))
            }
            Unreachable {
                scheduler,
                source: CommandError::NotFound { program, .. },
            } => {
                let hint = format!(
                    "submit where `{program}` is, or name its directory with the setting `{scheduler}.bin_dir`; `--scheduler` chooses another one, `--scheduler local` this machine"
                );
                return Self::new(Kind::Unreachable, error).hinted(hint);
            }
            Unreachable { .. } => {
                let hint = "try again later; `--scheduler local` runs the job on this machine";
                (Kind::Unreachable, Some(hint))
            }
            Busy { .. } => (Kind::TryAgain, Some(LATER)),
            Unclear { scheduler, .. } => (Kind::TryAgain, Some(look_first(scheduler))),
            Failed { .. } | NoHistory { .. } => (Kind::Unreachable, None),
            File { source, .. } => (file_kind(source), None),
            Private(error) => (fault_kind(error.kind), None),
        };
        hinted(kind, error, hint)
    }
}

impl From<WrongQsub> for Error {
    fn from(error: WrongQsub) -> Self {
        let kind = error.asked.as_str();
        let hint = format!(
            "name its directory with the setting `{kind}.bin_dir`, or ask for another scheduler"
        );
        Self::new(Kind::Config, error).hinted(hint)
    }
}

/// What it means that a file that was named cannot be opened or written.
pub(crate) fn fault_kind(fault: FileFault) -> Kind {
    match fault {
        FileFault::Missing => Kind::Missing,
        FileFault::Denied => Kind::NotPermitted,
        _ => Kind::CannotWrite,
    }
}

fn file_kind(error: &std::io::Error) -> Kind {
    match error.kind() {
        std::io::ErrorKind::NotFound => Kind::Missing,
        std::io::ErrorKind::PermissionDenied => Kind::NotPermitted,
        _ => Kind::CannotWrite,
    }
}

impl From<FileError> for Error {
    fn from(error: FileError) -> Self {
        let kind = match error.kind {
            FileFault::ForeignOwner | FileFault::Exposed => Kind::NotPermitted,
            _ => Kind::CannotWrite,
        };
        hinted(kind, error, Some(STATE_DIR_HINT))
    }
}

impl From<StoreError> for Error {
    fn from(error: StoreError) -> Self {
        let hint = "`dlrun list --reindex` rebuilds the index from the records";
        hinted(Kind::CannotWrite, error, Some(hint))
    }
}

impl From<PyenvError> for Error {
    fn from(error: PyenvError) -> Self {
        let (kind, hint) = match &error {
            PyenvError::NoVenv { .. } => (
                Kind::Missing,
                Some("install Python's venv module (Debian: apt-get install python3-venv)"),
            ),
            PyenvError::NoInterpreter { .. }
            | PyenvError::Interpreter { .. }
            | PyenvError::TooOld { .. } => (
                Kind::Missing,
                Some("name a Python with the setting `python.interpreter`"),
            ),

            PyenvError::Changed { .. } => (Kind::TryAgain, Some("submit again")),
            PyenvError::NoSpace { .. } | PyenvError::Write { .. } => (
                Kind::CannotWrite,
                Some("the setting `python.env_dir` names another place"),
            ),
            _ => (Kind::Missing, None),
        };
        hinted(kind, error, hint)
    }
}

impl From<ContainerError> for Error {
    fn from(error: ContainerError) -> Self {
        let (kind, hint) = match &error {
            ContainerError::NoRuntime | ContainerError::RuntimeMissing { .. } => (
                Kind::Missing,
                Some("install Apptainer, or name the runtime with the setting `images.runtime`"),
            ),
            ContainerError::NotAnImage { .. } => (Kind::JobFile, None),
            ContainerError::Read(_, source) => (file_kind(source), None),
            ContainerError::Runtime { .. }
            | ContainerError::Answer { .. }
            | ContainerError::NotTried { .. } => (
                Kind::Unreachable,
                Some("`dlrun doctor` shows what the container runtime can do here"),
            ),
        };
        hinted(kind, error, hint)
    }
}

impl From<MakeError> for Error {
    fn from(error: MakeError) -> Self {
        let elsewhere = "the settings `images.build_dir` and `images.dir` name other places for unpacking and for images";
        let (kind, hint) = match &error {
            MakeError::Unsafe { .. } => (
                Kind::NotPermitted,
                Some(
                    "make images as an ordinary user, or name directories of root's with `images.dir` and `images.build_dir`",
                ),
            ),
            MakeError::Write(_, source)
                if source.kind() == std::io::ErrorKind::PermissionDenied =>
            {
                (Kind::NotPermitted, Some(elsewhere))
            }
            MakeError::Write { .. } | MakeError::Little { .. } | MakeError::NoSpace { .. } => {
                (Kind::CannotWrite, Some(elsewhere))
            }
            MakeError::Failed { .. } => (Kind::Unreachable, advice(error.runtime_output())),
            MakeError::Interrupted { .. } => (Kind::TryAgain, None),
        };
        hinted(kind, error, hint)
    }
}

impl From<ClientError> for Error {
    fn from(error: ClientError) -> Self {
        let kind = match error.refusal() {
            Some(RefusalKind::NotPermitted) => Kind::NotPermitted,
            Some(RefusalKind::Busy) => Kind::TryAgain,
            _ => Kind::Unreachable,
        };
        let hint = error.hint();
        hinted(kind, error, hint)
    }
}

impl From<std::io::Error> for Error {
    fn from(error: std::io::Error) -> Self {
        Self::new(Kind::CannotWrite, error)
    }
}
