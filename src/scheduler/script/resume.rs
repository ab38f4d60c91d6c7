//! What the script of a run does that may continue: before the command it asks what earlier starts left, and after the end mark
//! dlrun decides what follows. One process decides for the whole job, outside of any container, when the program has ended.

use std::fmt::Write as _;

use super::quoted;
use crate::job::CHECKPOINT;
use crate::launch::Plan;

/// Before the environment is set up: later lines may take dlrun's own variables for the program's.
pub(super) fn begin(script: &mut String, plan: &Plan) {
    if plan.resume.is_none() {
        return;
    }
    script.push_str(BEGIN);
}

/// What ends the function `finish`.
pub(super) fn in_finish(plan: &Plan) -> &'static str {
    match plan.resume {
        Some(_) if plan.restarts_inside() => AGAIN_HERE,
        Some(_) => "    again \"$1\"\n",
        None => "",
    }
}

/// The words of a command, `{checkpoint}` among them as the variable.
fn words(words: &[String]) -> String {
    let mut text = String::new();
    for word in words {
        let pieces: Vec<String> = word.split(CHECKPOINT).map(quoted).collect();
        let _ = writeln!(text, "    {}", pieces.join("\"$DLRUN_RESUME_FROM\""));
    }
    text
}

/// Changes the command where there is a checkpoint. `starter` puts words of its own before the user's.
pub(super) fn command(
    script: &mut String,
    plan: &Plan,
    before: &str,
    starter: impl Fn(&[String]) -> Vec<String>,
) {
    let Some(resume) = &plan.resume else { return };
    let lines = if resume.command.is_empty() {
        format!("dlrun_command+=(\n{})", words(&resume.arguments))
    } else {
        format!(
            "dlrun_command=(\n{before}{})",
            words(&starter(&resume.command))
        )
    };
    if !(resume.command.is_empty() && resume.arguments.is_empty()) {
        let _ = writeln!(
            script,
            "if [ -n \"${{DLRUN_RESUME_FROM:-}}\" ]; then\n{lines}\nfi"
        );
    }
}

/// With spare nodes, or fewer than before, the script may begin again inside of the allocation, in the environment that its scheduler gave it. A signal that
/// is ignored could not be caught there.
const AGAIN_HERE: &str = r#"    DLRUN_MAY_RESTART=1 again "$1"
    if [ $? = 10 ]; then
        local line run=$DLRUN_RUN_ID
        exec 9<&-
        trap - TERM INT HUP QUIT USR1 USR2
        # Not by words of a command, which everybody on the node can read. Exported functions stay.
        unset $(compgen -e) 2> /dev/null
        while IFS= read -r -d '' line; do export "$line" 2> /dev/null; done < "/proc/$$/environ"
        export DLRUN_RUN_ID=$run DLRUN_AGAIN_HERE=1
        [[ $- != *p* ]] || exec /bin/bash -p "$0"
        exec /bin/bash "$0"
    fi
"#;

/// A state directory or a scheduler that hangs holds nothing up for long.
const BEGIN: &str = r#"
# What earlier starts of this run left, and how long this one has.
dlrun_stop= dlrun_stop_code=75 dlrun_use=
again() { # again CODE: decides whether the run continues, and sees to it
    [ -n "$dlrun_exe" ] && [ -n "$DLRUN_RUN_ID" ] && [ -z "$dlrun_stop" ] || return 0
    PATH=$dlrun_path:${PBS_O_PATH:-/usr/bin} timeout -k 5 300 "$dlrun_exe" exec --again "$1" --signals "${dlrun_asked:-}" < /dev/null
}
unset DLRUN_RESUME_FROM DLRUN_TIME_LEFT DLRUN_END DLRUN_LEAD
unset DLRUN_WORLD_NODES DLRUN_MIN_NODES DLRUN_MAX_NODES DLRUN_GLOBAL_BATCH DLRUN_ACCUM_STEPS
dlrun_ask() { # asks dlrun what this start begins with; fails where there is no whole answer
    [ -n "$dlrun_exe" ] && [ -n "$DLRUN_RUN_ID" ] || return 1
    local line value code=1
    exec 9< <(PATH=$dlrun_path:${PBS_O_PATH:-/usr/bin} "$dlrun_exe" exec --resume < /dev/null)
    while IFS= read -r -t 100 -u 9 line; do
        value=${line#*=}
        case ${line%%=*} in
        ok) code=0 ;;
        stop) dlrun_stop=$value ;;
        code) dlrun_stop_code=$value ;;
        use) dlrun_use=$value ;;
        DLRUN_RESUME_FROM | DLRUN_TIME_LEFT | DLRUN_END | DLRUN_LEAD | DLRUN_*_NODES | DLRUN_GLOBAL_BATCH | DLRUN_ACCUM_STEPS | SLURM_*)
            export "$line"
            ;;
        esac
    done
    exec 9<&-
    return "$code"
}
# Without an answer a later start would train from the beginning, over the checkpoints.
dlrun_ask || [ "$DLRUN_ATTEMPT" = 0 ] || dlrun_ask ||
    refuse 75 'dlrun does not say which checkpoint this start continues from'
if [ -n "$dlrun_stop" ]; then
    [ "$dlrun_stop_code" = 0 ] || refuse "$dlrun_stop_code" "$dlrun_stop"
    echo "dlrun: $dlrun_stop"
    finish 0
fi
"#;
