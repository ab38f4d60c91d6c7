//! Options of `qsub`, once as `#PBS` lines and once as words of a command line.
//!
//! All text in them is from sets of characters that neither a `#PBS` line nor a resource list treats as special (checked
//! where the job file is read), so that a line and a word mean the same.

use crate::foundation::units::Walltime;
use crate::job::{Inherit, Mail, MailEvent};
use crate::launch::{Plan, PlannedResources};

/// One option of `qsub`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::scheduler) struct Flag {
    /// `-N`.
    letter: &'static str,
    /// Its value; `None` for those that have none.
    value: Option<String>,
}

impl Flag {
    /// An option with a value.
    pub(in crate::scheduler) fn with(letter: &'static str, value: impl Into<String>) -> Self {
        Self {
            letter,
            value: Some(value.into()),
        }
    }

    /// An option without a value.
    pub(in crate::scheduler) fn alone(letter: &'static str) -> Self {
        Self {
            letter,
            value: None,
        }
    }

    /// One resource: `-l NAME=VALUE`.
    pub(in crate::scheduler) fn resource(name: &str, value: impl std::fmt::Display) -> Self {
        Self::with("-l", format!("{name}={value}"))
    }

    /// As it is written behind `#PBS `.
    pub(in crate::scheduler) fn line(&self) -> String {
        match &self.value {
            Some(value) => format!("{} {value}", self.letter),
            None => self.letter.to_owned(),
        }
    }
}

/// As they stand on a command line.
pub(in crate::scheduler) fn argv(flags: &[Flag]) -> Vec<String> {
    flags
        .iter()
        .flat_map(|flag| std::iter::once(flag.letter.to_owned()).chain(flag.value.clone()))
        .collect()
}

/// `HH:MM:SS`, with as many hours as it takes: a bare number is seconds here and minutes elsewhere.
pub(in crate::scheduler) fn clock(walltime: Walltime) -> String {
    let seconds = walltime.0;
    format!(
        "{:02}:{:02}:{:02}",
        seconds / 3600,
        seconds / 60 % 60,
        seconds % 60
    )
}

/// Options that have a value.
pub(in crate::scheduler) fn given<const N: usize>(
    options: [(&'static str, Option<String>); N],
) -> impl Iterator<Item = Flag> {
    let given = options.into_iter();
    given.filter_map(|(letter, value)| Some(Flag::with(letter, value?)))
}

/// Resources that have a value: `-l NAME=VALUE`.
pub(in crate::scheduler) fn resources<const N: usize>(
    named: [(&'static str, Option<String>); N],
) -> impl Iterator<Item = Flag> {
    let named = named.into_iter();
    named.filter_map(|(name, value)| Some(Flag::resource(name, value?)))
}

/// The nodes of a job: each by its name, or so many that are alike. `each`: what a node with so many tasks has.
pub(in crate::scheduler) fn nodes(
    resources: &PlannedResources,
    each: impl Fn(u32) -> String,
    named: impl Fn(&str, &str) -> String,
) -> String {
    let tasks = resources.tasks_of_nodes(resources.nodes);
    let nodes: Vec<String> = match &resources.nodelist {
        Some(list) => list
            .split([',', '+'])
            .zip(tasks)
            .map(|(host, tasks)| named(host, &each(tasks)))
            .collect(),
        None => tasks
            .chunk_by(|one, other| one == other)
            .map(|alike| format!("{}{}", alike.len(), each(alike[0])))
            .collect(),
    };
    nodes.join("+")
}

/// Name, queue and account.
pub(in crate::scheduler) fn names(plan: &Plan) -> Vec<Flag> {
    let (queue, account) = (plan.resources.queue.clone(), plan.resources.account.clone());
    given([
        ("-N", Some(plan.name.clone())),
        ("-q", queue),
        ("-A", account),
    ])
    .collect()
}

/// Begin and mail. `letters` translates the events; where they mean nothing to the scheduler, the addressee goes too.
pub(in crate::scheduler) fn times_and_mail(
    plan: &Plan,
    letters: impl Fn(&Mail) -> String,
) -> Vec<Flag> {
    let resources = &plan.resources;
    let begin = resources.begin.map(|begin| begin.to_pbs());
    let mut flags: Vec<Flag> = given([("-a", begin)]).collect();
    let mail = resources.mail.as_ref().map(|mail| (mail, letters(mail)));
    if let Some((mail, letters)) = mail.filter(|(_, letters)| !letters.is_empty()) {
        flags.push(Flag::with("-m", letters));
        flags.extend(mail.to.clone().map(|to| Flag::with("-M", to)));
    }
    flags
}

/// The letters of `-m`: `b`, `e`, and those for a job that fails (`a`: ended by the scheduler; `f`: Torque, its command
/// failed). A time limit is an end by the scheduler.
pub(in crate::scheduler) fn mail_letters(mail: &Mail, fail: &str) -> String {
    let letters = |event: &MailEvent| match event {
        MailEvent::Begin => "b",
        MailEvent::End => "e",
        MailEvent::Fail => fail,
        MailEvent::TimeLimit => "a",
        MailEvent::Requeue => "",
    };
    let asked: String = mail.on.iter().map(letters).collect();
    "abef"
        .chars()
        .filter(|letter| asked.contains(*letter))
        .collect()
}

/// Variables of the submitting shell, those that it `has`: `-V`, `-v NAME,NAME`.
pub(in crate::scheduler) fn variables(plan: &Plan, has: impl Fn(&str) -> bool) -> Option<Flag> {
    match plan.inherit.as_ref()? {
        Inherit::All => Some(Flag::alone("-V")),
        Inherit::Names(names) => {
            let names = names.iter().map(String::as_str);
            let set: Vec<&str> = names.filter(|name| has(name)).collect();
            (!set.is_empty()).then(|| Flag::with("-v", set.join(",")))
        }
        Inherit::None => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hours_go_beyond_a_day() {
        assert_eq!(clock(Walltime(36 * 3600)), "36:00:00");
        assert_eq!(clock(Walltime(400 * 86_400 + 61)), "9600:01:01");
        assert_eq!(clock(Walltime(90)), "00:01:30");
    }

    #[test]
    fn events_become_letters_each_once() {
        let mail = |on: &[MailEvent]| {
            mail_letters(
                &Mail {
                    to: None,
                    on: on.to_vec(),
                },
                "af",
            )
        };
        use MailEvent::{Begin, End, Fail, Requeue, TimeLimit};
        assert_eq!(mail(&[Begin, End, Fail, TimeLimit]), "abef");
        assert_eq!(mail(&[TimeLimit]), "a");
        assert_eq!(mail(&[Requeue]), "");
    }

    #[test]
    fn a_value_is_a_word_of_its_own() {
        let flags = [
            Flag::with("-N", "x"),
            Flag::alone("-V"),
            Flag::resource("walltime", "01:00:00"),
        ];
        assert_eq!(argv(&flags), ["-N", "x", "-V", "-l", "walltime=01:00:00"]);
        assert_eq!(
            flags.map(|flag| flag.line()),
            ["-N x", "-V", "-l walltime=01:00:00"]
        );
    }
}
