//! One line of `DLRUN_EVENTS`: an object of JSON, its keys taken apart and checked.

use serde_json::{Map, Value};

use crate::observe::timing::event::MAX_SECONDS;
use crate::observe::timing::scan;
use crate::record::Scope;

/// Metrics of one line at most, and the longest name of one in bytes. Ours: a record must stay small.
const MAX_METRICS: usize = 64;
const MAX_NAME: usize = 64;
/// The longest unit of a rate, in bytes.
const MAX_UNIT: usize = 24;

/// A part of the training that is counted apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    Evaluation,
    Checkpoint,
}

/// What a line says. `None`: it does not.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Line {
    pub(super) epoch: Option<u64>,
    pub(super) epochs: Option<u64>,
    pub(super) seconds: Option<f64>,
    pub(super) samples: Option<u64>,
    pub(super) steps: Option<u64>,
    pub(super) step: Option<u64>,
    pub(super) of: Option<u64>,
    pub(super) step_seconds: Option<f64>,
    pub(super) data_seconds: Option<f64>,
    pub(super) phase: Option<Phase>,
    pub(super) begin: bool,
    pub(super) end: bool,
    pub(super) evaluation_seconds: Option<f64>,
    pub(super) checkpoint_seconds: Option<f64>,
    pub(super) throughput: Option<f64>,
    pub(super) unit: Option<String>,
    pub(super) scope: Scope,
    pub(super) run_seconds: Option<f64>,
    pub(super) rank: Option<u64>,
    /// When it happened, in Unix milliseconds UTC.
    pub(super) time_ms: Option<u64>,
    pub(super) metrics: Vec<(String, f64)>,
}

impl Line {
    /// Reads a line; an error says what is wrong with it.
    pub(super) fn read(bytes: &[u8]) -> Result<Self, String> {
        let Value::Object(object) = parse(bytes)? else {
            return Err(format!("not a JSON object: {}", excerpt(bytes)));
        };
        let mut line = Self::default();
        for (key, value) in &object {
            line.put(key, value)
                .map_err(|why| format!("`{key}` {why}: {}", excerpt(bytes)))?;
        }
        line.check(&object)
            .map_err(|why| format!("{why}: {}", excerpt(bytes)))?;
        Ok(line)
    }

    fn put(&mut self, key: &str, value: &Value) -> Result<(), &'static str> {
        match key {
            "epoch" => self.epoch = count(value)?,
            "epochs" => self.epochs = count(value)?,
            "seconds" => self.seconds = seconds(value)?,
            "samples" => self.samples = count(value)?,
            "steps" => self.steps = count(value)?,
            "step" => self.step = count(value)?,
            "of" => self.of = count(value)?,
            "step_seconds" => self.step_seconds = seconds(value)?,
            "data_seconds" => self.data_seconds = seconds(value)?,
            "phase" => self.phase = phase(value)?,
            "begin" => self.begin = flag(value)?,
            "end" => self.end = flag(value)?,
            "evaluation_seconds" => self.evaluation_seconds = seconds(value)?,
            "checkpoint_seconds" => self.checkpoint_seconds = seconds(value)?,
            "throughput" => self.throughput = amount(value)?,
            "unit" => self.unit = unit(value)?,
            "scope" => self.scope = scope(value)?,
            "run_seconds" => self.run_seconds = seconds(value)?,
            "rank" => self.rank = count(value)?,
            "time" => self.time_ms = time_ms(value)?,
            name => self.put_metric(name, value),
        }
        Ok(())
    }

    /// Whatever else is a number is a metric; `null` is one without a value, as a loss that diverged. The rest is the
    /// program's own business.
    fn put_metric(&mut self, name: &str, value: &Value) {
        let value = match value {
            Value::Null => f64::NAN,
            other => match other.as_f64() {
                Some(number) => number,
                None => return,
            },
        };
        let is_name =
            !name.is_empty() && name.len() <= MAX_NAME && !name.chars().any(char::is_control);
        if is_name && self.metrics.len() < MAX_METRICS {
            self.metrics.push((name.to_owned(), value));
        }
    }

    fn check(&self, object: &Map<String, Value>) -> Result<(), &'static str> {
        if self.begin && (self.end || self.seconds.is_some()) {
            return Err("what begins has neither an end nor a duration yet");
        }
        if (self.begin || self.end || self.seconds.is_some())
            && self.epoch.is_none()
            && !object.contains_key("phase")
        {
            return Err("it says neither which `epoch` nor which `phase` it means");
        }
        Ok(())
    }

    /// True where it says that an epoch is over: it names one and speaks of no part of it.
    pub(super) fn ends_epoch(&self) -> bool {
        let speaks_of_part = self.begin || self.phase.is_some() || self.step.is_some();
        self.epoch.is_some() && !speaks_of_part
    }
}

/// Reads JSON, and what Python and JavaScript write for JSON: NaN and infinities without quotes stand for no number.
fn parse(bytes: &[u8]) -> Result<Value, String> {
    let failed = |error: serde_json::Error| {
        let text = error.to_string();
        let why = text.split(" at line ").next().unwrap_or_default();
        format!("invalid JSON ({why}): {}", excerpt(bytes))
    };
    serde_json::from_slice(bytes).or_else(|error| match without_nan(bytes) {
        Some(text) => serde_json::from_slice(&text).map_err(failed),
        None => Err(failed(error)),
    })
}

/// The line with `null` for bare `NaN`, `Infinity` and `-Infinity`; `None` where there is none.
fn without_nan(bytes: &[u8]) -> Option<Vec<u8>> {
    const WORDS: [&[u8]; 4] = [b"-Infinity", b"Infinity", b"NaN", b"nan"];
    let mut text = Vec::with_capacity(bytes.len());
    let (mut quoted, mut escaped, mut found) = (false, false, false);
    let mut rest = bytes;
    while let [byte, tail @ ..] = rest {
        if !quoted && let Some(word) = WORDS.into_iter().find(|word| rest.starts_with(word)) {
            text.extend_from_slice(b"null");
            (rest, found) = (&rest[word.len()..], true);
            continue;
        }
        quoted ^= *byte == b'"' && !escaped;
        escaped = quoted && *byte == b'\\' && !escaped;
        text.push(*byte);
        rest = tail;
    }
    found.then_some(text)
}

/// A whole number that is not negative; `null` says nothing.
fn count(value: &Value) -> Result<Option<u64>, &'static str> {
    if value.is_null() {
        return Ok(None);
    }
    // JavaScript and NumPy write 3.0.
    let number = value.as_u64().or_else(|| scan::whole(value.as_f64()?));
    number.map(Some).ok_or("is not a whole number from 0 on")
}

fn amount(value: &Value) -> Result<Option<f64>, &'static str> {
    if value.is_null() {
        return Ok(None);
    }
    let number = value
        .as_f64()
        .filter(|number| number.is_finite() && *number >= 0.0);
    number.map(Some).ok_or("is not a number from 0 on")
}

fn seconds(value: &Value) -> Result<Option<f64>, &'static str> {
    match amount(value)? {
        Some(seconds) if seconds > MAX_SECONDS => Err("is not a duration in seconds"),
        seconds => Ok(seconds),
    }
}

fn flag(value: &Value) -> Result<bool, &'static str> {
    value.as_bool().ok_or("is neither true nor false")
}

/// A phase that the record has.
fn phase(value: &Value) -> Result<Option<Phase>, &'static str> {
    match value.as_str().ok_or("is not a string")? {
        "evaluation" | "validation" | "eval" | "test" => Ok(Some(Phase::Evaluation)),
        "checkpoint" | "save" => Ok(Some(Phase::Checkpoint)),
        _ => Err("is neither `evaluation` nor `checkpoint`"),
    }
}

fn unit(value: &Value) -> Result<Option<String>, &'static str> {
    let is_unit = |text: &&str| {
        !text.is_empty() && text.len() <= MAX_UNIT && !text.chars().any(char::is_control)
    };
    value
        .as_str()
        .filter(is_unit)
        .map(|text| Some(text.to_owned()))
        .ok_or("is not a unit")
}

fn scope(value: &Value) -> Result<Scope, &'static str> {
    match value.as_str() {
        Some("global") => Ok(Scope::Global),
        Some("per_device") => Ok(Scope::PerDevice),
        _ => Err("is neither `global` nor `per_device`"),
    }
}

/// Unix seconds, with decimals or without.
fn time_ms(value: &Value) -> Result<Option<u64>, &'static str> {
    let Some(seconds) = amount(value)? else {
        return Ok(None);
    };
    let time = std::time::Duration::try_from_secs_f64(seconds).ok();
    let ms = time
        .and_then(|time| u64::try_from(time.as_millis()).ok())
        .filter(|ms| *ms < 1 << 53);
    ms.map(Some).ok_or("is not a time in Unix seconds")
}

/// The beginning of a line, for people.
fn excerpt(bytes: &[u8]) -> String {
    const LONGEST: usize = 60;
    let text = String::from_utf8_lossy(bytes);
    let shown = text.chars().take(LONGEST).map(|character| {
        if character.is_control() {
            '?'
        } else {
            character
        }
    });
    let shown: String = shown.collect();
    if text.chars().count() > LONGEST {
        format!("{shown}...")
    } else {
        shown
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn why(line: &str) -> String {
        Line::read(line.as_bytes()).expect_err(line)
    }

    fn read(line: &str) -> Line {
        Line::read(line.as_bytes()).expect(line)
    }

    #[test]
    fn all_keys_are_read() {
        let line = read(
            r#"{"epoch":1,"epochs":3,"seconds":9.1,"samples":60000.0,"loss":0.3,"lr":null,"note":"x","rank":2,"time":1.5,
               "throughput":10,"unit":"tokens/s","scope":"per_device","evaluation_seconds":2,"checkpoint_seconds":1}"#,
        );
        assert_eq!(
            (line.epoch, line.epochs, line.seconds),
            (Some(1), Some(3), Some(9.1))
        );
        assert_eq!(
            (line.samples, line.rank, line.time_ms),
            (Some(60_000), Some(2), Some(1500))
        );
        assert_eq!(
            (line.throughput, line.unit.as_deref()),
            (Some(10.0), Some("tokens/s"))
        );
        assert_eq!((line.scope, line.ends_epoch()), (Scope::PerDevice, true));
        assert_eq!(
            (line.evaluation_seconds, line.checkpoint_seconds),
            (Some(2.0), Some(1.0))
        );
        assert_eq!(line.metrics[0], ("loss".to_owned(), 0.3));
        assert!(line.metrics[1].0 == "lr" && line.metrics[1].1.is_nan() && line.metrics.len() == 2);
        let step = read(r#"{"step":100,"of":1000,"step_seconds":0.02,"epoch":1}"#);
        assert_eq!(
            (step.step, step.of, step.step_seconds),
            (Some(100), Some(1000), Some(0.02))
        );
        assert!(!step.ends_epoch());
        assert_eq!(
            read(r#"{"phase":"validation","begin":true}"#).phase,
            Some(Phase::Evaluation)
        );
    }

    #[test]
    fn python_s_nan_is_no_number_and_quoted_text_stays() {
        let line =
            read(r#"{"epoch":1,"loss":NaN,"a":-Infinity,"b":Infinity,"note \" NaN":1,"c":"\\"}"#);
        assert!(
            line.metrics
                .iter()
                .filter(|(name, _)| ["loss", "a", "b"].contains(&name.as_str()))
                .all(|(_, it)| it.is_nan())
        );
        assert!(
            line.metrics.contains(&("note \" NaN".to_owned(), 1.0)),
            "{:?}",
            line.metrics
        );
    }

    #[test]
    fn wrong_values_are_told_with_the_line() {
        assert!(why("[1]").starts_with("not a JSON object: [1]"));
        assert!(why("{").starts_with("invalid JSON (EOF while parsing"));
        assert!(why(r#"{"epoch":-1}"#).starts_with("`epoch` is not a whole number from 0 on: "));
        for line in [
            r#"{"epoch":1.5}"#,
            r#"{"epoch":"1"}"#,
            r#"{"epoch":1,"seconds":-1}"#,
            r#"{"epoch":1,"seconds":"9"}"#,
            r#"{"epoch":1,"seconds":1e300}"#,
            r#"{"epoch":1,"begin":1}"#,
            r#"{"epoch":1,"begin":true,"seconds":1}"#,
            r#"{"phase":"lunch","seconds":1}"#,
            r#"{"seconds":1}"#,
            r#"{"epoch":1,"scope":"all"}"#,
            r#"{"epoch":1,"unit":""}"#,
            r#"{"epoch":1,"time":1e30}"#,
        ] {
            assert!(why(line).contains(&line[..8]), "{}", why(line));
        }
        assert!(why(&format!("{{\u{1b}[2J{}", "x".repeat(500))).len() < 200);
    }

    #[test]
    fn many_metrics_and_odd_names_are_left_out() {
        let many: Vec<_> = (0..500).map(|n| format!("\"m{n}\":{n}")).collect();
        assert_eq!(
            read(&format!("{{{}}}", many.join(","))).metrics.len(),
            MAX_METRICS
        );
        let long = "x".repeat(MAX_NAME + 1);
        assert_eq!(
            read(&format!("{{\"{long}\":1,\"a\\nb\":1,\"\":1}}")).metrics,
            []
        );
    }
}
