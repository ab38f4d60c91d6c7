//! Whether the modules of a job load here, before it waits for hours.

use std::time::Duration;

use crate::foundation::command::{CommandError, Tool};
use crate::scheduler::script::module_words;

/// How long all modules together may take: a hanging profile must not hold `dlrun check`.
const PATIENCE: Duration = Duration::from_secs(20);
/// The script's exit code where this machine has no `module`.
const NO_MODULE: i32 = 97;
/// Its arguments are, for each module, how many words follow, its name and the words of `module`. Names the first that fails.
/// No shell reads them. Older versions of Environment Modules report a failure on standard error alone.
const SCRIPT: &str = r#"
if ! command -v module > /dev/null; then
    for init in /etc/profile.d/lmod.sh /etc/profile.d/modules.sh /usr/share/lmod/lmod/init/bash \
        /usr/share/modules/init/bash; do
        [ ! -r "$init" ] || . "$init"
    done
fi
command -v module > /dev/null || exit 97
while [ $# -gt 0 ]; do
    count=$1 name=$2
    shift 2
    said=$(module "${@:1:count}" 2>&1)
    code=$?
    case $said in *:ERROR:*) code=1 ;; esac
    [ "$code" -eq 0 ] || { printf '%s\n%s' "$name" "$said"; exit 98; }
    module "${@:1:count}" > /dev/null 2>&1
    shift "$count"
done
"#;

/// What came of it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Loaded {
    Yes,
    /// The module that does not load, and what was said.
    No {
        module: String,
        said: String,
    },
    /// It could not be tried, and why.
    Unknown(&'static str),
}

/// Tries to load modules in a login shell of their own, one after the other.
pub(crate) fn load(modules: &[String]) -> Loaded {
    let mut words = ["-l", "-c", SCRIPT, "bash"].map(str::to_owned).to_vec();
    for module in modules {
        let own = module_words(module);
        words.extend([own.len().to_string(), module.clone()]);
        words.extend(own.into_iter().map(str::to_owned));
    }
    match Tool::new("bash").args(words).timeout(PATIENCE).run() {
        Ok(output) if output.status.success() => Loaded::Yes,
        Ok(output) if output.status.code() == Some(NO_MODULE) => {
            Loaded::Unknown("this machine has no `module`")
        }
        Ok(output) if output.status.code() == Some(98) => {
            let text = output.stdout;
            // What the profile prints stands before.
            let named = |line: &str| modules.iter().any(|module| module == line);
            let mut lines = text.lines().skip_while(|line| !named(line));
            let module = lines.next().unwrap_or_default().to_owned();
            let said = lines.map(str::trim).filter(|line| !line.is_empty()).take(3);
            Loaded::No {
                module,
                said: said.collect::<Vec<_>>().join("; "),
            }
        }
        Err(CommandError::TimedOut { .. }) => Loaded::Unknown("loading them took too long"),
        _ => Loaded::Unknown("the login shell failed"),
    }
}
