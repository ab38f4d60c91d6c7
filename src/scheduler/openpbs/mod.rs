//! OpenPBS and PBS Pro through their commands: `qsub`, `qstat`, `qdel` and `pbsnodes`.
//!
//! Checked with OpenPBS 23.06; recorded answers of 20.0 and 2022.0 are read as well.

mod directives;
pub(super) mod json;
mod qstat;

use super::adapter::{Asked, Findings, Lack};
use super::commands::{Commands, Words};
use super::pbs::adapter::BUSY;
use super::pbs::answer::Thing;
use super::pbs::dialect::Dialect;
use super::pbs::handed_through::NO_WAIT;
use super::pbs::job_file::{are_words, is_word};
use super::pbs::site::{gpus, model, up};
use super::pbs::values::size;
use super::{JobRef, SchedulerError, Submission};
use crate::config::site::{NodeType, SiteModel};
use crate::job::{ArraySpec, IndexRange, JobId, MailEvent, SchedulerKind};

/// OpenPBS.
pub static OPENPBS: Dialect = Dialect {
    kind: SchedulerKind::OpenPbs,
    name: "OpenPBS",
    lacks: &[
        Lack {
            key: "qos",
            why: "OpenPBS has no QOS",
            instead: "sites have queues in its place: name one with `resources.queue`",
        },
        Lack {
            key: "exclude",
            why: "OpenPBS cannot leave out nodes",
            instead: "name the nodes that you want with `resources.nodelist`, or a resource of theirs with `resources.constraint`",
        },
    ],
    check,
    typed_gpus: |kind, count| {
        (
            "OpenPBS knows types of GPUs only as a resource that the site has made",
            format!(
                "write gpus_per_node = {count} and constraint = \"RESOURCE={kind}\", with your site's name of it"
            ),
        )
    },
    // `-f` keeps `qsub` until the job ends.
    letters: &[("f", NO_WAIT)],
    reserves_by_queue: true,
    gives_whole_nodes: false,
    gives_nodes_back: true,
    throttle: ["-W", "max_run_subjobs="],
    index: "PBS_ARRAY_INDEX",
    lists_cpus: false,
    pbsdsh: "--",
    words: Words {
        scheduler: SchedulerKind::OpenPbs.as_str(),
        // Exit codes differ by command: 255, 162, 1.
        unreachable: &[
            "cannot connect to server",
            "Couldn't connect to cluster",
            "Connection refused",
            "Unknown Host",
            "Unable to authenticate connection",
        ],
        unanswered: &[
            "Batch protocol error",
            "Communication failure",
            "No free connections",
            "timed out",
        ],
        busy: &BUSY,
    },
    requested: directives::requested,
    output_line: |_| None,
    spool,
    job_variables: &["NCPUS", "OMP_NUM_THREADS", "TMPDIR"],
    entries: qstat::ask,
    all: qstat::all,
    // It comes with every question; the server keeps two weeks unless the site says otherwise.
    keeps_history: true,
    deletions,
    // `PBSE_UNKJOBID`, 15001, and `PBSE_HISTJOBID`, 15139.
    gone: &[153, 35],
    site,
};

/// Resources that mean something else than a licence (`pbs_resources(7B)`).
const RESOURCES: &str = "arch cput file host mem mpiprocs ncpus ngpus nice nodect nodes ompthreads pcput place pmem pvmem select \
    software vmem walltime";

fn check(asked: &Asked<'_>, found: &mut Findings) {
    let (spec, resources) = (asked.spec, &asked.spec.resources);
    let array = resources.array.as_ref();
    if array.is_some_and(|array| array.value.single_range().is_none()) {
        let why = "OpenPBS takes one range of indexes, with a step";
        let instead = "write \"0-99\" or \"0-98:2\", or submit several jobs";
        found.refuse(spec, "array", why, instead);
    }
    if let (Some(_), Some(queue)) = (&resources.reservation, &resources.queue) {
        let why =
            format!("with OpenPBS a reservation is a queue, and the job already names `{queue}`");
        let instead = "keep one of `reservation` and `queue`";
        found.refuse(spec, "reservation", &why, instead);
    }
    let is_resource = |part: &str| match part.split_once('=') {
        Some((name, value)) => is_word(name) && is_word(value),
        None => is_word(part),
    };
    if !are_words(resources.constraint.as_deref(), is_resource) {
        let why = "OpenPBS has resources of nodes in place of features, and no operators";
        let instead =
            "write \"NAME\" for one that is true or \"NAME=VALUE\", several with `:` between them";
        found.refuse(spec, "constraint", why, instead);
    }
    let is_taken = |name: &str| RESOURCES.split(' ').any(|known| known == name);
    let mut names = resources.licenses.iter().map(|(name, _)| name);
    if let Some(name) = names.find(|name| !is_word(name) || name.contains('.') || is_taken(name)) {
        let why =
            format!("`{name}` cannot be the name of a licence, which is a resource with OpenPBS");
        let instead = "`qmgr -c 'list resource'` shows what the site calls its licences";
        found.refuse(spec, "licenses", &why, instead);
    }
    let on = resources.mail.as_ref().map(|mail| &mail.on);
    if on.is_some_and(|on| on.contains(&MailEvent::Fail) && !on.contains(&MailEvent::End)) {
        let text = "`resources.mail`: OpenPBS sends `fail` for jobs that it ends itself; one whose command fails is reported by \
                    `end` alone";
        found.warnings.push(text.to_owned());
    }
}

fn spool(submission: &Submission<'_>) -> String {
    let file = if submission.plan.resources.array.is_some() {
        "scheduler.^array_index^.out"
    } else {
        "scheduler.out"
    };
    submission.run_dir.join(file).to_string_lossy().into_owned()
}

/// One id a call: the server of 23.06 falls over at a list of ids of which one is unknown. Elements of an array are
/// `8[3].server`, or `8[3-7].server` for several.
fn deletions(job: &JobRef, elements: Option<&ArraySpec>) -> Vec<Vec<String>> {
    let jobs = job.jobs_of(elements).into_iter();
    let names = jobs.flat_map(|(job_id, own)| names(&job_id, own.as_ref()));
    names.map(|name| vec![name]).collect()
}

fn names(job_id: &JobId, own: Option<&ArraySpec>) -> Vec<String> {
    let Some(own) = own else {
        return vec![job_id.0.clone()];
    };
    let one = |range: &IndexRange| job_id.0.replacen("[]", &format!("[{range}]"), 1);
    own.ranges().iter().map(one).collect()
}

/// `qstat -B`, `qstat -Q` and `pbsnodes -a`, each with `-f -F json`.
fn site(openpbs: &Commands) -> Result<SiteModel, SchedulerError> {
    let asked = |program: &str, options: &[&str]| {
        let options = [options, &["-F", "json"]].concat();
        let printed = openpbs.printed(program, &options, &[], "describe its queues and nodes");
        printed.map(|printed| json::read(&printed))
    };
    let server = asked("qstat", &["-B", "-f"])?;
    let (_, queues) = asked("qstat", &["-Q", "-f"])?;
    let (_, nodes) = asked("pbsnodes", &["-a"])?;
    Ok(site_of(server, &queues, &nodes))
}

fn site_of((top, servers): (Thing, Vec<Thing>), queues: &[Thing], nodes: &[Thing]) -> SiteModel {
    let server = servers.first();
    let history = |server: &Thing| {
        let enabled = server.get("job_history_enable");
        enabled.is_some_and(|text| text.eq_ignore_ascii_case("true"))
    };
    let mut its = server.cloned().unwrap_or_default();
    its.attributes.extend(top.attributes);
    SiteModel {
        accounting: server.map(history),
        max_array_elements: its.number("max_array_size"),
        ..model(SchedulerKind::OpenPbs, &its, queues, nodes.iter().map(node))
    }
}

/// Resources of a node that are shown otherwise or say what the node is called.
const PLAIN: [&str; 6] = ["host", "vnode", "mem", "ncpus", "ngpus", "vmem"];

fn node(node: &Thing) -> NodeType {
    let resource = |key: &str| node.get(&format!("resources_available.{key}"));
    let number = |key: &str| resource(key).and_then(|count| count.parse().ok());
    let others = node.attributes.iter().filter_map(|(name, value)| {
        let name = name.strip_prefix("resources_available.")?;
        (!PLAIN.contains(&name)).then(|| format!("{name}={value}"))
    });
    // A node is in the queue that it names, or in those that its resource `Qlist` names, or in all.
    let queues = node.get("queue").or_else(|| resource("Qlist"));
    let queues = queues.iter().flat_map(|names| names.split(','));
    NodeType {
        queues: queues.map(|name| name.trim().to_owned()).collect(),
        count: 1,
        up: up(node),
        cpus: number("ncpus"),
        sockets: None,
        memory: resource("mem").and_then(size),
        gpus: gpus(number("ngpus")),
        features: others.collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::foundation::units::Bytes;
    use crate::scheduler::pbs::values::walltime;

    const SERVER: &str =
        include_str!("../../../tests/fixtures/scheduler/openpbs/server-23.06.json");
    const QUEUES: &str =
        include_str!("../../../tests/fixtures/scheduler/openpbs/queues-23.06.json");
    const NODES: &str = include_str!("../../../tests/fixtures/scheduler/openpbs/nodes-23.06.json");
    const NODES_20: &str =
        include_str!("../../../tests/fixtures/scheduler/openpbs-pbsnodes-json-a.json");

    #[test]
    fn a_site_is_described() {
        let model = site_of(
            json::read(SERVER),
            &json::read(QUEUES).1,
            &json::read(NODES).1,
        );
        assert_eq!(model.version.as_deref(), Some("23.06.06"));
        assert_eq!(
            (model.max_array_index, model.max_array_elements),
            (None, Some(10_000))
        );
        let queue = |name: &str| {
            model
                .queues
                .iter()
                .find(|queue| queue.name == name)
                .expect("a queue")
        };
        let workq = queue("workq");
        assert!(
            workq.is_default && workq.is_up && !queue("short").is_default && !queue("closed").is_up
        );
        assert!(queue("closed").is_closed && !workq.is_closed);
        assert_eq!(
            (workq.max_walltime, workq.default_walltime),
            (walltime("48:00:00"), walltime("1:00:00"))
        );
        assert_eq!(queue("private").max_walltime, None);
        let expected = NodeType {
            count: 2,
            up: 2,
            cpus: Some(8),
            memory: Some(Bytes(16 << 30)),
            gpus: vec![(String::new(), 2)],
            features: vec!["arch=linux".into()],
            ..NodeType::default()
        };
        assert_eq!(model.nodes, [expected]);
        let of_20 = node(&json::read(NODES_20).1[0]);
        assert_eq!(
            (of_20.cpus, of_20.memory),
            (Some(48), Some(Bytes(394_875_440 << 10)))
        );
    }

    #[test]
    fn elements_are_named_by_their_ranges() {
        let own = ArraySpec::parse("3,7-9").expect("valid");
        assert_eq!(
            names(&JobId("8[].pbslab".into()), Some(&own)),
            ["8[3].pbslab", "8[7-9].pbslab"]
        );
        assert_eq!(names(&JobId("8[].pbslab".into()), None), ["8[].pbslab"]);
    }
}
