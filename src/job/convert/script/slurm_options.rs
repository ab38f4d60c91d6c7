//! The options of `sbatch` in all their spellings (`sbatch(1)` of Slurm 20.11 to 26.05).

use super::option::{ScriptOption, Word};

/// Every option by its long name, with its letter behind `/`. Those with `=` have a value, those with `?` only behind
/// a `=` of the script, the others none.
const OPTIONS: &str = "account/A= array/a= batch= bb= bbf= begin/b= chdir/D= cluster-constraint= clusters/M= comment= \
    constraint/C= container= contiguous core-spec/S= cores-per-socket= cpu-freq= cpus-per-gpu= cpus-per-task/c= deadline= \
    delay-boot= dependency/d= distribution/m= error/e= exclude/x= exclusive? export= export-file= extra-node-info/B= \
    get-user-env? gid= gpu-bind= gpu-freq= gpus/G= gpus-per-node= gpus-per-socket= gpus-per-task= gres= gres-flags= hint= \
    hold/H ignore-pbs input/i= job-name/J= kill-on-invalid-dep= licenses/L= mail-type= mail-user= mem= mem-bind= \
    mem-per-cpu= mem-per-gpu= mincpus= network= nice? no-kill/k? no-requeue nodefile/F= nodelist/w= nodes/N= ntasks/n= \
    ntasks-per-core= ntasks-per-gpu= ntasks-per-node= ntasks-per-socket= open-mode= output/o= overcommit/O \
    oversubscribe/s parsable partition/p= prefer= priority= profile= propagate? qos/q= quiet/Q reboot requeue reservation= \
    signal= switches= test-only time/t= tmp= verbose/v wait/W wckey=";

/// Long name, letter, and whether the next word is the value.
fn options() -> impl Iterator<Item = (&'static str, &'static str, bool)> {
    OPTIONS.split(' ').map(|option| {
        let name = option.trim_end_matches(['=', '?']);
        let (name, letter) = name.split_once('/').unwrap_or((name, ""));
        (name, letter, option.ends_with('='))
    })
}

/// An option by its long name, or by a beginning that no other has, as `getopt_long(3)` takes it.
fn long(name: &str) -> Option<(&'static str, bool)> {
    let mut beginning = options().filter(|(known, ..)| name.len() > 1 && known.starts_with(name));
    let only = beginning.next().filter(|_| beginning.next().is_none());
    let exact = options().find(|(known, ..)| *known == name);
    exact
        .or(only)
        .map(|(known, _, has_value)| (known, has_value))
}

/// The options of one line; words that are none come back apart.
pub(super) fn read(words: Vec<Word>) -> (Vec<ScriptOption>, Vec<Word>) {
    let (mut options, mut strays) = (Vec::new(), Vec::new());
    let mut words = words.into_iter().peekable();
    while let Some(word) = words.next() {
        let is_value = |next: &Word| !next.text.starts_with('-');
        if let Some(body) = word.text.strip_prefix("--").filter(|body| !body.is_empty()) {
            let (name, value) = match body.split_once('=') {
                Some((name, value)) => (name, Some(value)),
                None => (body, None),
            };
            // What an unknown option takes for its value is what does not look like an option.
            let (name, takes_next) =
                long(name).unwrap_or_else(|| (name, words.peek().is_some_and(is_value)));
            let stuck = value.map(|value| {
                (
                    word.raw.split_once('=').map_or(value, |(_, raw)| raw),
                    value,
                )
            });
            let next = words.next_if(|_| takes_next && stuck.is_none());
            let behind = next
                .as_ref()
                .map(|next| (next.raw.as_str(), next.text.as_str()));
            options.push(ScriptOption::new(
                name,
                stuck.or(behind),
                &word,
                next.as_ref(),
            ));
        } else if word.text.starts_with('-') && word.text.len() > 1 {
            let known = |letter: &str| {
                let mut all = self::options();
                let found = all.find(|(_, known, _)| *known == letter);
                found.map(|(name, _, has_value)| (name, has_value))
            };
            if !ScriptOption::read_letters(&word, &mut words, known, &mut options) {
                strays.push(word);
            }
        } else {
            strays.push(word);
        }
    }
    (options, strays)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::job::convert::script::option::words;

    fn names_and_values(line: &str) -> Vec<(String, Option<String>)> {
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
                names_and_values(line),
                [("nodes".to_owned(), Some("2".to_owned()))],
                "{line}"
            );
        }
        assert_eq!(names_and_values("--part=a"), names_and_values("-pa"));
        assert_eq!(
            names_and_values("--nod=2")[0].0,
            "nod",
            "three options begin so"
        );
        let names: Vec<String> = names_and_values("-Hs --exclusive -n4 --hold")
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
            "--new=a --newer 'b c' --newest --xy=\"p q\" lost -?",
            0,
        ));
        let verbatim: Vec<&str> = options
            .iter()
            .map(|option| option.verbatim.as_str())
            .collect();
        assert_eq!(
            verbatim,
            ["--new=a", "--newer='b c'", "--newest", "--xy=\"p q\""]
        );
        assert_eq!(strays.len(), 2);
    }

    #[test]
    fn letters_are_each_ones_own() {
        let letters: Vec<&str> = options().map(|(_, letter, _)| letter).collect();
        let taken: Vec<&&str> = letters.iter().filter(|letter| !letter.is_empty()).collect();
        let once: std::collections::BTreeSet<_> = taken.iter().collect();
        assert_eq!(once.len(), taken.len());
    }

    proptest! {
        #[test]
        fn no_line_panics(line in "\\PC*|[-=NHx'\" ä]{0,16}") {
            let _ = read(words(&line, 0));
        }
    }
}
