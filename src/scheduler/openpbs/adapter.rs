//! OpenPBS and PBS Pro as job files and scripts see them: 23.06.

use super::directives;
use crate::foundation::diagnostic::Problem;
use crate::job::{Located, MailEvent, SchedulerKind};
use crate::launch::{Plan, PlannedResources};
use crate::scheduler::adapter::{Adapter, Asked, Elsewhere, Findings, Lack};
use crate::scheduler::pbs::handed_through::{self, Letter, NO_WAIT};
use crate::scheduler::pbs::ids;
use crate::scheduler::pbs::job_file::{self, are_words, is_word};
use crate::scheduler::pbs::script::{self, Flavour};

/// OpenPBS.
pub struct Known;

const LACKS: [Lack; 2] = [
    Lack {
        key: "qos",
        why: "OpenPBS has no QOS",
        instead: "sites have queues in its place: name one with `resources.queue`",
    },
    Lack {
        key: "exclude",
        why: "OpenPBS cannot leave out nodes",
        instead: "name the nodes that you want with `resources.nodelist`, or a resource of theirs with `resources.constraint`",
    },
];
/// `-f` keeps `qsub` until the job ends.
const LETTERS: [Letter; 1] = [('f', NO_WAIT)];
/// Resources that mean something else than a licence (`pbs_resources(7B)`).
const RESOURCES: &str = "arch cput file host mem mpiprocs ncpus ngpus nice nodect nodes ompthreads pcput place pmem pvmem select \
    software vmem walltime";
const FLAVOUR: Flavour = Flavour {
    index: "PBS_ARRAY_INDEX",
    options: "--",
    kills_nodes_at_once: false,
};

impl Adapter for Known {
    fn kind(&self) -> SchedulerKind {
        SchedulerKind::OpenPbs
    }

    fn name(&self) -> &'static str {
        "OpenPBS"
    }

    fn lacks(&self) -> &'static [Lack] {
        &LACKS
    }

    fn check(&self, asked: &Asked<'_>, found: &mut Findings) {
        let (spec, resources) = (asked.spec, &asked.spec.resources);
        let array = resources.array.as_ref();
        if array.is_some_and(|array| array.value.single_range().is_none()) {
            let why = "OpenPBS takes one range of indexes, with a step";
            let instead = "write \"0-99\" or \"0-98:2\", or submit several jobs";
            found.refuse(spec, "array", why, instead);
        }
        if let (Some(_), Some(queue)) = (&resources.reservation, &resources.queue) {
            let why = format!(
                "with OpenPBS a reservation is a queue, and the job already names `{queue}`"
            );
            found.refuse(
                spec,
                "reservation",
                &why,
                "keep one of `reservation` and `queue`",
            );
        }
        let is_resource = |part: &str| match part.split_once('=') {
            Some((name, value)) => is_word(name) && is_word(value),
            None => is_word(part),
        };
        if !are_words(resources.constraint.as_deref(), is_resource) {
            let why = "OpenPBS has resources of nodes in place of features, and no operators";
            let instead = "write \"NAME\" for one that is true or \"NAME=VALUE\", several with `:` between them";
            found.refuse(spec, "constraint", why, instead);
        }
        let is_taken = |name: &str| RESOURCES.split(' ').any(|known| known == name);
        let mut names = resources.licenses.iter().map(|(name, _)| name);
        if let Some(name) =
            names.find(|name| !is_word(name) || name.contains('.') || is_taken(name))
        {
            let why = format!(
                "`{name}` cannot be the name of a licence, which is a resource with OpenPBS"
            );
            let instead = "`qmgr -c 'list resource'` shows what the site calls its licences";
            found.refuse(spec, "licenses", &why, instead);
        }
        let typed = |kind: &str, count: &str| {
            (
                "OpenPBS knows types of GPUs only as a resource that the site has made",
                format!(
                    "write gpus_per_node = {count} and constraint = \"RESOURCE={kind}\", with your site's name of it"
                ),
            )
        };
        job_file::check(self, asked, found, typed);
        let on = resources.mail.as_ref().map(|mail| &mail.on);
        if on.is_some_and(|on| on.contains(&MailEvent::Fail) && !on.contains(&MailEvent::End)) {
            let text = "`resources.mail`: OpenPBS sends `fail` for jobs that it ends itself; one whose command fails is told by \
                        `end` alone";
            found.warnings.push(text.to_owned());
        }
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

    fn reserves_by_queue(&self) -> bool {
        true
    }

    fn gives_whole_nodes(&self) -> bool {
        false
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

    fn id_in_names<'i>(&self, job_id: &'i str) -> &'i str {
        ids::number(job_id)
    }
}
