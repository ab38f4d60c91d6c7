//! This machine as job files see it.

use super::Local;
use crate::foundation::diagnostic::Problem;
use crate::job::{Launcher, SchedulerKind};
use crate::scheduler::adapter::{Adapter, Asked, Findings, Lack};
use crate::scheduler::{Reach, Scheduler};

/// This machine.
pub struct Known;

const fn lack(key: &'static str, why: &'static str, instead: &'static str) -> Lack {
    Lack { key, why, instead }
}

const LACKS: [Lack; 5] = [
    lack(
        "array",
        "a local job has no elements",
        "start the command in a loop, or submit to a cluster",
    ),
    lack(
        "depends",
        "a local job waits for no other",
        "`dlrun wait RUN && dlrun submit JOB_FILE` does it",
    ),
    lack(
        "begin",
        "a local job begins as soon as this machine has room for it",
        "`at` starts programs later",
    ),
    lack(
        "mail",
        "a local job sends no mail",
        "`dlrun submit --wait` ends with the job",
    ),
    lack(
        "licenses",
        "a local job takes no licences",
        "take the line out, or submit to a cluster",
    ),
];

impl Adapter for Known {
    fn kind(&self) -> SchedulerKind {
        SchedulerKind::Local
    }

    fn name(&self) -> &'static str {
        "this machine"
    }

    fn open(&'static self, reach: Reach) -> Box<dyn Scheduler> {
        Box::new(Local(reach))
    }

    fn lacks(&self) -> &'static [Lack] {
        &LACKS
    }

    fn check(&self, asked: &Asked<'_>, found: &mut Findings) {
        let run = &asked.spec.run;
        if asked.launcher == Launcher::Mpi && !asked.has_mpirun && run.modules.is_empty() {
            let message =
                "`run.launcher = \"mpi\"` starts `mpirun` on this machine, and it is not in PATH";
            found.problems.push(Problem {
                span: run.launcher.as_ref().map(|launcher| launcher.span.clone()),
                message: message.to_owned(),
                hint: Some("install an MPI, or name its module in `run.modules`".to_owned()),
            });
        }
    }
}
