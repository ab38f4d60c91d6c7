//! Gathers what a report shows: runs, their records, curves and what follows from them.

use crate::app::error::{Error, failure};
use crate::app::insight;
use crate::app::runs::element_of;
use crate::app::series::Series;
use crate::app::session::Session;
use crate::app::track::{Tracked, Tracker};
use crate::foundation::clock::now_ms;
use crate::job::RunId;
use crate::record::NodeRecord;
use crate::record::rundir::RunDir;
use crate::report::{NODES_DRAWN, Node, Report, Run, points_of_each};

/// Runs of a report, elements of arrays counted one by one: more of them are no report but a database.
const MOST_RUNS: usize = 100;
/// Curves of a node without GPUs, and of a GPU, about.
const CURVES_OF_NODE: usize = 8;
const CURVES_OF_GPU: usize = 4;

/// The report of runs as they are named; `history`: the scheduler's accounting is asked too.
pub(crate) fn report_of(
    session: &Session,
    runs: &[String],
    history: bool,
) -> Result<Report, Error> {
    let mut tracker = Tracker::open(session)?;
    let mut run_ids: Vec<RunId> = Vec::new();
    for text in runs {
        let run_id = tracker.find(text)?;
        if !run_ids.contains(&run_id) {
            run_ids.push(run_id);
        }
    }
    if run_ids.len() > MOST_RUNS {
        return Err(failure!(
            Usage,
            "{} runs are named; a report holds {MOST_RUNS} at most",
            run_ids.len()
        )
        .hinted("`dlrun export` gives any number of runs as a table"));
    }
    let tracked = tracker.refresh(&run_ids, history)?;
    let prefixes = tracker.store.shortest_prefixes(&run_ids)?;
    let (mut seen, mut remarks) = (Vec::new(), Vec::new());
    for (tracked, prefix) in tracked.into_iter().zip(prefixes) {
        let dir = tracker.state.run(&tracked.record.run_id)?;
        let room = MOST_RUNS - seen.len();
        for (element, tracked) in apart(&dir, tracked, room, &mut remarks)? {
            seen.push((prefix.clone(), element, tracked));
        }
    }
    let nodes = seen
        .iter()
        .flat_map(|(.., tracked)| tracked.reading.outcome.nodes.iter().take(NODES_DRAWN));
    let curves = nodes
        .map(|node| CURVES_OF_NODE + CURVES_OF_GPU * node.gpus.len())
        .sum();
    let points = points_of_each(curves);
    let each = |(prefix, element, tracked): (String, _, Tracked)| {
        let dir = tracker.state.run(&tracked.record.run_id)?;
        Ok(one(session, &dir, prefix, element, tracked, points))
    };
    let runs = seen.into_iter().map(each).collect::<Result<_, Error>>()?;
    Ok(Report {
        runs,
        written_at_ms: now_ms(),
        remarks,
    })
}

/// A run, or the elements of its array that have started, one by one.
fn apart(
    dir: &RunDir,
    tracked: Tracked,
    room: usize,
    remarks: &mut Vec<String>,
) -> Result<Vec<(Option<u32>, Tracked)>, Error> {
    if tracked.elements.is_empty() {
        return Ok(vec![(None, tracked)]);
    }
    let started: Vec<u32> = tracked
        .elements
        .iter()
        .filter(|element| element.status.started_at_ms.is_some())
        .map(|element| element.element)
        .collect();
    if started.is_empty() {
        return Ok(vec![(None, tracked)]);
    }
    if started.len() < tracked.elements.len() || started.len() > room {
        let (all, shown) = (tracked.elements.len(), started.len().min(room));
        remarks.push(format!(
            "{} is an array of {all} elements: {} have started, the first {shown} of them are shown.",
            tracked.record.name,
            started.len()
        ));
    }
    let of = |element: u32| Ok((Some(element), element_of(dir, tracked.clone(), element)?));
    started.into_iter().take(room).map(of).collect()
}

fn one(
    session: &Session,
    dir: &RunDir,
    prefix: String,
    element: Option<u32>,
    mut tracked: Tracked,
    points: usize,
) -> Run {
    let (mut timelines, mut sampled, mut notes) = (Vec::new(), Vec::new(), Vec::new());
    for node in tracked.reading.outcome.nodes.iter().take(NODES_DRAWN) {
        let series = Series::read(dir, node, Some(points));
        timelines.push(series.timeline);
        sampled.push(series.sampled);
        notes.extend(series.notes);
    }
    tracked.reading.notes.extend(notes);
    let request = insight::request(session, dir, &tracked);
    let insight = insight::insight(&tracked, request.as_ref(), sampled);
    let Tracked {
        record,
        status,
        reading,
        ..
    } = tracked;
    let drawn = timelines.into_iter().chain(std::iter::repeat_with(|| None));
    let node = |(record, timeline): (NodeRecord, _)| Node { record, timeline };
    let nodes = reading
        .outcome
        .nodes
        .into_iter()
        .zip(drawn)
        .map(node)
        .collect();
    Run {
        prefix,
        element,
        record,
        status,
        request,
        insight,
        nodes,
        notes: reading.notes,
    }
}
