//! An invocation in the making, and what the rules look at.

use super::features::Features;
use super::{Container, Invocation, NodeFacts, Reason, Refusal, Surroundings};

pub(super) struct Draft<'a> {
    pub(super) container: &'a Container,
    pub(super) node: &'a NodeFacts,
    pub(super) around: &'a Surroundings<'a>,
    pub(super) features: Features,
    /// The facts are expected, not seen.
    pub(super) assumed: bool,
    pub(super) out: Invocation,
}

impl<'a> Draft<'a> {
    pub(super) fn new(
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
            features: Features::of(node.runtime),
            assumed: false,
            out,
        }
    }

    /// A word of the command line.
    pub(super) fn flag(&mut self, flag: &str, why: impl Into<String>) {
        self.out.argv.push(flag.to_owned());
        self.reason(flag, why);
    }

    /// Two words of the command line.
    pub(super) fn flag_with(&mut self, flag: &str, value: String, why: impl Into<String>) {
        self.reason(&format!("{flag} {value}"), why);
        self.out.argv.extend([flag.to_owned(), value]);
    }

    pub(super) fn reason(&mut self, flag: &str, why: impl Into<String>) {
        self.out.reasons.push(Reason {
            flag: flag.to_owned(),
            why: why.into(),
        });
    }

    pub(super) fn warn(&mut self, warning: impl Into<String>) {
        self.out.warnings.push(warning.into());
    }

    /// A variable that is set and not empty.
    pub(super) fn variable(&self, name: &str) -> Option<String> {
        (self.around.variables)(name).filter(|value| !value.is_empty())
    }

    /// Whether the job gives an option, by any of its names.
    pub(super) fn has_option(&self, names: &[&str]) -> bool {
        self.container
            .options
            .iter()
            .any(|option| names.contains(&option.as_str()))
    }

    /// The runtime, for people.
    pub(super) fn runtime(&self) -> String {
        match self.node.runtime {
            Some(runtime) => runtime.to_string(),
            None => format!("{} (of an unknown version)", self.node.command),
        }
    }

    pub(super) fn unsupported(
        &self,
        what: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Refusal {
        Refusal::Unsupported {
            what: what.into(),
            remedy: remedy.into(),
        }
    }
}
