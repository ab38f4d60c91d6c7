//! `job_options`: what the scheduler is asked for.

use super::sizes::Sizes;
use crate::foundation::units::Walltime;
use crate::job::SchedulerKind;
use crate::job::convert::block::Block;
use crate::job::convert::draft::{Draft, Origin};
use crate::job::convert::write::Value;
use crate::job::convert::{begin, depend, mail, size, time, variables};

/// Where MODAK puts the output.
#[derive(Debug, Default)]
pub(super) struct Wishes {
    streams: Vec<Origin>,
    apart: Option<Origin>,
}

pub(super) fn read(
    mut options: Block<'_>,
    kind: Option<SchedulerKind>,
    sizes: &mut Sizes,
    draft: &mut Draft,
) -> Wishes {
    read_name(&mut options, draft);
    sizes.node_count = options.count("node_count", draft);
    sizes.core_count = options.count("core_count", draft);
    sizes.process_count_per_node = options.count("process_count_per_node", draft);
    sizes.core_count_per_process = options.count("core_count_per_process", draft);
    if let Some((gpus, origin)) = options.count("request_gpus", draft) {
        draft.set("resources.gpus_per_node", gpus, &origin);
    }
    read_memory(&mut options, kind, sizes, draft);
    read_walltime(&mut options, draft);
    let same = [
        ("queue", "resources.queue"),
        ("account", "resources.account"),
        ("qos", "resources.qos"),
        ("job_array", "resources.array"),
    ];
    options.copy(&same, draft);
    read_nodes(&mut options, sizes, draft);
    if let Some((true, origin)) = options.flag("node_exclusive", draft) {
        draft.set("resources.exclusive", true, &origin);
    }
    read_environment(&mut options, draft);
    read_depends(&mut options, draft);
    read_begin(&mut options, draft);
    read_mail(&mut options, draft);
    let wishes = read_streams(&mut options, draft);
    options.finish(draft);
    wishes
}

/// MODAK makes file names of it unchanged; here it must be a name.
fn read_name(options: &mut Block<'_>, draft: &mut Draft) {
    let Some((name, origin)) = options.text("job_name", draft) else {
        return;
    };
    if Draft::takes("name", &Value::Text(name.clone())) {
        draft.set("name", name, &origin);
        return;
    }
    let usable = |c: char| {
        if c.is_alphanumeric() || "._+-".contains(c) {
            c
        } else {
            '-'
        }
    };
    let cleaned: String = name.chars().map(usable).take(40).collect();
    let cleaned = cleaned
        .trim_matches(|c: char| !c.is_alphanumeric())
        .to_owned();
    if !cleaned.is_empty() && draft.try_set("name", cleaned.clone(), &origin) {
        draft.note(
            &origin,
            format!("{name:?} cannot name a job; it becomes `{cleaned}`"),
        );
    } else {
        draft.note(
            &origin,
            format!("{name:?} cannot name a job; the file's name serves"),
        );
    }
}

/// A bare number is MiB to Slurm and bytes to PBS.
fn read_memory(
    options: &mut Block<'_>,
    kind: Option<SchedulerKind>,
    sizes: &Sizes,
    draft: &mut Draft,
) {
    let is_pbs = kind.is_some_and(SchedulerKind::is_pbs);
    let unit = if is_pbs { 1 } else { 1 << 20 };
    let keys = [
        ("memory_limit", "resources.memory"),
        ("minimum_memory_per_processor", "resources.memory_per_cpu"),
    ];
    for (key, ours) in keys {
        let Some((text, origin)) = options.text(key, draft) else {
            continue;
        };
        let Some(bytes) = size::bytes(&text, unit) else {
            draft.refuse(&origin, format!("`{text}` is no size such as 64 GB"));
            continue;
        };
        if ours == "resources.memory_per_cpu" && draft.holds("resources.memory") {
            draft.note(
                &origin,
                "`memory_limit` is given too, and only one can hold",
            );
            continue;
        }
        draft.set(ours, size::shown(bytes), &origin);
        let has_nodes = sizes
            .node_count
            .as_ref()
            .is_some_and(|(nodes, _)| *nodes > 1);
        if ours == "resources.memory" && is_pbs && has_nodes {
            draft.note(
                &origin,
                "is taken for each node; PBS would have taken it for the whole job",
            );
        }
    }
}

fn read_walltime(options: &mut Block<'_>, draft: &mut Draft) {
    let Some((text, origin)) = options.text("wall_time_limit", draft) else {
        return;
    };
    match time::in_seconds(&text).filter(|seconds| *seconds > 0) {
        Some(seconds) => draft.set("resources.walltime", Walltime(seconds).to_string(), &origin),
        None => draft.refuse(&origin, format!("`{text}` is no time limit")),
    }
}

/// Nodes by name, and by their properties.
fn read_nodes(options: &mut Block<'_>, sizes: &Sizes, draft: &mut Draft) {
    let mut features: Vec<(String, Origin)> = Vec::new();
    if let Some((nodes, origin)) = options.text("request_specific_nodes", draft) {
        let list: Vec<&str> = nodes
            .split(['+', ',', ' '])
            .filter(|name| !name.is_empty())
            .collect();
        let asked = sizes.node_count.as_ref().map_or(1, |(nodes, _)| *nodes);
        // Names of nodes have numbers, and there are as many as nodes; else it is a property, which Torque takes here too.
        let is_property =
            !nodes.contains(|c: char| c.is_ascii_digit()) || (list.len() == 1 && asked > 1);
        if is_property && !nodes.contains('[') {
            draft.note(
                &origin,
                format!(
                    "`{nodes}` is taken for a property of nodes, no name: `resources.constraint`"
                ),
            );
            features.push((nodes, origin));
        } else {
            draft.set("resources.nodelist", list.join(","), &origin);
        }
    }
    if let Some((partition, origin)) = options.text("partition", draft) {
        match draft.get("resources.queue") {
            None => draft.set("resources.queue", partition, &origin),
            Some(Value::Text(queue)) if *queue == partition => {}
            Some(_) => features.push((partition, origin)),
        }
    }
    match options.text("architecture_constraint", draft) {
        Some((text, origin)) if text == "arch" => draft.note(&origin, PLACEHOLDER),
        other => features.extend(other),
    }
    if let Some((_, origin)) = features.first() {
        let all: Vec<&str> = features
            .iter()
            .map(|(feature, _)| feature.as_str())
            .collect();
        draft.set("resources.constraint", all.join("&"), &origin.clone());
    }
}

const PLACEHOLDER: &str = "is the specification's placeholder, no value";

fn read_environment(options: &mut Block<'_>, draft: &mut Draft) {
    if let Some((all, origin)) = options.flag("copy_environment", draft) {
        let word = if all { "all" } else { "none" };
        draft.set("run.inherit", word, &origin);
    }
    if let Some((list, origin)) = options.text("copy_environment_variable", draft) {
        // Variables by name are what `none` leaves.
        if draft.get("run.inherit") == Some(&Value::Text("none".to_owned())) {
            draft.remove("run.inherit");
        }
        variables::set(draft, &list, &origin);
    }
}

fn read_depends(options: &mut Block<'_>, draft: &mut Draft) {
    let Some((text, origin)) = options.text("job_dependency", draft) else {
        return;
    };
    match depend::conditions(&text) {
        Some(conditions) => {
            draft.set("resources.depends", conditions, &origin);
            if !text.contains(':') {
                draft.note(
                    &origin,
                    format!("`{text}` says not on what: on its end with exit code 0 (afterok)"),
                );
            }
        }
        None => draft.refuse(
            &origin,
            format!("`{text}` cannot be written as `resources.depends`"),
        ),
    }
}

fn read_begin(options: &mut Block<'_>, draft: &mut Draft) {
    let Some((text, origin)) = options.text("defer_job", draft) else {
        return;
    };
    if text == "date/time" {
        draft.note(&origin, PLACEHOLDER);
    } else if let Some(moment) = begin::moment(&text) {
        draft.set("resources.begin", moment, &origin);
    } else {
        let how = "write `resources.begin = \"2027-01-31T08:00\"`";
        draft.refuse(&origin, format!("`{text}` is no moment by itself; {how}"));
    }
}

fn read_mail(options: &mut Block<'_>, draft: &mut Draft) {
    let address = options.text("email_address", draft);
    let Some((text, origin)) = options.text("request_event_notification", draft) else {
        if let Some((_, origin)) = address {
            draft.note(
                &origin,
                "no events are named, so no mail is sent: `resources.mail`",
            );
        }
        return;
    };
    let events = mail::events(&text);
    if events.on.is_empty() {
        let why = if events.none {
            "no mail is wanted"
        } else {
            "names no event (letters of `abe`, or Slurm's words)"
        };
        draft.note(&origin, why);
        if let Some((_, origin)) = address {
            draft.note(
                &origin,
                "no events are named, so no mail is sent: `resources.mail`",
            );
        }
        return;
    }
    if !events.unknown.is_empty() {
        draft.refuse(
            &origin,
            format!("no word here for {}", events.unknown.join(", ")),
        );
    }
    if events.none {
        draft.refuse(&origin, format!("`{text}` asks for mail and for none"));
    }
    let on = events.words();
    let mut mail = Vec::new();
    if let Some((address, origin)) = address {
        let to = ("to".to_owned(), Value::Text(address.clone()));
        let whole = Value::Table(vec![to.clone(), ("on".to_owned(), on.clone())]);
        if address.contains('@') && Draft::takes("resources.mail", &whole) {
            mail.push(to);
        } else {
            draft.note(
                &origin,
                format!("`{address}` is no mail address; the scheduler's own for the user serves"),
            );
        }
    }
    mail.push(("on".to_owned(), on));
    draft.set("resources.mail", mail, &origin);
}

fn read_streams(options: &mut Block<'_>, draft: &mut Draft) -> Wishes {
    let streams = ["standard_output_file", "standard_error_file"];
    let streams = streams
        .into_iter()
        .filter_map(|key| options.text(key, draft))
        .map(|(_, origin)| origin);
    let streams: Vec<Origin> = streams.collect();
    let apart = options
        .flag("combine_stdout_stderr", draft)
        .filter(|(combined, _)| !combined);
    Wishes {
        streams,
        apart: apart.map(|(_, origin)| origin),
    }
}

/// The place of the output is dlrun's.
pub(super) fn tell_streams(wishes: &Wishes, draft: &mut Draft) {
    for origin in &wishes.streams {
        draft.note(
            origin,
            "dlrun writes output and errors to NAME-JOBID.out in `run.workdir`",
        );
    }
    if let Some(origin) = &wishes.apart {
        draft.note(origin, "output and errors go into one file");
    }
}
