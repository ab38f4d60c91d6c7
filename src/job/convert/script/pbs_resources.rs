//! `-l` of `qsub`: nodes, chunks and limits.

use crate::foundation::diagnostic::Problem;
use crate::foundation::units::{Bytes, Walltime};
use crate::job::convert::draft::{Draft, Origin};
use crate::job::convert::shape::{Asked, Shape, shape};
use crate::job::convert::{size, time};

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

/// Resources whose values stand in the job file as they are.
const SAME: [(&str, &str); 5] = [
    ("qos", "resources.qos"),
    ("host", "resources.nodelist"),
    ("vnode", "resources.nodelist"),
    ("advres", "resources.reservation"),
    ("feature", "resources.constraint"),
];
/// Words of Torque's `nodes` on how GPUs and nodes are shared.
const MODES: [&str; 6] = [
    "shared",
    "exclusive_process",
    "exclusive_thread",
    "reseterr",
    "default",
    "excl",
];

/// What all `-l` options ask for.
#[derive(Debug, Default)]
pub(super) struct Resources {
    chunk: Chunk,
    nodes: Option<u32>,
    hosts: Vec<String>,
    /// Processors in all, on whichever nodes.
    procs: Option<u32>,
    /// Memory of the whole job.
    memory: Option<(Bytes, Origin)>,
    /// Memory of each process.
    process_memory: Option<(Bytes, Origin)>,
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
        for part in list
            .split(',')
            .map(str::trim)
            .filter(|part| !part.is_empty())
        {
            let (name, value) = part.split_once('=').unwrap_or((part, ""));
            let origin = Origin::new(format!("-l {name}"), origin.span.clone());
            self.one(name, value, part, &origin, draft)?;
        }
        Ok(())
    }

    fn one(
        &mut self,
        name: &str,
        value: &str,
        part: &str,
        origin: &Origin,
        draft: &mut Draft,
    ) -> Result<(), Problem> {
        let here = || Some(origin.clone());
        if let Some((_, key)) = SAME.iter().find(|(known, _)| *known == name) {
            draft.set(key, value, origin);
        }
        match name {
            "nodes" => self.read_nodes(value, origin, draft)?,
            "select" => self.read_select(value, origin, draft)?,
            "walltime" => match time::in_seconds(value).filter(|seconds| *seconds > 0) {
                Some(seconds) => {
                    draft.set("resources.walltime", Walltime(seconds).to_string(), origin);
                }
                None => draft.refuse(origin, format!("`{value}` is no time limit")),
            },
            "mem" | "pmem" => match size::bytes(value, 1) {
                Some(bytes) if name == "mem" => self.memory = Some((bytes, origin.clone())),
                Some(bytes) => self.process_memory = Some((bytes, origin.clone())),
                None => draft.refuse(origin, format!("`{value}` is no size")),
            },
            "procs" => {
                self.procs = count(value, origin, draft);
                (self.origin, self.torque) = (here(), here());
            }
            "ncpus" => {
                self.chunk.cpus = count(value, origin, draft);
                self.origin = here();
            }
            "ngpus" | "gpus" => {
                self.chunk.gpus = count(value, origin, draft);
                self.origin = here();
            }
            "advres" => self.torque = here(),
            "gres" => {
                self.torque = here();
                licenses(value, origin, draft);
            }
            "naccesspolicy" if value.eq_ignore_ascii_case("singlejob") => {
                draft.set("resources.exclusive", true, origin);
            }
            "place" => {
                self.openpbs = here();
                place(value, origin, draft);
            }
            "cput" | "pcput" | "vmem" | "pvmem" => {
                draft.note(origin, "has no meaning here; left out");
            }
            name if SAME.iter().any(|(known, _)| *known == name) => {}
            _ => draft.push("scheduler.directives", format!("-l {part}"), origin),
        }
        Ok(())
    }

    /// `2:ppn=4:gpus=1:feature`, `n1:ppn=4+n2:ppn=4`.
    fn read_nodes(
        &mut self,
        value: &str,
        origin: &Origin,
        draft: &mut Draft,
    ) -> Result<(), Problem> {
        self.origin = Some(origin.clone());
        let mut total = 0_u32;
        let mut alike: Option<Chunk> = None;
        for part in value.split('+') {
            let mut words = part.split([':', '#']);
            let first = words.next().unwrap_or("").trim();
            let mut chunk = Chunk::default();
            match first.parse::<u32>() {
                Ok(nodes) => total = total.saturating_add(nodes),
                // A host has a number in its name; a word without one is a property, of one node.
                Err(_) if first.contains(|c: char| c.is_ascii_digit()) => {
                    total = total.saturating_add(1);
                    self.hosts.push(first.to_owned());
                }
                Err(_) => {
                    total = total.saturating_add(1);
                    chunk.features.push(first.to_owned());
                }
            }
            for word in words {
                match word.split_once('=') {
                    Some(("ppn", cpus)) => chunk.cpus = count(cpus, origin, draft),
                    Some(("gpus", gpus)) => chunk.gpus = count(gpus, origin, draft),
                    Some(_) => draft.refuse(origin, format!("`{word}` has no meaning here")),
                    None if MODES.contains(&word) => {
                        draft.note(origin, format!("`{word}` has no meaning here; left out"));
                    }
                    None => chunk.features.push(word.to_owned()),
                }
            }
            self.torque = self.torque.take().or((chunk.cpus, chunk.gpus)
                .ne(&(None, None))
                .then(|| origin.clone()));
            same(&mut alike, chunk, origin)?;
        }
        if total == 0 {
            draft.refuse(origin, format!("`{value}` asks for no node"));
        }
        (self.nodes, self.chunk) = (Some(total.max(1)), alike.unwrap_or_default());
        Ok(())
    }

    /// `2:ncpus=8:mpiprocs=4:ngpus=1:mem=10gb`.
    fn read_select(
        &mut self,
        value: &str,
        origin: &Origin,
        draft: &mut Draft,
    ) -> Result<(), Problem> {
        (self.origin, self.openpbs) = (Some(origin.clone()), Some(origin.clone()));
        let mut total = 0_u32;
        let mut alike: Option<Chunk> = None;
        for part in value.split('+') {
            let mut chunk = Chunk::default();
            let mut chunks = 1;
            for (at, word) in part.split(':').enumerate() {
                match word.split_once('=') {
                    None if at == 0 => chunks = count(word, origin, draft).unwrap_or(1),
                    Some(("ncpus", cpus)) => chunk.cpus = count(cpus, origin, draft),
                    Some(("mpiprocs", ranks)) => chunk.ranks = count(ranks, origin, draft),
                    Some(("ngpus", gpus)) => chunk.gpus = count(gpus, origin, draft),
                    Some(("ompthreads", threads)) => chunk.threads = count(threads, origin, draft),
                    Some(("mem", memory)) if size::bytes(memory, 1).is_some() => {
                        chunk.memory = size::bytes(memory, 1);
                    }
                    Some(("host" | "vnode", host)) => self.hosts.push(host.to_owned()),
                    Some((feature, "True" | "true")) if is_word(feature) => {
                        chunk.features.push(feature.to_owned());
                    }
                    // A resource of the site's own: a type of GPU, scratch space, a part of the machine.
                    Some((name, value)) if is_word(name) && is_word(value) => {
                        chunk.features.push(word.to_owned());
                    }
                    _ => draft.refuse(
                        origin,
                        format!("`{word}` cannot be written as `resources.constraint`"),
                    ),
                }
            }
            total = total.saturating_add(chunks);
            same(&mut alike, chunk, origin)?;
        }
        (self.nodes, self.chunk) = (Some(total), alike.unwrap_or_default());
        Ok(())
    }

    /// Nodes, and the ranks that `mpirun` would start on each: one for each of the processors, or as many as are named.
    pub(super) fn shape(&self) -> Shape {
        match self.procs.filter(|_| self.nodes.is_none()) {
            Some(procs) => shape(Asked {
                tasks: Some(procs),
                ..Asked::default()
            }),
            None => {
                let is_chunk = self.openpbs.is_some();
                let each = self.chunk.ranks.or(self.chunk.cpus.filter(|_| !is_chunk));
                Shape::even(self.nodes.unwrap_or(1), each.unwrap_or(1))
            }
        }
    }

    /// Writes it down. `has_ranks`: the processors of a node are places for ranks; else they are one program's CPUs.
    pub(super) fn set(&self, has_ranks: bool, draft: &mut Draft) {
        self.set_memory(draft);
        let Some(origin) = &self.origin else { return };
        let Shape {
            nodes,
            tasks_per_node,
            ..
        } = self.shape();
        let mut number = |key, number: u32| draft.set(key, number, origin);
        if self.nodes.is_some() {
            number("resources.nodes", nodes);
        }
        let cpus = self.chunk.cpus.unwrap_or(1).max(tasks_per_node);
        let tasks = if has_ranks { tasks_per_node } else { 1 };
        if tasks > 1 {
            number("resources.tasks_per_node", tasks);
        }
        if cpus / tasks > 1 {
            number("resources.cpus_per_task", cpus / tasks);
        }
        if let Some(gpus) = self.chunk.gpus {
            number("resources.gpus_per_node", gpus);
        }
        if !cpus.is_multiple_of(tasks) {
            draft.note(
                origin,
                format!("{cpus} CPUs cannot be shared evenly by {tasks} ranks"),
            );
        }
        if self.procs.is_some_and(|procs| procs > 1) && self.nodes.is_none() {
            draft.note(
                origin,
                "PBS would take them from any nodes; here all are on one: `resources.nodes`",
            );
        }
        if let Some(threads) = self.chunk.threads {
            draft.insert("run.env", "OMP_NUM_THREADS", threads.to_string(), origin);
        }
        if !self.chunk.features.is_empty() {
            draft.set(
                "resources.constraint",
                self.chunk.features.join(":"),
                origin,
            );
        }
        if !self.hosts.is_empty() {
            draft.set("resources.nodelist", self.hosts.join(","), origin);
        }
    }

    /// `mem` is the whole job's, `resources.memory` a node's.
    fn set_memory(&self, draft: &mut Draft) {
        match &self.process_memory {
            // Nothing is set aside for it there: as memory of the node it would be so much for each of the CPUs.
            Some((_, origin)) if self.openpbs.is_some() => {
                draft.note(
                    origin,
                    "limits each process in OpenPBS, which no job file can say; left out",
                );
            }
            Some((bytes, origin)) => {
                draft.set("resources.memory_per_cpu", size::shown(*bytes), origin)
            }
            None => {}
        }
        let nodes = u64::from(self.shape().nodes);
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
            draft.note(
                origin,
                format!(
                    "is the memory of the whole job; {} for each node",
                    size::shown(bytes)
                ),
            );
        }
    }
}

/// A word that a PBS resource list takes as it is.
fn is_word(text: &str) -> bool {
    !text.is_empty()
        && text
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "._-".contains(c))
}

/// Generic resources of Moab, `matlab:2%tape` (Moab, "Requesting Resources"): its word for licences.
fn licenses(value: &str, origin: &Origin, draft: &mut Draft) {
    for part in value.split(['%', '+']) {
        let (name, count) = part.split_once([':', '=']).unwrap_or((part, "1"));
        match count.parse::<u64>() {
            Ok(count) => draft.insert("resources.licenses", name, count, origin),
            Err(_) => draft.refuse(
                origin,
                format!("`{part}` cannot be written as `resources.licenses`"),
            ),
        }
    }
}

fn count(text: &str, origin: &Origin, draft: &mut Draft) -> Option<u32> {
    let number = text.parse().ok().filter(|number| *number > 0);
    if number.is_none() {
        draft.refuse(origin, format!("`{text}` is no number that this can be"));
    }
    number
}

/// A job file has one shape for all nodes.
fn same(alike: &mut Option<Chunk>, chunk: Chunk, origin: &Origin) -> Result<(), Problem> {
    match alike {
        Some(known) if *known != chunk => {
            let what = "nodes of several kinds are nothing that a job file can say";
            Err(Problem::at(origin.span.clone(), what)
                .hinted("submit it by `qsub`, or ask for nodes that are alike"))
        }
        _ => {
            *alike = Some(chunk);
            Ok(())
        }
    }
}

/// Each chunk is on a node of its own here, which is what `scatter` says.
fn place(value: &str, origin: &Origin, draft: &mut Draft) {
    for word in value.split(':') {
        match word {
            "scatter" | "vscatter" | "shared" => {}
            "excl" | "exclhost" => draft.set("resources.exclusive", true, origin),
            word => draft.note(
                origin,
                format!("`{word}` has no meaning here: each chunk is a node"),
            ),
        }
    }
}
