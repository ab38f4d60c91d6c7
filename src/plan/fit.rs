//! The job against the site, as far as the site is known.

use super::PlannedResources;
use super::facts::SiteFacts;
use super::resolve::Resolver;
use crate::config::site::{self, Misfit, Wanted};
use crate::foundation::diagnostic::Problem;
use crate::job::SchedulerKind;

/// What stands elsewhere than in the job file and decides all the same: options handed through, the user's environment.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Elsewhere<'a> {
    pub(super) queue: Option<&'a str>,
    qos: Option<&'a str>,
    /// Another cluster takes the job, of which nothing is known here.
    pub(super) other_cluster: bool,
}

impl<'a> Resolver<'a> {
    /// Misfits become problems, each at its key.
    pub(super) fn fit(&mut self, resources: &PlannedResources, scheduler: SchedulerKind) {
        let facts = self.facts;
        let held = facts
            .site
            .as_ref()
            .filter(|model| facts.hold_against_site && model.scheduler == scheduler);
        let Some(model) = held else { return };
        let elsewhere = self.elsewhere(resources, scheduler);
        if elsewhere.other_cluster {
            return;
        }
        let tables = &self.settings.tables().queues;
        let model = &site::overlaid(model, tables);
        let gpus = resources.gpus_on_node();
        let wanted = Wanted {
            qos: elsewhere.qos.or(resources.qos.as_deref()),
            ..wanted(resources, gpus.as_deref(), elsewhere.queue)
        };
        for table in tables
            .iter()
            .filter(|table| Some(table.name.as_str()) == wanted.queue)
        {
            let note = format!(
                "limits of queue `{}` are by the site's configuration too ({})",
                table.name, table.origin
            );
            self.notes.push(note);
        }
        let misfits = site::check(&wanted, model, tables).into_iter();
        let mut problems: Vec<Problem> = misfits.map(|misfit| self.problem_of(misfit)).collect();
        problems.sort_by_key(|problem| problem.span.as_ref().map(|span| span.start));
        let fits = problems.is_empty();
        self.problems.extend(problems);
        // One that does not fit is no warning but a problem.
        self.warnings
            .extend(site::pause(&wanted, model).filter(|_| fits));
        let last_index = resources.array.as_ref().map(crate::job::ArraySpec::last);
        self.notes.extend(site::remarks(&wanted, last_index, model));
    }

    /// What decides in place of the job file and the settings.
    pub(super) fn elsewhere(
        &self,
        resources: &PlannedResources,
        scheduler: SchedulerKind,
    ) -> Elsewhere<'a> {
        let section = &self.spec.scheduler;
        let options: Vec<&'a str> = section
            .directives
            .iter()
            .chain(&section.arguments)
            .map(|option| option.value.as_str())
            .collect();
        elsewhere(&options, self.facts, scheduler, resources)
    }

    fn problem_of(&self, misfit: Misfit) -> Problem {
        let Misfit { key, message, hint } = misfit;
        let key = if key == "gpus_per_node" {
            self.spec.resources.gpu_key()
        } else {
            key
        };
        let message = format!("`resources.{key}`: {message}");
        match self.spec.resources.spans.get(key) {
            Some(span) => Problem {
                span: Some(span.clone()),
                message,
                hint,
            },
            // The value is not the job file's: it comes from a setting or is a default.
            None => {
                let from = self
                    .reason_of(key)
                    .map(|why| format!(" ({why})"))
                    .unwrap_or_default();
                Problem {
                    span: None,
                    message: message + &from,
                    hint,
                }
            }
        }
    }
}

/// What the job asks of a site, `gpus` on each node; `queue` is the one that takes it in place of the job's own.
pub(super) fn wanted<'a>(
    resources: &'a PlannedResources,
    gpus: Option<&'a str>,
    queue: Option<&'a str>,
) -> Wanted<'a> {
    Wanted {
        queue: queue.or(resources.queue.as_deref()),
        account: resources.account.as_deref(),
        qos: resources.qos.as_deref(),
        nodes: resources.nodes,
        // Tasks in all may go to as many nodes as it takes.
        tasks_per_node: if resources.nodes_asked || resources.tasks_per_node_asked {
            resources.tasks_per_node
        } else {
            1
        },
        cpus_per_task: resources.cpus_per_task,
        gpus_per_node: gpus,
        memory: resources.memory,
        memory_per_cpu: resources.memory_per_cpu,
        walltime: resources.walltime,
        constraint: resources.constraint.as_deref(),
        licenses: &resources.licenses,
        elements: resources.array.as_ref().map(crate::job::ArraySpec::count),
    }
}

fn elsewhere<'a>(
    options: &[&'a str],
    facts: &'a SiteFacts,
    scheduler: SchedulerKind,
    resources: &PlannedResources,
) -> Elsewhere<'a> {
    if scheduler.is_pbs() {
        return Elsewhere {
            queue: value_of(options, "-q", None),
            ..Elsewhere::default()
        };
    }
    let found = facts
        .schedulers
        .iter()
        .filter(|found| found.kind == scheduler);
    let environment: Vec<(&str, &str)> = found
        .flat_map(|found| &found.environment)
        .map(|(name, value)| (&**name, &**value))
        .collect();
    let variable = |wanted: &str| {
        environment
            .iter()
            .find(|(name, _)| *name == wanted)
            .map(|(_, value)| *value)
    };
    let queue = value_of(options, "-p", Some("--partition"));
    Elsewhere {
        queue: queue.or_else(|| variable("SBATCH_PARTITION").filter(|_| resources.queue.is_none())),
        qos: value_of(options, "-q", Some("--qos")).or_else(|| variable("SBATCH_QOS")),
        other_cluster: value_of(options, "-M", Some("--clusters")).is_some()
            || variable("SBATCH_CLUSTERS").is_some(),
    }
}

/// The value of an option among those handed through, the last one counts: `-pX`, `-p X`, `--partition=X`, in one word or
/// in two.
fn value_of<'a>(options: &[&'a str], short: &str, long: Option<&str>) -> Option<&'a str> {
    let mut words = options.iter().flat_map(|option| option.split_whitespace());
    let mut value = None;
    while let Some(word) = words.next() {
        if word == short || Some(word) == long {
            value = words.next();
        } else if let Some(stuck) = word.strip_prefix(short).filter(|_| !word.starts_with("--")) {
            value = Some(stuck);
        } else if let Some(stuck) = long.and_then(|long| word.strip_prefix(long)?.strip_prefix('='))
        {
            value = Some(stuck);
        }
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_handed_through_are_read_in_every_spelling() {
        for options in [
            &["-pgpu"][..],
            &["-p gpu"],
            &["-p", "gpu"],
            &["--partition=gpu"],
            &["--partition", "gpu"],
        ] {
            assert_eq!(
                value_of(options, "-p", Some("--partition")),
                Some("gpu"),
                "{options:?}"
            );
        }
        assert_eq!(value_of(&["-p", "a", "-pb"], "-p", None), Some("b"));
        assert_eq!(
            value_of(&["--parsable", "--hold", "-H"], "-p", Some("--partition")),
            None
        );
        assert_eq!(value_of(&["-p"], "-p", None), None);
    }
}
