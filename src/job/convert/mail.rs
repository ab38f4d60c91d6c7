//! Mail events: PBS's letters and Slurm's words.

use super::draft::{Draft, Origin};
use super::write::Value;
use crate::job::MailEvent;

/// Sets `resources.mail`: what of a list of events has a word, and the first of the addresses. An empty address is the
/// submitting user's.
pub(super) fn set(
    draft: &mut Draft,
    (text, origin): (&str, &Origin),
    to: Option<&(String, Origin)>,
) {
    let events = events(text);
    if !events.unknown.is_empty() {
        let unknown = events.unknown.join(", ");
        draft.note(origin, format!("no word here for {unknown}"));
    }
    if events.on.is_empty() {
        return;
    }
    let mut pairs = Vec::new();
    if let Some((list, origin)) = to.filter(|(list, _)| !list.is_empty()) {
        let mut addresses = list.split(',').map(str::trim);
        let first = addresses.next().unwrap_or("");
        if addresses.next().is_some() {
            draft.note(origin, format!("only one address can be told: {first}"));
        }
        pairs.push(("to".to_owned(), first.into()));
    }
    pairs.push(("on".to_owned(), events.words()));
    draft.set("resources.mail", pairs, origin);
}

/// What a list of events means here.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Events {
    /// Words of the job file, each once, in its order.
    pub(super) on: Vec<&'static str>,
    /// What has no word here.
    pub(super) unknown: Vec<String>,
    /// Said in so many words that no mail is wanted.
    pub(super) none: bool,
}

impl Events {
    /// The words as the value of a key.
    pub(super) fn words(&self) -> Value {
        Value::Texts(self.on.iter().map(|word| (*word).to_owned()).collect())
    }
}

/// Reads letters (`abe`, `qsub(1B)`, `-m`) or words (`BEGIN,END`, `sbatch(1)`, `--mail-type`).
pub(super) fn events(text: &str) -> Events {
    let text = text.trim();
    let has_letters_only = !text.is_empty() && text.bytes().all(|b| b"abefnpABEFNP".contains(&b));
    let mut events = Events::default();
    let mut on = Vec::new();
    let parts: Vec<String> = if has_letters_only {
        text.to_ascii_lowercase()
            .chars()
            .map(String::from)
            .collect()
    } else {
        let words = text.split([',', ' ']).filter(|word| !word.is_empty());
        words.map(str::to_ascii_uppercase).collect()
    };
    for part in parts {
        match part.as_str() {
            "b" | "BEGIN" => on.push(MailEvent::Begin),
            "e" | "END" => on.push(MailEvent::End),
            // `a` is an abort by the batch system, `f` a failure of the job.
            "a" | "f" | "FAIL" | "INVALID_DEPEND" => on.push(MailEvent::Fail),
            "REQUEUE" => on.push(MailEvent::Requeue),
            "TIME_LIMIT" => on.push(MailEvent::TimeLimit),
            // `sbatch(1)`: "equivalent to BEGIN, END, FAIL, INVALID_DEPEND, REQUEUE, and STAGE_OUT".
            "ALL" => on.extend([
                MailEvent::Begin,
                MailEvent::End,
                MailEvent::Fail,
                MailEvent::Requeue,
            ]),
            "n" | "p" | "NONE" => events.none = true,
            _ => events.unknown.push(part),
        }
    }
    on.sort_unstable();
    on.dedup();
    events.on = on.into_iter().map(MailEvent::as_str).collect();
    events
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_and_words_mean_the_same() {
        for (text, on) in [
            ("abe", vec!["begin", "end", "fail"]),
            ("ea", vec!["end", "fail"]),
            ("BEGIN,END,FAIL", vec!["begin", "end", "fail"]),
            ("ALL", vec!["begin", "end", "fail", "requeue"]),
            ("END, TIME_LIMIT", vec!["end", "time_limit"]),
            ("f", vec!["fail"]),
        ] {
            assert_eq!(
                events(text),
                Events {
                    on,
                    ..Events::default()
                },
                "{text}"
            );
        }
    }

    #[test]
    fn no_mail_and_unknown_words_are_told_apart() {
        assert!(events("n").none && events("NONE").none && !events("").none);
        assert_eq!(events("events").unknown, ["EVENTS"]);
        let mixed = events("END,TIME_LIMIT_90");
        assert_eq!(
            (mixed.on, mixed.unknown),
            (vec!["end"], vec!["TIME_LIMIT_90".to_owned()])
        );
    }
}
