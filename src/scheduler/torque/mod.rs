//! Torque through its commands: `qsub`, `qstat`, `qdel` and `pbsnodes`.
//!
//! Checked with 6.1.3 and pbs_sched. Its history is in files that only root reads (`tracejob`), so there is none.

mod directives;
mod qstat;

use super::adapter::{Asked, Findings, Lack};
use super::commands::{Commands, Words};
use super::pbs::adapter::BUSY;
use super::pbs::answer::{Thing, read_text, read_xml};
use super::pbs::dialect::Dialect;
use super::pbs::job_file::{are_words, is_word};
use super::pbs::site::{gpus, model, up};
use super::pbs::values::size;
use super::{JobRef, SchedulerError, Submission};
use crate::config::site::{NodeType, SiteModel};
use crate::job::{ArraySpec, SchedulerKind};

/// Torque.
pub static TORQUE: Dialect = Dialect {
    kind: SchedulerKind::Torque,
    name: "Torque",
    lacks: &[
        Lack {
            key: "spares",
            why: "Torque ends a job that loses a node",
            instead: "leave it out: the run continues in another job",
        },
        Lack {
            key: "exclude",
            why: "Torque cannot leave out nodes",
            instead: "name the nodes that you want with `resources.nodelist`, or a property of theirs with `resources.constraint`",
        },
    ],
    check,
    typed_gpus: |kind, count| {
        (
            "Torque knows types of GPUs only as a property that the site has given to its nodes",
            format!(
                "write gpus_per_node = {count} and constraint = \"{kind}\", or your site's word for it"
            ),
        )
    },
    letters: &[
        ("n", "use `resources.exclusive`"),
        ("x", "dlrun's jobs are not interactive"),
    ],
    reserves_by_queue: false,
    gives_whole_nodes: true,
    gives_nodes_back: false,
    throttle: ["-t", "%"],
    index: "PBS_ARRAYID",
    // It starts one program per node.
    lists_cpus: true,
    pbsdsh: "-u",
    words: Words {
        scheduler: SchedulerKind::Torque.as_str(),
        // The exit code is 111, 33 without trqauthd.
        unreachable: &[
            "cannot connect to server",
            "cannot connect to default server",
            "could not connect to trqauthd",
            "Connection refused",
            "cannot resolve",
        ],
        // `pbs_error_db.h`.
        unanswered: &[
            "Premature End of File",
            "Error reading data from socket",
            "Socket close detected",
            "Time out",
            "timed out",
            "No free connections",
        ],
        busy: &BUSY,
    },
    requested: directives::requested,
    output_line: directives::output_line,
    spool,
    job_variables: &[],
    entries: qstat::entries,
    all: |torque| qstat::things(torque, &[]),
    // The server forgets jobs after `keep_completed` seconds, and its logs are root's.
    keeps_history: false,
    deletions,
    // `PBSE_UNKJOBID`, 15001, and `PBSE_BADSTATE`, 15018.
    gone: &[153, 170],
    site,
};

/// What takes effect only where Moab or Maui schedules; pbs_sched passes over it.
const MOAB_KEYS: [&str; 3] = ["qos", "reservation", "licenses"];

fn check(asked: &Asked<'_>, found: &mut Findings) {
    let without_effect: Vec<&str> = MOAB_KEYS
        .into_iter()
        .filter(|key| asked.asks(key))
        .collect();
    if !without_effect.is_empty() {
        let keys = without_effect.join(", ");
        let scope = "where Moab or Maui schedules Torque's jobs; its own scheduler passes over it";
        found
            .warnings
            .push(format!("{keys}: takes effect only {scope}"));
    }
    if !are_words(asked.spec.resources.constraint.as_deref(), is_word) {
        let why = "Torque has properties of nodes, all of which must hold, and no operators";
        let instead = "write one property, or several as \"fast:ib\"";
        found.refuse(asked.spec, "constraint", why, instead);
    }
}

/// Torque 6.1.3 cannot copy to a path with blanks: it keeps the job for eight seconds and loses the file.
fn spool(submission: &Submission<'_>) -> String {
    let path = submission.run_dir.join("scheduler.out");
    let path = path.to_string_lossy().into_owned();
    if path.contains(char::is_whitespace) {
        "/dev/null".to_owned()
    } else {
        path
    }
}

/// An array is deleted whole by its id, `12[].server`, and some of its elements with `-t 3,7-9`. A step is more than `-t` takes:
/// each index by itself, or from one to another.
fn deletions(job: &JobRef, elements: Option<&ArraySpec>) -> Vec<Vec<String>> {
    let own = elements.map(|elements| {
        let indexes: Vec<u32> = elements.indexes().collect();
        ["-t".to_owned(), ArraySpec::of(&indexes, None).to_string()]
    });
    let id = [job.job_id.0.clone()];
    vec![own.into_iter().flatten().chain(id).collect()]
}

/// `qstat -Q -f`, `qstat -B -f` and `pbsnodes -x`.
fn site(torque: &Commands) -> Result<SiteModel, SchedulerError> {
    let asked = |program: &str, arguments: &[&str]| {
        torque.printed(program, arguments, &[], "describe its queues and nodes")
    };
    let queues = read_text(&asked("qstat", &["-Q", "-f"])?);
    let server = read_text(&asked("qstat", &["-B", "-f"])?)
        .pop()
        .unwrap_or_default();
    let nodes = read_xml(&asked("pbsnodes", &["-x"])?);
    let nodes = nodes.iter().filter(|node| node.kind == "Node").map(node);
    Ok(SiteModel {
        accounting: Some(false),
        // A job that asks for no memory is held to none, and one that does is ended beyond it.
        accounts_memory: Some(false),
        max_array_elements: server.number("max_job_array_size"),
        ..model(SchedulerKind::Torque, &server, &queues, nodes)
    })
}

fn node(node: &Thing) -> NodeType {
    let properties = node.get("properties").unwrap_or_default().split(',');
    // `physmem=24684084kb` among what a node last said of itself.
    let status = node.get("status").unwrap_or_default().split(',');
    NodeType {
        queues: Vec::new(),
        count: 1,
        up: up(node),
        cpus: node.number("np"),
        sockets: node.number("total_sockets"),
        memory: { status }
            .find_map(|part| part.strip_prefix("physmem="))
            .and_then(size),
        gpus: gpus(node.number("gpus")),
        features: properties
            .filter(|word| !word.is_empty())
            .map(str::to_owned)
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::foundation::units::Bytes;

    #[test]
    fn nodes_that_are_alike_stand_together() {
        let xml_of = |name: &str, state: &str, np: u32, more: &str| {
            format!(
                "<Node><name>{name}</name><state>{state}</state><np>{np}</np><properties>fast,v100</properties>\
                 <status>opsys=linux,physmem=24684084kb,ncpus=2</status>{more}</Node>"
            )
        };
        let gpus = "<gpus>2</gpus>";
        let xml = format!(
            "<Data>{}{}{}</Data>",
            xml_of("n1", "free", 8, gpus),
            xml_of("n2", "down,job-exclusive", 8, gpus),
            xml_of("n3", "job-exclusive", 4, "<gpus>0</gpus>")
        );
        let things = read_xml(&xml);
        let server = Thing::default();
        let types = model(SchedulerKind::Torque, &server, &[], things.iter().map(node)).nodes;
        let shown: Vec<_> = types
            .iter()
            .map(|kind| (kind.count, kind.up, kind.cpus, kind.gpus.clone()))
            .collect();
        assert_eq!(
            shown,
            [
                (2, 1, Some(8), vec![(String::new(), 2)]),
                (1, 1, Some(4), vec![])
            ]
        );
        assert_eq!(types[0].features, ["fast", "v100"]);
        assert_eq!(types[0].memory, Some(Bytes(24_684_084 << 10)));
    }
}
