//! `#SBATCH` lines as a job file.

use super::option::{ScriptOption, words};
use super::slurm_options::read;
use super::{ONE_FILE, Script};
use crate::foundation::diagnostic::Problem;
use crate::job::convert::draft::{Draft, Origin};
use crate::job::convert::form::Form::{Conditions, Licenses, Minutes, Moment, Number, Size, Text};
use crate::job::convert::form::{self, Form};
use crate::job::convert::write::Value;
use crate::job::convert::{Converted, Format, mail};

const TITLE: &str = "From a script with #SBATCH lines. `dlrun check` shows whether it can run.";

/// Options, the keys that say the same, and how their values are written.
const KEYS: [(&str, &str, Form); 18] = [
    ("account", "resources.account", Text),
    ("array", "resources.array", Text),
    ("begin", "resources.begin", Moment),
    ("chdir", "run.workdir", Text),
    ("constraint", "resources.constraint", Text),
    ("cpus-per-task", "resources.cpus_per_task", Number),
    ("dependency", "resources.depends", Conditions),
    ("exclude", "resources.exclude", Text),
    ("job-name", "name", Text),
    ("licenses", "resources.licenses", Licenses),
    ("nodelist", "resources.nodelist", Text),
    ("ntasks", "resources.tasks", Number),
    ("ntasks-per-node", "resources.tasks_per_node", Number),
    ("partition", "resources.queue", Text),
    ("qos", "resources.qos", Text),
    ("reservation", "resources.reservation", Text),
    ("time", "resources.walltime", Minutes),
    ("nodes", "resources.nodes", Number),
];
/// They say how `sbatch` itself behaves.
const MANNERS: [&str; 6] = [
    "parsable",
    "quiet",
    "verbose",
    "wait",
    "test-only",
    "ignore-pbs",
];

pub(super) fn convert(script: &Script<'_>, mut draft: Draft) -> Result<Converted, Vec<Problem>> {
    let options = options(script, &mut draft)?;
    draft.set("scheduler.kind", "slurm", &script.first("#SBATCH"));
    for option in &options {
        read_option(option, &mut draft);
    }
    set_gpus(&options, &mut draft);
    set_mail(&options, &mut draft);
    if let Some(option) = named(&options, "output") {
        set_output(option, &mut draft);
    }
    // Slurm takes the fewest nodes that hold the tasks.
    let [nodes, tasks, most] =
        ["nodes", "tasks", "tasks_per_node"].map(|key| draft.number(&format!("resources.{key}")));
    let of_tasks = tasks
        .zip(most)
        .map(|(tasks, most)| tasks.div_ceil(most.max(1)));
    script.set_run(nodes.or(of_tasks).unwrap_or(1), &mut draft)?;
    draft.finish(Format::Slurm, TITLE)
}

/// The options of all lines; of two the last holds, as `sbatch` has it.
fn options(script: &Script<'_>, draft: &mut Draft) -> Result<Vec<ScriptOption>, Problem> {
    let mut options: Vec<ScriptOption> = Vec::new();
    for (line, span) in &script.directives {
        let (read, strays) = read(words(line, span.start));
        for stray in strays {
            if ["hetjob", "packjob"].contains(&stray.text.as_str()) {
                let what = "a job of several components (heterogeneous) is nothing that a job file can say";
                return Err(
                    Problem::at(stray.span, what).hinted("submit it by `sbatch`, or as two jobs")
                );
            }
            draft.note(
                &Origin::new(stray.text, stray.span),
                "is not an option of `sbatch`; left out",
            );
        }
        options.extend(read);
    }
    let mut last: Vec<ScriptOption> = Vec::new();
    for option in options.into_iter().rev() {
        let known = last.iter().find(|known| known.name == option.name);
        match known.filter(|_| option.name != "mail-type") {
            None => last.push(option),
            Some(known) if known.verbatim != option.verbatim => {
                draft.note(&option.origin(), "a later line says otherwise, and holds");
            }
            Some(_) => {}
        }
    }
    last.reverse();
    Ok(last)
}

fn named<'o>(options: &'o [ScriptOption], name: &str) -> Option<&'o ScriptOption> {
    options.iter().find(|option| option.name == name)
}

fn read_option(option: &ScriptOption, draft: &mut Draft) {
    let (origin, value, name) = (option.origin(), option.text(), option.name.as_str());
    if let Some((_, key, form)) = KEYS.iter().find(|(known, ..)| *known == name) {
        let (least, _) = value.split_once('-').unwrap_or((value, ""));
        let bare = value.replace(['[', ']'], "");
        let value = match *key {
            "resources.array" => &bare,
            "resources.nodes" if least != value => {
                draft.note(&origin, format!("a range, `{value}`: the least serves"));
                least
            }
            _ => value,
        };
        return match form.value(value) {
            Some(value) => draft.set_or_pass(key, value, option),
            None => draft.pass_through(option),
        };
    }
    match name {
        // Without a unit they are MiB (`sbatch(1)`, `--mem`); 0 is all that a node has.
        "mem" | "mem-per-cpu" => {
            let keys = ["resources.memory", "resources.memory_per_cpu"];
            let has_other = keys.iter().any(|key| draft.holds(key));
            match Size(1 << 20).value(value).filter(|_| !has_other) {
                Some(size) => draft.set_or_pass(keys[usize::from(name != "mem")], size, option),
                None => draft.pass_through(option),
            }
        }
        "exclusive" if option.value.is_none() => draft.set("resources.exclusive", true, &origin),
        // `run.inherit` is not quite the same: with it the job's own variables reach its steps.
        "export" if value == "ALL" => {}
        "error" | "open-mode" => draft.note(&origin, ONE_FILE),
        "gpus" | "gpus-per-node" | "gres" | "gpus-per-task" => {}
        "output" | "mail-user" | "mail-type" => {}
        name if MANNERS.contains(&name) => {
            draft.note(&origin, "says how `sbatch` behaves, not the job");
        }
        _ => draft.pass_through(option),
    }
}

/// GPUs in all stay Slurm's, since the job file has no key for them, and so do GPUs of a node or a task beside them.
fn set_gpus(options: &[ScriptOption], draft: &mut Draft) {
    let of = |name| named(options, name);
    let key = "resources.gpus_per_node";
    match [
        of("gpus"),
        of("gpus-per-node"),
        of("gres"),
        of("gpus-per-task"),
    ] {
        [None, None, Some(option), None] => set_gres(option, draft),
        // The key becomes `--gres`, which does not set the variable.
        [None, Some(option), None, None] => {
            draft.set_or_pass(key, form::gpus(option.text()), option);
            if draft.holds(key) {
                let (name, origin) = ("SLURM_GPUS_PER_NODE", option.origin());
                draft.insert("run.env", name, option.text(), &origin);
            }
        }
        [None, None, None, Some(option)] => {
            let key = "resources.gpus_per_task";
            draft.set_or_pass(key, form::gpus(option.text()), option);
        }
        several => {
            let several = several.into_iter().flatten();
            several.for_each(|option| draft.pass_through(option));
        }
    }
}

/// `run.output` where the job's id is in the name: else it could be other jobs' too.
fn set_output(option: &ScriptOption, draft: &mut Draft) {
    let (is_array, has_index) = (draft.holds("resources.array"), option.text().contains("%a"));
    // The id of an element's job is its own; under one name for all elements it is the array's with the index.
    let pattern = match is_array && !has_index {
        true => option.text().replace("%j", "%A_%a"),
        false => option.text().to_owned(),
    };
    let is_own = ["%j", "%A"].iter().any(|id| pattern.contains(id));
    let fits = is_own && pattern.contains("%a") == is_array;
    let value = Value::Text(pattern);
    if fits && Draft::takes("run.output", &value) {
        draft.set("run.output", value, &option.origin());
    } else {
        draft.note(&option.origin(), ONE_FILE);
    }
}

/// `gpu:2`, `gpu:v100:2`; other generic resources stay Slurm's.
fn set_gres(option: &ScriptOption, draft: &mut Draft) {
    let parts = option.text().split(',').filter(|part| !part.is_empty());
    let (gpus, rest): (Vec<&str>, Vec<&str>) =
        parts.partition(|part| *part == "gpu" || part.starts_with("gpu:"));
    let gpu = match gpus[..] {
        ["gpu"] => Some("1"),
        [gpu] => gpu.strip_prefix("gpu:"),
        _ => None,
    };
    let value = gpu.map(form::gpus);
    let Some(value) = value.filter(|value| Draft::takes("resources.gpus_per_node", value)) else {
        return draft.pass_through(option);
    };
    draft.set("resources.gpus_per_node", value, &option.origin());
    if !rest.is_empty() {
        let line = format!("--gres={}", rest.join(","));
        draft.push("scheduler.directives", line, &option.origin());
    }
}

/// Several `--mail-type` add up (`sbatch(1)` says nothing of it; 22.05 does it).
fn set_mail(options: &[ScriptOption], draft: &mut Draft) {
    let types = options.iter().filter(|option| option.name == "mail-type");
    let (texts, origins): (Vec<&str>, Vec<Origin>) =
        types.map(|option| (option.text(), option.origin())).unzip();
    let to = named(options, "mail-user").map(|to| (to.text().to_owned(), to.origin()));
    let on = origins
        .last()
        .map(|origin| (texts.join(","), origin.clone()));
    mail::set(draft, on, to);
}
