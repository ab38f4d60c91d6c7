//! The user's own expressions, for programs that no recogniser knows.
//!
//! `[timing] epoch = '^pass (?<epoch>\d+)/(?<epochs>\d+) done in (?<seconds>[0-9.]+)'`: every matching line ends the
//! epoch that it names. `[timing] step = '^it (?<step>\d+)/(?<steps>\d+) (?<rate>[0-9.]+) img/s'`: the same for steps.

use regex_lite::{Regex, RegexBuilder};

use super::event::Says;
use super::forms::Known;
use crate::foundation::diagnostic::nearest;
use crate::job::TimingPattern;

/// The groups that an expression may name.
const GROUPS: &str = "epoch|epochs|step|steps|seconds|step_seconds|rate";

/// What the names of groups begin with that hold a loss or metric.
const METRIC: &str = "metric_";

/// Largest compiled expression in bytes: the time per line grows with it.
const MAX_COMPILED: usize = 256 * 1024;

/// What is wrong with a user's expression.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`timing.{key}`: {why}")]
pub struct PatternError {
    key: &'static str,
    why: String,
}

/// Checks the user's expressions.
///
/// # Errors
///
/// [`PatternError`] says what is wrong with the first that is.
pub fn check_pattern(pattern: &TimingPattern) -> Result<(), PatternError> {
    compile(pattern).map(|_| ())
}

/// What reads lines by the user's expressions.
pub(super) fn compile(pattern: &TimingPattern) -> Result<Known, PatternError> {
    let epoch = expression("epoch", pattern.epoch.as_deref())?;
    let step = expression("step", pattern.step.as_deref())?;
    Ok(Known::by_user([
        (Says::Step, step),
        (Says::EpochEnd, epoch),
    ]))
}

/// Compiles an expression, which must name the group `key`: the number that it is about.
fn expression(key: &'static str, text: Option<&str>) -> Result<Option<Regex>, PatternError> {
    let Some(text) = text else { return Ok(None) };
    let failed = |why| PatternError { key, why };
    let regex = RegexBuilder::new(text)
        .size_limit(MAX_COMPILED)
        .build()
        .map_err(|error| failed(format!("not a regular expression: {error}")))?;
    let is_metric = |name: &str| name.len() > METRIC.len() && name.starts_with(METRIC);
    let is_known = |name: &str| is_metric(name) || GROUPS.split('|').any(|known| known == name);
    if let Some(name) = regex.capture_names().flatten().find(|name| !is_known(name)) {
        return Err(failed(format!(
            "unknown group `{name}`; {}",
            suggestion(name)
        )));
    }
    if !regex.capture_names().flatten().any(|name| name == key) {
        return Err(failed(format!(
            "no group `{key}`; write `(?<{key}>[0-9]+)` where the number of the {key} is"
        )));
    }
    Ok(Some(regex))
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::timing::event::{Event, Line, Rate, Recogniser};

    fn read<'a>(pattern: &TimingPattern, text: &'a str) -> Vec<Event<'a>> {
        let mut events = Vec::new();
        let line = Line {
            text,
            redrawn: false,
        };
        compile(pattern)
            .unwrap()
            .read(&line, &mut |event| events.push(event));
        events
    }

    fn why(expression: &str) -> String {
        let error = check_pattern(&TimingPattern::of_epoch(expression)).unwrap_err();
        error.to_string()
    }

    #[test]
    fn named_groups_are_read() {
        let pattern = TimingPattern::of_epoch(
            r"^pass (?<epoch>[\d.]+)(/(?P<epochs>\d+))? done( in (?<seconds>[\d:.]+))?",
        );
        for (text, expected) in [
            ("pass 3/10 done in 2.5 s", (3, Some(10), Some(2.5))),
            ("pass 3.0 done", (3, None, None)),
            ("pass 3 done in 0:01:05", (3, None, Some(65.0))),
        ] {
            let [event] = &read(&pattern, text)[..] else {
                panic!("{text}")
            };
            assert_eq!(event.says, Says::EpochEnd);
            let found = (event.epoch.unwrap(), event.epochs, event.seconds);
            assert_eq!(found, expected, "{text}");
        }
        for text in [
            "pass 3.5 done",
            "pass x done",
            "pass 99999999999999999999999 done",
            "",
        ] {
            assert_eq!(read(&pattern, text), [], "{text}");
        }
    }

    #[test]
    fn steps_rates_and_metrics_are_read_beside_epochs() {
        let step = r"it (?<step>\d+)/(?<steps>\d+) (?<rate>[\d.]+) img/s (?<metric_loss>\S+)";
        let pattern = TimingPattern {
            epoch: Some(r"img/s \S+ (?<epoch>\d)".to_owned()),
            step: Some(step.to_owned()),
        };
        let events = read(&pattern, "it 5/9 12.5 img/s nan 3");
        let [step, end] = &events[..] else {
            panic!("{events:?}")
        };
        assert_eq!(
            (step.says, step.step, step.of),
            (Says::Iteration, Some(5), Some(9))
        );
        assert_eq!((end.says, end.epoch), (Says::EpochEnd, Some(3)));
        let facts = &step.facts;
        assert_eq!(facts.throughput, Rate::of_run(12.5, "samples/s"));
        assert!(matches!(&facts.metrics[..], [(name, value)] if name == "loss" && value.is_nan()));
    }

    #[test]
    fn faults_are_named() {
        for wrong in ["(?<epoch>", r"(?<epoch>\w{1000}{1000})"] {
            assert!(why(wrong).starts_with("`timing.epoch`: not a regular expression: "));
        }
        assert!(why(r"epoch (\d+)").contains("no group `epoch`; write"));
        assert_eq!(
            why(r"(?<epoch>\d+) (?<second>\d+)"),
            "`timing.epoch`: unknown group `second`; did you mean `seconds`?"
        );
        let fine = TimingPattern::of_epoch(r"(?<epoch>\d+) (?<metric_loss>.*)");
        assert_eq!(check_pattern(&fine), Ok(()));
    }
}
