//! `dlrun completions`: the completion script of a shell.

use clap::{Command, CommandFactory};
use clap_complete::Shell;
use serde::Serialize;

use crate::app::error::Error;
use crate::app::output::Output;
use crate::cli::args::{Cli, Completions};

/// The completions of a shell.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct CompletionScript {
    shell: String,
    script: String,
}

/// Runs the verb.
pub(crate) fn run(output: Output, args: &Completions) -> Result<u8, Error> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut offered(), "dlrun", &mut script);
    let answer = CompletionScript {
        shell: args.shell.to_string(),
        script: with_words(args.shell, &String::from_utf8_lossy(&script)),
    };
    output.document(&answer, &answer.script)
}

/// Adds runs, images and keys of the job file, which `dlrun words` lists. Other shells complete verbs and options.
fn with_words(shell: Shell, script: &str) -> String {
    match shell {
        Shell::Bash => format!("{script}{BASH}"),
        Shell::Fish => format!("{script}{FISH}"),
        Shell::Zsh => {
            let line = |line: &str| {
                let is_of = |names: &[&str]| names.iter().any(|name| line.contains(name));
                let kind = if is_of(&[":run -- ", ":runs -- ", "--run="]) {
                    "runs"
                } else if is_of(&["--set="]) {
                    "keys"
                } else if is_of(&[":name -- Its name in the catalogue", ":images -- "]) {
                    "images"
                } else {
                    return format!("{line}\n");
                };
                let (head, _) = line.rsplit_once(":_").unwrap_or((line, ""));
                format!("{head}:_dlrun_{kind}' \\\n")
            };
            let lines: String = script.lines().map(line).collect();
            match lines.split_once('\n') {
                Some((first, rest)) => format!("{first}\n{ZSH}{rest}"),
                None => lines,
            }
        }
        _ => script.to_owned(),
    }
}

/// Takes the place of the generated function, which it calls.
const BASH: &str = r#"
_dlrun_with_words() {
    _dlrun "$@"
    local cur=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} kind=
    case ${COMP_WORDS[1]} in
    show | report | logs | wait | cancel | scale | prune) kind=runs ;;
    image) [ "$COMP_CWORD" -lt 3 ] || kind=images ;;
    esac
    case $before in
    --run) kind=runs ;;
    --set) kind=keys; compopt -o nospace 2> /dev/null ;;
    -*) kind= ;;
    esac
    # Without a word every option fits, and bash would write their first letter instead of offering files.
    [[ -n $cur$kind || $before = -* ]] || case ${COMP_WORDS[1]} in
    submit | check | plan | render | convert | timings | explain | import) COMPREPLY=() ;;
    esac
    [ "$COMP_CWORD" -gt 1 ] && [ -n "$kind" ] && [[ $cur != -* ]] || return 0
    COMPREPLY=()
    # `compgen -W` would expand the words.
    local word
    while IFS= read -r word; do
        [[ $word != "$cur"* ]] || COMPREPLY+=("$word")
    done < <("${COMP_WORDS[0]}" words "$kind" 2> /dev/null)
}
complete -F _dlrun_with_words -o bashdefault -o default dlrun
"#;

const ZSH: &str = r#"
_dlrun_runs() { local -a words; words=(${(f)"$(dlrun words runs 2> /dev/null)"}); compadd -a words }
_dlrun_keys() { local -a words; words=(${(f)"$(dlrun words keys 2> /dev/null)"}); compadd -S '' -a words }
_dlrun_images() { local -a words; words=(${(f)"$(dlrun words images 2> /dev/null)"}); compadd -a words }
"#;

const FISH: &str = r#"
complete -c dlrun -n "__fish_seen_subcommand_from show report logs wait cancel scale prune" -f -a "(dlrun words runs 2> /dev/null)"
complete -c dlrun -n "__fish_seen_subcommand_from image" -a "(dlrun words images 2> /dev/null)"
complete -c dlrun -l set -x -a "(dlrun words keys 2> /dev/null)"
"#;

/// The command without its inner verbs: the generators would offer hidden ones too.
fn offered() -> Command {
    let root = Cli::command();
    let verbs = root
        .get_subcommands()
        .filter(|verb| !verb.is_hide_set())
        .cloned();
    let bare = Command::new("dlrun")
        .version(env!("CARGO_PKG_VERSION"))
        .disable_help_subcommand(true);
    bare.args(root.get_arguments().cloned())
        .subcommands(verbs.collect::<Vec<_>>())
}
