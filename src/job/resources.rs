//! `[resources]` of the job file.

use std::collections::BTreeMap;
use std::ops::Range;

use serde_json::json;

use super::array::{ArraySpec, MAX_ELEMENTS};
use super::begin::Begin;
use super::depend::{Dependency, DependencyKind};
use super::gpus::{SHARES, gpus_on_node};
use super::mail::{Mail, MailEvent, address_problem};
use super::spec::{Asked, NodeCount};
use crate::foundation::diagnostic::Problem;
use crate::foundation::toml_keys::keys;
use crate::foundation::toml_keys::{
    Kind, Table, boolean, count, decimal, list, object, parsed, values,
};
use crate::foundation::toml_reader::Located;
use crate::foundation::units::{Bytes, Walltime};

/// More nodes than any machine of this decade has; a larger number is a typing error.
const MAX_NODES: u32 = 100_000;
const MAX_TASKS: u32 = 10_000_000;
const SIZE: &str = "^\\s*[0-9]+(\\.[0-9]*)?\\s*(B|KiB|MiB|GiB|TiB|kB|MB|GB|TB|K|M|G|T)\\s*$";
pub(super) const WALLTIME: &str = "^\\s*(([0-9]+-([01]?[0-9]|2[0-3])|[0-9]+):[0-5]?[0-9]:[0-5]?[0-9]|[0-9]+\\s*d(\\s*[0-9]+\\s*h)?(\\s*[0-9]+\\s*(m|min))?(\\s*[0-9]+\\s*s)?|[0-9]+\\s*h(\\s*[0-9]+\\s*(m|min))?(\\s*[0-9]+\\s*s)?|[0-9]+\\s*(m|min)(\\s*[0-9]+\\s*s)?|[0-9]+\\s*s)\\s*$";

keys! {
    /// `[resources]`: every line may be left out, then the site's default holds.
    #[derive(Debug, Clone, PartialEq, Default)]
    pub struct Resources {
        /// Nodes; or a range of which the performance model chooses.
        nodes: Option<Located<NodeCount>> = located(nodes()),
        /// Tasks in all; the scheduler spreads them over the nodes.
        tasks: Option<u32> = optional(count(MAX_TASKS)),
        /// So many nodes more, which take the places of lost ones (`[resume]`); on Slurm.
        spares: Option<Located<u32>> = located(count(MAX_NODES)),
        /// Tasks on each node; MPI ranks.
        tasks_per_node: Option<u32> = optional(count(4096).with("default", 1)),
        /// CPUs of each task.
        cpus_per_task: Option<Asked<u32>> = optional(cpus()),
        /// GPUs on each node, with their type where it matters.
        gpus_per_node: Option<String> = optional(gpus()),
        /// GPUs of each task, which sees no others; on Slurm.
        gpus_per_task: Option<String> = optional(gpus()),
        /// Main memory on each node.
        memory: Option<Asked<Bytes>> = optional(or_auto(SIZE, &["64GiB"], at_least_a_mebibyte)),
        /// Main memory for each CPU, in place of `memory`, such as `4GiB`.
        memory_per_cpu: Option<Bytes> = optional(parsed(SIZE, at_least_a_mebibyte)),
        /// Limit on the run time.
        walltime: Option<Asked<Walltime>> = optional(walltime()),
        /// Limit for which the scheduler may be asked while the job runs, where the site allows it.
        walltime_up_to: Option<Walltime> = optional(parsed(WALLTIME, Walltime::parse)),
        /// Slurm partition, PBS queue.
        queue: Option<String> = optional(option_text()),
        /// Account to charge.
        account: Option<String> = optional(option_text()),
        /// Quality of service.
        qos: Option<String> = optional(option_text()),
        /// Reservation to run in.
        reservation: Option<String> = optional(option_text()),
        /// Node features wanted.
        constraint: Option<String> = optional(option_text()),
        /// Nodes wanted.
        nodelist: Option<String> = optional(option_text()),
        /// Nodes not wanted.
        exclude: Option<String> = optional(option_text()),
        /// Whole nodes, shared with nobody.
        exclusive: Option<bool> = optional(boolean().with("default", false)),
        /// Indexes of a job array: `0-99`, `0-99%8`, `1,3,5-9:2`; at most 1000000 elements.
        array: Option<Located<ArraySpec>> = located(array()),
        /// What must have happened before, all of it: `afterok:RUN`.
        depends: Vec<Located<Dependency>> = or_default(depends()),
        /// Not before this moment, in the scheduler's local time: `2027-01-31T08:00`.
        begin: Option<Begin> = optional(begin()),
        /// Mail: who gets it, and on what.
        mail: Option<Mail> = optional(mail()),
        /// Licences, each with how many: `{ matlab = 1 }`.
        licenses: Vec<(String, u32)> = or_default(licenses()),
        /// Where the value of each key is, for checks that come later.
        spans: BTreeMap<&'static str, Range<usize>>,
    }
}

const _: () = assert!(MAX_ELEMENTS == 1_000_000, "the text above names it");

/// The keys of `[resources]`.
pub fn resource_keys() -> impl Iterator<Item = &'static str> {
    Resources::keys().into_iter().map(|(key, _)| key)
}

/// `[resources]` with the places of its keys.
pub(super) fn resources() -> Kind<Resources> {
    Kind::new(object(Resources::keys()), |fields, key| {
        fields.table(key, |fields| {
            let mut resources = Resources::read(fields);
            resources.spans = fields.spans(resource_keys()).collect();
            // `sbatch(1)`: `--mem` and `--mem-per-cpu` are mutually exclusive.
            if resources.memory_per_cpu.is_some() && fields.holds("memory") {
                let message =
                    "`resources.memory` and `resources.memory_per_cpu` exclude each other";
                let problem = Problem::at(fields.span("memory_per_cpu"), message);
                fields.problem(problem.hinted("keep one of them"));
            }
            // Nobody would know what is to be raised.
            let is_more = |more: Walltime| match resources.walltime {
                Some(Asked::Value(limit)) => more > limit,
                limit => limit.is_some(),
            };
            if resources.walltime_up_to.is_some_and(|more| !is_more(more)) {
                let message =
                    "`resources.walltime_up_to` needs a `resources.walltime` that is less";
                let problem = Problem::at(fields.span("walltime_up_to"), message);
                let hint = "write walltime = \"24h\" and walltime_up_to = \"36h\"";
                fields.problem(problem.hinted(hint));
            }
            resources
        })
    })
    .with("not", json!({ "required": ["memory", "memory_per_cpu"] }))
    .with(
        "dependentRequired",
        json!({ "walltime_up_to": ["walltime"] }),
    )
}

keys! {
    /// A range of nodes.
    struct NodeRange {
        /// At least so many, and so many without a model.
        min: u32 = or_default(count(MAX_NODES).or(1)),
        /// At most so many.
        max: Option<u32> = optional(count(MAX_NODES)),
        /// Least parallel efficiency against `min` nodes.
        efficiency: f64 = or_default(decimal(0.0..=1.0).or(EFFICIENCY)),
    }
}

/// The parallel efficiency that more nodes must keep where the job file does not say: half of what they cost is used.
const EFFICIENCY: f64 = 0.5;

/// `2`, or `{ min = 1, max = 4, efficiency = 0.5 }`.
fn nodes() -> Kind<NodeCount> {
    let mut range = object(NodeRange::keys());
    range["required"] = json!(["max"]);
    let schema = json!({
        "anyOf": [count(MAX_NODES).schema, range],
        "default": 1, "examples": [1, { "min": 1, "max": 4 }],
    });
    Kind::new(schema, |fields, key| {
        if fields.type_of(key) != "table" {
            return fields.count(key, MAX_NODES).map(NodeCount::Exactly);
        }
        fields.table(key, |fields| {
            let NodeRange {
                min,
                max,
                efficiency,
            } = NodeRange::read(fields);
            if !fields.holds("max") {
                let message = "`resources.nodes` does not say the most nodes";
                let problem = Problem::at(fields.own_span(), message);
                fields.problem(problem.hinted("write nodes = { min = 1, max = 4 }"));
            }
            let max = max?;
            if max < min {
                let message = format!("`resources.nodes.max` is {max}, fewer than `min`, {min}");
                let problem = Problem::at(fields.span("max"), message);
                fields.problem(problem.hinted("the least number of nodes is `min`"));
            }
            Some(NodeCount::Between {
                min,
                max,
                efficiency,
            })
        })?
    })
}

pub(super) fn or_auto<T, E: std::fmt::Display>(
    pattern: &str,
    examples: &[&str],
    read: impl Fn(&str) -> Result<T, E> + 'static,
) -> Kind<Asked<T>> {
    let schema = json!({
        "anyOf": [{ "type": "string", "pattern": pattern }, { "const": "auto" }],
        "examples": examples,
    });
    Kind::new(schema, move |fields, key| {
        fields.parsed(key, |text| match text {
            "auto" => Ok(Asked::Auto),
            text => read(text).map(Asked::Value),
        })
    })
}

/// `8`, or `auto`.
fn cpus() -> Kind<Asked<u32>> {
    let schema =
        json!({ "anyOf": [count(65_536).schema, { "const": "auto" }], "examples": [8, "auto"] });
    Kind::new(schema, |fields, key| {
        let is_auto = fields
            .raw(key)
            .is_some_and(|value| value.get_ref().as_str() == Some("auto"));
        if is_auto {
            return Some(Asked::Auto);
        }
        fields.count(key, 65_536).map(Asked::Value)
    })
}

fn walltime() -> Kind<Asked<Walltime>> {
    let examples = ["12h", "1h30m", "36:00:00", "1-12:00:00"];
    or_auto(WALLTIME, &examples, Walltime::parse)
}

fn at_least_a_mebibyte(text: &str) -> Result<Bytes, String> {
    match Bytes::parse(text) {
        Ok(bytes) if bytes.0 < 1 << 20 => Err(format!("`{text}` is less than 1MiB")),
        read => read.map_err(|error| error.to_string()),
    }
}

/// `2` as number or text, `v100:2`, or a part: `shard:4`, `mps:50`, `mig:1g.10gb`, `mig:1g.10gb:2`.
fn gpus() -> Kind<String> {
    let schema = json!({
        "anyOf": [
            count(1024).schema,
            { "type": "string", "pattern": "^((mig:)?[A-Za-z0-9._-]+:)?0*[1-9][0-9]{0,3}$|^mig:[A-Za-z0-9._-]*[A-Za-z._-][A-Za-z0-9._-]*$" },
        ],
        "examples": [1, "v100:2", "shard:4", "mig:1g.10gb"],
    });
    Kind::new(schema, |fields, key| {
        if fields.type_of(key) == "integer" {
            return fields.count(key, 1024).map(|count| count.to_string());
        }
        fields.parsed(key, |text| {
            let device = text.strip_prefix("mig:");
            let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
            let text = match device {
                Some(one) if !one.contains(':') && !is_number(one) => format!("{text}:1"),
                _ => text.to_owned(),
            };
            let gpus = text.strip_prefix("mig:").unwrap_or(&text);
            let (kind, count) = gpus.rsplit_once(':').unwrap_or(("any", gpus));
            let allowed = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
            // Without a type it would be whole GPUs.
            let is_type = device.is_none() || (gpus.contains(':') && !SHARES.contains(&kind));
            let is_type = is_type && !kind.is_empty() && kind.chars().all(allowed);
            if let Some(share) = misspelt_share(kind) {
                return Err(format!("`{kind}` is not a part of a GPU; did you mean `{share}:{count}`?"));
            }
            match count.parse::<u16>() {
                Ok(1..=1024) if is_type => Ok(text),
                _ => Err(format!(
                    "`{text}` is not a number of GPUs from 1 to 1024; write 2, \"v100:2\", \"shard:4\", \"mps:50\" or \"mig:1g.10gb\""
                )),
            }
        })
    })
}

/// The share that a type of GPU was meant to be: `shards`, `Shard`, `MPS`. Whatever else is near may be a type.
fn misspelt_share(kind: &str) -> Option<&'static str> {
    let singular = match kind.to_ascii_lowercase().as_str() {
        "shards" => "shard".to_owned(),
        other => other.to_owned(),
    };
    let meant = SHARES.into_iter().find(|share| *share == singular)?;
    (meant != kind).then_some(meant)
}

/// Text of a directive: no blanks, quotes, comments or control characters, which would end or split it.
pub(crate) fn option_text() -> Kind<String> {
    let pattern =
        "^[^\\x00-\\x20\\x7f\"#$%';<>?\\\\^`{}~-][^\\x00-\\x20\\x7f\"#$%';<>?\\\\^`{}~]*$";
    parsed(pattern, |text| {
        let allowed = |c: char| c.is_alphanumeric() || "._+-:/@,=&|*[]()!".contains(c);
        match text.chars().find(|c| !allowed(*c)) {
            _ if text.is_empty() => Err("must not be empty".to_owned()),
            _ if text.starts_with('-') => Err("must not begin with `-`".to_owned()),
            Some(bad) => Err(format!("must not contain {bad:?}")),
            None => Ok(text.to_owned()),
        }
    })
}

fn array() -> Kind<ArraySpec> {
    let index = "\\s*[0-9]+(-[0-9]+)?(:[0-9]+)?\\s*";
    let pattern = format!("^{index}(,{index})*(%0*[1-9][0-9]*)?$");
    parsed(&pattern, ArraySpec::parse)
}

fn depends() -> Kind<Vec<Located<Dependency>>> {
    let kinds = DependencyKind::NAMES.join("|");
    let pattern = format!("^({kinds}):[^\\x00-\\x20:;,$'\"`\\\\]+$");
    list(
        &json!({ "type": "string", "pattern": pattern }),
        Dependency::parse,
    )
}

fn begin() -> Kind<Begin> {
    let pattern = "^[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}([T ][0-9]{1,2}:[0-9]{1,2}(:[0-9]{1,2})?)?$";
    parsed(pattern, Begin::parse)
}

keys! {
    struct MailTable {
        /// Who gets it. Default: whom the scheduler takes for the submitter.
        to: Option<String> = optional(address()),
        /// On what mail is sent.
        on: Vec<Vec<MailEvent>> = or_default(events()),
    }
}

fn address() -> Kind<String> {
    let pattern = "^[A-Za-z0-9._%+=~][A-Za-z0-9._%+=~-]*(@[A-Za-z0-9._%+=~-]+)?$";
    parsed(pattern, |text| {
        address_problem(text).map_or_else(|| Ok(text.to_owned()), Err)
    })
}

fn events() -> Kind<Vec<Vec<MailEvent>>> {
    let known = MailEvent::NAMES;
    let words: Vec<&str> = known.into_iter().chain(["all"]).collect();
    let events = list(&json!({ "enum": words }), move |word| match word {
        "all" => Ok(MailEvent::WORDS.map(|(_, event)| event).to_vec()),
        word => MailEvent::from_word(word)
            .map(|event| vec![event])
            .ok_or_else(|| format!("knows {} and all, not {word:?}", known.join(", "))),
    });
    values(events).with("minItems", 1)
}

fn mail() -> Kind<Mail> {
    let schema = object(MailTable::keys());
    let kind = Kind::new(schema, |fields, key| {
        fields.table(key, |fields| {
            let MailTable { to, on } = MailTable::read(fields);
            let is_empty = fields.raw("on").is_none_or(|on| {
                let list = on.get_ref().as_array();
                list.is_some_and(|list| list.is_empty())
            });
            if is_empty {
                let problem =
                    Problem::at(fields.own_span(), "`resources.mail` does not say on what");
                let hint = "write mail = { to = \"a@example.org\", on = [\"end\", \"fail\"] }";
                fields.problem(problem.hinted(hint));
            }
            let mut on = on.concat();
            on.sort_unstable();
            on.dedup();
            (!on.is_empty()).then_some(Mail { to, on })
        })?
    });
    kind.with("required", json!(["on"]))
}

/// Licences, in the order of the file.
fn licenses() -> Kind<Vec<(String, u32)>> {
    const MOST: u32 = 1_000_000;
    let schema = json!({
        "type": "object", "propertyNames": { "pattern": "^[A-Za-z0-9._@][A-Za-z0-9._@-]*$" },
        "additionalProperties": count(MOST).schema,
    });
    let is_name = |text: &str| {
        let allowed = |c: char| c.is_ascii_alphanumeric() || "._-@".contains(c);
        !text.is_empty() && !text.starts_with('-') && text.chars().all(allowed)
    };
    Kind::new(schema, move |fields, key| {
        let mut licenses = Vec::new();
        fields.table_entries(key, |fields, name, value| {
            let count = value.get_ref().as_integer();
            let count =
                count.and_then(|count| u32::from_str_radix(count.as_str(), count.radix()).ok());
            let name = name.value;
            let fault = match count {
                _ if !is_name(&name) => {
                    format!("`resources.licenses`: {name:?} is not the name of a licence")
                }
                Some(count @ 1..=MOST) => return licenses.push((name, count)),
                _ => {
                    format!("`resources.licenses.{name}` must be a whole number from 1 to 1000000")
                }
            };
            fields.problem(Problem::at(value.span(), fault));
        })?;
        Some(licenses)
    })
}

impl Resources {
    /// Whether a limit is `auto`.
    #[must_use]
    pub fn has_open_limits(&self) -> bool {
        self.walltime == Some(Asked::Auto)
            || self.memory == Some(Asked::Auto)
            || self.cpus_per_task == Some(Asked::Auto)
    }

    /// Tasks on each of `nodes`, where tasks in all are spread evenly.
    #[must_use]
    pub fn tasks_on_each(&self, nodes: u32) -> u32 {
        let spread = self.tasks.map(|tasks| tasks.div_ceil(nodes.max(1)));
        self.tasks_per_node.or(spread).unwrap_or(1)
    }

    /// The fewest and the most nodes: as asked, or as tasks in all and on each node need.
    #[must_use]
    pub fn node_bounds(&self) -> (u32, u32) {
        let of_tasks = self.tasks.zip(self.tasks_per_node);
        let of_tasks = of_tasks.map_or(1, |(tasks, each)| tasks.div_ceil(each.max(1)));
        let asked = self.nodes.as_ref();
        asked.map_or((of_tasks, of_tasks), |nodes| nodes.value.bounds())
    }

    /// The fewest nodes.
    #[must_use]
    pub fn fewest_nodes(&self) -> u32 {
        self.node_bounds().0
    }

    /// GPUs on each node, however they were asked for.
    #[must_use]
    pub fn gpus_on_node(&self) -> Option<String> {
        let tasks = self.tasks_on_each(self.fewest_nodes());
        gpus_on_node(
            self.gpus_per_node.as_deref(),
            self.gpus_per_task.as_deref(),
            tasks,
        )
    }

    /// The key that says how many GPUs a node must have.
    #[must_use]
    pub fn gpu_key(&self) -> &'static str {
        if self.gpus_per_node.is_none() && self.gpus_per_task.is_some() {
            "gpus_per_task"
        } else {
            "gpus_per_node"
        }
    }
}
