//! `[[bench.exclude]]` and `[bench.compare]`: what names axes and their values again.

use std::ops::Range;

use toml::de::{DeTable, DeValue};
use toml::{Spanned, Value};

use super::axis::{Axis, axis_named};
use super::document::shown;
use crate::foundation::diagnostic::Problem;

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
                let Some(axis) = noted(
                    axis_named(axes, &name, "bench.exclude"),
                    key.span(),
                    problems,
                ) else {
                    continue;
                };
                let places = wanted.iter().map(|label| {
                    noted(
                        axes[axis].value_named(label, "bench.exclude"),
                        value.span(),
                        problems,
                    )
                });
                picked.push((
                    axis,
                    places.collect::<Vec<_>>().into_iter().flatten().collect(),
                ));
            }
        }
    }
}

/// What was found; a problem is noted, at its place.
fn noted(
    found: Result<usize, Problem>,
    span: Range<usize>,
    problems: &mut Vec<Problem>,
) -> Option<usize> {
    let at = |problem| Problem {
        span: Some(span),
        ..problem
    };
    found.map_err(|problem| problems.push(at(problem))).ok()
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
        let Some(axis) = noted(
            axis_named(axes, name, "bench.compare"),
            at("axis"),
            problems,
        ) else {
            continue;
        };
        let baseline = match plain.get("baseline") {
            Some(value) => noted(
                axes[axis].value_named(&shown(value), "bench.compare"),
                at("baseline"),
                problems,
            ),
            None => Some(0),
        };
        compares.extend(baseline.map(|baseline| Compare { axis, baseline }));
    }
    compares
}
