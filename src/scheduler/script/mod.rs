//! The batch script: readable, self-contained, the same bytes whenever it is rendered from the same plan.
//!
//! Directives stand one on a line before any shell; everything from the user comes after them inside single quotes,
//! where a shell interprets nothing. The script's own variables begin with `dlrun_`, so that none of the user's or the
//! site's is lost, and its own programs are found whatever the job makes of `PATH`. It needs bash and coreutils, and dlrun
//! only for the record: where it is missing, the bare command runs.

mod build;
mod environment;
mod identity;
mod launch;
mod resume;
mod steps;

use std::fmt::Write as _;

pub(super) use environment::read_env_file;
pub(super) use identity::{DEFAULT_IDENTITY, MINT};
pub(super) use launch::quoted_words;

use crate::job::RunId;
use crate::launch::Plan;

use super::adapter_for;

/// `text` as one word of bash: in single quotes, each single quote as `'\''`. NUL cannot occur in a job file.
///
/// No line of it begins with `#`: `sbatch` obeys `#PBS` lines wherever they stand in a script (22.05), be it within quotes.
/// None ends with CR: `sbatch` refuses such a script.
#[must_use]
pub fn quoted(text: &str) -> String {
    format!(
        "'{}'",
        text.replace('\'', "'\\''")
            .replace("\n#", "\n''#")
            .replace("\r\n", "'$'\\r''\n")
    )
}

/// Renders the batch script of a plan. It names no run, so that it is the same whenever it is rendered.
#[must_use]
pub fn render(plan: &Plan) -> String {
    rendered(plan, "")
}

/// The same script for a run: with a line more, which names it. The run's own copy of the script has that line too.
#[must_use]
pub fn render_for_run(plan: &Plan, run_id: &RunId) -> String {
    rendered(plan, &naming(run_id))
}

/// The first line of a script that its shell reads in privileged mode.
pub(super) const PRIVILEGED: &str = "#!/bin/bash -p";

/// What a script says of its run.
pub(super) fn naming(run_id: &RunId) -> String {
    format!("\nexport DLRUN_RUN_ID={run_id}\n")
}

fn rendered(plan: &Plan, identity: &str) -> String {
    // `-p`: neither BASH_ENV, SHELLOPTS nor functions of the submitting shell change what the script does. Modules and conda may need these,
    // and PBS starts the shell by itself.
    let is_started_by_line = plan.scheduler.has_steps() || plan.scheduler.is_local();
    let is_privileged = is_started_by_line && plan.modules.is_empty() && plan.conda.is_none();
    let first = if is_privileged {
        PRIVILEGED
    } else {
        "#!/bin/bash"
    };
    let mut script = format!("{first}\n");
    let adapter = adapter_for(plan.scheduler);
    let (prefix, directives) = adapter.directives(plan);
    for directive in directives {
        let _ = writeln!(script, "{prefix} {directive}");
    }
    let _ = write!(
        script,
        "#\n# Rendered by dlrun {}; `dlrun plan` explains every choice.\n",
        env!("CARGO_PKG_VERSION")
    );
    script.push_str(identity);
    script.push_str(
        "\n# The plan, for the record. dlrun takes it out of the command's environment.\n",
    );
    let _ = writeln!(script, "export DLRUN_PLAN={}", quoted(&plan.to_json()));
    let _ = writeln!(script, "export DLRUN_STATE_DIR={}", quoted(&plan.state_dir));
    let _ = writeln!(script, "dlrun_exe={}", quoted(&plan.dlrun));
    script.push_str(&adapter.identity(plan));
    script.push_str(&identity::MARKS.replace("@AGAIN@", resume::in_finish(plan)));
    script.push_str("\nmark start\n");
    resume::begin(&mut script, plan);
    environment::environment(&mut script, plan);
    launch::command(&mut script, plan);
    steps::before(&mut script, plan);
    script.push_str(&launch::run(plan));
    steps::after_command(&mut script, plan);
    let after = adapter.after_command(plan);
    let why = if after.is_empty() {
        ""
    } else {
        " \"$dlrun_why\""
    };
    let _ = writeln!(script, "{after}finish \"$dlrun_code\"{why}");
    script
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::foundation::command::Tool;

    fn through_a_shell(text: &str) -> String {
        let script = format!("printf %s {}", quoted(text));
        Tool::new("bash")
            .args(["-c", &script])
            .run()
            .expect("bash runs")
            .stdout
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
            "two\n#PBS -q nowhere\n\n#SBATCH -N9\n#",
            "é ü 漢",
            "-n",
            "a\r\nb\r\n\r\n#c\r",
        ] {
            assert_eq!(through_a_shell(text), text);
            assert!(
                !quoted(text).lines().any(|line| line.starts_with('#')),
                "{text}"
            );
            assert!(!quoted(text).contains("\r\n"), "{text:?}");
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
