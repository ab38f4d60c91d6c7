//! Mail on what happens to a job.

use serde::{Deserialize, Serialize};

use crate::foundation::vocabulary::vocabulary;

vocabulary! {
    /// What a mail reports.
    pub enum MailEvent {
        /// The job begins.
        Begin = "begin",
        /// It ends, however.
        End = "end",
        /// It fails or is ended.
        Fail = "fail",
        /// It waits again.
        Requeue = "requeue",
        /// It reaches its time limit.
        TimeLimit = "time_limit",
    }
}

/// Who gets mail, and on what.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mail {
    /// The addressee; `None`: whom the scheduler takes for the submitter.
    pub to: Option<String>,
    /// What is reported, each once, in the order of [`MailEvent::WORDS`]; never empty.
    pub on: Vec<MailEvent>,
}

/// Says why `text` is no address that a scheduler's option can hold, or `None` where it is one.
#[must_use]
pub fn address_problem(text: &str) -> Option<String> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || "._%+-@=~".contains(c);
    let has_parts = text.split('@').all(|part| !part.is_empty()) && text.matches('@').count() <= 1;
    if has_parts && text.len() <= 200 && !text.starts_with('-') && text.chars().all(allowed) {
        return None;
    }
    Some(format!(
        "{text:?} is not a mail address such as \"a@example.org\""
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_stay_in_their_option() {
        for text in ["a@example.org", "alice", "a.b+c@x-y.example"] {
            assert_eq!(address_problem(text), None, "{text}");
        }
        for text in ["", "@", "a@", "a@b@c", "a b@c", "-x@y", "a@x,b@y", "a\n@x"] {
            assert!(address_problem(text).is_some(), "{text}");
        }
    }
}
