//! The options of `sbatch` in all their spellings (`sbatch(1)` of Slurm 20.11 to 26.05).

use super::line::Word;
use crate::job::convert::draft::Origin;

/// An option with its value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SlurmOption {
    /// Its long name without dashes.
    pub(super) name: String,
    pub(super) value: Option<String>,
    /// As it can stand in a directive line again.
    pub(super) verbatim: String,
    pub(super) span: std::ops::Range<usize>,
}

impl SlurmOption {
    pub(super) fn origin(&self) -> Origin {
        Origin {
            about: format!("--{}", self.name),
            span: self.span.clone(),
        }
    }
}

/// Whether an option has a value: never, always, or only behind `=`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Arg {
    No,
    Yes,
    Perhaps,
}

const NO: Arg = Arg::No;
const YES: Arg = Arg::Yes;
const PERHAPS: Arg = Arg::Perhaps;

/// Long name, letter (blank: none), value.
const OPTIONS: [(&str, char, Arg); 87] = [
    ("account", 'A', YES),
    ("array", 'a', YES),
    ("batch", ' ', YES),
    ("bb", ' ', YES),
    ("bbf", ' ', YES),
    ("begin", 'b', YES),
    ("chdir", 'D', YES),
    ("cluster-constraint", ' ', YES),
    ("clusters", 'M', YES),
    ("comment", ' ', YES),
    ("constraint", 'C', YES),
    ("container", ' ', YES),
    ("contiguous", ' ', NO),
    ("core-spec", 'S', YES),
    ("cores-per-socket", ' ', YES),
    ("cpu-freq", ' ', YES),
    ("cpus-per-gpu", ' ', YES),
    ("cpus-per-task", 'c', YES),
    ("deadline", ' ', YES),
    ("delay-boot", ' ', YES),
    ("dependency", 'd', YES),
    ("distribution", 'm', YES),
    ("error", 'e', YES),
    ("exclude", 'x', YES),
    ("exclusive", ' ', PERHAPS),
    ("export", ' ', YES),
    ("export-file", ' ', YES),
    ("extra-node-info", 'B', YES),
    ("get-user-env", ' ', PERHAPS),
    ("gid", ' ', YES),
    ("gpu-bind", ' ', YES),
    ("gpu-freq", ' ', YES),
    ("gpus", 'G', YES),
    ("gpus-per-node", ' ', YES),
    ("gpus-per-socket", ' ', YES),
    ("gpus-per-task", ' ', YES),
    ("gres", ' ', YES),
    ("gres-flags", ' ', YES),
    ("hint", ' ', YES),
    ("hold", 'H', NO),
    ("ignore-pbs", ' ', NO),
    ("input", 'i', YES),
    ("job-name", 'J', YES),
    ("kill-on-invalid-dep", ' ', YES),
    ("licenses", 'L', YES),
    ("mail-type", ' ', YES),
    ("mail-user", ' ', YES),
    ("mem", ' ', YES),
    ("mem-bind", ' ', YES),
    ("mem-per-cpu", ' ', YES),
    ("mem-per-gpu", ' ', YES),
    ("mincpus", ' ', YES),
    ("network", ' ', YES),
    ("nice", ' ', PERHAPS),
    ("no-kill", 'k', PERHAPS),
    ("no-requeue", ' ', NO),
    ("nodefile", 'F', YES),
    ("nodelist", 'w', YES),
    ("nodes", 'N', YES),
    ("ntasks", 'n', YES),
    ("ntasks-per-core", ' ', YES),
    ("ntasks-per-gpu", ' ', YES),
    ("ntasks-per-node", ' ', YES),
    ("ntasks-per-socket", ' ', YES),
    ("open-mode", ' ', YES),
    ("output", 'o', YES),
    ("overcommit", 'O', NO),
    ("oversubscribe", 's', NO),
    ("parsable", ' ', NO),
    ("partition", 'p', YES),
    ("prefer", ' ', YES),
    ("priority", ' ', YES),
    ("profile", ' ', YES),
    ("propagate", ' ', PERHAPS),
    ("qos", 'q', YES),
    ("quiet", 'Q', NO),
    ("reboot", ' ', NO),
    ("requeue", ' ', NO),
    ("reservation", ' ', YES),
    ("signal", ' ', YES),
    ("switches", ' ', YES),
    ("test-only", ' ', NO),
    ("time", 't', YES),
    ("tmp", ' ', YES),
    ("verbose", 'v', NO),
    ("wait", 'W', NO),
    ("wckey", ' ', YES),
];

/// An option by its long name, or by a beginning that no other has, as `getopt_long(3)` takes it.
fn long(name: &str) -> Option<(&'static str, Arg)> {
    let exact = OPTIONS.iter().find(|(known, ..)| *known == name);
    let mut beginning = OPTIONS
        .iter()
        .filter(|(known, ..)| name.len() > 1 && known.starts_with(name));
    let only = beginning.next().filter(|_| beginning.next().is_none());
    exact.or(only).map(|(known, _, arg)| (*known, *arg))
}

/// The options of one line; words that are none come back apart.
pub(super) fn read(words: Vec<Word>) -> (Vec<SlurmOption>, Vec<Word>) {
    let (mut options, mut strays) = (Vec::new(), Vec::new());
    let mut words = words.into_iter().peekable();
    while let Some(word) = words.next() {
        let is_value = |next: &Word| !next.text.starts_with('-');
        if let Some(body) = word.text.strip_prefix("--").filter(|body| !body.is_empty()) {
            let (name, value) = match body.split_once('=') {
                Some((name, value)) => (name.to_owned(), Some(value.to_owned())),
                None => (body.to_owned(), None),
            };
            // What an unknown option takes for its value is what does not look like an option.
            let (name, arg) =
                long(&name).map_or((name, None), |(known, arg)| (known.to_owned(), Some(arg)));
            let takes_next = value.is_none()
                && match arg {
                    Some(arg) => arg == YES,
                    None => words.peek().is_some_and(is_value),
                };
            let next = if takes_next { words.next() } else { None };
            options.push(with_value(name, value, &word, next));
        } else if word.text.starts_with('-') && word.text.len() > 1 {
            short(&word, &mut words, &mut options, &mut strays);
        } else {
            strays.push(word);
        }
    }
    (options, strays)
}

fn with_value(name: String, value: Option<String>, word: &Word, next: Option<Word>) -> SlurmOption {
    let raw_value = match (&value, &next) {
        (Some(_), _) => word.raw.split_once('=').map(|(_, raw)| raw.to_owned()),
        (None, next) => next.as_ref().map(|next| next.raw.clone()),
    };
    let verbatim = raw_value.map_or(format!("--{name}"), |raw| format!("--{name}={raw}"));
    let end = next.as_ref().map_or(word.span.end, |next| next.span.end);
    let value = value.or(next.map(|next| next.text));
    SlurmOption {
        name,
        value,
        verbatim,
        span: word.span.start..end,
    }
}

/// `-N2`, `-N 2`, and letters without values together, `-Hs`.
fn short(
    word: &Word,
    words: &mut std::iter::Peekable<std::vec::IntoIter<Word>>,
    options: &mut Vec<SlurmOption>,
    strays: &mut Vec<Word>,
) {
    for (at, letter) in word.text.char_indices().skip(1) {
        let Some((name, _, arg)) = OPTIONS
            .iter()
            .find(|(_, known, _)| *known == letter && letter != ' ')
        else {
            strays.push(word.clone());
            return;
        };
        let name = (*name).to_owned();
        if *arg != YES {
            let verbatim = format!("--{name}");
            options.push(SlurmOption {
                name,
                value: None,
                verbatim,
                span: word.span.clone(),
            });
            continue;
        }
        let stuck = word.text[at + letter.len_utf8()..].to_owned();
        let next = if stuck.is_empty() { words.next() } else { None };
        let end = next.as_ref().map_or(word.span.end, |next| next.span.end);
        let raw = next.as_ref().map_or_else(
            || raw_value(word, at + letter.len_utf8()),
            |next| next.raw.clone(),
        );
        let verbatim = format!("--{name}={raw}");
        let value = Some(next.map_or(stuck, |next| next.text));
        options.push(SlurmOption {
            name,
            value,
            verbatim,
            span: word.span.start..end,
        });
        return;
    }
}

/// What is stuck to a letter, with its quotes: the letters before it have none.
fn raw_value(word: &Word, at: usize) -> String {
    word.raw.get(at..).unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::job::convert::script::line::words;

    fn told(line: &str) -> Vec<(String, Option<String>)> {
        let (options, strays) = read(words(line, 0));
        assert!(strays.is_empty(), "{strays:?}");
        options
            .into_iter()
            .map(|option| (option.name, option.value))
            .collect()
    }

    #[test]
    fn all_spellings_of_an_option_are_one() {
        for line in ["-N2", "-N 2", "--nodes=2", "--nodes 2", "--nodes=\"2\""] {
            assert_eq!(
                told(line),
                [("nodes".to_owned(), Some("2".to_owned()))],
                "{line}"
            );
        }
        assert_eq!(told("--part=a"), told("-pa"));
        assert_eq!(told("--nod=2")[0].0, "nod", "three options begin so");
        let names: Vec<String> = told("-Hs --exclusive -n4 --hold")
            .into_iter()
            .map(|(name, _)| name)
            .collect();
        assert_eq!(
            names,
            ["hold", "oversubscribe", "exclusive", "ntasks", "hold"]
        );
    }

    #[test]
    fn options_of_later_versions_are_kept_as_they_are() {
        let (options, strays) = read(words(
            "--new=a --newer 'b c' --newest --x=\"p q\" lost -?",
            0,
        ));
        let verbatim: Vec<&str> = options
            .iter()
            .map(|option| option.verbatim.as_str())
            .collect();
        assert_eq!(
            verbatim,
            ["--new=a", "--newer='b c'", "--newest", "--x=\"p q\""]
        );
        assert_eq!(strays.len(), 2);
    }

    #[test]
    fn names_are_in_order_and_letters_are_each_ones_own() {
        assert!(OPTIONS.is_sorted_by(|a, b| a.0 < b.0));
        let mut letters: Vec<char> = OPTIONS
            .iter()
            .map(|(_, letter, _)| *letter)
            .filter(|c| *c != ' ')
            .collect();
        let count = letters.len();
        letters.sort_unstable();
        letters.dedup();
        assert_eq!(letters.len(), count);
    }

    proptest! {
        #[test]
        fn no_line_panics(line in "\\PC*|[-=NHx'\" ä]{0,16}") {
            let _ = read(words(&line, 0));
        }
    }
}
