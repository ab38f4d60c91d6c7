//! Who a run is, and the marks of its start and end.

/// Who this run is under Slurm and on this machine. The batch shell fixes element, attempt and id once and hands them to every node.
pub(in crate::scheduler) const DEFAULT_IDENTITY: &str = r#"[ -x "$dlrun_exe" ] || dlrun_exe=$(command -v dlrun)
dlrun_path=$PATH
export DLRUN_EXE=$dlrun_exe
export DLRUN_ELEMENT=${SLURM_ARRAY_TASK_ID:-0}
# The command finds its index under one name, whoever the scheduler is.
export DLRUN_ARRAY_INDEX=${SLURM_ARRAY_TASK_ID:-}
[ -n "$DLRUN_ARRAY_INDEX" ] || unset DLRUN_ARRAY_INDEX
# Output is appended to the job's own file, not to those of its steps.
unset SLURM_OPEN_MODE
# A job that was submitted from inside a run counts its own starts.
[ -z "${DLRUN_INSIDE:-}" ] || unset DLRUN_ATTEMPT
export DLRUN_ATTEMPT=${DLRUN_ATTEMPT:-${SLURM_RESTART_COUNT:-0}}
export DLRUN_JOB_ID=${SLURM_JOB_ID:-${DLRUN_JOB_ID:-}}
read -r dlrun_host 2> /dev/null < /proc/sys/kernel/hostname || dlrun_host=$(uname -n)
export DLRUN_NODE=${SLURMD_NODENAME:-$dlrun_host}
# A job that was submitted from inside a run is another run.
[ "${DLRUN_RUN_ID:-}" != "${DLRUN_INSIDE:-none}" ] || DLRUN_RUN_ID=
unset DLRUN_INSIDE
# Slurm's commands know an element as `95_3`; its SLURM_JOB_ID is another number. All elements of a run share the array's id.
if [ -n "${SLURM_ARRAY_JOB_ID:-}" ]; then
    DLRUN_JOB_ID=$SLURM_ARRAY_JOB_ID
    [ -n "${DLRUN_RUN_ID:-}" ] || DLRUN_JOB_ID=${DLRUN_JOB_ID}_$SLURM_ARRAY_TASK_ID
fi
"#;

/// A job without a run id gets one.
pub(in crate::scheduler) const MINT: &str = r#"if [ -z "${DLRUN_RUN_ID:-}" ] && [ -n "$dlrun_exe" ]; then
    # Came through `dlrun render`: this job gets its run id here, unless the state directory hangs.
    exec 9< <("$dlrun_exe" exec --mint < /dev/null)
    read -r -t 20 -u 9 DLRUN_RUN_ID
    exec 9<&-
fi
export DLRUN_RUN_ID=${DLRUN_RUN_ID:-}
"#;

/// Marks of start and end. They are written in the background: a state directory that hangs holds nothing up.
pub(super) const MARKS: &str = r#"
mark() { # mark start | mark end CODE [WHY]
    [ -n "$DLRUN_RUN_ID" ] || return 0
    local file=$DLRUN_STATE_DIR/runs/$DLRUN_RUN_ID/$DLRUN_ELEMENT.$DLRUN_ATTEMPT/$1.json refused=
    dlrun_exit=${2:-null} dlrun_at= dlrun_uptime=
    # Now: the state directory may hang. The time since boot goes on whatever the clock is set to.
    # Bash 5 knows it in microseconds, with the decimal point of the locale; a variable of older ones would be somebody else's.
    [ "${BASH_VERSINFO[0]}" -lt 5 ] || dlrun_at=${EPOCHREALTIME:-}
    dlrun_at=${dlrun_at//[!0-9]/}
    dlrun_at=${dlrun_at%???}
    [ -n "$dlrun_at" ] || dlrun_at=$(PATH=$dlrun_path; date +%s%3N)
    read -r dlrun_uptime _ 2> /dev/null < /proc/uptime && dlrun_uptime=${dlrun_uptime/./}0
    if [ -n "${3:-}" ]; then
        # As text of JSON, whatever is in it.
        local LC_ALL=C
        refused=${3//[^ -~]/?}
        refused=${refused//\\/\\\\}
        refused=',"refused":"'${refused//\"/\\\"}'"'
    fi
    # Whoever reads this pipe to its end has waited for the mark.
    exec 9< <(
        exec 4>&1 3>&2 > /dev/null 2>&1 < /dev/null
        umask 077
        PATH=$dlrun_path
        write_mark() {
            { [ -d "${file%/*}" ] || mkdir -p "${file%/*}"; } &&
                printf '{"format":1,"at_ms":%s,"uptime_ms":%s,"node":"%s","job_id":"%s","exit_code":%s%s}\n' "$dlrun_at" \
                    "${dlrun_uptime:-null}" "$DLRUN_NODE" "$DLRUN_JOB_ID" "$dlrun_exit" "$refused" > "$file.part" &&
                sync "$file.part" && mv -T "$file.part" "$file"
        }
        for try in 1 2 3 4; do
            write_mark && exit
            sleep 1
        done
        why=$(write_mark 2>&1) || [ "$dlrun_exit" = null ] || not_marked "${why##*: }" >&3
    )
    [ "$1" = end ] || exec 9<&-
}
not_marked() { # not_marked WHY: leaves the end in the job's output, where dlrun finds it
    echo "dlrun: the job ended with exit code $dlrun_exit; that cannot be recorded: $1" \
        "[$DLRUN_RUN_ID $DLRUN_ELEMENT.$DLRUN_ATTEMPT $dlrun_at ${dlrun_uptime:-null} $dlrun_exit $DLRUN_NODE]"
}
finish() { # finish CODE [WHY]: marks the end, waits ten seconds for it at most, and ends the job
    trap '' TERM INT HUP QUIT USR1 USR2
    PATH=$dlrun_path
    mark end "$@"
    { read -r -t 10 -u 9; } 2> /dev/null
    [ $? -le 128 ] || not_marked 'the state directory gives no answer' >&2
@AGAIN@    exit "$1"
}
refuse() { # refuse CODE TEXT: this job cannot start
    echo "dlrun: error: $2" >&2
    finish "$1" "$2"
}
"#;
