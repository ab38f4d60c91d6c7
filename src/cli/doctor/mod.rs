//! What `dlrun doctor` looks at, one file per subject. Nothing stays that was not there: one file is made in the state
//! directory, for its time, and removed.

mod clocks;
mod container;
mod daemon;
mod figures;
mod gpus;
mod here;
mod queues;
mod schedulers;
mod state;

use serde::Serialize;
use serde_json::{Value, json};

use crate::app::error::Error;
use crate::app::session::Session;
use crate::app::site::ask;
use crate::cli::table::{fitted, table};
use crate::config::site::SiteModel;
use crate::foundation::clock::now_ms;
use crate::foundation::diagnostic::printable;
use crate::job::SchedulerKind;

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
        Self {
            check,
            level: Level::Ok,
            text: text.into(),
            advice: None,
        }
    }

    fn warning(check: &'static str, text: impl Into<String>, advice: impl Into<String>) -> Self {
        Self {
            level: Level::Warning,
            advice: Some(advice.into()),
            ..Self::ok(check, text)
        }
    }

    fn problem(check: &'static str, text: impl Into<String>, advice: impl Into<String>) -> Self {
        Self {
            level: Level::Problem,
            advice: Some(advice.into()),
            ..Self::ok(check, text)
        }
    }

    /// A failure with the hint that it brings.
    fn failure(level: Level, check: &'static str, error: &Error) -> Self {
        Self {
            check,
            level,
            text: error.message(),
            advice: error.hints().first().cloned(),
        }
    }
}

/// All that was found out.
pub(crate) struct Examination {
    pub(crate) findings: Vec<Finding>,
    /// What the scheduler says of the site, where it answered.
    site: Option<SiteModel>,
}

/// Looks at everything. What gives no answer is a finding, and the rest is looked at all the same.
pub(crate) fn look(session: &Session) -> Examination {
    let settings = &session.settings;
    let mut findings = vec![here::version()];
    findings.extend(state::look(session));
    let (kind, found) = schedulers::look(session);
    findings.extend(found);
    let mut site = None;
    if kind != SchedulerKind::Local {
        match ask(session, kind) {
            Ok(model) => {
                findings.extend(queues::of_site(&model));
                site = Some(model);
            }
            Err(error) => findings.push(queues::of_failure(kind, &error)),
        }
        findings.push(here::node_dlrun(settings.node_dlrun()));
    }
    findings.extend(clocks::look(
        session,
        if site.is_some() {
            kind
        } else {
            SchedulerKind::Local
        },
    ));
    findings.extend(container::look(settings.container_runtime()));
    findings.push(here::python(settings.python_interpreter()));
    findings.extend(daemon::look(settings.daemon_socket(), now_ms()));
    findings.push(gpus::look(settings.nvml_library()));
    findings.push(figures::look(session));
    findings.extend([here::cgroups(), here::cgroup()]);
    Examination { findings, site }
}

/// The worst of the findings.
pub(crate) fn worst(findings: &[Finding]) -> Level {
    findings
        .iter()
        .map(|finding| finding.level)
        .max()
        .unwrap_or(Level::Ok)
}

/// The findings for programs.
pub(crate) fn to_json(examination: &Examination) -> Value {
    let Examination { findings, site } = examination;
    json!({ "worst": worst(findings), "findings": findings, "site": site })
}

/// The findings for people.
pub(crate) fn to_text(examination: &Examination) -> String {
    let mut table = table();
    for finding in &examination.findings {
        table.add_row([
            finding.level.word(),
            finding.check,
            &one_line(&finding.text),
        ]);
        if let Some(advice) = &finding.advice {
            table.add_row(["", "", &format!("  -> {}", one_line(advice))]);
        }
    }
    let tables = examination
        .site
        .as_ref()
        .map(queues::tables)
        .filter(|tables| !tables.is_empty());
    fitted(table)
        + &tables
            .map(|tables| format!("\n{tables}"))
            .unwrap_or_default()
}

fn one_line(text: &str) -> String {
    printable(text).replace('\n', " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_counts_and_advice_stands_below() {
        let findings = vec![
            Finding::ok("a", "good"),
            Finding::problem("b", "bad\nline", "mend it"),
            Finding::warning("c", "x", "y"),
        ];
        assert_eq!((worst(&findings), worst(&[])), (Level::Problem, Level::Ok));
        let examination = Examination {
            findings,
            site: None,
        };
        let text = to_text(&examination);
        let lines: Vec<&str> = text.lines().map(str::trim).collect();
        let expected = [
            "ok       a  good",
            "problem  b  bad line",
            "-> mend it",
            "warning  c  x",
            "-> y",
        ];
        assert_eq!(lines, expected);
        let value = to_json(&examination);
        assert_eq!(
            (&value["worst"], &value["findings"][1]["advice"]),
            (&"problem".into(), &"mend it".into())
        );
    }
}
