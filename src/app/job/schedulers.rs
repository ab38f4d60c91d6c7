//! Which schedulers are here, as far as a job's plan needs to know.

use crate::app::session::Session;
use crate::foundation::command::find;
use crate::job::{SchedulerKind, SchedulerVariables};
use crate::plan::{Rejected, SchedulerFacts};
use crate::scheduler::find::Qsub;
use crate::scheduler::slurm::OWN_VARIABLES;

/// What a look around gave.
pub(crate) struct Schedulers {
    /// The one to be taken first.
    pub(crate) found: Vec<SchedulerFacts>,
    /// What looks like a scheduler and does not take the job.
    pub(crate) passed_over: Vec<Rejected>,
}

/// Looks for schedulers. `asked` is the one that job file, setting or flag name, if any. `sbatch` takes the job before
/// any `qsub`; a `qsub` is started only where it may take the job.
pub(crate) fn look(session: &Session, asked: Option<SchedulerKind>) -> Schedulers {
    let mut schedulers = Schedulers {
        found: Vec::new(),
        passed_over: Vec::new(),
    };
    let of = SchedulerVariables::of;
    let wants_pbs = asked.is_some_and(SchedulerKind::is_pbs);
    let sbatch = session.slurm.sbatch();
    if let Some(command) = sbatch.clone() {
        let prefix = of(SchedulerKind::Slurm).and_then(|variables| variables.of_submission);
        let is_option = |name: &str| prefix.is_some_and(|prefix| name.starts_with(prefix));
        let environment = named(|name| is_option(name) && !OWN_VARIABLES.contains(&name));
        schedulers.found.push(SchedulerFacts {
            kind: SchedulerKind::Slurm,
            command,
            environment,
        });
    }
    if !wants_pbs && (asked.is_some() || sbatch.is_some()) {
        if let Some(qsub) = find("qsub", &[]).filter(|_| asked.is_none()) {
            schedulers.passed_over.push(Rejected {
                value: "torque, openpbs".to_owned(),
                why: format!(
                    "{} exists, but so does sbatch, which comes first",
                    qsub.display()
                ),
            });
        }
        return schedulers;
    }
    let (pbs, others) = session.qsubs.look(asked.unwrap_or_default());
    if let Some((kind, qsub)) = pbs.and_then(|qsub| Some((qsub.dialect.kind()?, qsub))) {
        let servers = of(kind).map_or(&[][..], |variables| variables.server);
        let environment = named(|name| servers.contains(&name));
        let facts = SchedulerFacts {
            kind,
            command: qsub.path,
            environment,
        };
        schedulers.found.insert(0, facts);
    }
    schedulers
        .passed_over
        .extend(others.iter().map(passed_over));
    schedulers
}

fn passed_over(qsub: &Qsub) -> Rejected {
    Rejected {
        value: qsub.path.display().to_string(),
        why: format!("it is {}", qsub.dialect),
    }
}

/// Variables of the environment whose names are `wanted`, sorted.
fn named(wanted: impl Fn(&str) -> bool) -> Vec<(String, String)> {
    let mut found: Vec<(String, String)> = std::env::vars_os()
        .filter_map(|(name, value)| {
            Some((
                name.into_string().ok()?,
                value.to_string_lossy().into_owned(),
            ))
        })
        .filter(|(name, _)| wanted(name))
        .collect();
    found.sort();
    found
}
