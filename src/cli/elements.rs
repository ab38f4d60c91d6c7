//! Elements of arrays and attempts of runs, as rows and tables.

use std::collections::BTreeMap;

use crate::app::runs::Shown;
use crate::app::times::local_time;
use crate::app::track::Tracked;
use crate::cli::table::{Rows, fitted, headed, or_dash, table};
use crate::job::{ArraySpec, JobState};
use crate::record::{ExitStatus, signal_name};

/// Failed elements that are listed one by one; more are counted.
const SHOWN_SINGLY: usize = 20;

/// `37 of 100 over`, and one row for each state with its elements.
pub(crate) fn add_rows(tracked: &Tracked, rows: &mut Rows) {
    let Some(counts) = &tracked.status.elements else {
        return;
    };
    let over = format!("{} of {} over", counts.over(), counts.total);
    rows.add("elements", over);
    let mut by_state: BTreeMap<JobState, Vec<u32>> = BTreeMap::new();
    for element in &tracked.elements {
        let indexes = by_state.entry(element.status.state).or_default();
        indexes.push(element.element);
    }
    for (state, indexes) in by_state {
        rows.add(state.as_str(), ArraySpec::of(&indexes, None).to_string());
    }
}

/// The elements that failed, with exit and node.
pub(crate) fn failed_table(shown: &Shown) -> String {
    let failed = shown.failed_elements(SHOWN_SINGLY);
    if failed.is_empty() {
        return String::new();
    }
    let rows = failed.iter().take(SHOWN_SINGLY).map(|(element, node)| {
        [
            element.element.to_string(),
            element.status.state.to_string(),
            or_dash(element.status.exit.map(exit_text)),
            or_dash(node.as_deref()),
            or_dash(element.status.ended_at_ms.map(local_time)),
        ]
    });
    let table = headed(["ELEMENT", "STATE", "EXIT", "NODE", "ENDED"], rows);
    match failed.len().saturating_sub(SHOWN_SINGLY) {
        0 => format!("\n{table}"),
        more => format!("\n{table}and {more} more\n"),
    }
}

/// The attempts as a table; nothing where there was only one.
pub(crate) fn attempts_table(shown: &Shown) -> String {
    let Shown {
        attempts, tracked, ..
    } = shown;
    let is_first = attempts.iter().all(|one| one.attempt.unwrap_or(0) == 0);
    // One that waits for its second start has had one.
    if is_first && tracked.all_starts.is_none() {
        return String::new();
    }
    // What only starts of a run with `[resume]` have.
    let more: &[&str] = match attempts.iter().any(|one| one.record.is_some()) {
        true => &["VERDICT", "NEXT", "FROM", "SAVED IN"],
        false => &[],
    };
    let known = attempts.iter().enumerate().filter_map(|(place, one)| {
        let (element, number) = (one.element?, one.attempt? + 1);
        let next = attempts.get(place + 1).and_then(|next| next.element);
        let how = match one.exit {
            Some(exit) => match one.asked_to_end() {
                Some(why) => format!("{}: {why}", exit_text(exit)),
                None => exit_text(exit),
            },
            None if next == Some(element) => "killed, and restarted".to_owned(),
            None => tracked.status.state.to_string(),
        };
        let name = match tracked.record.array {
            Some(_) => format!("{number} of element {element}"),
            None => number.to_string(),
        };
        let (started, ended) = (one.started_at_ms, one.ended_at_ms);
        let nodes = one.record.as_ref().and_then(|record| record.nodes);
        let marks = [
            name,
            or_dash(started.map(local_time)),
            or_dash(ended.map(local_time)),
            how,
            or_dash(one.node.as_ref().map(|node| match nodes {
                Some(nodes) if nodes > 1 => format!("{node} and {} more", nodes - 1),
                _ => node.clone(),
            })),
        ];
        let noted = one.noted().map(or_dash).into_iter().take(more.len());
        Some(marks.into_iter().chain(noted))
    });
    let mut table = table();
    let marks = ["ATTEMPT", "STARTED", "ENDED", "HOW", "NODE"];
    table.set_header(marks.iter().chain(more)).add_rows(known);
    format!("\n{}", fitted(table))
}

/// `exit code 3`, or `SIGTERM, exit code 143`.
pub(crate) fn exit_text(exit: ExitStatus) -> String {
    match exit {
        ExitStatus::Code(code) => format!("exit code {code}"),
        ExitStatus::Signal(signal) => {
            format!("{}, exit code {}", signal_name(signal), 128 + signal)
        }
    }
}
