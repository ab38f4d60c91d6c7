//! The plan as text for people.

use std::fmt::Write as _;

use super::Plan;
use super::arguments::{About, about};
use super::candidate_text::table;
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
    let sentence = |shown: &mut String, text: &str| wrapped(shown, &reason, 2, text, columns);
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
            sentence(&mut shown, &format!("because {}", decision.why));
        }
        for rejected in &decision.rejected {
            sentence(
                &mut shown,
                &format!("not {}: {}", rejected.value, rejected.why),
            );
        }
    }
    shown.push_str(&table(&plan.ways));
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
        texts
            .iter()
            .for_each(|text| wrapped(&mut shown, kind, 0, text, columns));
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

/// Adds a text in lines of up to `columns` characters, broken between words. The first begins with `head`, the others stand under
/// what follows it, and `further` blanks in.
fn wrapped(shown: &mut String, head: &str, further: usize, text: &str, columns: usize) {
    let indent = head.chars().count() + further;
    let mut line = head.to_owned();
    let mut used = head.chars().count();
    let mut is_begun = false;
    for word in text.split(' ') {
        let length = word.chars().count();
        if is_begun && used + 1 + length > columns {
            let _ = writeln!(shown, "{}", line.trim_end());
            (line, used, is_begun) = (" ".repeat(indent), indent, false);
        }
        if is_begun {
            line.push(' ');
            used += 1;
        }
        line.push_str(word);
        used += length;
        is_begun = true;
    }
    let _ = writeln!(shown, "{line}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences_are_broken_between_words_and_hang() {
        let wrap = |text: &str| {
            let mut shown = String::new();
            wrapped(&mut shown, "note: ", 2, text, 20);
            shown
        };
        assert_eq!(wrap("one two"), "note: one two\n");
        assert_eq!(
            wrap("one two three four"),
            "note: one two three\n        four\n"
        );
        assert_eq!(wrap("ä é ü ö å ø æ œ"), "note: ä é ü ö å ø æ\n        œ\n");
        let long = "/a/path/that/is/longer/than/a/line";
        assert_eq!(
            wrap(&format!("a {long} b")),
            format!("note: a\n        {long}\n        b\n")
        );
        assert_eq!(wrap("a  b"), "note: a  b\n", "blanks stay");
        assert_eq!(wrap(""), "note: \n");
    }
}
