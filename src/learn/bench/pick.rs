//! `[[bench.exclude]]` and `[bench.compare]`: what names axes and their values again.

use std::ops::Range;

use toml::de::{DeTable, DeValue};
use toml::{Spanned, Value};

use super::axis::{Axis, axis_named, plain};
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

/// An axis whose values are compared with one of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Compare {
    /// Which axis.
    pub axis: usize,
    /// Which of its values is the baseline.
    pub baseline: usize,
}

/// The tables under a key: one, or a list of them.
fn tables<'a>(
    key: &str,
    value: &'a Spanned<DeValue<'a>>,
    problems: &mut Vec<Problem>,
) -> Vec<(Range<usize>, &'a DeTable<'a>)> {
    let one = |value: &'a Spanned<DeValue<'a>>| Some((value.span(), value.get_ref().as_table()?));
    let found: Option<Vec<_>> = match value.get_ref() {
        DeValue::Array(items) => items.iter().map(one).collect(),
        _ => one(value).map(|one| vec![one]),
    };
    found.unwrap_or_else(|| {
        let message = format!("`bench.{key}` must be a table, or a list of tables");
        problems.push(Problem::at(value.span(), message));
        Vec::new()
    })
}

/// Reads `[[bench.exclude]]`.
pub(super) fn excludes(
    value: &Spanned<DeValue<'_>>,
    axes: &[Axis],
    problems: &mut Vec<Problem>,
) -> Vec<Exclude> {
    let mut excludes = Vec::new();
    for (span, table) in tables("exclude", value, problems) {
        let mut picked = Vec::new();
        pick("", table, axes, &mut picked, problems);
        if table.is_empty() {
            let message = "`bench.exclude` names no axis: it would exclude everything";
            let hint = "write the axes and values that must not meet";
            problems.push(Problem::at(span, message).hinted(hint));
        }
        excludes.push(Exclude(picked));
    }
    excludes
}

fn pick(
    prefix: &str,
    table: &DeTable<'_>,
    axes: &[Axis],
    picked: &mut Vec<(usize, Vec<usize>)>,
    problems: &mut Vec<Problem>,
) {
    for (key, value) in table {
        let name = format!("{prefix}{}", key.get_ref());
        if let DeValue::Table(inner) = value.get_ref() {
            pick(&format!("{name}."), inner, axes, picked, problems);
            continue;
        }
        let wanted = match plain(value) {
            Some(Value::Array(items)) => items,
            one => one.into_iter().collect(),
        };
        let axis = axis_named(axes, &name, "bench.exclude");
        let Some(axis) = noted(axis, key.span(), problems) else {
            continue;
        };
        let mut places = Vec::new();
        for value_of in &wanted {
            let place = axes[axis].value_named(&shown(value_of), "bench.exclude");
            places.extend(noted(place, value.span(), problems));
        }
        picked.push((axis, places));
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

/// Reads `[bench.compare]`; without it the values of each axis are compared with its first one.
pub(super) fn compares(
    asked: Option<&Spanned<DeValue<'_>>>,
    axes: &[Axis],
    problems: &mut Vec<Problem>,
) -> Vec<Compare> {
    let Some(value) = asked else {
        let with_others = (0..).zip(axes).filter(|(_, axis)| axis.values.len() > 1);
        return with_others
            .map(|(axis, _)| Compare { axis, baseline: 0 })
            .collect();
    };
    let mut compares = Vec::new();
    for (span, table) in tables("compare", value, problems) {
        let mut keys = table.keys();
        if let Some(other) = keys.find(|key| !["axis", "baseline"].contains(&&**key.get_ref())) {
            let message = format!("unknown key `bench.compare.{}`", other.get_ref());
            problems.push(Problem::at(other.span(), message).hinted("known here: axis, baseline"));
        }
        let at = |key: &str| table.get(key).map_or_else(|| span.clone(), Spanned::span);
        let Some(name) = table.get("axis").and_then(|name| name.get_ref().as_str()) else {
            let message = "`bench.compare` needs `axis`, the name of an axis in quotes";
            let problem = Problem::at(at("axis"), message);
            problems.push(problem.hinted("write axis = \"framework.compiler\""));
            continue;
        };
        let axis = axis_named(axes, name, "bench.compare");
        let Some(axis) = noted(axis, at("axis"), problems) else {
            continue;
        };
        let baseline = match table.get("baseline").and_then(plain) {
            Some(value) => {
                let place = axes[axis].value_named(&shown(&value), "bench.compare");
                noted(place, at("baseline"), problems)
            }
            None => Some(0),
        };
        compares.extend(baseline.map(|baseline| Compare { axis, baseline }));
    }
    compares
}
