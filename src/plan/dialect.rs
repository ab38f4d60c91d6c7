//! The job file against what the scheduler can do: nothing is dropped in silence.

use super::decisions::Resolver;
use crate::job::{SchedulerKind, is_part, is_share, kind_and_count};
use crate::scheduler::adapter::{Asked, Findings, Lack};
use crate::scheduler::adapter_for;

impl Resolver<'_> {
    /// Holds the job file against what the scheduler can do.
    pub(super) fn dialect(&mut self) {
        let mut found = Findings::default();
        self.check_shape(&mut found);
        let adapter = adapter_for(self.plan.scheduler);
        let asked = Asked {
            spec: self.spec,
            name: &self.plan.name,
            launcher: self.plan.launcher,
            tables: self.settings.tables(),
            has_mpirun: self.facts.mpirun.is_some(),
        };
        for Lack { key, why, instead } in adapter.lacks() {
            if asked.asks(key) {
                found.refuse(self.spec, key, why, instead);
            }
        }
        adapter.check(&asked, &mut found);
        self.problems.extend(found.problems);
        self.plan.warnings.extend(found.warnings);
    }

    /// Contradictions that no site could resolve.
    fn check_shape(&self, found: &mut Findings) {
        let asked = &self.spec.resources;
        let each = asked.gpus_per_task.as_deref();
        if each.is_some_and(is_share) {
            let why = "Slurm gives shares of GPUs to nodes, not to tasks";
            let instead =
                "write gpus_per_node = \"shard:4\": the tasks of a node use the share together";
            found.refuse(self.spec, "gpus_per_task", why, instead);
        }
        let part = asked.gpus_on_node().filter(|gpus| is_part(gpus));
        if part.is_some() && self.plan.scheduler != SchedulerKind::Slurm {
            let (key, name) = (asked.gpu_key(), adapter_for(self.plan.scheduler).name());
            let why = format!(
                "{name} gives whole GPUs: only Slurm gives a `shard`, `mps` or `mig` of one"
            );
            found.refuse(
                self.spec,
                key,
                &why,
                "write a number of GPUs, or submit to Slurm",
            );
            return;
        }
        let (Some(node), Some(task)) = (&asked.gpus_per_node, &asked.gpus_per_task) else {
            return;
        };
        // Slurm takes both only where they say the same.
        let tasks = asked.tasks_on_each(asked.fewest_nodes());
        let (of_node, of_task) = (kind_and_count(node), kind_and_count(task));
        if (of_task.0, of_task.1.saturating_mul(tasks)) != of_node {
            let why = format!(
                "{tasks} tasks on a node with `{task}` each contradict `gpus_per_node = {node}`"
            );
            let instead = "keep one of them: the other follows from the tasks of a node";
            found.refuse(self.spec, "gpus_per_task", &why, instead);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::config::Settings;
    use crate::foundation::diagnostic::Problem;
    use crate::job::SchedulerKind;
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
        let defaults = Some("/home/u/state".into());
        let settings = Settings::merge(defaults, &[]).expect("settings");
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
            // Slurm and OpenPBS need more for it than this job has.
            ("spares = 1", &["slurm", "torque", "openpbs"]),
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
                // What spares need has to do with the job.
                let is_general = word == "openpbs" && line.starts_with("spares");
                let named = ["openpbs", "torque"].contains(&word) && !is_general;
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
                "reported by `end` alone",
            ),
            (
                "openpbs",
                "mail = { on = [\"requeue\"] }",
                "OpenPBS sends none when a job waits again",
            ),
            (
                "torque",
                "mail = { on = [\"requeue\"] }",
                "Torque sends none when a job waits again",
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
    fn a_local_mpi_job_needs_mpirun() {
        let with = |mpirun: Option<&str>, kind: &str| {
            let text = format!(
                "[run]\ncommand = [\"a\"]\nlauncher = \"mpi\"\n[scheduler]\nkind = \"{kind}\"\n"
            );
            let spec = crate::job::parse(&text).expect("a valid job file");
            let defaults = Some("/home/u/state".into());
            let settings = Settings::merge(defaults, &[]).expect("settings");
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
