//! The plan as text for people.

use std::fmt::Write as _;

use super::Plan;
use super::candidate::table;

/// Every choice with its reason, one paragraph each, then notes and warnings.
#[must_use]
pub fn describe(plan: &Plan) -> String {
    let width = plan.decisions.iter().map(|decision| decision.what.len()).max().unwrap_or(0);
    let mut shown = format!("plan for {}\n", plan.job_file);
    for decision in &plan.decisions {
        // The reason stands beside a short value and below a long one.
        if decision.value.len() + decision.why.len() < 80 {
            let _ = writeln!(shown, "  {:width$}  {}  ({})", decision.what, decision.value, decision.why);
        } else {
            let _ = writeln!(shown, "  {:width$}  {}", decision.what, decision.value);
            let _ = writeln!(shown, "  {:width$}    because {}", "", decision.why);
        }
        for rejected in &decision.rejected {
            let _ = writeln!(shown, "  {:width$}    not {}: {}", "", rejected.value, rejected.why);
        }
    }
    shown.push_str(&table(&plan.ways));
    let _ = writeln!(shown, "  {:width$}  {}", "workdir", plan.workdir);
    for variable in &plan.env {
        let _ = writeln!(shown, "  {:width$}  {}={:?}", "env", variable.name, variable.value);
    }
    if let Some(env_file) = &plan.env_file {
        let _ = writeln!(shown, "  {:width$}  {env_file} (read on the node)", "env_file");
    }
    if !plan.modules.is_empty() {
        let _ = writeln!(shown, "  {:width$}  {}", "modules", plan.modules.join(" "));
    }
    let _ = writeln!(shown, "  {:width$}  {}", "records", plan.state_dir);
    for note in &plan.notes {
        let _ = writeln!(shown, "note: {note}");
    }
    for warning in &plan.warnings {
        let _ = writeln!(shown, "warning: {warning}");
    }
    shown
}
