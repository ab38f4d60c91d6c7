//! The commands of a script: what loads modules, sets variables and starts one program can be said by a job file.

use crate::convert::draft::Draft;
use crate::convert::words::{Words, simple_command, split};
use crate::convert::write::Value;

/// What a script does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Body {
    /// All that it does, in this order.
    Simple(Simple),
    /// More than a job file can say.
    Script,
}

/// Modules, variables and one program.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Simple {
    pub(super) modules: Vec<String>,
    pub(super) env: Vec<(String, String)>,
    pub(super) command: Vec<String>,
    /// How the program is started.
    pub(super) start: Start,
    /// The script changes into the directory of submission.
    pub(super) changes_directory: bool,
}

/// How a program is started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Start {
    /// Once, by the script.
    #[default]
    Alone,
    /// By a [`Starter`], with as many ranks where they are named.
    Ranks(Option<u32>),
}

/// A program that starts ranks, in whose place the job file's launcher does the same.
#[derive(Debug)]
pub(super) struct Starter {
    names: &'static [&'static str],
    /// Its options for the number of ranks.
    count: &'static [&'static str],
}

/// Under Slurm `mpirun` stays a program: an MPI library without Slurm's support is N programs of one rank under `srun`.
pub(super) const OF_SLURM: [Starter; 1] = [Starter { names: &["srun"], count: &["-n", "--ntasks"] }];
/// Under PBS the launcher is `mpirun` itself.
pub(super) const OF_PBS: [Starter; 1] =
    [Starter { names: &["mpirun", "mpiexec"], count: &["-n", "-np", "--np", "-c"] }];

/// Reads the commands.
pub(super) fn read(body: &str, starters: &[Starter]) -> Body {
    let joined = body.replace("\r\n", "\n").replace("\\\n", " ");
    let mut simple = Simple::default();
    for line in joined.lines().map(str::trim) {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if !simple.command.is_empty() || simple.take(line, starters).is_none() {
            return Body::Script;
        }
    }
    if simple.command.is_empty() { Body::Script } else { Body::Simple(simple) }
}

/// The directory of submission, as scripts name it.
const SUBMIT_DIRS: [&str; 2] = ["SLURM_SUBMIT_DIR", "PBS_O_WORKDIR"];

impl Simple {
    /// Takes one line in; `None` where a job file cannot say it.
    fn take(&mut self, line: &str, starters: &[Starter]) -> Option<()> {
        if is_cd_to_submission(line) && self.env.is_empty() {
            self.changes_directory = true;
            return Some(());
        }
        // It only says that a failure ends the script, and what comes last is the program.
        if ["set -e", "set -eu", "set -euo pipefail", "set -u"].contains(&line) {
            return Some(());
        }
        if let Some(names) = modules(line) {
            let all: Vec<String> = self.modules.iter().cloned().chain(names).collect();
            let fits = self.env.is_empty() && Draft::takes("run.modules", &Value::Texts(all.clone()));
            self.modules = all;
            return fits.then_some(());
        }
        if let Some(assignments) = line.strip_prefix("export ") {
            return self.export(assignments);
        }
        self.start_program(line, starters)
    }

    fn export(&mut self, assignments: &str) -> Option<()> {
        for word in split(assignments)? {
            let (name, value) = word.split_once('=')?;
            // A tilde behind `=` or `:` is a home directory to the shell.
            if value.starts_with('~') || value.contains(":~") {
                return None;
            }
            self.env.retain(|(known, _)| known != name);
            self.env.push((name.to_owned(), value.to_owned()));
        }
        let pair = |(name, value): &(String, String)| (name.clone(), Value::Text(value.clone()));
        Draft::takes("run.env", &Value::Table(self.env.iter().map(pair).collect())).then_some(())
    }

    fn start_program(&mut self, line: &str, starters: &[Starter]) -> Option<()> {
        let line = line.strip_prefix("exec ").unwrap_or(line);
        let Words::Plain(words) = simple_command(line) else { return None };
        let starter = starters.iter().find(|starter| starter.names.contains(&words[0].as_str()));
        let (start, command) = match starter {
            Some(starter) => ranks(&words[1..], starter.count)?,
            None => (Start::Alone, &words[..]),
        };
        self.start = start;
        self.command = command.to_vec();
        Some(())
    }
}

fn is_cd_to_submission(line: &str) -> bool {
    let Some(target) = line.strip_prefix("cd ") else { return false };
    let target = target.trim().trim_matches('"');
    let name = target.strip_prefix('$').unwrap_or("");
    let name = name.strip_prefix('{').and_then(|name| name.strip_suffix('}')).unwrap_or(name);
    SUBMIT_DIRS.contains(&name)
}

/// `module load a b`, `ml a b`.
fn modules(line: &str) -> Option<Vec<String>> {
    let words = split(line)?;
    let names = match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["module", "load" | "add", _, ..] => &words[2..],
        ["ml", "load" | "add", _, ..] => &words[2..],
        ["ml", first, ..] if !["purge", "list", "avail", "unload", "save", "restore"].contains(&first) => {
            &words[1..]
        }
        _ => return None,
    };
    // `-gcc` unloads.
    names.iter().all(|name| !name.starts_with('-')).then(|| names.to_vec())
}

/// The program behind its starter. An option other than the number of ranks has a meaning that would be lost.
fn ranks<'a>(words: &'a [String], options: &[&str]) -> Option<(Start, &'a [String])> {
    let (mut count, mut rest) = (None, words);
    while let Some(word) = rest.first().filter(|word| word.starts_with('-')) {
        let (name, value) = match word.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (word.as_str(), None),
        };
        let stuck = word.strip_prefix("-n").filter(|digits| digits.bytes().all(|b| b.is_ascii_digit()));
        let (value, used) = match (value, stuck.filter(|digits| !digits.is_empty())) {
            (_, Some(digits)) => (digits, 1),
            (Some(value), None) if options.contains(&name) => (value, 1),
            (None, None) if options.contains(&name) => (rest.get(1)?.as_str(), 2),
            _ => return None,
        };
        count = Some(value.parse().ok()?);
        rest = &rest[used..];
    }
    (!rest.is_empty()).then_some((Start::Ranks(count), rest))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn simple(body: &str) -> Option<Simple> {
        match read(body, &OF_SLURM) {
            Body::Simple(simple) => Some(simple),
            Body::Script => None,
        }
    }

    #[test]
    fn a_script_that_starts_one_program_is_taken_apart() {
        let body =
            "module load gcc/13.2 cuda\nml python\n\n# variables\nexport A=1 B='x y'\ncd $SLURM_SUBMIT_DIR\n";
        assert_eq!(simple(body), None, "a directory after variables may hang on them");
        let body = "cd \"${SLURM_SUBMIT_DIR}\"\nmodule load gcc/13.2 cuda\nml python\n\n# variables\nexport A=1 B='x y'\nsrun -n 4 python train.py \\\n  --x 1\n";
        let simple = simple(body).expect("it is simple");
        assert_eq!(simple.modules, ["gcc/13.2", "cuda", "python"]);
        let env = [("A".to_owned(), "1".to_owned()), ("B".to_owned(), "x y".to_owned())];
        assert_eq!((simple.env, simple.start), (env.to_vec(), Start::Ranks(Some(4))));
        assert_eq!(simple.command, ["python", "train.py", "--x", "1"]);
    }

    #[test]
    fn starters_are_known_with_their_ranks_only() {
        for (line, start) in [
            ("srun ./a", Start::Ranks(None)),
            ("srun -n8 ./a", Start::Ranks(Some(8))),
            ("srun --ntasks=8 ./a", Start::Ranks(Some(8))),
            ("exec ./a", Start::Alone),
        ] {
            let simple = simple(line).expect(line);
            assert_eq!((simple.start, simple.command), (start, vec!["./a".to_owned()]), "{line}");
        }
    }

    #[test]
    fn mpirun_is_a_starter_under_pbs_and_a_program_under_slurm() {
        let line = "mpirun -np 8 ./a";
        let Body::Simple(simple) = read(line, &OF_PBS) else { panic!("kept") };
        assert_eq!((simple.start, simple.command), (Start::Ranks(Some(8)), vec!["./a".to_owned()]));
        let Body::Simple(simple) = read(line, &OF_SLURM) else { panic!("kept") };
        assert_eq!((simple.start, simple.command.len()), (Start::Alone, 4));
    }

    #[test]
    fn when_in_doubt_the_script_is_kept() {
        for body in [
            "srun --mpi=pmix ./a",
            "srun -n $SLURM_NTASKS ./a",
            "module purge\n./a",
            "module load $X\n./a",
            "export PATH=$HOME/bin:$PATH\n./a",
            "export A=~/x\n./a",
            "export BASH_ENV=x\n./a",
            "A=1\n./a",
            "./a\n./b",
            "./a > log",
            "source env/bin/activate\n./a",
            "for i in 1 2; do ./a; done",
            "export A=1\nmodule load b\n./a",
            "srun",
            "",
        ] {
            assert_eq!(simple(body), None, "{body}");
        }
    }

    proptest! {
        #[test]
        fn no_text_panics(body in "\\PC*|(srun|module load|export|cd|-n|=|a|\n| |'){0,9}") {
            let _ = read(&body, &OF_PBS);
        }
    }
}
