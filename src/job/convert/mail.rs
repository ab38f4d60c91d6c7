//! Mail events: PBS's letters and Slurm's words.

use super::draft::{Draft, Origin};
use super::write::Value;
use crate::job::MailEvent;

/// Sets `resources.mail`: the events that have a word in the job file, and the address. An empty address is the submitting
/// user's.
pub(super) fn set(draft: &mut Draft, on: Option<(String, Origin)>, to: Option<(String, Origin)>) {
    let (text, origin) = on.unzip();
    let (on, unknown) = text.map(|text| events(&text)).unwrap_or_default();
    if let Some(origin) = origin.as_ref().filter(|_| !unknown.is_empty()) {
        draft.note(origin, format!("no word here for {}", unknown.join(", ")));
    }
    let Some(origin) = origin.filter(|_| !on.is_empty()) else {
        if let Some((_, origin)) = to {
            let what = "no events are named, so no mail is sent: `resources.mail`";
            draft.note(&origin, what);
        }
        return;
    };
    let on = on.into_iter().map(str::to_owned).collect();
    let on = ("on".to_owned(), Value::Texts(on));
    if let Some((address, origin)) = to.filter(|(address, _)| !address.is_empty()) {
        let pairs = vec![("to".to_owned(), address.into()), on.clone()];
        if draft.try_set("resources.mail", pairs, &origin) {
            return;
        }
    }
    draft.set("resources.mail", vec![on], &origin);
}

/// Reads letters (`abe`, `qsub(1B)`, `-m`) or words (`BEGIN,END`, `sbatch(1)`, `--mail-type`): words of the job file, each once,
/// and what has none there.
fn events(text: &str) -> (Vec<&'static str>, Vec<String>) {
    let text = text.trim();
    let has_letters_only = !text.is_empty() && text.bytes().all(|b| b"abefnpABEFNP".contains(&b));
    let parts: Vec<String> = if has_letters_only {
        text.to_ascii_lowercase()
            .chars()
            .map(String::from)
            .collect()
    } else {
        let words = text.split([',', ' ']).filter(|word| !word.is_empty());
        words.map(str::to_ascii_uppercase).collect()
    };
    let (mut on, mut unknown) = (Vec::new(), Vec::new());
    for part in parts {
        match part.as_str() {
            "b" | "BEGIN" => on.push(MailEvent::Begin),
            "e" | "END" => on.push(MailEvent::End),
            // `a` is an abort by the batch system, `f` a failure of the job.
            "a" | "f" | "FAIL" | "INVALID_DEPEND" => on.push(MailEvent::Fail),
            "REQUEUE" => on.push(MailEvent::Requeue),
            "TIME_LIMIT" => on.push(MailEvent::TimeLimit),
            // `sbatch(1)`: "equivalent to BEGIN, END, FAIL, INVALID_DEPEND, REQUEUE, and STAGE_OUT".
            "ALL" => on.extend(MailEvent::WORDS.map(|(_, event)| event).into_iter().take(4)),
            "n" | "p" | "NONE" => {}
            _ => unknown.push(part),
        }
    }
    on.sort_unstable();
    on.dedup();
    (on.into_iter().map(MailEvent::as_str).collect(), unknown)
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
            ("n", vec![]),
        ] {
            assert_eq!(events(text), (on, Vec::new()), "{text}");
        }
        let mixed = events("END,TIME_LIMIT_90");
        assert_eq!(mixed, (vec!["end"], vec!["TIME_LIMIT_90".to_owned()]));
    }
}
