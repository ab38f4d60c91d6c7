//! What the schedulers cannot honour of a job file, with why and what to do instead: nothing is dropped in silence.
//!
//! Slurm has all of it. What is said of Torque is of 6.1 with pbs_sched, of OpenPBS of 23.06.

use super::resolve::Resolver;
use crate::foundation::diagnostic::Problem;
use crate::job::{DependencyKind, Launcher, MailEvent, Resources, SchedulerKind, kind_and_count};

/// A key of `[resources]` that a scheduler has nothing for.
struct Lack {
    key: &'static str,
    /// Ends the sentence "`resources.KEY`: ".
    why: &'static str,
    instead: &'static str,
}

const fn lack(key: &'static str, why: &'static str, instead: &'static str) -> Lack {
    Lack { key, why, instead }
}

const OPENPBS_LACKS: [Lack; 2] = [
    lack(
        "qos",
        "OpenPBS has no QOS",
        "sites have queues in its place: name one with `resources.queue`",
    ),
    lack(
        "exclude",
        "OpenPBS cannot leave out nodes",
        "name the nodes that you want with `resources.nodelist`, or a resource of theirs with `resources.constraint`",
    ),
];

const TORQUE_LACKS: [Lack; 1] = [lack(
    "exclude",
    "Torque cannot leave out nodes",
    "name the nodes that you want with `resources.nodelist`, or a property of theirs with `resources.constraint`",
)];

const NO_QUEUE: &str = "take the line out, or submit to a cluster";

const LOCAL_LACKS: [Lack; 5] = [
    lack(
        "array",
        "a local job has no elements",
        "start the command in a loop, or submit to a cluster",
    ),
    lack(
        "depends",
        "a local job waits for no other",
        "`dlrun wait RUN && dlrun submit JOB_FILE` does it",
    ),
    lack(
        "begin",
        "a local job begins as soon as this machine has room for it",
        "`at` starts programs later",
    ),
    lack(
        "mail",
        "a local job sends no mail",
        "`dlrun submit --wait` ends with the job",
    ),
    lack("licenses", "a local job takes no licences", NO_QUEUE),
];

/// What takes effect on Torque only where Moab or Maui schedules; pbs_sched passes over it.
const MOAB_KEYS: [&str; 3] = ["qos", "reservation", "licenses"];

/// More CPUs than any node of this decade has; more is a typing error.
const MAX_CPUS_PER_NODE: u64 = 65_536;

impl Resolver<'_> {
    /// Holds the job file against what the scheduler can do.
    pub(super) fn dialect(&mut self, scheduler: SchedulerKind, name: &str, launcher: Launcher) {
        self.shape();
        let lacks: &[Lack] = match scheduler {
            SchedulerKind::Torque => &TORQUE_LACKS,
            SchedulerKind::OpenPbs => &OPENPBS_LACKS,
            SchedulerKind::Local => &LOCAL_LACKS,
            SchedulerKind::Slurm | SchedulerKind::Auto => &[],
        };
        let asked = &self.spec.resources;
        for Lack { key, why, instead } in lacks.iter().filter(|lack| asks(asked, lack.key)) {
            self.refuse(key, why, instead);
        }
        match scheduler {
            SchedulerKind::Torque => self.torque(),
            SchedulerKind::OpenPbs => self.openpbs(),
            SchedulerKind::Local => self.local(launcher),
            SchedulerKind::Slurm => self.slurm(launcher),
            SchedulerKind::Auto => {}
        }
        if scheduler.is_pbs() {
            self.pbs(scheduler, name);
        }
    }

    fn refuse(&mut self, key: &str, why: &str, instead: &str) {
        let span = self.spec.resources.spans.get(key).cloned();
        let message = format!("`resources.{key}`: {why}");
        self.problems.push(Problem {
            span,
            message,
            hint: Some(instead.to_owned()),
        });
    }

    /// Contradictions that no site could resolve.
    fn shape(&mut self) {
        let asked = &self.spec.resources;
        let cpus = cpus_per_node(asked);
        if cpus > MAX_CPUS_PER_NODE {
            let why =
                format!("times `tasks_per_node` makes {cpus} CPUs on each node, which no node has");
            self.refuse(
                "cpus_per_task",
                &why,
                "`cpus_per_task` is for each task, not for the node",
            );
        }
        if asked
            .memory_per_cpu
            .is_some_and(|memory| memory.0.checked_mul(cpus).is_none())
        {
            self.refuse(
                "memory_per_cpu",
                "times the CPUs of a node is beyond all bounds",
                "it is for one CPU",
            );
        }
        self.gpus_of_both();
    }

    /// GPUs of a node and of a task: Slurm takes both only where they say the same.
    fn gpus_of_both(&mut self) {
        let asked = &self.spec.resources;
        let (Some(node), Some(task)) = (&asked.gpus_per_node, &asked.gpus_per_task) else {
            return;
        };
        let tasks = asked.tasks_on_each(asked.fewest_nodes());
        let (of_node, of_task) = (kind_and_count(node), kind_and_count(task));
        if (of_task.0, of_task.1.saturating_mul(tasks)) != of_node {
            let why = format!(
                "{tasks} tasks on a node with `{task}` each contradict `gpus_per_node = {node}`"
            );
            self.refuse(
                "gpus_per_task",
                &why,
                "keep one of them: the other follows from the tasks of a node",
            );
        }
    }

    /// What `gpus_per_task` means for the program. How Slurm binds is said in `srun(1)`, `--gpus-per-task`; what JAX takes
    /// is in its `SlurmCluster`, what NCCL needs is said in its issue 1066.
    fn slurm(&mut self, launcher: Launcher) {
        let asked = &self.spec.resources;
        let Some(gpus) = asked
            .gpus_per_task
            .as_deref()
            .filter(|_| launcher != Launcher::Each)
        else {
            return;
        };
        let ids: Vec<String> = (0..kind_and_count(gpus).1)
            .map(|id| id.to_string())
            .collect();
        self.notes.push(format!(
            "gpus_per_task: each rank sees its own GPUs only, numbered from 0: PyTorch takes device 0, not LOCAL_RANK; JAX \
             needs `jax.distributed.initialize(local_device_ids=[{}])`, else it takes the device of number SLURM_LOCALID",
            ids.join(", ")
        ));
        if asked.tasks_per_node.is_some_and(|tasks| tasks > 1) {
            self.notes.push(
                "gpus_per_task: NCCL may not use NVLink between ranks of one node, since none sees the GPUs of the \
                 others; with `gpus_per_node` each rank sees all"
                    .to_owned(),
            );
        }
    }

    fn local(&mut self, launcher: Launcher) {
        let brings_modules = !self.spec.run.modules.is_empty();
        if launcher == Launcher::Mpi && self.facts.mpirun.is_none() && !brings_modules {
            let span = self
                .spec
                .run
                .launcher
                .as_ref()
                .map(|launcher| launcher.span.clone());
            let message =
                "`run.launcher = \"mpi\"` starts `mpirun` on this machine, and it is not in PATH";
            let hint = Some("install an MPI, or name its module in `run.modules`".to_owned());
            self.problems.push(Problem {
                span,
                message: message.to_owned(),
                hint,
            });
        }
    }

    /// What both PBS dialects lack.
    fn pbs(&mut self, scheduler: SchedulerKind, name: &str) {
        let shown = shown(scheduler);
        if !name.is_ascii() {
            let why = format!("{shown} takes a job's name in ASCII letters only, not {name:?}");
            self.problems
                .push(Problem::of_file(why).hinted("give the job a `name`"));
        }
        for depend in &self.spec.resources.depends {
            if depend.value.kind == DependencyKind::AfterCorr {
                let why = format!("`resources.depends`: {shown} has no `aftercorr`");
                let hint = "`afterok` waits for the whole array";
                self.problems
                    .push(Problem::at(depend.span.clone(), why).hinted(hint));
            }
        }
        let asked = &self.spec.resources;
        let nodes = asked.fewest_nodes();
        if asked
            .tasks
            .is_some_and(|tasks| tasks != nodes * asked.tasks_on_each(nodes))
        {
            let why = format!(
                "{shown} gives each node the same number of tasks, and {nodes} nodes cannot have so many"
            );
            self.refuse("tasks", &why, "write `nodes` and `tasks_per_node`");
        }
        self.pbs_gpus(scheduler);
        self.pbs_nodelist(shown);
        self.pbs_mail(scheduler);
    }

    fn pbs_gpus(&mut self, scheduler: SchedulerKind) {
        if let Some(gpus) = self
            .spec
            .resources
            .gpus_on_node()
            .filter(|_| asks(&self.spec.resources, "gpus_per_task"))
        {
            let why = format!("{} gives GPUs to nodes, not to tasks", shown(scheduler));
            let (_, count) = kind_and_count(&gpus);
            let instead = format!(
                "write gpus_per_node = {count}; each rank then chooses its GPU by its number on the node (OMPI_COMM_WORLD_LOCAL_RANK \
                 with Open MPI)"
            );
            return self.refuse("gpus_per_task", &why, &instead);
        }
        let gpus = self.spec.resources.gpus_per_node.as_deref();
        let Some((kind, count)) = gpus.and_then(|gpus| gpus.rsplit_once(':')) else {
            return;
        };
        // The site's configuration leads the type to a queue or a property.
        if self
            .settings
            .tables()
            .gpu(kind)
            .is_some_and(|gpu| !gpu.typed)
        {
            return;
        }
        let (why, instead) = match scheduler {
            SchedulerKind::OpenPbs => (
                "OpenPBS knows types of GPUs only as a resource that the site has made",
                format!(
                    "write gpus_per_node = {count} and constraint = \"RESOURCE={kind}\", with your site's name of it"
                ),
            ),
            _ => (
                "Torque knows types of GPUs only as a property that the site has given to its nodes",
                format!(
                    "write gpus_per_node = {count} and constraint = \"{kind}\", or your site's word for it"
                ),
            ),
        };
        self.refuse("gpus_per_node", why, &instead);
    }

    /// PBS takes the nodes one by one, so there must be as many names as nodes.
    fn pbs_nodelist(&mut self, shown: &str) {
        let Some(list) = &self.spec.resources.nodelist else {
            return;
        };
        let names: Vec<&str> = list.split([',', '+']).collect();
        let nodes = self
            .spec
            .resources
            .nodes
            .as_ref()
            .map_or(1, |nodes| nodes.value.bounds().1);
        let is_name = |name: &&str| {
            !name.is_empty()
                && name
                    .chars()
                    .all(|c| c.is_ascii_alphanumeric() || "._-".contains(c))
        };
        if !names.iter().all(is_name) {
            let why = format!("{shown} wants each node by its name, not {list:?}");
            self.refuse("nodelist", &why, "write \"n1,n2\"");
        } else if u32::try_from(names.len()) != Ok(nodes) {
            let why = format!("it names {} nodes, and the job has {nodes}", names.len());
            let instead = format!("{shown} wants as many names as nodes; set `resources.nodes`");
            self.refuse("nodelist", &why, &instead);
        }
    }

    fn pbs_mail(&mut self, scheduler: SchedulerKind) {
        let Some(mail) = &self.spec.resources.mail else {
            return;
        };
        let mut say = |text: &str| {
            self.warnings
                .push(format!("`resources.mail`: {} {text}", shown(scheduler)));
        };
        if mail.on.contains(&MailEvent::Requeue) {
            say("sends none when a job waits anew");
        }
        let has_end = mail.on.contains(&MailEvent::End);
        if scheduler == SchedulerKind::OpenPbs && mail.on.contains(&MailEvent::Fail) && !has_end {
            say(
                "sends `fail` for jobs that it ends itself; one whose command fails is told by `end` alone",
            );
        }
    }

    fn torque(&mut self) {
        let without_effect: Vec<&str> = MOAB_KEYS
            .into_iter()
            .filter(|key| asks(&self.spec.resources, key))
            .collect();
        if !without_effect.is_empty() {
            let keys = without_effect.join(", ");
            let scope =
                "where Moab or Maui schedules Torque's jobs; its own scheduler passes over it";
            self.warnings
                .push(format!("{keys}: takes effect only {scope}"));
        }
        if self
            .spec
            .resources
            .constraint
            .as_deref()
            .is_some_and(|text| !all_parts(text, is_word))
        {
            let why = "Torque has properties of nodes, all of which must hold, and no operators";
            self.refuse(
                "constraint",
                why,
                "write one property, or several as \"fast:ib\"",
            );
        }
    }

    fn openpbs(&mut self) {
        let asked = &self.spec.resources;
        if asked
            .array
            .as_ref()
            .is_some_and(|array| array.value.single_range().is_none())
        {
            let why = "OpenPBS takes one range of indexes, with a step";
            self.refuse(
                "array",
                why,
                "write \"0-99\" or \"0-98:2\", or submit several jobs",
            );
        }
        if let (Some(_), Some(queue)) = (&asked.reservation, &asked.queue) {
            let why = format!(
                "with OpenPBS a reservation is a queue, and the job already names `{queue}`"
            );
            self.refuse("reservation", &why, "keep one of `reservation` and `queue`");
        }
        let is_resource = |part: &str| match part.split_once('=') {
            Some((name, value)) => is_word(name) && is_word(value),
            None => is_word(part),
        };
        if asked
            .constraint
            .as_deref()
            .is_some_and(|text| !all_parts(text, is_resource))
        {
            let why = "OpenPBS has resources of nodes in place of features, and no operators";
            let instead = "write \"NAME\" for one that is true or \"NAME=VALUE\", several with `:` between them";
            self.refuse("constraint", why, instead);
        }
        for (name, _) in &asked.licenses {
            if !is_word(name) || name.contains('.') || OPENPBS_RESOURCES.contains(&name.as_str()) {
                let why = format!(
                    "`{name}` cannot be the name of a licence, which is a resource with OpenPBS"
                );
                self.refuse(
                    "licenses",
                    &why,
                    "`qmgr -c 'list resource'` shows what the site calls its licences",
                );
                return;
            }
        }
    }
}

/// Says whether a key asks for something.
fn asks(asked: &Resources, key: &str) -> bool {
    match key {
        "depends" => !asked.depends.is_empty(),
        "licenses" => !asked.licenses.is_empty(),
        key => asked.spans.contains_key(key),
    }
}

/// Resources that mean something else (`pbs_resources(7B)`, OpenPBS 23.06).
const OPENPBS_RESOURCES: [&str; 20] = [
    "arch",
    "cput",
    "file",
    "host",
    "mem",
    "mpiprocs",
    "ncpus",
    "ngpus",
    "nice",
    "nodect",
    "nodes",
    "ompthreads",
    "pcput",
    "place",
    "pmem",
    "pvmem",
    "select",
    "software",
    "vmem",
    "walltime",
];

fn shown(scheduler: SchedulerKind) -> &'static str {
    if scheduler == SchedulerKind::Torque {
        "Torque"
    } else {
        "OpenPBS"
    }
}

fn cpus_per_node(asked: &Resources) -> u64 {
    let tasks = match asked
        .tasks
        .filter(|_| asked.nodes.is_none() && asked.tasks_per_node.is_none())
    {
        // They go to as many nodes as it takes.
        Some(_) => 1,
        None => asked.tasks_on_each(asked.fewest_nodes()),
    };
    u64::from(asked.cpus_per_task.unwrap_or(1)) * u64::from(tasks)
}

fn all_parts(text: &str, good: impl Fn(&str) -> bool) -> bool {
    text.split(':').all(good)
}

/// A word that means itself in a PBS resource list.
fn is_word(text: &str) -> bool {
    !text.is_empty()
        && text
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "._-".contains(c))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Defaults, Settings};
    use crate::plan::{Plan, SiteFacts, resolve};

    const KINDS: [(&str, SchedulerKind); 4] = [
        ("slurm", SchedulerKind::Slurm),
        ("torque", SchedulerKind::Torque),
        ("openpbs", SchedulerKind::OpenPbs),
        ("local", SchedulerKind::Local),
    ];

    fn facts() -> SiteFacts {
        let seven = crate::plan::TargetFacts::Jobs(vec![crate::job::JobId("7".into())]);
        let facts = SiteFacts::unknown("/home/u/job.toml".into());
        SiteFacts {
            targets: [("7".to_owned(), seven)].into(),
            cpus: Some(2),
            user: "ann".into(),
            ..facts
        }
    }

    fn resolved(kind: &str, lines: &str) -> (String, Result<Plan, Vec<Problem>>) {
        let text = format!(
            "[run]\ncommand = [\"true\"]\n[scheduler]\nkind = \"{kind}\"\n[resources]\n{lines}\n"
        );
        let spec = crate::job::parse(&text).expect("a valid job file");
        let defaults = Defaults {
            state_dir: Some("/home/u/state".into()),
        };
        let settings = Settings::merge(&defaults, &[]).expect("settings");
        (text, resolve(&spec, &settings, &facts()))
    }

    /// The schedulers that refuse `line`, each with its message, which points at the line.
    fn refusals(line: &str) -> Vec<(&'static str, String)> {
        let mut refusing = Vec::new();
        for (word, _) in KINDS {
            let (text, plan) = resolved(word, line);
            let Err(problems) = plan else { continue };
            assert_eq!(problems.len(), 1, "{word}, {line}: {problems:?}");
            let problem = &problems[0];
            let span = problem.span.clone().expect("it has a place");
            assert!(line.contains(&text[span]), "{word}, {line}: {problem:?}");
            assert!(problem.hint.is_some(), "{word}, {line}");
            refusing.push((word, problem.message.clone()));
        }
        refusing
    }

    #[test]
    fn each_option_is_refused_where_it_cannot_be_honoured() {
        for (line, expected) in [
            ("qos = \"long\"", &["openpbs"][..]),
            ("exclude = \"n1\"", &["torque", "openpbs"]),
            ("array = \"0-9%2\"", &["local"]),
            ("array = \"1,3,5\"", &["local"]),
            ("array = \"1,3,7\"", &["openpbs", "local"]),
            ("depends = [\"afterok:7\"]", &["local"]),
            ("begin = \"2030-01-01T08:00\"", &["local"]),
            ("mail = { on = [\"end\"] }", &["local"]),
            ("licenses = { matlab = 1 }", &["local"]),
            ("licenses = { walltime = 1 }", &["openpbs", "local"]),
            ("gpus_per_node = 2", &[]),
            ("gpus_per_node = \"v100:2\"", &["torque", "openpbs"]),
            ("gpus_per_task = 1", &["torque", "openpbs"]),
            ("gpus_per_task = \"v100:1\"", &["torque", "openpbs"]),
            ("constraint = \"fast\"", &[]),
            ("constraint = \"fast:ib\"", &[]),
            ("constraint = \"model=a100\"", &["torque"]),
            ("constraint = \"a&b\"", &["torque", "openpbs"]),
            ("constraint = \"[a|b]\"", &["torque", "openpbs"]),
            ("nodelist = \"n1\"", &[]),
            ("nodelist = \"n[1-2]\"", &["torque", "openpbs"]),
            ("nodelist = \"n1,n2\"", &["torque", "openpbs"]),
            (
                "cpus_per_task = 65536\ntasks_per_node = 4096",
                &["slurm", "torque", "openpbs", "local"],
            ),
            ("reservation = \"R7\"", &[]),
            ("memory_per_cpu = \"2GiB\"", &[]),
            ("exclusive = true", &[]),
        ] {
            let found = refusals(line);
            let words: Vec<&str> = found.iter().map(|(word, _)| *word).collect();
            assert_eq!(words, expected, "{line}: {found:?}");
            for (word, message) in found {
                let names_key = message.starts_with("`resources.");
                assert!(names_key, "{message}");
                let named = ["openpbs", "torque"].contains(&word) && !line.starts_with("cpus");
                let names_it =
                    message.to_lowercase().contains(word) || message.contains("the job has");
                assert!(!named || names_it, "{message}");
            }
        }
    }

    #[test]
    fn what_stands_together_is_looked_at_together() {
        let both = "reservation = \"R7\"\nqueue = \"gpu\"";
        assert_eq!(refusals(both)[0].0, "openpbs");
        assert!(
            resolved("openpbs", "nodes = 2\nnodelist = \"n1,n2\"")
                .1
                .is_err_and(|problems| {
                    problems
                        .iter()
                        .all(|problem| problem.message.contains("launcher"))
                })
        );
        let (_, plan) = resolved("openpbs", "depends = [\"aftercorr:7\"]");
        let problems = plan.expect_err("refused");
        assert_eq!(
            problems[0].message,
            "`resources.depends`: OpenPBS has no `aftercorr`"
        );
    }

    #[test]
    fn what_takes_no_effect_is_a_warning() {
        for (kind, line, part) in [
            (
                "torque",
                "qos = \"long\"",
                "qos: takes effect only where Moab or Maui",
            ),
            (
                "torque",
                "licenses = { matlab = 1 }",
                "licenses: takes effect only",
            ),
            (
                "openpbs",
                "mail = { on = [\"fail\"] }",
                "told by `end` alone",
            ),
            (
                "openpbs",
                "mail = { on = [\"requeue\"] }",
                "OpenPBS sends none when a job waits anew",
            ),
            (
                "torque",
                "mail = { on = [\"requeue\"] }",
                "Torque sends none when a job waits anew",
            ),
            (
                "local",
                "qos = \"long\"",
                "without effect on a local job: qos",
            ),
            ("local", "gpus_per_node = 1", "a local job sees all GPUs"),
            (
                "local",
                "gpus_per_task = 1",
                "without effect on a local job: gpus_per_task",
            ),
        ] {
            let plan = resolved(kind, line).1.expect("a plan");
            assert!(
                plan.warnings.iter().any(|warning| warning.contains(part)),
                "{kind}, {line}: {:?}",
                plan.warnings
            );
        }
        let quiet = resolved("openpbs", "mail = { on = [\"end\", \"fail\"] }")
            .1
            .expect("a plan");
        assert_eq!(quiet.warnings, Vec::<String>::new());
    }

    #[test]
    fn gpus_of_tasks_and_of_nodes_must_agree() {
        let agree = |node: &str, task: &str| {
            let lines =
                format!("tasks_per_node = 2\ngpus_per_node = {node}\ngpus_per_task = {task}");
            resolved("slurm", &lines)
                .1
                .map_err(|problems| problems[0].message.clone())
        };
        assert!(agree("2", "1").is_ok() && agree("\"v100:4\"", "\"v100:2\"").is_ok());
        for (node, task) in [
            ("4", "1"),
            ("1", "1"),
            ("2", "\"v100:1\""),
            ("\"v100:2\"", "1"),
        ] {
            let refused = agree(node, task).expect_err("a contradiction");
            assert!(
                refused.starts_with("`resources.gpus_per_task`: 2 tasks"),
                "{refused}"
            );
        }
    }

    #[test]
    fn plan_explains_what_gpus_per_task_means_for_the_program() {
        let notes = |kind: &str, lines: &str| resolved(kind, lines).1.expect("a plan").notes;
        let two = notes("slurm", "tasks_per_node = 2\ngpus_per_task = 2");
        assert!(
            two[0].contains("local_device_ids=[0, 1]") && two[0].contains("not LOCAL_RANK"),
            "{two:?}"
        );
        assert!(two[1].contains("NVLink"), "{two:?}");
        assert_eq!(notes("slurm", "gpus_per_task = 1").len(), 1);
        assert_eq!(notes("slurm", "gpus_per_node = 2").len(), 0);
        assert_eq!(notes("local", "gpus_per_task = 1").len(), 0);
    }

    #[test]
    fn a_local_mpi_job_needs_mpirun() {
        let with = |mpirun: Option<&str>, kind: &str| {
            let text = format!(
                "[run]\ncommand = [\"a\"]\nlauncher = \"mpi\"\n[scheduler]\nkind = \"{kind}\"\n"
            );
            let spec = crate::job::parse(&text).expect("a valid job file");
            let defaults = Defaults {
                state_dir: Some("/home/u/state".into()),
            };
            let settings = Settings::merge(&defaults, &[]).expect("settings");
            resolve(
                &spec,
                &settings,
                &SiteFacts {
                    mpirun: mpirun.map(Into::into),
                    ..facts()
                },
            )
        };
        assert!(
            with(None, "local").expect_err("no mpirun")[0]
                .message
                .contains("not in PATH")
        );
        assert!(with(Some("/usr/bin/mpirun"), "local").is_ok() && with(None, "slurm").is_ok());
    }
}
