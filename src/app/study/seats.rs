//! The parts of one job, its seats, in which trials run side by side.

use std::path::Path;

use crate::app::error::{Error, failure};
use crate::app::session::Session;
use crate::foundation::cpu_list;
use crate::foundation::diagnostic::Problem;
use crate::foundation::units::{Bytes, counted};
use crate::job::{
    EnvVar, JobId, SchedulerKind, SchedulerVariables, gpus_on_node, is_part, kind_and_count,
};
use crate::launch::{Decision, GPU_VARIABLES, Plan, Seat};
use crate::learn::bench::PackedResources;
use crate::learn::sweep::Sweep;
use crate::observe::monitor::{allowed_cpus, by_place};

/// Names GPUs below the level of the others, which then count from 0 among these (ROCm, "GPU isolation techniques").
const ROCR: &str = "ROCR_VISIBLE_DEVICES";

/// The seats of the job around this process.
pub(crate) struct Seats {
    seats: Vec<(Vec<u32>, Vec<EnvVar>)>,
    /// The job, and who has it.
    pub(super) job_id: JobId,
    scheduler: SchedulerKind,
}

impl Seats {
    /// Divides this job into as many parts as trials such as `plan` run at a time. `scheduler`: who takes jobs here.
    pub(crate) fn of_this_job(
        session: &Session,
        count: u32,
        (plan, scheduler): (&Plan, SchedulerKind),
    ) -> Result<Self, Error> {
        let set = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        let mut all = SchedulerVariables::ALL.into_iter();
        let Some((its, job)) = all.find_map(|its| Some((its, set(its.job_id)?))) else {
            let error = failure!(
                Usage,
                "`--pack` runs trials side by side within a job, and this is none"
            );
            return Err(error.hinted("add --detach, which submits that job; or run the command inside of one (`sbatch`, `qsub`); with the local scheduler --max-jobs is enough"));
        };
        if its.node.is_some_and(|name| set(name).is_none()) {
            let error = failure!(Usage, "this machine is no node of job {job}");
            return Err(error.hinted(
                "run the command on its node: `srun --pty dlrun sweep run ...` within `salloc`",
            ));
        }
        let scheduler = match its.kinds.contains(&scheduler) {
            true => scheduler,
            false => its.kinds.first().copied().unwrap_or_default(),
        };
        let resources = &plan.resources;
        let each = resources.cpus_per_task.unwrap_or(1) as usize;
        let cpus = by_place(allowed_cpus().unwrap_or_default(), Path::new("/sys"));
        let cpus: Vec<u32> = cpus
            .into_iter()
            .filter_map(|cpu| u32::try_from(cpu).ok())
            .collect();
        if cpus.len() < each.saturating_mul(count as usize) {
            let (has, asked) = (counted(cpus.len() as u64, "CPU"), each * count as usize);
            let warning = format!("job {job} has {has} here, and {count} trials ask for {asked}");
            session.warning(&warning);
        }
        let cpus = parts_of_cpus(&cpus, each, count as usize, resources.exclusive);
        let named = GPU_VARIABLES.map(|name| (name, std::env::var(name).unwrap_or_default()));
        let gpus =
            parts_of_gpus(&named, gpus_of(plan) as usize, count as usize).map_err(|why| {
                let error = failure!(Missing, "the GPUs of job {job} cannot be divided: {why}");
                error.hinted(format!(
                    "such a trial needs {}, and there are {count} at a time",
                    counted(gpus_of(plan).into(), "GPU")
                ))
            })?;
        Ok(Self {
            seats: cpus.into_iter().zip(gpus).collect(),
            job_id: JobId(job),
            scheduler,
        })
    }

    /// The first seat that is not taken.
    pub(crate) fn free(&self, is_taken: impl Fn(u32) -> bool) -> Option<u32> {
        (0..u32::try_from(self.seats.len()).ok()?).find(|number| !is_taken(*number))
    }

    /// Gives a seat to a trial.
    pub(crate) fn give(&self, number: u32, plan: &mut Plan) {
        let Some((cpus, gpus)) = self.seats.get(number as usize) else {
            return;
        };
        let mut has: Vec<String> = gpus
            .iter()
            .map(|gpu| format!("{}={}", gpu.name, gpu.value))
            .collect();
        has.insert(
            0,
            match cpus.is_empty() {
                true => "all CPUs of the job".to_owned(),
                false => format!("CPUs {}", cpu_list::shown(cpus)),
            },
        );
        plan.decisions.push(Decision {
            what: "seat".to_owned(),
            value: has.join(", "),
            why: format!(
                "part {} of {} of job {}",
                number + 1,
                self.seats.len(),
                self.job_id.0
            ),
            rejected: Vec::new(),
        });
        plan.env.extend(gpus.iter().cloned());
        // Those of the whole job, as this process has them, are no part of what the trial is.
        if let Some(identity) = &mut plan.identity {
            let names_gpus = |word: &String| {
                let name = word
                    .strip_prefix('$')
                    .and_then(|word| word.split('=').next());
                name.is_some_and(|name| GPU_VARIABLES.contains(&name))
            };
            identity.words.retain(|word| !names_gpus(word));
        }
        plan.seat = Some(Seat {
            number,
            cpus: cpus.clone(),
            job_id: self.job_id.clone(),
            scheduler: self.scheduler,
        });
    }
}

fn gpus_of(plan: &Plan) -> u32 {
    let resources = &plan.resources;
    let (node, task) = (&resources.gpus_per_node, &resources.gpus_per_task);
    let gpus = gpus_on_node(node.as_deref(), task.as_deref(), 1);
    gpus.map_or(0, |gpus| kind_and_count(&gpus).1)
}

/// CPUs, in the order of their places, for each seat. They are divided where they are known to be the job's own: as many as it asked for,
/// or an exclusive node.
fn parts_of_cpus(cpus: &[u32], each: usize, count: usize, is_exclusive: bool) -> Vec<Vec<u32>> {
    let asked = each * count;
    let is_own = cpus.len() == asked || (is_exclusive && cpus.len() > asked);
    match is_own {
        true => cpus
            .chunks(cpus.len() / count)
            .take(count)
            .map(<[u32]>::to_vec)
            .collect(),
        false => vec![Vec::new(); count],
    }
}

/// The variables by which each seat sees its own GPUs of those that the job's variables name.
fn parts_of_gpus(
    named: &[(&str, String)],
    each: usize,
    count: usize,
) -> Result<Vec<Vec<EnvVar>>, String> {
    if each == 0 {
        return Ok(vec![Vec::new(); count]);
    }
    let set: Vec<(&str, Vec<&str>)> = named
        .iter()
        .filter(|(_, value)| !value.trim().is_empty())
        .map(|(name, value)| (*name, value.split(',').map(str::trim).collect()))
        .collect();
    if set.is_empty() {
        return Err(format!("it has none of {}", GPU_VARIABLES.join(", ")));
    }
    let has_rocr = set.iter().any(|(name, _)| *name == ROCR);
    let seat = |number: usize| {
        let of_variable = |(name, gpus): &(&str, Vec<&str>)| {
            let part = gpus
                .get(number * each..(number + 1) * each)
                .ok_or_else(|| format!("{name}={} is too few", gpus.join(",")))?;
            let renumbered = has_rocr && *name != ROCR;
            let value = match renumbered {
                true => (0..each).map(|gpu| gpu.to_string()).collect::<Vec<_>>(),
                false => part.iter().map(|gpu| (*gpu).to_owned()).collect(),
            };
            Ok(EnvVar {
                name: (*name).to_owned(),
                value: value.join(","),
            })
        };
        set.iter().map(of_variable).collect()
    };
    (0..count).map(seat).collect()
}

/// What `count` such trials need.
pub(crate) fn packed_resources(count: u32, plan: &Plan) -> PackedResources {
    let resources = &plan.resources;
    let gpus = [&resources.gpus_per_node, &resources.gpus_per_task];
    let gpus = gpus.into_iter().flatten().next();
    PackedResources {
        cpus: resources.cpus_per_task.unwrap_or(1).saturating_mul(count),
        memory: resources
            .memory
            .map(|memory| Bytes(memory.0.saturating_mul(count.into()))),
        // So many tasks of one node have as many together.
        gpus: gpus.and_then(|gpus| gpus_on_node(None, Some(gpus), count)),
    }
}

/// Refuses trials that cannot be some of several in a job.
pub(crate) fn check_packable(sweep: &Sweep, plan: &Plan) -> Result<(), Problem> {
    let mut space = sweep.space.iter();
    if let Some(differs) = space.find(|one| one.name.starts_with("resources.")) {
        let message = format!(
            "`--pack`: all parts of a job are alike, and `{}` differs",
            differs.name
        );
        let problem = Problem::at(differs.span(), message);
        let hint = "leave --pack out, or this parameter";
        return Err(problem.hinted(hint));
    }
    let resources = &plan.resources;
    let gpus = [&resources.gpus_per_node, &resources.gpus_per_task];
    let names_gpus = |variable: &EnvVar| GPU_VARIABLES.contains(&variable.name.as_str());
    let (what, hint) = if resources.nodes != 1 || resources.spares > 0 {
        (
            "a packed trial has one node",
            "leave --pack out, or ask for one node",
        )
    } else if resources.tasks_per_node > 1 {
        (
            "a packed trial has one task",
            "leave --pack out, or let one process start the others, as `launcher = \"torchrun\"` does",
        )
    } else if resources.cpus_per_task.is_none() {
        (
            "`resources.cpus_per_task` is missing, so nobody knows how many CPUs the job needs for all trials",
            "add it",
        )
    } else if gpus.into_iter().flatten().any(|gpus| is_part(gpus)) {
        (
            "a job with parts of GPUs is not divided further",
            "ask for whole GPUs, or leave --pack out",
        )
    } else if plan.env.iter().any(names_gpus) {
        (
            "`run.env` names the GPUs, and with --pack dlrun does that",
            "leave that variable out",
        )
    } else {
        return Ok(());
    };
    Err(Problem::of_file(format!("`--pack`: {what}")).hinted(hint))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpus_are_divided_where_they_are_the_jobs_own() {
        let cpus = [0, 4, 1, 5, 2, 6, 3, 7];
        let halves = [vec![0, 4, 1, 5], vec![2, 6, 3, 7]];
        assert_eq!(parts_of_cpus(&cpus, 4, 2, false), halves);
        // An exclusive node has more than was asked for.
        assert_eq!(parts_of_cpus(&cpus, 2, 2, true), halves);
        let thirds = parts_of_cpus(&cpus, 1, 3, true);
        assert_eq!(thirds, [vec![0, 4], vec![1, 5], vec![2, 6]]);
        // More than the job's: who has the others is not known.
        let none = [const { Vec::<u32>::new() }; 2];
        assert_eq!(parts_of_cpus(&cpus, 2, 2, false), none);
        assert_eq!(parts_of_cpus(&[0], 2, 2, true), none);
    }

    #[test]
    fn each_seat_sees_its_own_gpus() {
        let of = |named: &[(&str, &str)], each, count| {
            let named: Vec<(&str, String)> = named
                .iter()
                .map(|(name, value)| (*name, (*value).to_owned()))
                .collect();
            let parts = parts_of_gpus(&named, each, count)?;
            let shown = |part: Vec<EnvVar>| {
                let all = part.iter().map(|gpu| format!("{}={}", gpu.name, gpu.value));
                all.collect::<Vec<_>>().join(" ")
            };
            Ok::<_, String>(parts.into_iter().map(shown).collect::<Vec<_>>())
        };
        let cuda = [("CUDA_VISIBLE_DEVICES", "0,1,GPU-ab,3")];
        assert_eq!(
            of(&cuda, 2, 2).expect("enough"),
            ["CUDA_VISIBLE_DEVICES=0,1", "CUDA_VISIBLE_DEVICES=GPU-ab,3"]
        );
        assert!(of(&cuda, 2, 3).is_err() && of(&[], 1, 1).is_err());
        assert_eq!(of(&[], 0, 2).expect("none is needed"), ["", ""]);
        let both = [
            ("CUDA_VISIBLE_DEVICES", "0,1"),
            ("ROCR_VISIBLE_DEVICES", "4,5"),
        ];
        assert_eq!(
            of(&both, 1, 2).expect("enough"),
            [
                "CUDA_VISIBLE_DEVICES=0 ROCR_VISIBLE_DEVICES=4",
                "CUDA_VISIBLE_DEVICES=0 ROCR_VISIBLE_DEVICES=5"
            ]
        );
    }
}
