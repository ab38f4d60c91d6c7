//! A plan's resources as options of `qsub`, once as `#PBS` lines and once for the command line.

use crate::job::{IndexRange, Mail};
use crate::launch::{Plan, PlannedResources};
use crate::scheduler::depends;
use crate::scheduler::pbs::options::{self, Flag, clock, mail_letters, names, times_and_mail};

/// The options that say what the job needs. They go on the command line as well: what is there beats `#PBS` lines,
/// and the site's `default_qsub_arguments` beat neither.
pub(super) fn requested(plan: &Plan) -> Vec<Flag> {
    let resources = &plan.resources;
    let mut flags = names(plan);
    // A reservation has a queue of its name, and the plan has no other queue beside it.
    flags.extend(options::given([("-q", resources.reservation.clone())]));
    flags.extend(options::resources([
        ("select", Some(select(resources))),
        ("place", place(resources)),
        ("walltime", resources.walltime.map(clock)),
    ]));
    let licenses = resources.licenses.iter();
    flags.extend(licenses.map(|(name, count)| Flag::resource(name, count)));
    let array = resources.array.as_ref();
    let array = array.and_then(|array| Some(indexes((array.single_range()?, array.limit))));
    let depend = depends(resources).map(|depend| format!("depend={depend}"));
    flags.extend(options::given([("-J", array), ("-W", depend)]));
    if resources.spares > 0 {
        // Else OpenPBS ends a job that loses a node.
        flags.push(Flag::with("-W", "tolerate_node_failures=all"));
    }
    flags.extend(times_and_mail(plan, |mail: &Mail| mail_letters(mail, "a")));
    flags
}

/// `2:ncpus=8:mpiprocs=4:ngpus=2:mem=65536mb`: a chunk is what the job gets on one node, so there are as many as
/// nodes. Named nodes have a chunk each.
fn select(resources: &PlannedResources) -> String {
    let with_spares = PlannedResources {
        nodes: resources.nodes + resources.spares,
        ..resources.clone()
    };
    let chunk = |tasks| chunk(resources, tasks);
    options::nodes(&with_spares, chunk, |host, chunk| {
        format!("1{chunk}:host={host}")
    })
}

/// What a node with so many tasks has.
fn chunk(resources: &PlannedResources, tasks: u32) -> String {
    let mut chunk = String::new();
    let mut add = |name: &str, value: Option<String>| {
        if let Some(value) = value {
            chunk.push_str(&format!(":{name}={value}"));
        }
    };
    let cpus = tasks.saturating_mul(resources.cpus_per_task.unwrap_or(1));
    let asks_cpus = resources.cpus_per_task.is_some() || tasks > 1;
    add("ncpus", asks_cpus.then(|| cpus.to_string()));
    add("mpiprocs", (tasks > 1).then(|| tasks.to_string()));
    // OMP_NUM_THREADS would be the chunk's `ncpus` otherwise.
    add(
        "ompthreads",
        resources
            .cpus_per_task
            .filter(|_| tasks > 1)
            .map(|cpus| cpus.to_string()),
    );
    add("ngpus", resources.gpus_per_node.clone());
    let per_cpu = resources
        .memory_per_cpu
        .map(|memory| memory.mebibytes_up().saturating_mul(u64::from(cpus)));
    let memory = resources
        .memory
        .map(|memory| memory.mebibytes_up())
        .or(per_cpu);
    add("mem", memory.map(|memory| format!("{memory}mb")));
    for part in resources
        .constraint
        .iter()
        .flat_map(|constraint| constraint.split(':'))
    {
        let (name, value) = part.split_once('=').unwrap_or((part, "True"));
        add(name, Some(value.to_owned()));
    }
    chunk
}

/// `scatter`: chunks that fit would else share a node. `exclhost`: the whole host, not only its virtual node.
fn place(resources: &PlannedResources) -> Option<String> {
    match (resources.nodes > 1, resources.exclusive) {
        (true, true) => Some("scatter:exclhost".to_owned()),
        (true, false) => Some("scatter".to_owned()),
        (false, true) => Some("exclhost".to_owned()),
        (false, false) => None,
    }
}

/// `0-99:2%8`. A range must have two ends: `7-8:2` is 7 alone.
fn indexes((range, limit): (IndexRange, Option<u32>)) -> String {
    let first = range.first;
    let range = match first == range.last {
        true => format!("{first}-{}:2", first + 1),
        false => range.to_string(),
    };
    limit.map_or(range.clone(), |limit| format!("{range}%{limit}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::foundation::units::Bytes;
    use crate::job::{ArraySpec, DependencyKind, JobId};
    use crate::launch::PlannedDependency;

    fn bare() -> PlannedResources {
        let json = serde_json::json!({ "nodes": 1, "tasks_per_node": 1, "exclusive": false });
        serde_json::from_value(json).expect("all else may be absent")
    }

    #[test]
    fn chunks_are_nodes() {
        let full = PlannedResources {
            nodes: 2,
            tasks_per_node: 4,
            cpus_per_task: Some(2),
            gpus_per_node: Some("2".into()),
            memory: Some(Bytes(64 << 30)),
            constraint: Some("fast:model=a100".into()),
            ..bare()
        };
        let expected = "2:ncpus=8:mpiprocs=4:ompthreads=2:ngpus=2:mem=65536mb:fast=True:model=a100";
        assert_eq!(select(&full), expected);
        assert_eq!(select(&bare()), "1");
        let tasks = PlannedResources {
            tasks_per_node: 4,
            memory_per_cpu: Some(Bytes(2 << 30)),
            ..bare()
        };
        assert_eq!(select(&tasks), "1:ncpus=4:mpiprocs=4:mem=8192mb");
        let uneven = PlannedResources {
            nodes: 3,
            tasks: Some(5),
            tasks_per_node: 2,
            cpus_per_task: Some(4),
            ..bare()
        };
        let expected = "2:ncpus=8:mpiprocs=2:ompthreads=4+1:ncpus=4";
        assert_eq!(select(&uneven), expected);
        let named = PlannedResources {
            nodes: 2,
            cpus_per_task: Some(8),
            nodelist: Some("n1,n2".into()),
            ..bare()
        };
        assert_eq!(select(&named), "1:ncpus=8:host=n1+1:ncpus=8:host=n2");
        let with_spare = PlannedResources {
            nodes: 2,
            spares: 1,
            ..bare()
        };
        assert_eq!(select(&with_spare), "3");
    }

    #[test]
    fn nodes_are_different_ones() {
        let with = |nodes, exclusive| {
            place(&PlannedResources {
                nodes,
                exclusive,
                ..bare()
            })
        };
        assert_eq!(with(2, false).as_deref(), Some("scatter"));
        assert_eq!(with(2, true).as_deref(), Some("scatter:exclhost"));
        assert_eq!(with(1, true).as_deref(), Some("exclhost"));
        assert_eq!(with(1, false), None);
    }

    #[test]
    fn arrays_have_two_ends() {
        for (asked, expected) in [
            ("0-99%8", "0-99%8"),
            ("1,3,5", "1-5:2"),
            ("7", "7-8:2"),
            ("0-98:2", "0-98:2"),
            ("7%1", "7-8:2%1"),
        ] {
            let array = ArraySpec::parse(asked).expect("valid");
            let range = array.single_range().expect("one range");
            assert_eq!(indexes((range, array.limit)), expected, "{asked}");
        }
    }

    #[test]
    fn conditions_of_a_kind_stand_together() {
        let depend = |kind, id: &str| PlannedDependency {
            kind,
            job_ids: vec![JobId(id.into())],
        };
        let depends_on = vec![
            depend(DependencyKind::AfterOk, "14.s"),
            depend(DependencyKind::AfterAny, "10[].s"),
            depend(DependencyKind::AfterOk, "15.s"),
        ];
        let resources = PlannedResources {
            depends: depends_on,
            ..bare()
        };
        assert_eq!(
            depends(&resources).as_deref(),
            Some("afterany:10[].s,afterok:14.s:15.s")
        );
    }
}
