//! One state of a run out of the views of its nodes: a node's database knows how the run ended there, and no more.

use std::collections::BTreeMap;

use super::elements::element;
use super::error::StoreError;
use super::writer::Writer;
use crate::job::{JobState, RunId};
use crate::record::{Cause, Element, ExitStatus, Status, merge_elements};

/// Sets the state of a run that only node databases reported, by the newest attempt of each element. One that a user's index
/// reported has the scheduler's word.
pub(super) fn settle(writer: &Writer<'_>, run_id: &RunId) -> Result<(), StoreError> {
    let of_nodes = "SELECT array IS NOT NULL FROM run WHERE run_id = ?1 AND uid IS NOT NULL AND origin IS NOT NULL";
    let Some(is_array) = writer.first(of_nodes, [run_id.as_str()], |row| row.get::<_, bool>(0))?
    else {
        return Ok(());
    };
    let mut elements: BTreeMap<u32, Vec<Element>> = BTreeMap::new();
    for view in views(writer, run_id)? {
        elements.entry(view.element).or_default().push(view);
    }
    let merged: Vec<Element> = elements
        .into_values()
        .filter_map(|views| merged_element(&views))
        .collect();
    let status = match &merged[..] {
        [] => return Ok(()),
        [one] if !is_array => one.status.clone(),
        several => merge_elements(several),
    };
    if is_array {
        writer.set_elements(run_id, &merged)?;
    }
    writer.set_status(run_id, &status)
}

/// How each node of the newest attempt of each element saw it, as if each were an element.
fn views(writer: &Writer<'_>, run_id: &RunId) -> Result<Vec<Element>, StoreError> {
    let sql =
        "SELECT element, attempt.attempt AS attempt, node.state AS state, node.exit_code AS exit_code,
             node.exit_signal AS exit_signal, node.started_at_ms AS started_at_ms, node.ended_at_ms AS ended_at_ms
         FROM node JOIN attempt ON attempt.id = node.attempt JOIN run ON run.id = attempt.run
         WHERE run.run_id = ?1 AND attempt.attempt = (SELECT max(newest.attempt)
             FROM attempt AS newest JOIN node AS its ON its.attempt = newest.id
             WHERE newest.run = run.id AND newest.element = attempt.element)
         ORDER BY element, node.node, node.step";
    let state = |word: &str, exit: Option<ExitStatus>| match (word, exit) {
        ("running", _) => JobState::Running,
        (_, Some(exit)) if exit.is_success() => JobState::Completed,
        (_, Some(_)) => JobState::Failed,
        (_, None) => JobState::Unknown,
    };
    writer.query(sql, [run_id.as_str()], |row| element(row, state))
}

/// It runs while it runs on any node; then its end is the worst one.
fn merged_element(views: &[Element]) -> Option<Element> {
    let first = views.first()?;
    let merged = merge_elements(views);
    let cause = Cause::of(merged.state, merged.exit, None);
    let status = Status {
        cause,
        elements: None,
        ..merged
    };
    Some(Element {
        element: first.element,
        attempt: first.attempt,
        status,
    })
}
