//! `-l` of `qsub`: nodes, chunks and limits.

use crate::foundation::diagnostic::Problem;
use crate::foundation::units::Bytes;
use crate::job::convert::draft::{Draft, Origin};
use crate::job::convert::form::Form;
use crate::job::convert::size;

/// Nodes that are all alike.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Chunk {
    cpus: Option<u32>,
    /// Ranks of a node, where they are named apart from its CPUs.
    ranks: Option<u32>,
    gpus: Option<u32>,
    memory: Option<Bytes>,
    threads: Option<u32>,
    features: Vec<String>,
}

/// How GPUs are shared, as Torque writes it behind their number.
const MODES: [&str; 6] = [
    "shared",
    "exclusive_process",
    "exclusive_thread",
    "reseterr",
    "default",
    "excl",
];

/// Resources, the keys that say the same, and how their values are written.
const KEYS: [(&str, &str, Form); 8] = [
    ("walltime", "resources.walltime", Form::Seconds),
    ("qos", "resources.qos", Form::Text),
    ("host", "resources.nodelist", Form::Text),
    ("vnode", "resources.nodelist", Form::Text),
    ("advres", "resources.reservation", Form::Text),
    ("feature", "resources.constraint", Form::Text),
    ("gres", "resources.licenses", Form::Licenses),
    ("pmem", "resources.memory_per_cpu", Form::Size(1)),
];
/// What all `-l` options ask for.
#[derive(Debug, Default)]
pub(super) struct Resources {
    chunk: Chunk,
    pub(super) nodes: Option<u32>,
    hosts: Vec<String>,
    /// Processors in all, on whichever nodes.
    procs: Option<u32>,
    /// Memory of the whole job.
    memory: Option<(Bytes, Origin)>,
    /// Where the shape is named.
    origin: Option<Origin>,
    /// What only one of the dialects says.
    pub(super) openpbs: Option<Origin>,
    pub(super) torque: Option<Origin>,
}

impl Resources {
    /// Reads one list, such as `nodes=2:ppn=4,walltime=1:00:00`.
    ///
    /// # Errors
    /// Where nodes are not all alike.
    pub(super) fn read(
        &mut self,
        list: &str,
        origin: &Origin,
        draft: &mut Draft,
    ) -> Result<(), Problem> {
        let parts = list.split(',').map(str::trim);
        for part in parts.filter(|part| !part.is_empty()) {
            let (name, value) = part.split_once('=').unwrap_or((part, ""));
            let origin = Origin {
                about: format!("-l {name}"),
                ..origin.clone()
            };
            if ["nodes", "select"].contains(&name) {
                self.read_chunks(value, name == "select", &origin, draft)?;
            } else {
                self.read_one(name, value, part, &origin, draft);
            }
        }
        Ok(())
    }

    fn read_one(
        &mut self,
        name: &str,
        value: &str,
        part: &str,
        origin: &Origin,
        draft: &mut Draft,
    ) {
        if let Some((_, key, form)) = KEYS.iter().find(|(known, ..)| *known == name) {
            if ["advres", "gres"].contains(&name) {
                self.torque = Some(origin.clone());
            }
            return draft.set_text(key, *form, value, origin);
        }
        match name {
            "mem" => match size::bytes(value, 1) {
                Some(bytes) => self.memory = Some((bytes, origin.clone())),
                None => draft.refuse(origin, format!("`{value}` is not a size")),
            },
            "procs" | "ncpus" | "ngpus" | "gpus" => {
                self.origin = Some(origin.clone());
                let number = count(value, origin, draft);
                match name {
                    "procs" => (self.procs, self.torque) = (number, Some(origin.clone())),
                    "ncpus" => self.chunk.cpus = number,
                    _ => self.chunk.gpus = number,
                }
            }
            // Each chunk is on a separate node here, which is what `scatter` says.
            "place" => {
                self.openpbs = Some(origin.clone());
                if value
                    .split(':')
                    .any(|word| ["excl", "exclhost"].contains(&word))
                {
                    draft.set("resources.exclusive", true, origin);
                } else if !["scatter", "vscatter"].contains(&value) {
                    draft.note(origin, "has no meaning here: each chunk is a node");
                }
            }
            "naccesspolicy" if value.eq_ignore_ascii_case("singlejob") => {
                draft.set("resources.exclusive", true, origin);
            }
            _ => draft.push("scheduler.directives", format!("-l {part}"), origin),
        }
    }

    /// `2:ppn=4:gpus=1:feature` and `n1:ppn=4+n2:ppn=4` of Torque, `2:ncpus=8:mpiprocs=4:ngpus=1:mem=10gb` of OpenPBS.
    fn read_chunks(
        &mut self,
        value: &str,
        is_select: bool,
        origin: &Origin,
        draft: &mut Draft,
    ) -> Result<(), Problem> {
        self.origin = Some(origin.clone());
        let mut total = 0_u32;
        let mut alike: Option<Chunk> = None;
        for part in value.split('+') {
            let mut chunk = Chunk::default();
            let mut nodes = 1;
            for (at, word) in part.split([':', '#']).enumerate() {
                let number = |text: &str, draft: &mut Draft| count(text, origin, draft);
                match word.split_once('=') {
                    None if at == 0 && word.parse::<u32>().is_ok() => {
                        nodes = number(word, draft).unwrap_or(0);
                    }
                    None if MODES.contains(&word) => {
                        draft.note(origin, format!("`{word}`: no key says how GPUs are shared"));
                    }
                    // A host has a number in its name; a word without one is a property, of one node.
                    None if at == 0 && word.contains(|c: char| c.is_ascii_digit()) => {
                        self.hosts.push(word.to_owned());
                    }
                    Some(("ppn" | "ncpus", cpus)) => chunk.cpus = number(cpus, draft),
                    Some(("mpiprocs", ranks)) => chunk.ranks = number(ranks, draft),
                    Some(("gpus" | "ngpus", gpus)) => chunk.gpus = number(gpus, draft),
                    Some(("ompthreads", threads)) => chunk.threads = number(threads, draft),
                    Some(("mem", memory)) => {
                        chunk.memory = size::bytes(memory, 1);
                        if chunk.memory.is_none() {
                            draft.refuse(origin, format!("`{memory}` is not a size"));
                        }
                    }
                    Some(("host" | "vnode", host)) => self.hosts.push(host.to_owned()),
                    // A resource of the site's own: a type of GPU, scratch space, a part of the machine.
                    Some((name, "True" | "true")) => chunk.features.push(name.to_owned()),
                    Some(_) if !is_select => {
                        draft.refuse(origin, format!("`{word}` is unknown here"));
                    }
                    _ => chunk.features.push(word.to_owned()),
                }
            }
            let is_torque = !is_select && (chunk.cpus, chunk.gpus) != (None, None);
            let dialect = if is_select {
                &mut self.openpbs
            } else {
                &mut self.torque
            };
            if is_select || is_torque {
                *dialect = Some(origin.clone());
            }
            total = total.saturating_add(nodes);
            if alike.as_ref().is_some_and(|known| *known != chunk) {
                let what = "nodes of several kinds are nothing that a job file can say";
                let problem = Problem {
                    span: origin.span.clone(),
                    ..Problem::of_file(what)
                };
                return Err(problem.hinted("submit it by `qsub`, or ask for nodes that are alike"));
            }
            alike = Some(chunk);
        }
        (self.nodes, self.chunk) = (Some(total.max(1)), alike.unwrap_or_default());
        Ok(())
    }

    /// Writes it down. The processors of a node are places for ranks, as many as are named, else one for each.
    pub(super) fn set(&self, draft: &mut Draft) {
        self.set_memory(draft);
        let Some(origin) = &self.origin else { return };
        let of_cpus = self.chunk.cpus.filter(|_| self.openpbs.is_none());
        let procs = self.procs.filter(|_| self.nodes.is_none());
        let tasks = procs.or(self.chunk.ranks).or(of_cpus).unwrap_or(1);
        let cpus = self.chunk.cpus.unwrap_or(1).max(tasks);
        let numbers = [
            ("resources.nodes", self.nodes),
            (
                "resources.tasks_per_node",
                Some(tasks).filter(|tasks| *tasks > 1),
            ),
            (
                "resources.cpus_per_task",
                Some(cpus / tasks).filter(|cpus| *cpus > 1),
            ),
            ("resources.gpus_per_node", self.chunk.gpus),
        ];
        for (key, number) in numbers {
            if let Some(number) = number {
                draft.set(key, number, origin);
            }
        }
        if !cpus.is_multiple_of(tasks) {
            let what = format!("{cpus} CPUs cannot be shared evenly by {tasks} ranks");
            draft.note(origin, what);
        }
        if procs.is_some() {
            let what = "PBS would take them from any nodes; here all are on one: `resources.nodes`";
            draft.note(origin, what);
        }
        if let Some(threads) = self.chunk.threads {
            draft.insert("run.env", "OMP_NUM_THREADS", threads.to_string(), origin);
        }
        let lists = [
            ("resources.constraint", self.chunk.features.join(":")),
            ("resources.nodelist", self.hosts.join(",")),
        ];
        for (key, list) in lists {
            if !list.is_empty() {
                draft.set(key, list, origin);
            }
        }
    }

    /// `mem` is the whole job's, `resources.memory` a node's.
    fn set_memory(&self, draft: &mut Draft) {
        if let (Some(_), Some(origin)) = (draft.get("resources.memory_per_cpu"), &self.openpbs) {
            // Nothing is set aside for it there: as memory of the node it would be so much for each of the CPUs.
            let what = "`pmem` limits each process in OpenPBS, which no job file can say; left out";
            draft.note(origin, what);
            draft.remove("resources.memory_per_cpu");
        }
        let nodes = u64::from(self.nodes.unwrap_or(1));
        let of_job = self
            .memory
            .as_ref()
            .map(|(bytes, origin)| (Bytes(bytes.0.div_ceil(nodes)), origin));
        let of_chunk = self.chunk.memory.zip(self.origin.as_ref());
        let Some((bytes, origin)) = of_chunk.or(of_job) else {
            return;
        };
        if draft.holds("resources.memory_per_cpu") {
            draft.note(origin, "`pmem` is given too, and only one can hold");
            return;
        }
        draft.set("resources.memory", size::shown(bytes), origin);
        if of_chunk.is_none() && nodes > 1 {
            let share = size::shown(bytes);
            draft.note(
                origin,
                format!("is the memory of the whole job; {share} for each node"),
            );
        }
    }
}

fn count(text: &str, origin: &Origin, draft: &mut Draft) -> Option<u32> {
    let number = text.parse().ok().filter(|number| *number > 0);
    if number.is_none() {
        draft.refuse(origin, format!("`{text}` is not a number that this can be"));
    }
    number
}
