//! What the job gets: nodes, memory, time, queue, and what it waits for.

use super::decisions::{JOB_FILE, Resolver};
use super::{GPU_VARIABLES, PlannedDependency, PlannedResources, TargetFacts};
use crate::foundation::diagnostic::Problem;
use crate::job::{Asked, DependencyKind, EnvVar, JobState, Located, NodeCount, kind_and_count};
use crate::scheduler::adapter_for;

impl Resolver<'_> {
    pub(super) fn resources(&mut self, nodes: u32) {
        let asked = &self.spec.resources;
        self.nodes();
        if let Some(tasks) = asked.tasks {
            self.decide("tasks", tasks.to_string(), JOB_FILE);
        }
        if let Some(tasks) = asked.tasks_per_node {
            self.decide("tasks_per_node", tasks.to_string(), JOB_FILE);
        }
        let gpus = self.gpus();
        let each_gpu = self.rank_for_each_gpu(gpus.per_node.as_deref());
        let cpus = self.cpus(&gpus);
        let memory = self.auto_or_left_out("memory", asked.memory.as_ref());
        let walltime = self.auto_or_left_out("walltime", asked.walltime.as_ref());
        // No default may stand beside a reservation that is a queue.
        let reserved =
            adapter_for(self.plan.scheduler).reserves_by_queue() && asked.reservation.is_some();
        let default_queue = self.settings.default_queue().filter(|_| !reserved);
        let queue = match gpus.queue.filter(|_| asked.queue.is_none() && !reserved) {
            Some((queue, why)) => {
                self.decide("queue", queue.clone(), why);
                Some(queue)
            }
            None => self.or_default("queue", asked.queue.as_deref(), default_queue),
        };
        let account = self.or_default(
            "account",
            asked.account.as_deref(),
            self.settings.default_account(),
        );
        if self.is_local() {
            self.name_what_local_lacks();
        }
        self.plan.resources = PlannedResources {
            nodes,
            spares: 0,
            nodes_asked: asked.nodes.is_some(),
            tasks: asked.tasks,
            tasks_per_node: each_gpu.unwrap_or_else(|| asked.tasks_on_each(nodes)),
            tasks_per_node_asked: asked.tasks_per_node.is_some() || each_gpu.is_some(),
            cpus_per_task: cpus,
            gpus_per_node: gpus.per_node,
            gpus_per_task: gpus.per_task,
            memory,
            walltime,
            queue,
            account,
            qos: asked.qos.clone(),
            reservation: asked.reservation.clone(),
            constraint: asked.constraint.clone().or(gpus.constraint),
            nodelist: asked.nodelist.clone(),
            exclude: asked.exclude.clone(),
            exclusive: asked.exclusive.unwrap_or(false),
            memory_per_cpu: asked.memory_per_cpu,
            array: asked.array.as_ref().map(|array| array.value.clone()),
            depends: self.depends(),
            begin: asked.begin,
            mail: asked.mail.clone(),
            licenses: asked.licenses.clone(),
        };
    }

    /// Ranks on each node of a distributed training that does not say how many.
    fn rank_for_each_gpu(&mut self, gpus: Option<&str>) -> Option<u32> {
        let asked = &self.spec.resources;
        if !self.plan.launcher.is_distributed()
            || asked.tasks.or(asked.tasks_per_node).is_some()
            || asked.gpus_per_task.is_some()
        {
            return None;
        }
        let ranks = kind_and_count(gpus?).1.max(1);
        self.decide(
            "tasks_per_node",
            ranks.to_string(),
            "a rank for each GPU of the node",
        );
        Some(ranks)
    }

    /// The jobs that the dependencies mean. One that is met already needs no scheduler; one that cannot be met is an error.
    fn depends(&mut self) -> Vec<PlannedDependency> {
        let mut planned = Vec::new();
        for Located { value, span } in &self.spec.resources.depends {
            let fault = match self.facts.targets.get(&value.target) {
                Some(TargetFacts::Jobs(job_ids)) => {
                    planned.push(PlannedDependency {
                        kind: value.kind,
                        job_ids: job_ids.clone(),
                    });
                    continue;
                }
                Some(TargetFacts::Over(state)) if is_met(value.kind, *state) => {
                    self.decide(
                        "depends",
                        "nothing to wait for",
                        format!("`{value}`: that run is {state}"),
                    );
                    continue;
                }
                Some(TargetFacts::Over(state)) => {
                    format!("`{value}` cannot come true: that run is {state}")
                }
                Some(TargetFacts::Unknown) | None => {
                    format!("`{value}`: there is no run or job `{}`", value.target)
                }
            };
            let problem = Problem::at(span.clone(), format!("`resources.depends`: {fault}"));
            self.problems
                .push(problem.hinted("`dlrun list` shows the runs"));
        }
        planned
    }

    fn nodes(&mut self) {
        let local = self.is_local();
        let Some(asked) = &self.spec.resources.nodes else {
            match self.spec.resources.tasks {
                Some(tasks) if !local => {
                    let why = format!(
                        "not asked for; as many as the scheduler spreads {tasks} tasks over"
                    );
                    self.decide("nodes", "left out", why);
                }
                _ => self.decide("nodes", "1", "not asked for"),
            }
            return;
        };
        // Which of a range it is follows from the candidates.
        let (shown, fewest) = match asked.value {
            NodeCount::Exactly(nodes) => (nodes.to_string(), nodes),
            NodeCount::Between { min, max, .. } => (format!("{{ min = {min}, max = {max} }}"), min),
        };
        self.decide("nodes", shown.clone(), JOB_FILE);
        if local && fewest > 1 && self.plan.launcher.is_distributed() {
            self.plan.warnings.push(format!(
                "the {fewest} nodes are {fewest} groups of ranks on this machine: it shows that the training works, not how it scales"
            ));
        } else if local && fewest > 1 {
            let message = format!("`resources.nodes = {shown}`, but a local job has one node");
            let problem = Problem::at(asked.span.clone(), message);
            self.problems.push(problem.hinted(
                "submit to a cluster, write `nodes = 1`, or choose a distributed launcher, whose nodes are groups of ranks here",
            ));
        }
    }

    pub(super) fn left_out(&mut self, what: &str) {
        let why = match (what, self.is_local()) {
            ("cpus_per_task", true) => {
                "not requested; counted as one for each of several tasks, else as all of this machine"
            }
            ("memory", true) => "not requested; counted as the same share as of the CPUs",
            (_, true) => "not asked for; a local job may use all there is",
            (_, false) => "not asked for; the site's default holds",
        };
        self.decide(what, "left out", why);
    }

    fn auto_or_left_out<T: Copy + std::fmt::Display>(
        &mut self,
        what: &str,
        asked: Option<&Asked<T>>,
    ) -> Option<T> {
        match asked {
            Some(Asked::Value(value)) => {
                let why = match (what, self.is_local()) {
                    ("memory", true) => "the job file says so; a local job is not held to it",
                    _ => JOB_FILE,
                };
                self.decide(what, value.to_string(), why);
                Some(*value)
            }
            // What it is follows from the candidates.
            Some(Asked::Auto) => {
                self.decide(what, "auto", JOB_FILE);
                None
            }
            None => {
                self.left_out(what);
                None
            }
        }
    }

    fn or_default(
        &mut self,
        what: &str,
        asked: Option<&str>,
        default: Option<&str>,
    ) -> Option<String> {
        if let Some(asked) = asked {
            self.decide(what, asked, JOB_FILE);
            return Some(asked.to_owned());
        }
        let default = default?;
        let origin = self
            .settings
            .origin(&format!("defaults.{what}"))
            .to_string();
        self.decide(what, default, format!("{origin} says so"));
        Some(default.to_owned())
    }

    /// Nothing is dropped in silence: options that only a cluster has are named.
    fn name_what_local_lacks(&mut self) {
        let asked = &self.spec.resources;
        // A container gets the flags of GPUs by it.
        let image = &self.spec.image;
        let may_contain =
            image.path.is_some() || image.uri.is_some() || self.spec.framework.name.is_some();
        let lacks_gpus = image.none || !may_contain;
        let lacks = [
            ("queue", asked.queue.is_some()),
            ("account", asked.account.is_some()),
            ("qos", asked.qos.is_some()),
            ("reservation", asked.reservation.is_some()),
            ("constraint", asked.constraint.is_some()),
            ("nodelist", asked.nodelist.is_some()),
            ("exclude", asked.exclude.is_some()),
            ("spares", asked.spares.is_some()),
            ("walltime_up_to", asked.walltime_up_to.is_some()),
            ("gpus_per_task", asked.gpus_per_task.is_some() && lacks_gpus),
        ];
        let named: Vec<&str> = lacks
            .into_iter()
            .filter(|(_, set)| *set)
            .map(|(key, _)| key)
            .collect();
        if !named.is_empty() {
            self.plan.warnings.push(format!(
                "without effect on a local job: {}",
                named.join(", ")
            ));
        }
        if asked.gpus_per_node.is_some() {
            let text = "a local job sees all GPUs, so it waits until no other job has any; name its own in \
                        `run.env`, as CUDA_VISIBLE_DEVICES, and it shares them";
            let is_named = |variable: &EnvVar| GPU_VARIABLES.contains(&variable.name.as_str());
            self.plan
                .warnings
                .extend((!self.spec.run.env.iter().any(is_named)).then(|| text.to_owned()));
        }
    }
}

/// Says whether a run that is over fulfils a condition. `aftercorr` goes by elements, of which this knows nothing.
fn is_met(kind: DependencyKind, state: JobState) -> bool {
    let completed = state == JobState::Completed;
    match kind {
        DependencyKind::After | DependencyKind::AfterAny => true,
        DependencyKind::AfterOk | DependencyKind::AfterCorr => completed,
        DependencyKind::AfterNotOk => !completed,
    }
}
