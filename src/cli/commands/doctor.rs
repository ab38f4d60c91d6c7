//! `dlrun doctor`: what works here and what does not.

use crate::app::doctor::{Examination, Level, examine};
use crate::app::error::{Error, Kind};
use crate::app::session::Session;
use crate::cli::table::{fitted, headed, one_line, table};
use crate::config::site::{NodeType, Queue, SiteModel, described};

/// Runs the verb.
pub(crate) fn run(session: &Session) -> Result<u8, Error> {
    let examination = examine(session);
    session.answer(&examination, &to_text(&examination))?;
    let has_failed = examination.worst == Level::Problem;
    Ok(if has_failed { Kind::Config as u8 } else { 0 })
}

fn to_text(examination: &Examination) -> String {
    let mut table = table();
    for finding in &examination.findings {
        let text = one_line(&finding.text);
        let level = format!("{:?}", finding.level).to_lowercase();
        table.add_row([&level, finding.check, &text]);
        if let Some(advice) = &finding.advice {
            table.add_row(["", "", &format!("  -> {}", one_line(advice))]);
        }
    }
    let mut text = fitted(table);
    if let Some(model) = &examination.site {
        for table in [queues_table(model), nodes_table(model)] {
            if !table.is_empty() {
                text.push_str(&format!("\n{table}"));
            }
        }
    }
    text
}

/// The items, or a word where there are none.
fn listed(items: &[String], none: &str) -> String {
    match items {
        [] => none.to_owned(),
        items => items.join(","),
    }
}

fn queues_table(model: &SiteModel) -> String {
    let row = |queue: &Queue| {
        let default = if queue.is_default { " (default)" } else { "" };
        let nodes = match (queue.min_nodes, queue.max_nodes) {
            (None, None) => "any number".to_owned(),
            (least, Some(most)) => format!("{} to {most}", least.unwrap_or(1)),
            (Some(least), None) => format!("{least} and more"),
        };
        let state = match (queue.is_up, queue.is_closed) {
            (_, true) => "closed",
            (true, false) => "up",
            (false, false) => "down",
        };
        let limit = queue.max_walltime.map(|most| most.to_string());
        [
            format!("{}{default}", queue.name),
            state.to_owned(),
            limit.unwrap_or_else(|| "none".to_owned()),
            nodes,
            listed(&queue.accounts, "all"),
        ]
    };
    let heads = ["QUEUE", "STATE", "TIME LIMIT", "NODES OF A JOB", "ACCOUNTS"];
    headed(heads, model.queues.iter().map(row))
}

fn nodes_table(model: &SiteModel) -> String {
    let row = |node: &NodeType| {
        [
            node.count.to_string(),
            node.up.to_string(),
            described(node),
            listed(&node.features, "-"),
            listed(&node.queues, "all"),
        ]
    };
    let heads = ["NODES", "UP", "EACH HAS", "FEATURES", "QUEUES"];
    headed(heads, model.nodes.iter().map(row))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::app::doctor::Finding;

    #[test]
    fn advice_is_below_its_finding_on_one_line() {
        let finding = |check, level, text: &str, advice: Option<&str>| Finding {
            check,
            level,
            text: text.to_owned(),
            advice: advice.map(str::to_owned),
        };
        let examination = Examination {
            worst: Level::Problem,
            findings: vec![
                finding("a", Level::Ok, "good", None),
                finding("b", Level::Problem, "bad\nline", Some("mend it")),
            ],
            site: None,
        };
        let text = to_text(&examination);
        let lines: Vec<&str> = text.lines().map(str::trim).collect();
        assert_eq!(
            lines,
            ["ok       a  good", "problem  b  bad line", "-> mend it"]
        );
    }
}
