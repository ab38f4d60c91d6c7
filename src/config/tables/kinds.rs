//! What keys of the tables may hold: names, paths, conditions, steps, versions.

use std::collections::BTreeMap;

use super::{Subject, Wanted};
use crate::config::version::VersionRange;
use crate::foundation::diagnostic::{Problem, nearest};
use crate::foundation::toml_keys::{Kind, parsed};
use crate::job::{SchedulerKind, StorageClass, name_in_small_letters};

/// Names of rules, sites, storage, queues and types of GPUs. They are shown, and stand in the script's messages.
pub(super) fn name(text: &str) -> Result<String, String> {
    let allowed = |c: char| c.is_alphanumeric() || "._+-@".contains(c);
    let fits = !text.is_empty()
        && !text.starts_with('-')
        && text.len() <= 100
        && text.chars().all(allowed);
    let error = || format!("{text:?} is not a name (letters, digits and `. _ + - @`)");
    fits.then(|| text.to_owned()).ok_or_else(error)
}

/// An absolute path, in which `$NAME` is a variable of the job.
pub(super) fn path() -> Kind<String> {
    parsed("^[/$]", |path| {
        let mut variables = path.split('$').skip(1);
        let is_name = |text: &str| text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
        if path.chars().any(char::is_control) {
            Err("must not contain control characters".to_owned())
        } else if !path.starts_with(['/', '$']) {
            Err(format!(
                "{path:?} must be absolute, or begin with a variable such as `$HOME`"
            ))
        } else if !variables.all(is_name) {
            Err(format!(
                "{path:?}: a `$` must begin the name of a variable, without braces, such as `$USER`"
            ))
        } else {
            Ok(path.to_owned())
        }
    })
}

/// One alternative of a condition.
pub(super) fn wanted(subject: Subject, word: &str) -> Result<Wanted, String> {
    let one_of = |words: &[&str], what: &str| match words.contains(&word) {
        true => Ok(()),
        false => Err(match nearest(word, words.iter().copied()) {
            Some(guess) => format!("{word:?} is no {what}; did you mean `{guess}`?"),
            None => format!("{word:?} is no {what}; there are {}", words.join(", ")),
        }),
    };
    match subject {
        Subject::Version => return VersionRange::parse(word).map(Wanted::Version),
        Subject::Storage => one_of(&StorageClass::NAMES, "class of storage")?,
        Subject::Scheduler => one_of(&SchedulerKind::ALL.map(SchedulerKind::as_str), "scheduler")?,
        // The job file's are in small letters.
        Subject::Framework | Subject::Compiler | Subject::Accelerator => {
            return Ok(Wanted::Word(word.to_ascii_lowercase()));
        }
        Subject::Site | Subject::Queue => {}
    }
    Ok(Wanted::Word(word.to_owned()))
}

/// A list of argument vectors.
pub(super) fn steps() -> Kind<Vec<Vec<String>>> {
    const WANTED: &str = "a list of lists, such as [[\"mkdir\", \"-p\", \"a\"]]";
    let schema = serde_json::json!({ "type": "array" });
    Kind::new(schema, |fields, key| {
        let mut steps = Vec::new();
        for (at, item) in fields.items(key, WANTED)?.iter().enumerate() {
            let name = format!("{key}[{at}]");
            let Some(list) = item.get_ref().as_array() else {
                return fields.wrong_type(&name, item, WANTED);
            };
            let words = list.iter().map(|word| fields.text_of(&name, word));
            let words: Vec<Option<String>> = words.collect();
            let Some(step) = words.into_iter().collect::<Option<Vec<String>>>() else {
                continue;
            };
            if step.first().is_none_or(String::is_empty) {
                let message = format!("`{}{key}`: a step names no program", fields.prefix());
                fields.problem(Problem::at(item.span(), message));
            } else {
                steps.push(step);
            }
        }
        Some(steps)
    })
}

/// A table of texts by names.
pub(crate) fn text_table() -> Kind<BTreeMap<String, String>> {
    let schema = serde_json::json!({ "type": "object" });
    Kind::new(schema, |fields, key| {
        let lines = fields.text_table(key).into_iter();
        Some(lines.map(|(name, text)| (name.value, text)).collect())
    })
}

/// As `uname -m` has it; Debian's and Go's words are known.
pub(crate) fn arch() -> Kind<String> {
    parsed("", |text| {
        name_in_small_letters(text).map(|name| match name.as_str() {
            "amd64" => "x86_64".to_owned(),
            "arm64" => "aarch64".to_owned(),
            _ => name,
        })
    })
}

/// A driver's version: numbers.
pub(super) fn driver_version() -> Kind<String> {
    parsed("^[0-9]", |text| {
        let is_version =
            text.starts_with(|c: char| c.is_ascii_digit()) && VersionRange::parse(text).is_ok();
        let error = || format!("{text:?} is not a version such as \"550.54\"");
        is_version.then(|| text.to_owned()).ok_or_else(error)
    })
}
