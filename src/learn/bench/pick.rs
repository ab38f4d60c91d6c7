//! `[[bench.exclude]]` and `[bench.compare]`: what names axes and their values again.

use std::ops::Range;

use toml::de::{DeTable, DeValue};
use toml::{Spanned, Value};

use super::axis::Axis;
use super::document::shown;
use crate::foundation::diagnostic::{Problem, nearest};

/// Combinations that are not run: those in which each axis has one of the values.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Exclude(Vec<(usize, Vec<usize>)>);

impl Exclude {
    pub(super) fn holds(&self, at: &[usize]) -> bool {
        self.0
            .iter()
            .all(|(axis, values)| values.contains(&at[*axis]))
    }
}

/// An axis whose values are held against one of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Compare {
    /// Which axis.
    pub axis: usize,
    /// Which of its values is the baseline.
    pub baseline: usize,
}

/// The tables under a key: one, or a list of them, each with its values.
fn tables<'a>(
    key: &str,
    value: &'a Spanned<DeValue<'a>>,
    plain: &'a Value,
    problems: &mut Vec<Problem>,
) -> Vec<(Range<usize>, &'a DeTable<'a>, &'a toml::Table)> {
    let one = |value: &'a Spanned<DeValue<'a>>, plain: &'a Value| match (value.get_ref(), plain) {
        (DeValue::Table(table), Value::Table(plain)) => Some((value.span(), table, plain)),
        _ => None,
    };
    let found: Option<Vec<_>> = match (value.get_ref(), plain) {
        (DeValue::Array(items), Value::Array(plain)) => items
            .iter()
            .zip(plain)
            .map(|(item, plain)| one(item, plain))
            .collect(),
        _ => one(value, plain).map(|one| vec![one]),
    };
    found.unwrap_or_else(|| {
        problems.push(Problem::at(
            value.span(),
            format!("`bench.{key}` must be a table, or a list of tables"),
        ));
        Vec::new()
    })
}

/// Reads `[[bench.exclude]]`.
pub(super) fn excludes(
    value: &Spanned<DeValue<'_>>,
    plain: &Value,
    axes: &[Axis],
    problems: &mut Vec<Problem>,
) -> Vec<Exclude> {
    let mut excludes = Vec::new();
    for (span, table, plain) in tables("exclude", value, plain, problems) {
        let mut picked = Vec::new();
        pick("", table, plain, axes, &mut picked, problems);
        if picked.is_empty() && table.is_empty() {
            let problem = Problem::at(
                span,
                "`bench.exclude` names no axis: it would exclude everything",
            );
            problems.push(problem.hinted("write the axes and values that must not meet"));
        }
        excludes.push(Exclude(picked));
    }
    excludes
}

fn pick(
    prefix: &str,
    table: &DeTable<'_>,
    plain: &toml::Table,
    axes: &[Axis],
    picked: &mut Vec<(usize, Vec<usize>)>,
    problems: &mut Vec<Problem>,
) {
    for (key, value) in table {
        let part: &str = key.get_ref();
        let name = format!("{prefix}{part}");
        let Some(plain) = plain.get(part) else {
            continue;
        };
        match (value.get_ref(), plain) {
            (DeValue::Table(inner), Value::Table(plain)) => {
                pick(&format!("{name}."), inner, plain, axes, picked, problems);
            }
            _ => {
                let wanted = match plain {
                    Value::Array(items) => items.iter().map(shown).collect(),
                    one => vec![shown(one)],
                };
                let Some(axis) = named(&name, axes, key.span(), "bench.exclude", problems) else {
                    continue;
                };
                let places = wanted.iter().map(|label| {
                    valued(label, &axes[axis], value.span(), "bench.exclude", problems)
                });
                picked.push((
                    axis,
                    places.collect::<Vec<_>>().into_iter().flatten().collect(),
                ));
            }
        }
    }
}

/// The axis of a name, whole or its last part.
fn named(
    name: &str,
    axes: &[Axis],
    span: Range<usize>,
    key: &str,
    problems: &mut Vec<Problem>,
) -> Option<usize> {
    let found = axes
        .iter()
        .position(|axis| axis.name == name || axis.short == name);
    if found.is_none() {
        let names = axes
            .iter()
            .flat_map(|axis| [axis.name.as_str(), axis.short.as_str()]);
        let known = axes
            .iter()
            .map(|axis| axis.name.as_str())
            .collect::<Vec<_>>()
            .join(", ");
        let hint = nearest(name, names).map_or(format!("the axes are: {known}"), |guess| {
            format!("did you mean `{guess}`?")
        });
        problems
            .push(Problem::at(span, format!("`{key}`: there is no axis `{name}`")).hinted(hint));
    }
    found
}

fn valued(
    label: &str,
    axis: &Axis,
    span: Range<usize>,
    key: &str,
    problems: &mut Vec<Problem>,
) -> Option<usize> {
    let found = axis.place_of(label);
    if found.is_none() {
        let known = axis
            .values
            .iter()
            .map(|value| value.label.as_str())
            .collect::<Vec<_>>()
            .join(", ");
        let message = format!("`{key}`: the axis `{}` has no value `{label}`", axis.name);
        problems.push(Problem::at(span, message).hinted(format!("its values are: {known}")));
    }
    found
}

/// Reads `[bench.compare]`; without it each axis is held against its first value.
pub(super) fn compares(
    asked: Option<(&Spanned<DeValue<'_>>, &Value)>,
    axes: &[Axis],
    problems: &mut Vec<Problem>,
) -> Vec<Compare> {
    let Some((value, plain)) = asked else {
        let with_others = (0..).zip(axes).filter(|(_, axis)| axis.values.len() > 1);
        return with_others
            .map(|(axis, _)| Compare { axis, baseline: 0 })
            .collect();
    };
    let mut compares = Vec::new();
    for (span, table, plain) in tables("compare", value, plain, problems) {
        if let Some(other) = table
            .keys()
            .find(|key| !["axis", "baseline"].contains(&&**key.get_ref()))
        {
            let message = format!("unknown key `bench.compare.{}`", other.get_ref());
            problems.push(Problem::at(other.span(), message).hinted("known here: axis, baseline"));
        }
        let at = |key: &str| table.get(key).map_or_else(|| span.clone(), Spanned::span);
        let Some(Value::String(name)) = plain.get("axis") else {
            let problem = Problem::at(
                at("axis"),
                "`bench.compare` needs `axis`, the name of an axis in quotes",
            );
            problems.push(problem.hinted("write axis = \"framework.compiler\""));
            continue;
        };
        let Some(axis) = named(name, axes, at("axis"), "bench.compare", problems) else {
            continue;
        };
        let baseline = match plain.get("baseline") {
            Some(value) => valued(
                &shown(value),
                &axes[axis],
                at("baseline"),
                "bench.compare",
                problems,
            ),
            None => Some(0),
        };
        compares.extend(baseline.map(|baseline| Compare { axis, baseline }));
    }
    compares
}
