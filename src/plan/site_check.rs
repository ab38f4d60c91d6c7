//! The job against the site, as far as the site is known.

use super::PlannedResources;
use super::decisions::Resolver;
use crate::config::site::{self, Misfit, Wanted};
use crate::foundation::diagnostic::Problem;
use crate::scheduler::adapter::Elsewhere;
use crate::scheduler::adapter_for;

impl<'a> Resolver<'a> {
    /// Misfits become problems, each at its key.
    pub(super) fn fit(&mut self) {
        let held = self.site().filter(|_| self.facts.hold_against_site);
        let Some(model) = &held else { return };
        let elsewhere = self.elsewhere();
        if elsewhere.other_cluster {
            return;
        }
        let tables = &self.settings.tables().queues;
        let resources = self.plan.resources.clone();
        let gpus = resources.gpus_on_node();
        let wanted = Wanted {
            qos: elsewhere.qos.or(resources.qos.as_deref()),
            ..wanted(&resources, gpus.as_deref(), elsewhere.queue)
        };

        let misfits = site::check(&wanted, model, tables).into_iter();
        let mut problems: Vec<Problem> = misfits.map(|misfit| self.problem_of(misfit)).collect();
        problems.sort_by_key(|problem| problem.span.as_ref().map(|span| span.start));
        let fits = problems.is_empty();
        self.problems.extend(problems);
        if let Some((_, most)) = self.plan.elastic.as_ref().map(|elastic| elastic.nodes)
            && fits
        {
            let largest = Wanted {
                nodes: most,
                ..wanted
            };
            let misfits = site::check(&largest, model, tables).into_iter();
            let warnings = misfits.map(|misfit| format!("`nodes.max`: {}", misfit.message));
            self.plan.warnings.extend(warnings);
        }
        // One that does not fit is no warning but a problem.
        self.plan
            .warnings
            .extend(site::pause(&wanted, model).filter(|_| fits));
    }

    /// What decides in place of the job file and the settings.
    pub(super) fn elsewhere(&self) -> Elsewhere<'a> {
        let (scheduler, resources) = (self.plan.scheduler, &self.plan.resources);
        let section = &self.spec.scheduler;
        let options: Vec<&'a str> = section
            .directives
            .iter()
            .chain(&section.arguments)
            .map(|option| option.value.as_str())
            .collect();
        let mut found = self.facts.schedulers.iter();
        let found = found.find(|found| found.kind == scheduler);
        let environment = found.map_or(&[][..], |found| &found.environment);
        adapter_for(scheduler).elsewhere(&options, environment, resources)
    }

    /// What holds is a warning: it is no part of the job file. What is overridden is worth a note.
    pub(super) fn variables(&mut self) {
        let adapter = adapter_for(self.plan.scheduler);
        let found = self
            .facts
            .schedulers
            .iter()
            .filter(|found| found.kind == adapter.kind());
        for (name, value) in found.flat_map(|found| &found.environment) {
            let key = adapter.key_of_variable(name);
            if let Some(key) = key.filter(|key| self.plan.resources.has(key) == Some(true)) {
                self.plan.notes.push(format!(
                    "{name}={value} of your environment would beat a line of the script; `{key}` of the job holds, on the command line"
                ));
            } else {
                let effect = adapter.effect_of_variable();
                self.plan
                    .warnings
                    .push(format!("{name}={value} of your environment {effect}"));
            }
        }
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
        nodes: resources.nodes + resources.spares,
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
