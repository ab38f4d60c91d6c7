//! `qstat -x` and `pbsnodes -x` of Torque.

use super::Seen;
use super::pbs::{job, node};
use crate::scheduler::torque::read_xml;

pub(super) fn read(text: &str) -> Option<Seen> {
    let things = read_xml(text);
    let of = |kind: &'static str| things.iter().filter(move |thing| thing.kind == kind);
    let jobs: Vec<_> = of("Job").filter_map(|thing| job(&thing.id, &thing.attributes)).collect();
    if !jobs.is_empty() {
        return Some(Seen { form: "qstat -x", scheduler: "torque", jobs, ..Seen::default() });
    }
    let nodes: Vec<_> = of("Node").filter_map(|thing| node(&thing.id, &thing.attributes)).collect();
    (!nodes.is_empty()).then_some(Seen { form: "pbsnodes -x", scheduler: "torque", nodes, ..Seen::default() })
}
