//! The tables out of the text of a file.
//!
//! An unknown key in them is an error, unlike an unknown setting: a rule whose condition is passed over would change jobs
//! that it was not meant for.

use std::path::Path;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::images;
use super::recipes;
use super::words::{house_rules, name_problem, path_problem, steps, wanted, words};
use super::{Condition, GpuTable, House, Owner, QueueTable, Rule, StorageTable, Subject, Tables};
use crate::config::fragment::Origin;
use crate::foundation::diagnostic::Problem;
use crate::foundation::units::Walltime;
use crate::job::{
    Fields, Located, StorageClass, option_lines, option_text, read_env, read_modules, word,
};

/// Their names.
pub(in crate::config) const TABLES: [&str; 9] = [
    "site", "rules", "storage", "gpus", "house", "queues", "aliases", "mirrors", "recipes",
];

/// Says whether a key at the top of a file is one of the tables.
pub(in crate::config) fn is_table(name: &str) -> bool {
    TABLES.contains(&name)
}

/// Reads the table `name` of a file.
pub(in crate::config) fn read(
    tables: &mut Tables,
    name: &str,
    value: &Spanned<DeValue<'_>>,
    (path, text): (&Path, &str),
    problems: &mut Vec<Problem>,
) {
    let mut reader = Reader {
        path,
        text,
        problems,
    };
    match (name, value.get_ref()) {
        ("rules", DeValue::Array(rules)) => reader.rules(&mut tables.rules, rules),
        ("site", DeValue::Table(table)) => reader.site(tables, table),
        ("aliases", DeValue::Table(table)) => {
            tables.aliases = images::aliases(table, text, path, reader.problems);
        }
        ("mirrors", DeValue::Table(table)) => {
            tables.mirrors = images::mirrors(table, text, path, reader.problems);
        }
        ("house", DeValue::Table(table)) => tables.house = reader.house(table),
        ("recipes", DeValue::Table(table)) => {
            let mut found = Vec::new();
            tables.recipes = recipes::read(table, |start| reader.origin(start), &mut found);
            reader.problems.append(&mut found);
        }
        ("storage", DeValue::Table(table)) => {
            reader.each("storage", table, |reader, name, table| {
                tables.storage.extend(reader.storage(name, table));
            });
        }
        ("gpus", DeValue::Table(table)) => {
            reader.each("gpus", table, |reader, kind, table| {
                tables.gpus.push(reader.gpu(kind, table))
            });
        }
        ("queues", DeValue::Table(table)) => {
            reader.each("queues", table, |reader, name, table| {
                tables.queues.push(reader.queue(name, table))
            });
        }
        ("rules", _) => reader.problem(value, "`rules` are written [[rules]], one below the other"),
        _ => reader.problem(
            value,
            &format!("`{name}` must be a table, written [{name}]"),
        ),
    }
}

/// One file while its tables are read.
struct Reader<'a> {
    path: &'a Path,
    text: &'a str,
    problems: &'a mut Vec<Problem>,
}

type Name<'a> = Located<&'a str>;

impl Reader<'_> {
    fn origin(&self, start: usize) -> Origin {
        let line = self.text[..start].matches('\n').count() + 1;
        Origin::File {
            path: self.path.to_owned(),
            line,
        }
    }

    fn problem(&mut self, value: &Spanned<DeValue<'_>>, message: &str) {
        self.problems.push(Problem::at(value.span(), message));
    }

    /// The tables in a table, in the order of the file.
    fn each<'t>(
        &mut self,
        of: &str,
        table: &'t DeTable<'t>,
        mut read: impl FnMut(&mut Self, Name<'t>, &'t DeTable<'t>),
    ) {
        let mut entries: Vec<_> = table.iter().collect();
        entries.sort_by_key(|(name, _)| name.span().start);
        for (name, value) in entries {
            let text: &str = name.get_ref();
            if let Some(problem) = name_problem(text) {
                self.problems
                    .push(Problem::at(name.span(), format!("`{of}`: {problem}")));
            } else if let Some(inner) = value.get_ref().as_table() {
                read(
                    self,
                    Located {
                        value: text,
                        span: name.span(),
                    },
                    inner,
                );
            } else {
                self.problem(
                    value,
                    &format!("`{of}.{text}` must be a table, written [{of}.{text}]"),
                );
            }
        }
    }

    fn site(&mut self, tables: &mut Tables, table: &DeTable<'_>) {
        let mut fields = Fields::new("site.", table, &[], self.problems);
        let name = fields.parsed("name", |text| {
            name_problem(text).map_or_else(|| Ok(text.to_owned()), Err)
        });
        let arch = fields.parsed("arch", images::read_arch);
        let microarch = fields.parsed("microarch", word);
        fields.finish();
        let with_origin = |said: Option<Located<String>>| {
            said.map(|said| (said.value, self.origin(said.span.start)))
        };
        tables.site = with_origin(name);
        tables.arch = with_origin(arch);
        tables.microarch = with_origin(microarch);
    }

    fn rules(&mut self, rules: &mut Vec<Rule>, list: &[Spanned<DeValue<'_>>]) {
        for (at, value) in list.iter().enumerate() {
            let Some(table) = value.get_ref().as_table() else {
                self.problem(value, "`rules` are written [[rules]], one below the other");
                continue;
            };
            let prefix = format!("rules[{at}].");
            let mut fields = Fields::new(prefix.clone(), table, &[], self.problems);
            let name = fields.parsed("name", |text| match name_problem(text) {
                _ if rules.iter().any(|rule: &Rule| rule.name == text) => {
                    Err(format!("there is another rule {text:?} in this file"))
                }
                Some(problem) => Err(problem),
                None => Ok(text.to_owned()),
            });
            if name.is_none() && !fields.holds("name") {
                fields.problem(Problem::at(value.span(), "a rule needs a `name`"));
            }
            // What is no table is reported here.
            let _ = (fields.table("when"), fields.table("set"));
            fields.finish();
            let inner = |key| {
                table
                    .get(key)
                    .and_then(|value: &Spanned<DeValue<'_>>| value.get_ref().as_table())
            };
            let (when, set) = (inner("when"), inner("set"));
            let when = when
                .map(|table| self.conditions(&prefix, table))
                .unwrap_or_default();
            let origin = self.origin(value.span().start);
            if let Some(name) = name {
                let rule = Rule {
                    name: name.value,
                    origin,
                    when,
                    ..Rule::default()
                };
                rules.push(match set {
                    Some(set) => self.effects(&prefix, set, rule),
                    None => rule,
                });
            }
        }
    }

    fn conditions(&mut self, prefix: &str, table: &DeTable<'_>) -> Vec<Condition> {
        let mut fields = Fields::new(format!("{prefix}when."), table, &[], self.problems);
        let mut conditions = Vec::new();
        for (key, subject) in Subject::KEYS {
            let words = match fields.is_list(key) {
                true => fields.texts(key).map(|words| words.value),
                false => fields.text(key).map(|word| vec![word]),
            };
            let Some(words) = words else { continue };
            if words.is_empty() {
                let message = format!("`{}{key}` is empty, and never holds", fields.prefix());
                fields.problem(Problem::at(
                    table.get(key).map_or(0..0, Spanned::span),
                    message,
                ));
            }
            let mut any_of = Vec::new();
            for word in words {
                match wanted(subject, &word.value) {
                    Ok(wanted) => any_of.push(wanted),
                    Err(why) => {
                        let message = format!("`{}{key}`: {why}", fields.prefix());
                        fields.problem(Problem::at(word.span, message));
                    }
                }
            }
            conditions.push(Condition { subject, any_of });
        }
        fields.finish();
        conditions
    }

    fn effects(&mut self, prefix: &str, table: &DeTable<'_>, rule: Rule) -> Rule {
        let mut fields = Fields::new(format!("{prefix}set."), table, &[], self.problems);
        let values =
            |lines: Vec<Located<String>>| lines.into_iter().map(|line| line.value).collect();
        let rule = Rule {
            env: read_env(&mut fields),
            modules: read_modules(&mut fields),
            directives: values(option_lines(&mut fields, "directives")),
            arguments: values(option_lines(&mut fields, "arguments")),
            prologue: steps(&mut fields, "prologue"),
            epilogue: steps(&mut fields, "epilogue"),
            ..rule
        };
        fields.finish();
        rule
    }

    fn storage(&mut self, name: Name<'_>, table: &DeTable<'_>) -> Option<StorageTable> {
        let origin = self.origin(name.span.start);
        let mut fields = Fields::new(
            format!("storage.{}.", name.value),
            table,
            &[],
            self.problems,
        );
        let path = fields.parsed("path", |text| {
            path_problem(text).map_or_else(|| Ok(text.to_owned()), Err)
        });
        let class = fields.word("class", &StorageClass::WORDS, &[]);
        let queues = words(&mut fields, "queues").unwrap_or_default();
        for key in ["path", "class"] {
            if !fields.holds(key) {
                let message = format!("`storage.{}` needs `{key}`", name.value);
                fields.problem(Problem::at(name.span.clone(), message));
            }
        }
        fields.finish();
        let (path, class) = (path?.value, class?.value);
        Some(StorageTable {
            name: name.value.to_owned(),
            origin,
            path,
            class,
            queues,
        })
    }

    fn gpu(&mut self, kind: Name<'_>, table: &DeTable<'_>) -> GpuTable {
        let origin = self.origin(kind.span.start);
        let mut fields = Fields::new(format!("gpus.{}.", kind.value), table, &[], self.problems);
        let gpu = GpuTable {
            kind: kind.value.to_owned(),
            origin,
            queue: option_text(&mut fields, "queue"),
            constraint: option_text(&mut fields, "constraint"),
            cores_per_gpu: fields
                .count("cores_per_gpu", MAX_CORES)
                .map(|count| count.value),
            typed: fields.boolean("typed").unwrap_or(true),
            accelerator: fields
                .word("accelerator", &images::MAKERS, &[])
                .map(|maker| maker.value.to_owned()),
            driver: fields
                .parsed("driver", images::read_driver)
                .map(|driver| driver.value),
            compute_capability: fields
                .parsed("compute_capability", images::read_driver)
                .map(|capability| capability.value),
        };
        fields.finish();
        gpu
    }

    fn house(&mut self, table: &DeTable<'_>) -> House {
        let start = |key| {
            table
                .get(key)
                .map_or(0, |value: &Spanned<DeValue<'_>>| value.span().start)
        };
        let origins =
            ["cores_per_gpu", "forbid", "require", "prologue"].map(|key| self.origin(start(key)));
        let [of_cores, of_forbid, of_require, of_prologue] = origins;
        let mut fields = Fields::new("house.", table, &[], self.problems);
        let house = House {
            cores_per_gpu: fields
                .count("cores_per_gpu", MAX_CORES)
                .map(|count| (count.value, of_cores.clone())),
            forbid: house_rules(&mut fields, "forbid", &of_forbid),
            require: house_rules(&mut fields, "require", &of_require),
            prologue: steps(&mut fields, "prologue")
                .into_iter()
                .map(|step| (step, of_prologue.clone()))
                .collect(),
        };
        fields.finish();
        house
    }

    fn queue(&mut self, name: Name<'_>, table: &DeTable<'_>) -> QueueTable {
        let origin = self.origin(name.span.start);
        let mut fields = Fields::new(format!("queues.{}.", name.value), table, &[], self.problems);
        let queue = QueueTable {
            name: name.value.to_owned(),
            origin,
            is_default: fields.boolean("default"),
            max_walltime: fields
                .parsed("max_walltime", Walltime::parse)
                .map(|time| time.value),
            default_walltime: fields
                .parsed("default_walltime", Walltime::parse)
                .map(|time| time.value),
            min_nodes: fields
                .count("min_nodes", MAX_NODES)
                .map(|count| count.value),
            max_nodes: fields
                .count("max_nodes", MAX_NODES)
                .map(|count| count.value),
            accounts: words(&mut fields, "accounts"),
            arch: fields
                .parsed("arch", images::read_arch)
                .map(|arch| arch.value),
            microarch: fields
                .parsed("microarch", word)
                .map(|microarch| microarch.value),
        };
        fields.finish();
        queue
    }
}

const MAX_CORES: u32 = 4096;
const MAX_NODES: u32 = 1_000_000;

impl Default for Rule {
    fn default() -> Self {
        Self {
            name: String::new(),
            origin: Origin::Default,
            owner: Owner::Site,
            when: Vec::new(),
            env: Vec::new(),
            modules: Vec::new(),
            prologue: Vec::new(),
            epilogue: Vec::new(),
            directives: Vec::new(),
            arguments: Vec::new(),
        }
    }
}
