//! The job file: TOML text in, [`JobSpec`] or all its faults out. `docs/job-file.md` is the reference.

use toml::de::DeTable;

use super::document::JobSpec;
use super::spec::{Command, Overrides};
use crate::foundation::diagnostic::{Problem, sort_problems};
use crate::foundation::toml_keys::Table;
use crate::foundation::toml_reader::{Fields, parse_document};

/// A job file larger than this is refused before it is read.
pub const MAX_JOB_FILE_BYTES: u64 = 1 << 20;

/// Reads a job file.
///
/// # Errors
/// Every fault at once, in the order of the file: syntax, unknown keys with the nearest valid one, wrong types,
/// impossible values, keys of a later version.
pub fn parse(text: &str) -> Result<JobSpec, Vec<Problem>> {
    parse_with(text, &Overrides::default())
}

/// Reads a job file with what the command line says in its place. [`Overrides::at`] says which of the faults are the
/// command line's.
///
/// # Errors
/// As [`parse`].
pub fn parse_with(text: &str, overrides: &Overrides) -> Result<JobSpec, Vec<Problem>> {
    let mut document = parse_document(text)?;
    if let Some(problem) = study(&document) {
        return Err(vec![problem]);
    }
    let mut problems = Vec::new();
    let lines = overrides.behind(text.len());
    Overrides::put_into(&mut document, &lines, &mut problems);
    let mut spec = read_document(&document, &mut problems);
    if !problems.is_empty() {
        sort_problems(&mut problems);
        return Err(problems);
    }
    match &mut spec.run.command.value {
        Command::Argv(argv) => argv.extend(overrides.arguments.iter().cloned()),
        Command::Script(_) => spec.run.arguments.clone_from(&overrides.arguments),
    }
    spec.overrides = overrides.clone();
    Ok(spec)
}

/// The tables of files that are no jobs themselves, what those are, and what runs them.
const STUDIES: [(&str, &str, &str); 3] = [
    ("bench", "a matrix", "dlrun bench run"),
    ("sweep", "a sweep", "dlrun sweep run"),
    ("tune", "a tuning", "dlrun tune"),
];

/// The fault of a file that holds many jobs. Its other values may be placeholders, so they are not looked at.
fn study(document: &DeTable<'_>) -> Option<Problem> {
    STUDIES.iter().find_map(|(table, what, verb)| {
        let mut keys = document.iter().map(|(key, _)| key);
        let key = keys.find(|key| key.get_ref() == table)?;
        let message = format!("this is {what}, not a job");
        let hint = format!("`{verb} FILE` runs it, with --dry-run only checks it");
        Some(Problem::at(key.span(), message).hinted(hint))
    })
}

/// Says whether a text is TOML, be it a job file or not.
#[must_use]
pub fn is_toml(text: &str) -> bool {
    DeTable::parse(text).is_ok()
}

/// Reads the keys. What is missing or faulty is a problem, and a default takes its place.
fn read_document(document: &DeTable<'_>, problems: &mut Vec<Problem>) -> JobSpec {
    let mut fields = Fields::of_document(document, problems).advised(advice);
    let mut spec = JobSpec::read(&mut fields);
    if let Some(format) = spec.format.filter(|format| *format != 1) {
        let message =
            format!("`format = {format}` is not known to this version of dlrun, which reads 1");
        fields.fault("format", message);
    }
    if !fields.holds("run") {
        let problem = Problem::of_file("the table `[run]` with `command` or `script` is missing");
        let hint = "add: [run]\n        command = [\"python\", \"train.py\"]";
        fields.problem(problem.hinted(hint));
    }
    let framework = fields.raw("framework");
    let framework = framework.and_then(|table| table.get_ref().as_table());
    spec.has_explore = framework.is_some_and(|table| table.contains_key("explore"));
    let trial = framework.and_then(|table| table.get("trial"));
    spec.tries_ways = trial.is_some_and(|trial| trial.get_ref().as_bool() == Some(true));
    let compiler = &mut spec.framework.compiler;
    spec.leaves_compiler = compiler.take_if(|name| name == "auto").is_some();
    fields.finish();
    spec
}

/// What to write in place of keys of other programs.
fn advice(name: &str, known: &[&'static str]) -> Option<String> {
    let name = name.replace('-', "_");
    let (_, ours) = SYNONYMS
        .iter()
        .find(|(other, ours)| *other == name && known.contains(ours))?;
    Some(format!("did you mean `{ours}`?"))
}

/// What other programs call our keys: Slurm's options, PBS's resources.
const SYNONYMS: [(&str, &str); 23] = [
    ("slurm", "resources"),
    ("pbs", "resources"),
    ("container", "image"),
    ("time", "walltime"),
    ("timelimit", "walltime"),
    ("partition", "queue"),
    ("mem", "memory"),
    ("cpus", "cpus_per_task"),
    ("ncpus", "cpus_per_task"),
    ("gpus", "gpus_per_node"),
    ("gres", "gpus_per_node"),
    ("ntasks", "tasks"),
    ("ppn", "tasks_per_node"),
    ("nodefile", "nodelist"),
    ("environment", "env"),
    ("cmd", "command"),
    ("chdir", "workdir"),
    ("dependency", "depends"),
    ("depend", "depends"),
    ("mem_per_cpu", "memory_per_cpu"),
    ("pmem", "memory_per_cpu"),
    ("licences", "licenses"),
    ("export", "inherit"),
];

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::job::Resources;
    use crate::job::{EnvVar, Inherit, MailEvent, NodeCount};

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
        assert!(fault_of("slurm = { partition = \"gpu\" }").contains("mean `resources`?"));
        assert!(fault_of("container = \"x.sif\"").contains("mean `image`?"));
    }

    #[test]
    fn sweep_is_named_with_its_command_and_nothing_else_is_reported() {
        let text = "[run]\ncommand = [\"a\", \"{{x}}\"]\n[resources]\nnodes = \"{{nodes}}\"\n[sweep]\nmode = \"min\"\n";
        assert_eq!(
            faults(text),
            [
                "this is a sweep, not a job [`dlrun sweep run FILE` runs it, with --dry-run only checks it]"
            ]
        );
        assert!(fault_of("bench = {}").contains("a matrix, not a job [`dlrun bench run FILE`"));
    }

    #[test]
    fn whole_float_is_a_number_of_operations() {
        let flops = |value: &str| {
            let text =
                format!("[run]\ncommand = [\"a\"]\n[workload]\nflops_per_sample = {value}\n");
            parse(&text).map(|spec| spec.workload.flops_per_sample)
        };
        for value in ["4e9", "4_000_000_000", "4000000000.0"] {
            assert_eq!(flops(value), Ok(Some(4_000_000_000)), "{value}");
        }
        for (value, part) in [
            ("4.5", "a whole number"),
            ("0.0", "must be from 1"),
            ("-4e9", "a whole number"),
            ("1e30", "must be from 1"),
            ("inf", "a whole number"),
            ("\"4e9\"", "a whole number"),
        ] {
            let message = &flops(value).expect_err("refused")[0].message;
            assert!(message.contains(part), "{value}: {message}");
        }
    }

    #[test]
    fn what_is_left_to_the_performance_model_is_kept_apart_from_what_is_not_said() {
        let left = |lines: &str| {
            let spec = parse(&format!("[run]\ncommand = [\"a\"]\n{lines}")).expect("valid");
            (
                spec.leaves_compiler,
                spec.framework.compiler,
                spec.has_explore,
            )
        };
        assert_eq!(left(""), (false, None, false));
        assert_eq!(left("[framework]\nname = \"jax\""), (false, None, false));
        assert_eq!(
            left("[framework]\ncompiler = \"xla\""),
            (false, Some("xla".into()), false)
        );
        assert_eq!(
            left("[framework]\ncompiler = \"auto\""),
            (true, None, false)
        );
        assert_eq!(left("[framework]\nexplore = 0.25"), (false, None, true));
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
