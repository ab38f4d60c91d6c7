//! The values in the tables: names, paths, conditions, steps, house rules.

use super::{HouseRule, Subject, Wanted};
use crate::config::fragment::Origin;
use crate::config::version::VersionRange;
use crate::foundation::diagnostic::{Problem, nearest};
use crate::job::{Fields, Located, RESOURCE_KEYS, SchedulerKind, StorageClass};

/// Names of rules, sites, storage, queues and types of GPUs. They are shown, and stand in the script's messages.
pub(super) fn name_problem(name: &str) -> Option<String> {
    let allowed = |c: char| c.is_alphanumeric() || "._+-@".contains(c);
    let fits = !name.is_empty()
        && !name.starts_with('-')
        && name.len() <= 100
        && name.chars().all(allowed);
    (!fits).then(|| format!("{name:?} is no name (letters, digits and `. _ + - @`)"))
}

pub(super) fn path_problem(path: &str) -> Option<String> {
    if path.chars().any(char::is_control) {
        return Some("must not contain control characters".to_owned());
    }
    let begins = path.starts_with('/') || path.starts_with('$');
    let mut variables = path.split('$').skip(1);
    let is_variable = |text: &str| text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    if !begins {
        Some(format!(
            "{path:?} must be absolute, or begin with a variable such as `$HOME`"
        ))
    } else if !variables.all(is_variable) {
        Some(format!(
            "{path:?}: a `$` must begin the name of a variable, without braces, such as `$USER`"
        ))
    } else {
        None
    }
}

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
        Subject::Storage => one_of(
            &StorageClass::WORDS.map(|(word, _)| word),
            "class of storage",
        )?,
        Subject::Scheduler => one_of(&SchedulerKind::ALL.map(SchedulerKind::as_str), "scheduler")?,
        // The job file's are in small letters.
        Subject::Framework | Subject::Compiler | Subject::Accelerator => {
            return Ok(Wanted::Word(word.to_ascii_lowercase()));
        }
        Subject::Site | Subject::Queue => {}
    }
    Ok(Wanted::Word(word.to_owned()))
}

pub(super) fn words(fields: &mut Fields<'_>, key: &'static str) -> Option<Vec<String>> {
    let words = fields.texts(key)?;
    Some(words.value.into_iter().map(|word| word.value).collect())
}

/// A list of argument vectors.
pub(super) fn steps(fields: &mut Fields<'_>, key: &'static str) -> Vec<Vec<String>> {
    let Some(lists) = fields.lists_of_texts(key) else {
        return Vec::new();
    };
    let mut steps = Vec::new();
    for list in lists {
        if list
            .value
            .first()
            .is_none_or(|program| program.value.is_empty())
        {
            let message = format!("`{}{key}`: a step names no program", fields.prefix());
            fields.problem(Problem::at(list.span, message));
        } else {
            steps.push(list.value.into_iter().map(|word| word.value).collect());
        }
    }
    steps
}

/// A list of keys, or a table of keys and reasons.
pub(super) fn house_rules(
    fields: &mut Fields<'_>,
    key: &'static str,
    origin: &Origin,
) -> Vec<HouseRule> {
    let named: Vec<(Located<String>, Option<String>)> = if fields.is_list(key) {
        let keys = fields.texts(key).map(|keys| keys.value).unwrap_or_default();
        keys.into_iter().map(|key| (key, None)).collect()
    } else {
        fields
            .text_table(key)
            .into_iter()
            .map(|(key, reason)| (key, Some(reason)))
            .collect()
    };
    let mut rules = Vec::new();
    for (named, reason) in named {
        if let Some(known) = RESOURCE_KEYS.iter().find(|known| **known == named.value) {
            rules.push(HouseRule {
                key: known,
                reason,
                origin: origin.clone(),
            });
            continue;
        }
        let message = format!("`house.{key}`: `resources` has no key {:?}", named.value);
        let problem = Problem::at(named.span, message);
        fields.problem(match nearest(&named.value, RESOURCE_KEYS) {
            Some(guess) => problem.hinted(format!("did you mean `{guess}`?")),
            None => problem,
        });
    }
    rules
}
