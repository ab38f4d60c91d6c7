//! What must have happened before a job may start: `afterok:RUN`.

use std::fmt;

use crate::foundation::vocabulary::vocabulary;

vocabulary! {
    /// What the job waits for in another one; the words are Slurm's.
    pub enum DependencyKind {
        /// It has started.
        After = "after",
        /// It has ended.
        AfterAny = "afterany",
        /// It has ended with exit code 0.
        AfterOk = "afterok",
        /// It has ended otherwise.
        AfterNotOk = "afternotok",
        /// The element of the same index has ended with exit code 0 (Slurm).
        AfterCorr = "aftercorr",
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
        let Some((kind, target)) = text.split_once(':') else {
            return Err(format!("`{text}` names no run; write \"afterok:RUN\""));
        };
        let Some(kind) = DependencyKind::from_word(kind) else {
            let known = DependencyKind::NAMES.join(", ");
            return Err(format!(
                "`{kind}` is not a kind of dependency; known are {known}"
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
