//! `#PBS` lines as a job file: the words of Torque and of OpenPBS (`qsub(1B)`).

use super::option::{ScriptOption, words};
use super::pbs_resources::Resources;
use super::{ONE_FILE, Script};
use crate::foundation::diagnostic::Problem;
use crate::job::convert::draft::{Draft, Origin};
use crate::job::convert::form::Form;
use crate::job::convert::{Converted, Format, mail, variables};

const TITLE: &str = "From a script with #PBS lines. `dlrun check` shows whether it can run.";
/// Letters whose options have a value.
const WITH_VALUE: &str = "aAcCdDeFGijJkKlLmMnNopPqrRSTtuvwW";
/// Letters, the keys that say the same, and how their values are written.
const KEYS: [(&str, &str, Form); 7] = [
    ("A", "resources.account", Form::Text),
    ("N", "name", Form::Text),
    ("d", "run.workdir", Form::Text),
    ("w", "run.workdir", Form::Text),
    ("t", "resources.array", Form::Text),
    ("J", "resources.array", Form::Text),
    ("a", "resources.begin", Form::Moment),
];

pub(super) fn convert(mut script: Script<'_>, mut draft: Draft) -> Result<Converted, Vec<Problem>> {
    let mut resources = Resources::default();
    let letters = letters(&script, &mut draft);
    for letter in &letters {
        let (origin, value) = (letter.origin(), letter.text().trim());
        match letter.name.as_str() {
            "l" => resources.read(value, &origin, &mut draft)?,
            "S" => script.shell = value.split_whitespace().map(str::to_owned).collect(),
            _ => read(letter, value, &mut draft),
        }
    }
    let last = |name: &str| letters.iter().rev().find(|letter| letter.name == name);
    set_mail(last("m"), last("M"), &mut draft);
    let has = |letter| last(letter).map(ScriptOption::origin);
    let openpbs = resources.openpbs.clone().or(has("J")).or(has("P"));
    let torque = resources.torque.clone().or(has("t"));
    let format = set_dialect(openpbs, torque, &script.first("#PBS"), &mut draft);
    script.set_run(resources.nodes.unwrap_or(1), &mut draft)?;
    resources.set(&mut draft);
    let is_cd = |line: &str| line.trim_start().starts_with("cd");
    if !draft.holds("run.workdir") && !script.text[script.body..].lines().any(is_cd) {
        let what = "changes into no directory: PBS starts it in the home directory, dlrun in `run.workdir`";
        draft.note(&script.first("the script"), what);
    }
    draft.finish(format, TITLE)
}

fn letters(script: &Script<'_>, draft: &mut Draft) -> Vec<ScriptOption> {
    let mut letters = Vec::new();
    for (line, span) in &script.directives {
        let mut words = words(line, span.start).into_iter();
        while let Some(word) = words.next() {
            if word.text.starts_with('-') && word.text.len() > 1 {
                ScriptOption::read_letters(
                    &word,
                    &mut words,
                    |letter| Some((letter, WITH_VALUE.contains(letter))),
                    &mut letters,
                );
            } else {
                let origin = Origin::new(word.text, word.span);
                draft.note(&origin, "is not an option of `qsub`; left out");
            }
        }
    }
    letters
}

fn read(letter: &ScriptOption, value: &str, draft: &mut Draft) {
    let origin = letter.origin();
    if let Some((_, key, form)) = KEYS.iter().find(|(known, ..)| *known == letter.name) {
        return draft.set_text(key, *form, value, &origin);
    }
    match letter.name.as_str() {
        "q" => {
            let (queue, server) = value.split_once('@').unwrap_or((value, ""));
            if !server.is_empty() {
                let what = format!("dlrun submits to the default server, not to `{server}`");
                draft.refuse(&origin, what);
            }
            if !queue.is_empty() {
                draft.set("resources.queue", queue, &origin);
            }
        }
        // Conditions hold commas too, so other attributes beside them are left to PBS.
        "W" => match Form::Conditions
            .value(value)
            .filter(|_| value.starts_with("depend="))
        {
            Some(conditions) => draft.set("resources.depends", conditions, &origin),
            None if value.contains("depend=") => {
                draft.refuse(&origin, "cannot be written as `resources.depends`");
            }
            None => draft.pass_through(letter),
        },
        "v" => variables::set(draft, value, &origin),
        "V" => draft.set("run.inherit", "all", &origin),
        "n" => draft.set("resources.exclusive", true, &origin),
        "e" | "k" | "o" | "R" => draft.note(&origin, ONE_FILE),
        "j" if value == "n" => draft.note(&origin, ONE_FILE),
        "j" | "m" | "M" => {}
        "D" => draft.refuse(&origin, "names a root directory, which no job file has"),
        "F" => draft.refuse(
            &origin,
            "gives arguments to the script: write them in `run.command`",
        ),
        "C" | "I" | "x" | "X" | "z" | "f" => {
            draft.note(&origin, "says how `qsub` behaves, not the job");
        }
        _ => draft.pass_through(letter),
    }
}

/// The dialect that the options are of, and the scheduler where they are of one alone: else it is found at submission.
fn set_dialect(
    openpbs: Option<Origin>,
    torque: Option<Origin>,
    first: &Origin,
    draft: &mut Draft,
) -> Format {
    let (format, origin) = match (openpbs, torque) {
        (Some(origin), _) => (Format::OpenPbs, origin),
        (None, Some(origin)) => (Format::Torque, origin),
        (None, None) => {
            let what = "nothing shows whether this is Torque or OpenPBS: `scheduler.kind` is left to what the machine has";
            draft.note(first, what);
            return Format::Torque;
        }
    };
    draft.set("scheduler.kind", format.as_str(), &origin);
    format
}

/// Without `-m` mail goes out where the job is aborted (`qsub(1B)`).
fn set_mail(on: Option<&ScriptOption>, to: Option<&ScriptOption>, draft: &mut Draft) {
    if let Some(to) = to.filter(|to| to.text().contains(',')) {
        draft.note(&to.origin(), "only the first address is kept");
    }
    let events = on.map_or("a", ScriptOption::text).to_owned();
    let on = on.or(to).map(|asked| (events, asked.origin()));
    let to = to.map(|to| {
        let first = to.text().split(',').next().unwrap_or_default().trim();
        (first.to_owned(), to.origin())
    });
    mail::set(draft, on, to);
}
