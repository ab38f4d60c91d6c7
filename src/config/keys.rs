//! The list of all settings.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::job::SchedulerKind;

/// What a setting may hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// An absolute path.
    Path,
    /// One of these words.
    Word(&'static [&'static str]),
    /// A whole number in this range, both ends included.
    Number(u64, u64),
    /// Text for a scheduler's option: no blanks, no control characters.
    Text,
}

/// A setting's value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// Of [`Kind::Path`].
    Path(PathBuf),
    /// Of [`Kind::Word`] or [`Kind::Text`].
    Text(String),
    /// Of [`Kind::Number`].
    Number(u64),
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Path(path) => write!(f, "{}", path.display()),
            Self::Text(text) => f.write_str(text),
            Self::Number(number) => write!(f, "{number}"),
        }
    }
}

/// One setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Key {
    /// Its dotted name, `section.key`.
    pub name: &'static str,
    /// What it may hold.
    pub kind: Kind,
    /// Its default as text; `None`: unset, or made from the user's environment (see [`super::Defaults`]).
    pub default: Option<&'static str>,
    /// What it does, for `config show` and the documentation.
    pub about: &'static str,
}

const fn key(name: &'static str, kind: Kind, default: Option<&'static str>, about: &'static str) -> Key {
    Key { name, kind, default, about }
}

/// All settings, in the order of the documentation.
pub const KEYS: [Key; 13] = [
    key("state_dir", Kind::Path, None, "records of runs; must be seen by the nodes ($XDG_STATE_HOME/dlrun)"),
    key("scheduler.kind", Kind::Word(&SchedulerKind::WORDS), Some("auto"), "who takes jobs that do not say"),
    key("slurm.bin_dir", Kind::Path, None, "where sbatch, squeue and scancel lie, before PATH"),
    key("slurm.timeout_seconds", Kind::Number(1, 600), Some("30"), "how long one Slurm command may take"),
    key("defaults.queue", Kind::Text, None, "queue of jobs that name none"),
    key("defaults.account", Kind::Text, None, "account of jobs that name none"),
    key(
        "python.interpreter",
        Kind::Path,
        None,
        "the Python that environments are made with (python3 of PATH)",
    ),
    key(
        "python.env_dir",
        Kind::Path,
        None,
        "where environments are kept; must be seen by the nodes (STATE_DIR/python)",
    ),
    key("node.dlrun", Kind::Path, None, "dlrun on the compute nodes (the one that submits)"),
    key("monitor.interval_ms", Kind::Number(100, 60_000), Some("1000"), "time between two samples"),
    key(
        "monitor.record_seconds",
        Kind::Number(1, 3600),
        Some("30"),
        "time between two writings of the node record",
    ),
    key(
        "local.kill_wait_seconds",
        Kind::Number(0, 3600),
        Some("30"),
        "time from TERM to KILL at the time limit and in cancel",
    ),
    key("local.lock_dir", Kind::Path, Some("/var/tmp"), "where the one-job-at-a-time lock of this host lies"),
];

impl Key {
    /// The key of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<&'static Self> {
        KEYS.iter().find(|key| key.name == name)
    }

    /// Reads a value from text, as it stands in an environment variable or a flag.
    ///
    /// # Errors
    /// A sentence fragment saying what would be valid.
    pub fn read(&self, text: &str) -> Result<Value, String> {
        match self.kind {
            Kind::Path if Path::new(text).is_absolute() && !text.chars().any(char::is_control) => {
                Ok(Value::Path(PathBuf::from(text)))
            }
            Kind::Path => Err(format!("must be an absolute path, not {text:?}")),
            Kind::Word(words) if words.contains(&text) => Ok(Value::Text(text.to_owned())),
            Kind::Word(words) => Err(format!("must be one of {}, not {text:?}", words.join(", "))),
            Kind::Number(low, high) => match text.parse::<u64>() {
                Ok(number) if (low..=high).contains(&number) => Ok(Value::Number(number)),
                _ => Err(format!("must be a whole number from {low} to {high}, not {text:?}")),
            },
            Kind::Text if text.is_empty() || text.starts_with('-') => Err(format!("cannot be {text:?}")),
            Kind::Text if text.chars().any(|c| c.is_whitespace() || c.is_control()) => {
                Err(format!("must not contain blanks or control characters: {text:?}"))
            }
            Kind::Text => Ok(Value::Text(text.to_owned())),
        }
    }

    /// The environment variable that sets it: `DLRUN_SLURM__BIN_DIR`.
    #[must_use]
    pub fn variable(&self) -> String {
        format!("DLRUN_{}", self.name.replace('.', "__").to_uppercase())
    }
}
