//! What a job is a run of, out of its job file and of what its arguments name.

use std::collections::BTreeMap;
use std::path::Path;

use sha2::{Digest, Sha256};

use super::arguments::{About, about, is_checkpoint, is_of_one_run, is_one_of, is_path, writes};
use super::decisions::text;
use super::facts::{Named, SiteFacts};
use super::secrets::{masked, without_password};
use crate::image::fingerprint;
use crate::job::{Argument, Command, EnvVar, JobSpec, Workload, arguments, is_option, number};
use crate::launch::starts_ranks;
use crate::record::{Identity, Input};

/// Programs that start another one, named among their words, beside those that start ranks.
const WRAPPERS: &str = "env nice ionice nohup time timeout stdbuf setsid numactl taskset uv poetry pipenv conda nsys ncu";
/// A module of Python that does so.
const WRAPPER_MODULE: &str = "mpi4py";
/// Programs whose first argument is what they run.
const INTERPRETERS: [&str; 13] = [
    "python", "bash", "sh", "dash", "zsh", "ksh", "perl", "ruby", "julia", "Rscript", "node",
    "lua", "luajit",
];
/// How files of programs end.
const SCRIPT_ENDINGS: [&str; 9] = ["py", "sh", "bash", "R", "r", "jl", "pl", "rb", "lua"];
/// Options of Python with a value.
const PYTHON_VALUES: [&str; 3] = ["-W", "-X", "--check-hash-based-pycs"];

/// More numbers, words and paths are not kept one by one.
const MOST: usize = 200;
/// Longer words are kept as their beginning and a hash.
const LONGEST_WORD: usize = 120;

/// The program of a command and its script.
#[derive(Debug, PartialEq, Eq)]
struct Entry<'a> {
    program: String,
    /// A word of the command that is a file, or a module.
    script: Option<Script<'a>>,
    /// The words of the command that are neither.
    rest: Vec<&'a str>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Script<'a> {
    File(&'a str),
    Module(&'a str),
}

/// The texts among a job's arguments that may name files, for the caller to look at: [`SiteFacts::named`] has what was found.
#[must_use]
pub fn texts_of(spec: &JobSpec) -> Vec<&str> {
    let mut texts: Vec<&str> = Vec::new();
    let words = command_words(spec);
    let may_be = |name: Option<&str>, value: &str| {
        let is_work = name.is_none_or(|name| about(name, Some(value)) == About::Work);
        is_work && !value.is_empty() && number(value).is_none() && !value.contains("://")
    };
    for (place, Argument { name, value }) in arguments(&words).into_iter().enumerate() {
        // A program without a slash comes from `PATH`.
        let is_program = place == 0 && matches!(spec.run.command.value, Command::Argv(_));
        texts.extend(
            value.filter(|value| may_be(name, value) && (!is_program || value.contains('/'))),
        );
    }
    for EnvVar { name, value } in &spec.run.env {
        // A word is seldom a file there, and each look costs time.
        if value.contains('/') && may_be(Some(name), value) {
            texts.push(value);
        }
    }
    texts
}

/// The words of the command: program and arguments, or script and arguments.
fn command_words(spec: &JobSpec) -> Vec<&str> {
    match &spec.run.command.value {
        Command::Argv(argv) => argv.iter().map(String::as_str).collect(),
        Command::Script(script) => std::iter::once(script)
            .chain(&spec.run.arguments)
            .map(String::as_str)
            .collect(),
    }
}

/// What the job is a run of; environment and what was asked are known later.
#[must_use]
pub fn identity_of(spec: &JobSpec, facts: &SiteFacts) -> Identity {
    let words = command_words(spec);
    let argv = match &spec.run.command.value {
        Command::Argv(_) => &words[..],
        Command::Script(_) => &[],
    };
    let mut made = Identity {
        command: masked(&words),
        ..Identity::default()
    };
    let entry = entry(argv, &facts.named);
    match (&spec.run.command.value, entry.script) {
        (Command::Script(name), _) => {
            let path = facts
                .script
                .as_ref()
                .map_or_else(|| name.clone(), |script| text(&script.path));
            made.program = base(&path).to_owned();
            made.script_digest = digest_of(facts.named.get(name));
            made.script = Some(path);
        }
        (_, script) => {
            made.program = entry.program;
            match script {
                Some(Script::File(word)) => {
                    made.script = Some(path_of(word, facts));
                    made.script_digest = digest_of(facts.named.get(word));
                }
                Some(Script::Module(module)) => made.script = Some(format!("-m {module}")),
                None => {}
            }
        }
    }
    let mut taken = Taken {
        facts,
        identity: &mut made,
    };
    // Those of a script come from the command line alone.
    let rest: Vec<&str> = entry
        .rest
        .into_iter()
        .chain(spec.run.arguments.iter().map(String::as_str))
        .collect();
    for (place, argument) in arguments(&rest).into_iter().enumerate() {
        taken.take(
            argument.name.map(canonical).as_deref(),
            argument.value,
            place,
        );
    }
    for EnvVar { name, value } in &spec.run.env {
        taken.take(Some(&format!("${name}")), Some(value), 0);
    }
    for (name, found) in &facts.named {
        if let Named::Variable(value) = found
            && spec
                .run
                .env
                .iter()
                .all(|variable| Some(variable.name.as_str()) != name.strip_prefix('$'))
        {
            taken.take(Some(name), Some(value), 0);
        }
    }
    declare(&mut made, spec);
    made.key = key(&made, spec);
    made
}

/// Takes arguments into an identity.
struct Taken<'a> {
    facts: &'a SiteFacts,
    identity: &'a mut Identity,
}

impl Taken<'_> {
    fn take(&mut self, name: Option<&str>, value: Option<&str>, place: usize) {
        let word = match (name, value) {
            (Some(name), None) => format!("-{name}"),
            (name, Some(value)) => {
                let Some(word) = self.word_for(name, value, place) else {
                    return;
                };
                match name {
                    Some(name) => format!("{name}={word}"),
                    None => word,
                }
            }
            (None, None) => return,
        };
        self.identity.words.push(cut(&word));
    }

    /// The word for a value; `None`: the argument is left out.
    fn word_for(&mut self, name: Option<&str>, value: &str, place: usize) -> Option<String> {
        match name.map_or(About::Work, |name| about(name, Some(value))) {
            About::Repeat | About::Output => return None,
            About::Secret => return Some("***".to_owned()),
            About::Work => {}
        }
        if let Some(number) = number(value).filter(|_| self.identity.numbers.len() < MOST) {
            let mut key = name.map_or_else(|| format!("#{}", place + 1), str::to_owned);
            while self.identity.numbers.contains_key(&key) {
                key.push('+');
            }
            self.identity.numbers.insert(key, number);
            return Some("#".to_owned());
        }
        if is_of_one_run(value) && !value.contains('/') {
            return Some("*".to_owned());
        }
        let found = self.facts.named.get(value);
        let is_there = matches!(found, Some(Named::File { .. } | Named::Directory(..)));
        if name.is_some_and(writes) && (is_there || is_path(value)) {
            return Some("@".to_owned());
        }
        match found {
            Some(Named::File {
                path,
                bytes,
                digest,
                ..
            }) => {
                self.identity.inputs.push(Input {
                    path: text(path),
                    digest: digest.clone(),
                    bytes: Some(*bytes),
                });
            }
            Some(Named::Directory(path, entries)) => {
                self.identity.inputs.push(Input {
                    path: text(path),
                    digest: Some(format!("{entries} entries")),
                    bytes: None,
                });
            }
            // Text for a shell may hold a slash.
            _ if !is_path(value) || value.contains(char::is_whitespace) => {
                return Some(value.to_owned());
            }
            // Something that the run makes.
            _ if name.is_some_and(is_checkpoint) || is_of_one_run(value) => {}
            // It may be there when the job runs, as data that are fetched are, or be seen in the container alone.
            _ => self.identity.inputs.push(Input {
                path: without_password(value),
                ..Input::default()
            }),
        }
        Some("@".to_owned())
    }
}

/// What the job file declares joins the arguments; where it names the network, those names count in place of program and words.
fn declare(made: &mut Identity, spec: &JobSpec) {
    let Workload {
        model,
        parameters,
        dataset,
        samples,
        flops_per_sample: _,
        batch_size,
        epochs,
        precision,
    } = &spec.workload;
    for (name, number) in [
        ("epochs", epochs),
        ("samples", samples),
        ("batch_size", batch_size),
    ] {
        #[expect(
            clippy::cast_precision_loss,
            reason = "counts of a training are far smaller"
        )]
        if let Some(number) = number {
            made.numbers
                .insert(format!("workload.{name}"), *number as f64);
        }
    }
    let mut names: Vec<String> = Vec::new();
    for (what, name) in [
        ("", model),
        ("on ", dataset),
        ("in ", precision),
        ("with ", &spec.framework.name),
    ] {
        names.extend(
            name.as_ref()
                .map(|name| format!("{what}{}", name.to_ascii_lowercase())),
        );
    }
    names.extend(parameters.map(|parameters| format!("{parameters} parameters")));
    if model.is_some() {
        made.declared = Some(names.join(" "));
        made.words.clear();
        if dataset.is_some() {
            made.inputs.clear();
        }
    } else {
        made.words.extend(
            names
                .into_iter()
                .map(|name| cut(&format!("workload={}", name.replace(' ', "_")))),
        );
    }
    // Bounded, whatever somebody writes: what is cut off still counts in a hash.
    if made.words.len() > MOST {
        let rest = fingerprint(made.words.split_off(MOST).join("\0").as_bytes());
        made.words.push(format!("... {}", &rest[..16]));
    }
    if made.inputs.len() > MOST {
        let rest = made.inputs.split_off(MOST);
        let digest = serde_json::to_vec(&rest)
            .map(|json| fingerprint(&json))
            .ok();
        made.inputs.push(Input {
            path: "...".to_owned(),
            digest,
            bytes: None,
        });
    }
}

/// A stem that people know and a hash.
fn key(made: &Identity, spec: &JobSpec) -> String {
    let script = made
        .script
        .as_deref()
        .map(|script| base(script.trim_start_matches("-m ")));
    let stem = spec
        .workload
        .model
        .as_deref()
        .or(script)
        .unwrap_or(&made.program);
    let usable = |c: char| {
        if c.is_ascii_alphanumeric() || "._-".contains(c) {
            c
        } else {
            '-'
        }
    };
    let stem: String = stem
        .to_ascii_lowercase()
        .chars()
        .map(usable)
        .take(40)
        .collect();
    let parts = match &made.declared {
        Some(declared) => vec![declared.as_str()],
        None => {
            let script = made.script.as_deref().unwrap_or_default();
            let words = made.words.iter().map(String::as_str);
            [made.program.as_str(), script]
                .into_iter()
                .chain(words)
                .collect()
        }
    };
    let mut hash = Sha256::new();
    for part in parts {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part.as_bytes());
    }
    let digest = hash.finalize();
    let number = digest
        .iter()
        .take(8)
        .fold(0_u64, |number, byte| number << 8 | u64::from(*byte));
    // Digits alone: the model takes what is before the first digit for the name of a family.
    format!("{stem}-{:016}", number % 10_000_000_000_000_000)
}

/// Finds the program behind those that only start it, and the script that it runs: the file or module behind an interpreter, else
/// the first file among the words that can be run.
fn entry<'a>(argv: &[&'a str], named: &BTreeMap<String, Named>) -> Entry<'a> {
    let is_file = |word: &str| matches!(named.get(word), Some(Named::File { .. }));
    let interprets = |program: &str| INTERPRETERS.contains(&program);
    let first = argv.first().copied().unwrap_or_default();
    let (mut program, mut script) = (folded(first), None);
    let mut launches = starts_ranks(&program) || is_one_of(WRAPPERS, &program);
    if !launches && !interprets(&program) && first.contains('/') && is_file(first) {
        script = Some(Script::File(first));
    }
    let (mut taken, mut at) = (vec![0], 1);
    while script.is_none() && at < argv.len() {
        let word = argv[at];
        let is_interpreted = !launches && interprets(&program);
        let is_python = is_interpreted && program == "python";
        let module = argv.get(at + 1).copied().filter(|_| word == "-m");
        match module {
            Some(module) if is_python && (starts_ranks(module) || module == WRAPPER_MODULE) => {
                launches = true;
                at += 1;
            }
            // `accelerate launch -m pkg.train`; with `srun -m block` it is another option.
            Some(module) if is_python || (launches && module.contains('.')) => {
                taken.extend([at, at + 1]);
                "python".clone_into(&mut program);
                script = Some(Script::Module(module));
            }
            _ if is_interpreted && word == "-c" => break,
            _ if is_option(word) => at += usize::from(is_python && PYTHON_VALUES.contains(&word)),
            _ if launches && interprets(&folded(word)) => {
                (program, launches) = (folded(word), false);
                taken.push(at);
            }
            _ if is_interpreted && !is_file(word) => break,
            _ if is_interpreted || is_program(word, named) => {
                if launches {
                    let is_python = word.ends_with(".py");
                    program = if is_python { "python" } else { base(word) }.to_owned();
                }
                taken.push(at);
                script = Some(Script::File(word));
            }
            _ => {}
        }
        at += 1;
    }
    let rest = argv.iter().enumerate();
    let rest = rest.filter(|(at, _)| !taken.contains(at));
    Entry {
        program,
        script,
        rest: rest.map(|(_, word)| *word).collect(),
    }
}

/// Says whether a word is a file that can be run, by itself or by its interpreter.
fn is_program(word: &str, named: &BTreeMap<String, Named>) -> bool {
    let Some(Named::File {
        path, executable, ..
    }) = named.get(word)
    else {
        return false;
    };
    let ending = path.extension().and_then(|ending| ending.to_str());
    *executable || ending.is_some_and(|ending| SCRIPT_ENDINGS.contains(&ending))
}

fn base(path: &str) -> &str {
    Path::new(path)
        .file_name()
        .and_then(|name| name.to_str())
        .unwrap_or(path)
}

/// The base name; every `python3.11` is `python`.
fn folded(program: &str) -> String {
    let name = base(program);
    let version = name
        .strip_prefix("python")
        .or_else(|| name.strip_prefix("pypy"));
    let is_python =
        version.is_some_and(|rest| rest.chars().all(|c| c.is_ascii_digit() || c == '.'));
    if is_python {
        "python".to_owned()
    } else {
        name.to_owned()
    }
}

fn canonical(name: &str) -> String {
    name.replace('-', "_")
}

fn path_of(word: &str, facts: &SiteFacts) -> String {
    match facts.named.get(word) {
        Some(Named::File { path, .. } | Named::Directory(path, _)) => text(path),
        _ => word.to_owned(),
    }
}

fn digest_of(named: Option<&Named>) -> Option<String> {
    match named {
        Some(Named::File { digest, .. }) => digest.clone(),
        _ => None,
    }
}

/// Text for a shell may hold anything, secrets too; of it and of long words a hash is kept.
fn cut(word: &str) -> String {
    let is_short = word.char_indices().nth(LONGEST_WORD).is_none();
    if is_short && !word.contains(char::is_whitespace) {
        return word.to_owned();
    }
    format!("...{}", &fingerprint(word.as_bytes())[..16])
}

#[cfg(test)]
mod tests;
