//! An invocation in the making, and what the rules look at.

use crate::image::flags::{Container, Invocation, NodeFacts, Reason};
use crate::image::runtime::Features;

/// What the rules ask of the process that starts the container.
pub struct Surroundings<'a> {
    /// The value of a variable of the environment in which the runtime is started.
    pub variables: &'a dyn Fn(&str) -> Option<String>,
    /// The names of all its variables.
    pub names: &'a [String],
    /// Whether a path is there; asked for the sources of binds.
    pub exists: &'a dyn Fn(&str) -> bool,
    /// Whether the image is a directory, no file.
    pub is_sandbox: bool,
}

pub(crate) struct Draft<'a> {
    pub(crate) container: &'a Container,
    pub(crate) node: &'a NodeFacts,
    pub(crate) around: &'a Surroundings<'a>,
    pub(crate) features: Features,
    /// The facts are expected, not seen.
    pub(crate) assumed: bool,
    pub(crate) out: Invocation,
}

impl<'a> Draft<'a> {
    pub(crate) fn new(
        container: &'a Container,
        node: &'a NodeFacts,
        around: &'a Surroundings<'a>,
    ) -> Self {
        let argv = vec![node.command.clone(), "exec".to_owned()];
        let out = Invocation {
            argv,
            ..Invocation::default()
        };
        Self {
            container,
            node,
            around,
            features: Features(node.runtime),
            assumed: false,
            out,
        }
    }

    /// A word of the command line.
    pub(crate) fn flag(&mut self, flag: &str, why: impl Into<String>) {
        self.out.argv.push(flag.to_owned());
        self.reason(flag, why);
    }

    /// Two words of the command line.
    pub(crate) fn flag_with(&mut self, flag: &str, value: String, why: impl Into<String>) {
        self.reason(&format!("{flag} {value}"), why);
        self.out.argv.extend([flag.to_owned(), value]);
    }

    pub(crate) fn reason(&mut self, flag: &str, why: impl Into<String>) {
        self.out.reasons.push(Reason {
            flag: flag.to_owned(),
            why: why.into(),
        });
    }

    pub(crate) fn warn(&mut self, warning: impl Into<String>) {
        self.out.warnings.push(warning.into());
    }

    /// A variable that is set and not empty.
    pub(crate) fn variable(&self, name: &str) -> Option<String> {
        (self.around.variables)(name).filter(|value| !value.is_empty())
    }

    /// Whether the job gives an option, by any of its names.
    pub(crate) fn has_option(&self, names: &[&str]) -> bool {
        self.container
            .options
            .iter()
            .any(|option| names.contains(&option.as_str()))
    }

    /// The runtime, for people.
    pub(crate) fn runtime(&self) -> String {
        match self.node.runtime {
            Some(runtime) => runtime.to_string(),
            None => format!("{} (of an unknown version)", self.node.command),
        }
    }
}
