//! The columns of each table.

use super::{Field, FieldType, Role, Table};
use crate::record::{COLUMNS, Column, GPU_COLUMNS, PROCESS_COLUMNS};

const fn field(of: FieldType, role: Role, name: &'static str, about: &'static str) -> Field {
    Field {
        name,
        of,
        role,
        about,
    }
}

const fn text(name: &'static str, about: &'static str) -> Field {
    field(FieldType::Text, Role::Optional, name, about)
}

const fn whole(name: &'static str, about: &'static str) -> Field {
    field(FieldType::Whole, Role::Optional, name, about)
}

const fn real(name: &'static str, about: &'static str) -> Field {
    field(FieldType::Real, Role::Optional, name, about)
}

const fn flag(name: &'static str, about: &'static str) -> Field {
    field(FieldType::Flag, Role::Optional, name, about)
}

const fn json(name: &'static str, about: &'static str) -> Field {
    field(FieldType::Json, Role::Optional, name, about)
}

impl Field {
    const fn always(self) -> Self {
        Self {
            role: Role::Always,
            ..self
        }
    }

    const fn key(self) -> Self {
        Self {
            role: Role::Key,
            ..self
        }
    }
}

const STORE: Field = text(
    "store",
    "Id of the database that the row comes from, 16 hexadecimal digits.",
)
.always();
const SEQ: Field = whole(
    "seq",
    "Number of the row's last change in that database; of two versions of a row the larger is newer.",
)
.always();
const RUN_ID: Field = text("run_id", "The run.").key();
const NAME: Field = text("name", "The job's name.").always();
const USER: Field = text("user", "Login name of who submitted the run.").always();

/// What every row below a run begins with.
const MEASUREMENT: [Field; 9] = [
    STORE,
    SEQ,
    RUN_ID,
    whole("element", "Index in the job array; 0 without one.").key(),
    whole(
        "attempt",
        "0 for the first start, 1 after the first requeue.",
    )
    .key(),
    text(
        "node",
        "The scheduler's name of the node; the host name for local jobs.",
    )
    .key(),
    whole(
        "step",
        "Which `dlrun exec` of this attempt on this node, from 0.",
    )
    .key(),
    NAME,
    USER,
];

const RUNS: &[Field] = &[
    STORE,
    SEQ,
    RUN_ID,
    NAME,
    USER,
    whole("uid", "User id by the kernel's word; only a node's database knows it."),
    whole("submitted_at_ms", "When it was handed over.").always(),
    text("submit_host", "The host it was handed over from.").always(),
    text("scheduler", "`slurm`, `torque`, `openpbs` or `local`.").always(),
    text("job_id", "The scheduler's id of the job."),
    text("state", "Where it stands: `completed`, `failed`, `timeout`, ...; in a node's database as far as that node knows.")
        .always(),
    text("raw_state", "The scheduler's own word for it."),
    text("reason", "The scheduler's reason."),
    text("cause", "Why it ended otherwise than well, in one word."),
    text("cause_text", "The same in words."),
    whole("exit_code", "Exit code of the command."),
    whole("exit_signal", "Signal that ended the command."),
    whole("started_at_ms", "When it began to run."),
    whole("ended_at_ms", "When it ended."),
    flag("stuck", "Whether it waits for what cannot come without a change.").always(),
    whole("nodes", "Nodes asked for.").always(),
    text("array", "Indexes of the job array, as in the job file."),
    json("parts", "Further jobs of an array that was split: objects with `job_id` and `offset`."),
    json("elements", "Elements of the array, counted by state."),
    text("workdir", "Directory that the command runs in.").always(),
    text("job_file", "The job file."),
    text("output", "The job's output file."),
    text("framework", "What the training is written with."),
    text("framework_version", "Its version."),
    text("framework_compiler", "Its compiler."),
    text("framework_provenance", "Where it comes from: `hub`, `pip` or `source`."),
    text("storage", "The site's name of the storage that was chosen."),
    text("storage_class", "The class of that storage."),
    text("image", "Path or URI of the image that the command runs in; null: no container."),
    text("image_name", "Its name in the catalogue."),
    text("image_digest", "Its digest, `sha256:...`."),
    text("model", "The model, by the job file."),
    whole("parameters", "Parameters of the model, by the job file."),
    text("dataset", "The data set, by the job file."),
    whole("samples", "Training samples of an epoch, by the job file."),
    whole("batch_size", "Global batch size, by the job file."),
    whole("epochs", "Epochs, by the job file."),
    text("precision", "Number format, by the job file."),
    text("queue", "The queue that was asked for."),
    whole("tasks_per_node", "Tasks on each node."),
    json("identity", "What it is a run of, as in `run.json`."),
    json("forecast", "What the performance model said of the run, as in `run.json`."),
    text("dlrun_version", "The dlrun that submitted it.").always(),
    json("command", "The command and its arguments, a list of texts; `***` in the place of secrets."),
    text("script", "The script that it runs, or `-m MODULE`."),
    text("git_commit", "The commit that was checked out where the script lies, when it was submitted."),
    text("git_branch", "The branch."),
    flag("git_dirty", "Whether files that git knows were changed since that commit."),
    text("account", "The account that was asked for."),
    text("qos", "The quality of service that was asked for."),
    whole("gpus_asked", "GPUs that were asked for, on all nodes."),
    whole("cpus_per_task", "CPUs that were asked for, for each task."),
    whole("memory_asked_bytes", "Memory limit of a node; null: the site's default."),
    whole("walltime_asked_seconds", "Time limit; null: the queue's default."),
    text("queue_used", "The queue that it ran in, by the scheduler's variables in the job."),
    text("account_used", "The account that it was charged to, likewise."),
    text("qos_used", "Its quality of service, likewise."),
    json("software", "Python and frameworks in use: objects with `name` and `version`."),
];

const TIMINGS: &[Field] = &[
    whole(
        "place",
        "Which epoch of this measurement, from 0: programs may count anew.",
    )
    .key(),
    whole("epoch", "Its number as printed; from 1 where none is.").always(),
    real(
        "seconds",
        "How long it took: as stated, or by the clock where whole seconds below 100 are stated.",
    ),
    text(
        "source",
        "Where `seconds` comes from: `stated`, `clock` or `event` (`DLRUN_EVENTS`).",
    ),
    real(
        "printed_seconds",
        "How long it took, as the program stated it.",
    ),
    real("clock_seconds", "How long it took by the watcher's clock."),
    whole("ended_at_ms", "When the line that ended it was seen."),
    flag(
        "event",
        "Whether the program told it through `DLRUN_EVENTS`.",
    )
    .always(),
    flag(
        "warmup",
        "Whether it is the first of a start of the program.",
    )
    .always(),
    whole(
        "samples",
        "Training samples that it went through, where stated.",
    ),
    real(
        "evaluation_seconds",
        "Time of it that went into evaluation, where known.",
    ),
    real(
        "checkpoint_seconds",
        "Time of it that went into checkpoints, where known.",
    ),
    json(
        "metrics",
        "Losses and metrics by name; null under a name: no finite number.",
    )
    .always(),
    flag(
        "clock_set",
        "True where the node's wall clock was set while it ran: `seconds` is then null.",
    ),
];

const USAGE: &[Field] = &[
    text("job_id", "The scheduler's job."),
    text(
        "state",
        "`running`, `ended`, or `interrupted`: the supervisor vanished.",
    )
    .always(),
    whole("started_at_ms", "When the command was started.").always(),
    whole("ended_at_ms", "When it ended."),
    whole("updated_at_ms", "When its record was written.").always(),
    whole("exit_code", "Exit code of the command."),
    whole("exit_signal", "Signal that ended the command."),
    text("output", "The file that took the command's output."),
    text("hostname", "What `uname -n` says there.").always(),
    text("kernel", "Kernel release."),
    text("cpu_model", "Model name of the CPU."),
    whole("cpus", "Logical CPUs of the machine."),
    whole(
        "mem_total_bytes",
        "Main memory of the first machine of this kind that the database saw; others differ by less than a GiB.",
    ),
    whole("cpus_allowed", "CPUs that the command might use."),
    text("omp_num_threads", "`OMP_NUM_THREADS` of the run."),
    text(
        "affinity",
        "The CPUs that the command might use, as the kernel lists them: `0-3,8`.",
    ),
    real(
        "cpus_effective",
        "CPUs that it could really keep busy, by affinity and quota.",
    ),
    real(
        "others_cpus_busy",
        "CPUs that everything else on the node kept busy on average.",
    ),
    json(
        "conditions",
        "All conditions of the run on this node, as in `record.json`.",
    )
    .always(),
    text(
        "cgroup",
        "The cgroup whose totals are measured; null: sums over the processes.",
    ),
    json(
        "container",
        "How the command got into its container, as in `record.json`.",
    ),
    real("wall_seconds", "Wall time."),
    real("cpu_user_seconds", "CPU time in user mode."),
    real("cpu_system_seconds", "CPU time in the kernel."),
    real(
        "cpu_throttled_seconds",
        "Time that a CPU quota kept it from running.",
    ),
    whole("mem_peak_bytes", "Largest memory in any sample."),
    whole(
        "mem_oom_kills",
        "Processes that the kernel killed for want of memory.",
    ),
    whole("io_read_bytes", "Bytes read from storage."),
    whole("io_write_bytes", "Bytes written to storage."),
    whole("processes_peak", "Most processes at once."),
    text("recogniser", "What recognised the timings."),
    whole("epochs_announced", "Epochs that the program announced."),
    whole("epochs_completed", "Epochs that ended.").always(),
    text(
        "epoch_numbering",
        "How it counts epochs: `0-based`, `1-based` or `none`.",
    ),
    whole("restarts", "How often the epochs began to count anew.").always(),
    whole("steps_per_epoch", "Steps of an epoch, as printed."),
    whole("last_step_epoch", "The epoch of the last step seen."),
    whole("last_step", "The last step seen."),
    whole(
        "last_step_of",
        "Steps of an epoch, or of the run, beside the last step.",
    ),
    real("step_seconds", "Time of a step, the last value printed."),
    text(
        "step_source",
        "Where the following times of steps come from: `stated`, `clock` or `event`.",
    ),
    whole(
        "steps_timed",
        "Steps behind the following figures; those of the first epoch are left out.",
    ),
    real(
        "step_median_seconds",
        "Median time of a step, exact to 2 %.",
    ),
    real(
        "step_p95_seconds",
        "95th percentile of the time of a step, exact to 2 %.",
    ),
    real("throughput", "The last rate printed."),
    text(
        "throughput_unit",
        "Its unit: `samples/s`, `tokens/s`, `steps/s`, ...",
    ),
    text(
        "throughput_scope",
        "Of how much it speaks: `global`, `per_device` or `unknown`.",
    ),
    real("run_seconds", "Time of the whole training, as printed."),
    json(
        "last_metrics",
        "The last loss and metrics by name; null under a name: no finite number.",
    )
    .always(),
    whole("segments", "Segments of samples beside its record.").always(),
    whole("watcher_cpu_us", "CPU time that watching took.").always(),
    whole("watcher_samples", "Samples taken.").always(),
    whole(
        "watcher_late_ticks",
        "Samples that came more than half an interval late.",
    )
    .always(),
    json(
        "gaps",
        "Holes in the series: objects with `from_ms`, `to_ms` and `why`.",
    )
    .always(),
    json(
        "missing",
        "What could not be measured: objects with `what` and `why`.",
    )
    .always(),
    text(
        "attempt_job_id",
        "The job of this attempt, by the marks of its batch script.",
    ),
    text("attempt_first_node", "The node of its batch shell."),
    whole("attempt_started_at_ms", "When the batch script began."),
    whole("attempt_ended_at_ms", "When the batch script ended."),
    whole(
        "attempt_exit_code",
        "The batch shell's exit code; 128 + n for signal n.",
    ),
    real(
        "evaluation_outside_seconds",
        "Time of evaluation outside of all epochs, where the program told it.",
    ),
    real(
        "checkpoint_outside_seconds",
        "Time of writing checkpoints outside of all epochs, likewise.",
    ),
    real(
        "core_gflops",
        "What one core of this kind of node was measured to do (`dlrun bench node`), in 10^9 single-precision operations per second.",
    ),
    real("node_gflops", "The same of all cores at once."),
    real(
        "memory_gb_per_second",
        "Memory bandwidth of this kind of node, in 10^9 bytes per second.",
    ),
    real(
        "disk_mb_per_second",
        "Sequential reading of this kind of node, in 10^6 bytes per second.",
    ),
    whole("benched_at_ms", "When this kind of node was measured."),
    json(
        "software",
        "Python and frameworks in use there: objects with `name` and `version`.",
    ),
    text(
        "queue_used",
        "The queue that the job ran in, by the scheduler's variables in the job.",
    ),
    text(
        "account_used",
        "The account that it was charged to, likewise.",
    ),
    text("qos_used", "Its quality of service, likewise."),
];

const GPUS: &[Field] = &[
    text("uuid", "`GPU-...`, or `MIG-...` of a slice.").key(),
    text("gpu", "Its name.").always(),
    whole("minor", "Minor number of its device file."),
    text("pci_bus_id", "Its place on the PCI bus."),
    whole("mem_total_bytes", "Its memory."),
    whole("power_limit_watts", "The power limit in force."),
    whole(
        "sm_clock_max_mhz",
        "Highest clock of its streaming multiprocessors.",
    ),
    flag(
        "mig",
        "Whether it is divided (MIG); null where it cannot be.",
    ),
    text("parent", "The GPU that a MIG slice is part of."),
    text("driver", "Version of the driver."),
    whole("readings", "Readings taken.").always(),
    real(
        "utilisation_mean_percent",
        "Mean utilisation; by GPM where NVML gives none (MIG).",
    ),
    whole("mem_peak_bytes", "Most memory in use at once."),
    real(
        "energy_joules",
        "Energy drawn by the whole GPU while the run had it.",
    ),
    real("power_mean_watts", "Mean power."),
    whole("temperature_peak_celsius", "Highest temperature."),
    real(
        "sm_clock_mean_mhz",
        "Mean clock of the streaming multiprocessors.",
    ),
    real(
        "throttled_seconds",
        "Time in which power or heat held the clocks down.",
    )
    .always(),
    real(
        "idle_seconds",
        "Time in which no process of the run was on it.",
    )
    .always(),
    whole("xid_errors", "XID errors.").always(),
    whole(
        "updated_at_ms",
        "When the record of the measurement was written.",
    )
    .always(),
];

const METRICS: &[Field] = &[
    text("point", "What it is of: an `epoch`, a `step` of training or an `evaluation`; one that ends an epoch is in both.").key(),
    whole("place", "Which of those of this measurement, from 0; long curves are thinned evenly.").key(),
    text("metric", "Its name: `loss`, `val_loss`, ...").key(),
    whole("epoch", "The epoch, as printed."),
    whole("train_step", "The step of the training, as printed."),
    whole("at_ms", "When the line was seen."),
    real("value", "The value; null: no finite number."),
];

const EVENTS: &[Field] = &[
    whole(
        "place",
        "Which event of this measurement; later ones have larger numbers.",
    )
    .key(),
    whole("at_ms", "When it happened.").always(),
    text(
        "event",
        "What kind: `oom_kill`, `xid`, `clock_jump`, `note`, ...",
    )
    .always(),
    text("detail", "What happened, in words.").always(),
];

/// What every row of a sample begins with, after the measurement.
const READING: [Field; 2] = [
    whole("segment", "The block of samples that the reading lies in.").key(),
    whole("at_ms", "When it was read.").key(),
];

const GPU_READING: &[Field] = &[text("uuid", "The GPU.").key()];

const PROCESS_READING: &[Field] = &[
    whole("pid", "Process id.").key(),
    whole(
        "start_time_ticks",
        "When the process was started, in clock ticks since boot.",
    )
    .key(),
    text("comm", "Its command name, 15 bytes at most.").key(),
];

/// The columns of a table.
pub(super) fn of(table: Table) -> Vec<Field> {
    let below = |rest: &[Field]| [&MEASUREMENT[..], rest].concat();
    let reading = |of: &[Field], columns: &[Column]| {
        let values = columns
            .iter()
            .map(|column| whole(column.name, column.about));
        [&MEASUREMENT[..], &READING[..], of]
            .concat()
            .into_iter()
            .chain(values)
            .collect()
    };
    match table {
        Table::Runs => RUNS.to_vec(),
        Table::Timings => below(TIMINGS),
        Table::Usage => below(USAGE),
        Table::Gpus => below(GPUS),
        Table::Metrics => below(METRICS),
        Table::Events => below(EVENTS),
        Table::Samples => reading(&[], &COLUMNS),
        Table::GpuSamples => reading(GPU_READING, &GPU_COLUMNS),
        Table::ProcessSamples => reading(PROCESS_READING, &PROCESS_COLUMNS),
    }
}
