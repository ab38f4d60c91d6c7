//! One shape for the errors of files and databases: a message, what callers decide by, and the cause.

use std::error::Error;

/// What went wrong, of kind `K`.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct Failure<K> {
    /// What callers decide by.
    pub kind: K,
    message: String,
    source: Option<Box<dyn Error + Send + Sync>>,
}

impl<K> Failure<K> {
    /// Without a cause.
    #[must_use]
    pub fn new(kind: K, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            source: None,
        }
    }

    /// The same, of another kind.
    #[must_use]
    pub fn map_kind<J>(self, kind: impl FnOnce(K) -> J) -> Failure<J> {
        Failure {
            kind: kind(self.kind),
            message: self.message,
            source: self.source,
        }
    }

    /// With its cause, which is shown after it.
    #[must_use]
    pub fn caused(
        kind: K,
        message: impl Into<String>,
        source: impl Into<Box<dyn Error + Send + Sync>>,
    ) -> Self {
        Self {
            source: Some(source.into()),
            ..Self::new(kind, message)
        }
    }
}
