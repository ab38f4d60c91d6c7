//! `#SBATCH` lines as a job file.

use std::ops::Range;

use super::Script;
use super::line::words;
use super::option::ScriptOption;
use super::output;
use super::slurm_options::read;
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
) -> Result<Converted, Vec<Problem>> {
    let mut draft = Draft::default();
    let mut job = Job::default();
    for option in options(script, &mut draft)? {
        job.read(&option, &mut draft);
    }
    let first = script
        .directives
        .first()
        .map_or(0..0, |(_, span)| span.clone());
    let kind = Origin::new("#SBATCH", first);
    draft.set("scheduler.kind", "slurm", &kind);
    job.count_tasks_by_gpus();
    let shape = job.set_shape(&mut draft);
    job.set_gpus(&mut draft);
    job.set_gpus_per_task(shape, &mut draft);
    job.set_mail(&mut draft);
    if let Some((pattern, origin)) = &job.output {
        output::set(pattern, origin, &mut draft);
    }
    start::set_name(place, &mut draft);
    start::set(text, script, shape, &[], place, &mut draft)?;
    for span in foreign {
        let origin = Origin::new("#PBS", span.clone());
        draft.note(&origin, "is left out: the script has `#SBATCH` lines too");
    }
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
                "is no option of `sbatch`; left out",
            );
        }
        options.extend(read);
    }
    let mut last: Vec<ScriptOption> = Vec::new();
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
    gpus: Option<ScriptOption>,
    gpus_per_node: Option<ScriptOption>,
    gres: Option<ScriptOption>,
    gpus_per_task: Option<ScriptOption>,
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
    fn read(&mut self, option: &ScriptOption, draft: &mut Draft) {
        let (origin, value) = (option.origin(), option.text());
        let name = option.name.as_str();
        if let Some((_, key)) = SAME.iter().find(|(known, _)| *known == name) {
            return draft.set_or_pass(key, value, option);
        }
        match name {
            // Indexes may be in brackets, as in `[1-3]%2` (22.05 takes it, `sbatch(1)` does not say so).
            "array" => {
                draft.set_or_pass("resources.array", value.replace(['[', ']'], ""), option);
            }
            "nodes" => {
                let (least, most) = value.split_once('-').unwrap_or((value, value));
                self.count(0, least, &origin, draft);
                if least != most {
                    draft.note(&origin, format!("a range, `{value}`: the least serves"));
                }
            }
            "ntasks" => self.count(1, value, &origin, draft),
            "ntasks-per-node" => self.count(2, value, &origin, draft),
            "cpus-per-task" => match value.parse::<u64>() {
                Ok(number) => draft.set("resources.cpus_per_task", number, &origin),
                Err(_) => draft.pass_through(option),
            },
            "gpus" => self.gpus = Some(option.clone()),
            "gpus-per-node" => self.gpus_per_node = Some(option.clone()),
            "gpus-per-task" => self.gpus_per_task = Some(option.clone()),
            "gres" => self.gres = Some(option.clone()),
            "mem" => memory("resources.memory", option, draft),
            "mem-per-cpu" => memory("resources.memory_per_cpu", option, draft),
            "time" => walltime(option, draft),
            "dependency" => match depend::conditions(value) {
                Some(conditions) => draft.set_or_pass("resources.depends", conditions, option),
                None => draft.pass_through(option),
            },
            "begin" => {
                let moment = begin::moment(value).unwrap_or_default();
                draft.set_or_pass("resources.begin", moment, option);
            }
            "licenses" => licenses(option, draft),
            "mail-user" => self.mail_to = Some((value.to_owned(), origin)),
            // Several add up (`sbatch(1)` says nothing of it; 22.05 does it).
            "mail-type" => {
                let known = self.mail_on.take();
                let known = known.map_or_else(String::new, |(known, _)| known + ",");
                self.mail_on = Some((known + value, origin));
            }
            "exclusive" if option.value.is_none() => {
                draft.set("resources.exclusive", true, &origin);
            }
            // `run.inherit` is not quite the same: with it the job's own variables reach its steps.
            "export" if value == "ALL" => {}
            "output" => self.output = Some((value.to_owned(), origin)),
            "error" | "open-mode" => draft.note(&origin, output::ONE_FILE),
            name if MANNERS.contains(&name) => {
                draft.note(&origin, "says how `sbatch` behaves, not the job");
            }
            _ => draft.pass_through(option),
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
        let count = |option: &ScriptOption| kind_and_count(option.text()).1;
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
                draft.set(key, number, origin);
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
                .for_each(|option| draft.pass_through(option)),
        }
    }

    /// GPUs of a task. Beside GPUs of a node that say otherwise, which a job file must not have, they stay Slurm's.
    fn set_gpus_per_task(&self, shape: Shape, draft: &mut Draft) {
        let Some(option) = &self.gpus_per_task else {
            return;
        };
        let (kind, count) = kind_and_count(option.text());
        let on_node = gpu_value(kind, count.saturating_mul(shape.tasks_per_node));
        if draft
            .get("resources.gpus_per_node")
            .is_none_or(|said| *said == on_node)
        {
            draft.set_or_pass("resources.gpus_per_task", gpu_value(kind, count), option);
        } else {
            draft.pass_through(option);
        }
    }

    fn set_mail(&self, draft: &mut Draft) {
        match (&self.mail_on, &self.mail_to) {
            (Some((text, origin)), to) => mail::set(draft, (text, origin), to.as_ref()),
            (None, Some((_, origin))) => {
                draft.note(origin, "without `--mail-type` no mail is sent; left out");
            }
            (None, None) => {}
        }
    }
}

/// The key becomes `--gres`, which does not set the variable.
fn gpus_per_node(option: &ScriptOption, draft: &mut Draft) {
    let (key, text) = ("resources.gpus_per_node", option.text());
    let number = text.parse::<u64>().map(Value::Number);
    draft.set_or_pass(key, number.unwrap_or_else(|_| text.into()), option);
    if draft.holds(key) {
        draft.insert("run.env", "SLURM_GPUS_PER_NODE", text, &option.origin());
    }
}

fn gpu_value(kind: Option<&str>, count: u32) -> Value {
    match kind {
        Some(kind) => Value::Text(format!("{kind}:{count}")),
        None => Value::Number(count.into()),
    }
}

/// `gpu:2`, `gpu:v100:2`; other generic resources stay Slurm's.
fn gres(option: &ScriptOption, draft: &mut Draft) {
    let parts = option.text().split(',').filter(|part| !part.is_empty());
    let (gpus, rest): (Vec<&str>, Vec<&str>) =
        parts.partition(|part| *part == "gpu" || part.starts_with("gpu:"));
    let [gpu] = gpus[..] else {
        return draft.pass_through(option);
    };
    let gpu = gpu.trim_start_matches("gpu").trim_start_matches(':');
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
        Some(value) if rest.iter().all(|part| is_simple(part)) => {
            draft.set("resources.gpus_per_node", value, &option.origin());
            if !rest.is_empty() {
                let line = format!("--gres={}", rest.join(","));
                draft.push("scheduler.directives", line, &option.origin());
            }
        }
        _ => draft.pass_through(option),
    }
}

fn is_simple(text: &str) -> bool {
    text.chars()
        .all(|c| c.is_ascii_alphanumeric() || "._:-".contains(c))
}

/// Without a unit they are MiB (`sbatch(1)`, `--mem`); 0 is all that a node has.
fn memory(key: &'static str, option: &ScriptOption, draft: &mut Draft) {
    let bytes = size::bytes(option.text(), 1 << 20).filter(|bytes| bytes.0 > 0);
    let keys = ["resources.memory", "resources.memory_per_cpu"];
    let has_other = keys.into_iter().any(|key| draft.holds(key));
    match bytes.filter(|_| !has_other) {
        Some(bytes) => draft.set_or_pass(key, size::shown(bytes), option),
        None => draft.pass_through(option),
    }
}

fn walltime(option: &ScriptOption, draft: &mut Draft) {
    match time::slurm(option.text()).filter(|seconds| *seconds > 0) {
        Some(seconds) => {
            draft.set_or_pass("resources.walltime", Walltime(seconds).to_string(), option);
        }
        None => draft.pass_through(option),
    }
}

/// `matlab:2,ansys`; any of several (`|`) is only Slurm's to say.
fn licenses(option: &ScriptOption, draft: &mut Draft) {
    let one = |part: &str| {
        let (name, count) = part.rsplit_once([':', '*']).unwrap_or((part, "1"));
        Some((name.to_owned(), Value::Number(count.parse().ok()?)))
    };
    match option
        .text()
        .split(',')
        .map(one)
        .collect::<Option<Vec<_>>>()
    {
        Some(pairs) => draft.set_or_pass("resources.licenses", pairs, option),
        None => draft.pass_through(option),
    }
}
