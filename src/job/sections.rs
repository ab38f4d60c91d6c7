//! The smaller tables of the job file.

use std::path::PathBuf;

use regex_lite::Regex;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::run::option_lines;
use super::spec::{
    Conda, Framework, OwnPython, Provenance, SchedulerKind, StorageClass, TimingPattern,
};
use crate::foundation::diagnostic::Problem;
use crate::foundation::toml_keys::keys;
use crate::foundation::toml_keys::{
    Kind, Table, boolean, count, decimal, large_number, number, object, parsed, path, text, word,
};
use crate::foundation::toml_reader::{Fields, Located};

keys! {
    /// `[scheduler]`: which one, and what is passed through to it.
    #[derive(Debug, Clone, PartialEq, Eq, Default)]
    pub struct SchedulerSection {
        /// Which one. Default: the setting `scheduler.kind`.
        kind: Option<SchedulerKind> = optional(word(&SchedulerKind::WORDS)),
        /// Further options of the script's directive lines, each beginning with `-`.
        directives: Vec<Located<String>> = or_default(option_lines()),
        /// Further arguments of the submit command.
        arguments: Vec<Located<String>> = or_default(option_lines()),
    }
}

/// One version and no range, of which no run would be: it begins with a number and has no blanks, such as
/// `2.4.0a0+f70bd71a48.nv24.06`.
pub(crate) fn version_text(text: &str) -> Result<String, String> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || ".+-_".contains(c);
    let begins = text.starts_with(|c: char| c.is_ascii_digit());
    if begins && text.len() <= 100 && text.chars().all(allowed) {
        Ok(text.to_owned())
    } else {
        Err(format!("{text:?} is not a version such as \"2.4.1\""))
    }
}

/// One line, for people.
pub(crate) fn line_of_text(text: &str) -> Result<String, String> {
    if text.is_empty() || text.len() > 200 || text.chars().any(char::is_control) {
        return Err(format!("{text:?} is not one line of at most 200 bytes"));
    }
    Ok(text.to_owned())
}

/// Names that stand in conditions of rules, in records and in the catalogue.
pub(crate) fn name_in_small_letters(text: &str) -> Result<String, String> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || "._+-".contains(c);
    if text.is_empty() || text.len() > 100 || !text.chars().all(allowed) {
        return Err(format!(
            "{text:?} is not a name (letters, digits and `. _ + -`)"
        ));
    }
    Ok(text.to_ascii_lowercase())
}

/// Such a name.
pub(crate) fn name_word() -> Kind<String> {
    parsed("^[A-Za-z0-9._+-]{1,100}$", name_in_small_letters)
}

keys! {
    pub(super) struct FrameworkTable {
        /// Such as `tensorflow`, `pytorch`, `keras`, `mxnet`, `jax`.
        name: Option<String> = optional(name_word()),
        /// A version such as `2.1`, or a range such as `>=2.1, <3`.
        version: Option<String> = optional(version()),
        /// Where the image got it from.
        provenance: Option<Option<Provenance>> = optional(word(&PROVENANCES).with("default", "any")),
        /// Graph compiler, such as `xla`, `inductor`, `glow`; `none`; or `auto`.
        compiler: Option<String> = optional(name_word()),
        /// Whether compilers and threads are tried before the run, for some tens of steps each, and the quickest one taken.
        [expect(dead_code, reason = "it is read from the document: `Framework` describes images too")]
        trial: bool = or_default(boolean().or(false)),
        /// Ignored: dlrun 0.1 drew this share of the choices to learn from them.
        [expect(dead_code, reason = "the key is known, and has no effect")]
        explore: f64 = or_default(decimal(0.0..=1.0).or(0.0)),
    }
}

const PROVENANCES: [(&str, Option<Provenance>); 4] = [
    ("hub", Some(Provenance::Hub)),
    ("pip", Some(Provenance::Pip)),
    ("source", Some(Provenance::Source)),
    ("any", None),
];

fn version() -> Kind<String> {
    let pattern = "^ *[A-Za-z0-9.<>=!~^*,+-][A-Za-z0-9.<>=!~^*,+ -]*$";
    parsed(pattern, |text| {
        let allowed = |c: char| c.is_ascii_alphanumeric() || ".<>=!~^*,+- ".contains(c);
        let fits = !text.trim().is_empty() && text.len() <= 100 && text.chars().all(allowed);
        let error = || format!("{text:?} is not a version such as \"2.1\" or \">=2.1, <3\"");
        fits.then(|| text.trim().to_owned()).ok_or_else(error)
    })
}

impl FrameworkTable {
    pub(super) fn framework(self) -> Option<Framework> {
        Some(Framework {
            name: self.name,
            version: self.version,
            compiler: self.compiler,
            provenance: self.provenance.flatten(),
        })
    }
}

keys! {
    pub(super) struct StorageTable {
        /// The class of storage that the job would like, the slowest first.
        prefer: Option<StorageClass> = optional(word(&StorageClass::WORDS)),
    }
}

keys! {
    /// `[build]`: source of the application that is fetched and built before the run.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct Build {
        /// URL of a git repository (ends in `.git`), of a file or of an archive; or a path.
        source: Located<String> = placed(source()),
        /// Shell text that builds it, in the source's directory. `{{parallelism}}` stands for `build.parallelism`.
        command: Option<String> = optional(text()),
        /// How many things are built at a time.
        parallelism: u32 = or_default(count(4096).or(1)),
        /// SHA-256 of the file, or the commit of the repository. Another content is an error.
        checksum: Option<String> = optional(checksum()),
    }
}

/// Text that fits a pattern, by which editors check it too. `what`: what other text is not.
fn matching(pattern: &'static str, what: &'static str) -> Kind<String> {
    parsed(pattern, move |text| {
        let fits = Regex::new(pattern).is_ok_and(|pattern| pattern.is_match(text));
        let error = || format!("{text:?} is {what}");
        fits.then(|| text.to_owned()).ok_or_else(error)
    })
}

fn source() -> Kind<String> {
    matching(
        "^[^\\x00-\\x20\\x7f-][^\\x00-\\x20\\x7f]*$",
        "neither a URL nor a path",
    )
}

/// `[build]`, which must have a source.
pub(super) fn build() -> Kind<Build> {
    let kind = Kind::new(object(Build::keys()), |fields, key| {
        fields.table(key, |fields| {
            if !fields.holds("source") {
                let problem = Problem::of_file("`[build]` needs `source`");
                let hint = "write source = \"https://example.org/app.git\", or a path";
                fields.problem(problem.hinted(hint));
            }
            Build::read(fields)
        })
    });
    kind.with("required", json!(["source"]))
}

fn checksum() -> Kind<String> {
    let pattern = "^(sha256:)?([0-9A-Fa-f]{40}|[0-9A-Fa-f]{64})$";
    let what = "neither a SHA-256 of a file nor the commit of a repository, in hexadecimal digits";
    let bare = |text: String| Some(text.trim_start_matches("sha256:").to_ascii_lowercase());
    matching(pattern, what).map(bare)
}

keys! {
    pub(super) struct PythonTable {
        /// A pip requirements file, from which `submit` makes a virtual environment.
        requirements: Option<Located<PathBuf>> = located(path()),
        /// The directory of a virtual environment that exists; it is activated.
        venv: Option<Located<PathBuf>> = located(path()),
        /// Name or directory of a conda environment; it is activated.
        conda: Option<Located<String>> = located(conda()),
        /// The shell file that brings `conda`, such as `/opt/conda/etc/profile.d/conda.sh`; else `conda` is in `PATH`.
        conda_profile: Option<Located<String>> = located(conda_profile()),
    }
}

fn conda() -> Kind<String> {
    matching(
        "^[^-\\x00-\\x1f\\x7f][^\\x00-\\x1f\\x7f]*$",
        "no name of an environment",
    )
}

fn conda_profile() -> Kind<String> {
    matching("^/[^\\x00-\\x1f\\x7f]*$", "no absolute path")
}

/// `[python]`: a file of requirements, or an environment that the user has made.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Python {
    /// The requirements file, relative to the job file's directory.
    pub requirements: Option<Located<PathBuf>>,
    /// An environment that the user has made.
    pub own: Option<Located<OwnPython>>,
}

impl Python {
    /// The conda environment that is activated.
    #[must_use]
    pub fn conda(&self) -> Option<&Conda> {
        match &self.own.as_ref()?.value {
            OwnPython::Conda(conda) => Some(conda),
            OwnPython::Venv(_) => None,
        }
    }
}

pub(super) fn python() -> Kind<Python> {
    Kind::new(object(PythonTable::keys()), |fields, key| {
        fields.table(key, read_python)
    })
}

fn read_python(fields: &mut Fields<'_>) -> Python {
    let PythonTable {
        requirements,
        venv,
        conda,
        conda_profile: profile,
    } = PythonTable::read(fields);
    let ways = [requirements.is_some(), venv.is_some(), conda.is_some()];
    if ways.into_iter().filter(|given| *given).count() > 1 {
        let message = "`python.requirements`, `python.venv` and `python.conda` exclude each other";
        fields.problem(Problem::of_file(message));
    }
    if profile.is_some() && conda.is_none() {
        let message = "`python.conda_profile` needs `python.conda`, the name of the environment";
        fields.fault("conda_profile", message);
    }
    let venv = venv.map(|venv| Located {
        value: OwnPython::Venv(venv.value),
        span: venv.span,
    });
    let conda = conda.map(|Located { value: name, span }| {
        let profile = profile.map(|profile| profile.value);
        Located {
            value: OwnPython::Conda(Conda { name, profile }),
            span,
        }
    });
    Python {
        requirements,
        own: venv.or(conda),
    }
}

keys! {
    /// `[workload]`: what is known of the training; recorded with every measurement.
    #[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
    pub struct Workload {
        /// Name of the network.
        model: Option<String> = optional(label()),
        /// Trainable parameters.
        parameters: Option<u64> = optional(number(1..=MAX_COUNT)),
        /// Name of the data set.
        dataset: Option<String> = optional(label()),
        /// Training samples of one epoch.
        samples: Option<u64> = optional(number(1..=MAX_COUNT)),
        /// Floating-point operations of the forward pass of one sample; a multiplication with its addition counts as two.
        [serde(default, skip_serializing_if = "Option::is_none")]
        flops_per_sample: Option<u64> = optional(large_number(1..=MAX_COUNT)),
        /// Samples of one step, over all workers.
        batch_size: Option<u64> = optional(number(1..=MAX_COUNT)),
        /// Epochs planned.
        epochs: Option<u64> = optional(number(1..=MAX_COUNT)),
        /// Such as `fp32` or `bf16`.
        precision: Option<String> = optional(label()),
    }
}

/// Counts beyond this are typing errors, and they still fit every consumer's 64-bit integers.
const MAX_COUNT: u64 = (1 << 60) - 1;

fn label() -> Kind<String> {
    let label = parsed("^[^\\x00-\\x1f\\x7f]*$", |text| match text {
        "" => Err("must not be empty"),
        text if text.len() > 200 => Err("is longer than 200 bytes"),
        text if text.chars().any(char::is_control) => Err("must not contain control characters"),
        text => Ok(text.to_owned()),
    });
    label.with("minLength", 1).with("maxLength", 200)
}

keys! {
    pub(super) struct TimingTable {
        /// Regular expression of a line that ends an epoch. Group `epoch` is required; `epochs`, `seconds`, `rate` and
        /// `metric_NAME` are optional.
        epoch: Option<Located<String>> = located(text()),
        /// Regular expression of a line that ends a step. Group `step` is required; `steps`, `epoch`, `epochs`,
        /// `step_seconds`, `rate` and `metric_NAME` are optional.
        step: Option<Located<String>> = located(text()),
    }
}

impl TimingTable {
    pub(super) fn pattern(self) -> Option<Located<TimingPattern>> {
        let span = self.epoch.as_ref().or(self.step.as_ref())?.span.clone();
        let value = TimingPattern {
            epoch: self.epoch.map(|text| text.value),
            step: self.step.map(|text| text.value),
        };
        Some(Located { value, span })
    }
}
