//! MODAK's job descriptions: JSON with `job_options`, `target`, `application` and `optimisation`.
//!
//! All keys of its published specification are known, those too that its own validator refuses.

mod document;
mod sizes;

use super::draft::{Draft, Origin};
use super::form::Form::{self, Conditions, Moment, Number, Seconds, Size, Text};
use super::shell_words::simple_command;
use super::write::Value;
use super::{Converted, Format, RUNSCRIPT, mail, variables};
use crate::foundation::diagnostic::Problem;
use crate::job::SchedulerKind;
use document::Document;
use sizes::Sizes;

const TITLE: &str = "From a job description of MODAK. `dlrun check` shows whether it can run.";
/// Where the training is described.
const TRAINING: &str = "optimisation.app_type-ai_training";
const FRAMEWORKS: [&str; 5] = ["tensorflow", "pytorch", "keras", "cntk", "mxnet"];

/// Keys that one of the job file says too, and how their values are written.
const KEYS: [(&str, &str, Form); 10] = [
    ("job_options.queue", "resources.queue", Text),
    ("job_options.account", "resources.account", Text),
    ("job_options.qos", "resources.qos", Text),
    ("job_options.job_array", "resources.array", Text),
    (
        "job_options.request_gpus",
        "resources.gpus_per_node",
        Number,
    ),
    ("job_options.wall_time_limit", "resources.walltime", Seconds),
    (
        "job_options.job_dependency",
        "resources.depends",
        Conditions,
    ),
    ("job_options.defer_job", "resources.begin", Moment),
    ("*.config.parameters", "workload.parameters", Number),
    ("*.data.count", "workload.samples", Number),
];

/// Keys, and objects of keys, that the job file has nothing for, and why. `*` means [`TRAINING`].
const NOTES: &str = "
job_script build_script job_content build_content | names where MODAK puts its result; `dlrun convert -o FILE` and `dlrun render` do that
target.name | names a site of MODAK's database; dlrun asks the machine that it runs on
job_options.standard_output_file job_options.standard_error_file | dlrun writes output and errors to NAME-JOBID.out in `run.workdir`
application.app_tag optimisation.enable_opt_build optimisation.opt_build.cpu_type optimisation.opt_build.acc_type | chose an image of MODAK's; name yours in `[image]`
application.minimal_efficiency | is for MODAK's model of scaling; dlrun starts the ranks asked for
optimisation.enable_autotuning optimisation.autotuning | dlrun tunes nothing
optimisation.app_type-hpc | MPI comes from the image or from `run.modules`; the rest has no meaning here
optimisation.arch_build optimisation.app_build | MODAK does not read it; left out
optimisation.app_type-ai_inference optimisation.app_type-big_data *.data.size *.data.etl | has no meaning here
*.config.type *.config.layers | is not recorded: `[workload]` has no key for it
*.config.distributed_training | how the program gets onto the nodes is `run.launcher`
*.data.location | is not handed to the program; write it among its arguments
";

/// Converts a description.
pub(super) fn convert(text: &str) -> Result<Converted, Vec<Problem>> {
    let mut document = Document::parse(text)?;
    document.convert();
    document.finish().finish(Format::Modak, TITLE)
}

impl Document {
    fn convert(&mut self) {
        let kind = self.read_target();
        self.read_name();
        for (path, key, form) in KEYS {
            if let Some((text, origin)) = self.text(&path.replace('*', TRAINING)) {
                self.draft.set_text(key, form, &text, &origin);
            }
        }
        let sizes = Sizes::read(self);
        self.read_memory(kind, &sizes);
        self.read_nodes(&sizes);
        self.read_environment();
        if let Some((true, origin)) = self.flag("job_options.node_exclusive") {
            self.draft.set("resources.exclusive", true, &origin);
        }
        let to = self.text("job_options.email_address");
        let on = self.text("job_options.request_event_notification");
        mail::set(&mut self.draft, on, to);
        if let Some((false, origin)) = self.flag("job_options.combine_stdout_stderr") {
            self.draft
                .note(&origin, "output and errors go into one file");
        }
        let is_mpi = self.read_program(&sizes);
        self.read_image();
        self.read_command(is_mpi);
        self.read_build();
        self.read_training();
        let rows = NOTES.lines().filter_map(|row| row.split_once(" | "));
        for (paths, what) in rows {
            for path in paths.split(' ') {
                self.note_rest(&path.replace('*', TRAINING), what);
            }
        }
    }

    fn read_target(&mut self) -> Option<SchedulerKind> {
        let mut kind = None;
        for path in ["target.job_scheduler_type", "target.queue_type"] {
            let Some((word, origin)) = self.word(path) else {
                continue;
            };
            let word = match word.as_str() {
                "none" => "local",
                "pbs" | "pbspro" => "openpbs",
                word => word,
            };
            kind = SchedulerKind::from_word(word);
            self.draft.set("scheduler.kind", word, &origin);
        }
        kind
    }

    /// MODAK makes file names of it unchanged; here it must be a name.
    fn read_name(&mut self) {
        let Some((name, origin)) = self.text("job_options.job_name") else {
            return;
        };
        let is_usable = |c: char| c.is_alphanumeric() || "._+-".contains(c);
        let usable = |c: char| if is_usable(c) { c } else { '-' };
        let cleaned: String = name.chars().map(usable).take(40).collect();
        let cleaned = cleaned.trim_matches(|c: char| !c.is_alphanumeric());
        let is_taken = Draft::takes("name", &cleaned.into());
        if is_taken {
            self.draft.set("name", cleaned, &origin);
        }
        if cleaned != name || !is_taken {
            let what = format!("{name:?} cannot name a job as it is");
            self.draft.note(&origin, what);
        }
    }

    /// A bare number is MiB to Slurm and bytes to PBS.
    fn read_memory(&mut self, kind: Option<SchedulerKind>, sizes: &Sizes) {
        let is_pbs = kind.is_some_and(SchedulerKind::is_pbs);
        let form = Size(if is_pbs { 1 } else { 1 << 20 });
        let each = self.text("job_options.minimum_memory_per_processor");
        if let Some((text, origin)) = self.text("job_options.memory_limit") {
            self.draft
                .set_text("resources.memory", form, &text, &origin);
            if is_pbs && sizes.nodes.as_ref().is_some_and(|(nodes, _)| *nodes > 1) {
                let what = "is taken for each node; PBS would have taken it for the whole job";
                self.draft.note(&origin, what);
            }
        }
        match each {
            Some((_, origin)) if self.draft.holds("resources.memory") => {
                let what = "`memory_limit` is given too, and only one can hold";
                self.draft.note(&origin, what);
            }
            Some((text, origin)) => {
                self.draft
                    .set_text("resources.memory_per_cpu", form, &text, &origin)
            }
            None => {}
        }
    }

    /// Nodes by name, and by their properties.
    fn read_nodes(&mut self, sizes: &Sizes) {
        let mut features: Vec<(String, Origin)> = Vec::new();
        if let Some((nodes, origin)) = self.text("job_options.request_specific_nodes") {
            let names = nodes.split(['+', ',', ' ']).filter(|name| !name.is_empty());
            let names: Vec<&str> = names.collect();
            let asked = sizes.nodes.as_ref().map_or(1, |(nodes, _)| *nodes);
            // Names of nodes have numbers, and there are as many as nodes; else it is a property, which Torque takes here too.
            let has_digit = nodes.contains(|c: char| c.is_ascii_digit());
            if nodes.contains('[') || (has_digit && (names.len() > 1 || asked == 1)) {
                self.draft
                    .set("resources.nodelist", names.join(","), &origin);
            } else {
                let what =
                    format!("`{nodes}` is taken for a property of nodes: `resources.constraint`");
                self.draft.note(&origin, what);
                features.push((nodes, origin));
            }
        }
        if let Some((partition, origin)) = self.text("job_options.partition") {
            match self.draft.get("resources.queue") {
                None => self.draft.set("resources.queue", partition, &origin),
                Some(queue) if *queue == Value::from(partition.as_str()) => {}
                Some(_) => features.push((partition, origin)),
            }
        }
        features.extend(self.text("job_options.architecture_constraint"));
        if let Some((_, origin)) = features.first() {
            let all: Vec<&str> = features.iter().map(|(text, _)| text.as_str()).collect();
            self.draft
                .set("resources.constraint", all.join("&"), origin);
        }
    }

    fn read_environment(&mut self) {
        let all = self.flag("job_options.copy_environment");
        let names = self.text("job_options.copy_environment_variable");
        // Variables by name are what `none` leaves.
        if let Some((all, origin)) = all.filter(|(all, _)| *all || names.is_none()) {
            let word = if all { "all" } else { "none" };
            self.draft.set("run.inherit", word, &origin);
        }
        if let Some((list, origin)) = names {
            variables::set(&mut self.draft, &list, &origin);
        }
    }

    /// Sets the launcher and how many it starts; says whether they are the ranks of an MPI program.
    fn read_program(&mut self, sizes: &Sizes) -> bool {
        let app_type = self.word("application.app_type");
        let ranks = sizes.ranks.clone().filter(|(ranks, _)| *ranks > 1);
        let is_mpi = match &app_type {
            Some((word, origin)) => {
                let is_mpi = ["mpi", "hpc"].contains(&word.as_str());
                if !is_mpi && word != "python" {
                    let what = "is not mpi, hpc or python; the program is started once";
                    self.draft.note(origin, format!("`{word}` {what}"));
                }
                is_mpi
            }
            None => ranks.is_some(),
        };
        sizes.set(is_mpi, &mut self.draft);
        let named = app_type
            .map(|(_, origin)| origin)
            .or(ranks.map(|(_, origin)| origin));
        match (is_mpi, named, &sizes.nodes) {
            (true, Some(origin), _) => self.draft.set("run.launcher", "mpi", &origin),
            // MODAK starts a program that is not MPI's on the first node only, and the others stand idle.
            (false, _, Some((nodes, origin))) if *nodes > 1 => {
                self.draft.set("run.launcher", "each", origin);
                let how = "\"none\" with `run.idle_nodes = true` does as MODAK does";
                self.draft.note(
                    origin,
                    format!(
                        "the program is started once on each of the {nodes} nodes; launcher {how}"
                    ),
                );
            }
            _ => {}
        }
        is_mpi
    }

    fn read_image(&mut self) {
        let Some((image, origin)) = self.text("application.container_runtime") else {
            return;
        };
        let is_path = [".sif", ".simg"].iter().any(|end| image.ends_with(end))
            || image.starts_with(['/', '.']);
        let (key, text) = if image.contains("://") {
            ("image.uri", image)
        } else if is_path {
            ("image.path", image)
        } else {
            // MODAK's own examples leave the scheme out.
            ("image.uri", format!("docker://{image}"))
        };
        self.draft.set(key, text, &origin);
    }

    /// `executable` and `arguments` are shell text in MODAK: words where no shell is needed, else text for bash.
    fn read_command(&mut self, is_mpi: bool) {
        let executable = self.raw_text("application.executable");
        let arguments = self.raw_text("application.arguments");
        let mut around = ["pre-execution", "post-execution"]
            .map(|step| self.text(&format!("application.{step}")));
        let has_image = self.draft.holds("image.uri") || self.draft.holds("image.path");
        let image = || {
            let origin = Origin::named("application.container_runtime");
            (RUNSCRIPT.to_owned(), origin)
        };
        let program = executable.or_else(|| has_image.then(image));
        if is_mpi || program.is_none() {
            let what = if is_mpi {
                "would run once for every rank; put it into a script around the job"
            } else {
                "belongs to no `executable`"
            };
            let lost = arguments.iter().filter(|_| program.is_none());
            for (_, origin) in around.iter().flatten().chain(lost) {
                self.draft.refuse(origin, what);
            }
            around = [None, None];
        }
        let Some((program, origin)) = program else {
            // What the description does say is worth having; the command fails until it is written.
            let origin = Origin::named("application.executable");
            let words = vec!["false".to_owned()];
            self.draft.set("run.command", words, &origin);
            let what = "no program is named; `run.command` must be written by hand";
            return self.draft.refuse(&origin, what);
        };
        let arguments = arguments
            .map(|(arguments, _)| arguments)
            .unwrap_or_default();
        let text = format!("{} {arguments}", program.trim());
        let text = text.trim();
        let words = simple_command(text)
            .filter(|words| !words.is_empty() && around.iter().all(Option::is_none));
        let words = words.unwrap_or_else(|| {
            // The program's own exit code is the job's; without what comes before, it does not start.
            let [before, after] = around.map(|step| step.map(|(text, _)| text));
            let before = before
                .map(|before| format!("{before} || exit\n"))
                .unwrap_or_default();
            let after = after
                .map(|after| format!("\ncode=$?\n{after}\nexit $code"))
                .unwrap_or_default();
            vec![
                "bash".to_owned(),
                "-c".to_owned(),
                format!("{before}{text}{after}"),
            ]
        });
        self.draft.set("run.command", words, &origin);
    }

    fn read_build(&mut self) {
        if let Some((class, origin)) = self.text("application.storage_class_pref") {
            let class = class
                .strip_prefix("default-")
                .unwrap_or(&class)
                .replace('-', "_");
            self.draft.set("storage.prefer", class, &origin);
        }
        let has_source = self.holds("application.build.src");
        let source = self.text("application.build.src");
        let command = self.raw_text("application.build.build_command");
        let parallelism = self.count("application.build.build_parallelism");
        match (source, &command) {
            (Some((source, origin)), _)
                if self.draft.try_set("build.source", source.as_str(), &origin) =>
            {
                if let Some((command, origin)) = command {
                    // MODAK's template variable by dlrun's name.
                    let command = command
                        .replace("{{ BUILD_PARALLELISM }}", "{{parallelism}}")
                        .replace("{{BUILD_PARALLELISM}}", "{{parallelism}}");
                    self.draft.set("build.command", command.trim(), &origin);
                }
                if let Some((count, origin)) = parallelism {
                    self.draft.set("build.parallelism", count, &origin);
                }
            }
            (None, Some((_, origin))) if !has_source => {
                self.draft.refuse(origin, "names no `src` to build");
            }
            _ => {}
        }
    }

    fn read_training(&mut self) {
        if let Some((word, origin)) = self.word("optimisation.app_type")
            && !["ai_training", "hpc"].contains(&word.as_str())
        {
            self.draft
                .note(&origin, format!("`{word}` has no meaning here"));
        }
        if let Some((name, origin)) = self.text(&format!("{TRAINING}.data.basedata")) {
            self.draft
                .set("workload.dataset", name.to_ascii_lowercase(), &origin);
        }
        self.read_framework();
    }

    /// The framework that is named, else the only one that has a block.
    fn read_framework(&mut self) {
        let named = self.word(&format!("{TRAINING}.config.ai_framework"));
        let path = |name: &str| format!("{TRAINING}.ai_framework-{name}");
        let is_described = |name: &&str| self.holds(&path(name));
        let described: Vec<&str> = FRAMEWORKS.into_iter().filter(is_described).collect();
        let chosen = match (&named, &described[..]) {
            (Some((name, _)), _) => Some(name.clone()),
            (None, [only]) => Some((*only).to_owned()),
            (None, _) => None,
        };
        for name in described {
            let path = path(name);
            if chosen.as_deref() != Some(name) {
                self.note_rest(&path, "is not the framework that is named; left out");
                continue;
            }
            if let Some((version, origin)) = self.text(&format!("{path}.version")) {
                self.draft.set("framework.version", version, &origin);
            }
            for compiler in ["xla", "glow"] {
                let flag = self.flag(&format!("{path}.{compiler}"));
                if let Some((wanted, origin)) = flag {
                    let word = if wanted { compiler } else { "none" };
                    self.draft.set("framework.compiler", word, &origin);
                }
            }
            let what = "is not recorded; the program chooses its backend, by KERAS_BACKEND";
            self.note_rest(&format!("{path}.backend"), what);
        }
        if let Some(name) = chosen {
            let origin = named.map_or_else(|| Origin::named(path(&name)), |(_, origin)| origin);
            self.draft.set("framework.name", name, &origin);
        }
    }
}
