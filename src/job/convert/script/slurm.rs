//! `#SBATCH` lines as a job file.

use std::ops::Range;

use super::Script;
use super::line::words;
use super::output;
use super::slurm_options::{SlurmOption, read};
use super::start;
use crate::foundation::diagnostic::Problem;
use crate::foundation::units::Walltime;
use crate::job::convert::draft::{Draft, Origin};
use crate::job::convert::shape::{Asked, Shape};
use crate::job::convert::write::Value;
use crate::job::convert::{Converted, Format, ScriptPlace, begin, depend, mail, size, time};
use crate::job::kind_and_count;

const TITLE: &str = "From a script with #SBATCH lines. `dlrun check` tells whether it can run.";

pub(super) fn convert(
    text: &str,
    script: &Script<'_>,
    place: Option<&ScriptPlace>,
    foreign: &[Range<usize>],
) -> Result<Converted, Problem> {
    let mut draft = Draft::default();
    let mut job = Job::default();
    for option in options(script, &mut draft)? {
        job.read(&option, &mut draft);
    }
    let first = script
        .directives
        .first()
        .map_or(0..0, |(_, span)| span.clone());
    let kind = Origin {
        about: "#SBATCH".to_owned(),
        span: first,
    };
    let _ = draft.set("scheduler.kind", Value::Text("slurm".to_owned()), &kind);
    job.count_tasks_by_gpus();
    let shape = job.set_shape(&mut draft);
    job.set_gpus(&mut draft);
    job.set_gpus_per_task(shape, &mut draft);
    job.set_mail(&mut draft);
    if let Some((pattern, origin)) = &job.output {
        output::set(pattern, origin, &mut draft);
    }
    start::set_name(place, &mut draft);
    let _ = start::set(text, script, shape, &[], place, &mut draft)?;
    for span in foreign {
        let origin = Origin {
            about: "#PBS".to_owned(),
            span: span.clone(),
        };
        draft.note(&origin, "is left out: the script has `#SBATCH` lines too");
    }
    draft.finish(Format::Slurm, TITLE).map_err(|problems| {
        problems
            .into_iter()
            .next()
            .unwrap_or_else(|| Problem::of_file("no job file"))
    })
}

/// The options of all lines; of two the last holds, as `sbatch` has it.
fn options(script: &Script<'_>, draft: &mut Draft) -> Result<Vec<SlurmOption>, Problem> {
    let mut options: Vec<SlurmOption> = Vec::new();
    for (line, span) in &script.directives {
        let (read, strays) = read(words(line, span.start));
        for stray in strays {
            if ["hetjob", "packjob"].contains(&stray.text.as_str()) {
                let what = "a job of several components (heterogeneous) is nothing that a job file can say";
                return Err(
                    Problem::at(stray.span, what).hinted("submit it by `sbatch`, or as two jobs")
                );
            }
            let origin = Origin {
                about: stray.text.clone(),
                span: stray.span,
            };
            draft.note(&origin, "is no option of `sbatch`; left out");
        }
        options.extend(read);
    }
    let mut last: Vec<SlurmOption> = Vec::new();
    for option in options.into_iter().rev() {
        if option.name == "mail-type" {
            last.push(option);
            continue;
        }
        if last
            .iter()
            .any(|known| known.name == option.name && known.verbatim != option.verbatim)
        {
            draft.note(&option.origin(), "a later line says otherwise, and holds");
        } else if !last.iter().any(|known| known.name == option.name) {
            last.push(option);
        }
    }
    last.reverse();
    Ok(last)
}

/// What hangs on several options.
#[derive(Debug, Default)]
struct Job {
    asked: Asked,
    /// Where each number of [`Job::asked`] stands: nodes, tasks, tasks per node.
    places: [Option<Origin>; 3],
    gpus: Option<SlurmOption>,
    gpus_per_node: Option<SlurmOption>,
    gres: Option<SlurmOption>,
    gpus_per_task: Option<SlurmOption>,
    mail_to: Option<(String, Origin)>,
    mail_on: Option<(String, Origin)>,
    output: Option<(String, Origin)>,
}

/// Options whose values stand in the job file as they are.
const SAME: [(&str, &str); 9] = [
    ("account", "resources.account"),
    ("chdir", "run.workdir"),
    ("constraint", "resources.constraint"),
    ("exclude", "resources.exclude"),
    ("job-name", "name"),
    ("nodelist", "resources.nodelist"),
    ("partition", "resources.queue"),
    ("qos", "resources.qos"),
    ("reservation", "resources.reservation"),
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

impl Job {
    fn read(&mut self, option: &SlurmOption, draft: &mut Draft) {
        let (origin, value) = (option.origin(), option.value.as_deref().unwrap_or(""));
        let name = option.name.as_str();
        if name == "gpus-per-node" {
            self.gpus_per_node = Some(option.clone());
            return;
        }
        if let Some((_, key)) = SAME.iter().find(|(known, _)| *known == name) {
            or_verbatim(key, Value::Text(value.to_owned()), option, draft);
            return;
        }
        match name {
            // Indexes may be in brackets, as in `[1-3]%2` (22.05 takes it, `sbatch(1)` does not say so).
            "array" => {
                or_verbatim(
                    "resources.array",
                    Value::Text(value.replace(['[', ']'], "")),
                    option,
                    draft,
                );
            }
            "nodes" => self.count(0, value.split('-').next().unwrap_or(""), &origin, draft),
            "ntasks" => self.count(1, value, &origin, draft),
            "ntasks-per-node" => self.count(2, value, &origin, draft),
            "cpus-per-task" => number("resources.cpus_per_task", option, draft),
            "gpus" => self.gpus = Some(option.clone()),
            "gpus-per-task" => self.gpus_per_task = Some(option.clone()),
            "gres" => self.gres = Some(option.clone()),
            "mem" => memory("resources.memory", option, draft),
            "mem-per-cpu" => memory("resources.memory_per_cpu", option, draft),
            "time" => walltime(option, draft),
            "dependency" => depends(option, draft),
            "begin" => {
                let moment = begin::moment(value).unwrap_or_default();
                or_verbatim("resources.begin", Value::Text(moment), option, draft);
            }
            "licenses" => licenses(option, draft),
            "mail-user" => self.mail_to = Some((value.to_owned(), origin)),
            // Several add up (`sbatch(1)` says nothing of it; 22.05 does it).
            "mail-type" => {
                let known = self
                    .mail_on
                    .take()
                    .map_or_else(String::new, |(known, _)| known + ",");
                self.mail_on = Some((known + value, origin));
            }
            "exclusive" if option.value.is_none() => {
                let _ = draft.set("resources.exclusive", Value::Flag(true), &origin);
            }
            // `run.inherit` is not quite the same: with it the job's own variables reach its steps.
            "export" if value != "ALL" => verbatim(option, draft),
            "export" => {}
            "output" => self.output = Some((value.to_owned(), origin)),
            "error" | "open-mode" => draft.note(&origin, output::ONE_FILE),
            name if MANNERS.contains(&name) => {
                draft.note(&origin, "says how `sbatch` behaves, not the job")
            }
            _ => verbatim(option, draft),
        }
        if name == "nodes"
            && value.contains('-')
            && value.split('-').next() != value.split('-').nth(1)
        {
            draft.note(
                &option.origin(),
                format!("a range, `{value}`: the least serves"),
            );
        }
    }

    fn count(&mut self, at: usize, value: &str, origin: &Origin, draft: &mut Draft) {
        let Some(number) = value.parse::<u32>().ok().filter(|number| *number > 0) else {
            draft.refuse(origin, format!("`{value}` is no number that this can be"));
            return;
        };
        let place = match at {
            0 => &mut self.asked.nodes,
            1 => &mut self.asked.tasks,
            _ => &mut self.asked.tasks_per_node,
        };
        *place = Some(number);
        self.places[at] = Some(origin.clone());
    }

    /// `--gpus=X --gpus-per-task=Y` without a number of tasks says it too (`sbatch(1)`, `--gpus-per-task`).
    fn count_tasks_by_gpus(&mut self) {
        let (Some(gpus), Some(each)) = (&self.gpus, &self.gpus_per_task) else {
            return;
        };
        let count = |option: &SlurmOption| kind_and_count(option.value.as_deref().unwrap_or("")).1;
        let tasks = count(gpus)
            .checked_div(count(each))
            .filter(|tasks| *tasks > 0);
        if self.asked.tasks.is_none() && self.asked.tasks_per_node.is_none() && tasks.is_some() {
            self.asked.tasks = tasks;
            self.places[1] = Some(each.origin());
        }
    }

    fn set_shape(&self, draft: &mut Draft) -> Shape {
        let asked = [
            self.asked.nodes,
            self.asked.tasks,
            self.asked.tasks_per_node,
        ];
        let keys = [
            "resources.nodes",
            "resources.tasks",
            "resources.tasks_per_node",
        ];
        for ((number, origin), key) in asked.into_iter().zip(&self.places).zip(keys) {
            if let (Some(number), Some(origin)) = (number, origin) {
                let _ = draft.set(key, Value::Number(number.into()), origin);
            }
        }
        Shape::spread(self.asked)
    }

    /// GPUs in all stay Slurm's: the job file has no key for them. So do GPUs of a node beside them.
    fn set_gpus(&self, draft: &mut Draft) {
        let all = [&self.gpus, &self.gpus_per_node, &self.gres];
        match all.map(Option::as_ref) {
            [None, None, Some(option)] => gres(option, draft),
            [None, Some(option), None] => gpus_per_node(option, draft),
            all => all
                .into_iter()
                .flatten()
                .for_each(|option| verbatim(option, draft)),
        }
    }

    /// GPUs of a task. Beside GPUs of a node that say otherwise, which a job file must not have, they stay Slurm's.
    fn set_gpus_per_task(&self, shape: Shape, draft: &mut Draft) {
        let Some(option) = &self.gpus_per_task else {
            return;
        };
        let (kind, count) = kind_and_count(option.value.as_deref().unwrap_or(""));
        let on_node = gpu_value(kind, count.saturating_mul(shape.tasks_per_node));
        if draft
            .get("resources.gpus_per_node")
            .is_none_or(|said| *said == on_node)
        {
            or_verbatim(
                "resources.gpus_per_task",
                gpu_value(kind, count),
                option,
                draft,
            );
        } else {
            verbatim(option, draft);
        }
    }

    /// The index of an array is in the name where there is an array, and only there.
    fn set_mail(&self, draft: &mut Draft) {
        let Some((text, origin)) = &self.mail_on else {
            if let Some((_, origin)) = &self.mail_to {
                draft.note(origin, "without `--mail-type` no mail is sent; left out");
            }
            return;
        };
        let events = mail::events(text);
        if !events.unknown.is_empty() {
            draft.note(
                origin,
                format!("no word here for {}", events.unknown.join(", ")),
            );
        }
        if events.on.is_empty() {
            return;
        }
        let on = Value::Texts(events.on.iter().map(|word| (*word).to_owned()).collect());
        // An empty address is the submitting user's.
        let to = self.mail_to.iter().filter(|(to, _)| !to.is_empty());
        let to = to.map(|(to, _)| ("to".to_owned(), Value::Text(to.clone())));
        let pairs = to.chain([("on".to_owned(), on)]).collect();
        let _ = draft.set("resources.mail", Value::Table(pairs), origin);
    }
}

/// An option that the job file has no word for goes to Slurm as it is.
fn verbatim(option: &SlurmOption, draft: &mut Draft) {
    let _ = draft.push(
        "scheduler.directives",
        option.verbatim.clone(),
        &option.origin(),
    );
}

/// The job file's own key where it takes the value, else Slurm's option.
fn or_verbatim(key: &'static str, value: Value, option: &SlurmOption, draft: &mut Draft) {
    // These are dlrun's own to write, so that Slurm's option would be refused.
    let is_own = ["name", "run.workdir", "resources.array"].contains(&key);
    if is_own || Draft::takes(key, &value) {
        let _ = draft.set(key, value, &option.origin());
    } else {
        verbatim(option, draft);
    }
}

fn number(key: &'static str, option: &SlurmOption, draft: &mut Draft) {
    match option.value.as_deref().unwrap_or("").parse() {
        Ok(number) => {
            let _ = draft.set(key, Value::Number(number), &option.origin());
        }
        Err(_) => verbatim(option, draft),
    }
}

/// The key becomes `--gres`, which does not set the variable.
fn gpus_per_node(option: &SlurmOption, draft: &mut Draft) {
    let (key, value) = (
        "resources.gpus_per_node",
        option.value.as_deref().unwrap_or(""),
    );
    let number = value.parse().ok().map(Value::Number);
    or_verbatim(
        key,
        number.unwrap_or_else(|| Value::Text(value.to_owned())),
        option,
        draft,
    );
    if draft.holds(key) {
        let value = Value::Text(value.to_owned());
        let _ = draft.insert("run.env", "SLURM_GPUS_PER_NODE", value, &option.origin());
    }
}

fn gpu_value(kind: Option<&str>, count: u32) -> Value {
    match kind {
        Some(kind) => Value::Text(format!("{kind}:{count}")),
        None => Value::Number(count.into()),
    }
}

/// `gpu:2`, `gpu:v100:2`; other generic resources stay Slurm's.
fn gres(option: &SlurmOption, draft: &mut Draft) {
    let value = option.value.as_deref().unwrap_or("");
    let parts: Vec<&str> = value.split(',').filter(|part| !part.is_empty()).collect();
    let gpus: Vec<&&str> = parts
        .iter()
        .filter(|part| **part == "gpu" || part.starts_with("gpu:"))
        .collect();
    let [gpu] = gpus[..] else {
        return verbatim(option, draft);
    };
    let rest: Vec<&str> = parts.iter().copied().filter(|part| part != gpu).collect();
    let gpu = gpu
        .strip_prefix("gpu")
        .unwrap_or("")
        .trim_start_matches(':');
    let value = match gpu.rsplit_once(':') {
        _ if gpu.is_empty() => Some(gpu_value(None, 1)),
        Some((kind, count)) => count.parse().ok().map(|count| gpu_value(Some(kind), count)),
        // A kind without a number is one of it.
        None => Some(
            gpu.parse()
                .map_or_else(|_| gpu_value(Some(gpu), 1), |count| gpu_value(None, count)),
        ),
    };
    match value.filter(|value| Draft::takes("resources.gpus_per_node", value)) {
        Some(value) if rest.is_empty() || rest.iter().all(|part| is_simple(part)) => {
            let _ = draft.set("resources.gpus_per_node", value, &option.origin());
            if !rest.is_empty() {
                let line = format!("--gres={}", rest.join(","));
                let _ = draft.push("scheduler.directives", line, &option.origin());
            }
        }
        _ => verbatim(option, draft),
    }
}

fn is_simple(text: &str) -> bool {
    text.chars()
        .all(|c| c.is_ascii_alphanumeric() || "._:-".contains(c))
}

/// Without a unit they are MiB (`sbatch(1)`, `--mem`); 0 is all that a node has.
fn memory(key: &'static str, option: &SlurmOption, draft: &mut Draft) {
    let bytes =
        size::bytes(option.value.as_deref().unwrap_or(""), 1 << 20).filter(|bytes| bytes.0 > 0);
    let other = ["resources.memory", "resources.memory_per_cpu"]
        .into_iter()
        .any(|key| draft.holds(key));
    match bytes {
        Some(bytes) if !other => or_verbatim(key, Value::Text(size::shown(bytes)), option, draft),
        _ => verbatim(option, draft),
    }
}

fn walltime(option: &SlurmOption, draft: &mut Draft) {
    let value = option.value.as_deref().unwrap_or("");
    match time::slurm(value).filter(|seconds| *seconds > 0) {
        Some(seconds) => {
            let shown = Walltime(seconds).to_string();
            or_verbatim("resources.walltime", Value::Text(shown), option, draft);
        }
        None => verbatim(option, draft),
    }
}

fn depends(option: &SlurmOption, draft: &mut Draft) {
    match depend::conditions(option.value.as_deref().unwrap_or("")) {
        Some(conditions) => {
            or_verbatim("resources.depends", Value::Texts(conditions), option, draft)
        }
        None => verbatim(option, draft),
    }
}

/// `matlab:2,ansys`; any of several (`|`) is only Slurm's to say.
fn licenses(option: &SlurmOption, draft: &mut Draft) {
    let one = |part: &str| match part.rsplit_once([':', '*']) {
        Some((name, count)) => Some((name.to_owned(), Value::Number(count.parse().ok()?))),
        None => Some((part.to_owned(), Value::Number(1))),
    };
    let value = option.value.as_deref().unwrap_or("");
    let pairs: Option<Vec<_>> = value.split(',').map(one).collect();
    match pairs {
        Some(pairs) => or_verbatim("resources.licenses", Value::Table(pairs), option, draft),
        None => verbatim(option, draft),
    }
}
