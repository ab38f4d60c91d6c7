//! A plan's resources as options of Torque's `qsub`.
//!
//! Torque takes the first of two lines for one resource, so each is written once. What was tried is of 6.1.3 with pbs_sched.

use crate::foundation::units::Bytes;
use crate::job::{DependencyKind, JobId, Mail};
use crate::launch::{Plan, PlannedDependency, PlannedResources};
use crate::scheduler::licenses;
use crate::scheduler::pbs::options::{self, Flag, clock, mail_letters, names, times_and_mail};

/// The options that say what the job needs. They go on the command line as well, so that what a site's `qsub` wrapper or
/// a filter makes of the script does not count.
pub(super) fn requested(plan: &Plan) -> Vec<Flag> {
    let resources = &plan.resources;
    let mebibytes =
        |memory: Bytes, times: u32| format!("{}mb", memory.mebibytes_up() * u64::from(times));
    // `mem` is for the whole job, so a node's share is taken as often as there are nodes; `pmem` is for one process. Not `pvmem`:
    // it limits the address space, of which a program that uses GPUs reserves far more than it has memory.
    let memory = resources
        .memory
        .map(|memory| mebibytes(memory, resources.nodes));
    let each = resources.memory_per_cpu.filter(|_| memory.is_none());
    let mut flags = names(plan);
    flags.extend(options::resources([
        ("nodes", Some(nodes(resources))),
        ("walltime", resources.walltime.map(clock)),
        ("mem", memory),
        ("pmem", each.map(|memory| mebibytes(memory, 1))),
        // What only Moab and Maui obey; licences are generic resources (`matlab:2%tape:1`). pbs_sched passes over them.
        ("qos", resources.qos.clone()),
        ("advres", resources.reservation.clone()),
        ("gres", licenses(resources, "%")),
    ]));
    if resources.exclusive {
        // pbs_sched obeys `-n` and passes over the resource, Moab and Maui the other way round.
        flags.push(Flag::alone("-n"));
        flags.push(Flag::resource("naccesspolicy", "singlejob"));
    }
    let depend = depends(resources).map(|depend| format!("depend={depend}"));
    flags.extend(options::given([("-t", array(resources)), ("-W", depend)]));
    flags.extend(times_and_mail(plan, |mail: &Mail| mail_letters(mail, "af")));
    flags
}

/// Where Torque puts what it says of the job: into the working directory, where its name is plain.
pub(super) fn output_line(plan: &Plan) -> Option<Flag> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._+-/@,=".contains(c);
    let dir = || format!("{}/", plan.workdir.trim_end_matches('/'));
    plan.workdir
        .chars()
        .all(is_plain)
        .then(|| Flag::with("-o", dir()))
}

/// `2:ppn=8:gpus=2:fast`, or `n1:ppn=8+n2:ppn=8` where nodes are named. `ppn` are the CPUs of all tasks of a node; `procs`
/// beside it would be refused.
fn nodes(resources: &PlannedResources) -> String {
    // Torque 6.1.3 puts both parts of `1:ppn=2+1:ppn=1` on one node that has room for them, and such a job never starts: each node
    // gets as much as the largest part needs.
    let even = PlannedResources {
        tasks_per_node: resources.tasks_of_nodes(resources.nodes)[0],
        tasks: None,
        ..resources.clone()
    };
    let resources = match resources.nodelist {
        None => &even,
        Some(_) => resources,
    };
    let each = |tasks| each_node(resources, tasks);
    options::nodes(resources, each, |host, each| format!("{host}{each}"))
}

/// What a node with so many tasks has.
fn each_node(resources: &PlannedResources, tasks: u32) -> String {
    let mut each = String::new();
    let cpus = u64::from(tasks) * u64::from(resources.cpus_per_task.unwrap_or(1));
    if cpus > 1 || resources.cpus_per_task.is_some() {
        each.push_str(&format!(":ppn={cpus}"));
    }
    if let Some(gpus) = &resources.gpus_per_node {
        let count = gpus
            .rsplit_once(':')
            .map_or(gpus.as_str(), |(_, count)| count);
        each.push_str(&format!(":gpus={count}"));
    }
    if let Some(properties) = &resources.constraint {
        each.push_str(&format!(":{properties}"));
    }
    each
}

/// `-t` knows lists and ranges, and no steps: `1-9:2` is a bad request.
fn array(resources: &PlannedResources) -> Option<String> {
    let array = resources.array.as_ref()?;
    let mut parts = Vec::new();
    for range in array.ranges() {
        if range.step == 1 && range.first < range.last {
            parts.push(format!("{}-{}", range.first, range.last));
        } else {
            parts.extend(range.indexes().map(|index| index.to_string()));
        }
    }
    let limit = array
        .limit
        .map(|limit| format!("%{limit}"))
        .unwrap_or_default();
    Some(format!("{}{limit}", parts.join(",")))
}

/// All conditions must hold. An array has its own words.
fn depends(resources: &PlannedResources) -> Option<String> {
    let mut all = Vec::new();
    for PlannedDependency { kind, job_ids } in &resources.depends {
        let (arrays, jobs): (Vec<&JobId>, Vec<&JobId>) =
            job_ids.iter().partition(|id| id.0.contains("[]"));
        // Torque has no `aftercorr`, which is refused before it comes here.
        let of_jobs = match kind {
            DependencyKind::AfterCorr => DependencyKind::AfterOk.as_str(),
            kind => kind.as_str(),
        };
        let of_arrays = match kind {
            DependencyKind::After => "afterstartarray".to_owned(),
            _ => format!("{of_jobs}array"),
        };
        for (word, ids) in [(of_jobs, jobs), (of_arrays.as_str(), arrays)] {
            if !ids.is_empty() {
                let ids: Vec<&str> = ids.into_iter().map(|id| id.0.as_str()).collect();
                all.push(format!("{word}:{}", ids.join(":")));
            }
        }
    }
    (!all.is_empty()).then(|| all.join(","))
}
