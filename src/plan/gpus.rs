//! The GPUs and CPUs that a job gets, by what the site says of its kinds of GPUs.

use super::decisions::{JOB_FILE, Resolver};
use crate::config::{GpuTable, House};

use crate::job::{Asked, is_part, is_share, kind_and_count};

/// What `[gpus]` makes of the GPUs that a job asks for.
#[derive(Debug, Default)]
pub(super) struct Gpus {
    /// As the scheduler is asked for those of a node: `2` or `v100:2`.
    pub(super) per_node: Option<String>,
    /// The same for those of a task.
    pub(super) per_task: Option<String>,
    /// Queue whose nodes have them, and why.
    pub(super) queue: Option<(String, String)>,
    /// Node feature.
    pub(super) constraint: Option<String>,
    /// CPUs that go with all of a node, and why.
    cores: Option<(u32, String)>,
}

impl Resolver<'_> {
    /// The GPUs of a node.
    pub(super) fn gpus(&mut self) -> Gpus {
        let asked = &self.spec.resources;
        let Some(on_node) = asked.gpus_on_node() else {
            return Gpus::default();
        };
        let (kind, count) = kind_and_count(&on_node);
        let settings = self.settings;
        let tables = settings.tables();
        let table = kind
            .and_then(|kind| tables.gpu(kind))
            .filter(|_| !self.is_local());
        let per_node = self.gpu_request("gpus_per_node", asked.gpus_per_node.as_deref(), table);
        let per_task = self.gpu_request("gpus_per_task", asked.gpus_per_task.as_deref(), table);
        if self.is_local() {
            return Gpus {
                per_node,
                per_task,
                ..Gpus::default()
            };
        }

        let cores = cores_of(&tables.house, table, count);
        Gpus {
            per_node,
            per_task,
            queue: table.and_then(|gpu| {
                Some((
                    gpu.queue.clone()?,
                    format!("{}: its nodes have {} GPUs", gpu.origin, gpu.kind),
                ))
            }),
            constraint: table.and_then(|gpu| self.constraint_of(gpu)),
            cores,
        }
    }

    /// What the scheduler is asked for under one of the two keys.
    fn gpu_request(
        &mut self,
        key: &str,
        asked: Option<&str>,
        table: Option<&GpuTable>,
    ) -> Option<String> {
        let asked = asked?;
        let Some(gpu) = table.filter(|gpu| !gpu.typed) else {
            let why = match asked {
                asked if is_share(asked) => {
                    "the job file says so: a share of one GPU of each node, which other jobs use too"
                }
                asked if is_part(asked) => {
                    "the job file says so: parts of GPUs, each for this job alone (MIG)"
                }
                _ => JOB_FILE,
            };
            self.decide(key, asked, why);
            return Some(asked.to_owned());
        };
        let count = kind_and_count(asked).1.to_string();
        let why = format!(
            "{}: the scheduler is not asked for types of GPUs",
            gpu.origin
        );
        self.decide(key, count.clone(), why);
        Some(count)
    }

    /// The feature of the nodes with these GPUs, where the job file names none itself.
    fn constraint_of(&mut self, gpu: &GpuTable) -> Option<String> {
        let constraint = gpu.constraint.clone()?;
        if let Some(own) = &self.spec.resources.constraint {
            self.reject(
                &format!("constraint {constraint}"),
                format!("the job file asks for {own}"),
            );
            return None;
        }
        let why = format!("{}: nodes with {} GPUs have it", gpu.origin, gpu.kind);
        self.decide("constraint", constraint.clone(), why);
        Some(constraint)
    }

    /// CPUs of each task: the job file's, else those that go with its GPUs.
    pub(super) fn cpus(&mut self, gpus: &Gpus) -> Option<u32> {
        let what = "cpus_per_task";
        let tasks = self
            .spec
            .resources
            .tasks_on_each(self.spec.resources.fewest_nodes());
        let mut unknown = None;
        let asked = match self.spec.resources.cpus_per_task {
            Some(Asked::Value(cpus)) => Some((cpus, JOB_FILE.to_owned())),
            Some(Asked::Auto) => self.open_cpus().map_err(|why| unknown = Some(why)).ok(),
            None => None,
        };
        match (asked, &gpus.cores) {
            (Some((cpus, why)), cores) => {
                self.decide(what, cpus.to_string(), why);
                if let Some((share, why)) = cores
                    .as_ref()
                    .filter(|(share, _)| cpus.saturating_mul(tasks) != *share)
                {
                    let here = cpus.saturating_mul(tasks);
                    self.plan.warnings.push(format!(
                        "cpus_per_task = {cpus} makes {here} CPUs on a node, where {share} go with its GPUs ({why})"
                    ));
                }
                let here = self
                    .facts
                    .cpus
                    .filter(|here| self.is_local() && u64::from(cpus) > *here);
                if let Some(here) = here {
                    self.plan.warnings.push(format!(
                        "cpus_per_task = {cpus}, but this machine has {here}"
                    ));
                }
                Some(cpus)
            }
            (None, Some((share, why))) => {
                let cpus = (share / tasks).max(1);
                let over = if tasks > 1 {
                    format!(", over {tasks} tasks")
                } else {
                    String::new()
                };
                self.decide(what, cpus.to_string(), format!("{why}{over}"));
                Some(cpus)
            }
            (None, None) if unknown.is_some() => {
                self.decide(what, "left out", unknown.unwrap_or_default());
                None
            }
            (None, None) => {
                self.left_out(what);
                None
            }
        }
    }
}

/// CPUs that go with so many GPUs: by their type, else by the house rule.
fn cores_of(house: &House, gpu: Option<&GpuTable>, number: u32) -> Option<(u32, String)> {
    let of_kind = gpu.and_then(|gpu| Some((gpu.cores_per_gpu?, &gpu.origin)));
    let (cores, origin) = of_kind.or(house
        .cores_per_gpu
        .as_ref()
        .map(|(cores, origin)| (*cores, origin)))?;
    Some((
        cores.saturating_mul(number),
        format!("{origin}: {cores} go with each of {number} GPUs"),
    ))
}
