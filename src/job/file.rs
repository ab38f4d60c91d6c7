//! The job file: TOML text in, [`JobSpec`] or all its faults out. `docs/job-file.md` is the reference.

use std::path::PathBuf;

use toml::de::DeTable;

use super::fields::{Fields, LaterKeys};
use super::id::name_problem;
use super::image::read_image;
use super::output::OutputPattern;
use super::overrides::Overrides;
use super::resources::read_resources;
use super::sections::{
    read_build, read_framework, read_python, read_storage, read_timing, read_workload,
};
use super::spec::{
    Command, EnvVar, Inherit, JobSpec, Launcher, Located, Run, SchedulerKind, SchedulerSection,
};
use crate::foundation::diagnostic::Problem;

/// A job file larger than this is refused before it is read.
pub const MAX_JOB_FILE_BYTES: u64 = 1 << 20;

const LAUNCHERS: &str = "this launcher comes later; `none`, `each` and `mpi` work now";
const LATER_LAUNCHERS: LaterKeys = &[
    ("torchrun", LAUNCHERS),
    ("horovod", LAUNCHERS),
    ("tensorflow", LAUNCHERS),
];

/// Reads a job file.
///
/// # Errors
/// Every fault at once, in the order of the file: syntax, unknown keys with the nearest valid one, wrong types,
/// impossible values, keys of a later version.
pub fn parse(text: &str) -> Result<JobSpec, Vec<Problem>> {
    parse_with(text, &Overrides::default())
}

/// Reads a job file with what the command line says in its place. [`Overrides::at`] tells which of the faults are the
/// command line's.
///
/// # Errors
/// As [`parse`].
pub fn parse_with(text: &str, overrides: &Overrides) -> Result<JobSpec, Vec<Problem>> {
    let (document, syntax) = DeTable::parse_recoverable(text);
    // Behind the first fault of the syntax all is guesswork.
    let first = syntax
        .iter()
        .min_by_key(|error| error.span().map_or(0, |span| span.start));
    if let Some(first) = first {
        return Err(vec![syntax_problem(first)]);
    }
    let (mut document, mut problems) = (document.into_inner(), Vec::new());
    let lines = overrides.behind(text.len());
    Overrides::put_into(&mut document, &lines, &mut problems);
    let spec = read_document(&document, &mut problems);
    match spec {
        Some(mut spec) if problems.is_empty() => {
            match &mut spec.run.command.value {
                Command::Argv(argv) => argv.extend(overrides.arguments.iter().cloned()),
                Command::Script(_) => spec.run.arguments.clone_from(&overrides.arguments),
            }
            spec.overrides = overrides.clone();
            Ok(spec)
        }
        _ => {
            problems
                .sort_by_key(|problem| problem.span.as_ref().map_or(usize::MAX, |span| span.start));
            Err(problems)
        }
    }
}

/// Says whether a text is TOML, be it a job file or not.
#[must_use]
pub fn is_toml(text: &str) -> bool {
    DeTable::parse(text).is_ok()
}

fn syntax_problem(error: &toml::de::Error) -> Problem {
    Problem {
        span: error.span(),
        message: error.message().trim().replace('\n', "; "),
        hint: None,
    }
}

fn read_document(document: &DeTable<'_>, problems: &mut Vec<Problem>) -> Option<JobSpec> {
    let mut nested = Vec::new();
    let mut top = Fields::new("", document, &[], problems);
    if let Some(format) = top
        .number("format", 0..u64::from(u32::MAX))
        .filter(|format| format.value != 1)
    {
        let message = format!(
            "`format = {}` is not known to this version of dlrun, which reads 1",
            format.value
        );
        top.problem(Problem::at(format.span, message));
    }
    let name = top.parsed("name", |name| match name_problem(name) {
        Some(why) => Err(why),
        None => Ok(name.to_owned()),
    });
    let tables = TABLES.map(|key| top.table(key));
    top.finish();
    let [
        run,
        resources,
        scheduler,
        image,
        python,
        framework,
        storage,
        build,
        workload,
        timing,
    ] = tables.map(|table| table.map(|t| t.value));

    if run.is_none() && !document.contains_key("run") {
        nested.push(
            Problem::of_file("the table `[run]` with `command` or `script` is missing")
                .hinted("add: [run]\n        command = [\"python\", \"train.py\"]"),
        );
    }
    let run = run.and_then(|table| read_run(table, &mut nested));
    let resources = resources
        .map(|table| read_resources(table, &mut nested))
        .unwrap_or_default();
    let scheduler = scheduler
        .map(|table| read_scheduler(table, &mut nested))
        .unwrap_or_default();
    let image = image
        .map(|table| read_image(table, &mut nested))
        .unwrap_or_default();
    let (framework, left_to_model) = framework
        .map(|table| read_framework(table, &mut nested))
        .unwrap_or_default();
    let storage = storage.and_then(|table| read_storage(table, &mut nested));
    let build = build.and_then(|table| read_build(table, &mut nested));
    let (requirements, own_python) = python
        .map(|table| read_python(table, &mut nested))
        .unwrap_or_default();
    let workload = workload
        .map(|table| read_workload(table, &mut nested))
        .unwrap_or_default();
    let timing = timing.and_then(|table| read_timing(table, &mut nested));
    problems.append(&mut nested);
    let name = name.map(|name| name.value);
    let run = run?;
    Some(JobSpec {
        name,
        run,
        resources,
        scheduler,
        image,
        framework,
        left_to_model,
        storage,
        build,
        requirements,
        own_python,
        workload,
        timing,
        overrides: Overrides::default(),
    })
}

/// The tables of a job file.
pub(crate) const TABLES: [&str; 10] = [
    "run",
    "resources",
    "scheduler",
    "image",
    "python",
    "framework",
    "storage",
    "build",
    "workload",
    "timing",
];

fn read_run(table: &DeTable<'_>, problems: &mut Vec<Problem>) -> Option<Run> {
    let mut fields = Fields::new("run.", table, &[], problems);
    let command = read_command(&mut fields);
    let workdir = path(&mut fields, "workdir");
    let output = fields.parsed("output", OutputPattern::parse);
    let env = read_env(&mut fields);
    let env_file = path(&mut fields, "env_file");
    let modules = read_modules(&mut fields);
    let words = [
        ("auto", Launcher::Auto),
        ("none", Launcher::None),
        ("each", Launcher::Each),
        ("mpi", Launcher::Mpi),
    ];
    let launcher = fields.word("launcher", &words, LATER_LAUNCHERS);
    let idle_nodes = fields.boolean("idle_nodes").unwrap_or(false);
    let inherit = read_inherit(&mut fields);
    fields.finish();
    let arguments = Vec::new();
    Some(Run {
        command: command?,
        arguments,
        workdir,
        output,
        env,
        env_file,
        modules,
        launcher,
        idle_nodes,
        inherit,
    })
}

fn read_command(fields: &mut Fields<'_>) -> Option<Located<Command>> {
    let argv = fields.texts("command");
    let script = fields.text("script");
    match (argv, script) {
        (Some(argv), Some(script)) => {
            let problem = Problem::at(
                script.span,
                "`run.command` and `run.script` exclude each other",
            );
            fields.problem(problem.hinted(format!(
                "keep one of them (`command` begins at byte {})",
                argv.span.start
            )));
            None
        }
        (Some(argv), None)
            if argv
                .value
                .first()
                .is_none_or(|first| first.value.is_empty()) =>
        {
            let problem = Problem::at(argv.span, "`run.command` names no program");
            fields.problem(problem.hinted("write command = [\"python\", \"train.py\"]"));
            None
        }
        (Some(argv), None) => {
            let words = argv.value.into_iter().map(|word| word.value).collect();
            Some(Located {
                value: Command::Argv(words),
                span: argv.span,
            })
        }
        (None, Some(script)) if script.value.is_empty() => {
            fields.problem(Problem::at(script.span, "`run.script` must not be empty"));
            None
        }
        (None, Some(script)) => Some(Located {
            value: Command::Script(script.value),
            span: script.span,
        }),
        (None, None) => {
            if !fields.holds("command") {
                fields.problem(
                    Problem::of_file("`[run]` needs `command` or `script`")
                        .hinted("write command = [\"python\", \"train.py\"] under [run]"),
                );
            }
            None
        }
    }
}

/// `"all"`, `"none"`, or a list of names.
fn read_inherit(fields: &mut Fields<'_>) -> Option<Inherit> {
    if !fields.is_list("inherit") {
        let words = [("all", true), ("none", false)];
        let all = fields.word("inherit", &words, &[])?.value;
        return Some(if all { Inherit::All } else { Inherit::None });
    }
    let mut names = Vec::new();
    for name in fields.texts("inherit")?.value {
        if is_variable_name(&name.value) && !is_reserved(&name.value) {
            names.push(name.value);
        } else {
            let message = format!(
                "`run.inherit`: {:?} is no variable that can be handed over",
                name.value
            );
            fields.problem(Problem::at(name.span, message));
        }
    }
    Some(Inherit::Names(names))
}

fn is_variable_name(name: &str) -> bool {
    let letters = name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    letters
        && name
            .bytes()
            .next()
            .is_some_and(|first| !first.is_ascii_digit())
}

pub(super) fn path(fields: &mut Fields<'_>, key: &'static str) -> Option<Located<PathBuf>> {
    fields.parsed(key, |text| match text {
        "" => Err("must not be empty"),
        text if text.chars().any(char::is_control) => Err("must not contain control characters"),
        text => Ok(PathBuf::from(text)),
    })
}

/// Variables that decide what a shell does before its first line, and those that bash keeps for itself: it would lose
/// their values or change them on their way to the command (`bash(1)` 5.2, "Shell Variables").
const RESERVED_ENV: [&str; 26] = [
    "COMP_WORDBREAKS",
    "DIRSTACK",
    "ENV",
    "EPOCHREALTIME",
    "EPOCHSECONDS",
    "EUID",
    "FUNCNAME",
    "GROUPS",
    "HISTCMD",
    "IFS",
    "LINENO",
    "OLDPWD",
    "OPTERR",
    "OPTIND",
    "PPID",
    "PS1",
    "PS2",
    "PS4",
    "PWD",
    "RANDOM",
    "SECONDS",
    "SHELLOPTS",
    "SHLVL",
    "SRANDOM",
    "UID",
    "_",
];

fn is_reserved(name: &str) -> bool {
    let begins = |prefix: &str| name.starts_with(prefix);
    RESERVED_ENV.contains(&name) || begins("DLRUN_") || begins("dlrun_") || begins("BASH")
}

/// The table `env`.
pub(crate) fn read_env(fields: &mut Fields<'_>) -> Vec<EnvVar> {
    let entries = fields.text_table("env");
    let key = format!("{}env", fields.prefix());
    let mut env = Vec::new();
    for (name, value) in entries {
        if !is_variable_name(&name.value) {
            let message = format!(
                "`{key}`: {:?} is not a variable name (letters, digits, `_`)",
                name.value
            );
            fields.problem(Problem::at(name.span, message));
        } else if is_reserved(&name.value) {
            let message = format!("`{key}`: `{}` is reserved and cannot be set", name.value);
            let hint = "bash or dlrun keeps it for itself; choose another name, or set it in a script that `run.script` names";
            fields.problem(Problem::at(name.span, message).hinted(hint));
        } else {
            env.push(EnvVar {
                name: name.value,
                value,
            });
        }
    }
    env
}

/// The list `modules`.
pub(crate) fn read_modules(fields: &mut Fields<'_>) -> Vec<String> {
    let Some(modules) = fields.texts("modules") else {
        return Vec::new();
    };
    let mut names = Vec::new();
    for module in modules.value {
        let words: Vec<&str> = module.value.split(' ').collect();
        let is_known = match words[..] {
            [name] => is_module_name(name),
            ["use" | "unload" | "rm", name] | ["use", "-a" | "--append", name] => {
                is_module_name(name)
            }
            ["swap" | "switch", from, to] => is_module_name(from) && is_module_name(to),
            _ => false,
        };
        if !is_known {
            let message = format!(
                "`{}modules`: {:?} is not a module name",
                fields.prefix(),
                module.value
            );
            fields.problem(Problem::at(module.span, message));
        } else {
            names.push(module.value);
        }
    }
    names
}

fn is_module_name(text: &str) -> bool {
    let allowed = |c: char| c.is_ascii_alphanumeric() || "._+-/:@=~".contains(c);
    !text.is_empty() && !text.starts_with('-') && text.chars().all(allowed)
}

fn read_scheduler(table: &DeTable<'_>, problems: &mut Vec<Problem>) -> SchedulerSection {
    let mut fields = Fields::new("scheduler.", table, &[], problems);
    let words =
        SchedulerKind::WORDS.map(|word| (word, SchedulerKind::from_word(word).unwrap_or_default()));
    let kind = fields.word("kind", &words, &[]).map(|kind| kind.value);
    let directives = option_lines(&mut fields, "directives");
    let arguments = option_lines(&mut fields, "arguments");
    fields.finish();
    SchedulerSection {
        kind,
        directives,
        arguments,
    }
}

/// Options handed through: each begins with `-` and stays on its line.
pub(crate) fn option_lines(fields: &mut Fields<'_>, key: &'static str) -> Vec<Located<String>> {
    let Some(lines) = fields.texts(key) else {
        return Vec::new();
    };
    let mut options = Vec::new();
    for line in lines.value {
        if line.value.chars().any(char::is_control) {
            let prefix = fields.prefix();
            let message =
                format!("`{prefix}{key}` must not contain line breaks or control characters");
            fields.problem(Problem::at(line.span, message));
        } else if line.value.starts_with('-') && line.value.len() > 1 {
            options.push(line);
        } else {
            let prefix = fields.prefix();
            let message = format!(
                "`{prefix}{key}`: {:?} is not an option such as `--comment=paper`",
                line.value
            );
            fields.problem(Problem::at(line.span, message));
        }
    }
    options
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::job::{LeftToModel, MailEvent, NodeCount, Resources};

    fn faults(text: &str) -> Vec<String> {
        let problems = parse(text).expect_err("the file is faulty");
        problems
            .iter()
            .map(|p| format!("{} [{}]", p.message, p.hint.clone().unwrap_or_default()))
            .collect()
    }

    /// The only fault of a job file with `line` in it.
    fn fault_of(line: &str) -> String {
        let text = format!("{line}\n[run]\ncommand = [\"true\"]\n");
        let mut faults = faults(&text);
        assert_eq!(faults.len(), 1, "{faults:?}");
        faults.remove(0)
    }

    #[test]
    fn a_minimal_file_is_enough() {
        let spec = parse("[run]\ncommand = [\"python\", \"train.py\"]\n").expect("valid");
        assert_eq!(
            spec.run.command.value,
            Command::Argv(vec!["python".into(), "train.py".into()])
        );
        assert_eq!((spec.name, spec.resources), (None, Resources::default()));
    }

    #[test]
    fn every_fault_is_reported_at_once_in_the_order_of_the_file() {
        let text = "nmae = \"x\"\n[run]\ncommand = [\"a\"]\nworkdri = \".\"\n[resources]\nwalltime = \"12\"\nmemory = \"64\"\nnodes = 0\ncpus_per_task = \"8\"\n";
        let faults = faults(text);
        let expected = [
            "unknown key `nmae` [did you mean `name`?]",
            "unknown key `run.workdri` [did you mean `workdir`?]",
            "`resources.walltime`: `12` has no unit",
            "`resources.memory`: `64` has no unit",
            "`resources.nodes` must be from 1 to 100000, not 0",
            "`resources.cpus_per_task` must be a whole number, not text",
        ];
        assert_eq!(faults.len(), expected.len(), "{faults:#?}");
        for (fault, expected) in faults.iter().zip(expected) {
            assert!(fault.starts_with(expected), "{fault}\nis not\n{expected}");
        }
    }

    #[test]
    fn tables_of_others_are_told_with_what_to_write() {
        assert!(fault_of("slurm = { partition = \"gpu\" }").contains("`queue`"));
        assert!(fault_of("container = \"x.sif\"").contains("write `[image]`"));
    }

    #[test]
    fn words_of_later_versions_are_refused_by_name() {
        let faults = faults("[run]\ncommand = [\"a\"]\nlauncher = \"torchrun\"\n");
        assert!(
            faults[0].contains("`run.launcher = \"torchrun\"` is not in this version"),
            "{faults:?}"
        );
    }

    #[test]
    fn what_is_left_to_the_performance_model_is_kept_apart_from_what_is_not_said() {
        let left = |lines: &str| {
            let spec = parse(&format!("[run]\ncommand = [\"a\"]\n{lines}")).expect("valid");
            (spec.left_to_model, spec.framework.compiler)
        };
        let nothing = LeftToModel::default();
        assert_eq!(left(""), (nothing, None));
        assert_eq!(left("[framework]\nname = \"jax\""), (nothing, None));
        assert_eq!(
            left("[framework]\ncompiler = \"xla\""),
            (nothing, Some("xla".into()))
        );
        let auto = LeftToModel {
            compiler: true,
            explore: 0.0,
        };
        assert_eq!(left("[framework]\ncompiler = \"auto\""), (auto, None));
        for (share, read) in [("0.25", 0.25), ("1", 1.0), ("0", 0.0), ("1e-3", 0.001)] {
            assert_eq!(
                left(&format!("[framework]\nexplore = {share}"))
                    .0
                    .explore
                    .to_bits(),
                f64::to_bits(read)
            );
        }
    }

    #[test]
    fn a_range_of_nodes_is_read_with_its_efficiency() {
        let nodes = |line: &str| {
            let spec = parse(&format!(
                "[run]\ncommand = [\"a\"]\n[resources]\nnodes = {line}\n"
            ));
            spec.expect("valid")
                .resources
                .nodes
                .expect("it is there")
                .value
        };
        assert_eq!(nodes("3"), NodeCount::Exactly(3));
        assert_eq!(
            nodes("{ max = 4 }"),
            NodeCount::Between {
                min: 1,
                max: 4,
                efficiency: 0.5
            }
        );
        let asked = nodes("{ min = 2, max = 8, efficiency = 0.75 }");
        assert_eq!(
            asked,
            NodeCount::Between {
                min: 2,
                max: 8,
                efficiency: 0.75
            }
        );
        for (line, part) in [
            (
                "{ min = 4, max = 2 }",
                "`resources.nodes.max` is 2, fewer than `min`, 4 [the least",
            ),
            (
                "{ min = 1 }",
                "does not say the most nodes [write nodes = {",
            ),
            (
                "{ max = 2, efficency = 0.5 }",
                "unknown key `resources.nodes.efficency` [did you mean `efficiency`?]",
            ),
            (
                "{ max = 2, efficiency = 1.5 }",
                "`resources.nodes.efficiency` must be from 0 to 1, not 1.5",
            ),
            (
                "{ max = 2, efficiency = nan }",
                "`resources.nodes.efficiency` must be from 0 to 1, not nan",
            ),
            (
                "{ max = 2, efficiency = \"x\" }",
                "`resources.nodes.efficiency` must be a number, not text",
            ),
            (
                "{ max = 0 }",
                "`resources.nodes.max` must be from 1 to 100000, not 0",
            ),
            (
                "\"1-4\"",
                "`resources.nodes` must be a whole number, not text",
            ),
        ] {
            let fault = fault_of(&format!("resources.nodes = {line}"));
            assert!(fault.contains(part), "{fault}\ndoes not hold\n{part}");
        }
        let fault = fault_of("framework.explore = -0.5");
        assert!(
            fault.contains("`framework.explore` must be from 0 to 1, not -0.5"),
            "{fault}"
        );
    }

    #[test]
    fn what_other_programs_call_a_key_is_understood() {
        for (line, ours) in [
            ("time = \"1h\"", "walltime"),
            ("partition = \"gpu\"", "queue"),
            ("mem = \"1GiB\"", "memory"),
        ] {
            let fault = fault_of(&format!("resources.{line}"));
            assert!(
                fault.contains(&format!("did you mean `{ours}`?")),
                "{fault}"
            );
        }
    }

    #[test]
    fn hostile_values_are_refused() {
        for line in [
            "name = \"a\\nb\"",
            "name = \"../x\"",
            "resources.queue = \"a b\"",
            "resources.queue = \"-p\"",
            "resources.account = \"a\\n#SBATCH --uid=0\"",
            "scheduler.directives = [\"--comment=a\\n#SBATCH -p x\"]",
            "scheduler.directives = [\"comment\"]",
            "workload.samples = -1",
            "format = 2",
            "python.requirements = \"\"",
        ] {
            fault_of(line);
        }
        let env = |name: &str| {
            faults(&format!(
                "[run]\ncommand=[\"a\"]\nenv = {{ \"{name}\" = \"1\" }}\n"
            ))
            .remove(0)
        };
        assert!(env("A-B").contains("is not a variable name"));
        assert!(env("DLRUN_RUN_ID").contains("is reserved"));
        assert!(env("BASH_ENV").contains("is reserved"));
    }

    #[test]
    fn what_a_queue_must_know_is_read() {
        let lines = r#"
            inherit = ["HOME", "LANG"]
            [resources]
            memory_per_cpu = "2GiB"
            array = "0-9%2"
            depends = ["afterok:k3f9", "afterany:4711.server"]
            begin = 2
        "#;
        let text = format!("[run]\ncommand = [\"a\"]\n{}", lines.replace("begin = 2", "begin = \"2027-01-31T08:00\"\nmail = { to = \"a@example.org\", on = [\"fail\", \"end\", \"end\"] }\nlicenses = { matlab = 1, ansys = 4 }"));
        let spec = parse(&text).expect("valid");
        let resources = spec.resources;
        assert_eq!(
            spec.run.inherit,
            Some(Inherit::Names(vec!["HOME".into(), "LANG".into()]))
        );
        assert_eq!(
            resources
                .array
                .as_ref()
                .map(|array| array.value.to_string())
                .as_deref(),
            Some("0-9%2")
        );
        assert_eq!(resources.depends[1].value.target, "4711.server");
        assert_eq!(
            resources.begin.map(|begin| begin.to_string()).as_deref(),
            Some("2027-01-31T08:00:00")
        );
        assert_eq!(
            resources.mail.expect("mail").on,
            [MailEvent::End, MailEvent::Fail]
        );
        assert_eq!(
            resources.licenses,
            [("matlab".to_owned(), 1), ("ansys".to_owned(), 4)]
        );
        assert_eq!(&text[resources.spans["array"].clone()], "\"0-9%2\"");
    }

    #[test]
    fn what_no_queue_understands_is_refused() {
        for line in [
            "resources.array = \"9-0\"",
            "resources.array = 3",
            "resources.depends = [\"k3f9\"]",
            "resources.depends = [\"afterok:a b\"]",
            "resources.begin = \"tomorrow\"",
            "resources.mail = { to = \"a b\", on = [\"end\"] }",
            "resources.mail = { to = \"a@b.c\" }",
            "resources.mail = { on = [\"sometimes\"] }",
            "resources.licenses = { matlab = 0 }",
            "resources.licenses = { \"a,b\" = 1 }",
            "storage.prefer = \"fast\"",
            "build.command = \"make\"",
            "build = { source = \"a\", checksum = \"12\" }",
            "image.uri = \"tensorflow\"",
            "image = { none = true, path = \"a.sif\" }",
            "framework.name = \"a b\"",
        ] {
            fault_of(line);
        }
        let both = faults(
            "[run]\ncommand = [\"a\"]\n[resources]\nmemory = \"1GiB\"\nmemory_per_cpu = \"1GiB\"\n",
        );
        assert!(both[0].contains("exclude each other"), "{both:?}");
        assert!(
            faults("[run]\ncommand = [\"a\"]\ninherit = [\"A=1\"]\n")[0].contains("run.inherit")
        );
    }

    #[test]
    fn env_values_are_kept_byte_for_byte() {
        let text = "[run]\ncommand=[\"a\"]\nenv = { B = \"it's \\\"q\\\", $(x) `y`\\n#SBATCH\\ttab \\\\ é\", A = \"\" }\n";
        let env = parse(text).expect("valid").run.env;
        assert_eq!(env[0].value, "it's \"q\", $(x) `y`\n#SBATCH\ttab \\ é");
        assert_eq!(
            env[1],
            EnvVar {
                name: "A".into(),
                value: String::new()
            }
        );
    }

    #[test]
    fn syntax_errors_alone_are_reported_for_a_broken_file() {
        let faults = faults("[run\ncommand = [\n");
        assert!(
            !faults.is_empty() && faults.iter().all(|f| !f.contains("[run]` needs")),
            "{faults:?}"
        );
    }

    #[test]
    fn one_of_command_and_script_is_wanted() {
        assert!(faults("[run]\nworkdir = \".\"\n")[0].contains("needs `command` or `script`"));
        assert!(faults("[run]\ncommand = []\n")[0].contains("names no program"));
        assert!(
            faults("[run]\ncommand = [\"a\"]\nscript = \"b\"\n")[0].contains("exclude each other")
        );
        assert!(faults("name = \"x\"\n")[0].contains("`[run]`"));
    }

    proptest! {
        #[test]
        fn any_text_is_read_without_panic_and_spans_lie_inside(text in "[\\[\\]a-z_={}\"'\\\\\n .0-9#é-]{0,200}") {
            if let Err(problems) = parse(&text) {
                for problem in problems {
                    prop_assert!(problem.span.is_none_or(|span| text.get(span.start..span.end).is_some()));
                }
            }
        }
    }
}
