//! What runs around the command: steps of rules before and after it, and the build.

use std::fmt::Write as _;

use super::{build, quoted_words};
use crate::launch::{Plan, Step};

/// Steps before the command, and the build, in the environment of the job.
pub(super) fn before(script: &mut String, plan: &Plan) {
    if plan.prologue.is_empty() && plan.epilogue.is_empty() && plan.build.is_none() {
        return;
    }
    script.push_str(AROUND);
    script.push_str("epilogue_steps() {\n    :\n");
    for step in &plan.epilogue {
        let _ = writeln!(script, "    epilogue_step {}", words(step));
    }
    script.push_str("}\n");
    if plan.prologue.is_empty() && plan.build.is_none() {
        return;
    }
    script.push_str(BEFORE);
    for step in &plan.prologue {
        let _ = writeln!(script, "prologue_step {}", words(step));
    }
    if let Some(source) = &plan.build {
        build::build(script, source, plan.image.is_some());
    }
    script.push_str("asked_to_end\n");
}

/// Steps after the command.
pub(super) fn after_command(script: &mut String, plan: &Plan) {
    if !plan.epilogue.is_empty() {
        script.push_str("epilogue \"$dlrun_code\"\n");
    }
}

fn words(step: &Step) -> String {
    quoted_words(std::iter::once(&step.rule).chain(&step.command))
}

/// A step is a program: `exec` in a separate shell takes no builtin and no function.
const AROUND: &str = r#"
own() { # own WORD...: a program of the system, whatever the job makes of PATH
    PATH=$dlrun_path "$@"
}
dlrun_asked= # signals that this job got
epilogue_step() { # epilogue_step RULE WORD...
    local rule=$1 code
    shift
    (trap - TERM INT HUP QUIT && exec "$@")
    code=$?
    [ "$code" = 0 ] || echo "dlrun: warning: an epilogue step of rule $rule failed with exit code $code: $*" >&2
}
epilogue() { # epilogue CODE: however the command ended; where the job is to end, in ten seconds
    local child tenths=0
    trap 'dlrun_asked+=" TERM"' TERM INT HUP QUIT
    trap '' USR1 USR2
    # Slurm signals the command alone at the time limit, and kills all of the job half a minute later.
    case $1 in 129 | 130 | 131 | 143) dlrun_asked+=" TERM" ;; esac
    (
        trap '' TERM INT HUP QUIT
        epilogue_steps
    ) < /dev/null &
    child=$!
    while kill -0 "$child" 2> /dev/null; do
        case $dlrun_asked in
        *TERM* | *INT* | *HUP* | *QUIT*)
            # The mark comes first: there may be no time for it later. It is written once.
            if [ "$tenths" = 0 ]; then
                mark end "$1"
                mark() { :; }
            fi
            if [ "$tenths" -ge 100 ]; then
                echo "dlrun: warning: the job is to end, and its epilogue takes longer than ten seconds: it is cut short" >&2
                kill -s KILL "$child" 2> /dev/null
                break
            fi
            own sleep 0.1
            tenths=$((tenths + 1))
            ;;
        *) wait "$child" ;;
        esac
    done
}
"#;

const BEFORE: &str = r#"dlrun_lock=
dlrun_beat=
leave() { # leave CODE: this job ends before its command
    [ -z "$dlrun_beat" ] || kill "$dlrun_beat" 2> /dev/null
    [ -z "$dlrun_lock" ] || own rm -rf "$dlrun_lock"
    epilogue "$1"
    # What PBS's launchers were to use.
    [ -z "${dlrun_dir:-}" ] || own rm -rf -- "$dlrun_dir"
    finish "$1"
}
give_up() { # give_up CODE TEXT
    echo "dlrun: error: $2" >&2
    leave "$1"
}
dlrun_child=
for dlrun_signal in TERM INT HUP QUIT; do
    trap "dlrun_asked+=\" $dlrun_signal\"; [ -z \"\$dlrun_child\" ] || kill -s $dlrun_signal \"\$dlrun_child\" 2> /dev/null" "$dlrun_signal"
done
# They are meant for the command.
trap : USR1 USR2 ALRM VTALRM PROF XCPU IO PWR STKFLT
attend() { # attend DIR WORD...: runs a program in a directory, without input; signals are passed on to it
    local dir=$1 code
    shift
    (trap - TERM INT HUP QUIT USR1 USR2 && cd -- "$dir" && exec "$@") < /dev/null &
    dlrun_child=$!
    # A trapped signal ends `wait` early, with a code of its own.
    while :; do
        wait "$dlrun_child"
        code=$?
        kill -0 "$dlrun_child" 2> /dev/null || break
    done
    if [ "$code" -gt 128 ]; then
        wait "$dlrun_child"
        code=$?
    fi
    dlrun_child=
    asked_to_end
    return "$code"
}
asked_to_end() { # leaves where the job was asked to end
    [ -n "$dlrun_asked" ] || return 0
    local last=${dlrun_asked##* }
    echo "dlrun: error: the job got SIG$last before its command began" >&2
    leave $((128 + $(kill -l "$last")))
}
prologue_step() { # prologue_step RULE WORD...
    local rule=$1 code
    shift
    attend . "$@"
    code=$?
    [ "$code" = 0 ] || give_up "$code" "a prologue step of rule $rule failed with exit code $code: $*"
}
"#;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::foundation::command::Tool;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        #[test]
        fn the_words_of_a_step_reach_its_program_byte_for_byte(
            texts in proptest::collection::vec("[^\\x00\\x01]{0,20}", 0..4),
        ) {
            let mut command = vec!["printf".to_owned(), "%s\\001".to_owned(), "x".to_owned()];
            command.extend(texts.iter().cloned());
            let step = Step { command, rule: "it's".to_owned() };
            let script = format!("{AROUND}{BEFORE}prologue_step {}\n", words(&step));
            let found = Tool::new("bash").args(["-c", &script]).run().expect("bash runs").stdout;
            let expected: String = std::iter::once("x").chain(texts.iter().map(|text| &text[..])).map(|text| format!("{text}\u{1}")).collect();
            prop_assert_eq!(found, expected);
        }
    }
}
