//! What `dlrun doctor` looks at, one file per subject. Nothing is made or changed.

mod daemon;
mod gpus;
mod here;
mod state;

use serde::Serialize;
use serde_json::{Value, json};

use super::error::Error;
use super::session::Session;
use super::table::{rendered, table};
use crate::clock::now_ms;
use crate::diagnostic::printable;

/// How bad a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Level {
    /// As it should be.
    Ok,
    /// Something is missing, or will fail some day.
    Warning,
    /// Something fails.
    Problem,
}

impl Level {
    fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warning => "warning",
            Self::Problem => "problem",
        }
    }
}

/// What was found out about one thing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Finding {
    /// The thing, in a word.
    check: &'static str,
    level: Level,
    text: String,
    /// What to do about it.
    advice: Option<String>,
}

impl Finding {
    fn ok(check: &'static str, text: impl Into<String>) -> Self {
        Self { check, level: Level::Ok, text: text.into(), advice: None }
    }

    fn warning(check: &'static str, text: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { level: Level::Warning, advice: Some(advice.into()), ..Self::ok(check, text) }
    }

    fn problem(check: &'static str, text: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { level: Level::Problem, advice: Some(advice.into()), ..Self::ok(check, text) }
    }

    /// A failure with the hint that it brings.
    fn failure(level: Level, check: &'static str, error: &Error) -> Self {
        Self { check, level, text: error.message(), advice: error.hints().first().cloned() }
    }
}

/// Looks at everything.
pub(crate) fn look(session: &Session) -> Vec<Finding> {
    let settings = &session.settings;
    let mut findings = vec![here::version()];
    findings.extend(state::look(session));
    findings.push(here::scheduler(session));
    findings.push(here::python(settings.python_interpreter()));
    findings.extend(daemon::look(settings.daemon_socket(), now_ms()));
    findings.push(gpus::look(settings.nvml_library()));
    findings.push(here::cgroup());
    findings
}

/// The worst of the findings.
pub(crate) fn worst(findings: &[Finding]) -> Level {
    findings.iter().map(|finding| finding.level).max().unwrap_or(Level::Ok)
}

/// The findings for programs.
pub(crate) fn to_json(findings: &[Finding]) -> Value {
    json!({ "worst": worst(findings), "findings": findings })
}

/// The findings for people.
pub(crate) fn to_text(findings: &[Finding]) -> String {
    let mut table = table();
    for finding in findings {
        table.add_row([finding.level.word(), finding.check, &one_line(&finding.text)]);
        if let Some(advice) = &finding.advice {
            table.add_row(["", "", &format!("  -> {}", one_line(advice))]);
        }
    }
    rendered(table)
}

fn one_line(text: &str) -> String {
    printable(text).replace('\n', " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_counts_and_advice_stands_below() {
        let findings = [
            Finding::ok("a", "good"),
            Finding::problem("b", "bad\nline", "mend it"),
            Finding::warning("c", "x", "y"),
        ];
        assert_eq!((worst(&findings), worst(&[])), (Level::Problem, Level::Ok));
        let text = to_text(&findings);
        let lines: Vec<&str> = text.lines().map(str::trim).collect();
        let expected = ["ok       a  good", "problem  b  bad line", "-> mend it", "warning  c  x", "-> y"];
        assert_eq!(lines, expected);
        let value = to_json(&findings);
        assert_eq!(
            (&value["worst"], &value["findings"][1]["advice"]),
            (&"problem".into(), &"mend it".into())
        );
    }
}
