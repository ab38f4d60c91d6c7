//! The schedulers whose commands are here, and which of them takes jobs that do not say.

use std::path::Path;
use std::time::Duration;

use super::Finding;
use crate::app::job::schedulers;
use crate::app::session::Session;
use crate::foundation::command::Tool;
use crate::foundation::diagnostic::chain;
use crate::job::SchedulerKind;
use crate::scheduler::find::{Dialect, Qsub};

const CHECK: &str = "scheduler";
const QSUB: &str = "qsub";
/// How long a program may take to say its version.
const PATIENCE: Duration = Duration::from_secs(5);

/// The cluster that takes jobs that do not say, and what there is; `None`: this machine takes them.
pub(super) fn taker_and_findings(session: &Session) -> (Option<SchedulerKind>, Vec<Finding>) {
    let sbatch = session.slurm.sbatch();
    let asked = Some(session.settings.scheduler()).filter(|kind| *kind != SchedulerKind::Auto);
    let here = schedulers::look(session, asked).found;
    let found = here.first().map(|found| found.kind);
    let kind = asked.or(found).unwrap_or(SchedulerKind::Local);
    let is_missing = !kind.is_local() && here.iter().all(|found| found.kind != kind);
    let pbs = asked.filter(|kind| kind.is_pbs()).unwrap_or_default();
    let (pbs, others) = session.qsubs.look(pbs);
    let mut findings = Vec::new();
    if is_missing {
        findings.push(missing(kind));
    } else if kind.is_local() {
        let why = if asked.is_some() {
            "the setting `scheduler.kind` is local"
        } else {
            "no `sbatch`, no PBS"
        };
        findings.push(Finding::ok(
            CHECK,
            format!("{why}, so jobs run on this machine"),
        ));
    }
    findings.extend(sbatch.as_deref().map(|sbatch| slurm(sbatch, kind)));
    findings.extend(
        others
            .iter()
            .chain(&pbs)
            .map(|qsub| qsub_finding(qsub, kind)),
    );
    let cluster = Some(kind).filter(|kind| !kind.is_local() && !is_missing);
    (cluster, findings)
}

fn missing(kind: SchedulerKind) -> Finding {
    let (word, program) = (kind.as_str(), if kind.is_pbs() { "qsub" } else { "sbatch" });
    Finding::problem(
        CHECK,
        format!("the setting `scheduler.kind` is {word}, and there is no `{program}` of it"),
        format!("load its module, or name its directory with the setting `{word}.bin_dir`"),
    )
}

fn slurm(sbatch: &Path, taker: SchedulerKind) -> Finding {
    if taker != SchedulerKind::Slurm {
        let text = format!(
            "{} exists; jobs go to {} by default",
            sbatch.display(),
            taker.as_str()
        );
        return Finding::ok("sbatch", text);
    }
    let version = Tool::new(sbatch).arg("--version").timeout(PATIENCE).run();
    match version.and_then(|output| output.require_success("sbatch")) {
        Ok(output) => Finding::ok(
            CHECK,
            format!("{}, {}", output.stdout.trim(), sbatch.display()),
        ),
        Err(error) => Finding::warning(
            CHECK,
            format!(
                "{} does not work: {}",
                sbatch.display(),
                chain(&error).join(": ")
            ),
            "`--scheduler local` runs a job on this machine",
        ),
    }
}

fn qsub_finding(qsub: &Qsub, taker: SchedulerKind) -> Finding {
    let text = format!("{}, {}", qsub.dialect, qsub.path.display());
    match &qsub.dialect {
        dialect if dialect.kind() == Some(taker) => Finding::ok(CHECK, text),
        Dialect::Pbs(..) => Finding::ok(
            QSUB,
            format!("{text}; jobs go to {} by default", taker.as_str()),
        ),
        Dialect::SlurmWrapper if taker == SchedulerKind::Slurm => Finding::ok(QSUB, text),
        Dialect::SlurmWrapper => Finding::warning(
            QSUB,
            text,
            "load Slurm's module: `sbatch` takes the same jobs, and right",
        ),
        Dialect::Other(_) => Finding::ok(QSUB, text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::app::doctor::Level;

    #[test]
    fn a_qsub_is_told_with_what_it_is() {
        let of = |dialect: Dialect, taker| {
            qsub_finding(
                &Qsub {
                    path: "/usr/bin/qsub".into(),
                    dialect,
                },
                taker,
            )
        };
        let torque = || Dialect::Pbs(SchedulerKind::Torque, "6.1.3".into());
        let taken = of(torque(), SchedulerKind::Torque);
        assert_eq!(
            (taken.check, taken.text.as_str()),
            ("scheduler", "Torque 6.1.3, /usr/bin/qsub")
        );
        let beside = of(torque(), SchedulerKind::Slurm);
        assert!(
            beside.check == "qsub" && beside.text.ends_with("jobs go to slurm by default"),
            "{beside:?}"
        );
        assert_eq!(
            of(Dialect::SlurmWrapper, SchedulerKind::Slurm).level,
            Level::Ok
        );
        assert_eq!(
            of(Dialect::SlurmWrapper, SchedulerKind::Local).level,
            Level::Warning
        );
        assert!(missing(SchedulerKind::OpenPbs).text.contains("no `qsub`"));
    }
}
