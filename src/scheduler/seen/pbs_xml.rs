//! `qstat -x` and `pbsnodes -x` of Torque.

use super::Seen;
use super::pbs::{Attributes, job, node};
use crate::scheduler::xml::{self, Element};

pub(super) fn read(text: &str) -> Option<Seen> {
    let root = xml::parse(text)?;
    let of = |name: &'static str| root.children.iter().filter(move |child| child.name == name);
    let jobs =
        of("Job").filter_map(|element| job(element.text_of("Job_Id")?, &flat(element))).collect::<Vec<_>>();
    if !jobs.is_empty() {
        return Some(Seen { form: "qstat -x", scheduler: "torque", jobs, ..Seen::default() });
    }
    let nodes =
        of("Node").filter_map(|element| node(element.text_of("name")?, &flat(element))).collect::<Vec<_>>();
    (!nodes.is_empty()).then_some(Seen { form: "pbsnodes -x", scheduler: "torque", nodes, ..Seen::default() })
}

/// Nested elements as `Resource_List.walltime`, as the text forms have them.
fn flat(element: &Element) -> Attributes {
    let mut attributes = Attributes::new();
    for child in &element.children {
        if child.children.is_empty() {
            attributes.insert(child.name.clone(), child.text.clone());
        }
        for inner in &child.children {
            attributes.insert(format!("{}.{}", child.name, inner.name), inner.text.clone());
        }
    }
    attributes
}
