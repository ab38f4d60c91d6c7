//! `#PBS` lines as a job file: the words of Torque and of OpenPBS (`qsub(1B)`).

use super::Script;
use super::line::{Word, words};
use super::output;
use super::pbs_resources::Resources;
use super::start::{self, Started};
use crate::foundation::diagnostic::Problem;
use crate::job::convert::draft::{Draft, Origin};
use crate::job::convert::write::Value;
use crate::job::convert::{
    Converted, Format, ScriptPlace, begin, depend, mail, variables, words as shell,
};

const TITLE: &str = "From a script with #PBS lines. `dlrun check` tells whether it can run.";
/// Letters whose options have a value.
const WITH_VALUE: &str = "aAcCdDeFGijJkKlLmMnNopPqrRSTtuvwW";

/// A letter with its value.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Letter {
    letter: char,
    value: Option<Word>,
    span: std::ops::Range<usize>,
}

impl Letter {
    fn origin(&self) -> Origin {
        Origin {
            about: format!("-{}", self.letter),
            span: self.span.clone(),
        }
    }

    fn text(&self) -> &str {
        self.value.as_ref().map_or("", |word| word.text.as_str())
    }

    /// As it can stand in a directive line again.
    fn verbatim(&self) -> String {
        match &self.value {
            Some(value) => format!("-{} {}", self.letter, value.raw),
            None => format!("-{}", self.letter),
        }
    }
}

pub(super) fn convert(
    text: &str,
    script: &Script<'_>,
    place: Option<&ScriptPlace>,
) -> Result<Converted, Problem> {
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
    draft.finish(dialect, TITLE).map_err(|problems| {
        problems
            .into_iter()
            .next()
            .unwrap_or_else(|| Problem::of_file("no job file"))
    })
}

/// A PBS job starts in the home directory, and most scripts change into the directory of submission.
fn tell_directory(script: &Script<'_>, letters: &[Letter], draft: &mut Draft) {
    let changes = script
        .body
        .lines()
        .any(|line| line.trim_start().starts_with("cd"));
    if !changes
        && !letters
            .iter()
            .any(|letter| ['d', 'w'].contains(&letter.letter))
    {
        let start = script.directives.first().map_or(0, |(_, span)| span.start);
        let origin = Origin {
            about: "the script".to_owned(),
            span: start..start,
        };
        draft.note(
            &origin,
            "changes into no directory: PBS starts it in the home directory, dlrun in `run.workdir`",
        );
    }
}

fn letters(script: &Script<'_>, draft: &mut Draft) -> Vec<Letter> {
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
                let origin = Origin {
                    about: word.text.clone(),
                    span: word.span,
                };
                draft.note(&origin, "is no option of `qsub`; left out");
                continue;
            };
            if !WITH_VALUE.contains(letter) {
                // Letters without a value may stand together.
                let all = std::iter::once(letter).chain(chars.map(|(_, letter)| letter));
                letters.extend(all.map(|letter| Letter {
                    letter,
                    value: None,
                    span: word.span.clone(),
                }));
                continue;
            }
            let stuck = 1 + letter.len_utf8();
            let value = if word.text.len() > stuck {
                let raw = word.raw.get(stuck..).unwrap_or("").to_owned();
                Some(Word {
                    raw,
                    text: word.text[stuck..].to_owned(),
                    span: word.span.clone(),
                })
            } else {
                words.next()
            };
            let end = value.as_ref().map_or(word.span.end, |value| value.span.end);
            letters.push(Letter {
                letter,
                value,
                span: word.span.start..end,
            });
        }
    }
    letters
}

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
    fn read(&mut self, letter: &Letter, draft: &mut Draft) -> Result<(), Problem> {
        let (origin, value) = (letter.origin(), letter.text().trim());
        let text = || Value::Text(value.to_owned());
        let mut set = |key, value| {
            let _ = draft.set(key, value, &origin);
        };
        match letter.letter {
            'A' => set("resources.account", text()),
            'q' => {
                let (queue, server) = value.split_once('@').unwrap_or((value, ""));
                if !server.is_empty() {
                    draft.refuse(
                        &origin,
                        format!("dlrun submits to the default server, not to `{server}`"),
                    );
                }
                if !queue.is_empty() {
                    let _ = draft.set("resources.queue", Value::Text(queue.to_owned()), &origin);
                }
            }
            'N' => set("name", text()),
            'd' | 'w' => set("run.workdir", text()),
            't' | 'J' => set("resources.array", text()),
            'l' => self.resources.read(value, &origin, draft)?,
            'a' => match begin::moment(value) {
                Some(moment) => set("resources.begin", Value::Text(moment)),
                None => verbatim(letter, draft),
            },
            'W' => attributes(letter, draft),
            'm' => self.mail_on = Some((value.to_owned(), origin)),
            'M' => self.mail_to = Some((value.to_owned(), origin)),
            'v' => variables::set(draft, value, &origin),
            'V' => set("run.inherit", Value::Text("all".to_owned())),
            'n' => set("resources.exclusive", Value::Flag(true)),
            'S' => self.shell = Some(value.to_owned()),
            'F' => match shell::split(value) {
                Some(words) => self.arguments = words,
                None => draft.refuse(&origin, "holds more than words for the script"),
            },
            'o' => self.output = Some((value.to_owned(), origin)),
            'e' | 'k' | 'R' => draft.note(&origin, output::ONE_FILE),
            'j' if value == "n" => draft.note(&origin, "output and errors go into one file"),
            'j' => {}
            'C' | 'I' | 'x' | 'X' | 'z' | 'f' => {
                draft.note(&origin, "says how `qsub` behaves, not the job")
            }
            _ => verbatim(letter, draft),
        }
        Ok(())
    }

    /// The dialect that the options are of, and the scheduler where they are of one alone: else it is found at submission.
    fn dialect(&self, letters: &[Letter], draft: &mut Draft) -> Format {
        let has = |letter: char| {
            letters
                .iter()
                .find(|known| known.letter == letter)
                .map(Letter::origin)
        };
        let openpbs = self
            .resources
            .openpbs
            .clone()
            .or_else(|| has('J'))
            .or_else(|| has('P'));
        let torque = self.resources.torque.clone().or_else(|| has('t'));
        let (format, word, origin) = match (openpbs, torque) {
            (Some(origin), _) => (Format::OpenPbs, "openpbs", origin),
            (None, Some(origin)) => (Format::Torque, "torque", origin),
            (None, None) => {
                let span = letters.first().map_or(0..0, |letter| letter.span.clone());
                let what = "nothing tells Torque from OpenPBS: `scheduler.kind` is left to what the machine has";
                draft.note(
                    &Origin {
                        about: "#PBS".to_owned(),
                        span,
                    },
                    what,
                );
                return Format::Torque;
            }
        };
        let _ = draft.set("scheduler.kind", Value::Text(word.to_owned()), &origin);
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
        let (text, origin) = match (&self.mail_on, &self.mail_to) {
            (Some((text, origin)), _) => (text.as_str(), origin),
            (None, Some((_, origin))) => ("a", origin),
            (None, None) => return,
        };
        let events = mail::events(text);
        if !events.unknown.is_empty() {
            draft.note(
                origin,
                format!("no word here for {}", events.unknown.join(", ")),
            );
        }
        if events.on.is_empty() {
            return;
        }
        let mut pairs = Vec::new();
        if let Some((list, origin)) = &self.mail_to {
            let mut addresses = list.split(',');
            let first = addresses.next().unwrap_or("").trim().to_owned();
            if addresses.next().is_some() {
                draft.note(origin, format!("only one address can be told: {first}"));
            }
            pairs.push(("to".to_owned(), Value::Text(first)));
        }
        pairs.push((
            "on".to_owned(),
            Value::Texts(events.on.iter().map(|word| (*word).to_owned()).collect()),
        ));
        let _ = draft.set("resources.mail", Value::Table(pairs), origin);
    }
}

/// An option that the job file has no word for goes to PBS as it is.
fn verbatim(letter: &Letter, draft: &mut Draft) {
    let _ = draft.push("scheduler.directives", letter.verbatim(), &letter.origin());
}

/// `-W depend=afterok:1,...`: conditions hold commas too, so other attributes beside them are left to PBS.
fn attributes(letter: &Letter, draft: &mut Draft) {
    let value = letter.text();
    let conditions = value
        .strip_prefix("depend=")
        .and_then(|_| depend::conditions(value));
    match conditions {
        Some(conditions) => {
            let _ = draft.set(
                "resources.depends",
                Value::Texts(conditions),
                &letter.origin(),
            );
        }
        None => verbatim(letter, draft),
    }
}
