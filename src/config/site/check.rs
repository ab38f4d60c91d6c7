//! A job against a site, before anything is queued.
//!
//! Schedulers take jobs that can never start (Slurm queues one of nine nodes in a queue of four), so what cannot be is
//! reported here, with the site's numbers. What the site did not report is not checked.

use super::misfit::{Misfit, Place};
use super::node::{features_of, shown_list, shown_names};
use super::overlay::by_whom;
use super::{Queue, SiteModel, Wanted, constraint, node};
use crate::config::QueueTable;
use crate::foundation::diagnostic::nearest;
use crate::foundation::units::Walltime;

/// A time limit, in days too where it is long.
fn shown_time(time: Walltime) -> String {
    const DAY: u64 = 86_400;
    if time.0 >= 2 * DAY && time.0.is_multiple_of(DAY) {
        format!("{time} ({} days)", time.0 / DAY)
    } else {
        time.to_string()
    }
}

/// Holds a job against a site. Nothing is amiss where the list is empty. `tables` are what the configuration says of
/// queues; they are laid over the model already ([`super::overlaid`]) and are named where a limit is theirs.
#[must_use]
pub fn check(wanted: &Wanted<'_>, model: &SiteModel, tables: &[QueueTable]) -> Vec<Misfit> {
    let mut misfits = licenses(wanted, model);
    misfits.extend(unknown_features(wanted, model));
    misfits.extend(too_many_elements(wanted, model));
    let (places, unknown) = places(wanted, model);
    // A feature that is nowhere would be missed by each place again.
    let known = misfits.iter().all(|misfit| misfit.key != "constraint");
    let wanted = &Wanted {
        constraint: wanted.constraint.filter(|_| known),
        ..*wanted
    };
    misfits.extend(unknown);
    let tried = places.iter().map(|place| at(place, wanted, model, tables));
    // Of several queues one that takes the job is enough.
    let mut found = tried.min_by_key(Vec::len).unwrap_or_default();
    if let Some(first) = found.first_mut() {
        let others = takers(wanted, model, &places);
        if !others.is_empty() {
            first.hint_too(&format!("it would fit {}", shown_list(others)));
        }
    }
    misfits.extend(found);
    misfits
}

/// The places that the job names, else the queue of jobs that name none, else all of them; and what is wrong with the
/// names.
fn places<'a>(wanted: &Wanted<'_>, model: &'a SiteModel) -> (Vec<Place<'a>>, Option<Misfit>) {
    if model.queues.is_empty() {
        return (vec![Place(None)], None);
    }
    let Some(names) = wanted.queue else {
        let has_default = model.queues.iter().any(|queue| queue.is_default);
        let fits = |queue: &&Queue| queue.is_default || !has_default;
        let queues = model.queues.iter().filter(fits);
        return (queues.map(|queue| Place(Some(queue))).collect(), None);
    };
    let mut places = Vec::new();
    for name in names.split(',') {
        // `queue@server` is of another server, of which nothing is known here.
        if name.contains('@') {
            return (Vec::new(), None);
        }
        match model.queues.iter().find(|queue| queue.name == name) {
            Some(queue) => places.push(Place(Some(queue))),
            None => return (vec![Place(None)], Some(no_queue(name, model))),
        }
    }
    (places, None)
}

fn no_queue(name: &str, model: &SiteModel) -> Misfit {
    let names: Vec<&str> = model
        .queues
        .iter()
        .map(|queue| queue.name.as_str())
        .collect();
    let misfit = Misfit::new("queue", format!("there is no queue `{name}`"));
    misfit.hinted(there_are(name, &names))
}

/// What there is in place of a name.
fn there_are(name: &str, names: &[&str]) -> String {
    let there = shown_names(names.iter().copied());
    match nearest(name, names.iter().copied()) {
        Some(near) => format!("did you mean `{near}`? there are {there}"),
        None => format!("there are {there}"),
    }
}

/// Queues that would take the job, as text; those that the job tries already are left out.
fn takers(wanted: &Wanted<'_>, model: &SiteModel, tried: &[Place<'_>]) -> Vec<String> {
    let others = model.queues.iter().filter(|queue| {
        let was_tried = tried
            .iter()
            .any(|place| place.0.is_none_or(|tried| tried.name == queue.name));
        queue.is_up && !was_tried && at(&Place(Some(queue)), wanted, model, &[]).is_empty()
    });
    others
        .map(|queue| format!("queue `{}`", queue.name))
        .collect()
}

/// What is amiss at one place.
fn at(
    place: &Place<'_>,
    wanted: &Wanted<'_>,
    model: &SiteModel,
    tables: &[QueueTable],
) -> Vec<Misfit> {
    let mut misfits = place
        .0
        .map(|queue| limits(queue, wanted, tables))
        .unwrap_or_default();
    let beyond = misfits.iter().any(|misfit| misfit.key == "nodes");
    let nodes = node::misfits(model, place, wanted);
    misfits.extend(
        nodes
            .into_iter()
            .filter(|misfit| !(beyond && misfit.key == "nodes")),
    );
    misfits
}

/// The queue's own rules.
fn limits(queue: &Queue, wanted: &Wanted<'_>, tables: &[QueueTable]) -> Vec<Misfit> {
    let mut misfits = Vec::new();
    let name = &queue.name;
    if queue.is_closed {
        let closed = Misfit::new("queue", format!("queue `{name}` takes no jobs at present"));
        misfits.push(closed.hinted("`--no-check` hands the job over all the same"));
    }
    if let Some(account) = wanted.account {
        let allowed = |known: &String| known.eq_ignore_ascii_case(account);
        if !queue.accounts.is_empty() && !queue.accounts.iter().any(allowed) {
            let those = shown_names(queue.accounts.iter().map(String::as_str));
            let by = by_whom(tables, queue, |table| table.accounts.is_some());
            let message = format!("account `{account}` may not use queue `{name}`{by}");
            let misfit = Misfit::new("account", message);
            misfits.push(misfit.hinted(format!("these may: {those}")));
        }
    }
    // A QOS may lift a queue's limits on time and nodes (`sacctmgr(1)`: PartitionTimeLimit and its like).
    if wanted.qos.is_some() {
        return misfits;
    }
    if let (Some(walltime), Some(most)) = (wanted.walltime, queue.max_walltime)
        && walltime > most
    {
        let by = by_whom(tables, queue, |table| table.max_walltime.is_some());
        let (asked, most) = (shown_time(walltime), shown_time(most));
        let message =
            format!("{asked} is more than queue `{name}` allows; its limit is {most}{by}");
        misfits.push(Misfit::new("walltime", message));
    }
    let nodes = wanted.nodes;
    if let Some(most) = queue.max_nodes.filter(|most| nodes > *most) {
        let by = by_whom(tables, queue, |table| table.max_nodes.is_some());
        let message = format!(
            "{nodes} nodes are more than queue `{name}` gives one job; its limit is {most}{by}"
        );
        misfits.push(Misfit::new("nodes", message));
    }
    if let Some(least) = queue.min_nodes.filter(|least| nodes < *least) {
        let by = by_whom(tables, queue, |table| table.min_nodes.is_some());
        let message = format!(
            "queue `{name}` is for jobs of {least} nodes and more{by}; this one asks for {nodes}"
        );
        misfits.push(Misfit::new("nodes", message));
    }
    misfits
}

fn licenses(wanted: &Wanted<'_>, model: &SiteModel) -> Vec<Misfit> {
    // A site that names none may have them all the same, by a licence server.
    if model.licenses.is_empty() {
        return Vec::new();
    }
    let mut misfits = Vec::new();
    for (name, count) in wanted.licenses {
        match model.licenses.iter().find(|(known, _)| known == name) {
            Some((_, all)) if count > all => {
                let message = format!("{count} licences `{name}` are asked for; there are {all}");
                misfits.push(Misfit::new("licenses", message));
            }
            Some(_) => {}
            None => {
                let there = shown_names(model.licenses.iter().map(|(name, _)| name.as_str()));
                let misfit = Misfit::new("licenses", format!("there is no licence `{name}`"));
                misfits.push(misfit.hinted(format!("there are {there}")));
            }
        }
    }
    misfits
}

fn too_many_elements(wanted: &Wanted<'_>, model: &SiteModel) -> Option<Misfit> {
    let most = model.max_array_elements?;
    let asked = wanted.elements.filter(|asked| *asked > u64::from(most))?;
    let message = format!("its array has {asked} elements; the most of one array here is {most}");
    Some(Misfit::new("array", message).hinted("split it into several jobs"))
}

fn unknown_features(wanted: &Wanted<'_>, model: &SiteModel) -> Option<Misfit> {
    let asked = wanted.constraint.filter(|_| !model.nodes.is_empty())?;
    let unknown = *constraint::unknown(&model.nodes, asked).first()?;
    let features: Vec<&str> = features_of(model.nodes.iter()).into_iter().collect();
    let misfit = Misfit::new(
        "constraint",
        format!("no node of the site has the feature `{unknown}`"),
    );
    Some(match features.is_empty() {
        true => misfit.hinted("no node has features"),
        false => misfit.hinted(there_are(unknown, &features)),
    })
}

/// Says that a job that fits starts at no time that anybody knows: its queues take jobs and start none.
#[must_use]
pub fn pause(wanted: &Wanted<'_>, model: &SiteModel) -> Option<String> {
    let (places, _) = places(wanted, model);
    let queues: Option<Vec<&Queue>> = places.iter().map(|place| place.0).collect();
    let paused =
        queues.filter(|queues| !queues.is_empty() && queues.iter().all(|queue| !queue.is_up))?;
    let names = shown_names(paused.iter().map(|queue| queue.name.as_str()));
    Some(format!(
        "queue {names} starts no jobs at present: the job waits until the site opens it"
    ))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::config::site::NodeType;
    use crate::foundation::units::Bytes;
    use crate::job::SchedulerKind;

    const HOUR: u64 = 3600;

    fn model(queues: Vec<Queue>, nodes: Vec<NodeType>) -> SiteModel {
        SiteModel {
            format: SiteModel::FORMAT,
            scheduler: SchedulerKind::Slurm,
            version: None,
            asked_at_ms: 0,
            accounting: None,
            accounts_memory: None,
            max_array_index: Some(1000),
            max_array_elements: None,
            queues,
            nodes,
            licenses: vec![("matlab".into(), 4)],
            mpi: None,
        }
    }

    /// Two nodes with eight h100 each, four large ones without; a short queue, one of CPUs, one of GPUs.
    fn site() -> SiteModel {
        let queue = |name: &str| Queue {
            name: name.into(),
            is_up: true,
            ..Queue::default()
        };
        let node =
            |queues: &[&str], count, cpus, gib: u64, gpus: &[(&str, u32)], features: &[&str]| {
                NodeType {
                    queues: queues.iter().map(|name| (*name).to_owned()).collect(),
                    count,
                    up: count,
                    cpus: Some(cpus),
                    sockets: None,
                    memory: Some(Bytes(gib << 30)),
                    gpus: gpus
                        .iter()
                        .map(|(kind, count)| ((*kind).to_owned(), *count))
                        .collect(),
                    features: features.iter().map(|name| (*name).to_owned()).collect(),
                }
            };
        model(
            vec![
                Queue {
                    is_default: true,
                    max_walltime: Some(Walltime(48 * HOUR)),
                    ..queue("cpu")
                },
                Queue {
                    max_walltime: Some(Walltime(168 * HOUR)),
                    max_nodes: Some(2),
                    accounts: vec!["proj".into()],
                    ..queue("gpu")
                },
                Queue {
                    min_nodes: Some(2),
                    ..queue("wide")
                },
                Queue {
                    is_up: false,
                    is_closed: true,
                    ..queue("old")
                },
                Queue {
                    is_up: false,
                    ..queue("paused")
                },
            ],
            vec![
                node(
                    &["cpu", "wide", "old", "paused"],
                    4,
                    64,
                    256,
                    &[],
                    &["epyc", "eth"],
                ),
                node(
                    &["gpu", "wide"],
                    2,
                    16,
                    128,
                    &[("h100", 8)],
                    &["h100", "ib"],
                ),
            ],
        )
    }

    /// The first fault of a job, as `key: message; hint`.
    fn fault(wanted: &Wanted<'_>) -> String {
        let misfits = check(wanted, &site(), &[]);
        let Some(misfit) = misfits.into_iter().next() else {
            return "none".to_owned();
        };
        format!(
            "{}: {}; {}",
            misfit.key,
            misfit.message,
            misfit.hint.unwrap_or_default()
        )
    }

    fn gib(gib: u64) -> Option<Bytes> {
        Some(Bytes(gib << 30))
    }

    fn licence(name: &str, count: u32) -> [(String, u32); 1] {
        [(name.to_owned(), count)]
    }

    #[test]
    fn what_cannot_be_is_said_with_the_sites_numbers() {
        let job = Wanted::default();
        let gpu = Wanted {
            queue: Some("gpu"),
            ..job
        };
        let cases: [(Wanted<'_>, &[&str]); 21] = [
            (
                Wanted {
                    queue: Some("gpux"),
                    ..job
                },
                &[
                    "queue: ",
                    "no queue `gpux`",
                    "did you mean `gpu`?",
                    "`wide`",
                ],
            ),
            (
                Wanted {
                    queue: Some("old"),
                    ..job
                },
                &["queue: ", "takes no jobs", "--no-check", "queue `cpu`"],
            ),
            (
                Wanted {
                    walltime: Some(Walltime(400 * 24 * HOUR)),
                    ..gpu
                },
                &[
                    "walltime: 9600h (400 days)",
                    "queue `gpu`",
                    "limit is 168h (7 days)",
                ],
            ),
            (
                Wanted {
                    walltime: Some(Walltime(49 * HOUR)),
                    ..job
                },
                &["walltime: 49h", "`cpu`", "fit queue `gpu`"],
            ),
            (
                Wanted { nodes: 3, ..gpu },
                &[
                    "nodes: 3 nodes are more",
                    "limit is 2",
                    "fit queue `cpu`, queue `wide`",
                ],
            ),
            (
                Wanted {
                    queue: Some("wide"),
                    ..job
                },
                &["nodes: ", "jobs of 2 nodes and more; this one asks for 1"],
            ),
            (
                Wanted { nodes: 5, ..job },
                &["nodes: 5 nodes are asked for; queue `cpu` has 4"],
            ),
            (
                Wanted {
                    queue: Some("wide"),
                    nodes: 3,
                    gpus_per_node: Some("1"),
                    ..job
                },
                &["nodes: 3 nodes", "only 2 of the 6 of queue `wide`"],
            ),
            (
                Wanted {
                    tasks_per_node: 9,
                    cpus_per_task: Some(2),
                    ..gpu
                },
                &[
                    "cpus_per_task: no node of queue `gpu` has 18 CPUs (9 x 2); the nearest has 16 CPUs",
                    "fit queue `cpu`",
                ],
            ),
            (
                Wanted {
                    tasks_per_node: 17,
                    ..gpu
                },
                &["tasks_per_node: ", "17 CPUs; the nearest has 16 CPUs"],
            ),
            (
                Wanted {
                    gpus_per_node: Some("1"),
                    ..job
                },
                &[
                    "gpus_per_node: no node of queue `cpu` has 1 GPU",
                    "fit queue `gpu`",
                ],
            ),
            (
                Wanted {
                    gpus_per_node: Some("9"),
                    ..gpu
                },
                &[
                    "gpus_per_node: ",
                    "9 GPUs; the nearest has 16 CPUs, 128GiB, 8 x h100",
                ],
            ),
            (
                Wanted {
                    gpus_per_node: Some("v100:2"),
                    ..gpu
                },
                &[
                    "gpus_per_node: ",
                    "no node of queue `gpu` has 2 GPUs of type `v100`",
                    "h100 (8 a node) in `gpu`",
                ],
            ),
            (
                Wanted {
                    memory: gib(129),
                    ..gpu
                },
                &[
                    "memory: ",
                    "129GiB of memory; the nearest has 16 CPUs, 128GiB",
                    "`cpu`",
                ],
            ),
            (
                Wanted {
                    memory_per_cpu: gib(20),
                    cpus_per_task: Some(8),
                    ..gpu
                },
                &["memory_per_cpu: ", "160GiB of memory"],
            ),
            (
                Wanted {
                    constraint: Some("h200"),
                    ..gpu
                },
                &[
                    "constraint: no node of the site has the feature `h200`",
                    "did you mean `h100`?",
                ],
            ),
            (
                Wanted {
                    constraint: Some("h100&eth"),
                    ..gpu
                },
                &[
                    "constraint: no node of queue `gpu` has `h100&eth`",
                    "`h100`, `ib`",
                ],
            ),
            (
                Wanted {
                    account: Some("other"),
                    ..gpu
                },
                &["account: account `other` may not", "these may: `proj`"],
            ),
            (
                Wanted {
                    licenses: &licence("matlap", 1),
                    ..job
                },
                &["licenses: there is no licence `matlap`", "`matlab`"],
            ),
            (
                Wanted {
                    licenses: &licence("matlab", 5),
                    ..job
                },
                &["licenses: 5 licences `matlab` are asked for; there are 4"],
            ),
            (
                Wanted {
                    queue: Some("wide"),
                    nodes: 2,
                    gpus_per_node: Some("1"),
                    memory: gib(200),
                    ..job
                },
                &[
                    "gpus_per_node: no kind of node of queue `wide`",
                    "at once: the nearest, 64 CPUs, 256GiB, has no 1 GPU",
                ],
            ),
        ];
        for (wanted, parts) in cases {
            let said = fault(&wanted);
            for part in parts {
                assert!(said.contains(part), "{part:?} in {said}");
            }
        }
    }

    #[test]
    fn what_can_be_and_what_nobody_knows_is_let_through() {
        let job = Wanted {
            account: Some("PROJ"),
            ..Wanted::default()
        };
        for wanted in [
            job,
            Wanted {
                queue: Some("cpu,gpu"),
                gpus_per_node: Some("h100:8"),
                ..job
            },
            Wanted {
                queue: Some("gpu"),
                constraint: Some("h100&ib"),
                ..job
            },
            Wanted {
                queue: Some("wide"),
                nodes: 2,
                constraint: Some("[epyc|h100]"),
                ..job
            },
            Wanted {
                queue: Some("gpu"),
                qos: Some("long"),
                walltime: Some(Walltime(9999 * HOUR)),
                ..job
            },
            Wanted {
                queue: Some("gpu@elsewhere"),
                nodes: 99,
                ..job
            },
            Wanted {
                licenses: &licence("matlab", 4),
                ..job
            },
        ] {
            assert_eq!(check(&wanted, &site(), &[]), [], "{wanted:?}");
        }
        let nothing_known = model(Vec::new(), Vec::new());
        let huge = Wanted {
            queue: Some("any"),
            nodes: 9999,
            memory: gib(1 << 20),
            ..Wanted::default()
        };
        assert_eq!(check(&huge, &nothing_known, &[]), []);
        let bare = NodeType {
            count: 2,
            ..NodeType::default()
        };
        let no_gpus = Wanted {
            nodes: 2,
            cpus_per_task: Some(999),
            memory: gib(999),
            ..Wanted::default()
        };
        assert_eq!(check(&no_gpus, &model(Vec::new(), vec![bare]), &[]), []);
    }

    #[test]
    fn several_faults_are_told_together_and_each_once() {
        let wanted = Wanted {
            queue: Some("gpu"),
            nodes: 99,
            walltime: Some(Walltime(4000 * HOUR)),
            memory: gib(999),
            gpus_per_node: Some("v100:9"),
            constraint: Some("nosuch"),
            ..Wanted::default()
        };
        let keys: Vec<&str> = check(&wanted, &site(), &[])
            .iter()
            .map(|misfit| misfit.key)
            .collect();
        assert_eq!(
            keys,
            ["constraint", "walltime", "nodes", "gpus_per_node", "memory"]
        );
    }

    #[test]
    fn an_array_of_more_elements_than_one_may_have_is_told_so() {
        let limited = SiteModel {
            max_array_elements: Some(1000),
            ..site()
        };
        let of = |elements| {
            check(
                &Wanted {
                    elements: Some(elements),
                    ..Wanted::default()
                },
                &limited,
                &[],
            )
        };
        assert_eq!(of(1000), []);
        let found = of(1001);
        assert_eq!((found.len(), found[0].key), (1, "array"));
        assert!(
            found[0]
                .message
                .contains("1001 elements; the most of one array here is 1000")
        );
    }

    #[test]
    fn job_in_a_queue_that_starts_none_gets_a_warning() {
        let model = site();
        let paused = |queue| {
            pause(
                &Wanted {
                    queue,
                    ..Wanted::default()
                },
                &model,
            )
        };
        assert!(
            paused(Some("paused"))
                .is_some_and(|said| said.contains("queue `paused` starts no jobs"))
        );
        assert_eq!((paused(Some("paused,cpu")), paused(None)), (None, None));
        assert_eq!(
            fault(&Wanted {
                queue: Some("paused"),
                ..Wanted::default()
            }),
            "none"
        );
    }

    prop_compose! {
        fn any_node()(
            queues in prop::collection::vec("[ab]", 0..3),
            count in 0_u32..9,
            cpus in prop::option::of(1_u32..200),
            memory in prop::option::of(1_u64..1 << 40),
            gpus in prop::collection::vec(("[vh]?", 0_u32..9), 0..3),
            features in prop::collection::vec("[xyz]", 0..3),
        ) -> NodeType {
            NodeType { queues, count, up: count, cpus, sockets: None, memory: memory.map(Bytes), gpus, features }
        }
    }

    prop_compose! {
        fn any_queue()(
            name in "[abc]",
            is_default: bool,
            is_up: bool,
            walltime in prop::option::of(1_u64..1 << 30),
            min_nodes in prop::option::of(1_u32..4),
            max_nodes in prop::option::of(1_u32..99),
            accounts in prop::collection::vec("[pq]", 0..2),
        ) -> Queue {
            let max_walltime = walltime.map(Walltime);
            Queue { name, is_default, is_up, max_walltime, min_nodes, max_nodes, accounts, ..Queue::default() }
        }
    }

    proptest! {
        #[test]
        fn nothing_panics(
            queues in prop::collection::vec(any_queue(), 0..4),
            nodes in prop::collection::vec(any_node(), 0..4),
            (queue, account) in (prop::option::of("[abc,@]{0,3}"), prop::option::of("[pq]")),
            (count, tasks, cpus) in (any::<u32>(), any::<u32>(), any::<Option<u32>>()),
            gpus in prop::option::of("[vh]?:?[0-9]{0,3}"),
            (memory, by_cpu, walltime) in (any::<Option<u64>>(), any::<Option<u64>>(), any::<Option<u64>>()),
            constraint in prop::option::of("[xyz&|()*!=:\\[\\]0-9]{0,6}"),
        ) {
            let wanted = Wanted {
                queue: queue.as_deref(),
                account: account.as_deref(),
                qos: None,
                nodes: count,
                tasks_per_node: tasks,
                cpus_per_task: cpus,
                gpus_per_node: gpus.as_deref(),
                memory: memory.map(Bytes),
                memory_per_cpu: by_cpu.map(Bytes),
                walltime: walltime.map(Walltime),
                constraint: constraint.as_deref(),
                licenses: &[],
                elements: None,
            };
            let model = model(queues, nodes);
            for misfit in check(&wanted, &model, &[]) {
                prop_assert!(!misfit.message.is_empty() && !misfit.message.contains('\n'));
            }
        }

        #[test]
        fn a_job_that_was_cut_to_fit_fits(
            mut queue in any_queue(),
            mut node in any_node(),
            others in prop::collection::vec(any_node(), 0..3),
            part in 1_u64..=8,
        ) {
            queue.is_up = true;
            node.queues = vec![queue.name.clone()];
            node.count = queue.max_nodes.unwrap_or(9).max(queue.min_nodes.unwrap_or(1));
            queue.max_nodes = Some(node.count);
            let share = |all: u64| (all / part).max(1);
            let gpus: Vec<String> =
                node.gpus.iter().filter(|(_, count)| *count > 0).map(|(kind, count)| {
                    if kind.is_empty() { count.to_string() } else { format!("{kind}:{count}") }
                }).collect();
            let constraint = node.features.join("&");
            let wanted = Wanted {
                queue: Some(&queue.name),
                account: queue.accounts.first().map(String::as_str),
                qos: None,
                nodes: node.count,
                tasks_per_node: 1,
                cpus_per_task: node.cpus.map(|cpus| u32::try_from(share(cpus.into())).expect("it is smaller")),
                gpus_per_node: gpus.first().map(String::as_str),
                memory: node.memory.map(|memory| Bytes(share(memory.0))),
                memory_per_cpu: None,
                walltime: queue.max_walltime.map(|most| Walltime(share(most.0))),
                constraint: Some(constraint.as_str()).filter(|text| !text.is_empty()),
                licenses: &[],
                elements: None,
            };
            let nodes = others.into_iter().chain([node.clone()]).collect();
            prop_assert_eq!(check(&wanted, &model(vec![queue.clone()], nodes), &[]), []);
        }
    }
}
