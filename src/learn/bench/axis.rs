//! `[bench.axes]`: what differs between cells. An axis is a key of the job file, a variable of the matrix's own, or a name
//! under which each value sets several keys.

use std::ops::Range;

use serde::Deserialize;
use toml::de::{DeTable, DeValue, ValueDeserializer};
use toml::{Spanned, Value};

use super::MOST_AXES;
use super::document::shown;
use crate::foundation::diagnostic::{Problem, nearest};
use crate::job::table_names;

/// Values of an axis at most.
const MOST_VALUES: usize = 1_000;
/// Characters of a value's name at most.
const MOST_LABEL: usize = 200;
/// The table of variables that are no keys of the job file.
pub(in crate::learn) const VARS: &str = "vars";

/// One axis.
#[derive(Debug, Clone, PartialEq)]
pub struct Axis {
    /// Its name as written: `framework.compiler`.
    pub name: String,
    /// The last part of the name where no other axis ends so: `compiler`.
    pub short: String,
    /// Its values, in the order of the file.
    pub values: Vec<AxisValue>,
    pub(super) span: Range<usize>,
}

/// One value of an axis.
#[derive(Debug, Clone, PartialEq)]
pub struct AxisValue {
    /// What it is called in tables, and where the matrix names it again.
    pub label: String,
    /// The keys that it sets.
    pub(super) sets: Vec<(Vec<String>, Value)>,
    pub(super) span: Range<usize>,
}

impl Axis {
    /// The place of a value among its values; else what is wrong, and the next step. `key` is who asks.
    pub(super) fn value_named(&self, label: &str, key: &str) -> Result<usize, Problem> {
        let place = self.values.iter().position(|value| value.label == label);
        place.ok_or_else(|| {
            let known: Vec<&str> = self.values.iter().map(|value| &*value.label).collect();
            let message = format!("`{key}`: the axis `{}` has no value `{label}`", self.name);
            Problem::of_file(message).hinted(format!("its values are: {}", known.join(", ")))
        })
    }
}

/// The place of the axis with a name, whole or its last part; else what is wrong, and the next step. `key` is who asks.
pub(super) fn axis_named(axes: &[Axis], name: &str, key: &str) -> Result<usize, Problem> {
    let found = axes
        .iter()
        .position(|axis| axis.name == name || axis.short == name);
    found.ok_or_else(|| {
        let names = axes.iter().flat_map(|axis| [&*axis.name, &*axis.short]);
        let known: Vec<&str> = axes.iter().map(|axis| &*axis.short).collect();
        let hint = nearest(name, names).map_or_else(
            || format!("the axes are: {}", known.join(", ")),
            |guess| format!("did you mean `{guess}`?"),
        );
        Problem::of_file(format!("`{key}`: there is no axis `{name}`")).hinted(hint)
    })
}

/// A value of a file without its place.
pub(in crate::learn) fn plain(value: &Spanned<DeValue<'_>>) -> Option<Value> {
    Value::deserialize(ValueDeserializer::from(value.clone())).ok()
}

/// Reads the axes, in the order of the file.
pub(super) fn read(table: &DeTable<'_>, problems: &mut Vec<Problem>) -> Vec<Axis> {
    let mut axes = Vec::new();
    collect("", table, &mut axes, problems);
    axes.sort_by_key(|axis| axis.span.start);
    if let Some(beyond) = axes.get(MOST_AXES) {
        let message = format!("a matrix has at most {MOST_AXES} axes, not {}", axes.len());
        problems.push(Problem::at(beyond.span.clone(), message).hinted("split the matrix"));
    }
    clashes(&axes, problems);
    let names: Vec<String> = axes.iter().map(|axis| axis.name.clone()).collect();
    for axis in &mut axes {
        let last = last_part(&axis.name);
        let is_alone = names.iter().filter(|name| last_part(name) == last).count() == 1;
        axis.short = if is_alone {
            last.to_owned()
        } else {
            axis.name.clone()
        };
    }
    axes
}

fn last_part(name: &str) -> &str {
    name.rsplit('.').next().unwrap_or(name)
}

/// `framework.name = [...]` is a table in a table.
fn collect(prefix: &str, table: &DeTable<'_>, axes: &mut Vec<Axis>, problems: &mut Vec<Problem>) {
    for (key, value) in table {
        let name = format!("{prefix}{}", key.get_ref());
        match value.get_ref() {
            DeValue::Table(inner) => collect(&format!("{name}."), inner, axes, problems),
            DeValue::Array(items) => axes.extend(axis(name, key.span(), items, problems)),
            _ => {
                let message = format!("`bench.axes.{name}` must be a list of values");
                let hint = format!(
                    "write {name} = [..]; what is the same in all cells belongs in the job file's own tables"
                );
                problems.push(Problem::at(value.span(), message).hinted(hint));
            }
        }
    }
}

fn axis(
    name: String,
    span: Range<usize>,
    items: &[Spanned<DeValue<'_>>],
    problems: &mut Vec<Problem>,
) -> Option<Axis> {
    let count = items.len();
    if !(1..=MOST_VALUES).contains(&count) {
        let message =
            format!("`bench.axes.{name}` must have 1 to {MOST_VALUES} values, not {count}");
        problems.push(Problem::at(span, message));
        return None;
    }
    let mut values: Vec<AxisValue> = Vec::new();
    for item in items {
        let read = value(&name, item).and_then(|value| {
            if !values.iter().any(|known| known.label == value.label) {
                return Ok(value);
            }
            let message = format!("the value `{}` is there twice", value.label);
            Err(Problem::of_file(message).hinted("values that are tables may have a `label`"))
        });
        match read {
            Ok(value) => values.push(value),
            Err(problem) => problems.push(Problem {
                span: Some(item.span()),
                message: format!("`bench.axes.{name}`: {}", problem.message),
                ..problem
            }),
        }
    }
    (values.len() == count).then(|| Axis {
        short: name.clone(),
        name,
        values,
        span,
    })
}

/// A value; else what is wrong with it, and the next step.
fn value(axis: &str, item: &Spanned<DeValue<'_>>) -> Result<AxisValue, Problem> {
    let (mut sets, span) = (Vec::new(), item.span());
    let mut table = match plain(item) {
        Some(Value::Table(table)) => table,
        Some(value) => {
            let label = checked_label(shown(&value))?;
            sets.push((path_of(axis)?, value));
            return Ok(AxisValue { label, sets, span });
        }
        None => return Err(Problem::of_file("it cannot be read")),
    };
    let label = match table.remove("label") {
        Some(Value::String(label)) => Some(label),
        Some(_) => {
            return Err(Problem::of_file("`label` must be text").hinted("write label = \"..\""));
        }
        None => None,
    };
    for (key, value) in table {
        flatten(key, value, &mut sets)?;
    }
    if sets.is_empty() {
        let hint =
            "name keys of the job file, such as { framework.name = \"jax\", vars.venv = \"a\" }";
        return Err(Problem::of_file("it sets no key").hinted(hint));
    }
    let shown: Vec<String> = sets.iter().map(|(_, value)| shown(value)).collect();
    let label = checked_label(label.unwrap_or_else(|| shown.join(" ")))?;
    Ok(AxisValue { label, sets, span })
}

/// The keys in a table, those in its tables with dots.
fn flatten(
    name: String,
    value: Value,
    sets: &mut Vec<(Vec<String>, Value)>,
) -> Result<(), Problem> {
    let Value::Table(inner) = value else {
        sets.push((path_of(&name)?, value));
        return Ok(());
    };
    let mut each = inner.into_iter();
    each.try_for_each(|(key, value)| flatten(format!("{name}.{key}"), value, sets))
}

fn checked_label(label: String) -> Result<String, Problem> {
    let why = match label.chars().count() {
        0 => "a value must not be empty",
        1..=MOST_LABEL if !label.chars().any(char::is_control) => return Ok(label),
        1..=MOST_LABEL => "a value must not contain line breaks or control characters",
        _ => "a value is at most 200 characters long",
    };
    let hint = "write it as a table with a short `label`: { label = \"a\", vars.x = \"..\" }";
    Err(Problem::of_file(why).hinted(hint))
}

/// The parts of a key that an axis may set; else why it may not, and the next step.
pub(in crate::learn) fn path_of(name: &str) -> Result<Vec<String>, Problem> {
    let parts: Vec<String> = name.split('.').map(str::to_owned).collect();
    let is_word = |part: &String| {
        !part.is_empty() && !part.chars().any(|c| c.is_control() || c.is_whitespace())
    };
    let fault = |why: String, hint: &str| Err(Problem::of_file(why).hinted(hint));
    let table = parts[0].as_str();
    let usage = "an axis is a key of the job file (workload.batch_size), a variable (vars.threads), or a name whose values are \
                 all tables ({ framework.name = \"jax\", vars.venv = \"a\" })";
    if !parts.iter().all(is_word) || parts.len() < 2 {
        return fault(format!("`{name}` names no key of a job file"), usage);
    }
    if table == VARS {
        let is_letter = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
        if parts.len() == 2 && parts[1].bytes().all(is_letter) {
            return Ok(parts);
        }
        let why = format!("`{name}` is no variable: one word of letters, digits and `_`");
        return fault(
            why,
            "write vars.threads, and {{threads}} where its value belongs",
        );
    }
    if !table_names().contains(&table) {
        let guess = nearest(table, table_names().into_iter().chain([VARS]));
        let problem = Problem::of_file(format!("a job file has no table `{table}`"));
        return Err(problem.hinted(usage).did_you_mean(guess));
    }
    if name == "resources.array" || table == "scheduler" {
        let hint = "each cell is a separate job; `bench.repeats` says how often it runs, `--scheduler` where";
        return fault(format!("`{name}` cannot differ between cells"), hint);
    }
    Ok(parts)
}

/// Two axes that set one key would fight.
fn clashes(axes: &[Axis], problems: &mut Vec<Problem>) {
    let mut owners: Vec<(&[String], usize)> = Vec::new();
    for (place, axis) in axes.iter().enumerate() {
        for (path, _) in axis.values.iter().flat_map(|value| &value.sets) {
            let clash = owners.iter().find(|(other, owner)| {
                *owner != place && (other.starts_with(path) || path.starts_with(other))
            });
            if let Some((_, owner)) = clash {
                let message = format!(
                    "`{}` is set by the axes `{}` and `{}`",
                    path.join("."),
                    axes[*owner].name,
                    axis.name
                );
                problems
                    .push(Problem::at(axis.span.clone(), message).hinted("set it in one of them"));
                return;
            }
            if !owners.contains(&(path, place)) {
                owners.push((path, place));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn axes(text: &str) -> Result<Vec<Axis>, Vec<String>> {
        let (document, faults) = DeTable::parse_recoverable(text);
        assert!(faults.is_empty(), "{faults:?}");
        let mut problems = Vec::new();
        let axes = read(document.get_ref(), &mut problems);
        if problems.is_empty() {
            Ok(axes)
        } else {
            Err(problems
                .into_iter()
                .map(|problem| problem.message)
                .collect())
        }
    }

    #[test]
    fn an_axis_is_a_key_a_variable_or_a_name() {
        let text = "framework.compiler = [\"none\", \"xla\"]\nworkload.batch_size = [64, 256]\n\"vars.threads\" = [1]\n\
                    software = [{ label = \"tf\", framework.name = \"tensorflow\", vars.python = \"/a\" }, \
                    { framework.name = \"jax\" }]\n";
        let axes = axes(text).expect("valid");
        let names: Vec<(&str, &str)> = axes
            .iter()
            .map(|axis| (axis.name.as_str(), axis.short.as_str()))
            .collect();
        let expected = [
            ("framework.compiler", "compiler"),
            ("workload.batch_size", "batch_size"),
            ("vars.threads", "threads"),
            ("software", "software"),
        ];
        assert_eq!(names, expected);
        assert_eq!(axes[1].values[1].label, "256");
        assert_eq!(
            (
                axes[3].values[0].label.as_str(),
                axes[3].values[1].label.as_str()
            ),
            ("tf", "jax")
        );
        assert_eq!(
            axes[3].values[0].sets[1],
            (
                vec!["vars".to_owned(), "python".to_owned()],
                Value::from("/a")
            )
        );
        assert_eq!(
            (
                axes[0].value_named("xla", "k").ok(),
                axes[0].value_named("ngraph", "k").ok()
            ),
            (Some(1), None)
        );
    }

    #[test]
    fn two_axes_that_end_alike_keep_their_whole_names() {
        let axes = axes("framework.name = [\"a\"]\nvars.name = [\"b\"]\n").expect("valid");
        assert_eq!(
            (axes[0].short.as_str(), axes[1].short.as_str()),
            ("framework.name", "vars.name")
        );
    }

    #[test]
    fn what_is_no_axis_is_refused_with_the_reason() {
        for (text, part) in [
            ("workload.batch_size = 64", "must be a list of values"),
            ("workload.batch_size = []", "1 to 1000 values, not 0"),
            (
                "workload.batch_size = [64, 64]",
                "the value `64` is there twice",
            ),
            ("threads = [1, 2]", "`threads` names no key of a job file"),
            ("wrkload.batch_size = [1]", "no table `wrkload`"),
            ("name = [\"a\"]", "names no key"),
            ("vars.a.b = [1]", "is no variable"),
            ("vars.\"a b\" = [1]", "names no key"),
            ("resources.array = [\"0-9\"]", "cannot differ"),
            ("scheduler.kind = [\"local\"]", "cannot differ"),
            ("a = [{ label = 3, vars.x = 1 }]", "`label` must be text"),
            ("a = [{ label = \"b\" }]", "it sets no key"),
            ("vars.a = [\"\"]", "must not be empty"),
            ("vars.a = [\"x\\ny\"]", "line breaks"),
            (
                "run.env = [{ workload.epochs = 1 }]\nworkload.epochs = [1]",
                "is set by the axes",
            ),
            (
                "run.env.A = [\"1\"]\nb = [{ run.env = \"x\" }]",
                "is set by the axes",
            ),
        ] {
            let problems = axes(text).expect_err(text);
            assert!(
                problems.iter().any(|problem| problem.contains(part)),
                "{text}: {problems:?}"
            );
        }
        let many: String = (0..17)
            .map(|axis| format!("vars.v{axis} = [1]\n"))
            .collect();
        assert!(axes(&many).expect_err("too many")[0].contains("at most 16 axes"));
    }
}
