//! `#PBS` lines as a job file: the words of Torque and of OpenPBS (`qsub(1B)`).

use super::Script;
use super::line::{Word, words};
use super::option::ScriptOption;
use super::output;
use super::pbs_resources::Resources;
use super::start::{self, Started};
use crate::foundation::diagnostic::Problem;
use crate::job::convert::draft::{Draft, Origin};
use crate::job::convert::{
    Converted, Format, ScriptPlace, begin, depend, mail, shell_words as shell, variables,
};

const TITLE: &str = "From a script with #PBS lines. `dlrun check` tells whether it can run.";
/// Letters whose options have a value.
const WITH_VALUE: &str = "aAcCdDeFGijJkKlLmMnNopPqrRSTtuvwW";

pub(super) fn convert(
    text: &str,
    script: &Script<'_>,
    place: Option<&ScriptPlace>,
) -> Result<Converted, Vec<Problem>> {
    let mut draft = Draft::default();
    let mut job = Job::default();
    let letters = letters(script, &mut draft);
    for letter in &letters {
        job.read(letter, &mut draft)?;
    }
    job.set_mail(&mut draft);
    if let Some((path, origin)) = &job.output {
        let home = place.and_then(|place| place.home.as_deref());
        output::set(
            &output::of_pbs(path, home, draft.holds("resources.array")),
            origin,
            &mut draft,
        );
    }
    let dialect = job.dialect(&letters, &mut draft);
    let shape = job.resources.shape();
    let shell = Script {
        shell: job.shell(script),
        directives: Vec::new(),
        late: script.late.clone(),
        ..*script
    };
    start::set_name(place, &mut draft);
    let started = start::set(text, &shell, shape, &job.arguments, place, &mut draft)?;
    job.resources.set(started != Started::Program, &mut draft);
    tell_directory(script, &letters, &mut draft);
    draft.finish(dialect, TITLE)
}

/// A PBS job starts in the home directory, and most scripts change into the directory of submission.
fn tell_directory(script: &Script<'_>, letters: &[ScriptOption], draft: &mut Draft) {
    let changes = script
        .body
        .lines()
        .any(|line| line.trim_start().starts_with("cd"));
    if !changes
        && !letters
            .iter()
            .any(|letter| ["d", "w"].contains(&letter.name.as_str()))
    {
        let start = script.directives.first().map_or(0, |(_, span)| span.start);
        let origin = Origin::new("the script", start..start);
        draft.note(
            &origin,
            "changes into no directory: PBS starts it in the home directory, dlrun in `run.workdir`",
        );
    }
}

fn letters(script: &Script<'_>, draft: &mut Draft) -> Vec<ScriptOption> {
    let mut letters = Vec::new();
    for (line, span) in &script.directives {
        let mut words = words(line, span.start).into_iter();
        while let Some(word) = words.next() {
            let mut chars = word.text.char_indices().skip(1);
            let letter = chars
                .next()
                .map(|(_, letter)| letter)
                .filter(|_| word.text.starts_with('-'));
            let Some(letter) = letter else {
                let origin = Origin::new(word.text.clone(), word.span);
                draft.note(&origin, "is no option of `qsub`; left out");
                continue;
            };
            let mut add = |letter: char, value: Option<&Word>| {
                letters.push(ScriptOption {
                    name: letter.to_string(),
                    value: value.map(|value| value.text.clone()),
                    verbatim: value.map_or(format!("-{letter}"), |value| {
                        format!("-{letter} {}", value.raw)
                    }),
                    span: word.span.start..value.map_or(word.span.end, |value| value.span.end),
                });
            };
            if !WITH_VALUE.contains(letter) {
                // Letters without a value may stand together.
                add(letter, None);
                chars.for_each(|(_, letter)| add(letter, None));
                continue;
            }
            let stuck = 1 + letter.len_utf8();
            let value = if word.text.len() > stuck {
                Some(Word {
                    raw: word.raw.get(stuck..).unwrap_or("").to_owned(),
                    text: word.text[stuck..].to_owned(),
                    span: word.span.clone(),
                })
            } else {
                words.next()
            };
            add(letter, value.as_ref());
        }
    }
    letters
}

/// Letters whose values stand in the job file as they are.
const SAME: [(&str, &str); 6] = [
    ("A", "resources.account"),
    ("N", "name"),
    ("d", "run.workdir"),
    ("w", "run.workdir"),
    ("t", "resources.array"),
    ("J", "resources.array"),
];

/// What hangs on several options.
#[derive(Debug, Default)]
struct Job {
    resources: Resources,
    arguments: Vec<String>,
    shell: Option<String>,
    mail_to: Option<(String, Origin)>,
    mail_on: Option<(String, Origin)>,
    output: Option<(String, Origin)>,
}

impl Job {
    fn read(&mut self, letter: &ScriptOption, draft: &mut Draft) -> Result<(), Problem> {
        let (origin, value) = (letter.origin(), letter.text().trim());
        if let Some((_, key)) = SAME.iter().find(|(known, _)| *known == letter.name) {
            draft.set(key, value, &origin);
            return Ok(());
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
            "l" => self.resources.read(value, &origin, draft)?,
            "a" => match begin::moment(value) {
                Some(moment) => draft.set("resources.begin", moment, &origin),
                None => draft.pass_through(letter),
            },
            // Conditions hold commas too, so other attributes beside them are left to PBS.
            "W" => match depend::conditions(value).filter(|_| value.starts_with("depend=")) {
                Some(conditions) => draft.set("resources.depends", conditions, &origin),
                None => draft.pass_through(letter),
            },
            "m" => self.mail_on = Some((value.to_owned(), origin)),
            "M" => self.mail_to = Some((value.to_owned(), origin)),
            "v" => variables::set(draft, value, &origin),
            "V" => draft.set("run.inherit", "all", &origin),
            "n" => draft.set("resources.exclusive", true, &origin),
            "S" => self.shell = Some(value.to_owned()),
            "F" => match shell::split(value) {
                Some(words) => self.arguments = words,
                None => draft.refuse(&origin, "holds more than words for the script"),
            },
            "o" => self.output = Some((value.to_owned(), origin)),
            "e" | "k" | "R" => draft.note(&origin, output::ONE_FILE),
            "j" if value == "n" => draft.note(&origin, "output and errors go into one file"),
            "j" => {}
            "C" | "I" | "x" | "X" | "z" | "f" => {
                draft.note(&origin, "says how `qsub` behaves, not the job");
            }
            _ => draft.pass_through(letter),
        }
        Ok(())
    }

    /// The dialect that the options are of, and the scheduler where they are of one alone: else it is found at submission.
    fn dialect(&self, letters: &[ScriptOption], draft: &mut Draft) -> Format {
        let has = |letter: &str| {
            let letter = letters.iter().find(|known| known.name == letter);
            letter.map(ScriptOption::origin)
        };
        let openpbs = self
            .resources
            .openpbs
            .clone()
            .or_else(|| has("J"))
            .or_else(|| has("P"));
        let torque = self.resources.torque.clone().or_else(|| has("t"));
        let (format, word, origin) = match (openpbs, torque) {
            (Some(origin), _) => (Format::OpenPbs, "openpbs", origin),
            (None, Some(origin)) => (Format::Torque, "torque", origin),
            (None, None) => {
                let span = letters.first().map_or(0..0, |letter| letter.span.clone());
                let what = "nothing tells Torque from OpenPBS: `scheduler.kind` is left to what the machine has";
                draft.note(&Origin::new("#PBS", span), what);
                return Format::Torque;
            }
        };
        draft.set("scheduler.kind", word, &origin);
        format
    }

    fn shell(&self, script: &Script<'_>) -> Vec<String> {
        let asked = self
            .shell
            .as_ref()
            .map(|shell| shell.split_whitespace().map(str::to_owned).collect());
        asked.unwrap_or_else(|| script.shell.clone())
    }

    /// Without `-m` mail goes out where the job is aborted (`qsub(1B)`).
    fn set_mail(&self, draft: &mut Draft) {
        let to = self.mail_to.as_ref();
        let on = match (&self.mail_on, to) {
            (Some((text, origin)), _) => (text.as_str(), origin),
            (None, Some((_, origin))) => ("a", origin),
            (None, None) => return,
        };
        mail::set(draft, on, to);
    }
}
