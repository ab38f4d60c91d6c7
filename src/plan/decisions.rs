//! What the decisions on a job are made with and gathered in.

use std::path::Path;

use super::facts::SiteFacts;
use super::secrets::shown_overrides;
use super::{Decision, Plan, Rejected};
use crate::config::Settings;
use crate::config::site::{SiteModel, overlaid};
use crate::foundation::diagnostic::Problem;
use crate::job::SchedulerKind;
use crate::job::{JobSpec, Located, NodeCheck};
use crate::launch::{IdlePolicy, MeetingPlan};

/// The job, what is known of the site, and the plan as far as it is decided.
pub(super) struct Resolver<'a> {
    pub(super) spec: &'a JobSpec,
    pub(super) settings: &'a Settings,
    pub(super) facts: &'a SiteFacts,
    pub(super) plan: Plan,
    /// The queue that the job goes to, as far as it is known.
    pub(super) queue: Option<String>,
    pub(super) problems: Vec<Problem>,
}

/// Too narrow a range of ports would serve a few ranks only.
fn meeting(settings: &Settings) -> MeetingPlan {
    let port = |port: usize| u16::try_from(port).unwrap_or(u16::MAX);
    let ports = (port(settings.first_port()), port(settings.last_port()));
    MeetingPlan {
        wait_seconds: settings.launch_wait().as_secs(),
        interface: settings.launch_interface().map(str::to_owned),
        ports: (ports.0, ports.1.max(ports.0.saturating_add(127))),
    }
}

/// Why most things are as they are.
pub(super) const JOB_FILE: &str = "the job file says so";

impl<'a> Resolver<'a> {
    /// Begins the plan with what needs no decision.
    pub(super) fn new(spec: &'a JobSpec, settings: &'a Settings, facts: &'a SiteFacts) -> Self {
        let plan = Plan {
            format: Plan::FORMAT,
            workdir: text(&facts.workdir),
            job_file: text(&facts.job_file),
            overrides: shown_overrides(&spec.overrides),
            env_file: facts.env_file.as_deref().map(text),
            conda: spec.python.conda().cloned(),
            inherit: spec.run.inherit.clone(),
            workload: spec.workload.clone(),
            timing: spec.timing.as_ref().map(|timing| timing.value.clone()),
            interval_ms: millis(settings.monitor_interval()),
            process_interval_ms: millis(settings.process_interval()),
            daemon_socket: settings.daemon_socket().map(text),
            nvml_library: settings.nvml_library().map(text),
            record_seconds: settings.record_interval().as_secs(),
            meeting: meeting(settings),
            idle: IdlePolicy {
                advice_minutes: settings.idle_advice_minutes() as u64,
                warning_minutes: settings.idle_warning_minutes() as u64,
                cancel_after_minutes: settings.idle_cancel_after_minutes(),
            },
            cpu_binding: spec.run.bind,
            kill_wait_seconds: settings.local_kill_wait().as_secs(),
            state_dir: text(settings.state_dir()),
            dlrun: text(settings.node_dlrun().unwrap_or(&facts.dlrun)),
            ..Plan::default()
        };
        Self {
            spec,
            settings,
            facts,
            plan,
            queue: None,
            problems: vec![],
        }
    }

    /// What storage and rules come to. They give their reasons later, but other choices need to know before.
    pub(super) fn ahead(&self) -> Plan {
        let mut ahead = Resolver::new(self.spec, self.settings, self.facts);
        ahead.plan.scheduler = self.plan.scheduler;
        ahead.queue.clone_from(&self.queue);
        ahead.storage();
        ahead.rules();
        ahead.plan
    }

    /// The site as its scheduler and its configuration describe it, if the scheduler was asked.
    pub(super) fn site(&self) -> Option<SiteModel> {
        let asked = self.facts.site.as_ref();
        let model = asked.filter(|model| model.scheduler == self.plan.scheduler)?;
        Some(overlaid(model, &self.settings.tables().queues))
    }

    pub(super) fn is_local(&self) -> bool {
        self.plan.scheduler.is_local()
    }

    /// Whether nodes are looked at before the command starts: as the job file says, else as the site does.
    pub(super) fn node_check(&mut self) {
        let asked = self.spec.run.node_check;
        self.plan.node_check = asked.unwrap_or_else(|| self.settings.node_check());
        if self.plan.node_check != NodeCheck::Off {
            let why = match asked {
                Some(_) => JOB_FILE.to_owned(),
                None => format!(
                    "{} says so (`node.check`)",
                    self.settings.origin("node.check")
                ),
            };
            self.decide("node check", self.plan.node_check.as_str(), why);
        }
    }

    /// What the site does to a run while it runs: its comment is kept up to date, and it is ended where it does nothing.
    pub(super) fn attendance(&mut self) {
        let seconds = self.settings.comment_interval().as_secs();
        if seconds > 0 && self.plan.scheduler == SchedulerKind::Slurm {
            self.plan.comment_seconds = seconds.max(30);
            let origin = self.settings.origin("slurm.comment_seconds");
            let value = format!("updated every {} s at most", self.plan.comment_seconds);
            let why = format!("{origin} says so (`slurm.comment_seconds`)");
            self.decide("job comment", value, why);
        }
        if let Some(minutes) = self.plan.idle.cancel_after_minutes {
            let origin = self.settings.origin("idle.cancel_after_minutes");
            let why = format!("{origin} says so (`idle.cancel_after_minutes`)");
            self.decide(
                "end when idle",
                format!("after {minutes} min without work"),
                why,
            );
        }
    }

    /// Why something is as it is, where that was decided.
    pub(super) fn reason_of(&self, what: &str) -> Option<&str> {
        self.plan
            .decisions
            .iter()
            .find(|decision| decision.what == what)
            .map(|decision| decision.why.as_str())
    }

    pub(super) fn decide(&mut self, what: &str, value: impl Into<String>, why: impl Into<String>) {
        let (value, why) = (value.into(), why.into());
        self.plan.decisions.push(Decision {
            what: what.to_owned(),
            value,
            why,
            rejected: vec![],
        });
    }

    /// Replaces a decision that had to wait for others, in its place.
    pub(super) fn redecide(
        &mut self,
        what: &str,
        value: String,
        why: String,
        rejected: Vec<Rejected>,
    ) {
        if let Some(decision) = self
            .plan
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
        if let Some(decision) = self.plan.decisions.last_mut() {
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

fn millis(duration: std::time::Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

pub(super) fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}
