//! What `dlrun doctor` looks at, one file per subject. Nothing is written.

mod container;
mod daemon;
mod gpus;
mod here;
mod queues;
mod schedulers;
mod state;

use serde::Serialize;

use crate::app::error::Error;
use crate::app::session::Session;
use crate::app::site::ask;
use crate::config::site::SiteModel;
use crate::foundation::clock::now_ms;

/// How bad a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub(crate) enum Level {
    /// As it should be.
    Ok,
    /// Something is missing, or will fail some day.
    Warning,
    /// Something fails.
    Problem,
}

/// What was found out about one thing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Finding {
    /// The thing, in a word.
    pub(crate) check: &'static str,
    pub(crate) level: Level,
    pub(crate) text: String,
    /// What to do about it.
    pub(crate) advice: Option<String>,
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
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Examination {
    /// The worst of the findings.
    pub(crate) worst: Level,
    pub(crate) findings: Vec<Finding>,
    /// What the scheduler says of the site, where it answered.
    pub(crate) site: Option<SiteModel>,
}

/// Looks at everything. What gives no answer is a finding, and the rest is looked at all the same.
pub(crate) fn examine(session: &Session) -> Examination {
    let settings = &session.settings;
    let mut findings = vec![here::version()];
    findings.extend(state::findings(session));
    let (cluster, found) = schedulers::taker_and_findings(session);
    findings.extend(found);
    let mut site = None;
    if let Some(kind) = cluster {
        match ask(session, kind) {
            Ok(model) => {
                findings.extend(queues::findings(&model));
                site = Some(model);
            }
            Err(error) => findings.push(queues::failure(kind, &error)),
        }
        findings.push(here::node_dlrun(settings.node_dlrun()));
    }
    findings.extend(container::findings(settings.container_runtime()));
    findings.push(here::python(settings.python_interpreter()));
    findings.extend(daemon::findings(settings.daemon_socket(), now_ms()));
    findings.push(gpus::finding(settings.nvml_library()));
    findings.push(here::cgroups());
    let levels = findings.iter().map(|finding| finding.level);
    Examination {
        worst: levels.max().unwrap_or(Level::Ok),
        findings,
        site,
    }
}
