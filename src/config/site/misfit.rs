//! What a job asks for and a site does not have.

use super::{NodeType, Queue, SiteModel};

/// A contradiction between job and site.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Misfit {
    /// The key under `[resources]`.
    pub key: &'static str,
    /// What is wrong: a sentence fragment with the site's numbers.
    pub message: String,
    /// The user's next step.
    pub hint: Option<String>,
}

impl Misfit {
    pub(super) fn new(key: &'static str, message: impl Into<String>) -> Self {
        Self {
            key,
            message: message.into(),
            hint: None,
        }
    }

    pub(super) fn hinted(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Adds a further next step.
    pub(super) fn hint_too(&mut self, hint: &str) {
        self.hint = Some(match self.hint.take() {
            Some(first) => format!("{first}; {hint}"),
            None => hint.to_owned(),
        });
    }
}

/// Where a job could run: a queue, or the whole site where it goes to none by name.
pub(super) struct Place<'a>(pub(super) Option<&'a Queue>);

impl<'a> Place<'a> {
    /// The kinds of nodes of the place.
    pub(super) fn nodes(&self, model: &'a SiteModel) -> impl Iterator<Item = &'a NodeType> {
        let queue = self.0.map(|queue| queue.name.as_str());
        model.nodes.iter().filter(move |node| {
            node.queues.is_empty()
                || queue.is_none_or(|queue| node.queues.iter().any(|name| name == queue))
        })
    }

    /// `queue 'gpu'`, or `the site`.
    pub(super) fn shown(&self) -> String {
        let queue = self.0.map(|queue| format!("queue `{}`", queue.name));
        queue.unwrap_or_else(|| "the site".to_owned())
    }
}
