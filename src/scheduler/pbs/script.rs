//! What a script does otherwise under Torque and OpenPBS: its output, who it is, and how it gets onto the nodes.
//!
//! Both start jobs in the home directory, keep their output on the node until they end, tell no number of starts, and
//! have in `pbsdsh` a launcher that hands over neither environment nor exit codes. What is said of Torque is of 6.1.3, of
//! OpenPBS of 23.06.

use super::dialect::Dialect;
use crate::job::Launcher;
use crate::launch::Plan;
use crate::scheduler::script::{MINT, quoted, read_env_file};

/// What starts one dlrun on each node.
pub(in crate::scheduler) const ON_EACH: &str = "dlrun_on_each";

/// The job's output, and who this run is, as far as PBS says so.
pub(in crate::scheduler) fn identity(plan: &Plan, dialect: &Dialect) -> String {
    let identity = IDENTITY.replace("@INDEX@", dialect.index);
    // Where the directory hangs: a job that continues another is no first start.
    let attempt = ATTEMPT.replace(
        "DLRUN_ATTEMPT=0",
        &format!("DLRUN_ATTEMPT={}", plan.first_attempt),
    );
    let tasks = tasks(plan, dialect);
    format!("{}{identity}{tasks}{MINT}{attempt}", output(plan, dialect))
}

/// How many tasks each node has, where not all have as many. The scheduler chose which node is which part of the request; Torque gave
/// all nodes as much as the largest part needs, unless they have names.
fn tasks(plan: &Plan, dialect: &Dialect) -> String {
    let resources = &plan.resources;
    let asked = resources.tasks_of_nodes(resources.nodes);
    if asked.first() == asked.last() {
        return String::new();
    }
    if dialect.lists_cpus && resources.nodelist.is_none() {
        let all: u64 = asked.into_iter().map(u64::from).sum();
        return TASKS_IN_ORDER.replace("@ALL@", &all.to_string());
    }
    let cpus = resources.cpus_per_task.unwrap_or(1);
    let lines = if dialect.lists_cpus { cpus } else { 1 };
    TASKS.replace("@LINES@", &lines.to_string())
}

const TASKS: &str = r#"# Tasks of each node: its lines in the list of nodes.
dlrun_tasks=()
for dlrun_host in "${dlrun_hosts[@]}"; do
    dlrun_task=$(grep -cxF -- "$dlrun_host" "$PBS_NODEFILE") || dlrun_task=0
    dlrun_tasks+=($((dlrun_task / @LINES@)))
done
"#;

const TASKS_IN_ORDER: &str = r#"# Tasks of each node: the first ones have more.
dlrun_tasks=()
for dlrun_at in "${!dlrun_hosts[@]}"; do
    dlrun_tasks+=($((@ALL@ / ${#dlrun_hosts[@]} + (dlrun_at < @ALL@ % ${#dlrun_hosts[@]}))))
done
"#;

/// The job's output goes to its file from here on, where people follow it. The scheduler brings its own copy only at the
/// end; what it says there itself (`job killed: walltime 6 exceeded limit 4`) stays apart.
fn output(plan: &Plan, dialect: &Dialect) -> String {
    let pattern = plan.output_pattern();
    let (stem, ending) = pattern
        .strip_suffix(".out")
        .map_or((&*pattern, ""), |stem| (stem, ".out"));
    let dir = quoted(&format!("{}/", plan.workdir.trim_end_matches('/')));
    let dir = if stem.starts_with('/') {
        String::new()
    } else {
        dir
    };
    let index = format!("${{{}:-}}", dialect.index);
    // What is quoted and what is filled in take turns.
    let filled = |text: &str| {
        let pieces = text.split("%a").map(|piece| {
            if piece.is_empty() {
                String::new()
            } else {
                quoted(piece)
            }
        });
        pieces.collect::<Vec<_>>().join(&index)
    };
    let stem = dir
        + &stem
            .split("%j")
            .map(filled)
            .collect::<Vec<_>>()
            .join("${PBS_JOBID%%[!0-9]*}");
    format!(
        r#"
# A job that PBS started writes to its own file, else it could be read only after its end.
dlrun_output={stem}
if [ -n "${{PBS_JOBID:-}}" ]; then
    if (: >> "$dlrun_output{ending}") 2> /dev/null; then
        exec >> "$dlrun_output{ending}" 2>&1
    else
        echo "dlrun: warning: $dlrun_output{ending} cannot be written; the output comes at the job's end" >&2
    fi
fi
"#
    )
}

const IDENTITY: &str = r#"[ -x "$dlrun_exe" ] || dlrun_exe=$(command -v dlrun)
dlrun_path=$PATH
export DLRUN_EXE=$dlrun_exe
export DLRUN_ELEMENT=${@INDEX@:-0}
# The command finds its index under one name, whoever the scheduler is.
export DLRUN_ARRAY_INDEX=${@INDEX@:-}
[ -n "$DLRUN_ARRAY_INDEX" ] || unset DLRUN_ARRAY_INDEX
export DLRUN_JOB_ID=${PBS_JOBID:-${DLRUN_JOB_ID:-}}
# The first node as the scheduler calls it; `uname` may know another name.
dlrun_hosts=()
while IFS= read -r dlrun_host && [ -n "$dlrun_host" ]; do
    case " ${dlrun_hosts[*]} " in *" $dlrun_host "*) ;; *) dlrun_hosts+=("$dlrun_host") ;; esac
done 2> /dev/null < "${PBS_NODEFILE:-/dev/null}"
read -r dlrun_host 2> /dev/null < /proc/sys/kernel/hostname || dlrun_host=$(uname -n)
export DLRUN_NODE=${dlrun_hosts[0]:-$dlrun_host}
# A job that was submitted from inside a run is another run.
[ "${DLRUN_RUN_ID:-}" != "${DLRUN_INSIDE:-none}" ] || DLRUN_RUN_ID=
unset DLRUN_INSIDE
# All elements of a run share the array's id: `12[].server` for `12[3].server`.
[ -z "${DLRUN_RUN_ID:-}" ] || DLRUN_JOB_ID=${DLRUN_JOB_ID/\[*\]/[]}
"#;

/// Which start this is: the first directory that nobody made yet. A state directory that hangs holds nothing up for long.
const ATTEMPT: &str = r#"
dlrun_attempt() { # prints the number whose directory was made here
    local number=0 dir=$DLRUN_STATE_DIR/runs/$DLRUN_RUN_ID
    umask 077
    mkdir -p "$dir"
    until mkdir "$dir/$DLRUN_ELEMENT.$number"; do
        [ -d "$dir/$DLRUN_ELEMENT.$number" ] || return
        number=$((number + 1))
    done
    echo "$number"
}
export DLRUN_ATTEMPT=0
if [ -n "$DLRUN_RUN_ID" ]; then
    exec 9< <(dlrun_attempt 2> /dev/null < /dev/null)
    read -r -t 20 -u 9 DLRUN_ATTEMPT || DLRUN_ATTEMPT=0
    exec 9<&-
fi
"#;

/// Of a job with spare nodes dlrun says which are in use.
pub(in crate::scheduler) fn in_use(plan: &Plan) -> String {
    match plan.resources.spares {
        0 => String::new(),
        _ => IN_USE.replace("@NODES@", &plan.resources.nodes.to_string()),
    }
}

const IN_USE: &str = r#"# Without dlrun's answer the first ones are in use.
if [ -n "$dlrun_use" ]; then IFS=, read -r -a dlrun_hosts <<< "$dlrun_use"; else dlrun_hosts=("${dlrun_hosts[@]:0:@NODES@}"); fi
"#;

/// What must be there before the command is put together: a directory that all nodes see, and in it, for MPI, the hosts,
/// each as often as it has tasks.
pub(in crate::scheduler) fn before(plan: &Plan, dialect: &Dialect) -> String {
    let directory = directory(plan, dialect);
    if plan.launcher == Launcher::Mpi {
        let tasks = plan.resources.tasks_per_node;
        return directory + &MACHINES.replace("@TASKS@", &tasks.to_string());
    }
    if !plan.launcher.runs_on_each_node() {
        return String::new();
    }
    let is_set = |name: &&str| plan.env.iter().any(|variable| variable.name == **name);
    let own: Vec<&str> = NODES_OWN.into_iter().filter(|name| !is_set(name)).collect();
    // What a rank's end takes at most on the nodes that are left, and their records.
    let patience = match plan.launcher.is_distributed() {
        true => plan.kill_wait_seconds + 30,
        false => 0,
    };
    let each = EACH
        .replace("@OWN@", &own.join(" "))
        .replace("@PATIENCE@", &patience.to_string())
        .replace("@OPTIONS@", dialect.pbsdsh);
    let node = quoted(&node_script(plan));
    format!("{directory}dlrun_node_script={node}\n{each}")
}

/// What is taken away before the job ends. A node that refused to start says why.
pub(in crate::scheduler) fn after(plan: &Plan) -> &'static str {
    if plan.launcher.has_ranks() || plan.launcher.runs_on_each_node() {
        "dlrun_why=\n[ ! -s \"$dlrun_dir/why\" ] || read -r dlrun_why < \"$dlrun_dir/why\"\nrm -rf -- \"$dlrun_dir\"\n"
    } else {
        "dlrun_why=\n"
    }
}

/// The words before the ranks of an MPI program. Open MPI, MPICH and Intel MPI all know `-machinefile`; without it those
/// that were built without PBS start all ranks on one node.
pub(in crate::scheduler) fn ranks(plan: &Plan) -> String {
    let tasks = plan.resources.tasks_of_nodes(plan.resources.nodes);
    let ranks: u64 = tasks.into_iter().map(u64::from).sum();
    format!("mpirun -np {ranks} -machinefile \"$dlrun_dir/machines\"")
}

/// The directory is deleted, so its name is the job's alone: `run.output` need not have the id and the index, or not apart.
fn directory(plan: &Plan, dialect: &Dialect) -> String {
    let index = dialect.index;
    let own = plan
        .output
        .as_ref()
        .map(|_| format!("-${{PBS_JOBID%%[!0-9]*}}${{{index}:+_${index}}}"));
    DIRECTORY.replace("@OWN@", &own.unwrap_or_default())
}

const DIRECTORY: &str = r#"
# A directory that all nodes see, for as long as the job runs.
dlrun_dir=$dlrun_output@OWN@.nodes
rm -rf -- "$dlrun_dir"
mkdir -m 700 -- "$dlrun_dir" || refuse 73 "the directory $dlrun_dir cannot be made"
"#;

const MACHINES: &str = r#"for dlrun_at in "${!dlrun_hosts[@]}"; do
    for ((dlrun_task = 0; dlrun_task < ${dlrun_tasks[dlrun_at]:-@TASKS@}; dlrun_task++)); do
        echo "${dlrun_hosts[dlrun_at]}"
    done
done > "$dlrun_dir/machines"
"#;

/// Variables of which each node has its own.
const NODES_OWN: [&str; 5] = [
    "HOSTNAME",
    "CUDA_VISIBLE_DEVICES",
    "GPU_DEVICE_ORDINAL",
    "TMPDIR",
    "DLRUN_NODE",
];

/// `pbsdsh` gives its tasks the environment that the job began with, and reports to nobody how they ended (its own exit code is
/// 0). So each node reads environment and words from a file, and leaves its exit code there; the highest is the job's. The
/// environment may hold secrets, so the file is emptied as soon as all nodes have read it: a job that is killed leaves
/// none of it behind. It is one compound command, which bash reads as a whole before it begins.
const EACH: &str = r#"# A job's PATH need not have the scheduler's programs; the submitter's has.
dlrun_pbsdsh=$(command -v pbsdsh || { PATH=${PBS_O_PATH:-$PATH}; command -v pbsdsh; }) ||
    refuse 66 "pbsdsh, which starts the command on each node, is not found on $DLRUN_NODE"
dlrun_on_each() { # dlrun_on_each WORD...: runs the words on every node
    local dsh= forget leave code=0 at at_code of=${#dlrun_hosts[@]} tenths=0
    trap '[ -z "$dsh" ] || kill -TERM "$dsh" 2> /dev/null' TERM INT HUP QUIT
    trap '' USR1 USR2
    (
        umask 077
        exec > "$dlrun_dir/node"
        printf '{\ndlrun_dir=%q dlrun_output=%q dlrun_hosts=(' "$dlrun_dir" "$dlrun_output"
        printf '%q ' "${dlrun_hosts[@]}"
        printf ')\nset --'
        printf ' %q' "$@"
        printf '\n%s\n%s\n}\n' "$dlrun_exports" "$dlrun_node_script"
    )
    cat -- "${PBS_NODEFILE:-/dev/null}" > "$dlrun_dir/hosts"
    "$dlrun_pbsdsh" @OPTIONS@ /bin/bash "$dlrun_dir/node" &
    dsh=$!
    dlrun_forget "$dsh" "$of" < /dev/null > /dev/null 2>&1 &
    forget=$!
    dlrun_leave "$dsh" "$of" < /dev/null > /dev/null 2>&1 &
    leave=$!
    while wait "$dsh"; [ $? -gt 128 ] && kill -0 "$dsh" 2> /dev/null; do :; done
    for ((at = 0; at < of; at++)); do
        # What another node wrote may take a moment to be seen here. One that began and wrote no code was killed.
        until ls "$dlrun_dir" > /dev/null && [ -e "$dlrun_dir/code.$at" ]; do
            [ "$tenths" -lt 50 ] || break
            sleep 0.1
            tenths=$((tenths + 1))
        done
        at_code=137
        if [ -e "$dlrun_dir/code.$at" ]; then
            read -r at_code < "$dlrun_dir/code.$at"
        elif [ ! -d "$dlrun_dir/rank.$at" ]; then
            at_code=69
            [ -s "$dlrun_dir/why" ] || echo "pbsdsh did not start the command on ${dlrun_hosts[at]}, or $dlrun_dir is not seen there" > "$dlrun_dir/why"
        fi
        [ "$at_code" -le "$code" ] || code=$at_code
    done
    wait "$forget"
    kill "$leave" 2> /dev/null
    exit "$code"
}
dlrun_leave() { # dlrun_leave PID NODES: ends the launcher where it waits for a node that is lost, once all others have ended
    local at=0 code=0 limit seconds=0
    PATH=$dlrun_path
    trap '' INT HUP QUIT
    [ @PATIENCE@ != 0 ] || return 0
    while kill -0 "$1"; do
        ls "$dlrun_dir"
        while [ "$at" -lt "$2" ] && [ -s "$dlrun_dir/code.$at" ]; do at=$((at + 1)); done
        limit=
        if [ "$at" -ge "$2" ]; then
            limit=5
        elif [ -s "$dlrun_dir/code.0" ] && read -r code < "$dlrun_dir/code.0" && [ "$code" != 0 ]; then
            limit=@PATIENCE@ # This node has failed, so the others end their ranks.
        fi
        if [ -n "$limit" ]; then
            [ "$seconds" -lt "$limit" ] || kill -KILL "$1"
            seconds=$((seconds + 1))
        fi
        sleep 1
    done
}
dlrun_forget() { # dlrun_forget PID NODES: empties the file once each node has begun, or the launcher is over
    local at
    PATH=$dlrun_path
    trap '' TERM INT HUP QUIT
    [ "$2" -gt 0 ] || return 0
    for ((at = 0; at < $2; at++)); do
        until ls "$dlrun_dir" && [ -d "$dlrun_dir/rank.$at" ]; do
            kill -0 "$1" || break 2
            sleep 0.1
        done
    done
    : > "$dlrun_dir/node"
}
dlrun_exports=$(
    unset "${!PBS_@}" @OWN@
    export -p
    export -pf
)
"#;

/// What one node runs. The file that holds it begins with where it is, the words and the environment.
fn node_script(plan: &Plan) -> String {
    let workdir = quoted(&plan.workdir);
    let env_file = plan
        .env_file
        .as_deref()
        .map(|file| read_env_file(file, plan))
        .unwrap_or_default();
    // The ranks of a distributed training have their own files; what is left to say goes to the job's.
    let output = if plan.launcher.is_distributed() {
        "${DLRUN_OUTPUT:-$dlrun_output.$dlrun_rank.out}"
    } else {
        "$dlrun_output.$dlrun_rank.out"
    };
    let other = match plan.resources.spares {
        0 => "dlrun_rank=${PBS_NODENUM:-0}",
        // A spare node.
        _ => "exit 0",
    };
    format!(
        r#"dlrun_path=$PATH
read -r dlrun_host 2> /dev/null < /proc/sys/kernel/hostname || dlrun_host=$(uname -n)
dlrun_rank=
for dlrun_at in "${{!dlrun_hosts[@]}}"; do
    [ "${{dlrun_hosts[dlrun_at]%%.*}}" != "${{dlrun_host%%.*}}" ] || dlrun_rank=$dlrun_at
done
[ -n "$dlrun_rank" ] || {other}
export DLRUN_NODE=${{dlrun_hosts[dlrun_rank]:-$dlrun_host}}
# The scheduler's list of hosts is on the first node alone.
[ -r "${{PBS_NODEFILE:-}}" ] || export PBS_NODEFILE=$dlrun_dir/hosts
# Where PBS starts one for each chunk, the first does it.
mkdir -- "$dlrun_dir/rank.$dlrun_rank" 2> /dev/null || exit 0
exec >> "{output}" 2>&1
over() {{ echo "$1" > "$dlrun_dir/code.part.$dlrun_rank" && mv -- "$dlrun_dir/code.part.$dlrun_rank" "$dlrun_dir/code.$dlrun_rank"; exit "$1"; }}
refuse() {{ echo "dlrun: error: $2" >&2; echo "$DLRUN_NODE: $2" > "$dlrun_dir/why"; over "$1"; }}
cd -- {workdir} || refuse 66 'the working directory is not there: '{workdir}
{env_file}
dlrun_child=
for dlrun_signal in TERM INT HUP QUIT USR1 USR2 ALRM VTALRM PROF XCPU IO PWR STKFLT; do
    trap "[ -z \"\$dlrun_child\" ] || kill -s $dlrun_signal \"\$dlrun_child\" 2> /dev/null" "$dlrun_signal"
done
"$@" &
dlrun_child=$!
while wait "$dlrun_child"; dlrun_code=$?; [ "$dlrun_code" -gt 128 ] && kill -0 "$dlrun_child" 2> /dev/null; do :; done
over "$dlrun_code""#
    )
}
