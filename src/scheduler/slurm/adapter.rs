//! Slurm as job files and scripts see it.

use super::{Slurm, directives, handed_through, is_hopeless, meaning, srun};
use crate::foundation::diagnostic::Problem;
use crate::job::{Located, SchedulerKind};
use crate::launch::{Plan, PlannedResources, Shape};
use crate::scheduler::adapter::{Adapter, Elsewhere};
use crate::scheduler::option_value::value_of;
use crate::scheduler::script::{DEFAULT_IDENTITY, MINT, quoted_words};
use crate::scheduler::{Reach, Scheduler};

/// Slurm.
pub struct Known;

/// With `run.inherit`: what kept variables of the submitting shell away would keep the job's own from its steps. A user's own
/// `--export` keeps Slurm's meaning.
const STEPS_INHERIT: &str = "unset SLURM_EXPORT_ENV\n";

/// Variables of `sbatch` that stand for a key of the job file (`sbatch(1)`, input environment variables). An option on the
/// command line beats them, and dlrun puts all that the job asks for there.
const VARIABLES: [(&str, &str); 12] = [
    ("SBATCH_ACCOUNT", "account"),
    ("SBATCH_CONSTRAINT", "constraint"),
    ("SBATCH_EXCLUSIVE", "exclusive"),
    ("SBATCH_GPUS_PER_NODE", "gpus_per_node"),
    ("SBATCH_GPUS_PER_TASK", "gpus_per_task"),
    ("SBATCH_JOB_NAME", "name"),
    ("SBATCH_MEM_PER_CPU", "memory_per_cpu"),
    ("SBATCH_MEM_PER_NODE", "memory"),
    ("SBATCH_PARTITION", "queue"),
    ("SBATCH_QOS", "qos"),
    ("SBATCH_RESERVATION", "reservation"),
    ("SBATCH_TIMELIMIT", "walltime"),
];

/// Of a job with spare nodes dlrun says which are in use.
const IN_USE: &str = r#"# Without its answer the first ones are.
[ -n "$dlrun_use" ] || dlrun_use=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n "$dlrun_nodes" | paste -sd, -)
export DLRUN_HOSTS=$dlrun_use DLRUN_TASKS=
dlrun_use_count=${dlrun_use//[!,]/},
dlrun_use_count=${#dlrun_use_count}"#;

/// Starts inside of an allocation take numbers too, which `SLURM_RESTART_COUNT` does not count.
const NEXT_NUMBER: &str = r#"dlrun_taken=" $(timeout -k 1 20 ls "$DLRUN_STATE_DIR/runs/${DLRUN_RUN_ID:-none}" 2> /dev/null | tr '\n' ' ')"
while [[ $dlrun_taken == *" $DLRUN_ELEMENT.$DLRUN_ATTEMPT "* ]]; do DLRUN_ATTEMPT=$((DLRUN_ATTEMPT + 1)); done
"#;

impl Adapter for Known {
    fn kind(&self) -> SchedulerKind {
        SchedulerKind::Slurm
    }

    fn name(&self) -> &'static str {
        "Slurm"
    }

    fn open(&'static self, reach: Reach) -> Box<dyn Scheduler> {
        Box::new(Slurm::new(reach.bin_dir, reach.timeout))
    }

    fn option_problem(
        &self,
        option: &Located<String>,
        beside: Option<&PlannedResources>,
    ) -> Option<Problem> {
        handed_through::problem(option).or_else(|| handed_through::said_twice(option, beside?))
    }

    fn elsewhere<'a>(
        &self,
        options: &[&'a str],
        environment: &'a [(String, String)],
        resources: &PlannedResources,
    ) -> Elsewhere<'a> {
        let variable = |wanted: &str| {
            let found = environment.iter().find(|(name, _)| name == wanted);
            found.map(|(_, value)| value.as_str())
        };
        let value = |short, long| value_of(options, short, Some(long));
        let partition = variable("SBATCH_PARTITION").filter(|_| resources.queue.is_none());
        let clusters = value("-M", "--clusters").or(variable("SBATCH_CLUSTERS"));
        Elsewhere {
            queue: value("-p", "--partition").or(partition),
            qos: value("-q", "--qos").or(variable("SBATCH_QOS")),
            other_cluster: clusters.is_some(),
        }
    }

    fn key_of_variable(&self, name: &str) -> Option<&'static str> {
        let found = VARIABLES.iter().find(|(known, _)| *known == name);
        found.map(|(_, key)| *key)
    }

    fn effect_of_variable(&self) -> &'static str {
        "holds wherever the job file says nothing (Slurm lets it beat #SBATCH lines)"
    }

    fn directives(&self, plan: &Plan) -> (&'static str, Vec<String>) {
        ("#SBATCH", directives::directives(plan))
    }

    fn identity(&self, plan: &Plan) -> String {
        let steps = if plan.inherit.is_some() {
            STEPS_INHERIT
        } else {
            ""
        };
        // A job inside of which this one was submitted may have left its own number.
        let attempt = plan.resume.as_ref().map(|_| {
            let first = plan.first_attempt;
            format!("[ -z \"${{SLURM_JOB_ID:-}}\" ] || export DLRUN_ATTEMPT=$(({first} + ${{SLURM_RESTART_COUNT:-0}}))\n")
        });
        let number = if plan.restarts_inside() {
            NEXT_NUMBER
        } else {
            ""
        };
        format!(
            "{DEFAULT_IDENTITY}{}{steps}{MINT}{number}",
            attempt.unwrap_or_default()
        )
    }

    fn on_each_node(&self, plan: &Plan) -> String {
        let output = directives::output(plan);
        let stem = output.strip_suffix(".out").unwrap_or(&output);
        let own_file = format!("{stem}.%n.out");
        let own_file = (!plan.launcher.is_distributed()).then_some(&*own_file);
        let words = srun::on_each_node(Shape::for_plan(plan), own_file);
        format!(
            "{} {}",
            quoted_words(&words),
            srun::nodes(plan.resources.spares)
        )
    }

    fn hosts(&self, plan: &Plan) -> String {
        if plan.resources.spares > 0 {
            return format!("dlrun_nodes={}\n{IN_USE}", plan.resources.nodes);
        }
        "export DLRUN_HOSTS=$SLURM_JOB_NODELIST DLRUN_TASKS=$SLURM_TASKS_PER_NODE".to_owned()
    }

    fn ranks(&self, plan: &Plan) -> String {
        let words = quoted_words(&srun::ranks(Shape::for_plan(plan)));
        // A user's own choice, which may come from a module, stays.
        let mpi = plan.mpi.as_deref();
        let mpi = mpi.map(|mpi| format!(" \"--mpi=${{SLURM_MPI_TYPE:-{mpi}}}\""));
        words + &mpi.unwrap_or_default()
    }

    fn nodes_of_this_job(&self) -> Option<String> {
        std::env::var("SLURM_JOB_NODELIST").ok()
    }

    fn reads_script_from_input(&self) -> bool {
        true
    }

    fn how_to_see_the_server(&self) -> &'static str {
        "`scontrol ping` says whether its controller is up"
    }

    fn meaning_of_reason(&self, reason: &str) -> Option<&'static str> {
        meaning(reason)
    }

    fn can_never_start(&self, reason: &str) -> bool {
        is_hopeless(reason)
    }

    fn how_to_find_the_job(&self) -> &'static str {
        "look with `squeue --me` before submitting again; the run is kept, and its job is found in the queue"
    }
}
