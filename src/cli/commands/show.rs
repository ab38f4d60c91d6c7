//! `dlrun show`: all that is known of a run.

use serde_json::{Value, json};

use crate::cli::args::Show;
use crate::cli::bars::Bars;
use crate::cli::elements;
use crate::cli::error::{Error, Kind};
use crate::cli::series::{self, Series};
use crate::cli::session::Session;
use crate::cli::summary;
use crate::cli::track::{Tracked, Tracker, output_path};
use crate::record::NodeRecord;
use crate::rundir::RunDir;

/// Nodes whose curves are shown unasked: each costs the reading of its whole series.
const NODES_SHOWN: usize = 4;

/// Runs the verb.
pub(crate) fn run(session: &Session, args: &Show) -> Result<u8, Error> {
    let mut tracker = Tracker::open(session)?;
    let run_id = tracker.find(&args.run)?;
    let tracked = tracker.refresh(std::slice::from_ref(&run_id), args.history)?;
    let Some(mut tracked) = tracked.into_iter().next() else {
        return Err(Error::new(Kind::Internal, "the run vanished"));
    };
    let run = tracker.state.run(&run_id)?;
    if let Some(element) = args.element {
        tracked = element_of(&run, tracked, element)?;
    }
    let attempts = elements::attempts(&run, &tracked, args.element);
    if session.output.json {
        let series = args.series.then(|| numbers(&run, &mut tracked, args.points));
        let mut value = summary::to_json(&tracked, &tracker.state);
        value["attempts"] = elements::attempts_to_json(&attempts);
        for (place, series) in series.into_iter().flatten().enumerate() {
            value["nodes"][place]["series"] = series;
        }
        session.output.result("show", &value, "")?;
    } else {
        let curves = elements::bad_ones(&tracked, &run)
            + &elements::attempts_to_text(&attempts, &tracked)
            + &curves(&run, &mut tracked, args.series);
        let text = summary::with_curves(&tracked, &tracker.state, &curves);
        session.output.result("show", &json!(null), &text)?;
    }
    Ok(0)
}

/// One element of an array in the place of the whole.
pub(super) fn element_of(run: &RunDir, tracked: Tracked, element: u32) -> Result<Tracked, Error> {
    let Tracked { mut record, elements, .. } = tracked;
    let Some(seen) = elements.into_iter().find(|seen| seen.element == element) else {
        let error = Error::new(Kind::Missing, format!("run {} has no element {element}", record.run_id));
        return Err(match &record.array {
            Some(array) => error.hinted(format!("its elements are {array}")),
            None => error.hinted("it is no array"),
        });
    };
    record.output = output_path(&record, Some(element)).map(|path| path.to_string_lossy().into_owned());
    let reading = run.newest_outcome(element)?;
    Ok(Tracked { record, status: seen.status, reading, elements: Vec::new() })
}

/// The series of each node. What cannot be read joins what else could not.
fn numbers(run: &RunDir, tracked: &mut Tracked, points: u32) -> Vec<Value> {
    let points = usize::try_from(points).unwrap_or(usize::MAX);
    let each = |node: &NodeRecord| {
        let series = Series::points(run, node, points);
        (series::to_json(&series, node), series.notes)
    };
    let (values, notes): (Vec<_>, Vec<_>) = tracked.reading.outcome.nodes.iter().map(each).unzip();
    tracked.reading.notes.extend(notes.into_iter().flatten());
    values
}

/// The curves of each node: the few that say most, or `all`.
fn curves(run: &RunDir, tracked: &mut Tracked, all: bool) -> String {
    let bars = Bars::of_environment(|name| std::env::var(name).ok());
    let nodes = &tracked.reading.outcome.nodes;
    let (mut text, mut notes) = (String::new(), Vec::new());
    let shown = if all { nodes.len() } else { NODES_SHOWN };
    for node in nodes.iter().take(shown) {
        let name = format!("{}.{}", node.key.node, node.key.step);
        let of = (nodes.len() > 1).then_some(name.as_str());
        let series = if all { Series::curves(run, node) } else { Series::overview(run, node) };
        let draw = if all { series::curves } else { series::overview };
        text.push_str(&draw(&series, node, of, bars));
        notes.extend(series.notes);
    }
    if nodes.len() > shown && !text.is_empty() {
        text.push_str(&format!("and {} nodes more: `--series`\n", nodes.len() - shown));
    }
    tracked.reading.notes.extend(notes);
    text
}
