//! Torque as job files and scripts see it: 6.1 with pbs_sched.

use super::directives;
use crate::foundation::diagnostic::Problem;
use crate::job::{Located, SchedulerKind};
use crate::launch::{Plan, PlannedResources};
use crate::scheduler::adapter::{Adapter, Asked, Elsewhere, Findings, Lack};
use crate::scheduler::pbs::handed_through::{self, Letter};
use crate::scheduler::pbs::ids;
use crate::scheduler::pbs::job_file::{self, are_words, is_word};
use crate::scheduler::pbs::script::{self, Flavour};

/// Torque.
pub struct Known;

const LACKS: [Lack; 1] = [Lack {
    key: "exclude",
    why: "Torque cannot leave out nodes",
    instead: "name the nodes that you want with `resources.nodelist`, or a property of theirs with `resources.constraint`",
}];
/// What takes effect only where Moab or Maui schedules; pbs_sched passes over it.
const MOAB_KEYS: [&str; 3] = ["qos", "reservation", "licenses"];
const LETTERS: [Letter; 2] = [
    ('n', "use `resources.exclusive`"),
    ('x', "dlrun's jobs are not interactive"),
];
/// It kills the further nodes of a job at once, and starts one program per node.
const FLAVOUR: Flavour = Flavour {
    index: "PBS_ARRAYID",
    options: "-u",
    kills_nodes_at_once: true,
};

impl Adapter for Known {
    fn kind(&self) -> SchedulerKind {
        SchedulerKind::Torque
    }

    fn name(&self) -> &'static str {
        "Torque"
    }

    fn lacks(&self) -> &'static [Lack] {
        &LACKS
    }

    fn check(&self, asked: &Asked<'_>, found: &mut Findings) {
        let without_effect: Vec<&str> = MOAB_KEYS
            .into_iter()
            .filter(|key| asked.asks(key))
            .collect();
        if !without_effect.is_empty() {
            let keys = without_effect.join(", ");
            let scope =
                "where Moab or Maui schedules Torque's jobs; its own scheduler passes over it";
            found
                .warnings
                .push(format!("{keys}: takes effect only {scope}"));
        }
        if !are_words(asked.spec.resources.constraint.as_deref(), is_word) {
            let why = "Torque has properties of nodes, all of which must hold, and no operators";
            let instead = "write one property, or several as \"fast:ib\"";
            found.refuse(asked.spec, "constraint", why, instead);
        }
        let typed = |kind: &str, count: &str| {
            (
                "Torque knows types of GPUs only as a property that the site has given to its nodes",
                format!(
                    "write gpus_per_node = {count} and constraint = \"{kind}\", or your site's word for it"
                ),
            )
        };
        job_file::check(self, asked, found, typed);
    }

    fn option_problem(
        &self,
        option: &Located<String>,
        _: Option<(&PlannedResources, bool)>,
    ) -> Option<Problem> {
        handed_through::problem(option, &LETTERS)
    }

    fn elsewhere<'a>(
        &self,
        options: &[&'a str],
        _: &'a [(String, String)],
        _: &PlannedResources,
    ) -> Elsewhere<'a> {
        job_file::elsewhere(options)
    }

    fn joint_of_features(&self) -> Option<&'static str> {
        Some(":")
    }

    fn directives(&self, plan: &Plan) -> (&'static str, Vec<String>) {
        ("#PBS", directives::directives(plan))
    }

    fn identity(&self, plan: &Plan) -> String {
        script::identity(plan, &FLAVOUR)
    }

    fn before_command(&self, plan: &Plan) -> String {
        script::before(plan, &FLAVOUR)
    }

    fn on_each_node(&self, _: &Plan) -> Vec<String> {
        vec![script::ON_EACH.to_owned()]
    }

    fn ranks(&self, plan: &Plan) -> String {
        script::ranks(plan)
    }

    fn after_command(&self, plan: &Plan) -> &'static str {
        script::after(plan)
    }

    fn keeps_environments_apart(&self) -> bool {
        true
    }

    fn kills_nodes_at_once(&self) -> bool {
        FLAVOUR.kills_nodes_at_once
    }

    fn id_in_names<'i>(&self, job_id: &'i str) -> &'i str {
        ids::number(job_id)
    }
}
