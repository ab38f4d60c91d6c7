//! Elements of arrays and attempts of runs, as tables.

use std::collections::BTreeMap;

use crate::app::runs::Shown;
use crate::app::times::local_time;
use crate::app::track::Tracked;
use crate::cli::table::{rendered, table};
use crate::job::{ArraySpec, JobState};
use crate::record::{ExitStatus, signal_name};

/// Elements that ended badly and are told one by one; more are counted.
const SHOWN_SINGLY: usize = 20;

/// `37 of 100 over`, and one row for each state with its elements.
pub(crate) fn rows(tracked: &Tracked, row: &mut impl FnMut(&str, String)) {
    let Some(counts) = &tracked.status.elements else {
        return;
    };
    row(
        "elements",
        format!("{} of {} over", counts.over(), counts.total),
    );
    let mut by_state: BTreeMap<JobState, Vec<u32>> = BTreeMap::new();
    for element in &tracked.elements {
        by_state
            .entry(element.status.state)
            .or_default()
            .push(element.element);
    }
    for (state, indexes) in by_state {
        row(state.as_str(), ArraySpec::of(&indexes, None).to_string());
    }
}

/// The elements that ended badly, with exit and node.
pub(crate) fn failed_table(shown: &Shown) -> String {
    let failed = shown.failed_elements(SHOWN_SINGLY);
    if failed.is_empty() {
        return String::new();
    }
    let mut table = table();
    table.set_header(["ELEMENT", "STATE", "EXIT", "NODE", "ENDED"]);
    for (element, node) in failed.iter().take(SHOWN_SINGLY) {
        table.add_row([
            element.element.to_string(),
            element.status.state.to_string(),
            element.status.exit.map_or_else(dash, exit_text),
            node.clone().unwrap_or_else(dash),
            element.status.ended_at_ms.map_or_else(dash, local_time),
        ]);
    }
    let more = match failed.len().saturating_sub(SHOWN_SINGLY) {
        0 => String::new(),
        more => format!("and {more} more\n"),
    };
    format!("\n{}{more}", rendered(table))
}

fn dash() -> String {
    "-".to_owned()
}

/// The attempts as a table; nothing where there was only one.
pub(crate) fn attempts_table(
    Shown {
        attempts, tracked, ..
    }: &Shown,
) -> String {
    if attempts
        .iter()
        .all(|one| one.attempt.is_none_or(|attempt| attempt == 0))
    {
        return String::new();
    }
    let mut table = table();
    table.set_header(["ATTEMPT", "STARTED", "ENDED", "HOW", "NODE"]);
    for (place, one) in attempts.iter().enumerate() {
        let (Some(element), Some(attempt)) = (one.element, one.attempt) else {
            continue;
        };
        let next = attempts.get(place + 1).and_then(|next| next.element);
        let name = (attempt + 1).to_string();
        let how = match one.exit {
            Some(exit) => exit_text(exit),
            None if next == Some(element) => "killed, and restarted".to_owned(),
            None => tracked.status.state.to_string(),
        };
        table.add_row([
            if tracked.record.array.is_some() {
                format!("{name} of element {element}")
            } else {
                name
            },
            one.started_at_ms.map_or_else(dash, local_time),
            one.ended_at_ms.map_or_else(dash, local_time),
            how,
            one.node.clone().unwrap_or_else(dash),
        ]);
    }
    format!("\n{}", rendered(table))
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
