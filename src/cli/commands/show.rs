//! `dlrun show`: all that is known of a run.

use serde_json::json;

use crate::app::error::Error;
use crate::app::insight;
use crate::app::runs::{RunDir, ShowRequest, Shown, look_at_run};
use crate::app::series::{self, Series};
use crate::app::session::Session;
use crate::app::track::Tracked;
use crate::cli::args::Show;
use crate::cli::elements;
use crate::cli::series::figures;
use crate::cli::summary;

/// Runs the verb.
pub(crate) fn run(session: &Session, args: &Show) -> Result<u8, Error> {
    let request = ShowRequest {
        run: &args.run,
        element: args.element,
        store: args.store.as_deref(),
        history: args.history,
        series: args.series,
    };
    let mut shown = look_at_run(session, &request)?;
    let Some(dir) = &shown.dir else {
        let mut value = summary::to_json(&shown.tracked, None);
        value["attempts"] = json!(shown.attempts);
        return session.answer(&value, &summary::to_text(&shown.tracked, None));
    };
    let tracked = &mut shown.tracked;
    // The means of gauges are taken over points.
    let points = match session.output.json {
        true => args.points,
        false => 100,
    };
    let series = args.series.then(|| all_series(dir, tracked, points));
    let insight = match &series {
        Some(series) => {
            let sampled = series.iter().map(|series| series.sampled.clone()).collect();
            let request = insight::request(session, dir, tracked);
            insight::insight(tracked, request.as_ref(), sampled)
        }
        None => insight::read(session, dir, tracked),
    };
    if session.output.json {
        let mut value = summary::to_json(&shown.tracked, Some(dir.path()));
        value["progress_is_live"] = json!(shown.is_live);
        value["attempts"] = json!(shown.attempts);
        value["insight"] = json!(insight);
        value["overrides"] = json!(shown.overrides);
        let nodes = &shown.tracked.reading.outcome.nodes;
        for (place, series) in series.iter().flatten().enumerate() {
            value["nodes"][place]["series"] = series::to_json(series, &nodes[place]);
        }
        return session.answer(&value, "");
    }
    let given = shown.overrides.iter();
    let given: String = given.map(|given| format!("given: {given}\n")).collect();
    let tables = given
        + &elements::failed_table(&shown)
        + &elements::attempts_table(&shown)
        + &series.map_or_else(String::new, |series| series_text(&shown, &series));
    let text = summary::with_tables(&shown, Some(dir.path()), &insight, &tables);
    session.answer(&json!(null), &text)
}

/// The series of each node. What cannot be read joins what else could not.
fn all_series(dir: &RunDir, tracked: &mut Tracked, points: u32) -> Vec<Series> {
    let points = usize::try_from(points).unwrap_or(usize::MAX);
    let nodes = tracked.reading.outcome.nodes.iter();
    let mut all: Vec<Series> = nodes
        .map(|node| Series::curves(dir, node, points))
        .collect();
    let notes = all.iter_mut().flat_map(|series| series.notes.drain(..));
    tracked.reading.notes.extend(notes);
    all
}

fn series_text(shown: &Shown, series: &[Series]) -> String {
    let nodes = &shown.tracked.reading.outcome.nodes;
    let mut text = String::new();
    for (node, series) in nodes.iter().zip(series) {
        let name = format!("{}.{}", node.key.node, node.key.step);
        let name = (nodes.len() > 1).then_some(name.as_str());
        text.push_str(&figures(series.timeline.as_ref(), node, name));
    }
    text + "`dlrun report` draws them over time\n"
}
