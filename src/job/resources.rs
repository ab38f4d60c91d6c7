//! `[resources]` of the job file.

use std::collections::BTreeMap;
use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::array::ArraySpec;
use super::begin::Begin;
use super::depend::Dependency;
use super::fields::{Fields, LaterKeys};
use super::mail::{Mail, MailEvent, address_problem};
use super::spec::{Asked, Located, NodeCount, Resources};
use crate::foundation::diagnostic::Problem;
use crate::foundation::units::{Bytes, Walltime};

const NONE_LATER: LaterKeys = &[];

/// More nodes than any machine of this decade has; a larger number is a typing error.
const MAX_NODES: u32 = 100_000;
pub(super) const MAX_TASKS: u32 = 10_000_000;

/// The parallel efficiency that more nodes must keep where the job file does not say: half of what they cost is used.
const EFFICIENCY: f64 = 0.5;

pub(super) fn read_resources(table: &DeTable<'_>, problems: &mut Vec<Problem>) -> Resources {
    let mut fields = Fields::new("resources.", table, NONE_LATER, problems);
    let resources = Resources {
        nodes: read_nodes(&mut fields),
        tasks: fields.count("tasks", MAX_TASKS).map(|count| count.value),
        tasks_per_node: fields
            .count("tasks_per_node", 4096)
            .map(|count| count.value),
        cpus_per_task: fields
            .count("cpus_per_task", 65_536)
            .map(|count| count.value),
        gpus_per_node: read_gpus(&mut fields, "gpus_per_node"),
        gpus_per_task: read_gpus(&mut fields, "gpus_per_task"),
        memory: fields
            .parsed("memory", auto_or(at_least_a_mebibyte))
            .map(|asked| asked.value),
        memory_per_cpu: read_memory_per_cpu(&mut fields),
        walltime: fields
            .parsed("walltime", auto_or(Walltime::parse))
            .map(|asked| asked.value),
        queue: option_text(&mut fields, "queue"),
        account: option_text(&mut fields, "account"),
        qos: option_text(&mut fields, "qos"),
        reservation: option_text(&mut fields, "reservation"),
        constraint: option_text(&mut fields, "constraint"),
        nodelist: option_text(&mut fields, "nodelist"),
        exclude: option_text(&mut fields, "exclude"),
        exclusive: fields.boolean("exclusive"),
        array: fields.parsed("array", ArraySpec::parse),
        depends: read_depends(&mut fields),
        begin: fields
            .parsed("begin", Begin::parse)
            .map(|begin| begin.value),
        mail: None,
        licenses: read_licenses(&mut fields),
        spans: spans(table),
    };
    let has_mail = fields.table("mail").is_some();
    fields.finish();
    let mail = table
        .get("mail")
        .filter(|_| has_mail)
        .and_then(|mail| read_mail(mail, problems));
    Resources { mail, ..resources }
}

/// Where each value stands.
fn spans(table: &DeTable<'_>) -> BTreeMap<&'static str, Range<usize>> {
    let spans = table.iter().filter_map(|(key, value)| {
        let name: &str = key.get_ref();
        let known = RESOURCE_KEYS.iter().find(|known| **known == name)?;
        Some((*known, value.span()))
    });
    spans.collect()
}

/// The keys of `[resources]`.
pub const RESOURCE_KEYS: [&str; 22] = [
    "nodes",
    "tasks",
    "tasks_per_node",
    "cpus_per_task",
    "gpus_per_node",
    "gpus_per_task",
    "memory",
    "memory_per_cpu",
    "walltime",
    "queue",
    "account",
    "qos",
    "reservation",
    "constraint",
    "nodelist",
    "exclude",
    "exclusive",
    "array",
    "depends",
    "begin",
    "mail",
    "licenses",
];

/// `2`, or `{ min = 1, max = 4, efficiency = 0.5 }`.
fn read_nodes(fields: &mut Fields<'_>) -> Option<Located<NodeCount>> {
    if !fields.is_table("nodes") {
        let nodes = fields.count("nodes", MAX_NODES)?;
        return Some(Located {
            value: NodeCount::Exactly(nodes.value),
            span: nodes.span,
        });
    }
    let (mut range, span) = fields.nested("nodes")?;
    let min = range.count("min", MAX_NODES);
    let max = range.count("max", MAX_NODES);
    let efficiency = range
        .decimal("efficiency", 0.0..=1.0)
        .map_or(EFFICIENCY, |share| share.value);
    if max.is_none() && !range.holds("max") {
        let problem = Problem::at(
            span.clone(),
            "`resources.nodes` does not say the most nodes",
        );
        range.problem(problem.hinted("write nodes = { min = 1, max = 4 }"));
    }
    let min = min.map_or(1, |min| min.value);
    if let Some(max) = max.as_ref().filter(|max| max.value < min) {
        let message = format!(
            "`resources.nodes.max` is {}, fewer than `min`, {min}",
            max.value
        );
        range.problem(
            Problem::at(max.span.clone(), message).hinted("the least number of nodes is `min`"),
        );
    }
    range.finish();
    let max = max?.value;
    Some(Located {
        value: NodeCount::Between {
            min,
            max,
            efficiency,
        },
        span,
    })
}

fn auto_or<T, E>(read: impl Fn(&str) -> Result<T, E>) -> impl Fn(&str) -> Result<Asked<T>, E> {
    move |text| {
        if text == "auto" {
            Ok(Asked::Auto)
        } else {
            read(text).map(Asked::Value)
        }
    }
}

fn at_least_a_mebibyte(text: &str) -> Result<Bytes, String> {
    let bytes = Bytes::parse(text).map_err(|error| error.to_string())?;
    if bytes.0 < 1 << 20 {
        Err(format!("`{text}` is less than 1MiB"))
    } else {
        Ok(bytes)
    }
}

/// `2` as number or text, or `v100:2`.
fn read_gpus(fields: &mut Fields<'_>, key: &'static str) -> Option<String> {
    if fields.is_number(key) {
        return fields.count(key, 1024).map(|count| count.value.to_string());
    }
    let gpus = fields.parsed(key, |text| {
        let (kind, count) = text.rsplit_once(':').unwrap_or(("any", text));
        let good_kind = !kind.is_empty()
            && kind
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || "._-".contains(c));
        match count.parse::<u16>() {
            Ok(1..=1024) if good_kind => Ok(text.to_owned()),
            _ => Err(format!(
                "`{text}` is not a number of GPUs; write 2 or \"v100:2\""
            )),
        }
    });
    gpus.map(|gpus| gpus.value)
}

/// Text that stands in a directive: no blanks, quotes, comments or control characters, which would end or split it.
pub(crate) fn option_text(fields: &mut Fields<'_>, key: &'static str) -> Option<String> {
    let text = fields.parsed(key, |text| {
        let allowed = |c: char| c.is_alphanumeric() || "._+-:/@,=&|*[]()!".contains(c);
        match text.chars().find(|c| !allowed(*c)) {
            _ if text.is_empty() => Err("must not be empty".to_owned()),
            _ if text.starts_with('-') => Err("must not begin with `-`".to_owned()),
            Some(bad) => Err(format!("must not contain {bad:?}")),
            None => Ok(text.to_owned()),
        }
    });
    text.map(|text| text.value)
}

/// Both at once would contradict each other (`sbatch(1)`: `--mem` and `--mem-per-cpu` are mutually exclusive).
fn read_memory_per_cpu(fields: &mut Fields<'_>) -> Option<Bytes> {
    let memory = fields.parsed("memory_per_cpu", at_least_a_mebibyte)?;
    if fields.holds("memory") {
        let message = "`resources.memory` and `resources.memory_per_cpu` exclude each other";
        fields.problem(Problem::at(memory.span, message).hinted("keep one of them"));
        return None;
    }
    Some(memory.value)
}

fn read_depends(fields: &mut Fields<'_>) -> Vec<Located<Dependency>> {
    let Some(conditions) = fields.texts("depends") else {
        return Vec::new();
    };
    let mut depends = Vec::new();
    for text in conditions.value {
        match Dependency::parse(&text.value) {
            Ok(value) => depends.push(Located {
                value,
                span: text.span,
            }),
            Err(why) => fields.problem(Problem::at(
                text.span,
                format!("`resources.depends`: {why}"),
            )),
        }
    }
    depends
}

/// Licences, in the order of the file.
fn read_licenses(fields: &mut Fields<'_>) -> Vec<(String, u32)> {
    let Some(table) = fields.table("licenses") else {
        return Vec::new();
    };
    let mut licenses = Vec::new();
    for (name, value) in table.value {
        let allowed = |c: char| c.is_ascii_alphanumeric() || "._-@".contains(c);
        let text: &str = name.get_ref();
        let count = value.get_ref().as_integer();
        let count = count.and_then(|count| u32::from_str_radix(count.as_str(), count.radix()).ok());
        let fault = if text.is_empty() || text.starts_with('-') || !text.chars().all(allowed) {
            format!("`resources.licenses`: {text:?} is not the name of a licence")
        } else if let Some(count @ 1..=1_000_000) = count {
            licenses.push((name.span().start, text.to_owned(), count));
            continue;
        } else {
            format!("`resources.licenses.{text}` must be a whole number from 1 to 1000000")
        };
        fields.problem(Problem::at(value.span(), fault));
    }
    licenses.sort_unstable();
    licenses
        .into_iter()
        .map(|(_, name, count)| (name, count))
        .collect()
}

fn read_mail(mail: &Spanned<DeValue<'_>>, problems: &mut Vec<Problem>) -> Option<Mail> {
    let mut fields = Fields::new(
        "resources.mail.",
        mail.get_ref().as_table()?,
        NONE_LATER,
        problems,
    );
    let to = fields.parsed("to", |text| match address_problem(text) {
        Some(why) => Err(why),
        None => Ok(text.to_owned()),
    });
    let words = fields.texts("on");
    let lacks_words = words.as_ref().is_some_and(|words| words.value.is_empty());
    if lacks_words || (words.is_none() && !fields.holds("on")) {
        let problem = Problem::at(mail.span(), "`resources.mail` does not say on what");
        fields.problem(
            problem.hinted("write mail = { to = \"a@example.org\", on = [\"end\", \"fail\"] }"),
        );
    }
    let mut on = Vec::new();
    for word in words.map(|words| words.value).unwrap_or_default() {
        match MailEvent::WORDS
            .iter()
            .find(|(known, _)| *known == word.value)
        {
            Some((_, event)) => on.push(*event),
            None if word.value == "all" => on.extend(MailEvent::WORDS.map(|(_, event)| event)),
            None => {
                let known = MailEvent::WORDS.map(|(known, _)| known).join(", ");
                let message = format!(
                    "`resources.mail.on` knows {known} and all, not {:?}",
                    word.value
                );
                fields.problem(Problem::at(word.span, message));
            }
        }
    }
    fields.finish();
    on.sort_unstable();
    on.dedup();
    Some(Mail {
        to: to.map(|to| to.value),
        on,
    })
    .filter(|mail| !mail.on.is_empty())
}
