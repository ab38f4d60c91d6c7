//! The user's own expressions, for programs that no recogniser knows.
//!
//! `[timing] epoch = '^pass (?<epoch>\d+)/(?<epochs>\d+) done in (?<seconds>[0-9.]+)'`: every matching line ends the
//! epoch that it names. `[timing] step = '^it (?<step>\d+)/(?<steps>\d+) (?<rate>[0-9.]+) img/s'`: the same for steps.

use std::borrow::Cow;

use regex_lite::{Captures, Regex, RegexBuilder};

use crate::foundation::diagnostic::nearest;
use crate::job::TimingPattern;

use super::event::{Event, Facts, Line, Rate, Recogniser, Weight};
use super::scan;

/// The groups that an expression may name.
const GROUPS: &str = "epoch|epochs|step|steps|seconds|step_seconds|rate";

/// What the names of groups begin with that hold a loss or metric.
const METRIC: &str = "metric_";

/// Largest compiled expression in bytes: the time per line grows with it.
const MAX_COMPILED: usize = 256 * 1024;

/// What is wrong with a user's expression.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PatternError {
    /// It is not a regular expression, or one that is too large.
    #[error("`timing.{key}`: not a regular expression: {reason}")]
    Syntax {
        /// Its key in the job file.
        key: &'static str,
        /// What the regular expression compiler says.
        reason: String,
    },
    /// It does not say which part of the line is the number that it is about.
    #[error(
        "`timing.{key}`: no group `{key}`; write `(?<{key}>[0-9]+)` where the number of the {key} stands"
    )]
    NoNumber {
        /// Its key in the job file.
        key: &'static str,
    },
    /// It names a group that means nothing here.
    #[error("`timing.{key}`: unknown group `{name}`; {}", suggestion(.name))]
    UnknownGroup {
        /// Its key in the job file.
        key: &'static str,
        /// The group's name.
        name: String,
    },
}

fn suggestion(name: &str) -> String {
    match nearest(name, GROUPS.split('|')) {
        Some(group) => format!("did you mean `{group}`?"),
        None => format!(
            "known groups are `{}` and, for a loss or metric, `{METRIC}NAME`: here `{METRIC}{name}`",
            GROUPS.replace('|', "`, `")
        ),
    }
}

/// Checks the user's expressions.
///
/// # Errors
///
/// [`PatternError`] says what is wrong with the first that is.
pub fn check_pattern(pattern: &TimingPattern) -> Result<(), PatternError> {
    Pattern::compile(pattern).map(|_| ())
}

/// The user's expressions, ready to read lines.
#[derive(Debug)]
pub(super) struct Pattern {
    epoch: Option<Expression>,
    step: Option<Expression>,
}

/// An expression, and its groups that hold metrics.
#[derive(Debug)]
struct Expression {
    regex: Regex,
    metrics: Vec<Metric>,
}

/// A group and the name of its metric.
#[derive(Debug)]
struct Metric {
    group: String,
    name: String,
}

fn compile(key: &'static str, text: &str) -> Result<Expression, PatternError> {
    let regex = RegexBuilder::new(text)
        .size_limit(MAX_COMPILED)
        .build()
        .map_err(|error| PatternError::Syntax {
            key,
            reason: error.to_string(),
        })?;
    let mut metrics = Vec::new();
    for name in regex.capture_names().flatten() {
        match name
            .strip_prefix(METRIC)
            .filter(|metric| !metric.is_empty())
        {
            Some(metric) => metrics.push(Metric {
                group: name.to_owned(),
                name: metric.to_owned(),
            }),
            None if GROUPS.split('|').any(|known| known == name) => {}
            None => {
                return Err(PatternError::UnknownGroup {
                    key,
                    name: name.to_owned(),
                });
            }
        }
    }
    if !regex.capture_names().flatten().any(|name| name == key) {
        return Err(PatternError::NoNumber { key });
    }
    Ok(Expression { regex, metrics })
}

impl Recogniser for Pattern {
    fn name(&self) -> &'static str {
        "pattern"
    }

    fn weight(&self) -> Weight {
        Weight::Asked
    }

    fn triggers(&self) -> &'static str {
        ""
    }

    fn read<'a>(&mut self, line: &Line<'a>, say: &mut dyn FnMut(Event<'a>)) {
        if let Some(event) = self.step(line) {
            say(event);
        }
        if let Some(event) = self.epoch(line) {
            say(event);
        }
    }
}

impl Pattern {
    pub(super) fn compile(pattern: &TimingPattern) -> Result<Self, PatternError> {
        let compiled =
            |key, text: &Option<String>| text.as_ref().map(|text| compile(key, text)).transpose();
        Ok(Self {
            epoch: compiled("epoch", &pattern.epoch)?,
            step: compiled("step", &pattern.step)?,
        })
    }

    fn epoch<'a>(&self, line: &Line<'a>) -> Option<Event<'a>> {
        let Expression { regex, metrics } = self.epoch.as_ref()?;
        let groups = regex.captures(line.text)?;
        Some(
            Event::epoch_end(
                (count(&groups, "epoch")?, count(&groups, "epochs")),
                facts(&groups, metrics),
            )
            .took(time(&groups, "seconds"))
            .at(count(&groups, "step").zip(count(&groups, "steps"))),
        )
    }

    fn step<'a>(&self, line: &Line<'a>) -> Option<Event<'a>> {
        let Expression { regex, metrics } = self.step.as_ref()?;
        let groups = regex.captures(line.text)?;
        let (step, of) = (count(&groups, "step")?, count(&groups, "steps"));
        let facts = facts(&groups, metrics);
        Some(match count(&groups, "epoch") {
            Some(epoch) => Event::step((epoch, count(&groups, "epochs")), (step, of), facts),
            None => Event::iteration(Some(step), of, facts),
        })
    }
}

/// The whole number in a group. 3.0 is 3; 3.5 is a place inside an epoch and none.
fn count(groups: &Captures<'_>, name: &str) -> Option<u64> {
    let (count, rest) = scan::unsigned(groups.name(name)?.as_str().trim())?;
    rest.trim_start_matches('.')
        .trim_start_matches('0')
        .is_empty()
        .then_some(count)
}

/// The seconds in a group, `65.5` or `0:01:05.5`.
fn time(groups: &Captures<'_>, name: &str) -> Option<f64> {
    let text = groups.name(name)?.as_str().trim();
    let (seconds, _) = scan::clock(text).or_else(|| scan::number(text))?;
    (seconds.is_finite() && seconds >= 0.0).then_some(seconds)
}

fn facts(groups: &Captures<'_>, metrics: &[Metric]) -> Facts<'static> {
    let number =
        |group: &str| scan::number(groups.name(group)?.as_str().trim()).map(|(value, _)| value);
    Facts {
        step_seconds: time(groups, "step_seconds"),
        throughput: number("rate").and_then(|rate| Rate::of_run(rate, "samples/s")),
        metrics: metrics
            .iter()
            .filter_map(|metric| Some((Cow::Owned(metric.name.clone()), number(&metric.group)?)))
            .collect(),
        ..Facts::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::timing::event::Says;

    fn read(expression: &str, text: &str) -> Option<(u64, Option<u64>, Option<f64>)> {
        let line = Line {
            text,
            redrawn: false,
        };
        let pattern = Pattern::compile(&TimingPattern::of_epoch(expression)).unwrap();
        match pattern.epoch(&line)? {
            Event {
                says: Says::EpochEnd,
                epoch: Some(epoch),
                epochs,
                seconds,
                ..
            } => Some((epoch, epochs, seconds)),
            other => panic!("{other:?}"),
        }
    }

    fn check(expression: &str) -> Result<(), PatternError> {
        check_pattern(&TimingPattern::of_epoch(expression))
    }

    #[test]
    fn named_groups_are_read() {
        let pattern = r"^pass (?<epoch>[\d.]+)(/(?P<epochs>\d+))? done( in (?<seconds>[\d:.]+))?";
        assert_eq!(
            read(pattern, "pass 3/10 done in 2.5 s"),
            Some((3, Some(10), Some(2.5)))
        );
        assert_eq!(read(pattern, "pass 3.0 done"), Some((3, None, None)));
        assert_eq!(
            read(pattern, "pass 3 done in 0:01:05"),
            Some((3, None, Some(65.0)))
        );
        for text in [
            "pass 3.5 done",
            "pass x done",
            "pass 99999999999999999999999 done",
            "",
        ] {
            assert_eq!(read(pattern, text), None, "{text}");
        }
    }

    #[test]
    fn steps_rates_and_metrics_are_read() {
        let step =
            r"it (?<step>\d+)/(?<steps>\d+) (?<rate>[\d.]+) img/s (?<metric_loss>\S+)".to_owned();
        let pattern = Pattern::compile(&TimingPattern {
            epoch: None,
            step: Some(step),
        })
        .unwrap();
        let line = Line {
            text: "it 5/9 12.5 img/s nan",
            redrawn: false,
        };
        let Some(Event {
            says: Says::Iteration,
            step: Some(5),
            of: Some(9),
            facts,
            ..
        }) = pattern.step(&line)
        else {
            panic!("{:?}", pattern.step(&line))
        };
        assert_eq!(facts.throughput, Rate::of_run(12.5, "samples/s"));
        assert!(matches!(&facts.metrics[..], [(name, value)] if name == "loss" && value.is_nan()));
    }

    #[test]
    fn faults_are_named() {
        assert!(matches!(
            check("(?<epoch>"),
            Err(PatternError::Syntax { .. })
        ));
        assert!(matches!(
            check(r"(?<epoch>\w{1000}{1000})"),
            Err(PatternError::Syntax { .. })
        ));
        assert_eq!(
            check(r"epoch (\d+)"),
            Err(PatternError::NoNumber { key: "epoch" })
        );
        let unknown = check(r"(?<epoch>\d+) (?<second>\d+)").unwrap_err();
        assert_eq!(
            unknown.to_string(),
            "`timing.epoch`: unknown group `second`; did you mean `seconds`?"
        );
        assert_eq!(check(r"(?<epoch>\d+) (?<metric_loss>.*)"), Ok(()));
        let step = TimingPattern {
            epoch: None,
            step: Some(r"(?<epoch>\d+)".to_owned()),
        };
        assert_eq!(
            check_pattern(&step),
            Err(PatternError::NoNumber { key: "step" })
        );
    }
}
