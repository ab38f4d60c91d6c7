//! The batch script: readable, self-contained, the same bytes whenever it is rendered from the same plan.
//!
//! Directives stand one on a line before any shell; everything from the user comes after them inside single quotes,
//! where a shell interprets nothing. The script's own variables begin with `dlrun_`, so that none of the user's or the
//! site's is lost, and its own programs are found whatever the job makes of `PATH`. It needs bash and coreutils, and dlrun
//! only for the record: where it is missing, the bare command runs.

use std::fmt::Write as _;

use crate::job::{Launcher, SchedulerKind};
use crate::launch;
use crate::plan::Plan;

use super::slurm;

/// `text` as one word of a POSIX shell: in single quotes, each single quote as `'\''`. NUL cannot occur in a job file.
#[must_use]
pub fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}

/// Renders the batch script of a plan.
#[must_use]
pub fn render(plan: &Plan) -> String {
    let mut script = String::from("#!/bin/bash\n");
    if plan.scheduler == SchedulerKind::Slurm {
        for directive in slurm::directives(plan) {
            let _ = writeln!(script, "#SBATCH {directive}");
        }
    }
    let _ = write!(
        script,
        "#\n# Rendered by dlrun {}; `dlrun plan` explains every choice.\n",
        env!("CARGO_PKG_VERSION")
    );
    script.push_str("\n# The plan, for the record. dlrun takes it out of the command's environment.\n");
    let _ = writeln!(script, "export DLRUN_PLAN={}", quoted(&plan.to_json()));
    let _ = writeln!(script, "export DLRUN_STATE_DIR={}", quoted(&plan.state_dir));
    let _ = writeln!(script, "dlrun_exe={}", quoted(&plan.dlrun));
    script.push_str(IDENTITY);
    script.push_str(MARKS);
    script.push_str("\nmark start\n");
    environment(&mut script, plan);
    command(&mut script, plan);
    script.push_str(RUN);
    script
}

/// Who this run is. The batch shell fixes element, attempt and id once and hands them to every node.
const IDENTITY: &str = r#"[ -x "$dlrun_exe" ] || dlrun_exe=$(command -v dlrun)
dlrun_path=$PATH
export DLRUN_EXE=$dlrun_exe
export DLRUN_ELEMENT=${SLURM_ARRAY_TASK_ID:-0}
export DLRUN_ATTEMPT=${DLRUN_ATTEMPT:-${SLURM_RESTART_COUNT:-0}}
export DLRUN_JOB_ID=${SLURM_JOB_ID:-${DLRUN_JOB_ID:-}}
export DLRUN_NODE=${SLURMD_NODENAME:-$(uname -n)}
# A job that was submitted from inside a run is another run.
[ "${DLRUN_RUN_ID:-}" != "${DLRUN_INSIDE:-none}" ] || DLRUN_RUN_ID=
unset DLRUN_INSIDE
if [ -z "$DLRUN_RUN_ID" ] && [ -n "$dlrun_exe" ]; then
    # Came through `dlrun render`: this job gets its run id here, unless the state directory hangs.
    exec 9< <("$dlrun_exe" exec --mint < /dev/null)
    read -r -t 20 -u 9 DLRUN_RUN_ID
    exec 9<&-
fi
export DLRUN_RUN_ID
"#;

/// Marks of start and end. They are written in the background: a state directory that hangs holds nothing up.
const MARKS: &str = r#"
dlrun_marker=
mark() { # mark start | mark end CODE
    [ -n "$DLRUN_RUN_ID" ] || return 0
    local file=$DLRUN_STATE_DIR/runs/$DLRUN_RUN_ID/$DLRUN_ELEMENT.$DLRUN_ATTEMPT/$1.json exit_code=${2:-null}
    (
        umask 077
        PATH=$dlrun_path
        mkdir -p "${file%/*}" && printf '{"format":1,"at_ms":%s,"node":"%s","job_id":"%s","exit_code":%s}\n' \
            "$(date +%s%3N)" "$DLRUN_NODE" "$DLRUN_JOB_ID" "$exit_code" > "$file.part" &&
            sync "$file.part" && mv -T "$file.part" "$file"
    ) > /dev/null 2>&1 < /dev/null &
    dlrun_marker=$!
}
finish() { # finish CODE: marks the end, waits ten seconds for it at most, and ends the job
    trap '' TERM INT HUP QUIT USR1 USR2
    PATH=$dlrun_path
    mark end "$1"
    local tenths=0
    while [ -n "$dlrun_marker" ] && [ "$tenths" -lt 100 ] && kill -0 "$dlrun_marker" 2> /dev/null; do
        sleep 0.1
        tenths=$((tenths + 1))
    done
    exit "$1"
}
refuse() { # refuse CODE TEXT: this job cannot start
    echo "dlrun: error: $2" >&2
    finish "$1"
}
"#;

/// Starts the command, passes signals on and ends with its exit code. What follows a node's `exec` is the bare fallback.
const RUN: &str = r#"
# On each node: dlrun, which starts and watches the command; where it is missing, the bare command.
dlrun_node='
if [ -n "$DLRUN_EXE" ] && "$DLRUN_EXE" --version > /dev/null 2>&1; then exec "$DLRUN_EXE" exec -- "$@"; fi
echo "dlrun: warning: dlrun does not run on ${SLURMD_NODENAME:-$DLRUN_NODE}; the command runs without a record" >&2
unset DLRUN_PLAN DLRUN_STATE_DIR DLRUN_EXE DLRUN_ELEMENT DLRUN_ATTEMPT DLRUN_JOB_ID DLRUN_NODE
export DLRUN_INSIDE=$DLRUN_RUN_ID
exec "$@"'

dlrun_child=
dlrun_signalled=
for dlrun_signal in TERM INT HUP QUIT USR1 USR2; do
    trap "dlrun_signalled=$dlrun_signal; [ -z \"\$dlrun_child\" ] || kill -s $dlrun_signal \"\$dlrun_child\" 2> /dev/null" "$dlrun_signal"
done
"${dlrun_launch[@]}" /bin/sh -c "$dlrun_node" dlrun "${dlrun_command[@]}" &
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
finish "$dlrun_code"
"#;

/// Working directory, modules, variables, Python environment.
fn environment(script: &mut String, plan: &Plan) {
    let workdir = quoted(&plan.workdir);
    let _ =
        write!(script, "\ncd -- {workdir} || refuse 66 'the working directory is not there: '{workdir}\n");
    if !plan.modules.is_empty() {
        script.push_str(MODULES);
        for module in &plan.modules {
            let module = quoted(module);
            let _ = writeln!(script, "module load {module} || refuse 66 'module load failed: '{module}");
        }
    }
    if let Some(dir) = &plan.python_env {
        let bin = quoted(&format!("{dir}/bin"));
        let python = quoted(&format!("{dir}/bin/python"));
        let _ = write!(
            script,
            "\n[ -x {python} ] || refuse 66 'the Python environment is missing on this node: '{python}\n\
             export VIRTUAL_ENV={}\nexport PATH={bin}:\"$PATH\"\nunset PYTHONHOME\n",
            quoted(dir)
        );
    }
    script.push_str(
        "\n# Output line by line, so that epochs are seen when they end.\nexport PYTHONUNBUFFERED=1\n",
    );
    for variable in &plan.env {
        let _ = writeln!(script, "export {}={}", variable.name, quoted(&variable.value));
    }
    if let Some(file) = &plan.env_file {
        let _ = write!(script, "\ndlrun_env_file={}\n{ENV_FILE}", quoted(file));
    }
}

const MODULES: &str = r#"
if ! command -v module > /dev/null; then
    for dlrun_init in /etc/profile.d/lmod.sh /etc/profile.d/modules.sh /usr/share/lmod/lmod/init/bash \
        /usr/share/modules/init/bash; do
        [ -r "$dlrun_init" ] && . "$dlrun_init" && break
    done
fi
"#;

/// Reads `NAME=value` lines literally: no shell interprets the values.
const ENV_FILE: &str = r#"[ -r "$dlrun_env_file" ] || refuse 66 "the env_file cannot be read on this node"
case $(PATH=$dlrun_path stat -L -c %a "$dlrun_env_file") in
*00) ;;
*) refuse 77 "the env_file can be read by others; chmod 600 it" ;;
esac
while IFS= read -r dlrun_line || [ -n "$dlrun_line" ]; do
    case $dlrun_line in '' | '#'*) continue ;; esac
    case $dlrun_line in *=*) ;; *) refuse 78 "the env_file has a line that is not NAME=value" ;; esac
    case ${dlrun_line%%=*} in
    '' | [0-9]* | *[!A-Za-z0-9_]*) refuse 78 "the env_file has a line that is not NAME=value" ;;
    DLRUN_* | dlrun_* | BASH* | ENV | IFS | PATH | UID | EUID | PPID) refuse 78 "the env_file sets ${dlrun_line%%=*}, which is reserved" ;;
    esac
    export "${dlrun_line%%=*}=${dlrun_line#*=}"
done < "$dlrun_env_file"
"#;

fn command(script: &mut String, plan: &Plan) {
    script.push_str("\ndlrun_command=(\n");
    for word in &plan.command {
        let _ = writeln!(script, "    {}", quoted(word));
    }
    script.push_str(")\n");
    let launch = match plan.launcher {
        Launcher::Each if plan.scheduler == SchedulerKind::Slurm => {
            launch::srun_each(slurm::shape(plan), &format!("{}-%j.%n.out", plan.name))
        }
        _ => Vec::new(),
    };
    let words: Vec<String> = launch.iter().map(|word| quoted(word)).collect();
    let _ = writeln!(script, "dlrun_launch=({})", words.join(" "));
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::command::Tool;

    fn through_a_shell(text: &str) -> String {
        let script = format!("printf %s {}", quoted(text));
        Tool::new("bash").args(["-c", &script]).run().expect("bash runs").stdout
    }

    #[test]
    fn hostile_words_survive_a_shell() {
        for text in [
            "",
            "'",
            "''",
            "it's",
            "$(touch /tmp/x) `id` ${HOME} !! \\",
            "a\nb\n\n",
            "#PBS -l x",
            "é ü 漢",
            "-n",
        ] {
            assert_eq!(through_a_shell(text), text);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        #[test]
        fn any_text_survives_a_shell(text in "[^\0]{0,60}") {
            prop_assert_eq!(through_a_shell(&text), text);
        }
    }
}
