//! What neither PBS can honour of a job file.

use crate::foundation::diagnostic::Problem;
use crate::job::{DependencyKind, MailEvent, is_part, kind_and_count};
use crate::scheduler::adapter::{Asked, Elsewhere, Findings};
use crate::scheduler::option_value::value_of;

/// A word that means itself in a PBS resource list.
pub(in crate::scheduler) fn is_word(text: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    !text.is_empty() && text.chars().all(is_plain)
}

/// Whether all parts of a constraint between `:` are good, where there is one.
pub(in crate::scheduler) fn are_words(
    constraint: Option<&str>,
    good: impl Fn(&str) -> bool,
) -> bool {
    constraint.is_none_or(|text| text.split(':').all(good))
}

/// The queue that an option names.
pub(in crate::scheduler) fn elsewhere<'a>(options: &[&'a str]) -> Elsewhere<'a> {
    Elsewhere {
        queue: value_of(options, "-q", None),
        ..Elsewhere::default()
    }
}

/// Holds a job file against what both PBS can do. `typed`: why a type of GPU, with their number, is refused, and what to write.
pub(in crate::scheduler) fn check(
    shown: &str,
    asked: &Asked<'_>,
    found: &mut Findings,
    typed: fn(&str, &str) -> (&'static str, String),
) {
    let (spec, resources) = (asked.spec, &asked.spec.resources);
    if !asked.name.is_ascii() {
        let why = format!(
            "{shown} takes a job's name in ASCII letters only, not {:?}",
            asked.name
        );
        found
            .problems
            .push(Problem::of_file(why).hinted("give the job a `name`"));
    }
    let by_element = |kind| kind == DependencyKind::AfterCorr;
    for depend in resources
        .depends
        .iter()
        .filter(|depend| by_element(depend.value.kind))
    {
        let why = format!("`resources.depends`: {shown} has no `aftercorr`");
        let problem = Problem::at(depend.span.clone(), why);
        found
            .problems
            .push(problem.hinted("`afterok` waits for the whole array"));
    }
    let nodes = resources.fewest_nodes();
    let possible = nodes..=nodes.saturating_mul(resources.tasks_on_each(nodes));
    if resources
        .tasks
        .is_some_and(|tasks| !possible.contains(&tasks))
    {
        let (least, most) = possible.into_inner();
        let why = format!("{nodes} nodes of {shown} have {least} to {most} tasks together");
        found.refuse(spec, "tasks", &why, "write `nodes` and `tasks_per_node`");
    }
    let of_tasks = resources
        .gpus_on_node()
        .filter(|_| asked.asks("gpus_per_task"));
    let of_nodes = resources
        .gpus_per_node
        .as_deref()
        .filter(|gpus| !is_part(gpus))
        .and_then(|gpus| gpus.rsplit_once(':'));
    if let Some(gpus) = of_tasks {
        let instead = format!(
            "write gpus_per_node = {}; each rank then chooses its GPU by its number on the node (OMPI_COMM_WORLD_LOCAL_RANK \
             with Open MPI)",
            kind_and_count(&gpus).1
        );
        let why = format!("{shown} gives GPUs to nodes, not to tasks");
        found.refuse(spec, "gpus_per_task", &why, &instead);
    } else if let Some((kind, count)) = of_nodes
        // Else the site's configuration leads the type to a queue or a property.
        && asked.tables.gpu(kind).is_none_or(|gpu| gpu.typed)
    {
        let (why, instead) = typed(kind, count);
        found.refuse(spec, "gpus_per_node", why, &instead);
    }
    check_nodelist(shown, asked, found);
    if resources
        .mail
        .as_ref()
        .is_some_and(|mail| mail.on.contains(&MailEvent::Requeue))
    {
        let text = format!("`resources.mail`: {shown} sends none when a job waits again");
        found.warnings.push(text);
    }
}

/// PBS takes the nodes one by one, so there must be as many names as nodes.
fn check_nodelist(shown: &str, asked: &Asked<'_>, found: &mut Findings) {
    let resources = &asked.spec.resources;
    let Some(list) = &resources.nodelist else {
        return;
    };
    let nodes = resources
        .nodes
        .as_ref()
        .map_or(1, |nodes| nodes.value.bounds().1);
    let names = list.split([',', '+']).count();
    if !list.split([',', '+']).all(is_word) {
        let why = format!("{shown} wants each node by its name, not {list:?}");
        found.refuse(asked.spec, "nodelist", &why, "write \"n1,n2\"");
    } else if u32::try_from(names) != Ok(nodes) {
        let why = format!("it names {names} nodes, and the job has {nodes}");
        let instead = format!("{shown} wants as many names as nodes; set `resources.nodes`");
        found.refuse(asked.spec, "nodelist", &why, &instead);
    }
}
