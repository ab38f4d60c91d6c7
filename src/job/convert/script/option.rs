//! One option of a directive line, of `sbatch` or of `qsub`.

use std::ops::Range;

use crate::job::convert::draft::{Draft, Origin};
use crate::job::convert::write::Value;

/// An option with its value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ScriptOption {
    /// Its name without dashes: Slurm's long one, PBS's letter.
    pub(super) name: String,
    pub(super) value: Option<String>,
    /// As it can stand in a directive line again.
    pub(super) verbatim: String,
    pub(super) span: Range<usize>,
}

impl ScriptOption {
    pub(super) fn origin(&self) -> Origin {
        let dashes = if self.name.len() == 1 { "-" } else { "--" };
        Origin::new(format!("{dashes}{}", self.name), self.span.clone())
    }

    /// Its value; empty where it has none.
    pub(super) fn text(&self) -> &str {
        self.value.as_deref().unwrap_or("")
    }
}

impl Draft {
    /// An option that the job file has no word for goes to the scheduler as it is.
    pub(super) fn pass_through(&mut self, option: &ScriptOption) {
        self.push(
            "scheduler.directives",
            option.verbatim.as_str(),
            &option.origin(),
        );
    }

    /// The job file's own key where it takes the value, else the scheduler's option.
    pub(super) fn set_or_pass(
        &mut self,
        key: &'static str,
        value: impl Into<Value>,
        option: &ScriptOption,
    ) {
        let value = value.into();
        // These are dlrun's own to write, so that Slurm's option would be refused.
        let own = "name run.workdir resources.array resources.nodes resources.tasks resources.tasks_per_node";
        let is_own = own.split(' ').any(|own| own == key);
        if is_own || Self::takes(key, &value) {
            self.set(key, value, &option.origin());
        } else {
            self.pass_through(option);
        }
    }
}
