//! The command, how it gets onto the nodes, and how its signals and its end are passed on.

use std::fmt::Write as _;

use super::{quoted, resume};
use crate::image::{flags, runtime};
use crate::job::Launcher;
use crate::launch::{Plan, Shape, launcher_for};
use crate::scheduler::adapter_for;

pub(super) fn command(script: &mut String, plan: &Plan) {
    if let Some(image) = &plan.image {
        match &image.runtime {
            Some(runtime) => {
                let _ = writeln!(script, "\ndlrun_runtime={}\n{NAMED}", quoted(runtime));
            }
            None => script.push_str(&find_runtime()),
        }
        let _ = writeln!(
            script,
            "dlrun_container=(\"$dlrun_runtime\" {})",
            quoted_words(&flags::bare(image))
        );
        if plan.launcher.has_ranks() || plan.build.is_some() {
            let json =
                serde_json::to_string(image).expect("a container is plain data with text keys");
            let _ = writeln!(script, "dlrun_image={}{ENTER}", quoted(&json));
        }
    }
    let container = match &plan.image {
        None => "",
        Some(_) if plan.launcher.has_ranks() => "\"${dlrun_enter[@]}\"",
        Some(_) => "\"${dlrun_container[@]}\"",
    };
    let adapter = adapter_for(plan.scheduler);
    let starter = launcher_for(plan.launcher, |_| None);
    if starter.is_some() {
        // Before what hands the environment to other nodes.
        script.push_str(GROUP);
        let _ = writeln!(script, "{}", adapter.hosts(plan));
    }
    script.push_str(&adapter.before_command(plan));
    let shape = Shape::for_plan(plan);
    let is_checked = plan.launcher == Launcher::Mpi && plan.image.is_none() && shape.ranks() > 1;
    if is_checked {
        script.push_str(&rank_check(plan, shape.ranks()));
    }
    let (mut each, mut ranks) = (String::new(), String::new());
    if plan.launcher.runs_on_each_node() {
        each = adapter.on_each_node(plan);
    }
    if plan.launcher.has_ranks() && starter.is_none() {
        ranks = adapter.ranks(plan);
    }
    let check = if is_checked {
        "\"${dlrun_rank[@]}\""
    } else {
        ""
    };
    let mut before = String::new();
    for line in [ranks.as_str(), check, container] {
        if !line.is_empty() {
            let _ = writeln!(before, "    {line}");
        }
    }
    let started =
        |command: &[String]| starter.map_or_else(|| command.to_vec(), |it| it.command(command));
    let words = started(&plan.command).into_iter();
    let words: String = words
        .map(|word| format!("    {}\n", quoted(&word)))
        .collect();
    let _ = writeln!(script, "\ndlrun_command=(\n{before}{words})");
    resume::command(script, plan, &before, started);
    let _ = writeln!(script, "dlrun_launch=({each})");
    let in_image = plan.image.is_some() && !plan.launcher.has_ranks();
    let bare = if in_image {
        "${#dlrun_container[@]}"
    } else {
        "0"
    };
    let _ = writeln!(script, "dlrun_bare={bare}");
}

pub(in crate::scheduler) fn quoted_words<'w>(
    words: impl IntoIterator<Item = &'w String>,
) -> String {
    let words = words.into_iter();
    words.map(|word| quoted(word)).collect::<Vec<_>>().join(" ")
}

/// Where the nodes of a distributed training meet: who may join knows the secret, which no other user can read.
const GROUP: &str = r#"
[ -n "$dlrun_exe" ] && "$dlrun_exe" --version > /dev/null 2>&1 ||
    refuse 66 "dlrun, which starts the ranks, does not run on $DLRUN_NODE"
DLRUN_GROUP_SECRET=$(PATH=$dlrun_path od -An -N16 -tx1 /dev/urandom) && export DLRUN_GROUP_SECRET=${DLRUN_GROUP_SECRET//[!0-9a-f]/}
export DLRUN_OUTPUT=$(PATH=$dlrun_path readlink "/proc/$$/fd/1")
"#;

/// What a node without dlrun does where dlrun starts the ranks.
const NO_RANKS: &str = r#"echo "dlrun: error: dlrun, which starts the ranks, does not run on ${SLURMD_NODENAME:-$DLRUN_NODE}" >&2
exit 66
"#;

/// Starts the command, passes signals on, and leaves its exit code.
pub(super) fn run(plan: &Plan) -> String {
    let without = if plan.launcher.is_distributed() {
        NO_RANKS
    } else {
        ""
    };
    RUN.replace("@WITHOUT@", without)
}

const NAMED: &str = r#"command -v "$dlrun_runtime" > /dev/null ||
    refuse 66 "the container runtime $dlrun_runtime is not found on $DLRUN_NODE""#;

fn find_runtime() -> String {
    let commands = runtime::commands();
    format!(
        "\ndlrun_runtime=$(command -v {}) ||\n    refuse 66 \"neither {} is found on $DLRUN_NODE\"\n",
        commands.join(" || command -v "),
        commands.join(" nor ")
    )
}

/// What starts a rank, or a build, in the container: each decides on its own node, and finds dlrun by its path, since dlrun
/// takes its variables out of the command's environment. Where dlrun does not run there, the bare words do.
const ENTER: &str = r#"
dlrun_enter=(/bin/bash -p -c '
if [ -n "$1" ] && "$1" --version > /dev/null 2>&1; then
    dlrun_exe=$1 dlrun_image=$2 dlrun_bare=$3
    shift 3
    exec "$dlrun_exe" enter --image "$dlrun_image" --bare "$dlrun_bare" -- "$@"
fi
echo "dlrun: warning: dlrun does not run on ${SLURMD_NODENAME:-$(uname -n)}; the container gets the flags of the submission" >&2
shift 3
cd -P .
exec "$@"' dlrun "$dlrun_exe" "$dlrun_image" "${#dlrun_container[@]}" "${dlrun_container[@]}")
"#;

/// A rank whose program is known to see a world of one does not start. It is known only where the program's MPI comes with no PMI
/// library and what starts the ranks left nothing of what this MPI asks for. Open MPI 4 knows others than PMIx by
/// components of their own, Open MPI 5 none. The first node looks at the program for all ranks. Rank 0 speaks for all: the others wait, and are ended with it.
fn rank_check(plan: &Plan, world: u32) -> String {
    let (starter, hint) = if plan.scheduler.has_steps() {
        (
            "srun",
            "set SLURM_MPI_TYPE in run.env to a type of `srun --mpi=list` that it knows: pmi2 for MPICH, pmix for Open MPI",
        )
    } else {
        (
            "mpirun",
            "put the mpirun of that MPI into PATH, by its module in run.modules",
        )
    };
    RANK.replace("@STARTER@", starter)
        .replace("@HINT@", &hint.replace('`', "\\`"))
        .replace("@WORLD@", &world.to_string())
        .replace("@PROGRAM@", &quoted_words(plan.command.first()))
}

const RANK: &str = r#"
dlrun_mpi= dlrun_rank=()
dlrun_libs=$(ldd "$(type -P -- @PROGRAM@)" 2> /dev/null)
case $dlrun_libs in
    *"not found"* | *libpmi[._2]*) ;;
    *libopen-pal.so.[89][0-9]*) dlrun_mpi="Open MPI" ;;
    *libopen-pal.so.40*)
        [[ $dlrun_libs =~ libmpi\.so\.40\ =\>\ ([^ ]+) ]] && dlrun_libs=$(readlink -f "${BASH_REMATCH[1]}")
        dlrun_libs=$(shopt -s nullglob; cd "${dlrun_libs%/*}" 2> /dev/null && echo openmpi*/mca_pmix_* openmpi*/lib/*/mca_pmix_*)
        case $dlrun_libs in
            "" | *_s[12].* | *_cray.*) ;;
            *) dlrun_mpi="Open MPI" ;;
        esac
        ;;
    *libopen-pal* | *libpmix*) ;;
    *libmpich.so.* | *libmpi.so.12*) dlrun_mpi=MPICH ;;
esac
[ -z "$dlrun_mpi" ] || dlrun_rank=(/bin/bash -p -c '
case $1 in
    MPICH) dlrun_given=${!PMI_@}${!PALS_@}${!I_MPI_PMI@} ;;
    *) dlrun_given=${PMIX_NAMESPACE-}${OMPI_COMM_WORLD_SIZE-}${!FLUX_@} ;;
esac
if [ -z "$dlrun_given" ]; then
    dlrun_at=${SLURM_PROCID:-${OMPI_COMM_WORLD_RANK:-${PMI_RANK:-0}}}
    trap "exit 66" TERM
    [ "$dlrun_at" = 0 ] || sleep 3
    echo "dlrun: error: rank $dlrun_at on ${SLURMD_NODENAME:-$(uname -n)} would see a world of 1, not of @WORLD@: $2 needs $1, and @STARTER@ starts its ranks for another MPI; @HINT@" >&2
    exit 66
fi
unset dlrun_given
shift
exec -- "$@"' dlrun "$dlrun_mpi")
"#;

/// Starts the command and passes signals on; leaves its exit code in `dlrun_code`. What follows a node's `exec` is the
/// bare fallback. Of the words that follow, `dlrun_bare` start the container. dash would drop exported functions such as
/// `module`; `bash -p` keeps them, and does not read `BASH_ENV`.
const RUN: &str = r#"
# On each node: dlrun, which starts and watches the command; where it is missing, the bare command.
dlrun_node='
dlrun_bare=$1
shift
if [ -n "$DLRUN_EXE" ] && "$DLRUN_EXE" --version > /dev/null 2>&1; then
    if [ "$dlrun_bare" = 0 ]; then exec "$DLRUN_EXE" exec -- "$@"; fi
    exec "$DLRUN_EXE" exec --in-image "$dlrun_bare" -- "$@"
fi
@WITHOUT@echo "dlrun: warning: dlrun does not run on ${SLURMD_NODENAME:-$DLRUN_NODE}; the command runs without a record" >&2
unset DLRUN_PLAN DLRUN_STATE_DIR DLRUN_EXE DLRUN_ELEMENT DLRUN_ATTEMPT DLRUN_JOB_ID DLRUN_NODE
export DLRUN_INSIDE=$DLRUN_RUN_ID
# The runtime starts the command in the directory of this name, which may be a link to where nothing is seen in it.
[ "$dlrun_bare" = 0 ] || cd -P .
exec "$@"'

dlrun_child=
dlrun_signalled=
for dlrun_signal in TERM INT HUP QUIT USR1 USR2 ALRM VTALRM PROF XCPU IO PWR STKFLT; do
    trap "dlrun_signalled=$dlrun_signal; dlrun_asked+=\" $dlrun_signal\"; [ -z \"\$dlrun_child\" ] || kill -s $dlrun_signal \"\$dlrun_child\" 2> /dev/null" "$dlrun_signal"
done
# A simple command: a subshell of a script with traps would lose a signal that comes before it begins.
"${dlrun_launch[@]}" /bin/bash -p -c "$dlrun_node" dlrun "$dlrun_bare" "${dlrun_command[@]}" &
dlrun_child=$!
# One that came before the command was there is passed on now.
[ -z "$dlrun_signalled" ] || kill -s "$dlrun_signalled" "$dlrun_child" 2> /dev/null
while :; do
    dlrun_signalled=
    wait "$dlrun_child"
    dlrun_code=$?
    # A trapped signal ends `wait` early, with a code of its own.
    [ -n "$dlrun_signalled" ] && kill -0 "$dlrun_child" 2> /dev/null || break
done
if [ -n "$dlrun_signalled" ]; then
    wait "$dlrun_child"
    dlrun_code=$?
fi
"#;
