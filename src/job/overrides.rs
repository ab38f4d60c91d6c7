//! What the command line says in place of the job file: `--set KEY=VALUE`, `--name`, arguments behind `--`.

use std::ops::Range;

use serde_json::Value;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::schema::schema;
use super::spec::Overrides;
use crate::foundation::diagnostic::Problem;
use crate::foundation::toml_reader::{basic_string, syntax_problem};

impl Overrides {
    /// The keys that are set, each as the user wrote it and as a line of TOML.
    fn lines(&self) -> Vec<(String, String)> {
        let set = self
            .set
            .iter()
            .map(|text| (format!("--set {text}"), line_of(text)));
        let name = self
            .name
            .iter()
            .map(|name| (format!("--name {name}"), line_of(&format!("name={name}"))));
        set.chain(name).collect()
    }

    /// The lines behind a job file of `length` bytes: each has blanks before it, so that its places follow those of the file
    /// and of the lines before, and one place names one source.
    pub(super) fn behind(&self, length: usize) -> Vec<String> {
        let mut at = length;
        let pad = |(_, line): (String, String)| {
            let padded = " ".repeat(at + 1) + &line;
            at = padded.len();
            padded
        };
        self.lines().into_iter().map(pad).collect()
    }

    /// What the user wrote at a place behind a job file of `length` bytes; `None` for places in the file.
    #[must_use]
    pub fn at(&self, span: &Range<usize>, length: usize) -> Option<String> {
        let mut behind = self.behind(length).into_iter().zip(self.lines());
        if span.start <= length {
            return None;
        }
        behind
            .find(|(padded, _)| span.start <= padded.len())
            .map(|(_, (label, _))| label)
    }

    /// Puts the keys into a document that was read. Problems are those of the lines themselves.
    pub(super) fn put_into<'a>(
        document: &mut DeTable<'a>,
        lines: &'a [String],
        problems: &mut Vec<Problem>,
    ) {
        for line in lines {
            match DeTable::parse(line) {
                Ok(read) => {
                    let depth = path_of(line.split_once('=').map_or("", |(key, _)| key)).len();
                    merge(document, read.into_inner(), depth);
                }
                Err(error) => {
                    let start = line.len() - line.trim_start().len();
                    let problem = Problem::at(start..line.len(), syntax_problem(&error).message);
                    problems.push(problem.hinted("write KEY=VALUE, such as resources.walltime=2h"));
                }
            }
        }
    }
}

/// Replaces what is `depth` keys down; what is beside it stays.
fn merge<'a>(into: &mut DeTable<'a>, from: DeTable<'a>, depth: usize) {
    for (key, value) in from {
        let name = key.get_ref().to_string();
        let is_table = into
            .get(name.as_str())
            .is_some_and(|known| known.get_ref().is_table());
        if depth > 1 && is_table {
            let below = into.get_mut(name.as_str()).map(Spanned::get_mut);
            if let (Some(DeValue::Table(known)), DeValue::Table(table)) =
                (below, value.into_inner())
            {
                merge(known, table, depth - 1);
            }
        } else {
            // The key's place is replaced with it.
            into.remove(name.as_str());
            into.insert(key, value);
        }
    }
}

/// `resources.walltime=2h` as TOML. A value that is no TOML is text, and so is one of a key that wants text: `name=7`.
fn line_of(text: &str) -> String {
    let Some((key, value)) = text.split_once('=') else {
        return text.to_owned();
    };
    let value = value.trim();
    let is_toml =
        DeTable::parse(&format!("x = {value}")).is_ok_and(|table| table.get_ref().len() == 1);
    let is_quoted = value.starts_with(['"', '\'']);
    if is_toml && (is_quoted || !wants_text(&path_of(key))) {
        return format!("{key} = {value}");
    }
    format!("{key} = {}", basic_string(value))
}

/// The names of a dotted key; empty where it is none.
fn path_of(key: &str) -> Vec<String> {
    let text = format!("{key} = 0");
    let Ok(table) = DeTable::parse(&text) else {
        return Vec::new();
    };
    let mut names = Vec::new();
    let mut table = Some(table.get_ref());
    while let Some((name, value)) = table.and_then(|table| table.iter().next()) {
        names.push(name.get_ref().to_string());
        table = value.get_ref().as_table();
    }
    names
}

/// Says whether the schema has text alone for a key.
fn wants_text(path: &[String]) -> bool {
    let below = |at: Value, name: &String| {
        at["properties"]
            .get(name)
            .or_else(|| at.get("additionalProperties"))
            .cloned()
    };
    let found = path.iter().try_fold(schema(), below);
    let is_text = |schema: &Value| schema["type"] == "string" || schema["const"].is_string();
    found.is_some_and(|found| {
        is_text(&found)
            || found["anyOf"]
                .as_array()
                .is_some_and(|ways| ways.iter().all(is_text))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::{Command, parse_with};

    const FILE: &str = "[run]\ncommand = [\"python\", \"t.py\"]\nenv = { A = \"1\" }\n[resources]\nwalltime = \"1h\"\nnodes = { min = 2, max = 3 }\n";

    fn overrides(set: &[&str]) -> Overrides {
        Overrides {
            set: set.iter().map(|text| (*text).to_owned()).collect(),
            ..Overrides::default()
        }
    }

    #[test]
    fn keys_of_the_command_line_replace_those_of_the_file() {
        let set = [
            "resources.walltime=2h",
            "resources.nodes=4",
            "resources.nodes=5",
            "run.env.LR=0.1",
            "framework.version=2.1",
            "name=7",
            "resources.array=3",
            "resources.begin=2027-01-31T08:00",
            "image.bind=[\"/a\"]",
        ];
        let spec = parse_with(FILE, &overrides(&set)).expect("valid");
        let asked = &spec.resources;
        assert_eq!(
            asked.walltime,
            Some(crate::job::Asked::Value(
                crate::foundation::units::Walltime(7200)
            ))
        );
        assert_eq!((asked.fewest_nodes(), spec.name.as_deref()), (5, Some("7")));
        let env: Vec<_> = spec
            .run
            .env
            .iter()
            .map(|v| (v.name.as_str(), v.value.as_str()))
            .collect();
        assert_eq!(env, [("A", "1"), ("LR", "0.1")], "what is beside it stays");
        assert_eq!(spec.framework.version.as_deref(), Some("2.1"));
        assert!(asked.array.is_some() && asked.begin.is_some() && spec.image.bind.len() == 1);
    }

    #[test]
    fn a_table_that_is_set_replaces_the_whole_table() {
        let spec = parse_with(FILE, &overrides(&["resources.nodes={max=9}"])).expect("valid");
        assert_eq!(spec.resources.node_bounds(), (1, 9));
        let spec = parse_with(FILE, &overrides(&["resources.nodes.max=9"])).expect("valid");
        assert_eq!(spec.resources.node_bounds(), (2, 9));
    }

    #[test]
    fn faults_of_the_command_line_are_those_of_the_file_with_another_source() {
        let given = overrides(&[
            "resources.walltime=12",
            "resources.node=2",
            "x",
            "run.env=\"a\"\nb=1",
        ]);
        let problems = parse_with(FILE, &given).expect_err("faults");
        let shown: Vec<_> = problems
            .iter()
            .map(|p| {
                (
                    given
                        .at(p.span.as_ref().expect("a place"), FILE.len())
                        .expect("behind"),
                    &*p.message,
                )
            })
            .collect();
        assert_eq!(shown.len(), 4, "{shown:?}");
        assert!(
            shown[0].0 == "--set resources.walltime=12" && shown[0].1.contains("has no unit"),
            "{shown:?}"
        );
        assert!(
            shown[1].0 == "--set resources.node=2" && shown[1].1.contains("unknown key"),
            "{shown:?}"
        );
        assert!(shown[2].0 == "--set x", "{shown:?}");
        assert!(
            shown[3].1.contains("`run.env` must be a table"),
            "{shown:?}"
        );
    }

    #[test]
    fn faults_behind_a_long_job_file_have_their_source() {
        let file = format!("{FILE}# {}\n", "x".repeat(1 << 17));
        let given = Overrides {
            name: Some("a b".to_owned()),
            ..overrides(&["resources.walltime=12"])
        };
        let problems = parse_with(&file, &given).expect_err("faults");
        let source = |p: &Problem| given.at(p.span.as_ref().expect("a place"), file.len());
        let sources: Vec<_> = problems.iter().filter_map(source).collect();
        assert_eq!(sources, ["--set resources.walltime=12", "--name a b"]);
    }

    #[test]
    fn arguments_follow_those_of_the_command() {
        let arguments = vec!["--lr".to_owned(), "0.5".to_owned()];
        let given = Overrides {
            arguments,
            ..Overrides::default()
        };
        let spec = parse_with(FILE, &given).expect("valid");
        assert_eq!(
            spec.run.command.value,
            Command::Argv(["python", "t.py", "--lr", "0.5"].map(str::to_owned).into())
        );
        let spec = parse_with("[run]\nscript = \"a.sh\"\n", &given).expect("valid");
        assert_eq!(spec.run.arguments, ["--lr", "0.5"]);
    }
}
