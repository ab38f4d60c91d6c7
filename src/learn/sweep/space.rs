//! `[sweep.space]`: parameters, each a key of the job file or a variable, with the values that it may have.

use std::collections::BTreeMap;
use std::ops::Range;

use serde::{Deserialize, Serialize};
use toml::de::{DeTable, DeValue};
use toml::{Spanned, Table, Value};

use super::MOST_PARAMETERS;
use crate::foundation::diagnostic::Problem;
use crate::foundation::units::counted;
use crate::learn::bench::{path_of, plain, shown};

/// Values of a choice at most, and of a grid's parameter.
const MOST_VALUES: usize = 1_000;

/// What a parameter may be.
#[derive(Debug, Clone, PartialEq)]
pub enum Kind {
    /// A decimal from `low` to `high`; by its logarithm where `log`.
    Float {
        /// The least.
        low: f64,
        /// The most.
        high: f64,
        /// Whether small and large ones are as likely, by their ratios.
        log: bool,
    },
    /// A whole number from `low` to `high` in steps; by its logarithm where `log`.
    Whole {
        /// The least.
        low: i64,
        /// The most.
        high: i64,
        /// From one to the next.
        step: i64,
        /// As for decimals.
        log: bool,
    },
    /// One of these.
    Choice(Vec<Value>),
}

/// How the value of a parameter follows from that of one before it, which is named first.
#[derive(Debug, Clone, PartialEq)]
pub enum Follows {
    /// It is searched only where the other one has a value, as text; else it has the last.
    When(String, String, Value),
    /// It is not searched: to each value of the other one, as text, it has one.
    With(String, Vec<(String, Value)>),
}

/// One parameter.
#[derive(Debug, Clone, PartialEq)]
pub struct Parameter {
    /// Its name as written: `vars.lr`.
    pub name: String,
    /// The last part of the name: `lr`.
    pub short: String,
    /// What it may be.
    pub kind: Kind,
    /// How many values a grid has of it; `None`: all of them.
    pub points: Option<u32>,
    /// How its value follows from that of another one.
    pub follows: Option<Follows>,
    pub(super) path: Vec<String>,
    pub(super) span: Range<usize>,
}

/// The values of a trial, by the names of the parameters.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Values(pub(super) BTreeMap<String, Value>);

impl Values {
    /// Those at `part`, 0 to below 1, of all that each parameter may be.
    #[must_use]
    pub fn at(space: &[Parameter], part: f64) -> Self {
        let values = space.iter().map(|one| (one.name.clone(), one.at(part)));
        Self(values.collect())
    }

    /// Values of which each parameter's are among some, the others as at its lowest: both ends of ranges, all of choices, and what holds
    /// without a condition. A job file that is valid with each of them is valid with all.
    #[must_use]
    pub fn to_check(space: &[Parameter]) -> Vec<Self> {
        let lowest = Self::at(space, 0.0);
        let mut all = vec![lowest.clone()];
        for parameter in space {
            let mut values = match &parameter.kind {
                Kind::Choice(values) => values.clone(),
                _ => vec![parameter.at(1.0 - f64::EPSILON)],
            };
            match &parameter.follows {
                Some(Follows::When(.., otherwise)) => values.push(otherwise.clone()),
                // Its values are checked with those that they belong to.
                Some(Follows::With(..)) => continue,
                None => {}
            }
            let bound = space.iter().filter(|other| other.is_bound());
            all.extend(values.into_iter().map(|value| {
                let mut one = lowest.clone();
                one.0.insert(parameter.name.clone(), value);
                for other in bound.clone() {
                    let value = other.otherwise(&one).cloned();
                    one.0.extend(value.map(|value| (other.name.clone(), value)));
                }
                one
            }));
        }
        all
    }

    pub(super) fn get(&self, name: &str) -> Option<&Value> {
        self.0.get(name)
    }

    /// A value as text.
    #[must_use]
    pub fn text(&self, name: &str) -> Option<String> {
        self.get(name).map(shown)
    }
}

#[cfg(test)]
impl schemars::JsonSchema for Values {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Values".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": "object", "additionalProperties": { "type": ["string", "number", "boolean"] } })
    }
}

impl Parameter {
    /// Where the file has it.
    #[must_use]
    pub fn span(&self) -> Range<usize> {
        self.span.clone()
    }

    /// The value at `part`, 0 to below 1, of all that it may be.
    #[must_use]
    pub fn at(&self, part: f64) -> Value {
        match &self.kind {
            Kind::Float { low, high, log } => {
                Value::Float(rounded(*low, *high, between(*low, *high, *log, part)))
            }
            Kind::Whole {
                low,
                high,
                step,
                log: false,
            } => {
                let count = (high - low) / step + 1;
                Value::Integer(low + step * nth(part, count))
            }
            Kind::Whole {
                low, high, step, ..
            } => {
                // From half below to half above, so that the ends are as likely as what is between.
                let value = between(number(*low) - 0.5, number(*high) + 0.5, true, part);
                let steps = whole((value - number(*low)) / number(*step));
                Value::Integer((low + step * steps).clamp(*low, *high))
            }
            Kind::Choice(values) => {
                let count = i64::try_from(values.len()).unwrap_or(1);
                let place = usize::try_from(nth(part, count)).unwrap_or(0);
                values[place].clone()
            }
        }
    }

    /// Where a value is, as [`Parameter::at`] has it: in the middle of what leads to it.
    #[must_use]
    pub fn part_of(&self, value: &Value) -> Option<f64> {
        let part = match (&self.kind, value) {
            (Kind::Float { low, high, log }, value) => share(*low, *high, *log, value.as_float()?),
            (
                Kind::Whole {
                    low,
                    high,
                    step,
                    log: false,
                },
                value,
            ) => {
                let place = (value.as_integer()? - low) / step;
                (number(place) + 0.5) / number((high - low) / step + 1)
            }
            (Kind::Whole { low, high, .. }, value) => {
                let value = number(value.as_integer()?);
                share(number(*low) - 0.5, number(*high) + 0.5, true, value)
            }
            (Kind::Choice(values), value) => {
                let place = values.iter().position(|known| known == value)?;
                (place as f64 + 0.5) / values.len() as f64
            }
        };
        Some(part.clamp(0.0, 1.0 - f64::EPSILON))
    }

    /// Whether each of its values belongs to one of another parameter.
    pub(super) fn is_bound(&self) -> bool {
        matches!(self.follows, Some(Follows::With(..)))
    }

    /// The value that it has where it is not searched: its condition does not hold, or it is bound.
    pub(super) fn otherwise(&self, values: &Values) -> Option<&Value> {
        match self.follows.as_ref()? {
            Follows::When(other, wanted, otherwise) => {
                (values.text(other).as_ref() != Some(wanted)).then_some(otherwise)
            }
            Follows::With(other, all) => {
                let theirs = values.text(other)?;
                let own = all.iter().find(|(known, _)| *known == theirs);
                own.map(|(_, value)| value)
            }
        }
    }

    /// Where the value that a trial has is; `None`: it is not one of those that are searched.
    #[must_use]
    pub fn part_of_trial(&self, values: &Values) -> Option<f64> {
        match self.otherwise(values) {
            Some(_) if !self.is_bound() => None,
            _ => self.part_of(values.get(&self.name)?),
        }
    }

    /// Some values with their places, for an axis.
    #[must_use]
    pub fn marks(&self) -> Vec<(f64, String)> {
        match &self.kind {
            Kind::Choice(values) if values.len() <= 8 => {
                let marks = values
                    .iter()
                    .map(|value| (self.part_of(value).unwrap_or(0.0), shown(value)));
                marks.collect()
            }
            _ => [0.0, 0.25, 0.5, 0.75, 1.0 - f64::EPSILON]
                .map(|part| (part, shown(&self.at(part))))
                .to_vec(),
        }
    }

    /// The values of a grid, or how many it would have.
    pub(super) fn grid(&self) -> Result<Vec<Value>, Problem> {
        let all = match (&self.kind, self.points) {
            (Kind::Choice(values), _) => return Ok(values.clone()),
            (
                Kind::Whole {
                    low, high, step, ..
                },
                None,
            ) => u64::try_from((high - low) / step + 1).unwrap_or(u64::MAX),
            (_, Some(points)) => u64::from(points),
            (Kind::Float { .. }, None) => {
                let message = format!(
                    "`sweep.space.{}` is continuous, and a grid needs some values of it",
                    self.name
                );
                return Err(Problem::at(self.span.clone(), message)
                    .hinted("add points = 5, or write a list of values"));
            }
        };
        if all > MOST_VALUES as u64 {
            let message = format!(
                "`sweep.space.{}` has {all} values; a grid has at most {MOST_VALUES}",
                self.name
            );
            return Err(
                Problem::at(self.span.clone(), message).hinted("add points = 5, or a larger step")
            );
        }
        let mut values: Vec<Value> = Vec::new();
        for place in 0..all {
            let part = match (&self.kind, all) {
                // A grid has both ends of what has no steps.
                (Kind::Float { .. }, 2..) => place as f64 / (all - 1) as f64,
                _ => (place as f64 + 0.5) / all as f64,
            };
            let value = self.at(part);
            if !values.contains(&value) {
                values.push(value);
            }
        }
        Ok(values)
    }
}

fn between(low: f64, high: f64, log: bool, part: f64) -> f64 {
    if log {
        (low.ln() + (high.ln() - low.ln()) * part)
            .exp()
            .clamp(low, high)
    } else {
        (low + (high - low) * part).clamp(low, high)
    }
}

fn share(low: f64, high: f64, log: bool, value: f64) -> f64 {
    if low >= high {
        0.5
    } else if log {
        (value.ln() - low.ln()) / (high.ln() - low.ln())
    } else {
        (value - low) / (high - low)
    }
}

/// Six digits are what a person reads, and all that a sample is worth, unless the range is narrower than that.
pub(super) fn rounded(low: f64, high: f64, value: f64) -> f64 {
    let is_narrow = high - low < 1e-3 * low.abs().max(high.abs());
    let short = if is_narrow {
        value
    } else {
        format!("{value:.5e}").parse().unwrap_or(value)
    };
    short.clamp(low, high)
}

fn nth(part: f64, count: i64) -> i64 {
    whole((part * number(count)).floor()).clamp(0, count - 1)
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "bounded by the values of a space"
)]
fn whole(value: f64) -> i64 {
    value.round() as i64
}

#[expect(
    clippy::cast_precision_loss,
    reason = "values of a space are checked to be below 2^53"
)]
fn number(value: i64) -> f64 {
    value as f64
}

/// All combinations of a grid, each once, the last parameter the quickest.
pub(super) fn grid(space: &[Parameter]) -> Result<Vec<Values>, Vec<Problem>> {
    let (mut all, mut problems) = (vec![Values::default()], Vec::new());
    for parameter in space {
        let values = match parameter.grid() {
            Ok(values) => values,
            Err(problem) => {
                problems.push(problem);
                continue;
            }
        };
        let mut longer = Vec::new();
        for before in all {
            let otherwise = parameter.otherwise(&before);
            for value in otherwise.map_or(values.as_slice(), std::slice::from_ref) {
                let mut one = before.clone();
                one.0.insert(parameter.name.clone(), value.clone());
                longer.push(one);
            }
            if longer.len() > super::MOST_TRIALS as usize {
                let message = format!("the grid has more than {} combinations", super::MOST_TRIALS);
                let problem = Problem::at(parameter.span.clone(), message);
                return Err(vec![
                    problem.hinted("take values out, or choose another sampler"),
                ]);
            }
        }
        all = longer;
    }
    if problems.is_empty() {
        Ok(all)
    } else {
        Err(problems)
    }
}

/// Reads the parameters, in the order of the file.
pub(super) fn read(table: &DeTable<'_>, problems: &mut Vec<Problem>) -> Vec<Parameter> {
    let mut parameters = Vec::new();
    collect("", table, &mut parameters, problems);
    parameters.sort_by_key(|parameter| parameter.span.start);
    if let Some(beyond) = parameters.get(MOST_PARAMETERS) {
        let message = format!("a sweep has at most {MOST_PARAMETERS} parameters");
        problems.push(Problem::at(beyond.span.clone(), message));
    }
    conditions(&mut parameters, problems);
    parameters
}

const FORMS: &str = "write [1, 2, 4] for some values, { low = 1e-5, high = 1e-1, log = true } for decimals, or \
                     { low = 1, high = 8 } for whole numbers";

/// A table without a word of ranges and lists, or one that other programs have for it, holds further parameters.
fn collect(
    prefix: &str,
    table: &DeTable<'_>,
    found: &mut Vec<Parameter>,
    problems: &mut Vec<Problem>,
) {
    for (key, value) in table {
        let name = format!("{prefix}{}", key.get_ref());
        let is_range = |inner: &DeTable<'_>| {
            let is_number = |value: &Spanned<DeValue<'_>>| {
                matches!(value.get_ref(), DeValue::Integer(_) | DeValue::Float(_))
            };
            let has = |word| inner.contains_key(word);
            let has_number = |word| inner.get(word).is_some_and(is_number);
            ["low", "high", "values"].into_iter().any(has)
                || ["min", "max"].into_iter().any(has_number)
        };
        match value.get_ref() {
            DeValue::Table(inner) if !is_range(inner) => {
                collect(&format!("{name}."), inner, found, problems)
            }
            _ => match parameter(&name, value) {
                Ok(parameter) => found.push(Parameter {
                    span: key.span(),
                    ..parameter
                }),
                Err(problem) => problems.push(Problem {
                    span: Some(key.span().start..value.span().end),
                    message: format!("`sweep.space.{name}`: {}", problem.message),
                    ..problem
                }),
            },
        }
    }
}

/// A parameter; else what is wrong with it, and the next step.
fn parameter(name: &str, value: &Spanned<DeValue<'_>>) -> Result<Parameter, Problem> {
    let path = path_of(name)?;
    let fault = |why: String| Problem::of_file(why).hinted(FORMS);
    let mut table = match plain(value) {
        Some(Value::Array(values)) => {
            Table::from_iter([("values".to_owned(), Value::Array(values))])
        }
        Some(Value::Table(table)) => table,
        _ => {
            return Err(fault(
                "it is neither a list of values nor a range".to_owned(),
            ));
        }
    };
    let points = match table.remove("points") {
        None => None,
        Some(value) => match value
            .as_integer()
            .and_then(|points| u32::try_from(points).ok())
        {
            Some(points @ 1..=1000) => Some(points),
            _ => return Err(fault("`points` must be from 1 to 1000".to_owned())),
        },
    };
    let (when, otherwise) = (table.remove("when"), table.remove("otherwise"));
    let when = condition(when, otherwise).map_err(|why| {
        Problem::of_file(why).hinted("write when = { optimizer = \"sgd\" }, otherwise = 0.0")
    })?;
    let with = binding(&mut table).map_err(|why| {
        Problem::of_file(why).hinted("write { values = [1, 2, 4], with = \"micro\" }")
    })?;
    let follows = match (when, with) {
        (Some(_), Some(_)) => {
            return Err(fault("`when` and `with` exclude each other".to_owned()));
        }
        (when, with) => when.or(with),
    };
    let kind = kind(&mut table).map_err(fault)?;
    if let Some(key) = table.keys().next() {
        return Err(fault(format!("unknown key `{key}`")));
    }
    Ok(Parameter {
        short: path.last().cloned().unwrap_or_default(),
        name: name.to_owned(),
        kind,
        points,
        follows,
        path,
        span: 0..0,
    })
}

/// `{ values = [1, 2, 4], with = "micro" }`: as yet without the values of the other parameter. A value may occur twice.
fn binding(table: &mut Table) -> Result<Option<Follows>, String> {
    let Some(with) = table.remove("with") else {
        return Ok(None);
    };
    let Value::String(with) = with else {
        return Err("`with` names a parameter".to_owned());
    };
    let Some(Value::Array(values)) = table.get_mut("values") else {
        return Err("`with` needs a list of values".to_owned());
    };
    let own = values.iter().map(|value| (String::new(), value.clone()));
    let own = Follows::With(with, own.collect());
    let mut seen: Vec<Value> = Vec::new();
    values.retain(|value| {
        let is_new = !seen.contains(value);
        seen.push(value.clone());
        is_new
    });
    Ok(Some(own))
}

/// `{ optimizer = "sgd" }`: the other parameter and its value as text.
fn condition(when: Option<Value>, otherwise: Option<Value>) -> Result<Option<Follows>, String> {
    match (when, otherwise) {
        (None, None) => Ok(None),
        (Some(Value::Table(_)), Some(otherwise)) if !is_plain(&otherwise) => {
            Err("`otherwise` must be text, a finite number, true or false".to_owned())
        }
        (Some(Value::Table(when)), Some(otherwise)) if when.len() == 1 => {
            let mut pairs = when.into_iter();
            Ok(pairs
                .next()
                .map(|(name, value)| Follows::When(name, shown(&value), otherwise)))
        }
        (Some(Value::Table(when)), Some(_)) => {
            Err(format!("`when` names one parameter, not {}", when.len()))
        }
        (Some(_), Some(_)) => Err("`when` must be a table".to_owned()),
        (Some(_), None) => {
            Err("`when` needs `otherwise`: the value where the condition does not hold".to_owned())
        }
        (None, Some(_)) => Err("`otherwise` needs `when`".to_owned()),
    }
}

/// What a journal and a job file hold alike.
fn is_plain(value: &Value) -> bool {
    match value {
        Value::Float(number) => number.is_finite(),
        other => other.is_str() || other.is_integer() || other.is_bool(),
    }
}

fn kind(table: &mut Table) -> Result<Kind, String> {
    if let Some(values) = table.remove("values") {
        let Value::Array(values) = values else {
            return Err("`values` must be a list".to_owned());
        };
        return match values.len() {
            1..=MOST_VALUES if !values.iter().all(is_plain) => {
                Err("values must be text, finite numbers, true or false".to_owned())
            }
            count @ 1..=MOST_VALUES => {
                let is_twice = (1..count).any(|at| values[..at].contains(&values[at]));
                match is_twice {
                    true => Err("a value is listed twice".to_owned()),
                    false => Ok(Kind::Choice(values)),
                }
            }
            count => Err(format!(
                "it must have 1 to {MOST_VALUES} values, not {count}"
            )),
        };
    }
    let log = match table.remove("log") {
        None => false,
        Some(Value::Boolean(log)) => log,
        Some(_) => return Err("`log` must be true or false".to_owned()),
    };
    let (Some(low), Some(high)) = (table.remove("low"), table.remove("high")) else {
        return Err("it needs both `low` and `high`".to_owned());
    };
    let step = table.remove("step");
    let kind = match (low, high, step) {
        (Value::Integer(low), Value::Integer(high), step) => {
            let step = match step {
                None => 1,
                Some(step) => step
                    .as_integer()
                    .filter(|step| *step > 0)
                    .ok_or("`step` must be a whole number above 0")?,
            };
            if [low, high].iter().any(|end| end.unsigned_abs() > 1 << 52) {
                return Err("`low` and `high` must be below 2^52".to_owned());
            }
            Kind::Whole {
                low,
                high,
                step,
                log,
            }
        }
        (_, _, Some(_)) => return Err("`step` is for whole numbers".to_owned()),
        (low, high, None) => {
            let decimal = |value: Value| {
                let whole = value.as_integer().map(number);
                value.as_float().or(whole).filter(|value| value.is_finite())
            };
            let (low, high) = decimal(low)
                .zip(decimal(high))
                .ok_or("`low` and `high` must be numbers")?;
            Kind::Float { low, high, log }
        }
    };
    let (low, high) = match kind {
        Kind::Float { low, high, .. } => (low, high),
        Kind::Whole { low, high, .. } => (number(low), number(high)),
        Kind::Choice(_) => return Ok(kind),
    };
    if low >= high {
        return Err(format!("`low` ({low}) must be below `high` ({high})"));
    }
    if log && low <= 0.0 {
        return Err(format!("`low` ({low}) must be above 0 where `log = true`"));
    }
    Ok(kind)
}

/// What follows names parameters that come before and have few values.
fn conditions(parameters: &mut [Parameter], problems: &mut Vec<Problem>) {
    for at in 0..parameters.len() {
        let (before, from) = parameters.split_at_mut(at);
        let Some(parameter) = from.first_mut() else {
            continue;
        };
        let Some(follows) = &mut parameter.follows else {
            continue;
        };
        let (Follows::When(name, ..) | Follows::With(name, _)) = follows;
        let name = name.clone();
        let other = before
            .iter()
            .find(|other| other.name == name || other.short == name);
        let why = match (other.map(|other| &other.kind), &mut *follows) {
            (None, _) => Some(format!("no parameter before it is called `{name}`")),
            (Some(Kind::Choice(values)), Follows::When(_, value, _)) => {
                let has_it = values.iter().any(|known| shown(known) == *value);
                (!has_it).then(|| format!("`{name}` has no value `{value}`"))
            }
            (_, Follows::With(..)) if other.is_some_and(|other| other.follows.is_some()) => {
                Some(format!("`{name}` follows another parameter itself"))
            }
            (Some(Kind::Choice(values)), Follows::With(_, own)) if values.len() == own.len() => {
                for (known, (theirs, _)) in values.iter().zip(own) {
                    *theirs = shown(known);
                }
                None
            }
            (Some(Kind::Choice(values)), Follows::With(_, own)) => Some(format!(
                "it has {} and `{name}` {}: each value of that one needs one here",
                counted(own.len() as u64, "value"),
                values.len()
            )),
            (Some(_), _) => Some(format!(
                "`{name}` is a range, and must be a parameter with a list of values"
            )),
        };
        match (why, other) {
            (Some(why), _) => {
                let message = format!("`sweep.space.{}`: {why}", parameter.name);
                problems.push(Problem::at(parameter.span.clone(), message));
            }
            (None, Some(other)) => {
                let (Follows::When(name, ..) | Follows::With(name, _)) = follows;
                name.clone_from(&other.name);
            }
            (None, None) => {}
        }
    }
}
