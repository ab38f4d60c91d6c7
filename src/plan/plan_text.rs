//! The plan as text for people.

use std::fmt::Write as _;

use super::Plan;
use super::arguments::{About, about};
use crate::foundation::diagnostic::folded;
use crate::job::EnvVar;

/// The fewest columns that text is wrapped into.
const NARROWEST: usize = 40;

/// Every choice with its reason, one paragraph each, then notes and warnings; sentences in lines of up to `columns` characters.
#[must_use]
pub fn describe(plan: &Plan, columns: usize) -> String {
    let width = plan
        .decisions
        .iter()
        .map(|decision| decision.what.len())
        .max()
        .unwrap_or(0);
    let columns = columns.max(width + NARROWEST);
    let mut shown = format!("plan for {}\n", plan.job_file);
    for text in &plan.overrides {
        let _ = writeln!(shown, "  with {text}");
    }
    // Behind the names; reasons stand four blanks further in, and go on six further in.
    let reason = format!("  {:width$}    ", "");
    let sentence = |text: &str| folded(&format!("{reason}{text}"), columns);
    for decision in &plan.decisions {
        // The reason is beside a short value and below a long one.
        if decision.value.len() + decision.why.len() < 80.min(columns - width - 8) {
            let _ = writeln!(
                shown,
                "  {:width$}  {}  ({})",
                decision.what, decision.value, decision.why
            );
        } else {
            // A command is copied: it stays in one line.
            let _ = writeln!(shown, "  {:width$}  {}", decision.what, decision.value);
            shown.push_str(&sentence(&format!("because {}", decision.why)));
        }
        for rejected in &decision.rejected {
            let why = format!("not {}: {}", rejected.value, rejected.why);
            shown.push_str(&sentence(&why));
        }
    }
    let _ = writeln!(shown, "  {:width$}  {}", "workdir", plan.workdir);
    let _ = writeln!(shown, "  {:width$}  {}", "output", plan.output_pattern());
    for variable in &plan.env {
        let value = if is_secret(variable) {
            HIDDEN.to_owned()
        } else {
            format!("{:?}", variable.value)
        };
        let _ = writeln!(shown, "  {:width$}  {}={value}", "env", variable.name);
    }
    if let Some(env_file) = &plan.env_file {
        let _ = writeln!(
            shown,
            "  {:width$}  {env_file} (read on the node)",
            "env_file"
        );
    }
    if !plan.modules.is_empty() {
        let _ = writeln!(shown, "  {:width$}  {}", "modules", plan.modules.join(" "));
    }
    let _ = writeln!(shown, "  {:width$}  {}", "records", plan.state_dir);
    for (kind, texts) in [("note: ", &plan.notes), ("warning: ", &plan.warnings)] {
        for text in texts {
            shown.push_str(&folded(&format!("{kind}{text}"), columns));
        }
    }
    shown
}

/// Stands for a value that looks like a password or a key.
pub const HIDDEN: &str = "(not shown; `run.env_file` keeps secrets out of the script)";

/// Whether a variable's name says that its value is a secret.
#[must_use]
pub fn is_secret(variable: &EnvVar) -> bool {
    about(&format!("${}", variable.name), Some(&variable.value)) == About::Secret
}
