//! `[run]`: what runs, where and with which environment.

use std::path::PathBuf;

use serde_json::{Value, json};

use super::output::OutputPattern;
use super::spec::{Command, CpuBinding, EnvVar, Inherit, Launcher, NodeCheck};
use crate::foundation::diagnostic::Problem;
use crate::foundation::toml_keys::keys;
use crate::foundation::toml_keys::{
    Kind, Table, boolean, count, list, object, path, text, values, word,
};
use crate::foundation::toml_reader::{Fields, Located};

keys! {
    /// `[run]`: what runs, where and with which environment.
    #[derive(Debug, Clone, PartialEq, Eq, Default)]
    pub struct Run {
        /// Program and arguments. No shell reads them: no quoting, no `$VARIABLE`, no `~`.
        command: Located<Command> = or_default(command()),
        /// Arguments of a script, from the command line; those of a command are part of it.
        arguments: Vec<String>,
        /// Where the command runs and its output lies. Default: the directory of the job file.
        workdir: Option<Located<PathBuf>> = located(path()),
        /// Where the output goes, relative to the working directory: `logs/%x-%j.out`. Default: `NAME-JOBID.out`.
        output: Option<Located<OutputPattern>> = located(output()),
        /// Variables of the run, byte for byte.
        env: Vec<EnvVar> = or_default(env()),
        /// File of `NAME=value` lines for secrets, mode 0600; read on the node, copied nowhere.
        env_file: Option<Located<PathBuf>> = located(path()),
        /// Environment modules, loaded in this order before the variables are set; also `purge`, `use DIR`, `unload NAME`.
        modules: Vec<String> = or_default(modules()),
        /// How the command gets onto the nodes: once, on every node, or as the ranks of a distributed training.
        launcher: Option<Located<Launcher>> = located(launcher()),
        /// The last rank evaluates, beside the training (`launcher = "tensorflow"`). The job ends when it has ended too.
        evaluator: bool = or_default(boolean().or(false)),
        /// So many ranks, the last ones but for the evaluator, are parameter servers (`launcher = "tensorflow"`). dlrun ends them,
        /// and the workers, when the chief has ended.
        parameter_servers: u32 = or_default(count(1000)),
        /// Whether each rank that dlrun starts is bound to its own CPUs.
        bind: CpuBinding = or_default(bind()),
        /// Whether each node is looked at before the command starts. Default: the setting `node.check`.
        node_check: Option<NodeCheck> = optional(word(&NodeCheck::WORDS)),
        /// Allows `launcher = "none"` on more than one node.
        idle_nodes: bool = or_default(boolean().or(false)),
        /// Which variables of the submitting shell reach the job. Default: as the scheduler has it.
        inherit: Option<Inherit> = optional(inherit()),
    }
}

/// The keys of `[run]`: `run.script` takes the place of `run.command`.
pub(super) fn run_keys() -> Vec<(&'static str, Value)> {
    let about = "A script, relative to the working directory. Run directly if it is executable, else by what its first line \
        names, else by /bin/bash.";
    let script = text().with("minLength", 1).with("description", about);
    let mut keys = Run::keys();
    keys.insert(1, ("script", script.schema));
    keys
}

/// `[run]`.
pub(super) fn run() -> Kind<Run> {
    let kind = Kind::new(object(run_keys()), |fields, key| {
        fields.table(key, Run::read)
    });
    kind.with(
        "oneOf",
        json!([{ "required": ["command"] }, { "required": ["script"] }]),
    )
}

fn command() -> Kind<Located<Command>> {
    let schema = json!({
        "type": "array", "items": { "type": "string" }, "minItems": 1,
        "prefixItems": [{ "type": "string", "minLength": 1 }],
        "examples": [["python3", "train.py"]],
    });
    Kind::new(schema, |fields, _| read_command(fields))
}

fn read_command(fields: &mut Fields<'_>) -> Option<Located<Command>> {
    const ARGV: &str = "write command = [\"python\", \"train.py\"]";
    let (argv, script) = (fields.texts("command"), fields.text("script"));
    let (command_at, script_at) = (fields.span("command"), fields.span("script"));
    let problem = match (argv, script) {
        (Some(_), Some(_)) => {
            let message = "`run.command` and `run.script` exclude each other";
            let hint = format!(
                "keep one of them (`command` begins at byte {})",
                command_at.start
            );
            Problem::at(script_at, message).hinted(hint)
        }
        (Some(argv), None) if argv.first().is_none_or(String::is_empty) => {
            Problem::at(command_at, "`run.command` names no program").hinted(ARGV)
        }
        (Some(argv), None) => {
            return Some(Located {
                value: Command::Argv(argv),
                span: command_at,
            });
        }
        (None, Some(script)) if script.is_empty() => {
            Problem::at(script_at, "`run.script` must not be empty")
        }
        (None, Some(script)) => {
            return Some(Located {
                value: Command::Script(script),
                span: script_at,
            });
        }
        (None, None) if fields.holds("command") || fields.holds("script") => return None,
        (None, None) => Problem::of_file("`[run]` needs `command` or `script`")
            .hinted(format!("{ARGV} under [run]")),
    };
    fields.problem(problem);
    None
}

fn output() -> Kind<OutputPattern> {
    let Kind { schema, .. } = path();
    Kind::new(schema, |fields, key| {
        fields.parsed(key, OutputPattern::parse)
    })
}

fn bind() -> Kind<CpuBinding> {
    word(&CpuBinding::WORDS).with("default", "auto")
}

fn launcher() -> Kind<Launcher> {
    word(&Launcher::WORDS).with("default", "auto")
}

const VARIABLE: &str = "^[A-Za-z_][A-Za-z0-9_]*$";
/// Names that dlrun or bash keeps for itself; the reader knows all of them.
const RESERVED: &str = "^(DLRUN_|dlrun_|BASH|(ENV|IFS|PWD|UID|SECONDS)$)";

/// `"all"`, `"none"`, or a list of names.
fn inherit() -> Kind<Inherit> {
    let name = json!({ "type": "string", "pattern": VARIABLE, "not": { "pattern": RESERVED } });
    let names = json!({ "type": "array", "items": name });
    let schema = json!({ "anyOf": [{ "enum": ["all", "none"] }, names] });
    Kind::new(schema, |fields, key| {
        if fields.type_of(key) != "array" {
            return fields
                .word(key, &[("all", true), ("none", false)])
                .map(|all| if all { Inherit::All } else { Inherit::None });
        }
        let names = fields.list(key, |name| {
            if is_variable_name(name) && !is_reserved(name) {
                Ok(name.to_owned())
            } else {
                Err(format!(
                    "{name:?} is not a variable that can be handed over"
                ))
            }
        })?;
        Some(Inherit::Names(
            names.into_iter().map(|name| name.value).collect(),
        ))
    })
}

fn is_variable_name(name: &str) -> bool {
    name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
        && name.starts_with(|c: char| !c.is_ascii_digit())
}

/// Variables that decide what a shell does before its first line, and those that bash keeps for itself: it would lose
/// their values or change them on their way to the command (`bash(1)` 5.2, "Shell Variables").
const RESERVED_ENV: &str = "COMP_WORDBREAKS DIRSTACK ENV EPOCHREALTIME EPOCHSECONDS EUID FUNCNAME GROUPS HISTCMD IFS LINENO \
    OLDPWD OPTERR OPTIND PPID PS1 PS2 PS4 PWD RANDOM SECONDS SHELLOPTS SHLVL SRANDOM UID _";

fn is_reserved(name: &str) -> bool {
    let prefixes = ["DLRUN_", "dlrun_", "BASH"];
    RESERVED_ENV.split(' ').any(|reserved| reserved == name)
        || prefixes.iter().any(|prefix| name.starts_with(prefix))
}

/// A table of variables.
pub(crate) fn env() -> Kind<Vec<EnvVar>> {
    let schema = json!({
        "type": "object", "additionalProperties": { "type": "string" },
        "propertyNames": { "pattern": VARIABLE, "not": { "pattern": RESERVED } },
    });
    Kind::new(schema, |fields, key| {
        let mut env = Vec::new();
        let whole = format!("{}{key}", fields.prefix());
        for (Located { value: name, span }, value) in fields.text_table(key) {
            if !is_variable_name(&name) {
                let message =
                    format!("`{whole}`: {name:?} is not a variable name (letters, digits, `_`)");
                fields.problem(Problem::at(span, message));
            } else if is_reserved(&name) {
                let message = format!("`{whole}`: `{name}` is reserved and cannot be set");
                let hint = "bash or dlrun keeps it for itself; choose another name, or set it in a script that `run.script` names";
                fields.problem(Problem::at(span, message).hinted(hint));
            } else {
                env.push(EnvVar { name, value });
            }
        }
        Some(env)
    })
}

/// A list of environment modules.
pub(crate) fn modules() -> Kind<Vec<String>> {
    let name = "[A-Za-z0-9._+/:@=~][A-Za-z0-9._+/:@=~-]*";
    let further =
        format!("use (-a |--append )?{name}|(unload|rm) {name}|(swap|switch) {name} {name}");
    let item = json!({ "type": "string", "pattern": format!("^({name}|{further})$") });
    values(list(&item, |text| {
        let words: Vec<&str> = text.split(' ').collect();
        let is_known = match words[..] {
            [name] => is_module_name(name),
            ["use" | "unload" | "rm", name] | ["use", "-a" | "--append", name] => {
                is_module_name(name)
            }
            ["swap" | "switch", from, to] => is_module_name(from) && is_module_name(to),
            _ => false,
        };
        let error = || format!("{text:?} is not a module name");
        is_known.then(|| text.to_owned()).ok_or_else(error)
    }))
}

fn is_module_name(text: &str) -> bool {
    let allowed = |c: char| c.is_ascii_alphanumeric() || "._+-/:@=~".contains(c);
    !text.is_empty() && !text.starts_with('-') && text.chars().all(allowed)
}

/// How options that are handed through look.
pub(super) const OPTION_LINE: &str = "^-[^\\x00-\\x1f\\x7f]+$";

/// A list of options that are handed through: each begins with `-` and stays on its line.
pub(crate) fn option_lines() -> Kind<Vec<Located<String>>> {
    let item = json!({ "type": "string", "pattern": OPTION_LINE });
    list(&item, |line| match line {
        line if line.chars().any(char::is_control) => {
            Err("must not contain line breaks or control characters".to_owned())
        }
        line if line.starts_with('-') && line.len() > 1 => Ok(line.to_owned()),
        line => Err(format!(
            "{line:?} is not an option such as `--comment=paper`"
        )),
    })
}
