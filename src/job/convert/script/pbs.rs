//! `#PBS` lines as a job file: the words of Torque and of OpenPBS (`qsub(1B)`).

use super::line::words;
use super::option::ScriptOption;
use super::pbs_resources::Resources;
use super::program::{self, Started};
use super::{Script, output};
use crate::foundation::diagnostic::Problem;
use crate::job::convert::draft::{Draft, Origin};
use crate::job::convert::form::Form;
use crate::job::convert::{Converted, Format, ScriptPlace, mail, shell_words as shell, variables};

const TITLE: &str = "From a script with #PBS lines. `dlrun check` tells whether it can run.";
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

pub(super) fn convert(
    text: &str,
    script: &Script<'_>,
    place: Option<&ScriptPlace>,
) -> Result<Converted, Vec<Problem>> {
    let mut draft = Draft::default();
    let mut resources = Resources::default();
    let letters = letters(script, &mut draft);
    let mut shell = Script {
        shell: script.shell.clone(),
        directives: Vec::new(),
        late: script.late.clone(),
        ..*script
    };
    let mut arguments = Vec::new();
    for letter in &letters {
        let (origin, value) = (letter.origin(), letter.text().trim());
        match letter.name.as_str() {
            "l" => resources.read(value, &origin, &mut draft)?,
            "S" => shell.shell = value.split_whitespace().map(str::to_owned).collect(),
            "F" => match shell::split(value) {
                Some(words) => arguments = words,
                None => draft.refuse(&origin, "holds more than words for the script"),
            },
            _ => read(letter, value, &mut draft),
        }
    }
    let last = |name: &str| letters.iter().rev().find(|letter| letter.name == name);
    set_mail(last("m"), last("M"), &mut draft);
    if let Some(path) = last("o") {
        let pattern = output::of_pbs(path.text().trim(), draft.holds("resources.array"));
        output::set(&pattern, &path.origin(), &mut draft);
    }
    let has = |letter| last(letter).map(ScriptOption::origin);
    let openpbs = resources.openpbs.clone().or(has("J")).or(has("P"));
    let torque = resources.torque.clone().or(has("t"));
    let first = letters.first().map_or(0..0, |letter| letter.span.clone());
    let dialect = set_dialect(openpbs, torque, &Origin::new("#PBS", first), &mut draft);
    program::set_name(place, &mut draft);
    let shape = resources.shape();
    let started = program::set(text, &shell, shape, &arguments, place, &mut draft)?;
    resources.set(started != Started::Program, &mut draft);
    note_directory(script, &mut draft);
    draft.finish(dialect, TITLE)
}

/// A PBS job starts in the home directory, and most scripts change into the directory of submission.
fn note_directory(script: &Script<'_>, draft: &mut Draft) {
    let is_cd = |line: &str| line.trim_start().starts_with("cd");
    if !draft.holds("run.workdir") && !script.body.lines().any(is_cd) {
        let start = script.directives.first().map_or(0, |(_, span)| span.start);
        draft.note(
            &Origin::new("the script", start..start),
            "changes into no directory: PBS starts it in the home directory, dlrun in `run.workdir`",
        );
    }
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
                draft.note(&origin, "is no option of `qsub`; left out");
            }
        }
    }
    letters
}

fn read(letter: &ScriptOption, value: &str, draft: &mut Draft) {
    let origin = letter.origin();
    if let Some((_, key, form)) = KEYS.iter().find(|(known, ..)| *known == letter.name) {
        return match form.value(value) {
            Some(value) => draft.set(key, value, &origin),
            None => draft.pass_through(letter),
        };
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
            None => draft.pass_through(letter),
        },
        "v" => variables::set(draft, value, &origin),
        "V" => draft.set("run.inherit", "all", &origin),
        "n" => draft.set("resources.exclusive", true, &origin),
        "e" | "k" | "R" => draft.note(&origin, output::ONE_FILE),
        "j" if value == "n" => draft.note(&origin, "output and errors go into one file"),
        "j" | "m" | "M" | "o" => {}
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
    let first = |to: &ScriptOption| {
        let first = to.text().split(',').next().unwrap_or_default().trim();
        (first.to_owned(), to.origin())
    };
    if let Some(to) = to.filter(|to| to.text().contains(',')) {
        draft.note(&to.origin(), "only the first address is kept");
    }
    let Some(asked) = on.or(to) else { return };
    let events = on.map_or("a", ScriptOption::text);
    mail::set(draft, (events, &asked.origin()), to.map(first).as_ref());
}
