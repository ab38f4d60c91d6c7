//! The columns of each table, each declared once: what the queries of the index, the rows of exports, what an import checks and
//! reads, and docs/export.md have of it.

use serde_json::{Value, json};

use super::{Field, FieldType, Role, Table};
use crate::record::{COLUMNS, Column, GPU_COLUMNS, NodeRecord, PROCESS_COLUMNS, RunRecord};

/// What a column holds, and whether it is a name.
type Kind = (FieldType, bool);

const NAME: Kind = (FieldType::Text, true);
const TEXT: Kind = (FieldType::Text, false);
const WHOLE: Kind = (FieldType::Whole, false);
const REAL: Kind = (FieldType::Real, false);
const FLAG: Kind = (FieldType::Flag, false);
const JSON: Kind = (FieldType::Json, false);

/// What follows from other columns is stored nowhere and not read back.
const fn follows(_: &str) -> Option<&'static str> {
    None
}

/// Lists of columns: `NAME: ROLE KIND in "object of the record" as "key in it" = "table.column" from "SQL expression";`. The docs are the
/// description. Left out are: the object of the list, the column's own name as key, the column of that name in the list's table, and
/// the expression of a column that is stored as it is.
macro_rules! columns {
    ($($(#[$doc:meta])* $list:ident of $table:literal in $within:literal {
        $($(#[doc = $about:literal])+ $name:ident: $role:ident $kind:ident
            $(in $object:literal)? $(as $key:literal)? $(= $stored:literal)? $(from $sql:expr)?;)*
    })*) => {
        $($(#[$doc])* pub(in crate::record) const $list: &[Field] = &[$(Field {
            name: stringify!($name),
            of: $kind.0,
            is_name: $kind.1,
            role: Role::$role,
            about: concat!($($about),+).trim_ascii_start(),
            object: [$(Some($object),)? $(follows($sql),)? Some($within)][0],
            key: [$($key,)? stringify!($name)][0],
            stored: [$(Some($stored),)? $(follows($sql),)? Some(concat!($table, ".", stringify!($name)))][0],
            sql: [$($sql,)? $($stored,)? concat!($table, ".", stringify!($name))][0],
        }),*];)*
    };
}

/// A condition of a run: of the first of its measurements that knows it.
macro_rules! condition {
    ($of:literal) => {
        concat!(
            "(SELECT its.conditions ",
            $of,
            " FROM attempt AS start CROSS JOIN node AS its ON its.attempt = start.id
              WHERE start.run = run.id AND its.conditions ",
            $of,
            " IS NOT NULL LIMIT 1)"
        )
    };
}

/// As [`crate::record::Epoch::time`].
const SECONDS: &str = "CASE WHEN clock_set THEN NULL WHEN printed_seconds IS NOT NULL AND clock_seconds IS NOT NULL AND NOT event
         AND printed_seconds < 100.0 AND printed_seconds = CAST(printed_seconds AS INTEGER) THEN clock_seconds
     ELSE coalesce(nullif(printed_seconds, 0.0), clock_seconds) END";
const SOURCE: &str = "CASE WHEN clock_set THEN NULL WHEN nullif(printed_seconds, 0.0) IS NULL THEN iif(clock_seconds IS NULL, NULL, 'clock')
     WHEN event THEN 'event'
     WHEN clock_seconds IS NOT NULL AND printed_seconds < 100.0 AND printed_seconds = CAST(printed_seconds AS INTEGER) THEN 'clock'
     ELSE 'stated' END";

columns! {
    /// Which version of a row it is.
    VERSION of "" in "" {
        /// Id of the row's database, 16 hexadecimal digits.
        store: Always NAME in "" from "";
        /// Number of the row's last change in that database; of two versions of a row the larger is newer.
        seq: Always WHOLE in "" from "";
    }
    /// What every row below a run begins with, after its version.
    MEASUREMENT of "" in "" {
        /// The run.
        run_id: Key TEXT = "run.run_id";
        /// Index in the job array; 0 without one.
        element: Key WHOLE = "attempt.element";
        /// 0 for the first start, 1 after the first requeue.
        attempt: Key WHOLE = "attempt.attempt";
        /// The scheduler's name of the node; the host name for local jobs.
        node: Key NAME = "node.node";
        /// Which `dlrun exec` of this attempt on this node, from 0.
        step: Key WHOLE = "node.step";
        /// The job's name.
        name: Always TEXT from "run.name";
        /// Login name of the submitting user.
        user: Always TEXT from "run.user";
    }
    /// The places are those of [`crate::record::RunRow`].
    RUNS of "run" in "/record" {
        /// The run.
        run_id: Key TEXT;
        /// The job's name.
        name: Always NAME;
        /// Login name of the submitting user.
        user: Always NAME;
        /// User id according to the kernel; only in a node's database.
        uid: Optional WHOLE in "";
        /// When it was submitted.
        submitted_at_ms: Always WHOLE;
        /// The host it was submitted from.
        submit_host: Always NAME;
        /// `slurm`, `torque`, `openpbs` or `local`.
        scheduler: Always TEXT;
        /// The scheduler's id of the job.
        job_id: Optional NAME;
        /// State: `completed`, `failed`, `timeout`, ...; in a node's database as far as that node knows.
        state: Always TEXT in "/status";
        /// The scheduler's own name of the state.
        raw_state: Optional TEXT in "/status";
        /// The scheduler's reason.
        reason: Optional TEXT in "/status";
        /// Why it did not complete, in one word.
        cause: Part TEXT in "/status/cause" as "kind";
        /// The same as text.
        cause_text: Part TEXT in "/status/cause" as "text";
        /// Exit code of the command.
        exit_code: Optional WHOLE in "/status/exit" as "code";
        /// Signal that ended the command.
        exit_signal: Optional WHOLE in "/status/exit" as "signal";
        /// When it began to run.
        started_at_ms: Optional WHOLE in "/status";
        /// When it ended.
        ended_at_ms: Optional WHOLE in "/status";
        /// Whether it cannot start without a change.
        stuck: Always FLAG in "/status";
        /// Requested nodes.
        nodes: Always WHOLE;
        /// Indexes of the job array, as in the job file.
        array: Optional TEXT;
        /// Further jobs of an array that was split: objects with `job_id` and `offset`.
        parts: Optional JSON;
        /// Elements of the array, counted by state.
        elements: Optional JSON in "/status";
        /// Working directory of the command.
        workdir: Always TEXT;
        /// The job file.
        job_file: Optional TEXT;
        /// The job's output file.
        output: Optional TEXT;
        /// What the training is written with.
        framework: Optional NAME in "/record/framework" as "name";
        /// Its version.
        framework_version: Optional NAME in "/record/framework" as "version";
        /// Its compiler.
        framework_compiler: Optional NAME in "/record/framework" as "compiler";
        /// Where it comes from: `hub`, `pip` or `source`.
        framework_provenance: Optional TEXT in "/record/framework" as "provenance";
        /// The site's name of the selected storage.
        storage: Part NAME in "/record/storage" as "0";
        /// The class of that storage.
        storage_class: Part TEXT in "/record/storage" as "1";
        /// Path or URI of the image that the command runs in; null: no container.
        image: Part TEXT in "/record/image" as "source";
        /// Its name in the catalogue.
        image_name: Optional NAME in "/record/image" as "name";
        /// Its digest, `sha256:...`.
        image_digest: Optional NAME in "/record/image" as "digest";
        /// The model, by the job file.
        model: Optional NAME in "/record/workload";
        /// Parameters of the model, by the job file.
        parameters: Optional WHOLE in "/record/workload";
        /// The data set, by the job file.
        dataset: Optional NAME in "/record/workload";
        /// Training samples of an epoch, by the job file.
        samples: Optional WHOLE in "/record/workload";
        /// Floating-point operations of the forward pass of one sample, by the job file.
        flops_per_sample: Optional WHOLE in "/record/workload";
        /// Global batch size, by the job file.
        batch_size: Optional WHOLE in "/record/workload";
        /// Epochs, by the job file.
        epochs: Optional WHOLE in "/record/workload";
        /// Number format, by the job file.
        precision: Optional NAME in "/record/workload";
        /// The requested queue.
        queue: Optional NAME;
        /// Tasks on each node.
        tasks_per_node: Optional WHOLE;
        /// What was run, as in `run.json`.
        identity: Optional JSON;
        /// The performance model's forecast, as in `run.json`.
        forecast: Optional JSON;
        /// The dlrun that submitted it.
        dlrun_version: Always NAME;
        /// The command and its arguments, a list of texts; `***` for secrets.
        command: Optional JSON from "run.identity -> '$.command'";
        /// The script that it runs, or `-m MODULE`.
        script: Optional TEXT from "run.identity ->> '$.script'";
        /// The commit checked out in the script's directory at submission.
        git_commit: Optional TEXT from "run.identity ->> '$.git.commit'";
        /// The branch.
        git_branch: Optional TEXT from "run.identity ->> '$.git.branch'";
        /// Whether tracked files were changed since that commit.
        git_dirty: Optional FLAG from "run.identity ->> '$.git.dirty'";
        /// The advice on the run before that it follows, as in `run.json` (`identity.followed`).
        followed: Optional JSON from "run.identity -> '$.followed'";
        /// The requested account.
        account: Optional TEXT from "run.identity ->> '$.asked.account'";
        /// The requested quality of service.
        qos: Optional TEXT from "run.identity ->> '$.asked.qos'";
        /// Requested GPUs, on all nodes.
        gpus_asked: Optional WHOLE from "run.identity ->> '$.asked.gpus'";
        /// Requested CPUs per task.
        cpus_per_task: Optional WHOLE from "run.identity ->> '$.asked.cpus_per_task'";
        /// Memory limit of a node; null: the site's default.
        memory_asked_bytes: Optional WHOLE from "run.identity ->> '$.asked.memory_bytes'";
        /// Time limit; null: the queue's default.
        walltime_asked_seconds: Optional WHOLE from "run.identity ->> '$.asked.walltime_seconds'";
        /// The queue that it ran in, from the scheduler's variables in the job.
        queue_used: Optional TEXT from condition!("->> '$.queue'");
        /// The account that was charged, from the same source.
        account_used: Optional TEXT from condition!("->> '$.account'");
        /// Its actual quality of service, from the same source.
        qos_used: Optional TEXT from condition!("->> '$.qos'");
        /// Python and frameworks in use: objects with `name` and `version`.
        software: Optional JSON from condition!("-> '$.software'");
    }
    /// The places are those of [`crate::record::AttemptMarks`].
    ATTEMPTS of "attempt" in "" {
        /// The job of this start, from the marks of its batch script.
        job_id: Optional NAME;
        /// The node of its batch shell.
        first_node: Optional NAME;
        /// When the batch script began.
        started_at_ms: Optional WHOLE;
        /// When it ended.
        ended_at_ms: Optional WHOLE;
        /// The batch shell's exit code; 128 + n for signal n.
        exit_code: Optional WHOLE = "attempt.shell_code";
        /// How a start of a run with `[resume]` ended: `finished`, `timeout`, `preemption`, `node`, `failed`, ...
        verdict: Optional TEXT from "attempt.record ->> '$.end.verdict'";
        /// What shows that.
        evidence: Optional TEXT from "attempt.record ->> '$.end.evidence'";
        /// The nodes that it lost: a list of names.
        lost_nodes: Optional JSON from "attempt.record -> '$.end.lost_nodes'";
        /// What followed: `nothing`, `requeue`, `resubmit` (another job) or `restart` (in the same job).
        next: Optional TEXT from "attempt.record ->> '$.end.next'";
        /// Why that followed, or why not.
        why: Optional TEXT from "attempt.record ->> '$.end.why'";
        /// The job that continued, if it is another.
        next_job_id: Optional TEXT from "attempt.record ->> '$.end.job_id'";
        /// The newest complete checkpoint at its end.
        checkpoint: Optional TEXT from "attempt.record ->> '$.end.checkpoint.path'";
        /// When that was written.
        checkpoint_modified_at_ms: Optional WHOLE from "attempt.record ->> '$.end.checkpoint.modified_ms'";
        /// Its size.
        checkpoint_bytes: Optional WHOLE from "attempt.record ->> '$.end.checkpoint.bytes'";
        /// Whether that is newer than what the start began with.
        advanced: Optional FLAG from "attempt.record ->> '$.end.advanced'";
        /// From the signal to save to the complete checkpoint.
        save_seconds: Optional REAL from "CAST(attempt.record ->> '$.end.save_seconds' AS REAL)";
        /// Hours of nodes that the run had taken up to its end.
        node_hours: Optional REAL from "CAST(attempt.record ->> '$.end.node_hours' AS REAL)";
        /// Its nodes.
        nodes: Optional WHOLE from "attempt.record ->> '$.nodes'";
        /// The checkpoint that it continued from.
        resumed_from: Optional TEXT from "attempt.record ->> '$.from'";
        /// What the job noted of it, as in `attempt.json`.
        record: Optional JSON;
    }
    /// The places are those of [`crate::record::Measurement`].
    USAGE of "node" in "/record" {
        /// The scheduler's job.
        job_id: Optional NAME;
        /// `running`, `ended`, or `interrupted`: the supervisor was killed.
        state: Always TEXT;
        /// When the command was started.
        started_at_ms: Always WHOLE;
        /// When it ended.
        ended_at_ms: Optional WHOLE;
        /// When its record was written.
        updated_at_ms: Always WHOLE;
        /// Exit code of the command.
        exit_code: Optional WHOLE in "/record/exit" as "code";
        /// Signal that ended the command.
        exit_signal: Optional WHOLE in "/record/exit" as "signal";
        /// The file with the command's output.
        output: Optional TEXT;
        /// Output of `uname -n` there.
        hostname: Always NAME in "/record/host";
        /// Kernel release.
        kernel: Optional NAME in "/record/host";
        /// Model name of the CPU.
        cpu_model: Optional NAME in "/record/host" = "target.cpu_model";
        /// Logical CPUs of the machine.
        cpus: Optional WHOLE in "/record/host" = "target.cpus";
        /// Main memory of the first machine of this kind in the database; others differ by less than a GiB.
        mem_total_bytes: Optional WHOLE in "/record/host" = "target.mem_total_bytes";
        /// CPUs that the command may use.
        cpus_allowed: Optional WHOLE in "/record/host";
        /// `OMP_NUM_THREADS` of the run.
        omp_num_threads: Optional NAME in "/record/host";
        /// The CPUs that the command may use, as the kernel lists them: `0-3,8`.
        affinity: Optional TEXT from "node.conditions ->> 'affinity'";
        /// CPUs that it can keep busy, given affinity and quota.
        cpus_effective: Optional REAL from "CAST(node.conditions ->> 'cpus_effective' AS REAL)";
        /// CPUs that all other processes on the node kept busy on average.
        others_cpus_busy: Optional REAL from "CAST(node.conditions ->> 'others_cpus_busy' AS REAL)";
        /// All conditions of the run on this node, as in `record.json`.
        conditions: Always JSON;
        /// The cgroup whose totals are measured; null: sums over the processes.
        cgroup: Optional NAME;
        /// How the command was started in its container, as in `record.json`.
        container: Optional JSON;
        /// What the trial before the command measured (`framework.trial`), as in `record.json`.
        trial: Optional JSON;
        /// Wall time.
        wall_seconds: Optional REAL in "/record/usage" = "usage.wall_seconds";
        /// CPU time in user mode.
        cpu_user_seconds: Optional REAL in "/record/usage" = "usage.cpu_user_seconds";
        /// CPU time in the kernel.
        cpu_system_seconds: Optional REAL in "/record/usage" = "usage.cpu_system_seconds";
        /// Time in which a CPU quota throttled it.
        cpu_throttled_seconds: Optional REAL in "/record/usage" = "usage.cpu_throttled_seconds";
        /// Largest memory in any sample, or without a cgroup of one process between two; of three samples or fewer (`watcher_samples`) the peak is not known.
        mem_peak_bytes: Optional WHOLE in "/record/usage" = "usage.mem_peak_bytes";
        /// Processes that the kernel killed because of memory.
        mem_oom_kills: Optional WHOLE in "/record/usage" = "usage.mem_oom_kills";
        /// Bytes read from storage.
        io_read_bytes: Optional WHOLE in "/record/usage" = "usage.io_read_bytes";
        /// Bytes written to storage.
        io_write_bytes: Optional WHOLE in "/record/usage" = "usage.io_write_bytes";
        /// Most processes at once.
        processes_peak: Optional WHOLE in "/record/usage" = "usage.processes_peak";
        /// The recogniser of the timings.
        recogniser: Optional NAME in "/record/progress";
        /// Epochs that the program announced.
        epochs_announced: Optional WHOLE in "/record/progress";
        /// Epochs that ended.
        epochs_completed: Always WHOLE in "/record/progress";
        /// How it counts epochs: `0-based`, `1-based` or `none`.
        epoch_numbering: Optional TEXT in "/record/progress";
        /// How often the epoch numbers started again.
        restarts: Always WHOLE in "/record/progress";
        /// Steps of an epoch, as printed.
        steps_per_epoch: Optional WHOLE in "/record/progress";
        /// The epoch of the last step seen.
        last_step_epoch: Optional WHOLE in "/record/progress/last_step" as "epoch";
        /// The last step seen.
        last_step: Optional WHOLE in "/record/progress/last_step" as "step";
        /// Steps of an epoch, or of the run, printed with the last step.
        last_step_of: Optional WHOLE in "/record/progress/last_step" as "of";
        /// Time of a step, the last value printed.
        step_seconds: Optional REAL in "/record/progress";
        /// Source of the following step times: `stated`, `clock` or `event`.
        step_source: Part TEXT in "/record/progress/step_times" as "source";
        /// Number of steps in the following figures, without the first epoch.
        steps_timed: Optional WHOLE in "/record/progress/step_times" as "steps";
        /// Median time of a step, exact to 2 %.
        step_median_seconds: Part REAL in "/record/progress/step_times" as "median_seconds";
        /// 95th percentile of the time of a step, exact to 2 %.
        step_p95_seconds: Part REAL in "/record/progress/step_times" as "p95_seconds";
        /// Share of the time of steps in which they waited for data, 0 to 1, as the program states it.
        step_data_wait_ratio: Optional REAL in "/record/progress/step_times" as "data_wait_ratio";
        /// The last rate printed.
        throughput: Part REAL in "/record/progress/throughput" as "value";
        /// Its unit: `samples/s`, `tokens/s`, `steps/s`, ...
        throughput_unit: Part NAME in "/record/progress/throughput" as "unit";
        /// What it refers to: `global`, `per_device` or `unknown`.
        throughput_scope: Optional TEXT in "/record/progress/throughput" as "scope";
        /// Time of the whole training, as printed.
        run_seconds: Optional REAL in "/record/progress";
        /// The last loss and metrics by name; null: not a finite number.
        last_metrics: Always JSON in "/record/progress";
        /// Segments of samples beside its record.
        segments: Always WHOLE;
        /// CPU time used for watching.
        watcher_cpu_us: Always WHOLE in "/record/watcher" as "cpu_us";
        /// Samples taken.
        watcher_samples: Always WHOLE in "/record/watcher" as "samples";
        /// Samples that came more than half an interval late.
        watcher_late_ticks: Always WHOLE in "/record/watcher" as "late_ticks";
        /// Holes in the series: objects with `from_ms`, `to_ms` and `why`.
        gaps: Always JSON in "/record"
            from "(SELECT json_group_array(json_object('from_ms', from_ms, 'to_ms', to_ms, 'why', why) ORDER BY place)
            FROM gap WHERE gap.node = node.id)";
        /// What could not be measured: objects with `what` and `why`.
        missing: Always JSON in "/record"
            from "(SELECT json_group_array(json_object('what', what, 'why', why) ORDER BY place)
            FROM missing WHERE missing.node = node.id)";
        /// The job of this attempt, from the marks of its batch script.
        attempt_job_id: Optional NAME in "/attempt" as "job_id" = "attempt.job_id";
        /// The node of its batch shell.
        attempt_first_node: Optional NAME in "/attempt" as "first_node" = "attempt.first_node";
        /// When the batch script began.
        attempt_started_at_ms: Optional WHOLE in "/attempt" as "started_at_ms" = "attempt.started_at_ms";
        /// When the batch script ended.
        attempt_ended_at_ms: Optional WHOLE in "/attempt" as "ended_at_ms" = "attempt.ended_at_ms";
        /// The batch shell's exit code; 128 + n for signal n.
        attempt_exit_code: Optional WHOLE in "/attempt" as "exit_code" = "attempt.shell_code";
        /// Time of evaluation outside of all epochs, if the program reported it.
        evaluation_outside_seconds: Optional REAL in "/record/progress" as "evaluation_seconds";
        /// Time of writing checkpoints outside of all epochs, if the program reported it.
        checkpoint_outside_seconds: Optional REAL in "/record/progress" as "checkpoint_seconds";
        /// Measured speed of one core of this kind of node (`dlrun bench node`), in 10^9 single-precision
        /// operations per second.
        core_gflops: Part REAL in "/figures" = "target.core_gflops";
        /// The same for all cores at once.
        node_gflops: Part REAL in "/figures" = "target.node_gflops";
        /// Memory bandwidth of this kind of node, in 10^9 bytes per second.
        memory_gb_per_second: Part REAL in "/figures" = "target.memory_gb_per_second";
        /// Sequential read rate of this kind of node, in 10^6 bytes per second.
        disk_mb_per_second: Optional REAL in "/figures" = "target.disk_mb_per_second";
        /// When this kind of node was measured.
        benched_at_ms: Part WHOLE in "/figures" as "measured_at_ms" = "target.benched_at_ms";
        /// Python and frameworks in use there: objects with `name` and `version`.
        software: Optional JSON from "node.conditions -> '$.software'";
        /// The queue that the job ran in, from the scheduler's variables in the job.
        queue_used: Optional TEXT from "node.conditions ->> '$.queue'";
        /// The account that was charged, from the same source.
        account_used: Optional TEXT from "node.conditions ->> '$.account'";
        /// Its actual quality of service, from the same source.
        qos_used: Optional TEXT from "node.conditions ->> '$.qos'";
        /// The id of the kernel's boot there: nodes with the same one are one machine.
        boot_id: Optional TEXT from "node.conditions ->> '$.boot_id'";
        /// When a training that runs will end, by its own epochs or steps.
        expected_end_ms: Part WHOLE in "/record/progress/expected_end" as "at_ms";
        /// Nineteen in twenty end later than this.
        expected_end_earliest_ms: Part WHOLE in "/record/progress/expected_end" as "earliest_ms";
        /// Nineteen in twenty end earlier than this.
        expected_end_latest_ms: Part WHOLE in "/record/progress/expected_end" as "latest_ms";
        /// When the job's time is up, as its scheduler said of a run whose limit may be raised.
        time_limit_ms: Optional WHOLE in "/record/progress";
        /// Rhythm and phases, as in `record.json`.
        activity: Optional JSON in "/record/progress";
        /// What kind of curve its signals are: `flat`, `aperiodic`, `periodic`, `low_resolution` or `unresolvable`.
        pattern: Optional TEXT from "node.activity ->> '$.pattern.kind'";
        /// Time from one repetition of its signals to the next.
        period_seconds: Optional REAL from "CAST(node.activity ->> '$.pattern.period_seconds' AS REAL)";
        /// Time of an iteration.
        iteration_seconds: Optional REAL from "CAST(node.activity ->> '$.iteration.seconds' AS REAL)";
        /// Where `iteration_seconds` comes from: `steps` or `epochs` of the log, or `signal`.
        iteration_source: Optional TEXT from "node.activity ->> '$.iteration.source'";
        /// Time of each phase: objects with `phase`, `seconds` and `share`.
        phases: Optional JSON from "node.activity -> '$.phases'";
        /// When its memory was expected to exceed its limit, and when it did, as in `record.json`.
        memory_forecast: Optional JSON in "/record/progress";
        /// What was held without work, as in `record.json`.
        held: Optional JSON in "/record/progress";
        /// Time without work of each GPU, added up over GPUs; pauses shorter than `idle.advice_minutes` left out.
        held_gpu_seconds: Optional REAL from "CAST(node.held ->> '$.gpu_seconds' AS REAL)";
        /// Time in which all GPUs, or without GPUs the CPUs, did no work, likewise.
        held_node_seconds: Optional REAL from "CAST(node.held ->> '$.node_seconds' AS REAL)";
    }
    TIMINGS of "timing" in "" {
        /// Position of the epoch in this measurement, from 0; a program may start its numbers again.
        place: Key WHOLE;
        /// Its number as printed; counted from 1 if none is printed.
        epoch: Always WHOLE;
        /// Its duration: as printed, or by the clock if whole seconds below 100 are printed.
        seconds: Optional REAL from SECONDS;
        /// Where `seconds` comes from: `stated`, `clock` or `event` (`DLRUN_EVENTS`).
        source: Optional TEXT from SOURCE;
        /// Its duration as printed by the program.
        printed_seconds: Optional REAL;
        /// Its duration by the watcher's clock.
        clock_seconds: Optional REAL;
        /// When the line that ended it was seen.
        ended_at_ms: Optional WHOLE;
        /// Whether the program reported it through `DLRUN_EVENTS`.
        event: Always FLAG;
        /// Whether it is the first after a start of the program.
        warmup: Always FLAG;
        /// Its training samples, if reported.
        samples: Optional WHOLE;
        /// Evaluation time in it, if known.
        evaluation_seconds: Optional REAL;
        /// Checkpoint time in it, if known.
        checkpoint_seconds: Optional REAL;
        /// Losses and metrics by name; null: not a finite number.
        metrics: Always JSON;
        /// True if the node's wall clock was changed while it ran: `seconds` is then null.
        clock_set: Optional FLAG in "" = "timing.clock_set" from "nullif(timing.clock_set, 0)";
    }
    GPUS of "gpu" in "" {
        /// `GPU-...`, or `MIG-...` of a slice.
        uuid: Key NAME;
        /// Its name.
        gpu: Always NAME as "name" = "gpu.name";
        /// Minor number of its device file.
        minor: Optional WHOLE;
        /// Its place on the PCI bus.
        pci_bus_id: Optional NAME;
        /// Its memory.
        mem_total_bytes: Optional WHOLE;
        /// The power limit in force.
        power_limit_watts: Optional WHOLE;
        /// Highest clock of its streaming multiprocessors.
        sm_clock_max_mhz: Optional WHOLE;
        /// Whether it is divided (MIG); null if it cannot be.
        mig: Optional FLAG;
        /// The GPU that a MIG slice is part of.
        parent: Optional NAME;
        /// Version of the driver.
        driver: Optional NAME;
        /// The NUMA node that it lies at.
        numa_node: Optional WHOLE;
        /// The CPUs of the machine that are near it, as the kernel lists them.
        near_cpus: Optional TEXT;
        /// Its active NVLinks.
        nvlinks: Optional WHOLE;
        /// Readings taken.
        readings: Always WHOLE;
        /// Mean utilisation; from GPM if NVML reports none (MIG).
        utilisation_mean_percent: Optional REAL;
        /// Most memory in use at once.
        mem_peak_bytes: Optional WHOLE;
        /// Energy drawn by the whole GPU while the run had it.
        energy_joules: Optional REAL;
        /// Mean power.
        power_mean_watts: Optional REAL;
        /// Highest temperature.
        temperature_peak_celsius: Optional WHOLE;
        /// Mean clock of the streaming multiprocessors.
        sm_clock_mean_mhz: Optional REAL;
        /// Time in which power or heat lowered the clocks.
        throttled_seconds: Always REAL;
        /// Time in which no process of the run was on it.
        idle_seconds: Always REAL;
        /// XID errors.
        xid_errors: Always WHOLE;
        /// When the record of the measurement was written.
        updated_at_ms: Always WHOLE from "node.updated_at_ms";
    }
    RANKS of "rank" in "" {
        /// Its number; of an agent that of its first rank, of a helper the number after all ranks.
        rank: Key WHOLE;
        /// Its number on its node.
        local_rank: Always WHOLE;
        /// Ranks in all.
        world_size: Always WHOLE;
        /// `agent`, `scheduler`, `server`, `ps`, `worker` or `evaluator`; null: a rank that trains.
        role: Optional TEXT;
        /// When it was started.
        started_at_ms: Always WHOLE;
        /// When it ended.
        ended_at_ms: Optional WHOLE;
        /// Its exit code.
        exit_code: Optional WHOLE in "/exit" as "code";
        /// Signal that ended it.
        exit_signal: Optional WHOLE in "/exit" as "signal";
        /// Whether it failed before all others of the run.
        fell_first: Always FLAG;
        /// Of one that fell first, the last line of its error message.
        last_words: Optional TEXT;
        /// The file that has its output.
        output: Optional TEXT;
        /// CPU time of it and of its children.
        cpu_seconds: Optional REAL;
        /// Most memory of its first process.
        mem_peak_bytes: Optional WHOLE;
        /// Its GPUs, if each rank has its own.
        gpus: Optional TEXT;
        /// `OMP_NUM_THREADS` as it found it, dlrun's or the user's; of a list the first.
        omp_num_threads: Optional WHOLE;
        /// Epochs that it finished.
        epochs: Optional WHOLE;
        /// Median time of its epochs but the first.
        epoch_seconds: Optional REAL;
        /// Where that comes from: `stated` or `clock`.
        epoch_source: Optional TEXT;
        /// Median time of its steps.
        step_seconds: Optional REAL;
        /// Where that comes from.
        step_source: Optional TEXT;
        /// When the record of the measurement was written.
        updated_at_ms: Always WHOLE from "node.updated_at_ms";
    }
    METRICS of "metric" in "" {
        /// What it belongs to: an `epoch`, a `step` of training or an `evaluation`; one that ends an epoch is in
        /// both.
        point: Key TEXT as "kind" = "metric.kind";
        /// Position in this measurement, from 0; long curves are thinned evenly.
        place: Key WHOLE;
        /// Its name: `loss`, `val_loss`, ...
        metric: Key NAME as "name" = "metric.name";
        /// The epoch, as printed.
        epoch: Optional WHOLE;
        /// The step of the training, as printed.
        train_step: Optional WHOLE as "step" = "metric.step";
        /// When the line was seen.
        at_ms: Optional WHOLE;
        /// The value; null: not a finite number.
        value: Optional REAL;
    }
    EVENTS of "event" in "" {
        /// Number of the event in this measurement; later ones have larger numbers.
        place: Key WHOLE;
        /// When it happened.
        at_ms: Always WHOLE;
        /// Kind: `oom_kill`, `xid`, `clock_jump`, `note`, ...
        event: Always TEXT as "kind" = "event.kind";
        /// What happened, as text.
        detail: Always TEXT;
    }
    /// What every row of a sample begins with, after the measurement.
    READING of "block" in "" {
        /// The block of samples that contains the reading.
        segment: Key WHOLE = "block.seq";
        /// When it was read.
        at_ms: Key WHOLE in "" from "block.bytes";
    }
    GPU_READING of "" in "" {
        /// The GPU.
        uuid: Key NAME in "" from "";
    }
    PROCESS_READING of "" in "" {
        /// Process id.
        pid: Key WHOLE in "" from "";
        /// When the process was started, in clock ticks since boot.
        start_time_ticks: Key WHOLE in "" from "";
        /// Its command name, 15 bytes at most.
        comm: Key NAME in "" as "name" from "";
    }
}

fn reading_field(column: &Column) -> Field {
    Field {
        name: column.name,
        of: FieldType::Whole,
        is_name: false,
        role: Role::Optional,
        about: column.about,
        object: Some(""),
        key: column.name,
        stored: None,
        sql: "",
    }
}

impl Table {
    /// Its columns, in the order in which they are written.
    #[must_use]
    pub fn fields(self) -> Vec<Field> {
        let (key, of_run): (&[Field], &[Field]) = match self {
            Self::Runs => (&[], &[]),
            _ => (self.key_fields(), &MEASUREMENT[5..]),
        };
        [VERSION, key, of_run, &self.own_fields()].concat()
    }

    /// The columns that name what its rows are of: a run, a start, else a measurement.
    pub(in crate::record) fn key_fields(self) -> &'static [Field] {
        match self {
            Self::Runs => &MEASUREMENT[..1],
            Self::Attempts => &MEASUREMENT[..3],
            _ => &MEASUREMENT[..5],
        }
    }

    /// Its columns behind those that name the version and the measurement.
    pub(in crate::record) fn own_fields(self) -> Vec<Field> {
        let reading = |of: &[Field], columns: &[Column]| {
            let values: Vec<Field> = columns.iter().map(reading_field).collect();
            [READING, of, &values].concat()
        };
        match self {
            Self::Runs => RUNS.to_vec(),
            Self::Attempts => ATTEMPTS.to_vec(),
            Self::Timings => TIMINGS.to_vec(),
            Self::Usage => USAGE.to_vec(),
            Self::Gpus => GPUS.to_vec(),
            Self::Ranks => RANKS.to_vec(),
            Self::Metrics => METRICS.to_vec(),
            Self::Events => EVENTS.to_vec(),
            Self::Samples => reading(&[], &COLUMNS),
            Self::GpuSamples => reading(GPU_READING, &GPU_COLUMNS),
            Self::ProcessSamples => reading(PROCESS_READING, &PROCESS_COLUMNS),
        }
    }
}

impl Table {
    /// A record of this table's rows of which nothing is known.
    pub(in crate::record) fn blank(self) -> Value {
        let run_id = "0000000000000000";
        match self {
            Self::Runs => json!({
                "record": {
                    "format": RunRecord::FORMAT, "run_id": run_id, "name": "", "submitted_at_ms": 0, "user": "",
                    "submit_host": "", "scheduler": "auto", "workdir": "", "nodes": 0, "workload": {}, "dlrun_version": "",
                },
                "status": { "state": "unknown" },
            }),
            Self::Attempts => json!({}),
            Self::Usage => json!({
                "record": {
                    "format": NodeRecord::FORMAT, "run_id": run_id, "element": 0, "attempt": 0, "node": "", "step": 0,
                    "state": "interrupted", "started_at_ms": 0, "updated_at_ms": 0, "host": { "hostname": "" },
                    "usage": {}, "progress": { "epochs": [], "epochs_completed": 0 }, "segments": 0,
                    "watcher": { "cpu_us": 0, "samples": 0, "late_ticks": 0 },
                },
                "attempt": {},
            }),
            Self::Timings => json!({ "epoch": 0 }),
            Self::Gpus => json!({
                "uuid": "", "name": "", "readings": 0, "throttled_seconds": 0, "idle_seconds": 0, "xid_errors": 0,
            }),
            Self::Ranks => {
                json!({ "rank": 0, "local_rank": 0, "world_size": 0, "started_at_ms": 0 })
            }
            Self::Metrics => json!({ "kind": "epoch", "place": 0, "name": "" }),
            Self::Events => json!({ "at_ms": 0, "kind": "note", "detail": "" }),
            Self::Samples => json!({ "at_ms": 0 }),
            Self::GpuSamples => json!({ "uuid": "" }),
            Self::ProcessSamples => json!({ "pid": 0, "start_time_ticks": 0, "name": "" }),
        }
    }
}
