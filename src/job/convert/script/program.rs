//! What the job file starts: the one program of a simple script, or the script itself.

use super::Script;
use crate::foundation::diagnostic::Problem;
use crate::job::Bind;
use crate::job::convert::draft::{Draft, Origin};
use crate::job::convert::shape::Shape;
use crate::job::convert::shell_words::{assignment, is_builtin, split};
use crate::job::convert::write::Value;
use crate::job::convert::{RUNSCRIPT, ScriptPlace};

/// What was decided on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Started {
    /// The job file starts the ranks.
    Ranks,
    /// The program runs once.
    #[default]
    Program,
    /// A shell runs the script, or a launcher its program in its own way.
    Script,
}

/// A script that prepares its environment and starts one program, as keys of the job file.
#[derive(Debug, Default)]
struct Simple {
    modules: Vec<String>,
    env: Vec<(String, Value)>,
    /// The directory that it changes into, seen from that of the submission; empty: that one.
    dir: Option<String>,
    venv: Option<String>,
    image: Vec<(&'static str, Value)>,
    command: Vec<String>,
    started: Started,
}

/// Names the job as the scheduler would, after the script's file.
pub(super) fn set_name(place: Option<&ScriptPlace>, draft: &mut Draft) {
    let Some(place) = place else { return };
    let name = Value::Text(place.name.rsplit('/').next().unwrap_or_default().to_owned());
    if !draft.holds("name") && Draft::takes("name", &name) {
        draft.set("name", name, &Origin::new("the script", 0..0));
    }
}

/// Sets `[run]`. `shape` is what the directives ask for; `arguments` are those of the script.
///
/// # Errors
/// Where the script must be kept and there is no way to name it.
pub(super) fn set(
    text: &str,
    script: &Script<'_>,
    shape: Shape,
    arguments: &[String],
    place: Option<&ScriptPlace>,
    draft: &mut Draft,
) -> Result<Started, Problem> {
    let start = text.len() - script.body.len();
    let origin = Origin::new("the script", start..start);
    let simple = Simple::read(script, shape.tasks, draft);
    let started = match simple.filter(|_| arguments.is_empty()) {
        Some(simple) => simple.set(shape.tasks, &origin, draft),
        None => {
            keep(text, script, arguments, place, &origin, draft)?;
            Started::Script
        }
    };
    if started != Started::Ranks && shape.nodes > 1 {
        draft.set("run.launcher", "none", &origin);
        draft.set("run.idle_nodes", true, &origin);
        let prose = match started {
            Started::Script => "The first node starts what runs on the further ones.",
            _ => "The program runs on the first node, as the script has it.",
        };
        draft.comment("run.launcher", prose);
    }
    for span in &script.late {
        let origin = Origin::new("directive", span.clone());
        draft.note(
            &origin,
            "is behind the first command, where no scheduler reads it; left out",
        );
    }
    Ok(started)
}

impl Simple {
    /// Reads the commands; `None` where they do more than a job file can say, or its reader refuses a value.
    fn read(script: &Script<'_>, tasks: u32, draft: &Draft) -> Option<Self> {
        // A login shell reads profiles, which set what the program finds.
        if !is_bourne(&script.shell) || script.shell.iter().skip(1).any(|flag| flag != "-e") {
            return None;
        }
        let joined = script.body.replace("\r\n", "\n").replace("\\\n", " ");
        let mut simple = Self::default();
        for line in joined.lines().map(str::trim) {
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            if !simple.command.is_empty() {
                return None;
            }
            simple.take(line, script.is_pbs, tasks)?;
        }
        let changes_twice = simple.dir.is_some() && draft.holds("run.workdir");
        let fits = simple
            .keys()
            .iter()
            .all(|(key, value)| Draft::takes(key, value));
        (!simple.command.is_empty() && !changes_twice && fits).then_some(simple)
    }

    /// Takes one line in; `None` where a job file cannot say it.
    fn take(&mut self, line: &str, is_pbs: bool, tasks: u32) -> Option<()> {
        let is_early = self.env.is_empty() && self.venv.is_none();
        if is_cd_to_submission(line) {
            self.dir = Some(String::new());
            return is_early.then_some(());
        }
        // They say that a failure ends the script, and the program comes last.
        if ["set -e", "set -eu", "set -euo pipefail", "set -u"].contains(&line) {
            return Some(());
        }
        let words = split(line)?;
        let all: Vec<&str> = words.iter().map(String::as_str).collect();
        if let Some(modules) = modules(&all) {
            self.modules.extend(modules);
            return is_early.then_some(());
        }
        match all[..] {
            ["cd", dir] if is_early && !dir.starts_with('-') => {
                let is_sure = dir.starts_with('/') || (self.dir.is_none() && !is_pbs);
                self.dir = is_sure.then(|| dir.to_owned());
                is_sure.then_some(())
            }
            ["source" | ".", file] if is_early && self.is_sure(file, is_pbs) => {
                let venv = file.strip_suffix("/bin/activate")?;
                // The base environment of conda has a file of the same name.
                let is_conda = ["conda", "mamba", "forge"]
                    .iter()
                    .any(|name| venv.to_lowercase().contains(name));
                self.venv = (!is_conda && !venv.is_empty()).then(|| venv.to_owned());
                self.venv.is_some().then_some(())
            }
            ["export", ref pairs @ ..] => {
                for pair in pairs {
                    // A tilde behind `=` or `:` is a home directory to the shell.
                    let (name, value) = assignment(pair)
                        .filter(|(_, value)| !value.starts_with('~') && !value.contains(":~"))?;
                    self.env.retain(|(known, _)| known != name);
                    self.env.push((name.to_owned(), value.into()));
                }
                Some(())
            }
            _ => self.start(&words, is_pbs, tasks),
        }
    }

    /// Whether a path means the same in the job file. A PBS job starts in the home directory.
    fn is_sure(&self, path: &str, is_pbs: bool) -> bool {
        let is_submission = match &self.dir {
            Some(dir) => dir.is_empty(),
            None => !is_pbs,
        };
        path.starts_with('/') || is_submission
    }

    /// A program, perhaps behind `srun` and in a container.
    fn start(&mut self, words: &[String], is_pbs: bool, tasks: u32) -> Option<()> {
        let words = words.strip_prefix(&["exec".to_owned()]).unwrap_or(words);
        let first = words.first()?;
        if is_builtin(first) || assignment(first).is_some() {
            return None;
        }
        // Under Slurm `mpirun` stays a program: an MPI library without Slurm's support is N programs of one rank under `srun`.
        let starters: &[&str] = if is_pbs {
            &["mpirun", "mpiexec"]
        } else {
            &["srun"]
        };
        let command = if starters.contains(&first.as_str()) {
            let ranks = ranks(&words[1..], tasks);
            self.started = ranks.map_or(Started::Script, |_| Started::Ranks);
            ranks.unwrap_or(words)
        } else {
            words
        };
        self.command = match container(command) {
            Some((image, inner)) => {
                let has = |wanted: &str| image.iter().find(|(key, _)| *key == wanted);
                let path = has("image.path").map(|(_, path)| path);
                let is_sure = match path {
                    Some(Value::Text(path)) => self.is_sure(path, is_pbs),
                    _ => true,
                };
                // What is activated on the node would not be seen in a container.
                let is_seen = self.env.is_empty() || has("image.cleanenv").is_none();
                if !is_sure || !is_seen || self.venv.is_some() {
                    return None;
                }
                self.image = image;
                inner
            }
            None => command.to_vec(),
        };
        Some(())
    }

    fn keys(&self) -> Vec<(&'static str, Value)> {
        let dir = self.dir.clone().filter(|dir| !dir.is_empty());
        let mut keys = vec![("run.command", Value::Texts(self.command.clone()))];
        keys.extend(dir.map(|dir| ("run.workdir", dir.into())));
        keys.extend(self.venv.clone().map(|venv| ("python.venv", venv.into())));
        if !self.modules.is_empty() {
            keys.push(("run.modules", Value::Texts(self.modules.clone())));
        }
        if !self.env.is_empty() {
            keys.push(("run.env", Value::Table(self.env.clone())));
        }
        keys.extend(self.image.iter().cloned());
        keys
    }

    fn set(self, tasks: u32, origin: &Origin, draft: &mut Draft) -> Started {
        for (key, value) in self.keys() {
            match value {
                Value::Table(pairs) => {
                    for (name, value) in pairs {
                        draft.insert(key, &name, value, origin);
                    }
                }
                value => draft.set(key, value, origin),
            }
        }
        match self.started {
            Started::Ranks if tasks == 1 => Started::Program,
            Started::Ranks => {
                draft.set("run.launcher", "mpi", origin);
                Started::Ranks
            }
            started => started,
        }
    }
}

/// `cd $SLURM_SUBMIT_DIR`, `cd "${PBS_O_WORKDIR}"`.
fn is_cd_to_submission(line: &str) -> bool {
    let bare: String = line.chars().filter(|c| !"\"{}".contains(*c)).collect();
    ["cd $SLURM_SUBMIT_DIR", "cd $PBS_O_WORKDIR"].contains(&bare.as_str())
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
        ["ml", name] if !["list", "avail"].contains(name) => owned(&[name]),
        _ => return None,
    };
    // `-gcc` unloads.
    (!names.is_empty() && names.iter().all(|name| !name.starts_with('-'))).then_some(names)
}

/// The program behind its starter, which starts `tasks`. An option other than their number has a meaning that would be lost.
fn ranks(words: &[String], tasks: u32) -> Option<&[String]> {
    match words {
        [option, count, rest @ ..] if ["-n", "-np", "--ntasks"].contains(&option.as_str()) => {
            let program = rest.first().filter(|word| !word.starts_with('-'));
            (count.parse() == Ok(tasks) && program.is_some()).then_some(rest)
        }
        [program, ..] if !program.starts_with('-') => Some(words),
        _ => None,
    }
}

/// Options of `exec` without a value that are handed through.
const FLAGS: [&str; 8] = [
    "--no-home",
    "--writable-tmpfs",
    "--contain",
    "-c",
    "--containall",
    "-C",
    "--userns",
    "-u",
];

/// Keys of a table with their values.
type Keys = Vec<(&'static str, Value)>;

/// `singularity exec` and `apptainer run` as keys of `[image]`, and the command inside. `None` where the words start no
/// container, or one that a job file cannot say.
fn container(words: &[String]) -> Option<(Keys, Vec<String>)> {
    let [program, verb, rest @ ..] = words else {
        return None;
    };
    let is_runtime = ["singularity", "apptainer"].contains(&program.rsplit('/').next()?);
    if !is_runtime || !["exec", "run"].contains(&verb.as_str()) {
        return None;
    }
    let mut keys = Vec::new();
    let (mut binds, mut options, mut gpu) = (Vec::new(), Vec::new(), "none");
    let mut words = rest.iter();
    let image = loop {
        let word = words.next()?;
        match word.as_str() {
            "--nv" => gpu = "nvidia",
            "--rocm" => gpu = "amd",
            "--bind" | "-B" => binds.extend(words.next()?.split(',').map(str::to_owned)),
            "--cleanenv" | "-e" => keys.push(("image.cleanenv", Value::Flag(true))),
            "--fakeroot" | "-f" => keys.push(("image.fakeroot", Value::Flag(true))),
            flag if FLAGS.contains(&flag) => options.push(word.clone()),
            option if option.starts_with("--") && option.contains('=') => {
                options.push(word.clone())
            }
            option if option.starts_with('-') => return None,
            _ => break word,
        }
    };
    let is_whole = |bind: &String| bind.starts_with('/') && Bind::parse(bind).is_ok();
    if image.starts_with("instance://") || !binds.iter().all(is_whole) {
        return None;
    }
    let key = if image.contains("://") {
        "image.uri"
    } else {
        "image.path"
    };
    keys.push((key, image.as_str().into()));
    keys.push(("image.gpu", gpu.into()));
    let lists = [("image.bind", binds), ("image.options", options)];
    let lists = lists.into_iter().filter(|(_, list)| !list.is_empty());
    keys.extend(lists.map(|(key, list)| (key, Value::Texts(list))));
    let script = (verb == "run").then(|| RUNSCRIPT.to_owned());
    let inner: Vec<String> = script.into_iter().chain(words.cloned()).collect();
    (!inner.is_empty()).then_some((keys, inner))
}

/// Whether the program behind `#!` is a shell as everybody has it.
fn is_bourne(shell: &[String]) -> bool {
    let name = |path: &String| path.rsplit('/').next().unwrap_or(path).to_owned();
    let first = shell.first().map_or("bash".to_owned(), name);
    let shell = if first == "env" {
        shell.get(1).map(name)
    } else {
        Some(first)
    };
    shell.is_some_and(|name| ["bash", "sh"].contains(&name.as_str()))
}

/// The job file runs the script as the scheduler would have.
fn keep(
    text: &str,
    script: &Script<'_>,
    arguments: &[String],
    place: Option<&ScriptPlace>,
    origin: &Origin,
    draft: &mut Draft,
) -> Result<(), Problem> {
    let is_plain = is_bourne(&script.shell) && script.shell.len() <= 1;
    let Some(place) = place else {
        if !is_plain {
            let what =
                "the script must be kept, and standard input has no name that a job file can hold";
            return Err(Problem::of_file(what).hinted("name the script's file instead of `-`"));
        }
        let mut words = vec!["bash".to_owned(), "-c".to_owned(), text.to_owned()];
        words.extend((!arguments.is_empty()).then(|| "script".to_owned()));
        words.extend_from_slice(arguments);
        draft.set("run.command", words, origin);
        draft.note(
            origin,
            "does more than start one program, so bash runs it as it is",
        );
        return Ok(());
    };
    let name = if draft.holds("run.workdir") {
        &place.path
    } else {
        &place.name
    };
    if is_plain && arguments.is_empty() {
        draft.set("run.script", name.clone(), origin);
        draft.comment(
            "run.script",
            "Its directives have no effect here: they are the tables below.",
        );
    } else {
        let mut words = script.shell.clone();
        if words.is_empty() {
            words.push("/bin/bash".to_owned());
        }
        words.push(name.clone());
        words.extend_from_slice(arguments);
        draft.set("run.command", words, origin);
    }
    draft.note(
        origin,
        "does more than start one program, so it is kept; its directives have no effect there",
    );
    if text.contains("\r\n") {
        draft.note(
            origin,
            "its lines end in CR LF, which shells do not take: convert them (`dos2unix`)",
        );
    }
    Ok(())
}
