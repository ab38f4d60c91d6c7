//! `dlrun doctor`: what works here and what does not.

use crate::app::doctor::{Examination, Level, examine};
use crate::app::error::{Error, Kind};
use crate::app::session::Session;
use crate::cli::table::{fitted, table};
use crate::config::site::{Queue, SiteModel, described};
use crate::foundation::diagnostic::printable;

/// Runs the verb.
pub(crate) fn run(session: &Session) -> Result<u8, Error> {
    let examination = examine(session);
    session.answer(&examination, &to_text(&examination))?;
    Ok(if examination.worst == Level::Problem {
        Kind::Config as u8
    } else {
        0
    })
}

fn to_text(examination: &Examination) -> String {
    let mut table = table();
    for finding in &examination.findings {
        table.add_row([
            finding.level.word(),
            finding.check,
            &one_line(&finding.text),
        ]);
        if let Some(advice) = &finding.advice {
            table.add_row(["", "", &format!("  -> {}", one_line(advice))]);
        }
    }
    let tables = examination
        .site
        .as_ref()
        .map(site_tables)
        .filter(|tables| !tables.is_empty());
    fitted(table)
        + &tables
            .map(|tables| format!("\n{tables}"))
            .unwrap_or_default()
}

fn one_line(text: &str) -> String {
    printable(text).replace('\n', " ")
}

/// Queues and kinds of nodes as two tables.
fn site_tables(model: &SiteModel) -> String {
    let mut shown = String::new();
    if !model.queues.is_empty() {
        let mut queues = table();
        queues.set_header(["QUEUE", "STATE", "TIME LIMIT", "NODES OF A JOB", "ACCOUNTS"]);
        for queue in &model.queues {
            queues.add_row(queue_row(queue));
        }
        shown.push_str(&fitted(queues));
    }
    if !model.nodes.is_empty() {
        let mut nodes = table();
        nodes.set_header(["NODES", "UP", "EACH HAS", "FEATURES", "QUEUES"]);
        for node in &model.nodes {
            let queues = if node.queues.is_empty() {
                "all".to_owned()
            } else {
                node.queues.join(",")
            };
            let features = if node.features.is_empty() {
                "-".to_owned()
            } else {
                node.features.join(",")
            };
            nodes.add_row([
                node.count.to_string(),
                node.up.to_string(),
                described(node),
                features,
                queues,
            ]);
        }
        shown.push('\n');
        shown.push_str(&fitted(nodes));
    }
    shown
}

fn queue_row(queue: &Queue) -> [String; 5] {
    let name = if queue.is_default {
        format!("{} (default)", queue.name)
    } else {
        queue.name.clone()
    };
    let nodes = match (queue.min_nodes, queue.max_nodes) {
        (None, None) => "any number".to_owned(),
        (least, Some(most)) => format!("{} to {most}", least.unwrap_or(1)),
        (Some(least), None) => format!("{least} and more"),
    };
    let limit = queue
        .max_walltime
        .map_or_else(|| "none".to_owned(), |most| most.to_string());
    let accounts = if queue.accounts.is_empty() {
        "all".to_owned()
    } else {
        queue.accounts.join(",")
    };
    let state = match (queue.is_up, queue.is_closed) {
        (_, true) => "closed",
        (true, false) => "up",
        (false, false) => "down",
    };
    [name, state.to_owned(), limit, nodes, accounts]
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
