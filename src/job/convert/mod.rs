//! Other programs' job descriptions as job files: MODAK's JSON, scripts with `#SBATCH` or `#PBS` lines.
//!
//! Pure: text in, the text of a job file and notes out. Nothing is dropped in silence: what has no meaning here, or
//! cannot be carried over, is a note. Every value goes through the job file's own reader before it is written, so the
//! result can be read by it.

mod depend;
mod draft;
mod form;
mod mail;
mod modak;
mod script;
mod shell_words;
mod size;
mod time;
mod variables;
mod write;

pub use draft::Note;
pub(crate) use size::bytes as size_in_bytes;
pub(crate) use time::slurm as slurm_seconds;

use crate::foundation::diagnostic::Problem;
use crate::foundation::vocabulary::vocabulary;

/// A description larger than this is refused, as a job file is.
pub const MAX_BYTES: usize = 1 << 20;

/// What an image is made to run (`apptainer(1)`, "run").
const RUNSCRIPT: &str = "/.singularity.d/runscript";

vocabulary! {
    /// Whose description it is.
    pub enum Format {
        /// MODAK's JSON.
        Modak = "modak",
        /// A script with `#SBATCH` lines.
        Slurm = "slurm",
        /// A script with `#PBS` lines in Torque's words, or in those that all of PBS share.
        Torque = "torque",
        /// A script with `#PBS` lines in OpenPBS's words.
        OpenPbs = "openpbs",
    }
}

/// A converted description.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Converted {
    /// Whose it was.
    pub format: Format,
    /// The text of a job file. [`crate::job::parse`] reads it.
    pub job_file: String,
    /// What must be known of it, in the order of the description.
    pub notes: Vec<Note>,
}

impl Converted {
    /// What the description says and the job file could not say after it: no such job may be submitted as it is.
    pub fn refusals(&self) -> impl Iterator<Item = Problem> + '_ {
        let problem = |note: &Note| Problem {
            span: note.span.clone(),
            message: format!("`{}`: {}", note.about, note.message),
            hint: None,
        };
        self.notes
            .iter()
            .filter(|note| note.is_refusal)
            .map(problem)
    }
}

/// How a job file names a script that it keeps, since it does more than start one program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScriptPlace {
    /// Seen from the job file's directory.
    pub name: String,
    /// From the root, for a job with its own working directory.
    pub path: String,
}

/// Converts a description. Without a `place`, as on standard input, a script that must be kept becomes the command.
///
/// # Errors
/// Where the text is none of the formats, is broken, or describes no job or one that no job file can describe. The
/// places are in the text.
pub fn convert(text: &str, place: Option<&ScriptPlace>) -> Result<Converted, Vec<Problem>> {
    if text.len() > MAX_BYTES {
        return Err(vec![Problem::of_file(
            "the text is larger than 1 MiB, which no job description is",
        )]);
    }
    if text.contains('\0') {
        return Err(vec![Problem::of_file(
            "there is a NUL character: this is not text",
        )]);
    }
    if looks_like_json(text) {
        return modak::convert(text);
    }
    script::convert(text, place)
}

/// Says whether a text is JSON, or meant to be: a job file begins otherwise, and so does a script.
#[must_use]
pub fn looks_like_json(text: &str) -> bool {
    let text = text.trim_start_matches('\u{feff}').trim_start();
    // Two of MODAK's own examples lack the outer braces. `"key" = ..` may begin a job file.
    let bare_key = || {
        let (_, rest) = text.strip_prefix('"')?.split_once('"')?;
        Some(rest.trim_start().starts_with(':'))
    };
    text.starts_with('{')
        || text.starts_with('[') && text[1..].trim_start().starts_with('{')
        || bare_key() == Some(true)
}
