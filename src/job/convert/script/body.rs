//! The commands of a script: what loads modules, sets variables and starts one program can be said by a job file.

use std::cell::RefCell;

use super::container::{self, Contained, OPEN, joined};
use super::shell;
use crate::job::convert::draft::Draft;
use crate::job::convert::shell_words::{assignment, expand, is_builtin};
use crate::job::convert::write::Value;

/// Directory, modules, Python environment, variables and one program.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Simple {
    pub(super) modules: Vec<String>,
    pub(super) python: Option<Python>,
    pub(super) env: Vec<(String, String)>,
    pub(super) command: Vec<String>,
    /// How the program is started.
    pub(super) start: Start,
    /// The container that the program runs in.
    pub(super) container: Option<Contained>,
    /// The script changes into a directory.
    pub(super) changes_directory: bool,
    /// Where it does, seen from the directory of submission; empty: there.
    pub(super) dir: String,
    /// Variables that only the script has.
    locals: Vec<(String, String)>,
    /// Those that no later line uses.
    unused: Vec<String>,
    /// The shell file that brings conda; empty where conda itself is asked for it.
    conda: Option<String>,
    /// Unset variables and broken pipelines end the script.
    is_strict: bool,
}

/// A Python environment that a script activates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Python {
    /// The directory of a virtual environment, seen from the directory of submission.
    Venv(String),
    /// Name, and the shell file that brings conda.
    Conda(String, Option<String>),
}

/// What is known of a script beside its commands.
#[derive(Debug)]
pub(super) struct Known<'a> {
    pub(super) starters: &'a [Starter],
    /// The user's home directory.
    pub(super) home: Option<&'a str>,
    /// CPUs of a task, by Slurm's name of them.
    pub(super) cpus: Option<String>,
    /// Tasks in all that the directives ask for.
    pub(super) tasks: u32,
    /// The shell that would read the commands.
    pub(super) shell: &'a str,
    /// A PBS job starts in the home directory.
    pub(super) is_pbs: bool,
}

/// How a program is started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Start {
    /// Once, by the script.
    #[default]
    Alone,
    /// By a [`Starter`], as the ranks that the directives ask for.
    Ranks,
    /// By itself, on all nodes: a shell, or a [`Starter`] in its own words.
    Itself,
}

/// A program that starts ranks, in whose place the job file's launcher does the same.
#[derive(Debug)]
pub(super) struct Starter {
    names: &'static [&'static str],
    /// Its options for the number of ranks.
    count: &'static [&'static str],
}

/// Under Slurm `mpirun` stays a program: an MPI library without Slurm's support is N programs of one rank under `srun`.
pub(super) const OF_SLURM: [Starter; 1] = [Starter {
    names: &["srun"],
    count: &["-n", "--ntasks"],
}];
/// Under PBS the launcher is `mpirun` itself.
pub(super) const OF_PBS: [Starter; 1] = [Starter {
    names: &["mpirun", "mpiexec"],
    count: &["-n", "-np", "--np", "-c"],
}];

/// Reads the commands; `None` where they do more than a job file can say.
pub(super) fn read(body: &str, known: &Known<'_>) -> Option<Simple> {
    let joined = body.replace("\r\n", "\n").replace("\\\n", " ");
    let mut simple = Simple::default();
    for line in joined.lines().map(str::trim) {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if !simple.command.is_empty() {
            return None;
        }
        simple.take(line, known)?;
    }
    (!simple.command.is_empty() && simple.has_plain_locals()).then_some(simple)
}

/// The directory of submission, as scripts name it.
const SUBMIT_DIRS: [&str; 2] = ["SLURM_SUBMIT_DIR", "PBS_O_WORKDIR"];
/// Variables that a job may have already: setting one of them reaches the program without `export`.
const OF_JOBS: [&str; 16] = [
    "CUDA", "CONDA", "HIP", "HOME", "LD_", "MASTER", "MKL", "NCCL", "OMP", "PATH", "PBS", "PYTHON",
    "RANK", "SLURM", "TMP", "WORLD",
];

impl Simple {
    /// Takes one line in; `None` where a job file cannot say it.
    fn take(&mut self, line: &str, known: &Known<'_>) -> Option<()> {
        if is_cd_to_submission(line) && self.env.is_empty() {
            (self.changes_directory, self.dir) = (true, String::new());
            return Some(());
        }
        // It only says that a failure ends the script, and what comes last is the program.
        if ["set -e", "set -eu", "set -euo pipefail", "set -u"].contains(&line) {
            self.is_strict |= line != "set -e";
            return Some(());
        }
        if line == "eval \"$(conda shell.bash hook)\"" && self.env.is_empty() {
            self.conda = Some(String::new());
            return Some(());
        }
        let left_open = |name: &str| format!("{OPEN}{name}{OPEN}");
        let asked = RefCell::new(Vec::new());
        let value = |name: &str| {
            asked.borrow_mut().push(name.to_owned());
            Some(self.value(name, known).unwrap_or_else(|| left_open(name)))
        };
        if let Some(words) = expand(line, &value) {
            self.unused.retain(|name| !asked.borrow().contains(name));
            let all: Vec<&str> = words.iter().map(String::as_str).collect();
            if let Some(taken) = self.prepare(&all, known) {
                return taken;
            }
            if self.start_program(line, &words, known).is_some() {
                return Some(());
            }
        }
        self.start_shell(line, known)
    }

    /// The value of a variable that the script, or what is known of it, says.
    fn value(&self, name: &str, known: &Known<'_>) -> Option<String> {
        let set = self
            .locals
            .iter()
            .chain(&self.env)
            .find(|(set, _)| set == name);
        match (set, name) {
            (Some((_, value)), _) => Some(value.clone()),
            (None, "HOME") => known.home.map(str::to_owned),
            (None, "SLURM_CPUS_PER_TASK") => known.cpus.clone(),
            _ => None,
        }
    }

    /// What comes before the program; `None` where the line is none of that.
    fn prepare(&mut self, words: &[&str], known: &Known<'_>) -> Option<Option<()>> {
        if let Some(names) = modules(words) {
            let all: Vec<String> = self.modules.iter().cloned().chain(names).collect();
            let fits = self.env.is_empty()
                && self.python.is_none()
                && self.conda.is_none()
                && Draft::takes("run.modules", &Value::Texts(all.clone()));
            self.modules = all;
            return Some(fits.then_some(()));
        }
        Some(match words {
            ["cd", dir] => self.change_directory(dir, known),
            ["source" | ".", file] => self.source(file, known),
            ["source" | ".", file, name] if *file != "activate" => {
                self.conda = Some(format!(
                    "{}/etc/profile.d/conda.sh",
                    file.strip_suffix("/bin/activate")?
                ));
                if file.starts_with('/') {
                    self.activate_conda(name, false)
                } else {
                    None
                }
            }
            ["source", "activate", name] => self.activate_conda(name, true),
            ["conda", "activate", name] => self.activate_conda(name, false),
            ["export", pairs @ ..] => self.export(pairs),
            [pair] => {
                let (name, value) = assignment(pair)?;
                // A tilde is a home directory to the shell there too.
                let has_tilde = value.starts_with('~') || value.contains(":~");
                let is_own = !OF_JOBS.iter().any(|known| name.starts_with(known)) && !has_tilde;
                self.locals.retain(|(known, _)| known != name);
                self.unused.push(name.to_owned());
                self.locals.push((name.to_owned(), value.to_owned()));
                // Of a variable of the job it would be the program's too.
                (is_own && !self.env.iter().any(|(known, _)| known == name)).then_some(())
            }
            _ => return None,
        })
    }

    /// The shell that submits may export a variable of any name, and then setting it reaches the program without `export`.
    /// Names in capitals, and what the script itself makes no use of, look like that.
    fn has_plain_locals(&self) -> bool {
        let is_plain = |name: &str| {
            name.contains(char::is_lowercase) && !self.unused.iter().any(|un| un == name)
        };
        self.locals.iter().all(|(name, _)| is_plain(name))
    }

    fn change_directory(&mut self, dir: &str, known: &Known<'_>) -> Option<()> {
        let is_open = dir.starts_with('-') || dir.contains(OPEN);
        if is_open
            || self.is_from_home(dir, known)
            || self.env.iter().any(|(name, _)| name == "CDPATH")
        {
            return None;
        }
        (self.changes_directory, self.dir) = (true, joined(&self.dir, dir));
        Some(())
    }

    fn is_from_home(&self, path: &str, known: &Known<'_>) -> bool {
        known.is_pbs && !self.changes_directory && !path.starts_with('/')
    }

    /// `source DIR/bin/activate`, or the file that brings conda.
    fn source(&mut self, file: &str, known: &Known<'_>) -> Option<()> {
        if self.python.is_some()
            || file.contains(OPEN)
            || self.is_from_home(file, known)
            || self.env.iter().any(|(name, _)| is_of_python(name))
        {
            return None;
        }
        let brings_conda = [
            "/etc/profile.d/conda.sh",
            "/.bashrc",
            "/.bash_profile",
            "/.profile",
        ];
        if file.starts_with('/') && brings_conda.iter().any(|end| file.ends_with(end)) {
            self.conda = Some(file.to_owned());
            return Some(());
        }
        let venv = file
            .strip_suffix("/bin/activate")
            .filter(|dir| !dir.is_empty())?;
        // The base environment of conda has a file of the same name.
        if ["conda", "mamba", "forge"]
            .iter()
            .any(|name| venv.to_lowercase().contains(name))
        {
            return None;
        }
        self.python = Some(Python::Venv(joined(&self.dir, venv)));
        Some(())
    }

    /// `conda activate NAME` needs a shell that knows conda. Where modules are loaded, one of them may have brought it.
    fn activate_conda(&mut self, name: &str, is_old: bool) -> Option<()> {
        let profile = self
            .conda
            .clone()
            .or((is_old || !self.modules.is_empty()).then(String::new))?;
        let is_first =
            self.python.is_none() && !self.env.iter().any(|(name, _)| is_of_python(name));
        let name = if name.contains('/') {
            joined(&self.dir, name)
        } else {
            name.to_owned()
        };
        self.python = Some(Python::Conda(
            name,
            Some(profile).filter(|profile| !profile.is_empty()),
        ));
        is_first.then_some(())
    }

    fn export(&mut self, pairs: &[&str]) -> Option<()> {
        for pair in pairs {
            let local = self.locals.iter().find(|(name, _)| name == pair).cloned();
            let (name, value) = match (assignment(pair), local) {
                (Some((name, value)), _) => (name.to_owned(), value.to_owned()),
                (None, local) => local?,
            };
            // A tilde behind `=` or `:` is a home directory to the shell; what the node knows is not known here.
            if value.starts_with('~') || value.contains(":~") || value.contains(OPEN) {
                return None;
            }
            self.locals.retain(|(known, _)| *known != name);
            self.env.retain(|(known, _)| *known != name);
            self.env.push((name, value));
        }
        let pair = |(name, value): &(String, String)| (name.clone(), Value::Text(value.clone()));
        Draft::takes(
            "run.env",
            &Value::Table(self.env.iter().map(pair).collect()),
        )
        .then_some(())
    }

    /// Words that need no shell: a program, perhaps behind a starter and in a container.
    fn start_program(&mut self, line: &str, words: &[String], known: &Known<'_>) -> Option<()> {
        let words = if line.starts_with("exec ") {
            &words[1..]
        } else {
            words
        };
        // What brings conda sets `PATH` too.
        if self.conda.is_some() && self.python.is_none() {
            return None;
        }
        let first = words
            .first()
            .filter(|first| !is_builtin(first) && assignment(first).is_none())?;
        let starter = known
            .starters
            .iter()
            .find(|starter| starter.names.contains(&first.as_str()));
        let started = starter.and_then(|starter| ranks(&words[1..], starter.count, known.tasks));
        let (start, command) = match (starter, started) {
            (Some(_), Some(command)) => (Start::Ranks, command),
            // With options of its own, or other ranks than the directives ask for, it is a program as others are.
            (Some(_), None) => (Start::Itself, words),
            (None, _) => (Start::Alone, words),
        };
        // What is activated on the node would not be seen in a container.
        let fits = |container: &Contained| {
            let is_clean = container
                .keys
                .iter()
                .any(|(key, _)| *key == "image.cleanenv");
            self.python.is_none() && (!is_clean || self.env.is_empty())
        };
        self.container = container::read(command, &self.dir).filter(fits);
        let command = self
            .container
            .as_ref()
            .map_or(command, |container| &container.command);
        self.start = start;
        self.command = command.to_vec();
        (!command.iter().any(|word| word.contains(OPEN))).then_some(())
    }

    /// One command that only a shell understands: variables of the job, a redirection, a pipeline.
    fn start_shell(&mut self, line: &str, known: &Known<'_>) -> Option<()> {
        let locals: Vec<String> = self.locals.iter().map(|(name, _)| name.clone()).collect();
        let has_conda_only = self.conda.is_some() && self.python.is_none();
        if self.is_strict || has_conda_only || !shell::is_one_command(line, &locals) {
            return None;
        }
        (self.start, self.container) = (Start::Itself, None);
        self.command = vec![known.shell.to_owned(), "-c".to_owned(), line.to_owned()];
        Some(())
    }
}

/// Variables that an activation sets or obeys.
fn is_of_python(name: &str) -> bool {
    ["PATH", "PYTHONHOME", "VIRTUAL_ENV"].contains(&name) || name.starts_with("CONDA")
}

fn is_cd_to_submission(line: &str) -> bool {
    let Some(target) = line.strip_prefix("cd ") else {
        return false;
    };
    let target = target.trim().trim_matches('"');
    let name = target.strip_prefix('$').unwrap_or("");
    let name = name
        .strip_prefix('{')
        .and_then(|name| name.strip_suffix('}'))
        .unwrap_or(name);
    SUBMIT_DIRS.contains(&name)
}

/// `module load a b`, `ml a b`, and what else changes modules.
fn modules(words: &[&str]) -> Option<Vec<String>> {
    let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    let names: Vec<String> = match words {
        ["module" | "ml", word @ ("purge" | "reset")] => owned(&[word]),
        ["module", "use" | "unload" | "rm" | "swap" | "switch", _, ..] => {
            vec![words[1..].join(" ")]
        }
        ["module" | "ml", "load" | "add", names @ ..] => owned(names),
        ["ml", first, ..]
            if !["list", "avail", "unload", "save", "restore", "use"].contains(first) =>
        {
            owned(&words[1..])
        }
        _ => return None,
    };
    // `-gcc` unloads.
    (!names.is_empty() && names.iter().all(|name| !name.starts_with('-'))).then_some(names)
}

/// The program behind its starter, which starts `tasks`. An option other than their number has a meaning that would be lost.
fn ranks<'a>(words: &'a [String], options: &[&str], tasks: u32) -> Option<&'a [String]> {
    let (mut count, mut rest) = (None, words);
    while let Some(word) = rest.first().filter(|word| word.starts_with('-')) {
        let (name, value) = match word.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (word.as_str(), None),
        };
        let stuck = word
            .strip_prefix("-n")
            .filter(|digits| digits.bytes().all(|b| b.is_ascii_digit()));
        let (value, used) = match (value, stuck.filter(|digits| !digits.is_empty())) {
            (_, Some(digits)) => (digits, 1),
            (Some(value), None) if options.contains(&name) => (value, 1),
            (None, None) if options.contains(&name) => (rest.get(1)?.as_str(), 2),
            _ => return None,
        };
        count = Some(value.parse().ok()?);
        rest = &rest[used..];
    }
    (!rest.is_empty() && count.is_none_or(|count: u32| count == tasks)).then_some(rest)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn known(starters: &[Starter]) -> Known<'_> {
        let cpus = Some("8".to_owned());
        Known {
            starters,
            home: Some("/home/u"),
            cpus,
            tasks: 8,
            shell: "bash",
            is_pbs: false,
        }
    }

    fn simple(body: &str) -> Option<Simple> {
        read(body, &known(&OF_SLURM))
    }

    #[test]
    fn a_script_that_starts_one_program_is_taken_apart() {
        let body = "module load gcc/13.2 cuda\nml python\n\n# variables\nexport A=1 B='x y'\ncd $SLURM_SUBMIT_DIR\n";
        assert_eq!(
            simple(body),
            None,
            "a directory after variables may hang on them"
        );
        let body = "cd \"${SLURM_SUBMIT_DIR}\"\nmodule purge\nmodule use /a\nmodule load gcc/13.2 cuda\nml python\n\n# variables\nexport A=1 B='x y'\nsrun -n 8 python train.py \\\n  --x 1 # one\n";
        let simple = simple(body).expect("it is simple");
        assert_eq!(
            simple.modules,
            ["purge", "use /a", "gcc/13.2", "cuda", "python"]
        );
        let env = [
            ("A".to_owned(), "1".to_owned()),
            ("B".to_owned(), "x y".to_owned()),
        ];
        assert_eq!((simple.env, simple.start), (env.to_vec(), Start::Ranks));
        assert_eq!(simple.command, ["python", "train.py", "--x", "1"]);
    }

    #[test]
    fn values_that_the_script_says_are_put_in() {
        let body = "DATA=/d/x\nexport OMP_NUM_THREADS=$SLURM_CPUS_PER_TASK OUT=~x$DATA\npython a.py \"${DATA}/y\" $OUT ~/z";
        let simple = simple(body);
        assert_eq!(
            simple, None,
            "a tilde in a value is a home directory to the shell"
        );
        let body = "data=/d/x\nexport OMP_NUM_THREADS=$SLURM_CPUS_PER_TASK\ncd ~/w\npython a.py \"${data}/y\" ~/z";
        let simple = self::simple(body).expect("it is simple");
        assert_eq!(simple.command, ["python", "a.py", "/d/x/y", "/home/u/z"]);
        assert_eq!(simple.env, [("OMP_NUM_THREADS".to_owned(), "8".to_owned())]);
        assert_eq!(simple.dir, "/home/u/w");
    }

    #[test]
    fn a_variable_that_is_exported_later_is_one_of_the_job() {
        let simple = simple("LC_ALL=C\nexport LC_ALL\n./a").expect("it is simple");
        assert_eq!(simple.env, [("LC_ALL".to_owned(), "C".to_owned())]);
    }

    #[test]
    fn a_variable_of_the_container_that_only_the_job_knows_is_left_to_the_shell() {
        let line = "apptainer exec --env X=$FOO t.sif ./a";
        let simple = simple(line).expect("one command");
        assert_eq!(
            (simple.command, simple.container),
            (vec!["bash".into(), "-c".into(), line.into()], None)
        );
    }

    #[test]
    fn python_environments_are_known_however_they_are_activated() {
        let conda =
            |profile: Option<&str>| Some(Python::Conda("e".to_owned(), profile.map(str::to_owned)));
        let venv = |dir: &str| Some(Python::Venv(dir.to_owned()));
        for (body, python) in [
            ("source env/bin/activate", venv("env")),
            ("cd sub\n. ../env/bin/activate", venv("sub/../env")),
            ("source ~/v/bin/activate", venv("/home/u/v")),
            ("module load anaconda\nsource activate e", conda(None)),
            ("module load anaconda\nconda activate e", conda(None)),
            (
                "eval \"$(conda shell.bash hook)\"\nconda activate e",
                conda(None),
            ),
            (
                "source ~/.bashrc\nconda activate e",
                conda(Some("/home/u/.bashrc")),
            ),
            (
                "source /c/etc/profile.d/conda.sh\nconda activate e",
                conda(Some("/c/etc/profile.d/conda.sh")),
            ),
            (
                "source /c/bin/activate e",
                conda(Some("/c/etc/profile.d/conda.sh")),
            ),
        ] {
            let simple = simple(&format!("{body}\npython a.py")).expect(body);
            assert_eq!(simple.python, python, "{body}");
        }
    }

    #[test]
    fn starters_are_known_with_their_ranks_only() {
        for (line, start) in [
            ("srun ./a", Start::Ranks),
            ("srun -n8 ./a", Start::Ranks),
            ("srun --ntasks=8 ./a", Start::Ranks),
            ("exec ./a", Start::Alone),
        ] {
            let simple = simple(line).expect(line);
            assert_eq!(
                (simple.start, simple.command),
                (start, vec!["./a".to_owned()]),
                "{line}"
            );
        }
        for line in ["srun --mpi=pmix ./a", "srun -n 4 ./a"] {
            let simple = simple(line).expect(line);
            assert_eq!(
                (simple.start, simple.command.join(" ").as_str()),
                (Start::Itself, line)
            );
        }
        let simple = simple("srun -n $SLURM_NTASKS ./a > log").expect("one command");
        assert_eq!(
            simple.command,
            ["bash", "-c", "srun -n $SLURM_NTASKS ./a > log"]
        );
    }

    #[test]
    fn mpirun_is_a_starter_under_pbs_and_a_program_under_slurm() {
        let line = "mpirun -np 8 ./a";
        let Some(simple) = read(line, &known(&OF_PBS)) else {
            panic!("kept")
        };
        assert_eq!(
            (simple.start, simple.command),
            (Start::Ranks, vec!["./a".to_owned()])
        );
        let Some(simple) = read(line, &known(&OF_SLURM)) else {
            panic!("kept")
        };
        assert_eq!((simple.start, simple.command.len()), (Start::Alone, 4));
    }

    #[test]
    fn when_in_doubt_the_script_is_kept() {
        for body in [
            "module load $X\n./a",
            "module list\n./a",
            "export PATH=$HOME/bin:$PATH\n./a",
            "export A=~/x\n./a",
            "export BASH_ENV=x\n./a",
            "OMP_NUM_THREADS=1\n./a",
            "LC_ALL=C\n./a",
            "HF_HOME=/x\n./a $HF_HOME",
            "http_proxy=x\n./a",
            "p=/a:~/b\n./a $p",
            "export A=1\nA=2\n./a",
            "X=$Y\n./a $X",
            "./a\n./b",
            "echo start\n./a",
            "source env.sh\n./a",
            "source ~/.bashrc\n./a",
            "source /opt/miniconda3/bin/activate\n./a",
            "conda activate e\n./a",
            "source env/bin/activate\nmodule load b\n./a",
            "for i in 1 2; do ./a; done",
            "export A=1\nmodule load b\n./a",
            "set -u\n./a $X",
            "cd $X\n./a",
            "cd -\n./a",
            "./a 'b\nc'",
            "",
        ] {
            assert_eq!(simple(body), None, "{body}");
        }
    }

    proptest! {
        #[test]
        fn no_text_panics(body in "\\PC*|(srun|module load|export|cd|-n|=|a|\n| |'){0,9}") {
            let _ = read(&body, &known(&OF_PBS));
        }
    }
}
