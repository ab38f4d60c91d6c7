//! What must have happened before a job may start: `afterok:RUN`.

use std::fmt;

use serde::{Deserialize, Serialize};

/// What the job waits for in another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DependencyKind {
    /// It has started.
    After,
    /// It has ended.
    AfterAny,
    /// It has ended with exit code 0.
    AfterOk,
    /// It has ended otherwise.
    AfterNotOk,
    /// The element of the same index has ended with exit code 0 (Slurm).
    AfterCorr,
}

impl DependencyKind {
    /// All of them.
    pub const ALL: [Self; 5] = [
        Self::After,
        Self::AfterAny,
        Self::AfterOk,
        Self::AfterNotOk,
        Self::AfterCorr,
    ];

    /// The word of the job file, which is Slurm's.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::After => "after",
            Self::AfterAny => "afterany",
            Self::AfterOk => "afterok",
            Self::AfterNotOk => "afternotok",
            Self::AfterCorr => "aftercorr",
        }
    }
}

impl fmt::Display for DependencyKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// One condition, as written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dependency {
    /// What is waited for.
    pub kind: DependencyKind,
    /// Another run, as people type it: the beginning of its id, its name, `@1`, or a scheduler's job id.
    pub target: String,
}

impl Dependency {
    /// Reads `afterok:RUN`.
    ///
    /// # Errors
    /// A fragment that ends a sentence such as "`depends[0]`: ...".
    pub fn parse(text: &str) -> Result<Self, String> {
        let words = || DependencyKind::ALL.map(DependencyKind::as_str).join(", ");
        let Some((kind, target)) = text.split_once(':') else {
            return Err(format!("`{text}` names no run; write \"afterok:RUN\""));
        };
        let Some(kind) = DependencyKind::ALL
            .into_iter()
            .find(|known| known.as_str() == kind)
        else {
            return Err(format!(
                "`{kind}` is no kind of dependency; known are {}",
                words()
            ));
        };
        let allowed = |c: char| c.is_alphanumeric() || "._+-@[]".contains(c);
        if target.is_empty() || !target.chars().all(allowed) {
            return Err(format!(
                "`{target}` names no run; write one run behind `{kind}:`, and further ones as entries of their own"
            ));
        }
        Ok(Self {
            kind,
            target: target.to_owned(),
        })
    }
}

impl fmt::Display for Dependency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.kind, self.target)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_are_read() {
        for text in [
            "afterok:k3f9",
            "afterany:@1",
            "after:4711.server",
            "afternotok:4711[].server",
            "aftercorr:7",
        ] {
            assert_eq!(
                Dependency::parse(text)
                    .map(|one| one.to_string())
                    .as_deref(),
                Ok(text)
            );
        }
    }

    #[test]
    fn nonsense_is_refused() {
        for text in [
            "",
            "afterok",
            "afterok:",
            "before:7",
            "afterok:1:2",
            "afterok:1,afterany:2",
            "afterok:a b",
            "afterok:a\n",
        ] {
            assert!(Dependency::parse(text).is_err(), "{text}");
        }
    }
}
