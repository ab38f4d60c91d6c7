//! What the decisions on a job are made with and gathered in.

use std::path::Path;

use super::facts::SiteFacts;
use super::{Decision, ImageCandidate, NoImage, Rejected};
use crate::config::Settings;
use crate::foundation::diagnostic::Problem;
use crate::job::{JobSpec, Located};

/// The job, what is known of the site, and what was decided so far.
pub(super) struct Resolver<'a> {
    pub(super) spec: &'a JobSpec,
    pub(super) settings: &'a Settings,
    pub(super) facts: &'a SiteFacts,
    pub(super) decisions: Vec<Decision>,
    pub(super) warnings: Vec<String>,
    pub(super) notes: Vec<String>,
    pub(super) problems: Vec<Problem>,
    pub(super) candidates: Vec<ImageCandidate>,
    pub(super) no_image: Option<NoImage>,
}

/// Why most things are as they are.
pub(super) const JOB_FILE: &str = "the job file says so";

impl<'a> Resolver<'a> {
    pub(super) fn new(spec: &'a JobSpec, settings: &'a Settings, facts: &'a SiteFacts) -> Self {
        let (decisions, warnings, notes, problems) = (vec![], vec![], vec![], vec![]);
        let (candidates, no_image) = (vec![], None);
        Self {
            spec,
            settings,
            facts,
            decisions,
            warnings,
            notes,
            problems,
            candidates,
            no_image,
        }
    }

    /// Why something is as it is, where that was decided.
    pub(super) fn reason_of(&self, what: &str) -> Option<&str> {
        self.decisions
            .iter()
            .find(|decision| decision.what == what)
            .map(|decision| decision.why.as_str())
    }

    pub(super) fn decide(&mut self, what: &str, value: impl Into<String>, why: impl Into<String>) {
        let (value, why) = (value.into(), why.into());
        self.decisions.push(Decision {
            what: what.to_owned(),
            value,
            why,
            rejected: vec![],
        });
    }

    /// Replaces a decision that had to wait for others, where it stands.
    pub(super) fn redecide(
        &mut self,
        what: &str,
        value: String,
        why: String,
        rejected: Vec<Rejected>,
    ) {
        if let Some(decision) = self
            .decisions
            .iter_mut()
            .find(|decision| decision.what == what)
        {
            *decision = Decision {
                what: what.to_owned(),
                value,
                why,
                rejected,
            };
        }
    }

    pub(super) fn reject(&mut self, value: &str, why: impl Into<String>) {
        if let Some(decision) = self.decisions.last_mut() {
            decision.rejected.push(Rejected {
                value: value.to_owned(),
                why: why.into(),
            });
        }
    }
}

pub(super) fn values(options: &[Located<String>]) -> Vec<String> {
    options.iter().map(|option| option.value.clone()).collect()
}

pub(super) fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}
