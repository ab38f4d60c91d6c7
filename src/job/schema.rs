//! The JSON Schema of the job file (draft 2020-12), for editors: they complete keys and mark faults by it.
//!
//! The reader stays the judge. The schema says what can be said of a key alone; `tests/it/schema.rs` holds the two
//! together.

use serde_json::{Map, Value, json};

use super::array::MAX_ELEMENTS;
use super::depend::DependencyKind;
use super::image::{BuildMode, GpuMode};
use super::mail::MailEvent;
use super::resources::MAX_TASKS;
use super::spec::{SchedulerKind, StorageClass};

/// The keys of one table: name and schema, in the order of `docs/job-file.md`.
type Keys = Vec<(&'static str, Value)>;

/// The tables of the job file with their keys, in the order of the documentation. The first is the top level.
fn tables() -> Vec<(&'static str, &'static str, Keys)> {
    vec![
        ("", "A training run of dlrun.", top()),
        ("run", "What runs, and in which environment.", run()),
        (
            "resources",
            "What the job needs. A line that is left out leaves the choice to the site.",
            resources(),
        ),
        (
            "scheduler",
            "Who takes the job, and what is passed through to it.",
            scheduler(),
        ),
        ("image", "The container that the command runs in.", image()),
        (
            "python",
            "The Python environment that the job runs in.",
            python(),
        ),
        (
            "framework",
            "What the training is written with. Rules of the site go by it.",
            framework(),
        ),
        ("storage", "The storage that the job would like.", storage()),
        (
            "build",
            "The application's source, fetched and built once before the run.",
            build(),
        ),
        (
            "workload",
            "What the job computes. Recorded with every measurement.",
            workload(),
        ),
        ("timing", "How epochs are read from the output.", timing()),
    ]
}

/// Every key with its table, such as `resources.nodes`, in the order of the documentation.
#[must_use]
pub fn keys() -> Vec<String> {
    let names = |(table, _, keys): (&str, &str, Keys)| {
        let prefix = if table.is_empty() {
            String::new()
        } else {
            format!("{table}.")
        };
        keys.into_iter()
            .map(move |(key, _)| format!("{prefix}{key}"))
            .collect::<Vec<_>>()
    };
    tables().into_iter().flat_map(names).collect()
}

/// The schema.
#[must_use]
pub fn schema() -> Value {
    let mut properties = Map::new();
    for (table, about, keys) in tables() {
        let keys: Map<String, Value> = keys
            .into_iter()
            .map(|(key, value)| (key.to_owned(), value))
            .collect();
        if table.is_empty() {
            properties.extend(keys);
            continue;
        }
        let mut object = json!({
            "type": "object", "description": about, "properties": keys, "additionalProperties": false,
        });
        if let (Some(object), Value::Object(more)) = (object.as_object_mut(), between_keys(table)) {
            object.extend(more);
        }
        properties.insert(table.to_owned(), object);
    }
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Job file of dlrun",
        "description": "One training run. `dlrun check FILE` tells all faults, also those that no schema can tell.",
        "type": "object",
        "properties": properties,
        "required": ["run"],
        "additionalProperties": false,
    })
}

/// What holds between the keys of a table.
fn between_keys(table: &str) -> Value {
    match table {
        "run" => json!({ "oneOf": [{ "required": ["command"] }, { "required": ["script"] }] }),
        "resources" => json!({ "not": { "required": ["memory", "memory_per_cpu"] } }),
        "image" => json!({ "allOf": [
            { "not": { "required": ["path", "uri"] } },
            { "not": { "required": ["none", "path"], "properties": { "none": { "const": true } } } },
            { "not": { "required": ["none", "uri"], "properties": { "none": { "const": true } } } },
        ] }),
        "build" => json!({ "required": ["source"] }),
        _ => json!({}),
    }
}

fn text(about: &str) -> Value {
    json!({ "type": "string", "description": about })
}

fn path(about: &str) -> Value {
    json!({ "type": "string", "description": about, "minLength": 1, "pattern": "^[^\\x00-\\x1f\\x7f]*$" })
}

fn pattern(about: &str, pattern: &str) -> Value {
    json!({ "type": "string", "description": about, "pattern": pattern })
}

fn number(about: &str, last: u64) -> Value {
    json!({ "type": "integer", "description": about, "minimum": 1, "maximum": last })
}

fn share(about: &str) -> Value {
    json!({ "type": "number", "description": about, "minimum": 0, "maximum": 1 })
}

fn flag(about: &str, default: bool) -> Value {
    json!({ "type": "boolean", "description": about, "default": default })
}

fn words(about: &str, words: &[&str]) -> Value {
    json!({ "type": "string", "description": about, "enum": words })
}

fn list(about: &str, item: &Value) -> Value {
    json!({ "type": "array", "description": about, "items": item })
}

fn or_auto(about: &str, examples: &[&str], pattern: &str) -> Value {
    json!({
        "description": about,
        "anyOf": [{ "type": "string", "pattern": pattern }, { "const": "auto" }],
        "examples": examples,
    })
}

fn with_default(mut schema: Value, default: impl Into<Value>) -> Value {
    schema["default"] = default.into();
    schema
}

const VARIABLE: &str = "^[A-Za-z_][A-Za-z0-9_]*$";
/// Names that dlrun or bash keeps for itself; the reader knows all of them.
const RESERVED: &str = "^(DLRUN_|dlrun_|BASH|(ENV|IFS|PWD|UID|SECONDS)$)";
const SIZE: &str = "^\\s*[0-9]+(\\.[0-9]*)?\\s*(B|KiB|MiB|GiB|TiB|kB|MB|GB|TB|K|M|G|T)\\s*$";
const WALLTIME: &str = "^\\s*(([0-9]+-([01]?[0-9]|2[0-3])|[0-9]+):[0-5]?[0-9]:[0-5]?[0-9]|[0-9]+\\s*d(\\s*[0-9]+\\s*h)?(\\s*[0-9]+\\s*(m|min))?(\\s*[0-9]+\\s*s)?|[0-9]+\\s*h(\\s*[0-9]+\\s*(m|min))?(\\s*[0-9]+\\s*s)?|[0-9]+\\s*(m|min)(\\s*[0-9]+\\s*s)?|[0-9]+\\s*s)\\s*$";
/// Text that stands in a directive line.
const OPTION: &str =
    "^[^\\x00-\\x20\\x7f\"#$%';<>?\\\\^`{}~-][^\\x00-\\x20\\x7f\"#$%';<>?\\\\^`{}~]*$";
const OPTION_LINE: &str = "^-[^\\x00-\\x1f\\x7f]+$";

fn top() -> Keys {
    let name = "Job name. Letters, digits and `._+-`; begins with a letter or digit. Default: stem of the file name.";
    let mut name = pattern(
        name,
        "^[^\\x00-\\x2f\\x3a-\\x40\\x5b-\\x60\\x7b-\\x7f][^\\x00-\\x2a,/\\x3a-\\x40\\x5b-\\x5e`\\x7b-\\x7f]*$",
    );
    name["maxLength"] = 100.into();
    let format = json!({ "const": 1, "description": "Version of this format.", "default": 1 });
    vec![("format", format), ("name", name)]
}

fn run() -> Keys {
    let command = json!({
        "type": "array", "items": { "type": "string" }, "minItems": 1, "prefixItems": [{ "type": "string", "minLength": 1 }],
        "description": "Program and arguments. No shell reads them: no quoting, no `$VARIABLE`, no `~`.",
        "examples": [["python3", "train.py"]],
    });
    let script = json!({
        "type": "string", "minLength": 1,
        "description": "A script, relative to the working directory. Run directly if it is executable, else by what its first line names, else by /bin/bash.",
    });
    let env = json!({
        "type": "object", "additionalProperties": { "type": "string" },
        "propertyNames": { "pattern": VARIABLE, "not": { "pattern": RESERVED } },
        "description": "Variables of the run, byte for byte.",
    });
    let inherit = json!({
        "description": "Which variables of the submitting shell reach the job. Default: as the scheduler has it.",
        "anyOf": [
            { "enum": ["all", "none"] },
            { "type": "array", "items": { "type": "string", "pattern": VARIABLE, "not": { "pattern": RESERVED } } },
        ],
    });
    let launcher = "How the command gets onto the nodes: once, on every node, or as the ranks of an MPI program.";
    let name = "[A-Za-z0-9._+/:@=~][A-Za-z0-9._+/:@=~-]*";
    let further =
        format!("use (-a |--append )?{name}|(unload|rm) {name}|(swap|switch) {name} {name}");
    let module = json!({ "type": "string", "pattern": format!("^({name}|{further})$") });
    vec![
        ("command", command),
        ("script", script),
        (
            "workdir",
            path(
                "Where the command runs and its output lies. Default: the directory of the job file.",
            ),
        ),
        (
            "output",
            path(
                "Where the output goes, relative to the working directory: `logs/%x-%j.out`. Default: `NAME-JOBID.out`.",
            ),
        ),
        ("env", env),
        (
            "env_file",
            path(
                "File of `NAME=value` lines for secrets, mode 0600; read on the node, copied nowhere.",
            ),
        ),
        (
            "modules",
            list(
                "Environment modules, loaded in this order before the variables are set; also `purge`, `use DIR`, `unload NAME`.",
                &module,
            ),
        ),
        (
            "launcher",
            with_default(words(launcher, &["auto", "none", "each", "mpi"]), "auto"),
        ),
        (
            "idle_nodes",
            flag("Allows `launcher = \"none\"` on more than one node.", false),
        ),
        ("inherit", inherit),
    ]
}

fn resources() -> Keys {
    let gpus = |about: &str| {
        json!({
            "description": about, "examples": [1, "v100:2"],
            "anyOf": [
                { "type": "integer", "minimum": 1, "maximum": 1024 },
                { "type": "string", "pattern": "^([A-Za-z0-9._-]+:)?0*[1-9][0-9]{0,3}$" },
            ],
        })
    };
    let walltime = or_auto(
        "Limit on the run time.",
        &["12h", "1h30m", "36:00:00", "1-12:00:00"],
        WALLTIME,
    );
    let memory = or_auto("Main memory on each node.", &["64GiB"], SIZE);
    let memory_per_cpu = "Main memory for each CPU, in place of `memory`, such as `4GiB`.";
    let array = "Indexes of a job array: `0-99`, `0-99%8`, `1,3,5-9:2`";
    let array = format!("{array}; at most {MAX_ELEMENTS} elements.");
    let index = "\\s*[0-9]+(-[0-9]+)?(:[0-9]+)?\\s*";
    let kinds = DependencyKind::ALL.map(DependencyKind::as_str).join("|");
    let condition =
        json!({ "type": "string", "pattern": format!("^({kinds}):[^\\x00-\\x20:;,$'\"`\\\\]+$") });
    vec![
        ("nodes", nodes()),
        (
            "tasks",
            number(
                "Tasks in all; the scheduler spreads them over the nodes.",
                MAX_TASKS.into(),
            ),
        ),
        (
            "tasks_per_node",
            with_default(number("Tasks on each node; MPI ranks.", 4096), 1),
        ),
        ("cpus_per_task", number("CPUs of each task.", 65_536)),
        (
            "gpus_per_node",
            gpus("GPUs on each node, with their type where it matters."),
        ),
        (
            "gpus_per_task",
            gpus("GPUs of each task, which sees no others; on Slurm."),
        ),
        ("memory", memory),
        ("memory_per_cpu", pattern(memory_per_cpu, SIZE)),
        ("walltime", walltime),
        ("queue", pattern("Slurm partition, PBS queue.", OPTION)),
        ("account", pattern("Account to charge.", OPTION)),
        ("qos", pattern("Quality of service.", OPTION)),
        ("reservation", pattern("Reservation to run in.", OPTION)),
        ("constraint", pattern("Node features wanted.", OPTION)),
        ("nodelist", pattern("Nodes wanted.", OPTION)),
        ("exclude", pattern("Nodes not wanted.", OPTION)),
        ("exclusive", flag("Whole nodes, shared with nobody.", false)),
        (
            "array",
            pattern(&array, &format!("^{index}(,{index})*(%0*[1-9][0-9]*)?$")),
        ),
        (
            "depends",
            list(
                "What must have happened before, all of it: `afterok:RUN`.",
                &condition,
            ),
        ),
        ("begin", begin()),
        ("mail", mail()),
        ("licenses", licenses()),
    ]
}

fn nodes() -> Value {
    let bound = |about: &str| number(about, 100_000);
    json!({
        "description": "Nodes; or a range of which the performance model chooses.", "default": 1,
        "examples": [1, { "min": 1, "max": 4 }],
        "anyOf": [
            { "type": "integer", "minimum": 1, "maximum": 100_000 },
            {
                "type": "object", "additionalProperties": false, "required": ["max"],
                "properties": {
                    "min": with_default(bound("At least so many, and so many without a model."), 1),
                    "max": bound("At most so many."),
                    "efficiency": with_default(share("Least parallel efficiency against `min` nodes."), 0.5),
                },
            },
        ],
    })
}

fn begin() -> Value {
    let about = "Not before this moment, in the scheduler's local time: `2027-01-31T08:00`.";
    pattern(
        about,
        "^[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}([T ][0-9]{1,2}:[0-9]{1,2}(:[0-9]{1,2})?)?$",
    )
}

fn mail() -> Value {
    let events: Vec<&str> = MailEvent::WORDS
        .iter()
        .map(|(word, _)| *word)
        .chain(["all"])
        .collect();
    let address = "Whom to tell. Default: whom the scheduler takes for the submitter.";
    json!({
        "type": "object", "description": "Mail: who gets it, and on what.", "additionalProperties": false,
        "required": ["on"],
        "properties": {
            "to": pattern(address, "^[A-Za-z0-9._%+=~][A-Za-z0-9._%+=~-]*(@[A-Za-z0-9._%+=~-]+)?$"),
            "on": { "type": "array", "minItems": 1, "items": { "enum": events }, "description": "What is told." },
        },
    })
}

fn licenses() -> Value {
    json!({
        "type": "object", "description": "Licences, each with how many: `{ matlab = 1 }`.",
        "propertyNames": { "pattern": "^[A-Za-z0-9._@][A-Za-z0-9._@-]*$" },
        "additionalProperties": { "type": "integer", "minimum": 1, "maximum": 1_000_000 },
    })
}

fn scheduler() -> Keys {
    let line = json!({ "type": "string", "pattern": OPTION_LINE });
    vec![
        (
            "kind",
            words(
                "Which one. Default: the setting `scheduler.kind`.",
                &SchedulerKind::WORDS,
            ),
        ),
        (
            "directives",
            list(
                "Further options of the script's directive lines, each beginning with `-`.",
                &line,
            ),
        ),
        (
            "arguments",
            list("Further arguments of the submit command.", &line),
        ),
    ]
}

fn image() -> Keys {
    let uri = "An image by its URI, such as `docker://tensorflow/tensorflow:2.1.0`; also by an alias of the site.";
    let line = json!({ "type": "string", "pattern": OPTION_LINE });
    vec![
        ("none", flag("Says that no container is wanted.", false)),
        ("path", path("An image file (SIF) or a sandbox directory.")),
        (
            "uri",
            pattern(uri, "^[a-z][a-z0-9+.-]*://[^\\x00-\\x20\\x7f]+$"),
        ),
        (
            "bind",
            list(
                "Directories and files of the node that are seen in it.",
                &bind(),
            ),
        ),
        (
            "gpu",
            with_default(
                words("Which GPUs are passed into it.", &words_of(&GpuMode::WORDS)),
                "auto",
            ),
        ),
        (
            "require_gpu",
            flag("GPUs that do not work are a failure, not a warning.", false),
        ),
        (
            "fakeroot",
            json!({
                "description": "Whether the run has the container's root user.",
                "anyOf": [{ "const": "auto" }, { "type": "boolean" }], "default": "auto",
            }),
        ),
        (
            "build",
            with_default(
                words(
                    "Whether an image is built where none fits.",
                    &words_of(&BuildMode::WORDS),
                ),
                "never",
            ),
        ),
        (
            "packages",
            list(
                "Python packages that an image of the catalogue must have beside the framework.",
                &json!({ "type": "string", "pattern": "^[A-Za-z0-9._+-]{1,100}$" }),
            ),
        ),
        (
            "cleanenv",
            flag(
                "Only variables of the job, the scheduler and the GPUs are seen in it.",
                false,
            ),
        ),
        (
            "options",
            list(
                "Further options of the runtime's `exec`, each beginning with `-`.",
                &line,
            ),
        ),
    ]
}

fn bind() -> Value {
    let text = "^([^~$:\\x00-\\x1f\\x7f][^$:\\x00-\\x1f\\x7f]*|[^~:\\x00-\\x1f\\x7f][^:\\x00-\\x1f\\x7f]*:/[^:\\x00-\\x1f\\x7f]*(:(ro|rw))?)$";
    let table = json!({
        "type": "object",
        "properties": {
            "source": { "type": "string", "pattern": "^[^~\\x00-\\x1f\\x7f][^\\x00-\\x1f\\x7f]*$" },
            "target": { "type": "string", "pattern": "^/[^\\x00-\\x1f\\x7f]*$" },
            "read_only": { "type": "boolean", "default": false },
        },
        "required": ["source", "target"],
        "additionalProperties": false,
    });
    json!({ "anyOf": [{ "type": "string", "pattern": text }, table] })
}

fn words_of<T: Copy>(words: &[(&'static str, T)]) -> Vec<&'static str> {
    words.iter().map(|(word, _)| *word).collect()
}

fn python() -> Keys {
    vec![
        (
            "requirements",
            path("A pip requirements file, from which `submit` makes a virtual environment."),
        ),
        (
            "venv",
            path("The directory of a virtual environment that exists; it is activated."),
        ),
        (
            "conda",
            pattern(
                "Name or directory of a conda environment; it is activated.",
                "^[^-\\x00-\\x1f\\x7f][^\\x00-\\x1f\\x7f]*$",
            ),
        ),
        (
            "conda_profile",
            pattern(
                "The shell file that brings `conda`, such as `/opt/conda/etc/profile.d/conda.sh`; else `conda` is in `PATH`.",
                "^/[^\\x00-\\x1f\\x7f]*$",
            ),
        ),
    ]
}

fn framework() -> Keys {
    let word = "^[A-Za-z0-9._+-]{1,100}$";
    vec![
        (
            "name",
            pattern(
                "Such as `tensorflow`, `pytorch`, `keras`, `mxnet`, `jax`.",
                word,
            ),
        ),
        (
            "version",
            pattern(
                "A version such as `2.1`, or a range such as `>=2.1, <3`.",
                "^ *[A-Za-z0-9.<>=!~^*,+-][A-Za-z0-9.<>=!~^*,+ -]*$",
            ),
        ),
        (
            "provenance",
            with_default(
                words(
                    "Where the image got it from.",
                    &["hub", "pip", "source", "any"],
                ),
                "any",
            ),
        ),
        (
            "compiler",
            pattern(
                "Graph compiler, such as `xla`, `inductor`, `glow`; `none`; or `auto`.",
                word,
            ),
        ),
        (
            "explore",
            with_default(
                share("Share of the runs that try what the performance model does not know yet."),
                0,
            ),
        ),
    ]
}

fn storage() -> Keys {
    let classes: Vec<&str> = StorageClass::WORDS.iter().map(|(word, _)| *word).collect();
    vec![(
        "prefer",
        words(
            "The class of storage that the job would like, the slowest first.",
            &classes,
        ),
    )]
}

fn build() -> Keys {
    let source = "URL of a git repository (ends in `.git`), of a file or of an archive; or a path.";
    let parallelism = "How many things are built at a time.";
    let checksum =
        "SHA-256 of the file, or the commit of the repository. Another content is an error.";
    vec![
        (
            "source",
            pattern(source, "^[^\\x00-\\x20\\x7f-][^\\x00-\\x20\\x7f]*$"),
        ),
        (
            "command",
            text(
                "Shell text that builds it, in the source's directory. `{{parallelism}}` stands for `build.parallelism`.",
            ),
        ),
        ("parallelism", with_default(number(parallelism, 4096), 1)),
        (
            "checksum",
            pattern(checksum, "^(sha256:)?([0-9A-Fa-f]{40}|[0-9A-Fa-f]{64})$"),
        ),
    ]
}

fn workload() -> Keys {
    let label = |about: &str| {
        let mut label = path(about);
        label["maxLength"] = 200.into();
        label
    };
    let count = |about: &str| number(about, (1 << 60) - 1);
    vec![
        ("model", label("Name of the network.")),
        ("parameters", count("Trainable parameters.")),
        ("dataset", label("Name of the data set.")),
        ("samples", count("Training samples of one epoch.")),
        (
            "batch_size",
            count("Samples of one step, over all workers."),
        ),
        ("epochs", count("Epochs planned.")),
        ("precision", label("Such as `fp32` or `bf16`.")),
    ]
}

fn timing() -> Keys {
    let epoch = "Regular expression of a line that ends an epoch. Group `epoch` is required; `epochs`, `seconds`, `rate` and `metric_NAME` are optional.";
    let step = "Regular expression of a line that ends a step. Group `step` is required; `steps`, `epoch`, `epochs`, `step_seconds`, `rate` and `metric_NAME` are optional.";
    vec![("epoch", text(epoch)), ("step", text(step))]
}
