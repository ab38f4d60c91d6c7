//! Elements of arrays and attempts of runs, for people and for programs.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::app::times::local_time;
use crate::app::track::Tracked;
use crate::cli::summary::exit_text;
use crate::cli::table::{rendered, table};
use crate::job::{ArraySpec, JobState};
use crate::record::rundir::{Attempt, Reading, RunDir};
use crate::record::{Element, Sentinel};

/// Elements that ended badly and are told one by one; more are counted.
const TOLD_SINGLY: usize = 20;

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

/// The elements that ended badly, with exit and node: those are in the marks of each.
pub(crate) fn bad_ones(tracked: &Tracked, run: &RunDir) -> String {
    let is_bad = |element: &&Element| {
        element.status.state.is_final() && element.status.state != JobState::Completed
    };
    let bad: Vec<&Element> = tracked.elements.iter().filter(is_bad).collect();
    if bad.is_empty() {
        return String::new();
    }
    let mut table = table();
    table.set_header(["ELEMENT", "STATE", "EXIT", "NODE", "ENDED"]);
    for element in bad.iter().take(TOLD_SINGLY) {
        let attempt = element.attempt.map(|attempt| Attempt {
            element: element.element,
            attempt,
        });
        let node = attempt.and_then(|attempt| node_of(&run.marks(attempt)));
        table.add_row([
            element.element.to_string(),
            element.status.state.to_string(),
            element.status.exit.map_or_else(dash, exit_text),
            node.unwrap_or_else(dash),
            element.status.ended_at_ms.map_or_else(dash, local_time),
        ]);
    }
    let more = match bad.len().saturating_sub(TOLD_SINGLY) {
        0 => String::new(),
        more => format!("and {more} more\n"),
    };
    format!("\n{}{more}", rendered(table))
}

fn dash() -> String {
    "-".to_owned()
}

/// The elements as JSON.
pub(crate) fn to_json(tracked: &Tracked) -> Value {
    json!(tracked.elements)
}

/// The attempts of a run: all of a single one or of one element, of an array those of the elements that were requeued.
pub(crate) fn attempts(run: &RunDir, tracked: &Tracked, element: Option<u32>) -> Vec<Reading> {
    let all = run.attempts().unwrap_or_default();
    let requeued: Vec<u32> = all
        .iter()
        .filter(|attempt| attempt.attempt > 0)
        .map(|attempt| attempt.element)
        .collect();
    let is_array = tracked.record.array.is_some();
    let wanted = |attempt: &&Attempt| match element {
        Some(element) => attempt.element == element,
        None => !is_array || requeued.contains(&attempt.element),
    };
    all.iter()
        .filter(wanted)
        .map(|attempt| run.marks(*attempt))
        .collect()
}

/// The attempts as JSON.
pub(crate) fn attempts_to_json(attempts: &[Reading]) -> Value {
    let one = |reading: &Reading| {
        let outcome = &reading.outcome;
        json!({
            "element": reading.attempt.map(|attempt| attempt.element),
            "attempt": reading.attempt.map(|attempt| attempt.attempt),
            "started_at_ms": outcome.start.as_ref().map(|mark| mark.at_ms),
            "ended_at_ms": outcome.end.as_ref().map(|mark| mark.ended_at_ms(outcome.start.as_ref())),
            "exit": outcome.end.as_ref().and_then(Sentinel::exit),
            "node": node_of(reading),
            "job_id": outcome.start.as_ref().or(outcome.end.as_ref()).and_then(|mark| mark.job_id.clone()),
        })
    };
    attempts.iter().map(one).collect()
}

/// The attempts as a table; nothing where there was only one.
pub(crate) fn attempts_to_text(attempts: &[Reading], tracked: &Tracked) -> String {
    if attempts
        .iter()
        .all(|reading| reading.attempt.is_none_or(|attempt| attempt.attempt == 0))
    {
        return String::new();
    }
    let mut table = table();
    table.set_header(["ATTEMPT", "STARTED", "ENDED", "HOW", "NODE"]);
    for (place, reading) in attempts.iter().enumerate() {
        let Some(Attempt { element, attempt }) = reading.attempt else {
            continue;
        };
        let (start, end) = (reading.outcome.start.as_ref(), reading.outcome.end.as_ref());
        let is_newest = attempts
            .get(place + 1)
            .and_then(|next| next.attempt)
            .is_none_or(|next| next.element != element);
        let name = (attempt + 1).to_string();
        let how = match end.and_then(Sentinel::exit) {
            Some(exit) => exit_text(exit),
            None if !is_newest => "killed, and started anew".to_owned(),
            None => tracked.status.state.to_string(),
        };
        table.add_row([
            if tracked.record.array.is_some() {
                format!("{name} of element {element}")
            } else {
                name
            },
            start.map_or_else(dash, |mark| local_time(mark.at_ms)),
            end.map_or_else(dash, |mark| local_time(mark.ended_at_ms(start))),
            how,
            node_of(reading).unwrap_or_else(dash),
        ]);
    }
    format!("\n{}", rendered(table))
}

fn node_of(reading: &Reading) -> Option<String> {
    let outcome = &reading.outcome;
    outcome
        .start
        .as_ref()
        .or(outcome.end.as_ref())
        .map(|mark| mark.node.clone())
}
